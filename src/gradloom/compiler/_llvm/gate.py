"""Gates: functions that call one of two others, by the size of the arrays that they get.

Note [Gates]
Machine code for large arrays must cost small ones nothing, so what decides between a kernel and its replacement is
machine code itself: a built-in function (Note [Direct calls]) that looks at its first two arguments, counts the
elements of those that are arrays, and passes all arguments on, at the price of a few nanoseconds. It reads an array's
shape from NumPy's struct, after the address of the elements; where it is not there, a function of Python decides.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from . import direct
from .code import load_code
from .fits import header_size
from .host import Unsupported

ndarray = np.ndarray
_FASTCALL_WITH_KEYWORDS = 0x82
_WORDS = ("array_type", "least", "small", "large", "vectorcall")


def gate(small: Callable[..., Any], large: Callable[..., Any], least: int) -> Callable[..., Any]:
    """Return a function that calls `large` if one of its first two arguments is an array of at least `least` elements,
    of NumPy's own type, and else `small`, with all its arguments."""
    address = _address()
    if address is None:

        def python(*given: Any, **named: Any) -> Any:
            found = any(type(x) is ndarray and x.size >= least for x in given[:2])
            return (large if found else small)(*given, **named)

        return python
    name = ctypes.create_string_buffer(getattr(small, "__name__", "gate").encode())
    block = (ctypes.c_int64 * (direct.METHOD + len(_WORDS)))()
    block.owner = name, small, large  # type: ignore[attr-defined]
    frame = np.frombuffer(memoryview(block), np.int64)
    frame[: direct.METHOD] = ctypes.addressof(name), address, _FASTCALL_WITH_KEYWORDS, 0
    vectorcall = ctypes.cast(ctypes.pythonapi.PyObject_Vectorcall, ctypes.c_void_p).value or 0
    frame[direct.METHOD :] = id(ndarray), least, id(small), id(large), vectorcall
    return direct.new_builtin(frame)


_kept: list[Any] = []  # the memory of the code


@cache
def _address() -> int | None:
    """Return where the code of gates is; None if it cannot be used here."""
    try:
        header = header_size()
    except Unsupported:
        return None
    probe = np.empty((3, 5, 7))
    place = id(probe) + header + 8
    if ctypes.c_int32.from_address(place).value != 3:
        return None
    sizes = ctypes.c_void_p.from_address(place + 8).value
    if not direct.available() or not sizes or not hasattr(ctypes.pythonapi, "PyObject_Vectorcall"):
        return None
    if tuple((ctypes.c_int64 * 3).from_address(sizes)) != probe.shape or math.prod(probe.shape) != probe.size:
        return None
    loaded = load_code(("gate", str(header)), ("gate",), lambda: _text(header))
    _kept.append(loaded)
    return loaded.addresses[0]


def _text(header: int) -> str:
    words = "".join(
        f"  %{name}.at = getelementptr i8, ptr %frame, i64 {8 * (direct.METHOD + i)}\n"
        f"  %{name} = load {'i64' if name in ('array_type', 'least') else 'ptr'}, ptr %{name}.at, align 8\n"
        for i, name in enumerate(_WORDS)
    )
    places = {"frame": header, "type": header - 8, "dimensions": header + 8, "sizes": header + 16}
    text = _IR.replace("<words>", words)
    for name, place in places.items():
        text = text.replace(f"<{name}>", str(place))
    return text


_IR = """
define ptr @gate(ptr %self, ptr %arguments, i64 %count, ptr %names) nounwind {
entry:
  %frame.at = getelementptr i8, ptr %self, i64 <frame>
  %frame = load ptr, ptr %frame.at, align 8
<words>  %two = icmp ugt i64 %count, 2
  %last = select i1 %two, i64 2, i64 %count
  br label %argument
argument:
  %i = phi i64 [ 0, %entry ], [ %i.next, %next ]
  %more = icmp ult i64 %i, %last
  br i1 %more, label %look, label %call
look:
  %x.at = getelementptr ptr, ptr %arguments, i64 %i
  %x = load ptr, ptr %x.at, align 8
  %type.at = getelementptr i8, ptr %x, i64 <type>
  %type = load i64, ptr %type.at, align 8
  %known = icmp eq i64 %type, %array_type
  br i1 %known, label %array, label %next
array:
  %dimensions.at = getelementptr i8, ptr %x, i64 <dimensions>
  %dimensions = load i32, ptr %dimensions.at, align 4
  %sizes.at = getelementptr i8, ptr %x, i64 <sizes>
  %sizes = load ptr, ptr %sizes.at, align 8
  br label %dimension
dimension:
  %d = phi i32 [ 0, %array ], [ %d.next, %multiply ]
  %size = phi i64 [ 1, %array ], [ %size.next, %multiply ]
  %some = icmp slt i32 %d, %dimensions
  br i1 %some, label %multiply, label %counted
multiply:
  %n.at = getelementptr i64, ptr %sizes, i32 %d
  %n = load i64, ptr %n.at, align 8
  %size.next = mul i64 %size, %n
  %d.next = add i32 %d, 1
  br label %dimension
counted:
  %is.large = icmp uge i64 %size, %least
  br i1 %is.large, label %call, label %next
next:
  %i.next = add i64 %i, 1
  br label %argument
call:
  %callee = phi ptr [ %small, %argument ], [ %large, %counted ]
  %result = tail call ptr %vectorcall(ptr %callee, ptr %arguments, i64 %count, ptr %names)
  ret ptr %result
}
"""
