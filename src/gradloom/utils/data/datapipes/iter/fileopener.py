"""A step that opens files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from .._decorator import functional_datapipe
from ..datapipe import IterDataPipe
from ..utils.common import get_file_binaries_from_pathnames
from .utils import no_length

__all__ = ["FileOpenerIterDataPipe"]


@functional_datapipe("open_files")
class FileOpenerIterDataPipe(IterDataPipe[tuple[str, Any]]):
    """Yield (path, open file) of paths (functional name: open_files).

    Args:
        datapipe: the paths.
        mode: "r", "rb", "rt", or "b" and "t" for these.
        encoding: of text.
        length: what `len` answers; -1 if it is not known.

    Raises:
        ValueError: for another mode, or an encoding in binary mode.
    """

    def __init__(self, datapipe: Iterable[str], mode: str = "r", encoding: str | None = None, length: int = -1) -> None:
        super().__init__()
        self.datapipe, self.mode, self.encoding, self.length = datapipe, mode, encoding, length
        if mode not in ("b", "t", "rb", "rt", "r"):
            raise ValueError(f"Invalid mode {mode}")
        if "b" in mode and encoding is not None:
            raise ValueError("binary mode doesn't take an encoding argument")

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        yield from get_file_binaries_from_pathnames(self.datapipe, self.mode, self.encoding)

    def __len__(self) -> int:
        return no_length(self) if self.length == -1 else self.length
