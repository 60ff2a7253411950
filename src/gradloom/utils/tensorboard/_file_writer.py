"""FileWriter: the events of one folder, for TensorBoard."""

from __future__ import annotations

import os
import time
from typing import Any

from .summary import package

__all__ = ["FileWriter"]


class FileWriter:
    """Writes events, which are protocol buffers of the package tensorboard, to a new file in a folder.

    Args:
        log_dir: the folder.
        max_queue, flush_secs, filename_suffix: see SummaryWriter.

    Raises ImportError if the package tensorboard is not installed.
    """

    def __init__(
        self, log_dir: str | os.PathLike[str], max_queue: int = 10, flush_secs: int = 120, filename_suffix: str = ""
    ) -> None:
        writer = package("summary.writer.event_file_writer").EventFileWriter
        self.event_writer: Any = writer(str(log_dir), max_queue, flush_secs, filename_suffix)

    def get_logdir(self) -> str:
        """Return the folder."""
        return str(self.event_writer.get_logdir())

    def add_event(self, event: Any, step: int | None = None, walltime: float | None = None) -> None:
        """Write an `Event` at a step, with the time now if `walltime` is None."""
        event.wall_time = time.time() if walltime is None else walltime
        if step is not None:
            event.step = int(step)
        self.event_writer.add_event(event)

    def add_summary(self, summary: Any, global_step: int | None = None, walltime: float | None = None) -> None:
        """Write a `Summary` at a step."""
        self.add_event(package("compat.proto.event_pb2").Event(summary=summary), global_step, walltime)

    def add_graph(self, graph_profile: Any, walltime: float | None = None) -> None:
        """Write a pair of a `GraphDef` and the `RunMetadata` of its run."""
        graph, statistics = graph_profile
        events = package("compat.proto.event_pb2")
        self.add_event(events.Event(graph_def=graph.SerializeToString()), None, walltime)
        run = events.TaggedRunMetadata(tag="step1", run_metadata=statistics.SerializeToString())
        self.add_event(events.Event(tagged_run_metadata=run), None, walltime)

    def add_onnx_graph(self, graph: Any, walltime: float | None = None) -> None:
        """Write a `GraphDef`."""
        self.add_event(package("compat.proto.event_pb2").Event(graph_def=graph.SerializeToString()), None, walltime)

    def flush(self) -> None:
        """Write the waiting events."""
        self.event_writer.flush()

    def close(self) -> None:
        """Write the waiting events and close the file."""
        self.event_writer.close()

    def reopen(self) -> None:
        """Open a new file in the folder after `close`; do nothing if the file is open."""
        self.event_writer.reopen()
