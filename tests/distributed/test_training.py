"""Training on several ranks gives what training alone gives on the same global batches, up to rounding."""

from __future__ import annotations

import os
from types import MappingProxyType

import pytest

import gradloom as torch
from gradloom.distributed.device_mesh import init_device_mesh
from gradloom.distributed.fsdp import fully_shard
from gradloom.distributed.optim import ZeroRedundancyOptimizer
from gradloom.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from gradloom.nn.parallel import DistributedDataParallel
from tests.distributed import groups
from tests.distributed.programs import PROGRAMS, assert_equal_up_to_rounding, train
from tests.samples import ALL

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs fork and shared memory")


def with_ddp(rank, size, name, options=MappingProxyType({})):
    return train(PROGRAMS[name](), None, rank, size, lambda module: DistributedDataParallel(module, **options))


@pytest.mark.parametrize(
    "options",
    [
        {"gradient_as_bucket_view": True, "bucket_cap_mb": 0.01},
        {"find_unused_parameters": True, "bucket_cap_mb": 0.01},
        {"static_graph": True, "broadcast_buffers": False},
    ],
)
def test_ddp_with_options_equals_training_alone(options, tmp_path):
    found = groups.run(2, with_ddp, tmp_path, "gpt", options)
    assert_equal_up_to_rounding(PROGRAMS["gpt"](), found)


def with_zero(rank, size, name):
    def optimizer(parameters, program):
        return ZeroRedundancyOptimizer(parameters, program.kind, **program.options)

    return train(PROGRAMS[name](), None, rank, size, DistributedDataParallel, optimizer)


def with_shards(rank, size, name, reshard):
    def wrap(module):
        for block in module.children():
            if isinstance(block, torch.nn.ModuleList):
                for one in block:
                    fully_shard(one, reshard_after_forward=reshard)
            elif any(True for _ in block.parameters()) and not isinstance(block, torch.nn.Embedding):
                if name != "gpt":
                    fully_shard(block, reshard_after_forward=reshard)
        return fully_shard(module, reshard_after_forward=reshard)

    def full(module):
        return {key: groups.whole(value) for key, value in module.state_dict().items()}

    return train(PROGRAMS[name](), None, rank, size, wrap, full=full)


# What the number of ranks changes, the smallest program shows; GRADLOOM_ALL_SAMPLES=1 trains all with each.
SIZES = {"mlp": (1, 2, 4), "convnet": (4,), "gpt": (2,)}


@pytest.mark.parametrize(("name", "size"), [(n, s) for n in PROGRAMS for s in ((1, 2, 4) if ALL else SIZES[n])])
def test_each_way_equals_training_alone(name, size, tmp_path):
    ways = (with_ddp,), (with_zero,), (with_shards, {"mlp": None, "convnet": False, "gpt": True}[name])
    for number, (way, *args) in enumerate(ways):
        found = groups.run(size, way, tmp_path / str(number), name, *args)
        assert_equal_up_to_rounding(PROGRAMS[name](), found)


def with_mesh(rank, size, name, dims):
    """Train with copies of the shards, or with tensor-parallel layers that are sharded again."""
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=dims)
    data, number, count = mesh, rank, size
    if dims[1] == "tp":
        data = mesh["dp"]
        number, count = data.get_local_rank(), data.size()

    def wrap(module):
        if dims[1] == "tp":
            plan = {"0": ColwiseParallel(), "2": RowwiseParallel()}
            parallelize_module(module, mesh["tp"], plan)
        for layer in (module[0], module[2]):
            fully_shard(layer, mesh=data)
        return fully_shard(module, mesh=data)

    def full(module):
        return {key: groups.whole(value) for key, value in module.state_dict().items()}

    return train(PROGRAMS[name](), None, number, count, wrap, full=full)


@pytest.mark.parametrize("dims", [("copies", "shards"), ("dp", "tp")])
def test_meshes_of_two_dimensions_equal_training_alone(dims, tmp_path):
    found = groups.run(4, with_mesh, tmp_path, "mlp", dims)
    assert_equal_up_to_rounding(PROGRAMS["mlp"](), found)


def test_zero_equals_ddp_on_uneven_parts(tmp_path):
    alone, found = (groups.run(3, way, tmp_path / way.__name__, "gpt") for way in (with_ddp, with_zero))
    assert all((alone[0][1][key] == value).all() for key, value in found[0][1].items())
