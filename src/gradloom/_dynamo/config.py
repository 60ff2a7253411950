"""Settings of PyTorch's compiler front end: they can be set, and have no effect."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

cache_size_limit = recompile_limit = 8
accumulated_cache_size_limit = accumulated_recompile_limit = 256
capture_dynamic_output_shape_ops = False
capture_scalar_outputs = False
disable = False
optimize_ddp = True
suppress_errors = False
verbose = False


@contextmanager
def patch(arg1: str | dict[str, Any] | None = None, arg2: Any = None, **kwargs: Any) -> Iterator[None]:
    """Context manager or decorator within which settings have other values.

    Args:
        arg1: the name of a setting, with its value as `arg2`; or a dictionary of settings.
        arg2: see arg1.
        kwargs: settings.

    Raises AttributeError for a name that is no setting.
    """
    changes = {arg1: arg2} if isinstance(arg1, str) else {**(arg1 or {}), **kwargs}
    settings = vars(sys.modules[__name__])
    for name in changes:
        if name not in settings:
            raise AttributeError(f"torch._dynamo.config.{name} does not exist")
    before = {name: settings[name] for name in changes}
    settings.update(changes)
    try:
        yield
    finally:
        settings.update(before)
