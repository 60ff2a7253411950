"""Graphs are compiled in each test, and none is read from disk or kept there; test_store.py is about that."""

from __future__ import annotations

import pytest

from gradloom.compiler import _store


@pytest.fixture(autouse=True)
def no_graphs_on_disk(monkeypatch):
    monkeypatch.setattr(_store, "is_on", False)
