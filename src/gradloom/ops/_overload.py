"""Operators as objects: `gradloom.ops.aten.add` and its overloads, `gradloom.ops.aten.add.Tensor`.

Note [Operator objects]
An operator's object is made when it is first asked for, from a row of the table that `gradloom generate` writes beside
the wrappers (generated/overloads.py), or from what gradloom.library was told. It is a way to call what is there
already: an OpOverload binds arguments to its schema by the library's own argument parser, and calls the wrapper, which
does everything else. So an object costs nothing until it is used, and the operators themselves know nothing of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any, NamedTuple

from ..dispatch.overloads.registry import types
from ._matching import SchemaCalls
from ._schema import FunctionSchema, Tag, parse_schema

__all__ = ["OpOverload", "OpOverloadPacket", "Row"]


class Row(NamedTuple):
    """What an overload is made from.

    overload: its name, `default` for the one without. function: what computes it, called with all arguments in the
    schema's order. schema: its text without namespace. tags, numbers: separated by spaces; the latter are the tensor
    arguments that may be a Python number. made_by: `kernel`, `composite`, or what holds its kernels by dispatch key.
    """

    overload: str
    function: Callable[..., Any]
    schema: str
    tags: str = ""
    numbers: str = ""
    made_by: Any = "kernel"


class OpOverload:
    """One overload of an operator; call it with the arguments of its schema.

    Raises (when called):
        RuntimeError: if the schema does not take the arguments.
    """

    __name__: str

    def __init__(self, packet: OpOverloadPacket, row: Row) -> None:
        self._overloadpacket, self._row = packet, row
        self._overloadname = row.overload
        self._qualified_op_name = packet._qualified_op_name
        self._name = self._qualified_op_name + ("" if row.overload == "default" else f".{row.overload}")
        self.__name__ = f"{packet.__name__}.{row.overload}"
        self.__qualname__, self.__module__ = self._name, packet.__module__
        self.__doc__ = row.function.__doc__

    @cached_property
    def _schema(self) -> FunctionSchema:
        return parse_schema(f"{self.namespace}::{self._row.schema}")

    @cached_property
    def _calls(self) -> SchemaCalls:
        return SchemaCalls(self._qualified_op_name, (self._entry,), (self._schema,), self)

    @property
    def _entry(self) -> tuple[str, Callable[..., Any]]:
        text, numbers = self._row.schema, self._row.numbers.split()
        for name in numbers:
            text = text.replace(f"Tensor {name},", f"Tensor|number {name},").replace(
                f"Tensor {name})", f"Tensor|number {name})"
            )
        function = _by_position(self._row.function, self._schema)
        scalar = [a.name in numbers and a.type.kind() == "NumberType" for a in self._schema.arguments]
        return text, _of_tensors(function, scalar) if any(scalar) else function

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        return self._calls(*args, **kwargs)

    @property
    def op(self) -> Callable[..., Any]:
        """What computes it."""
        return self._calls

    @property
    def overloadpacket(self) -> OpOverloadPacket:
        """The operator that it is an overload of."""
        return self._overloadpacket

    @property
    def namespace(self) -> str:
        """`aten`."""
        return self._overloadpacket.namespace

    @property
    def tags(self) -> list[Any]:
        """What is known of it besides the schema, as members of `gradloom.Tag`."""
        return [Tag[name] for name in self._row.tags.split()]

    @property
    def is_view(self) -> bool:
        """Whether its result shares the memory of an argument that it does not write to."""
        return any(a.alias_info is not None and not a.is_write for a in self._schema.arguments)

    def name(self) -> str:
        """`aten::add.Tensor`, and `aten::relu` where the overload has no name."""
        return self._name

    def has_kernel_for_dispatch_key(self, key: Any) -> bool:
        """Whether a function was registered for a dispatch key.

        Args:
            key: 'CPU', 'Autograd', 'CompositeImplicitAutograd' ...
        """
        word, made_by = getattr(key, "name", key), self._row.made_by
        if isinstance(made_by, str):
            return word in (
                ("CPU", "Autograd", "AutogradCPU") if made_by == "kernel" else ("CompositeImplicitAutograd",)
            )
        return word in made_by

    def _can_decompose(self) -> bool:
        return self.has_kernel_for_dispatch_key("CompositeImplicitAutograd")

    def decompose(self, *args: Any, **kwargs: Any) -> Any:
        """Call it as what it is made of; NotImplemented if it has a kernel of its own."""
        return self._calls(*args, **kwargs) if self._can_decompose() else NotImplemented

    def __deepcopy__(self, memo: object = None) -> OpOverload:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return _find, (self.namespace, self._overloadpacket.__name__, self._overloadname)

    def __hash__(self) -> int:
        return hash(self._name)

    def __eq__(self, other: object) -> bool:
        return self is other

    def __str__(self) -> str:
        return f"{self._overloadpacket}.{self._overloadname}"

    def __repr__(self) -> str:
        return f"<OpOverload(op='{self._overloadpacket}', overload='{self._overloadname}')>"


class OpOverloadPacket:
    """An operator: call it, and the first overload that takes the arguments computes the result; or take an overload
    as an attribute.

    Args:
        namespace, name: `aten`, `add`.
        rows: its overloads in the order of trial.
        function: what users call besides this object, whose source and documentation are shown; if there is one.
    """

    namespace: str
    __name__: str

    def __init__(self, namespace: str, name: str, rows: list[Row], function: Callable[..., Any] | None = None) -> None:
        self.namespace, self._qualified_op_name = namespace, f"{namespace}::{name}"
        self._rows = {row.overload: row for row in rows}
        self.__name__, self.__qualname__ = name, self._qualified_op_name
        self.__module__ = f"gradloom._ops.{namespace}"
        self.__doc__ = getattr(function, "__doc__", None)
        if function is not None:
            self.__wrapped__ = function

    @cached_property
    def _calls(self) -> SchemaCalls:
        overloads = [getattr(self, name) for name in self._rows]
        return SchemaCalls(
            self._qualified_op_name,
            tuple(o._entry for o in overloads),
            tuple(o._schema for o in overloads),
            self,
            packet=True,
        )

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        return self._calls(*args, **kwargs)

    @property
    def op(self) -> Callable[..., Any]:
        """What computes it."""
        return self._calls

    def overloads(self) -> list[str]:
        """The names of its overloads; the one without a name is `default`."""
        return list(self._rows)

    @property
    def _schemas(self) -> Mapping[str, FunctionSchema]:
        return {"" if name == "default" else name: getattr(self, name)._schema for name in self._rows}

    def __getattr__(self, name: str) -> OpOverload:
        row = self.__dict__.get("_rows", {}).get(name)
        if row is None:
            if name.startswith("__"):
                raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
            raise AttributeError(
                f"The underlying op of '{self}' has no overload name '{name}'; it has "
                f"{', '.join(self.__dict__.get('_rows', ()))}"
            )
        found = self.__dict__[name] = OpOverload(self, row)
        return found

    def _add(self, row: Row) -> OpOverload:
        """One more overload, or another one in the place of it."""
        self._rows[row.overload] = row
        for name in (row.overload, "_calls"):
            self.__dict__.pop(name, None)
        found: OpOverload = getattr(self, row.overload)
        return found

    def _remove(self, overload: str) -> None:
        self._rows.pop(overload, None)
        for name in (overload, "_calls"):
            self.__dict__.pop(name, None)

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._rows]

    def __deepcopy__(self, memo: object = None) -> OpOverloadPacket:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return _find, (self.namespace, self.__name__, None)

    def __str__(self) -> str:
        return f"{self.namespace}.{self.__name__}"

    def __repr__(self) -> str:
        return f"<OpOverloadPacket(op='{self}')>"


def _find(namespace: str, name: str, overload: str | None) -> Any:
    """What a pickle holds of an operator: its name."""
    from . import __getattr__ as find

    packet = getattr(find(namespace), name)
    return packet if overload is None else getattr(packet, overload)


def _of_tensors(function: Callable[..., Any], scalar: list[bool]) -> Callable[..., Any]:
    """The function where the schema has numbers for some of the tensors that it takes."""

    def call(*values: Any) -> Any:
        return function(*[types.wrapped_number(v) if s else v for v, s in zip(values, scalar, strict=True)])

    call.__doc__ = function.__doc__
    return call


def _by_position(function: Callable[..., Any], schema: FunctionSchema) -> Callable[..., Any]:
    """The function as one that takes all arguments of the schema by position.

    Generated wrappers that are public themselves have keyword-only parameters, and all take what an overload writes to
    as one `out`. Those of several results may return them with names.
    """
    arguments = schema.arguments
    outs = sum(a.is_out for a in arguments)
    inputs = len(arguments) - outs
    code = getattr(getattr(function, "_own", function), "__code__", None)  # Note [Torch functions]
    positional = inputs
    names: tuple[str, ...] = ()
    if code is not None and not code.co_flags & 4:  # *args takes everything
        positional = min(inputs, code.co_argcount)
        names = code.co_varnames[code.co_argcount :][: inputs - positional]
    named = len(schema.returns) > 1 and schema.name.startswith("aten::")  # those return plain tuples, as in PyTorch
    if not names and not outs and not named:
        return function

    def call(*values: Any) -> Any:
        keywords = dict(zip(names, values[positional:inputs], strict=True))
        if outs:
            keywords["out"] = values[inputs] if outs == 1 else tuple(values[inputs:])
        found = function(*values[:positional], **keywords)
        return tuple(found) if named and isinstance(found, tuple) else found

    call.__doc__ = function.__doc__
    return call
