"""Load native_functions.yaml: the operators, their kernels or composites, and the variants derived from them.

    operators = load("native_functions.yaml")
    add = operators["add.Tensor"]
    add.schema, add.kernel.ufunc, [v.name for v in add.derived]

Every entry is checked as a whole (its keys, schema, kernel, variants and tags), then the entries against one another.
All errors of a file are collected and raised together.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path

from ..errors import MAX_ERRORS, SpecError, did_you_mean, raise_all, shorten
from ..language.kernels import KernelExpr, analyse, check_function
from ..language.rows import Rows, analyse_rows
from ..language.scalars import Scalar, analyse_scalar, array_expression, from_kernel, is_worth_code
from ..reading.python_files import FunctionIndex
from ..reading.yaml_files import Entry, Node, Source, Text, TextMap, entries_in, load_entries
from ..schema import IDENTIFIER, FunctionSchema, OperatorName, SchemaError, Type, check_names, parse
from .float8 import Float8, float8_of
from .keys import DEFAULT_FAMILY, WHOLE, Batch, Families, batch_of, check_domain, check_keys, word_of, words_of
from .out_tensors import out_errors, out_takes, out_words
from .rules import SHAPE, SHARD, Rule, rule_of
from .sparse import sparse_of

# Folders of functions that entries name besides kernels and composites; gradloom's for every package.
BATCHING, SPARSE = "batching/rules", "sparse/kernels"
RULE_FOLDERS = (BATCHING, SPARSE, SHAPE.folder, SHARD.folder)


@dataclass(frozen=True, slots=True)
class NativeFunction:
    """One entry."""

    entry: Entry
    text: Text  # the `func:` value, for errors about the operator
    schema: FunctionSchema  # the operator
    variants: tuple[str, ...]  # 'function', 'method', 'function_', 'internal'
    kernel: KernelExpr | None  # its kernel; None for a composite
    scalar: Scalar | None  # what it computes element by element, by `scalar:` or by its kernel; None if neither says
    composite: str | None  # 'family.function' in src/gradloom/composite/, None for an operator with a kernel
    derived: tuple[Variant, ...]  # the variants listed in `autogen:`
    tags: tuple[str, ...]  # in the order of the file
    python_module: str | None  # 'nn', 'linalg', 'fft', 'special' or None
    family: str  # its file in generated/
    type_promotion: str | None  # its rule of type promotion; None if the entry has none
    promotes: tuple[str, ...]  # names of the tensor arguments that it converts to one dtype; empty for all
    accepts_number: tuple[str, ...]  # names of tensor arguments that callers may give as a Python number
    domain: Node | None  # the domain of valid inputs, for tests
    deprecated: str | None = None  # the call to write instead, which a warning names
    deprecated_because: str | None = None  # the reason, which makes every call warn
    number_overload: str | None = None  # its overload with a number as the second argument, if PyTorch has one
    deprecated_order: tuple[str, ...] = ()  # its arguments in another order, by position, that callers may still use
    infix: str | None = None  # the sign that formulas may use for it, between a tensor and a number; else None
    rows: Rows | None = (
        None  # what it computes for rows of elements, by `scalar:` and `over:`; None if these do not say
    )
    on_real: str | None = None  # 'self' if it returns a real tensor unchanged; else None
    out: tuple[str, ...] = ()  # the words of `out:`; `out_takes` derives the requirements from them
    out_errors: tuple[
        str, ...
    ] = ()  # for each result the error for an `out=` tensor of another dtype, if it is its own
    # 'exact' if a number is not rounded to half precision beside such a tensor; else None
    half_numbers: str | None = None
    # 'lower_precision', 'fp32', 'promote' or 'lower_result': autocast's rule; None for none
    autocast: str | None = None
    float8: Float8 | None = None  # what it does with 8-bit floats; None if its composite or a common error says it
    # what computes it for sparse tensors, and its in-place variant: a function in sparse/kernels/, or a word
    sparse: tuple[str, ...] = ()
    batch: Batch | None = None  # its batching rule for vmap, None if that follows from other keys
    shape: Rule | None = None  # how the meta device finds the shapes of its results; None if that follows
    shard: Rule | None = None  # how it is computed from parts of its tensors; None if that follows, or it is not
    top_level: bool = False  # whether an operator of a package is also a function of gradloom
    composite_module: str | None = None  # the module of the composite, as 'shape.reshapes'
    has_written_kernel: bool = False  # whether it has `kernel:`; else its kernel follows from `scalar:`

    @property
    def declaration(self) -> NativeFunction:
        """The entry without what only its own code and record follow from: its definition, its domain, what it does
        with sparse and 8-bit tensors, and the places of its words."""
        nowhere = Source("", "")
        text = Text(self.text.value, nowhere)
        derived = tuple(replace(v, text=Text(v.text.value, nowhere)) for v in self.derived)
        return replace(
            self,
            entry=TextMap({}, {}, nowhere),
            text=text,
            kernel=None,
            scalar=None,
            rows=None,
            domain=None,
            out_errors=(),
            float8=None,
            sparse=(),
            has_written_kernel=False,
            derived=derived,
        )

    @property
    def has_made_kernel(self) -> bool:
        """Return whether its kernel is a function that generated code has for a definition: one of several calls."""
        made = self.kernel is not None and not self.has_written_kernel
        return made and self.scalar is not None and is_worth_code(self.scalar)

    @property
    def made_name(self) -> str:
        """The function of that kernel."""
        return f"scalar_{self.schema.name.unambiguous}"

    @property
    def made_parameters(self) -> tuple[str, ...]:
        """Its parameters."""
        return tuple(a.python_name for a in self.schema.inputs)

    @property
    def name(self) -> str:
        """The full name, `add.Tensor`."""
        return str(self.schema.name)

    @property
    def schemas(self) -> tuple[FunctionSchema, ...]:
        """The operator itself and its derived variants."""
        return (self.schema, *(v.schema for v in self.derived))

    def variants_of(self, schema: FunctionSchema) -> tuple[str, ...]:
        """Return how Python calls the operator or its in-place variant: `function`, `method` or both, or `internal`."""
        words = tuple(w for w in self.variants if w != "function_")
        is_derived = schema.kind == "inplace" and schema.name != self.schema.name
        if is_derived and "method" in words and "function_" not in self.variants:
            return ("method",)
        return words

    @property
    def out_takes(self) -> tuple[str, ...]:
        """Its requirements for a tensor given as `out=`, if they are not the usual ones."""
        return out_takes(self.out, self.type_promotion, self.tags, self.composite is not None)

    @property
    def is_view(self) -> bool:
        """Return whether a result shares memory with an argument, by the alias annotations."""
        return self.schema.is_view


class NativeFunctions:
    """The entries of a file in their order; `[]` and `in` take full names, derived ones included."""

    def __init__(self, functions: tuple[NativeFunction, ...]) -> None:
        self._functions = functions
        self._by_name = {str(s.name): f for f in functions for s in f.schemas}

    def __iter__(self) -> Iterator[NativeFunction]:
        return iter(self._functions)

    def __len__(self) -> int:
        return len(self._functions)

    def __contains__(self, name: str) -> bool:
        return name in self._by_name

    def __getitem__(self, name: str) -> NativeFunction:
        """Return the entry with that name, or that derives it. Raises KeyError."""
        return self._by_name[name]

    def get(self, name: str) -> NativeFunction | None:
        return self._by_name.get(name)

    def schema(self, name: str) -> FunctionSchema | None:
        """Return the schema of that full name, of an entry or of a derived variant."""
        function = self._by_name.get(name)
        return next((s for s in function.schemas if str(s.name) == name), None) if function else None

    @property
    def names(self) -> tuple[str, ...]:
        """All full names, derived ones included, in the order of the file."""
        return tuple(self._by_name)

    def overloads(self, name: str) -> tuple[FunctionSchema, ...]:
        """Return the schemas that Python code calls by one name (`add`), out variants included."""
        return tuple(s for f in self._functions for s in f.schemas if s.name.name == name)


def package_folder(yaml_path: str | os.PathLike[str]) -> Path:
    """Return gradloom's source folder for a YAML file: beside it in a checkout, else the installed one."""
    here = Path(__file__).resolve().parents[1]
    candidates = (Path(yaml_path).resolve().parent / "src" / "gradloom", here.parent / "src" / "gradloom", here.parent)
    return next((c for c in candidates if (c / "kernels").is_dir()), candidates[0])


def rules_in(room: str) -> FunctionIndex:
    """Return the named rules of a feature, `batching/rules`, which are gradloom's for every package."""
    here = Path(__file__).resolve().parents[1]
    candidates = (here.parent / "src" / "gradloom", here.parent)
    return FunctionIndex(next(c for c in candidates if (c / "kernels").is_dir()) / room, room)


def load(path: str | os.PathLike[str], *, shown: str | None = None, package: Path | None = None) -> NativeFunctions:
    """Load the operators of a YAML file, which errors name as `shown`; `package` holds kernels/ and composite/. Raises
    SpecError, or SpecErrors for several errors."""
    package = package_folder(path) if package is None else package
    return analyse_entries(load_entries(path, shown), package)


def analyse_entries(
    entries: Sequence[Entry], package: Path | None, family: str = DEFAULT_FAMILY, kernels: FunctionIndex | None = None
) -> NativeFunctions:
    """Analyse the entries of a file. `family` is the default family; `kernels` are the named kernels, if not the
    package's. Raises SpecError, or SpecErrors."""
    return _Loader(package, entries, family, kernels).load()


def parse_func(text: Text) -> FunctionSchema:
    """Return the schema of a `func:` or `name:` value. Raises SpecError at the offending word."""
    try:
        return parse(text.value)
    except SchemaError as error:
        raise schema_error(text, error) from None


class _Loader:
    def __init__(
        self, package: Path | None, entries: Sequence[Entry], family: str, kernels: FunctionIndex | None
    ) -> None:
        self.entries = entries
        self.kernels = kernels or FunctionIndex(package and package / "kernels")
        self.composites = FunctionIndex(package and package / "composite")
        self.batching = rules_in(BATCHING)
        self.sparse = rules_in(SPARSE)
        self.rules = {room.key: rules_in(room.folder) for room in (SHAPE, SHARD)}
        self.families = Families(package, entries[0].source if entries else Source("", ""), family)

    def load(self) -> NativeFunctions:
        functions, errors = [], []
        for entry in self.entries:
            wrong = check_keys(entry)
            if not wrong:
                try:
                    functions.append(self.function(entry))
                    continue
                except SpecError as error:
                    wrong = [error]
            errors += wrong
            if len(errors) >= MAX_ERRORS:
                raise_all(errors)
        found = NativeFunctions(tuple(functions))
        check_together(found, errors)
        return found

    def below(self, banner: str | None) -> _Loader:
        """Return the loader of entries that stand below a banner, in texts of their own."""
        found = copy(self)
        found.families = self.families.below(banner or DEFAULT_FAMILY)
        return found

    def function(self, entry: Entry) -> NativeFunction:
        text = entry.fields["func"]
        assert isinstance(text, Text)  # checked by check_keys
        schema = parse_func(text)
        variants = tuple(w.value for w in words_of(entry, "variants")) or ("function",)
        check_names(text, schema)
        rows = analyse_rows(entry, schema)
        scalar = self.scalar(entry, schema) if rows is None else None
        kernel, composite = self.implementation(entry, text, schema, scalar)
        self.check_method(entry, schema, variants)
        derived = tuple(derive(schema, word) for word in words_of(entry, "autogen"))
        inplace = next((v.schema for v in derived if v.kind == "inplace"), None)
        has_out = any(v.kind in ("out", "copy_out") for v in derived)
        self.check_inplace_function(entry, variants, derived)
        tags = tuple(w.value for w in words_of(entry, "tags"))
        return NativeFunction(
            entry=entry,
            text=text,
            schema=schema,
            variants=variants,
            kernel=kernel,
            scalar=scalar or (from_kernel(kernel) if "pointwise" in tags else None),
            rows=rows,
            composite=composite,
            derived=derived,
            tags=tags,
            python_module=word_of(entry, "python_module"),
            family=self.families.of(entry, kernel, composite),
            type_promotion=word_of(entry, "type_promotion"),
            promotes=self.tensors(entry, schema, "promotes"),
            accepts_number=self.tensors(entry, schema, "accepts_number"),
            number_overload=self.number_overload(entry, schema),
            deprecated_order=self.deprecated_order(entry, schema),
            deprecated=word_of(entry, "deprecated"),
            deprecated_because=word_of(entry, "deprecated_because"),
            infix=word_of(entry, "infix"),
            domain=check_domain(entry, schema),
            on_real=word_of(entry, "on_real"),
            out=out_words(entry, schema, has_out),
            out_errors=out_errors(entry, schema, has_out),
            half_numbers=word_of(entry, "half_numbers"),
            autocast=self.autocast(entry, schema),
            float8=float8_of(entry, schema),
            sparse=sparse_of(entry, schema, inplace, self.sparse),
            batch=batch_of(entry, schema, self.batching),
            shape=self.shape(entry, schema),
            shard=rule_of(entry, schema, SHARD, self.rules["shard"]),
            top_level=word_of(entry, "top_level") is not None,
            composite_module=None if composite is None else self.composites.module(*composite.split(".")),
            has_written_kernel=entry.get("kernel") is not None,
        )

    def scalar(self, entry: Entry, schema: FunctionSchema) -> Scalar | None:
        """Return the definition that `scalar:` gives, which is for pointwise operators with one result."""
        text = entry.get("scalar")
        if not isinstance(text, Text):
            return None
        if "pointwise" not in (*(w.value for w in words_of(entry, "tags")), word_of(entry, "batch")):
            hint = "add `pointwise` to `tags:`, or `batch: pointwise`"
            raise entry.keys["scalar"].error(f"`{schema.name}` is not pointwise", hint)
        if len(schema.as_functional().returns) != 1:
            raise entry.keys["scalar"].error(f"`{schema.name}` has several results", "remove `scalar:`")
        return analyse_scalar(text, schema)

    def implementation(
        self, entry: Entry, text: Text, schema: FunctionSchema, scalar: Scalar | None
    ) -> tuple[KernelExpr | None, str | None]:
        kernel, composite = entry.get("kernel"), entry.get("composite")
        if kernel is not None and composite is not None:
            hint = "remove `kernel:`, or remove `composite:`"
            raise entry.keys["composite"].error(f"`{schema.name}` has a kernel and is a composite", hint)
        if isinstance(kernel, Text):
            return analyse(kernel, schema, self.kernels), None
        if isinstance(composite, Text):
            return None, check_function(composite, schema, self.composites)
        if scalar is not None:
            return self.made_kernel(entry, schema, scalar), None
        shown = len(str(schema.name))
        hint = "add `kernel: family.function`, or an array expression such as `kernel: xp.sin(self)`"
        raise text.error(f"`{schema.name}` has no kernel", hint, 0, shown)

    def made_kernel(self, entry: Entry, schema: FunctionSchema, scalar: Scalar) -> KernelExpr:
        """Return the kernel that a definition makes."""
        text = entry.fields["scalar"]
        assert isinstance(text, Text)
        try:
            source = array_expression(scalar)
        except ValueError as missing:
            hint = "add `kernel: family.function`, which computes it"
            raise text.error(f"NumPy has no `{missing}`, and `{schema.name}` has no kernel", hint) from None
        return analyse(replace(text, value=source), schema, self.kernels)

    def tensors(self, entry: Entry, schema: FunctionSchema, key: str) -> tuple[str, ...]:
        """Return the tensor arguments that a key names."""
        words = words_of(entry, key)
        tensors = [a.name for a in schema.inputs if a.type.is_tensor]
        for word in words:
            if word.value not in tensors:
                hint = did_you_mean(word.value, tensors) or f"its tensor arguments are {', '.join(tensors) or 'none'}"
                raise word.error(f"`{schema.name}` has no tensor argument `{word.value}`", hint)
        return tuple(w.value for w in words)

    def number_overload(self, entry: Entry, schema: FunctionSchema) -> str | None:
        """Return the overload of the same operator that takes a number as the second argument."""
        name = entry.get("number_overload")
        second = [a.name for a in schema.inputs[1:2]]
        if not isinstance(name, Text):
            return None
        if not IDENTIFIER.fullmatch(name.value):
            raise name.error(f"`{shorten(name.value)}` is not the name of an overload", "write a name such as `Scalar`")
        if second and second[0] in self.tensors(entry, schema, "accepts_number"):
            return name.value
        hint = f"add `accepts_number: {second[0]}`, or remove it" if second else "remove it"
        message = f"the second argument of `{schema.name}` may be no number, so that `number_overload` has no meaning"
        raise entry.keys["number_overload"].error(message, hint)

    def deprecated_order(self, entry: Entry, schema: FunctionSchema) -> tuple[str, ...]:
        """Return the arguments in the deprecated order: all of them, with those that are keyword-only among them."""
        words = words_of(entry, "deprecated_order")
        names = [a.name for a in schema.inputs]
        for word in words:
            if word.value not in names:
                hint = did_you_mean(word.value, names) or f"its arguments are {', '.join(names) or 'none'}"
                raise word.error(f"`{schema.name}` has no argument `{shorten(word.value)}`", hint)
        missing = [name for name in names if name not in [word.value for word in words]] if words else []
        if missing:
            hint = f"add {', '.join(missing)}"
            raise entry.keys["deprecated_order"].error("`deprecated_order` does not name all arguments", hint)
        if words and not schema.kwarg_only:
            message = f"`{schema.name}` has no keyword-only argument, so that `deprecated_order` has no meaning"
            raise entry.keys["deprecated_order"].error(message, "remove it; it is for numbers that moved behind `*`")
        return tuple(word.value for word in words)

    def autocast(self, entry: Entry, schema: FunctionSchema) -> str | None:
        """Return autocast's rule for the arguments. Refuse it for operators without tensors, or that write to one."""
        rule = word_of(entry, "autocast")
        if rule is None:
            return None
        if any(a.is_write for a in schema.arguments):
            reason, hint = "writes to an argument", "remove it; autocast leaves what is written to as it is"
        elif not any(a.type.is_tensor_like for a in schema.inputs):
            reason, hint = "has no tensor argument", "remove it; there is nothing to cast"
        else:
            return rule
        raise entry.keys["autocast"].error(f"`{schema.name}` {reason}, so that `autocast` has no meaning", hint)

    def shape(self, entry: Entry, schema: FunctionSchema) -> Rule | None:
        """Return the rule of the shapes of the results. Refuse it for composites, whose operators have theirs."""
        found = rule_of(entry, schema, SHAPE, self.rules["shape"])
        if found is not None and "composite" in entry:
            message = f"`{schema.name}` is made of operators that have shapes, so that `shape` has no meaning"
            raise entry.keys["shape"].error(message, "remove it")
        return found

    def check_method(self, entry: Entry, schema: FunctionSchema, variants: tuple[str, ...]) -> None:
        if "method" not in variants:
            return
        own = schema.argument("self")
        if own is None or own.kwarg_only or not own.type.is_tensor:
            word = next(w for w in words_of(entry, "variants") if w.value == "method")
            hint = "name the tensor that it is a method of `self`, or remove `method`"
            raise word.error(f"`{schema.name}` cannot be a method: it has no argument `Tensor self`", hint)

    def check_inplace_function(self, entry: Entry, variants: tuple[str, ...], derived: tuple[Variant, ...]) -> None:
        word = next((w for w in words_of(entry, "variants") if w.value == "function_"), None)
        if word is None or ("method" in variants and any(v.kind == "inplace" for v in derived)):
            return
        raise word.error(
            "`function_` makes the in-place variant of a method a function, too, and there is none",
            "remove it, or write `method` here and the in-place variant in `autogen:`",
        )


class Single:
    """Analyses entries one by one, each in a text of its own."""

    def __init__(self, package: Path | None) -> None:
        self._loader = _Loader(package, (), DEFAULT_FAMILY, None)

    def banners(self, text: str) -> list[str]:
        """Return the families of the banners in a text, in order."""
        return self._loader.families.banners(text)

    def function(self, source: Source, banner: str | None) -> NativeFunction:
        """Analyse the entry of a text that stands below a banner. Raises SpecError."""
        (entry,) = entries_in(source)
        raise_all(check_keys(entry))
        return self._loader.below(banner).function(entry)


def check_together(functions: NativeFunctions, errors: Iterable[SpecError] = ()) -> None:
    """Check entries against one another, unless there are errors in single ones. Raises SpecError, or SpecErrors."""
    listed = list(functions)
    errors = [*errors, *_duplicates(listed)]
    raise_all(errors or check_named_operators(listed, functions.schema) or _ambiguous(listed))


def _duplicates(functions: list[NativeFunction]) -> list[SpecError]:
    """Return errors for names that two entries have or derive."""
    errors: list[SpecError] = []
    first: dict[str, Text] = {}
    for function in functions:
        names = [(function.name, function.text.word(0, len(function.name)))]
        names += [(v.name, v.text) for v in function.derived]
        overload = function.entry.get("number_overload")
        if isinstance(overload, Text):
            names.append((f"{function.schema.name.name}.{overload.value}", overload))
        for name, text in names:
            if name in first:
                taken = f"line {first[name].line} has it already; remove one, or change its overload name"
                errors.append(text.error(f"duplicate entry `{name}`", taken))
            first.setdefault(name, text)
    return errors


def _ambiguous(functions: list[NativeFunction]) -> list[SpecError]:
    """Return errors for overloads that no call can distinguish."""
    groups: dict[tuple[str | None, str], list[tuple[NativeFunction, FunctionSchema]]] = {}
    for function in functions:
        groups.setdefault((function.python_module, function.schema.name.name), []).append((function, function.schema))
    errors = []
    for group in groups.values():
        if len(group) == 1:
            continue
        for earlier, later in ambiguous_pairs((s, frozenset(f.variants_of(s))) for f, s in group):
            (first, _), (second, schema) = group[earlier], group[later]
            errors.append(
                second.text.error(
                    f"overload `{second.name}` is ambiguous: `{first.name}` is called in the same way,"
                    f" `{spell(schema)}`",
                    f"change its argument types, or remove it; `{first.name}` is in line {first.text.line}",
                    0,
                    len(second.name),
                )
            )
    return errors


def check_named_operators(functions: Collection[NativeFunction], known: Callable[[str], object]) -> list[SpecError]:
    """Return errors for rules that name an operator which does not exist, or not as the rule needs it."""
    named = [word for f in functions for rule in (f.shape, f.shard) if rule is not None for word in rule.operators]
    hint = "write the name of an operator of this file, with its overload: `select.int`"
    missing = [w.error(f"there is no operator `{shorten(w.value)}`", hint) for w in named if not known(w.value)]
    return [*missing, *_check_whole(functions, known)]


def _check_whole(functions: Collection[NativeFunction], known: Callable[[str], object]) -> list[SpecError]:
    """Return errors for `whole(f)` and `evenly(f)` if there is no operator f with an argument `dim`."""
    errors = []
    for function in functions:
        batch = function.batch
        if batch is None or batch.rule not in WHOLE:
            continue
        text = function.entry.fields["batch"]
        assert isinstance(text, Text)
        name = batch.arguments[0]
        other = known(name)
        if not isinstance(other, FunctionSchema) or other.argument("dim") is None:
            hint = "name the operator that does the same along given dimensions, such as `sum.dim_IntList`"
            errors.append(
                text.error(
                    f"there is no operator `{shorten(name)}` with an argument `dim`",
                    hint,
                    text.value.index(name),
                    len(name),
                )
            )
    return errors


@dataclass(frozen=True, slots=True)
class Variant:
    """A derived operator. kind: 'functional', 'inplace', 'out', 'copy' or 'copy_out'; text: its word in `autogen:`."""

    kind: str
    schema: FunctionSchema
    text: Text

    @property
    def name(self) -> str:
        return str(self.schema.name)


_MAKERS: dict[str, Callable[[FunctionSchema], FunctionSchema]] = {
    "functional": FunctionSchema.as_functional,
    "inplace": FunctionSchema.as_inplace,
    "out": FunctionSchema.as_out,
    "copy": FunctionSchema.as_copy,
    "copy_out": lambda schema: schema.as_copy().as_out(),
}


def variant_names(name: OperatorName) -> dict[str, str]:
    """Return the names that `autogen:` may give for an operator, and the kind of variant of each. As in PyTorch's file,
    the overload is kept (`add_.Tensor`) or, if the name is free, omitted (`add_`, `add.out`)."""
    overload = name.overload
    outs = [f"{overload}_out", "out"] if overload else ["out"]
    names: dict[str, str] = {}
    plain = replace(name, inplace=False)
    copy = replace(plain, base=plain.base + "_copy")
    for kind, base in (("functional", plain), ("inplace", replace(plain, inplace=True)), ("copy", copy)):
        for kept in dict.fromkeys((overload, "")):
            names.setdefault(str(replace(base, overload=kept)), kind)
    for kind, base in (("out", plain), ("copy_out", copy)):
        for out in outs:
            names.setdefault(str(replace(base, overload=out)), kind)
    return {n: kind for n, kind in names.items() if n != str(name)}


def derive(schema: FunctionSchema, word: Text) -> Variant:
    """Return the variant of `schema` that a word of `autogen:` names. Raises SpecError at the word if no variant has
    that name, or the operator has no such variant."""
    names = variant_names(schema.name)
    kind = names.get(word.value)
    if kind is None:
        possible = {n: k for n, k in names.items() if _is_possible(schema, k)}
        close = did_you_mean(word.value, possible) if word.value != str(schema.name) else ""
        hint = f"its variants are {', '.join(f'`{n}`' for n in possible)}" if possible else "it has no variants"
        raise word.error(f"`{word.value}` is not a variant of `{schema.name}`", f"{close} {hint}".strip())
    try:
        derived = _MAKERS[kind](schema)
    except SchemaError as error:
        raise word.error(error.message, error.hint) from None
    if derived == schema or (kind == "functional" and schema.kind == "functional"):
        raise word.error(f"`{schema.name}` is that variant already", "remove it from `autogen:`")
    return Variant(kind, replace(derived, name=OperatorName.parse(word.value)), word)


def _is_possible(schema: FunctionSchema, kind: str) -> bool:
    if kind == "functional" and schema.kind == "functional":
        return False
    try:
        return _MAKERS[kind](schema) != schema
    except SchemaError:
        return False


def schema_error(text: Text, error: SchemaError) -> SpecError:
    """Return a SchemaError with its position in the file."""
    return text.error(error.message, error.hint, error.offset, error.length)


_SAME_IN_PYTHON = {"SymInt": "int", "SymBool": "bool", "DeviceIndex": "int"}

# Positional parameters, how many of them are required, and keyword-only parameters: (name, type, required).
CallShape = tuple[tuple[str, ...], int, frozenset[tuple[str, str, bool]]]


def call_shape(schema: FunctionSchema) -> CallShape:
    """Return the form of a call by which the parser picks an overload; it ignores the names of positional arguments."""
    positional = [a for a in schema.inputs if not a.kwarg_only]
    keywords = [a for a in schema.inputs if a.kwarg_only]
    return (
        tuple(_python_type(a.type) for a in positional),
        sum(a.default is None for a in positional),
        frozenset((a.name, _python_type(a.type), a.default is None) for a in keywords),
    )


def spell(schema: FunctionSchema) -> str:
    """Return a call in the form for messages: `add(Tensor, Scalar)`."""
    positional, required, _ = call_shape(schema)
    parts = [t if i < required else f"[{t}]" for i, t in enumerate(positional)]
    return f"{schema.name.name}({', '.join(parts)})"


def ambiguous_pairs(group: Iterable[tuple[FunctionSchema, frozenset[str]]]) -> list[tuple[int, int]]:
    """Return the positions (earlier, later) of overloads with equal calls. Functions and methods are never confused;
    out variants share the function of their functional form and are skipped."""
    first: dict[tuple[str, CallShape], int] = {}
    pairs = []
    for i, (schema, variants) in enumerate(group):
        if schema.kind == "out":
            continue
        shape = call_shape(schema)
        earlier = [first[v, shape] for v in sorted(variants) if (v, shape) in first]
        if earlier:
            pairs.append((earlier[0], i))
        for variant in variants:
            first.setdefault((variant, shape), i)
    return pairs


def _python_type(type_: Type) -> str:
    base = _SAME_IN_PYTHON.get(type_.base.name, type_.base.name)
    return base + "[]" if type_.is_list else base
