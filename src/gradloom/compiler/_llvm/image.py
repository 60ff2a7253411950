"""Machine code as one block of bytes that runs wherever it is put, and its way into memory.

Note [Images]
The functions of a program call nothing outside: addresses that they need (of the C library's sin) come as arguments.
So the sections of their object file, laid one after another with the references between them filled in, are all there
is to link, and a cached image needs no LLVM. `link.link` does this for ELF on x86-64. Other systems get None, keep the
object file itself, and let LLVM load it.
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Sequence
from functools import cache
from typing import Any

_PAGE = 4096


class Loaded:
    """Code in memory: the addresses of its functions, and what keeps the memory."""

    __slots__ = ("addresses", "owner")

    def __init__(self, addresses: list[int], owner: Any) -> None:
        self.addresses, self.owner = addresses, owner


def load_image(image: bytes, starts: Sequence[int]) -> Loaded:
    """Map an image into memory that may be executed and no longer written."""
    memory = mmap.mmap(-1, len(image) + -len(image) % _PAGE, prot=mmap.PROT_READ | mmap.PROT_WRITE)
    memory[: len(image)] = image
    held = (ctypes.c_char * len(image)).from_buffer(memory)
    if _mprotect()(ctypes.addressof(held), len(memory), 1 | 4):  # read and execute
        error = ctypes.get_errno()
        raise OSError(error, "the system does not let this process execute code that it made; use the backend numpy")
    return Loaded([ctypes.addressof(held) + start for start in starts], (held, memory))


@cache
def _mprotect() -> Any:
    found = ctypes.CDLL(None, use_errno=True).mprotect
    found.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return found


def load_object(data: bytes, entries: Sequence[str]) -> Loaded:
    """Let LLVM load an object file."""
    from . import host

    llvm = host.binding()
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), host.new_target_machine())
    engine.add_object_file(llvm.object_file.ObjectFileRef.from_data(data))
    engine.finalize_object()
    return Loaded([engine.get_function_address(entry) for entry in entries], engine)
