"""Files that the examples leave: written atomically, in a folder that is tried before the work and not after it."""

from __future__ import annotations

import io
import os
import tempfile
from pathlib import Path


class OutputError(Exception):
    """A result cannot be written; the message is one line for the user."""


def make_folder(folder: Path) -> Path:
    """Create `folder` and check that it is writable. Raises OutputError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise OutputError(f"{folder}: cannot write there ({error.strerror}); choose another --out") from None
    return folder


def write(path: Path, content: bytes) -> Path:
    """Write a file as a whole or not at all. Raises OutputError."""
    # A temporary file in the same folder, renamed when it is complete: nobody sees a part of it, and whatever
    # stops this (Ctrl-C too) leaves the former file as it was.
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with open(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except BaseException as error:
        Path(temporary).unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise OutputError(f"{path}: cannot be written ({error.strerror})") from None
        raise
    return path


def write_png(path: Path, image) -> Path:
    """Write a Pillow image as a PNG file. Raises OutputError."""
    buffer = io.BytesIO()
    image.save(buffer, "PNG", optimize=True)
    return write(path, buffer.getvalue())


def _umask() -> int:
    mask = os.umask(0)  # it can only be read by setting it
    os.umask(mask)
    return mask
