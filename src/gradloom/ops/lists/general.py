"""Rules of `foreach:`: what an operator on lists computes for each tensor. Note [Operators on lists] in __init__.py.

A rule takes the record of the overload, and what the entry gives. It returns a function of one element of each list and
of the arguments that are no lists, by position.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...dispatch import _operators as ops
from ...dispatch.records import OperatorName, Record
from ...generated.records import RECORDS


def each(record: Record, operator: OperatorName) -> Callable[..., Any]:
    """Return an operator."""
    own = RECORDS[operator]
    function = wrapper = RECORDS.wrapper_of(own)
    keywords = getattr(wrapper, "keyword_only", ())
    positional = len(own.arguments) - len(keywords)
    given = sum(a.name != "out" for a in record.arguments) - positional
    if given <= 0:
        return function  # type: ignore[no-any-return]
    if given > 1:
        return lambda *values: function(*values[:positional], **dict(zip(keywords, values[positional:], strict=False)))
    (name,) = keywords[:1]

    def call(*values):
        return function(*values[:-1], **{name: values[-1]})

    return call


def largest(record: Record) -> Callable[..., Any]:
    """Return a function that computes the largest element."""

    def call(x):
        if not x.numel():
            raise RuntimeError(
                f"{record.operator} cannot compute the maximum of an empty tensor; max over zero elements is undefined."
            )
        return ops.max(x)

    return call


def norm(record: Record) -> Callable[..., Any]:
    """Return a function that computes a norm."""
    return lambda x, order, dtype: ops.linalg_vector_norm(x, order, dtype=dtype)


def power_sum(record: Record) -> Callable[..., Any]:
    """Return a function that computes the sum of powers of absolute values."""
    return lambda x, order, dtype: ops.sum(ops.pow(ops.abs(x if dtype is None else ops.to_dtype(x, dtype)), order))
