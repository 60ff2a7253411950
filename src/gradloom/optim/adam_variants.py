"""Variants of Adam: Adamax, NAdam and RAdam."""

from __future__ import annotations

from typing import TYPE_CHECKING

import gradloom as gl
from gradloom.optim._arrays import number
from gradloom.optim._rule import RuleOptimizer, decayed, options, running_mean, running_square

if TYPE_CHECKING:
    from gradloom import Tensor
    from gradloom.optim.optimizer import ParamsT

__all__ = ["Adamax", "NAdam", "RAdam"]


class _AdamLike(RuleOptimizer):
    """Base of the variants: running means of g and g ** 2, and coupled or decoupled weight decay."""

    _later_options = {**RuleOptimizer._later_options, "decoupled_weight_decay": False}

    def _kept(self, group):
        return {"exp_avg": 0, "exp_avg_sq": 0}

    @staticmethod
    def _prepared(parameter, gradient, group, lr):
        """Return the gradient to descend; shrink the parameter in place if its decay is decoupled."""
        decay = group["weight_decay"]
        if decay and group.get("decoupled_weight_decay"):
            parameter *= 1 - lr * decay
            decay = 0
        return decayed(parameter, gradient, decay, group["maximize"])


class Adamax(_AdamLike):
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

        def rule(xp, parameter, gradient, mean, largest, scratch):
            gradient = self._prepared(parameter, gradient, group, lr)
            running_mean(xp, mean, gradient, beta1, scratch)
            size = xp.abs(gradient, out=scratch)
            size += group["eps"]
            largest *= beta2
            xp.maximum(largest, size, out=largest)
            update = xp.divide(mean, largest, out=scratch)
            update *= rate
            parameter -= update

        return rule


class NAdam(_AdamLike):
    """NAdam (Dozat 2016): Adam with Nesterov momentum.

    With g the gradient at step t::

        g = g + weight_decay * p                      # with decoupled_weight_decay: p = p - lr * weight_decay * p
        m = betas[0] * m + (1 - betas[0]) * g
        v = betas[1] * v + (1 - betas[1]) * g ** 2
        mu(t) = betas[0] * (1 - 0.96 ** (t * momentum_decay) / 2)
        M = mu(1) * ... * mu(t)
        n = mu(t + 1) * m / (1 - M * mu(t + 1)) + (1 - mu(t)) * g / (1 - M)
        p = p - lr * n / (sqrt(v / (1 - betas[1] ** t)) + eps)

    Args:
        params: parameters or parameter groups.
        lr: learning rate.
        betas: decays of the running means m and v, in [0, 1).
        eps: added to the denominator.
        weight_decay: factor of the L2 penalty, or of the decoupled decay.
        momentum_decay: decay of the momentum schedule mu.
        decoupled_weight_decay: decay the parameters themselves.
        foreach, capturable: accepted without effect.
        maximize: maximize the objective.
        differentiable: record the step; parameters that require grad must not be leaves.

    Raises:
        ValueError: for a negative lr, eps, weight_decay or momentum_decay, or betas outside [0, 1).
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        names = (
            "lr betas eps weight_decay momentum_decay decoupled_weight_decay maximize foreach capturable differentiable"
        )
        super().__init__(params, options(locals(), names))

    def _initial_state(self, parameter, group):
        state = super()._initial_state(parameter, group)
        # The product of the momentum factors follows the step count, as in PyTorch.
        return {"step": state.pop("step"), "mu_product": gl.ones((), dtype=gl.float32), **state}

    def _rule(self, group, count, state):
        lr = number(group["lr"])
        beta1, beta2 = group["betas"]
        now, following = (beta1 * (1 - 0.5 * 0.96 ** (t * group["momentum_decay"])) for t in (count, count + 1))
        product = state["mu_product"]._array
        product *= now
        so_far = float(product)
        root = (1 - beta2**count) ** 0.5
        of_gradient = lr * (1 - now) / (1 - so_far) * root
        of_mean = lr * following / (1 - so_far * following) * root
        eps = group["eps"] * root

        def rule(xp, parameter, gradient, mean, square, scratch):
            gradient = self._prepared(parameter, gradient, group, lr)
            running_mean(xp, mean, gradient, beta1, scratch)
            running_square(xp, square, gradient, beta2, scratch)
            direction = gradient * of_gradient
            direction += xp.multiply(mean, of_mean, out=scratch)
            root = xp.sqrt(square, out=scratch)
            root += eps
            direction /= root
            parameter -= direction

        return rule


class RAdam(_AdamLike):
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

        def rule(xp, parameter, gradient, mean, square, scratch):
            gradient = self._prepared(parameter, gradient, group, lr)
            running_mean(xp, mean, gradient, beta1, scratch)
            running_square(xp, square, gradient, beta2, scratch)
            if rectified:
                root = xp.sqrt(square, out=scratch)
                root += group["eps"]
                update = xp.divide(mean, root, out=scratch)
                update *= rate
            else:
                update = xp.multiply(mean, rate, out=scratch)
            parameter -= update

        return rule
