"""Loads the specification of a target: its YAML files, checked and analysed, on top of gradloom's own.

    specification = load(own())                         # gradloom itself
    specification = load(project(Path("myops")))        # a package; `base()` is what it stands on
    specification.derivatives["softabs"].info

Note [Packages of operators]
The operators of a package are called by their own names under gradloom.ops.<package>; its generated code reaches them
through a module of its own, `own`, as gradloom's reach each other through `ops`. A formula may call gradloom's
operators and helpers and those of the package, which go first. An entry of its derivatives.yaml that names an operator
of gradloom's replaces the derivative of that: only if it says `override: true`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from . import derivatives, native_functions
from .derivative_keys import NAME, OVERRIDE
from .derivative_model import DifferentiabilityInfo, DifferentiableFunction
from .derivatives import Derivatives, callables_of
from .errors import SpecError, raise_all
from .formula_helpers import find_helpers
from .formula_scope import Callables, Helper
from .kernel_index import FunctionIndex
from .native_functions import NativeFunctions
from .package_checks import check_package
from .schema import did_you_mean
from .source import load_entries
from .target import FILES, Target, own
from .text import Entry, Text


@dataclass(frozen=True, slots=True)
class Specification:
    """What is generated for a target.

    Attributes:
        target: the package.
        functions: its operators.
        derivatives: the same, joined to how they differentiate.
        callables: what its formulas may call.
        overrides: gradloom's operators and variants whose derivative it replaces, joined to the new one.
    """

    target: Target
    functions: NativeFunctions
    derivatives: Derivatives
    callables: Callables
    overrides: tuple[DifferentiableFunction, ...] = ()


@dataclass(frozen=True, slots=True)
class Base:
    """Gradloom's own operators, which packages stand on. `derivatives()` is loaded when an override asks for it."""

    functions: NativeFunctions
    callables: Callables
    derivatives: Callable[[], Derivatives]


@dataclass(frozen=True, slots=True)
class Given:
    """What is given in memory, where a package has folders.

    Attributes:
        kernels: the functions that `kernel:` may name.
        helpers: the functions that formulas may call.
        operators: further operators that formulas may call.
    """

    kernels: FunctionIndex | None = None
    helpers: Mapping[str, Helper] = field(default_factory=dict)
    operators: Callables | None = None


@cache
def base() -> Base:
    """The gradloom that is running; loaded once, since that takes half a second."""
    target = own()
    assert target.source is not None
    functions = native_functions.load(target.path(FILES[0]), shown=FILES[0], package=target.source)
    callables = callables_of(functions, find_helpers(target.source / "formulas", target.room("formulas")))

    @cache
    def load_derivatives() -> Derivatives:
        entries = load_entries(target.path(FILES[1]), FILES[1])
        return derivatives.analyse_entries(entries, functions, callables)

    return Base(functions, callables, load_derivatives)


def load(target: Target, shown: Callable[[str], str] | None = None) -> Specification:
    """The specification of a target.

    target    gradloom itself, or a package on disk
    shown     from the name of a YAML file to the path that errors name; the bare name by default

    Raises SpecError, or SpecErrors where several things are wrong.
    """
    shown = shown or (lambda name: name)
    if target.is_own:
        assert target.source is not None
        functions = native_functions.load(target.path(FILES[0]), shown=shown(FILES[0]), package=target.source)
        helpers = find_helpers(target.source / "formulas", target.room("formulas"))
        callables = callables_of(functions, helpers)
        entries = load_entries(target.path(FILES[1]), shown(FILES[1]))
        return Specification(target, functions, derivatives.analyse_entries(entries, functions, callables), callables)
    operators, formulas = (_entries(target.path(name), shown(name)) for name in FILES)
    return analyse(target, operators, formulas)


def _entries(path: Path, shown: str) -> Sequence[Entry]:
    """The entries of a file of a package, which need not have both files, nor entries in either."""
    if not path.is_file() or not any(line.split("#")[0].strip() for line in path.read_text("utf-8").splitlines()):
        return ()
    return load_entries(path, shown)


def analyse(
    target: Target, operators: Sequence[Entry], formulas: Sequence[Entry], given: Given | None = None
) -> Specification:
    """The specification of a package whose entries are read.

    target      the package
    operators   the entries of native_functions.yaml
    formulas    the entries of derivatives.yaml
    given       what a package that is made at run time has beside its entries

    Raises SpecError, or SpecErrors where several things are wrong.
    """
    stands_on = base()
    given = given or Given()
    functions = native_functions.analyse_entries(operators, target.source, target.namespace, given.kernels)
    check_package(functions, stands_on.functions, target.namespace)
    formulas_of = target.source and target.source / "formulas"
    helpers = (
        find_helpers(formulas_of, target.room("formulas"), f"{target.package}.formulas")
        if formulas_of
        else given.helpers
    )
    callables = stands_on.callables
    for part in (given.operators, callables_of(functions, helpers, target.operators)):
        callables = callables.and_those_of(part) if part is not None else callables
    own_entries, foreign = _sort(formulas, functions, stands_on.functions)
    joined = derivatives.analyse_entries(own_entries, functions, callables, target.operators)
    overrides = _overrides(foreign, stands_on, callables) if foreign else ()
    return Specification(target, functions, joined, callables, overrides)


def _sort(
    entries: Sequence[Entry], functions: NativeFunctions, known: NativeFunctions
) -> tuple[list[Entry], list[Entry]]:
    """The entries about operators of the package, and those that replace a derivative of gradloom's."""
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
        return False  # derivatives.py says what is wrong with it
    name = str(native_functions.parse_func(text).name)
    flag = entry.get(OVERRIDE)
    if name in functions:
        return False
    if name not in known:
        if flag is None:
            return False  # derivatives.py says so
        hint = did_you_mean(name, known.names) or "docs/reference lists them; remove the key if it is your own"
        raise text.error(f"gradloom has no operator `{name}`", hint, 0, len(name))
    if flag is None:
        message = f"`{name}` is an operator of gradloom's"
        hint = f"add `{OVERRIDE}: true` to the entry to replace its derivative, or give your operator another name"
        raise text.error(message, hint, 0, len(name))
    return True


def _overrides(entries: Sequence[Entry], stands_on: Base, callables: Callables) -> tuple[DifferentiableFunction, ...]:
    """Gradloom's operators whose derivative the entries replace, their variants, and the new derivatives."""
    theirs = stands_on.derivatives()
    functions = _namesakes(entries, stands_on.functions)
    replaced = derivatives.analyse_entries(entries, functions, callables, replaces=True).entries
    for name, found in replaced.items():
        function = functions[name]
        if function.composite is not None:
            place = next(iter(found.values())).place
            assert place is not None
            message = f"the derivative of `{name}` cannot be replaced: it is made of other operators"
            raise place.error(message, f"it is {function.composite}: override the operators that it calls")
    renamed = {
        name: {key: _named_alike(info, theirs) for key, info in found.items()} for name, found in replaced.items()
    }
    joined = derivatives.join(functions, dict(theirs.entries) | renamed)
    new = {id(info.place) for found in renamed.values() for info in found.values()}
    return tuple(f for f in joined if f.info is not None and id(f.info.place) in new and f.schema.kind != "out")


def _named_alike(info: DifferentiabilityInfo, theirs: Derivatives) -> DifferentiabilityInfo:
    """The node keeps the name of the one that it replaces, so that graphs print as before."""
    known = theirs.entries.get(str(info.schema.name), {}).get(info.dispatch_key)
    if known is None or known.node is None or info.node is None:
        return info
    return replace(info, node=known.node)


def _namesakes(entries: Iterable[Entry], known: NativeFunctions) -> NativeFunctions:
    """The operators that entries may be about: those of their names, and the variants of those."""
    texts = [entry.fields[NAME] for entry in entries]
    bases = {native_functions.parse_func(text).name.base for text in texts if isinstance(text, Text)}
    return NativeFunctions(tuple(f for f in known if any(s.name.base in bases for s in f.schemas)))
