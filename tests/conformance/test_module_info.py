"""gradloom's nn modules against PyTorch's module database."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="PyTorch, the reference, is not installed: make conformance installs it")

from .test_opinfo import assert_as_listed


@pytest.mark.slow
@pytest.mark.parametrize("family", ["modules"])
def test_modules(conformance, family):
    assert_as_listed(conformance, "modules", family)
