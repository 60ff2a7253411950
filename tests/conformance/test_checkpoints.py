"""Checkpoints of `distributed.checkpoint` that one library writes and the other reads, on 1, 2 and 4 ranks each."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.waiting import LIMIT

pytestmark = pytest.mark.skipif(os.name != "posix", reason="the ranks are forks")
SCRIPT = Path(__file__).parents[1] / "distributed" / "scripts" / "checkpoints.py"
START = {"torch": [], "gradloom": ["-m", "gradloom", "run"]}


def run(library: str, *arguments: str | Path) -> None:
    command = [sys.executable, *START[library], SCRIPT, *arguments]
    limits = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=2 * LIMIT, env=limits)
    assert done.returncode == 0 and done.stdout.endswith("done\n"), done.stdout + done.stderr


@pytest.mark.parametrize("writer, reader", [("torch", "gradloom"), ("gradloom", "torch")])
def test_the_other_library_reads_what_one_writes(writer, reader, tmp_path):
    run(writer, "save", tmp_path)
    run(reader, "load", tmp_path)
