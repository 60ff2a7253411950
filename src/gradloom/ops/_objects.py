"""Operators as objects: the namespace `gradloom.ops.aten`, its operator `add`, and an overload of that, `add.Tensor`.

Note [Operator objects]
An operator's object is made on first use, from its records (Note [Records] in dispatch/records.py), or from a
definition of gradloom.library. An OpOverload binds arguments to its schema by the
library's argument parser and calls the wrapper, which does everything else. So objects cost nothing until they are
used, and operators do not depend on them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from importlib import import_module
from typing import Any, NamedTuple

from ..dispatch.overloads import Overloads
from ..dispatch.overloads.plans import accept
from ..dispatch.overloads.registry import Mismatch, types
from ..dispatch.overloads.signature import REQUIRED, Signature
from ..dispatch.records import Record, RecordIndex
from ._libraries import library_of
from ._schema import FunctionSchema, Tag, parse_schema

__all__ = ["Namespace", "OpOverload", "OpOverloadPacket", "Row", "namespace_of", "namespaces", "packet"]


class Row(NamedTuple):
    """The data of an overload.

    Attributes:
        overload: its name, `default` for the one without.
        function: computes it, from all arguments in the schema's order.
        schema: its text without namespace.
        tags: separated by spaces.
        numbers: the tensor arguments that may be a Python number, separated by spaces.
        made_by: `kernel`, `composite`, or the LibraryOperator that holds its kernels by dispatch key.
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
        RuntimeError: if the arguments do not match the schema.
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
    def _entry(self) -> tuple[Any, Callable[..., Any]]:
        numbers = self._row.numbers.split()
        function = _by_position(self._row.function, self._schema)
        scalar = [a.name in numbers and a.type.kind() == "NumberType" for a in self._schema.arguments]
        taken = [a.name for a in self._schema.arguments if a.name in numbers and not a.is_write]
        return self._schema.parameters(taken), _of_tensors(function, scalar) if any(scalar) else function

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        return self._calls(*args, **kwargs)

    @property
    def op(self) -> Callable[..., Any]:
        """The function that implements the overload."""
        return self._calls

    @property
    def overloadpacket(self) -> OpOverloadPacket:
        """The operator of the overload."""
        return self._overloadpacket

    @property
    def namespace(self) -> str:
        """`aten`."""
        return self._overloadpacket.namespace

    @property
    def tags(self) -> list[Any]:
        """The tags of the overload, as members of `gradloom.Tag`."""
        return [Tag[name] for name in self._row.tags.split()]

    @property
    def is_view(self) -> bool:
        """Return whether the result shares memory with an argument that the operator does not write to."""
        return any(a.alias_info is not None and not a.is_write for a in self._schema.arguments)

    def name(self) -> str:
        """Return `aten::add.Tensor`, or `aten::relu` if the overload has no name."""
        return self._name

    def has_kernel_for_dispatch_key(self, key: Any) -> bool:
        """Return whether there is a function for a dispatch key.

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
        """Call the operator if it is a composite; return NotImplemented if it has a kernel."""
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
    """An operator. A call goes to the first overload that accepts the arguments; overloads are attributes.

    Args:
        namespace, name: `aten`, `add`.
        rows: its overloads in the order of trial.
        function: the public function of the same name, if there is one; it supplies source and documentation.
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
        """The function that implements the operator."""
        return self._calls

    def overloads(self) -> list[str]:
        """Return the names of its overloads; the one without a name is `default`."""
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
        """Add an overload, or replace it."""
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


class SchemaCalls(Overloads):
    """Calls by schema: arguments have the schema's names, and lists are passed as lists.

    Args:
        name: `aten::add`.
        entries: (parameters, function of all its arguments by position) for each overload.
        schemas: the schemas, for error messages.
        packet: whether there are several overloads to choose from.
    """

    __slots__ = ("schemas", "packet")

    def __init__(self, name: str, entries: Any, schemas: Any, public: Any, packet: bool = False) -> None:
        super().__init__(name, entries, exact=True)
        self.schemas, self.packet, self.public = schemas, packet, public

    def complaint(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> RuntimeError:
        """Return the error for a call that matches no schema, in PyTorch's words."""
        found = [
            _complaint(self.name, Signature(parameters, function, exact=True), str(schema), args, kwargs)
            for (parameters, function), schema in zip(self.entries, self.schemas, strict=True)
        ]
        if not self.packet:
            return RuntimeError(found[0])
        return RuntimeError(
            "Overloaded torch operator invoked from Python failed to match any schema:\n" + "\n\n".join(found) + "\n\n"
        )


def _complaint(name: str, signature: Signature, schema: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """Return why the arguments do not match one schema."""
    positional, parameters = signature.positional, signature.parameters
    if len(args) > len(parameters):
        return (
            f"{name}() expected at most {len(parameters)} argument(s) but received {len(args)} argument(s). "
            f"Declaration: {schema}"
        )
    if len(args) > len(positional):
        return (
            f"{name}() takes {len(positional)} positional argument(s) but {len(args)} was/were given.  "
            f"Declaration: {schema}"
        )
    given = dict(zip((p.name for p in positional), args, strict=False))
    for name_ in kwargs:
        if name_ in given:
            return f"Argument '{name_}' specified both as positional and keyword argument. Schema: {schema}"
    given |= kwargs
    for position, parameter in enumerate(parameters):
        if parameter.name not in given:
            if parameter.default is REQUIRED:
                return f"{name}() is missing value for argument '{parameter.name}'. Declaration: {schema}"
            continue
        value = given.pop(parameter.name)
        if not _fits(parameter, value):
            return (
                f"{name}() Expected a value of type '{_word(parameter.type)}' for argument '{parameter.name}' but "
                f"instead found type '{type(value).__name__}'.\nPosition: {position}\nValue: {value!r}\n"
                f"Declaration: {schema}"
            )
    unknown = ", ".join(given)
    return f"Unknown keyword argument '{unknown}' for operator '{name}'. Schema: {schema}"


def _fits(parameter: Any, value: Any) -> bool:
    accepted = accept(parameter, 0, (type(value),))
    if accepted is None:
        return False
    try:
        accepted[0](value)
    except Mismatch:
        return False
    return True


def _word(type_: Any) -> str:
    word = {"Scalar": "number", "Tensor|number": "Tensor"}.get(type_.base, type_.base)
    if type_.size is not None:
        word = f"List[{word}]"
    return f"Optional[{word}]" if type_.optional else word


# Operators of PyTorch for what tensors do without one. They are defined on first use, for modes and subclasses.
_WITHOUT_WRAPPER = (
    *("_local_scalar_dense", "lift_fresh", "is_pinned", "pin_memory", "_pin_memory", "_sparse_addmm", "sym_size"),
)


class Namespace:
    """The operators of gradloom, of a package, of a library or of `gradloom.ops.define`, as attributes.

    Args:
        name: `aten`.
        names: names of operators that are made on first use.
        make: makes the operator of such a name.
    """

    def __init__(
        self, name: str, names: Iterable[str] = (), make: Callable[[str], OpOverloadPacket] | None = None
    ) -> None:
        self.__dict__["_name"] = name
        self.__dict__["_operators"] = dict.fromkeys(names)
        self.__dict__["_make"] = make

    def __getattr__(self, name: str) -> OpOverloadPacket:
        operators: dict[str, Any] = self.__dict__["_operators"]
        try:
            found: OpOverloadPacket | None = operators[name]
        except KeyError:
            own = self.__dict__["_name"]
            if own == "aten" and name in _WITHOUT_WRAPPER:
                import_module("gradloom._library.registry").without_wrapper(name)
                return operators[name]  # type: ignore[no-any-return]
            refused = library_of(own)
            if refused is not None:
                raise AttributeError(
                    f"'_OpNamespace' '{own}' object has no attribute '{name}': if {refused} has the operator, gradloom "
                    "cannot load it, because it is compiled for PyTorch; torch.library.custom_op registers operators "
                    "that are written in Python"
                ) from None
            known = ", ".join(sorted(operators)) if len(operators) <= 50 else f"{len(operators)} others"
            # contains PyTorch's words, by which programs recognise a missing operator
            raise AttributeError(
                f"'_OpNamespace' '{own}' object has no attribute '{name}': gradloom.ops.{own} has no "
                f"operator '{name}'; it has {known or 'none'}"
            ) from None
        if found is None:
            found = operators[name] = self.__dict__["_make"](name)
        return found

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(
            f"gradloom.ops.{self.__dict__['_name']}: operators are defined in YAML or by gradloom.library, not assigned"
        )

    def __iter__(self) -> Iterator[str]:
        return iter(self.__dict__["_operators"])

    def __len__(self) -> int:
        return len(self.__dict__["_operators"])

    def __dir__(self) -> list[str]:
        return list(self.__dict__["_operators"])

    def __repr__(self) -> str:
        names = sorted(self)
        shown = ", ".join(names) if len(names) <= 50 else f"{len(names)} operators"
        return f"<namespace gradloom.ops.{self.__dict__['_name']}: {shown}>"


namespaces: dict[str, Namespace] = {}


def namespace_of(name: str) -> Namespace:
    """Return the namespace of that name; make it if there is none."""
    if name not in namespaces:
        namespaces[name] = _own_namespace() if name == "aten" else Namespace(name)
    return namespaces[name]


def _own_namespace() -> Namespace:
    from ..generated import namespaces as generated, records
    from .lists import LISTS

    def make(name: str) -> OpOverloadPacket:
        if name in LISTS.operators:
            return packet("aten", name, LISTS, None)
        return packet("aten", name, records.RECORDS, generated.OPERATORS.get(name))

    return Namespace("aten", (*records.RECORDS.operators, *LISTS.operators), make)


def packet(namespace: str, name: str, records: RecordIndex, function: Callable[..., Any] | None) -> OpOverloadPacket:
    """Return the object of a generated operator.

    Args:
        records: the records of its package.
        function: the function that users call.
    """
    rows = [_row(record, records.wrapper_of(record)) for record in records.of_operator(name)]
    return OpOverloadPacket(namespace, name, rows, function)


def _row(record: Record, function: Callable[..., Any]) -> Row:
    made_by = "composite" if record.is_composite else "kernel"
    return Row(record.overload, function, record.schema, " ".join(record.tags), " ".join(record.numbers), made_by)


def _find(namespace: str, name: str, overload: str | None) -> Any:
    """Return the object that a pickle refers to."""
    packet = getattr(namespace_of(namespace), name)
    return packet if overload is None else getattr(packet, overload)


def _of_tensors(function: Callable[..., Any], scalar: list[bool]) -> Callable[..., Any]:
    """Return the function for a schema that has numbers in place of some tensors."""

    def call(*values: Any) -> Any:
        return function(*[types.wrapped_number(v) if s else v for v, s in zip(values, scalar, strict=True)])

    call.__doc__ = function.__doc__
    return call


def _by_position(function: Callable[..., Any], schema: FunctionSchema) -> Callable[..., Any]:
    """Return the function with all arguments of the schema positional. Public wrappers have keyword-only parameters,
    and take the tensors that an overload writes to as one `out`. Several results may come as a named tuple.
    """
    arguments = schema.arguments
    outs = sum(a.is_out for a in arguments)
    inputs = len(arguments) - outs
    names = getattr(function, "keyword_only", ())
    positional = inputs - len(names)
    named = len(schema.returns) > 1 and schema.name.startswith("aten::")  # overloads return plain tuples, as in PyTorch
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
