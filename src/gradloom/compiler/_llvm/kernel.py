"""Compiled programs that can be called: code from the cache or from LLVM, bound to sizes and strides, and threads.

Note [Calls]
Arrays are passed as Python objects, and the code reads the address of their elements from NumPy's struct, where it
follows the object's header; `ndarray.ctypes.data` would take longer than a small kernel. Programs that run for a short
time are called by Note [Direct calls]; the others through ctypes, which releases the GIL.

Note [Threads]
Rows, or for pointwise programs elements, are shared out among threads. Each is computed as it would be alone, so the
number of threads does not show in the results. A reduction with few long rows is cut into parts by its size alone, and
the parts are combined in their order.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Sequence
from functools import cache
from math import ceil, prod
from threading import Lock
from typing import Any, NamedTuple

import numpy as np

from ...kernels._common.threads import get_num_threads, share
from .._loops import FLOATS, LoopProgram
from . import direct, host as host_module, pool
from .code import load_code
from .image import Loaded
from .plan import Plan, Unsupported, lanes_for, make_plan

ndarray = np.ndarray
# A program is shared by threads if it takes longer than this on one, in nanoseconds by `cost_of`; waking a thread takes
# about as long as half of it.
SHARED_FROM = 40_000.0 if pool.available() else 100_000.0
PART = 1 << 16  # elements in a part of a long row
FEW = 16  # rows (columns: strips) that are cut into parts
FAR = 1 << 19  # bytes from the top of a column to its end, from which it is cut into parts
_CHEAP, _LONG, _BYTE = 0.03, 0.45, 0.04  # nanoseconds for each operation, function and byte


# The functions of a program, and of one whose rows are cut into parts.
WHOLE, SPLIT = ("kernel", "shared", direct.ENTRY), ("partial", "shared", "finish")


class Code(NamedTuple):
    """Functions in memory for one structure: their addresses in order, ctypes' types of a kernel and of `shared`."""

    loaded: Loaded
    prototype: Any
    shared: Any


_codes: dict[
    tuple[str, tuple[str, ...], int], Code
] = {}  # for each structure that this process uses, and what follows from sizes
_lock = Lock()


def compile(program: LoopProgram) -> Kernel:
    """Return a callable that executes a loop program by machine code: `kernel(arrays, numbers)`, as `_interpreter.run`.

    Code for the program's structure is taken from this process, from the cache on disk, or from LLVM.

    Raises:
        Unsupported: if a part of the program has no machine code (complex numbers, lgamma and a few more).
        ImportError: if llvmlite is not installed, with what to install.
    """
    host_module.require()
    plan = make_plan(program)
    if any(0 in (b.sizes or ()) for b in program.inputs):
        raise Unsupported("the llvm backend reads no tables without elements")
    split = _is_split(plan)
    return Kernel(plan, code_of(plan, SPLIT if split else WHOLE), split)


def code_of(plan: Plan, entries: tuple[str, ...]) -> Code:
    """Return the code of a program's structure, with functions of these names."""
    key = plan.key, entries, lanes_for(plan, host_module.host().register)
    code = _codes.get(key)
    if code is None:
        with _lock:
            code = _codes.get(key)
            if code is None:
                code = _codes[key] = Code(_load(plan, entries), *_prototypes(plan.program))
    return code


def forget() -> None:
    """Drop the code of this process; kernels that exist keep theirs."""
    _codes.clear()


def emitted(program: LoopProgram) -> str:
    """Return the LLVM text of a program, for people who read it."""
    plan = make_plan(program)
    return _text(plan, SPLIT if _is_split(plan) else WHOLE)


def _load(plan: Plan, entries: tuple[str, ...]) -> Loaded:
    key = plan.key, str(lanes_for(plan, host_module.host().register)), str(header_size())
    return load_code(key, entries, lambda: _text(plan, entries))


def _text(plan: Plan, entries: tuple[str, ...]) -> str:
    from .emit import emit

    return emit(plan, host_module.host(), header_size(), entries)


@cache
def header_size() -> int:
    """Return how many bytes of an array object precede the address of its elements: Note [Calls]."""
    size = object.__basicsize__
    probe = np.empty(1)
    if ctypes.c_void_p.from_address(id(probe) + size).value != probe.ctypes.data:
        raise Unsupported("the llvm backend does not know where this NumPy keeps the address of an array's elements")
    return size


@cache
def library() -> Any:
    """Return the addresses of the C library's functions that code may call; `trigonometry.LIBRARY` and fmod."""
    names = ("sin", "cos", "tan", "fmod")
    candidates = {"linux": ["libm.so.6"], "win32": ["ucrtbase"]}.get(sys.platform, [])
    for candidate in [*candidates, None]:
        try:
            library = ctypes.CDLL(candidate)
            return (ctypes.c_void_p * 4)(*(ctypes.cast(getattr(library, n), ctypes.c_void_p).value for n in names))
        except (OSError, AttributeError, TypeError):
            continue
    raise Unsupported("the llvm backend does not find the C library's sin")


def _prototypes(program: LoopProgram) -> tuple[Any, Any]:
    pointer, size = ctypes.c_void_p, ctypes.c_int64
    arrays = [ctypes.py_object] * (len(program.inputs) + len(program.outputs))
    numbers = [ctypes.c_double if dtype == "float64" else size for dtype in program.numbers]
    kernel = ctypes.CFUNCTYPE(ctypes.c_int32, pointer, pointer, *[size] * 5, pointer, *arrays, *numbers)
    pool = pointer, pointer, pointer, size, size
    return kernel, ctypes.CFUNCTYPE(ctypes.c_int32, *pool, pointer, pointer, pointer, *arrays, *numbers)


def _is_split(plan: Plan) -> bool:
    """Return whether rows are cut into parts: few and long ones, for threads (Note [Threads]), and columns of large
    matrices, whose elements lie in so many pages that walking down strip by strip would miss the TLB each time."""
    program = plan.program
    if program.inner == 0 or len(program.passes) != 1 or not any(i.op == "reduce" for i in program.passes[0].body):
        return False
    inside = prod(program.shape[len(program.shape) - program.inner :])
    if inside * (plan.lanes.size if plan.columns else 1) < 4 * PART:
        return False
    return _cells(plan) <= FEW or plan.columns and _stride(plan) > FAR


def _stride(plan: Plan) -> int:
    """Return how far apart in memory, in bytes, the first and the last element of a column are."""
    return max((abs(s) * loop.size for loop in plan.inner for s in loop.strides), default=0)


def _cells(plan: Plan) -> int:
    """Return the number of rows (columns: strips of rows)."""
    rows = prod(x.size for x in plan.rows)
    return rows * ceil(plan.lanes.size / lanes_for(plan, host_module.host().register)) if plan.columns else rows


def cost_of(plan: Plan) -> float:
    """Return about how long a program takes on one thread, in nanoseconds."""
    program = plan.program
    bodies = [i for part in program.passes for i in part.body]
    long = sum(i.op in _LONG_NAMES and i.dtype in FLOATS for i in bodies)
    moved = sum(
        plan.itemsizes[int(i.attribute or 0) + (len(program.inputs) if i.op == "store" else 0)]
        for i in bodies
        if i.op in ("load", "store")
    )
    return prod(program.shape) * (len(bodies) * _CHEAP + long * _LONG + moved * _BYTE)


_LONG_NAMES = frozenset(
    """exp exp2 expm1 log log2 log10 log1p tanh sinh cosh arcsinh arccosh arctanh logaddexp logaddexp2 hypot sin cos tan
    arctan arctan2 arcsin arccos erf erfc **""".split()
)


class Kernel:
    """Machine code bound to the sizes and strides of one program.

    `kernel(arrays, numbers)` takes the inputs, then the outputs, which are written; dtypes and sizes are those of the
    program, which is not checked. Element [0, ..., 0] of the space is the first of each array. Numbers are Python's.
    Raises IndexError where a `gather` has an index out of range; outputs may have been written by then.

    Attributes:
        call: the same for arrays of NumPy's own type: `call(*inputs, *outputs, *numbers)`. It returns None, and True
            where an index is out of range. It is the fastest way for small programs.
    """

    __slots__ = (
        "_alone",
        "_arguments",
        "_direct",
        "_functions",
        "_geometry",
        "_items",
        "_owner",
        "_shared",
        "_split",
        "call",
        "program",
    )

    def __init__(self, plan: Plan, code: Code, split: bool) -> None:
        program = self.program = plan.program
        numbers = [0, 0, 0, *plan.geometry]
        self._geometry = (ctypes.c_int64 * len(numbers))(*numbers)
        self._owner = code
        first, shared, last = code.loaded.addresses
        self._functions = [code.prototype(address) for address in ((first, last) if split else (first,))]
        self._shared = code.shared(shared)
        self._arguments = ctypes.addressof(self._geometry), ctypes.addressof(library())
        rows = prod(x.size for x in plan.rows)
        inner = prod(program.shape[len(program.shape) - program.inner :])
        kinds = [i.attribute for part in program.passes for i in part.body if i.op == "reduce"]
        if inner == 0 and rows and any(kind in ("max", "min", "argmax", "argmin") for kind in kinds):
            raise Unsupported("a maximum or minimum of nothing")
        self._alone: tuple[int, ...] = (*self._arguments, 0, rows, 0, plan.lanes.size, 0, 0)
        self._split: tuple[int, int] | None = None
        if split:
            items, size = _parts(plan)
            self._split = rows, size
        else:
            items = _chunks(plan, rows) if cost_of(plan) >= SHARED_FROM else []
        self._items = np.array(items, np.int64)  # ranges of rows and of lanes
        self._direct = None
        self.call: Callable[..., bool | None] = self._called
        if not split and cost_of(plan) < SHARED_FROM and direct.available():
            owner = self._geometry, code
            self._direct = direct.builtin(last, *self._arguments, rows, plan.lanes.size, owner)
            self.call = self._direct

    def _called(self, *arguments: Any) -> bool | None:
        arrays = len(self.program.inputs) + len(self.program.outputs)
        try:
            self(arguments[:arrays], arguments[arrays:])
        except IndexError:
            return True
        return None

    def __call__(self, arrays: Sequence[Any], numbers: Sequence[Any] = ()) -> None:
        if self._direct is not None and all(type(x) is ndarray for x in arrays):
            if self._direct(*arrays, *numbers):
                self._fail()
            return
        for x in arrays:
            if type(x) is not ndarray and not issubclass(type(x), ndarray):  # its memory would be read as an array's
                raise TypeError(f"a kernel takes NumPy arrays, not {type(x).__name__}")
        if not len(self._items):
            if self._functions[0](*self._alone, *arrays, *numbers):
                self._fail()
        elif self._split is not None:
            self._in_parts(arrays, numbers)
        elif get_num_threads() == 1:
            if self._functions[0](*self._alone, *arrays, *numbers):
                self._fail()
        elif self._in_threads(self._functions[0], 0, arrays, numbers):
            self._fail()

    def _in_threads(self, function: Any, scratch: int, arrays: Sequence[Any], numbers: Sequence[Any]) -> bool:
        """Call a function for each item, by all threads; return whether an index is out of range."""
        arguments, items = self._arguments, self._items
        found = pool.workers()
        if found is None:

            def one(part: int) -> int:
                return function(*arguments, *items[part].tolist(), part, scratch, *arrays, *numbers)  # type: ignore[no-any-return]

            return any(share(one, range(len(items))))
        job = found.state, found.run, items.ctypes.data, len(items), get_num_threads() - 1
        return bool(self._shared(*job, *arguments, scratch, *arrays, *numbers))

    def _in_parts(self, arrays: Sequence[Any], numbers: Sequence[Any]) -> None:
        assert self._split is not None
        rows, size = self._split
        scratch = np.empty(size, np.uint8)
        partial, finish = self._functions
        address = scratch.ctypes.data
        bad = self._in_threads(partial, address, arrays, numbers)
        last = finish(*self._arguments, 0, rows, 0, len(self._items), 0, address, *arrays, *numbers)
        if last or bad:
            self._fail()

    def _fail(self) -> None:
        index, size = self._geometry[1:3]
        raise IndexError(f"index {index} is out of bounds for dimension with size {size}")


def _chunks(plan: Plan, rows: int) -> list[tuple[int, int, int, int]]:
    """Return ranges of rows and lanes for threads to take; small enough that a thread that is late does not matter."""
    cost, lanes = cost_of(plan), plan.lanes.size
    count = max(2, min(64, int(cost / SHARED_FROM * 2)))
    along_lanes = plan.columns or plan.program.inner == 0
    if rows >= count or not along_lanes:
        count = min(count, rows)
        edges = [rows * i // count for i in range(count + 1)]
        return [(a, b, 0, lanes) for a, b in zip(edges, edges[1:], strict=False)] if count > 1 else []
    step = max(1024, -(-lanes * max(1, rows) // count // 64) * 64)
    return [(row, row + 1, start, min(start + step, lanes)) for row in range(rows) for start in range(0, lanes, step)]


def _parts(plan: Plan) -> tuple[list[tuple[int, int, int, int]], int]:
    """Return the parts of long rows, and how many bytes their partial results take."""
    program = plan.program
    split = plan.inner[0] if plan.inner else plan.lanes
    inside = prod(program.shape[len(program.shape) - program.inner :])
    total = inside * (plan.lanes.size if plan.columns else 1)
    width = lanes_for(plan, host_module.host().register)
    count = max(1, min(split.size, 256, total // PART))
    step = -(-split.size // count)
    step = -(-step // width) * width if split is plan.lanes else step
    rows = prod(x.size for x in plan.rows)
    parts = [(0, rows, start, min(start + step, split.size)) for start in range(0, split.size, step)]
    reductions = sum(i.op == "reduce" for i in program.passes[0].body)
    return parts, len(parts) * _cells(plan) * reductions * 16 * (width if plan.columns else 1)


Backend = Callable[[LoopProgram], Kernel]
