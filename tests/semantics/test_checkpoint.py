"""Checkpoints: what is computed again, when, how often, and that nothing else changes."""

import gc
import weakref
from importlib import import_module

import pytest

BOTH = pytest.mark.parametrize("reentrant", [False, True], ids=["plain", "reentrant"])


@pytest.fixture
def cp(torch):
    return import_module(f"{torch.__name__}.utils.checkpoint")


@BOTH
def test_gradients_are_those_without_a_checkpoint(torch, cp, reentrant):
    torch.manual_seed(0)
    w = torch.randn(3, 3, requires_grad=True)
    x = torch.randn(2, 3, requires_grad=True)

    def part(x):
        return torch.tanh(x @ w).sin() * x

    part(x).sum().backward()
    expected = x.grad.tolist(), w.grad.tolist()
    x.grad = w.grad = None
    cp.checkpoint(part, x, use_reentrant=reentrant).sum().backward()
    assert (x.grad.tolist(), w.grad.tolist()) == expected


@BOTH
def test_the_part_runs_once_more_in_backward(torch, cp, reentrant):
    runs = []

    def part(x):
        runs.append(torch.is_grad_enabled())
        return x.exp().sin()

    out = cp.checkpoint(part, torch.ones(2, requires_grad=True), use_reentrant=reentrant)
    assert len(runs) == 1
    out.sum().backward()
    assert len(runs) == 2 and runs[1]


@BOTH
def test_random_numbers_are_drawn_again(torch, cp, reentrant):
    torch.manual_seed(3)
    x = torch.ones(50, requires_grad=True)
    out = cp.checkpoint(lambda t: torch.nn.functional.dropout(t * 1, 0.5) * t, x, use_reentrant=reentrant)
    torch.rand(7)
    after = torch.get_rng_state()
    out.sum().backward()
    assert x.grad.tolist() == (2 * out.detach()).tolist()
    assert torch.equal(torch.get_rng_state(), after)


def test_intermediate_tensors_are_not_kept(torch, cp):
    kept = []

    def part(x):
        y = x.exp()
        kept.append(weakref.ref(y))
        return y.sin().cos()

    x = torch.ones(3, requires_grad=True)
    gc.disable()
    try:
        out = cp.checkpoint(part, x, use_reentrant=False)
        assert kept[0]() is None
        out.sum().backward()
    finally:
        gc.enable()


def test_a_run_in_backward_stops_early(torch, cp):
    reached = []

    def part(x):
        y = x.exp().sin()
        reached.append("saved")
        z = y + 1
        reached.append("end")
        return z

    x = torch.ones(2, requires_grad=True)
    cp.checkpoint(part, x, use_reentrant=False).sum().backward()
    assert reached == ["saved", "end"]
    reached.clear()
    with cp.set_checkpoint_early_stop(False):
        cp.checkpoint(part, x, use_reentrant=False).sum().backward()
    assert reached == ["saved", "end"] * 2


def test_keywords_and_other_values_reach_the_part(torch, cp):
    def part(x, factor, *, shift, flag=False):
        assert flag
        return (x.exp() * factor + shift,)

    x, shift = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    (out,) = cp.checkpoint(part, x, 3, use_reentrant=False, shift=shift, flag=True)
    out.sum().backward()
    assert shift.grad.tolist() == [1.0, 1.0] and x.grad[0].item() == pytest.approx(3 * 2.718281828)


@pytest.mark.filterwarnings("ignore:None of the inputs")  # of the inner one in the outer one's first run
@BOTH
def test_nested_checkpoints(torch, cp, reentrant):
    def inner(x):
        return x.sin().exp()

    def outer(x):
        return cp.checkpoint(inner, x * 2, use_reentrant=reentrant).cos()

    x = torch.tensor([0.3], dtype=torch.float64, requires_grad=True)
    cp.checkpoint(outer, x, use_reentrant=reentrant).backward()
    y = x.detach().requires_grad_()
    (y * 2).sin().exp().cos().backward()
    assert x.grad.tolist() == y.grad.tolist()


def test_second_derivatives_and_several_passes(torch, cp):
    x = torch.tensor([0.3], dtype=torch.float64, requires_grad=True)
    out = cp.checkpoint(lambda t: t.sin() * t**3, x, use_reentrant=False)
    (first,) = torch.autograd.grad(out, x, create_graph=True)
    (second,) = torch.autograd.grad(first, x)
    y = x.detach().requires_grad_()
    (expected,) = torch.autograd.grad(y.sin() * y**3, y, create_graph=True)
    assert first.item() == expected.item()
    assert second.item() == pytest.approx(torch.autograd.grad(expected, y)[0].item())
    out = cp.checkpoint(lambda t: t.exp().sin(), x, use_reentrant=False)
    out.backward(retain_graph=True)
    once = x.grad.clone()
    out.backward()
    assert x.grad.item() == 2 * once.item()
    with pytest.raises(RuntimeError, match="second time"):
        out.backward()


def test_a_part_without_inputs_that_require_grad(torch, cp):
    w = torch.ones(2, requires_grad=True)
    cp.checkpoint(lambda x: (x * w).exp(), torch.ones(2), use_reentrant=False).sum().backward()
    assert w.grad is not None
    with pytest.warns(UserWarning, match="None of the inputs have requires_grad=True"):
        out = cp.checkpoint(lambda x: (x * w).exp(), torch.ones(2), use_reentrant=True)
    assert not out.requires_grad


@BOTH
def test_without_recording_the_part_just_runs(torch, cp, reentrant):
    with torch.no_grad():
        out = cp.checkpoint(lambda x: x * 2, torch.ones(2, requires_grad=True), use_reentrant=reentrant)
    assert not out.requires_grad


def test_a_part_that_does_something_else_the_second_time(torch, cp):
    def changing(*results):
        calls = iter(results)
        return lambda x: next(calls)(x)

    x = torch.ones(3, requires_grad=True)

    def run(first, second, **options):
        cp.checkpoint(changing(first, second), x, use_reentrant=False, **options).sum().backward()

    with pytest.raises(cp.CheckpointError, match="A different number of tensors was saved during the original forward"):
        run(lambda x: x.sin().exp().cos(), lambda x: x.sin())
    with pytest.raises(cp.CheckpointError, match="have different\\s+metadata than during the forward pass"):
        run(lambda x: x.sin(), lambda x: x[:2].sin())
    run(lambda x: x.sin(), lambda x: x.sin() * 1, determinism_check="none")
    with pytest.raises(ValueError, match="determinism_check"):
        run(torch.sin, torch.sin, determinism_check="strict")


def test_contexts_surround_both_runs(torch, cp):
    seen = []

    class Noting:
        def __init__(self, name):
            self.name = name

        def __enter__(self):
            seen.append(f"enter {self.name}")

        def __exit__(self, *exception):
            seen.append(f"exit {self.name}")

    out = cp.checkpoint(
        torch.exp,
        torch.ones(2, requires_grad=True),
        use_reentrant=False,
        context_fn=lambda: (Noting("forward"), Noting("recompute")),
    )
    assert seen == ["enter forward", "exit forward"]
    out.sum().backward()
    assert seen[2:] == ["enter recompute", "exit recompute"]


def test_options_that_one_variant_does_not_know(torch, cp):
    x = torch.ones(2, requires_grad=True)
    with pytest.raises(ValueError, match="Unexpected keyword arguments: flag"):
        cp.checkpoint(torch.exp, x, use_reentrant=True, flag=True)
    with pytest.raises(ValueError, match="only supported when use_reentrant=False"):
        cp.checkpoint(torch.exp, x, use_reentrant=True, debug=True)
    with pytest.warns(UserWarning, match="use_reentrant parameter should be passed explicitly"):
        cp.checkpoint(torch.exp, x)


def test_a_reentrant_checkpoint_needs_a_full_pass(torch, cp):
    x = torch.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="incompatible with .grad\\(\\) or passing an `inputs` parameter"):
        torch.autograd.grad(cp.checkpoint(torch.exp, x, use_reentrant=True).sum(), x)
    (found,) = torch.autograd.grad(cp.checkpoint(torch.exp, x, use_reentrant=False).sum(), x)
    assert found.shape == (2,)


@BOTH
def test_a_sequence_in_segments(torch, cp, reentrant):
    torch.manual_seed(0)
    net = torch.nn.Sequential(*[torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Tanh()) for _ in range(5)])
    x = torch.ones(2, 3, requires_grad=True)
    net(x).sum().backward()
    expected = [p.grad.tolist() for p in net.parameters()]
    net.zero_grad()
    out = cp.checkpoint_sequential(net, 2, x, use_reentrant=reentrant)
    out.sum().backward()
    for p, e in zip(net.parameters(), expected, strict=True):
        assert torch.allclose(p.grad, torch.tensor(e))
    assert cp.checkpoint_sequential([torch.sin, torch.cos], 1, x, use_reentrant=False).shape == (2, 3)


def test_errors_of_the_part_arrive(torch, cp):
    def failing(x):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        cp.checkpoint(failing, torch.ones(2, requires_grad=True), use_reentrant=False)
    x = torch.ones(2, requires_grad=True)
    assert cp.checkpoint(lambda t: t * 2, x, use_reentrant=False).requires_grad


def test_modules_with_buffers_and_in_place_operators(torch, cp):
    net = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU(inplace=True), torch.nn.Linear(3, 1))
    x = torch.ones(4, 3, requires_grad=True)
    cp.checkpoint(net, x, use_reentrant=False).sum().backward()
    again = x.detach().requires_grad_()
    net(again).sum().backward()
    assert torch.allclose(x.grad, again.grad)


def test_what_differs_is_shown_in_debug_mode(gradloom):
    cp = import_module("gradloom.utils.checkpoint")
    calls = iter([lambda x: x.sin().exp(), lambda x: x.sin()])
    out = cp.checkpoint(lambda x: next(calls)(x), gradloom.ones(3, requires_grad=True), use_reentrant=False, debug=True)
    with pytest.raises(cp.CheckpointError, match="(?s)original run:.*0: .*1: .*in backward:\n  0: [^\n]*\n(?!  1)"):
        out.sum().backward()


@BOTH
def test_an_argument_that_was_written_to_since_is_an_error(torch, cp, reentrant):
    leaf = torch.ones(2, 3, requires_grad=True)
    argument = leaf * 1
    out = cp.checkpoint(lambda t: t.exp() * t, argument, use_reentrant=reentrant)
    argument.mul_(2)
    with pytest.raises(RuntimeError, match=r"modified by an inplace operation: \[torch.FloatTensor \[2, 3\]\]"):
        out.sum().backward()


def test_a_part_that_computes_by_forward_mode_stops_early_when_it_runs_again(torch, cp):
    jvp = import_module(f"{torch.__name__}.func").jvp
    x = torch.tensor([0.5, 1.0], dtype=torch.float64, requires_grad=True)

    def part(t):
        return jvp(lambda u: u.sin() * u, (t,), (t,))[1]

    (expected,) = torch.autograd.grad(part(x).sum(), x)
    (found,) = torch.autograd.grad(cp.checkpoint(part, x, use_reentrant=False).sum(), x)
    assert torch.allclose(found, expected)


@pytest.mark.since("2.15")
def test_checkpoint_decorates_functions_and_methods(torch, cp, documented):
    runs = []

    @cp.checkpoint(use_reentrant=False)
    def part(x, factor=2):
        """Multiply."""
        runs.append(1)
        return (x * factor).sin().exp()

    class Part:
        factor = 3

        @cp.checkpoint(use_reentrant=False, preserve_rng_state=False)
        def run(self, x):
            runs.append(1)
            return (x * self.factor).sin().exp()

    x = torch.ones(2, requires_grad=True)
    for call in (part, Part().run):
        runs.clear()
        call(x).sum().backward()
        assert len(runs) == 2
    assert (part.__name__, part.__doc__, Part.run.__name__) == ("part", documented("Multiply."), "run")
    with pytest.raises(ValueError, match="Unexpected keyword arguments: other"):
        cp.checkpoint(other=1)
    with pytest.raises(ValueError, match="`respect_saved_tensors_hooks` is only supported when use_reentrant=False"):
        cp.checkpoint(use_reentrant=True, respect_saved_tensors_hooks=True)(part)(x)
