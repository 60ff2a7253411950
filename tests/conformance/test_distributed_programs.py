"""Programs that train on several ranks, unchanged under PyTorch's torchrun and gradloom's: the same losses."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

from tests.distributed.ranks import reserved_port
from tests.waiting import LIMIT

pytestmark = pytest.mark.skipif(os.name != "posix", reason="the ranks share memory")
SCRIPTS = Path(__file__).parents[1] / "distributed" / "scripts"
TORCHRUN = {"torch": ["torch.distributed.run"], "gradloom": ["gradloom", "torchrun"]}
# Of a script: the arguments of each of its runs, and how it prints a loss. The second run goes on from a snapshot.
PROGRAMS = {
    "resume_from_snapshot.py": (
        ["2 1 {0}/snapshot.pt", "4 1 {0}/snapshot.pt"],
        r"epoch \d \| batches \d \| loss ([\d.]+)",
    ),
    "classify_images.py": (["--epochs 2"], r"(?:train epoch \d \[\d+%\]|test) loss ([\d.]+)"),
    "character_gpt.py": (["{0}/gpt.pt 1", "{0}/gpt.pt 2"], r"\[rank \d\] epoch \d (?:train|eval) loss ([\d.]+)"),
}
Losses = dict[str, list[tuple[str, float]]]


@pytest.fixture(scope="module")
def losses(tmp_path_factory) -> dict[str, Losses]:
    """By library and script, what the ranks of one job print of losses."""
    return {library: _losses(library, tmp_path_factory.mktemp(library)) for library in TORCHRUN}


def _losses(library: str, folder: Path) -> Losses:
    runs = [(script, f"{SCRIPTS / script} {run.format(folder)}") for script in PROGRAMS for run in PROGRAMS[script][0]]
    command = [sys.executable, "-m", *TORCHRUN[library], "--standalone", "--nproc-per-node=2"]
    command += [str(Path(__file__).with_name("several_programs.py")), str(folder)]
    with ExitStack() as stack:
        command += [f"{stack.enter_context(reserved_port())}:{run}" for _, run in runs]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=2 * LIMIT, env={**os.environ, "OMP_NUM_THREADS": "1"}
        )
    assert done.returncode == 0, done.stdout + done.stderr
    found: Losses = {script: [] for script in PROGRAMS}
    for number, (script, _) in enumerate(runs):
        printed = "".join([(folder / f"{number}.{rank}").read_text() for rank in range(2)])
        matches = re.finditer(PROGRAMS[script][1], printed)
        found[script] += [(match[0].rpartition(" ")[0], float(match[1])) for match in matches]
    return found


@pytest.mark.parametrize("script", PROGRAMS)
def test_losses_are_the_same(script, losses):
    expected, found = (losses[library][script] for library in TORCHRUN)
    assert len(expected) >= 4 and [name for name, _ in found] == [name for name, _ in expected]
    np.testing.assert_allclose([loss for _, loss in found], [loss for _, loss in expected], rtol=1e-3)
