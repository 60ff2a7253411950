"""Sharding rules: how operators are computed from the parts of distributed tensors, by `shard:` of their entries.

Note [Sharding rules]
A rule is a function of a call (`_call.Call`) and of what the entry gives it. It proposes options for one dimension of
the mesh (`_call.Option`); that all inputs are replicated is always one and not proposed. `_propagation` chooses. An
operator without a rule gathers its arguments. The files:

    general     pointwise operators, index notation, reductions, and operators along dimensions
    shape       operators that only move elements: views, and joining tensors
    layers      operators of layers of networks

Note [Index notation]
For operators that work alike on every index, an entry has index labels in place of a rule, as in einsum: `ik,kj->ij`. A
small letter may be sharded: in every argument that has it, and in the result, or, if the result has not, the result is
a sum over the processes. A capital letter or a dot may not. `+` before an argument says that it is added to the result
(a bias): of a sum over the processes, one of them adds it. Without one, the operator is linear in each argument.
"""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module
from typing import Any

from ....dispatch.records import record_of
from .._call import Rule

__all__ = ["rule_of"]


def rule_of(func: Any) -> Rule | None:
    """Return the rule of an overload, or None. One of a library has none but the tag `pointwise`."""
    record = record_of(func._row.function)
    if record is None:
        return _rule(("pointwise",)) if any(tag.name == "pointwise" for tag in func.tags) else None
    return _rule(record.shard) if record.shard else None


@lru_cache(512)  # more than there are values of `shard:`
def _rule(shard: tuple[int | str, ...]) -> Rule:
    file, _, function = str(shard[0]).rpartition(".")
    rule: Any = getattr(import_module(f"{__name__}.{file or 'general'}"), function)
    arguments = shard[1:]
    return lambda call: rule(call, *arguments)
