"""Training on several ranks gives what training alone gives on the same global batches, up to rounding."""

from __future__ import annotations

import os

import pytest

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
