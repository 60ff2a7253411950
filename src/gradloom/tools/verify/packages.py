"""Where operators to verify come from: gradloom itself, a package of operators, or `gradloom.ops.define`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from gradloom.codegen.derivatives.specification import Specification, load
from gradloom.codegen.errors import UsageError
from gradloom.codegen.outputs.render import generated_files, shown
from gradloom.codegen.target import Target, installed, own, project
from gradloom.codegen.writing.folder import stale
from gradloom.tools.define import Definition

from .operators import Operator, Samples, join


@cache
def own_specification() -> Specification:
    """The YAML files of the gradloom that is imported."""
    return load(own())


@cache
def own_operators() -> tuple[Operator, ...]:
    """Every entry of gradloom's own native_functions.yaml."""
    from gradloom.generated import namespaces

    return join(own_specification().derivatives, namespaces.OVERLOADS, family_samples, family_constants)


def operators_of(package: str | Path | Definition) -> tuple[Operator, ...]:
    """The operators of a package, and gradloom's whose derivatives it replaces.

    Args:
        package: the name of an installed package, the folder of its project, or what `gradloom.ops.define` gave. A
            package may bring samples of its own: SAMPLES and CONSTANT in its module `samples`, as gradloom's families
            do (see docs/verify.md).

    Raises:
        gradloom.codegen.target.UsageError: if there is no such package, or its generated code is not what its YAML
            files give.
        gradloom.codegen.errors.SpecError: for what is wrong in its YAML files.
    """
    if isinstance(package, Definition):
        name = f"{package.specification.target.generated}.namespaces"
        return _joined(package.specification, sys.modules[name].OVERLOADS, None)
    target = target_of(package)
    check_fresh(target)
    import_package(target)
    specification = load(target, lambda name: shown(target, name))
    overloads = import_module(f"{target.generated}.namespaces").OVERLOADS
    return _joined(specification, overloads, f"{target.package}.samples")


def target_of(package: str | Path) -> Target:
    """The package of that name, or in that folder. Raises UsageError."""
    folder = Path(package)
    if not folder.is_dir():
        return installed(str(package))
    found = project(folder)
    if found is None:
        raise UsageError(
            f"{folder}: there is no pyproject.toml with a [tool.gradloom] table in it, so it is no package of operators"
        )
    return found


def check_fresh(target: Target) -> None:
    """That the generated code is what the YAML files give. Raises UsageError; a wheel's always is."""
    if target.output is None or (target.is_own and target.specification != target.output.parent):
        return
    changed, extra = stale(target.output, generated_files(target))
    names = [*changed, *extra]
    if names:
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        raise UsageError(
            f"the generated code is not what the YAML files give ({', '.join(names[:3])}{more}): run "
            "`gradloom generate` first"
        )


def import_package(target: Target) -> None:
    """Import a package, from its project's folder where it is not installed."""
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

    def table(name: str) -> Callable[[str], Mapping[str, Any]]:
        found = getattr(_module(samples), name, {}) if samples else {}
        return lambda family: found

    mine = join(specification.derivatives, overloads, table("SAMPLES"), table("CONSTANT"))
    replaced = join(specification.overrides, namespaces.OVERLOADS, family_samples, family_constants)
    return mine + replaced


def family_samples(family: str) -> Mapping[str, Samples]:
    """The samples of a family of gradloom's own that were written by hand, by full name of the operator."""
    return getattr(_module(f"{__package__}.samples.{family}"), "SAMPLES", {})


def family_constants(family: str) -> Mapping[str, Iterable[str]]:
    """Arguments without a derivative in a family of gradloom's own, by full name of the operator."""
    return getattr(_module(f"{__package__}.samples.{family}"), "CONSTANT", {})


def _module(name: str) -> Any:
    """A module, or None if there is none of that name."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        return None
