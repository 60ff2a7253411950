"""Recordings: what one call of a program did, without the values of its tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from weakref import ref

from ..core.tensor import Tensor
from ._numbers import FREE, Numbers

STANDS_FOR = -1  # in the place of a Slot's number: the function of what stands for a number


class TraceError(RuntimeError):
    """A program cannot be compiled; the message says why, and `where` in which line."""

    where = ""


class Slot:
    """A tensor of a recording, without its values.

    Attributes:
        number: its position among the recording's tensors.
    """

    __slots__ = ("number", "shape", "dtype")

    def __init__(self, number: int, tensor: Tensor) -> None:
        self.number, self.shape, self.dtype = number, tensor._array.shape, tensor._array.dtype

    def __repr__(self) -> str:
        return f"tensor{self.number}"


class Step:
    """A call of a function on tensors.

    Attributes:
        flags: the thread's GRAD_OFF bit.
        where: file and line of the program.
    """

    __slots__ = ("function", "args", "kwargs", "result", "flags", "where")

    def __init__(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], result: Any, flags: int,
        where: str,
    ) -> None:  # fmt: skip
        self.function, self.args, self.kwargs, self.result = function, args, kwargs, result
        self.flags, self.where = flags, where


class Recording:
    """What one call did, with Slots for tensors.

    Attributes:
        inputs: those that were not made in it, in the order of their first use.
        steps: what it called.
        outputs: those that it returned, each once.
        flags: the thread's GRAD_OFF bit when it began.
        numbers: those that are arguments of the graph; steps have FreeFloats and FreeInts for them.
    """

    def __init__(self, flags: int, numbers: Numbers) -> None:
        self.numbers = numbers
        self.inputs: list[Slot] = []
        self.steps: list[Step] = []
        self.outputs: list[Slot] = []
        self.flags = flags


def tensors_in(value: Any) -> Iterator[Tensor]:
    """Yield the tensors in nested tuples, lists and dictionaries."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (tuple, list)):
        for v in value:
            yield from tensors_in(v)
    elif isinstance(value, dict):
        for v in value.values():
            yield from tensors_in(v)


class Slots:
    """Slots for the tensors of a recording, which keeps none of them alive: a call needs no more memory for it.

    Attributes:
        known: identity of a tensor that lives -> its Slot.
    """

    def __init__(self) -> None:
        self.known: dict[int, Slot] = {}
        self._count = 0
        self._living: dict[int, Any] = {}

    def add(self, tensor: Tensor) -> Slot:
        """Return a new Slot for a tensor."""
        identity = id(tensor)

        def forget(_: Any) -> None:  # another tensor may get its identity
            self.known.pop(identity, None)
            self._living.pop(identity, None)

        self._living[identity] = ref(tensor, forget)
        slot = self.known[identity] = Slot(self._count, tensor)
        self._count += 1
        return slot

    def shown(self, value: Any) -> Any:
        """Return a copy of nested tuples, lists and dictionaries, with Slots in place of tensors."""
        if isinstance(value, Tensor):
            return self.known.get(id(value)) or self.add(value)
        cls = value.__class__
        if cls in (tuple, list):
            return cls([self.shown(v) for v in value])
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return tuple([self.shown(v) for v in value])
        if cls is dict:
            return {k: self.shown(v) for k, v in value.items()}
        if cls is slice:
            return slice(self.shown(value.start), self.shown(value.stop), self.shown(value.step))
        return value


def filled(value: Any, known: dict[int, Any]) -> Any:
    """Return nested containers with tensors in place of Slots, by their numbers.

    Under STANDS_FOR, `known` has a function of what stands for a number of the graph.
    """
    cls = value.__class__
    if cls is Slot:
        return known[value.number]
    if cls in (tuple, list):
        return cls([filled(v, known) for v in value])
    if cls is dict:
        return {k: filled(v, known) for k, v in value.items()}
    if cls is slice:
        return slice(filled(value.start, known), filled(value.stop, known), filled(value.step, known))
    if cls in FREE:
        return known[STANDS_FOR](value)
    return value


def learn(original: Any, found: Any, known: dict[int, Any]) -> None:
    """Note which tensor stands for each Slot of a result. Raises TraceError if it differs in shape or dtype."""
    if original.__class__ is Slot:
        if not isinstance(found, Tensor):
            raise TraceError("a function returned something else when it was called again")
        if found._array.shape != original.shape or found._array.dtype != original.dtype:
            raise TraceError("a function returned another shape or dtype when it was called again")
        known[original.number] = found
    elif original.__class__ in (tuple, list):
        for a, b in zip(original, found, strict=True):
            learn(a, b, known)
    elif original.__class__ is dict:
        for key, value in original.items():
            learn(value, found[key], known)
