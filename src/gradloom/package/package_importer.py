"""PackageImporter: imports modules and loads objects from an archive, apart from those of the process."""

from __future__ import annotations

import builtins
import inspect
import io
import itertools
import linecache
import os
import pickle
import sys
import zipfile
from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.util import resolve_name
from pathlib import Path
from types import ModuleType
from typing import IO, Any
from weakref import WeakValueDictionary, ref

import numpy as np

from ..serialization._unpickling import Storages, _storage
from .glob_group import Directory, GlobGroup, GlobPattern
from .importer import Importer, demangled, package_of

__all__ = ["PackageImporter"]

_numbers = itertools.count()
_by_id: WeakValueDictionary[str, PackageImporter] = WeakValueDictionary()  # for inspect


class PackageImporter(Importer):
    """Import modules and load objects from a package that `PackageExporter`, or PyTorch's, wrote.

    This runs the code in the package: use it only for packages that you trust. Modules of the package are apart from
    those of the process and of other packages: their names start with `<torch_package_0>.`, and `sys.modules` does
    not have them. Extern modules come from the process; for a package, torch is this library.

    Args:
        file_or_buffer: a path of an archive, or of a folder that one was unpacked to; or a file that is open for
            reading bytes and can seek.
        module_allowed: called with the name of each extern module; returns whether the package may have it.

    Raises:
        FileNotFoundError: if there is no such file.
        RuntimeError: if it is no package.
        ImportError: if the package needs a module that is not allowed.
    """

    def __init__(
        self,
        file_or_buffer: str | os.PathLike[str] | IO[bytes],
        module_allowed: Callable[[str], bool] = lambda name: True,
    ) -> None:
        if isinstance(file_or_buffer, str | os.PathLike):
            self.filename = os.fspath(file_or_buffer)
        else:
            self.filename = "<binary>"
        self._id = f"<torch_package_{next(_numbers)}>"
        self._archive = _opened(file_or_buffer)
        if ".data/extern_modules" not in self._archive.names:
            raise RuntimeError(f"PackageImporter: {self.filename} is no package: it has no .data/extern_modules")
        self.extern_modules = self._archive.read(".data/extern_modules").decode().split()
        for name in self.extern_modules:
            if not module_allowed(name):
                raise ImportError(
                    f"package '{file_or_buffer}' needs the external module '{name}' but that module has been disallowed"
                )
        self.modules: dict[str, ModuleType] = {}
        _by_id[self._id] = self
        self._builtins = {**vars(builtins), "__import__": self._import}
        folders = (name.rpartition("/")[0] for name in self._archive.names)
        self._folders = {"/".join(f.split("/")[: i + 1]) for f in folders for i in range(f.count("/") + 1) if f}
        _install_inspection()

    def id(self) -> str:
        """Return the part of module names that tells this package from others, such as `<torch_package_0>`."""
        return self._id

    def import_module(self, name: str, package: str | None = None) -> ModuleType:
        """Return a module of the package, or an extern one.

        Args:
            name: its name; with leading dots, relative to `package`.

        Raises:
            ModuleNotFoundError: if the package has no such module and it is not extern.
        """
        return self._module(resolve_name(name, package) if package else demangled(name))

    def load_binary(self, package: str, resource: str) -> bytes:
        """Return the bytes of a resource.

        Raises:
            RuntimeError: if there is none of this name.
        """
        return self._archive.read(f"{demangled(package).replace('.', '/')}/{resource}")

    def load_text(self, package: str, resource: str, encoding: str = "utf-8", errors: str = "strict") -> str:
        """Return a resource as text; errors are those of `load_binary`."""
        return self.load_binary(package, resource).decode(encoding, errors)

    def load_pickle(self, package: str, resource: str, map_location: Any = None) -> Any:
        """Return the object of a pickle, with its tensors. This runs what the pickle names.

        Args:
            map_location: as for `gradloom.load`.
        """
        return _Unpickler(self, self.load_binary(package, resource), map_location).load()

    def file_structure(self, *, include: GlobPattern = "**", exclude: GlobPattern = ()) -> Directory:
        """Return the files of the package as a tree, those whose paths match patterns (see GlobGroup)."""
        wanted = GlobGroup(include, exclude=exclude, separator="/")
        root = Directory(self.filename, True)
        for name in self._archive.names:
            if wanted.matches(name):
                root._add(name)
        return root

    def get_source(self, module_name: str) -> str:
        """Return the source of a module of the package.

        Raises:
            ModuleNotFoundError: if the package has no such module.
        """
        path = self._path(demangled(module_name))
        if path is None:
            raise self._not_found(module_name)
        return self._archive.read(path).decode("utf-8")

    def get_resource_reader(self, fullname: str) -> _Resources | None:
        """Return what importlib.resources reads resources of a package of modules with; None if there is none."""
        name = demangled(fullname)
        path = name.replace(".", "/")
        if path not in self._folders:
            if self._path(name) is not None:
                raise TypeError(f"{name!r} is not a package")
            return None
        return _Resources(self._archive, path)

    def python_version(self) -> str:
        """Return the version of Python that wrote the package."""
        name = ".data/python_version"
        return self._archive.read(name).decode().strip() if name in self._archive.names else "unknown"

    def _has(self, module_name: str) -> bool:
        place = module_name.replace(".", "/")
        return self._path(module_name) is not None or place in self._folders or self._is_extern(module_name)

    def _path(self, name: str) -> str | None:
        place = name.replace(".", "/")
        return next((p for p in (f"{place}/__init__.py", f"{place}.py") if p in self._archive.names), None)

    def _is_extern(self, name: str) -> bool:
        parts = name.split(".")
        return any(".".join(parts[: i + 1]) in self.extern_modules for i in range(len(parts))) or (
            self._path(name) is None
            and name.replace(".", "/") not in self._folders
            and any(extern.startswith(f"{name}.") for extern in self.extern_modules)
        )

    def _module(self, name: str) -> ModuleType:
        if not name:
            raise ValueError("Empty module name")
        if name in self.modules:
            return self.modules[name]
        path = self._path(name)
        place = name.replace(".", "/")
        if path is None and self._is_extern(name):
            return _of_process(name)
        if path is None and place not in self._folders:
            raise self._not_found(name)
        parent, _, last = name.rpartition(".")
        holder = self._module(parent) if parent else None
        if name in self.modules:  # the parent has imported it
            return self.modules[name]
        module = self._made(name, path, place in self._folders and (path is None or path.endswith("/__init__.py")))
        self.modules[name] = module
        if path is not None:
            try:
                code = compile(self._archive.read(path), self._mangled(path), "exec", dont_inherit=True)
                exec(code, vars(module))
            except BaseException:
                self.modules.pop(name, None)
                raise
        module = self.modules[name]
        if holder is not None and package_of(holder.__name__) == self._id:
            setattr(holder, last, module)
        return module

    def _made(self, name: str, path: str | None, is_package: bool) -> ModuleType:
        full = f"{self._id}.{name}"
        spec = ModuleSpec(full, self, origin="<package_importer>", is_package=is_package)  # type: ignore[arg-type]
        module = ModuleType(full)
        module.__spec__ = spec
        module.__loader__ = self  # type: ignore[assignment]
        module.__package__ = name if is_package else name.rpartition(".")[0]
        if is_package:
            module.__path__ = []
        vars(module).update({"__builtins__": self._builtins, "__torch_package__": True})
        if path is not None:
            module.__file__ = self._mangled(path)
            archive = ref(self._archive)  # the cache must not keep the file open
            linecache.cache[module.__file__] = (lambda: (a := archive()) and a.read(path).decode("utf-8") or "",)
        return module

    def _mangled(self, path: str) -> str:
        return f"{self._id}.{path}"

    def _import(
        self, name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0
    ) -> ModuleType:
        """Import as the statement does; modules of the package have this as `__import__`."""
        if level:
            name = resolve_name("." * level + name, demangled((globals or {}).get("__package__") or ""))
        module = self._module(demangled(name))
        if not fromlist:
            return module if level else self._module(name.partition(".")[0])
        if package_of(module.__name__) == self._id and hasattr(module, "__path__"):
            names = [n for item in fromlist for n in (getattr(module, "__all__", ()) if item == "*" else (item,))]
            for item in names:
                if item not in vars(module) and self._has(f"{name}.{item}"):
                    self._module(f"{name}.{item}")
        elif package_of(module.__name__) is None:
            for item in fromlist:
                if item != "*" and not hasattr(module, item) and hasattr(module, "__path__"):
                    try:
                        import_module(f"{module.__name__}.{item}")
                    except ModuleNotFoundError:
                        pass  # the statement raises ImportError with the name
        return module

    def _not_found(self, name: str) -> ModuleNotFoundError:
        return ModuleNotFoundError(
            f'No module named "{name}" in self-contained archive "{self.filename}" and the module is also not in the '
            f"list of allowed external modules: {self.extern_modules}",
            name=name,
        )


def _of_process(name: str) -> ModuleType:
    """Return an extern module; torch is this library, whether or not PyTorch is installed."""
    top, dot, rest = name.partition(".")
    return import_module("gradloom" + dot + rest if top == "torch" else name)


class _Unpickler(Storages, pickle.Unpickler):
    """Loads a pickle of a package."""

    weights_only = False

    def __init__(self, importer: PackageImporter, data: bytes, map_location: Any) -> None:
        super().__init__(io.BytesIO(data))
        self.importer, self.map_location = importer, map_location
        self.memory: dict[int | str, np.ndarray] = {}
        self.reduced: dict[Any, Any] = {}

    def find_class(self, module: str, name: str) -> Any:
        if module.partition(".")[0] == "torch" or (module, name) == ("collections", "OrderedDict"):
            return super().find_class(module, name)
        found: Any = self.importer.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
        return found

    def persistent_load(self, saved: Any) -> Any:
        if saved[0] == "reduce_package":
            _, key, function, args = saved
            if key not in self.reduced:
                self.reduced[key] = function(self.importer, *args)
            return self.reduced[key]
        if saved[0] != "storage":
            raise pickle.UnpicklingError(f"PackageImporter: unknown persistent id {saved[0]!r}")
        _, kind, key, location, _ = saved
        if key not in self.memory:
            archive, name = self.importer._archive, f".data/{key}.storage"
            self.memory[key] = self.placed(location, lambda: np.frombuffer(bytearray(archive.read(name)), np.uint8))
        return _storage(self.memory[key], kind)


class _Archive:
    """The members of a zip file, or the files of a folder, by their names within the archive's one folder."""

    def __init__(self, names: dict[str, Any], read: Callable[[Any], bytes]) -> None:
        self.names, self._read = names, read

    def read(self, name: str) -> bytes:
        if name not in self.names:
            raise RuntimeError(f"PackageImporter: the package has no file {name!r}: file not found")
        return self._read(self.names[name])


def _opened(file: Any) -> _Archive:
    if isinstance(file, str | os.PathLike) and os.path.isdir(file):
        root = Path(file)
        return _Archive(
            {p.relative_to(root).as_posix(): p for p in sorted(root.rglob("*")) if p.is_file()}, Path.read_bytes
        )
    try:
        archive = zipfile.ZipFile(file)
    except zipfile.BadZipFile as error:
        raise RuntimeError(f"PackageImporter: not a ZIP archive: {error}") from error
    if (order := _order(archive)) != sys.byteorder:
        raise RuntimeError(f"PackageImporter: the package is of a {order}-endian machine, this one is {sys.byteorder}")
    names = {name.partition("/")[2]: name for name in archive.namelist() if not name.endswith("/")}
    return _Archive(names, archive.read)


def _order(archive: zipfile.ZipFile) -> str:
    name = next((n for n in archive.namelist() if n.partition("/")[2] == "byteorder"), None)
    return archive.read(name).decode() if name else sys.byteorder


class _Resources:
    """Reads resources of one folder for importlib.resources."""

    def __init__(self, archive: _Archive, folder: str) -> None:
        self._archive, self._folder = archive, folder

    def open_resource(self, resource: str) -> IO[bytes]:
        name = f"{self._folder}/{resource}"
        if name not in self._archive.names:
            raise FileNotFoundError(name)
        return io.BytesIO(self._archive.read(name))

    def resource_path(self, resource: str) -> str:
        raise FileNotFoundError(f"{resource} is in an archive")

    def is_resource(self, path: str) -> bool:
        return f"{self._folder}/{path}" in self._archive.names

    def contents(self) -> Iterator[str]:
        inside = (n[len(self._folder) + 1 :] for n in self._archive.names if n.startswith(f"{self._folder}/"))
        yield from dict.fromkeys(name.partition("/")[0] for name in inside)


def _install_inspection() -> None:
    """Make `inspect.getfile` find classes of packages, whose modules `sys.modules` does not have."""
    if getattr(inspect.getfile, "_knows_packages", False):
        return
    original = inspect.getfile

    def getfile(object: Any) -> str:
        if isinstance(object, type) and (package := package_of(object.__module__)) is not None:
            importer = _by_id.get(package)
            module = importer and importer.modules.get(demangled(object.__module__))
            if (file := getattr(module, "__file__", None)) is not None:
                return str(file)
        return original(object)

    getfile._knows_packages = True  # type: ignore[attr-defined]
    inspect.getfile = getfile
