"""RAdam."""

from __future__ import annotations

from gradloom import Tensor
from gradloom.optim._arrays import number
from gradloom.optim._rule import AdamLike, options, prepared, running_mean, running_square
from gradloom.optim.optimizer import ParamsT

__all__ = ["RAdam"]


class RAdam(AdamLike):
    """RAdam (Liu et al. 2020): Adam with a rectified variance of the adaptive learning rate.

    With g the gradient at step t, and R = 2 / (1 - betas[1]) - 1::

        g = g + weight_decay * p                      # with decoupled_weight_decay: p = p - lr * weight_decay * p
        m = betas[0] * m + (1 - betas[0]) * g
        v = betas[1] * v + (1 - betas[1]) * g ** 2
        r = R - 2 * t * betas[1] ** t / (1 - betas[1] ** t)
        d = sqrt((r - 4) * (r - 2) * R / ((R - 4) * (R - 2) * r)) * sqrt(1 - betas[1] ** t) / (sqrt(v) + eps)
        p = p - lr * m / (1 - betas[0] ** t) * (d if r > 5 else 1)

    Args:
        params: parameters or parameter groups.
        lr: learning rate.
        betas: decays of the running means m and v, in [0, 1).
        eps: added to the denominator.
        weight_decay: factor of the L2 penalty, or of the decoupled decay.
        decoupled_weight_decay: decay the parameters themselves.
        foreach, capturable: accepted without effect.
        maximize: maximize the objective.
        differentiable: record the step; parameters that require grad must not be leaves.

    Raises:
        ValueError: for a negative lr, eps or weight_decay, or betas outside [0, 1).
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        names = "lr betas eps weight_decay maximize foreach capturable decoupled_weight_decay differentiable"
        super().__init__(params, options(locals(), names))

    def _rule(self, group, count, state):
        lr = number(group["lr"])
        beta1, beta2 = group["betas"]
        correction = 1 - beta2**count
        # Length of the simple moving average with the same centre of mass, now and in the limit.
        limit = 2 / (1 - beta2) - 1
        length = limit - 2 * count * beta2**count / correction
        rectified = length > 5.0
        rate = lr / (1 - beta1**count)
        if rectified:
            variance = ((length - 4) * (length - 2) * limit) / ((limit - 4) * (limit - 2) * length)
            rate *= variance**0.5 * correction**0.5
        return radam, (beta1, beta2, rate, rectified, group["eps"], *self._descent(group, lr))


def radam(xp, parameter, gradient, mean, square, scratch, beta1, beta2, rate, rectified, eps, *descent):
    """Apply RAdam's update rule; see `_arrays`.

    Args:
        xp, parameter, gradient, scratch: as for every rule.
        mean, square: running means of the gradient and of its square.
        beta1, beta2: their decays.
        rate: factor of the direction, corrected for bias and, if `rectified`, for variance.
        rectified: whether to divide by the root of `square`.
        eps: added to the denominator.
        descent: of `prepared`.
    """
    gradient = prepared(parameter, gradient, *descent)
    running_mean(xp, mean, gradient, beta1, scratch)
    running_square(xp, square, gradient, beta2, scratch)
    if rectified:
        root = xp.sqrt(square, out=scratch)
        root += eps
        update = xp.divide(mean, root, out=scratch)
        update *= rate
    else:
        update = xp.multiply(mean, rate, out=scratch)
    parameter -= update
