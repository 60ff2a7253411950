"""SummaryWriter: event files for TensorBoard, as PyTorch's torch.utils.tensorboard writes them.

Needs the package tensorboard: `pip install 'gradloom[tensorboard]'`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .writer import FileWriter as FileWriter, SummaryWriter as SummaryWriter

__all__ = ["FileWriter", "SummaryWriter"]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name == "RecordWriter":  # the package's own, which writes records to a file
            from .summary import package

            return package("summary.writer.record_writer").RecordWriter
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
