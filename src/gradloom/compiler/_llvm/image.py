"""Machine code as one block of bytes that runs wherever it is put, and its way into memory.

Note [Images]
The functions of a program call nothing outside: addresses that they need (of the C library's sin) come as arguments.
So the sections of their object file, laid one after another with the references between them filled in, are all there
is to link, and a cached image needs no LLVM. `link` does this for ELF on x86-64. Other systems get None, keep the
object file itself, and let LLVM load it.
"""

from __future__ import annotations

import ctypes
import mmap
import struct
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

_PAGE = 4096
_ALLOCATED, _NOBITS = 2, 8
_ABSOLUTE, _RELATIVE = 1, (2, 4)  # R_X86_64_64; R_X86_64_PC32, R_X86_64_PLT32


class Section(NamedTuple):
    name: int
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    align: int
    entry: int


def link(data: bytes, entries: Sequence[str]) -> tuple[bytes, list[int]] | None:
    """Return an object file's contents with references filled in, and where its functions `entries` are in them.

    None where the format is not ELF for x86-64 or the code refers to something outside.
    """
    if data[:6] != b"\x7fELF\x02\x01" or struct.unpack_from("<H", data, 18)[0] != 62 or sys.platform != "linux":
        return None
    table, size, count = struct.unpack_from("<Q", data, 40)[0], *struct.unpack_from("<HH", data, 58)
    sections = [Section(*struct.unpack_from("<IIQQQQIIQQ", data, table + i * size)) for i in range(count)]
    image, placed = bytearray(), {}
    for i, section in enumerate(sections):
        if section.flags & _ALLOCATED and section.kind not in (_NOBITS, 0x70000001) and section.size:
            image += bytes(-len(image) % max(64, section.align))
            placed[i] = len(image)
            image += data[section.offset : section.offset + section.size]
    symbols = next((s for s in sections if s.kind == 2), None)
    if symbols is None:
        return None
    names = sections[symbols.link].offset
    addresses: list[int | None] = []
    starts: dict[str, int] = {}
    for at in range(symbols.offset, symbols.offset + symbols.size, 24):
        name, _, _, section, value, _ = struct.unpack_from("<IBBHQQ", data, at)
        addresses.append(placed[section] + value if section in placed else None)
        text = data[names + name : data.index(0, names + name)].decode()
        if text in entries and section in placed:
            starts[text] = placed[section] + value
    for relocations in (s for s in sections if s.kind == 4 and s.info in placed):
        for at in range(relocations.offset, relocations.offset + relocations.size, 24):
            place, info, addend = struct.unpack_from("<QQq", data, at)
            target = addresses[info >> 32]
            if target is None or info & 0xFFFFFFFF not in _RELATIVE:
                return None
            place += placed[relocations.info]
            struct.pack_into("<i", image, place, target + addend - place)
    return (bytes(image), [starts[entry] for entry in entries]) if len(starts) == len(entries) else None


class Loaded(NamedTuple):
    """Code in memory: the addresses of its functions, and what keeps the memory."""

    addresses: list[int]
    owner: Any


def load_image(image: bytes, starts: Sequence[int]) -> Loaded:
    """Map an image into memory that may be executed and no longer written."""
    memory = mmap.mmap(-1, len(image) + -len(image) % _PAGE, prot=mmap.PROT_READ | mmap.PROT_WRITE)
    memory[: len(image)] = image
    held = (ctypes.c_char * len(image)).from_buffer(memory)
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    protect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    if protect(ctypes.addressof(held), len(memory), 1 | 4):  # read and execute
        error = ctypes.get_errno()
        raise OSError(error, "the system does not let this process execute code that it made; use the backend numpy")
    return Loaded([ctypes.addressof(held) + start for start in starts], (held, memory))


def load_object(data: bytes, entries: Sequence[str]) -> Loaded:
    """Let LLVM load an object file."""
    from . import host

    llvm = host.binding()
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), host.new_target_machine())
    engine.add_object_file(llvm.object_file.ObjectFileRef.from_data(data))
    engine.finalize_object()
    return Loaded([engine.get_function_address(entry) for entry in entries], engine)
