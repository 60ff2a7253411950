"""Calls of machine code without ctypes: a program's code as a built-in function of Python.

Note [Direct calls]
ctypes takes 0.1 us for each argument, which is longer than many a small kernel. So the code of a program has an entry
of its own, `call`, in CPython's convention for built-in functions (METH_FASTCALL). The function object's `self` is an
array of integers, the *frame*, that holds its method definition and the addresses that the entry needs. The entry
checks that it gets as many arguments as it expects, and that the arrays are what its program declares: Note
[Arrays that fit]. It holds the GIL, so only programs that one thread runs in a short time are called so.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from .code import load_code
from .fits import MISFIT, header_size

ENTRY = "call"
_FASTCALL = 0x80
METHOD = 4  # words of PyMethodDef: name, function, flags, documentation
# Words of the frame after it. Functions and objects of Python are addresses.
WORDS = (
    *("geometry", "library", "rows", "lanes", "array_type", "right", "wrong", "increase", "as_double", "as_integer"),
    *("occurred", "set_error", "error", "message", "layouts", "fits", "holds", "misfit"),
)


class _Frame(np.ndarray):
    """A frame that keeps the owner of its addresses alive."""

    owner: Any


def builtin(
    address: int, geometry: int, library: int, rows: int, lanes: int, owner: Any, layouts: int
) -> Callable[..., Any]:
    """Return the function whose entry is at `address`; it keeps `owner` alive. See `entry.write_entry`.

    Args:
        layouts: the address of what `fits` or `holds` compares its arrays with.
    """
    words = ctypes.addressof(_NAME), address, _FASTCALL, 0, geometry, library, rows, lanes, *_addresses(), layouts
    words = *words, *checks()[1:3], id(MISFIT)
    frame = np.array(words, np.int64).view(_Frame)
    frame.owner = owner
    return new_builtin(frame)


_kept: list[Any] = []  # the memory of the code


@cache
def checks() -> tuple[int, int, int, int]:
    """Return the addresses of the entry of a function that only compares arrays, and of `fits`, `holds` and `rows`."""
    header = header_size()

    def text() -> str:
        from .fits_code import text

        return text(header, lambda name: METHOD + WORDS.index(name))

    loaded = load_code(("fits", str(header)), ("check", "fits", "holds", "rows"), text)
    _kept.append(loaded)
    return tuple(loaded.addresses)  # type: ignore[return-value]


def new_builtin(frame: np.ndarray) -> Callable[..., Any]:
    """Return the built-in function that a frame describes; the frame lives as long as it."""
    return _new()(frame.ctypes.data, frame, None, None)  # type: ignore[no-any-return]


@cache
def _new() -> Any:
    prototype = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p, ctypes.c_void_p)
    return prototype(("PyCMethod_New", ctypes.pythonapi))


_NAME = ctypes.create_string_buffer(b"kernel")
_MESSAGE = ctypes.create_string_buffer(b"a kernel takes as many arrays and numbers as its program has")


@cache
def _addresses() -> Sequence[int]:
    python = ctypes.pythonapi
    names = ("Py_IncRef", "PyFloat_AsDouble", "PyLong_AsLongLong", "PyErr_Occurred", "PyErr_SetString")
    functions = [ctypes.cast(getattr(python, name), ctypes.c_void_p).value or 0 for name in names]
    return [id(np.ndarray), id(None), id(True), *functions, id(TypeError), ctypes.addressof(_MESSAGE)]


def available() -> bool:
    """Return whether this Python's built-in functions are called as the entry expects."""
    return sys.implementation.name == "cpython"
