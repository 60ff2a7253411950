"""Write or read checkpoints of groups of 1, 2 and 4 ranks: `checkpoints.py save FOLDER`, `checkpoints.py load FOLDER`.

What one library has saved, the other loads, on each number of ranks. Beside each checkpoint is a file of `torch.save`
with all of its tensors as a whole, with which what was loaded is compared.
"""

import sys
from collections import OrderedDict
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.multiprocessing as mp
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

SIZES = (1, 2, 4)
DTYPES = (
    torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2, torch.int64,
    torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool, torch.complex64, torch.complex128,
)  # fmt: skip
VALUES = {
    "int": 7, "float": 0.1, "text": "grün", "bytes": b"\0\xff", "nothing": None, "yes": True, "tuple": (1, "a", (2.5,)),
    "numbers": [1, 2, 3], "lists": [[1], [2, [3]]], "empty list": [], "empty": {}, "ordered": OrderedDict(b=1, a=2),
    "nested": {"x": {"y.z": 1, "w": [{"lr": 0.5, "params": [0, 1]}, {"lr": 1.5, "params": []}]}}, 3: "by number",
}  # fmt: skip


def ramp(*shape, dtype=torch.float32):
    count = torch.Size(shape).numel()
    return (torch.arange(count, dtype=torch.float64) / 4 - 1).to(dtype).reshape(shape)


def plain():
    state = {str(dtype): ramp(5, 3, dtype=dtype) for dtype in DTYPES}
    state |= {"scalar": torch.tensor(2.5), "no rows": torch.zeros(0, 3), "no columns": torch.zeros(4, 0)}
    wide = ramp(6, 8)
    state |= {"columns": wide[:, 2:5], "turned": wide.t(), "steps": wide[::2, ::3], "one number": wide[1, 2]}
    state["conjugate"] = ramp(3, dtype=torch.complex64).mul(1j).conj()
    state["parameter"] = torch.nn.Parameter(ramp(2, 2))
    state["list"] = [ramp(2), {"inner": ramp(3), "n": 1}, [ramp(1), "text"]]
    return {"tensors": state, "values": VALUES}


def distributed(size):
    mesh = init_device_mesh("cpu", (size,))
    state = {
        "rows": distribute_tensor(ramp(7, 3), mesh, [Shard(0)]),
        "fewer rows than ranks": distribute_tensor(ramp(2, 3), mesh, [Shard(0)]),
        "columns": distribute_tensor(ramp(3, 6, dtype=torch.bfloat16), mesh, [Shard(1)]),
        "copies": distribute_tensor(ramp(4), mesh, [Replicate()]),
        "whole": ramp(2, 2),
    }
    if size == 4:
        square = init_device_mesh("cpu", (2, 2), mesh_dim_names=("a", "b"))
        state["blocks"] = distribute_tensor(ramp(5, 6), square, [Shard(0), Shard(1)])
        state["stripes"] = distribute_tensor(ramp(6, 5), square, [Replicate(), Shard(1)])
    else:
        state["blocks"] = distribute_tensor(ramp(5, 6), mesh, [Shard(1)])
        state["stripes"] = distribute_tensor(ramp(6, 5), mesh, [Shard(0)])
    return state


def trained(steps):
    """Return a model in shards and its optimizer, after some steps."""
    model = torch.nn.Sequential(torch.nn.Linear(3, 7), torch.nn.Tanh(), torch.nn.Linear(7, 2))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(ramp(*parameter.shape) / 8)
    for layer in (model[0], model[2]):
        fully_shard(layer)
    fully_shard(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    for _ in range(steps):
        optimizer.zero_grad()
        model(ramp(4, 3)).square().mean().backward()
        optimizer.step()
    return model, optimizer


def states(size, steps):
    model, optimizer = trained(steps)
    weights, of_optimizer = get_state_dict(model, optimizer)
    found = {"plain": plain(), "distributed": distributed(size), "shards": {"model": weights, "optim": of_optimizer}}
    return found, (model, optimizer)


def leaves(value, key=""):
    """Yield all tensors, as a whole, and other values of nested containers, by key."""
    if isinstance(value, dict) or (isinstance(value, list) and value):
        for place, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(inner, f"{key}/{place}")
    elif isinstance(value, torch.Tensor):
        yield key, (value.full_tensor() if isinstance(value, DTensor) else value).detach().clone()
    else:
        yield key, value


def clear(value):
    """Replace everything by zeros and Nones, in place, so that only loading brings it back."""
    for place, inner in list(value.items()) if isinstance(value, dict) else list(enumerate(value)):
        if isinstance(inner, (dict, list)) and any(isinstance(one, (dict, list, torch.Tensor)) for one in (
            inner.values() if isinstance(inner, dict) else inner)):  # fmt: skip
            clear(inner)
        elif isinstance(inner, torch.Tensor):
            if inner._is_view() and inner.is_conj():
                value[place] = torch.zeros_like(inner.resolve_conj())
            else:
                with torch.no_grad():
                    (inner.to_local() if isinstance(inner, DTensor) else inner).zero_()
        elif not isinstance(inner, dict):
            value[place] = None


def bits(tensor):
    tensor = tensor.resolve_conj().contiguous()
    return tensor.dtype, tuple(tensor.shape), tensor.reshape(-1).view(torch.uint8).tolist()


def differences(found, expected):
    if found.keys() != expected.keys():
        yield f"keys: {sorted(found.keys() ^ expected.keys())}"
    for key, value in expected.items():
        got = found.get(key)
        is_tensor = isinstance(value, torch.Tensor)
        if is_tensor != isinstance(got, torch.Tensor) or (bits(got) != bits(value) if is_tensor else got != value):
            yield f"{key}: {got} instead of {value}"


def save(size, folder):
    for name, state in states(size, 2)[0].items():
        whole = dict(leaves(state))
        dcp.save(state, checkpoint_id=folder / f"{name}-{size}")
        if dist.get_rank() == 0:
            torch.save(whole, folder / f"{name}-{size}.pt")


def load(size, folder):
    for of_size in SIZES:
        found, (model, optimizer) = states(size, 1)
        for name, state in found.items():
            expected = torch.load(folder / f"{name}-{of_size}.pt")
            clear(state)
            dcp.load(state, checkpoint_id=folder / f"{name}-{of_size}")
            wrong = list(differences(dict(leaves(state)), expected))
            assert not wrong, f"{name} of {of_size} ranks on {size}: {wrong[:5]}"
        state = found["shards"]
        set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optim"])
        optimizer.step()


def ranks(rank, size, mode, folder):
    torch.set_num_threads(1)
    path = Path(folder) / f"rendezvous-{mode}-{size}"
    dist.init_process_group("gloo", f"file://{path}", timedelta(seconds=200), world_size=size, rank=rank)
    {"save": save, "load": load}[mode](size, Path(folder))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    for number in SIZES:
        mp.start_processes(ranks, (number, *sys.argv[1:]), nprocs=number, start_method="fork")
    print("done")
