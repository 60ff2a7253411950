"""fully_shard: what is where, when, and what is refused. tests/distributed/test_training.py compares trainings."""

from __future__ import annotations

import os

import numpy as np
import pytest

import gradloom as torch
import gradloom.distributed as dist
from gradloom import nn
from gradloom.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_optimizer_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
)
from gradloom.distributed.device_mesh import init_device_mesh
from gradloom.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from gradloom.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from gradloom.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from gradloom.utils.checkpoint import checkpoint
from tests.distributed.test_ddp import assert_close, batch, inside, mean_of_ranks, two_layers

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs fork and shared memory")


def sharded(**options):
    module = two_layers(7)
    for layer in (module[0], module[2]):
        fully_shard(layer, **options)
    return fully_shard(module, **options)


def whole_gradients(module):
    return [p.grad.full_tensor().numpy() for p in module.parameters()]


def expected_gradients(size):
    alone = [two_layers(7) for _ in range(size)]
    for rank, module in enumerate(alone):
        module(batch(rank)).square().mean().backward()
    return [np.mean(parts, axis=0) for parts in zip(*([p.grad.numpy() for p in m.parameters()] for m in alone))]  # noqa: B905


@inside
def test_parameters_are_shards_between_passes(rank, size):
    module = sharded()
    assert isinstance(module, FSDPModule) and isinstance(module, nn.Sequential)
    assert type(module[0]).__name__ == "FSDPLinear"
    weight = module[0].weight
    assert isinstance(weight, DTensor) and isinstance(weight, nn.Parameter) and weight.placements == (Shard(0),)
    assert weight.shape == (7, 4) and weight.to_local().shape == ([4, 3][rank], 4)
    assert torch.equal(weight.full_tensor(), two_layers(7)[0].weight)
    seen = []
    module[0].register_forward_hook(lambda layer, args, out: seen.append(tuple(layer.weight.shape)))
    module(batch(rank)).square().mean().backward()
    assert module[0].weight is weight and list(module.parameters())[0] is weight
    assert_close(whole_gradients(module), expected_gradients(size))
    module[0].unshard()
    assert module[0].weight.shape == (7, 4)
    module[0].reshard()
    assert module[0].weight is weight


@inside
def test_memory_of_gathered_parameters_is_given_back(rank, size):
    def resident():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    layer = fully_shard(nn.Linear(2000, 2000, bias=False), reshard_after_forward=True)
    layer.unshard()
    before = resident()
    layer.reshard()
    assert before - resident() > 12_000_000, "16 MB of parameters"


@inside
def test_gradients_accumulate_with_and_without_sync(rank, size):
    module = sharded()
    module.set_requires_gradient_sync(False)
    module(batch(rank)).square().mean().backward()
    assert all(p.grad is None for p in module.parameters())
    module.set_requires_gradient_sync(True)
    for count in (2, 3):
        module(batch(rank)).square().mean().backward()
        assert_close(whole_gradients(module), [count * one for one in expected_gradients(size)])


@inside
def test_the_program_may_end_backward_passes(rank, size):
    module = sharded()
    module.set_manual_backward_finalization(True)
    module.set_requires_gradient_sync(False)
    module(batch(rank)).square().mean().backward()
    module.set_requires_gradient_sync(True)
    module(batch(rank)).square().mean().backward()
    with pytest.raises(RuntimeError, match="after backward starts"):
        module.set_manual_backward_finalization(False)
    module.finalize_backward(async_op=True).wait()
    assert_close(whole_gradients(module), [2 * one for one in expected_gradients(size)])
    with pytest.raises(RuntimeError, match="must be called on the root"):
        module[0].set_manual_backward_finalization(False)
    module.set_manual_backward_finalization(False)
    module(batch(rank)).square().mean().backward()
    assert_close(whole_gradients(module), [3 * one for one in expected_gradients(size)])


@inside
def test_modules_are_gathered_ahead(rank, size):
    torch.manual_seed(0)
    module = nn.Sequential(*[nn.Linear(6, 6) for _ in range(4)])
    alone = nn.Sequential(*[nn.Linear(6, 6) for _ in range(4)])
    alone.load_state_dict(module.state_dict())
    for layer in module:
        fully_shard(layer)
    fully_shard(module)
    events = []

    def watch(number, group):
        former = group.start_gathering

        def call():
            if not group.is_gathered and group._work is None:
                events.append(("starts", number))
            former()

        group.start_gathering = call

    for number, layer in enumerate(module):
        for group in layer._fsdp_state.groups:
            watch(number, group)
        layer.register_forward_hook(lambda *_, number=number: events.append(("computed", number)))
    x = torch.from_numpy(np.random.default_rng(rank).standard_normal((3, 6)).astype(np.float32))

    def run():
        events.clear()
        module.zero_grad()
        module(x).square().mean().backward()
        ahead = [events.index(("starts", n)) < events.index(("computed", n - 1)) for n in (1, 2, 3)]
        order = [n for name, n in events if name == "starts"]
        return ahead, order

    run()
    ahead, order = run()  # now the order of the modules is known
    assert ahead == [True] * 3 and order[:4] == [0, 1, 2, 3]
    module[0].set_modules_to_forward_prefetch([module[1], module[2]])
    module[3].set_modules_to_backward_prefetch([module[2], module[1]])
    _, order = run()
    assert order[:3] == [0, 1, 2]
    last = len(order) - 1 - order[::-1].index(3)
    assert order[last : last + 3] == [3, 2, 1]
    for part in range(size):
        y = torch.from_numpy(np.random.default_rng(part).standard_normal((3, 6)).astype(np.float32))
        (alone(y).square().mean() / size).backward()
    assert_close(whole_gradients(module), [p.grad.numpy() for p in alone.parameters()])


@inside
def test_checkpointed_and_unused_parts(rank, size):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers, self.unused = two_layers(7), nn.Linear(3, 3)

        def forward(self, x):
            return checkpoint(self.layers, x, use_reentrant=False)

    model = Model()
    fully_shard(model.layers, reshard_after_forward=True)
    fully_shard(model.unused)
    fully_shard(model)
    for _ in range(2):
        model.zero_grad()
        model(batch(rank)).square().mean().backward()
        assert_close(whole_gradients(model.layers), expected_gradients(size))


@inside
def test_the_norm_for_clipping_is_that_of_whole_gradients(rank, size):
    module = sharded()
    module(batch(rank)).square().mean().backward()
    expected = expected_gradients(size)
    for order in (2.0, float("inf")):
        norm = nn.utils.get_total_norm([p.grad for p in module.parameters()], order)
        flat = np.concatenate([one.ravel() for one in expected])
        assert isinstance(norm, DTensor)
        np.testing.assert_allclose(norm.full_tensor().item(), np.linalg.norm(flat, order), rtol=1e-5)
    total = nn.utils.clip_grad_norm_(module.parameters(), 1e-3)
    assert_close(whole_gradients(module), [one * (1e-3 / total.full_tensor().item()) for one in expected], 1e-3)


@inside
def test_mixed_precision(rank, size):
    policy = MixedPrecisionPolicy(torch.bfloat16, torch.float32, torch.float32)
    module = fully_shard(two_layers(7), mp_policy=policy)
    seen = []
    module[0].register_forward_hook(lambda layer, args, out: seen.extend([layer.weight.dtype, out.dtype]))
    out = module(batch(rank))
    out.square().mean().backward()
    assert seen == [torch.bfloat16, torch.bfloat16] and out.dtype is torch.float32
    for parameter, one in zip(module.parameters(), expected_gradients(size), strict=True):
        assert parameter.dtype is torch.float32 and parameter.grad.dtype is torch.float32
        assert np.abs(parameter.grad.full_tensor().numpy() - one).max() < 0.1 * np.abs(one).max() + 0.05


@inside
def test_states_whole_and_in_shards(rank, size):
    module = sharded()
    optimizer = torch.optim.Adam(module.parameters(), lr=0.1)
    module(batch(rank)).square().mean().backward()
    optimizer.step()
    whole = StateDictOptions(full_state_dict=True)
    state, optim = (
        get_model_state_dict(module, options=whole),
        get_optimizer_state_dict(module, optimizer, options=whole),
    )
    assert state["0.weight"].shape == (7, 4) and optim["state"]["0.weight"]["exp_avg"].shape == (7, 4)
    other = sharded()
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.zero_()
    another = torch.optim.Adam(other.parameters(), lr=0.5)
    set_model_state_dict(other, state)
    set_optimizer_state_dict(other, another, optim)
    assert another.param_groups[0]["lr"] == 0.1
    for one, two in zip(module.parameters(), other.parameters(), strict=True):
        assert torch.equal(one, two) and torch.equal(optimizer.state[one]["exp_avg"], another.state[two]["exp_avg"])
    plain = two_layers(7)
    plain.load_state_dict(state)
    shards = get_model_state_dict(module)
    assert shards["0.weight"].to_local().shape == ([4, 3][rank], 4)
    assert torch.equal(shards["0.weight"].full_tensor(), plain[0].weight)
    first = get_model_state_dict(module, options=StateDictOptions(full_state_dict=True, cpu_offload=True))
    assert bool(first) == (rank == 0)


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(2.0))


@inside
def test_modules_on_the_meta_device_get_their_values_later(rank, size):
    """As programs load a checkpoint that no rank can hold twice: meta, to_empty, and DTensors that are assigned."""
    plain = two_layers(7)
    with torch.device("meta"):
        module = two_layers(7)
    for layer in (module[0], module[2]):
        fully_shard(layer)
    fully_shard(module)
    assert all(p.is_meta for p in module.parameters())
    with pytest.raises(RuntimeError, match="materialized from meta device"):
        module(batch(rank))
    own = module.state_dict()
    parts = {
        key: nn.Parameter(distribute_tensor(value, own[key].device_mesh, own[key].placements))
        for key, value in plain.state_dict().items()
    }
    module.load_state_dict(parts, assign=True)
    assert module[0].weight is parts["0.weight"]
    module(batch(rank)).square().mean().backward()
    assert_close(whole_gradients(module), expected_gradients(size))
    module.to_empty(device="cpu")
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.fill_(0.5)
    assert torch.equal(module[0].weight.full_tensor(), torch.full((7, 4), 0.5))
    module(batch(rank)).square().mean().backward()
    module.double()
    assert module[0].weight.dtype is module[0].weight.to_local().dtype is torch.float64


@inside
def test_another_dimension_is_divided(rank, size):
    layer = nn.Linear(4, 3)
    alone = nn.Linear(4, 3)
    torch.manual_seed(5)
    for one in (layer, alone):
        torch.manual_seed(5)
        one.reset_parameters()
    fully_shard(layer, shard_placement_fn=lambda parameter: Shard(1) if parameter.dim() == 2 else None)
    assert layer.weight.placements == (Shard(1),) and layer.weight.to_local().shape == (3, 2)
    x = batch(0)
    layer(x).square().mean().backward()
    alone(x).square().mean().backward()
    assert_close(whole_gradients(layer), [p.grad.numpy() for p in alone.parameters()])


@inside
def test_copies_and_tensor_parallel_parts(rank, size):
    """Over meshes of two dimensions, here of sizes 2 and 1, and 1 and 2; test_training.py has four ranks."""
    for shape, dims in (((2, 1), ("copies", "shards")), ((1, 2), ("copies", "shards"))):
        mesh = init_device_mesh("cpu", shape, mesh_dim_names=dims)
        module = fully_shard(two_layers(7), mesh=mesh)
        assert module[0].weight.placements == (Replicate(), Shard(0))
        module(batch(rank)).square().mean().backward()
        assert_close(whole_gradients(module), expected_gradients(size))
    mesh = init_device_mesh("cpu", (1, 2), mesh_dim_names=("dp", "tp"))
    module = two_layers(8)
    plan = {"0": ColwiseParallel(), "2": RowwiseParallel()}
    parallelize_module(module, mesh["tp"], plan)
    fully_shard(module, mesh=mesh["dp"])
    assert repr(module[0].weight.placements) == "(_StridedShard(dim=0, sf=2), Shard(dim=0))"
    assert torch.equal(module[0].weight.full_tensor(), two_layers(8)[0].weight)
    alone = two_layers(8)
    for one in (module, alone):
        one(batch(0)).square().mean().backward()
    assert_close(whole_gradients(module), [p.grad.numpy() for p in alone.parameters()])


@inside
def test_gradients_wait_for_the_copies(rank, size):
    mesh = init_device_mesh("cpu", (2, 1), mesh_dim_names=("copies", "shards"))
    module = fully_shard(two_layers(7), mesh=mesh)
    module.set_requires_all_reduce(False)
    for _ in range(2):
        module(batch(rank)).square().mean().backward()
        assert all(p.grad is None for p in module.parameters())
    module.set_requires_all_reduce(True)
    module(batch(rank)).square().mean().backward()
    assert_close(whole_gradients(module), [3 * one for one in expected_gradients(size)])


@inside
def test_what_is_not_there_is_refused(rank, size):
    with pytest.raises(ValueError, match="containers that do not implement forward"):
        fully_shard(nn.ModuleList([nn.Linear(1, 1)]))
    with pytest.raises(NotImplementedError, match="all ranks or not at all"):
        fully_shard(nn.Linear(1, 1), reshard_after_forward=2)
    with pytest.raises(NotImplementedError, match="uneven sharding on dim 1"):
        fully_shard(nn.Linear(3, 1, bias=False), shard_placement_fn=lambda parameter: Shard(1))
    with pytest.raises(ValueError, match="Change scale to a 1D tensor"):
        fully_shard(Scaled())
    layer = fully_shard(nn.Linear(2, 2))
    with pytest.raises(RuntimeError, match="already been applied"):
        fully_shard(layer)
    assert dist.get_world_size() == size and len(mean_of_ranks(1)) == 4
