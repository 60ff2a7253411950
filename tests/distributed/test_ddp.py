"""DistributedDataParallel: what it reduces and when, its options, hooks and errors."""

from __future__ import annotations

import copy
import os
import pickle

import numpy as np
import pytest

import gradloom as torch
import gradloom.distributed as dist
from gradloom import nn
from gradloom.distributed.algorithms.ddp_comm_hooks import (
    DDPCommHookType,
    default_hooks,
    powerSGD_hook,
    register_ddp_comm_hook,
)
from gradloom.distributed.algorithms.ddp_comm_hooks.ddp_zero_hook import hook_with_zero_step
from gradloom.distributed.optim import ZeroRedundancyOptimizer
from gradloom.nn.parallel import DistributedDataParallel
from gradloom.nn.parallel.distributed import _MixedPrecision
from gradloom.utils.checkpoint import checkpoint
from tests.distributed import groups

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs fork and shared memory")


def two_layers(width=6):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, width), nn.Tanh(), nn.Linear(width, 2))


def batch(rank, rows=3, number=0):
    return torch.from_numpy(np.random.default_rng((rank, number)).standard_normal((rows, 4)).astype(np.float32))


def gradients(module):
    return [None if p.grad is None else p.grad.numpy().copy() for p in module.parameters()]


def local_gradients(rank, rows=3):
    module = two_layers()
    module(batch(rank, rows)).square().mean().backward()
    return gradients(module)


def mean_of_ranks(size, rows=3):
    return [
        np.mean(parts, axis=0) for parts in zip(*(local_gradients(rank, rows) for rank in range(size)), strict=True)
    ]


def assert_close(found, expected, rtol=1e-5):
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=rtol, atol=rtol * np.abs(other).max())


def inside(call):
    """Run a test's function on two ranks; it asserts by itself."""

    def test(tmp_path):
        groups.run(2, call, tmp_path)

    test.__name__, test.__doc__ = call.__name__, call.__doc__
    return test


@inside
def test_gradients_are_the_mean_over_ranks(rank, size):
    module = two_layers()
    with torch.no_grad():
        module[0].weight += rank  # the parameters start as those of rank 0
    parallel = DistributedDataParallel(module)
    parallel(batch(rank)).square().mean().backward()
    assert_close(gradients(module), mean_of_ranks(size))


@inside
def test_gradients_may_be_the_memory_of_the_buckets(rank, size):
    parallel = DistributedDataParallel(two_layers(), gradient_as_bucket_view=True, bucket_cap_mb=1e-4)
    for _ in range(3):
        parallel.zero_grad(set_to_none=False)
        parallel(batch(rank)).square().mean().backward()
        assert_close(gradients(parallel), mean_of_ranks(size))
        views = dict(parallel.reducer.views())
        for number, parameter in enumerate(parallel.parameters()):
            assert np.shares_memory(parameter.grad.numpy(), views[number])


@inside
def test_buckets_follow_the_order_of_gradients(rank, size):
    class Crossed(nn.Module):
        def __init__(self):
            super().__init__()
            self.last, self.first = nn.Linear(600, 600), nn.Linear(600, 600)

        def forward(self, x):
            return self.last(self.first(x))

    parallel = DistributedDataParallel(Crossed(), bucket_cap_mb=1)
    assert [bucket.numbers for bucket in parallel.reducer.buckets] == [(3, 2), (1, 0)]
    parallel(torch.ones(2, 600)).sum().backward()
    assert parallel._get_ddp_logging_data()["has_rebuilt_buckets"]
    order = [number for bucket in parallel.reducer.buckets for number in bucket.numbers]
    assert set(order[:2]) == {0, 1}, "the last layer has its gradients first"


@inside
def test_a_small_module_is_one_bucket(rank, size):
    parallel = DistributedDataParallel(two_layers())
    assert len(parallel.reducer.buckets) == 1


@inside
def test_no_sync_accumulates_what_the_next_pass_reduces(rank, size):
    parallel = DistributedDataParallel(two_layers())
    with parallel.no_sync():
        parallel(batch(rank)).square().mean().backward()
    assert_close(gradients(parallel), local_gradients(rank))
    parallel(batch(rank)).square().mean().backward()
    assert_close(gradients(parallel), [2 * one for one in mean_of_ranks(size)])


@inside
def test_the_program_may_end_backward_passes(rank, size):
    parallel = DistributedDataParallel(two_layers())
    parallel.require_manual_backward_finalization = True
    with pytest.raises(RuntimeError, match="no backward pass whose gradients are all there"):
        parallel.finalize_backward()
    for _ in range(2):
        parallel(batch(rank)).square().mean().backward()
        assert_close(gradients(parallel), local_gradients(rank))
        parallel.finalize_backward()
        assert_close(gradients(parallel), mean_of_ranks(size))
        parallel.zero_grad()
    assert not parallel.should_finalize_after_backward, "buckets are rebuilt once"
    nodes = [torch.autograd.graph.get_gradient_edge(parameter).node for parameter in parallel.parameters()]
    for node in nodes:
        node.register_hook(lambda *grads: parallel.finalize_backward() if parallel.reducer.is_full else None)
    parallel(batch(rank)).square().mean().backward()
    assert_close(gradients(parallel), mean_of_ranks(size))
    parallel.require_manual_backward_finalization = False
    with pytest.raises(RuntimeError, match="is False"):
        parallel.finalize_backward()


@inside
def test_state_dict_has_a_prefix_and_copies_work(rank, size):
    parallel = DistributedDataParallel(two_layers())
    assert list(parallel.state_dict())[0] == "module.0.weight"
    for other in (copy.deepcopy(parallel), pickle.loads(pickle.dumps(parallel))):
        other(batch(rank)).square().mean().backward()
        assert_close(gradients(other), mean_of_ranks(size))


class Branches(nn.Module):
    """Uses the branch that it is told, of three; the third belongs to no call."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.branches = nn.ModuleList([nn.Linear(4, 1, bias=False) for _ in range(3)])

    def forward(self, x, which):
        return {"out": [self.branches[which](x)]}


@inside
def test_unused_parameters_are_named_by_index(rank, size):
    parallel = DistributedDataParallel(Branches())
    parallel(batch(rank), 1)["out"][0].sum().backward()
    with pytest.raises(RuntimeError, match=r"Expected to have finished reduction(.|\n)*for rank \d: 0 2\n"):
        parallel(batch(rank), 1)


@inside
def test_unused_parameters_are_found(rank, size):
    parallel = DistributedDataParallel(Branches(), find_unused_parameters=True)
    for _ in range(2):
        parallel.zero_grad()
        parallel(batch(rank), rank)["out"][0].sum().backward()  # each rank uses another branch
        first, second, third = gradients(parallel)
        assert third is None, "no rank used it"
        np.testing.assert_allclose(first[0], batch(0).sum(0).numpy() / 2, rtol=1e-6)
        np.testing.assert_allclose(second[0], batch(1).sum(0).numpy() / 2, rtol=1e-6)


@inside
def test_a_static_graph_may_be_checkpointed_and_leave_parameters_out(rank, size):
    class Twice(Branches):
        def forward(self, x):
            def layer(x):
                return self.branches[0](x).expand(-1, 4)

            x = checkpoint(layer, x, use_reentrant=True)
            return checkpoint(layer, x, use_reentrant=True)

    def run(module, x):
        module(x.requires_grad_()).square().mean().backward()

    alone = [Twice() for _ in range(size)]
    for number, module in enumerate(alone):
        run(module, batch(number))
    expected = np.mean([gradients(module)[0] for module in alone], axis=0)
    parallel = DistributedDataParallel(Twice(), static_graph=True)
    for _ in range(3):
        parallel.zero_grad()
        run(parallel, batch(rank))
        assert_close(gradients(parallel)[:1], [expected])
        assert gradients(parallel)[2] is None


HOOKS = {
    "allreduce": (default_hooks.allreduce_hook, None, 1e-5),
    "fp16": (default_hooks.fp16_compress_hook, None, 2e-3),
    "bf16": (default_hooks.bf16_compress_hook, None, 2e-2),
    "fp16 wrapper": (default_hooks.fp16_compress_wrapper(default_hooks.allreduce_hook), None, 2e-3),
}


@inside
def test_communication_hooks_average(rank, size):
    for hook, state, rtol in HOOKS.values():
        for cap in (25, 1e-4):
            parallel = DistributedDataParallel(two_layers(600), bucket_cap_mb=cap)
            parallel.register_comm_hook(state, hook)
            alone = [two_layers(600) for _ in range(size)]
            for number, module in enumerate(alone):
                module(batch(number)).square().mean().backward()
            expected = [np.mean(parts, axis=0) for parts in zip(*map(gradients, alone), strict=True)]
            parallel(batch(rank)).square().mean().backward()
            assert_close(gradients(parallel), expected, rtol)
    for kind, hook in (
        (dist.BuiltinCommHookType.ALLREDUCE, "allreduce"),
        (dist.BuiltinCommHookType.FP16_COMPRESS, "fp16"),
    ):
        parallel = DistributedDataParallel(two_layers(600))
        parallel._register_builtin_comm_hook(kind)
        assert parallel._get_ddp_logging_data()["comm_hook"] == HOOKS[hook][0].__name__
        parallel(batch(rank)).square().mean().backward()
        assert_close(gradients(parallel), expected, HOOKS[hook][2])
    with pytest.raises(RuntimeError, match="can only be called once"):
        register_ddp_comm_hook(DDPCommHookType.ALLREDUCE, parallel)


@inside
def test_power_sgd_loses_nothing_for_good(rank, size):
    def total(state, count=6):
        torch.manual_seed(3)
        module = nn.Sequential(nn.Linear(4, 40), nn.Tanh(), nn.Linear(40, 30))
        parallel = DistributedDataParallel(module)
        if state is not None:
            parallel.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
        sums = 0
        for number in range(count):
            parallel.zero_grad()
            parallel(batch(rank, 8, number)).square().mean().backward()
            (bucket,) = parallel.reducer.buckets
            sums = sums + np.concatenate([p.grad.numpy().ravel() for p in bucket.parameters])
        return sums

    exact = total(None)
    full = powerSGD_hook.PowerSGDState(None, 30, start_powerSGD_iter=2, min_compression_rate=0.1)
    assert_close([total(full)], [exact], 1e-3)
    # Of rank 1, what the ranks left out on average is what the sums lack.
    rough = powerSGD_hook.PowerSGDState(None, 1, start_powerSGD_iter=2)
    found, error = total(rough), torch.from_numpy(rough.error_dict[0])
    dist.all_reduce(error)
    assert rough.compression_stats()[0] > 5
    assert np.abs(found - exact).max() > 1e-3 * np.abs(exact).max(), "it is an approximation"
    assert_close([found + error.numpy() / size], [exact], 1e-3)


@inside
def test_autocast_and_frozen_parameters(rank, size):
    module = two_layers()
    module[0].bias.requires_grad_(False)
    parallel = DistributedDataParallel(module)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        parallel(batch(rank)).float().square().mean().backward()
    expected = mean_of_ranks(size)
    assert module[0].bias.grad is None
    for found, one in zip(gradients(module), expected, strict=True):
        if found is not None:
            assert np.abs(found - one).max() < 0.05 * np.abs(one).max() + 0.05


@inside
def test_a_zero_optimizer_steps_in_the_backward_pass(rank, size):
    found = []
    for overlaps in (False, True):
        parallel = DistributedDataParallel(two_layers())
        optimizer = ZeroRedundancyOptimizer(parallel.parameters(), torch.optim.Adam, overlap_with_ddp=overlaps, lr=0.1)
        if overlaps:
            hook = hook_with_zero_step(default_hooks.allreduce_hook, parallel, optimizer)
            parallel.register_comm_hook(None, hook)
        for number in range(3):
            parallel.zero_grad()
            parallel(batch(rank, 3, number)).square().mean().backward()
            before = [p.detach().clone() for p in parallel.parameters()]
            optimizer.step()
            moved = any(not torch.equal(p, q) for p, q in zip(parallel.parameters(), before, strict=True))
            assert moved != overlaps
        found.append([p.detach().numpy() for p in parallel.parameters()])
    assert_close(*found)


@inside
def test_mixed_precision_computes_and_reduces_in_other_dtypes(rank, size):
    seen = []

    class Watched(nn.Linear):
        def forward(self, x):
            seen.append((x.dtype, self.weight.dtype))
            return super().forward(x)

    torch.manual_seed(0)
    module = nn.Sequential(Watched(4, 6), nn.Tanh(), nn.Linear(6, 4, bias=False))
    module[2].register_buffer("scale", torch.ones(1))
    module[2].weight = nn.Parameter(module[0].weight.detach().T.clone())
    expected = copy.deepcopy(module)
    for number in range(size):
        (expected(batch(number)).square().mean() / size).backward()
    dtypes = _MixedPrecision(torch.bfloat16, torch.float32, torch.float64)
    parallel = DistributedDataParallel(module, mixed_precision=dtypes)
    out = parallel(batch(rank))
    assert out.dtype == torch.bfloat16 and seen[-1] == (torch.bfloat16, torch.bfloat16)
    out.float().square().mean().backward()
    assert [p.dtype for p in parallel.parameters()] == [p.grad.dtype for p in parallel.parameters()]
    assert all(p.dtype == torch.float32 for p in parallel.parameters()) and module[2].scale.dtype == torch.float64
    assert_close(gradients(parallel), gradients(expected), 5e-2)
    reduced = DistributedDataParallel(
        copy.deepcopy(module), mixed_precision=_MixedPrecision(reduce_dtype=torch.bfloat16)
    )
    reduced.zero_grad()
    reduced(batch(rank)).square().mean().backward()
    for grad in gradients(reduced):
        np.testing.assert_array_equal(grad, torch.from_numpy(grad).bfloat16().float().numpy())
    assert_close(gradients(reduced), gradients(expected), 3e-2)


@inside
def test_it_reports_settings_times_and_errors(rank, size):
    parallel = DistributedDataParallel(Branches(), bucket_cap_mb=3)
    data = parallel._get_ddp_logging_data()
    assert (data["rank"], data["world_size"], data["bucket_cap_bytes"]) == (rank, size, 3 << 20)
    assert "forward_compute_time" not in data and "has_error" not in data
    with pytest.raises(ValueError, match="equal or greater than 1"):
        parallel._set_ddp_runtime_logging_sample_rate(0)
    numbers = []
    parallel(batch(rank), 0)["out"][0].sum().backward()
    with pytest.raises(RuntimeError, match="finished reduction"):
        parallel(batch(rank), 1)
    assert "finished reduction" in parallel._get_ddp_logging_data()["error"]
    parallel = DistributedDataParallel(two_layers())
    parallel._set_ddp_runtime_logging_sample_rate(4)
    for _ in range(14):
        parallel(batch(rank)).square().mean().backward()
        numbers.append(parallel._get_ddp_logging_data()["iteration"])
    assert numbers == [*range(10), 9, 9, 12, 12]
    data = parallel._get_ddp_logging_data()
    assert (
        data["prev_iteration_grad_ready_order_indices"].split(", ") == data["rebuilt_per_bucket_param_indices"].split()
    )
    assert data["forward_compute_time_start"] <= data["backward_compute_time_start"] <= data["backward_comm_time_start"]


@inside
def test_buffers_are_those_of_rank_0(rank, size):
    module = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
    parallel = DistributedDataParallel(module)
    for number in range(3):
        with torch.no_grad():
            module[1].running_mean.fill_(float(rank + 5))
        parallel(batch(rank, 8, number)).sum().backward()
    found = [None] * size
    start = module[1].running_mean.clone()
    parallel.require_forward_param_sync = True
    parallel._sync_buffers()
    dist.all_gather_object(found, module[1].running_mean.tolist())
    assert found[0] == found[1]
    assert rank or torch.equal(start, module[1].running_mean)


@inside
def test_sparse_gradients_are_added(rank, size):
    module = nn.Sequential(nn.Embedding(10, 2, sparse=True), nn.Linear(2, 1))
    parallel = DistributedDataParallel(module)
    parallel(torch.tensor([rank, 5])).sum().backward()
    grad = module[0].weight.grad.to_dense().numpy()
    row = module[1].weight.detach().numpy()[0]
    expected = np.zeros((10, 2), np.float32)
    expected[0] = expected[1] = row / 2
    expected[5] = row
    np.testing.assert_allclose(grad, expected, rtol=1e-6)


@inside
def test_ranks_with_fewer_inputs_join(rank, size):
    for by_initial_size in (True, False):
        parallel = DistributedDataParallel(two_layers(), bucket_cap_mb=1e-4)
        optimizer = torch.optim.SGD(parallel.parameters(), lr=0.1)
        with parallel.join(divide_by_initial_world_size=by_initial_size):
            for number in range(2 + 2 * rank):
                optimizer.zero_grad()
                parallel(batch(rank, 3, number)).square().mean().backward()
                optimizer.step()
        alone = two_layers()
        optimizer = torch.optim.SGD(alone.parameters(), lr=0.1)
        for number in range(4):
            optimizer.zero_grad()
            active = [r for r in range(size) if number < 2 + 2 * r]
            loss = sum(alone(batch(r, 3, number)).square().mean() for r in active)
            (loss / (size if by_initial_size else len(active))).backward()
            optimizer.step()
        found = [p.detach().numpy() for p in parallel.parameters()]
        assert_close(found, [p.detach().numpy() for p in alone.parameters()])


@inside
def test_join_can_raise_on_all_ranks(rank, size):
    parallel = DistributedDataParallel(two_layers())
    with pytest.raises(RuntimeError, match="exhausted all inputs" if not rank else "at least one rank that exhausted"):
        with parallel.join(throw_on_early_termination=True):
            for number in range(2 + rank):
                parallel(batch(rank, 3, number)).square().mean().backward()


@inside
def test_wrong_options_are_refused(rank, size):
    with pytest.raises(RuntimeError, match="doesn't have any parameter that requires a gradient"):
        DistributedDataParallel(nn.ReLU())
    with pytest.raises(ValueError, match="device_ids and output_device arguments only work"):
        DistributedDataParallel(two_layers(), device_ids=[0])
    with pytest.raises(TypeError, match="must be callable"):
        DistributedDataParallel(two_layers()).register_comm_hook(None, 3)


@inside
def test_sync_batchnorm_normalises_over_all_batches(rank, size):
    rows = [3, 5]
    parts = [batch(r, rows[r]).double().reshape(rows[r], 2, 2) for r in range(size)]
    sync, plain = nn.SyncBatchNorm(2).double(), nn.BatchNorm1d(2).double()
    weight = torch.tensor([2.0, 3.0]).double()
    x, whole = parts[rank].clone().requires_grad_(), torch.cat(parts).requires_grad_()
    for module in (sync, plain):
        with torch.no_grad():
            module.weight.copy_(weight)
    factors = torch.linspace(1, 2, whole.numel()).double().view(whole.shape)
    start = sum(rows[:rank])
    out, expected = sync(x), plain(whole)
    torch.testing.assert_close(out, expected[start : start + rows[rank]])
    (out * factors[start : start + rows[rank]]).sum().backward()
    (expected * factors).sum().backward()
    torch.testing.assert_close(x.grad, whole.grad[start : start + rows[rank]])
    dist.all_reduce(sync.weight.grad)
    dist.all_reduce(sync.bias.grad)
    torch.testing.assert_close(sync.weight.grad, plain.weight.grad)
    torch.testing.assert_close(sync.bias.grad, plain.bias.grad)
    torch.testing.assert_close(sync.running_mean, plain.running_mean)
    torch.testing.assert_close(sync.running_var, plain.running_var)
    torch.testing.assert_close(sync.eval()(x), plain.eval()(whole)[start : start + rows[rank]])


@inside
def test_a_sampler_asks_the_default_group(rank, size):
    assert list(torch.utils.data.DistributedSampler(range(6), shuffle=False)) == list(range(6))[rank::2]
