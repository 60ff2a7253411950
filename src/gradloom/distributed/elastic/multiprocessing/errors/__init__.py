"""How workers of `torchrun` report errors: in a file that the launcher names by TORCHELASTIC_ERROR_FILE."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import wraps
from typing import Any, TypeVar

from .error_handler import ErrorHandler as ErrorHandler

__all__ = ["ChildFailedError", "ErrorHandler", "ProcessFailure", "get_error_handler", "record"]

_Function = TypeVar("_Function", bound=Callable[..., Any])


def get_error_handler() -> ErrorHandler:
    """Return what writes the errors of this process."""
    return ErrorHandler()


def record(fn: _Function, error_handler: ErrorHandler | None = None) -> _Function:
    """Decorate the main function of a worker: the launcher shows the exception that it raises.

    Args:
        fn: the function.
        error_handler: what writes the exception.
    """
    handler = error_handler or get_error_handler()

    @wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        handler.set_entrypoint_fn_name(getattr(fn, "__qualname__", None))
        handler.initialize()
        try:
            found = fn(*args, **kwargs)
        except SystemExit as ended:
            if ended.code not in (0, None):
                handler.record_exception(ended)
            raise
        except ChildFailedError:
            raise
        except Exception as error:
            handler.record_exception(error)
            raise
        handler.record_success()
        return found

    return call  # type: ignore[return-value]


@dataclass
class ProcessFailure:
    """How a worker failed.

    Args:
        local_rank: its number on this machine.
        pid: its process.
        exitcode: exit code; of a process that a signal killed, the signal's number, negative.
        error_file: where it may have written its exception.
    """

    local_rank: int
    pid: int
    exitcode: int
    error_file: str
    message: str = field(init=False)
    timestamp: float = field(init=False)
    kind: str = field(init=False, default="")

    def __post_init__(self) -> None:
        self.timestamp = time.time()
        try:
            with open(self.error_file) as file:
                found = json.load(file)
            self.message = found["message"]["extraInfo"]["py_callstack"]
            self.timestamp, self.kind = found["when"], found["kind"]
        except (OSError, ValueError, KeyError, TypeError):
            name = self.signal_name()
            self.message = (
                "To see an uncaught exception here, decorate the main function with "
                "torch.distributed.elastic.multiprocessing.errors.record"
            )
            if name:
                message = f"Signal {-self.exitcode} ({name}) received by PID {self.pid}"
                self.message = get_error_handler().maybe_enrich_signal_failure_message(message, self.error_file)

    def signal_name(self) -> str:
        """Return the name of the signal that killed it, or ""."""
        try:
            return signal.Signals(-self.exitcode).name if self.exitcode < 0 else ""
        except ValueError:
            return "UNKNOWN"

    def timestamp_isoformat(self) -> str:
        """Return when it failed."""
        return datetime.fromtimestamp(self.timestamp).isoformat(sep="_", timespec="milliseconds")


class ChildFailedError(Exception):
    """Workers of a launcher failed.

    Args:
        name: the program.
        failures: how each of them failed, by rank. The first is the cause.
    """

    def __init__(self, name: str, failures: Mapping[int, ProcessFailure]) -> None:
        self.name, self.failures = name, dict(failures)
        lines = [f"{name} FAILED", "Root cause, the first failure:"]
        for index, (rank, failure) in enumerate(self.failures.items()):
            if index == 1:
                lines.append("Other failures:")
            how = failure.signal_name() or f"exit code {failure.exitcode}"
            lines.append(
                f"  rank {rank} (local rank {failure.local_rank}, pid {failure.pid}): {how}, "
                f"at {failure.timestamp_isoformat()}"
            )
            if not index:
                lines += [f"    {line}" for line in failure.message.rstrip().split("\n")]
        super().__init__("\n".join(lines))

    def get_first_failure(self) -> tuple[int, ProcessFailure]:
        """Return the rank of the first failure, and how it failed."""
        return next(iter(self.failures.items()))
