"""A part runs again under the conditions of its first run: its autocast, its random numbers; and how far, how often."""

import contextlib
from importlib import import_module

import pytest

BOTH = pytest.mark.parametrize("reentrant", [False, True], ids=["plain", "reentrant"])


@pytest.fixture
def cp(torch):
    return import_module(f"{torch.__name__}.utils.checkpoint")


@BOTH
def test_the_part_runs_again_with_the_autocast_that_it_ran_with(torch, cp, reentrant):
    seen = []

    def part(x):
        y = x @ x
        seen.append((y.dtype, torch.is_autocast_enabled("cpu"), torch.is_autocast_cache_enabled()))
        return y.float().sin()

    x = torch.full((2, 2), 0.5, requires_grad=True)
    with torch.autocast("cpu", dtype=torch.float16, cache_enabled=False):
        out = cp.checkpoint(part, x, use_reentrant=reentrant)
    out.sum().backward()
    assert seen == [(torch.float16, True, False)] * 2
    assert not torch.is_autocast_enabled("cpu")
    seen.clear()
    out = cp.checkpoint(part, x, use_reentrant=reentrant)
    with torch.autocast("cpu"):
        out.sum().backward()
        assert torch.is_autocast_enabled("cpu")
    assert seen == [(torch.float32, False, True)] * 2


@BOTH
def test_gradients_under_autocast_are_those_without_a_checkpoint(torch, cp, reentrant):
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
    x = torch.randn(5, 4, requires_grad=True)

    def gradients(run):
        net.zero_grad()
        x.grad = None
        with torch.autocast("cpu"):
            loss = torch.nn.functional.mse_loss(run(x), torch.zeros(5, 2))
        loss.backward()
        return [t.grad.tolist() for t in (x, *net.parameters())]

    assert gradients(lambda t: cp.checkpoint(net, t, use_reentrant=reentrant)) == gradients(net)


@BOTH
def test_random_numbers_are_other_ones_on_request(torch, cp, reentrant):
    torch.manual_seed(3)
    x = torch.ones(100, requires_grad=True)
    out = cp.checkpoint(
        lambda t: torch.nn.functional.dropout(t * 1, 0.5) * t, x, use_reentrant=reentrant, preserve_rng_state=False
    )
    out.sum().backward()
    assert x.grad.tolist() != (2 * out.detach()).tolist()


@pytest.mark.parametrize(
    ("inner", "outer", "expected"),
    [
        (True, True, "o0 i0 i1 o1 i0"),
        (True, False, "o0 i0 i1 o1 o2 i0"),
        (False, True, "o0 i0 i1 o1 i0 i1"),
        (False, False, "o0 i0 i1 o1 o2 i0 i1"),
    ],
)
def test_each_of_nested_checkpoints_stops_early_by_itself(torch, cp, inner, outer, expected):
    log = []

    def inside(x):
        log.append("i0")
        y = x.sin().exp()
        log.append("i1")
        return y + 1

    def outside(x):
        log.append("o0")
        y = cp.checkpoint(inside, x, use_reentrant=False, early_stop=inner)
        log.append("o1")
        z = y.cos()
        log.append("o2")
        return z * 2

    out = cp.checkpoint(outside, torch.ones(2, requires_grad=True), use_reentrant=False, early_stop=outer).sum()
    log.clear()
    out.backward()
    assert " ".join(log) == expected


@pytest.mark.parametrize("depth", [2, 4])
def test_deeply_nested_checkpoints_give_the_gradient(torch, cp, depth):
    def nested(level, x):
        if not level:
            return x.sin()
        return cp.checkpoint(lambda t: nested(level - 1, t * 1.1).cos(), x, use_reentrant=False)

    def plain(level, x):
        return plain(level - 1, x * 1.1).cos() if level else x.sin()

    x = torch.tensor([0.3], dtype=torch.float64, requires_grad=True)
    (found,) = torch.autograd.grad(nested(depth, x), x)
    (expected,) = torch.autograd.grad(plain(depth, x), x)
    assert found.tolist() == expected.tolist()


def test_one_kind_of_checkpoint_within_the_other(torch, cp):
    for inner, outer in ((True, False), (False, True)):
        x = torch.tensor([0.3], requires_grad=True)
        cp.checkpoint(
            lambda t, i=inner: cp.checkpoint(torch.sin, t * 2, use_reentrant=i).exp(), x, use_reentrant=outer
        ).backward()
        y = x.detach().requires_grad_()
        (y * 2).sin().exp().backward()
        assert x.grad.tolist() == y.grad.tolist()


def passes(torch, cp, group, early=True, retain=False):
    """How often a part runs for two passes through its two outputs, and the gradient."""
    runs = []

    def part(x):
        runs.append(1)
        return x.sin().exp(), x.cos().exp()

    x = torch.full((2,), 0.5, requires_grad=True)
    a, b = cp.checkpoint(part, x, use_reentrant=False, early_stop=early)
    with group:
        a.sum().backward(retain_graph=retain)
        b.sum().backward(retain_graph=retain)
    return len(runs) - 1, x.grad.tolist()


def test_passes_of_a_group_share_the_run(torch, cp):
    alone, gradient = passes(torch, cp, contextlib.nullcontext())
    assert alone == 2
    for options in ({}, {"early": False}, {"retain": True}):
        assert passes(torch, cp, cp.GraphExecGroup(), **options) == (1, gradient)


def test_a_group_goes_on_when_it_is_entered_again(torch, cp):
    runs, group = [], cp.GraphExecGroup()

    def part(x):
        runs.append(1)
        return x.sin().exp(), x.cos().exp()

    a, b = cp.checkpoint(part, torch.ones(2, requires_grad=True), use_reentrant=False)
    for out in (a, b):
        with group:
            assert cp.GraphExecGroup._get_current_group() is group
            out.sum().backward()
    assert cp.GraphExecGroup._get_current_group() is None
    assert len(runs) == 2


def test_groups_are_not_nested_and_their_passes_do_not_overlap(torch, cp):
    with (
        cp.GraphExecGroup(),
        pytest.raises(RuntimeError, match="GraphExecGroup contexts cannot be nested"),
        cp.GraphExecGroup(),
    ):
        pass
    x = torch.ones(2, requires_grad=True)
    out = cp.checkpoint(lambda t: t.sin().exp(), x, use_reentrant=False).sum()
    with cp.GraphExecGroup():
        out.backward(retain_graph=True)
        with pytest.raises(cp.CheckpointError, match="tensor that was already unpacked once"):
            out.backward()


@pytest.mark.parametrize("segments", [1, 2, 3, 5])
@BOTH
def test_all_segments_but_the_last_run_again(torch, cp, segments, reentrant):
    runs = []

    def step(i):
        def run(x):
            runs.append(i)
            return x.sin()

        return run

    x = torch.ones(2, requires_grad=True)
    out = cp.checkpoint_sequential([step(i) for i in range(5)], segments, x, use_reentrant=reentrant)
    assert runs == [0, 1, 2, 3, 4]
    runs.clear()
    out.sum().backward()
    assert sorted(runs) == list(range(5 // segments * (segments - 1)))


def test_a_sequence_keeps_its_random_numbers(torch, cp):
    torch.manual_seed(0)
    x = torch.ones(60, requires_grad=True)
    dropout = torch.nn.Dropout(0.5)
    out = cp.checkpoint_sequential([lambda t: t * 1, dropout, lambda t: t * x, dropout], 2, x, use_reentrant=False)
    out.sum().backward()
    assert x.grad.tolist() == (2 * out.detach()).tolist()


def test_a_sequence_refuses_other_keywords_and_too_many_segments(torch, cp):
    x = torch.ones(2, requires_grad=True)
    with pytest.raises(ValueError, match="Unexpected keyword arguments: early_stop"):
        cp.checkpoint_sequential([torch.sin], 1, x, use_reentrant=False, early_stop=False)
    with pytest.raises(ValueError):
        cp.checkpoint_sequential([torch.sin, torch.cos], 3, x, use_reentrant=False)
    with pytest.warns(UserWarning, match="use_reentrant parameter should be passed explicitly"):
        cp.checkpoint_sequential([torch.sin], 1, x)


def test_there_are_no_other_devices(torch, cp):
    assert cp.get_device_states(torch.ones(2)) == ([], [])
    cp.set_device_states([], [])
    before = cp.DefaultDeviceType.get_device_type()
    cp.DefaultDeviceType.set_device_type("cpu")
    assert cp.DefaultDeviceType.get_device_type() == "cpu"
    cp.DefaultDeviceType.set_device_type(before)
