"""Calling a module, and the hooks around its forward and backward.

Order in one call: global forward pre-hooks, the module's forward pre-hooks, `forward`, global forward hooks, the
module's forward hooks; in backward the full backward pre-hooks, then the full backward hooks, global ones first.

Note [Compiled modules]
`module.compile()` puts the compiled call into `_compiled_call_impl`, as PyTorch does. A call of a module that was never
compiled must not pay for the question whether it was: it asks only whether it has hooks. So the table of backward
pre-hooks of a compiled module is one that is true even when empty, which leads to `_call_with_hooks`, and that asks.
"""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar

import gradloom as gl
from gradloom.utils.hooks import BackwardHook, RemovableHandle, add_hook

if TYPE_CHECKING:
    _Arguments = ParamSpec("_Arguments")
    _Result = TypeVar("_Result", covariant=True)

    class _HasForward(Protocol[_Arguments, _Result]):
        """A module with a `forward`; gives the call of a module its type."""

        def forward(self, *args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Result: ...


_global_forward_pre_hooks: OrderedDict = OrderedDict()
_global_forward_pre_hooks_with_kwargs: OrderedDict = OrderedDict()
_global_forward_hooks: OrderedDict = OrderedDict()
_global_forward_hooks_with_kwargs: OrderedDict = OrderedDict()
_global_forward_hooks_always_called: OrderedDict = OrderedDict()
_global_backward_pre_hooks: OrderedDict = OrderedDict()
_global_backward_hooks: OrderedDict = OrderedDict()
_global_registration_hooks = {"module": OrderedDict(), "parameter": OrderedDict(), "buffer": OrderedDict()}


_global_module_registration_hooks, _global_parameter_registration_hooks, _global_buffer_registration_hooks = (
    _global_registration_hooks.values()
)


class _GlobalBackwardKind:
    """Kind of the global backward hooks: full (True), deprecated (False) or none (None)."""

    is_full: bool | None = None


def register_module_forward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(module, args)` before every module's forward; it may return new positional arguments."""
    return add_hook(_global_forward_pre_hooks, hook)


def register_module_forward_hook(
    hook: Callable[..., Any], *, with_kwargs: bool = False, always_call: bool = False
) -> RemovableHandle:
    """Call `hook(module, args, output)` after every module's forward; it may return a replacement of the output.

    Args:
        hook: hook function.
        with_kwargs: call `hook(module, args, kwargs, output)`.
        always_call: call the hook even if the forward or another hook raises.
    """
    flags = _global_forward_hooks_with_kwargs, _global_forward_hooks_always_called
    return add_hook(
        _global_forward_hooks, hook, [f for f, on in zip(flags, (with_kwargs, always_call), strict=True) if on]
    )


def register_module_full_backward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(module, grad_output)` in every module's backward before its input gradients are computed."""
    return add_hook(_global_backward_pre_hooks, hook)


def register_module_full_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(module, grad_input, grad_output)` once the gradients of a module's inputs are computed."""
    _claim_global_backward(True)
    return add_hook(_global_backward_hooks, hook)


def register_module_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Deprecated: `register_module_full_backward_hook` for the last node of the forward only.

    Args:
        hook: takes (module, grad_input, grad_output) and may return a replacement of grad_input.
    """
    _claim_global_backward(False)
    return add_hook(_global_backward_hooks, hook)


def register_module_module_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(module, name, submodule)` when a child module is registered; it may return a replacement."""
    return add_hook(_global_registration_hooks["module"], hook)


def register_module_parameter_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(module, name, param)` when a parameter is registered; it may return a replacement."""
    return add_hook(_global_registration_hooks["parameter"], hook)


def register_module_buffer_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(module, name, buffer)` when a buffer is registered; it may return a replacement."""
    return add_hook(_global_registration_hooks["buffer"], hook)


def _claim_global_backward(full):
    if _GlobalBackwardKind.is_full is (not full):
        raise RuntimeError(
            "Cannot use both regular backward hooks and full backward hooks as a global Module hook. "
            "Please use only one of them."
        )
    _GlobalBackwardKind.is_full = full


def registered(kind: str, module: Any, name: str, value: Any) -> Any:
    """Return `value` after the registration hooks of `kind` ("module", "parameter" or "buffer")."""
    for hook in _global_registration_hooks[kind].values():
        answer = hook(module, name, value)
        if answer is not None:
            value = answer
    return value


class _TrueTable(OrderedDict):
    """A table of hooks that counts as true; Note [Compiled modules]."""

    def __bool__(self) -> bool:
        return True


class _CompiledCall:
    """The attribute `_compiled_call_impl` of modules: the compiled call, or None; Note [Compiled modules]."""

    def __get__(self, module: Any, cls: type | None = None) -> Any:
        return None if module is None else module.__dict__.get("_compiled_call_impl")

    def __set__(self, module: Any, value: Any) -> None:
        members = module.__dict__
        members["_compiled_call_impl"] = value
        kind = OrderedDict if value is None else _TrueTable
        members["_backward_pre_hooks"] = kind(members["_backward_pre_hooks"])


class Calling:
    """Calling of a module, and registration of the hooks around it."""

    _compiled_call_impl = _CompiledCall()

    def __call__(
        self: _HasForward[_Arguments, _Result], *args: _Arguments.args, **kwargs: _Arguments.kwargs
    ) -> _Result:
        # Read through __dict__: attribute access is several times slower in a class with __getattr__.
        members = self.__dict__
        if (
            members["_forward_hooks"]
            or members["_forward_pre_hooks"]
            or members["_backward_hooks"]
            or members["_backward_pre_hooks"]
            or _global_forward_hooks
            or _global_forward_pre_hooks
            or _global_backward_hooks
            or _global_backward_pre_hooks
        ):
            return _call_with_hooks(self, args, kwargs)
        return self.forward(*args, **kwargs)

    def _call_impl(self, *args, **kwargs):
        """Call the module as Python, also if it was compiled."""
        if has_hooks(self):
            return call_with_hooks(self, args, kwargs, self.forward)
        return self.forward(*args, **kwargs)

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Compile calls of this module, in place: `gradloom.compile(self)` that keeps the module, its type and names.

        Copies and pickles of the module are not compiled.

        Args:
            args: see `gradloom.compile`, without the model.
            kwargs: the same by name.
        """
        self._compiled_call_impl = gl.compile(self._call_impl, *args, **kwargs)

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes that copies and pickles get: all but the compiled call."""
        state = self.__dict__.copy()
        if state.pop("_compiled_call_impl", None) is not None:
            state["_backward_pre_hooks"] = OrderedDict(state["_backward_pre_hooks"])
        return state

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the module's output; every subclass defines it."""
        raise NotImplementedError(f'Module [{type(self).__name__}] is missing the required "forward" function')

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Call `hook(module, args)` before every forward; it may return new positional arguments, one value or a tuple.

        Args:
            hook: hook function.
            prepend: run before this module's hooks registered so far.
            with_kwargs: call `hook(module, args, kwargs)`, which may return a pair (args, kwargs).
        """
        flags = [self._forward_pre_hooks_with_kwargs] if with_kwargs else []
        return add_hook(self._forward_pre_hooks, hook, flags, prepend)

    def register_forward_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False, always_call: bool = False
    ) -> RemovableHandle:
        """Call `hook(module, args, output)` after every forward; it may return a replacement of the output.

        Args:
            hook: hook function.
            prepend: run before this module's hooks registered so far.
            with_kwargs: call `hook(module, args, kwargs, output)`.
            always_call: call the hook even if the forward or another hook raises.
        """
        flags = []
        if with_kwargs:
            flags.append(self._forward_hooks_with_kwargs)
        if always_call:
            flags.append(self._forward_hooks_always_called)
        return add_hook(self._forward_hooks, hook, flags, prepend)

    def register_full_backward_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call `hook(module, grad_output)` before the input gradients are computed; it may return replacements.

        Args:
            hook: hook function.
            prepend: run before this module's hooks registered so far.
        """
        return add_hook(self._backward_pre_hooks, hook, (), prepend)

    def register_full_backward_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call `hook(module, grad_input, grad_output)` once the input gradients are computed.

        Both are tuples with an entry for every positional argument or output, None for those that are not tensors. The
        hook may return a replacement of `grad_input`.

        Args:
            hook: hook function.
            prepend: run before this module's hooks registered so far.
        """
        self._claim_backward(True)
        return add_hook(self._backward_hooks, hook, (), prepend)

    def register_backward_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Deprecated: `register_full_backward_hook` for the last node of the forward only.

        Args:
            hook: takes (module, grad_input, grad_output) and may return a replacement of grad_input.
        """
        self._claim_backward(False)
        return add_hook(self._backward_hooks, hook)

    def _claim_backward(self, full):
        if self._is_full_backward_hook is (not full):
            raise RuntimeError(
                "Cannot use both regular backward hooks and full backward hooks on a single Module. "
                "Please use only one of them."
            )
        self._is_full_backward_hook = full

    def _get_backward_hooks(self):
        """Return this module's backward hooks as (full, deprecated), global ones first."""
        full, partial = [], []
        for is_full, hooks in (
            (_GlobalBackwardKind.is_full, _global_backward_hooks),
            (self._is_full_backward_hook, self._backward_hooks),
        ):
            (full if is_full else partial).extend(hooks.values())
        return full, partial

    def _get_backward_pre_hooks(self):
        return [*_global_backward_pre_hooks.values(), *self._backward_pre_hooks.values()]


def has_hooks(module: Any) -> bool:
    """Return whether any hook would run in a call of a module."""
    members = module.__dict__
    return bool(
        members["_forward_hooks"]
        or members["_forward_pre_hooks"]
        or members["_backward_hooks"]
        or len(members["_backward_pre_hooks"])
        or _global_forward_hooks
        or _global_forward_pre_hooks
        or _global_backward_hooks
        or _global_backward_pre_hooks
    )


def _call_with_hooks(module, args, kwargs):
    compiled = module.__dict__.get("_compiled_call_impl")
    if compiled is not None:
        return compiled(*args, **kwargs)
    return call_with_hooks(module, args, kwargs, module.forward)


def call_with_hooks(module: Any, args: Any, kwargs: Any, forward: Callable[..., Any]) -> Any:
    """Call a function as the `forward` of a module, and the module's hooks around it."""
    progress = _Progress(args, kwargs, forward)
    if not (_global_forward_hooks_always_called or module._forward_hooks_always_called):
        return _hooked_forward(module, progress)
    try:
        return _hooked_forward(module, progress)
    except Exception:
        # Hooks with always_call that have not run yet; the error propagates to the caller afterwards.
        for hooks, always, with_kwargs in _forward_hook_tables(module):
            for number, hook in hooks.items():
                if number in always and number not in progress.called:
                    try:
                        _run_forward_hook(
                            hook, number in with_kwargs, module, progress.args, progress.kwargs, progress.result
                        )
                    except Exception as error:
                        warnings.warn(
                            "module forward hook with ``always_call=True`` raised an exception that was "
                            f"silenced as another error was raised in forward: {error}",
                            stacklevel=2,
                        )
        raise


class _Progress:
    """State of a call: arguments after pre-hooks, result, and the always-called hooks that have run."""

    def __init__(self, args, kwargs, forward) -> None:
        self.args, self.kwargs, self.forward, self.result = args, kwargs, forward, None
        self.called = set()


def _run_forward_hook(hook, with_kwargs, module, args, kwargs, result):
    return hook(module, args, kwargs, result) if with_kwargs else hook(module, args, result)


def _forward_hook_tables(module):
    return (
        (_global_forward_hooks, _global_forward_hooks_always_called, _global_forward_hooks_with_kwargs),
        (module._forward_hooks, module._forward_hooks_always_called, module._forward_hooks_with_kwargs),
    )


def _hooked_forward(module, progress):
    full, partial, pre = [], [], []
    if module._backward_hooks or _global_backward_hooks:
        full, partial = module._get_backward_hooks()
    if len(module._backward_pre_hooks) or _global_backward_pre_hooks:
        pre = module._get_backward_pre_hooks()
    _run_forward_pre_hooks(module, progress)
    backward = BackwardHook(module, full, pre) if full or pre else None
    if backward is not None:
        progress.args = backward.setup_input_hook(progress.args)
    args, kwargs = progress.args, progress.kwargs
    result = progress.result = progress.forward(*args, **kwargs)
    for hooks, always, with_kwargs in _forward_hook_tables(module):
        for number, hook in tuple(hooks.items()):
            if number in always:
                progress.called.add(number)
            answer = _run_forward_hook(hook, number in with_kwargs, module, args, kwargs, result)
            if answer is not None:
                result = progress.result = answer
    if backward is not None:
        if not isinstance(result, (gl.Tensor, tuple)):
            warnings.warn(
                "For backward hooks to be called, module output should be a Tensor or a tuple of Tensors but "
                f"received {type(result)}",
                stacklevel=4,
            )
        result = backward.setup_output_hook(result)
    if partial:
        _attach_partial_hooks(module, partial, args, result)
    return result


def _run_forward_pre_hooks(module, progress):
    for hooks, with_kwargs in (
        (_global_forward_pre_hooks, _global_forward_pre_hooks_with_kwargs),
        (module._forward_pre_hooks, module._forward_pre_hooks_with_kwargs),
    ):
        for number, hook in tuple(hooks.items()):
            if number in with_kwargs:
                answer = hook(module, progress.args, progress.kwargs)
                if answer is None:
                    continue
                if not (isinstance(answer, tuple) and len(answer) == 2):
                    raise RuntimeError(
                        f"forward pre-hook must return None or a tuple of (new_args, new_kwargs), but got {answer}."
                    )
                progress.args, progress.kwargs = answer
            else:
                answer = hook(module, progress.args)
                if answer is not None:
                    progress.args = answer if isinstance(answer, tuple) else (answer,)


def _attach_partial_hooks(module, hooks, args, result):
    """Register deprecated backward hooks on the node of the (first) output tensor."""
    output = result
    while not isinstance(output, gl.Tensor):
        if isinstance(output, dict):
            output = next(value for value in output.values() if isinstance(value, gl.Tensor))
        else:
            output = output[0]
    node = output.grad_fn
    if node is None:
        return
    for hook in hooks:
        node.register_hook(lambda grad_input, grad_output, hook=hook: hook(module, grad_input, grad_output))
    trouble = _partial_hook_trouble(args, result, node)
    if trouble:
        warnings.warn(
            f"Using {trouble} is deprecated and will be removed in future versions. This hook will be "
            "missing some of the grad_output or grad_input. Please use register_full_backward_hook to get "
            "the documented behavior.",
            FutureWarning,
            stacklevel=4,
        )


def _partial_hook_trouble(args, result, node):
    """Describe which part of its gradients a deprecated hook does not receive; None if it receives all."""
    outputs = (result,) if isinstance(result, gl.Tensor) else result
    if not (isinstance(outputs, tuple) and all(isinstance(item, gl.Tensor) for item in outputs)):
        return "non-full backward hooks on a Module that does not return a Tensor or a tuple of Tensors"
    inputs = (args,) if isinstance(args, gl.Tensor) else args
    if not (isinstance(inputs, tuple) and all(isinstance(item, gl.Tensor) for item in inputs)):
        return "non-full backward hooks on a Module that does not take a single Tensor or a tuple of Tensors"
    if any(item.grad_fn is not None and item.grad_fn is not node for item in outputs):
        return "a non-full backward hook when outputs are generated by different autograd Nodes"
    if {item.grad_fn for item in inputs} - {None} != {entry[0] for entry in node.next_functions}:
        return "a non-full backward hook when the forward contains multiple autograd Nodes"
    return None
