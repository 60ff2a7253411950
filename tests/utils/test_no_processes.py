"""A Python without processes and threads, as in a browser: modules are absent, and starting one fails."""

import subprocess
import sys

from tests.waiting import LIMIT

# What Pyodide's standard library has not, and what raises there.
_WITHOUT = """
import os, sys, threading
import numpy

ABSENT = {"_multiprocessing", "_posixshmem", "fcntl", "grp", "pwd", "readline", "resource", "ssl", "termios"}

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name in ABSENT:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

for name in ABSENT & set(sys.modules):
    del sys.modules[name]
sys.meta_path.insert(0, Absent())

def refuse(*arguments, **options):
    raise RuntimeError("can't start new thread")

threading.Thread.start = os.fork = refuse
"""


def run_without(program):
    found = subprocess.run([sys.executable, "-c", _WITHOUT + program], capture_output=True, text=True, timeout=LIMIT)
    assert found.returncode == 0, found.stderr
    return found.stdout


def test_data_is_loaded_by_the_caller():
    program = """
import gradloom as torch
import gradloom.multiprocessing as multiprocessing
from gradloom.utils.data import DataLoader, IterableDataset, TensorDataset

class Counting(IterableDataset):
    def __iter__(self):
        return iter(range(3))

torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
x = torch.randn(64, 4)
loader = DataLoader(TensorDataset(x, (x.sum(1) > 0).long()), batch_size=16, shuffle=True, pin_memory=True)
optimizer, losses = torch.optim.AdamW(net.parameters(), lr=0.03), []
for _ in range(10):
    for inputs, targets in loader:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(net(inputs), targets)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
assert losses[-1] < losses[0] / 2, losses
assert [batch.tolist() for batch in DataLoader(Counting(), batch_size=2)] == [[0, 1], [2]]
assert torch.ones(3).share_memory_().is_shared() and multiprocessing.get_sharing_strategy()
"""
    run_without(program)


def test_processes_are_refused_with_advice():
    program = """
import gradloom as torch
from gradloom.multiprocessing import spawn, start_processes
from gradloom.utils.data import DataLoader

data = list(range(3))
for call, advice in [
    (lambda: DataLoader(data, num_workers=2), "use num_workers=0"),
    (lambda: DataLoader(data, num_workers=1, persistent_workers=True), "use num_workers=0"),
    (lambda: spawn(print, nprocs=2), "in this process"),
    (lambda: start_processes(print, nprocs=2, start_method="fork"), "in this process"),
]:
    try:
        call()
    except RuntimeError as error:
        assert "_multiprocessing" in str(error) and advice in str(error), error
    else:
        raise AssertionError(advice)
"""
    run_without(program)


def test_kernels_compute_without_threads():
    program = """
import gradloom as torch

torch.set_default_dtype(torch.float64)

def results():
    torch.manual_seed(0)
    x = torch.randn(256, 8192)
    layer = torch.nn.Conv2d(4, 8, 3)
    images = torch.randn(16, 4, 64, 64, requires_grad=True)
    layer(images).sum().backward()
    return [x.exp().sum(1), x.sort()[0], x @ x.T, images.grad, layer.weight.grad, torch.nn.LSTM(8192, 16)(x)[0]]

torch.set_num_threads(4)
several = results() + results()
torch.set_num_threads(1)
for one, other in zip(results() + results(), several, strict=True):
    torch.testing.assert_close(one, other)
"""
    run_without(program)
