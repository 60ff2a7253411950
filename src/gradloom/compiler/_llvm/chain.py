"""Chains: steps of a program that machine code computes together, some items of a batch at a time.

Note [Chains]
The products of a batch of matrices and the loop between them, as in an attention, write and read more memory than the
caches hold, but an *item*, one element of the batch, fits. So a chain computes all of its steps for some items, and
then for the next ones: what a step writes is in the cache when the next step reads it. Each step is computed by its own
function, for a range of rows or lanes, so results are those of the steps one by one.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .._loops import LoopProgram
from . import host
from .fits import header_size
from .kernel import Kernel, code_of, library, prototypes
from .layouts import Layouts
from .plan import make_plan
from .product import Parts, Product, places

if TYPE_CHECKING:
    from .product import Matrices

ENTRIES = ("kernel", "shared")
_PARTS = 4  # for each thread
_BLOCK = 1 << 18  # bytes that the items of one turn take in the cache, about


class Span(NamedTuple):
    """Where each item of a step reads or writes an array, in bytes: from `first[item]` on, `length` of them."""

    first: np.ndarray
    length: int

    def is_within(self, step: int) -> bool:
        """Return whether item i is between i * step and (i + 1) * step."""
        edges = np.arange(len(self.first)) * step
        return bool(np.all((self.first >= edges) & (self.first + self.length <= edges + step)))


class Cut(NamedTuple):
    """How a step is cut into items.

    ranges: (step, last) of rows, then of lanes: the items i to j have those from i * step to j * step + last.
    spans: of the step's arrays.
    """

    ranges: tuple[int, int, int, int]
    spans: list[Span]


def cut_product(product: Product, matrices: Sequence[Matrices], count: int) -> Cut | None:
    """Return how a product of these factors and result is cut into `count` items; None if it cannot be."""
    if product.batch != count:
        return None
    batch = matrices[-1].shape[:-2]
    found = [Span(places(x, batch), _length(zip(x.shape[-2:], x.strides[-2:], strict=True), x)) for x in matrices]
    return Cut((product.layout.rows, 0, 0, product.layout.lanes), found)


def _length(dims: Any, x: Matrices) -> int:
    return sum((n - 1) * stride for n, stride in dims) + x.dtype.itemsize


def cut_kernel(kernel: Any, program: LoopProgram, offsets: Sequence[int], count: int) -> Cut | None:
    """Return how a loop is cut into `count` items; None if it cannot be.

    Args:
        kernel: what the program was compiled to.
        offsets: where the arrays begin in their memory, in bytes.
    """
    if not isinstance(kernel, Kernel) or program.numbers or any(b.sizes is not None for b in program.inputs):
        return None
    facts = kernel.facts
    if facts["split"] is not None or facts["sums"]:
        return None
    plan = make_plan(program)
    if plan.streamed:
        return None  # what it stores is not in the cache
    if any(stride < 0 for loop in plan.loops for stride in loop.strides):
        return None
    if not plan.rows and program.inner and not plan.columns:
        return None  # one row
    outer = plan.rows[0] if plan.rows else plan.lanes
    if outer.size % count:
        return None
    size = outer.size // count
    found = []
    for b, (itemsize, offset) in enumerate(zip(plan.itemsizes, offsets, strict=True)):
        sizes = [(size if x is outer else x.size, x.strides[b]) for x in plan.loops]
        length = sum((n - 1) * stride for n, stride in sizes) + itemsize
        found.append(Span(offset + np.arange(count) * (size * outer.strides[b]), length))
    rows = prod(x.size for x in plan.rows)
    return Cut((rows // count, 0, 0, plan.lanes.size) if plan.rows else (0, rows, size, 0), found)


class Step(NamedTuple):
    """A step of a chain.

    function: a Product, or a Kernel.
    arrays: which of the chain's arrays it takes.
    ranges: see `Cut`.
    """

    function: Any
    arrays: tuple[int, ...]
    ranges: tuple[int, int, int, int]


class Chain(Parts):
    """Machine code for the steps of a chain: `chain(*arrays)`.

    Args:
        count: the number of items.
        nbytes: the memory that an item takes in the cache.
        arrays: how many there are.
    """

    __slots__ = ("_arrays", "_count", "_owner", "made_by", "steps")

    def __init__(self, count: int, nbytes: int, arrays: int, steps: Sequence[Step]) -> None:
        self.made_by = Chain, (count, nbytes, arrays, tuple(steps))
        self.steps, self._count, self._arrays = steps, count, arrays
        used = tuple([step.arrays for step in steps])
        key = "chain", str(arrays), str(used), str(header_size())
        code = code_of(key, ENTRIES, lambda: _text(arrays, used))
        table = [max(1, _BLOCK // nbytes)]
        for step in steps:
            table += [*step.function.addresses, *step.ranges]
        geometry = np.array(table, np.int64)
        self._owner = code, geometry, steps
        kernel, shared = prototypes(arrays, ())
        first, second = code.loaded.addresses
        walks = [(step.arrays[i], walk) for step in steps for i, walk in step.function.layouts.walks]
        layouts = Layouts(list(dict.fromkeys(walks)))
        super().__init__(kernel(first), shared(second), (geometry.ctypes.data, ctypes.addressof(library())), layouts)

    def __call__(self, *arrays: Any) -> None:
        self.compute(arrays)

    def parts(self, threads: int) -> list[tuple[int, int, int, int]]:
        count = min(self._count, threads * _PARTS) if threads > 1 else 1
        edges = [self._count * i // count for i in range(count + 1)]
        return [(a, b, 0, 0) for a, b in zip(edges, edges[1:], strict=False)]

    @property
    def text(self) -> str:
        """LLVM's text, for people who read it."""
        return _text(self._arrays, tuple([step.arrays for step in self.steps]))


def _text(arrays: int, used: tuple[tuple[int, ...], ...]) -> str:
    from .emit import write_shared
    from .ir import I32, I64, PTR, Function, Module, V, least, loop

    module = Module(host.host().fma)
    words = [(PTR, "geometry"), (PTR, "library"), *((I64, name) for name in ("r0", "r1", "c0", "c1", "part"))]
    f = Function(module, "kernel", I32, [*words, (PTR, "scratch"), *((PTR, f"a{i}") for i in range(arrays))])
    last = f.parameter("r1", I64)
    block = f.load("%geometry", I64)

    def some(i: V) -> None:
        end = least(i + block, last)
        for k, own in enumerate(used):
            function, geometry = (f.load(f.offset("%geometry", 8 * (1 + 6 * k + j)), PTR).name for j in range(2))
            step, rest, lane_step, lane_rest = (
                f.load(f.offset("%geometry", 8 * (1 + 6 * k + j)), I64) for j in range(2, 6)
            )
            edges = i * step, end * step + rest, i * lane_step, end * lane_step + lane_rest
            numbers = ", ".join(f"i64 {x.name}" for x in (*edges, f.parameter("part", I64)))
            given = ", ".join(f"ptr %a{j}" for j in own)
            f.emit(f"call i32 {function}(ptr {geometry}, ptr %library, {numbers}, ptr %scratch, {given})", I32)

    loop(f, f.parameter("r0", I64), last, block, some)
    f.line("ret i32 0")
    f.finish()
    write_shared(module, "kernel", arrays, ())
    return str(module)
