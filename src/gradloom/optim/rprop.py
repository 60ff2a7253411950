"""Rprop (Riedmiller and Braun 1993) and averaged SGD (Polyak and Juditsky 1992)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

import gradloom as gl
from gradloom.optim._arrays import number
from gradloom.optim._options import check_implementation, check_options
from gradloom.optim._rule import RuleOptimizer, decayed

if TYPE_CHECKING:
    from gradloom import Tensor
    from gradloom.optim.optimizer import ParamsT

__all__ = ["ASGD", "Rprop"]


class Rprop(RuleOptimizer):
    """Moves each element by a step of its own, which grows while the gradient keeps its sign and shrinks
    otherwise.

    Args:
        params: parameters or parameter groups.
        lr: first step of every element.
        etas: factors by which steps shrink (below 1) and grow (above 1).
        step_sizes: smallest and largest step.
        maximize: climb instead of descend.
        foreach, capturable: accepted; they choose nothing here.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_options(lr)
        if not 0.0 < etas[0] < 1.0 < etas[1]:
            raise ValueError(f"Invalid eta values: {etas[0]}, {etas[1]}")
        check_implementation(foreach, None, differentiable)
        defaults = {
            "lr": lr,
            "etas": etas,
            "step_sizes": step_sizes,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, defaults)

    def _kept(self, group):
        return {"prev": 0, "step_size": number(group["lr"])}

    def _initial_state(self, parameter, group):
        state = super()._initial_state(parameter, group)
        if parameter.is_complex():
            first = number(group["lr"])
            state["step_size"] = gl.full_like(parameter, complex(first, first))
        return state

    def _rule(self, group, count, state):
        shrink, grow = group["etas"]
        smallest, largest = group["step_sizes"]

        def rule(parameter, gradient, previous, step, scratch):
            if group["maximize"]:
                gradient = -gradient
            np.multiply(gradient, previous, out=scratch)
            factor = np.where(scratch > 0, grow, np.where(scratch < 0, shrink, 1)).astype(step.dtype, copy=False)
            step *= factor
            np.clip(step, smallest, largest, out=step)
            # Where the sign changed the element stays, and the next step counts as the first.
            np.copyto(previous, gradient)
            previous[scratch < 0] = 0
            np.sign(previous, out=scratch)
            scratch *= step
            parameter -= scratch

        return rule


class ASGD(RuleOptimizer):
    """SGD whose running average of the parameters, `ax` in the state, is kept beside them.

    Args:
        params: parameters or parameter groups.
        lr: first learning rate.
        lambd: decay of the parameters, and of the rate.
        alpha: power of the rate's decay.
        t0: step from which on the parameters are averaged.
        weight_decay: L2 penalty.
        maximize: climb instead of descend.
        foreach, capturable: accepted; they choose nothing here.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        check_options(lr, weight_decay)
        check_implementation(foreach, None, differentiable)
        defaults = {
            "lr": lr,
            "lambd": lambd,
            "alpha": alpha,
            "t0": t0,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, defaults)

    def _kept(self, group):
        return {"ax": 0}

    def _initial_state(self, parameter, group):
        state = super()._initial_state(parameter, group)
        return {
            "step": state["step"],
            "eta": gl.full((), number(group["lr"]), dtype=gl.float32),
            "mu": gl.ones((), dtype=gl.float32),
            "ax": state["ax"],
        }

    def _rule(self, group, count, state):
        lr, lambd = number(group["lr"]), group["lambd"]
        rate, weight = state["eta"].item(), state["mu"].item()

        def rule(parameter, gradient, average, scratch):
            gradient = decayed(parameter, gradient, group["weight_decay"], group["maximize"])
            parameter *= 1 - lambd * rate
            np.multiply(gradient, rate, out=scratch)
            parameter -= scratch
            if weight == 1:
                np.copyto(average, parameter)
            else:
                np.subtract(parameter, average, out=scratch)
                scratch *= weight
                average += scratch

        state["eta"]._array[...] = lr / (1 + lambd * lr * count) ** group["alpha"]
        state["mu"]._array[...] = 1 / max(1, count - group["t0"])
        return rule
