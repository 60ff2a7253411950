"""Backward passes of several Python threads at once."""

import sys
import threading
from functools import partial

import pytest

from tests.waiting import LIMIT, Running, in_threads

THREADS, ROUNDS = 8, 40


@pytest.fixture(autouse=True)
def threads_that_take_turns_often():
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


def together(work, count=THREADS):
    """Run `work(number)` in `count` threads that start at once; raise what one of them raised."""
    barrier = threading.Barrier(count)

    def call(number):
        barrier.wait(LIMIT)
        work(number)

    in_threads(*(partial(call, number) for number in range(count)))


def test_threads_with_graphs_of_their_own_add_to_one_leaf(torch):
    x = torch.ones(3, requires_grad=True)

    def work(number):
        for _ in range(ROUNDS):
            (x * 2 + x).sum().backward()

    together(work)
    assert x.grad.tolist() == [3.0 * THREADS * ROUNDS] * 3


def test_threads_add_large_gradients_to_one_leaf(torch):
    x = torch.zeros(2_000_000, requires_grad=True)
    roots = [x.sum() for _ in range(4)]  # gradients that cannot be taken without a copy

    def work(number):
        roots[number].backward()
        (x * 2).sum().backward()

    together(work, 4)
    assert x.grad.min().item() == x.grad.max().item() == 12.0


def test_the_first_gradients_of_a_leaf_from_several_threads(torch):
    for _ in range(ROUNDS):
        x = torch.ones(2, requires_grad=True)
        roots = [(x * 2).sum() for _ in range(THREADS)]
        together(lambda number, roots=roots: roots[number].backward())
        assert x.grad.tolist() == [2.0 * THREADS] * 2


def test_threads_share_a_graph_that_is_kept(torch):
    x = torch.ones(3, requires_grad=True)
    middle = (x * 3).exp() * x
    y = middle.sum()
    (alone,) = torch.autograd.grad(y, x, retain_graph=True)

    def work(number):
        for _ in range(ROUNDS):
            y.backward(retain_graph=True)
            (found,) = torch.autograd.grad(y, x, retain_graph=True)
            assert found.tolist() == alone.tolist()

    together(work)
    total = alone.double() * THREADS * ROUNDS
    assert torch.allclose(x.grad.double(), total, rtol=1e-4)


def test_threads_continue_one_graph_each_with_a_root_of_its_own(torch):
    x = torch.ones(3, requires_grad=True)
    shared = x * 2

    def work(number):
        for _ in range(ROUNDS):
            (shared * number).sum().backward(retain_graph=True)

    together(work)
    assert x.grad.tolist() == [2.0 * ROUNDS * sum(range(THREADS))] * 3


def test_threads_that_use_a_leaf_for_the_first_time_agree_on_its_edge(torch):
    for _ in range(ROUNDS):
        x, found = torch.ones(2, requires_grad=True), []

        def work(number, x=x, found=found):
            found.append(torch.autograd.grad((x * number).sum(), x)[0].tolist() == [float(number)] * 2)

        together(work)
        assert found == [True] * THREADS


def test_hooks_see_every_pass(torch):
    x, seen = torch.ones(2, requires_grad=True), []
    shared = x * 2
    shared.register_hook(lambda g: seen.append(1))
    x.register_post_accumulate_grad_hook(lambda p: seen.append(2))

    def work(number):
        for _ in range(ROUNDS):
            shared.sum().backward(retain_graph=True)

    together(work)
    assert seen.count(1) == seen.count(2) == THREADS * ROUNDS


def test_a_hook_on_several_gradients_keeps_passes_apart(torch):
    a, b = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    left, right, seen = a * 2, b * 3, []
    torch.autograd.graph.register_multi_grad_hook(
        (left, right), lambda grads: seen.append([g[0].item() for g in grads])
    )

    def work(number):
        for _ in range(ROUNDS):
            (left * number + right * number).sum().backward(retain_graph=True)

    together(work)
    assert len(seen) == THREADS * ROUNDS and all(x == y for x, y in seen)


def test_handles_registered_by_several_threads_are_distinct(gradloom):  # in PyTorch now and then two are the same
    torch = gradloom
    x, handles = torch.ones(2, requires_grad=True), []

    def work(number):
        for _ in range(ROUNDS):
            handles.append(x.register_hook(lambda g: g + 1))

    together(work)
    (x * 0).sum().backward()
    assert x.grad.tolist() == [float(THREADS * ROUNDS)] * 2
    for handle in handles:
        handle.remove()
    x.grad = None
    (x * 0).sum().backward()
    assert x.grad.tolist() == [0.0, 0.0]


def test_modes_and_passes_belong_to_their_threads(torch):
    x = torch.ones(2, requires_grad=True)
    y, inside, leave, seen = x * 2, threading.Event(), threading.Event(), []

    def hook(grad):
        inside.set()
        leave.wait(LIMIT)

    y.register_hook(hook)
    thread = Running(lambda: y.sum().backward())
    assert inside.wait(LIMIT)
    seen.append((torch.is_grad_enabled(), torch._C._current_graph_task_id()))
    with torch.no_grad():
        leave.set()
        thread.result()
    assert seen == [(True, -1)] and x.grad.tolist() == [2.0, 2.0]


def test_deep_nesting_in_several_threads(torch):
    class Recursive(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            with torch.enable_grad():
                ctx.x = x.detach().requires_grad_() - 1
            return ctx.x.detach()

        @staticmethod
        def backward(ctx, grad):
            if ctx.x.item() >= 0:
                with torch.enable_grad():
                    Recursive.apply(ctx.x).sum().backward()
            return grad

    x = torch.tensor(60.0, requires_grad=True)
    together(lambda number: Recursive.apply(x).sum().backward(), 4)
    assert x.grad.item() == 4.0
