"""Collectives through which gradients flow."""

from __future__ import annotations

from ...types.absent import getattr_of
from . import functional as functional
from .functional import (
    _all_gather_base as _all_gather_base,
    all_gather as all_gather,
    all_reduce as all_reduce,
    all_to_all as all_to_all,
    all_to_all_single as all_to_all_single,
    broadcast as broadcast,
    gather as gather,
    reduce as reduce,
    reduce_scatter as reduce_scatter,
    scatter as scatter,
)

__all__ = ["functional"]

__getattr__ = getattr_of(__name__)
