"""Writes files.tar.xz and expected.json beside this script, with PyTorch 2.13.0:

    python tests/semantics/files_of_2_13/record.py

files.tar.xz has files of torch.save, in its formats, and of distributed.checkpoint. expected.json says what
PyTorch computed with what it saved.
"""

from __future__ import annotations

import io
import json
import sys
import tarfile
import tempfile
import warnings
from pathlib import Path
from typing import Any

import torch
import torch.distributed.checkpoint
from torch import nn

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from programs import DTYPES, MODULES, OPTIMIZERS, SCHEDULERS, STATES_ONLY, inputs, outputs, step  # noqa: E402


def main() -> None:
    assert torch.__version__.startswith("2.13.0"), torch.__version__
    files: dict[str, bytes] = {}
    expected: dict[str, Any] = {}
    for record in (tensors, formats, modules, optimizers, schedulers, others, checkpoint):
        torch.manual_seed(0)
        record(files, expected)
    with tarfile.open(HERE / "files.tar.xz", "w:xz", preset=9) as archive:
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    (HERE / "expected.json").write_text(json.dumps(expected, sort_keys=True) + "\n")
    print(len(files), "files,", (HERE / "files.tar.xz").stat().st_size, "bytes")


def saved(value: Any, **options: Any) -> bytes:
    file = io.BytesIO()
    torch.save(value, file, **options)
    return file.getvalue()


def tensors(files: dict[str, bytes], expected: dict[str, Any]) -> None:
    """Save tensors of all dtypes, views that share memory, parameters with attributes, and sparse tensors."""
    bits = torch.tensor([[1, 0, 3], [1, 1, 2]])
    files["dtypes.pt"] = saved({name: bits.to(getattr(torch, name)).t() for name in DTYPES})
    whole = torch.arange(12.0).view(3, 4)
    parameter = nn.Parameter(torch.tensor([1.0, 2.0]), requires_grad=False)
    parameter.scale = 3
    z = [1 + 2j, 3 - 4j]
    files["views.pt"] = saved(
        {
            "whole": whole,
            "column": whole[:, 1],
            "expanded": torch.ones(1).expand(5),
            "parameter": parameter,
            "buffer": nn.Buffer(torch.ones(2)),
            "leaf": torch.ones(2, requires_grad=True),
            "conjugate": torch.tensor(z).conj(),
            "negative": torch.tensor(z).conj().imag,
            "channels last": torch.arange(24.0).view(1, 2, 3, 4).contiguous(memory_format=torch.channels_last),
            "empty": torch.empty(0, 3),
            "meta": torch.empty(2, 3, device="meta"),
        }
    )
    dense = torch.tensor([[0.0, 1.0], [2.0, 0.0]])
    files["sparse.pt"] = saved({"coo": dense.to_sparse(), "coalesced": dense.to_sparse().coalesce()})
    files["values.pt"] = saved(
        [torch.Size([2, 3]), torch.float16, torch.device("cpu"), torch.strided, torch.get_rng_state()]
    )
    expected["draws"] = torch.rand(3).tolist()


def formats(files: dict[str, bytes], expected: dict[str, Any]) -> None:
    """Save one state dict in every format of torch.save."""
    state = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)).state_dict()
    files["format-zip.pt"] = saved(state)
    files["format-legacy.pt"] = saved(state, _use_new_zipfile_serialization=False)
    files["format-protocol-4.pt"] = saved(state, pickle_protocol=4)
    expected["formats"] = {name: value.tolist() for name, value in state.items()}


def modules(files: dict[str, bytes], expected: dict[str, Any]) -> None:
    """Save modules whole and their state dicts, with what they compute."""
    expected["modules"] = {}
    for name, make in MODULES.items():
        module = make(torch)
        if name != "parts":
            module(*inputs(torch, name))  # running statistics, and power iterations of spectral_norm
        module.eval()
        whole = {} if name in STATES_ONLY else {"whole": module}
        files[f"module-{name}.pt"] = saved({"state": module.state_dict(), **whole})
        expected["modules"][name] = outputs(torch, module, name)


def optimizers(files: dict[str, bytes], expected: dict[str, Any]) -> None:
    """Save optimizers' states after two steps, with the parameters after the third."""
    expected["optimizers"] = {}
    for name, options in OPTIMIZERS.items():
        parameter = nn.Parameter(torch.tensor([[1.0, -2.0], [0.5, 3.0]]))
        optimizer = getattr(torch.optim, name)([parameter], **options)
        step(optimizer, parameter)
        step(optimizer, parameter)
        values = {"parameter": parameter.detach(), "state": optimizer.state_dict(), "whole": optimizer}
        files[f"optimizer-{name}.pt"] = saved(values)
        step(optimizer, parameter)
        expected["optimizers"][name] = parameter.tolist()


def schedulers(files: dict[str, bytes], expected: dict[str, Any]) -> None:
    """Save schedules' states after three steps, with the rates of the next three."""
    expected["schedulers"] = {}
    for name, options in SCHEDULERS.items():
        optimizer = torch.optim.SGD([nn.Parameter(torch.ones(1))], lr=0.5, momentum=0.9)
        scheduler = getattr(torch.optim.lr_scheduler, name)(optimizer, **options)
        arguments = [1.0] if name == "ReduceLROnPlateau" else []
        rates = []
        for count in range(6):
            if count == 3:
                files[f"scheduler-{name}.pt"] = saved(
                    {"optimizer": optimizer.state_dict(), "scheduler": scheduler.state_dict()}
                )
            optimizer.step()
            scheduler.step(*arguments)
            rates.append(optimizer.param_groups[0]["lr"])
        expected["schedulers"][name] = rates[3:]


def others(files: dict[str, bytes], expected: dict[str, Any]) -> None:
    """Save states of a gradient scaler, of averaged weights, and distributions."""
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    scaler.scale(torch.ones(1))
    averaged = torch.optim.swa_utils.AveragedModel(nn.Linear(1, 1))
    averaged.update_parameters(nn.Linear(1, 1))
    averaged.update_parameters(nn.Linear(1, 1))
    files["others.pt"] = saved(
        {
            "scaler": scaler.state_dict(),
            "averaged": averaged.state_dict(),
            "normal": torch.distributions.Normal(torch.tensor(1.0), torch.tensor(2.0)),
            "packed": nn.utils.rnn.pack_sequence([torch.ones(3), torch.ones(2)]),
        }
    )
    expected["others"] = averaged(torch.ones(1)).tolist()


def checkpoint(files: dict[str, bytes], expected: dict[str, Any]) -> None:
    """Save a checkpoint of one process."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        state = {"weight": torch.arange(6.0).view(2, 3), "step": 7, "nested": {"bias": torch.ones(2)}}
        torch.distributed.checkpoint.save(state, checkpoint_id=folder, no_dist=True)
        for path in sorted(Path(folder).iterdir()):
            files[f"checkpoint/{path.name}"] = path.read_bytes()


if __name__ == "__main__":
    main()
