"""Files written by one library are read by the other."""

import io

import pytest
import torch

import gradloom

TYPES = [
    "bool",
    "uint8",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint16",
    "uint32",
    "uint64",
    "float16",
    "bfloat16",
    "float32",
    "float64",
    "complex64",
    "complex128",
]
WAYS = [(gradloom, torch), (torch, gradloom)]


def carried(writer, reader, value):
    buffer = io.BytesIO()
    writer.save(value, buffer)
    buffer.seek(0)
    return reader.load(buffer)


@pytest.mark.parametrize("writer, reader", WAYS, ids=["to PyTorch", "from PyTorch"])
@pytest.mark.parametrize("name", TYPES)
def test_every_dtype(writer, reader, name):
    found = carried(writer, reader, writer.tensor([[1, 0], [1, 1]]).to(getattr(writer, name)).t())
    assert found.dtype is getattr(reader, name) and found.stride() == (1, 2)
    assert found.to(reader.float64 if "complex" not in name else reader.complex128).tolist() == [[1, 1], [0, 1]]


@pytest.mark.parametrize("writer, reader", WAYS, ids=["to PyTorch", "from PyTorch"])
def test_the_state_of_a_network_and_its_optimizer(writer, reader):
    def build(library):
        module = library.nn.Sequential(
            library.nn.Conv2d(1, 2, 3), library.nn.BatchNorm2d(2), library.nn.Flatten(), library.nn.Linear(8, 1)
        )
        return module, library.optim.Adam(module.parameters(), lr=0.01)

    module, optimizer = build(writer)
    module(writer.ones(2, 1, 4, 4)).sum().backward()
    optimizer.step()
    state = carried(writer, reader, {"module": module.state_dict(), "optimizer": optimizer.state_dict()})
    other, its_optimizer = build(reader)
    other.load_state_dict(state["module"])
    its_optimizer.load_state_dict(state["optimizer"])
    module.eval()
    other.eval()
    ours, theirs = module(writer.ones(1, 1, 4, 4)).item(), other(reader.ones(1, 1, 4, 4)).item()
    assert ours == pytest.approx(theirs, rel=1e-6)


def test_pytorchs_lazy_conjugates_are_resolved():
    assert carried(torch, gradloom, torch.tensor([1 + 2j]).conj()).tolist() == [1 - 2j]
    assert carried(torch, gradloom, torch.tensor([1 + 2j]).conj().imag).tolist() == [-2.0]
