"""What the modules of a package need: imports in sources, the graph of modules, and what is wrong with it."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from importlib.util import resolve_name


class PackagingErrorReason(Enum):
    """Why a module cannot be packaged."""

    IS_EXTENSION_MODULE = "Module is a C extension module. torch.package supports Python modules only."
    NO_DUNDER_FILE = "Module had no __file__ defined."
    SOURCE_FILE_NOT_FOUND = "Module had a __file__, but we could not find it in your filesystem."
    DEPENDENCY_RESOLUTION_FAILED = "Dependency resolution failed."
    NO_ACTION = "Module did not match against any action pattern. Extern, mock, or intern it."
    DENIED = "Module was denied by a pattern."
    MOCKED_BUT_STILL_USED = (
        "Module was mocked out, but is still being used in the package. Please intern or extern the mocked modules if "
        "objects are supposed to be in the package."
    )

    def __repr__(self) -> str:
        return f"<{type(self).__name__}.{self.name}>"


class EmptyMatchError(Exception):
    """A pattern with allow_empty=False has matched no module."""


@dataclass
class Node:
    """A module, or a pickle, of a package.

    Attributes:
        action: "intern", "extern", "mock" or "deny"; None for a module that nothing matches.
        source: the text of an interned module.
        is_provided: whether the caller asked for it, rather than another module needing it.
    """

    action: str | None = None
    source: str | None = None
    is_package: bool = False
    is_pickle: bool = False
    is_provided: bool = False
    error: PackagingErrorReason | None = None
    context: str = ""


@dataclass
class Graph:
    """Modules, and which of them need which."""

    nodes: dict[str, Node] = field(default_factory=dict)
    needs: dict[str, dict[str, None]] = field(default_factory=dict)

    def link(self, importer: str, imported: str) -> None:
        """Note that a module needs another."""
        self.needs.setdefault(importer, {})[imported] = None

    def users(self, name: str) -> list[str]:
        """Return what needs a module."""
        return [user for user, needed in self.needs.items() if name in needed]

    def path_to(self, name: str) -> list[str]:
        """Return the shortest chain from something that the caller gave to a module."""
        paths, seen = [[name]], {name}
        for path in paths:
            users = [user for user in self.users(path[0]) if user not in seen]
            node = self.nodes.get(path[0])
            if not users or (node is not None and node.is_provided):
                return path
            seen.update(users)
            paths.extend([user, *path] for user in users)
        return [name]

    def between(self, start: str, end: str) -> Graph:
        """Return the part of the graph that lies on paths from one module to another."""
        known = {*self.nodes, *self.needs, *(n for needed in self.needs.values() for n in needed)}
        for name in (start, end):
            if name not in known:
                raise ValueError(f"The node {name} is not in the digraph.")
        after = _reached(start, lambda name: list(self.needs.get(name, ())))
        on_path = after & _reached(end, self.users)
        part = Graph()
        for user, needed in self.needs.items():
            for name in needed:
                if user in on_path and name in on_path:
                    part.link(user, name)
        return part

    def dot(self) -> str:
        """Return the graph in the language of Graphviz."""
        edges = "\n".join(f'"{user}" -> "{name}";' for user, needed in self.needs.items() for name in needed)
        return f"digraph G {{\nrankdir = LR;\nnode [shape=box];\n{edges}\n}}\n"


def _reached(start: str, following: Callable[[str], list[str]]) -> set[str]:
    seen, left = {start}, [start]
    while left:
        new = [name for name in following(left.pop()) if name not in seen]
        seen.update(new)
        left.extend(new)
    return seen


class PackagingError(Exception):
    """Modules cannot be packaged; the message lists them by reason.

    Attributes:
        dependency_graph: the modules and what they need.
    """

    def __init__(self, dependency_graph: Graph, debug: bool = False) -> None:
        by_reason: dict[PackagingErrorReason, list[str]] = {}
        for name, node in dependency_graph.nodes.items():
            if node.error is not None:
                by_reason.setdefault(node.error, []).append(name)
        lines = [""]
        for reason, names in by_reason.items():
            lines.append(f"* {reason.value}")
            for name in names:
                lines.append(f"    {name}")
                if name in UNSAFE:
                    lines.append(
                        f"      Note: `{name}` is in the standard library, and gives code access to the system: it is "
                        f"not taken from the environment unless you ask for it by PackageExporter.extern({name!r})"
                    )
                if context := dependency_graph.nodes[name].context:
                    lines.append(f"      Context: {context}")
                if debug:
                    lines.append(f"      A path to {name}: {' -> '.join(dependency_graph.path_to(name))}")
        if not debug:
            lines += [
                "",
                "Set debug=True when invoking PackageExporter for a visualization of where broken modules are coming "
                "from!",
            ]
        super().__init__("\n".join(lines) + "\n")
        self.dependency_graph = dependency_graph


# Modules of the standard library that a package gets only if the caller says so.
UNSAFE = ("sys", "io")


def imports_of(source: str, package: str) -> Iterator[tuple[str, str | None]]:
    """Yield what a source imports: (module, None), or (module, name) for a name that may be a submodule.

    Args:
        source: Python's text.
        package: the package from which relative imports start.

    Raises:
        SyntaxError: if the text is not Python.
        ImportError: for a relative import beyond the topmost package.
    """
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, None
        elif isinstance(node, ast.ImportFrom):
            start = "." * node.level + (node.module or "")
            base = resolve_name(start, package) if node.level else start
            for alias in node.names:
                yield base, None if alias.name == "*" else alias.name
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "__import__":
            yield from _of_call(node, package)


def _of_call(call: ast.Call, package: str) -> Iterator[tuple[str, str | None]]:
    """Yield what a call of `__import__` imports, if its arguments are constants."""
    given = dict(zip(("name", "globals", "locals", "fromlist", "level"), call.args, strict=False))
    given |= {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}
    values = {}
    for key in given.keys() & {"name", "fromlist", "level"}:
        try:
            values[key] = ast.literal_eval(given[key])
        except (ValueError, TypeError):
            if key == "name":
                return
    name, level = values.get("name"), values.get("level", 0)
    if not isinstance(name, str) or not isinstance(level, int):
        return
    base = resolve_name("." * level + name, package) if level else name
    names: list[str | None] = [item for item in values.get("fromlist") or () if isinstance(item, str)]
    for item in names or [None]:
        yield base, item
