"""The routines by name: see `routines`."""

from __future__ import annotations

from functools import cache

from . import host
from .orders import write_order
from .places import write_add_parts, write_scatter_add, write_take
from .routines import Form, Routine
from .scans import write_scan
from .words import write_words

FORMS = {
    "scan": Form(write_scan, 2, 4),
    "extremum": Form(write_scan, 3, 4),
    "order": Form(write_order, 4, 7),
    "take": Form(write_take, 3, 5),
    "scatter_add": Form(write_scatter_add, 3, 5),
    "add_parts": Form(write_add_parts, 3, 7),
    "words": Form(write_words, 1, 4),
}


@cache
def routine(name: str, *kinds: str) -> Routine:
    """Return a routine of FORMS for dtypes and other words that its code depends on."""
    host.require()
    return Routine(FORMS[name], kinds)
