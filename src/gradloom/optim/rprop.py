"""Rprop."""

from __future__ import annotations

from gradloom import Tensor
from gradloom.optim._arrays import number
from gradloom.optim._rule import RuleOptimizer, options
from gradloom.optim.optimizer import ParamsT

__all__ = ["Rprop"]


class Rprop(RuleOptimizer):
    """Resilient backpropagation (Riedmiller and Braun 1993): a step size per element.

    With g the gradient and g' the previous one, element by element::

        s = clip(s * etas[1], *step_sizes)  if g * g' > 0     # s = lr at the first step
        s = clip(s * etas[0], *step_sizes)  if g * g' < 0; then g = 0
        p = p - s * sign(g)

    Args:
        params: parameters or parameter groups.
        lr: initial step size of every element.
        etas: factors that shrink (below 1) and grow (above 1) a step size.
        step_sizes: smallest and largest step size.
        capturable, foreach: accepted without effect.
        maximize: maximize the objective.
        differentiable: record the step; parameters that require grad must not be leaves.

    Raises:
        ValueError: for a negative lr, or unless 0 < etas[0] < 1 < etas[1].
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        defaults = options(locals(), "lr etas step_sizes foreach maximize differentiable capturable")
        if not 0.0 < etas[0] < 1.0 < etas[1]:
            raise ValueError(f"Invalid eta values: {etas[0]}, {etas[1]}")
        super().__init__(params, defaults)

    def _kept(self, group):
        return {"prev": 0, "step_size": number(group["lr"])}

    def _rule(self, group, count, state):
        return rprop, (*group["etas"], *group["step_sizes"], group["maximize"])


def rprop(xp, parameter, gradient, previous, step, scratch, shrink, grow, smallest, largest, maximize):
    """Apply Rprop's update rule; see `_arrays`.

    Args:
        xp, parameter, gradient, scratch: as for every rule.
        previous, step: the previous gradient, and the size of each element's step.
        shrink, grow, smallest, largest, maximize: options of `Rprop`.
    """
    if maximize:
        gradient = -gradient
    product = xp.multiply(gradient, previous, out=scratch)
    same, opposite = product > 0, product < 0
    product[...] = 1
    product[same] = grow
    product[opposite] = shrink
    step *= product
    step[...] = xp.clip(step, smallest, largest, out=scratch)
    # Where the sign changed, the element stays, and the next step counts as its first.
    previous[...] = gradient
    previous[opposite] = 0
    update = xp.sign(previous, out=scratch)
    update *= step
    parameter -= update
