"""Inputs for an operator, made from its schema and the `domain:` of its entry.

A tensor argument gets numbers from its domain ([0.3, 1.7] by default, away from the kinks at zero and one that many
functions have); other arguments get a value of their type, or their default. Per operator: a plain sample, one that is
not contiguous, 0-dim, zero-size, and for pointwise operators of several tensors one that broadcasts.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

import gradloom

DEFAULT_DOMAIN = (0.3, 1.7)
_VALUES = {"int": 1, "SymInt": 1, "bool": True, "float": 0.7, "Scalar": 0.7}


class NoSamples(Exception):
    """The schema does not say what to pass; the family must have samples of its own."""


def domains(operator) -> dict[str, tuple[float, float]]:
    """Argument -> (low, high), from `domain: {self: [0.1, 2]}` in the YAML entry."""
    node = operator.joined.function.domain
    if node is None:
        return {}
    return {key: tuple(float(item.value) for item in values.items) for key, values in node.fields.items()}


def samples(operator, seed: int = 0) -> Iterator[tuple[tuple, dict]]:
    """(args, kwargs) for an operator; other numbers for each seed.

    Raises:
        NoSamples: if an argument's type says too little.
    """
    schema = operator.schema
    ranges = domains(operator)
    tensors = [a for a in schema.inputs if a.type.is_tensor_like]
    for name, shapes in _shape_sets(operator, len(tensors)):
        random = np.random.default_rng(7 + seed)
        remaining = iter(shapes)
        args, kwargs = [], {}
        for argument in schema.inputs:
            value = _value(argument, remaining, ranges, random, name)
            if argument.kwarg_only:
                kwargs[argument.python_name] = value
            else:
                args.append(value)
        yield tuple(args), kwargs


def _shape_sets(operator, count):
    yield "plain", itertools.repeat((2, 3), count)
    if operator.is_pointwise:
        yield "0-dim", itertools.repeat((), count)
        yield "zero-size", itertools.repeat((0, 2), count)
        yield "not contiguous", itertools.repeat((2, 3), count)
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
        value = argument.default_value
        if isinstance(value, list):
            return tuple(value)
        plain = isinstance(value, (bool, int, float, str, type(None)))
        return value if plain else getattr(gradloom, str(argument.default))
    if argument.python_name in ranges:
        return sum(ranges[argument.python_name]) / 2
    if argument.type.is_list and argument.python_name in ("size", "shape"):
        return (2, 3)
    value = _VALUES.get(argument.type.base.name)
    if value is None or argument.type.is_list:
        if argument.type.is_optional:
            return None
        raise NoSamples(f"argument `{argument}`")
    return value


def _tensor(shape, low, high, random, name):
    values = random.uniform(low, high, (*shape, 2) if name == "not contiguous" else shape)
    if name == "not contiguous":
        values = np.swapaxes(values[..., 0].copy().T.copy(), 0, -1) if len(shape) > 1 else values[..., 0]
    return gradloom.from_numpy(np.asarray(values))
