"""Stochastic gradient descent, with momentum (Sutskever et al. 2013) and Nesterov's form of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

import gradloom as gl
from gradloom.autograd import increment_version
from gradloom.optim._arrays import arrays, in_blocks, number
from gradloom.optim._options import check_implementation, check_options
from gradloom.optim.optimizer import Optimizer

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from gradloom import Tensor
    from gradloom.optim.optimizer import ParamsT

__all__ = ["SGD"]


class SGD(Optimizer):
    """g = grad + weight_decay * p; b = momentum * b + (1 - dampening) * g; p = p - lr * b.

    Args:
        params: parameters or parameter groups.
        lr: learning rate.
        momentum: factor of the last update's direction b; 0 keeps none and moves along g.
        dampening: how much less than g enters b.
        weight_decay: L2 penalty.
        nesterov: move along g + momentum * b instead; needs momentum and no dampening.
        maximize: climb instead of descend.
        foreach, fused: accepted; they choose nothing here.
    """

    _later_options = {"nesterov": False, "maximize": False, "foreach": None, "differentiable": False, "fused": None}

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        check_options(lr, weight_decay)
        if momentum < 0.0:
            raise ValueError(f"Invalid momentum value: {momentum}")
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        check_implementation(foreach, fused, differentiable)
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "dampening": dampening,
            "weight_decay": weight_decay,
            "nesterov": nesterov,
            "maximize": maximize,
            "foreach": foreach,
            "differentiable": differentiable,
            "fused": fused,
        }
        super().__init__(params, defaults)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update the parameters once; returns the closure's loss, or None."""
        loss = self._loss_of(closure)
        for group in self.param_groups:
            options = (
                number(group["lr"]),
                number(group["weight_decay"]),
                group["momentum"],
                group["nesterov"],
                group["maximize"],
            )
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                buffer, dampening = None, group["dampening"]
                if group["momentum"] != 0:
                    state = self.state[parameter]
                    if state.get("momentum_buffer") is None:
                        # The first direction is the gradient itself, undampened.
                        state["momentum_buffer"], dampening = gl.zeros_like(parameter), 0
                    buffer = state["momentum_buffer"]
                in_blocks(_sgd, arrays(parameter, "SGD", buffer), *options, dampening)
                increment_version(parameter)
        return loss


def _sgd(parameter, gradient, buffer, scratch, lr, weight_decay, momentum, nesterov, maximize, dampening):
    """One step on arrays; `buffer` is None without momentum."""
    work = scratch
    if weight_decay != 0:
        np.multiply(parameter, weight_decay, out=scratch)
        gradient = (np.subtract if maximize else np.add)(scratch, gradient, out=scratch)
        work = None
    elif maximize:
        gradient = np.negative(gradient, out=scratch)
        work = None
    if buffer is not None:
        buffer *= momentum
        if dampening:
            buffer += np.multiply(gradient, 1 - dampening, out=scratch)
        else:
            buffer += gradient
        if nesterov:
            # The gradient may stand in scratch; then this needs other space.
            ahead = np.multiply(buffer, momentum, out=work)
            ahead += gradient
            gradient = ahead
        else:
            gradient = buffer
    parameter -= np.multiply(gradient, lr, out=scratch)
