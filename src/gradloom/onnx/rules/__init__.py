"""ONNX rules: how operators become nodes of an ONNX graph, by `onnx:` of their entries.

Note [ONNX rules]
A rule is a function of what the entry gives it, the builder of the graph, the node of the operator, and its arguments,
among which nodes stand for tensors. It returns the name of the result; a list of them for an operator with several, in
which None is a result that ONNX has no equivalent of. The files:

    general      rules of several operators, by the name of ONNX's operator
    elementwise  pointwise operators
    networks     products, reductions, normalizations, and operators of layers of networks
    shape        operators that move elements, and constants

An operator without a rule cannot be exported.
"""

from __future__ import annotations

from functools import lru_cache, partial
from importlib import import_module
from typing import Any

from ...dispatch.records import record_of

__all__ = ["rule_of"]


def rule_of(overload: Any) -> partial[Any] | None:
    """Return the rule of an overload, which is given a builder, a node and its arguments; None without one."""
    record = record_of(overload._row.function)
    return _rule(record.onnx) if record is not None and record.onnx else None


@lru_cache(256)  # more than there are values of `onnx:`
def _rule(onnx: tuple[int | str, ...]) -> partial[Any]:
    file, _, function = str(onnx[0]).rpartition(".")
    return partial(getattr(import_module(f"{__name__}.{file or 'general'}"), function), *onnx[1:])
