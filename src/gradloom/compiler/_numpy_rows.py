"""The backend `numpy` for loop programs with rows: blocks of rows, and in each pass blocks along a long row.

Where the rows lie side by side in memory (as for sums over the first dimension), a block has many rows and a short
part of each, and its scratch memory has the rows innermost. The partial results of a row's parts are combined in their
order; sums of parts are added in double precision.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from itertools import product
from math import prod
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from ..kernels._common.threads import get_num_threads, share
from ..types.silence import silence
from ._interpreter import function_of, run
from ._loops import Instruction, LoopProgram, const_value
from ._numpy_backend import BLOCK, SHARED, Blocked, compile_pointwise, gathered, numpy_type

PART = 256  # elements of a row in a block of rows side by side

_COMBINE: dict[str, Any] = {
    "sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum, "any": np.logical_or,
    "all": np.logical_and,
}  # fmt: skip
_PLACES = ("argmax", "argmin")


@lru_cache(512)
def compile_loops(program: LoopProgram) -> Callable[..., None]:
    """Return `run(arrays, numbers=())` for a program, with rows or without; whole arrays at a time if it adds rows."""
    if any(i.op == "add" for part in program.passes for i in part.body):
        return partial(run, program)
    if not program.inner and any(i.op in ("index", "gather") for i in program.passes[0].body):
        program = replace(program, inner=1)
    return _Rows(program) if program.inner else compile_pointwise(program)


class _Pass:
    """One pass: the function of a block, its reductions, and the instructions at the end of a row.

    Args:
        known: expressions of the values of rows; gets those of this pass.
        axes: the dimensions of a row in a block.
    """

    def __init__(self, program: LoopProgram, number: int, known: dict[str, str], axes: tuple[int, ...]) -> None:
        part = program.passes[number]
        body = Blocked(program, part.body, known)
        self.reductions = [(i.name, str(i.attribute), np.dtype(i.dtype)) for i in part.body if i.op == "reduce"]
        for kind in {kind for _, kind, _ in self.reductions}:
            body.names[f"reduce_{kind}"] = _reducer(kind, axes)
        self.block = body.function() if part.body else None
        self.scratch = [np.dtype(d) for d in body.scratch]
        self.source = body.source() + "".join(f"# at the end of a row: {i}\n" for i in part.row)
        self.row = part.row
        known.update(
            {i.name: f"rows[{i.name!r}]" for i in (*part.body, *part.row) if i.op == "reduce" or i in part.row}
        )


def _reducer(kind: str, axes: tuple[int, ...]) -> Callable[[Any, Any], Any]:
    if kind in _PLACES:
        return _finder(kind, axes[0])
    reduce = _COMBINE[kind].reduce

    def reducer(value: Any, shape: Any) -> Any:
        value = np.asarray(value)
        if value.shape != shape:
            value = np.broadcast_to(value, shape)
        return reduce(value, axis=axes, dtype=value.dtype, keepdims=True)

    return reducer


def _finder(kind: str, outer: int) -> Callable[[Any, Any], Any]:
    """Return what finds the extreme elements of rows, and their numbers; `outer` dimensions are not a row's."""
    find = getattr(np, kind)

    def finder(value: Any, shape: Any) -> Any:
        rows = np.broadcast_to(value, shape).reshape(*shape[:outer], -1)
        place = np.expand_dims(find(rows, axis=-1), -1)
        kept = (*shape[:outer], *(1 for _ in shape[outer:]))
        return np.take_along_axis(rows, place, -1).reshape(kept), place.reshape(kept)

    return finder


def _first_place(kind: str, found: list[tuple[Any, Any]], starts: list[int]) -> Any:
    """Return the numbers of the extreme elements, from those of the parts of rows, which begin at `starts`."""
    best, place = found[0]
    for (value, at), start in zip(found[1:], starts[1:], strict=True):
        better = value > best if kind == "argmax" else value < best
        if value.dtype.kind == "f":
            better |= np.isnan(value) & ~np.isnan(best)
            better &= ~np.isnan(best)
        best, place = np.where(better, value, best), np.where(better, at + start, place)
    return place


class _Rows:
    """Runs the passes over blocks of rows. Dimensions of a block: those of the rows, at least one, then the row's.

    Attributes:
        source: the source of the blocks' functions.
    """

    def __init__(self, program: LoopProgram) -> None:
        self.program = program
        outer = len(program.shape) - program.inner
        lead = 0 if outer else 1  # a program of one row gets a dimension for it
        self.shape = (1,) * lead + program.shape
        self.lead, self.outer = lead, outer + lead
        self.inner = self.shape[self.outer :]
        buffers = (*program.inputs, *program.outputs)
        self.buffers = []
        for b in buffers:
            dtype = numpy_type(b.dtype)
            strides = tuple([s * dtype.itemsize for s in b.strides])
            self.buffers.append((strides if b.sizes is not None else (0,) * lead + strides, b.sizes))
        known: dict[str, str] = {}
        axes = tuple(range(self.outer, len(self.shape)))
        self.passes = [_Pass(program, n, known, axes) for n in range(len(program.passes))]
        self.source = "".join(p.source for p in self.passes)
        self.total = prod(self.shape)
        self._cut()

    def _cut(self) -> None:
        """Choose the sizes of blocks."""
        walked = [strides for strides, sizes in self.buffers if sizes is None]
        full = max(walked, key=lambda strides: sum(1 for s in strides if s))
        nearest = min(range(len(full)), key=lambda d: (self.shape[d] == 1 or not full[d], abs(full[d])))
        self.side_by_side = nearest < self.outer and not self.lead
        row = prod(self.inner[1:])
        most = PART if self.side_by_side else BLOCK
        self.part = max(1, min(self.inner[0], most // max(1, row)))
        size = self.part * row
        self.split = 0  # the dimension of rows that is cut
        for d in reversed(range(self.outer)):
            if size * self.shape[d] > BLOCK or d == 0:
                self.split = d
                break
            size *= self.shape[d]
        self.step = max(1, min(self.shape[self.split], BLOCK // max(1, size)))

    def __call__(self, arrays: Sequence[Any], numbers: Sequence[Any] = ()) -> None:
        if not self.total and not prod(self.shape[: self.outer]):
            return
        views = []
        for a, (strides, sizes) in zip(arrays, self.buffers, strict=True):
            shape = self.shape if sizes is None else sizes
            views.append(a if a.shape == shape and a.strides == strides else as_strided(a, shape, strides))
        cut = range(0, self.shape[self.split], self.step)
        blocks = list(product(*map(range, self.shape[: self.split]), cut))
        threads = get_num_threads() if self.total >= SHARED else 1
        with np.errstate(all="ignore"):
            if threads == 1 or len(blocks) == 1:
                for block in blocks:
                    self._rows(views, numbers, block, threads > 1)
            else:
                count = min(len(blocks), 4 * threads)
                edges = [len(blocks) * i // count for i in range(count + 1)]

                def run(number: int) -> None:
                    with np.errstate(all="ignore"):
                        for block in blocks[edges[number] : edges[number + 1]]:
                            self._rows(views, numbers, block, False)

                share(run, list(range(count)))

    def _rows(self, views: list[Any], numbers: Any, block: tuple[int, ...], shares: bool) -> None:
        """Run all passes over a block of rows."""
        start, before = block[-1], self.split
        stop = min(start + self.step, self.shape[before])
        place = (*[slice(i, i + 1) for i in block[:-1]], slice(start, stop))
        own = [v if s is not None else v[place] for v, (_, s) in zip(views, self.buffers, strict=True)]
        offsets = [p.start for p in place] + [0] * (len(self.shape) - len(place))
        shape = (*(1 for _ in block[:-1]), stop - start, *self.shape[before + 1 :])
        rows: dict[str, Any] = {}
        for part in self.passes:
            if part.block is not None:
                self._walk(part, own, numbers, rows, shape, offsets, shares)
            self._end(part, own, numbers, rows, shape, offsets)

    def _walk(
        self, part: _Pass, own: list[Any], numbers: Any, rows: Any, shape: Any, offsets: list[int], shares: bool
    ) -> None:
        first, length = self.outer, self.inner[0]

        def run(start: int) -> list[Any]:
            stop = min(start + self.part, length)
            place = (*[slice(None)] * first, slice(start, stop))
            at = [*offsets]
            at[first] = start
            sizes = (*shape[:first], stop - start, *shape[first + 1 :])
            inside = [v if s is not None else v[place] for v, (_, s) in zip(own, self.buffers, strict=True)]
            scratch = [self._scratch(sizes, d) for d in part.scratch]
            found: list[Any] = []
            with np.errstate(all="ignore"):
                part.block((*inside, *self._indices(sizes, at), sizes), scratch, numbers, rows, found)  # type: ignore[misc]
            return found

        starts = list(range(0, length, self.part))
        found = share(run, starts) if shares and len(starts) > 1 else [run(start) for start in starts]
        for number, (name, kind, dtype) in enumerate(part.reductions):
            values = [each[number] for each in found]
            if kind in _PLACES and values:
                row = prod(self.inner[1:])
                values = [_first_place(kind, values, [start * row for start in starts])]
            elif len(values) > 1:
                wide = np.float64 if kind in ("sum", "prod") and dtype.kind == "f" else dtype
                total = values[0].astype(wide)
                for value in values[1:]:
                    total = _COMBINE[kind](total, value)
                values = [total.astype(dtype)]
            rows[name] = values[0] if values else _nothing(kind, dtype, shape, first)

    def _scratch(self, shape: tuple[int, ...], dtype: Any) -> Any:
        if not self.side_by_side:
            return np.empty(shape, dtype)
        count = len(shape) - self.outer
        memory = np.empty((*shape[self.outer :], *shape[: self.outer]), dtype)
        return memory.transpose((*range(count, len(shape)), *range(count)))

    def _indices(self, shape: tuple[int, ...], offsets: list[int]) -> list[Any]:
        """Return the loop indices of a block, one array for each dimension of the program."""
        found = []
        for d in range(self.lead, len(shape)):
            line = np.arange(offsets[d], offsets[d] + shape[d])
            strides = [0] * len(shape)
            strides[d] = line.itemsize
            found.append(as_strided(line, shape, strides))
        return found

    def _end(self, part: _Pass, own: list[Any], numbers: Any, rows: Any, shape: Any, offsets: Any) -> None:
        """Execute the instructions at the end of a row, on arrays with sizes of one along it."""
        if not part.row:
            return
        sizes = (*shape[: self.outer], *(1 for _ in self.inner))
        first = (*[slice(None)] * self.outer, *[slice(0, 1)] * len(self.inner))
        inputs = len(self.program.inputs)
        for i in part.row:
            args = [rows[a] for a in i.args]
            if i.op == "store":
                own[inputs + int(i.attribute or 0)][first] = args[0]
            else:
                rows[i.name] = np.asarray(self._value(i, args, own, numbers, sizes, first, offsets)).astype(
                    i.dtype, copy=False
                )

    def _value(self, i: Instruction, args: list[Any], own: Any, numbers: Any, sizes: Any, first: Any, at: Any) -> Any:
        if i.op == "load":
            return own[i.attribute][first]
        if i.op == "const":
            return const_value(i)
        if i.op == "number":
            return numbers[i.attribute]
        if i.op == "index":
            return self._indices(sizes, at)[int(i.attribute or 0)]
        if i.op == "gather":
            return gathered(own[i.attribute], tuple(np.broadcast_arrays(*args)))
        if i.op == "round":
            return args[0].astype(numpy_type(str(i.attribute)))
        if i.op == "cast":
            return args[0]
        return (np.where if i.op == "where" else function_of(i.op))(*args)


def _nothing(kind: str, dtype: Any, shape: tuple[int, ...], outer: int) -> Any:
    """Return what a reduction of no elements gives."""
    identity = _COMBINE[kind].identity
    return np.full((*shape[:outer], *(1 for _ in shape[outer:])), identity, dtype)


silence(globals())
