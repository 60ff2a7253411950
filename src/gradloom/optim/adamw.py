"""AdamW."""

from __future__ import annotations

from typing import Any

from gradloom import Tensor
from gradloom.optim.adam import Adam
from gradloom.optim.optimizer import ParamsT

__all__ = ["AdamW"]


class AdamW(Adam):
    """Adam with decoupled weight decay (Loshchilov and Hutter 2019).

    `Adam` with `decoupled_weight_decay=True`, and a weight_decay of 0.01 by default.

    Args:
        params: parameters or parameter groups.
        lr: learning rate.
        betas: decays of the running means m and v, in [0, 1); floats or one-element tensors.
        eps: added to the denominator.
        weight_decay: each step multiplies a parameter by 1 - lr * weight_decay.
        amsgrad: use the maximum of all v so far.
        maximize: maximize the objective.
        foreach, capturable: accepted without effect.
        fused: require parameters of a floating dtype, and let a `GradScaler` unscale gradients within the step.
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
