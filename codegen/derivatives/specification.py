"""Load the specification of a target: its YAML files, checked and analysed, on top of gradloom's own.

    specification = load(own())                         # gradloom itself
    specification = load(project(Path("myops")))        # a package; it builds on `base()`
    specification.derivatives["softabs"].info

Note [Packages of operators]
Users call the operators of a package by name under gradloom.ops.<package>. Its generated code calls them through its
own module, `own`, as gradloom's operators call each other through `ops`. A formula may call the operators and helpers
of the package and of gradloom; the package's take precedence. An entry of its derivatives.yaml that names one of
gradloom's operators and has `override: true` replaces the derivative of that operator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from ..errors import SpecError, did_you_mean, raise_all
from ..language.scope import ATTRIBUTE_NAMES, METHOD_NAMES, Callables, Helper, find_helpers
from ..operators import native_functions
from ..operators.entries import parse_func
from ..operators.keys import words_of
from ..operators.model import NativeFunction, NativeFunctions
from ..reading.python_files import FunctionIndex
from ..reading.yaml_files import Entry, Text, load_entries
from ..schema import origin
from ..target import FILES, METHODS_OF, Target, own
from . import derivatives
from .derivatives import Derivatives, callables_of
from .derived import complete, kept_text
from .entries import NAME, OVERRIDE
from .model import DifferentiabilityInfo, DifferentiableFunction


@dataclass(frozen=True, slots=True)
class Specification:
    """The specification of a target: all that code is generated from."""

    target: Target  # the package
    functions: NativeFunctions  # its operators
    derivatives: Derivatives  # its operators, joined to their derivatives
    callables: Callables  # the functions that its formulas may call
    # gradloom's operators and variants whose derivatives it replaces, joined to the new derivatives
    overrides: tuple[DifferentiableFunction, ...] = ()
    derived: str = ""  # the text of derived.yaml, '' if no operator gets its derivative from its definition


@dataclass(frozen=True, slots=True)
class Base:
    """Gradloom's own operators, on which packages build. `derivatives()` is loaded when an override needs it."""

    functions: NativeFunctions
    callables: Callables
    derivatives: Callable[[], Derivatives]


@dataclass(frozen=True, slots=True)
class Given:
    """Kernels and helpers of operators defined at run time, in memory instead of folders."""

    kernels: FunctionIndex | None = None  # the functions that `kernel:` may name
    helpers: Mapping[str, Helper] = field(default_factory=dict)  # the functions that formulas may call
    operators: Callables | None = None  # further operators that formulas may call


@cache
def base() -> Base:
    """Return the specification of the running gradloom; loaded once, since loading takes half a second."""
    target = own()
    assert target.source is not None
    functions = native_functions.load(target.path(FILES[0]), shown=FILES[0], package=target.source)
    callables = callables_of(functions, find_helpers(target.source / "formulas", target.shown_folder("formulas")))

    @cache
    def load_derivatives() -> Derivatives:
        entries = load_entries(target.path(FILES[1]), FILES[1])
        return _joined(entries, functions, callables, target)[0]

    return Base(functions, callables, load_derivatives)


def load(target: Target, shown: Callable[[str], str] | None = None) -> Specification:
    """Load the specification of a target; `shown` gives the path of a YAML file that errors name. Raises SpecError, or
    SpecErrors for several errors."""
    shown = shown or (lambda name: name)
    if target.is_own:
        assert target.source is not None
        functions = native_functions.load(target.path(FILES[0]), shown=shown(FILES[0]), package=target.source)
        check_names(functions)
        helpers = find_helpers(target.source / "formulas", target.shown_folder("formulas"))
        callables = callables_of(functions, helpers)
        entries = load_entries(target.path(FILES[1]), shown(FILES[1]))
        joined, text = _joined(entries, functions, callables, target)
        return Specification(target, functions, joined, callables, derived=text)
    operators, formulas = (_entries(target.path(name), shown(name)) for name in FILES)
    return analyse(target, operators, formulas)


def _entries(path: Path, shown: str) -> Sequence[Entry]:
    """Return the entries of a file of a package, which may lack either file, and entries in either."""
    if not path.is_file() or not any(line.split("#")[0].strip() for line in path.read_text("utf-8").splitlines()):
        return ()
    return load_entries(path, shown)


def analyse(
    target: Target, operators: Sequence[Entry], formulas: Sequence[Entry], given: Given | None = None
) -> Specification:
    """Analyse a package from the entries of its two files and, for operators made at run time, its functions. Raises
    SpecError, or SpecErrors for several errors."""
    underlying = base()
    given = given or Given()
    functions = native_functions.analyse_entries(operators, target.source, target.namespace, given.kernels)
    check_names(functions, target.namespace)
    for function in functions.on_lists:
        message = f"`{function.name}` works on lists, which only operators of gradloom do"
        raise function.text.error(message, "remove it; call an operator of the package for each tensor")
    formulas_of = target.source and target.source / "formulas"
    helpers = (
        find_helpers(formulas_of, target.shown_folder("formulas"), f"{target.package}.formulas")
        if formulas_of
        else given.helpers
    )
    callables = underlying.callables
    for part in (given.operators, callables_of(functions, helpers, target.operators)):
        callables = callables.extended_by(part) if part is not None else callables
    own_entries, foreign = _sort(formulas, functions, underlying.functions)
    joined, text = _joined(own_entries, functions, callables, target)
    overrides = _overrides(foreign, underlying, callables) if foreign else ()
    return Specification(target, functions, joined, callables, overrides, text)


def _joined(
    entries: Sequence[Entry], functions: NativeFunctions, callables: Callables, target: Target
) -> tuple[Derivatives, str]:
    """Return the operators of a target joined to their derivatives, written and derived, and the text of the latter."""
    more, text = complete(functions, names_in(entries), kept_text(target), target)
    return derivatives.analyse_entries([*entries, *more], functions, callables, target.operators), text


def names_in(entries: Iterable[Entry]) -> set[str]:
    """Return the full names of the operators that entries are for."""
    texts = [entry.get(NAME) for entry in entries]
    return {text.value.partition("(")[0].strip() for text in texts if isinstance(text, Text)}


def _sort(
    entries: Sequence[Entry], functions: NativeFunctions, known: NativeFunctions
) -> tuple[list[Entry], list[Entry]]:
    """Split the entries into those for the package's operators and those that replace a derivative of gradloom's."""
    mine: list[Entry] = []
    foreign: list[Entry] = []
    errors: list[SpecError] = []
    for entry in entries:
        try:
            (foreign if _is_override(entry, functions, known) else mine).append(entry)
        except SpecError as error:
            errors.append(error)
    raise_all(errors)
    return mine, foreign


def _is_override(entry: Entry, functions: NativeFunctions, known: NativeFunctions) -> bool:
    text = entry.get(NAME)
    if not isinstance(text, Text) or not text.value.strip():
        return False  # `analyse_entries` reports the error
    name = str(parse_func(text).name)
    flag = entry.get(OVERRIDE)
    if name in functions:
        return False
    if name not in known:
        if flag is None:
            return False  # `analyse_entries` reports it
        hint = did_you_mean(name, known.names) or "write the name of an operator of gradloom's"
        raise text.error(f"gradloom has no operator `{name}`", hint, 0, len(name))
    if flag is None:
        message = f"`{name}` is an operator of gradloom's"
        hint = f"add `{OVERRIDE}: true` to the entry to replace its derivative, or give your operator another name"
        raise text.error(message, hint, 0, len(name))
    return True


def _overrides(entries: Sequence[Entry], underlying: Base, callables: Callables) -> tuple[DifferentiableFunction, ...]:
    """Return the operators and variants of gradloom whose derivatives the entries replace, with the new derivatives."""
    known = underlying.derivatives()
    functions = _operators_named(entries, underlying.functions)
    replaced = derivatives.analyse_entries(entries, functions, callables, replaces=True).entries
    for name, found in replaced.items():
        function = functions[name]
        if function.composite is not None:
            place = next(iter(found.values())).place
            assert place is not None
            message = f"the derivative of `{name}` cannot be replaced: it is made of other operators"
            raise place.error(message, f"it is {function.composite}: override the operators that it calls")
    renamed = {
        name: {key: _with_known_node(info, known) for key, info in found.items()} for name, found in replaced.items()
    }
    joined = derivatives.join(functions, dict(known.entries) | renamed)
    new = {id(info.place) for found in renamed.values() for info in found.values()}
    return tuple(f for f in joined if f.info is not None and id(f.info.place) in new and f.schema.kind != "out")


def _with_known_node(info: DifferentiabilityInfo, derivatives_of_base: Derivatives) -> DifferentiabilityInfo:
    """Give the node the name of the one that it replaces, so that graphs print as before."""
    known = derivatives_of_base.entries.get(str(info.schema.name), {}).get(info.dispatch_key)
    if known is None or known.node is None or info.node is None:
        return info
    return replace(info, node=known.node)


def _operators_named(entries: Iterable[Entry], known: NativeFunctions) -> NativeFunctions:
    """Return the operators that the entries may name, and their variants."""
    texts = [entry.fields[NAME] for entry in entries]
    bases = {parse_func(text).name.base for text in texts if isinstance(text, Text)}
    return NativeFunctions(tuple(f for f in known if any(s.name.base in bases for s in f.schemas)))


# Attributes of `gradloom.ops.myops.softabs` besides its overloads.
OF_OPERATORS = frozenset(("default", "namespace", "op", "overloads"))
# Names that the stubs of a package use besides its operators.
UNTYPABLE = frozenset(("int", "float", "bool", "str", "complex", "tuple", "list", "object", METHODS_OF))


def check_names(functions: NativeFunctions, namespace: str = "") -> None:
    """Refuse names under which users would no longer reach what the library has: of gradloom's operators, or of those
    of a package. Raises SpecError, or SpecErrors for several errors."""
    errors = [error for f in functions for error in _shadows(f, namespace)]
    raise_all([error for f in functions if namespace for error in _names_of_package(f, namespace)] + errors)


def _names_of_package(function: NativeFunction, namespace: str) -> Iterator[SpecError]:
    entry, name = function.entry, function.schema.name
    if name.namespace is not None:
        message = f"`{name.namespace}::` in the name of an operator"
        hint = f"leave it out: the operators of this package are in gradloom.ops.{namespace}"
        yield function.text.error(message, hint, 0, len(name.namespace))
    if name.name in UNTYPABLE:
        hint = (
            "choose another name: the package has a function of that name"
            if name.name == METHODS_OF
            else "choose another name: type stubs say by it what operators take"
        )
        yield function.text.error(
            f"`{name.name}` cannot be the name of an operator of a package", hint, 0, len(name.name)
        )
    if function.python_module is not None:
        message = "`python_module` of an operator of a package"
        hint = f"remove it: the operator is in gradloom.ops.{namespace}; `top_level: true` gives gradloom one, too"
        yield entry.keys["python_module"].error(message, hint)


def _shadows(function: NativeFunction, namespace: str) -> Iterator[SpecError]:
    """Yield errors for what the library has besides operators; for a package, its operators as well."""
    taken = ("library", "operator") if namespace else ("library",)
    elsewhere = f"; the function is gradloom.ops.{namespace}.{{}}" if namespace else ""
    method = next((w for w in words_of(function.entry, "variants") if w.value == "method"), None)
    key = function.entry.get("top_level")
    in_main = function.top_level or not (namespace or function.python_module)
    methods, functions = [], []
    for schema, text in ((function.schema, function.text), *((v.schema, v.text) for v in function.derived)):
        name, overload = schema.name.name, schema.name.overload
        if overload in OF_OPERATORS or overload.startswith("_"):
            hint = f"choose another: gradloom.ops.{namespace or 'aten'}.{name}.{overload} is something else"
            message = f"`{overload}` cannot be the name of an overload"
            yield text.error(message, hint, len(name) + 1, len(overload))
        is_copy = schema.name.base != function.schema.name.base
        if not is_copy and schema.kind != "out" and method:
            found = origin("method", name)
            if found in taken or (found is None and name in ATTRIBUTE_NAMES | METHOD_NAMES):
                methods.append((method, name))
        is_function = in_main and ("function" in function.variants_of(schema) or is_copy)
        if schema.kind != "out" and is_function and origin("function", name) in taken:
            functions.append((key if isinstance(key, Text) else text.word(0, len(name)), name))
    for place, name in methods[:1]:
        hint = f"remove `method`, or choose another name{elsewhere}".format(name)
        yield place.error(f"tensors have a `{name}` already", hint)
    for place, name in functions[:1]:
        hint = f"{'remove the key, or ' if key else ''}choose another name{elsewhere}".format(name)
        yield place.error(f"gradloom has a `{name}` already", hint)
