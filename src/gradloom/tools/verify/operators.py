"""The operators to verify: entries of YAML files joined to the functions that call them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import gradloom
from gradloom.codegen.derivatives.model import DifferentiableFunction
from gradloom.codegen.derivatives.specification import Specification, load
from gradloom.codegen.errors import UsageError
from gradloom.codegen.target import Target, installed, own, project
from gradloom.codegen.writing.folder import stale
from gradloom.schema import Symbol
from gradloom.tools import kept
from gradloom.tools.define import Definition

# Returns the calls of an operator to check, as (args, kwargs).
Samples = Callable[[], Iterable[tuple[tuple[Any, ...], dict[str, Any]]]]


@dataclass(frozen=True)
class Operator:
    """An entry of native_functions.yaml and the function that calls it.

    Attributes:
        joined: the entry and its derivative, as the generator analysed them.
        call: takes the arguments in the order of the schema, keyword-only ones by name; `out=` selects the out variant.
        inplace: the in-place variant derived from the entry, called in the same way; or None.
        samples: calls to check instead of those made from the schema.
        constant: arguments without a derivative where the entry cannot declare it, as in a composite.
        fixed: arguments of which only the samples' values are valid, which the kernel does not check; a tensor's shape.
    """

    joined: DifferentiableFunction
    call: Callable[..., Any]
    inplace: Callable[..., Any] | None = None
    samples: Samples | None = None
    constant: frozenset[str] = field(default_factory=frozenset)
    fixed: frozenset[str] = field(default_factory=frozenset)

    @property
    def name(self) -> str:
        return str(self.joined.schema.name)

    @property
    def schema(self):
        return self.joined.schema

    @property
    def family(self) -> str:
        return self.joined.function.family

    @property
    def tags(self) -> tuple[str, ...]:
        return self.joined.function.tags

    @property
    def is_pointwise(self) -> bool:
        return "pointwise" in self.tags

    @property
    def is_random(self) -> bool:
        return "nondeterministic_seeded" in self.tags

    @property
    def has_out(self) -> bool:
        return any(derived.kind == "out" for derived in self.joined.function.derived)

    @property
    def differentiable(self) -> bool:
        """Whether an input has a derivative, by formula or by composition."""
        return self.joined.strategy in ("formula", "composition")

    @property
    def by_composition(self) -> bool:
        return self.joined.strategy == "composition" or self.joined.info is None

    @property
    def differentiable_names(self) -> frozenset[str]:
        """The arguments whose derivative is implemented."""
        info = self.joined.info
        if self.by_composition or info is None:
            return frozenset(a.python_name for a in self.schema.inputs) - self.constant
        missing = {name for d in info.derivatives if d.not_implemented is not None for name in d.inputs}
        return frozenset(i.name for i in info.inputs) - missing - self.constant

    def completed(self, args: Iterable[Any], kwargs: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return (args, kwargs) completed by the schema's defaults, which the wrapper of an overload does not have."""
        args, kwargs = list(args), dict(kwargs)
        for position, argument in enumerate(self.schema.inputs):
            name = argument.python_name
            if argument.default is None or position < len(args) or name in kwargs:
                continue
            value = default_of(argument)
            if argument.kwarg_only or len(args) < position:
                kwargs[name] = value
            else:
                args.append(value)
        return tuple(args), kwargs


def default_of(argument: Any) -> Any:
    """Return the default of an argument as its wrapper takes it: the number or object that a name stands for (`Mean`,
    `long`), and a tuple for a list, also where one value stands for all elements."""
    value = argument.default_value
    if isinstance(value, Symbol):
        return getattr(gradloom, value.name) if value.value is None else value.value
    if isinstance(value, list):
        return tuple(value)
    size = getattr(argument.type, "size", None)
    return value if size is None or value is None else (value,) * size


def join(
    functions: Iterable[DifferentiableFunction],
    overloads: Mapping[str, Callable[..., Any]],
    samples: Callable[[str], Mapping[str, Samples]] | None = None,
    constant: Callable[[str], Mapping[str, Iterable[str]]] | None = None,
    fixed: Callable[[str], Mapping[str, Iterable[str]]] | None = None,
    calls: Callable[[str], Mapping[str, Callable[..., Any]]] | None = None,
) -> tuple[Operator, ...]:
    """Join entries to their functions.

    Variants that `autogen:` derives belong to the Operator of their entry. An in-place variant with a derivative of its
    own has an Operator, too, with the same samples unless it has its own.

    Args:
        functions: the result of `derivatives.load`.
        overloads: unambiguous name (`add_Tensor`) -> function that calls it: OVERLOADS of the generated namespaces.
        samples: family -> {full name: samples}, for operators whose schema is not specific enough.
        constant: family -> {full name: arguments without a derivative}.
        fixed: family -> {full name: arguments that are not varied}.
        calls: family -> {full name: what takes the operator's function and returns the one to call instead}.
    """
    found = []
    for joined in functions:
        if joined.variant is not None and not _has_entry(joined):
            continue
        name, family = str(joined.schema.name), joined.function.family
        derived = joined.function.derived if joined.variant is None else ()
        inplace = next((d.schema.name.unambiguous for d in derived if d.kind == "inplace"), None)
        call = _reach(overloads, joined.schema.name.unambiguous)
        found.append(
            Operator(
                joined,
                calls(family)[name](call) if calls and name in calls(family) else call,
                inplace and _reach(overloads, inplace),
                samples(family).get(name, samples(family).get(joined.function.name)) if samples else None,
                frozenset(constant(family).get(joined.function.name, ())) if constant else frozenset(),
                frozenset(fixed(family).get(name, ())) if fixed else frozenset(),
            )
        )
    return tuple(found)


def _has_entry(joined: DifferentiableFunction) -> bool:
    """Return whether an in-place variant has an entry of its own in derivatives.yaml."""
    info = joined.info
    return joined.variant is not None and info is not None and info.name.startswith(f"{joined.schema.name}(")


def _reach(overloads, name):
    """Return an operator's own function; it has a longer name if another operator goes by its name."""
    return overloads[f"{name}_overload"] if f"{name}_overload" in overloads else overloads[name]


@cache
def own_specification() -> Specification:
    """Return the specification of the imported gradloom."""
    return kept.load(own())


@cache
def own_operators() -> tuple[Operator, ...]:
    """Return the operators of gradloom's own native_functions.yaml."""
    from gradloom.generated import namespaces

    tables = family_samples, family_constants, family_fixed, family_calls
    return join(own_specification().derivatives, namespaces.OVERLOADS, *tables)


def operators_of(package: str | Path | Definition) -> tuple[Operator, ...]:
    """Return the operators of a package, and gradloom's operators whose derivatives it replaces.

    Args:
        package: the name of an installed package, the folder of its project, or the result of `gradloom.ops.define`.
            A package may have samples of its own: SAMPLES, CONSTANT and FIXED in its module `samples` (docs/verify.md).

    Raises:
        gradloom.codegen.target.UsageError: for an unknown package, or one whose generated code is out of date.
        gradloom.codegen.errors.SpecError: for errors in its YAML files.
    """
    if isinstance(package, Definition):
        name = f"{package.specification.target.generated}.namespaces"
        return _joined(package.specification, sys.modules[name].OVERLOADS, None)
    target = target_of(package)
    check_fresh(target)
    import_package(target)
    from gradloom.codegen.outputs.render import shown

    specification = load(target, lambda name: shown(target, name))
    overloads = import_module(f"{target.generated}.namespaces").OVERLOADS
    return _joined(specification, overloads, f"{target.package}.samples")


def target_of(package: str | Path) -> Target:
    """Return the package with this name or in this folder. Raises UsageError."""
    folder = Path(package)
    if not folder.is_dir():
        return installed(str(package))
    found = project(folder)
    if found is None:
        raise UsageError(
            f"{folder} is not a package of operators: it has no pyproject.toml with a [tool.gradloom] table"
        )
    return found


def check_fresh(target: Target) -> None:
    """Raise UsageError unless the generated code is up to date with the YAML files; a wheel's always is."""
    if target.output is None or (target.is_own and target.specification != target.output.parent):
        return
    from gradloom.codegen.outputs.render import has_debug

    changed, extra = stale(target.output, kept.generated_files(target, has_debug(target)))
    names = [*changed, *extra]
    if names:
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        raise UsageError(
            f"the generated code is out of date ({', '.join(names[:3])}{more}): run `gradloom generate` first"
        )


def import_package(target: Target) -> None:
    """Import a package, from its project's folder if it is not installed."""
    assert target.source is not None
    try:
        module = import_module(target.package)
    except ModuleNotFoundError as error:
        if error.name != target.package:
            raise
        sys.path.insert(0, str(target.source.parent.resolve()))
        try:
            module = import_module(target.package)
        finally:
            sys.path.pop(0)
    folder = Path(str(module.__file__)).resolve().parent
    if folder != target.source.resolve():
        raise UsageError(
            f"Python imports `{target.package}` from {folder}, not from {target.source}: run in the "
            "environment in which that is installed"
        )


def _joined(
    specification: Specification, overloads: Mapping[str, Callable[..., Any]], samples: str | None
) -> tuple[Operator, ...]:
    from gradloom.generated import namespaces

    try:
        module = _module(samples) if samples else None
    except Exception as error:
        raise UsageError(f"{samples} cannot be imported: {type(error).__name__}: {error}") from error

    def table(name: str) -> Callable[[str], Mapping[str, Any]]:
        found = getattr(module, name, {})
        return lambda family: found

    mine = join(specification.derivatives, overloads, *map(table, ("SAMPLES", "CONSTANT", "FIXED", "CALLS")))
    tables = family_samples, family_constants, family_fixed, family_calls
    replaced = join(specification.overrides, namespaces.OVERLOADS, *tables)
    return mine + replaced


def family_samples(family: str) -> Mapping[str, Samples]:
    """Return {full name of an operator: samples written by hand} for a family of gradloom's own."""
    return getattr(_module(f"{__package__}.samples.{family}"), "SAMPLES", {})


def family_constants(family: str) -> Mapping[str, Iterable[str]]:
    """Return {full name of an operator: arguments without a derivative} for a family of gradloom's own."""
    return getattr(_module(f"{__package__}.samples.{family}"), "CONSTANT", {})


def family_fixed(family: str) -> Mapping[str, Iterable[str]]:
    """Return {full name of an operator: arguments that are not varied} for a family of gradloom's own."""
    return getattr(_module(f"{__package__}.samples.{family}"), "FIXED", {})


def family_calls(family: str) -> Mapping[str, Callable[..., Any]]:
    """Return {full name of an operator: what makes the function to call instead} for a family of gradloom's own."""
    return getattr(_module(f"{__package__}.samples.{family}"), "CALLS", {})


def _module(name: str) -> Any:
    """Import a module; return None if it does not exist."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        return None
