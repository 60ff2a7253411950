"""Removable hooks, and the helper behind module-level backward hooks."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from gradloom.autograd.function import Function
from gradloom.autograd.grad_mode import is_grad_enabled
from gradloom.core.node import RemovableHandle
from gradloom.core.tensor import Tensor

__all__ = ["RemovableHandle", "BackwardHook", "unserializable_hook", "warn_if_has_hooks"]


def add_hook(hooks: Any, hook: Any, flags: Sequence[Any] = (), prepend: bool = False) -> RemovableHandle:
    """Store a hook and return its handle.

    Args:
        hooks: ordered dictionary from id to hook.
        hook: hook to add.
        flags: dictionaries in which the hook's id is marked.
        prepend: put the hook first.
    """
    handle = RemovableHandle(hooks, extra_dict=list(flags))
    hooks[handle.id] = hook
    for flag in flags:
        flag[handle.id] = True
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    return handle


def unserializable_hook(hook: Any) -> Any:
    """Mark a hook (as a decorator) as one that a saved tensor may lose without a warning."""
    hook.__torch_unserializable__ = True
    return hook


def warn_if_has_hooks(tensor: Tensor) -> None:
    """Warn for each backward hook of `tensor` that will not survive serialisation."""
    for hook in (getattr(tensor, "_backward_hooks", None) or {}).values():
        if not hasattr(hook, "__torch_unserializable__"):
            warnings.warn(
                f"backward hook {hook!r} on tensor will not be serialized. If this is expected, you can "
                "decorate the function with @gradloom.utils.hooks.unserializable_hook to suppress this "
                "warning",
                stacklevel=3,
            )


class BackwardHookFunction(Function):
    """The identity, whose node carries the hooks."""

    @staticmethod
    def forward(ctx: Any, *tensors: Any) -> Any:
        ctx.mark_non_differentiable(*[tensor for tensor in tensors if not tensor.requires_grad])
        return tensors

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return gradients


class BackwardHook:
    """Run a module's full backward hooks for one call of the module.

    The call's tensor inputs and outputs each pass through one identity node. The pre-hooks see, and may replace, the
    gradients of all outputs at the output node; the hooks see these and the gradients of the inputs, which they may
    replace, at the input node.

    Args:
        module: first argument of every hook.
        user_hooks: functions `(module, grad_input, grad_output) -> tuple | None`.
        user_pre_hooks: functions `(module, grad_output) -> tuple | None`.
    """

    input_positions: None
    output_positions: None
    grad_outputs: None

    def __init__(self, module: Any, user_hooks: Any, user_pre_hooks: Any) -> None:
        self.module = module
        self.user_hooks = user_hooks
        self.user_pre_hooks = user_pre_hooks
        self.input_positions = None
        self.output_positions = None
        self.input_count = 0
        self.output_count = 0
        self.grad_outputs = None

    def setup_input_hook(self, args: Any) -> Any:
        """Route the tensors of the tuple `args` through the input node; return the arguments to call with."""
        self.input_count = len(args)
        args, self.input_positions = self._through_identity(args, self._on_input_gradients)
        return args

    def setup_output_hook(self, result: Any) -> Any:
        """Route a tensor, or the tensors of a tuple, through the output node; return the module's result."""
        outputs = result if isinstance(result, tuple) else (result,)
        self.output_count = len(outputs)
        outputs, self.output_positions = self._through_identity(outputs, self._on_output_gradients)
        return outputs if isinstance(result, tuple) else outputs[0]

    @staticmethod
    def _through_identity(values, hook):
        positions = [i for i, value in enumerate(values) if isinstance(value, Tensor)]
        if not is_grad_enabled() or not any(values[i].requires_grad for i in positions):
            return values, None
        wrapped = BackwardHookFunction.apply(*[values[i] for i in positions])
        node = next(tensor.grad_fn for tensor in wrapped if tensor.grad_fn is not None)
        node.register_hook(hook)
        replaced = list(values)
        for position, tensor in zip(positions, wrapped, strict=True):
            replaced[position] = tensor
        # A namedtuple of outputs stays a namedtuple.
        return (tuple(replaced) if type(values) is tuple else type(values)(*replaced)), positions

    @staticmethod
    def _spread(positions, gradients, count):
        """Place gradients at their arguments' positions, None where an argument is not a tensor."""
        spread = [None] * count
        for position, gradient in zip(positions, gradients, strict=True):
            spread[position] = gradient
        return tuple(spread)

    def _on_output_gradients(self, _grad_inputs, grad_outputs):
        self.grad_outputs = self._spread(self.output_positions, grad_outputs, self.output_count)
        for hook in self.user_pre_hooks:
            self.grad_outputs = _replaced_by(
                hook(self.module, self.grad_outputs), self.grad_outputs, "Backward pre hook", "grad_output"
            )
        grad_outputs = self.grad_outputs
        if self.input_positions is None:
            self._without_input_gradients()
        return tuple(grad_outputs[position] for position in self.output_positions)

    def _without_input_gradients(self):
        """Run the hooks if no input requires grad: there is no input node, and no gradient to replace."""
        from gradloom.core.user_stack import level_of_user

        if self.user_hooks:
            warnings.warn(
                "Full backward hook is firing when gradients are computed with respect to module outputs "
                "since no inputs require gradients.",
                stacklevel=level_of_user(),
            )
        for hook in self.user_hooks:
            answer = hook(self.module, (None,) * self.input_count, self.grad_outputs)
            if answer is not None and not (isinstance(answer, tuple) and all(item is None for item in answer)):
                raise RuntimeError(
                    "Backward hook for Modules where no input requires gradient should always return None "
                    "or None for all gradients."
                )
        self.grad_outputs = None

    def _on_input_gradients(self, grad_inputs, _grad_outputs):
        if self.grad_outputs is None:
            # The gradients of the inputs were computed along a path that bypasses the outputs.
            return None
        gradients = self._spread(self.input_positions, grad_inputs, self.input_count)
        for hook in self.user_hooks:
            gradients = _replaced_by(
                hook(self.module, gradients, self.grad_outputs), gradients, "Backward hook", "grad_input"
            )
        self.grad_outputs = None
        return tuple(gradients[position] for position in self.input_positions)


def _replaced_by(answer, gradients, what, name):
    """Return the hook's replacement of gradients, checked for their number, or `gradients` if it returned None."""
    if answer is None:
        return gradients
    if len(answer) != len(gradients):
        raise RuntimeError(
            f"{what} returned an invalid number of {name}, got {len(answer)}, but expected {len(gradients)}"
        )
    return answer
