"""gradloom against PyTorch's databases of operators, modules and optimizers: the misses are those that are known."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="PyTorch, the reference, is not installed: make conformance installs it")

from .families import in_database

# The first test waits for the run of all databases, which takes twenty minutes of a busy machine.
pytestmark = pytest.mark.timeout(3600)


@pytest.mark.slow
@pytest.mark.parametrize("family", in_database())
def test_operators(conformance, family):
    assert_as_listed(conformance, "operators", family)


@pytest.mark.slow
@pytest.mark.parametrize("family", ["modules"])
def test_modules(conformance, family):
    assert_as_listed(conformance, "modules", family)


@pytest.mark.slow
@pytest.mark.parametrize("family", ["optimizers"])
def test_optimizers(conformance, family):
    assert_as_listed(conformance, "optimizers", family)


def assert_as_listed(run, kind, family):
    """No new miss and no outdated entry of the list for one family."""
    names = {result.name for result in run.results if result.kind == kind and result.family == family}
    assert names, f"PyTorch's databases have nothing in {family}"
    lines = [": ".join(miss) for miss in run.verdict.new] + run.verdict.gone
    problems = [line for line in lines if line.partition(": ")[0] in names]
    assert not problems, "\n".join(["", *problems])
