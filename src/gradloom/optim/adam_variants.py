"""Relatives of Adam: Adamax (Kingma and Ba 2015), NAdam (Dozat 2016), RAdam (Liu et al. 2020)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

import gradloom as gl
from gradloom.optim._arrays import number
from gradloom.optim._options import check_implementation, check_options
from gradloom.optim._rule import RuleOptimizer, decayed
from gradloom.optim.rmsprop import _running_square

if TYPE_CHECKING:
    from gradloom import Tensor
    from gradloom.optim.optimizer import ParamsT

__all__ = ["Adamax", "NAdam", "RAdam"]


def _running_mean(mean, gradient, beta, scratch):
    """mean = beta * mean + (1 - beta) * gradient."""
    np.subtract(gradient, mean, out=scratch)
    scratch *= 1 - beta
    mean += scratch


class _AdamLike(RuleOptimizer):
    """Options and state that the relatives share: running means of g and g ** 2."""

    _later_options = {**RuleOptimizer._later_options, "decoupled_weight_decay": False}

    def _kept(self, group):
        return {"exp_avg": 0, "exp_avg_sq": 0}

    @staticmethod
    def _prepared(parameter, gradient, group, lr):
        """The gradient with its penalty, or the parameter shrunk by a decoupled one."""
        decay = group["weight_decay"]
        if decay and group.get("decoupled_weight_decay"):
            parameter *= 1 - lr * decay
            decay = 0
        return decayed(parameter, gradient, decay, group["maximize"])


class Adamax(_AdamLike):
    """p = p - lr / (1 - beta1 ** t) * m / u, with m the running mean of g and u = max(beta2 * u, |g| + eps).

    Args:
        params: parameters or parameter groups.
        lr: learning rate.
        betas: factors of m and u, in [0, 1).
        eps: keeps u from being zero.
        weight_decay: L2 penalty.
        maximize: climb instead of descend.
        foreach, capturable: accepted; they choose nothing here.
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
        check_options(lr, weight_decay, eps, betas)
        check_implementation(foreach, None, differentiable)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, defaults)

    def _kept(self, group):
        return {"exp_avg": 0, "exp_inf": 0}

    def _rule(self, group, count, state):
        lr = number(group["lr"])
        beta1, beta2 = group["betas"]
        rate = lr / (1 - beta1**count)

        def rule(parameter, gradient, mean, largest, scratch):
            gradient = self._prepared(parameter, gradient, group, lr)
            _running_mean(mean, gradient, beta1, scratch)
            np.abs(gradient, out=scratch)
            scratch += group["eps"]
            largest *= beta2
            np.maximum(largest, scratch, out=largest)
            np.divide(mean, largest, out=scratch)
            scratch *= rate
            parameter -= scratch

        return rule


class NAdam(_AdamLike):
    """Adam with Nesterov's momentum, whose factor follows the schedule beta1 * (1 - 0.96 ** (t * decay) / 2).

    Args:
        params: parameters or parameter groups.
        lr: learning rate.
        betas: factors of the running means of g and g ** 2, in [0, 1).
        eps: added to the denominator.
        weight_decay: L2 penalty; with `decoupled_weight_decay` p shrinks by lr * weight_decay instead.
        momentum_decay: decay of the schedule.
        maximize: climb instead of descend.
        foreach, capturable: accepted; they choose nothing here.
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
        check_options(lr, weight_decay, eps, betas)
        if not momentum_decay >= 0.0:
            raise ValueError(f"Invalid momentum_decay value: {momentum_decay}")
        check_implementation(foreach, None, differentiable)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "momentum_decay": momentum_decay,
            "decoupled_weight_decay": decoupled_weight_decay,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def _initial_state(self, parameter, group):
        state = super()._initial_state(parameter, group)
        # The product of the momentum factors so far stands after the step count, as PyTorch has it.
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

        def rule(parameter, gradient, mean, square, scratch):
            gradient = self._prepared(parameter, gradient, group, lr)
            _running_mean(mean, gradient, beta1, scratch)
            _running_square(square, gradient, beta2, scratch)
            direction = gradient * of_gradient
            direction += np.multiply(mean, of_mean, out=scratch)
            np.sqrt(square, out=scratch)
            scratch += eps
            direction /= scratch
            parameter -= direction

        return rule


class RAdam(_AdamLike):
    """Adam with the variance of its adaptive rate rectified, and without one while that cannot be done.

    Args:
        params: parameters or parameter groups.
        lr: learning rate.
        betas: factors of the running means of g and g ** 2, in [0, 1).
        eps: added to the denominator.
        weight_decay: L2 penalty; with `decoupled_weight_decay` p shrinks by lr * weight_decay instead.
        maximize: climb instead of descend.
        foreach, capturable: accepted; they choose nothing here.
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
        check_options(lr, weight_decay, eps, betas)
        check_implementation(foreach, None, differentiable)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "decoupled_weight_decay": decoupled_weight_decay,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def _rule(self, group, count, state):
        lr = number(group["lr"])
        beta1, beta2 = group["betas"]
        correction = 1 - beta2**count
        # The length of the simple moving average with the same centre of mass, now and in the limit.
        limit = 2 / (1 - beta2) - 1
        length = limit - 2 * count * beta2**count / correction
        rectified = length > 5.0
        rate = lr / (1 - beta1**count)
        if rectified:
            variance = ((length - 4) * (length - 2) * limit) / ((limit - 4) * (limit - 2) * length)
            rate *= variance**0.5 * correction**0.5

        def rule(parameter, gradient, mean, square, scratch):
            gradient = self._prepared(parameter, gradient, group, lr)
            _running_mean(mean, gradient, beta1, scratch)
            _running_square(square, gradient, beta2, scratch)
            if rectified:
                np.sqrt(square, out=scratch)
                scratch += group["eps"]
                np.divide(mean, scratch, out=scratch)
                scratch *= rate
            else:
                np.multiply(mean, rate, out=scratch)
            parameter -= scratch

        return rule
