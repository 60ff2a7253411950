"""`fused=True`: steps that unscale gradients themselves, for a `GradScaler` whose scale they read.

The scaler sets an optimizer's attributes `grad_scale`, by which its step divides gradients in place, and `found_inf`:
with 1, parameters and state stay as they are. The update itself is that of other steps.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import gradloom as gl
from gradloom import Tensor
from gradloom.optim.optimizer import Optimizer

_DEVICES = ["mps", "cuda", "xpu", "hpu", "cpu", "mtia", "privateuseone"]  # in PyTorch's message


def skips(optimizer: Optimizer, group: dict[str, Any]) -> bool:
    """Return whether a step leaves out a parameter group; unscale its gradients otherwise. Only `fused` steps do so.

    Args:
        optimizer: may have the attributes `grad_scale` and `found_inf`.
        group: one of its parameter groups.

    Raises RuntimeError, with `fused`, for a sparse gradient or for a parameter whose dtype is not floating.
    """
    if not group.get("fused"):
        return False
    parameters = [parameter for parameter in group["params"] if parameter.grad is not None]
    for parameter in parameters:
        if not parameter.is_floating_point():
            raise RuntimeError(
                "`fused=True` requires all the params to be floating point Tensors of supported devices: "
                f"{_DEVICES} but {parameter.dtype} and {parameter.device.type}"
            )
    gradients = [parameter.grad for parameter in parameters]
    name = type(optimizer).__name__
    if name in _SPARSE_REFUSALS and any(gradient.is_sparse for gradient in gradients):
        raise RuntimeError(_SPARSE_REFUSALS[name])
    return unscale(gradients, getattr(optimizer, "grad_scale", None), getattr(optimizer, "found_inf", None))


_SPARSE_REFUSALS = {
    "SGD": "`_fused_sgd` does not support sparse gradients",
    "Adagrad": "`fused` does not support sparse grad or complex param",
}


def unscale(gradients: Iterable[Tensor], grad_scale: Tensor | None, found_inf: Tensor | None) -> bool:
    """Return whether `found_inf` is 1; otherwise divide the gradients by `grad_scale` in place, if there is one."""
    if found_inf is not None and found_inf.item() == 1:
        return True
    if grad_scale is not None:
        with gl.no_grad():
            for gradient in gradients:
                gradient.div_(grad_scale)
    return False
