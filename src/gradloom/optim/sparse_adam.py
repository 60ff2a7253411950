"""SparseAdam, and the updates of SGD and Adagrad by sparse gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import gradloom as gl
from gradloom import Tensor
from gradloom.autograd import increment_version
from gradloom.optim._arrays import is_tensor_of_many, number
from gradloom.optim.optimizer import Optimizer, ParamsT

__all__ = ["SparseAdam"]


class SparseAdam(Optimizer):
    """Adam for sparse gradients: a step changes only the elements that have an entry in the gradient.

    With g the gradient at step t, at its places::

        m = m + (1 - betas[0]) * (g - m)
        v = v + (1 - betas[1]) * (g ** 2 - v)
        p = p - lr * sqrt(1 - betas[1] ** t) / (1 - betas[0] ** t) * m / (sqrt(v) + eps)

    Args:
        params: parameters or parameter groups, dense and real.
        lr: learning rate.
        betas: decays of the running means m and v, in [0, 1).
        eps: added to the denominator.
        maximize: maximize the objective.

    Raises:
        ValueError: for an lr or eps that is not positive, betas outside [0, 1), or a sparse or complex parameter.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        maximize: bool = False,
    ) -> None:
        if is_tensor_of_many(lr):
            raise ValueError("Tensor lr must be 1-element")
        if not lr > 0.0:
            raise ValueError(f"Invalid learning rate: {lr}")
        if not eps > 0.0:
            raise ValueError(f"Invalid epsilon value: {eps}")
        for position, beta in enumerate(betas):
            if not 0.0 <= beta < 1.0:
                raise ValueError(f"Invalid beta parameter at index {position}: {beta}")
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "maximize": maximize})
        found = [(i, j, p) for i, group in enumerate(self.param_groups) for j, p in enumerate(group["params"])]
        if sparse := [[i, j] for i, j, p in found if p.is_sparse]:
            raise ValueError(f"Sparse params at indices {sparse}: SparseAdam requires dense parameter tensors")
        if complex_ := [[i, j] for i, j, p in found if p.is_complex()]:
            raise ValueError(f"Complex params at indices {complex_}: SparseAdam does not support complex parameters")

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update the parameters once; return the closure's loss, or None.

        Raises RuntimeError for a dense gradient.
        """
        loss = self._loss_of(closure)
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._update(parameter, group)
        return loss

    def _update(self, parameter, group) -> None:
        if not parameter.grad.is_sparse:
            raise RuntimeError("SparseAdam does not support dense gradients, please consider Adam instead")
        state = self.state[parameter]
        if not state:
            state["step"] = 0
            state["exp_avg"] = gl.zeros_like(parameter)
            state["exp_avg_sq"] = gl.zeros_like(parameter)
        state["step"] += 1
        at, gradient = _entries(parameter.grad, group["maximize"])
        if not gradient.size:
            return
        beta1, beta2 = group["betas"]
        mean, square = state["exp_avg"]._array, state["exp_avg_sq"]._array
        mean[at] += (gradient - mean[at]) * (1 - beta1)
        square[at] += (gradient * gradient - square[at]) * (1 - beta2)
        count = number(state["step"])
        step_size = number(group["lr"]) * (1 - beta2**count) ** 0.5 / (1 - beta1**count)
        parameter._array[at] -= step_size * (mean[at] / (np.sqrt(square[at]) + group["eps"]))
        increment_version(parameter)


def _entries(gradient, maximize) -> tuple[Any, Any]:
    """Return the places of a sparse gradient, as an index, and its values; negated if `maximize`."""
    gradient = gradient.detach().coalesce()
    values = gradient._values()._array
    return tuple(gradient._indices()._array), -values if maximize else values


def update_by_sgd(parameter: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
    """Update a parameter by its sparse gradient and the options in `group`; see `SGD`. Its momentum is sparse, too.

    Raises RuntimeError with weight decay, because the sum of a sparse and a dense tensor is dense, and with `fused`.
    """
    if group["fused"]:
        raise RuntimeError("`_fused_sgd` does not support sparse gradients")
    momentum = group["momentum"]
    with gl.no_grad():
        gradient = -parameter.grad if group["maximize"] else parameter.grad
        if group["weight_decay"]:
            gradient = gradient.add(parameter, alpha=group["weight_decay"])
        if momentum:
            buffer = state.get("momentum_buffer")
            if buffer is None:
                buffer = state["momentum_buffer"] = gradient.clone().detach()
            else:
                buffer.mul_(momentum).add_(gradient, alpha=1 - group["dampening"])
            gradient = gradient.add(buffer, alpha=momentum) if group["nesterov"] else buffer
        parameter.add_(gradient, alpha=-number(group["lr"]))


def update_by_adagrad(parameter: Any, state: dict[str, Any], group: dict[str, Any], rate: float) -> None:
    """Update a parameter at the places of its sparse gradient, by `rate` and the options in `group`; see `Adagrad`.

    Raises RuntimeError with weight decay and with `fused`.
    """
    if group["fused"]:
        raise RuntimeError("`fused` does not support sparse grad or complex param")
    if group["weight_decay"]:
        raise RuntimeError("weight_decay option is not compatible with sparse gradients")
    at, gradient = _entries(parameter.grad, group["maximize"])
    total = state["sum"]._array
    total[at] += gradient * gradient
    parameter._array[at] -= rate * (gradient / (np.sqrt(total[at]) + group["eps"]))
    increment_version(parameter)
