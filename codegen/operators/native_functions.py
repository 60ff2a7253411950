"""Load native_functions.yaml: the operators, their kernels or composites, and the variants derived from them.

    operators = load("native_functions.yaml")
    operators["add.Tensor"].schema

Every entry is read by itself (entries.py), then the entries are checked against one another. All errors of a file are
collected and raised together.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path

from ..errors import MAX_ERRORS, SpecError, raise_all, shorten
from ..reading.python_files import FunctionIndex
from ..reading.yaml_files import Entry, Text, load_entries
from ..schema import FunctionSchema, Type
from .entries import Reader
from .keys import DEFAULT_FAMILY, WHOLE, check_keys
from .model import NativeFunction, NativeFunctions


def package_folder(yaml_path: str | os.PathLike[str]) -> Path:
    """Return gradloom's source folder for a YAML file: beside it in a checkout, else the installed one."""
    here = Path(__file__).resolve().parents[1]
    candidates = (Path(yaml_path).resolve().parent / "src" / "gradloom", here.parent / "src" / "gradloom", here.parent)
    return next((c for c in candidates if (c / "kernels").is_dir()), candidates[0])


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
    reader = Reader(package, entries[0].source if entries else None, family, kernels)
    functions, errors = [], []
    for entry in entries:
        wrong = check_keys(entry)
        if not wrong:
            try:
                functions.append(reader.function(entry))
                continue
            except SpecError as error:
                wrong = [error]
        errors += wrong
        if len(errors) >= MAX_ERRORS:
            raise_all(errors)
    found = NativeFunctions(tuple(functions))
    check_together(found, errors)
    return found


def check_together(functions: NativeFunctions, errors: Iterable[SpecError] = ()) -> None:
    """Check entries against one another, unless there are errors in single ones. Raises SpecError, or SpecErrors."""
    listed = list(functions)
    every = [*listed, *functions.on_lists]
    errors = [*errors, *_duplicates(every)]
    raise_all(errors or check_named_operators(every, functions.schema) or _ambiguous(listed))
    raise_all(_not_in_place(functions))


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


def _not_in_place(functions: NativeFunctions) -> list[SpecError]:
    """Return errors for variants in place of operators on lists whose operator has no such variant."""
    variants = [(f, v) for f in functions.on_lists for v in f.derived if v.kind == "inplace"]
    return [
        word.error(
            f"`{word.value}` has no variant in place, as `{v.name}` needs", f"give `{v.name}` an entry of its own"
        )
        for f, v in variants
        for word in (f.foreach.operators if f.foreach is not None else ())
        if functions.in_place(word.value) is None
    ]


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
    rules = [rule for f in functions for rule in (f.shape, f.shard, f.foreach) if rule is not None]
    named = [word for rule in rules for word in rule.operators]
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
