"""Kernels of traced calls without values: only the geometry of the results, and no memory.

Note [Tracing without values]
The tracer needs the sizes, strides, dtypes and aliases of an operator's results, and no values. So it asks the rules of
the meta device for them (Note [Meta runs]). Results lie in memory that does not exist, of which views can be taken by
the operators' own kernels. What the rules cannot tell, and code of the library that reads values, raise `NeedsValues`;
the program is then traced once more, with the values of the call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from ..core.tensor import Tensor, wrap
from ..dispatch.interception import Call
from ..dispatch.records import record_of
from ..dispatch.state import AUTOCAST, FORWARD_AD, GIVEN_RESULT, GRAD_OFF, INTERCEPT, REDISPATCH, state
from ..memory.metadata import ImaginaryBytes, MetaArray
from ..meta.arrays import UnannouncedWriteError
from ..meta.handler import parameters
from ..meta.runs import Conduct, compute
from ..meta.tensor import wrap_meta
from ._graph import same_layout, size_of
from ._numbers import plain

_VIEWS = ("view", "large.parts")  # rules of views, and of views that autograd takes for new tensors
_PAGE = np.zeros(64, np.uint8)
_START = _PAGE.__array_interface__["data"][0]


class NeedsValues(Exception):
    """The geometry of a result is not known without values."""


def is_view(wrapper: Any) -> bool:
    """Return whether the kernel of an operator only takes views of its first argument."""
    record = record_of(wrapper)
    return record is not None and record.shape != () and record.shape[0] in _VIEWS


def _is_dense(array: Any) -> bool:
    strides = _dense(array.shape, array.strides, array.itemsize)
    return same_layout(array.shape, array.strides, array.shape, strides)


def imaginary(shape: tuple[int, ...], strides: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
    """Return an array that must not be read, dense, with its dimensions in the order of the strides."""
    count = size_of(shape)
    if not count:
        return np.ndarray(shape, dtype)
    memory = np.asarray(ImaginaryBytes(_START, count * dtype.itemsize))
    return np.ndarray(shape, dtype, memory, 0, _dense(shape, strides, dtype.itemsize))


def _dense(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    found, step = [0] * len(shape), itemsize
    for d in sorted(range(len(shape)), key=lambda d: (strides[d], -d)):
        found[d] = step
        step *= shape[d]
    return tuple(found)


class Geometry:
    """The results of operators on arrays in memory that does not exist; remembers what it found."""

    def __init__(self) -> None:
        self.found: dict[Any, tuple[Any, tuple[int, ...]]] = {}

    def results_of(
        self, call: Call, name: str, written: tuple[int, ...], real: Callable[[Any], np.ndarray | None]
    ) -> tuple[Any, tuple[int, ...]]:
        """Return tensors with the geometry of what a call gives; and the positions of the arguments that it writes to.

        Args:
            written: positions that its schema announces.
            real: returns the array behind a traced tensor, None for other tensors.

        Raises:
            NeedsValues: if it cannot be told.
        """
        arrays: list[np.ndarray] = []
        others: list[Tensor] = []  # tensors with values, on which the geometry may depend

        def signed(value: Any) -> Any:
            if isinstance(value, Tensor):
                array = real(value)
                if array is None:
                    if value._wrapped_number is None:
                        others.append(value)
                    number = plain(value._wrapped_number)
                    return number.__class__, number, value._array.dtype
                position = next((i for i, a in enumerate(arrays) if a is array), len(arrays))
                arrays.append(array)
                return position, array.shape, array.strides, array.dtype
            if value.__class__ in (tuple, list):
                return (value.__class__, *[signed(v) for v in value])
            return value.__class__, plain(value)

        key = call.wrapper, *[signed(a) for a in call.args]
        try:
            known = None if others else self.found.get(key)
        except TypeError:  # an argument that has no hash
            form, written = _computed(call, name, written, real)
            return _made(form, written, arrays)
        if known is None:
            known = _computed(call, name, written, real)
            if not others:
                self.found[key] = known
        form, written = known
        return _made(form, written, arrays)


class _Argument(NamedTuple):
    """In place of a result that is an argument: its number among the traced tensors of the call."""

    number: int


def _made(form: Any, written: tuple[int, ...], arrays: list[np.ndarray]) -> tuple[Any, tuple[int, ...]]:
    """Return a result from its form: a MetaArray or an _Argument for each tensor."""

    def each(value: Any) -> Any:
        if value.__class__ is MetaArray:
            return wrap(imaginary(value.shape, value.strides, value.dtype))
        if value.__class__ is _Argument:
            return wrap(arrays[value.number])
        if value.__class__ in (tuple, list):
            return value.__class__([each(v) for v in value])
        return value

    return each(form), written


def _computed(
    call: Call, name: str, written: tuple[int, ...], real: Callable[[Any], Any]
) -> tuple[Any, tuple[int, ...]]:
    """Return the form of a call's result, and what it writes to."""
    sources: list[Any] = []

    def shown(value: Any) -> Any:
        if isinstance(value, Tensor):
            array = real(value)
            if array is None:
                return value
            sources.append(wrap_meta(MetaArray(array.shape, array.dtype, array.strides if array.size else None)))
            return sources[-1]
        if value.__class__ in (tuple, list):
            return value.__class__([shown(v) for v in value])
        return value

    record = record_of(call.wrapper)
    if record is not None and record.family == "fft":
        raise NeedsValues(f"{name}: the layout of its result follows from how it is computed")
    args = tuple([shown(a) for a in call.args])
    found, written, aliases = _ruled(call, name, args, written)
    of = iter(aliases)
    overwritten = [args[i] for i in written if isinstance(args[i], Tensor)]

    def form(value: Any) -> Any:
        if isinstance(value, Tensor):
            array: Any = value._array
            if array.__class__ is not MetaArray or array.conj_bit or array.neg_bit:
                raise NeedsValues(f"{name} returns a tensor on another device, or with a conjugate or negative bit")
            source = next(of, None)
            if source is None:
                if not _is_dense(array):
                    raise NeedsValues(f"{name} returns a tensor with gaps")
                return array
            number = next((i for i, t in enumerate(sources) if t is source), -1)
            same = number >= 0 and (source._array.shape, source._array.dtype) == (array.shape, array.dtype)
            if not same or overwritten and not any(source is t for t in overwritten):
                raise NeedsValues(f"{name} returns a part of an argument")
            return _Argument(number)
        if value.__class__ in (tuple, list):
            return value.__class__([form(v) for v in value])
        return value

    return form(found), written


def _ruled(call: Call, name: str, args: tuple[Any, ...], written: tuple[int, ...]) -> Any:
    """Return a call's result on the meta device, the arguments that it writes to, and those that it returns."""
    values = dict(zip(parameters(call.wrapper), args, strict=False))

    def computed(written: Iterable[int]) -> tuple[Any, Conduct]:
        conduct = Conduct({id(args[i]) for i in written})
        return compute(Call(call.wrapper, args), name, values, conduct), conduct

    flags, tracer = state.flags, state.tracer
    state.tracer = None
    state.flags = (flags | GRAD_OFF) & ~(INTERCEPT | AUTOCAST | FORWARD_AD | REDISPATCH | GIVEN_RESULT)
    try:
        try:
            found, conduct = computed(written)
        except UnannouncedWriteError:
            written = tuple(sorted({*written, *_unannounced(args, computed)}))
            found, conduct = computed(written)
    except Exception as error:
        raise NeedsValues(f"{name}: {error}") from error
    finally:
        state.flags, state.tracer = flags, tracer
    return found, written, conduct.aliases


def _unannounced(args: tuple[Any, ...], computed: Callable[[Iterable[int]], Any]) -> Iterator[int]:
    """Yield the positions of arguments without which, as writable ones, a call raises."""
    tensors = [i for i, a in enumerate(args) if isinstance(a, Tensor)]
    for i in tensors:
        try:
            computed([j for j in tensors if j != i])
        except UnannouncedWriteError:
            yield i
