"""The names of torch.jit. gradloom has no TorchScript: as in PyTorch with PYTORCH_JIT=0, functions and modules stay
Python; saving or loading a script raises."""

from __future__ import annotations

import builtins
import sys
import typing
from collections.abc import Callable
from typing import Any, Final, NoReturn, TypeVar
from warnings import warn

from . import futures
from .futures import Future as Future
from .utils._refused import declare

__all__ = [
    "Final",
    "annotate",
    "export",
    "fork",
    "ignore",
    "interface",
    "is_scripting",
    "is_tracing",
    "isinstance",
    "load",
    "save",
    "script",
    "script_if_tracing",
    "script_method",
    "trace",
    "trace_module",
    "unused",
    "wait",
]

_Thing = TypeVar("_Thing")


def is_scripting() -> bool:
    """Return False."""
    return False


def is_tracing() -> bool:
    """Return False."""
    return False


def script(
    obj: _Thing, optimize: Any = None, _frames_up: int = 0, _rcb: Any = None, example_inputs: Any = None
) -> _Thing:
    """Return the function, class or module unchanged."""
    return obj


def trace(func: _Thing, example_inputs: Any = None, *args: Any, **options: Any) -> _Thing:
    """Return the function or module unchanged, without running it."""
    return func


def trace_module(mod: _Thing, inputs: Any, *args: Any, **options: Any) -> _Thing:
    """Return the module unchanged, without running it."""
    return mod


def script_if_tracing(fn: _Thing) -> _Thing:
    """Return `fn` unchanged."""
    return fn


_script_if_tracing = script_if_tracing


def script_method(fn: _Thing) -> _Thing:
    """Return `fn` unchanged."""
    return fn


def export(fn: _Thing) -> _Thing:
    """Return `fn` unchanged."""
    return fn


def interface(obj: _Thing) -> _Thing:
    """Return the class unchanged."""
    return obj


def unused(fn: _Thing) -> _Thing:
    """Return `fn` unchanged."""
    return fn


def ignore(drop: Any = False, **kwargs: Any) -> Any:
    """Return the decorated function unchanged; called with options, return a decorator that does so."""
    return drop if callable(drop) else lambda function: function


def _overload(func: _Thing) -> _Thing:
    """Return `func` unchanged; it declares types for scripts."""
    return func


_overload_method = _overload


def fork(func: Callable[..., _Thing], *args: Any, **kwargs: Any) -> Future[_Thing]:
    """Call a function at once and return its result as a future; see gradloom.fork. Deprecated."""
    _warn_of("fork")
    return futures.fork(func, *args, **kwargs)


def wait(future: Future[_Thing]) -> _Thing:
    """Return the result of a future that `fork` returned; see gradloom.wait. Deprecated."""
    _warn_of("wait")
    return futures.wait(future)


def _warn_of(name: str) -> None:
    text = f"`torch.jit.{name}` is deprecated. Please use `torch.compile` instead."
    warn(text, FutureWarning, stacklevel=3)


def annotate(the_type: Any, the_value: _Thing) -> _Thing:
    """Return the value; only a script needs its type."""
    return the_value


def isinstance(obj: Any, target_type: Any) -> bool:
    """Return whether `obj` is an instance of a class, or of one in a tuple or list of classes."""
    return builtins.isinstance(obj, tuple(target_type) if builtins.isinstance(target_type, list) else target_type)


class Error(RuntimeError):
    """The class of errors in scripts; never raised, since there are none."""


class ScriptWarning(Warning):
    """The class of warnings about scripts; never given, since there are none."""


class TracerWarning(Warning):
    """The class of warnings about traces; never given, since functions are not traced."""


def _refuse(name: str) -> NoReturn:
    raise RuntimeError(
        f"torch.jit.{name}: gradloom has no TorchScript. Keep the Python code of the module, and its "
        "parameters with torch.save(module.state_dict(), ...)"
    )


def save(m: Any, f: Any, _extra_files: Any = None) -> NoReturn:
    """Raise RuntimeError: there is no TorchScript."""
    _refuse("save")


def load(f: Any, map_location: Any = None, _extra_files: Any = None, _restore_shapes: bool = False) -> NoReturn:
    """Raise RuntimeError: there is no TorchScript."""
    _refuse("load")


class BroadcastingListCls:
    """The type of an argument that is a number or a list: `BroadcastingList2[int]`."""

    def __getitem__(self, types: Any) -> None:
        """Return None; the brackets are for readers of annotations."""


BroadcastingList1 = BroadcastingList2 = BroadcastingList3 = BroadcastingListCls()


# Classes of what TorchScript makes: nothing is an instance of them.
__getattr__ = declare(
    __name__,
    {
        "": """
            Attribute CompilationUnit RecursiveScriptModule ScriptFunction ScriptModule TopLevelTracedModule
            TracedModule freeze optimize_for_inference
            """,
        "annotations": "",
        "_script": "RecursiveScriptModule ScriptModule",
        "_trace": "TopLevelTracedModule",
    },
    "gradloom has no TorchScript; functions and modules stay Python",
)

vars(sys.modules[f"{__name__}.annotations"]).update(
    {name: getattr(typing, name) for name in ("Any", "Dict", "List", "Optional", "Tuple", "Union")},
    **dict.fromkeys(("BroadcastingList1", "BroadcastingList2", "BroadcastingList3"), BroadcastingList1),
    Future=Future,
)
