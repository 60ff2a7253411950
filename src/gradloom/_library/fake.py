"""What functions given to register_fake run in."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

# The extent that stands for one that depends on values; a prime that no test is likely to have.
DYNAMIC = 7919


class FakeImplCtx:
    """What `gradloom.library.get_ctx()` gives within such a function."""

    def new_dynamic_size(self, *, min: int = 0, max: int | None = None) -> int:
        """An extent of a result that depends on the values of the arguments.

        Args:
            min, max: what is known of it.

        Raises:
            ValueError: if it may not be negative.
        """
        if min < 0:
            raise ValueError(
                f"ctx.new_dynamic_size(min={min}, max={max}): expected min to be greater than or equal to "
                "0: this API can only create non-negative sizes."
            )
        return DYNAMIC

    create_unbacked_symint = new_dynamic_size


class _Current(threading.local):
    ctx: FakeImplCtx | None = None


_current = _Current()


def get_ctx() -> FakeImplCtx | None:
    """What a function given to register_fake asks for extents that depend on values; None outside of one."""
    return _current.ctx


def fake_call(function: Callable[..., Any], arguments: tuple[Any, Any]) -> Any:
    """Call such a function with positional and keyword arguments."""
    before, _current.ctx = _current.ctx, FakeImplCtx()
    try:
        return function(*arguments[0], **arguments[1])
    finally:
        _current.ctx = before
