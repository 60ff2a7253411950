"""RMSprop (Hinton 2012), centred on request (Graves 2013)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gradloom.optim._arrays import number
from gradloom.optim._options import check_implementation, check_options
from gradloom.optim._rule import RuleOptimizer, decayed

if TYPE_CHECKING:
    from gradloom import Tensor
    from gradloom.optim.optimizer import ParamsT

__all__ = ["RMSprop"]


class RMSprop(RuleOptimizer):
    """p = p - lr * g / (sqrt(v) + eps), with v the running mean of g ** 2.

    Args:
        params: parameters or parameter groups.
        lr: learning rate.
        alpha: factor of the running mean.
        eps: added to the denominator.
        weight_decay: L2 penalty.
        momentum: factor of the last update's direction; 0 keeps none.
        centered: subtract the square of the running mean of g from v.
        maximize: climb instead of descend.
        foreach, capturable: accepted; they choose nothing here.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_options(lr, eps=eps)
        if not momentum >= 0.0:
            raise ValueError(f"Invalid momentum value: {momentum}")
        check_options(0.0, weight_decay)
        if not alpha >= 0.0:
            raise ValueError(f"Invalid alpha value: {alpha}")
        check_implementation(foreach, None, differentiable)
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "alpha": alpha,
            "eps": eps,
            "centered": centered,
            "weight_decay": weight_decay,
            "capturable": capturable,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def _kept(self, group):
        names = ["square_avg"]
        if group["momentum"] > 0:
            names.append("momentum_buffer")
        if group["centered"]:
            names.append("grad_avg")
        return dict.fromkeys(names, 0)

    def _rule(self, group, count, state):
        lr, alpha, eps = number(group["lr"]), group["alpha"], group["eps"]
        momentum, centered = group["momentum"], group["centered"]

        def rule(parameter, gradient, square, *rest):
            *kept, scratch = rest
            gradient = decayed(parameter, gradient, group["weight_decay"], group["maximize"])
            _running_square(square, gradient, alpha, scratch)
            if centered:
                mean = kept[-1]
                np.subtract(gradient, mean, out=scratch)
                scratch *= 1 - alpha
                mean += scratch
                root = np.sqrt(square - mean * mean)
            else:
                root = np.sqrt(square)
            root += eps
            np.divide(gradient, root, out=scratch)
            if momentum > 0:
                kept[0] *= momentum
                kept[0] += scratch
                np.multiply(kept[0], lr, out=scratch)
            else:
                scratch *= lr
            parameter -= scratch

        return rule


def _running_square(square, gradient, factor, scratch):
    """square = factor * square + (1 - factor) * gradient ** 2."""
    square *= factor
    np.multiply(gradient, gradient, out=scratch)
    scratch *= 1 - factor
    square += scratch
