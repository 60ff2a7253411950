"""Operators on lists of tensors: `torch._foreach_add`, which calls `add` for each tensor, `torch._fused_adam_` ...

Note [Operators on lists]
Entries of native_functions.yaml with `foreach:` or `fused:` are operators on lists of tensors. Their records are in
records/lists.py of generated code; this module makes their functions on first use. `foreach:` names a rule in
general.py beside this file: what is computed for each tensor, such as `each(add.Tensor)`. A call takes the elements of
its lists in turn, with the other arguments as they are. `fused:` names a rule in optim/fused_rules: a step of an
optimizer, which writes to its lists.

A function of the main namespace returns a tuple, or the first list if it works in place by `foreach:`; an overload of
`gradloom.ops.aten` returns what its schema says. Before it writes to a tensor, an in-place function makes sure that all
may be written. Derivatives are those of the operators, whose nodes PyTorch names differently if they are not in place.

All raise RuntimeError for an empty list and for lists of different lengths, and TypeError as operators do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from itertools import repeat
from typing import Any

from ...core.tensor import Tensor
from ...core.views import check_inplace
from ...dispatch.families import by_name
from ...dispatch.overloads import overloaded_function
from ...dispatch.records import Argument, Record, RecordIndex
from ...dispatch.state import GRAD_OFF, state
from ...generated.records import lists
from ...schema import parameters, parse
from ...tensors.out import store
from . import general


class _Functions:
    """The functions of overloads, by the names of their wrappers."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return overload(lists.RECORDS.by_wrapper[name])


_FAMILY = "lists"
LISTS = RecordIndex(
    by_name({_FAMILY: " ".join(dict.fromkeys(record.operator for record in lists.RECORDS.values()))}),
    lambda family: lists,
    lambda family: _Functions(),  # type: ignore[arg-type,return-value]
)


def function(name: str) -> Callable[..., Any] | None:
    """Return the function of the main namespace that has a name; None if there is none."""
    records = LISTS.of_operator(name) if name in LISTS.operators else []
    records = [r for r in records if not r.is_out and "self_out" not in r.schema]  # that of functional forms
    if not records:
        return None
    entries = [(parameters(parse(r.schema).arguments), _as_function(r)) for r in records]
    found: Callable[..., Any] = overloaded_function(name, tuple(entries))
    if not records[0].foreach or not records[0].is_inplace:
        return found

    def changed(*args, **kwargs):
        found(*args, **kwargs)
        return args[0] if args else kwargs["self"]

    changed.__name__ = changed.__qualname__ = name
    changed.__module__ = "gradloom"
    return changed


def _as_function(record: Record) -> Callable[..., Any]:
    compute = overload(record)
    return compute if record.is_inplace else lambda *values: tuple(compute(*values))


@cache  # one for each overload
def overload(record: Record) -> Callable[..., Any]:
    """Return the function of an overload, which takes all arguments by position, but `out`."""
    # The optimizers stand above this module, so their rules are imported by name.
    found = _for_each(record) if record.foreach else import_module("gradloom.optim.fused_rules").step(record)
    if record.is_out:
        found = _to_out(found)
    elif record.is_inplace:
        found = _without_result(found)
    found.__doc__ = record.schema
    return found


def _to_out(compute: Callable[..., Any]) -> Callable[..., Any]:
    def call(*values, out):
        results = compute(*values)
        if len(out) != len(results):
            raise RuntimeError(
                f"Tensor lists must have the same number of tensors, got {len(results)} results and {len(out)} outputs"
            )
        for target, result in zip(out, results, strict=True):
            store(target, result)

    return call


def _without_result(compute: Callable[..., Any]) -> Callable[..., Any]:
    def call(*values):
        compute(*values)

    return call


def _for_each(record: Record) -> Callable[..., Any]:
    rule, *given = record.foreach
    of_one = getattr(general, str(rule))(record, *given)
    arguments = [a for a in record.arguments if a.name != "out"]
    is_inplace = record.is_inplace
    first = next(i for i, a in enumerate(arguments) if a.tensors == "Tensor[]")

    def call(*values):
        count = len(values[first])
        if not count:
            raise RuntimeError("Tensor list must have at least one tensor.")
        rows: Any = zip(*_columns(arguments, values, count), strict=False)  # one value of each argument
        if is_inplace and not state.flags & GRAD_OFF:
            rows = list(rows)
            for x, *others in rows:
                check_inplace(x, [other for other in others if isinstance(other, Tensor)])
        return [of_one(*row) for row in rows]

    return call


def _columns(arguments: list[Argument], values: tuple[Any, ...], count: int) -> Iterator[Any]:
    """Yield for each argument its values for `count` tensors: the elements of a list, or the value again and again."""
    for argument, value in zip(arguments, values, strict=True):
        if argument.tensors == "Tensor[]" and len(value) != count:
            raise RuntimeError(f"Tensor lists must have the same number of tensors, got {count} and {len(value)}")
        if argument.type == "Scalar[]" and len(value) != count:
            raise RuntimeError("Tensor list must have same number of elements as scalar list.")
        if argument.type.endswith("[]"):
            yield value
        elif argument.tensors == "Tensor" and argument.name == "scalars":
            yield _unpacked(value, count)
        elif argument.tensors == "Tensor" and value.dim():
            raise RuntimeError(
                f"scalar tensor expected to be 0 dim but it has {value.dim()} dimensions and {value.numel()} elements."
            )
        else:
            yield repeat(value, count)


def _unpacked(scalars: Tensor, count: int) -> list[Any]:
    if scalars.dim() != 1:
        raise RuntimeError(f"Expected packed scalar Tensor to be of dimension 1. Got {scalars.dim()} instead.")
    if scalars.size(0) != count:
        raise RuntimeError(
            f"Expected length of scalars to match input of length {count} but got {scalars.size(0)} instead."
        )
    return scalars.tolist()  # type: ignore[no-any-return]
