"""From loop programs to kernels: how a program's code is named, and how threads share its work.

Note [Threads]
Rows, or for pointwise programs elements, are shared out among threads. Each is computed as it would be alone, so the
number of threads does not show in the results. A reduction with few long rows is cut into parts by its size alone, and
the parts are combined in their order. Sums over rows have a partial sum for each TERMS of them.
"""

from __future__ import annotations

from math import ceil, prod
from typing import Any

from .._interpreter import half_dtype
from .._loops import FLOATS, LoopProgram
from . import host as host_module
from .fits import Walk, header_size, walk
from .host import Unsupported
from .kernel import SPLIT, WHOLE, Code, Kernel, code_of
from .plan import LONG, Plan, lanes_for, make_plan
from .pool import SHARED_FROM

PART = 1 << 16  # elements in a part of a long row
FEW = 16  # rows (columns: strips) that are cut into parts
TERMS = 128  # rows that are added up one after another; Note [Sums]
FAR = 1 << 19  # bytes from the top of a column to its end, from which it is cut into parts
_CHEAP, _LONG, _BYTE = 0.03, 0.45, 0.04  # nanoseconds for each operation, function and byte


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
    return Kernel(code_for(plan, SPLIT if split else WHOLE), facts_of(plan, split))


def code_for(plan: Plan, entries: tuple[str, ...]) -> Code:
    """Return the code of a program's structure, with functions of these names."""
    key = plan.key, str(lanes_for(plan, host_module.host().register)), str(header_size())
    return code_of(key, entries, lambda: _text(plan, entries))


def facts_of(plan: Plan, split: bool) -> dict[str, Any]:
    """Return what a Kernel needs to know of a program.

    arrays, numbers: how many arrays it takes, and the dtypes of the numbers after them.
    geometry: sizes and strides, as the code expects them; rows, lanes: sizes of its loops.
    items: ranges for threads to take, if it takes long enough; split: of rows that are cut into parts, how many rows
    there are, and how many bytes the results of the parts take; else None.
    walks: over the arrays.
    sums: of outputs that are sums over rows, the number of the array, where its part of the scratch memory of an item
    begins, how many elements it has, and its dtype; the last has the size of this memory in its second place.
    is_short: whether it is called by Note [Direct calls].
    """
    program = plan.program
    rows = prod(x.size for x in plan.rows)
    inner = prod(program.shape[len(program.shape) - program.inner :])
    kinds = [i.attribute for part in program.passes for i in part.body if i.op == "reduce"]
    if inner == 0 and rows and any(kind in ("max", "min", "argmax", "argmin") for kind in kinds):
        raise Unsupported("a maximum or minimum of nothing")
    is_short = cost_of(plan) < SHARED_FROM and not plan.sums
    items, size = _parts(plan) if split else ([] if is_short else _chunks(plan, rows), 0)
    sums = []
    if plan.sums:
        items = [(r, min(r + TERMS, rows), 0, plan.lanes.size) for r in range(0, rows, TERMS)]
        count = prod(program.shape[len(program.shape) - program.inner :])
        for number, at in plan.sums.items():
            dtype = "uint8" if number < 0 else program.outputs[number].dtype
            sums.append((len(program.inputs) + number if number >= 0 else -1, at, count, dtype))
    return {
        "arrays": len(program.inputs) + len(program.outputs),
        "numbers": tuple(program.numbers),
        "geometry": [0, 0, 0, *plan.geometry],
        "walks": walks_of(program),
        "rows": rows,
        "lanes": plan.lanes.size,
        "items": items,
        "split": (rows, size) if split else None,
        "sums": sums,
        "is_short": is_short and not split,
    }


def walks_of(program: LoopProgram) -> list[Walk]:
    """Return the walks over the inputs and the outputs of a loop program."""
    found = []
    for i, b in enumerate((*program.inputs, *program.outputs)):
        dtype = half_dtype(b.dtype)
        shape = program.shape if b.sizes is None else b.sizes
        moves = [(n, s * dtype.itemsize) for n, s in zip(shape, b.strides, strict=True) if s]
        sizes, strides = ([m[k] for m in moves] for k in (0, 1))
        found.append(walk(dtype, sizes, strides, 0, i >= len(program.inputs), b.sizes is None))
    return found


def emitted(program: LoopProgram) -> str:
    """Return the LLVM text of a program, for people who read it."""
    plan = make_plan(program)
    return _text(plan, SPLIT if _is_split(plan) else WHOLE)


def _text(plan: Plan, entries: tuple[str, ...]) -> str:
    from .emit import emit

    return emit(plan, host_module.host(), header_size(), entries)


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
    long = sum(i.op in LONG and i.dtype in FLOATS for i in bodies)
    moved = sum(
        plan.itemsizes[int(i.attribute or 0) + (0 if i.op == "load" else len(program.inputs))]
        for i in bodies
        if i.op in ("load", "store", "add")
    )
    return prod(program.shape) * (len(bodies) * _CHEAP + long * _LONG + moved * _BYTE)


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
