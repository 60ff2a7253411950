"""Checkpoints of several ranks: other numbers of ranks load them, and one that was not finished is not seen."""

from __future__ import annotations

import os
import signal

import numpy as np
import pytest

import gradloom as torch
import gradloom.distributed as dist
from gradloom.distributed import checkpoint as dcp
from gradloom.distributed.checkpoint._files import write_arrays
from gradloom.distributed.checkpoint.protocol import CheckpointableTensor
from gradloom.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from gradloom.distributed.device_mesh import init_device_mesh
from gradloom.distributed.fsdp import fully_shard
from gradloom.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from gradloom.nn.parallel import DistributedDataParallel
from tests.distributed import groups, ranks
from tests.distributed.test_ddp import batch, two_layers

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs fork and shared memory")


def trained(kind, width=7, steps=2):
    module = two_layers(width)
    module = fully_shard(module) if kind == "shards" else DistributedDataParallel(module) if kind == "ddp" else module
    optimizer = torch.optim.Adam(module.parameters(), lr=0.1)
    for number in range(steps):
        optimizer.zero_grad()
        module(batch(0, 3, number)).square().mean().backward()
        optimizer.step()
    return module, optimizer


def saves_parts(rank, size, folder):
    """Save what two dimensions of a mesh divide, one after the other along the same dimension of a tensor."""
    module = two_layers(10)
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    parallelize_module(module, mesh["tp"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
    fully_shard(module, mesh=mesh["dp"])
    dcp.save({"model": module.state_dict()}, checkpoint_id=folder)


def loads_parts(rank, size, folder):
    module = fully_shard(two_layers(10), mesh=init_device_mesh("cpu", (1, size), mesh_dim_names=("copies", "shards")))
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.zero_()
    state = {"model": module.state_dict()}
    dcp.load(state, checkpoint_id=folder)
    assert all(torch.equal(groups.whole(v), two_layers(10).state_dict()[k]) for k, v in module.state_dict().items())


def test_parts_of_one_mesh_load_into_those_of_another(tmp_path):
    groups.run(4, saves_parts, tmp_path / "save", tmp_path / "checkpoint")
    groups.run(3, loads_parts, tmp_path / "load", tmp_path / "checkpoint")
    plain = {"model": {key: torch.zeros_like(value) for key, value in two_layers(10).state_dict().items()}}
    dcp.load(plain, checkpoint_id=tmp_path / "checkpoint", no_dist=True)
    assert all(torch.equal(plain["model"][key], value) for key, value in two_layers(10).state_dict().items())


def parts_of(local, offsets, sizes, starts):
    local.global_shape, local.global_offsets, local.local_offsets, local.local_sizes = (4, 3), offsets, starts, sizes
    assert isinstance(local, CheckpointableTensor)
    return local


def test_a_local_tensor_may_hold_parts_of_a_larger_one(tmp_path):
    whole = torch.arange(12.0).view(4, 3)
    padded = torch.cat([whole[2:], torch.full((1, 3), -1.0), whole[:2]])  # with a row that is in no part
    dcp.save({"x": parts_of(padded, [(2, 0), (0, 0)], [(2, 3), (2, 3)], [(0, 0), (3, 0)])}, checkpoint_id=tmp_path)
    plain = {"x": torch.zeros(4, 3)}
    dcp.load(plain, checkpoint_id=tmp_path)
    assert torch.equal(plain["x"], whole)
    columns = parts_of(torch.full((4, 2), -1.0), [(1, 2)], [(3, 1)], [(1, 0)])
    dcp.load({"x": columns}, checkpoint_id=tmp_path)
    assert columns.tolist() == [[-1, -1], [5, -1], [8, -1], [11, -1]]
    with pytest.raises(dcp.CheckpointException, match="is not inside its tensor"):
        dcp.load({"x": parts_of(torch.zeros(2, 3), [(3, 0)], [(2, 3)], [(0, 0)])}, checkpoint_id=tmp_path)


def whole_state(module, optimizer):
    model, optim = get_state_dict(module, optimizer)
    flat = {f"model.{key}": groups.whole(value).numpy() for key, value in model.items()}
    for name, state in optim["state"].items():
        flat.update({f"{name}.{key}": groups.whole(value).numpy() for key, value in state.items()})
    return flat


def saves(rank, size, folder, kind):
    module, optimizer = trained(kind)
    model, optim = get_state_dict(module, optimizer)
    dcp.save({"model": model, "optim": optim, "step": 7, "list": [torch.ones(2), "text"]}, checkpoint_id=folder)
    return whole_state(module, optimizer)


def loads(rank, size, folder, kind):
    module, optimizer = trained(kind, steps=0)
    model, optim = get_state_dict(module, optimizer)
    found = {"model": model, "optim": optim, "step": 0, "list": [torch.zeros(2), ""]}
    dcp.load(found, checkpoint_id=folder)
    assert found["step"] == 7 and found["list"][1] == "text" and found["list"][0].tolist() == [1, 1]
    set_state_dict(module, optimizer, model_state_dict=found["model"], optim_state_dict=found["optim"])
    return whole_state(module, optimizer)


@pytest.mark.parametrize(
    "saving, loading", [(("shards", 3), ("shards", 2)), (("shards", 2), ("ddp", 3)), (("ddp", 2), ("shards", 4))]
)
def test_other_numbers_of_ranks_and_kinds_load(saving, loading, tmp_path):
    folder = tmp_path / "checkpoint"
    (saved, *_) = groups.run(saving[1], saves, tmp_path / "save", folder, saving[0])
    for loaded in groups.run(loading[1], loads, tmp_path / "load", folder, loading[0]):
        assert loaded.keys() == saved.keys()
        assert all(np.array_equal(loaded[key], value) for key, value in saved.items())
    assert not list(tmp_path.glob(".checkpoint*")), "nothing is left of drafts"


def test_the_files_are_safetensors(tmp_path):
    safetensors = pytest.importorskip("safetensors.numpy")
    state = {"a": torch.arange(6).view(2, 3), "b": {"c": torch.ones(2, dtype=torch.float16), "d": torch.tensor(True)}}
    writer = dcp.FileSystemWriter(tmp_path / "one", serialization_format="safetensors")
    dcp.save({**state, "e": torch.tensor([1 + 2j, 3], dtype=torch.complex128)}, storage_writer=writer)
    found = safetensors.load_file(tmp_path / "one" / "rank_0.safetensors")
    assert found["a"].tolist() == [[0, 1, 2], [3, 4, 5]] and found["b.c"].dtype == np.float16 and found["b.d"].item()
    target = {"e": torch.zeros(2, dtype=torch.complex128), "b": {"d": torch.tensor(False)}}
    dcp.load(target, checkpoint_id=tmp_path / "one")
    assert target["e"].tolist() == [1 + 2j, 3] and target["b"]["d"].item()


def test_modules_and_optimizers_stand_for_their_state(tmp_path):
    module, optimizer = trained("plain")
    dcp.save({"model": module, "optim": optimizer}, checkpoint_id=tmp_path / "one")
    other, another = trained("plain", steps=1)
    dcp.load({"model": other, "optim": another}, checkpoint_id=tmp_path / "one")
    assert all(torch.equal(a, b) for a, b in zip(module.parameters(), other.parameters(), strict=True))
    steps = [next(iter(one.state.values()))["step"] for one in (optimizer, another)]
    assert steps[0] == steps[1] == 2


@pytest.mark.parametrize("kind", ["torch_save", "safetensors"])
def test_errors_say_what_is_missing(tmp_path, kind):
    writer = dcp.FileSystemWriter(tmp_path / "one", serialization_format=kind)
    dcp.save({"a": torch.ones(2)}, storage_writer=writer)
    with pytest.raises(dcp.CheckpointException, match="Missing key in checkpoint state_dict: b"):
        dcp.load({"b": torch.ones(2)}, checkpoint_id=tmp_path / "one")
    with pytest.raises(dcp.CheckpointException, match=r"Size mismatch between saved \[2\] and current: \[3\] for a"):
        dcp.load({"a": torch.ones(3)}, checkpoint_id=tmp_path / "one")
    with pytest.raises(dcp.CheckpointException, match="not a complete checkpoint"):
        dcp.load({"a": torch.ones(2)}, checkpoint_id=tmp_path / "two")
    target = {"a": torch.zeros(2), "b": torch.zeros(1)}
    planner = dcp.DefaultLoadPlanner(allow_partial_load=True)
    dcp.load(target, checkpoint_id=tmp_path / "one", planner=planner)
    assert target["a"].tolist() == [1, 1]
    file = tmp_path / "one" / ("rank_0.safetensors" if kind == "safetensors" else "__0_0.distcp")
    file.write_bytes(file.read_bytes()[:-3])
    with pytest.raises(dcp.CheckpointException, match="not a whole safetensors file|its end, with a, is missing"):
        dcp.load({"a": torch.ones(2)}, checkpoint_id=tmp_path / "one")


OF_FORMER_VERSIONS = (
    '{"tensors": {"w": {"shape": [2], "dtype": "float32", "chunks": [[[0], [2], "rank_0.safetensors", "w"]]}}, '
    '"values": ["groups", "empty"], "world_size": 1}'
)


def test_checkpoints_of_former_versions_load(tmp_path):
    """They have lists of dictionaries, and empty dictionaries, under one key."""
    write_arrays(tmp_path / "rank_0.safetensors", {"w": np.array([1, 2], np.float32)})
    torch.save({"groups": [{"lr": 0.5}], "empty": {}}, tmp_path / "rank_0.values.pt")
    (tmp_path / "metadata.json").write_text(OF_FORMER_VERSIONS)
    target = {"w": torch.zeros(2), "groups": [{"lr": 0.0}], "empty": {}}
    dcp.load(target, checkpoint_id=tmp_path)
    assert target["w"].tolist() == [1, 2] and target["groups"] == [{"lr": 0.5}] and target["empty"] == {}


def killed_while_saving(rank, size, file, folder):
    dist.init_process_group("gloo", init_method=f"file://{file}", rank=rank, world_size=size)
    state = {"a": torch.full((300_000,), 1.0), "b": torch.full((300_000,), 1.0)}
    dcp.save(state, checkpoint_id=folder)
    if rank == 1:
        torch.save = lambda *arguments: os.kill(os.getpid(), signal.SIGKILL)
    state["a"] += 1
    with pytest.raises(dist.DistBackendError):
        dcp.save(state, checkpoint_id=folder)


def test_a_rank_that_is_killed_leaves_the_former_checkpoint(tmp_path):
    folder = tmp_path / "checkpoint"

    def call(rank, size, store):
        return killed_while_saving(rank, size, tmp_path / "rendezvous", folder)

    found = ranks.ended(2, call, tmp_path / "ranks")
    assert found[0].error is None and found[1].killed_by == signal.SIGKILL, found[0].error
    target = {"a": torch.zeros(300_000), "b": torch.zeros(300_000)}
    dcp.load(target, checkpoint_id=folder)
    assert target["a"].unique().tolist() == [1.0]
    dcp.save(target, checkpoint_id=folder)
    assert not list(tmp_path.glob(".checkpoint*")), "the next save removes what is left"


def saves_in_background(rank, size, folder):
    state = {"a": torch.ones(1000)}
    future = dcp.async_save(state, checkpoint_id=folder)
    state["a"] += 1  # the copy is saved
    dist.all_reduce(state["a"])
    future.result(timeout=300)
    return True


def test_saving_in_the_background(tmp_path):
    groups.run(2, saves_in_background, tmp_path / "ranks", tmp_path / "checkpoint")
    target = {"a": torch.zeros(1000)}
    dcp.load(target, checkpoint_id=tmp_path / "checkpoint")
    assert target["a"].unique().tolist() == [1.0]
