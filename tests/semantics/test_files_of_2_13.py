"""Files that PyTorch 2.13.0 wrote (files_of_2_13/record.py) are read by later releases and by gradloom."""

from __future__ import annotations

import functools
import importlib
import io
import json
import pickle
import tarfile
import warnings
from pathlib import Path

import pytest

from tests.semantics.files_of_2_13 import programs

FOLDER = Path(__file__).parent / "files_of_2_13"
EXPECTED = json.loads((FOLDER / "expected.json").read_text())


@functools.cache
def files() -> dict[str, bytes]:
    with tarfile.open(FOLDER / "files.tar.xz") as archive:
        return {entry.name: archive.extractfile(entry).read() for entry in archive.getmembers()}


def loaded(torch, name, **options):
    return torch.load(io.BytesIO(files()[name]), **options)


def test_tensors_of_every_dtype(torch):
    expected = torch.tensor([[1, 0, 3], [1, 1, 2]]).t()
    for name, value in loaded(torch, "dtypes.pt").items():
        assert value.dtype is getattr(torch, name) and value.stride() == (1, 3)
        assert value.to(torch.complex128).tolist() == expected.to(value.dtype).to(torch.complex128).tolist()


def test_views_share_memory_and_parameters_keep_their_attributes(torch):
    found = loaded(torch, "views.pt")
    found["whole"][0, 1] = 70
    assert found["column"].tolist() == [70, 5, 9] and found["column"].stride() == (4,)
    assert found["expanded"].stride() == (0,) and found["expanded"].tolist() == [1] * 5
    parameter = found["parameter"]
    assert type(parameter) is torch.nn.Parameter and parameter.scale == 3 and not parameter.requires_grad
    assert isinstance(found["buffer"], torch.nn.Buffer) and found["leaf"].requires_grad
    assert found["conjugate"].is_conj() and found["conjugate"].tolist() == [1 - 2j, 3 + 4j]
    assert found["negative"].is_neg() and found["negative"].tolist() == [-2, 4]
    assert found["channels last"].is_contiguous(memory_format=torch.channels_last)
    assert found["channels last"].flatten().tolist() == list(range(24))
    assert found["empty"].shape == (0, 3) and found["meta"].is_meta and found["meta"].shape == (2, 3)


def test_sparse_tensors(torch):
    found = loaded(torch, "sparse.pt")
    assert found["coo"].to_dense().tolist() == found["coalesced"].to_dense().tolist() == [[0, 1], [2, 0]]
    assert found["coalesced"].is_coalesced()


def test_other_values_and_the_state_of_the_random_numbers(torch):
    *values, state = loaded(torch, "values.pt")
    assert values == [torch.Size([2, 3]), torch.float16, torch.device("cpu"), torch.strided]
    before = torch.get_rng_state()
    torch.set_rng_state(state)
    assert torch.rand(3).tolist() == EXPECTED["draws"]
    torch.set_rng_state(before)


@pytest.mark.parametrize("name", ["format-zip.pt", "format-legacy.pt", "format-protocol-4.pt"])
def test_formats(torch, name, tmp_path):
    (tmp_path / name).write_bytes(files()[name])
    whole = {"weights_only": False}
    ways = {"format-zip.pt": ({}, whole, {"mmap": True}), "format-legacy.pt": ({}, whole)}
    for options in ways.get(name, (whole,)):
        found = torch.load(tmp_path / name, **options)
        assert {key: value.tolist() for key, value in found.items()} == EXPECTED["formats"]
        assert found._metadata["1"] == {"version": 2}


@pytest.mark.filterwarnings("ignore:`torch.nn.utils.weight_norm` is deprecated:FutureWarning")
@pytest.mark.parametrize("name", programs.MODULES)
def test_modules(torch, name):
    states = {} if name in programs.STATES_ONLY else loaded(torch, f"module-{name}.pt", weights_only=False)
    state = states.get("state") or loaded(torch, f"module-{name}.pt")["state"]
    made = programs.MODULES[name](torch)
    made.load_state_dict(state)
    for module in (made.eval(), *([states["whole"]] if states else [])):
        found = torch.tensor(programs.outputs(torch, module, name))
        torch.testing.assert_close(found, torch.tensor(EXPECTED["modules"][name]))
        assert list(module.state_dict()) == list(state) and module.state_dict()._metadata == state._metadata


@pytest.mark.parametrize("name", programs.OPTIMIZERS)
def test_optimizers_go_on(torch, name):
    saved, whole = (loaded(torch, f"optimizer-{name}.pt", weights_only=False) for _ in range(2))
    parameter = torch.nn.Parameter(saved["parameter"])
    made = getattr(torch.optim, name)([parameter])
    made.load_state_dict(saved["state"])
    going_on = [(made, parameter)]
    if name != "LBFGS":  # which no release of PyTorch can use again
        going_on += [(whole["whole"], *whole["whole"].param_groups[0]["params"])]
    for optimizer, updated in going_on:
        programs.step(optimizer, updated)
        torch.testing.assert_close(updated.detach(), torch.tensor(EXPECTED["optimizers"][name]))
    assert pickle.loads(pickle.dumps(made.state_dict())).keys() == saved["state"].keys()


@pytest.mark.parametrize("name", programs.SCHEDULERS)
def test_schedules_go_on(torch, name):
    saved = loaded(torch, f"scheduler-{name}.pt")
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.5, momentum=0.9)
    scheduler = getattr(torch.optim.lr_scheduler, name)(optimizer, **programs.SCHEDULERS[name])
    optimizer.load_state_dict(saved["optimizer"])
    scheduler.load_state_dict(saved["scheduler"])
    for rate in EXPECTED["schedulers"][name]:
        optimizer.step()
        scheduler.step(*[1.0] * (name == "ReduceLROnPlateau"))
        assert optimizer.param_groups[0]["lr"] == pytest.approx(rate, rel=1e-12)


def test_scalers_averages_distributions_and_packed_sequences(torch):
    found = loaded(torch, "others.pt", weights_only=False)
    scaler = torch.amp.GradScaler("cpu")
    scaler.load_state_dict(found["scaler"])
    scaler.scale(torch.ones(1))
    assert scaler.get_scale() == 8
    averaged = torch.optim.swa_utils.AveragedModel(torch.nn.Linear(1, 1))
    averaged.load_state_dict(found["averaged"])
    assert averaged(torch.ones(1)).tolist() == pytest.approx(EXPECTED["others"], rel=1e-6)
    assert found["normal"].log_prob(torch.tensor(1.0)).item() == pytest.approx(-1.612086, rel=1e-6)
    assert found["packed"].batch_sizes.tolist() == [2, 2, 1]


def test_checkpoints_of_one_process(torch, tmp_path):
    for name in (".metadata", "__0_0.distcp"):
        (tmp_path / name).write_bytes(files()[f"checkpoint/{name}"])
    state = {"weight": torch.zeros(2, 3), "step": 0, "nested": {"bias": torch.zeros(2)}}
    checkpoint = importlib.import_module(f"{torch.__name__}.distributed.checkpoint")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        checkpoint.load(state, checkpoint_id=tmp_path, no_dist=True)
    assert state["weight"].tolist() == [[0, 1, 2], [3, 4, 5]] and state["step"] == 7
    assert state["nested"]["bias"].tolist() == [1, 1]
