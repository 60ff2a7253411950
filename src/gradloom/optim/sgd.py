"""Stochastic gradient descent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gradloom as gl
from gradloom import Tensor
from gradloom.optim._arrays import number
from gradloom.optim._fused import skips
from gradloom.optim._recorded import update
from gradloom.optim._rule import options
from gradloom.optim.optimizer import Optimizer, ParamsT
from gradloom.optim.sparse_adam import update_by_sgd

__all__ = ["SGD"]


class SGD(Optimizer):
    """Stochastic gradient descent, optionally with momentum (Sutskever et al. 2013).

    With g the gradient at step t::

        g = g + weight_decay * p
        b = momentum * b + (1 - dampening) * g        # b = g at the first step
        p = p - lr * b                                # p - lr * g without momentum
        p = p - lr * (g + momentum * b)               # with nesterov

    Args:
        params: parameters or parameter groups.
        lr: learning rate.
        momentum: factor of the previous update direction b; 0 keeps no b.
        dampening: damping of g within b.
        weight_decay: factor of the L2 penalty.
        nesterov: use Nesterov momentum.
        maximize: maximize the objective.
        foreach: accepted without effect.
        fused: require parameters of a floating dtype, and let a `GradScaler` unscale gradients within the step.
        differentiable: record the step; parameters that require grad must not be leaves.

    Raises:
        ValueError: for a negative lr, momentum or weight_decay; for nesterov without momentum or with dampening.
    """

    _later_options = {"nesterov": False, "maximize": False, "foreach": None, "differentiable": False, "fused": False}

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
        names = "lr momentum dampening weight_decay nesterov maximize foreach differentiable fused"
        defaults = options(locals(), names)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        super().__init__(params, defaults)
        if fused:
            self._step_supports_amp_scaling = True

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update the parameters once; return the closure's loss, or None."""
        loss = self._loss_of(closure)
        for group in self.param_groups:
            if skips(self, group):
                continue
            rate, decay = number(group["lr"]), number(group["weight_decay"])
            numbers = rate, decay, group["momentum"], group["nesterov"], group["maximize"]
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                if parameter.grad.is_sparse:
                    update_by_sgd(parameter, self.state[parameter] if group["momentum"] else {}, group)
                    continue
                buffer, dampening = None, group["dampening"]
                if group["momentum"] != 0:
                    state = self.state[parameter]
                    if state.get("momentum_buffer") is None:
                        # The first direction is the gradient itself, undampened.
                        state["momentum_buffer"], dampening = gl.zeros_like(parameter), 0
                    buffer = state["momentum_buffer"]
                update(sgd, group, parameter, "SGD", (buffer,), *numbers, dampening)
        return loss


def sgd(xp, parameter, gradient, buffer, scratch, lr, weight_decay, momentum, nesterov, maximize, dampening):
    """Apply SGD's update rule; see `_arrays`.

    Args:
        xp, parameter, gradient, scratch: as for every rule.
        buffer: the previous direction, or None without momentum.
        lr, weight_decay, momentum, nesterov, maximize, dampening: options of `SGD`.
    """
    work = scratch
    if weight_decay != 0:
        penalty = xp.multiply(parameter, weight_decay, out=scratch)
        gradient = (xp.subtract if maximize else xp.add)(penalty, gradient, out=scratch)
        work = None
    elif maximize:
        gradient = xp.negative(gradient, out=scratch)
        work = None
    if buffer is not None:
        buffer *= momentum
        if dampening:
            buffer += xp.multiply(gradient, 1 - dampening, out=scratch)
        else:
            buffer += gradient
        if nesterov:
            # `work` is None where the gradient occupies `scratch`.
            ahead = xp.multiply(buffer, momentum, out=work)
            ahead += gradient
            gradient = ahead
        else:
            gradient = buffer
    parameter -= xp.multiply(gradient, lr, out=scratch)
