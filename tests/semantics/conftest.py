"""What autograd does, told by tests that name no library: each takes the fixture `torch` and runs once with gradloom
and, where PyTorch is installed, once with PyTorch. A test that PyTorch fails is a wrong test. `make conformance` runs
them with PyTorch alone (`--library torch`), as `make test` has run them with gradloom."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec

import pytest

# Programs that write to saved memory behind autograd's back, or compute in a dtype of their own, on purpose; the
# assertions of GRADLOOM_DEBUG refuse them.
REFUSED_IN_DEBUG = (
    "test_a_version_that_is_put_back_hides_a_write",
    "test_writes_can_be_hidden",
    "test_writes_through_data_are_not_found",
    "test_a_saved_tensor_whose_data_was_replaced_by_another_size_is_an_error",
    "test_an_unpack_hook_that_gives_another_size_is_an_error_of_the_formula",
    "saved_tensors-unsafe_versions",
    "checkpoint-ck_metadata_dtype",
    "combinations-version_preserved",
)

LIBRARIES = [name for name in ("gradloom", "torch") if find_spec(name)]


def pytest_addoption(parser):
    parser.addoption("--library", action="append", choices=LIBRARIES, help="run the semantics' tests with this library")


def pytest_generate_tests(metafunc):
    if "torch" in metafunc.fixturenames:
        metafunc.parametrize("torch", metafunc.config.getoption("--library", None) or LIBRARIES, indirect=True)


def pytest_collection_modifyitems(items):
    if import_module("gradloom.dispatch.state").DEBUG:
        for item in items:
            if any(name in item.nodeid for name in REFUSED_IN_DEBUG):
                item.add_marker(pytest.mark.skip(reason="GRADLOOM_DEBUG refuses what this program does"))


@pytest.fixture
def torch(request):
    return import_module(request.param)


@pytest.fixture(params=["gradloom"])
def gradloom(request):
    """For what PyTorch has not: the richer messages, the YAML behind a node."""
    return import_module(request.param)


@pytest.fixture
def documented():
    """Return what a docstring is in this Python: none under -OO."""
    return lambda text: text if sys.flags.optimize < 2 else None
