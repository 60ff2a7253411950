"""The engine on MPI, against NumPy, and when ranks fail. mpiexec starts the ranks."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.waiting import LIMIT

pytest.importorskip("mpi4py")

PROGRAM = Path(__file__).with_name("mpi_program.py")
MPIEXEC = shutil.which("mpiexec", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
pytestmark = pytest.mark.skipif(MPIEXEC is None, reason="there is no mpiexec")


def mpiexec(size: int, check: str) -> subprocess.CompletedProcess[str]:
    command = [MPIEXEC, "-n", str(size), sys.executable, PROGRAM, check]
    return subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, stdin=subprocess.DEVNULL)


@pytest.mark.parametrize(
    "size, check",
    [
        (1, "everything"),
        (2, "everything"),
        (4, "everything"),
        (3, "subgroups"),
        (2, "other_size"),
        (2, "forks"),
        (2, "agreements"),
        (3, "agreements"),
    ],
)
def test_every_call_gives_what_numpy_gives(size, check):
    found = mpiexec(size, check)
    assert (found.returncode, found.stdout) == (0, "wrong: 0\n"), found.stdout + found.stderr


def test_a_timeout_names_the_ranks_that_are_missing():
    found = mpiexec(3, "late")
    assert found.returncode != 0
    told = re.findall(
        r"rank (\d): missing \(1,\): all_reduce timed out after [\d.]+ seconds; ranks that did not arrive: 1",
        found.stdout,
    )
    assert sorted(told) == ["0", "2"], found


def test_abort_ends_a_waiting_call_and_the_job():
    found = mpiexec(2, "aborted")
    assert found.returncode != 0
    assert found.stdout.startswith("aborted") and "Aborted: the process group was aborted" in found.stderr


def test_an_exception_of_one_rank_ends_the_others():
    found = mpiexec(2, "uncaught")
    assert found.returncode != 0 and "a defect of rank 1" in found.stderr


@pytest.mark.skipif(not os.path.isdir("/dev/shm"), reason="there is no /dev/shm")
def test_nothing_stays_in_shared_memory_after_an_abort():
    found = mpiexec(2, "names")
    assert found.returncode != 0 and "names: []" in found.stdout, found
