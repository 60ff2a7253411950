"""Imports go down only, those inside functions too.

FLOORS lists the library from the ground up. A module may import from its own floor and from those below it;
the core reaches the operators through the late-bound `gradloom.dispatch._operators`. What no floor names is the
surface (nn, optim, ...), which stands on everything and may also `import gradloom` itself, as its users do.
The generator (gradloom.codegen) and the library do not import each other, but both stand on the schema language
(gradloom.schema). What needs both (verify, explain, operators defined at run time) is in gradloom.tools, above the two,
and only the commands of the command line import it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = {"gradloom": "src/gradloom", "gradloom.codegen": "codegen", "gradloom.generated": "generated"}

CORE = (
    "amp",
    "autograd",
    "backends",
    "batching",
    "core",
    "dispatch",
    "functional",
    "profiler",
    "python_dispatch",
    "random",
    "return_types",
    "storage",
    "tensors",
    "utils",
)
FLOORS = (
    # arrays, the memory of arrays, and the values that say what an array is
    ("gradloom.kernels", "gradloom.memory", "gradloom.schema", "gradloom.types"),
    ("gradloom.dispatch._operators",),
    tuple(f"gradloom.{name}" for name in CORE),
    ("gradloom.formulas", "gradloom.composite"),
    ("gradloom.generated.functions",),
    ("gradloom.generated.variable_type", "gradloom.generated.redispatch"),
    (
        "gradloom.generated",
        "gradloom.tensors.conversions",
        "gradloom.tensors.python_operators",
        "gradloom.tensors.binding",
    ),
)
SURFACE = len(FLOORS)
ON_THE_SURFACE = ("gradloom.utils.data", "gradloom.tensors._members")  # although they lie in packages of the core


class Import(NamedTuple):
    importer: str
    imported: str
    line: int


def modules() -> dict[str, Path]:
    found = {}
    for package, folder in FOLDERS.items():
        for path in sorted((ROOT / folder).rglob("*.py")):
            inside = path.relative_to(ROOT / folder).with_suffix("").parts
            found[".".join((package, *(part for part in inside if part != "__init__")))] = path
    return found


MODULES = modules()


def imports(name: str, source: str, is_package: bool) -> Iterator[Import]:
    """Every import of a gradloom module in `source`, but for those that only a type checker sees."""

    def visit(node: ast.AST) -> Iterator[Import]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
                continue
            yield from visit(child)
            for target in _targets(child, name, is_package):
                if target.partition(".")[0] == "gradloom":
                    yield Import(name, target, child.lineno)

    yield from visit(ast.parse(source))


def _targets(node: ast.AST, name: str, is_package: bool) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if not isinstance(node, ast.ImportFrom):
        return []
    base = _absolute(node, name, is_package)
    inner = [f"{base}.{alias.name}" for alias in node.names]
    return [module if module in MODULES else base for module in inner]


def _absolute(node: ast.ImportFrom, name: str, is_package: bool) -> str:
    if not node.level:
        return node.module or ""
    around = name.split(".")
    around = around[: len(around) - node.level + is_package]
    return ".".join([*around, *(node.module or "").split(".")]).rstrip(".")


def floor(module: str) -> int:
    """The floor of a module: of the longest prefix of its name that FLOORS has."""
    while module not in ("gradloom", "gradloom.codegen", *ON_THE_SURFACE):
        for number, names in enumerate(FLOORS):
            if module in names:
                return number
        module = module.rpartition(".")[0]
    return SURFACE


def violations(found: Iterator[Import]) -> list[str]:
    wrong = []
    for one in found:
        in_codegen = one.importer.startswith("gradloom.codegen")
        to_codegen = one.imported.startswith("gradloom.codegen")
        to_tools = one.imported.startswith("gradloom.tools")
        if one.importer.startswith("gradloom.tools"):
            continue
        if to_tools and one.importer.startswith("gradloom.codegen.commands"):
            continue
        if to_tools:
            wrong.append(f"{one.importer}:{one.line} imports {one.imported}: the tools stand on the library")
        elif in_codegen and one.imported.startswith("gradloom.schema"):
            continue
        elif in_codegen != to_codegen:
            wrong.append(f"{one.importer}:{one.line} imports {one.imported}: generator and library are apart")
        elif not in_codegen and floor(one.imported) > floor(one.importer):
            wrong.append(f"{one.importer}:{one.line} imports {one.imported}, which is above it")
    return wrong


def test_imports_run_down_only():
    found = [
        one for name, path in MODULES.items() for one in imports(name, path.read_text(), path.name == "__init__.py")
    ]
    assert len(found) > 100, "the walk finds the imports"
    assert violations(iter(found)) == []


@pytest.mark.parametrize(
    "importer, line, expected",
    [
        ("gradloom.kernels.conv", "from ..core.tensor import Tensor", "gradloom.core.tensor, which is above it"),
        ("gradloom.kernels.conv", "from .. import dispatch", "gradloom.dispatch, which is above it"),
        ("gradloom.core.tensor", "import gradloom", "gradloom, which is above it"),
        ("gradloom.core.engine", "def f():\n    from ..nn import Module", "gradloom.nn, which is above it"),
        ("gradloom.formulas.loss", "import gradloom.generated.functions.loss", "which is above it"),
        ("gradloom.nn.init", "from gradloom.codegen import schema", "are apart"),
        ("gradloom.codegen.cli", "import gradloom", "are apart"),
        ("gradloom.nn.init", "from gradloom.tools import verify", "stand on the library"),
        ("gradloom.codegen.outputs.render", "from gradloom.tools import verify", "stand on the library"),
        ("gradloom.nn.init", "import gradloom as gl", None),
        ("gradloom.codegen.commands.verify", "from gradloom.tools import verify", None),
        ("gradloom.tools.verify", "from gradloom.codegen import schema", None),
        ("gradloom.core.tensor", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from . import nn", None),
        ("gradloom.formulas.loss", "from ..dispatch import _operators\nfrom ..kernels import loss", None),
        ("gradloom.generated.variable_type.loss", "from ..functions import loss", None),
    ],
)
def test_an_import_that_runs_up_is_caught(importer, line, expected):
    wrong = violations(imports(importer, line, is_package=False))
    assert wrong == [] if expected is None else len(wrong) == 1 and expected in wrong[0]


def test_every_family_folder_is_a_package():
    for name, path in MODULES.items():
        assert (path.parent / "__init__.py").exists(), f"{name} is in a folder without __init__.py"


# The stages of the generator, in the order in which data flows; `errors` and `target` are below all of them.
STAGES = (
    "errors",
    "target",
    "reading",
    "schema",
    "language",
    "operators",
    "derivatives",
    "notation",
    "wrappers",
    "outputs",
    "writing",
    "commands",
    "cli",
    "__main__",
)
MAX_FILES_AT_THE_ROOT = 14


def stage(module: str) -> int:
    """The stage of a module of the generator; that of the package itself is the first."""
    parts = module.split(".")
    return STAGES.index(parts[2]) if len(parts) > 2 else 0


def stage_violations(found: list[Import]) -> list[str]:
    """Imports of a later stage, and circles within a stage."""
    wrong = [
        f"{one.importer}:{one.line} imports {one.imported}, a later stage"
        for one in found
        if stage(one.imported) > stage(one.importer)
    ]
    inside: dict[str, set[str]] = {}
    for one in found:
        if one.imported != one.importer:
            inside.setdefault(one.importer, set()).add(one.imported)
    try:
        TopologicalSorter(inside).prepare()
    except CycleError as error:
        wrong.append(f"a circle of imports: {' -> '.join(error.args[1])}")
    return wrong


def imports_of_the_generator() -> list[Import]:
    return [
        Import(name, target, node.lineno)
        for name, path in MODULES.items()
        if name.startswith("gradloom.codegen.")
        for node in ast.walk(ast.parse(path.read_text()))  # those that only a type checker sees, too
        for target in _targets(node, name, path.name == "__init__.py")
        if target.startswith("gradloom.codegen.")
    ]


def test_a_stage_of_the_generator_imports_earlier_stages_only():
    found = imports_of_the_generator()
    assert len(found) > 100, "the walk finds the imports"
    assert stage_violations(found) == []


def test_a_later_stage_and_a_circle_are_caught():
    schema, reading = "gradloom.codegen.schema.types", "gradloom.codegen.reading.text"
    assert len(stage_violations([Import(reading, schema, 1)])) == 1
    assert stage_violations([Import(schema, reading, 1)]) == []
    circle = [Import(schema, "gradloom.codegen.schema.model", 1), Import("gradloom.codegen.schema.model", schema, 1)]
    assert len(stage_violations(circle)) == 1


def test_every_stage_says_what_goes_in_and_comes_out():
    root = ROOT / "codegen"
    assert len(list(root.glob("*.py"))) <= MAX_FILES_AT_THE_ROOT
    for folder in (p.parent for p in root.glob("*/__init__.py")):
        doc = " ".join((ast.get_docstring(ast.parse((folder / "__init__.py").read_text())) or "").split())
        assert folder.name == "commands" or all(word in doc for word in ("In: ", "Out: ", "The stage is ")), folder
