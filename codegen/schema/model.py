"""What the generator adds to gradloom.schema: stricter parsing and checks, Python names of parameters, variants.

These objects need not be checked again. Code makes variants with `as_inplace`, `as_out`, `as_functional` and `as_copy`.
"""

from __future__ import annotations

import keyword
import re
from dataclasses import dataclass, replace

from gradloom import schema as language
from gradloom.schema import SYMBOLS, Base, List, Optional, Parser, Return, SchemaError, Symbol, Type

from ..errors import did_you_mean

# Options of a factory that its out= variant takes from the given tensor instead.
_FACTORY_OPTIONS = ("dtype", "layout", "device", "pin_memory")

# Arguments of PyTorch's schemas whose names generated code uses itself; see language/reserved.py.
_TAKEN = frozenset({"wrap"})


def accepts(type_: Type, value: object) -> bool:
    """Return whether a default value can be given to an argument of the type."""
    if isinstance(type_, Optional):
        return value is None or accepts(type_.elem, value)
    if isinstance(type_, List):
        if not isinstance(value, list):
            return type_.size is not None and accepts(type_.elem, value)
        # `int[2] stride=[]` says "as kernel_size"; one element stands for any number of dimensions.
        fits = type_.size in (None, 1) or len(value) in (0, type_.size)
        return fits and all(accepts(type_.elem, item) for item in value)
    name = type_.base.name
    if isinstance(value, Symbol):
        return value.name in SYMBOLS.get("int" if name == "SymInt" else name, ())
    if isinstance(value, bool):
        return name in ("bool", "SymBool", "Scalar")
    if isinstance(value, int):
        return name in ("int", "SymInt", "float", "Scalar", "DeviceIndex")
    if isinstance(value, float):
        return name in ("float", "Scalar")
    return isinstance(value, str) and name in ("str", "Device")


@dataclass(frozen=True, slots=True)
class Annotation(language.Annotation):
    """The memory that a value shares; an alias set is one small letter."""

    def __post_init__(self) -> None:
        for name in self.sets + self.after:
            if not re.fullmatch(r"[a-z]|\*", name):
                raise SchemaError(f"alias set `{name}` in an annotation", hint="an alias set is one small letter")
        language.Annotation.__post_init__(self)


@dataclass(frozen=True, slots=True)
class Argument(language.Argument):
    """One argument, whose default is a value of its type."""

    def __post_init__(self) -> None:
        language.Argument.__post_init__(self)
        if self.default is not None and not accepts(self.type, self.default_value):
            raise SchemaError(
                f"default `{self.default}` of `{self.name}` is not a value of type {self.type}",
                hint=self._default_hint(),
                subject=("default", 0),
            )

    def _default_hint(self) -> str:
        base = self.type.base.name
        if base == "Tensor" and not self.type.is_optional:
            return "a tensor has no default value, an optional one has `None`: `Tensor?`"
        known = [*SYMBOLS.get(base, ()), "None", "True", "False"]
        if str(self.default).lower() in ("none", "null", "nullopt", "nullptr"):
            return f"write `{self.type}? {self.name}=None`, or a value of type {self.type}"
        written = {"bool": "write `True` or `False`", "str": "write the string in quotes"}.get(base)
        return (
            did_you_mean(str(self.default), known) or written or f"write a value of type {self.type}, or another type"
        )

    @property
    def python_name(self) -> str:
        """The name as a Python parameter: `from` is a keyword and becomes `from_`; callers still pass `from`."""
        return self.name + "_" if keyword.iskeyword(self.name) or self.name in _TAKEN else self.name


@dataclass(frozen=True, slots=True)
class FunctionSchema(language.FunctionSchema):
    """An operator's signature, which keeps PyTorch's conventions for operators that write to arguments."""

    name: language.OperatorName
    arguments: tuple[Argument, ...]
    returns: tuple[Return, ...]

    def __post_init__(self) -> None:
        language.FunctionSchema.__post_init__(self)
        self._check_arguments()
        self._check_returns()
        if self.kind == "inplace":
            self._check_inplace()
        elif self.kind == "out":
            self._check_out()

    def _check_arguments(self) -> None:
        optional = keyword_only = False
        for i, argument in enumerate(self.arguments):
            at = ("argument", i)
            if keyword_only and not argument.kwarg_only:
                raise SchemaError(f"positional `{argument.name}` after `*`", subject=at, hint="move it before the `*`")
            keyword_only = argument.kwarg_only
            if argument.kwarg_only:
                continue
            if optional and argument.default is None:
                raise SchemaError(
                    f"argument `{argument.name}` without a default follows one that has a default",
                    subject=at,
                    hint=f"give `{argument.name}` a default, or move it before the arguments that have one",
                )
            optional = argument.default is not None

    def _check_returns(self) -> None:
        names: set[str | None] = set()
        sets = {s for a in self.arguments if a.annotation for s in a.annotation.sets}
        for i, ret in enumerate(self.returns):
            if ret.name and ret.name in names:
                raise SchemaError(
                    f"return `{ret.name}` occurs twice", subject=("return name", i), hint="rename one of them"
                )
            names.add(ret.name)
            for letter in ret.annotation.sets if ret.annotation else ():
                if letter not in sets and letter != "*":
                    raise SchemaError(
                        f"the result aliases `{letter}`, which no argument bears",
                        subject=("return", i),
                        hint=f"write `Tensor({letter})` at the argument whose memory the result shares",
                    )

    def _check_inplace(self) -> None:
        first = self.arguments[0] if self.arguments else None
        if first is None or not first.is_write or not first.type.is_tensor_like:
            word = f"`{first}`" if first else "nothing"
            raise SchemaError(
                f"in-place operator `{self.name.name}` has {word} as its first argument",
                subject=("argument", 0) if first else ("name", 0),
                hint="an in-place operator writes to its first argument: `Tensor(a!) self`",
            )
        self._check_returned(tuple(a for a in self.arguments if a.is_write), allow_fewer=True)

    def _check_out(self) -> None:
        self._check_returned(self.out_arguments, allow_fewer=False)

    def _check_returned(self, written: tuple[Argument, ...], allow_fewer: bool) -> None:
        """Check that an operator that writes to arguments returns exactly those, or nothing."""
        annotated = [(r.type, r.annotation) for r in self.returns if r.annotation]
        expected = [(a.type, a.annotation) for a in written]
        fits = annotated == expected[: len(annotated)] and (allow_fewer or len(annotated) in (0, len(expected)))
        if self.returns and not (fits and annotated):
            wanted = ", ".join(a.type.text(a.annotation) for a in (written[:1] if allow_fewer else written))
            raise SchemaError(
                f"`{self.name}` writes to `{written[0].name}` but returns "
                + (", ".join(map(str, self.returns)) or "nothing"),
                subject=("return", 0),
                hint=f"write `-> {wanted if len(expected) == 1 or allow_fewer else f'({wanted})'}`",
            )

    @property
    def out_arguments(self) -> tuple[Argument, ...]:
        """The tensors that an out= variant writes to: keyword-only and mutable."""
        if self.name.inplace:
            return ()
        return tuple(a for a in self.arguments if a.kwarg_only and a.is_write)

    @property
    def inputs(self) -> tuple[Argument, ...]:
        """The arguments without the out arguments."""
        outs = self.out_arguments
        return tuple(a for a in self.arguments if a not in outs)

    @property
    def kind(self) -> str:
        """'functional', 'inplace' (the name ends in `_`), 'out' or 'mutable' (writes to an argument otherwise)."""
        if self.name.inplace:
            return "inplace"
        if self.out_arguments:
            return "out"
        return "mutable" if any(a.is_write for a in self.arguments) else "functional"

    def argument(self, name: str) -> Argument | None:
        """Return the argument of that name, or None."""
        return next((a for a in self.arguments if a.name == name), None)

    def as_functional(self) -> FunctionSchema:
        """Return the variant that writes to nothing and returns what this one would have written. One that writes to
        one argument of several returns its own results first, then each new value, named after its argument."""
        outs = self.out_arguments
        changed = tuple(a for a in self.arguments if a.is_write and a not in outs)
        if not changed and not outs:
            return self
        results = tuple(r for r in self.returns if not r.is_write)
        names = [r.name for r in self.returns] if len(self.returns) == len(outs) else [None] * len(outs)
        results += tuple(Return(a.type, name) for a, name in zip(outs, names, strict=True))
        if self.kind == "inplace" and len(changed) == 1:
            results += (Return(changed[0].type),)
        else:
            results += tuple(Return(a.type, f"{a.name}_out") for a in changed)
        overload = re.sub(r"_?out$", "", self.name.overload) if outs else self.name.overload
        inputs = tuple(replace(a, annotation=None) if a.is_write else a for a in self.inputs)
        return FunctionSchema(replace(self.name, inplace=False, overload=overload), inputs, results)

    def as_inplace(self) -> FunctionSchema:
        """Return the variant that writes its result to the first argument, which must be of the result's type."""
        if self.kind == "inplace":
            return self
        source = self.as_functional()
        first = source.arguments[0] if source.arguments else None
        if first is None or len(source.returns) != 1 or first.type != source.returns[0].type:
            raise SchemaError(
                f"`{self.name}` has no in-place variant: its result is not of its first argument's type",
                subject=("name", 0),
                hint="an in-place variant needs a first argument and one result of the same type",
            )
        write = Annotation(("a",), is_write=True)
        arguments = (replace(first, annotation=write), *source.arguments[1:])
        returns = () if first.type.is_list else (Return(first.type, None, write),)
        return FunctionSchema(replace(source.name, inplace=True), arguments, returns)

    def as_out(self) -> FunctionSchema:
        """Return the variant that writes its results to `out`, or to `out0`, `out1` ... where there are several."""
        if self.kind == "out":
            return self
        source = self.as_functional()
        if not source.returns or not all(r.type.is_tensor_like for r in source.returns):
            raise SchemaError(
                f"`{self.name}` has no out variant: it returns something that is not a tensor",
                subject=("return", 0),
                hint="an out variant needs results that are tensors",
            )
        one = len(source.returns) == 1
        outs, returns = [], []
        for i, ret in enumerate(source.returns):
            write = Annotation((chr(ord("a") + i),), is_write=True)
            outs.append(Argument("out" if one else f"out{i}", ret.type, None, write, kwarg_only=True))
            returns.append(Return(ret.type, None, write))
        overload = f"{self.name.overload}_out" if self.name.overload else "out"
        name = replace(source.name, inplace=False, overload=overload)
        inputs = tuple(replace(a, annotation=None) for a in _without_factory_options(source.arguments))
        returned = () if all(r.type.is_list for r in source.returns) else tuple(returns)
        return FunctionSchema(name, (*inputs, *outs), returned)

    def as_copy(self) -> FunctionSchema:
        """Return the variant of a view that returns a copy: `transpose_copy`."""
        if not self.is_view:
            raise SchemaError(
                f"`{self.name}` returns no view, so it has no copy variant",
                subject=("name", 0),
                hint="a copy variant needs a result that aliases an argument, such as `Tensor(a)`",
            )
        arguments = tuple(replace(a, annotation=None) for a in self.arguments)
        returns = tuple(replace(r, annotation=None) for r in self.returns)
        return FunctionSchema(replace(self.name, base=self.name.base + "_copy"), arguments, returns)

    def signature(self) -> FunctionSchema:
        """Return what the variants of an operator have in common: variants of one operator have equal signatures. The
        overload, the in-place mark, annotations, defaults, out arguments and names of returns are left out."""
        source = self.as_functional()
        arguments = tuple(
            Argument(a.name, a.type, None, None, a.kwarg_only) for a in _without_factory_options(source.arguments)
        )
        returns = tuple(Return(r.type) for r in source.returns)
        return FunctionSchema(language.OperatorName(self.name.namespace, self.name.base), arguments, returns)


def _without_factory_options(arguments: tuple[Argument, ...]) -> tuple[Argument, ...]:
    names = {a.name for a in arguments if a.kwarg_only}
    if not names.issuperset(_FACTORY_OPTIONS):
        return arguments
    return tuple(a for a in arguments if a.name not in _FACTORY_OPTIONS)


TENSOR = Base("Tensor")
TENSOR_LIST = List(TENSOR)

# Types of arguments that generated code can take.
TYPES = (
    "Tensor", "Scalar", "int", "SymInt", "float", "bool", "SymBool", "str", "ScalarType", "Layout", "Device",
    "DeviceIndex", "MemoryFormat", "QScheme", "Generator", "Storage", "Stream",
)  # fmt: skip

# What to write for types of C++, Python and NumPy.
_FOREIGN_TYPES = {
    **dict.fromkeys(("list", "List"), "write `Tensor[]`, `int[]` ..."),
    **dict.fromkeys(("TensorList", "Tensors"), "write `Tensor[]`"),
    **dict.fromkeys(("tuple", "IntArrayRef", "ArrayRef", "ints", "shape", "Size"), "write `int[]`"),
    **dict.fromkeys(("number", "Number", "complex"), "write `Scalar`"),
    **dict.fromkeys(("double", "float64", "float32"), "write `float`"),
    **dict.fromkeys(("string", "string_view"), "write `str`"),
    **dict.fromkeys(("Optional", "optional"), "write `Tensor?`, `int?` ..."),
    **dict.fromkeys(("ndarray", "array"), "write `Tensor`"),
    "dtype": "write `ScalarType`",
    "device": "write `Device`",
    "layout": "write `Layout`",
    "memory_format": "write `MemoryFormat`",
    "int64_t": "write `int`",
    "boolean": "write `bool`",
    "Any": "name the type: `Tensor`, `Scalar`, `int` ...",
    "void": "nothing is returned by `-> ()`",
    "self": "the type goes first: `Tensor self`",
}


class _Parser(Parser):
    strict = True
    argument_class, annotation_class, schema_class = Argument, Annotation, FunctionSchema

    def base_type(self, name: str) -> Base:
        if name not in TYPES:
            hint = _FOREIGN_TYPES.get(name) or did_you_mean(name, TYPES) or f"the types are {', '.join(TYPES)}"
            raise SchemaError(f"unknown type `{name}`", length=len(name), hint=hint)
        return Base(name)


def parse(text: str) -> FunctionSchema:
    """Parse `add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor`. Raises SchemaError with the offset
    and length of the offending word."""
    schema = _Parser(text).schema()
    assert isinstance(schema, FunctionSchema)
    return schema
