"""Compiled programs that can be called: code from the cache or from LLVM, bound to sizes and strides, and threads.

Note [Calls]
Arrays are passed as Python objects, and the code reads the address of their elements from NumPy's struct, where it
follows the object's header; `ndarray.ctypes.data` would take longer than a small kernel. Programs that run for a short
time are called by Note [Direct calls]; the others through ctypes, which releases the GIL.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from ...kernels._common.threads import get_num_threads
from ...memory.locks import new_lock
from . import direct
from .cache import GoneError
from .code import load_code, name_of, read_code
from .fits import MISFIT, MisfitError
from .host import Unsupported
from .image import Loaded
from .layouts import Layouts

ndarray = np.ndarray
# The functions of a program, and of one whose rows are cut into parts.
WHOLE, SPLIT = ("kernel", "shared", direct.ENTRY), ("partial", "shared", "finish")


class Code:
    """Functions in memory for one structure, by their addresses in order.

    Attributes:
        name: the name of its file.
        entries: the names of the functions.
    """

    __slots__ = ("name", "entries", "loaded")

    def __init__(self, name: str, entries: tuple[str, ...], loaded: Loaded) -> None:
        self.name, self.entries, self.loaded = name, entries, loaded


_codes: dict[str, Code] = {}  # for each structure that this process uses, and what follows from sizes
_lock = new_lock()


def code_of(key: Sequence[str], entries: tuple[str, ...], text: Callable[[], str]) -> Code:
    """Return the code of a module: from this process, from the cache on disk, or from LLVM.

    Args:
        key: all that the text depends on, beside the processor and the version.
        entries: the names of its functions.
        text: returns its text.
    """
    name = name_of(key, entries)
    code = _codes.get(name)
    if code is None:
        with _lock:
            code = _codes.get(name)
            if code is None:
                code = _codes[name] = Code(name, entries, load_code(key, entries, text))
    return code


def forget() -> None:
    """Drop the code of this process; kernels that exist keep theirs."""
    _codes.clear()


@cache
def library() -> Any:
    """Return the addresses of the C library's functions that code may call; `trigonometry.LIBRARY` and fmod."""
    names = ("sin", "cos", "tan", "fmod")
    candidates = {"linux": ["libm.so.6"], "win32": ["ucrtbase"]}.get(sys.platform, [])
    for candidate in [*candidates, None]:
        try:
            library = ctypes.CDLL(candidate)
            return (ctypes.c_void_p * 4)(*(ctypes.cast(getattr(library, n), ctypes.c_void_p).value for n in names))
        except (OSError, AttributeError, TypeError):
            continue
    raise Unsupported("the llvm backend does not find the C library's sin")


@cache
def prototypes(arrays: int, numbers: tuple[str, ...]) -> tuple[Any, Any]:
    """Return ctypes' types of a kernel and of `shared`."""
    pointer, size = ctypes.c_void_p, ctypes.c_int64
    given = [ctypes.py_object] * arrays + [ctypes.c_double if dtype == "float64" else size for dtype in numbers]
    kernel = ctypes.CFUNCTYPE(ctypes.c_int32, pointer, pointer, *[size] * 5, pointer, *given)
    pool = pointer, pointer, pointer, size, size
    return kernel, ctypes.CFUNCTYPE(ctypes.c_int32, *pool, pointer, pointer, pointer, *given)


class Kernel:
    """Machine code bound to the sizes and strides of one program.

    `kernel(arrays, numbers)` takes the inputs, then the outputs, which are written. Element [0, ..., 0] of the space is
    the first of each array. Numbers are Python's. Raises IndexError where a `gather` has an index out of range; outputs
    may have been written by then. Raises MisfitError, before it writes, for arrays that are not those of the program:
    Note [Arrays that fit].

    Args:
        facts: what follows from the program and its sizes, as `schedule.facts_of` describes it.

    Attributes:
        call: the same for arrays of NumPy's own type: `call(*inputs, *outputs, *numbers)`. It returns None, True where
            an index is out of range, and MISFIT where an array does not fit. It is the fastest way for small programs.
        layouts: what it relies on.
    """

    __slots__ = (
        "_alone", "_arguments", "_arrays", "_direct", "_functions", "_geometry", "_items", "_owner", "_shared",
        "_split", "call", "facts", "layouts",
    )  # fmt: skip

    def __init__(self, code: Code, facts: dict[str, Any]) -> None:
        self._owner, self.facts, self._arrays = code, facts, facts["arrays"]
        geometry, rows, lanes = facts["geometry"], facts["rows"], facts["lanes"]
        self._geometry = (ctypes.c_int64 * len(geometry))(*geometry)
        prototype, shared_prototype = prototypes(facts["arrays"], facts["numbers"])
        self._items, self._split = np.array(facts["items"], np.int64), facts["split"]  # ranges of rows and of lanes
        first, shared, last = code.loaded.addresses
        self._functions = [prototype(address) for address in ((first,) if self._split is None else (first, last))]
        self._shared = shared_prototype(shared)
        self._arguments = ctypes.addressof(self._geometry), ctypes.addressof(library())
        self.layouts = Layouts(facts["walks"])
        self._alone: tuple[int, ...] = (*self._arguments, 0, rows, 0, lanes, 0, 0)
        self._direct = None
        self.call: Callable[..., Any] = self._called
        if facts["is_short"] and direct.available():
            owner = self._geometry, code, self.layouts
            self._direct = direct.builtin(last, *self._arguments, rows, lanes, owner, self.layouts.address)
            self.call = self._direct

    @property
    def addresses(self) -> tuple[int, int]:
        """The addresses of the function and of the geometry."""
        return self._owner.loaded.addresses[0], self._arguments[0]

    @property
    def made_by(self) -> Any:
        """What makes it again, for Note [Graphs on disk]: a function and its arguments."""
        return restored, (self._owner.name, self._owner.entries, self.facts)

    def _called(self, *arguments: Any) -> Any:
        try:
            self(arguments[: self._arrays], arguments[self._arrays :])
        except IndexError:
            return True
        except MisfitError:
            return MISFIT
        return None

    def __call__(self, arrays: Sequence[Any], numbers: Sequence[Any] = ()) -> None:
        if self._direct is not None:
            found = self._direct(*arrays, *numbers)
            if not found:
                return
            if found is True:
                self._fail()
        self.layouts.require(arrays)
        if not len(self._items):
            if self._functions[0](*self._alone, *arrays, *numbers):
                self._fail()
        elif self._split is not None:
            self._in_parts(arrays, numbers)
        elif self.facts["sums"]:
            self._with_sums(arrays, numbers)
        elif get_num_threads() == 1:
            if self._functions[0](*self._alone, *arrays, *numbers):
                self._fail()
        elif self._in_threads(self._functions[0], 0, arrays, numbers):
            self._fail()

    def _in_threads(self, function: Any, scratch: int, arrays: Sequence[Any], numbers: Sequence[Any]) -> bool:
        """Call a function for each item, by all threads; return whether an index is out of range."""
        arguments = self._arguments

        def one(part: int, *item: int) -> int:
            return function(*arguments, *item, part, scratch, *arrays, *numbers)  # type: ignore[no-any-return]

        from .pool import in_threads

        return in_threads(self._shared, one, self._items, *arguments, scratch, *arrays, *numbers)

    def _in_parts(self, arrays: Sequence[Any], numbers: Sequence[Any]) -> None:
        assert self._split is not None
        rows, size = self._split
        scratch = np.empty(size, np.uint8)
        partial, finish = self._functions
        address = scratch.ctypes.data
        bad = self._in_threads(partial, address, arrays, numbers)
        last = finish(*self._arguments, 0, rows, 0, len(self._items), 0, address, *arrays, *numbers)
        if last or bad:
            self._fail()

    def _with_sums(self, arrays: Sequence[Any], numbers: Sequence[Any]) -> None:
        """Call the function for each item, and add up the sums over the rows of items, in their order."""
        *sums, (_, size, _, _) = self.facts["sums"]
        scratch = np.zeros((len(self._items), size), np.uint8)
        if self._in_threads(self._functions[0], scratch.ctypes.data, arrays, numbers):
            self._fail()
        for number, at, count, dtype in sums:
            item = np.dtype(dtype).itemsize
            parts = scratch[:, at : at + count * item].view(dtype)
            arrays[number].reshape(-1)[...] = np.add.reduce(parts, 0, np.float64)

    def _fail(self) -> None:
        index, size = self._geometry[1:3]
        raise IndexError(f"index {index} is out of bounds for dimension with size {size}")


def restored(name: str, entries: tuple[str, ...], facts: dict[str, Any]) -> Kernel:
    """Return a Kernel whose code this process or the cache has. Raises GoneError if neither has."""
    code = _codes.get(name)
    if code is None:
        loaded = read_code(name, entries)
        if loaded is None:
            raise GoneError(name)
        code = _codes.setdefault(name, Code(name, entries, loaded))
    return Kernel(code, facts)
