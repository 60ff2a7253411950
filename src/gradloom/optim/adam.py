"""Adam."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gradloom as gl
from gradloom import Tensor
from gradloom.optim._arrays import advance, is_tensor_of_many, number, number_of_state
from gradloom.optim._fused import skips
from gradloom.optim._recorded import refuse_lists, update
from gradloom.optim._rule import decayed, options
from gradloom.optim.optimizer import Optimizer, ParamsT

__all__ = ["Adam"]


class Adam(Optimizer):
    """Adam (Kingma and Ba 2015), optionally AMSGrad (Reddi et al. 2018).

    With g the gradient at step t::

        g = g + weight_decay * p                      # with decoupled_weight_decay: p = p - lr * weight_decay * p
        m = betas[0] * m + (1 - betas[0]) * g
        v = betas[1] * v + (1 - betas[1]) * g ** 2
        w = max(w, v)                                 # with amsgrad, instead of v below
        p = p - lr * (m / (1 - betas[0] ** t)) / (sqrt(v / (1 - betas[1] ** t)) + eps)

    Args:
        params: parameters or parameter groups.
        lr: learning rate.
        betas: decays of the running means m and v, in [0, 1); floats or one-element tensors.
        eps: added to the denominator.
        weight_decay: factor of the L2 penalty, or of the decoupled decay.
        amsgrad: use the maximum of all v so far.
        foreach, capturable: accepted without effect.
        fused: require parameters of a floating dtype, and let a `GradScaler` unscale gradients within the step.
        maximize: maximize the objective.
        differentiable: record the step; parameters that require grad must not be leaves.
        decoupled_weight_decay: decay the parameters themselves, as `AdamW` does.

    Raises:
        ValueError: for a negative lr, eps or weight_decay, or betas outside [0, 1).
    """

    _numbers_of_state = ("step",)
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
        names = (
            "lr betas eps weight_decay amsgrad maximize foreach capturable differentiable fused decoupled_weight_decay"
        )
        super().__init__(params, options(locals(), names))
        if fused:
            self._step_supports_amp_scaling = True

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update the parameters once; return the closure's loss, or None."""
        loss = self._loss_of(closure)
        for group in self.param_groups:
            if skips(self, group):
                continue
            refuse_lists(group)
            lr, (beta1, beta2) = number(group["lr"]), map(number, group["betas"])
            options = group["weight_decay"], group["eps"], group["maximize"], group["decoupled_weight_decay"]
            last, numbers = None, ()
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                state = self._state_of(parameter, group["amsgrad"], group.get("fused"))
                count = advance(state)
                if count != last:
                    last, numbers = count, numbers_of(count, lr, beta1, beta2, *options)
                greatest = state["max_exp_avg_sq"] if group["amsgrad"] else None
                kept = state["exp_avg"], state["exp_avg_sq"], greatest
                update(adam, group, parameter, "Adam", kept, *numbers)
        return loss

    def _state_of(self, parameter, amsgrad, fused):
        state = self.state[parameter]
        if not state:
            state["step"] = number_of_state(0.0, fused)
            state["exp_avg"] = gl.zeros_like(parameter)
            state["exp_avg_sq"] = gl.zeros_like(parameter)
            if amsgrad:
                state["max_exp_avg_sq"] = gl.zeros_like(parameter)
        return state


def _check_tensors(lr, betas, foreach, capturable):
    """Raise ValueError for tensors where numbers are required."""
    given = [isinstance(beta, gl.Tensor) for beta in betas]
    if any(given) and not all(given):
        raise ValueError("betas must be either both floats or both Tensors")
    if any(is_tensor_of_many(beta) for beta in betas):
        raise ValueError("Tensor betas must be 1-element")
    if foreach and not capturable:
        for name, value in (("lr", lr), ("betas[0]", betas[0]), ("betas[1]", betas[1])):
            if isinstance(value, gl.Tensor):
                raise ValueError(f"{name} as a Tensor is not supported for capturable=False and foreach=True")


def numbers_of(count, lr, beta1, beta2, weight_decay, eps, maximize, decoupled):
    """Return the last arguments of `adam`, for one step of a parameter.

    Args:
        count: number of the step, 1 for the first.
        lr, beta1, beta2, weight_decay, eps, maximize: options of `Adam`.
        decoupled: whether the decay is that of `AdamW`.
    """
    root = (1 - beta2**count) ** 0.5
    penalty, shrink = (0, 1 - lr * weight_decay) if decoupled else (weight_decay, 1)
    # Both bias corrections are in the numbers: one pass less over the arrays.
    return 1 - beta1, beta2, penalty, shrink, maximize, lr / (1 - beta1**count) * root, eps * root


def adam(
    xp, parameter, gradient, mean, square, greatest, scratch, rate1, beta2, decay, shrink, maximize, step_size, eps
):
    """Apply Adam's update rule; see `_arrays`.

    Args:
        xp, parameter, gradient, scratch: as for every rule.
        mean, square: running means of the gradient and of its square.
        greatest: the maximum of `square` so far with AMSGrad, else None.
        rate1, beta2: the weight of the gradient in `mean`, and that of the old `square`.
        decay, shrink: factor of the L2 penalty; factor of the parameter.
        maximize: whether to climb.
        step_size, eps: with the bias corrections in them.
    """
    if shrink != 1:
        parameter *= shrink
    if decay or maximize:
        gradient = decayed(parameter, gradient, decay, maximize)
    work = xp.subtract(gradient, mean, out=scratch)
    work *= rate1
    mean += work
    square *= beta2
    work = xp.multiply(gradient, gradient, out=scratch)
    work *= 1 - beta2
    square += work
    if greatest is not None:
        square = xp.maximum(greatest, square, out=greatest)
    work = xp.sqrt(square, out=scratch)
    work += eps
    work = xp.divide(mean, work, out=scratch)
    work *= step_size
    parameter -= work
