"""Checks of an engine against NumPy, which run inside its ranks. Each returns a list of what was wrong."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np

from gradloom.distributed._engines import Engine
from gradloom.distributed._engines.reduction import OPS
from tests.samples import ALL
from tests.waiting import LIMIT

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
DTYPES = tuple(
    np.dtype(name)
    for name in ("?", "u1", "i1", "i2", "i4", "i8", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16", BFLOAT16)
)
EIGHT_BITS = tuple(map(np.dtype, (ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.float8_e4m3fnuz)))
# Nothing, a few numbers, an odd number above what is reduced in one step, and one of several chunks.
COUNTS = (0, 1, 7, 70_001, 300_001)


def deadline() -> float:
    return time.monotonic() + LIMIT


def sample(rank: int, count: int, dtype: np.dtype, number: int = 0) -> np.ndarray:
    """Return numbers that every rank can compute: small integers, whose sums and products are exact."""
    values = np.random.default_rng((rank, count, number)).integers(0, 2 if dtype.kind == "b" else 4, count)
    return values.astype(dtype)


def supported(op: str, dtype: np.dtype) -> bool:
    if op in ("band", "bor", "bxor"):
        return dtype.kind in "iub"
    if op in ("min", "max"):
        return dtype.kind != "c"
    return not (op in ("avg", "premul_sum") and dtype.kind == "b")


def expected(op: str, arrays: list[np.ndarray]) -> np.ndarray:
    """Return the reduction of exact numbers, by another way than the engines."""
    dtype, size = arrays[0].dtype, len(arrays)
    exact = np.stack([one.real.astype(np.bool_ if dtype.kind == "b" else np.int64) for one in arrays])
    if op == "premul_sum":
        return (2 * exact).sum(0).astype(dtype)
    if op == "avg":
        mean = exact.sum(0) / size
        return (np.trunc(mean) if dtype.kind in "iu" else mean).astype(dtype)
    call = {"sum": np.add, "product": np.multiply, "min": np.minimum, "max": np.maximum, "band": np.bitwise_and,
            "bor": np.bitwise_or, "bxor": np.bitwise_xor}[op]  # fmt: skip
    return call.reduce(exact, 0).astype(dtype)


def close(got: np.ndarray, want: np.ndarray) -> bool:
    """Equal, but for averages of floating-point numbers, which two divisions may round differently."""
    if got.dtype.kind in "iub":
        return np.array_equal(got, want)
    eps = float(ml_dtypes.finfo(got.real.dtype).eps)
    return np.allclose(got.astype(np.complex128), want.astype(np.complex128), rtol=2 * eps, atol=0)


def reductions(engine: Engine, counts: tuple[int, ...] = COUNTS) -> list[str]:
    """all_reduce, reduce and reduce_scatter of every operation and dtype."""
    wrong = []
    for op, dtype, count in _cases(counts):
        given: Any = (op, 2) if op == "premul_sum" else op
        arrays = [sample(rank, count, dtype) for rank in range(engine.size)]
        want = expected(op, arrays)
        array = arrays[engine.rank].copy()
        engine.allreduce(array, given, deadline())
        if not close(array, want):
            wrong.append(f"all_reduce {op} {dtype} {count}")
        root = count % engine.size
        array = arrays[engine.rank].copy()
        engine.reduce(array, root, given, deadline())
        if not close(array, want if engine.rank == root else arrays[engine.rank]):
            wrong.append(f"reduce {op} {dtype} {count}")
        ins = [sample(engine.rank, count, dtype, j) for j in range(engine.size)]
        want = expected(op, [sample(rank, count, dtype, engine.rank) for rank in range(engine.size)])
        out = np.empty(count, dtype)
        engine.reduce_scatter(out, ins, given, deadline())
        if not close(out, want):
            wrong.append(f"reduce_scatter {op} {dtype} {count}")
    return wrong


def special(rank: int, count: int, dtype: np.dtype, number: int = 0) -> np.ndarray:
    """Return numbers among which are NaN of both signs and other bits, infinities, zeros of both signs and large ones.

    Which rank has them, and in which order, differs from element to element.
    """
    draw = np.random.default_rng((rank, count, number, 1))
    if dtype.kind == "b":
        return draw.integers(0, 2, count).astype(dtype)
    if dtype.kind in "iu":
        return draw.integers(0, 256, count * dtype.itemsize, np.uint8).view(dtype)
    if dtype.kind == "c":
        return special(rank, 2 * count, np.dtype(f"f{dtype.itemsize // 2}"), number).view(dtype)
    values, chosen = draw.standard_normal(count), draw.random(count)
    largest = float(ml_dtypes.finfo(dtype).max)
    for index, value in enumerate((np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, largest, -largest)):
        values[(chosen > 0.08 * index) & (chosen < 0.08 * (index + 1))] = value
    found = values.astype(dtype)
    found.view(f"u{dtype.itemsize}")[np.isnan(found)] ^= 1
    return found


def agreements(engine: Engine, counts: tuple[int, ...] = (1, 33, 70_001)) -> list[str]:
    """Reductions of special numbers are the same bits on all ranks, and a NaN of any rank is one everywhere."""
    wrong = []
    for op in OPS:
        for dtype in (*DTYPES, *EIGHT_BITS):
            for count in counts if supported(op, dtype) else ():
                if count <= 33 or (dtype in (np.float32, BFLOAT16, np.complex64) and op in ("sum", "max", "product")):
                    with np.errstate(all="ignore"):
                        wrong += [f"{one} {op} {dtype} {count}" for one in _disagreements(engine, op, dtype, count)]
    return wrong


def _disagreements(engine: Engine, op: str, dtype: np.dtype, count: int) -> Iterator[str]:
    given: Any = (op, 3 if dtype.kind in "iu" else 0.5) if op == "premul_sum" else op
    size, rank = engine.size, engine.rank
    arrays = [special(r, count, dtype) for r in range(size)]
    has_nan = np.logical_or.reduce([np.isnan(one) for one in arrays])
    array = arrays[rank].copy()
    engine.allreduce(array, given, deadline())
    outs = [np.empty_like(array) for _ in range(size)]
    engine.allgather(outs, array, deadline())
    if any(one.tobytes() != array.tobytes() for one in outs):
        yield "ranks differ after all_reduce"
    reduced = arrays[rank].copy()
    engine.reduce(reduced, 0, given, deadline())
    engine.broadcast(reduced, 0, deadline())
    scattered = np.empty(count, dtype)
    engine.reduce_scatter(scattered, [special(rank, count, dtype, j) for j in range(size)], given, deadline())
    engine.broadcast(scattered, 0, deadline())
    for call, found in (("all_reduce", array), ("reduce", reduced), ("reduce_scatter", scattered)):
        if (has_nan & ~np.isnan(found)).any():
            yield f"{call} loses a NaN:"
        if op in ("min", "max", "band", "bor", "bxor"):
            want = arrays[0]
            for one in arrays[1:]:
                want = {"min": np.minimum, "max": np.maximum}.get(op, getattr(np, f"bitwise_{op[1:]}", None))(want, one)
            if not np.array_equal(found, want, equal_nan=dtype.kind in "fV"):
                yield f"{call} gives other numbers:"


def _cases(counts: tuple[int, ...]) -> Iterator[tuple[str, np.dtype, int]]:
    few, many = [n for n in counts if n <= 7], [n for n in counts if n > 7]
    for i, op in enumerate(OPS):
        for j, dtype in enumerate(DTYPES):
            if supported(op, dtype):
                # What depends on the number of elements does not depend on dtype or operation.
                is_whole = ALL or (dtype in (np.float32, BFLOAT16) and op in ("sum", "premul_sum", "max"))
                for count in [*few, *many] if is_whole else few[(i + j) % len(few) :][:1]:
                    yield op, dtype, count


def movements(engine: Engine, counts: tuple[int, ...] = (*COUNTS, 1_500_000)) -> list[str]:
    """broadcast, all_gather, gather, scatter and all_to_all, of every dtype and size."""
    wrong, rank, size = [], engine.rank, engine.size
    for dtype in DTYPES:
        for count in counts:
            if count > 7 and dtype not in (np.float32, np.bool_):
                continue
            root = count % size
            arrays = [sample(r, count, dtype) for r in range(size)]

            def check(call: str, got: np.ndarray, want: np.ndarray, dtype: Any = dtype, count: int = count) -> None:
                if not np.array_equal(got, want):
                    wrong.append(f"{call} {dtype} {count}")

            array = arrays[rank].copy()
            engine.broadcast(array, root, deadline())
            check("broadcast", array, arrays[root])
            outs = [np.empty(count, dtype) for _ in range(size)]
            engine.allgather(outs, arrays[rank], deadline())
            check("all_gather", np.stack(outs), np.stack(arrays))
            outs = [np.empty(count, dtype) for _ in range(size)]
            engine.gather(outs if rank == root else None, arrays[rank], root, deadline())
            if rank == root:
                check("gather", np.stack(outs), np.stack(arrays))
            array = np.empty(count, dtype)
            pieces = [sample(root, count, dtype, j) for j in range(size)]
            engine.scatter(array, pieces if rank == root else None, root, deadline())
            check("scatter", array, pieces[rank])
            # Rank i sends count * (i + j) // size elements to rank j.
            ins = [sample(rank, count * (rank + j) // size, dtype, j) for j in range(size)]
            want = [sample(i, count * (i + rank) // size, dtype, rank) for i in range(size)]
            outs = [np.empty(one.size, dtype) for one in want]
            engine.alltoall(outs, ins, deadline())
            check("all_to_all", np.concatenate(outs), np.concatenate(want))
            engine.barrier(deadline())
    return wrong


def messages(engine: Engine) -> list[str]:
    """send and recv: sizes from nothing to several chunks, tags out of order, any sender, both ways at once."""
    from tests.waiting import Running

    wrong, rank, size = [], engine.rank, engine.size
    after, before = (rank + 1) % size, (rank - 1) % size
    for count in (0, 1, 5, 400_000):
        sending = Running(lambda n=count: engine.send(sample(rank, n, np.dtype("f4")), after, 3, deadline()))
        array = np.empty(count, np.float32)
        source = engine.recv(array, before if count % 2 else None, 3, deadline())
        sending.result()
        if source != before or not np.array_equal(array, sample(before, count, np.dtype("f4"))):
            wrong.append(f"recv of {count} from {source}")
        engine.barrier(deadline())
    sending = Running(lambda: [engine.send(np.full(9, tag), after, tag, deadline()) for tag in range(20)])
    for tag in reversed(range(20)):
        array = np.empty(9, np.int64)
        engine.recv(array, before, tag, deadline())
        if not (array == tag).all():
            wrong.append(f"tag {tag} brought {array[0]}")
    sending.result()
    engine.barrier(deadline())
    return wrong


CHECKS = (reductions, movements, messages)
