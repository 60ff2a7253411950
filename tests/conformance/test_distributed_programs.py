"""Programs that train on several ranks, unchanged under PyTorch's torchrun and gradloom's: the same losses."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.waiting import LIMIT

pytestmark = pytest.mark.skipif(os.name != "posix", reason="the ranks share memory")
SCRIPTS = Path(__file__).parents[1] / "distributed" / "scripts"
TORCHRUN = {"torch": ["torch.distributed.run"], "gradloom": ["gradloom", "torchrun"]}
# Of a script: the arguments of each of its runs, and how it prints a loss.
PROGRAMS = {
    "resume_from_snapshot.py": (
        ["2 1 {0}/snapshot.pt", "4 1 {0}/snapshot.pt"],
        r"epoch \d \| batches \d \| loss ([\d.]+)",
    ),
    "classify_images.py": (["--epochs 2"], r"(?:train epoch \d \[\d+%\]|test) loss ([\d.]+)"),
    "character_gpt.py": (["{0}/gpt.pt 1", "{0}/gpt.pt 2"], r"\[rank \d\] epoch \d (?:train|eval) loss ([\d.]+)"),
}


def losses(library: str, script: str, folder: Path) -> list[tuple[str, float]]:
    """Return what the ranks print of losses, sorted: lines of different ranks come in any order, and may be joined."""
    folder.mkdir()
    runs, printed = PROGRAMS[script]
    found = []
    for run in runs:
        launcher = [sys.executable, "-m", *TORCHRUN[library], "--standalone", "--nproc-per-node=2"]
        command = [*launcher, str(SCRIPTS / script), *run.format(folder).split()]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=LIMIT, env={**os.environ, "OMP_NUM_THREADS": "1"}
        )
        assert done.returncode == 0, done.stdout + done.stderr
        found += [(match[0].rpartition(" ")[0], float(match[1])) for match in re.finditer(printed, done.stdout)]
    return sorted(found)


@pytest.mark.parametrize("script", PROGRAMS)
def test_losses_are_the_same(script, tmp_path):
    expected, found = (losses(library, script, tmp_path / library) for library in ("torch", "gradloom"))
    assert len(expected) >= 4 and [name for name, _ in found] == [name for name, _ in expected]
    np.testing.assert_allclose([loss for _, loss in found], [loss for _, loss in expected], rtol=1e-3)
