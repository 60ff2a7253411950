"""Forks while another thread imports something, or holds a lock of the library: the child does not wait for it."""

import os
import subprocess
import sys
import time
from importlib import import_module
from threading import Event

import pytest

import gradloom as gl
from gradloom.memory import locks
from tests.waiting import LIMIT, Running, forked

forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")

_PART = """
import sys
begun, go = sys.part_events
begun.set()
assert go.wait({limit})
value = 3
"""


class SlowFinder:
    """Finds no module, but takes its time over one of them."""

    def __init__(self, name, begun, go):
        self.name, self.begun, self.go = name, begun, go

    def find_spec(self, name, path=None, target=None):
        if name == self.name:
            self.begun.set()
            assert self.go.wait(LIMIT)


@forks
@pytest.mark.parametrize("phase", ["search", "body"])
def test_a_fork_waits_for_the_imports_of_other_threads(tmp_path, monkeypatch, phase):
    name, begun, go = f"gradloom_late_part_{phase}", Event(), Event()
    (tmp_path / f"{name}.py").write_text(_PART.format(limit=LIMIT) if phase == "body" else "value = 3\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "part_events", (begun, go), raising=False)
    if phase == "search":
        monkeypatch.setattr(sys, "meta_path", [SlowFinder(name, begun, go), *sys.meta_path])
    importing = Running(lambda: import_module(name).value)
    assert begun.wait(LIMIT)

    def finish():
        time.sleep(0.2)  # the fork has begun, or waits for this thread's import all the same
        go.set()

    finishing = Running(finish)
    assert forked(lambda: import_module(name).value) == 3
    assert importing.result() == 3
    finishing.result()


@forks
def test_no_import_begins_while_a_process_forks():
    program = """
import os, sys, threading
import gradloom
from importlib import import_module

names = [n for n in ("wave", "colorsys", "sndhdr", "xdrlib", "quopri", "plistlib", "netrc", "mailbox", "cmd", "code")
         if n not in sys.modules]
late = ["gradloom.distributions", "gradloom.fx", "gradloom.onnx", "gradloom.signal", "gradloom.quasirandom"]

def work():
    for name in names + late:
        try:
            import_module(name)
        except ImportError:
            pass

thread = threading.Thread(target=work)
thread.start()
children = []
while thread.is_alive() and len(children) < 200:
    child = os.fork()
    if not child:
        import signal
        signal.alarm(120)
        work()
        os._exit(0)
    children.append(child)
    os.waitpid(child, 0)[1] and sys.exit(1)
thread.join()
assert children
"""
    found = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, timeout=LIMIT
    )
    assert found.returncode == 0, found.stderr


@forks
def test_all_locks_are_free_in_a_forked_process():
    x = gl.ones(4, requires_grad=True)
    (x * 2).sum().backward()
    gl.manual_seed(0)
    held, go = Event(), Event()
    every = [lock for kept in list(locks._locks) if (lock := kept()) is not None]
    assert len(every) > 60

    def hold():
        for lock in every:
            assert lock.acquire(timeout=LIMIT)
        held.set()
        assert go.wait(LIMIT)
        for lock in every:
            lock.release()

    holding = Running(hold)
    assert held.wait(LIMIT)

    def work():
        free = all(lock.acquire(timeout=1) and lock.release() is None for lock in every)
        y = gl.ones(300, 300, requires_grad=True)
        y.register_hook(lambda grad: grad)
        (y @ y).exp().mean().backward()
        return 7 if free and gl.rand(2).shape == (2,) and y.grad is not None else 1

    try:
        assert forked(work) == 7
    finally:
        go.set()
        holding.result()
