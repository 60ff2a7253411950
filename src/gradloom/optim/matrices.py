"""Optimizers that see a parameter as a matrix: Muon and Adafactor."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import gradloom as gl
from gradloom import Tensor
from gradloom.optim._arrays import advance, is_tensor_of_many, number, number_of_state
from gradloom.optim.optimizer import Optimizer, ParamsT

__all__ = ["Adafactor", "Muon"]


def _require(conditions: dict[str, bool]) -> None:
    """Raise ValueError with the first message whose condition does not hold."""
    for message, holds in conditions.items():
        if not holds:
            raise ValueError(message)


class _ByParameter(Optimizer):
    """An optimizer of dense real parameters that updates each of them alone, by tensor operators."""

    _name: str

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update the parameters once; return the closure's loss, or None.

        Raises RuntimeError for a complex parameter or a sparse gradient.
        """
        loss = self._loss_of(closure)
        with gl.no_grad():
            for group in self.param_groups:
                for parameter in group["params"]:
                    if parameter.grad is None:
                        continue
                    if parameter.is_complex():
                        raise RuntimeError(f"{self._name} does not support complex parameters")
                    if parameter.grad.is_sparse:
                        raise RuntimeError(f"{self._name} does not support sparse gradients")
                    self._update(group, parameter, self.state[parameter])
        return loss

    def _update(self, group: Any, parameter: Any, state: Any) -> None:
        raise NotImplementedError


class Muon(_ByParameter):
    """Momentum, orthogonalized (Jordan et al. 2024), for the weight matrices of hidden layers.

    With g the gradient::

        m = momentum * m + (1 - momentum) * g
        u = (1 - momentum) * g + momentum * m       # with nesterov; else m
        p = p - lr * weight_decay * p - lr * factor * orthogonalized(u)

    `orthogonalized` brings the singular values near 1 by a quintic Newton-Schulz iteration in bfloat16.

    Args:
        params: parameters or parameter groups, matrices only.
        lr: learning rate, a float or a one-element tensor.
        weight_decay: each step multiplies a parameter by 1 - lr * weight_decay.
        momentum: decay of the running mean m.
        nesterov: look ahead by one step.
        ns_coefficients: coefficients of the iteration's polynomial a x + b x**3 + c x**5.
        eps: least norm by which the direction is divided at first.
        ns_steps: number of iterations, below 100.
        adjust_lr_fn: factor of the rate for a matrix (A, B): None or "original" for sqrt(max(1, A / B)),
            "match_rms_adamw" for 0.2 * sqrt(max(A, B)), "spectral_unclamped" for sqrt(A / B).

    Raises:
        ValueError: for a parameter that is no matrix, a negative lr, momentum or weight_decay, an unknown adjust_lr_fn.
    """

    _name = "Muon"

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.7750, 2.0315),
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
    ) -> None:
        _require(
            {
                "Tensor lr must be 1-element": not is_tensor_of_many(lr),
                f"Learning rate should be >= 0 but is: {lr}": is_tensor_of_many(lr) or bool(lr >= 0),
                f"momentum should be >= 0 but is: {momentum}": momentum >= 0,
                f"weight decay should be >= 0 but is: {weight_decay}": weight_decay >= 0,
                f"Adjust learning rate function {adjust_lr_fn} is not supported": adjust_lr_fn
                in (None, "original", "match_rms_adamw", "spectral_unclamped"),
            }
        )
        defaults = {
            "lr": lr,
            "weight_decay": weight_decay,
            "momentum": momentum,
            "nesterov": nesterov,
            "ns_coefficients": ns_coefficients,
            "eps": eps,
            "ns_steps": ns_steps,
            "adjust_lr_fn": adjust_lr_fn,
        }
        super().__init__(params, defaults)
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.dim() != 2:
                    raise ValueError(
                        f"Muon only supports 2D parameters whereas we found a parameter with size: {parameter.size()}"
                    )

    def _update(self, group, parameter, state):
        gradient, momentum, lr = parameter.grad, group["momentum"], number(group["lr"])
        if "momentum_buffer" not in state:
            state["momentum_buffer"] = gl.zeros_like(gradient)
        mean = state["momentum_buffer"].lerp_(gradient, 1 - momentum)
        direction = gradient.lerp(mean, momentum) if group["nesterov"] else mean
        direction = _orthogonalized(direction, group["ns_coefficients"], group["ns_steps"], group["eps"])
        rows, columns = parameter.shape
        if group["adjust_lr_fn"] == "match_rms_adamw":
            factor = 0.2 * math.sqrt(max(rows, columns))
        elif group["adjust_lr_fn"] == "spectral_unclamped":
            factor = math.sqrt(rows / columns)
        else:
            factor = math.sqrt(max(1, rows / columns))
        parameter.mul_(1 - lr * group["weight_decay"])
        parameter.add_(direction, alpha=-lr * factor)


def _orthogonalized(matrix, coefficients, steps, eps):
    """Return a bfloat16 matrix with the singular vectors of `matrix` and singular values near 1."""
    if steps >= 100:
        raise ValueError("Number of steps must be less than 100 for computational efficiency")
    if len(coefficients) != 3:
        raise ValueError("Coefficients must be a tuple of exactly 3 values")
    a, b, c = coefficients
    tall = matrix.size(0) > matrix.size(1)
    x = matrix.bfloat16()
    x = x.T if tall else x
    x = x / x.norm().clamp(min=eps)
    for _ in range(steps):
        gram = x @ x.T
        x = gl.addmm(x, gl.addmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.T if tall else x


class Adafactor(_ByParameter):
    """Adafactor (Shazeer and Stern 2018): second moments of rows and columns instead of elements.

    With g the gradient at step t, b = t ** beta2_decay and rms(x) = norm(x) / sqrt(numel(x))::

        a = max(eps[1], rms(p)) * min(lr, 1 / sqrt(t))
        p = p - lr * weight_decay * p
        r = r + b * (mean(g ** 2, -1) - r)          # of matrices; w = r c / max(mean(r, -2), eps[0])
        c = c + b * (mean(g ** 2, -2) - c)
        v = v + b * (g ** 2 - v)                    # of vectors; w = v
        u = g / sqrt(max(w, eps[0] ** 2))
        p = p - a * u / max(1, rms(u) / d)

    Args:
        params: parameters or parameter groups.
        lr: greatest relative step size, a float or a one-element tensor.
        beta2_decay: exponent of the decay of second moments, not positive.
        eps: lower bounds: of the denominators, by default the dtype's eps; and of the parameter's scale.
        d: threshold above which updates are clipped, 1 or more.
        weight_decay: factor of the decoupled decay.
        foreach: accepted without effect.
        maximize: maximize the objective.

    Raises:
        ValueError: for an option outside its range.
    """

    _name = "Adafactor"
    _later_options = {"foreach": None}
    _numbers_of_state = ("step",)

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
    ) -> None:
        _require(
            {
                "Tensor lr must be 1-element": not is_tensor_of_many(lr),
                f"Learning rate should be >= 0 but is: {lr}": is_tensor_of_many(lr) or bool(lr >= 0),
                f"beta2_decay should be <= 0 but is: {beta2_decay}": beta2_decay <= 0,
                f"epsilon1 should be >= 0 but is: {eps[0]}": eps[0] is None or eps[0] >= 0,
                f"epsilon2 should be >= 0 but is: {eps[1]}": eps[1] >= 0,
                f"Clipping threshold d should be >= 1 but is: {d}": d >= 1,
                f"weight_decay should be >= 0 but is: {weight_decay}": weight_decay >= 0,
            }
        )
        defaults = {
            "lr": lr,
            "beta2_decay": beta2_decay,
            "eps": eps,
            "d": d,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
        }
        super().__init__(params, defaults)

    @staticmethod
    def _initialise(state, gradient):
        state["step"] = number_of_state(0.0)
        if gradient.dim() > 1:
            state["row_var"] = gradient.new_zeros((*gradient.shape[:-1], 1))
            state["col_var"] = gradient.new_zeros((*gradient.shape[:-2], 1, gradient.size(-1)))
        else:
            state["variance"] = gl.zeros_like(gradient)

    def _update(self, group, parameter, state):
        if not state:
            self._initialise(state, parameter.grad)
        gradient = -parameter.grad if group["maximize"] else parameter.grad
        count, lr = advance(state), number(group["lr"])
        least, least_scale = group["eps"]
        if least is None:
            least = gl.finfo(parameter.dtype).eps
        weight = count ** group["beta2_decay"]
        rate = max(least_scale, _root_mean_square(parameter)) * min(lr, count**-0.5)
        if group["weight_decay"]:
            parameter.mul_(1 - lr * group["weight_decay"])
        squared = gradient * gradient
        if gradient.dim() > 1:
            rows = state["row_var"].lerp_(squared.mean(-1, keepdim=True), weight)
            columns = state["col_var"].lerp_(squared.mean(-2, keepdim=True), weight)
            variance = (rows @ columns) / rows.mean(-2, keepdim=True).clamp_(min=least)
        else:
            variance = state["variance"].lerp_(squared, weight).clone()
        update = variance.clamp_(min=least * least).rsqrt_().mul_(gradient)
        parameter.add_(update, alpha=-rate / max(1.0, _root_mean_square(update) / group["d"]))


def _root_mean_square(tensor):
    return tensor.norm(2).item() / tensor.numel() ** 0.5
