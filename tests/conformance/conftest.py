"""One run of the databases for all tests that ask for it, and its table at the end of pytest's output."""

from __future__ import annotations

import fcntl
import os
import pickle
import sys
from pathlib import Path

import pytest

from tests.waiting import LIMIT

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

_TEXTS = pytest.StashKey[list[str]]()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let references be computed with NumPy's functions, which warn."""
    for item in items:
        item.add_marker(pytest.mark.filterwarnings("default::RuntimeWarning:numpy"))


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_TEXTS] = []


@pytest.fixture(autouse=True)
def modes():
    """Give each test the grad mode and default dtype that the first test found, whatever the one before it left."""
    torch = sys.modules.get("torch")
    if torch is None:
        yield
        return
    enabled, dtype = torch.is_grad_enabled(), torch.get_default_dtype()
    yield
    left = torch.is_grad_enabled(), torch.get_default_dtype()
    torch.set_grad_enabled(enabled)
    torch.set_default_dtype(dtype)
    assert left == (enabled, dtype), f"the test left PyTorch's grad mode and default dtype as {left}"


@pytest.fixture(scope="session")
def conformance(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory):
    """gradloom checked against PyTorch, in the families that the chosen tests need.

    The processes of pytest-xdist share one run: the first makes it, the others wait for the lock and read it.
    """
    folder = tmp_path_factory.getbasetemp()
    kept = (folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder) / "conformance.pickle"
    with open(kept.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not kept.exists():
            kept.write_bytes(pickle.dumps(_run(request)))
    return pickle.loads(kept.read_bytes())


def _run(request: pytest.FixtureRequest):
    from . import report, session
    from .families import in_database

    families = {
        item.callspec.params["family"]
        for item in request.session.items
        if getattr(item, "callspec", None) and "family" in item.callspec.params
    }
    everything = families >= {*in_database(), "modules", "optimizers"}
    selection = session.Selection(families=() if everything else tuple(sorted(families)))
    run = session.run_in_new_process("gradloom", selection, time_per_op=LIMIT)
    report.write(run, Path(request.config.rootpath / report.DEFAULT_FOLDER))
    text = f"{report.text(run)}\nwritten: {report.DEFAULT_FOLDER}/"
    getattr(request.config, "workeroutput", {})["conformance"] = text
    request.config.stash[_TEXTS].append(text)
    return run


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node, error) -> None:
    """Take over what a process of pytest-xdist has to show."""
    if text := getattr(node, "workeroutput", {}).get("conformance"):
        node.config.stash[_TEXTS].append(text)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for text in config.stash[_TEXTS]:
        terminalreporter.section("conformance with PyTorch")
        terminalreporter.write_line(text)
