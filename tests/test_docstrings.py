"""Public functions of the hand-written library say what they do and what each of their arguments is; modules and
functions of gradloom.nn say their shapes, too.

A method that overrides one, such as `forward`, is documented by its class; `__init__` by its class as well.
"""

from __future__ import annotations

import ast
import inspect
import re
from functools import reduce
from importlib import import_module
from pathlib import Path

import pytest

from gradloom import nn

LIBRARY = Path(__file__).parents[1] / "src" / "gradloom"
FILES = sorted(
    [
        LIBRARY / f"{name}.py"
        for name in ("tensors/construction", "functional", "random", "tensors/indexing", "core/tensor")
    ]
    + [LIBRARY / "autograd" / f"{name}.py" for name in ("__init__", "functional", "gradcheck", "graph")]
    + [p for folder in ("nn", "optim", "signal") for p in (LIBRARY / folder).rglob("*.py") if p.name != "_calling.py"]
)
# Functions of these modules that only the library itself calls.
INTERNAL = {
    "bind",
    "copied",
    "decayed",
    "deepcopy_tensor",
    "delitem",
    "get_enum",
    "gradient_array",
    "legacy_get_string",
    "ntuple",
    "number",
    "one_per_group",
    "reduce_tensor",
    "require_optimizer",
    "named",
    "running_mean",
    "running_square",
    "wrap",
    "wrapped_number",
}
# They mean the same everywhere, or are accepted for PyTorch's sake and do nothing.
KNOWN = {
    "self",
    "cls",
    "args",
    "kwargs",
    "device",
    "dtype",
    "requires_grad",
    "pin_memory",
    "size_average",
    "reduce",
    "foreach",
    "fused",
    "capturable",
    "differentiable",
    "last_epoch",
    "memo",
    "state",
}
INHERITED = {"forward", "extra_repr", "get_lr", "step"}


def imported(path, name):
    """The object that a file of the library defines under a dotted name."""
    module = path.relative_to(LIBRARY.parent).with_suffix("").as_posix().replace("/", ".").removesuffix(".__init__")
    return reduce(getattr, name.split("."), import_module(module))


def docstring(path, name, node):
    """The docstring as users read it; some families share text, which decorators fill in."""
    if not {"nn", "signal"} & {*path.parts}:
        return ast.get_docstring(node) or ""
    return getattr(imported(path, name), "__doc__", None) or ""


def unnamed(text, arguments):
    """The arguments that a docstring does not name."""
    return [a for a in arguments if a not in KNOWN and not a.startswith("_") and not re.search(rf"\b{a}\b", text)]


def made(path, node):
    """(name, function) if a statement of a module assigns a public function that another function makes."""
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    for name in [t.id for t in targets if isinstance(t, ast.Name) and not t.id.startswith("_")]:
        if isinstance(node.value, ast.Call) and inspect.isfunction(function := imported(path, name)):
            yield name, function


def undocumented(path, body, prefix="", owner=None):
    """(name, the arguments that the docstring does not name; None without a docstring) of what lacks something."""
    for node in body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield from undocumented(path, node.body, f"{prefix}{node.name}.", node)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)) and owner is None:
            for name, function in made(path, node):
                if name.endswith("_with_indices"):  # it refers to the function without
                    continue
                missing = unnamed(function.__doc__ or "", inspect.signature(function).parameters)
                if missing or not function.__doc__:
                    yield name, missing if function.__doc__ else None
        elif isinstance(node, ast.FunctionDef) and (not node.name.startswith("_") or node.name == "__init__"):
            decorators = " ".join(map(ast.unparse, node.decorator_list))
            if node.name in INHERITED | INTERNAL or re.search(r"overload|setter|deleter", decorators):
                continue
            if node.name.endswith("_with_indices"):
                continue
            text = docstring(path, prefix + node.name, node)
            if node.name == "__init__":
                text += docstring(path, prefix.rstrip("."), owner)
            arguments = [a.arg for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
            if not text or unnamed(text, arguments):
                yield prefix + node.name, unnamed(text, arguments) if text else None


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(LIBRARY).as_posix())
def test_docstrings_name_every_argument(path):
    assert not list(undocumented(path, ast.parse(path.read_text(encoding="utf-8")).body))


def test_functions_that_others_make_are_seen():
    path = LIBRARY / "nn" / "_functional" / "pool.py"
    body = [node for node in ast.parse(path.read_text(encoding="utf-8")).body if isinstance(node, ast.AnnAssign)]
    names = {name for node in body for name, _ in made(path, node)}
    assert {"max_pool1d", "adaptive_max_pool2d", "fractional_max_pool3d"} <= names


CONTAINERS = ("Module", "ModuleDict", "ModuleList", "ParameterDict", "ParameterList", "Sequential")
CLASSES = [name for name in nn.__all__ if isinstance(getattr(nn, name), type) and name not in CONTAINERS]


@pytest.mark.parametrize("name", [name for name in CLASSES if issubclass(getattr(nn, name), nn.Module)])
def test_modules_say_their_shapes_and_name_what_their_constructors_take(name):
    module = getattr(nn, name)
    assert re.search(r"\n    Shape:\n        \w", module.__doc__)
    assert module.__doc__[0] != "\n" and "{" not in module.__doc__
    assert max(map(len, module.__doc__.split("\n"))) <= 120
    kinds = [(n, p.kind) for n, p in inspect.signature(module).parameters.items() if not n.startswith("_")]
    taken = [n for n, kind in kinds if kind not in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)]
    assert not [n for n in taken if not re.search(rf"\b{n}\b", module.__doc__)]


FUNCTIONS = [n for n, f in nn.functional._WRITTEN_HERE.items() if not isinstance(f, type)]


@pytest.mark.parametrize("name", [n for n in FUNCTIONS if not n.endswith("_with_indices")])
def test_functions_of_nn_say_their_shapes(name):
    assert re.search(r"\n    Shape:\n        \w", getattr(nn.functional, name).__doc__)
