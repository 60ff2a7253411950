"""Training on several ranks gives what training alone gives on the same global batches, up to rounding."""

from __future__ import annotations

import os

import pytest

import gradloom as torch
from gradloom.distributed._sharding import full_tensor
from gradloom.distributed.fsdp import fully_shard
from gradloom.distributed.optim import ZeroRedundancyOptimizer
from gradloom.nn.parallel import DistributedDataParallel
from tests.distributed import groups
from tests.distributed.programs import PROGRAMS, assert_equal_up_to_rounding, train

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs fork and shared memory")


def with_ddp(rank, size, name, options):
    return train(PROGRAMS[name](), None, rank, size, lambda module: DistributedDataParallel(module, **options))


@pytest.mark.parametrize("size", [1, 2, 4])
@pytest.mark.parametrize("name", PROGRAMS)
def test_ddp_equals_training_alone(name, size, tmp_path):
    found = groups.run(size, with_ddp, tmp_path, name, {})
    assert_equal_up_to_rounding(PROGRAMS[name](), found)


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


@pytest.mark.parametrize("name, size", [("mlp", 2), ("gpt", 3), ("gpt", 2)])
def test_zero_equals_training_alone(name, size, tmp_path):
    found = groups.run(size, with_zero, tmp_path, name)
    if size == 3:  # not of the same batches: 8 examples are 3, 3 and 2
        alone = groups.run(size, with_ddp, tmp_path / "ddp", name, {})
        assert all((alone[0][1][key] == value).all() for key, value in found[0][1].items())
    else:
        assert_equal_up_to_rounding(PROGRAMS[name](), found)


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
        return {key: full_tensor(value) for key, value in module.state_dict().items()}

    return train(PROGRAMS[name](), None, rank, size, wrap, full=full)


@pytest.mark.parametrize("name, size, reshard", [("mlp", 2, None), ("convnet", 2, False), ("gpt", 4, True)])
def test_sharded_modules_equal_training_alone(name, size, reshard, tmp_path):
    found = groups.run(size, with_shards, tmp_path, name, reshard)
    assert_equal_up_to_rounding(PROGRAMS[name](), found)
