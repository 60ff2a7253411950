"""Recomputation of a checkpointed part of a program under the conditions of its first run.

Note [Recomputation]
Without reentrance, the part runs under saved-tensor hooks that keep only the metadata of each saved tensor and its
position in the order of saving (a `_Place`). When backward first requests one of them, the part runs again under other
hooks, which collect the tensors saved now; the one at the same position is returned. The part's inputs are saved like a
node's, under the hooks that surround the part: within another checkpoint they are recomputed in turn, so that nested
checkpoints keep only the inputs of the outermost.

With reentrance, the part is a custom Function that runs without recording; its backward records it anew and runs a
backward pass of its own.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, Self
from weakref import WeakKeyDictionary

from ..autograd.grad_mode import enable_grad
from ..autograd.graph import saved_tensors_hooks
from ..core.saved_variable import SavedVariable
from ..core.tensor import Tensor
from ..dispatch.state import AUTOCAST, state
from ..random import get_rng_state, set_rng_state


class CheckpointError(RuntimeError):
    """The recomputation saved other tensors than the first run."""

    __module__ = "gradloom.utils.checkpoint"


class Settings:
    """Settings of the checkpoint module's `with` blocks."""

    early_stop = True
    debug: bool | None = None


class _Place:
    """Replaces a saved tensor in a node: the part, and the tensor's position among its saved tensors."""

    __slots__ = ("part", "number", "__weakref__")

    def __init__(self, part: Part, number: int) -> None:
        self.part, self.number = part, number


class _Enough(Exception):
    """Raised to end a recomputation that has saved all requested tensors."""


class Conditions:
    """State that a part's results depend on besides its inputs: random numbers and autocast."""

    def __init__(self, preserve: bool) -> None:
        self.random = get_rng_state() if preserve else None
        told = state.autocast
        self.casts = None if told is None else (told.dtypes["cpu"], bool(state.flags & AUTOCAST), told.caches)

    @contextlib.contextmanager
    def again(self) -> Iterator[None]:
        """Restore the conditions for a block."""
        now = get_rng_state() if self.random is not None else None
        try:
            if self.random is not None:
                set_rng_state(self.random)
            with self._autocast():
                yield
        finally:
            if now is not None:
                set_rng_state(now)

    def _autocast(self) -> contextlib.AbstractContextManager[Any]:
        if self.casts is None and state.autocast is None:  # never used in this thread
            return contextlib.nullcontext()
        from ..amp.autocast_mode import autocast

        dtype, enabled, caches = self.casts or (None, False, True)
        return autocast("cpu", dtype=dtype, enabled=enabled, cache_enabled=caches)


class GraphExecGroup:
    """Context manager in which several backward passes share one recomputation of a part.

    They must not need the same saved tensors: each is returned once.
    """

    __module__ = "gradloom.utils.checkpoint"

    def __enter__(self) -> Self:
        outer = self._get_current_group()
        if outer is not None:
            raise RuntimeError(f"GraphExecGroup contexts cannot be nested. Already inside group {outer}")
        state.__dict__["recomputation_group"] = self
        return self

    def __exit__(self, *exception: object) -> None:
        del state.__dict__["recomputation_group"]

    @classmethod
    def _get_current_group(cls) -> GraphExecGroup | None:
        """Return this thread's group, or None."""
        return state.__dict__.get("recomputation_group")


class Part:
    """A part of a program that is recomputed."""

    def __init__(self, function: Callable[..., Any], args: tuple, kwargs: dict, context: Any, preserve: bool) -> None:
        self.function, self.context = function, context
        self.args = tuple([_kept(a) for a in args])
        self.kwargs = {name: _kept(a) for name, a in kwargs.items()}
        self.conditions = Conditions(preserve)
        self.looks: list[str] = []  # metadata of each saved tensor, in the order of saving
        self.found: dict[int, dict[int, Tensor]] = {}  # pass -> number -> tensor
        self.found_in: WeakKeyDictionary[GraphExecGroup, dict[int, Tensor]] = WeakKeyDictionary()
        self.early_stop, self.checks, self.debug = True, True, False

    def recording(self) -> saved_tensors_hooks:
        """Return the saved-tensor hooks of the first run."""

        def pack(tensor: Tensor) -> _Place:
            self.looks.append(_look(tensor))
            return _Place(self, len(self.looks) - 1)

        pack.part = self  # type: ignore[attr-defined]  # tells these hooks from a user's
        return saved_tensors_hooks(pack, lambda place: place.part.tensor(place.number))

    def tensor(self, number: int) -> Tensor:
        """Return a saved tensor, recomputed once per pass; outside of a pass, at each access.

        Raises CheckpointError if a pass needs it twice.
        """
        task, group = state.graph_task, GraphExecGroup._get_current_group()
        if task is None:
            return self.run()[number]
        if group is not None:
            return self.shared(group, number)
        for finished in [key for key in self.found if key != task.id and not _is_running(key)]:
            del self.found[finished]
        found = self.found.get(task.id)
        if found is None:
            found = self.found[task.id] = self.run()
        return _taken(found, number)

    def shared(self, group: GraphExecGroup, number: int) -> Tensor:
        """Return a saved tensor for one of several passes, recomputed once for all of them."""
        found = self.found_in.get(group)
        if found is None:
            found = self.found_in[group] = self.run()
        return _taken(found, number)

    def run(self) -> dict[int, Tensor]:
        """Run the part again; return what it saves, by position."""
        found: dict[int, Tensor] = {}
        looks: list[str] = []
        last = len(self.looks)

        def pack(tensor: Tensor) -> Tensor:
            if len(looks) == last:
                raise CheckpointError(
                    "torch.utils.checkpoint: trying to save more tensors during recomputation than "
                    "during the original forward pass." + self.told(looks)
                )
            found[len(looks)] = held = tensor.detach()
            looks.append(_look(tensor))
            if self.early_stop and len(looks) == last:
                raise _Enough
            return held

        args = tuple([_given(a) for a in self.args])
        kwargs = {name: _given(a) for name, a in self.kwargs.items()}
        with (
            self.conditions.again(),
            contextlib.suppress(_Enough),
            self.context,
            enable_grad(),
            saved_tensors_hooks(pack, lambda t: t),
        ):
            self.function(*args, **kwargs)
        self.compare(looks)
        return found

    def compare(self, looks: list[str]) -> None:
        """Raise CheckpointError if the recomputation saved other tensors than the first run."""
        if len(looks) != len(self.looks):
            raise CheckpointError(
                "torch.utils.checkpoint: A different number of tensors was saved during the original "
                "forward and recomputation.\n"
                f"Number of tensors saved during forward: {len(self.looks)}\n"
                f"Number of tensors saved during recomputation: {len(looks)}." + self.told(looks)
            )
        if self.checks and looks != self.looks:
            lines = [
                f"tensor at position {i}:\nsaved metadata: {a}\nrecomputed metadata: {b}"
                for i, (a, b) in enumerate(zip(self.looks, looks, strict=True))
                if a != b
            ]
            raise CheckpointError(
                "torch.utils.checkpoint: Recomputed values for the following tensors have different "
                "metadata than during the forward pass.\n" + "\n".join(lines) + "\n." + self.told(looks)
            )

    def told(self, looks: list[str]) -> str:
        if not self.debug:
            return (
                "\nTip: pass `debug=True` to checkpoint(...), or use set_checkpoint_debug_enabled(True), to see "
                "what either run saved."
            )
        return f"\nSaved in the original run:\n{_listed(self.looks)}\nSaved in the run in backward:\n{_listed(looks)}"


def _taken(found: dict[int, Tensor], number: int) -> Tensor:
    """Remove a recomputed tensor and return it."""
    if number not in found:
        raise CheckpointError(
            "torch.utils.checkpoint: Unpack is being triggered for a tensor that was already unpacked once. If you are "
            "calling ctx.saved_tensors in backward, make sure to do so only once. Within a GraphExecGroup, no two "
            "backward passes may need the same saved tensor."
        )
    return found.pop(number)


def _listed(looks: list[str]) -> str:
    return "\n".join(f"  {i}: {look}" for i, look in enumerate(looks)) or "  nothing"


def _look(tensor: Tensor) -> str:
    return str({"shape": tensor.shape, "dtype": tensor.dtype, "device": tensor.device})


def _kept(value: Any) -> Any:
    """Save an input as a node would, under the current hooks."""
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
