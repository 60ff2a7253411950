"""What `import gradloom` leaves as it was in the process, and what the first large computation sets."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys

import pytest

from gradloom.backends.cpu import keep_freed_memory
from tests.waiting import LIMIT

SNAPSHOT = """
import atexit, gc, json, locale, logging, os, resource, signal, sys, threading, warnings
import numpy as np
from gradloom_free import blas_threads, faults

def snapshot():
    return {
        "warnings.filters": [str(f) for f in warnings.filters],
        "np.geterr": [np.geterr(), np.geterrcall(), np.getbufsize()],
        "np.get_printoptions": str(np.get_printoptions()),
        "NumPy's allocator": np._core.multiarray.get_handler_name(),
        "os.environ": dict(os.environ),
        "working directory": os.getcwd(),
        "signal handlers": [str(signal.getsignal(s)) for s in sorted(signal.valid_signals())],
        "recursion limit": sys.getrecursionlimit(),
        "switch interval": sys.getswitchinterval(),
        "hooks": [str(h) for h in (sys.excepthook, sys.displayhook, sys.unraisablehook, threading.excepthook)],
        "tracing": [sys.gettrace(), sys.getprofile(), threading.gettrace(), threading.getprofile()],
        "import system": [sys.path[:], [str(f) for f in sys.meta_path], [str(f) for f in sys.path_hooks]],
        "gc": [gc.isenabled(), gc.get_threshold(), gc.get_debug(), gc.get_freeze_count(), len(gc.callbacks)],
        "locale": locale.setlocale(locale.LC_ALL),
        "logging": [str(logging.root.handlers), logging.root.level, str(logging.lastResort)],
        "threads": [t.name for t in threading.enumerate()],
        "atexit": atexit._ncallbacks(),
        "limits": [resource.getrlimit(r) for r in (resource.RLIMIT_STACK, resource.RLIMIT_AS, resource.RLIMIT_NOFILE)],
        "cores": sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None,
        "BLAS threads": blas_threads(),
        "freed memory is kept": faults() < 1000,
    }

before = snapshot()
import gradloom
after = snapshot()
print(json.dumps({name: [before[name], after[name]] for name in before if before[name] != after[name]}))
"""

# What the snapshot asks without gradloom's help.
HELPERS = """
import ctypes, resource
import numpy as np

def blas_threads():
    library = ctypes.CDLL(np._core._multiarray_umath.__file__)
    for name in ("scipy_openblas_get_num_threads64_", "openblas_get_num_threads64_", "openblas_get_num_threads"):
        if hasattr(library, name):
            return getattr(library, name)()

def faults():
    "Page faults of allocating and freeing 24 MB in 8 blocks, ten times."
    for _ in range(3):
        blocks = [np.ones(3 << 20, np.uint8) for _ in range(8)]
        del blocks
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(10):
        blocks = [np.ones(3 << 20, np.uint8) for _ in range(8)]
        del blocks
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Run a program in a process of its own, without malloc's settings; returns what it prints.

    Modules have bytecode, as installed ones do: compiling 20,000 lines would leave malloc's arena grown.
    """
    folder = tmp_path_factory.mktemp("programs")
    (folder / "gradloom_free.py").write_text(HELPERS)
    left_out = ("MALLOC_", "GLIBC_", "GRADLOOM_KEEP", "PYTHONDONTWRITEBYTECODE")
    clean = {n: v for n, v in os.environ.items() if not n.startswith(left_out)}
    clean["PYTHONPATH"] = os.pathsep.join(filter(None, (str(folder), clean.get("PYTHONPATH", ""))))
    clean["PYTHONPYCACHEPREFIX"] = str(folder / "bytecode")

    def run(program: str, **environment: str) -> str:
        return subprocess.check_output(
            [sys.executable, "-c", program], env=clean | environment, text=True, timeout=LIMIT
        )

    run("import gradloom; gradloom.ones(3, requires_grad=True).sum().backward()")
    return run


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux for page faults and limits")
def test_importing_changes_nothing_outside_gradloom(run):
    assert json.loads(run(SNAPSHOT)) == {}


# What `import gradloom` imports, besides NumPy and what NumPy imports. Anything else is imported on first use: a module
# is added here only if `import gradloom` cannot do without it, because each costs every program.
ROOMS = {
    "autograd",
    "binding",
    "core",
    "dispatch",
    "functional",
    "memory",
    "random",
    "return_types",
    "tensors",
    "types",
}
FAMILIES = {
    "composite": {"elementwise", "matmul"},
    "formulas": {"elementwise", "matmul"},
    "kernels": {"_common", "elementwise", "matmul", "random", "shape"},
    "generated.functions": {"elementwise", "matmul"},
    "generated.namespaces": {"elementwise", "matmul"},
    "generated.variable_type": {"elementwise", "matmul"},
}
# Modules of Python that take a millisecond or more, and that NumPy does not need.
HEAVY = {"dataclasses", "multiprocessing", "logging", "concurrent", "asyncio", "unittest", "importlib.metadata"}
LOADED = """
import json, sys
import numpy
before = set(sys.modules)
import gradloom
print(json.dumps(sorted(set(sys.modules) - before)))
"""


def test_importing_loads_no_family_but_those_of_pythons_operators(run):
    rooms, families, others = set(), {}, set()
    for name in json.loads(run(LOADED)):
        place, _, inside = name.removeprefix("gradloom.").partition(".")
        if name.partition(".")[0] != "gradloom":
            others.add(name)
        elif place == "generated" and inside:
            table, _, family = inside.partition(".")
            families.setdefault(f"generated.{table}", set()).update({family} - {""})
        elif place in FAMILIES:
            families.setdefault(place, set()).update({inside.partition(".")[0]} - {""})
        elif place not in ("gradloom", "generated"):
            rooms.add(place)
    assert rooms == ROOMS
    assert families == FAMILIES
    assert others & HEAVY == set()
    assert {name.partition(".")[0] for name in others} <= sys.stdlib_module_names, "no other package, such as SciPy"


MEMORY = """
import gradloom
from gradloom_free import faults
imported = faults()
x = gradloom.ones(3, requires_grad=True)
x.sum().backward()
print(imported, faults())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc")
@pytest.mark.parametrize(
    "environment, is_kept",
    [
        ({}, True),
        ({"GRADLOOM_KEEP_FREED_MEMORY": str(64 << 20)}, True),
        ({"GRADLOOM_KEEP_FREED_MEMORY": "0"}, False),
        ({"MALLOC_TRIM_THRESHOLD_": "131072"}, False),
    ],
)
def test_the_first_backward_pass_lets_malloc_keep_memory_unless_the_user_says_otherwise(run, environment, is_kept):
    imported, trained = map(int, run(MEMORY, **environment).split())
    assert imported > 10_000, "of 61,440 pages"
    assert (trained < 1_000) is is_kept


def test_memory_to_keep_is_not_negative():
    with pytest.raises(ValueError, match="expected a non-negative number of bytes, but got -1"):
        keep_freed_memory(-1)
