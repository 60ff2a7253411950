"""The generator's additions to gradloom.schema: stricter parsing and checks, Python names, variants, reserved names.

These objects need not be checked again. Code makes variants with `as_inplace`, `as_out`, `as_functional` and `as_copy`.

Note [Reserved names]
A wrapper is straight-line code over names of three kinds: its parameters, names derived from them (`self_` is the
array of `self`, `self_t` its tangent) and a fixed stock (`fn`, `flags`, `ops` ...). An argument with a name from the
stock would hide it, and the generated file would be wrong or not even compile: `check_names` refuses it.
tests/codegen/test_reserved.py compares the tables with the generated files.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from gradloom import schema as language
from gradloom.schema import SYMBOLS, Base, List, Optional, Parser, Return, SchemaError, Symbol, Type, is_data_model_name

from ..errors import SpecError, did_you_mean
from ..reading.yaml_files import Text

# Options of a factory that its out= variant takes from the given tensor instead.
_FACTORY_OPTIONS = ("dtype", "layout", "device", "pin_memory")

# Arguments of PyTorch's schemas whose names generated code uses itself, and that get another name in it.
_TAKEN = frozenset({"wrap"})


def accepts(type_: Type, value: object) -> bool:
    """Return whether an argument of the type may have a default value."""
    if isinstance(type_, Optional):
        return value is None or accepts(type_.elem, value)
    if isinstance(type_, List):
        if not isinstance(value, list):
            return type_.size is not None and accepts(type_.elem, value)
        # `int[2] stride=[]` means "as kernel_size"; one element stands for any number of dimensions.
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
    """The aliasing of a value; an alias set is one small letter."""

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
        """The name as a Python parameter: `from`, a keyword, becomes `from_`; callers still pass `from`."""
        return self.name + "_" if keyword.iskeyword(self.name) or self.name in _TAKEN else self.name


@dataclass(frozen=True, slots=True)
class FunctionSchema(language.FunctionSchema):
    """An operator's signature, which follows PyTorch's conventions for operators that write to arguments."""

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
        """Return the variant that writes to nothing and returns the new values instead. A variant that writes to one of
        several arguments returns its own results first, then each new value, named after its argument."""
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
        """Return the variant that writes its results to `out`, or to `out0`, `out1` ... if there are several."""
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
        """Return the part of the schema that all variants of an operator share. The overload, the in-place mark,
        annotations, defaults, out arguments and names of returns are left out."""
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

# Corrections for types of C++, Python and NumPy.
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


_BASES = {name: Base(name) for name in TYPES}  # one object each, which makes pickles of schemas smaller


class _Parser(Parser):
    strict = True
    argument_class, annotation_class, schema_class = Argument, Annotation, FunctionSchema

    def base_type(self, name: str) -> Base:
        if name not in TYPES:
            hint = _FOREIGN_TYPES.get(name) or did_you_mean(name, TYPES) or f"the types are {', '.join(TYPES)}"
            raise SchemaError(f"unknown type `{name}`", length=len(name), hint=hint)
        return _BASES[name]


def parse(text: str) -> FunctionSchema:
    """Parse `add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor`. Raises SchemaError with the offset
    and length of the offending word."""
    schema = _Parser(text).schema()
    assert isinstance(schema, FunctionSchema)
    return schema


# Names that a generated module imports or defines besides its operators.
MODULE_NAMES = frozenset(
    """ANOMALY AUTOCAST AUTOCAST_RULES FORWARD_AD GRAD_OFF GuardedOverload INFERENCE INTERCEPT LARGE MISSING
    NO_EDGE NUMBERS Node REDISPATCH RELEASED SavedVariable Tensor asarray bump_version checked
    elsewhere check_inplace check_layout default_float factory_dtype fits gradient_edge intercept make_view make_views
    mark_inference as_pair debug_checks metadata_of ndarray new next_sequence_nr no_gradients not_differentiable
    on_threads not_implemented_history not_implemented_write ops own pointwise_refusal promote promote_exact
    promote_fitting
    promote_numbers
    promote_quotient promote_to_float promote_to_float_exact rebase_history refusal refuse_tangents
    refused_write remember replace_history require_gradient result_class save save_list save_output edges_of
    TYPE_OF set_tangent share_version silence state take_kernel tangent_of tangent_to_write unpack unpack_list
    update_tangent warn_deprecated wrap wrapped_number write_inplace write_out xp zeros_for zeros_of exact""".split()
)

# Local variables and keyword parameters of wrappers and nodes.
LOCAL_NAMES = frozenset(
    """call changed edge edges error flags fn given grad_ grad_dtype grad_input_mask grads nr out records requires_grad
    results retain_variables written""".split()
)

# Python's names in them. An operator may have such a name (`any`) if its family does not use it.
PYTHON_NAMES = frozenset(
    """AttributeError Exception NotImplementedError all any bool builtins complex enumerate float int len list object
    str tuple zip""".split()
)

GENERATED_NAMES = MODULE_NAMES | LOCAL_NAMES | PYTHON_NAMES
_OF_A_MODULE = MODULE_NAMES.union(
    "AttributeError Exception NotImplementedError builtins enumerate len object tuple zip".split()
)

# Variables derived from a name: `{}` is that of an argument or result.
_DERIVED = (
    "{}_", "{}_t", "{}_p", "{}_numpy", "{}_tangent", "{}_out", "edge_{}", "edges_{}", "some_{}", "needs_{}",
    "grad_of_{}",
    "{}_is_none", "{}_size_", "{}_sym_sizes", "{}_sym_strides", "{}_sym_numel", "{}_dim",
    "{}_sym_storage_offset", "{}_scalar_type", "{}_device", "{}_layout",
)  # fmt: skip
_STRING = re.compile(r"""(["'])[ !#-&(-\[\]-~]{0,100}\1""")
_QUOTES = frozenset("\"'\\")
_LISTS = re.compile(r"Tensor\??\[\d*\]")
ALIASES = {"dim": "axis", "keepdim": "keepdims"}  # NumPy's names for these parameters, which callers may use, too


def check_names(text: Text, schema: FunctionSchema, has_out: bool) -> None:
    """Refuse names for which no correct Python function could be generated; see Note [Reserved names].

    Args:
        text: the `func:` value of the operator.
        has_out: whether its wrapper takes `out`, else an argument may have that name.

    Raises SpecError at the first name that is taken.
    """
    name = schema.name.name
    wrong = _operator_problem(name)
    if wrong:
        raise text.error(f"`{name}` cannot be the name of an operator: {wrong}", "choose another name", 0, len(name))
    arguments = [a.python_name for a in schema.arguments]
    results = [r.name for r in schema.returns if r.name is not None]
    outs = {a.name for a in schema.out_arguments}
    for what, names in (("argument", arguments), ("result", results)):
        for word in names:
            wrong = "" if word in outs or word == "out" and not has_out else _problem(word, what)
            if wrong:
                message = f"`{word}` cannot be the name of an {what}".replace("an result", "a result")
                raise _error_at(text, word, f"{message}: {wrong}")
    inputs = [a.name for a in schema.inputs]
    if inputs[:1] == ["self"] and "input" in inputs:
        raise _error_at(
            text, "input", "an argument `input` beside `self`, which callers of the function know as `input`"
        )
    for word, alias in ALIASES.items():
        if word in inputs and alias in inputs:
            raise _error_at(text, alias, f"an argument `{alias}` beside `{word}`, which may be called `{alias}`, too")
    _check_derived(text, arguments, [*arguments, *results])
    for argument in schema.arguments:
        _check_string(text, argument)


def check_kernel_schema(text: Text, schema: FunctionSchema) -> None:
    """Refuse schemas that a kernel cannot have: tensors and lists of tensors go in, tensors come out. Raises SpecError
    for a schema of another form, which only a composite may have."""
    shown = len(str(schema.name))
    hint = "write it as `composite: family.function`, which gets the arguments as they are"
    results = [r.type for r in schema.returns]
    if schema.kind == "functional" and not results:
        raise text.error(f"`{schema.name}` has a kernel but returns nothing", hint, 0, shown)
    for type_ in results:
        if not type_.is_tensor_like or (len(results) > 1 and type_.is_list):
            what = "beside other results" if type_.is_tensor_like else "which a kernel cannot give"
            raise text.error(f"`{schema.name}` returns {type_}, {what}", hint, 0, shown)
    for argument in schema.arguments:
        type_ = argument.type
        if type_.is_tensor_list and not _LISTS.fullmatch(str(type_)):
            message = f"`{argument.name}` is {type_}; a kernel takes Tensor[] or Tensor?[]"
            raise _error_at(text, argument.name, message, hint)
    first = schema.arguments[0].type if schema.arguments else None
    if schema.kind == "inplace" and first is not None and not (first.is_tensor and not first.is_optional):
        message = f"`{schema.name}` has a kernel and writes to {first}"
        raise _error_at(text, schema.arguments[0].name, message, hint)


def _check_string(text: Text, argument: Argument) -> None:
    """Refuse a string that is not a plain word, as PyTorch does not: it is copied into docstrings and signatures."""
    if argument.default is not None and not _QUOTES.isdisjoint(_STRING.sub("", argument.default)):
        message = f"the default of `{argument.name}` is a string with other than plain characters"
        hint = "a string has at most 100 characters, of ASCII, without quotes and backslashes"
        raise _error_at(text, argument.name, message, hint)


def _operator_problem(name: str) -> str:
    if keyword.iskeyword(name):
        return "Python has it as a keyword"
    if not name.strip("_"):
        return "it has no letter"
    if name.startswith("__") and not is_data_model_name(name):
        return "names that start with two underscores are reserved for Python"
    return "generated code uses it" if name in _OF_A_MODULE else ""


def _problem(word: str, what: str) -> str:
    if not word.strip("_"):
        return "it has no letter"
    if word.startswith("__"):
        return "names that start with two underscores are reserved for Python"
    if what == "result" and (keyword.iskeyword(word) or word.startswith("_")):
        return "it is to be an attribute of the returned tuple"
    taken = word in GENERATED_NAMES or word.startswith(("kernels_", "composite_", "scalar_"))
    return "generated code uses it" if taken else ""


def _check_derived(text: Text, arguments: Iterable[str], names: Iterable[str]) -> None:
    derived = {form.format(name): name for name in names for form in _DERIVED}
    for word in arguments:
        if word in derived:
            message = f"arguments `{word}` and `{derived[word]}`: generated code derives `{word}` from the other"
            raise _error_at(text, word, message)


def _error_at(text: Text, word: str, message: str, hint: str = "choose another name") -> SpecError:
    match = re.compile(rf"\b{re.escape(word)}\b(?=\s*[=,)])").search(text.value, text.value.find("("))
    offset = match.start() if match else 0
    return text.error(message, hint, offset, len(word) if match else None)
