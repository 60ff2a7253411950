"""The examples that train something: a quick run of each leaves its files; --help, --compare and errors as users meet
them. tests/conformance/test_examples.py compares their losses with PyTorch's."""

from __future__ import annotations

import importlib.util
import signal
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import classify_members
import forecast_series
import numpy as np
import output
import pictures
import pytest
import solve_burgers
import training
import write_code
from PIL import Image

import gradloom
from tests.waiting import LIMIT

FILES = {
    "write_code": {"code.txt", "code.png"},
    "autoencode_digits": {"autoencoder.png"},
    "forecast_series": {"forecast.png"},
    "solve_burgers": {"burgers.png"},
    "classify_members": {"members.png"},
}


@pytest.fixture(autouse=True)
def same_signals():
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.mark.parametrize("name", FILES)
def test_a_quick_run_leaves_its_files(name, tmp_path, capsys):
    program = import_module(name)
    assert training.main(program, ["--quick", "--out", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert f" in {program.QUICK} steps" in printed
    assert {path.name for path in tmp_path.iterdir()} == FILES[name]
    assert all(f"wrote {tmp_path / file}" in printed for file in FILES[name])
    for path in tmp_path.glob("*.png"):
        with Image.open(path) as picture:
            picture.load()
            assert picture.width == pictures.WIDTH and len(picture.getcolors(1 << 20)) > 3


@pytest.mark.parametrize("name", FILES)
def test_the_documentation_of_an_example_names_its_files(name, capsys):
    with pytest.raises(SystemExit) as stopped:
        training.main(import_module(name), ["--help"])
    printed = capsys.readouterr().out
    assert stopped.value.code == 0 and all(file in printed for file in FILES[name] | {"--quick", "--compare"})


def test_compare_without_pytorch_says_what_to_install(monkeypatch, capsys):
    monkeypatch.setattr(training.importlib.util, "find_spec", lambda name: None)
    assert training.main(classify_members, ["--quick", "--compare"]) == 2
    assert "pip install torch==2.13.0" in capsys.readouterr().err


def test_a_missing_package_is_named_with_the_remedy(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "tqdm", None)
    assert training.main(classify_members, ["--quick", "--out", str(tmp_path)]) == 2
    assert "tqdm is missing; get it with: pip install 'gradloom[demo]'" in capsys.readouterr().err


def test_an_unusable_out_is_told_before_training(tmp_path, monkeypatch, capsys):
    (tmp_path / "file").touch()
    monkeypatch.setattr(training, "train", None)
    assert training.main(classify_members, ["--out", str(tmp_path / "file")]) == 2
    assert "cannot write there" in capsys.readouterr().err


def test_a_loss_that_is_not_finite_ends_the_run_with_exit_code_1(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(classify_members, "train", lambda args, step: step(float("nan")))
    assert training.main(classify_members, ["--out", str(tmp_path)]) == 1
    assert "the loss is nan at step 1" in capsys.readouterr().err and not list(tmp_path.iterdir())


def test_the_club_is_zacharys():
    sides, pairs = classify_members.club()
    assert sides.shape == (34,) and pairs.shape == (2, 78) and sides.sum() == 17
    assert np.bincount(pairs.ravel())[[0, 32, 33]].tolist() == [16, 12, 17]
    dense = classify_members.adjacency(pairs, 34).to_dense().numpy()
    assert np.array_equal(dense, dense.T) and np.linalg.eigvalsh(dense).max() == pytest.approx(1)


def test_the_graph_network_finds_the_sides(tmp_path, capsys):
    assert training.main(classify_members, ["--steps", "100", "--out", str(tmp_path)]) == 0
    found = int(capsys.readouterr().out.split(" of the 32 other members")[0].split()[-1])
    assert found >= 29


def test_the_exact_solution_of_burgers_obeys_the_equation():
    t, x, h = 0.5, np.linspace(-0.9, 0.9, 19), 1e-3
    u = solve_burgers.exact
    u_t = (u(t + h, x) - u(t - h, x)) / (2 * h)
    u_x = (u(t, x + h) - u(t, x - h)) / (2 * h)
    u_xx = (u(t, x + h) - 2 * u(t, x) + u(t, x - h)) / h**2
    assert np.abs(u_t + u(t, x) * u_x - solve_burgers.VISCOSITY * u_xx).max() < 0.01 < np.abs(u_t).max()


def test_the_residual_of_a_known_function():
    """u = t x^2: u_t + u u_x - nu u_xx = x^2 + 2 t^2 x^3 - 2 nu t."""
    t = gradloom.tensor([[0.5], [1.0]], dtype=gradloom.float64)
    x = gradloom.tensor([[-1.0], [0.5]], dtype=gradloom.float64)
    found = solve_burgers.residual(lambda t, x: t * x**2, t, x).detach().numpy()
    t, x = t.detach().numpy(), x.detach().numpy()
    assert found == pytest.approx(x**2 + 2 * t**2 * x**3 - 2 * solve_burgers.VISCOSITY * t)


def test_the_forecaster_predicts_no_value_from_later_ones():
    net = forecast_series.Forecaster()
    x = gradloom.randn(1, 8, 1)
    changed = x.clone()
    changed[0, 5:] += 1
    before, after = (net(values)[0][0, :, 0].tolist() for values in (x, changed))
    assert before[:5] == after[:5] and before[5:] != after[5:]


def test_the_gpt_predicts_no_character_from_later_ones():
    net = write_code.GPT(10).eval()
    x = gradloom.arange(8).reshape(1, 8)
    changed = x.clone()
    changed[0, 5:] = 9
    difference = (net(x) - net(changed)).abs().amax(dim=2)[0]
    assert difference[:5].max().item() < 1e-5 < difference[5:].min().item()


def test_the_corpus_is_source_code():
    text = write_code.corpus()
    assert text.count("def ") > 1000 and text.isascii() and "    " not in text


@pytest.mark.parametrize("values", [[2.0], [1.0, 0.0], [3.0] * 50])
def test_any_losses_can_be_drawn(values):
    picture = pictures.Picture(200)
    picture.losses(20, 120, values)
    assert len(picture.image.getcolors(1 << 16)) > 3


def test_writing_replaces_a_file(tmp_path):
    path = output.write(tmp_path / "a", b"one")
    assert output.write(path, b"two").read_bytes() == b"two" and [p.name for p in tmp_path.iterdir()] == ["a"]


def test_an_example_is_loaded_by_its_file():
    assert training.load(Path(classify_members.__file__)).club()[1].shape == (2, 78)


def test_the_example_of_transformers_says_what_is_missing(tmp_path, monkeypatch, capsys):
    program = import_module("train_transformers")
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "transformers" else find(name))
    assert training.main(program, ["--quick", "--out", str(tmp_path)]) == 2
    assert "transformers is not installed; get it with: pip install transformers" in capsys.readouterr().err


@pytest.mark.skipif(importlib.util.find_spec("transformers") is None, reason="transformers is not installed")
def test_transformers_trains_with_gradloom(tmp_path):
    """In a process of its own, which has gradloom as torch."""
    command = [sys.executable, import_module("train_transformers").__file__, "--quick", "--out", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 0, done.stderr
    assert {path.name for path in tmp_path.iterdir()} == {"transformers.txt", "transformers.png"}
