"""Settings of every run of the tests."""

from __future__ import annotations

import faulthandler
import gc
import os
import signal
import sys
from pathlib import Path

import pytest
from _pytest.faulthandler import fault_handler_stderr_fd_key

# Machine code of the tests is kept in the checkout: it would fill the user's own cache.
os.environ.setdefault("GRADLOOM_CACHE_DIR", str(Path(__file__).parents[1] / "build" / "machine-code"))


def pytest_sessionstart(session: pytest.Session) -> None:
    """Where a run is ended from outside because it takes too long, each of its processes shows what it is doing."""
    stash = session.config.stash
    if fault_handler_stderr_fd_key in stash and hasattr(faulthandler, "register"):
        faulthandler.register(signal.SIGTERM, stash[fault_handler_stderr_fd_key], chain=True)


def pytest_collection_finish() -> None:
    """Leave what is imported and collected out of the garbage collector's passes, of which tests ask for many."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def distributions_that_check_their_arguments():
    """PyTorch's compiler switches these checks off for the whole process; the next test finds them as they were."""
    distributions = sys.modules.get("torch.distributions")
    if distributions is None or not hasattr(distributions, "Distribution"):
        yield
        return
    before = distributions.Distribution._validate_args
    yield
    distributions.Distribution.set_default_validate_args(before)
