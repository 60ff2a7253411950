"""Run an operator in two libraries on the same calls, those at boundaries first, and say where they differ.

The calls are those of `gradloom verify` and `gradloom audit`: boundary_cases(), boundary() and the samples.
"""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import gradloom
from gradloom.core.tensor import wrap
from gradloom.tools.audit.drawing import LARGEST, boundary
from gradloom.tools.verify.boundaries import boundary_cases
from gradloom.tools.verify.case import Case, is_float, tensors
from gradloom.tools.verify.operators import Operator, own_operators
from gradloom.tools.verify.sampling import NoSamples, cases

from . import worker
from .comparing import DERIVATIVE, DOMAIN, EQUAL, LOST, UNMEASURED, VALUE
from .libraries import Answer, Library

BOUNDARIES, SAMPLES = 40, 20  # calls of one operator, at most
_BOUNDARY = "numbers at boundaries"
_REFUSED = ("not differentiable", "not implemented", "does not support", "not supported")
_RTOL, _ATOL = 1e-6, 1e-12


@dataclass
class Measured:
    """What running showed.

    Attributes:
        meaning: VALUE, DOMAIN, DERIVATIVE, LOST, EQUAL or UNMEASURED.
        shown: an input and both values, or the number of samples.
        nodes, saved: what both libraries say of the backward node; empty without one.
        excused: why the second library may differ: where the first refuses, it may compute.
    """

    meaning: str
    shown: str
    nodes: tuple[str, str] = ("", "")
    saved: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    excused: str = ""


def operators() -> dict[str, Operator]:
    """Return the operators that calls can be made of, by full name."""
    return {o.name: o for o in own_operators()}


def measure(operator: Operator, old: Library, new: Library) -> Measured:
    """Compare two libraries on the calls of an operator; the first difference decides, a value before a domain."""
    count, found, excused = 0, None, ""
    nodes, saved = ("", ""), ((), ())
    if operator.is_random:
        return Measured(UNMEASURED, "it draws random numbers")
    for case in _drawn(operator):
        request = _request(case)
        if request is None:
            continue
        for options in _options(case):
            a, b = (library.answer(request | options) for library in (old, new))
            if "error" in a["value"] and "error" in b["value"]:
                continue
            count += 1
            if nodes == ("", "") and a.get("node") and b.get("node"):
                nodes, saved = (a["node"], b["node"]), (tuple(a["saved"]), tuple(b["saved"]))
            difference = _difference(case, a, b)
            if difference is None or found is not None and difference.meaning != VALUE:
                continue
            again = [library.answer(request | options | {"filled": True}) for library in (old, new)]
            if _difference(case, *again) is not None:  # else the values are those of memory that nothing wrote to
                found = (difference.meaning, _words(case, difference, old, new, options))
                excused = _excuse(difference, request | options, new)
        if found is not None and found[0] == VALUE:
            break
    if found is not None:
        return Measured(*found, nodes, saved, excused)
    if count == 0:
        return Measured(UNMEASURED, "no call was made that one of them accepts")
    return Measured(EQUAL, f"equal at {count} samples", nodes, saved)


def _excuse(difference: _Difference, request: dict[str, Any], new: Library) -> str:
    """Return why the second library differs rightly from the first; '' if that is not known."""
    if isinstance(difference.old, dict):
        return "PyTorch refuses what is computed here"
    if difference.mode == "value":
        beside = (new.answer(_moved(request, turn))["value"] for turn in range(4))
        agree = (not isinstance(v, dict) and _compared(difference.old, v[difference.number]) is None for v in beside)
        return "rounding decides: the values agree at the numbers beside" if any(agree) else ""
    if difference.mode != "reverse" or difference.meaning != VALUE:
        return ""
    try:
        slopes = new.answer(request | {"quotients": True})["quotients"][difference.number]
        near = [np.allclose(side, slopes, rtol=1e-5, atol=1e-7) for side in (difference.old, difference.new)]
    except (KeyError, ValueError):  # of complex numbers
        return ""
    return "PyTorch is wrong, by difference quotients of the values" if near == [False, True] else ""


def _moved(value: Any, turn: int) -> Any:
    """Return a call with every number moved by one unit in its last place, up or down."""
    if isinstance(value, dict) and "tensor" in value:
        dtype, shape, numbers = value["tensor"]
        ends = [math.inf if (n * turn + turn // 2) % 2 else -math.inf for n in range(len(numbers))]
        kind = np.dtype("float32" if dtype == "float32" else "float64")
        moved = [float(np.nextafter(kind.type(x), kind.type(e))) for x, e in zip(numbers, ends, strict=True)]
        return {"tensor": [dtype, shape, moved if dtype.startswith("float") else numbers]}
    if isinstance(value, dict):
        return {key: _moved(one, turn) for key, one in value.items()}
    return [_moved(one, turn) for one in value] if isinstance(value, list) else value


def _options(case: Case) -> list[dict[str, Any]]:
    """Return how to answer a call: by first derivatives; of a sample, by second ones, and along infinite tangents."""
    if case.is_varied or case.label == _BOUNDARY:
        return [{}]
    infinite = [{"infinite": n} for n in range(len(case.floats))] if case.operator.is_pointwise else []
    return [{"second": True}, *(infinite if len(infinite) > 1 else [])]


def _drawn(operator: Operator) -> Iterator[Case]:
    """Yield calls, those at boundaries first."""

    def boundaries(base: list[Case]) -> Iterator[Case]:
        for case in base[:3]:
            yield from boundary_cases(case)
        for case in base[:1]:
            yield from (Case(operator, c.args, c.kwargs, _BOUNDARY) for c, _ in boundary(case))
            yield from _with_integers(case)

    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            base = [c for c in cases(operator) if c.floats and sum(t._array.size for t in _given(c)) <= LARGEST]
        except NoSamples:
            return
        yield from itertools.islice(boundaries(base), BOUNDARIES)
        yield from base[:SAMPLES]


def _with_integers(case: Case) -> Iterator[Case]:
    """Yield the call of a pointwise operator with integers in each of its tensors but one."""
    for place in case.floats[1:] if case.operator.is_pointwise else ():
        numbers = np.resize([-2, 1, 0, -1, 2, 3], case.read(place)._array.shape)
        args, kwargs = case.with_inputs((wrap(numbers),), [place])
        yield Case(case.operator, tuple(args), kwargs, _BOUNDARY)


def _given(case: Case) -> list[Any]:
    return [t for _, value in case.arguments() for t in tensors(value)]


# --- calls as JSON ----------------------------------------------------------------------------------------------------


class _Unwritable(Exception):
    pass


def _request(case: Case, ones: bool = False) -> dict[str, Any] | None:
    """Return a call as JSON; None if it has an argument that cannot be written."""
    name = case.operator.schema.name
    try:
        return {
            "op": [name.name, name.overload or "default"],
            "args": [_written(a) for a in case.args],
            "kwargs": {k.rstrip("_"): _written(v) for k, v in case.kwargs.items()},
            "places": [
                [p.name.rstrip("_") if p.name in case.kwargs else case.names.index(p.name), p.index]
                for p in case.floats
            ],
            "ones": ones,
        }
    except _Unwritable:
        return None


def _written(value: Any) -> Any:
    if isinstance(value, gradloom.Tensor):
        if value.layout is not gradloom.strided or value._array.dtype.kind not in "fciub":
            raise _Unwritable
        array = value.resolve_conj()._array
        numbers = np.ravel(array).copy()
        numbers = numbers.view(array.real.dtype) if array.dtype.kind == "c" else numbers
        return {"tensor": [str(value.dtype).rpartition(".")[2], list(array.shape), numbers.tolist()]}
    if isinstance(value, (list, tuple)):
        return [_written(v) for v in value]
    if isinstance(value, complex):
        return {"complex": [value.real, value.imag]}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if type(value).__module__.partition(".")[0] == "gradloom" and str(value).startswith("torch."):
        return {"object": str(value).rpartition(".")[2]}
    raise _Unwritable


# --- differences ------------------------------------------------------------------------------------------------------


@dataclass
class _Difference:
    meaning: str
    what: str  # 'the value', 'the gradient of self', 'the tangent' or a second derivative
    mode: str
    number: int  # of the output or input
    old: Any
    new: Any
    element: int | None  # the first one that differs, where both have one


def _difference(case: Case, old: Answer, new: Answer) -> _Difference | None:
    """Return the most telling difference of two answers; of a private operator, in what has derivatives, if any has."""
    found = []
    known = new.get("differentiable") or ()
    is_step = bool(known) and case.operator.name.startswith("_")
    for mode in ("value", "reverse", "forward", *worker.SECOND):
        a, b = old.get(mode), new.get(mode)
        if a is None or b is None:  # the value is refused, which is compared
            continue
        lists = [side for side in (a, b) if isinstance(side, list)]  # a refusal is for all of the results
        sides = [side if isinstance(side, list) else [side] * len(lists[0] if lists else "1") for side in (a, b)]
        pairs = zip(*sides, strict=False)
        for number, (one, other) in enumerate(pairs):
            if mode == "value" and is_step and number not in known:  # such as a factorization
                continue
            place = str(case.floats[number]) if mode == "reverse" and number < len(case.floats) else ""
            what = {"value": "the value", "reverse": f"the gradient of {place}", "forward": "the tangent"}.get(
                mode, f"the second derivative, {mode},"
            )
            made = _compared(one, other)
            if made is not None:
                found.append(_Difference(made[0], what, mode, number, one, other, made[1]))
    order = (VALUE, DERIVATIVE, LOST, DOMAIN)
    return min(found, key=lambda d: order.index(d.meaning), default=None)


def _compared(old: Any, new: Any) -> tuple[str, int | None] | None:
    refused = [isinstance(side, dict) for side in (old, new)]
    if all(refused):
        return None
    if any(refused):
        said = (old if refused[0] else new)["error"]
        missing = any(text in said for text in _REFUSED)
        return (DERIVATIVE if refused[0] else LOST) if missing else DOMAIN, None
    if old is None or new is None:  # no gradient: a zero
        numbers = new if old is None else old
        if numbers is None or not any(numbers):
            return None
        return (DERIVATIVE if old is None else LOST), None
    if len(old) != len(new):
        return VALUE, None
    size = max((abs(v) for v in (*old, *new) if math.isfinite(v)), default=0.0)
    first = None
    for place, (a, b) in enumerate(zip(old, new, strict=True)):
        if a == b or (a != a and b != b):
            continue
        if math.isfinite(a) != math.isfinite(b):
            first = first or (DOMAIN, place)
        elif not abs(a - b) <= _RTOL * max(abs(a), abs(b)) + 1e-3 * _RTOL * size + _ATOL:
            return VALUE, place
    return first


def _words(case: Case, difference: _Difference, old: Library, new: Library, options: dict[str, Any]) -> str:
    """Return a difference in words: at one element where the operator is pointwise."""
    small = _at_element(case, difference)
    if small is not None:
        request = _request(small, ones=True)
        both = () if request is None else (library.answer(request | options) for library in (old, new))
        again = None if request is None else _difference(small, *both)
        if again is not None and again.meaning == difference.meaning:
            case, difference = small, again
    given = ", ".join(f"{name}={_short(value)}" for name, value in case.arguments() if _is_told(case, name, value))
    along = f" along an infinite tangent of {case.floats[options['infinite']]}" if "infinite" in options else ""
    values = [f"{_side(side)} in {lib.name}" for side, lib in ((difference.old, old), (difference.new, new))]
    return f"{case.operator.name}({given}): {difference.what}{along} is {', '.join(values)}"


def _is_told(case: Case, name: str, value: Any) -> bool:
    argument = next((a for a in case.operator.schema.inputs if a.python_name == name), None)
    return argument is None or argument.default is None or tensors(value) != [] or value != argument.default_value


def _at_element(case: Case, difference: _Difference) -> Case | None:
    """Return the call of a pointwise operator with the numbers of the element that differs alone."""
    given = _given(case)
    shapes = {tuple(t._array.shape) for t in given if t._array.size > 1}
    if not case.operator.is_pointwise or difference.element is None or len(shapes) > 1 or any(map(_is_complex, given)):
        return None

    def one(tensor: Any) -> Any:
        array = np.array(tensor._array).reshape(-1)
        return wrap(array[difference.element if array.size > 1 else 0].reshape(()))

    return case.changed(one, case.label)


def _is_complex(tensor: Any) -> bool:
    return bool(tensor._array.dtype.kind == "c")


def _side(side: Any) -> str:
    if isinstance(side, dict):
        return "refused"
    return "none" if side is None else _numbers(side)


def _numbers(values: list[float]) -> str:
    texts = [f"{v:.5g}" for v in values[:8]]
    return texts[0] if len(values) == 1 else f"[{', '.join(texts)}{', ...' if len(values) > 8 else ''}]"


def _short(value: Any) -> str:
    if isinstance(value, gradloom.Tensor):
        array = value._array
        if array.dtype.kind == "c" or not array.size:
            return f"{array.tolist()}".replace(" ", "") if array.size <= 4 else f"{list(array.shape)}"
        if array.size > 16:
            return f"tensor of shape {list(array.shape)}"
        return np.array2string(array, separator=", ", formatter={"float_kind": lambda v: f"{v:.5g}"}).replace("\n", "")
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_short, value))}]"
    return f"{value:.5g}" if isinstance(value, float) else str(value) if not is_float(value) else "?"
