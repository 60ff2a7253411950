"""Adagrad."""

from __future__ import annotations

from gradloom import Tensor
from gradloom.optim._arrays import number
from gradloom.optim._rule import RuleOptimizer, decayed, options
from gradloom.optim.optimizer import ParamsT
from gradloom.optim.sparse_adam import update_by_adagrad

__all__ = ["Adagrad"]


class Adagrad(RuleOptimizer):
    """Adagrad (Duchi et al. 2011).

    With g the gradient at step t::

        g = g + weight_decay * p
        s = s + g ** 2                                # s = initial_accumulator_value at first
        p = p - lr / (1 + (t - 1) * lr_decay) * g / (sqrt(s) + eps)

    Args:
        params: parameters or parameter groups.
        lr: learning rate.
        lr_decay: decay of the learning rate with t.
        weight_decay: factor of the L2 penalty.
        initial_accumulator_value: initial value of s.
        eps: added to the denominator.
        foreach: accepted without effect.
        fused: require parameters of a floating dtype, and let a `GradScaler` unscale gradients within the step.
        maximize: maximize the objective.
        differentiable: record the step; parameters that require grad must not be leaves.

    Raises:
        ValueError: for a negative lr, lr_decay, weight_decay, initial_accumulator_value or eps.
    """

    _later_options = {"foreach": None, "maximize": False, "differentiable": False, "fused": None}

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
        names = "lr lr_decay eps weight_decay initial_accumulator_value foreach maximize differentiable fused"
        super().__init__(params, options(locals(), names))
        if fused:
            self._step_supports_amp_scaling = True
        # Unlike the other optimizers, Adagrad has its state from the start.
        for group in self.param_groups:
            for parameter in group["params"]:
                self.state[parameter].update(self._initial_state(parameter, group))

    def _kept(self, group):
        return {"sum": group["initial_accumulator_value"]}

    def share_memory(self) -> None:
        """Move the state's storages to shared memory."""
        for group in self.param_groups:
            for parameter in group["params"]:
                self.state[parameter]["sum"].share_memory_()

    def _sparse_update(self, parameter, group, count, state):
        update_by_adagrad(parameter, state, group, self._rate(group, count))

    def _rate(self, group, count):
        return number(group["lr"]) / (1 + (count - 1) * group["lr_decay"])

    def _rule(self, group, count, state):
        return adagrad, (self._rate(group, count), group["weight_decay"], group["eps"], group["maximize"])


def adagrad(xp, parameter, gradient, total, scratch, rate, weight_decay, eps, maximize):
    """Apply Adagrad's update rule; see `_arrays`.

    Args:
        xp, parameter, gradient, scratch: as for every rule.
        total: the sum of squared gradients.
        rate: the learning rate of this step.
        weight_decay, eps, maximize: options of `Adagrad`.
    """
    gradient = decayed(parameter, gradient, weight_decay, maximize)
    total += xp.multiply(gradient, gradient, out=scratch)
    root = xp.sqrt(total, out=scratch)
    root += eps
    update = xp.divide(gradient, root, out=scratch)
    update *= rate
    parameter -= update
