"""The zip archives of saved objects: written as PyTorch does, and found in files that hold other data, too."""

from __future__ import annotations

import struct
import sys
import zipfile
import zlib
from hashlib import sha256
from typing import Any

import numpy as np

from ..memory.ownership import flat

_ALIGNMENT = 64  # of the bytes of each member
_END = struct.Struct("<4s4x2H2L2x")  # the last record of an archive
_END_SIGNATURE = b"PK\x05\x06"


class _Stream:
    """A file that is written from its position on, without seeking. It needs `write` only."""

    def __init__(self, file: Any) -> None:
        self._write = file.write

    def write(self, data: Any) -> int:
        """Write bytes, also to a file that takes a part of them at a time; return their number."""
        rest = memoryview(data)
        while rest.nbytes:
            written = self._write(rest if rest.nbytes < len(data) else data)
            if type(written) is not int or written >= rest.nbytes:
                break
            rest = rest[written:]
        return len(data)

    def flush(self) -> None:
        """Leave the file's buffer to its owner."""


def write_archive(file: Any, folder: str, pickled: bytes, storages: list[tuple[str, np.ndarray]]) -> None:
    """Write an object.

    The serialization id is twenty digits for the names of the members and twenty for their contents.

    Args:
        file: open for writing bytes, at any position.
        folder: of the members.
        pickled: the object.
        storages: the key and the owner of the memory of each.
    """
    names, contents = sha256(), sha256()
    with zipfile.ZipFile(_Stream(file), "w", zipfile.ZIP_STORED) as archive:  # type: ignore[call-overload]

        def add(name: str, data: Any) -> None:
            info = zipfile.ZipInfo(f"{folder}/{name}", (1980, 1, 1, 0, 0, 0))
            size = len(data)
            before = archive.fp.tell() + 30 + len(info.filename.encode()) + 4  # type: ignore[union-attr]
            if size * 1.05 > zipfile.ZIP64_LIMIT:
                before += 20  # zipfile adds the sizes in 64 bits
            padding = -before % _ALIGNMENT
            info.extra = b"FB" + padding.to_bytes(2, "little") + b"Z" * padding
            archive.writestr(info, data)
            info.extra = b""  # the directory at the end needs no padding
            names.update(name.encode() + b"\0")
            contents.update(zlib.crc32(data).to_bytes(4, "little"))

        add("data.pkl", pickled)
        add(".format_version", b"1")
        add(".storage_alignment", str(_ALIGNMENT).encode())
        add("byteorder", sys.byteorder.encode())
        for key, base in storages:
            memory = flat(base)
            add(f"data/{key}", memoryview(np.ascontiguousarray(memory).view(np.uint8)) if memory.size else b"")
        add("version", b"3\n")
        digits = [f"{int.from_bytes(found.digest()[:8], 'little'):020d}" for found in (names, contents)]
        add(".data/serialization_id", "".join(digits).encode())


class Window:
    """A part of a file, read as a file of its own.

    Args:
        file: open for reading bytes; it needs `read`, `seek` and `tell` only.
        start, end: where the part is in the file.
    """

    def __init__(self, file: Any, start: int, end: int) -> None:
        self._file, self.start, self.end, self._position = file, start, end, 0

    def seekable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the position in the part."""
        return self._position

    def seek(self, offset: int, whence: int = 0) -> int:
        """Go to an offset from the start, the position or the end of the part; ValueError for one before its start."""
        position = offset + (0, self._position, self.end - self.start)[whence]
        if position < 0:
            raise ValueError(f"negative seek value {position}")
        self._position = position
        return position

    def read(self, count: int = -1) -> bytes:
        """Return up to `count` bytes from the position on; all if it is negative."""
        left = max(0, self.end - self.start - self._position)
        self._file.seek(self.start + self._position)
        data = self._file.read(left if count is None or count < 0 else min(count, left))
        self._position += len(data)
        return data


def archive_in(window: Window) -> zipfile.ZipFile:
    """Return the archive that begins where a part of a file begins. Others and other data may follow it."""
    try:
        archive = zipfile.ZipFile(window)  # type: ignore[call-overload]  # it reads the last one
        if min((info.header_offset for info in archive.infolist()), default=0) == 0:
            return archive
    except zipfile.BadZipFile:  # more follows than the comment of an archive may have
        pass
    end = _first_end(window)
    return zipfile.ZipFile(Window(window, 0, end))  # type: ignore[call-overload]


def _first_end(window: Window) -> int:
    """Return where the archive that begins at the start of a window ends; the window's end if that is not found."""
    position, kept = 0, b""
    while True:
        window.seek(position)
        block = window.read(1 << 20)
        if not block:
            return window.end - window.start
        data = kept + block
        at = data.find(_END_SIGNATURE)
        while at >= 0:
            found = position - len(kept) + at
            window.seek(found)
            record = window.read(_END.size)
            if len(record) == _END.size:
                _, _, count, size, offset = _END.unpack(record)
                # Sizes of 32 bits, or the mark of an archive that has them in 64 bits before this record.
                if size + offset == found or 0xFFFFFFFF in (size, offset) or count == 0xFFFF:
                    return found + _END.size
            at = data.find(_END_SIGNATURE, at + 1)
        kept, position = data[-3:], position + len(block)
