"""Exceptions of other threads and processes."""

from __future__ import annotations

import sys
from traceback import format_exception
from typing import Any, NoReturn


class KeyErrorMessage(str):
    """A message that KeyError shows as it is."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


class ExceptionWrapper:
    """An exception, with its traceback as text, on its way to another thread or process.

    Args:
        exc_info: (class, exception, traceback); by default, of the exception that is being handled.
        where: where it happened, such as "in DataLoader worker process 0".
    """

    def __init__(self, exc_info: Any = None, where: str = "in background") -> None:
        exc_info = sys.exc_info() if exc_info is None else exc_info
        self.exc_type: Any = exc_info[0]
        self.exc_msg: str = "".join(format_exception(*exc_info))
        self.where: str = where

    def reraise(self) -> NoReturn:
        """Raise an exception of the same class, whose message has the traceback."""
        text = f"Caught {self.exc_type.__name__} {self.where}.\nOriginal {self.exc_msg}"
        if self.exc_type is KeyError:
            raise KeyError(KeyErrorMessage(text))
        if getattr(self.exc_type, "message", None):
            raise self.exc_type(message=text)
        try:
            error = self.exc_type(text)
        except Exception:  # a class with other arguments
            raise RuntimeError(text) from None
        raise error
