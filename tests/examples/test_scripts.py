"""The short examples print what PyTorch makes them print (expected/, recorded with PyTorch 2.13)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.waiting import LIMIT

from .test_training import FILES

EXPECTED = Path(__file__).with_name("expected")
EXAMPLES = Path(__file__).parents[2] / "examples"
# The demo (test_train_digits.py, ...), those that train something, and what they share (test_training.py).
LONG = {
    "train_digits.py",
    "digits_data.py",
    "digits_report.py",
    "train_transformers.py",
    "ddp_gpt.py",
    "training.py",
    "pictures.py",
    "output.py",
}
LONG |= {f"{name}.py" for name in FILES}


def test_every_example_is_tested():
    recorded = {f"{path.stem}.py" for path in EXPECTED.iterdir()}
    assert {path.name for path in EXAMPLES.glob("*.py")} == LONG | recorded


@pytest.mark.parametrize("name", sorted(path.stem for path in EXPECTED.iterdir()))
def test_example_prints_what_pytorch_prints(name):
    command = [sys.executable, "-W", "error", str(EXAMPLES / f"{name}.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)
    assert done.stderr == "" and done.returncode == 0
    assert done.stdout == (EXPECTED / f"{name}.txt").read_text()
