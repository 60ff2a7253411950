"""The distributed example, on one process, under torchrun, and under mpiexec."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.waiting import LIMIT

SCRIPT = Path(__file__).parents[2] / "examples" / "ddp_gpt.py"
MPIEXEC = shutil.which("mpiexec", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
FEW = ("--steps", "20", "--batch-size", "4")


def printed(process):
    """Wait for a process; return what it printed."""
    text = process.communicate(timeout=LIMIT)[0]
    assert process.returncode == 0, text
    return text


def start(command, **variables):
    command = [str(part) for part in command]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | variables)


def by_torchrun(size, *arguments):
    launcher = [sys.executable, "-m", "gradloom.distributed.run", "--standalone", f"--nproc-per-node={size}"]
    return printed(start([*launcher, SCRIPT, *FEW, *arguments], OMP_NUM_THREADS="1"))


def losses(text):
    return [line for line in text.splitlines() if line.startswith("step")]


@pytest.mark.skipif(os.name != "posix", reason="the ranks share memory")
def test_ranks_train_and_other_numbers_of_them_go_on(tmp_path):
    text = by_torchrun(2, "--out", tmp_path / "checkpoint", "--accumulate", "2")
    assert "2 ranks, loss " in text and len(losses(text)) == 2
    alone = printed(start([sys.executable, SCRIPT, "--steps", "30", "--resume", tmp_path / "checkpoint"]))
    assert "1 ranks, loss " in alone and [line.split()[1] for line in losses(alone)] == ["30"]


@pytest.mark.skipif(MPIEXEC is None or find_spec("mpi4py") is None, reason="there is no MPI")
def test_mpiexec_starts_the_same_training():
    assert losses(printed(start([MPIEXEC, "-n", "2", sys.executable, SCRIPT, *FEW]))) == losses(by_torchrun(2))
