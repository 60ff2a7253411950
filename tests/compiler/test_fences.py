"""Machine code never leaves its arrays: kernels and optimizers on memory that ends at a protected page.

Wrong sizes, dtypes, layouts and indices give the result of NumPy's kernels, or their error. By default a part of the
cases runs; GRADLOOM_FENCES=all runs every one, some 20,000, in several minutes.
"""

import os
import subprocess
import sys

import numpy as np
import pytest

from gradloom.compiler import _llvm
from gradloom.compiler._llvm.fits import MisfitError, contiguous, walk
from gradloom.compiler._llvm.layouts import Layouts
from tests.waiting import LIMIT

from . import fenced

pytestmark = [
    pytest.mark.skipif(not _llvm.available(), reason="needs llvmlite: pip install 'gradloom[compile]'"),
    pytest.mark.skipif(sys.platform != "linux", reason="pages are protected by Linux's mprotect"),
]
# For each family of cases: how many parts it has, how many of them run, and calls of a kernel that are changed.
ALL = os.environ.get("GRADLOOM_FENCES") == "all"
PARTS = {
    "kernels": (64, 64 if ALL else 1, 1),
    "programs": (4, 4 if ALL else 1, 1),
    "optimizers": (24, 24 if ALL else 1, 1),
}
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


@pytest.mark.parametrize(
    "family, part", [(family, part) for family, (_, count, _) in PARTS.items() for part in range(count)]
)
def test_no_case_leaves_its_arrays(family, part, tmp_path):
    parts, _, most = PARTS[family]
    ended, start, names = [], 0, tmp_path / "names"
    while True:  # a process for the cases after each that ended one
        command = [sys.executable, "-m", "tests.compiler.fenced", names, family, part, parts, most, start]
        found = subprocess.run(
            [str(word) for word in command], cwd=ROOT, capture_output=True, text=True, timeout=5 * LIMIT
        )
        if found.returncode in (0, 1):
            break
        last = names.read_text().splitlines()[-1] if names.exists() and names.read_text() else "0 before the first case"
        ended.append(f"{last} ended the process by signal {-found.returncode}\n{found.stderr[-2000:]}")
        if int(last.split()[0]) <= start or len(ended) == 20:
            break
        start = int(last.split()[0])
    assert not ended, "\n".join(ended)
    assert found.returncode == 0, found.stdout + found.stderr
    cases = int(found.stdout.split()[-4])
    assert cases > 100


# -- the check itself

ITEM = 4


def elements(x):
    """Return the places of an array's elements, in bytes from its first one."""
    found = np.zeros((), np.int64)
    for n, s in zip(x.shape, x.strides, strict=True):
        found = np.add.outer(found, np.arange(n) * s)
    return set(found.ravel().tolist())


def geometries(rng):
    while True:
        shape = tuple(rng.integers(1, 5, rng.integers(0, 4)).tolist())
        strides = tuple((rng.choice([-12, -8, -4, 0, 4, 8, 12, 16, 20, 32, 60], len(shape))).tolist())
        if rng.random() < 0.5:
            order = rng.permutation(len(shape))
            packed, at = [0] * len(shape), ITEM
            for d in order:
                packed[d], at = at, at * shape[d]
            strides = tuple(packed)
        yield shape, strides


def test_walks_are_allowed_only_over_elements_of_the_array():
    rng, base = np.random.default_rng(0), np.zeros(4096, np.float32)
    made, allowed = geometries(rng), 0
    for _ in range(4000):
        (shape, strides), (own, own_strides) = next(made), next(made)
        if rng.random() < 0.3:
            own, own_strides = shape, strides
        is_whole, offset = bool(rng.random() < 0.5), int(rng.choice([0, 0, 4, 8]))
        x = np.ndarray(own, np.float32, base, 8192, own_strides)
        here = np.ndarray(shape, np.float32, base, 8192, strides)
        walked, there = {offset + e for e in elements(here)}, elements(x)
        edges_agree = min(walked) == min(there) and max(walked) == max(there)
        expected = walked <= there and (edges_agree or not is_whole)
        layouts = Layouts([walk("float32", shape, strides, offset, True, is_whole)])
        if expected:
            allowed += 1
            layouts.require([x])
        else:
            with pytest.raises(MisfitError):
                layouts.require([x])
    assert 500 < allowed < 3500


@pytest.mark.parametrize(
    "x, why",
    [
        (np.zeros((4, 6), "f8"), "has dtype float64, not float32"),
        (np.zeros((4, 6), ">f4"), "has dtype >f4, not float32"),
        (np.zeros(97, "u1")[1:].view("f4").reshape(4, 6), "is not aligned"),
        (np.broadcast_to(np.zeros(6, "f4"), (4, 6)), "is read-only"),
        (np.zeros((4, 5), "f4"), "has [4, 5] elements"),
        (np.zeros((8, 6), "f4")[::2], "which are not those of [4, 6]"),
    ],
)
def test_an_array_that_does_not_fit_is_described(x, why):
    layouts = Layouts([contiguous("float32", 4, 6, is_written=True)])
    layouts.require([np.zeros((4, 6), "f4")])
    with pytest.raises(MisfitError) as found:
        layouts.require([x])
    assert why in str(found.value)


def test_a_fence_is_one():
    script = "import numpy as np\nfrom tests.compiler.fenced import fenced\nx = fenced(np.zeros(4))\n"
    for reads, code in (("x[3]", 0), ("np.lib.stride_tricks.as_strided(x, (5,))[4]", -11)):
        found = subprocess.run([sys.executable, "-c", script + reads], cwd=ROOT, timeout=LIMIT)
        assert found.returncode == code
    assert fenced.fenced(np.arange(6)[::-2], False).tolist() == [5, 3, 1]
