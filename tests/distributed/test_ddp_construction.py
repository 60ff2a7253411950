"""What DistributedDataParallel does when it is made: comparing models, sending buffers, filling buckets."""

from __future__ import annotations

import os
import re

import pytest

import gradloom as torch
from gradloom import nn
from gradloom.nn.parallel import DistributedDataParallel
from tests.distributed.test_ddp import inside

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs fork and shared memory")


class Different(nn.Module):
    """A module whose last parameter may differ among ranks."""

    def __init__(self, shape=(2, 2), dtype=torch.float32, requires_grad=True, more=()):
        super().__init__()
        self.first = nn.Sequential(nn.Linear(2, 2))
        self.last = nn.Parameter(torch.ones(shape, dtype=dtype), requires_grad=requires_grad)
        for number, sizes in enumerate(more):
            self.register_parameter(f"more{number}", nn.Parameter(torch.ones(sizes)))


# What rank 1 has, and what its error and that of the others say.
DIFFERENCES = {
    "shape": ({"shape": (3, 2)}, r"params\[0\] in this process with sizes \[3, 2\] appears not to match sizes",
              r"last \(shape \(2, 2\), float32\) on rank.* 0.*; last \(shape \(3, 2\), float32\) on rank 1\."),
    "as many elements": ({"shape": (1, 4)}, "appears not to match sizes", r"\(1, 4\), float32\) on rank 1"),
    "dtype": ({"dtype": torch.float64}, "with dtype float64 appears not to match dtype", "float64.* on rank 1"),
    "number": ({"more": [(2,)]}, "Rank 1 has 4 params, while rank 0 has inconsistent 3",
                r"first.0.weight .* on rank.* 0.*; more0 .* on rank 1"),
    "no gradient": ({"requires_grad": False}, "Rank 1 has 2 params that require a gradient, while rank 0 has incon.* 3",
                    r"last \(shape \(2, 2\), float32, requires no gradient\) on rank 1"),
}  # fmt: skip


@inside
def test_modules_that_differ_are_refused_on_all_ranks(rank, size):
    for kind, (options, own, both) in DIFFERENCES.items():
        module = Different(**options if rank == 1 else {})
        weight = module.first[0].weight.detach().clone()
        with pytest.raises(RuntimeError, match="differs: ") as raised:
            DistributedDataParallel(module)
        text = str(raised.value)
        assert re.search(both, text) and (rank != 1 or re.search(own, text)), f"{kind}: {text}"
        assert rank == 1 or re.search("process 1|rank 1 has inconsistent", text), f"{kind}: {text}"
        assert torch.equal(module.first[0].weight, weight), "nothing is sent before the check"
    if rank == 1:
        with pytest.raises(RuntimeError, match="DDP expects same model"):
            DistributedDataParallel(nn.ReLU())
    else:
        with pytest.raises(RuntimeError, match="while rank 1 has inconsistent 0"):
            DistributedDataParallel(nn.Linear(2, 2))


class Shifted(nn.Module):
    def __init__(self, rank):
        super().__init__()
        self.layer = nn.Linear(2, 2)
        self.register_buffer("shift", torch.full((2,), float(rank)))

    def forward(self, x):
        return self.layer(x) + self.shift


# Options, and whether rank 0's buffers are sent when the object is made, and in forward: as PyTorch does.
BUFFERS = [
    ({}, True, True),
    ({"broadcast_buffers": True}, True, True),
    ({"broadcast_buffers": False}, False, False),
    ({"forward_sync_buffers": True}, True, True),
    ({"forward_sync_buffers": False}, True, False),
    ({"broadcast_buffers": True, "forward_sync_buffers": False}, True, False),
    ({"broadcast_buffers": False, "forward_sync_buffers": True}, True, True),
    ({"broadcast_buffers": False, "forward_sync_buffers": False}, True, False),
    ({"init_sync": False}, False, True),
    ({"init_sync": False, "broadcast_buffers": False}, False, False),
]


@inside
def test_options_say_when_buffers_are_sent(rank, size):
    for options, at_first, in_forward in BUFFERS:
        module = Shifted(rank)
        weight = module.layer.weight.detach().clone()
        parallel = DistributedDataParallel(module, **options)
        assert module.shift.tolist() == [0.0 if at_first else rank] * 2, options
        assert torch.equal(module.layer.weight, weight) or (rank and options.get("init_sync", True))
        module.shift.fill_(5.0 + rank)
        parallel(torch.ones(1, 2))
        assert module.shift.tolist() == [5.0 if in_forward else 5.0 + rank] * 2, options


# MiB, and the bytes of each bucket of four layers of 360,000 bytes with biases of 1,200.
CAPS = [
    (None, "1083600, 361200"),
    (1e-4, "1200, 360000, 1200, 360000, 1200, 360000, 1200, 360000"),
    (0.01, "361200, 361200, 361200, 361200"),
    (0.5, "722400, 722400"),
    (1, "1083600, 361200"),
    (25, "1444800"),
]


@inside
def test_buckets_have_the_size_that_is_asked_for_in_every_step(rank, size):
    for options in ({}, {"static_graph": True}, {"find_unused_parameters": True}, {"gradient_as_bucket_view": True}):
        for cap, sizes in CAPS:
            module = nn.Sequential(*[nn.Linear(300, 300) for _ in range(4)])
            parallel = DistributedDataParallel(module, bucket_cap_mb=cap, **options)
            for _ in range(3):
                assert ", ".join(str(bucket.array.nbytes) for bucket in parallel.reducer.buckets) == sizes, (
                    cap,
                    options,
                )
                parallel(torch.ones(1, 300)).sum().backward()
    parallel = DistributedDataParallel(nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8)), bucket_cap_mb=1e-4)
    assert len(parallel.reducer.buckets) == 2, "also below the size of a first bucket"
