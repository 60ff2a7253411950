"""`--compare` of the examples: their losses are PyTorch's."""

from __future__ import annotations

import re
import signal
from importlib import import_module

import pytest
import training

from tests.examples.idx_files import write_mnist

pytest.importorskip("torch")

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
