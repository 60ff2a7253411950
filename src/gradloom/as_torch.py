"""Make `import torch` import gradloom, from the import of this module on, in this process.

    import gradloom.as_torch
    import torch                       # gradloom, under the name torch
    from torch.nn import functional as F

Import it before anything imports torch. PyTorch, if it is installed, is hidden. Modules keep their identity (torch.nn
is gradloom.nn). The package, its classes and functions, and `importlib.metadata` report the name torch, because
packages check it. `gradloom run` does this for a program, and for the processes that it starts.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.metadata import Distribution, DistributionFinder
from types import FunctionType, ModuleType
from typing import Any

import gradloom

from .compat.imported_names import answering
from .core import late
from .dispatch.overloads.parser import Overloads
from .torch_version import TorchVersion
from .types.absent import is_absent, refusal
from .types.public import found_in

VERSION = "2.15.0+gradloom"
_OURS, _THEIRS = "gradloom", "torch"
_FUNCTORCH = "functorch"  # a package of its own that PyTorch installs beside torch
# Modules of packages with compiled operators, which compat.compiled_packages changes after their import.
_COMPILED = frozenset(("torchaudio._extension", "torchaudio._extension.utils", "torchvision.extension"))


# Modules whose public names PyTorch defines in another module, where the library has them, too.
_C10D = "torch.distributed.distributed_c10d"
_PLACES = {
    f"gradloom.distributed.{name}": _C10D
    for name in "_collectives _groups _kinds _point_to_point _process_group _work _world stores".split()
} | {"gradloom.distributed.errors": "torch.distributed"}


def _renamed(name: str) -> str:
    return _THEIRS + name.removeprefix(_OURS)


def _is_ours(name: Any) -> bool:
    return isinstance(name, str) and (name == _OURS or name.startswith(_OURS + "."))


class _Spec(ModuleSpec):
    """The spec of a module under its second name; relative imports in it still start from the first."""

    def __init__(self, name: str, module: ModuleType) -> None:
        path = getattr(module, "__path__", None)
        loader: Any = _Existing(module)
        super().__init__(name, loader, origin=getattr(module, "__file__", None), is_package=path is not None)
        if path is not None:
            self.submodule_search_locations = list(path)
        self._parent = module.__package__

    @property
    def parent(self) -> str | None:  # type: ignore[override]
        return self._parent


class _Existing:
    """A loader that gives a module that is already loaded."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing: the module is complete."""

    def get_code(self, fullname: str) -> Any:
        """Return the module's code, for `python -m`. Its own loader knows it under its first name only."""
        return self._module.__loader__.get_code(self._module.__name__)  # type: ignore[union-attr]

    def __getattr__(self, name: str) -> Any:  # get_source and the like
        return getattr(self._module.__loader__, name)


class _Renaming:
    """A loader of gradloom's modules that renames their classes and functions."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        created: ModuleType | None = self._loader.create_module(spec)
        return created

    def exec_module(self, module: ModuleType) -> None:
        name = _renamed(module.__name__)
        sys.modules[name] = module  # where typing, inspect and dataclasses look for the module of a class
        try:
            self._loader.exec_module(module)
        except BaseException:
            sys.modules.pop(name, None)
            raise
        _adopt(name, module)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)


class _Adapting:
    """A loader of another package's module, which `compat.compiled_packages` changes."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        created: ModuleType | None = self._loader.create_module(spec)
        return created

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        import_module(f"{_OURS}.compat.compiled_packages").ADAPTED[module.__name__](module)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)


class _Finder(DistributionFinder):
    """Find torch and its submodules as those of gradloom, and the distribution torch."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if _is_ours(fullname):
            return self._found_by_others(fullname, path, target, _Renaming)
        if fullname in _COMPILED:
            return self._found_by_others(fullname, path, target, _Adapting)
        if fullname == _FUNCTORCH:
            return _Spec(fullname, import_module(f"{_OURS}._functorch.deprecated"))
        if fullname != _THEIRS and not fullname.startswith(_THEIRS + "."):
            return None
        own = _OURS + fullname.removeprefix(_THEIRS)
        try:
            module = import_module(own)
        except ModuleNotFoundError as error:
            if error.name != own and not own.startswith(f"{error.name}."):
                raise
            # importlib.util.find_spec answers whether there is such a module; only an import fails.
            if not is_absent(fullname) or sys._getframe(2).f_globals.get("__name__") == "importlib.util":
                return None
            # Without `name`, by which `from torch import x` would take it for a name that nobody has.
            raise ModuleNotFoundError(refusal(fullname)) from None
        return _Spec(fullname, module)

    def _found_by_others(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None, wrapped: Callable[[Any], Any]
    ) -> ModuleSpec | None:
        for finder in sys.meta_path:
            if finder is not self and (spec := finder.find_spec(name, path, target)) is not None:
                if spec.loader is not None:
                    spec.loader = wrapped(spec.loader)
                return spec
        return None

    def find_distributions(self, context: DistributionFinder.Context = DistributionFinder.Context()) -> Iterator[Any]:  # noqa: B008
        if context.name is None or context.name.lower() == _THEIRS:
            yield _Torch()


class _Torch(Distribution):
    """The distribution "torch" of `importlib.metadata`."""

    def read_text(self, filename: str) -> str | None:
        return f"Metadata-Version: 2.1\nName: {_THEIRS}\nVersion: {VERSION}\n" if filename == "METADATA" else None

    def locate_file(self, path: Any) -> Any:
        raise FileNotFoundError(f"torch is gradloom here: it has no file {path}")


def _adopt(name: str, module: ModuleType) -> None:
    """Make a loaded module torch's, too, under a name, and the modules that it has made itself."""
    _rename(module)
    sys.modules[name], module.__spec__ = module, _Spec(name, module)
    vars(module)["__getattr__"] = answering(name.partition(".")[2], vars(module).get("__getattr__"))
    for made in list(vars(module).values()):
        if isinstance(made, ModuleType) and made.__spec__ is None and _is_ours(made.__name__):
            sys.modules[_renamed(made.__name__)] = made
            vars(made)["__getattr__"] = answering(_renamed(made.__name__).partition(".")[2], None)


def _rename(module: ModuleType) -> None:
    """Name torch as the module of the functions and classes that a module holds, and of the classes' methods."""
    place, public = _PLACES.get(module.__name__), frozenset(getattr(module, "__all__", ()))
    for name, value in list(vars(module).items()):
        if place is not None and name in public and getattr(value, "__module__", "") == module.__name__:
            found_in(place, value)
        elif isinstance(value, type) and _is_ours(value.__dict__.get("__module__")):
            value.__module__ = _renamed(value.__module__)
            for member in list(vars(value).values()):
                function = getattr(member, "__func__", member)  # of a static or class method
                if isinstance(function, FunctionType) and _is_ours(function.__module__):
                    # Pickles of static methods name the module of their class.
                    own = function.__qualname__.startswith(f"{value.__qualname__}.")
                    function.__module__ = value.__module__ if own else _renamed(function.__module__)
        else:
            _rename_function(value)


def _rename_function(value: Any) -> None:
    if isinstance(value, FunctionType) and _is_ours(value.__module__):
        value.__module__ = _renamed(value.__module__)


def _reduce_tensor(source: Any) -> tuple[Any, ...]:
    from .serialization.plain_pickles import reduce_tensor

    return reduce_tensor(source)


def _file_of(thing: Any, original: Callable[[Any], str] = inspect.getfile) -> str:
    """Return the file that defines an object, for `inspect.getfile` and what stands on it (`getsource`).

    inspect looks for a class in the file of its `__module__`. For gradloom's classes that is where users find them;
    the code of their methods tells where they are written.
    """
    if isinstance(thing, type) and thing.__module__.partition(".")[0] == _THEIRS:
        for member in vars(thing).values():
            function = getattr(member, "__func__", None) or getattr(member, "fget", None) or member
            if getattr(function, "__qualname__", "").startswith(f"{thing.__qualname__}."):
                code = getattr(inspect.unwrap(function), "__code__", None)
                if code is not None and not code.co_filename.startswith("<"):
                    return str(code.co_filename)
    return original(thing)


def _install() -> None:
    present = sys.modules.get(_THEIRS)
    if present is not None and not getattr(present, "__file__", "").endswith("as_torch_path/torch/__init__.py"):
        raise ImportError("torch is already imported in this process: import gradloom.as_torch before it")
    sys.meta_path.insert(0, _Finder())
    for name, module in list(sys.modules.items()):
        if _is_ours(name) and module is not None:
            if name == _OURS:
                _rename(module)
            else:
                _adopt(_renamed(name), module)
    late.reduce_tensor = _reduce_tensor
    Overloads.inspectable = False
    inspect.getfile = _file_of  # type: ignore[assignment]  # torch.package does the same in PyTorch
    gradloom.__name__, gradloom.__version__ = _THEIRS, TorchVersion(VERSION)
    delattr(gradloom.Tensor, "__array_namespace__")  # PyTorch has none: packages have adapters for torch
    sys.modules.pop(_THEIRS, None)
    import_module(_THEIRS)


if _THEIRS not in sys.modules or sys.modules[_THEIRS] is not gradloom:
    _install()
