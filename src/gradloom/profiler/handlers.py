"""What is done with a trace when it is ready."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def tensorboard_trace_handler(
    dir_name: str, worker_name: str | None = None, use_gzip: bool = False, use_python_export: bool = False
) -> Callable[[Any], None]:
    """For `on_trace_ready`: write each trace into a folder that TensorBoard can show.

    Args:
        dir_name: the folder; it is made if it is not there.
        worker_name: what files begin with; default: host and process.
        use_gzip: compress them.
        use_python_export: accepted; there is no other way here.

    Raises:
        RuntimeError: from the handler, if the folder cannot be made.
    """

    def handle(profiler: Any) -> None:
        import os
        import socket
        import time

        try:
            os.makedirs(dir_name, exist_ok=True)
        except OSError as error:
            raise RuntimeError(f"Can't create directory: {dir_name}") from error
        worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        name = f"{worker}.{time.time_ns()}.pt.trace.json{'.gz' if use_gzip else ''}"
        profiler.export_chrome_trace(os.path.join(dir_name, name))

    return handle


class ExecutionTraceObserver:
    """Execution traces, which record a whole program's operators for replay, are not there.

    Raises:
        NotImplementedError: always.
    """

    def __init__(self) -> None:
        raise NotImplementedError(
            "ExecutionTraceObserver is not there in gradloom: use profile(record_shapes=True) and export_chrome_trace()"
        )
