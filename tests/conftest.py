"""Settings of every run of the tests."""

from __future__ import annotations

import gc


def pytest_collection_finish() -> None:
    """Leave what is imported and collected out of the garbage collector's passes, of which tests ask for many."""
    gc.collect()
    gc.freeze()
