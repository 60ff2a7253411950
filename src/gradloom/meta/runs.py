"""The results of operators that compute: their kernel runs on small arrays that stand for those without data.

Note [Meta runs]
Shapes, dtypes, strides and errors come from the kernel itself, run on stand-ins:

- Most operators have results whose sizes are sizes of their arguments, or 1: elementwise functions, reductions,
  products of matrices, norms, losses, selection by indices. They do not tell one size from another, so that stand-ins
  may have other, small sizes in the same order (`Renamed`), and the sizes of the result are renamed back.
- Convolution, pooling, padding, concatenation and others compute sizes. They have a rule; see Note [Shape rules].
- Any other operator runs with two different renamings. Where the results do not agree, it runs on arrays of the true
  size, which are released at once, unless they are huge: that takes the operator's memory and time. Small calls do so
  at once.

Values of stand-ins are harmless: ones, identity matrices, the index 0. A kernel that raises for all of them refuses the
call. Sizes in its message are renamed back, or, for smaller calls, it runs on arrays of the true shape. No random
numbers are drawn.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..core.tensor import Tensor, wrap
from ..dispatch.interception import Call, call_wrapper
from ..dispatch.records import record_of
from ..dispatch.state import AUTOCAST, FORWARD_AD, GRAD_OFF, INTERCEPT, REDISPATCH, state
from ..kernels._common.numbers import asked
from ..kernels.random.streams import default_stream
from ..memory.metadata import MetaArray
from ..memory.ownership import owner
from .arrays import KEPT, ForeignSizeError, Renamed, UnannouncedWriteError, result, stand_in
from .rules import rule_of
from .tensor import wrap_meta

_MOST = 1 << 16  # elements of a call that is computed in its true size at once
_LONGEST = 1 << 8  # a number among the arguments, from which a factory may have more
_AFFORDABLE = 1 << 26  # elements of a call that may be computed in its true size at all
SECOND = 7  # distance of the small sizes in the second renaming


class Conduct:
    """What a kernel does with its arguments besides computing, as far as it was run.

    Args:
        written: arguments that it may write to, by identity.

    Attributes:
        aliases: for each tensor of the result, the argument that shares its memory, or None.
    """

    def __init__(self, written: set[int]) -> None:
        self.written = written
        self.aliases: list[Any] = []


def compute(call: Call, name: str, values: dict[str, Any], conduct: Conduct | None = None) -> Any:
    """Return the result of an operator, tensors of the meta device, from the geometry of its arguments.

    Args:
        conduct: filled.

    Raises:
        UnannouncedWriteError: with `conduct`, if the kernel writes to another argument.
    """
    run = Run(call, name, values)
    run.conduct = conduct
    if run.record is not None and run.record.shape:
        found = rule_of(run.record.shape)(run, values)
        if found is not NotImplemented:
            return found
    return run.result()


class Run:
    """The kernel of a call, run on stand-ins.

    Attributes:
        conduct: see `compute`.
        fills: values of stand-ins, in the order of trial; see `stand_in`.
    """

    conduct: Conduct | None = None
    fills: tuple[str, ...] = ("data", "ones", "zeros")

    def __init__(self, call: Call, name: str, values: dict[str, Any]) -> None:
        self.call, self.name, self.values = call, name, values
        self.record = record_of(call.wrapper)
        self.sizes = [n for t in call.tensors() for n in t._array.shape]
        self.numbers = set(_numbers(values.values()))
        size: Any = values.get("size")
        self.has_size = size.__class__ in (tuple, list) and "device" in values
        if self.has_size:
            self.sizes += list(size)

    def of(self, call: Call) -> Run:
        """Return the run of another call of the same operator."""
        return Run(call, self.name, dict(zip(self.values, call.args, strict=False)))

    def of_small_sizes(self) -> Any:
        """Return the result by small sizes, for an operator whose results have no others than its arguments."""
        return self.exact() if max(self.sizes, default=0) <= KEPT else self.renamed()

    def result(self) -> Any:
        """Return the result by the cheapest way that is right."""
        if max(self.sizes, default=0) <= KEPT:
            return self.exact()
        if self.has_size or self._is_like():
            return self.renamed()
        if self._elements() <= _MOST:
            return self.exact()
        try:
            first = self.attempt(Renamed(self.sizes, 1, self.numbers))
            second = self.attempt(Renamed(self.sizes, SECOND, self.numbers))
        except UnannouncedWriteError:
            raise
        except Exception:
            return self.refused()
        if _geometry_of(first) == _geometry_of(second):
            return first
        return self.refused()

    def is_large(self) -> bool:
        """Return whether the call is not run as it is."""
        numbers = [abs(v) for v in self.values.values() if v.__class__ is float]
        return self._elements() > _MOST or max(self.numbers.union(numbers), default=0) > _LONGEST

    def _is_like(self) -> bool:
        return "device" in self.values and any(True for _ in self.call.tensors())

    def _elements(self) -> int:
        return sum([t._array.size for t in self.call.tensors()])

    def renamed(self) -> Any:
        """Return the result by small sizes. Raises what the kernel raises for the true ones."""
        try:
            return self.attempt(Renamed(self.sizes, 1, self.numbers))
        except UnannouncedWriteError:
            raise
        except Exception:
            return self.refused()

    def refused(self) -> Any:
        """Raise what the kernel raises for the true sizes, which small sizes have shown to be wrong or not enough."""
        if self._elements() <= _AFFORDABLE:
            return self.exact()
        errors = []
        for step in (1, SECOND):
            sizes = Renamed(self.sizes, step, self.numbers)
            try:
                self.attempt(sizes)
            except ForeignSizeError:
                break
            except Exception as error:
                errors.append((error, sizes.large))
        if len(errors) == 2:
            raise type(errors[0][0])(_with_true_sizes(*errors))
        raise NotImplementedError(
            f"{self.name}: its result for tensors of the meta device of such a size cannot be told without memory of "
            "that size. Call it with smaller tensors, or register its shapes by gradloom.library.register_fake."
        )

    def check(self, dims: int) -> None:
        """Raise what the kernel raises for its settings, by images of few pixels: of the last `dims` dimensions."""
        sizes = [n for t in self.call.tensors() for n in t._array.shape]
        most = 32 + 2 * max([n for n in self.numbers if n <= 64], default=0)
        if max(self.numbers, default=0) > 64 and "output_size" not in self.values:
            return
        values = dict(self.values)
        if "output_size" in values:
            size = values["output_size"]
            values["output_size"] = min(size, most) if size.__class__ is int else [min(n, most) for n in size]
        run = self.of(Call(self.call.wrapper, tuple(values.values())))
        try:
            run.attempt(Renamed(sizes, 1, self.numbers, kept=dims, most=most))
        except ForeignSizeError:
            pass
        except Exception:
            self.refused()

    def below(self, function: Any) -> Any:
        """Call a function below autograd, without interception by modes."""
        flags = state.flags
        state.flags = (flags | GRAD_OFF) & ~(INTERCEPT | AUTOCAST | FORWARD_AD)
        try:
            return function()
        finally:
            state.flags = flags

    def exact(self) -> Any:
        """Return the result by arrays of the true sizes."""
        return self.attempt(Renamed(()))

    def attempt(self, sizes: Renamed) -> Any:
        """Return the result by some sizes, with the first values for which the kernel does not raise."""
        error: Exception | None = None
        for fill in self.fills:
            try:
                return self._grown(self._called(sizes, fill), sizes)
            except (ForeignSizeError, UnannouncedWriteError):
                raise
            except Exception as found:
                error = error or found
        assert error is not None
        raise error

    def _called(self, sizes: Renamed, fill: str) -> Any:
        made: list[tuple[Any, Any]] = []
        conduct = self.conduct

        def small(value: Any) -> Any:
            if isinstance(value, Tensor):
                if not value.is_meta and not value._array.ndim:
                    return value
                out = wrap(_NOTHING)
                out._array = stand_in(value._array, sizes, fill)
                made.append((value, out._array))
                if conduct is not None and id(value) not in conduct.written:
                    out._array.flags.writeable = False
                return out
            if value.__class__ in (tuple, list) and any(isinstance(v, Tensor) for v in value):
                return value.__class__([small(v) for v in value])
            return value

        args = [small(value) for value in self.call.args]
        for i, name in enumerate(self.values):
            if name == "device":
                args[i] = None
            elif name == "size" and self.has_size or name == "normalized_shape":
                args[i] = sizes.shrink(args[i])
            elif name == "requires_grad":
                args[i] = False
        flags, position = state.flags, None
        if self.record is not None and self.record.is_random:
            generator = self.values.get("generator")
            stream = default_stream if generator is None else generator._stream
            position = stream.mark(), stream.cached_normal
        state.flags = (flags | GRAD_OFF) & ~(INTERCEPT | AUTOCAST | FORWARD_AD | REDISPATCH)
        before, asked.geometry = asked.geometry, True
        try:
            with np.errstate(all="ignore"):
                found = call_wrapper(self.call.wrapper, tuple(args))
            if conduct is not None:
                conduct.aliases = _aliases(found, made)
            return found
        except ValueError as error:
            if conduct is not None and "read-only" in str(error):
                raise UnannouncedWriteError(str(error)) from error
            raise
        finally:
            state.flags, asked.geometry = flags, before
            if position is not None:
                stream.rewind(position[0])
                stream.cached_normal = position[1]

    def _grown(self, found: Any, sizes: Renamed) -> Any:
        if isinstance(found, Tensor):
            return wrap_meta(result(found._array, sizes))
        if isinstance(found, (tuple, list)):
            values = [self._grown(f, sizes) for f in found]
            return values if found.__class__ is list else tuple(values)
        return found

    def computing(self, computed: dict[int, int], kept: int = 0) -> Any:
        """Return the result by small sizes, with sizes that a rule has computed; see `Renamed`."""
        return self.attempt(Renamed(self.sizes, 1, self.numbers, computed, kept))

    def made(self, shape: Any, strides: Any = None, dtype: Any = None) -> Any:
        """Return a tensor of the meta device with the dtype of the first tensor."""
        first = next(iter(self.call.tensors()))._array
        return wrap_meta(MetaArray(tuple(shape), dtype or first.dtype, strides))


_NOTHING = np.zeros(())


def _aliases(found: Any, made: list[tuple[Any, Any]]) -> list[Any]:
    """Return, for each tensor in a result, the argument whose stand-in shares its memory, or None."""
    if isinstance(found, (tuple, list)):
        return [alias for f in found for alias in _aliases(f, made)]
    if not isinstance(found, Tensor):
        return []
    own = owner(found._array)
    return [next((t for t, a in made if owner(a) is own), None)]


def _with_true_sizes(*errors: tuple[Exception, dict[int, int]]) -> str:
    """Return the common text of two errors from different small sizes, with the true sizes in their place."""
    (first, large), (second, other) = errors
    parts, others = (re.split(r"(\d+)", str(error)) for error in (first, second))
    if len(parts) != len(others):
        return str(first)
    for i in range(1, len(parts), 2):
        a, b = int(parts[i]), int(others[i])
        if a != b:
            parts[i] = str(large[a]) if a in large and large[a] == other.get(b) else "..."
    return "".join(parts)


def _numbers(values: Any) -> Iterator[int]:
    for value in values:
        if type(value) is int:  # what stands for a number of a graph is no size
            yield value
        elif value.__class__ in (tuple, list):
            yield from _numbers(value)


def _geometry_of(found: Any) -> Any:
    if isinstance(found, Tensor):
        return found._array.shape, found._array.strides, found._array.dtype
    return [_geometry_of(f) for f in found] if isinstance(found, (tuple, list)) else found
