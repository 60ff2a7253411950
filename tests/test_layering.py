"""Imports go down, and in no circles, those inside functions too.

LAYERS lists the rooms of the library from the ground up: packages and modules directly under `gradloom`. A module may
import from the rooms of its own layer and of those below, and neither rooms nor modules import each other in a circle.
The one circle is CORE_CIRCLE: tensors' edges, nodes and what nodes save refer to each other.

Lower layers reach higher ones in three ways, none of which is an import: operators by the late-bound
`gradloom.dispatch._operators`, a few functions by `gradloom.core.late`, and features (a profiler, vmap, autocast,
dispatch modes) by what they put into the thread's state or register to answer calls. The core and what is below it may
not name a module in a string either. Above it, a package may load its own submodules when they are asked for (PEP 562).

The generator (gradloom.codegen) and the library do not import each other, but both stand on the schema language
(gradloom.schema). What needs both (the command line, verify, explain, operators defined at run time) is in
gradloom.tools, above the two, and neither of them imports it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = {"gradloom": "src/gradloom", "gradloom.codegen": "codegen", "gradloom.generated": "generated"}

LAYERS = (
    # arrays, the values that describe them, and functions of arrays
    (
        "types",
        "memory",
        "kernels",
        "schema",
        "return_types",
        "utils._pytree",
        "utils._pytree_extras",
        "utils._tree_spec",
    ),
    # what a call looks at before it takes the common path
    ("dispatch",),
    # Tensor, Edge, Node, SavedVariable, Engine
    ("core",),
    # everything else that is a tensor's own, and torch.autograd
    ("tensors", "random", "storage", "functional", "autograd", "diagnostics"),
    # operators: formulas and composites, generated nodes, wrappers and namespaces
    ("formulas", "composite", "generated.functions", "generated.variable_type", "generated"),
    # what answers calls of operators, what joins all this to `gradloom`, and operators as objects
    (
        "python_dispatch",
        "batching",
        "sparse",
        "meta",
        "float8",
        "binding",
        "gradloom",
        "ops",
        "_ops",
        "_library",
        "library",
    ),
    # features
    (
        "nn",
        "optim",
        "func",
        "amp",
        "profiler",
        "utils",
        "backends",
        "serialization",
        "overrides",
        "testing",
        "signal",
        "compat",
        "multiprocessing",
    ),
    # names that programs look for: SURFACE, every room that is not listed
    (),
    ("tools",),
)
SURFACE = len(LAYERS) - 2
# Modules that do not stand on the layer of their package.
ELSEWHERE = {
    "tensors._members": "surface",
    "autograd.profiler": "surface",
    "autograd.profiler_util": "surface",
    "autograd.private_names": "surface",
    "utils.model_zoo": "surface",
    "utils.tensorboard": "surface",
    "nn.modules._functions": "surface",
    "nn.parallel.distributed": "surface",
}
CORE_CIRCLE = {f"gradloom.core.{name}" for name in ("accumulate_grad", "edge", "node", "saved_variable", "tangents")}
WITHOUT_STRINGS = ("types", "memory", "kernels", "schema", "dispatch", "core")


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


_STATEMENTS = ast.stmt, ast.excepthandler, ast.match_case  # expressions import nothing


def imports(name: str, source: str, is_package: bool) -> Iterator[Import]:
    """Every import of a gradloom module in `source`, but for those that only a type checker sees."""

    left: list[ast.AST] = [ast.parse(source)]
    while left:
        node = left.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            left.extend(node.orelse)
            continue
        for target in _targets(node, name, is_package):
            if target.partition(".")[0] == "gradloom":
                yield Import(name, target, node.lineno)
        left.extend(child for child in ast.iter_child_nodes(node) if isinstance(child, _STATEMENTS))


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


@cache  # and not when tests are collected, which each process does
def all_imports() -> list[Import]:
    """The imports of all modules."""
    found = [imports(name, path.read_text(), path.name == "__init__.py") for name, path in MODULES.items()]
    return [one for of_module in found for one in of_module]


# --- layers --------------------------------------------------------------------------------------------------------

_LAYER_OF = {room: number for number, rooms in enumerate(LAYERS) for room in rooms}


def room(module: str) -> str:
    """The room of a module: the longest prefix of its name (without `gradloom.`) that LAYERS or ELSEWHERE has."""
    name = module.removeprefix("gradloom").removeprefix(".") or "gradloom"
    first = name.partition(".")[0]
    while name:
        if name in ELSEWHERE or name in _LAYER_OF:
            return ELSEWHERE.get(name, name)
        name = name.rpartition(".")[0]
    return first


def layer(module: str) -> int:
    return _LAYER_OF.get(room(module), SURFACE)


def violations(found: Iterable[Import]) -> list[str]:
    wrong = []
    for one in found:
        in_codegen = one.importer.startswith("gradloom.codegen")
        to_codegen = one.imported.startswith("gradloom.codegen")
        to_tools = one.imported.startswith("gradloom.tools")
        if one.importer.startswith("gradloom.tools"):
            continue
        if to_tools:
            wrong.append(f"{one.importer}:{one.line} imports {one.imported}: the tools stand on the library")
        elif in_codegen and one.imported.startswith("gradloom.schema"):
            continue
        elif in_codegen != to_codegen:
            wrong.append(f"{one.importer}:{one.line} imports {one.imported}: generator and library are apart")
        elif not in_codegen and layer(one.imported) > layer(one.importer):
            wrong.append(f"{one.importer}:{one.line} imports {one.imported}, which is above it")
    return wrong


def test_imports_run_down_only():
    assert len(all_imports()) > 100, "the walk finds the imports"
    assert violations(all_imports()) == []


@pytest.mark.parametrize(
    "importer, line, expected",
    [
        ("gradloom.kernels.conv", "from ..core.tensor import Tensor", "gradloom.core.tensor, which is above it"),
        ("gradloom.kernels.conv", "from .. import dispatch", "gradloom.dispatch, which is above it"),
        ("gradloom.core.tensor", "import gradloom", "gradloom, which is above it"),
        ("gradloom.core.engine", "def f():\n    from ..nn import Module", "gradloom.nn, which is above it"),
        ("gradloom.core.hooks", "def f():\n    from ..profiler import recorder", "which is above it"),
        ("gradloom.core.views", "def f():\n    from ..batching.tensor import batched", "which is above it"),
        ("gradloom.core.tensor", "def f():\n    from ..storage import UntypedStorage", "which is above it"),
        ("gradloom.tensors.construction", "from ..python_dispatch import torch_dispatch", "which is above it"),
        ("gradloom.formulas.loss", "import gradloom.generated.namespaces\nimport gradloom.nn", "nn, which is above it"),
        ("gradloom.nn.init", "from gradloom.codegen import schema", "are apart"),
        ("gradloom.codegen.target", "import gradloom", "are apart"),
        ("gradloom.nn.init", "from gradloom.tools import verify", "stand on the library"),
        ("gradloom.codegen.outputs.render", "from gradloom.tools import verify", "stand on the library"),
        ("gradloom.nn.init", "import gradloom as gl", None),
        ("gradloom.tools.verify", "from gradloom.codegen import schema", None),
        ("gradloom.core.tensor", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from . import nn", None),
        ("gradloom.formulas.loss", "from ..dispatch import _operators\nfrom ..kernels import loss", None),
        ("gradloom.generated.variable_type.loss", "from ..functions import loss", None),
    ],
)
def test_an_import_that_runs_up_is_caught(importer, line, expected):
    wrong = violations(imports(importer, line, is_package=False))
    assert wrong == [] if expected is None else len(wrong) == 1 and expected in wrong[0]


# --- circles --------------------------------------------------------------------------------------------------------


def circles(edges: Mapping[str, set[str]]) -> list[set[str]]:
    """The strongly connected components of more than one node (Tarjan's algorithm)."""
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found = []

    def visit(node: str) -> None:
        number[node] = low[node] = len(number)
        stack.append(node)
        for following in edges.get(node, ()):
            if following not in number:
                visit(following)
            if following in stack:
                low[node] = min(low[node], low[following])
        if low[node] == number[node]:
            start = stack.index(node)
            if len(stack) - start > 1:
                found.append(set(stack[start:]))
            del stack[start:]

    for node in edges:
        if node not in number:
            visit(node)
    return found


def graph(found: Iterable[Import], place) -> dict[str, set[str]]:
    """Who imports whom, among the modules of the library, by `place` of their names."""
    edges: dict[str, set[str]] = {}
    for one in found:
        imported = one.imported
        while imported not in MODULES:  # a name that a package defines
            imported = imported.rpartition(".")[0]
        source, target = place(one.importer), place(imported)
        if source != target:
            edges.setdefault(source, set()).add(target)
    return edges


def in_library(found: Iterable[Import]) -> list[Import]:
    return [one for one in found if not one.importer.startswith("gradloom.codegen")]


def test_the_core_is_the_only_circle_of_modules():
    assert circles(graph(in_library(all_imports()), str)) == [CORE_CIRCLE]
    assert len(CORE_CIRCLE) <= 12


def test_rooms_do_not_import_each_other():
    assert circles(graph(in_library(all_imports()), room)) == []


def test_circles_are_found():
    line = "def f():\n    from ..core import node"
    assert circles(graph(imports("gradloom.types.size", line, False), str)) == []
    both = [
        *imports("gradloom.types.size", line, False),
        *imports("gradloom.core.node", "from ..types import size", False),
    ]
    assert circles(graph(both, str)) == [{"gradloom.core.node", "gradloom.types.size"}]
    assert circles(graph(both, room)) == [{"core", "types"}]


# --- strings and packages -------------------------------------------------------------------------------------------


def test_the_core_names_no_module_in_a_string():
    for name, path in MODULES.items():
        if room(name) in WITHOUT_STRINGS:
            for node in ast.walk(ast.parse(path.read_text())):
                called = ast.unparse(node.func).rpartition(".")[2] if isinstance(node, ast.Call) else ""
                assert called not in ("import_module", "__import__"), f"{name}:{node.lineno} hides an import"


def named(name: str, source: str) -> Iterator[Import]:
    """The modules of gradloom that `source` loads by a constant name; a package may load its own submodules."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == "import_module" and node.args:
            target = node.args[0].value if isinstance(node.args[0], ast.Constant) else None
            if target in MODULES and not target.startswith(f"{name}."):
                yield Import(name, target, node.lineno)


def test_no_string_closes_a_circle_within_a_room():
    """A name in a string reaches a room above, which is late binding. Within a room it would hide a circle."""
    found = [one for name, path in MODULES.items() for one in named(name, path.read_text())]
    assert len(found) > 10, "the walk finds the names"
    inside = [one for one in (*all_imports(), *found) if room(one.importer) == room(one.imported)]
    assert circles(graph(in_library(inside), str)) == [CORE_CIRCLE]


def test_a_circle_that_a_string_closes_is_caught():
    hidden = named("gradloom.fx.graph", 'def f():\n    import_module("gradloom.fx.interpreter").run()')
    plain = imports("gradloom.fx.interpreter", "from .graph import Graph", is_package=False)
    assert circles(graph([*hidden, *plain], str)) == [{"gradloom.fx.graph", "gradloom.fx.interpreter"}]


def test_every_family_folder_is_a_package():
    for name, path in MODULES.items():
        assert (path.parent / "__init__.py").exists(), f"{name} is in a folder without __init__.py"


# --- the generator --------------------------------------------------------------------------------------------------

# The stages of the generator in the order in which data flows, above what all of them may import.
STAGES = (
    "errors",
    "target",
    "memo",
    "reading",
    "schema",
    "language",
    "operators",
    "derivation",
    "derivatives",
    "notation",
    "wrappers",
    "outputs",
    "writing",
)
MAX_FILES_AT_ITS_ROOT = 14


def late_imports(found: Iterable[Import]) -> list[str]:
    """The imports within the generator that run from a stage to a later one."""

    def stage(module: str) -> int:
        parts = module.split(".")
        return STAGES.index(parts[2]) if len(parts) > 2 else 0

    return [
        f"{one.importer}:{one.line} imports {one.imported}, a later stage"
        for one in found
        if one.imported.startswith("gradloom.codegen.") and stage(one.imported) > stage(one.importer)
    ]


def in_generator(found: Iterable[Import]) -> list[Import]:
    return [one for one in found if one.importer.startswith("gradloom.codegen.")]


def test_a_stage_of_the_generator_imports_earlier_stages_only():
    assert len(in_generator(all_imports())) > 100, "the walk finds the imports"
    assert late_imports(in_generator(all_imports())) == []
    assert circles(graph(in_generator(all_imports()), str)) == []


def test_an_import_of_a_later_stage_is_caught():
    early, late = "gradloom.codegen.reading.yaml_files", "gradloom.codegen.operators.keys"
    assert len(late_imports([Import(early, late, 1)])) == 1
    assert late_imports([Import(late, early, 1)]) == []


def test_every_stage_of_the_generator_says_what_comes_in_and_goes_out():
    root = ROOT / "codegen"
    assert len(list(root.glob("*.py"))) <= MAX_FILES_AT_ITS_ROOT
    for path in root.glob("*/__init__.py"):
        doc = " ".join((ast.get_docstring(ast.parse(path.read_text())) or "").split())
        assert all(word in doc for word in ("In: ", "Out: ", "The stage is ")), path
