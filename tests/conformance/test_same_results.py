"""Small programs that show the same with gradloom and with PyTorch; see same_results/README.md."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.releases import pytorch_before
from tests.waiting import LIMIT

# Programs of which PyTorch 2.15 shows something else than the releases before.
SINCE_2_15 = (
    "y[y>0]=3;;", "x[2]=1e6;;", "(x*2).grad_dtype", "y.retain_grad();; y.grad_dtype", "x.clone().grad_dtype",
    "True);; v=x[:1];; v.grad_dtype", "a.clamp(2,3).sum()",
    "torch.func.functional_call(net, {\"weight\": torch.ones(1, 2)}",
)  # fmt: skip
FOLDER = Path(__file__).parent / "same_results"
FILES = sorted(FOLDER.glob("*.txt"))


def agree(line: str, theirs: str, ours: str) -> bool:
    """Return whether two libraries show the same, but for what a release before 2.15 shows otherwise."""
    if not pytorch_before("2.15"):
        return theirs == ours
    if any(part in line for part in SINCE_2_15):
        return theirs != ours
    refused = ("raises NotImplementedError", "raises TypeError")  # a dtype
    return theirs == ours or theirs == "raises RuntimeError" and ours in refused


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
        if not agree(line, a, b)
    ]
    assert not different, "\n".join(different)


def test_a_difference_would_be_seen(tmp_path):
    """The two libraries name themselves differently in a path, which is not replaced."""
    path = tmp_path / "program.txt"
    path.write_text("torch.Tensor.view.__doc__\n")
    assert results("torch", path) != results("gradloom", path)
