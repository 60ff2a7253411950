"""Set several flags of a module for the duration of a `with` block."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from ..dispatch.state import whole_context


@whole_context
def flags_of(module: str, wanted: dict[str, Any]) -> Iterator[None]:
    """Set variables of a module within the block, except those that are to be None, and restore them after it."""
    names = vars(sys.modules[module])
    before = {name: names[name] for name, value in wanted.items() if value is not None}
    try:
        names.update({name: wanted[name] for name in before})
        yield
    finally:
        names.update(before)
