"""Fixtures of the optimizer tests."""

import pytest

from gradloom.optim import _arrays


@pytest.fixture
def blocks_of_5(monkeypatch):
    """Update rules work on blocks of five elements, so that small parameters have several."""
    monkeypatch.setattr(_arrays, "_BLOCK", 5)
    monkeypatch.setattr(_arrays, "_scratch", _arrays._Scratch())
