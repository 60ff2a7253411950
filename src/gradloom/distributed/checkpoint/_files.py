"""Files of a checkpoint: arrays in the format of safetensors, and folders that appear at once.

https://huggingface.co/docs/safetensors: eight bytes with the length of a JSON header, the header, the arrays' bytes.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

__all__ = ["dtype_name", "exchange", "read_arrays", "sync_folder", "write_arrays"]

_DTYPES = {
    "F64": np.float64,
    "F32": np.float32,
    "F16": np.float16,
    "BF16": ml_dtypes.bfloat16,
    "F8_E4M3": ml_dtypes.float8_e4m3fn,
    "F8_E5M2": ml_dtypes.float8_e5m2,
    "C64": np.complex64,
    "I64": np.int64,
    "I32": np.int32,
    "I16": np.int16,
    "I8": np.int8,
    "U64": np.uint64,
    "U32": np.uint32,
    "U16": np.uint16,
    "U8": np.uint8,
    "BOOL": np.bool_,
}
_NAMES = {np.dtype(dtype): name for name, dtype in _DTYPES.items()}


def dtype_name(dtype: np.dtype) -> str:
    """Return the format's name of a dtype; complex128 is stored as two float64."""
    return "F64" if dtype == np.complex128 else _NAMES.get(dtype, "U8")


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray], sync: bool = True) -> None:
    """Write arrays into a file.

    Args:
        path: of the file.
        arrays: by name.
        sync: wait until the disk has them.
    """
    header: dict[str, Any] = {}
    start = 0
    for name, array in arrays.items():
        shape = [*array.shape, 2] if array.dtype == np.complex128 else list(array.shape)
        header[name] = {"dtype": dtype_name(array.dtype), "shape": shape, "data_offsets": [start, start + array.nbytes]}
        start += array.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "xb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for array in arrays.values():
            if array.nbytes:
                file.write(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
        file.flush()
        if sync:
            os.fsync(file.fileno())


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """Return the arrays of a file, by name. They are mapped: what is not looked at is not read.

    Raises:
        ValueError: it is not such a file, or not a whole one.
    """
    size = path.stat().st_size
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if length > size - 8:
            raise ValueError(f"{path} is not a safetensors file, or its end is missing")
        header = json.loads(file.read(length))
    mapped = np.memmap(path, np.uint8, "r", 8 + length) if size > 8 + length else np.empty(0, np.uint8)
    found = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        start, end = entry["data_offsets"]
        if end > mapped.size:
            raise ValueError(f"{path} is not a whole safetensors file: {name} is cut off")
        found[name] = mapped[start:end].view(_DTYPES[entry["dtype"]]).reshape(entry["shape"])
    return found


def sync_folder(path: Path) -> None:
    """Wait until the disk has the names of a folder."""
    if os.name == "posix":
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def exchange(draft: Path, path: Path) -> None:
    """Put a complete folder in its place, and remove what was there. At every moment one of the two is there."""
    if not path.exists():
        draft.rename(path)
    elif _swapped(draft, path):
        shutil.rmtree(draft)
    else:  # a system without exchange: for an instant, only the folder with the suffix is there
        former = path.with_name(f".{path.name}.former")
        shutil.rmtree(former, ignore_errors=True)
        path.rename(former)
        draft.rename(path)
        shutil.rmtree(former)
    sync_folder(path.parent)


def _swapped(one: Path, other: Path) -> bool:
    """Exchange two names by one system call; return whether the system can."""
    if sys.platform != "linux":
        return False
    call = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    here, swap = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    return call is not None and call(here, os.fsencode(one), here, os.fsencode(other), swap) == 0
