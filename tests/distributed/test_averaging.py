"""Averages of parameters every few steps, and objects that ranks exchange so that all raise if one does."""

from __future__ import annotations

import os

import pytest

import gradloom as torch
from gradloom.distributed import collective_utils
from gradloom.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
from gradloom.distributed.optim import PostLocalSGDOptimizer
from tests.distributed import groups

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs fork and shared memory")


def said(call):
    try:
        return call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def fails_on_one(rank):
    if rank == 1:
        raise ValueError("nothing there")
    return "there"


def found_by_ranks(rank, size):
    parameter = torch.nn.Parameter(torch.tensor([float(rank), 3.0]))
    averager = PeriodicModelAverager(period=2, warmup_steps=1)
    optimizer = PostLocalSGDOptimizer(torch.optim.SGD([parameter], lr=1.0), averager)
    values = []
    for _ in range(4):
        optimizer.zero_grad()
        (parameter[0] * rank).backward()
        optimizer.step()
        values.append(parameter[0].item())
    again = PostLocalSGDOptimizer(torch.optim.SGD([parameter], lr=1.0), PeriodicModelAverager(2))
    again.load_state_dict(optimizer.state_dict())
    gathered = [
        said(lambda: collective_utils.all_gather(rank, "count")),
        said(lambda: collective_utils.all_gather(lambda: fails_on_one(rank))),
        said(lambda: collective_utils.all_gather(rank, f"stage {rank}")),
        said(lambda: collective_utils.broadcast(lambda: f"from {rank}", rank=1)),
        said(lambda: collective_utils.broadcast(lambda: fails_on_one(rank), rank=1, stage_name="read")),
        said(lambda: collective_utils.all_gather_object_enforce_type(None, [None] * size, [1, "a"][rank])),
    ]
    return values, again.averager.step, gathered


def test_ranks_average_and_exchange(tmp_path):
    found = groups.run(2, found_by_ranks, tmp_path)
    # Rank r's first element falls by r in each step; steps 1 and 3, after the first, end with the mean.
    assert [values for values, _, _ in found] == [[0.0, -0.5, -0.5, -1.5], [0.0, -0.5, -1.5, -1.5]]
    for rank, (_, step, gathered) in enumerate(found):
        assert step == 4
        stage = f"RuntimeError: Unexpected stage name received from rank {1 - rank}: stage {1 - rank}"
        assert gathered == [
            [0, 1],
            "RuntimeError: Rank 1 failed with exception: nothing there",
            stage,
            "from 1",
            "RuntimeError: Rank 1 failed: stage read: exception nothing there",
            "TypeError: Object type at index 1 is <class 'str'>, while first object type is <class 'int'>",
        ]
