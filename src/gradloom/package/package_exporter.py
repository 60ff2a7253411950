"""PackageExporter: collects sources, resources and pickled objects, and writes them as one archive."""

from __future__ import annotations

import io
import os
import platform
import secrets
import sys
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import IO, Any

import numpy as np

from ..memory.ownership import flat
from ..serialization._replacing import replacing
from ..utils.hooks import RemovableHandle
from ._dependencies import UNSAFE, EmptyMatchError, Graph, Node, PackagingError, PackagingErrorReason, imports_of
from ._pickling import MOCK, MOCKED, Pickler, source_of
from .glob_group import GlobGroup, GlobPattern
from .importer import Importer, OrderedImporter, sys_importer

__all__ = ["EmptyMatchError", "PackageExporter", "PackagingError", "PackagingErrorReason"]

Hook = Callable[["PackageExporter", str], None]


@dataclass
class _Pattern:
    action: str
    names: GlobGroup
    allow_empty: bool
    was_matched: bool = False


class PackageExporter:
    """Write a package of code, resources and pickled objects, which `PackageImporter` and PyTorch's read.

    Say first, by patterns, what becomes of the modules that the code and the objects need: `intern` puts a module's
    source into the package, `extern` takes it from the process that loads the package, `mock` replaces it, `deny`
    raises. The first pattern that matches decides. The library itself and Python's standard library are extern
    without being asked, but for `sys` and `io`. Then save modules and objects. As a context manager, the exporter
    closes itself.

    Args:
        f: a path, which is written completely or not at all; or a file that is open for writing bytes.
        importer: where modules and the classes of pickled objects come from, or several in order; the process by
            default. List a PackageImporter first to pack again what was loaded from it.
        debug: whether errors show by which path a module was reached.

    Raises:
        PackagingError: when closed, for modules that no pattern matches, that are denied or that have no source.
        EmptyMatchError: when closed, for a pattern with allow_empty=False that matched nothing.
    """

    def __init__(
        self,
        f: str | os.PathLike[str] | IO[bytes],
        importer: Importer | Iterable[Importer] = sys_importer,
        debug: bool = False,
    ) -> None:
        self.importer = OrderedImporter._of(importer)
        self.debug = debug
        self._file = f
        self._records: dict[str, Any] = {}
        self._graph = Graph()
        self._patterns: list[_Pattern] = []
        self._hooks: dict[str, OrderedDict[int, Hook]] = {a: OrderedDict() for a in ("intern", "extern", "mock")}
        self._storages: dict[int, Any] = {}
        self._reduced: dict[int, tuple[Any, tuple[Any, ...]]] = {}
        self._count = 0
        self._is_closed = False

    def intern(self, include: GlobPattern, *, exclude: GlobPattern = (), allow_empty: bool = True) -> None:
        """Put the sources of modules whose names match into the package.

        Args:
            include, exclude: patterns, see GlobGroup.
            allow_empty: whether the pattern may match nothing.
        """
        self._patterns.append(_Pattern("intern", GlobGroup(include, exclude=exclude), allow_empty))

    def extern(self, include: GlobPattern, *, exclude: GlobPattern = (), allow_empty: bool = True) -> None:
        """Take modules whose names match from the process that loads the package; arguments are those of `intern`."""
        self._patterns.append(_Pattern("extern", GlobGroup(include, exclude=exclude), allow_empty))

    def mock(self, include: GlobPattern, *, exclude: GlobPattern = (), allow_empty: bool = True) -> None:
        """Replace modules whose names match by ones whose objects raise NotImplementedError when they are used.

        Arguments are those of `intern`.
        """
        self._patterns.append(_Pattern("mock", GlobGroup(include, exclude=exclude), allow_empty))

    def deny(self, include: GlobPattern, *, exclude: GlobPattern = ()) -> None:
        """Raise PackagingError, when closed, if the package needs a module whose name matches."""
        self._patterns.append(_Pattern("deny", GlobGroup(include, exclude=exclude), True))

    def save_module(self, module_name: str, dependencies: bool = True) -> None:
        """Put the source of a module into the package.

        Args:
            module_name: its name, as the importer knows it.
            dependencies: whether to see to the modules that it imports, too.

        Raises:
            TypeError: if the name is no string.
            ModuleNotFoundError: if there is no such module.
        """
        if not isinstance(module_name, str):
            raise TypeError(
                "save_module() expects a string input, did you perhaps mean to pass `__name__`? "
                f"Got {type(module_name).__name__}"
            )
        self._intern(module_name, dependencies).is_provided = True

    def save_source_file(self, module_name: str, file_or_directory: str, dependencies: bool = True) -> None:
        """Put a file, or all Python files of a folder, into the package as a module.

        Args:
            module_name: the module's name in the package.
            file_or_directory: a path; a folder becomes a package of modules.
            dependencies: as for `save_module`.

        Raises:
            FileNotFoundError: if there is no such file.
        """
        path = Path(file_or_directory)
        if not path.is_dir():
            self.save_source_string(
                module_name, path.read_text(encoding="utf-8"), path.stem == "__init__", dependencies
            )
            return
        sources = []
        for file in sorted(path.rglob("*.py")):
            parts = file.relative_to(path).with_suffix("").parts
            is_package = parts[-1] == "__init__"
            name = ".".join((module_name, *parts[: len(parts) - is_package]))
            sources.append((name, file.read_text(encoding="utf-8"), is_package))
        for name, text, is_package in sources:
            self._add_source(name, text, is_package).is_provided = True
        if dependencies:
            for name, text, is_package in sources:
                self._need_imports(name, text, is_package)

    def save_source_string(
        self, module_name: str, src: str, is_package: bool = False, dependencies: bool = True
    ) -> None:
        """Put a text into the package as the source of a module.

        Args:
            module_name: the module's name in the package.
            src: Python's text.
            is_package: whether the module may have submodules (is an `__init__.py`).
            dependencies: as for `save_module`.
        """
        self._add_source(module_name, src, is_package).is_provided = True
        if dependencies:
            self._need_imports(module_name, src, is_package)

    def save_pickle(
        self, package: str, resource: str, obj: Any, dependencies: bool = True, pickle_protocol: int = 3
    ) -> None:
        """Pickle an object into the package; storages of its tensors are written once, whatever shares them.

        Args:
            package: the module's name that the resource belongs to, such as "model.weights".
            resource: the resource's name, such as "model.pkl".
            obj: what to pickle.
            dependencies: whether to see to the modules that the pickle names.
            pickle_protocol: 3 or 4.

        An object with a method `__reduce_package__(exporter)`, which returns a function and args, is loaded as
        `function(importer, *args)`.

        Raises:
            PicklingError: if the object cannot be pickled, or its class is from none of the importers.
        """
        if pickle_protocol not in (3, 4):
            raise AssertionError(f"torch.package only supports pickle protocols 3 and 4, got {pickle_protocol}")
        data = io.BytesIO()
        pickler = Pickler(data, pickle_protocol, self)
        pickler.dump(obj)
        self._write(_path(package, resource), data.getvalue())
        if not dependencies:
            return
        name = f"<{package}.{resource}>"
        self._graph.nodes[name] = Node("intern", is_pickle=True, is_provided=True)
        for module, objects in pickler.found.items():
            self._graph.link(name, module)
            self.add_dependency(module)
            node = self._graph.nodes[module]
            if node.action == "mock":
                node.error = PackagingErrorReason.MOCKED_BUT_STILL_USED
                node.context = (
                    f"Object(s) '{objects}' from module `{module}` was mocked out during packaging but is being used "
                    f"in resource - `{resource}` in package `{package}`. "
                )

    def save_text(self, package: str, resource: str, text: str) -> None:
        """Put a text into the package, as UTF-8; `package` and `resource` are those of `save_pickle`."""
        self.save_binary(package, resource, text.encode("utf-8"))

    def save_binary(self, package: str, resource: str, binary: bytes) -> None:
        """Put bytes into the package; `package` and `resource` are those of `save_pickle`."""
        self._write(_path(package, resource), bytes(binary))

    def add_dependency(self, module_name: str, dependencies: bool = True) -> None:
        """Note that the package needs a module; patterns say what becomes of it."""
        if module_name in self._graph.nodes:
            return
        if self._is_of_environment(module_name):
            self._graph.nodes[module_name] = Node("extern")
            return
        pattern = next((p for p in self._patterns if p.names.matches(module_name)), None)
        if pattern is None:
            self._graph.nodes[module_name] = Node(error=PackagingErrorReason.NO_ACTION)
            return
        pattern.was_matched = True
        if pattern.action == "intern":
            self._intern(module_name, dependencies)
        else:
            error = PackagingErrorReason.DENIED if pattern.action == "deny" else None
            self._graph.nodes[module_name] = Node(pattern.action, error=error)

    def register_intern_hook(self, hook: Hook) -> RemovableHandle:
        """Call `hook(exporter, module_name)` for each interned module and pickle, when the package is closed."""
        return self._registered("intern", hook)

    def register_extern_hook(self, hook: Hook) -> RemovableHandle:
        """Call `hook(exporter, module_name)` for each extern module, when the package is closed."""
        return self._registered("extern", hook)

    def register_mock_hook(self, hook: Hook) -> RemovableHandle:
        """Call `hook(exporter, module_name)` for each mocked module, when the package is closed."""
        return self._registered("mock", hook)

    def get_unique_id(self) -> str:
        """Return a number, as a string, that this exporter returns only once."""
        self._count += 1
        return str(self._count - 1)

    def interned_modules(self) -> list[str]:
        """Return the names of the modules whose sources are in the package, sorted."""
        return self._of_action("intern")

    def externed_modules(self) -> list[str]:
        """Return the names of the modules that the loading process must have, sorted."""
        return self._of_action("extern")

    def mocked_modules(self) -> list[str]:
        """Return the names of the modules that are replaced, sorted."""
        return self._of_action("mock")

    def denied_modules(self) -> list[str]:
        """Return the names of the modules that are needed and denied, sorted."""
        return self._of_action("deny")

    def get_rdeps(self, module_name: str) -> list[str]:
        """Return the names of what needs a module."""
        return self._graph.users(module_name)

    def dependency_graph_string(self) -> str:
        """Return what needs what, in the language of Graphviz."""
        return self._graph.dot()

    def all_paths(self, src: str, dst: str) -> str:
        """Return the part of the graph that lies on paths from one module to another, in the language of Graphviz.

        Raises:
            ValueError: if one of them is not in the graph.
        """
        return self._graph.between(src, dst).dot()

    def close(self) -> None:
        """Check what the package needs, and write it."""
        if self._is_closed:
            raise RuntimeError("PackageExporter.close(): the package is already written")
        if any(node.error is not None for node in self._graph.nodes.values()):
            raise PackagingError(self._graph, debug=self.debug)
        for pattern in self._patterns:
            if not pattern.allow_empty and not pattern.was_matched:
                raise EmptyMatchError(
                    f"Exporter did not match any modules to {pattern.names}, which was marked as allow_empty=False"
                )
        for name, node in list(self._graph.nodes.items()):
            for hook in list(self._hooks.get(node.action or "", OrderedDict()).values()):
                hook(self, name)
            self._write_module(name, node)
        self._finish()

    def __enter__(self) -> PackageExporter:
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: Any) -> None:
        if kind is None:
            self.close()

    def _registered(self, action: str, hook: Hook) -> RemovableHandle:
        hooks = self._hooks[action]
        handle = RemovableHandle(hooks)
        hooks[handle.id] = hook
        return handle

    def _of_action(self, action: str) -> list[str]:
        return sorted(n for n, node in self._graph.nodes.items() if node.action == action and not node.is_pickle)

    def _is_of_environment(self, module_name: str) -> bool:
        top = module_name.partition(".")[0]
        return top in ("torch", "gradloom") or (top not in UNSAFE and top in sys.stdlib_module_names)

    def _intern(self, module_name: str, dependencies: bool) -> Node:
        module = self.importer.import_module(module_name)
        file = getattr(module, "__file__", None)
        is_package = hasattr(module, "__path__")
        text = source_of(module)
        if text is not None:
            node = self._add_source(module_name, text, is_package)
            if dependencies:
                self._need_imports(module_name, text, is_package)
            return node
        if file is not None and str(file).endswith(tuple(EXTENSION_SUFFIXES)):
            error = PackagingErrorReason.IS_EXTENSION_MODULE
        elif file is None:
            error = PackagingErrorReason.NO_DUNDER_FILE
        else:
            error = PackagingErrorReason.SOURCE_FILE_NOT_FOUND
        node = self._graph.nodes[module_name] = Node("intern", is_package=is_package, error=error)
        return node

    def _add_source(self, module_name: str, text: str, is_package: bool) -> Node:
        node = self._graph.nodes[module_name] = Node("intern", text, is_package)
        return node

    def _need_imports(self, module_name: str, text: str, is_package: bool) -> None:
        package = module_name if is_package else module_name.rpartition(".")[0]
        try:
            found = list(imports_of(text, package))
        except (SyntaxError, ImportError) as error:
            node = self._graph.nodes[module_name]
            node.error, node.context = PackagingErrorReason.DEPENDENCY_RESOLUTION_FAILED, str(error)
            return
        for base, item in found:
            names = [base] if item is None else [f"{base}.{item}", base]
            while len(names) == 1 and not self._has(names[0]) and "." in names[0]:  # of `import a.b`, at least a
                names = [names[0].rpartition(".")[0]]
            name = next((n for n in names if self._has(n)), None)
            if name is not None and name != module_name:
                self._graph.link(module_name, name)
                self.add_dependency(name)

    def _has(self, module_name: str) -> bool:
        return module_name in self._graph.nodes or self.importer._has(module_name)

    def _write(self, path: str, data: Any) -> None:
        if self._is_closed:
            raise RuntimeError(f"PackageExporter: the package is already written, {path!r} cannot be added")
        if path in self._records:
            raise AssertionError(
                f"Tried to write file '{path}', but it already exists in this archive: give each its own name"
            )
        self._records[path] = data

    def _write_module(self, name: str, node: Node) -> None:
        if node.is_pickle or node.action not in ("intern", "mock"):
            return
        place = name.replace(".", "/")
        if node.action == "intern":
            self._write(place + ("/__init__.py" if node.is_package else ".py"), (node.source or "").encode("utf-8"))
            return
        self._records["_mock.py"] = MOCK.encode()
        is_package = hasattr(self.importer.import_module(name), "__path__") if self.importer._has(name) else False
        self._write(place + ("/__init__.py" if is_package else ".py"), MOCKED.encode())

    def _finish(self) -> None:
        for key, base, _ in self._storages.values():
            memory = flat(base)
            self._write(
                f".data/{key}.storage", np.ascontiguousarray(memory).view(np.uint8).data if memory.size else b""
            )
        externs = [name for name, node in self._graph.nodes.items() if node.action == "extern"]
        self._write(".data/extern_modules", "".join(f"{name}\n" for name in externs))
        self._write(".data/python_version", platform.python_version())
        self._write(".data/version", "6\n")
        self._write("byteorder", sys.byteorder)
        self._write(".data/serialization_id", f"{secrets.randbelow(10**40):040}")
        self._is_closed = True
        if isinstance(self._file, str | os.PathLike):
            path = os.fspath(self._file)
            with replacing(path) as file:
                self._write_archive(file, os.path.splitext(os.path.basename(path))[0])
        elif _tells(self._file):
            self._write_archive(self._file, "archive")
        else:
            whole = io.BytesIO()
            self._write_archive(whole, "archive")
            self._file.write(whole.getvalue())

    def _write_archive(self, file: Any, folder: str) -> None:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
            for name, data in self._records.items():
                member = zipfile.ZipInfo(f"{folder}/{name}", (1980, 1, 1, 0, 0, 0))
                archive.writestr(member, data)


def _path(package: str, resource: str) -> str:
    return f"{package.replace('.', '/')}/{resource}"


def _tells(file: Any) -> bool:
    """Return whether a file tells where it is, and so that it can be written in parts."""
    try:
        file.tell()
    except Exception:  # whatever a class of the user's raises, which may only have `write`
        return False
    return True
