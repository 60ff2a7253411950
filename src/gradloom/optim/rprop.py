"""Rprop and averaged SGD."""

from __future__ import annotations

from typing import TYPE_CHECKING

import gradloom as gl
from gradloom.optim._arrays import number
from gradloom.optim._rule import RuleOptimizer, decayed, options

if TYPE_CHECKING:
    from gradloom import Tensor
    from gradloom.optim.optimizer import ParamsT

__all__ = ["ASGD", "Rprop"]


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
        shrink, grow = group["etas"]
        smallest, largest = group["step_sizes"]

        def rule(xp, parameter, gradient, previous, step, scratch):
            if group["maximize"]:
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

        return rule


class ASGD(RuleOptimizer):
    """Averaged stochastic gradient descent (Polyak and Juditsky 1992).

    With g the gradient at step t, eta = lr and mu = 1 at first::

        g = g + weight_decay * p
        p = (1 - lambd * eta) * p - eta * g
        ax = ax + mu * (p - ax)
        eta = lr / (1 + lambd * lr * t) ** alpha
        mu = 1 / max(1, t - t0)

    The average `ax` is in the parameter's state; parameters are not replaced by it.

    Args:
        params: parameters or parameter groups.
        lr: initial learning rate.
        lambd: decay of the parameters and of the learning rate.
        alpha: exponent of the learning rate's decay.
        t0: step at which averaging starts.
        weight_decay: factor of the L2 penalty.
        foreach, capturable: accepted without effect.
        maximize: maximize the objective.
        differentiable: record the step; parameters that require grad must not be leaves.

    Raises:
        ValueError: for a negative lr or weight_decay.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        names = "lr lambd alpha t0 weight_decay foreach maximize differentiable capturable"
        super().__init__(params, options(locals(), names))

    def _kept(self, group):
        return {"ax": 0}

    def _initial_state(self, parameter, group):
        state = super()._initial_state(parameter, group)
        eta = gl.full((), number(group["lr"]), dtype=gl.float32)
        return {"step": state["step"], "eta": eta, "mu": gl.ones((), dtype=gl.float32), "ax": state["ax"]}

    def _rule(self, group, count, state):
        lr, lambd = number(group["lr"]), group["lambd"]
        rate, weight = state["eta"].item(), state["mu"].item()

        def rule(xp, parameter, gradient, average, scratch):
            gradient = decayed(parameter, gradient, group["weight_decay"], group["maximize"])
            parameter *= 1 - lambd * rate
            parameter -= xp.multiply(gradient, rate, out=scratch)
            if weight == 1:
                average[...] = parameter
            else:
                change = xp.subtract(parameter, average, out=scratch)
                change *= weight
                average += change

        state["eta"]._array[...] = lr / (1 + lambd * lr * count) ** group["alpha"]
        state["mu"]._array[...] = 1 / max(1, count - group["t0"])
        return rule
