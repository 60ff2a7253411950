"""Machine code of a text: from the cache on disk, or from LLVM.

Note [Sources of code]
Code is kept under a name that has a digest of the sources that write it, so that code of other sources is never found.
To read and digest them takes longer than to load the code, so the digest is kept itself, under their sizes, times and
inodes. The time of change (ctime) is among these: it is the system's, which no copy, checkout or archive sets to
another. It is not kept while the sources are so new that another change could have the same time. Where sources have
changed since the process began, it may have loaded the former ones; its code gets a name that nobody looks for.
"""

from __future__ import annotations

import os
import struct
import sys
import time
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from pathlib import Path

from ...version import __version__
from . import cache as disk, host as host_module
from .image import Loaded, load_image, load_object

_FOLDER = os.path.dirname(os.path.abspath(__file__))
_SETTLED = 2_000_000_000  # nanoseconds: the times of some file systems are so coarse


def load_code(key: Sequence[str], entries: tuple[str, ...], text: Callable[[], str]) -> Loaded:
    """Return the functions `entries` of LLVM's `text()`, which `key` determines together with this processor and the
    versions of gradloom and LLVM."""
    name = name_of(key, entries)
    found = read_code(name, entries)
    if found is not None:
        return found
    from .link import link

    made = host_module.object_code(text())
    linked = link(made, entries)
    content, starts = (made, ()) if linked is None else (linked[0], tuple(linked[1]))
    disk.write(name, struct.pack(f"<BB{len(starts)}Q", linked is not None, len(starts), *starts) + content)
    return load_object(content, entries) if linked is None else load_image(content, starts)


def name_of(key: Sequence[str], entries: tuple[str, ...]) -> str:
    """Return the name of the file of these functions."""
    return _name(_version(), tuple(key), entries)


@lru_cache(4096)
def _name(version: str, key: tuple[str, ...], entries: tuple[str, ...]) -> str:
    return disk.file_name(version, *key, str(entries))


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
    """Return a digest of all that code depends on beside its key."""
    h = host_module.host()
    parts = (__version__, _sources(), host_module.llvmlite_version(), sys.platform, h.machine, h.processor)
    return disk.file_name(*map(str, parts), " ".join(sorted(h.features)))


def _sources() -> str:
    """Return a digest of the files that write code: Note [Sources of code]."""
    paths = [entry.path for entry in os.scandir(_FOLDER) if entry.name.endswith(".py")]
    paths = [*sorted(paths), os.path.join(os.path.dirname(_FOLDER), "_loops.py")]
    found = [os.stat(path) for path in paths]
    newest = max(max(x.st_mtime_ns, x.st_ctime_ns) for x in found)
    if newest >= disk.BEGAN:
        return os.urandom(16).hex()
    facts = [f"{x.st_size} {x.st_mtime_ns} {x.st_ctime_ns} {x.st_ino} {x.st_dev}" for x in found]
    name = disk.file_name("sources of code", *paths, *facts)
    kept = disk.read(name)
    if kept is not None:
        return kept.decode()
    digest = disk.file_name(*(Path(path).read_text("utf-8") for path in paths))
    if time.time_ns() - newest > _SETTLED:
        disk.write(name, digest.encode())
    return digest
