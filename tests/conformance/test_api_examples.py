"""The examples of the library reference print the same with PyTorch."""

from __future__ import annotations

import pytest

from tests.docs.test_examples import MODULES, api, failures

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("module", MODULES)
def test_examples_print_what_pytorch_prints(module):
    found = failures(torch, api.examples(module))
    assert not found, found
