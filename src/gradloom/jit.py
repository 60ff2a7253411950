"""What programs say to TorchScript. There is none here: as in PyTorch with PYTORCH_JIT=0, functions and modules stay
Python, and what would store or load a script is refused."""

from __future__ import annotations

from typing import Any, Final, NoReturn, TypeVar

__all__ = [
    "Final",
    "annotate",
    "export",
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
]

_Thing = TypeVar("_Thing")


def is_scripting() -> bool:
    """Whether this code runs as a script: never."""
    return False


def is_tracing() -> bool:
    """Whether this code runs to be traced: never."""
    return False


def script(
    obj: _Thing, optimize: Any = None, _frames_up: int = 0, _rcb: Any = None, example_inputs: Any = None
) -> _Thing:
    """The function, class or module as it is.

    Args:
        obj: what PyTorch would compile.
        optimize, example_inputs: how.
    """
    return obj


def trace(func: _Thing, example_inputs: Any = None, *args: Any, **options: Any) -> _Thing:
    """The function or module as it is.

    Args:
        func: what PyTorch would run once and compile.
        example_inputs: with what.
        args, options: how.
    """
    return func


def trace_module(mod: _Thing, inputs: Any, *args: Any, **options: Any) -> _Thing:
    """The module as it is.

    Args:
        mod: what PyTorch would run once and compile.
        inputs: with what.
        args, options: how.
    """
    return mod


def script_if_tracing(fn: _Thing) -> _Thing:
    """The function as it is."""
    return fn


def script_method(fn: _Thing) -> _Thing:
    """The method as it is."""
    return fn


def export(fn: _Thing) -> _Thing:
    """The method as it is."""
    return fn


def interface(obj: _Thing) -> _Thing:
    """The class as it is."""
    return obj


def ignore(drop: Any = False, **kwargs: Any) -> Any:
    """The function as it is; called with options, a decorator that returns it.

    Args:
        drop: the function, or whether a script would raise where it is called.
    """
    return drop if callable(drop) else lambda function: function


def unused(fn: _Thing) -> _Thing:
    """The function as it is."""
    return fn


def annotate(the_type: Any, the_value: _Thing) -> _Thing:
    """The value: only a script needs to know its type."""
    return the_value


def isinstance(obj: Any, target_type: Any) -> bool:
    """Python's, which understands lists of types as TorchScript's does.

    Args:
        obj: anything.
        target_type: a class, or a tuple or list of classes.
    """
    import builtins

    return builtins.isinstance(obj, tuple(target_type) if builtins.isinstance(target_type, list) else target_type)


def _refuse(name: str) -> NoReturn:
    raise RuntimeError(
        f"torch.jit.{name}: there is no TorchScript here. Keep the Python code of the module, and its "
        "parameters with torch.save(module.state_dict(), ...)"
    )


def save(m: Any, f: Any, _extra_files: Any = None) -> NoReturn:
    """Write a script.

    Raises:
        RuntimeError: always: there is no TorchScript.
    """
    _refuse("save")


def load(f: Any, map_location: Any = None, _extra_files: Any = None, _restore_shapes: bool = False) -> NoReturn:
    """Read a script.

    Raises:
        RuntimeError: always: there is no TorchScript.
    """
    _refuse("load")
