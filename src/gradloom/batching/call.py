"""A call of an operator with batched arguments."""

from __future__ import annotations

from typing import Any

from ..core.tensor import Tensor
from ..dispatch import _operators as ops
from ..dispatch.interception import Call as Intercepted
from ..dispatch.promotion import result_type_of
from ..dispatch.records import Record
from .levels import Level
from .tensor import BatchedTensor, batched, physical_at


class Call:
    """An operator called with batched arguments.

    Attributes:
        wrapper: the generated function.
        operator: its record.
        values: parameter -> argument.
        rest: further arguments of a factory function.
        level: the innermost level among the arguments.
    """

    __slots__ = ("wrapper", "operator", "values", "rest", "level")

    def __init__(self, wrapper: Any, operator: Record, args: tuple[Any, ...], level: Level) -> None:
        self.wrapper, self.operator, self.level = wrapper, operator, level
        self.values: dict[str, Any] = {p.name: value for p, value in zip(operator.arguments, args, strict=False)}
        self.rest = args[len(operator.arguments) :]

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    @property
    def size(self) -> int:
        return self.level.size

    @property
    def arguments(self) -> tuple[str, ...]:
        """The arguments of the rule."""
        return self.operator.batch[1:]

    @property
    def tensors(self) -> list[str]:
        """The parameters that hold one tensor in this call."""
        return [
            p.name
            for p in self.operator.arguments
            if p.tensors in ("Tensor", "Tensor?") and isinstance(self.values.get(p.name), Tensor)
        ]

    @property
    def first(self) -> str:
        """The first parameter."""
        return self.operator.arguments[0].name

    def is_batched(self, name: str) -> bool:
        """Return whether an argument is batched at this level."""
        value = self.values.get(name)
        return value.__class__ is BatchedTensor and value._batch is self.level

    def bare(self, name: str) -> Any:
        """Return the physical tensor of an argument that is batched at this level; any other argument unchanged."""
        value: Any = self.values.get(name)
        return value._physical if self.is_batched(name) else value

    def physical(self, name: str) -> Any:
        """Return the physical tensor of an argument, expanded if it is not batched; None for None."""
        value = self.values.get(name)
        return None if value is None else physical_at(value, self.level)

    def rank(self, name: str) -> int:
        """Return the number of dimensions of one batch element."""
        return self.values[name]._array.ndim

    def invoke(self, changes: dict[str, Any] | None = None, wrapper: Any = None) -> Any:
        """Call the operator, or another wrapper with the same parameters, with some arguments replaced."""
        values = self.values if changes is None else {**self.values, **changes}
        return Intercepted(wrapper or self.wrapper, (*values.values(), *self.rest)).plain()

    def wrap(self, result: Any) -> Any:
        """Wrap physical results as batched tensors of this level."""
        if isinstance(result, Tensor):
            return batched(result, self.level)
        if isinstance(result, (tuple, list)):
            cls = result.__class__
            values = [self.wrap(r) for r in result]
            return cls(values) if cls is list or cls is tuple else cls(tuple(values))
        return result

    def promoted(self) -> dict[str, Any]:
        """Return {parameter: converted tensor} by the type promotion of single batch elements. On physical tensors the
        operator's own promotion would differ: it depends on which tensors are 0-dimensional."""
        names = [n for n in self.operator.promotes if isinstance(self.values.get(n), Tensor)]
        found = [self.values[n] for n in names]
        kinds = {t._array.dtype for t in found}
        if len(kinds) < 2:
            return {}
        target = result_type_of(found)
        kept = self.first if self.operator.is_inplace else None
        return {
            n: ops.to(t, target)
            for n, t in zip(names, found, strict=True)
            if t._wrapped_number is None and t.dtype is not target and n != kept
        }
