"""Adagrad (Duchi et al. 2011) and Adadelta (Zeiler 2012)."""

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

__all__ = ["Adadelta", "Adagrad"]


class Adagrad(RuleOptimizer):
    """p = p - lr / (1 + (t - 1) * lr_decay) * g / (sqrt(s) + eps), with s the sum of g ** 2 so far.

    Args:
        params: parameters or parameter groups.
        lr: learning rate.
        lr_decay: how fast it falls with the step number t.
        weight_decay: L2 penalty.
        initial_accumulator_value: first value of s.
        eps: added to the denominator.
        maximize: climb instead of descend.
        foreach, fused: accepted; they choose nothing here.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        check_options(lr)
        if not lr_decay >= 0.0:
            raise ValueError(f"Invalid lr_decay value: {lr_decay}")
        check_options(0.0, weight_decay)
        if not initial_accumulator_value >= 0.0:
            raise ValueError(f"Invalid initial_accumulator_value value: {initial_accumulator_value}")
        check_options(0.0, eps=eps)
        check_implementation(foreach, fused, differentiable)
        defaults = {
            "lr": lr,
            "lr_decay": lr_decay,
            "eps": eps,
            "weight_decay": weight_decay,
            "initial_accumulator_value": initial_accumulator_value,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "fused": fused,
        }
        super().__init__(params, defaults)
        # Unlike the other optimizers' state, this one's is there from the start.
        for group in self.param_groups:
            for parameter in group["params"]:
                self.state[parameter].update(self._initial_state(parameter, group))

    def _kept(self, group):
        return {"sum": group["initial_accumulator_value"]}

    def _initial_state(self, parameter, group):
        state = super()._initial_state(parameter, group)
        if parameter.is_complex():
            value = group["initial_accumulator_value"]
            state["sum"] = gl.full_like(parameter, complex(value, value))
        return state

    def share_memory(self) -> None:
        """Move the state's storages to shared memory."""
        for group in self.param_groups:
            for parameter in group["params"]:
                self.state[parameter]["sum"].share_memory_()

    def _rule(self, group, count, state):
        rate = number(group["lr"]) / (1 + (count - 1) * group["lr_decay"])

        def rule(parameter, gradient, total, scratch):
            gradient = decayed(parameter, gradient, group["weight_decay"], group["maximize"])
            np.multiply(gradient, gradient, out=scratch)
            total += scratch
            np.sqrt(total, out=scratch)
            scratch += group["eps"]
            np.divide(gradient, scratch, out=scratch)
            scratch *= rate
            parameter -= scratch

        return rule


class Adadelta(RuleOptimizer):
    """p = p - lr * d, with d = g * sqrt(u + eps) / sqrt(v + eps), and u, v the running means of d ** 2, g **
    2.

    Args:
        params: parameters or parameter groups.
        lr: factor of the update.
        rho: factor of the running means, in [0, 1].
        eps: added under the roots.
        weight_decay: L2 penalty.
        maximize: climb instead of descend.
        foreach, capturable: accepted; they choose nothing here.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        capturable: bool = False,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_options(lr)
        if not 0.0 <= rho <= 1.0:
            raise ValueError(f"Invalid rho value: {rho}")
        check_options(0.0, weight_decay, eps)
        check_implementation(foreach, None, differentiable)
        defaults = {
            "lr": lr,
            "rho": rho,
            "eps": eps,
            "weight_decay": weight_decay,
            "maximize": maximize,
            "capturable": capturable,
            "foreach": foreach,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def _kept(self, group):
        return {"square_avg": 0, "acc_delta": 0}

    def _rule(self, group, count, state):
        lr, rho, eps = number(group["lr"]), group["rho"], group["eps"]

        def rule(parameter, gradient, square, moved, scratch):
            gradient = decayed(parameter, gradient, group["weight_decay"], group["maximize"])
            _running_square(square, gradient, rho, scratch)
            delta = np.sqrt(moved + eps)
            np.add(square, eps, out=scratch)
            delta /= np.sqrt(scratch, out=scratch)
            delta *= gradient
            _running_square(moved, delta, rho, scratch)
            delta *= lr
            parameter -= delta

        return rule
