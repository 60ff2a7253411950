"""Adadelta."""

from __future__ import annotations

from gradloom import Tensor
from gradloom.optim._arrays import number
from gradloom.optim._rule import RuleOptimizer, decayed, options, running_square
from gradloom.optim.optimizer import ParamsT

__all__ = ["Adadelta"]


class Adadelta(RuleOptimizer):
    """Adadelta (Zeiler 2012).

    With g the gradient::

        g = g + weight_decay * p
        v = rho * v + (1 - rho) * g ** 2
        d = sqrt(u + eps) / sqrt(v + eps) * g
        u = rho * u + (1 - rho) * d ** 2
        p = p - lr * d

    Args:
        params: parameters or parameter groups.
        lr: factor of the update.
        rho: decay of the running means u and v, in [0, 1].
        eps: added under the square roots.
        weight_decay: factor of the L2 penalty.
        foreach, capturable: accepted without effect.
        maximize: maximize the objective.
        differentiable: record the step; parameters that require grad must not be leaves.

    Raises:
        ValueError: for rho outside [0, 1], or a negative lr, eps or weight_decay.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        capturable: bool = False,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        defaults = options(locals(), "lr rho eps weight_decay maximize capturable foreach differentiable")
        if not 0.0 <= rho <= 1.0:
            raise ValueError(f"Invalid rho value: {rho}")
        super().__init__(params, defaults)

    def _kept(self, group):
        return {"square_avg": 0, "acc_delta": 0}

    def _rule(self, group, count, state):
        numbers = number(group["lr"]), group["rho"], group["eps"], group["weight_decay"], group["maximize"]
        return adadelta, numbers


def adadelta(xp, parameter, gradient, square, moved, scratch, lr, rho, eps, weight_decay, maximize):
    """Apply Adadelta's update rule; see `_arrays`.

    Args:
        xp, parameter, gradient, scratch: as for every rule.
        square, moved: running means of the squares of gradients and of changes.
        lr, rho, eps, weight_decay, maximize: options of `Adadelta`.
    """
    gradient = decayed(parameter, gradient, weight_decay, maximize)
    running_square(xp, square, gradient, rho, scratch)
    delta = xp.sqrt(moved + eps)
    delta /= xp.sqrt(xp.add(square, eps, out=scratch), out=scratch)
    delta *= gradient
    running_square(xp, moved, delta, rho, scratch)
    delta *= lr
    parameter -= delta
