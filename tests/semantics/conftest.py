"""What autograd does, told by tests that name no library: each takes the fixture `torch` and runs once with gradloom
and, where PyTorch is installed (make conformance), once with PyTorch. A test that PyTorch fails is a wrong test."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec

import pytest

LIBRARIES = [name for name in ("gradloom", "torch") if find_spec(name)]


@pytest.fixture(params=LIBRARIES)
def torch(request):
    return import_module(request.param)


@pytest.fixture(params=["gradloom"])
def gradloom(request):
    """For what PyTorch has not: the richer messages, the YAML behind a node."""
    return import_module(request.param)
