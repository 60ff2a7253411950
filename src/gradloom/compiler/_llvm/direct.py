"""Calls of machine code without ctypes: a program's code as a built-in function of Python.

Note [Direct calls]
ctypes takes 0.1 us for each argument, which is longer than many a small kernel. So the code of a program has an entry
of its own, `call`, in CPython's convention for built-in functions (METH_FASTCALL). The function object's `self` is an
array of integers, the *frame*, that holds its method definition and the addresses that the entry needs. The entry
checks that it gets as many arguments as it expects, and NumPy arrays where it reads memory; sizes are its caller's
matter, as everywhere. It holds the GIL, so only programs that one thread runs in a short time are called so.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from .access import NUMBERS
from .ir import DOUBLE, I32, I64, PTR, Function, Module
from .plan import Plan

ENTRY = "call"
_FASTCALL = 0x80
_METHOD = 4  # words of PyMethodDef: name, function, flags, documentation
# Words of the frame after it. Functions and objects of Python are addresses.
_WORDS = (
    *("geometry", "library", "rows", "lanes", "array_type", "right", "wrong", "increase", "as_double", "as_integer"),
    *("occurred", "set_error", "error", "message"),
)


def write_entry(module: Module, plan: Plan, header: int) -> None:
    """Add the entry to a module that has the function `kernel`. It returns None, True if an index was out of range."""
    program = plan.program
    arrays, numbers = len(program.inputs) + len(program.outputs), len(program.numbers)
    f = Function(module, ENTRY, PTR, [(PTR, "self"), (PTR, "arguments"), (I64, "count")])
    frame = f.load(f.offset("%self", header), PTR).name

    def word(name: str, elem: str = PTR) -> Any:
        return f.load(f.offset(frame, 8 * (_METHOD + _WORDS.index(name))), elem)

    refused, read, failed, run = (f.new_label(name) for name in ("refused", "read", "failed", "run"))
    f.branch(f.parameter("count", I64).equals(arrays + numbers), read, refused)
    f.start(read, fall=False)
    given = [f.load(f.offset("%arguments", 8 * i), PTR) for i in range(arrays + numbers)]
    expected = word("array_type", I64)
    for x in given[:arrays]:
        known = f.new_label("array")
        f.branch(f.load(f.offset(x.name, header - 8), I64).equals(expected), known, refused)
        f.start(known, fall=False)
    converted = []
    for x, dtype in zip(given[arrays:], program.numbers, strict=True):
        kind = NUMBERS[dtype]
        convert = word("as_double" if kind == DOUBLE else "as_integer").name
        converted.append(f.emit(f"call {kind} {convert}(ptr {x.name})", kind))
    if numbers:
        error = f.emit(f"call ptr {word('occurred').name}()", PTR)
        f.branch(f.emit(f"icmp eq ptr {error.name}, null", "i1"), run, failed)
        f.start(run, fall=False)
    zero = f.const(0, I64)
    arguments = [word("geometry"), word("library"), zero, word("rows", I64), zero, word("lanes", I64), zero]
    arguments += [f.emit("inttoptr i64 0 to ptr", PTR), *given[:arrays], *converted]
    bad = f.emit(f"call i32 @kernel({', '.join(f'{x.elem} {x.name}' for x in arguments)})", I32)
    right, wrong = word("right"), word("wrong")
    result = f.emit(f"select i1 {bad.equals(0).name}, ptr {right.name}, ptr {wrong.name}", PTR)
    f.line(f"call void {word('increase').name}(ptr {result.name})")
    f.line(f"ret ptr {result.name}")
    f.start(refused, fall=False)
    f.line(f"call void {word('set_error').name}(ptr {word('error').name}, ptr {word('message').name})")
    f.start(failed)
    f.line("ret ptr null")
    f.finish()


def builtin(address: int, geometry: int, library: int, rows: int, lanes: int, owner: Any) -> Callable[..., bool | None]:
    """Return the function whose entry is at `address`; it keeps `owner` alive. See `write_entry`."""
    block = (ctypes.c_int64 * (_METHOD + len(_WORDS)))()
    block.owner = owner  # type: ignore[attr-defined]
    frame = np.frombuffer(memoryview(block), np.int64)
    frame[:_METHOD] = ctypes.addressof(_NAME), address, _FASTCALL, 0
    frame[_METHOD:] = geometry, library, rows, lanes, *_addresses()
    prototype = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p, ctypes.c_void_p)
    new = prototype(("PyCMethod_New", ctypes.pythonapi))
    return new(frame.ctypes.data, frame, None, None)  # type: ignore[no-any-return]


_NAME = ctypes.create_string_buffer(b"kernel")
_MESSAGE = ctypes.create_string_buffer(b"a kernel takes NumPy arrays, and as many as its program has")


@cache
def _addresses() -> Sequence[int]:
    python = ctypes.pythonapi
    names = ("Py_IncRef", "PyFloat_AsDouble", "PyLong_AsLongLong", "PyErr_Occurred", "PyErr_SetString")
    functions = [ctypes.cast(getattr(python, name), ctypes.c_void_p).value or 0 for name in names]
    return [id(np.ndarray), id(None), id(True), *functions, id(TypeError), ctypes.addressof(_MESSAGE)]


def available() -> bool:
    """Return whether this Python's built-in functions are called as the entry expects."""
    return sys.implementation.name == "cpython"
