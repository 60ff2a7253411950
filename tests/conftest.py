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

from tests.releases import pytorch_before, pytorch_of_gpus

# Tests keep their machine code in the checkout, so that it does not fill the user's cache.
os.environ.setdefault("GRADLOOM_CACHE_DIR", str(Path(__file__).parents[1] / "build" / "machine-code"))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """Run one process more than there are cores: some tests wait, for ranks, workers, timeouts and disks."""
    if os.environ.get("PYTEST_XDIST_AUTO_NUM_WORKERS") or config.option.numprocesses != "auto":
        return None
    affinity = getattr(os, "sched_getaffinity", None)
    return (len(affinity(0)) if affinity else os.cpu_count() or 1) + 1


def pytest_sessionstart(session: pytest.Session) -> None:
    """Print the stacks of each process when SIGTERM ends a run that takes too long."""
    stash = session.config.stash
    if fault_handler_stderr_fd_key in stash and hasattr(faulthandler, "register"):
        faulthandler.register(signal.SIGTERM, stash[fault_handler_stderr_fd_key], chain=True)
        # Tests end forks by SIGTERM on purpose.
        os.register_at_fork(after_in_child=lambda: faulthandler.unregister(signal.SIGTERM))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep one of every GRADLOOM_TEST_EVERY tests, for runs that take a sample. Expect failures of older PyTorches.

    Skip what a PyTorch that is built for GPUs cannot show.
    """
    for item in items:
        since = item.get_closest_marker("since")
        if since and _runs_with_pytorch(item) and pytorch_before(since.args[0]):
            reason = f"PyTorch behaves so since {since.args[0]}"
            item.add_marker(pytest.mark.xfail(reason=reason, strict=True))
        if item.get_closest_marker("build_of_cpus") and _runs_with_pytorch(item) and pytorch_of_gpus():
            item.add_marker(pytest.mark.skip(reason="a PyTorch that is built for GPUs answers otherwise"))
    every = int(os.environ.get("GRADLOOM_TEST_EVERY", "1"))
    if every > 1:
        config.hook.pytest_deselected(items=[item for i, item in enumerate(items) if i % every])
        items[:] = items[::every]


def _runs_with_pytorch(item: pytest.Item) -> bool:
    """Return whether a test runs with PyTorch: all of tests/conformance, and those whose fixture `torch` is PyTorch."""
    library = getattr(item, "callspec", None) and item.callspec.params.get("torch")
    return library == "torch" if library else "conformance" in item.path.parts


def pytest_collection_finish() -> None:
    """Leave what is imported and collected out of the garbage collector's passes, of which tests ask for many."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def distributions_that_check_their_arguments():
    """Restore the checks of arguments of distributions, which PyTorch's compiler switches off for the whole process."""
    distributions = sys.modules.get("torch.distributions")
    if distributions is None or not hasattr(distributions, "Distribution"):
        yield
        return
    before = distributions.Distribution._validate_args
    yield
    distributions.Distribution.set_default_validate_args(before)
