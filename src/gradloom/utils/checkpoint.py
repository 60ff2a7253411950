"""Checkpoints: parts of a program whose intermediate tensors are recomputed in backward; see Note [Recomputation]."""

from __future__ import annotations

import contextlib
import functools
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from .. import autograd
from ..autograd.function import Function
from ..autograd.grad_mode import enable_grad, is_grad_enabled, no_grad
from ..core.tensor import Tensor
from ..dispatch.state import state
from ._recomputation import CheckpointError, Conditions, GraphExecGroup, Part, Settings

if TYPE_CHECKING:
    from ._selective_checkpoint import (
        SAC_IGNORED_OPS,
        CheckpointPolicy,
        SelectiveCheckpointContext,
        create_selective_checkpoint_contexts,
    )

__all__ = [
    "CheckpointError",
    "CheckpointFunction",
    "CheckpointPolicy",
    "DefaultDeviceType",
    "GraphExecGroup",
    "SAC_IGNORED_OPS",
    "SelectiveCheckpointContext",
    "check_backward_validity",
    "checkpoint",
    "checkpoint_sequential",
    "create_selective_checkpoint_contexts",
    "detach_variable",
    "get_device_states",
    "noop_context_fn",
    "set_checkpoint_debug_enabled",
    "set_checkpoint_early_stop",
    "set_device_states",
]
# Names that need dispatch modes, which are imported on first use.
_SELECTIVE = frozenset(
    """
    CheckpointPolicy SAC_IGNORED_OPS SelectiveCheckpointContext _CachedTorchDispatchMode _CachingTorchDispatchMode
    _policy_from_bool create_selective_checkpoint_contexts
    """.split()
)


def noop_context_fn() -> tuple[Any, Any]:
    """Return the two contexts of a checkpoint that needs none."""
    return contextlib.nullcontext(), contextlib.nullcontext()


class _CheckpointedFunction:
    """A function, or a method, each of whose calls is checkpointed."""

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]) -> None:
        self.function, self.checkpoint_kwargs = function, options
        functools.update_wrapper(self, function, updated=())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return _checkpoint(self.function, args, kwargs, **self.checkpoint_kwargs)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None or not hasattr(self.function, "__get__"):
            return self
        return _CheckpointedFunction(self.function.__get__(instance, owner), self.checkpoint_kwargs)


def checkpoint(
    function: Callable[..., Any] | None = None,
    *args: Any,
    use_reentrant: bool | None = None,
    preserve_rng_state: bool = True,
    context_fn: Callable[[], tuple[Any, Any]] = noop_context_fn,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    respect_saved_tensors_hooks: bool | None = None,
    **kwargs: Any,
) -> Any:
    """Run `function(*args, **kwargs)` and keep only its inputs; backward recomputes the rest.

    Without a function, return a decorator: `@checkpoint(use_reentrant=False)`.

    Args:
        function: part of the program. It must do the same each time it runs with the same inputs.
        use_reentrant: False is recommended. True runs the part without recording and needs an input that requires grad;
            it is PyTorch's default, with a warning.
        context_fn: returns two context managers, for the first run and for recomputation.
        determinism_check: "default" compares shapes, dtypes and devices of the tensors saved by both runs, "none" does
            not.
        debug: list the tensors saved by both runs in the error about a difference.
        early_stop: stop the recomputation once everything needed has been computed.
        preserve_rng_state: draw the same random numbers in both runs.
        respect_saved_tensors_hooks: whether what a selective checkpoint keeps passes through the hooks of
            `saved_tensors_hooks`. None: it does not, with a warning.

    Returns:
        The result of `function`.

    Raises:
        ValueError: for keywords that the reentrant variant does not take.
        CheckpointError: in backward, if the recomputation saved other tensors.
    """
    options: dict[str, Any] = {
        "use_reentrant": use_reentrant,
        "preserve_rng_state": preserve_rng_state,
        "context_fn": context_fn,
        "determinism_check": determinism_check,
        "debug": debug,
        "early_stop": early_stop,
        "respect_saved_tensors_hooks": respect_saved_tensors_hooks,
    }
    if function is None and not args:
        if kwargs:
            raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
        return lambda decorated: _CheckpointedFunction(decorated, options)
    return _checkpoint(function, args, kwargs, **options)


def _checkpoint(
    function: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    *,
    use_reentrant: bool | None,
    preserve_rng_state: bool,
    context_fn: Callable[[], tuple[Any, Any]],
    determinism_check: str,
    debug: bool,
    early_stop: bool,
    respect_saved_tensors_hooks: bool | None,
) -> Any:
    if use_reentrant is None:
        warnings.warn(
            "torch.utils.checkpoint: the use_reentrant parameter should be passed explicitly: "
            "use_reentrant=False is recommended, use_reentrant=True is what happens without it.",
            stacklevel=3,
        )
        use_reentrant = True
    if use_reentrant:
        if kwargs:
            raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
        if context_fn is not noop_context_fn or debug or respect_saved_tensors_hooks is not None:
            raise ValueError(
                "Passing `context_fn`, `debug`, or `respect_saved_tensors_hooks` is only supported when "
                "use_reentrant=False."
            )
        return CheckpointFunction.apply(function, preserve_rng_state, *args)
    if determinism_check not in ("default", "none"):
        raise ValueError(f"determinism_check should be one of ['default', 'none'], but got {determinism_check}")
    forward_context, recompute_context = context_fn()
    if hasattr(forward_context, "respect_saved_tensors_hooks"):  # that of a selective checkpoint
        forward_context.respect_saved_tensors_hooks = respect_saved_tensors_hooks
    if not is_grad_enabled():
        with forward_context:
            return function(*args, **kwargs)
    part = Part(function, args, kwargs, recompute_context, preserve_rng_state)
    part.checks = determinism_check == "default"
    part.debug = debug if Settings.debug is None else Settings.debug
    part.early_stop = early_stop and Settings.early_stop
    with part.recording(), forward_context:
        return function(*args, **kwargs)


class set_checkpoint_early_stop:
    """Context manager that sets whether checkpoints stop their recomputation early."""

    before: bool

    def __init__(self, enable: bool) -> None:
        self.enable = enable

    def __enter__(self) -> None:
        self.before, Settings.early_stop = Settings.early_stop, self.enable

    def __exit__(self, *exception: object) -> None:
        Settings.early_stop = self.before


class set_checkpoint_debug_enabled:
    """Context manager that overrides `debug` of the checkpoints within; None leaves it to each of them."""

    before: bool | None

    def __init__(self, enabled: bool | None) -> None:
        self.enabled = enabled

    def __enter__(self) -> None:
        self.before, Settings.debug = Settings.debug, self.enabled

    def __exit__(self, *exception: object) -> None:
        Settings.debug = self.before


class DefaultDeviceType:
    """Device type whose random states a reentrant checkpoint keeps if its inputs do not determine it."""

    _type = "cpu"

    @staticmethod
    def set_device_type(device: str = "cpu") -> None:
        """Set the device type."""
        DefaultDeviceType._type = device

    @staticmethod
    def get_device_type() -> str:
        """Return the device type."""
        return DefaultDeviceType._type


def get_device_states(*args: Any) -> tuple[list[int], list[Tensor]]:
    """Return the devices other than the CPU among the arguments' tensors, and their random states: none."""
    return [], []


def set_device_states(devices: Sequence[int], states: Sequence[Tensor], *, device_type: str | None = None) -> None:
    """Set random states of devices other than the CPU.

    Args:
        devices, states: the results of `get_device_states`.
        device_type: device type.

    Raises:
        RuntimeError: for any device: gradloom computes on the CPU.
    """
    if devices:
        raise RuntimeError(
            "gradloom computes on the CPU, whose random state set_rng_state sets; there are no other "
            f"devices {list(devices)}"
        )


def detach_variable(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Detach the Tensors of a tuple, keeping requires_grad; return other values as they are."""
    if not isinstance(inputs, tuple):
        raise RuntimeError(f"Only tuple of tensors is supported. Got Unsupported input type: {type(inputs).__name__}")
    return tuple([x.detach().requires_grad_(x.requires_grad) if isinstance(x, Tensor) else x for x in inputs])


def check_backward_validity(inputs: Sequence[Any]) -> None:
    """Warn if no input requires grad, so that a reentrant checkpoint records nothing."""
    if not any(x.requires_grad for x in inputs if isinstance(x, Tensor)):
        warnings.warn("None of the inputs have requires_grad=True. Gradients will be None", stacklevel=4)


class CheckpointFunction(Function):
    """Reentrant checkpoint; see Note [Recomputation]."""

    @staticmethod
    def forward(ctx: Any, run_function: Any, preserve_rng_state: bool, *args: Any) -> Any:
        check_backward_validity(args)
        ctx.run_function = run_function
        ctx.conditions = Conditions(preserve_rng_state)
        ctx.places = [i for i, a in enumerate(args) if isinstance(a, Tensor)]
        ctx.inputs = [None if isinstance(a, Tensor) else a for a in args]
        ctx.save_for_backward(*[args[i] for i in ctx.places])
        with no_grad():
            return run_function(*args)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        if not _runs_everything():
            raise RuntimeError(
                "When use_reentrant=True, torch.utils.checkpoint is incompatible with .grad() or "
                "passing an `inputs` parameter to .backward(). To resolve this error, you can either "
                "set use_reentrant=False, or call .backward() without passing the `inputs` argument."
            )
        inputs = list(ctx.inputs)
        for i, tensor in zip(ctx.places, ctx.saved_tensors, strict=True):
            inputs[i] = tensor
        detached = detach_variable(tuple(inputs))
        with enable_grad(), ctx.conditions.again():
            outputs = ctx.run_function(*detached)
        outputs = (outputs,) if isinstance(outputs, Tensor) else outputs
        pairs = [(o, g) for o, g in zip(outputs, grads, strict=True) if isinstance(o, Tensor) and o.requires_grad]
        if not pairs:
            raise RuntimeError("none of output has requires_grad=True, this checkpoint() is not necessary")
        autograd.backward([o for o, _ in pairs], [g for _, g in pairs])
        return (None, None, *[x.grad if isinstance(x, Tensor) else None for x in detached])


def _runs_everything() -> bool:
    """Return whether the backward pass accumulates into all leaves, rather than computing selected gradients."""
    task = state.graph_task
    return task is None or task.plan is None


def checkpoint_sequential(
    functions: Any, segments: int, input: Any, use_reentrant: bool | None = None, **kwargs: Any
) -> Any:
    """Run functions one after another in `segments` parts, all but the last checkpointed.

    Args:
        functions: a Sequential, or a list of modules and functions of one argument.
        segments: number of parts.
        input: argument of the first function.
        use_reentrant, preserve_rng_state: as for `checkpoint`.

    Raises:
        ValueError: for other keywords, or more segments than functions.
    """
    if use_reentrant is None:
        warnings.warn(
            "torch.utils.checkpoint.checkpoint_sequential: the use_reentrant parameter should be passed "
            "explicitly: use_reentrant=False is recommended.",
            stacklevel=2,
        )
        use_reentrant = True
    preserve = kwargs.pop("preserve_rng_state", True)
    if kwargs:
        raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
    steps = list(functions.children()) if hasattr(functions, "children") else list(functions)
    if not 1 <= segments <= len(steps):
        raise ValueError(f"segments should be between 1 and the number of functions, {len(steps)}, but got {segments}")
    size = len(steps) // segments

    def runner(part: list) -> Callable:
        def run(value: Any) -> Any:
            for step in part:
                value = step(value)
            return value

        return run

    for start in range(0, size * (segments - 1), size):
        input = checkpoint(
            runner(steps[start : start + size]), input, use_reentrant=use_reentrant, preserve_rng_state=preserve
        )
    return runner(steps[size * (segments - 1) :])(input)


if not TYPE_CHECKING:

    def __getattr__(name):
        if name in _SELECTIVE:
            from . import _selective_checkpoint

            return getattr(_selective_checkpoint, name)
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
