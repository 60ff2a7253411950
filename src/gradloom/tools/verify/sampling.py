"""Make the samples of an operator: those written by hand, or made from the schema and `domain:`.

A sampled tensor has numbers from its domain, by default [0.3, 1.7], away from the kinks at zero and one that many
functions have. The samples of a pointwise operator are a plain one, a 0-dim one, a zero-size one, one that is not
contiguous, and for several tensors two that broadcast.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

import gradloom

from .case import Case, is_float, tensors
from .operators import Operator, default_of

DEFAULT_DOMAIN = (0.3, 1.7)
_VALUES = {"int": 1, "SymInt": 1, "bool": True, "float": 0.7, "Scalar": 0.7}
DIM = re.compile(r"(dim|axis|source|destination)\d?s?|(start|end)_dim|dims_\w+|sumdim")
_LARGEST = 4096  # elements of a result


class NoSamples(Exception):
    """The schema does not say what to pass; the operator needs samples written by hand."""


def domains(operator: Operator) -> dict[str, tuple[float, float]]:
    """Return {argument: (low, high)} from the `domain:` of an entry, such as `{self: [0.1, 2]}`."""
    node: Any = operator.joined.function.domain
    if node is None:
        return {}
    return {key: tuple(float(item.value) for item in values.items) for key, values in node.fields.items()}


def cases(operator: Operator, seed: int = 0) -> list[Case]:
    """Return the samples: those written by hand, or else those made from the schema.

    Raises NoSamples if there are none.
    """
    calls: Iterable[tuple[Any, Any]] = operator.samples() if operator.samples is not None else samples(operator, seed)
    found = [Case(operator, *operator.completed(args, kwargs)) for args, kwargs in calls]
    if operator.joined.variant is not None:  # not all calls of the functional operator can be made in place
        found = [c for c in found if not isinstance(refusal(c), Exception)]
    if not found:
        raise NoSamples(f"the samples of `{operator.name}` are an empty list")
    return found


def samples(operator: Operator, seed: int = 0) -> Iterator[tuple[tuple, dict]]:
    """Yield (args, kwargs) for an operator; the numbers depend on the seed.

    Raises NoSamples if an argument's type is not specific enough.
    """
    given = [a for a in operator.schema.inputs if a.type.is_tensor_like]
    if operator.is_pointwise or len(given) < 2:
        for name, shapes in _shape_sets(operator, len(given)):
            yield _sample(operator, shapes, seed, name)
        return
    # Matrix products and the like need other shapes than equal ones: use the first that the operator accepts.
    first = _sample(operator, itertools.repeat((2, 3)), seed, "plain")
    for shapes in _SHAPES_TOGETHER:
        call = _sample(operator, itertools.chain(shapes, itertools.repeat(shapes[-1])), seed, "plain")
        if refusal(Case(operator, *operator.completed(*call))) is None:
            yield call
            return
    yield first


_SHAPES_TOGETHER = (
    ((2, 3), (2, 3)), ((2, 3), (3,)), ((2, 3), (2,)), ((2, 3), (3, 4)), ((3,), (3,)), ((3, 3), (3, 2)),
    ((2, 3), (4, 3)), ((2, 3, 4), (2, 4, 3)), ((3,), (3, 2)), ((2, 3, 4), (3,)), ((2, 3), ()),
)  # fmt: skip


def _sample(operator: Operator, shapes: Iterator[tuple[int, ...]], seed: int, name: str) -> tuple[tuple, dict]:
    random = np.random.default_rng(7 + seed)
    ranges = domains(operator)
    args, kwargs = [], {}
    for argument in operator.schema.inputs:
        value = _value(argument, shapes, ranges, random, name)
        if argument.kwarg_only:
            kwargs[argument.python_name] = value
        else:
            args.append(value)
    return tuple(args), kwargs


def _shape_sets(operator, count):
    yield "plain", itertools.repeat((2, 3))
    if operator.is_pointwise:
        yield "0-dim", itertools.repeat(())
        yield "zero-size", itertools.repeat((0, 2))
        yield "not contiguous", itertools.repeat((2, 3))
        if count > 1:
            yield "broadcast", itertools.chain([(2, 3)], itertools.cycle([(3,), (2, 1), ()]))
            yield "broadcast self", itertools.chain([(3,)], itertools.repeat((2, 3)))


def _value(argument, shapes, ranges, random, name):
    if argument.type.is_tensor_like:
        low, high = ranges.get(argument.python_name, DEFAULT_DOMAIN)
        if argument.type.is_list:
            return [_tensor(next(shapes, (2, 3)), low, high, random, name) for _ in range(2)]
        return _tensor(next(shapes, (2, 3)), low, high, random, name)
    if argument.default is not None and argument.type.base.name not in ("float", "Scalar"):
        return default_of(argument)
    if argument.python_name in ranges:
        return sum(ranges[argument.python_name]) / 2
    if argument.type.is_list:
        fixed = _sized(argument)
        if fixed is not None:
            return fixed
    value = _VALUES.get(argument.type.base.name)
    if value is None or argument.type.is_list:
        if argument.type.is_optional:
            return None
        raise NoSamples(f"argument `{argument}`")
    return value


def _sized(argument):
    """Return a value for a list of ints or bools whose name or size says what it holds; else None."""
    kind, size = argument.type.base.name, getattr(argument.type.required, "size", None)
    if argument.python_name in ("size", "shape") and size is None:
        return (2, 3)
    if kind in ("int", "SymInt") and DIM.fullmatch(argument.python_name):
        return tuple(range(size or 1))
    if size is not None and kind in _VALUES:
        return (_VALUES[kind],) * size
    return None


def _tensor(shape, low, high, random, name):
    values = random.uniform(low, high, (*shape, 2) if name == "not contiguous" else shape)
    if name == "not contiguous":
        values = np.swapaxes(values[..., 0].copy().T.copy(), 0, -1) if len(shape) > 1 else values[..., 0]
    return gradloom.from_numpy(np.asarray(values))


def refusal(case: Case) -> Exception | str | None:
    """Return why a call is not made: its exception, or what is wrong with its result; None if it is made."""
    try:
        with gradloom.no_grad():
            found = tensors(case.plain())
    except Exception as error:
        return error
    if any(t.layout is not gradloom.strided for t in found):
        return "the result is sparse"
    if sum(t._array.size for t in found) > _LARGEST:
        return "the result is large"
    for tensor in found:
        if is_float(tensor) and tensor._array.dtype.kind != "V" and not np.isfinite(tensor._array).all():
            return "the result is not finite"
    return None
