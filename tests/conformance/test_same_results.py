"""Small programs that show the same with gradloom and with PyTorch; see same_results/README.md."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.waiting import LIMIT

FOLDER = Path(__file__).parent / "same_results"
FILES = sorted(FOLDER.glob("*.txt"))


def results(library: str, path: Path) -> list[list[str]]:
    done = subprocess.run(
        [sys.executable, FOLDER / "run.py", library, path], capture_output=True, text=True, timeout=LIMIT
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_programs_show_the_same(path):
    theirs, ours = results("torch", path), results("gradloom", path)
    assert len(theirs) == len(ours) > 10
    different = [
        f"{line}\n    PyTorch:  {a}\n    gradloom: {b}"
        for (line, a), (_, b) in zip(theirs, ours, strict=True)
        if a != b
    ]
    assert not different, "\n".join(different)


def test_a_difference_would_be_seen(tmp_path):
    """The two libraries name themselves differently in a path, which is not replaced."""
    path = tmp_path / "program.txt"
    path.write_text("torch.Tensor.view.__doc__\n")
    assert results("torch", path) != results("gradloom", path)
