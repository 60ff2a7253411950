"""gradloom.hub with local folders and files, and gradloom.quasirandom."""

from __future__ import annotations

import hashlib
import zipfile

import numpy as np
import pytest

import gradloom as gl
from gradloom import hub
from gradloom.quasirandom import SobolEngine

HUBCONF = '''
dependencies = ["numpy"]
from gradloom import nn
from beside import WIDTH

def net(width=WIDTH, *, bias=True):
    """A linear layer."""
    return nn.Linear(width, 1, bias=bias)

def _hidden():
    pass
'''


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(hub._Settings, "directory", str(tmp_path / "hub"))
    repository = tmp_path / "hub" / "someone_nets_main"
    repository.mkdir(parents=True)
    (repository / "hubconf.py").write_text(HUBCONF)
    (repository / "beside.py").write_text("WIDTH = 3\n")
    return repository


def test_models_of_a_local_folder(folder):
    assert hub.load(str(folder), "net", source="local", bias=False).bias is None
    assert hub.load(str(folder), "net", 5, source="LOCAL").in_features == 5
    with pytest.raises(RuntimeError, match="Cannot find callable missing in hubconf"):
        hub.load(str(folder), "missing", source="local")
    with pytest.raises(ValueError, match='Unknown source: "disk"'):
        hub.load(str(folder), "net", source="disk")
    (folder / "hubconf.py").write_text("dependencies = ['no_such_package']\ndef net(): pass\n")
    with pytest.raises(RuntimeError, match="Missing dependencies: no_such_package"):
        hub.load(str(folder), "net", source="local")


def test_models_of_a_downloaded_repository(folder, capsys, monkeypatch):
    assert hub.list("someone/nets:main", trust_repo=True) == ["net"]
    assert hub.help("someone/nets:main", "net") == "A linear layer."
    assert hub.load("someone/nets:main", "net").in_features == 3
    assert "Using cache found in" in capsys.readouterr().err
    monkeypatch.setattr("builtins.input", lambda question: "n")
    with pytest.raises(Exception, match="Untrusted repository"):
        hub.load("other/nets:main", "net")
    with pytest.raises(Exception, match="Untrusted repository"):
        hub.load("someone/nets:main", "net", trust_repo=False)


def test_archives_cannot_write_elsewhere(tmp_path):
    with zipfile.ZipFile(tmp_path / "bad.zip", "w") as archive:
        archive.writestr("../outside.txt", "x")
    with zipfile.ZipFile(tmp_path / "bad.zip") as archive, pytest.raises(ValueError, match="escapes target directory"):
        hub._extract(archive, tmp_path / "inside")


def test_state_dicts_are_downloaded_once_and_checked(folder, tmp_path, capsys):
    path = tmp_path / "net.pth"
    gl.save({"weight": gl.ones(2)}, path)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    named = path.rename(tmp_path / f"net-{digest[:8]}.pth")
    for _ in range(2):
        state = hub.load_state_dict_from_url(named.as_uri(), check_hash=True, progress=False, weights_only=True)
        assert state["weight"].tolist() == [1.0, 1.0]
    assert capsys.readouterr().out.count("Downloading") == 1
    with pytest.raises(RuntimeError, match='invalid hash value \\(expected "00000000"'):
        hub.download_url_to_file(named.as_uri(), str(tmp_path / "copy"), "00000000", progress=False)
    assert not (tmp_path / "copy").exists() and not list(tmp_path.glob("*.partial"))


def test_sobol_points_are_those_of_scipy():
    qmc = pytest.importorskip("scipy.stats.qmc")
    expected = qmc.Sobol(7, scramble=False).random(16)
    engine = SobolEngine(7)
    assert np.array_equal(engine.draw(5, dtype=gl.float64).numpy(), expected[:5])
    assert engine.num_generated == 5
    assert np.array_equal(engine.fast_forward(3).draw(2, dtype=gl.float64).numpy(), expected[8:10])
    assert np.array_equal(engine.reset().draw_base2(4, dtype=gl.float64).numpy(), expected)


def test_scrambled_sobol_points_are_balanced_and_depend_on_the_seed():
    engine = SobolEngine(3, scramble=True, seed=1)
    points = engine.draw_base2(5)
    for column in points.T:  # one point in each of 32 intervals
        assert sorted((column * 32).long().tolist()) == list(range(32))
    assert gl.equal(SobolEngine(3, scramble=True, seed=1).draw(32), points)
    assert not gl.equal(SobolEngine(3, scramble=True, seed=2).draw(32), points)
    assert repr(engine) == "SobolEngine(dimension=3, scramble=True, seed=1)"


def test_sobol_errors():
    with pytest.raises(ValueError, match=r"Supported range of dimensionality for SobolEngine is \[1, 21201\]"):
        SobolEngine(0)
    engine = SobolEngine(2)
    engine.draw(3)
    with pytest.raises(ValueError, match=r"n=3\+2\*\*2=7"):
        engine.draw_base2(2)
