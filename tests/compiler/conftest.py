"""Graphs are compiled in each test, and none is read from disk or kept there; test_store.py is about that."""

from __future__ import annotations

import pytest

import gradloom as torch
from gradloom.compiler import _store


@pytest.fixture(autouse=True)
def no_graphs_on_disk(monkeypatch):
    monkeypatch.setattr(_store, "is_on", False)


@pytest.fixture(params=["numpy", "llvm"])
def each_backend(request):
    """Compile with each backend by default."""
    if request.param == "llvm":
        pytest.importorskip("llvmlite")
    before = torch.compiler.get_default_backend()
    torch.compiler.set_default_backend(request.param)
    yield
    torch.compiler.set_default_backend(before)
