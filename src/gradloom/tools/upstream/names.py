"""Public names of a release, read from its Python files and stubs without running them.

A module is public if no part of its path begins with an underscore. Its names are those of `__all__`, where that is
written as a list; else its functions and classes without an underscore. A class has its public methods, too.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator

from .files import Files

_FUNCTIONS, _TENSORS, _STUBS = "torch/_C/_VariableFunctions.pyi", "torch/_tensor.py", "torch/_C/__init__.pyi"
# Moved to a package of its own, or without a promise of compatibility.
_LEFT_OUT = ("torch.ao", "torch.quantization", "torch.fx.passes", "torch.fx.experimental", "torch.utils.hipify")
_BASES = ("TensorBase", "_TensorBase")
_DTYPES = ("dtype", "layout", "memory_format", "qscheme")


def public_names(files: Files) -> dict[str, str]:
    """Return {public name with its module: parameters}; '' where these are not known."""
    found: dict[str, str] = {}
    for path in files.paths():
        parts = path.removesuffix(".py").split("/")
        if parts[-1] == "__init__":
            parts.pop()
        module = ".".join(parts)
        if path.endswith(".py") and not any(p.startswith("_") or p == "testing" for p in parts):
            if not f"{module}.".startswith(tuple(f"{name}." for name in _LEFT_OUT)):
                found |= _of_module(module, _tree(files, path))
    for node in _tree(files, _FUNCTIONS).body:
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            found.setdefault(f"torch.{node.name}", "")
    for node in _tree(files, _STUBS).body:
        if isinstance(node, ast.ClassDef) and node.name in _BASES:
            found |= {f"torch.Tensor.{n}": "" for n in _members(node)}
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            if isinstance(node.annotation, ast.Name) and node.annotation.id in _DTYPES:
                found[f"torch.{node.target.id}"] = ""
    for node in _tree(files, _TENSORS).body:
        if isinstance(node, ast.ClassDef) and node.name == "Tensor":
            found |= {f"torch.Tensor.{name}": text for name, text in _members(node).items()}
    return dict(sorted(found.items()))


def _tree(files: Files, path: str) -> ast.Module:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of escapes in strings
            return ast.parse(files.read(path) or b"")
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # of a newer Python, or damaged
        return ast.Module([], [])


def _of_module(module: str, tree: ast.Module) -> dict[str, str]:
    listed = list(_listed(tree))
    defined: dict[str, str] = {}
    members: dict[str, str] = {}
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            defined[node.name] = _parameters(node)
        elif isinstance(node, ast.ClassDef):
            inside = _members(node)
            defined[node.name] = inside.pop("__init__", "")
            members |= {f"{node.name}.{name}": text for name, text in inside.items()}
    public = listed or [name for name in defined if not name.startswith("_")]
    found = {name: defined.get(name, "") for name in public}
    found |= {name: text for name, text in members.items() if name.partition(".")[0] in public}
    return {f"{module}.{name}": text for name, text in found.items()}


def _listed(tree: ast.Module) -> Iterator[str]:
    """Yield the names of `__all__`, as far as it is written as lists."""
    for node in tree.body:
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        if isinstance(target, ast.Name) and target.id == "__all__" and getattr(node, "value", None) is not None:
            for item in ast.walk(node.value):  # type: ignore[attr-defined]
                if isinstance(item, ast.Constant) and isinstance(item.value, str):
                    yield item.value


def _members(node: ast.ClassDef) -> dict[str, str]:
    """Return the methods of a class that are public or special, with their parameters."""
    found: dict[str, str] = {}
    for item in node.body:
        if isinstance(item, ast.FunctionDef) and (not item.name.startswith("_") or item.name == "__init__"):
            found.setdefault(item.name, _parameters(item))
        elif isinstance(item, ast.FunctionDef) and item.name in ("__dlpack__", "__dlpack_device__"):
            found[item.name] = _parameters(item)
    return found


def _parameters(node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """Return the names of parameters, with `=` where there is a default: `input, dim=, *, out=`."""
    given = node.args
    named = [*given.posonlyargs, *given.args]
    optional = len(named) - len(given.defaults)
    parts = [a.arg + "=" * (n >= optional) for n, a in enumerate(named) if n or a.arg not in ("self", "cls")]
    if given.vararg or given.kwonlyargs:
        parts.append(f"*{given.vararg.arg}" if given.vararg else "*")
    parts += [a.arg + "=" * (d is not None) for a, d in zip(given.kwonlyargs, given.kw_defaults, strict=True)]
    return ", ".join([*parts, *([f"**{given.kwarg.arg}"] if given.kwarg else [])])
