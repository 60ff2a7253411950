"""The constructors' option checks, and RuleOptimizer: an optimizer given by an update rule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gradloom as gl
from gradloom.optim._arrays import advance, is_tensor_of_many, number_of_state, sparse_refusal
from gradloom.optim._fused import skips
from gradloom.optim._recorded import refuse_lists, update
from gradloom.optim.optimizer import Optimizer

# Options that must not be negative, and their names in errors.
_NONNEGATIVE = {
    "lr": "learning rate",
    "eps": "epsilon value",
    **{
        name: f"{name} value"
        for name in (
            "momentum",
            "lr_decay",
            "weight_decay",
            "initial_accumulator_value",
            "momentum_decay",
            "alpha",
            "lambd",
        )
    },
}


def options(given: dict[str, Any], names: str) -> dict[str, Any]:
    """Return an optimizer's `defaults` after checking them.

    There is one implementation of each optimizer, so `foreach` and `capturable` select nothing.

    Args:
        given: the constructor's `locals()`.
        names: names of the options, in PyTorch's order.

    Raises:
        ValueError: for an option outside its range.
        RuntimeError: for `fused` together with `foreach` or `differentiable`.
        NotImplementedError: for `differentiable` with an option that requires grad.
    """
    found = {name: given[name] for name in names.split()}
    if is_tensor_of_many(found["lr"]):
        raise ValueError("Tensor lr must be 1-element")
    for name, value in found.items():
        if name in _NONNEGATIVE and not value >= 0.0:
            raise ValueError(f"Invalid {_NONNEGATIVE[name]}: {value}")
    for position, beta in enumerate(found.get("betas", ())):
        if not 0.0 <= beta < 1.0:
            raise ValueError(f"Invalid beta parameter at index {position}: {beta}")
    if found.get("fused"):
        if found["differentiable"]:
            raise RuntimeError("`fused` does not support `differentiable`")
        if found["foreach"]:
            raise RuntimeError("`fused` and `foreach` cannot be `True` together.")
    if found.get("differentiable") and any(_requires_grad(value) for value in found.values()):
        raise NotImplementedError("gradloom's optimizers have no gradients for options, such as a learning rate")
    return found


def _requires_grad(value):
    return any(map(_requires_grad, value)) if isinstance(value, tuple) else getattr(value, "requires_grad", False)


class RuleOptimizer(Optimizer):
    """Base of optimizers given by the names of their state's tensors, `_kept`, and an update rule, `_rule`."""

    _later_options = {"foreach": None, "maximize": False, "differentiable": False, "capturable": False}
    _numbers_of_state: tuple[str, ...] = ("step",)

    def _kept(self, group) -> dict[str, Any]:
        """Return the names and initial values of the tensors kept for each parameter of `group`."""
        raise NotImplementedError

    def _rule(self, group, count, state) -> tuple[Callable[..., None], tuple[Any, ...]]:
        """Return the update rule (see `_arrays`) of one parameter's step number `count`, and the rule's numbers."""
        raise NotImplementedError

    def _sparse_update(self, parameter, group, count, state) -> None:
        """Carry out a parameter's step number `count` by a sparse gradient."""
        raise sparse_refusal(type(self).__name__)

    def _initial_state(self, parameter, group) -> dict[str, Any]:
        state = {"step": number_of_state(0.0, group.get("fused"))}
        for name, value in self._kept(group).items():
            if value and parameter.is_complex():
                value = complex(value, value)
            state[name] = gl.full_like(parameter, value) if value else gl.zeros_like(parameter)
        return state

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update the parameters once; return the closure's loss, or None."""
        loss = self._loss_of(closure)
        name = type(self).__name__
        for group in self.param_groups:
            if skips(self, group):
                continue
            refuse_lists(group)
            kept = tuple(self._kept(group))
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                state = self.state[parameter]
                if not state:
                    state.update(self._initial_state(parameter, group))
                if parameter.grad.is_sparse:
                    self._sparse_update(parameter, group, advance(state), state)
                    continue
                rule, numbers = self._rule(group, advance(state), state)
                update(rule, group, parameter, name, [state[key] for key in kept], *numbers)
        return loss


def decayed(parameter, gradient, weight_decay, maximize):
    """Return the gradient to descend: negated if `maximize`, plus weight_decay * parameter; change neither array."""
    if maximize:
        gradient = -gradient
    if weight_decay:
        penalty = parameter * weight_decay
        penalty += gradient
        return penalty
    return gradient


def running_mean(xp, mean, gradient, beta, scratch):
    """Update mean = beta * mean + (1 - beta) * gradient in place."""
    change = xp.subtract(gradient, mean, out=scratch)
    change *= 1 - beta
    mean += change


def running_square(xp, square, gradient, beta, scratch):
    """Update square = beta * square + (1 - beta) * gradient ** 2 in place."""
    square *= beta
    change = xp.multiply(gradient, gradient, out=scratch)
    change *= 1 - beta
    square += change


class AdamLike(RuleOptimizer):
    """Base of Adam's variants: running means of g and g ** 2, and coupled or decoupled weight decay."""

    _later_options = {**RuleOptimizer._later_options, "decoupled_weight_decay": False}

    def _kept(self, group):
        return {"exp_avg": 0, "exp_avg_sq": 0}

    @staticmethod
    def _descent(group, lr) -> tuple[Any, Any, Any]:
        """Return the last arguments of `prepared`."""
        decay = group["weight_decay"]
        if decay and group.get("decoupled_weight_decay"):
            return 0, 1 - lr * decay, group["maximize"]
        return decay, 1, group["maximize"]


def prepared(parameter, gradient, weight_decay, shrink, maximize):
    """Multiply `parameter` by `shrink` in place; return `decayed(parameter, gradient, weight_decay, maximize)`."""
    if shrink != 1:
        parameter *= shrink
    return decayed(parameter, gradient, weight_decay, maximize)
