"""PyTorch's own tests of torch.distributed, run through its test class on gradloom.

The default is 3 ranks for each of the two backends by which PyTorch's file chooses tests. GRADLOOM_TEST_DISTRIBUTED=all
adds 2 and 4 ranks and the other engines. docs/distributed.md has the counts.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.waiting import LIMIT

pytestmark = pytest.mark.skipif(os.name != "posix", reason="ranks share memory as on Unix")
MPIEXEC = shutil.which("mpiexec", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
# How PyTorch's file chooses, what moves the data, number of ranks, least number of tests that must pass.
DEFAULT = [("gloo", "gloo", 3, 85), ("mpi", "mpi", 3, 85)]
ALL = [
    ("gloo", "gloo", 2, 85),
    ("gloo", "gloo", 4, 85),
    ("gloo", "sockets", 3, 85),
    ("mpi", "shm", 3, 85),
    ("mpi", "sockets", 3, 85),
    ("mpi", "mpi", 2, 65),
]
RUNS = DEFAULT + (ALL if os.environ.get("GRADLOOM_TEST_DISTRIBUTED") == "all" else [])


def run_ranks(chosen_by: str, backend: str, size: int, folder: Path, *names: str) -> list[dict[str, str]]:
    """Run the tests, all or those named, and return the results of each rank."""
    for name in ("test_dir", "barrier", "init_dir"):
        (folder / name).mkdir()
    if backend == "mpi":
        launcher = [MPIEXEC, "-n", str(size), sys.executable, "-m"]
    else:
        launcher = [sys.executable, "-m", "gradloom.distributed.run", "--standalone", f"--nproc-per-node={size}", "-m"]
    command = [*launcher, "tests.conformance.distributed_ranks", str(folder), backend, *names]
    given = {**os.environ, "BACKEND": chosen_by, "TEMP_DIR": str(folder), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        command, env=given, capture_output=True, text=True, timeout=2 * LIMIT, stdin=subprocess.DEVNULL
    )
    paths = [folder / f"{rank}.json" for rank in range(size)]
    assert all(path.exists() for path in paths), done.stderr[-4000:]
    return [json.loads(path.read_text()) for path in paths]


@pytest.mark.slow
@pytest.mark.parametrize(("chosen_by", "backend", "size", "least"), RUNS)
def test_pytorchs_tests_pass(chosen_by, backend, size, least, tmp_path):
    if backend == "mpi":
        pytest.importorskip("mpi4py")
        if MPIEXEC is None:
            pytest.skip("there is no mpiexec")
    results = run_ranks(chosen_by, backend, size, tmp_path)
    assert all(list(one) == list(results[0]) for one in results), "a rank ended early"
    excused = {"test_get_backend"} if chosen_by != backend else set()
    if chosen_by == "mpi" and size == 2:
        excused |= {name for name in results[0] if name.endswith("_group") or "_group_" in name}  # of ranks 1 and 2
    failed = {
        f"{name}, rank {rank}": text
        for rank, one in enumerate(results)
        for name, text in one.items()
        if text != "passed" and not text.startswith("skipped") and name not in excused
    }
    assert not failed, "\n\n".join(f"{name}:\n{text}" for name, text in failed.items())
    counts = Counter(text.partition(":")[0] for text in results[0].values())
    assert counts["passed"] >= least, counts
