"""What writes the errors of a worker, and what classes of programs may override of it."""

from __future__ import annotations

import json
import os
import time
import traceback

__all__ = ["ErrorHandler"]

_VARIABLE = "TORCHELASTIC_ERROR_FILE"


class ErrorHandler:
    """Write errors of this process where the launcher looks for them. Classes of programs may override its methods."""

    _fn_name: str | None = None

    def set_entrypoint_fn_name(self, fn_name: str | None) -> None:
        """Keep the name of the worker's main function."""
        self._fn_name = fn_name

    def record_success(self) -> None:
        """Do nothing; called when the main function has returned."""

    def maybe_enrich_signal_failure_message(self, message: str, error_file: str) -> str:
        """Return the message for a worker that a signal has ended."""
        return message

    def initialize(self) -> None:
        """Do nothing: Python shows the stacks of crashes if PYTHONFAULTHANDLER says so."""

    def record_exception(self, error: BaseException) -> None:
        """Write an exception to the file, unless there is one of an earlier exception.

        Args:
            error: the exception.
        """
        path = os.environ.get(_VARIABLE)
        if not path or os.path.exists(path):
            return
        stack = "".join(traceback.format_exception(error))
        extra = {"py_callstack": stack, "timestamp": str(int(time.time()))}
        message = {"message": f"{type(error).__name__}: {error}", "errorCode": None, "extraInfo": extra}
        draft = f"{path}.{os.getpid()}"
        with open(draft, "w") as file:
            json.dump({"message": message, "kind": type(error).__name__, "when": time.time()}, file)
        os.replace(draft, path)
