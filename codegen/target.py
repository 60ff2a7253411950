"""What code is generated for: gradloom itself, or a package of operators that stands on an installed gradloom.

A `Target` names the parts, so that nothing else in the generator knows where they are or what they are called:

    gradloom    <checkout>/native_functions.yaml, derivatives.yaml, src/gradloom/kernels/ ..., generated/
    a package   <project>/src/myops/native_functions.yaml, derivatives.yaml, kernels/ ..., generated/

A package is found by the table `[tool.gradloom]` in its pyproject.toml, or by importing it.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from .operator_name import IDENTIFIER

FILES = ("native_functions.yaml", "derivatives.yaml")
PROJECT = "pyproject.toml"


class UsageError(Exception):
    """Something that the person at the command line can mend."""


@dataclass(frozen=True, slots=True)
class Target:
    """A package that code is generated for.

    Attributes:
        package: its name for Python, `gradloom` or `myops`.
        source: the folder with its kernels/, formulas/ and composite/.
        specification: the folder with its two YAML files.
        output: the folder that is written.
        namespace: the name under gradloom.ops at which its operators are reached; '' for gradloom's own.
        generated: the name for Python of what is written.
    """

    package: str
    source: Path
    specification: Path
    output: Path
    namespace: str = ""
    generated: str = ""

    def __post_init__(self) -> None:
        if not self.generated:
            object.__setattr__(self, "generated", f"{self.package}.generated")

    @property
    def is_own(self) -> bool:
        """Whether it is gradloom itself."""
        return not self.namespace

    @property
    def operators(self) -> str:
        """What its generated code calls the module of its operators; gradloom's are `ops` everywhere."""
        return "ops" if self.is_own else "own"

    @property
    def overrides(self) -> str:
        """The global name under which gradloom's wrappers find what replaces their derivatives."""
        return f"overrides_of_{self.namespace}"

    def path(self, name: str) -> Path:
        """One of the two YAML files."""
        return self.specification / name

    def room(self, name: str) -> str:
        """`kernels`, `formulas` or `composite` as messages name the folder."""
        return f"src/{self.package}/{name}"


def own(checkout: Path | None = None) -> Target:
    """Gradloom itself: a checkout, or by default the one that is running, which may be an installed wheel.

    Raises:
        UsageError: if the installed gradloom has lost its YAML files.
    """
    here = Path(__file__).resolve().parent
    if checkout is None:
        checkout = here.parent
        if (checkout / "_spec").is_dir():  # a wheel: gradloom/codegen, gradloom/_spec
            return Target("gradloom", checkout, checkout / "_spec", checkout / "generated")
    if not all((checkout / name).is_file() for name in FILES):
        raise UsageError(f"{checkout}: gradloom's own {FILES[0]} and {FILES[1]} are not here; install gradloom again")
    return Target("gradloom", checkout / "src" / "gradloom", checkout, checkout / "generated")


def project(folder: Path) -> Target | None:
    """The package whose project is in a folder; None if it has no `[tool.gradloom]` in a pyproject.toml.

    Raises:
        UsageError: for a table that does not say which package, or names one that is not there.
    """
    path = folder / PROJECT
    try:
        with open(path, "rb") as file:
            table = tomllib.load(file).get("tool", {}).get("gradloom")
    except FileNotFoundError:
        return None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: {error}") from None
    if table is None:
        return None
    where = table.get("package") if isinstance(table, dict) else None
    if not isinstance(where, str):
        raise UsageError(f'{path}: [tool.gradloom] does not say which package: write package = "src/myops"')
    source = folder / where
    if not source.is_dir():
        raise UsageError(f"{path}: [tool.gradloom] names {where}, which is no folder")
    return _in_folder(source, source.name, table.get("namespace", source.name), str(path))


def installed(package: str) -> Target:
    """The target of a package that Python can import, without importing it.

    Raises:
        UsageError: if there is none of that name, or it has no YAML files.
    """
    try:
        spec = find_spec(package)
    except (ImportError, ValueError):
        spec = None
    if spec is None or not spec.submodule_search_locations:
        raise UsageError(f"there is no package `{package}`: install it, or change to the folder of its project")
    source = Path(next(iter(spec.submodule_search_locations)))
    found = project(source.parent.parent)
    return found if found is not None and found.source.samefile(source) else _in_folder(source, package, package,
                                                                                       str(source))


def _in_folder(source: Path, package: str, namespace: object, where: str) -> Target:
    if not isinstance(namespace, str) or not IDENTIFIER.fullmatch(namespace):
        raise UsageError(f"{where}: the namespace {namespace!r} is not a name")
    missing = [name for name in FILES if not (source / name).is_file()]
    if missing:
        raise UsageError(f"{source}: there is no {missing[0]} in it, so it is no package of operators")
    return Target(package, source, source, source / "generated", namespace)


def in_memory(namespace: str, generated: str) -> Target:
    """Operators that are made at run time and stand in no folder."""
    nowhere = Path()
    return Target("", nowhere, nowhere, nowhere, namespace, generated)
