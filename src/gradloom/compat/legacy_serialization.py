"""The format of `torch.save` before PyTorch 1.6, still written with `_use_new_zipfile_serialization=False`.

A file is a sequence of pickles: a magic number, a version, byte order and type sizes, the object, and the keys of its
storages. Each storage follows as its number of elements, in eight bytes, and the elements. In the object, a storage is
a persistent id `("storage", torch.FloatStorage, key, location, number of elements, None)`.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable
from typing import Any, BinaryIO

import numpy as np

from ..memory.ownership import flat

MAGIC = 0x1950A86A20F9469CFC6C
_VERSION = 1001


def write(file: BinaryIO, pickled: bytes, storages: dict[int, Any]) -> None:
    """Write an object, and nothing to seek: the file may be a stream.

    Args:
        file: open for writing bytes.
        pickled: the object.
        storages: {id: (key, owner of the memory, dtype)}.
    """
    sizes = {"short": 2, "int": 4, "long": 8}
    for value in (
        MAGIC,
        _VERSION,
        {"protocol_version": _VERSION, "little_endian": sys.byteorder == "little", "type_sizes": sizes},
    ):
        file.write(pickle.dumps(value, 2))
    file.write(pickled)
    kept = sorted(storages.values(), key=lambda stored: stored[0])
    file.write(pickle.dumps([key for key, _, _ in kept], 2))
    for _, base, kind in kept:
        memory = np.ascontiguousarray(flat(base)).view(np.uint8)
        file.write((memory.nbytes // kind.itemsize).to_bytes(8, sys.byteorder))
        file.write(memory.tobytes())


def read(file: BinaryIO, facts_unpickler: Callable[[], Any], unpickler: Any) -> Any:
    """Read an object.

    Args:
        file: open for reading bytes, where the object begins; it is left where the object ends.
        facts_unpickler: returns an unpickler for the next pickle of the file: a number, facts or keys.
        unpickler: the unpickler of the object. It allocates storages in `memory`: {key: (bytes, size of an element)}.

    Raises:
        RuntimeError: if the file has another format, is damaged, or was written with another byte order.
        UnpicklingError: for a name that is not allowed.
    """
    try:
        magic = facts_unpickler().load()
    except Exception as error:
        raise _not_ours() from error
    if magic != MAGIC:
        raise _not_ours()
    try:
        version = facts_unpickler().load()
        facts = facts_unpickler().load()
        if version != _VERSION:
            raise RuntimeError(f"load(): the file has protocol version {version}, not {_VERSION}")
        if facts["little_endian"] != (sys.byteorder == "little"):
            raise RuntimeError("load(): the file was written on a machine with another byte order")
        found = unpickler.load()
        keys = facts_unpickler().load()
        if set(keys) != set(unpickler.memory):
            raise RuntimeError("load(): the file is damaged: it has not the elements of each storage")
        for key in keys:
            memory, item = unpickler.memory[key]
            count = int.from_bytes(file.read(8), sys.byteorder) * item
            data = file.read(memory.nbytes)
            if count != memory.nbytes or len(data) != count:
                raise RuntimeError(
                    f"load(): the file is damaged: storage {key} has {min(count, len(data))} bytes instead of "
                    f"{memory.nbytes}"
                )
            if isinstance(memory, np.ndarray):  # not on the meta device
                memory[...] = np.frombuffer(data, np.uint8)
    except (EOFError, KeyError) as error:
        if error is unpickler.raised:
            raise
        raise RuntimeError(f"load(): the file is damaged: {error}") from error
    return found


def _not_ours() -> RuntimeError:
    return RuntimeError(
        "load(): this file was not written by save(): it is neither a zip archive nor of PyTorch's format from "
        "before version 1.6, or it is damaged"
    )
