"""Adam (Kingma and Ba 2015), AMSGrad (Reddi et al. 2018) and AdamW (Loshchilov and Hutter 2019)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

import gradloom as gl
from gradloom.autograd import increment_version
from gradloom.optim._arrays import advance, arrays, in_blocks, is_tensor_of_many, new_step, number
from gradloom.optim._options import check_implementation, check_options
from gradloom.optim.optimizer import Optimizer

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from gradloom import Tensor
    from gradloom.optim.optimizer import ParamsT

__all__ = ["Adam", "AdamW"]


class Adam(Optimizer):
    """p = p - lr * m' / (sqrt(v') + eps), with m', v' the bias-corrected running means of g and g ** 2.

    Args:
        params: parameters or parameter groups.
        lr: learning rate.
        betas: factors of the running means of g and g ** 2, in [0, 1).
        eps: added to the denominator.
        weight_decay: L2 penalty, added to g; with `decoupled_weight_decay` p shrinks by lr * weight_decay
            instead.
        amsgrad: use the greatest v' so far.
        maximize: climb instead of descend.
        foreach, capturable, fused: accepted; they choose nothing here.
    """

    _later_options = {
        "amsgrad": False,
        "maximize": False,
        "foreach": None,
        "capturable": False,
        "differentiable": False,
        "decoupled_weight_decay": False,
        "fused": None,
    }

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        _check_tensors(lr, betas, foreach, capturable)
        check_options(lr, weight_decay, eps, betas)
        check_implementation(foreach, fused, differentiable)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "amsgrad": amsgrad,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "differentiable": differentiable,
            "fused": fused,
            "decoupled_weight_decay": decoupled_weight_decay,
        }
        super().__init__(params, defaults)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update the parameters once; returns the closure's loss, or None."""
        loss = self._loss_of(closure)
        for group in self.param_groups:
            beta1, beta2 = map(number, group["betas"])
            lr = number(group["lr"])
            decay = group["weight_decay"]
            decoupled = decay if group["decoupled_weight_decay"] else 0
            options = 1 - beta1, beta2, 0 if decoupled else decay, 1 - lr * decoupled, group["maximize"]
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                state = self._state_of(parameter, group["amsgrad"])
                count = advance(state)
                root = (1 - beta2**count) ** 0.5
                # m' / (sqrt(v') + eps) with both corrections in front: one pass less over the arrays.
                rates = lr / (1 - beta1**count) * root, group["eps"] * root
                greatest = state["max_exp_avg_sq"] if group["amsgrad"] else None
                kept = state["exp_avg"], state["exp_avg_sq"], greatest
                in_blocks(_adam, arrays(parameter, type(self).__name__, *kept), *options, *rates)
                increment_version(parameter)
        return loss

    def _state_of(self, parameter, amsgrad):
        state = self.state[parameter]
        if not state:
            state["step"] = new_step()
            state["exp_avg"] = gl.zeros_like(parameter)
            state["exp_avg_sq"] = gl.zeros_like(parameter)
            if amsgrad:
                state["max_exp_avg_sq"] = gl.zeros_like(parameter)
        return state


class AdamW(Adam):
    """Adam with decoupled weight decay; arguments as for `Adam`.

    Args:
        params: parameters or parameter groups.
        lr: learning rate.
        betas: decay of the running means of gradient and squared gradient.
        eps: added to the root of the mean square.
        weight_decay: share of the parameter that each step takes away, times lr.
        amsgrad: divide by the greatest mean square so far.
        maximize: climb instead of descend.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        super().__init__(
            params,
            lr,
            betas,
            eps,
            weight_decay,
            amsgrad,
            foreach=foreach,
            maximize=maximize,
            capturable=capturable,
            differentiable=differentiable,
            fused=fused,
            decoupled_weight_decay=True,
        )

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            group["decoupled_weight_decay"] = True


def _check_tensors(lr, betas, foreach, capturable):
    """Raise ValueError for options given as tensors where numbers are needed."""
    given = [isinstance(beta, gl.Tensor) for beta in betas]
    if any(given) and not all(given):
        raise ValueError("betas must be either both floats or both Tensors")
    if any(is_tensor_of_many(beta) for beta in betas):
        raise ValueError("Tensor betas must be 1-element")
    if foreach and not capturable:
        for name, value in (("lr", lr), ("betas[0]", betas[0]), ("betas[1]", betas[1])):
            if isinstance(value, gl.Tensor):
                raise ValueError(f"{name} as a Tensor is not supported for capturable=False and foreach=True")


def _adam(parameter, gradient, mean, square, greatest, scratch, rate1, beta2, decay, shrink, maximize, step_size, eps):
    """One step on arrays: `mean`, `square` are the running means, `greatest` the largest square or None."""
    if shrink != 1:
        parameter *= shrink
    if decay:
        penalty = parameter * decay
        gradient = (np.subtract if maximize else np.add)(penalty, gradient, out=penalty)
    elif maximize:
        gradient = -gradient
    np.subtract(gradient, mean, out=scratch)
    scratch *= rate1
    mean += scratch
    square *= beta2
    np.multiply(gradient, gradient, out=scratch)
    scratch *= 1 - beta2
    square += scratch
    if greatest is not None:
        np.maximum(greatest, square, out=greatest)
        square = greatest
    np.sqrt(square, out=scratch)
    scratch += eps
    np.divide(mean, scratch, out=scratch)
    scratch *= step_size
    parameter -= scratch
