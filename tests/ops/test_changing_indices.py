"""Kernels that read an index while another thread writes to it: they use what they checked, or raise."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec

import numpy as np
import pytest

import gradloom as torch
from gradloom.kernels.indexing import along_dim, places, tensors, vectors

ROWS, WIDTH = 6, 3


def operands():
    return torch.arange(ROWS * WIDTH, dtype=torch.float64).reshape(ROWS, WIDTH), torch.ones(4, WIDTH).double()


# Calls with a vector of indices, and with a matrix of them.
WITH_VECTOR = {
    "index_add": lambda x, s, i: torch.index_add(x, 0, i, s),
    "index_add of columns": lambda x, s, i: torch.index_add(x.t().contiguous(), 1, i, s.t()),
    "index_select": lambda x, s, i: torch.index_select(x, 0, i),
    "index_reduce": lambda x, s, i: torch.index_reduce(x, 0, i, s, "amax"),
    "embedding_backward": lambda x, s, i: torch.ops.aten.embedding_dense_backward(s, i, ROWS, -1, False),
}
WITH_MATRIX = {
    "gather": lambda x, s, i: torch.gather(x, 0, i),
    "gather of a transposed matrix": lambda x, s, i: torch.gather(x.t().contiguous().t(), 0, i),
    "scatter": lambda x, s, i: torch.scatter(x, 0, i, s),
    "scatter a number": lambda x, s, i: torch.scatter(x, 0, i, 2.5),
    "scatter_add": lambda x, s, i: torch.scatter_add(x, 0, i, s),
    "scatter with a product": lambda x, s, i: torch.scatter(x, 0, i, s, reduce="multiply"),
    "scatter_reduce": lambda x, s, i: torch.scatter_reduce(x, 0, i, s, "amax"),
    "scatter_reduce to means": lambda x, s, i: torch.scatter_reduce(x, 0, i, s, "mean"),
    "scatter_reduce without self": lambda x, s, i: torch.scatter_reduce(x, 0, i, s, "sum", include_self=False),
    "put": lambda x, s, i: torch.put(x, i, s),
}
# Kernels that copy the index before the check. Others check what they use again: `take`, NumPy's assignments and sums.
COPY = {
    *("index_add", "index_add of columns", "index_reduce", "embedding_backward"),
    *("scatter_reduce to means", "scatter_reduce without self"),
}


@pytest.fixture
def change_after_check(monkeypatch):
    """Return a function that makes the next check fill an index with a number, as another thread could."""
    changed = []
    original = places.is_in_range

    def checked(index, n):
        found = original(index, n)
        for target, value in changed:
            target[...] = value
        return found

    for module in (places, vectors, along_dim, tensors):
        if hasattr(module, "is_in_range"):
            monkeypatch.setattr(module, "is_in_range", checked)
    original_of_put = along_dim._check_range

    def checked_of_put(index, n):
        original_of_put(index, n)
        checked(index, n)

    monkeypatch.setattr(along_dim, "_check_range", checked_of_put)
    return lambda target, value: changed.append((target, value))


@pytest.mark.filterwarnings("ignore:index_reduce", "ignore:The reduce argument")
@pytest.mark.parametrize("value", [0, 1 << 44, -(1 << 44)])
@pytest.mark.parametrize("name", [*WITH_VECTOR, *WITH_MATRIX])
def test_an_index_that_changes_after_its_check_is_used_as_it_was_checked_or_checked_again(
    name, value, change_after_check
):
    x, source = operands()
    vector = torch.tensor([5, 2, 2, 4])
    index = vector if name in WITH_VECTOR else vector[:, None].expand(4, WIDTH).contiguous()
    call = {**WITH_VECTOR, **WITH_MATRIX}[name]
    expected, of_zeros = call(x, source, index.clone()), call(x, source, torch.zeros_like(index))
    change_after_check(index.numpy(), value)
    if value and name not in COPY:
        with pytest.raises(IndexError):
            call(x, source, index)
        return
    found = call(x, source, index)
    assert (index == value).all(), "nothing was checked"
    assert found.tolist() == (expected if name in COPY else of_zeros).tolist()


def test_a_mask_that_changes_is_read_once():
    """A mask that NumPy counts and reads again selects another number of elements than it counted."""
    array, calls = np.arange(6.0), []

    class Mask(np.ndarray):
        def copy(self, order="C"):
            calls.append(1)
            return np.array(self)

    from gradloom.kernels.indexing import masks

    mask = np.array([True, False] * 3).view(Mask)
    assert masks.masked_select(array, mask).tolist() == [0, 2, 4]
    masks.masked_scatter_(array.copy(), mask, np.ones(6))
    tensors.index(array, [mask])
    tensors.index_put_(array.copy(), [mask], np.ones(3))
    assert len(calls) == 4


RACE = """
import sys, threading, time
import gradloom as torch

rows, n = 50, 4000
x, source = torch.ones(rows, 8), torch.ones(n, 8)
vector, matrix = torch.zeros(n, dtype=torch.int64), torch.zeros(n, 8, dtype=torch.int64)
mask, is_done = torch.zeros(rows, 8, dtype=torch.bool), False
F = torch.nn.functional
CALLS = [
    lambda: torch.index_add(x, 0, vector, source), lambda: x.clone().index_add_(0, vector, source),
    lambda: torch.index_add(torch.ones(rows), 0, vector, torch.ones(n)), lambda: torch.index_select(x, 0, vector),
    lambda: x.clone().index_copy_(0, vector, source), lambda: x.clone().index_fill_(0, vector, 2.0),
    lambda: torch.gather(x, 0, matrix), lambda: torch.gather(torch.ones(8, rows).t(), 0, matrix),
    lambda: x.clone().scatter_(0, matrix[:rows], source[:rows]), lambda: torch.scatter_add(x, 0, matrix, source),
    lambda: torch.scatter_reduce(x, 0, matrix, source, "mean"), lambda: F.embedding(vector, x),
    lambda: F.embedding_bag(vector, x, torch.arange(0, n, 10)),
    lambda: torch.ops.aten.embedding_dense_backward(source, vector, rows, -1, False),
    lambda: x[vector], lambda: x[vector, matrix[:, 0]], lambda: x.t()[:, vector],
    lambda: x.clone().index_put_((vector,), source), lambda: x.clone().index_put_((vector,), source, True),
    lambda: torch.take(x, vector), lambda: x.clone().put_(vector, torch.ones(n)),
    lambda: x.clone().put_(vector, torch.ones(n), True), lambda: F.nll_loss(torch.zeros(n, rows), vector),
    lambda: F.cross_entropy(torch.zeros(n, rows), vector), lambda: x[mask],
    lambda: x.clone().masked_scatter_(mask, source), lambda: torch.masked_select(x, mask),
    lambda: torch.repeat_interleave(mask.view(torch.uint8).reshape(-1).int()),
]

def flip():
    arrays = vector.numpy(), matrix.numpy(), mask.numpy()
    while not is_done:
        for value in (1 << 44, 1, -(1 << 44), 0):
            for array in arrays:
                array[...] = value

thread = threading.Thread(target=flip, daemon=True)
thread.start()
with torch.set_kernels(sys.argv[1]):
    for call in CALLS:
        end = time.monotonic() + 0.15
        while time.monotonic() < end:
            try:
                call()
            except (IndexError, RuntimeError):
                pass
is_done = True
thread.join(20)
print("alive")
"""


@pytest.mark.parametrize("kernels", ["numpy", "llvm"])
def test_another_thread_that_writes_to_the_index_does_no_harm(kernels):
    if kernels == "llvm" and not find_spec("llvmlite"):
        pytest.skip("needs llvmlite")
    command = [sys.executable, "-X", "faulthandler", "-c", RACE, kernels]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "alive"), done.stderr[-2000:]
