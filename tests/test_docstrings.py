"""Public functions of the hand-written library say what they do and what each of their arguments is.

A method that overrides one, such as `forward`, is documented by its class; `__init__` by its class as well.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

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
    "resolve",
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


def undocumented(body, prefix="", owner=None):
    """(name, the arguments that the docstring does not name; None without a docstring) of what lacks something."""
    for node in body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield from undocumented(node.body, f"{prefix}{node.name}.", node)
        elif isinstance(node, ast.FunctionDef) and (not node.name.startswith("_") or node.name == "__init__"):
            decorators = " ".join(map(ast.unparse, node.decorator_list))
            if node.name in INHERITED | INTERNAL or re.search(r"overload|setter|deleter", decorators):
                continue
            text = ast.get_docstring(node) or ""
            if node.name == "__init__":
                text += ast.get_docstring(owner) or ""
            if not text:
                yield prefix + node.name, None
                continue
            arguments = [a.arg for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
            missing = [
                a for a in arguments if a not in KNOWN and not a.startswith("_") and not re.search(rf"\b{a}\b", text)
            ]
            if missing:
                yield prefix + node.name, missing


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(LIBRARY).as_posix())
def test_docstrings_name_every_argument(path):
    assert not list(undocumented(ast.parse(path.read_text(encoding="utf-8")).body))
