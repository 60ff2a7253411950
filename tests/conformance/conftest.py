"""One run of the databases for all tests that ask for it, and its table at the end of pytest's output."""

from __future__ import annotations

import os

import pytest

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

_RUNS = pytest.StashKey[list]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_RUNS] = []


@pytest.fixture(scope="session")
def conformance(request: pytest.FixtureRequest):
    """gradloom checked against PyTorch, in the families that the chosen tests need."""
    from . import report, session
    from .families import FAMILIES

    families = {
        item.callspec.params["family"]
        for item in request.session.items
        if getattr(item, "callspec", None) and "family" in item.callspec.params
    }
    everything = families >= {*FAMILIES, "modules", "optimizers"}
    selection = session.Selection(families=() if everything else tuple(sorted(families)))
    run = session.run(session.load_candidate("gradloom"), selection)
    report.write(run, request.config.rootpath / report.DEFAULT_FOLDER)
    request.config.stash[_RUNS].append(run)
    return run


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for run in config.stash[_RUNS]:
        from . import report

        terminalreporter.section("conformance with PyTorch")
        terminalreporter.write_line(report.text(run))
        terminalreporter.write_line(f"written: {report.DEFAULT_FOLDER}/")
