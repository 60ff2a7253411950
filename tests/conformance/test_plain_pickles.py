"""Pickles outside of files, between processes in which `torch` is gradloom and, where it is installed, PyTorch."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import copy, pickle, sys
import torch

def objects():
    base = torch.arange(6.0).view(2, 3)
    marked = torch.ones(2)
    marked.note = "kept"
    return {
        "view": base.t(),
        "parameter": torch.nn.Parameter(base.clone(), requires_grad=False),
        "leaf": torch.ones(2, requires_grad=True),
        "half": torch.tensor([1.5, -2.0], dtype=torch.bfloat16),
        "conjugate": torch.tensor([1 + 2j]).conj(),
        "empty": torch.empty(0, 3),
        "meta": torch.empty(2, device="meta"),
        "sparse": torch.eye(2).to_sparse(),
        "marked": marked,
        "module": torch.nn.Linear(2, 2).state_dict(),
        "storage": torch.ones(2).storage(),
        "memory_format": torch.channels_last,
        "generator": torch.Generator().manual_seed(3),
        "layers": torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.LSTM(2, 2), torch.nn.MultiheadAttention(2, 1)),
        "data_parallel": torch.nn.DataParallel(torch.nn.Linear(2, 2)),
        "values": [torch.Size([2, 3]), torch.float32, torch.device("meta"), torch.strided],
        "named": torch.ones(2, 2).max(0),
        "functions": [torch.add, torch.Tensor.add, torch.linalg.norm, torch.cuda.is_available, torch._C._nn.gelu],
        "classes": [torch.Tensor, torch.nn.Linear, torch.optim.SGD, torch.LongTensor, torch.utils.data.DataLoader],
        "categorical": torch.distributions.Categorical(logits=base),
        "scaler": torch.amp.GradScaler("cpu"),
        "loader": torch.utils.data.DataLoader(torch.utils.data.TensorDataset(base), 2),
        **{name: trained(getattr(torch.optim, name)) for name in OPTIMIZERS},
    }

OPTIMIZERS = "SGD Adam AdamW Adamax Adagrad Adadelta RMSprop RAdam NAdam ASGD Rprop Adafactor".split()

def trained(kind):
    layer = torch.nn.Linear(2, 1)
    torch.nn.init.constant_(layer.weight, 0.5)
    torch.nn.init.constant_(layer.bias, 0.25)
    optimizer = kind(layer.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    step(layer, optimizer, scheduler)
    return layer, optimizer, scheduler

def step(layer, optimizer, scheduler):
    optimizer.zero_grad()
    layer(torch.ones(3, 2)).pow(2).sum().backward()
    optimizer.step()
    scheduler.step()
    rates = [round(group["lr"], 6) for group in optimizer.param_groups]
    weights = [round(value, 5) for value in layer.weight.flatten().tolist()]
    return f"{rates} {weights} {sorted(optimizer.param_groups[0])}"

def text(value):
    if isinstance(value, torch.Generator):
        return str(torch.rand(2, generator=value).tolist())
    if isinstance(value, dict):
        return str({name: part.shape for name, part in value.items()})
    if isinstance(value, torch.nn.Module):
        return f"{value} {sorted(value.state_dict())}"
    if isinstance(value, torch.distributions.Distribution):
        return str(value.log_prob(torch.tensor([0, 2]))) + str(value.expand((2, 2)).batch_shape)
    if isinstance(value, torch.amp.GradScaler):
        return f"{value.scale(torch.ones(1))} {value.state_dict()}"
    if isinstance(value, torch.utils.data.DataLoader):
        return str(list(value))
    if isinstance(value, tuple) and isinstance(value[0], torch.nn.Module):
        return step(*value)
    if isinstance(value, list):
        return str([getattr(part, "__name__", part) for part in value])
    details = [getattr(value, name, None) for name in ("stride", "requires_grad", "note", "is_conj")]
    return str(value) + str([detail() if callable(detail) else detail for detail in details])

if sys.argv[1] == "write":
    pickled = {name: pickle.dumps(value) for name, value in objects().items()}
    open(sys.argv[2], "wb").write(pickle.dumps(pickled))
else:
    pickled = pickle.loads(open(sys.argv[2], "rb").read())
    for name, expected in objects().items():
        found = pickle.loads(pickled[name])
        assert type(found).__name__ == type(expected).__name__, (name, type(found))
        assert text(found) == text(expected), (name, text(found), text(expected))
    shared = copy.copy(torch.zeros(2))
    print("read", len(pickled))
"""


def run(tmp_path, library: str, *arguments: str) -> str:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    start = [sys.executable, "-m", "gradloom", "run"] if library == "gradloom" else [sys.executable, "-W", "ignore"]
    done = subprocess.run([*start, str(program), *arguments], capture_output=True, text=True, timeout=120, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("writer", "reader"), [("gradloom", "gradloom"), ("gradloom", "PyTorch"), ("PyTorch", "gradloom")]
)
def test_pickles_go_from_one_library_to_the_other(tmp_path, writer, reader):
    if "PyTorch" in (writer, reader):
        pytest.importorskip("torch", reason="PyTorch is not installed")
    run(tmp_path, writer, "write", "objects.pkl")
    assert run(tmp_path, reader, "read", "objects.pkl") == "read 34\n"
