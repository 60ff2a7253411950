"""Recognise common mistakes in formulas by their effect on the Jacobian.

Each recogniser applies one mistake to the correct Jacobian and compares the result with the one that was found. The
numbers in samples have no symmetries, so a match is rarely a coincidence; a cause is still reported as a guess.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import permutations
from typing import Any, TypeAlias

import numpy as np

from gradloom.codegen.derivatives.model import Derivative, ForwardDerivative
from gradloom.core.tensor import wrap

from .case import Case, Place
from .findings import COMPOSITIONS, FORWARD, Comparison, Fault, close, scale
from .jacobians import EVERY, Function, coordinates, to_real

RTOL, ATOL = 1e-5, 1e-6
_SHAPES = re.compile(r"\[([\d, ]*)\]")
Formula: TypeAlias = Derivative | ForwardDerivative | None


def likely_causes(faults: list[Fault], formula: Formula) -> list[str]:
    """Return the causes that explain all faults of one check and input, which have comparisons; most specific first."""
    lists = [list(dict.fromkeys(_of_fault(fault, formula))) for fault in faults]
    if not lists:
        return []
    common = [cause for cause in lists[0] if all(cause in other for other in lists[1:])]
    # A small sample can match by coincidence; then use the first sample that matches anything.
    return common or next((causes for causes in lists if causes), [])


def _of_fault(fault: Fault, formula: Formula) -> Iterator[str]:
    c = fault.comparison
    assert c is not None
    if c.expected.shape != c.found.shape or not np.isfinite(c.found).all() or not np.isfinite(c.expected).all():
        return
    yield from _declared(fault, c, formula)
    if not np.any(c.found):
        yield (
            f"the formula has no term with `{_tangent(fault)}`" if fault.blame == FORWARD else "the formula gives zeros"
        )
        return
    if fault.check not in COMPOSITIONS.values():
        yield from _not_linear(fault, c)
    found = list(_conjugated(c)) or list(_scaled(fault, c))
    yield from found
    yield from _on_a_slice(c)
    if not found:
        for recognise in (_other_arguments, _transposed, _element_factor, _where, _few_digits):
            found += recognise(fault, c)
        yield from found or _modes_agree(fault, c)


def _same(a: np.ndarray, b: np.ndarray) -> bool:
    return close(a, b, RTOL, ATOL * scale(b))


def _tangent(fault: Fault) -> str:
    return f"{fault.input.name}_t" if fault.input is not None else "the tangent"


def _declared(fault: Fault, c: Comparison, formula: Formula) -> Iterator[str]:
    """`auto_linear` or `auto_element_wise` although the operator is not linear or not elementwise."""
    if not isinstance(formula, ForwardDerivative) or fault.check != "forward":
        return
    if formula.kind == "auto_linear":
        yield "`auto_linear`, but the operator is not linear in its differentiable inputs"
    elif formula.kind == "auto_element_wise":
        if c.input.shape != c.output.shape or not _diagonal(c.expected, c):
            yield "`auto_element_wise`, but an output element depends on several input elements"
        else:
            yield "`auto_element_wise` repeats the backward formula, which is wrong"


def _diagonal(jacobian: np.ndarray, c: Comparison) -> bool:
    width = 2 if c.input.dtype.kind == "c" else 1
    if jacobian.shape[0] != jacobian.shape[1]:
        return False
    blocks = np.kron(np.eye(jacobian.shape[0] // width), np.ones((width, width)))
    return bool(np.all(np.abs(jacobian[blocks == 0]) < 1e-9 * scale(jacobian)))


def _not_linear(fault: Fault, c: Comparison) -> Iterator[str]:
    """The result does not vanish with the gradient or tangent: the formula does not multiply by it."""
    function = Function(fault.case.call, fault.case.inputs())
    if fault.input is None or fault.output is None:
        return
    i, n = fault.case.places.index(fault.input), function.kept.index(fault.output)
    if fault.blame == FORWARD:
        if np.any(np.abs(function.pushed({i: np.zeros(coordinates(c.input))})[n]) > 1e-9):
            yield f"the formula does not multiply by `{_tangent(fault)}`"
        return
    leaves, outputs = function.graph()
    found = function.pulled(leaves, outputs[fault.output], np.zeros(coordinates(c.output)), c.output)[i]
    if np.any(np.abs(found) > 1e-9):
        yield "the formula does not multiply by `grad`"


def _flipped(size: int, is_complex: bool) -> np.ndarray:
    """Conjugation in real coordinates."""
    return np.tile([1.0, -1.0], size) if is_complex else np.ones(size)


def _conjugated(c: Comparison) -> Iterator[str]:
    if c.input.dtype.kind != "c" and c.output.dtype.kind != "c":
        return
    rows = _flipped(c.input.size, c.input.dtype.kind == "c")[:, None]
    columns = _flipped(c.output.size, c.output.dtype.kind == "c")[None, :]
    if _same(c.found, rows * c.expected * columns):
        yield "a missing (or surplus) `.conj()`: the factor of the gradient is conjugated"
    elif _same(c.found, c.expected * columns):
        yield "a missing (or surplus) `.conj()` of the gradient that comes in"
    elif _same(c.found, rows * c.expected):
        yield "a missing (or surplus) `.conj()` of the result of the formula"


def _scaled(fault: Fault, c: Comparison) -> Iterator[str]:
    """A constant factor: a sign, two, an argument, a size."""
    weight = float(np.vdot(c.expected, c.expected))
    if not weight:
        return
    factor = float(np.vdot(c.expected, c.found)) / weight
    if not _same(c.found, factor * c.expected) or abs(factor) < 1e-12 or abs(factor - 1) < 1e-9:
        return
    if abs(factor + 1) < 1e-6:
        yield "the sign"
        return
    sign = "the sign, and " if factor < 0 else ""
    size = abs(factor)
    named = [sign + words for words in _factors(fault, c, size)]
    text = {2.0: "a factor of two too many", 0.5: "a missing factor of two"}.get(round(size, 6))
    yield from named or [sign + (text or f"a constant factor of {size:.7g}")]


def _factors(fault: Fault, c: Comparison, size: float) -> Iterator[str]:
    """Name the arguments and sizes that a factor equals."""
    for name, value in _numbers(fault.case):
        if abs(value) not in (0, 1) and abs(size - abs(value)) < 1e-5 * size:
            yield f"a factor `{name}` too many"
        elif abs(value) not in (0, 1) and abs(size * abs(value) - 1) < 1e-5:
            yield f"a missing factor `{name}`"
    for array, name in ((c.output, "grad"), (c.input, str(fault.input))):
        for count, what in (
            *((n, f"dimension {d} of `{name}`") for d, n in enumerate(array.shape)),
            (array.size, f"all elements of `{name}`"),
        ):
            if count > 2 and abs(size * count - 1) < 1e-5:
                yield f"a mean where the sum over {what} belongs"
            elif count > 2 and abs(size / count - 1) < 1e-5:
                yield f"a sum where the mean over {what} belongs"


def _numbers(case: Case) -> Iterator[tuple[str, float]]:
    for name, value in case.arguments():
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            yield name, float(value)


def _on_a_slice(c: Comparison) -> Iterator[str]:
    """Correct for one index of a dimension of the gradient, and zero for the others: a missing sum."""
    width = 2 if c.output.dtype.kind == "c" else 1
    shape = (c.expected.shape[0], *c.output.shape, width)
    expected, found = c.expected.reshape(shape), c.found.reshape(shape)
    for d, count in enumerate(c.output.shape):
        if _is_unsummed(c, d):
            yield f"a missing sum over dimension {d} of `grad`"
            return
        for index in range(count if count > 1 else 0):
            one, rest = [slice(None)] * len(shape), [slice(None)] * len(shape)
            one[d + 1] = slice(index, index + 1)
            rest[d + 1] = [k for k in range(count) if k != index]
            if (
                np.any(expected[tuple(rest)])
                and not np.any(found[tuple(rest)])
                and np.any(found[tuple(one)])
                and _same(found[tuple(one)], expected[tuple(one)])
            ):
                yield f"a missing sum over dimension {d} of `grad`: only index {index} of it counts"
                return


def _is_unsummed(c: Comparison, d: int) -> bool:
    """Return whether the found Jacobian is correct where the index of dimension `d` of the gradient equals that of a
    dimension of the input, and zero elsewhere: the gradient is passed on instead of summed and expanded."""
    rows, columns = (np.repeat(np.arange(a.size), 2 if a.dtype.kind == "c" else 1) for a in (c.input, c.output))
    if c.input.ndim == 0 or c.output.shape[d] < 2:
        return False
    ours = np.unravel_index(columns, c.output.shape)[d]
    for p, count in enumerate(c.input.shape):
        if count != c.output.shape[d]:
            continue
        same = np.unravel_index(rows, c.input.shape)[p][:, None] == ours[None, :]
        if np.any(c.expected[~same]) and np.any(c.found[same]) and _same(c.found, np.where(same, c.expected, 0)):
            return True
    return False


def _transposed(fault: Fault, c: Comparison) -> Iterator[str]:
    """The correct numbers with two dimensions of the incoming or outgoing gradient exchanged."""
    for array, axis, name in ((c.input, 0, "the result of the formula"), (c.output, 1, "`grad`")):
        for a in range(array.ndim):
            for b in range(a + 1, array.ndim):
                if array.shape[a] != array.shape[b] or array.shape[a] < 2:
                    continue
                width = 2 if array.dtype.kind == "c" else 1
                order = np.swapaxes(np.arange(array.size * width).reshape((*array.shape, width)), a, b).reshape(-1)
                if _same(c.found, np.take(c.expected, order, axis)):
                    yield f"transposed: dimensions {a} and {b} of {name} are exchanged"
                    return


def _other_arguments(fault: Fault, c: Comparison) -> Iterator[str]:
    """The formula is correct for another value of an argument: transposed, conjugated, or that of another argument."""
    case, found = fault.case, 0
    if fault.input is None or fault.output is None or fault.check in COMPOSITIONS.values():
        return
    i = case.places.index(fault.input)
    for other in range(len(case.places)):
        if other != i and case.read(case.places[other]).shape == c.input.shape:
            block = _block(case, other, fault.output)
            if block is not None and block.shape == c.found.shape and _same(c.found, block):
                yield f"this is the derivative for `{case.places[other]}`: inputs are exchanged"
                found += 1
    for what, changed in _alternatives(case):
        block = _block(changed, i, fault.output)
        if block is not None and block.shape == c.found.shape and _same(c.found, block):
            yield what
            found += 1
        if found >= 2:
            return


def _block(case: Case, i: int, output: int) -> np.ndarray | None:
    """Return the correct Jacobian of another call; None if it cannot be computed."""
    try:
        function = Function(case.call, case.inputs(), EVERY)
        return function.numerical(i)[function.kept.index(output)]
    except Exception:
        return None


def _alternatives(case: Case) -> Iterator[tuple[str, Case]]:
    for place in case.floats:
        array = case.read(place)._array
        if array.ndim >= 2 and array.shape[-1] == array.shape[-2] and array.shape[-1] > 1:
            yield (
                f"transposed argument: `{place}` for `{place}.mT`, or the other way round",
                _with(case, place, np.swapaxes(array, -1, -2)),
            )
        if array.dtype.kind == "c":
            yield f"a missing (or surplus) `.conj()` of `{place}`", _with(case, place, array.conj())
    for p, q in permutations(case.floats, 2):
        a, b = case.read(p)._array, case.read(q)._array
        if a.shape == b.shape and a.dtype == b.dtype and not np.array_equal(a, b):
            yield f"`{q}` stands where `{p}` belongs", _with(case, p, b)
            if str(p) < str(q):
                yield f"`{p}` and `{q}` are exchanged", _with(_with(case, p, b), q, a)


def _with(case: Case, place: Place, array: np.ndarray) -> Case:
    args, kwargs = case.with_inputs((wrap(array.copy()),), [place])
    return Case(case.operator, tuple(args), kwargs, case.label)


def _element_factor(fault: Fault, c: Comparison) -> Iterator[str]:
    """An elementwise factor that equals an argument or the result."""
    with np.errstate(all="ignore"):
        nonzero = np.abs(c.expected) > 1e-9 * scale(c.expected)
    if c.input.dtype.kind == "c" or c.output.dtype.kind == "c" or nonzero.sum() < 2:
        return
    if np.any(np.abs(c.found[~nonzero]) > 1e-6):
        return
    ratio = c.found[nonzero] / c.expected[nonzero]
    for name, value in _candidates(fault):
        for shape, axis in ((c.input.shape, 0), (c.output.shape, 1)):
            try:
                factor = to_real(np.broadcast_to(value, shape).astype(np.float64))
            except ValueError:
                continue
            spread = np.broadcast_to(factor[:, None] if axis == 0 else factor[None, :], c.expected.shape)[nonzero]
            if np.ptp(spread) < 1e-6 or not np.all(spread):
                continue
            for power, what in (
                (1, f"a factor `{name}` too many"),
                (-1, f"a missing factor `{name}`"),
                (2, f"multiplied by `{name}` instead of divided"),
                (-2, f"divided by `{name}` instead of multiplied"),
            ):
                for sign, words in (
                    (1, ""),
                    (-1, "the sign, and "),
                    (2, "a factor of two too many, and "),
                    (0.5, "a missing factor of two, and "),
                ):
                    if _same(ratio, sign * spread**power):
                        yield words + what
                        return


def _candidates(fault: Fault) -> Iterator[tuple[str, np.ndarray]]:
    for place in fault.case.floats:
        yield str(place), fault.case.read(place)._array
    try:
        outputs = fault.case.call(*fault.case.inputs())
    except Exception:
        return
    for number, output in enumerate(outputs):
        yield ("result" if len(outputs) == 1 else f"result{number}"), output.detach()._array


def _where(fault: Fault, c: Comparison) -> Iterator[str]:
    """Wrong only for some elements of the input, which have something in common."""
    if fault.input is None or c.input.dtype.kind == "c" or fault.check in COMPOSITIONS.values():
        return
    with np.errstate(all="ignore"):
        wrong = np.array([not _same(a, b) for a, b in zip(c.found, c.expected, strict=True)])
    if wrong.all() or not wrong.any() or wrong.size < 3:
        return
    x = c.input.reshape(-1)
    tests: list[tuple[str, Any]] = [("< 0", x < 0), ("> 0", x > 0), ("== 0", x == 0)]
    for name, value in _numbers(fault.case):
        tests += [(f"< {name}", x < value), (f"> {name}", x > value)]
    tests += [("> 1", x > 1), ("< 1", x < 1)]
    for words, mask in tests:
        if np.array_equal(wrong, mask):
            yield f"only where `{fault.input}` {words}"
            return


def _modes_agree(fault: Fault, c: Comparison) -> Iterator[str]:
    """Both modes agree and differ from finite differences: the formulas match each other, not the kernel."""
    if fault.check != "reverse" or fault.input is None or fault.output is None:
        return
    try:
        function = Function(fault.case.call, fault.case.inputs(), EVERY)
        tangents = function.forward(fault.case.places.index(fault.input))[function.kept.index(fault.output)]
    except Exception:
        return
    if tangents.shape == c.found.shape and _same(tangents, c.found):
        yield (
            "forward mode agrees with reverse mode: the kernel does not compute the function that the formulas "
            "differentiate, or the call is at a kink of the operator"
        )


def _few_digits(fault: Fault, c: Comparison) -> Iterator[str]:
    worst = np.abs(c.found - c.expected).max() / max(np.abs(c.expected).max(), 1e-300)
    if worst < 1e-3:
        yield f"right to {worst:.0e}: a constant with too few digits, or something computed in low precision"


def shape_causes(message: str) -> Iterator[str]:
    """Yield the likely cause of an error about shapes, whose text has the found shape before the expected one."""
    shapes = [tuple(int(n) for n in text.split(",") if n.strip()) for text in _SHAPES.findall(message)][:2]
    if len(shapes) < 2 or shapes[0] == shapes[1]:
        return
    found, expected = shapes
    if sorted(found) == sorted(expected):
        yield f"transposed: the formula gives {list(found)} for an input of {list(expected)}"
    elif len(found) > len(expected) or np.prod(found) > np.prod(expected):
        extra = _surplus(found, expected)
        yield (
            f"a missing sum{f' over {extra}' if extra else ''}: the formula gives {list(found)} for an input of "
            f"{list(expected)}"
        )
    else:
        yield f"a sum too many, or a missing expand(): the formula gives {list(found)} for an input of {list(expected)}"


def _surplus(found: tuple[int, ...], expected: tuple[int, ...]) -> str:
    """Name the dimensions that a sum must remove, if they are unambiguous."""
    ways = [
        dropped
        for dropped in _subsets(len(found))
        if tuple(n for d, n in enumerate(found) if d not in dropped) == expected
    ]
    if len(ways) != 1:
        return ""
    return ("dimension " if len(ways[0]) == 1 else "dimensions ") + ", ".join(map(str, ways[0]))


def _subsets(count: int) -> Iterator[tuple[int, ...]]:
    for bits in range(1, 1 << min(count, 6)):
        yield tuple(d for d in range(count) if bits >> d & 1)


def squared(case: Case) -> Case | None:
    """Return the call with all dimensions of its tensors cut to one size, so that transposing does not change shapes;
    None if that call raises."""
    sizes = [n for p in case.floats for n in case.read(p).shape]
    if not sizes or min(sizes) < 2 or min(sizes) == max(sizes):
        return None
    inputs = tuple(
        wrap(np.array(a[tuple(slice(min(sizes)) for _ in a.shape)])) for a in (case.read(p)._array for p in case.floats)
    )
    args, kwargs = case.with_inputs(inputs, case.floats)
    other = Case(case.operator, tuple(args), kwargs, "square")
    try:
        other.plain()
    except Exception:
        return None
    return other
