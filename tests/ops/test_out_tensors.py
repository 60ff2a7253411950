"""Every out= overload, with outputs in the middle of a buffer: what is written, and that nothing else is.

An output has gaps between its elements, another order of dimensions, too few elements, too many, or as many in another
shape. Each call must leave the operator's result in it and every other element of its buffer as it was, or raise.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np
import pytest

import gradloom
from gradloom.tools.verify.case import Case
from gradloom.tools.verify.operators import Operator, own_operators
from gradloom.tools.verify.sampling import NoSamples, cases

OFFSET, ROOM = 3, 40  # elements of a buffer before the output, and after it
AROUND = 77  # the value of all elements of a buffer
CASES = 2  # samples of an operator


def contiguous(shape: tuple[int, ...]) -> list[int]:
    return [prod(max(n, 1) for n in shape[d + 1 :]) for d in range(len(shape))]


def layouts(shape: tuple[int, ...]) -> Iterator[tuple[str, tuple[int, ...], list[int]]]:
    """Yield (name, shape, strides) of outputs for a result of a shape."""
    count, strides = prod(shape), contiguous(shape)
    yield "same", shape, strides
    yield "gaps", shape, [2 * s for s in strides]
    if len(shape) > 1:
        yield "transposed", shape, contiguous(shape[::-1])[::-1]
    yield "empty", (0,), [1]
    if count != 1:
        yield "one element", (1,), [1]
    yield "larger", (count + 3,), [2]
    if count > 1:
        yield "as many", (count, 1), [3, 1]
        yield "expanded", shape, [0 if n == max(shape) else s for n, s in zip(shape, strides, strict=True)]


def output(library: Any, shape: tuple[int, ...], strides: list[int], dtype: Any) -> tuple[Any, Any]:
    """Return (buffer, the part of it that is an output)."""
    extent = sum((n - 1) * s for n, s in zip(shape, strides, strict=True)) + 1 if 0 not in shape else 0
    buffer = library.full((OFFSET + extent + ROOM,), AROUND, dtype=library.int64).to(dtype)
    return buffer, buffer.as_strided(shape, strides, OFFSET)


def outputs(library: Any, results: list[tuple[tuple[int, ...], Any]], layout: str) -> tuple[list[Any], list[Any]]:
    """Return (buffers, outputs) for results of given shapes and dtypes, in one layout where it applies to them."""
    made = []
    for shape, dtype in results:
        known = {name: (found, strides) for name, found, strides in layouts(shape)}
        made.append(output(library, *known.get(layout, known["same"]), dtype))
    return [b for b, _ in made], [o for _, o in made]


def samples(operator: Operator) -> list[tuple[Case, list[Any]]]:
    """Return calls with their results, which are dense tensors."""
    try:
        found = [(case, case.plain()) for case in cases(operator)[:CASES]]
    except NoSamples:
        return []
    lists = [(case, list(r) if isinstance(r, (tuple, list)) else [r]) for case, r in found]
    return [(c, r) for c, r in lists if all(isinstance(t, gradloom.Tensor) and t.layout is gradloom.strided for t in r)]


def covered(buffer: Any, out: Any) -> np.ndarray:
    """Return which elements of a buffer belong to an output that may have been resized; all of new memory do."""
    mask = np.zeros(buffer.numel(), bool)
    if out.untyped_storage().data_ptr() == buffer.untyped_storage().data_ptr() and out.numel():
        reach = sum((n - 1) * s for n, s in zip(out.shape, out.stride(), strict=True)) + 1
        part = mask[OFFSET : OFFSET + reach]
        np.lib.stride_tricks.as_strided(part, tuple(out.shape), tuple(out.stride()))[...] = True
    return mask


def check(case: Case, results: list[Any], layout: str) -> str | None:
    """Return what is wrong after a call with outputs of a layout."""
    kinds = [(tuple(r.shape), r.dtype) for r in results]
    buffers, outs = outputs(gradloom, kinds, layout)
    before = [b._array.copy() for b in buffers]
    several = isinstance(case.plain(), (tuple, list))
    args, kwargs = case.detached()
    try:
        case.seeded(case.operator.call)(*args, **kwargs, out=tuple(outs) if several else outs[0])
    except RuntimeError as error:
        refused = layout == "expanded" and "refers to a single memory location" in str(error)
        is_fixed = "fixed" in case.operator.joined.function.out_takes and "Expected result" in str(error)
        if not refused and not (is_fixed and layout != "same"):
            raise
        if is_fixed:
            return (
                None if all(_equal(b._array, x) for b, x in zip(buffers, before, strict=True)) else "it is written to"
            )
    else:
        if layout == "expanded" and any(len(set(r.shape)) and r.numel() > 1 for r in results):
            return "elements that share memory are written to"
    for number, (buffer, out, result) in enumerate(zip(buffers, outs, results, strict=True)):
        kept = ~covered(buffer, out) if layout != "expanded" else slice(OFFSET)
        if not _equal(buffer._array[kept], before[number][kept]):
            return f"elements beside output {number} are changed"
        if layout == "expanded":
            continue
        if out.numel() != result.numel() or out.dtype is not result.dtype:
            return f"output {number} is {out.dtype}{list(out.shape)}, not {result.dtype}{list(result.shape)}"
        # Random numbers are drawn in the order of the memory.
        found = out._array.T if layout == "transposed" and _only_draws(case) else out._array
        if "empty" not in case.operator.name and not _equal(found.reshape(-1), result._array.reshape(-1)):
            return f"output {number} is {out.tolist()}, not {result.tolist()}"
    return None


def _only_draws(case: Case) -> bool:
    """Return whether a call draws random numbers, and has no tensors to follow."""
    tags = case.operator.joined.function.tags
    return "nondeterministic_seeded" in tags and not any(isinstance(a, gradloom.Tensor) for a in case.detached()[0])


def _equal(a: Any, b: Any) -> bool:
    return np.asarray(a).tobytes() == np.asarray(b).tobytes() or bool(
        np.array_equal(a, b, equal_nan=a.dtype.kind in "fc")
    )


OPERATORS = [operator for operator in own_operators() if operator.has_out and operator.joined.variant is None]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("family", sorted({operator.family for operator in OPERATORS}))
def test_only_the_output_is_written(family):
    wrong, calls = [], 0
    for operator in (o for o in OPERATORS if o.family == family):
        for case, results in samples(operator):
            for layout in dict.fromkeys(name for r in results for name, *_ in layouts(tuple(r.shape))):
                calls += 1
                try:
                    found = check(case, results, layout)
                except Exception as error:
                    found = f"{type(error).__name__}: {error}"
                if found:
                    wrong.append(f"{case}, {layout}: {found}")
    assert calls and not wrong, "\n".join(wrong)
