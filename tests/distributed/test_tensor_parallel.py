"""Models whose parameters are distributed tensors compute and train as those on one process."""

from __future__ import annotations

import copy
import io
import os
import warnings

import numpy as np
import pytest

import gradloom as torch
from gradloom.distributed.device_mesh import init_device_mesh
from gradloom.distributed.tensor import (
    DTensor,
    Partial,
    Replicate,
    Shard,
    distribute_module,
    distribute_tensor,
    linspace,
    logspace,
    rand,
    zeros,
)
from gradloom.distributed.tensor.experimental import implicit_replication, local_map
from gradloom.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    PrepareModuleOutput,
    RowwiseParallel,
    SequenceParallel,
    loss_parallel,
    parallelize_module,
)
from tests.distributed import groups

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs fork and shared memory")
nn, F = torch.nn, torch.nn.functional
VOCABULARY, WIDTH, HEADS = 10, 8, 2


class Block(nn.Module):
    """A block of a transformer."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.q, self.k, self.v, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.up, self.down = nn.Linear(WIDTH, 16), nn.Linear(16, WIDTH)

    def forward(self, x):
        batch, length, _ = x.shape
        y = self.norm(x)
        heads = [one(y).view(batch, length, -1, WIDTH // HEADS).transpose(1, 2) for one in (self.q, self.k, self.v)]
        y = F.scaled_dot_product_attention(*heads, is_causal=True).transpose(1, 2).reshape(batch, length, -1)
        x = x + self.out(y)
        return x + self.down(F.gelu(self.up(x)))


PLAN = {"[qkv]": ColwiseParallel(), "out": RowwiseParallel(), "up": ColwiseParallel(), "down": RowwiseParallel()}


def trained(model, steps, around):
    """Train with a clipped gradient, and return the losses."""
    optimizer, rng, losses = torch.optim.AdamW(model.parameters(), lr=0.01), np.random.default_rng(0), []
    for _ in range(steps):
        x = torch.from_numpy(rng.integers(0, VOCABULARY, (3, 5)))
        optimizer.zero_grad()
        with around():
            loss = F.cross_entropy(model(x[:, :-1]).flatten(0, 1), x[:, 1:].flatten())
            loss.backward()
        sharded = [p for p in model.parameters() if isinstance(p, DTensor)] or list(model.parameters())
        nn.utils.clip_grad_norm_(sharded, 0.5)
        optimizer.step()
        losses.append(loss.full_tensor().item() if isinstance(loss, DTensor) else loss.item())
    return losses


def mlp(rank, size):
    """Train as one process does; the loss is of scores whose classes are distributed."""
    torch.manual_seed(0)
    alone = nn.Sequential(nn.Embedding(VOCABULARY, WIDTH), nn.Linear(WIDTH, 16), nn.GELU(), nn.Linear(16, WIDTH))
    alone = nn.Sequential(*alone, nn.Linear(WIDTH, VOCABULARY)).double()
    model = copy.deepcopy(alone)
    mesh = init_device_mesh("cpu", (size,))
    plan = {
        "0": RowwiseParallel(input_layouts=Replicate()),
        "1": ColwiseParallel(),
        "3": RowwiseParallel(),
        "4": ColwiseParallel(use_local_output=False),
    }
    parallelize_module(model, mesh, plan)
    losses = trained(alone, 4, torch.enable_grad), trained(model, 4, loss_parallel)
    state = {name: value.full_tensor().numpy() for name, value in model.state_dict().items()}
    buffer = io.BytesIO()
    torch.save(model.state_dict(), buffer)
    buffer.seek(0)
    loaded = torch.load(buffer, weights_only=False)
    same = all(torch.equal(loaded[name].to_local(), value.to_local()) for name, value in model.state_dict().items())
    return losses, state, {name: value.numpy() for name, value in alone.state_dict().items()}, same


def test_a_model_in_parts_trains_as_on_one_process(found_by_ranks):
    for (alone, parts), state, expected, same in found_by_ranks["mlp"]:
        np.testing.assert_allclose(parts, alone, rtol=1e-9)  # float64, of sums in another order
        assert state.keys() == expected.keys() and same
        for name, value in state.items():
            np.testing.assert_allclose(value, expected[name], rtol=1e-6, atol=1e-9, err_msg=name)


def blocks(rank, size):
    """A transformer's block, whose heads and features are distributed; what it gives and its gradients."""
    torch.manual_seed(0)
    alone = Block().double()
    model, mesh = copy.deepcopy(alone), init_device_mesh("cpu", (size,))
    parallelize_module(model, mesh, PLAN)
    x = torch.randn(2, 3, WIDTH, dtype=torch.float64)
    outs = [one(x) for one in (alone, model)]
    for out in outs:
        out.square().sum().backward()
    gradients = [
        (p.grad.numpy(), (q.grad.full_tensor() if isinstance(q, DTensor) else q.grad).numpy())
        for p, q in zip(alone.parameters(), model.parameters(), strict=True)
    ]
    return [out.detach().numpy() for out in outs], gradients


def test_a_block_of_a_transformer_in_parts(found_by_ranks):
    for (expected, found), gradients in found_by_ranks["blocks"]:
        np.testing.assert_allclose(found, expected, rtol=1e-9)
        for one, other in gradients:
            np.testing.assert_allclose(other, one, rtol=1e-8, atol=1e-10)


def pieces(rank, size):
    """What does not need a job of its own: each line is a fact, in the order of the test below."""
    mesh, x = init_device_mesh("cpu", (size,), mesh_dim_names=("tp",)), torch.arange(20.0).view(5, 4)
    found = []
    part = distribute_tensor(x, mesh, [Shard(0)])
    found.append(part.to_local().tolist() == x[: 3 if rank == 0 else 5][3 * rank :].tolist())
    found.append(repr(part).startswith("DTensor(local_tensor=tensor([[") and "placements=(Shard(dim=0),)" in repr(part))
    found.append(part.redistribute(mesh, [Shard(1)]).to_local().tolist() == x[:, 2 * rank : 2 * rank + 2].tolist())
    terms = DTensor.from_local(torch.full((4,), rank + 1.0), mesh, [Partial()])
    found.append(terms.sum().item() == 12 and terms.redistribute(mesh, [Shard(0)]).to_local().tolist() == [3.0, 3.0])
    found.append(DTensor.from_local(torch.ones(1) * rank, mesh, run_check=True).to_local().item() == 0)
    w = torch.ones(2, 4, requires_grad=True)
    DTensor.from_local(w, mesh, [Shard(0)]).full_tensor().mul(3).sum().backward()
    found.append(w.grad.tolist() == [[3.0] * 4] * 2)
    torch.manual_seed(3)
    mine = rand(4, 4, device_mesh=mesh, placements=[Shard(1)]).full_tensor()
    torch.manual_seed(3)
    found.append(torch.equal(mine, torch.rand(4, 4)))
    line = linspace(0, torch.tensor(4.0), 5, device_mesh=mesh, placements=[Shard(0)])
    found.append(
        line.to_local().tolist() == [[0, 1, 2], [3, 4]][rank] and line.full_tensor().tolist() == [0, 1, 2, 3, 4]
    )
    powers = logspace(0, 2, 3, 2.0, device_mesh=mesh, placements=[Shard(0)])
    found.append(powers.to_local().tolist() == [[1, 2], [4]][rank])
    torch.manual_seed(4)
    dropped = F.dropout(zeros(4, 6, device_mesh=mesh, placements=[Shard(0)]) + 1).full_tensor()
    torch.manual_seed(4)
    found.append(torch.equal(dropped, F.dropout(torch.ones(4, 6))))
    double = local_map(lambda a: a * 2, out_placements=[Shard(0)], in_placements=([Shard(0)],), device_mesh=mesh)
    found.append(torch.equal(double(distribute_tensor(x[:4], mesh, [Shard(0)])).full_tensor(), 2 * x[:4]))
    with implicit_replication():
        found.append(torch.equal((part + x).full_tensor(), 2 * x))
    linear = distribute_module(nn.Linear(4, 4), mesh, input_fn=lambda module, args, mesh: args)
    found.append(all(p.placements == (Replicate(),) for p in linear.parameters()))
    reshaped = parallelize_module(
        nn.Identity(), mesh, PrepareModuleInput(input_layouts=Shard(0), desired_input_layouts=Replicate())
    )
    found.append(reshaped(torch.ones(2, 3)).shape == (4, 3))
    back = parallelize_module(
        nn.Identity(), mesh, PrepareModuleOutput(output_layouts=Replicate(), desired_output_layouts=Shard(0))
    )
    found.append(back(torch.ones(4, 3)).shape == (2, 3))
    normed = parallelize_module(nn.LayerNorm(8), mesh, SequenceParallel())(torch.ones(2, 2, 8))
    found.append(normed.placements == (Shard(1),) and normed.shape == (2, 4, 8))
    columns = parallelize_module(nn.Embedding(6, 4), mesh, ColwiseParallel(output_layouts=Replicate()))
    found.append(columns(torch.tensor([1, 5])).shape == (2, 4))
    return found


def test_pieces(found_by_ranks):
    for found in found_by_ranks["pieces"]:
        assert all(found), [number for number, one in enumerate(found) if not one]


def refusals(rank, size):
    mesh = init_device_mesh("cpu", (size,))
    part = distribute_tensor(torch.ones(4, 4), mesh, [Shard(0)])
    calls = [
        lambda: part + torch.ones(4, 4),
        lambda: part.redistribute(mesh, [Partial()]),
        lambda: distribute_tensor(torch.ones(4), mesh, [Shard(1)]),
        lambda: distribute_tensor(torch.ones(4), mesh, [Shard(0), Shard(0)]),
        lambda: distribute_tensor(part, mesh, [Replicate()]),
        lambda: distribute_tensor(torch.ones(4, requires_grad=True) * 2, mesh),
        lambda: part[1].add_(1),
        lambda: part.t_(),
        lambda: part.numpy(),
        lambda: parallelize_module(nn.Conv2d(1, 1, 1), mesh, ColwiseParallel()),
        lambda: zeros(4, device_mesh=mesh, placements=[Partial()]),
        lambda: distribute_tensor(torch.ones(2)),
    ]
    found = []
    for call in calls:
        try:
            call()
            found.append("no error")
        except Exception as error:
            found.append(f"{type(error).__name__}: {error}")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        parallelize_module(nn.Linear(2, 2), mesh, {"nothing": ColwiseParallel()})
    return [*found, str(caught[0].message)]


def all_of_them(rank, size):
    return {call.__name__: call(rank, size) for call in (mlp, blocks, pieces, refusals)}


@pytest.fixture(scope="module")
def found_by_ranks(tmp_path_factory):
    """What both ranks of one job found, by function."""
    found = groups.run(2, all_of_them, tmp_path_factory.mktemp("ranks"))
    return {name: [one[name] for one in found] for name in found[0]}


def test_what_does_not_fit_is_refused(found_by_ranks):
    texts = """got mixed torch.Tensor and DTensor|redistributing to Partial is for internal use only
        greater than tensor ndim
        `placements` must have the same length as|do you want to call `redistribute` instead?|found non-leaf tensor
        this view of a DTensor is a copy|cannot be changed in place|not supported for tensor subclasses
        ColwiseParallel currently only support nn.Linear and nn.Embedding!|leave Partial out
        No device mesh is currently active!|no submodule matching token 'nothing'"""
    expected = [text.strip() for line in texts.splitlines() for text in line.split("|")]
    for found in found_by_ranks["refusals"]:
        for text, part in zip(found, expected, strict=True):
            assert part in text, (part, text)
