"""Machine code of a text: from the cache on disk, or from LLVM."""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

from ...version import __version__
from . import cache as disk, host as host_module
from .image import Loaded, load_image, load_object


def load_code(key: Sequence[str], entries: tuple[str, ...], text: Callable[[], str]) -> Loaded:
    """Return the functions `entries` of LLVM's `text()`, which `key` determines together with this processor and the
    versions of gradloom and LLVM."""
    name = name_of(key, entries)
    found = read_code(name, entries)
    if found is not None:
        return found
    from .image import link

    made = host_module.object_code(text())
    linked = link(made, entries)
    content, starts = (made, ()) if linked is None else (linked[0], tuple(linked[1]))
    disk.write(name, struct.pack(f"<BB{len(starts)}Q", linked is not None, len(starts), *starts) + content)
    return load_object(content, entries) if linked is None else load_image(content, starts)


def name_of(key: Sequence[str], entries: tuple[str, ...]) -> str:
    """Return the name of the file of these functions."""
    return disk.file_name(_version(), *key, str(entries))


def read_code(name: str, entries: tuple[str, ...]) -> Loaded | None:
    """Return the functions that a file of the cache has; None if it is not there."""
    data = disk.read(name)
    if data is None:
        return None
    kind, count = struct.unpack_from("<BB", data)
    starts = struct.unpack_from(f"<{count}Q", data, 2)
    content = data[2 + 8 * count :]
    return load_image(content, starts) if kind else load_object(content, entries)


@cache
def _version() -> str:
    """Return all that code depends on beside its key."""
    sources = sorted(Path(__file__).parent.glob("*.py"))
    digest = disk.file_name(*(path.read_text() for path in sources))
    h = host_module.host()
    parts = (__version__, digest, host_module.llvmlite_version(), sys.platform, h.machine, h.processor)
    return "\n".join([*map(str, parts), " ".join(sorted(h.features))])
