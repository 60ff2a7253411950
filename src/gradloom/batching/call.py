"""A call of an operator with batched arguments, and the operator's row in the table of batching rules."""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module
from typing import Any, NamedTuple

from ..core.tensor import Tensor
from ..dispatch import _operators as ops
from ..dispatch.interception import Call as Intercepted
from ..dispatch.promotion import result_type_of
from ..types.public import home_of
from .levels import Level
from .tensor import BatchedTensor, batched, physical_at

TENSOR, OPTIONAL, LIST, OPTIONAL_LIST = "Tensor", "Tensor?", "Tensor[]", "Tensor?[]"


class Parameter(NamedTuple):
    """A parameter of an operator; `kind` is '' if it holds no tensors."""

    name: str
    kind: str


class Operator(NamedTuple):
    """The row of a wrapper in generated/batching.py.

    Attributes:
        name: name of the operator, such as `add.Tensor`.
        rule: name of its batching rule.
        arguments: arguments of the rule: names of parameters, or numbers.
        parameters: parameters of the wrapper.
        promotes: tensor parameters that type promotion converts to one dtype.
        writes: whether the operator writes to its first argument.
    """

    name: str
    rule: str
    arguments: tuple[str, ...]
    parameters: tuple[Parameter, ...]
    promotes: tuple[str, ...]
    writes: bool


@lru_cache(4096)  # more than there are wrappers
def operator_of(wrapper: Any) -> Operator | None:
    """Return a wrapper's row; None if no table has one, as for operators that are made at run time."""
    package, _, family = home_of(wrapper).partition(".variable_type.")
    if not family:
        return None
    try:
        table = import_module(f"{package}.batching").OPERATORS
    except ModuleNotFoundError:
        return None
    found = table.get(f"{family}.{wrapper.__name__}")
    if found is None:
        return None
    name, rule, parameters, promotes = found
    rule, _, arguments = rule.rstrip(")").partition("(")
    words = [word.split(": ") for word in _words(parameters)]
    return Operator(
        name,
        rule,
        _words(arguments),
        tuple([Parameter(w[0], w[1] if w[1:] else "") for w in words]),
        _words(promotes),
        is_inplace(name),
    )


def is_inplace(name: str) -> bool:
    """Return whether an operator writes to its first argument, by its name."""
    base = name.partition(".")[0]
    return base.endswith("_") and not base.endswith("__")


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split(", ")) if text else ()


class Call:
    """An operator called with batched arguments.

    Attributes:
        wrapper: the generated function.
        operator: its row of the table.
        values: parameter -> argument.
        rest: further arguments of a factory function.
        level: the innermost level among the arguments.
    """

    __slots__ = ("wrapper", "operator", "values", "rest", "level")

    def __init__(self, wrapper: Any, operator: Operator, args: tuple[Any, ...], level: Level) -> None:
        self.wrapper, self.operator, self.level = wrapper, operator, level
        self.values: dict[str, Any] = {p.name: value for p, value in zip(operator.parameters, args, strict=False)}
        self.rest = args[len(operator.parameters) :]

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    @property
    def size(self) -> int:
        return self.level.size

    @property
    def arguments(self) -> tuple[str, ...]:
        """The arguments of the rule."""
        return self.operator.arguments

    @property
    def tensors(self) -> list[str]:
        """The parameters that hold one tensor in this call."""
        return [
            p.name
            for p in self.operator.parameters
            if p.kind in (TENSOR, OPTIONAL) and isinstance(self.values.get(p.name), Tensor)
        ]

    @property
    def first(self) -> str:
        """The first parameter."""
        return self.operator.parameters[0].name

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
        kept = self.first if self.operator.writes else None
        return {
            n: ops.to(t, target)
            for n, t in zip(names, found, strict=True)
            if t._wrapped_number is None and t.dtype is not target and n != kept
        }
