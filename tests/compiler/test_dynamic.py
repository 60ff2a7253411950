"""Graphs for changing sizes: which calls are compiled, and which run as Python."""

from __future__ import annotations

import pytest

import gradloom as torch
from gradloom.compiler import _api
from gradloom.compiler._api import optimized_of


def smooth(x, factor=1.0):
    return torch.sigmoid(x) * torch.tanh(x) * factor + x.shape[0]


def compiled(**options):
    f = torch.compile(smooth, backend="numpy", **options)

    def call(n, mark=None, **keywords):
        x = torch.linspace(-1, 1, n)
        if mark is not None:
            mark(x, 0)
        torch.testing.assert_close(f(x, **keywords), smooth(x, **keywords))

    return f, call


def graphs(f):
    return len(optimized_of(f).entries)


def test_eight_sizes_have_graphs_and_others_when_they_come_again():
    f, call = compiled()
    for n in range(1, 21):
        call(n)
    assert graphs(f) == 8
    for n in range(1, 21):
        call(n)
    assert graphs(f) == 20
    before = optimized_of(f).calls[0]
    for n in range(1, 21):
        call(n)
    assert optimized_of(f).calls[0] == before + 20


def test_dynamic_makes_graphs_at_once(monkeypatch):
    monkeypatch.setattr(_api, "MOST_SIZES", 30)
    f, call = compiled(dynamic=True)
    for n in range(1, 41):
        call(n)
    assert graphs(f) == 30
    call(35)
    call(35)
    assert graphs(f) == 30


def test_without_dynamic_there_are_eight():
    f, call = compiled(dynamic=False)
    for _ in range(3):
        for n in range(1, 13):
            call(n)
    assert graphs(f) == 8


def test_a_limit_is_kept():
    f, call = compiled(recompile_limit=3)
    for _ in range(3):
        for n in range(1, 6):
            call(n)
    assert graphs(f) == 3


def test_shapes_that_are_told_to_change_get_graphs_at_once():
    f, call = compiled(dynamic_shapes={"x": {0: torch.export.Dim("n")}}, name="f", isolate_recompiles=True)
    for n in range(1, 13):
        call(n)
    assert graphs(f) == 12


@pytest.mark.parametrize("mark", [torch._dynamo.mark_dynamic, torch._dynamo.maybe_mark_dynamic])
def test_marked_tensors_get_graphs_at_once(mark):
    f, call = compiled()
    for n in range(1, 13):
        call(n, mark)
    assert graphs(f) == 12


def test_values_that_change_with_each_call_stop_at_eight():
    f, call = compiled()
    for step in range(30):
        call(3, factor=complex(step, 1))
    assert graphs(f) == 8


def test_what_changes_outside_of_the_arguments_compiles_once_more():
    scale = ["0"]
    f = torch.compile(lambda x: torch.tanh(x) * len(scale[0]), backend="numpy")
    x = torch.ones(3)
    for step in range(30):
        scale[0] = "a" * step
        torch.testing.assert_close(f(x), torch.tanh(x) * step)
    assert graphs(f) == 9


def test_other_values_of_dynamic_are_refused():
    with pytest.raises(TypeError, match="dynamic is True, False or None, not 'yes'"):
        torch.compile(smooth, dynamic="yes")


def test_marks_are_kept_on_the_tensor():
    x = torch.ones(2, 3)
    torch._dynamo.mark_dynamic(x, 0)
    torch._dynamo.mark_dynamic(x, [1])
    torch._dynamo.mark_static(x)
    assert (x._dynamo_dynamic_indices, x._dynamo_static_indices) == ({0, 1}, {0, 1})
    with pytest.raises(AssertionError, match="Expected index to be int, list, or tuple, got <class 'str'>"):
        torch._dynamo.mark_dynamic(x, "0")
