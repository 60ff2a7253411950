"""The names that type checkers know are the names that exist: none is missing, none is made up.

What a module has at run time is looked up by mypy, as `module.name`; what the generated stubs and `if TYPE_CHECKING`
blocks promise is looked up at run time.
"""

from __future__ import annotations

import ast
import types
from importlib import import_module
from inspect import getattr_static
from pathlib import Path

import pytest

import gradloom
from gradloom import nn
from gradloom.types.absent import AbsentMember

from .checkers import ROOT, environment, mypy

MODULES = (
    "gradloom",
    "gradloom.nn",
    "gradloom.nn.functional",
    "gradloom.nn.init",
    "gradloom.nn.utils",
    "gradloom.optim",
    "gradloom.optim.lr_scheduler",
    "gradloom.special",
    "gradloom.fft",
    "gradloom.linalg",
    "gradloom.masked",
    "gradloom.autograd",
    "gradloom.autograd.forward_ad",
    "gradloom.autograd.functional",
    "gradloom.autograd.graph",
    "gradloom.random",
    "gradloom.return_types",
    "gradloom.signal.windows",
    "gradloom.types",
)
CLASSES = {
    "gradloom.Tensor": gradloom.Tensor,
    "nn.Module": nn.Module,
    "nn.Parameter": nn.Parameter,
    "gradloom.Generator": gradloom.Generator,
    "gradloom.Size": gradloom.Size,
    "gradloom.dtype": gradloom.dtype,
    "gradloom.optim.Optimizer": gradloom.optim.Optimizer,
    "gradloom.autograd.Node": gradloom.autograd.Node,
}
STUBS = ROOT / "generated" / "stubs" / "gradloom-stubs" / "_stubs"
_FROM_PYTHON = {"annotations", "TYPE_CHECKING", "Any"}


def public_names(owner) -> list[str]:
    """The names of a module (its `__all__`, or what it holds besides modules) or of a class, without underscores."""
    listed = None if owner is gradloom else getattr(owner, "__all__", None)  # gradloom's leaves its submodules out
    names = [*(listed or dir(owner)), *getattr(owner, "_LAZY", ())]
    found = []
    for name in names:
        if name.startswith("_") or name in _FROM_PYTHON or _is_legacy_type(owner, name):
            continue
        try:
            value = getattr(owner, name)
        except NotImplementedError:  # a name that nn.functional keeps free for an operator to come
            continue
        except (AttributeError, RuntimeError):  # a member without a value in the class
            value = None
        if isinstance(value, types.ModuleType) and name not in names_told(owner):
            continue
        if isinstance(getattr_static(owner, name, None), AbsentMember):
            continue
        found.append(name)
    return found


def _is_legacy_type(owner, name: str) -> bool:
    """`gradloom.FloatTensor` and the like, which the module makes when they are asked for."""
    return owner is gradloom and name not in vars(gradloom) and name.endswith(("Tensor", "Storage"))


def names_told(module) -> set[str]:
    """The submodules that belong to what a module gives away."""
    return (set() if module is gradloom else set(getattr(module, "__all__", ()))) | set(
        getattr(module, "_LAZY_MODULES", ())
    )


def test_mypy_knows_every_name_that_exists(tmp_path):
    pytest.importorskip("mypy")
    expressions = []
    for module in MODULES:
        expressions += [f"{module}.{name}" for name in public_names(import_module(module))]
    for name, cls in CLASSES.items():
        expressions += [f"{name}.{member}" for member in public_names(cls)]
    program = tmp_path / "program.py"
    imports = ["import gradloom", "from gradloom import nn", *(f"import {module}" for module in MODULES)]
    program.write_text("\n".join([*imports, *expressions, ""]))
    found = mypy(environment(tmp_path, "editable"), tmp_path / "cache", program)
    unknown = [
        expressions[line - 1 - len(imports)]
        for (_, line), errors in found.items()
        for code, _ in errors
        if code in ("attr-defined", "name-defined")
    ]
    assert len(expressions) > 1500
    assert not unknown, (
        f"type checkers do not know {unknown}: in a module, import such a name as `x as x`; what is "
        "bound to Tensor dynamically is declared in tensors/_members.py"
    )


def _functions(path: Path) -> set[str]:
    return {node.name for node in ast.parse(path.read_text()).body if isinstance(node, ast.FunctionDef | ast.ClassDef)}


def _members(path: Path, name: str) -> set[str]:
    (body,) = (
        node.body for node in ast.parse(path.read_text()).body if isinstance(node, ast.ClassDef) and node.name == name
    )
    return {node.name for node in body if isinstance(node, ast.FunctionDef)}


def _bound(path: Path) -> set[str]:
    """The names of a stub that only points at operators."""
    found = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ImportFrom):
            found |= {alias.asname for alias in node.names if alias.asname and alias.asname == alias.name}
        elif isinstance(node, ast.Assign):
            found.add(node.targets[0].id)
    return found


@pytest.mark.parametrize("module", ["functions", "special", "linalg"])
def test_the_stub_of_a_namespace_promises_nothing_that_is_missing(module):
    owner = gradloom if module == "functions" else import_module(f"gradloom.{module}")
    promised = _bound(STUBS / f"{module}.pyi")
    assert len(promised) >= 5
    assert not [name for name in promised if not hasattr(owner, name)]


def test_the_stubs_of_tensor_promise_nothing_that_is_missing():
    promised = _members(STUBS / "methods.pyi", "TensorMethods")
    promised |= _members(ROOT / "src" / "gradloom" / "tensors" / "_members.py", "TensorMembers")
    assert len(promised) > 400
    assert not [name for name in promised if not hasattr(gradloom.Tensor, name)]


def test_every_operator_has_a_stub_and_every_stub_an_operator():
    from gradloom.generated.namespaces import METHODS, OPERATORS

    assert _functions(STUBS / "operators.pyi") == set(OPERATORS)
    members = _members(STUBS / "methods.pyi", "TensorMethods")
    assert members <= set(METHODS)
    by_hand = set(METHODS) - members
    written = _members(ROOT / "src" / "gradloom" / "tensors" / "_members.py", "TensorMembers")
    written |= _members(ROOT / "src" / "gradloom" / "core" / "tensor.py", "Tensor")
    written |= _members(ROOT / "src" / "gradloom" / "core" / "tensor_base.py", "TensorBase")
    assert by_hand <= written, sorted(by_hand - written)


def test_named_results_have_the_fields_that_the_stub_says():
    stub = ast.parse((STUBS / "return_types.pyi").read_text())
    fields = {
        node.name: [
            f.name
            for f in node.body
            if isinstance(f, ast.FunctionDef) and not f.name.startswith("_") and f.name != "n_fields"
        ]
        for node in stub.body
        if isinstance(node, ast.ClassDef)
    }
    assert fields["max"] == ["values", "indices"]
    for name, expected in fields.items():
        if hasattr(gradloom.return_types, name):
            assert list(getattr(gradloom.return_types, name)._fields) == expected, name


def _promises(path: Path):
    """The names that a module imports for type checkers to give them away: `x as x` under `if TYPE_CHECKING`."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "_typing.TYPE_CHECKING"):
            for statement in node.body:
                if isinstance(statement, ast.ImportFrom):
                    yield from (a.asname for a in statement.names if a.asname == a.name and not a.name.startswith("_"))


@pytest.mark.parametrize("module", ["gradloom", "gradloom.nn", "gradloom.nn.functional", "gradloom.autograd"])
def test_what_a_module_shows_to_type_checkers_only_exists(module):
    owner = import_module(module)
    promised = set(_promises(Path(owner.__file__)))
    assert not [name for name in promised if not hasattr(owner, name)]
