"""The demo as its user meets it: what it prints and leaves, its exit codes, what an interruption leaves."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import digits_report
import numpy as np
import output
import pictures
import pytest
import train_digits
from PIL import Image
from safetensors.numpy import load_file

from tests.waiting import started

from .idx_files import TRAIN_LABELS, write_mnist

SCRIPT = Path(train_digits.__file__)
SHAPES = {
    "conv1.weight": (20, 1, 5, 5),
    "conv1.bias": (20,),
    "conv2.weight": (50, 20, 5, 5),
    "conv2.bias": (50,),
    "fc1.weight": (500, 800),
    "fc1.bias": (500,),
    "fc2.weight": (10, 500),
    "fc2.bias": (10,),
}


@pytest.fixture
def mnist(tmp_path):
    return write_mnist(tmp_path / "mnist")


@pytest.fixture(autouse=True)
def same_signals():
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def short_run(mnist, out, *more) -> int:
    few = ["--epochs", "2", "--batch-size", "32"]
    return train_digits.main(["--data", str(mnist), "--out", str(out), *few, *more])


def test_a_run_prints_the_accuracy_and_leaves_weights_and_a_picture(mnist, tmp_path, capsys):
    out = tmp_path / "deep" / "out"
    assert short_run(mnist, out) == 0
    printed = capsys.readouterr().out
    assert "MNIST: 96 images to train on, 20 held out" in printed
    assert "held-out accuracy: " in printed and " of 20)" in printed
    assert sorted(path.name for path in out.iterdir()) == ["digits.png", "digits.safetensors"]
    weights = load_file(out / "digits.safetensors")
    assert {name: array.shape for name, array in weights.items()} == SHAPES
    assert all(array.dtype == np.float32 and np.isfinite(array).all() for array in weights.values())
    with Image.open(out / "digits.png") as picture:
        picture.load()
        assert picture.size == (pictures.WIDTH, digits_report.HEIGHT)


def test_the_seed_decides_the_weights(mnist, tmp_path):
    for out, seed in (("a", "5"), ("b", "5"), ("c", "6")):
        assert short_run(mnist, tmp_path / out, "--seed", seed) == 0
    a, b, c = ((tmp_path / out / "digits.safetensors").read_bytes() for out in "abc")
    assert a == b != c


def test_a_bad_data_file_is_one_line_and_exit_code_2(mnist, tmp_path, capsys):
    (mnist / TRAIN_LABELS).write_bytes(b"no labels")
    assert short_run(mnist, tmp_path / "out") == 2
    error = capsys.readouterr().err
    assert error.startswith(f"error: {mnist / TRAIN_LABELS}: ") and error.count("\n") == 1
    assert list((tmp_path / "out").iterdir()) == []


def test_an_unusable_out_is_told_before_training(mnist, tmp_path, capsys):
    (tmp_path / "file").touch()
    assert short_run(mnist, tmp_path / "file") == 2
    assert capsys.readouterr().err.startswith(f"error: {tmp_path / 'file'}: cannot write there")


def test_divergence_is_told_with_exit_code_1(mnist, tmp_path, capsys):
    assert short_run(mnist, tmp_path / "out", "--lr", "1e30") == 1
    assert "try --lr below 1e+30" in capsys.readouterr().err
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize(
    "arguments",
    [
        ["--epochs", "0"],
        ["--lr", "nan"],
        ["--momentum", "1.5"],
        ["--batch-size", "many"],
        ["--seed", "-1"],
        ["--unknown"],
    ],
)
def test_arguments_outside_their_range_are_refused(arguments, capsys):
    with pytest.raises(SystemExit) as stopped:
        train_digits.main(arguments)
    assert stopped.value.code == 2 and arguments[0] in capsys.readouterr().err


def test_a_missing_package_is_named_with_the_remedy(mnist, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "tqdm", None)
    assert short_run(mnist, tmp_path / "out") == 2
    assert "tqdm is missing; get it with: pip install 'gradloom[demo]'" in capsys.readouterr().err


@pytest.mark.parametrize("which, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_run_that_is_stopped_leaves_no_file(mnist, tmp_path, which, code):
    out = tmp_path / "out"
    command = [sys.executable, str(SCRIPT), "--data", str(mnist), "--epochs", "100000", "--out", str(out)]
    with started(command, tmp_path / "log") as run:
        run.wait_for("loss=")  # the progress bar moves
        assert run.end(which) == code
        assert "Traceback" not in run.log.read_text()
    assert list(out.iterdir()) == []


@pytest.mark.parametrize(
    "error, expected",
    [(KeyboardInterrupt(), KeyboardInterrupt), (OSError(28, "No space left on device"), output.OutputError)],
)
def test_a_write_that_fails_keeps_the_former_file(tmp_path, monkeypatch, error, expected):
    path = tmp_path / "digits.safetensors"
    path.write_bytes(b"former")

    def fail(source, target):
        raise error

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(expected):
        digits_report.save_weights(path, {"w": np.ones(3, np.float32)})
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name] and path.read_bytes() == b"former"


@pytest.mark.parametrize("losses", [[2.3], [0.0, 0.0], [2.3, 1e-9, 1e5], [0.5] * 3000])
def test_any_curve_can_be_drawn(tmp_path, losses):
    data = train_digits.digits_data.load(None)
    predicted = np.zeros_like(data.test_labels)  # most of them wrong
    path = digits_report.save_picture(tmp_path / "digits.png", losses, 0.1, data, predicted)
    with Image.open(path) as picture:
        picture.verify()


@pytest.mark.skipif(os.name != "posix", reason="the ranks share memory")
def test_two_ranks_train_the_same_network_with_one_progress_bar(mnist, tmp_path, capfd):
    """96 images in batches of 35: neither they nor the last 26 divide evenly."""
    assert short_run(mnist, tmp_path / "one", "--batch-size", "35") == 0
    capfd.readouterr()
    assert short_run(mnist, tmp_path / "two", "--batch-size", "35", "--ranks", "2") == 0
    found = capfd.readouterr()
    assert found.out.count("held-out accuracy: ") == 1 and found.out.count("wrote ") == 2
    assert "6/6" in found.err and "Traceback" not in found.err
    one, two = (load_file(tmp_path / name / "digits.safetensors") for name in ("one", "two"))
    for name, array in one.items():
        # Six steps: sums of 35 terms in another order, each off by some eps of the largest gradient.
        np.testing.assert_allclose(two[name], array, rtol=0, atol=1e-4 * np.abs(array).max())


@pytest.mark.skipif(os.name != "posix", reason="the ranks share memory")
def test_an_error_of_ranks_is_one_line_and_their_exit_code(mnist, tmp_path, capfd):
    (mnist / TRAIN_LABELS).write_bytes(b"no labels")
    assert short_run(mnist, tmp_path / "out", "--ranks", "2") == 2
    error = capfd.readouterr().err
    assert error.startswith(f"error: {mnist / TRAIN_LABELS}: ") and error.count("\n") == 1
