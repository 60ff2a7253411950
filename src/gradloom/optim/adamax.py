"""Adamax."""

from __future__ import annotations

from gradloom import Tensor
from gradloom.optim._arrays import number
from gradloom.optim._rule import AdamLike, RuleOptimizer, options, prepared, running_mean
from gradloom.optim.optimizer import ParamsT

__all__ = ["Adamax"]


class Adamax(AdamLike):
    """Adamax (Kingma and Ba 2015): Adam by the infinity norm.

    With g the gradient at step t::

        g = g + weight_decay * p
        m = betas[0] * m + (1 - betas[0]) * g
        u = max(betas[1] * u, |g| + eps)
        p = p - lr / (1 - betas[0] ** t) * m / u

    Args:
        params: parameters or parameter groups.
        lr: learning rate.
        betas: decays of m and u, in [0, 1).
        eps: keeps u from being zero.
        weight_decay: factor of the L2 penalty.
        foreach, capturable: accepted without effect.
        maximize: maximize the objective.
        differentiable: record the step; parameters that require grad must not be leaves.

    Raises:
        ValueError: for a negative lr, eps or weight_decay, or betas outside [0, 1).
    """

    _later_options = RuleOptimizer._later_options

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        names = "lr betas eps weight_decay foreach maximize differentiable capturable"
        super().__init__(params, options(locals(), names))

    def _kept(self, group):
        return {"exp_avg": 0, "exp_inf": 0}

    def _rule(self, group, count, state):
        lr = number(group["lr"])
        beta1, beta2 = group["betas"]
        rate = lr / (1 - beta1**count)
        return adamax, (beta1, beta2, rate, group["eps"], *self._descent(group, lr))


def adamax(xp, parameter, gradient, mean, largest, scratch, beta1, beta2, rate, eps, *descent):
    """Apply Adamax's update rule; see `_arrays`.

    Args:
        xp, parameter, gradient, scratch: as for every rule.
        mean, largest: the running mean of the gradient, and the decayed maximum of its size.
        beta1, beta2: their decays.
        rate: the learning rate, corrected for bias.
        eps: added to the gradient's size.
        descent: of `prepared`.
    """
    gradient = prepared(parameter, gradient, *descent)
    running_mean(xp, mean, gradient, beta1, scratch)
    size = xp.abs(gradient, out=scratch)
    size += eps
    largest *= beta2
    xp.maximum(largest, size, out=largest)
    update = xp.divide(mean, largest, out=scratch)
    update *= rate
    parameter -= update
