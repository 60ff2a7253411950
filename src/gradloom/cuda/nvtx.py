"""Marks in the profile of an NVIDIA GPU, of which there is none."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any

from ..compat.absent_device import names as _names
from ..types.device import no_gpu

__getattr__ = _names(__name__, {}, "mark range_end range_pop range_push range_start", no_gpu)


@contextmanager
def range(msg: Any, *args: Any, **kwargs: Any) -> Any:
    """Raise AssertionError when it is entered: there is no GPU."""
    raise no_gpu()
    yield
