"""Checkpoints: parts of a program whose intermediate tensors are computed again in backward instead of being kept.

Note [Recomputation]
Without reentrance, the part runs as it stands, under saved-tensor hooks that keep of each saved tensor
only its number in the order of saving (a `_Place`) and what it looked like. The first time that backward asks for one
of them, the part runs again under other hooks, which collect what is saved now; the tensor of the same number is the
one that was asked for. The part's own inputs are kept as a node keeps them, under the hooks that surround the part:
within another checkpoint they are computed again in turn, so that nested checkpoints keep no more than the outermost's
inputs.

With reentrance, the part is a custom Function that runs without recording, and whose backward records it anew and runs
a backward pass of its own.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from .. import autograd
from ..autograd.function import Function
from ..autograd.grad_mode import enable_grad, is_grad_enabled, no_grad
from ..autograd.graph import saved_tensors_hooks
from ..autograd.saved_variable import SavedVariable
from ..dispatch import state
from ..generator import get_rng_state, set_rng_state
from ..tensor import Tensor

__all__ = ["CheckpointError", "CheckpointFunction", "check_backward_validity", "checkpoint", "checkpoint_sequential",
           "detach_variable", "noop_context_fn", "set_checkpoint_debug_enabled", "set_checkpoint_early_stop"]


class CheckpointError(RuntimeError):
    """A part did not save the same tensors when it was run again."""


class _Settings:
    early_stop = True
    debug: bool | None = None


def noop_context_fn() -> tuple[Any, Any]:
    """The contexts of a checkpoint that asks for none."""
    return contextlib.nullcontext(), contextlib.nullcontext()


def checkpoint(function: Callable[..., Any], *args: Any, use_reentrant: bool | None = None,
               context_fn: Callable[[], tuple[Any, Any]] = noop_context_fn, determinism_check: str = "default",
               debug: bool = False, early_stop: bool = True, **kwargs: Any) -> Any:
    """Run `function(*args, **kwargs)` and keep its inputs only; backward computes the rest again.

    Args:
        function: the part of the program. It must do the same each time it runs with the same inputs.
        use_reentrant: False is recommended. True runs the part without recording it and needs an input that requires
            grad; it is what PyTorch does, with a warning, when nothing is said.
        context_fn: returns two context managers: one for the first run, one for the runs in backward.
        determinism_check: "default" compares shapes, dtypes and devices of what both runs save, "none" does not.
        debug: add to the error about a difference what was saved by either run.
        early_stop: stop a run in backward when everything that is needed has been computed.
        preserve_rng_state: (keyword) draw the same random numbers in both runs; default True.

    Returns:
        What `function` returns.

    Raises:
        ValueError: for keywords that the reentrant variant does not know.
        CheckpointError: in backward, if the part saved other tensors than in the first run.
    """
    if use_reentrant is None:
        warnings.warn("torch.utils.checkpoint: the use_reentrant parameter should be passed explicitly: "
                      "use_reentrant=False is recommended, use_reentrant=True is what happens without it.",
                      stacklevel=2)
        use_reentrant = True
    preserve = kwargs.pop("preserve_rng_state", True)
    if use_reentrant:
        if kwargs:
            raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
        if context_fn is not noop_context_fn or debug:
            raise ValueError("Passing `context_fn` or `debug` is only supported when use_reentrant=False.")
        return CheckpointFunction.apply(function, preserve, *args)
    if determinism_check not in ("default", "none"):
        raise ValueError(f"determinism_check should be one of ['default', 'none'], not {determinism_check!r}")
    forward_context, recompute_context = context_fn()
    if not is_grad_enabled():
        with forward_context:
            return function(*args, **kwargs)
    part = _Part(function, args, kwargs, recompute_context, preserve)
    part.checks = determinism_check == "default"
    part.debug = debug if _Settings.debug is None else _Settings.debug
    part.early_stop = early_stop and _Settings.early_stop
    with part.recording(), forward_context:
        return function(*args, **kwargs)


class _Place:
    """What a node keeps instead of a tensor: which of the part's saved tensors it is."""

    __slots__ = ("part", "number", "__weakref__")

    def __init__(self, part: _Part, number: int) -> None:
        self.part, self.number = part, number


class _Enough(Exception):
    """Ends a run in backward: everything has been computed."""


class _Part:
    """A part of a program that is run again."""

    def __init__(self, function: Callable[..., Any], args: tuple, kwargs: dict, context: Any, preserve: bool) -> None:
        self.function, self.context = function, context
        self.args = tuple([_kept(a) for a in args])
        self.kwargs = {name: _kept(a) for name, a in kwargs.items()}
        self.random = get_rng_state() if preserve else None
        self.looks: list[str] = []      # of each saved tensor, in the order of saving
        self.found: dict[int, dict[int, Tensor]] = {}  # pass -> number -> tensor
        self.early_stop, self.checks, self.debug = True, True, False

    def recording(self) -> saved_tensors_hooks:
        """The hooks of the first run."""
        def pack(tensor: Tensor) -> _Place:
            self.looks.append(_look(tensor))
            return _Place(self, len(self.looks) - 1)

        return saved_tensors_hooks(pack, lambda place: place.part.tensor(place.number))

    def tensor(self, number: int) -> Tensor:
        """A saved tensor, computed again once for each pass; outside of a pass, for each look at it."""
        task = state.graph_task
        if task is None:
            return self.run()[number]
        for finished in [key for key in self.found if key != task.id and not _is_running(key)]:
            del self.found[finished]
        found = self.found.get(task.id)
        if found is None or number not in found:
            found = self.found[task.id] = self.run()
        tensor = found[number]
        if not task.keep_graph:
            del found[number]
        return tensor

    def run(self) -> dict[int, Tensor]:
        """Run the part again: what it saves, by number."""
        found: dict[int, Tensor] = {}
        looks: list[str] = []
        last = len(self.looks)

        def pack(tensor: Tensor) -> Tensor:
            if len(looks) == last:
                raise CheckpointError("torch.utils.checkpoint: trying to save more tensors during recomputation than "
                                      "during the original forward pass." + self.told(looks))
            found[len(looks)] = held = tensor.detach()
            looks.append(_look(tensor))
            if self.early_stop and len(looks) == last:
                raise _Enough
            return held

        args = tuple([_given(a) for a in self.args])
        kwargs = {name: _given(a) for name, a in self.kwargs.items()}
        now = get_rng_state() if self.random is not None else None
        try:
            if self.random is not None:
                set_rng_state(self.random)
            with contextlib.suppress(_Enough), self.context, enable_grad(), saved_tensors_hooks(pack, lambda t: t):
                self.function(*args, **kwargs)
        finally:
            if now is not None:
                set_rng_state(now)
        self.compare(looks)
        return found

    def compare(self, looks: list[str]) -> None:
        """Raise if the second run saved other tensors than the first."""
        if len(looks) != len(self.looks):
            raise CheckpointError("torch.utils.checkpoint: A different number of tensors was saved during the original "
                                  "forward and recomputation.\n"
                                  f"Number of tensors saved during forward: {len(self.looks)}\n"
                                  f"Number of tensors saved during recomputation: {len(looks)}." + self.told(looks))
        if self.checks and looks != self.looks:
            lines = [f"tensor at position {i}:\nsaved metadata: {a}\nrecomputed metadata: {b}"
                     for i, (a, b) in enumerate(zip(self.looks, looks, strict=True)) if a != b]
            raise CheckpointError("torch.utils.checkpoint: Recomputed values for the following tensors have different "
                                  "metadata than during the forward pass.\n" + "\n".join(lines) + self.told(looks))

    def told(self, looks: list[str]) -> str:
        if not self.debug:
            return ("\nTip: pass `debug=True` to checkpoint(...), or use set_checkpoint_debug_enabled(True), to see "
                    "what either run saved.")
        return f"\nSaved in the original run:\n{_listed(self.looks)}\nSaved in the run in backward:\n{_listed(looks)}"


def _listed(looks: list[str]) -> str:
    return "\n".join(f"  {i}: {look}" for i, look in enumerate(looks)) or "  nothing"


def _look(tensor: Tensor) -> str:
    return str({"shape": tensor.shape, "dtype": tensor.dtype, "device": tensor.device})


def _kept(value: Any) -> Any:
    """An input as a node would save it, under the hooks that are in force here."""
    return SavedVariable(value) if isinstance(value, Tensor) and not value._inference else value


def _given(value: Any) -> Any:
    return value.unpack(None) if value.__class__ is SavedVariable else value


def _is_running(task_id: int) -> bool:
    task = state.graph_task
    while task is not None:
        if task.id == task_id:
            return True
        task = task.outer
    return False


class set_checkpoint_early_stop:
    """A `with` block in which checkpoints do (or do not) stop a run in backward as soon as they can."""

    def __init__(self, enable: bool) -> None:
        self.enable = enable

    def __enter__(self) -> None:
        self.before, _Settings.early_stop = _Settings.early_stop, self.enable

    def __exit__(self, *exception: object) -> None:
        _Settings.early_stop = self.before


class set_checkpoint_debug_enabled:
    """A `with` block that overrides the `debug` of the checkpoints in it; None leaves it to each of them."""

    def __init__(self, enabled: bool | None) -> None:
        self.enabled = enabled

    def __enter__(self) -> None:
        self.before, _Settings.debug = _Settings.debug, self.enabled

    def __exit__(self, *exception: object) -> None:
        _Settings.debug = self.before


def detach_variable(inputs: tuple) -> tuple:
    """The Tensors of a tuple without their history, with requires_grad as before; other values as they are."""
    if not isinstance(inputs, tuple):
        raise RuntimeError(f"Only tuple of tensors is supported. Got Unsupported input type: {type(inputs).__name__}")
    return tuple([x.detach().requires_grad_(x.requires_grad) if isinstance(x, Tensor) else x for x in inputs])


def check_backward_validity(inputs: Sequence) -> None:
    """Warn if no input requires grad, so that a reentrant checkpoint records nothing."""
    if not any(x.requires_grad for x in inputs if isinstance(x, Tensor)):
        warnings.warn("None of the inputs have requires_grad=True. Gradients will be None", stacklevel=4)


class CheckpointFunction(Function):
    """The reentrant variant: see Note [Recomputation]."""

    @staticmethod
    def forward(ctx, run_function, preserve_rng_state, *args):
        check_backward_validity(args)
        ctx.run_function = run_function
        ctx.random = get_rng_state() if preserve_rng_state else None
        ctx.places = [i for i, a in enumerate(args) if isinstance(a, Tensor)]
        ctx.inputs = [None if isinstance(a, Tensor) else a for a in args]
        ctx.save_for_backward(*[args[i] for i in ctx.places])
        with no_grad():
            return run_function(*args)

    @staticmethod
    def backward(ctx, *grads):
        if not _runs_everything():
            raise RuntimeError("When use_reentrant=True, torch.utils.checkpoint is incompatible with .grad() or "
                               "passing an `inputs` parameter to .backward(). To resolve this error, you can either "
                               "set use_reentrant=False, or call .backward() without passing the `inputs` argument.")
        inputs = list(ctx.inputs)
        for i, tensor in zip(ctx.places, ctx.saved_tensors, strict=True):
            inputs[i] = tensor
        detached = detach_variable(tuple(inputs))
        now = get_rng_state() if ctx.random is not None else None
        try:
            if ctx.random is not None:
                set_rng_state(ctx.random)
            with enable_grad():
                outputs = ctx.run_function(*detached)
        finally:
            if now is not None:
                set_rng_state(now)
        outputs = (outputs,) if isinstance(outputs, Tensor) else outputs
        pairs = [(o, g) for o, g in zip(outputs, grads, strict=True) if isinstance(o, Tensor) and o.requires_grad]
        if not pairs:
            raise RuntimeError("none of output has requires_grad=True, this checkpoint() is not necessary")
        autograd.backward([o for o, _ in pairs], [g for _, g in pairs])
        return (None, None, *[x.grad if isinstance(x, Tensor) else None for x in detached])


def _runs_everything() -> bool:
    """Whether the backward pass accumulates into all leaves, rather than computing some gradients only."""
    task = state.graph_task
    return task is None or task.plan is None


def checkpoint_sequential(functions: Any, segments: int, input: Any, use_reentrant: bool | None = None,
                          **kwargs: Any) -> Any:
    """Run functions one after another, in `segments` parts of which each but the last is checkpointed.

    Args:
        functions: a Sequential, or a list of Modules and functions of one argument.
        segments: into how many parts they are divided.
        input: what the first gets.
        use_reentrant, preserve_rng_state: see checkpoint.

    Raises:
        ValueError: for other keywords.
    """
    if use_reentrant is None:
        warnings.warn("torch.utils.checkpoint.checkpoint_sequential: the use_reentrant parameter should be passed "
                      "explicitly: use_reentrant=False is recommended.", stacklevel=2)
        use_reentrant = True
    preserve = kwargs.pop("preserve_rng_state", True)
    if kwargs:
        raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
    steps = list(functions.children()) if hasattr(functions, "children") else list(functions)
    size = len(steps) // segments

    def runner(part: list) -> Callable:
        def run(value: Any) -> Any:
            for step in part:
                value = step(value)
            return value
        return run

    for start in range(0, size * (segments - 1), size):
        input = checkpoint(runner(steps[start:start + size]), input, use_reentrant=use_reentrant,
                           preserve_rng_state=preserve)
    return runner(steps[size * (segments - 1):])(input)
