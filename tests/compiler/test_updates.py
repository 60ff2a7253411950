"""Optimizers in compiled functions: updates as loops equal eager's to the bit, and training steps are one graph."""

from __future__ import annotations

import pytest

import gradloom as torch
from gradloom import nn
from gradloom.compiler._api import optimized_of
from gradloom.compiler._updates import _loop

pytest.importorskip("llvmlite")

OPTIMIZERS = [
    ("SGD", {}),
    ("SGD", {"momentum": 0.9, "weight_decay": 0.1}),
    ("SGD", {"momentum": 0.9, "nesterov": True, "maximize": True}),
    ("SGD", {"momentum": 0.9, "dampening": 0.5, "foreach": True}),
    ("Adam", {}),
    ("Adam", {"amsgrad": True, "weight_decay": 0.1, "fused": True}),
    ("Adam", {"maximize": True, "capturable": True}),
    ("Adam", {"lr": 1.0, "betas": (0.0, 0.5)}),
    ("AdamW", {"amsgrad": True}),
    ("RMSprop", {"momentum": 0.9, "centered": True}),
    ("RMSprop", {"centered": True}),
    ("RMSprop", {"momentum": 0.9}),
    ("Rprop", {}),
    ("NAdam", {"weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("RAdam", {"weight_decay": 0.1}),
    ("ASGD", {"t0": 3}),
    ("Adagrad", {"lr_decay": 0.1, "initial_accumulator_value": 0.2}),
    ("Adadelta", {"lr": 0.5}),
    ("Adamax", {}),
]


def parameters():
    torch.manual_seed(0)
    shapes = [(), (1,), (5,), (33, 7), (0, 3), (70, 70)]
    made = [torch.randn(s) for s in shapes]
    made += [torch.randn(9, dtype=torch.float64), torch.randn(7, dtype=torch.complex64)]
    made += [torch.randn(6, 4).t(), torch.randn(5, dtype=torch.bfloat16)]  # left to the rule
    return [p.detach().requires_grad_() for p in made]


def trajectory(kind, options, compile, count=6):
    mine = parameters()
    if kind == "Rprop" or options.get("fused"):
        mine = [p for p in mine if not p.is_complex()]
    optimizer = getattr(torch.optim, kind)(mine, **{"lr": 0.01, **options})
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
    step = torch.compile(optimizer.step, backend="llvm") if compile else optimizer.step
    for number in range(count):
        for i, p in enumerate(mine):
            p.grad = None if (number + i) % 5 == 4 else torch.randn(p.shape, dtype=p.dtype)
        step()
        scheduler.step()
    return mine, optimizer, step


@pytest.mark.parametrize("kind, options", OPTIMIZERS, ids=lambda v: v if isinstance(v, str) else "-".join(v))
def test_updates_equal_eager(kind, options):
    expected, other, _ = trajectory(kind, options, False)
    found, optimizer, step = trajectory(kind, options, True)
    for a, b in zip(found, expected, strict=True):
        assert torch.equal(a, b) and a._version == b._version
    for key, state in other.state_dict()["state"].items():
        for name, value in state.items():
            assert torch.equal(optimizer.state_dict()["state"][key][name], value), (key, name)
    calls, breaks = optimized_of(step).calls, optimized_of(step).breaks
    assert breaks == [] and calls[1] == 1
    updates = optimized_of(step).entries[0].after[0].updates
    assert updates.fused and any("laid out" in r or "bfloat16" in r for r in updates.reasons)


@pytest.mark.parametrize("kind, options", OPTIMIZERS, ids=lambda v: v if isinstance(v, str) else "-".join(v))
def test_steps_with_set_kernels_equal_eager(kind, options):
    expected, *_ = trajectory(kind, options, False)
    with torch.set_kernels("llvm"):
        found, *_ = trajectory(kind, options, False)
    for a, b in zip(found, expected, strict=True):
        assert torch.equal(a, b) and a._version == b._version


def test_a_step_inside_a_closure_with_set_kernels():
    def run():
        torch.manual_seed(0)
        a, b = (torch.randn(5, requires_grad=True) for _ in range(2))
        first, second = torch.optim.Adam([a], 0.1), torch.optim.SGD([a, b], 0.1)

        def closure():
            loss = ((a + b) ** 2).sum()
            a.grad, b.grad = torch.autograd.grad(loss, (a, b))
            second.step()
            return loss

        losses = [first.step(closure) for _ in range(3)]
        with pytest.raises(ZeroDivisionError):
            first.step(lambda: 1 / 0)
        first.step()
        return torch.stack([*losses]), a, b

    expected = run()
    with torch.set_kernels("llvm"):
        found = run()
    assert all(torch.equal(x, y) for x, y in zip(found, expected, strict=True))


def test_numbers_compile_once():
    _loop.cache_clear()
    trajectory("Adam", {"weight_decay": 0.1}, True, 9)
    loops = _loop.cache_info().misses
    assert 1 < loops < 8
    for lr in (0.2, 0.03):
        trajectory("Adam", {"weight_decay": 0.3, "lr": lr}, True, 3)
    assert _loop.cache_info().misses == loops


def test_threads_and_overlap():
    torch_threads = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        results = []
        for compile in (False, True):
            torch.manual_seed(1)
            base = torch.randn(300_000)
            mine = [base[:200_000].requires_grad_(), torch.randn(1500, 300).requires_grad_(), base[100_000:]]
            mine[2] = mine[2].detach().requires_grad_()  # shares memory with the first
            optimizer = torch.optim.SGD(mine, lr=0.1, momentum=0.9)
            step = torch.compile(optimizer.step, backend="llvm") if compile else optimizer.step
            for _ in range(3):
                for p in mine:
                    p.grad = p.detach().cos()
                step()
            results.append(mine)
        assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))
    finally:
        torch.set_num_threads(torch_threads)


def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))


def training(compile, kind=torch.optim.Adam, read=False, **options):
    model = net()
    optimizer = kind(model.parameters(), lr=0.01)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
    seen = []
    optimizer.register_step_post_hook(lambda *_: seen.append(model[0].weight[0, 0].item()))

    def step(x, y):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        scheduler.step()
        return loss

    def reading(x, y):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        scheduler.step()
        return loss.item()

    step = reading if read else step
    f = torch.compile(step, backend="llvm", **options) if compile else step
    torch.manual_seed(2)
    losses = [torch.as_tensor(f(torch.randn(6, 4), torch.randint(0, 3, (6,)))).detach() for _ in range(6)]
    return losses, seen, [p.detach() for p in model.parameters()], f


def test_a_training_step_is_one_graph():
    expected, seen, weights, _ = training(False)
    found, hooks, mine, f = training(True, fullgraph=True)
    torch.testing.assert_close(found, expected)
    assert hooks == pytest.approx(seen)  # hooks see updated parameters
    for a, b in zip(mine, weights, strict=True):
        torch.testing.assert_close(a, b)
    assert optimized_of(f).calls == [5, 1]
    text = str(f.explain(torch.randn(6, 4), torch.zeros(6, dtype=torch.long)))
    assert "before the graph: Adam.zero_grad" in text and "update adam: 4 parameter(s) in one loop" in text


def test_a_step_in_a_function_that_breaks():
    expected, seen, weights, _ = training(False, read=True)
    found, hooks, mine, f = training(True, read=True)
    torch.testing.assert_close(found, expected)
    for a, b in zip(mine, weights, strict=True):
        torch.testing.assert_close(a, b)
    steps = optimized_of(f).pieces.steps
    assert sum(steps["Adam.step"].fused.values()) == 4


def reads_after(model, optimizer, box):
    def step(x):
        loss = model(x).sum()
        loss.backward()
        optimizer.step()
        return loss, box["count"]

    return step


def computes_after(model, optimizer, box):
    def step(x):
        model(x).sum().backward()
        optimizer.step()
        return model(x)

    return step


def zeros_later(model, optimizer, box):
    def step(x):
        y = model(x)
        optimizer.zero_grad(set_to_none=False)
        y.sum().backward()
        optimizer.step()
        return y

    return step


@pytest.mark.parametrize("make", [reads_after, computes_after, zeros_later])
def test_what_does_not_follow_the_graph_runs_as_python(make):
    results = []
    for compile in (False, True):
        model, box = net(), {"count": 0}
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        def count(*_, box=box):
            box["count"] += 1

        optimizer.register_step_pre_hook(count)
        f = make(model, optimizer, box)
        f = torch.compile(f, backend="llvm") if compile else f
        torch.manual_seed(3)
        results.append([f(torch.randn(2, 4)) for _ in range(5)])
        assert not compile or optimized_of(f).breaks
    torch.testing.assert_close(results[1], results[0])


def test_a_subclass_may_read_what_it_updates():
    class Reading(torch.optim.SGD):
        def step(self, closure=None):
            super().step(closure)
            self.seen = self.param_groups[0]["params"][0].sum().item()

    p = torch.ones(3, requires_grad=True)
    optimizer = Reading([p], lr=0.5)
    step = torch.compile(optimizer.step, backend="llvm")
    for number in range(1, 4):
        p.grad = torch.ones(3)
        step()
        assert optimizer.seen == 3 - 1.5 * number


def test_closures_sparse_gradients_and_recorded_steps():
    p = torch.ones(3, requires_grad=True)
    optimizer = torch.optim.SGD([p], lr=0.5)
    step = torch.compile(optimizer.step, backend="llvm")

    def closure():
        optimizer.zero_grad()
        loss = (p**2).sum()
        loss.backward()
        return loss

    assert [step(closure).item() for _ in range(3)] == [3, 0, 0]
    q = torch.ones(3, requires_grad=True)
    q.grad = torch.ones(3).to_sparse()
    adam = torch.optim.Adam([q])
    with pytest.raises(RuntimeError, match="sparse"):
        torch.compile(adam.step, backend="llvm")()
    r = torch.ones(3, requires_grad=True)
    s = r * 1
    s.grad = r * 2
    torch.compile(torch.optim.SGD([s], lr=0.5, differentiable=True).step, backend="llvm")()
    s.sum().backward()
    assert r.grad.tolist() == [0, 0, 0]


def clips_norm(model, loss):
    return torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)


def clips_some(model, loss):
    torch.nn.utils.clip_grad_norm_(model[0].parameters(recurse=False), max_norm=0.1, norm_type=1)


def clips_values(model, loss):
    torch.nn.utils.clip_grad_value_([model[0].weight, model[2].bias], 0.01)


def clips_twice(model, loss):
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5, error_if_nonfinite=True)
    torch.nn.utils.clip_grads_with_norm_(list(PARAMETERS), 0.1, norm)
    return norm, torch.nn.utils.clip_grad_norm_(PARAMETERS, 0.05)


PARAMETERS: list = []


def trained(clip, compiles, steps=5):
    """Train with limits of gradients; return what each step gave, the weights, and the step."""
    model = net()
    PARAMETERS[:] = model.parameters()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(x):
        optimizer.zero_grad()
        loss = model(x).square().sum()
        loss.backward()
        norm = clip(model, loss)
        optimizer.step()
        return loss, norm

    f = torch.compile(step, backend="llvm", **compiles) if compiles is not None else step
    torch.manual_seed(3)
    found = [f(torch.randn(2, 4) * 3) for _ in range(steps)]
    return found, [p.detach() for p in model.parameters()], f


@pytest.mark.parametrize("clip", [clips_norm, clips_some, clips_values])
def test_limits_of_gradients_are_part_of_a_step(clip):
    expected, weights, _ = trained(clip, None)
    found, mine, f = trained(clip, {"fullgraph": True})
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(mine, weights)
    assert optimized_of(f).calls == [4, 1]
    assert f"after the graph: {clip.__code__.co_names[3]}" in str(f.explain(torch.ones(2, 4)))


def test_norms_are_returned_and_passed_on():
    expected, weights, _ = trained(clips_twice, None)
    found, mine, _ = trained(clips_twice, {})
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(mine, weights)


def test_parameters_after_backward_are_those_of_the_call():
    model, extra = net(), nn.Linear(4, 1)

    def step(x):
        model(x).sum().backward()
        extra(x).sum().backward() if x.shape[0] > 3 else None
        torch.nn.utils.clip_grad_value_(model.parameters(), 0.25)

    f = torch.compile(step, backend="llvm", fullgraph=True)
    for count in range(4):
        if count == 2:  # a parameter that the graph does not know
            model.register_parameter("late", nn.Parameter(torch.zeros(2)))
            model.late.grad = torch.tensor([3.0, -3.0])
        model.zero_grad() if count != 2 else None
        f(torch.full((2, 4), 5.0))
        assert all(p.grad is None or p.grad.abs().max() <= 0.25 for p in model.parameters())
    assert optimized_of(f).calls[0] >= 2


def reads_norm(model, loss):
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
    return float(norm)


def computes_with_norm(model, loss):
    return torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1) * 2


def walks_parameters(model, loss):
    return [p.grad for p in model.parameters() if p.grad is not None][0].clone(), next(model.parameters()).sum()


@pytest.mark.parametrize("clip", [reads_norm, computes_with_norm, walks_parameters])
def test_what_reads_gradients_runs_as_python(clip):
    expected, weights, _ = trained(clip, None)
    found, mine, f = trained(clip, {})
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(mine, weights)
    assert optimized_of(f).breaks


def test_an_infinite_norm_is_the_errors_of_eager():
    model = net()

    def step(x):
        model(x).sum().backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1, error_if_nonfinite=True)

    f = torch.compile(step, backend="llvm", fullgraph=True)
    for _ in range(3):
        model.zero_grad()
        f(torch.ones(2, 4))
    with pytest.raises(RuntimeError, match="non-finite"):
        f(torch.full((2, 4), float("inf")))
    assert optimized_of(f).calls == [3, 1]
