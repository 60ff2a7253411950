"""The way from an object file to an image: Note [Images] in image.py."""

from __future__ import annotations

import struct
import sys
from collections.abc import Sequence
from typing import NamedTuple

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
