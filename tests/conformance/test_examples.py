"""Examples, those of the library reference and recorded sessions: what they print and the losses are PyTorch's."""

from __future__ import annotations

import importlib.util
import re
import signal
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
import training

from tests.docs.test_examples import MODULES, api, failures
from tests.examples.idx_files import write_mnist
from tests.releases import pytorch_before
from tests.sessions import record, sections
from tests.waiting import LIMIT

torch = pytest.importorskip("torch")

SESSIONS = sorted(Path(__file__).parents[1].glob("*/sessions/*.txt"))

# Sums of float32 are taken in another order than PyTorch's; the losses of the others are float64.
TOLERANCES = {
    "write_code": 1e-4,
    "autoencode_digits": 1e-4,
    "forecast_series": 1e-4,
    "solve_burgers": 1e-9,
    "classify_members": 1e-9,
}


@pytest.mark.parametrize(("name", "tolerance"), TOLERANCES.items())
def test_the_losses_are_pytorchs(name, tolerance, tmp_path, capsys):
    more = ["--data", str(write_mnist(tmp_path))] if name == "autoencode_digits" else []
    handler = signal.getsignal(signal.SIGTERM)
    try:
        assert training.main(import_module(name), ["--quick", "--compare", *more]) == 0
    finally:
        signal.signal(signal.SIGTERM, handler)
    lines = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r" *step +gradloom +PyTorch +difference", lines[0]) and len(lines) > 5
    largest = float(lines[-1].rpartition(" ")[2])
    assert largest < tolerance


@pytest.mark.skipif(importlib.util.find_spec("transformers") is None, reason="transformers is not installed")
def test_the_losses_of_transformers_are_pytorchs():
    """In a process of its own, which has gradloom as torch."""
    command = [sys.executable, import_module("train_transformers").__file__, "--quick", "--compare"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout.splitlines()[-1].rpartition(" ")[2]) < 1e-4


@pytest.mark.parametrize("path", SESSIONS, ids=lambda path: f"{path.parents[1].name}/{path.stem}")
def test_recorded_sessions_are_what_pytorch_says(path):
    assert sections(path), "the file has sections"
    assert record(path) == path.read_text()


@pytest.mark.parametrize("module", MODULES)
def test_examples_of_the_reference_print_what_pytorch_prints(module):
    examples, place = api.examples(module), import_module(f"torch.{module}")
    if pytorch_before("2.15"):
        examples = {name: text for name, text in examples.items() if hasattr(place, name.partition(".")[0])}
    found = failures(torch, examples)
    assert not found, found
