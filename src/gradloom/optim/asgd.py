"""Averaged SGD."""

from __future__ import annotations

import numpy as np

from gradloom import Tensor
from gradloom.optim._arrays import number, number_of_state
from gradloom.optim._rule import RuleOptimizer, decayed, options
from gradloom.optim.optimizer import ParamsT

__all__ = ["ASGD"]


class ASGD(RuleOptimizer):
    """Averaged stochastic gradient descent (Polyak and Juditsky 1992).

    With g the gradient at step t, eta = lr and mu = 1 at first::

        g = g + weight_decay * p
        p = (1 - lambd * eta) * p - eta * g
        ax = ax + mu * (p - ax)
        eta = lr / (1 + lambd * lr * t) ** alpha
        mu = 1 / max(1, t - t0)

    The average `ax` is in the parameter's state; parameters are not replaced by it.

    Args:
        params: parameters or parameter groups.
        lr: initial learning rate.
        lambd: decay of the parameters and of the learning rate.
        alpha: exponent of the learning rate's decay.
        t0: step at which averaging starts.
        weight_decay: factor of the L2 penalty.
        foreach: compute eta in float32.
        capturable: accepted without effect.
        maximize: maximize the objective.
        differentiable: record the step; parameters that require grad must not be leaves.

    Raises:
        ValueError: for a negative lr or weight_decay.
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
        names = "lr lambd alpha t0 weight_decay foreach maximize differentiable capturable"
        super().__init__(params, options(locals(), names))

    _numbers_of_state = ("step", "eta", "mu")

    def _kept(self, group):
        return {"ax": 0}

    def _initial_state(self, parameter, group):
        state = super()._initial_state(parameter, group)
        eta = number_of_state(number(group["lr"]))
        return {"step": state["step"], "eta": eta, "mu": number_of_state(1.0), "ax": state["ax"]}

    def _rule(self, group, count, state):
        lr, lambd = number(group["lr"]), group["lambd"]
        numbers = state["eta"].item(), state["mu"].item(), lambd, group["weight_decay"], group["maximize"]
        if group["foreach"]:  # lists of counters are float32, and a number over a tensor is its reciprocal's multiple
            eta = 1 / (1 + lambd * lr * np.float32(count)) ** group["alpha"] * lr
        else:
            eta = lr / (1 + lambd * lr * count) ** group["alpha"]
        state["eta"]._array[...] = eta
        state["mu"]._array[...] = 1 / max(1, count - group["t0"])
        return asgd, numbers


def asgd(xp, parameter, gradient, average, scratch, rate, weight, lambd, weight_decay, maximize):
    """Apply the update rule of averaged SGD; see `_arrays`.

    Args:
        xp, parameter, gradient, scratch: as for every rule.
        average: of the parameter.
        rate: the learning rate of this step.
        weight: that of the parameter in the average.
        lambd, weight_decay, maximize: options of `ASGD`.
    """
    gradient = decayed(parameter, gradient, weight_decay, maximize)
    parameter *= 1 - lambd * rate
    parameter -= xp.multiply(gradient, rate, out=scratch)
    if weight == 1:
        average[...] = parameter
    else:
        change = xp.subtract(parameter, average, out=scratch)
        change *= weight
        average += change
