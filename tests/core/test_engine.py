"""The engine: what backward and grad compute, in which order, and what they refuse."""

from __future__ import annotations

import gc
import weakref

import pytest

import gradloom as torch
from gradloom.autograd import Function, grad
from tests.waiting import in_threads


def leaf(*values, dtype=torch.float64):
    return torch.tensor(list(values), dtype=dtype, requires_grad=True)


def test_backward_accumulates():
    x = leaf(2.0, 3.0)
    (x * x).sum().backward()
    assert x.grad.tolist() == [4.0, 6.0]
    (x * x).sum().backward()
    assert x.grad.tolist() == [8.0, 12.0]


def test_the_first_gradient_is_not_shared_between_leaves():
    a, b = leaf(1.0), leaf(2.0)
    (a + b).backward(torch.tensor([1.0], dtype=torch.float64))
    assert a.grad is not b.grad
    a.grad.add_(5)
    assert b.grad.tolist() == [1.0]


def test_the_gradient_given_to_backward_is_not_kept_as_grad():
    a, g = leaf(1.0, 2.0), torch.tensor([1.0, 1.0], dtype=torch.float64)
    (a + 0).backward(g)
    g.add_(100)
    assert a.grad.tolist() == [1.0, 1.0]


def test_second_backward_says_how_to_do_it():
    x = leaf(1.0)
    y = (x * x).sum()
    y.backward()
    with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
        y.backward()


def test_second_backward_of_a_graph_that_saves_nothing_is_fine():
    x = leaf(1.0)
    y = x + 1
    y.backward(torch.tensor([1.0], dtype=torch.float64))
    y.backward(torch.tensor([1.0], dtype=torch.float64))
    assert x.grad.tolist() == [2.0]


def test_retain_graph_keeps_what_was_saved():
    x = leaf(3.0)
    y = (x * x).sum()
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad.tolist() == [12.0]


def test_create_graph_gives_higher_derivatives():
    x = leaf(2.0)
    y = (x * x * x * x).sum()
    orders = []
    for _ in range(4):
        (y,) = grad(y, x, create_graph=True)
        orders.append(y.item())
    assert orders == [32.0, 48.0, 48.0, 24.0]


def test_grad_leaves_grad_alone():
    x, w = leaf(2.0), leaf(5.0)
    (g,) = grad(x * w, x, torch.tensor([1.0], dtype=torch.float64))
    assert g.tolist() == [5.0] and x.grad is None and w.grad is None


def test_grad_with_respect_to_an_intermediate():
    x = leaf(2.0)
    y = x * x
    z = y * y
    gy, gx = grad(z.sum(), (y, x))
    assert gy.tolist() == [8.0] and gx.tolist() == [32.0]


def test_grad_of_a_root_itself():
    x = leaf(2.0)
    y = x * 3
    assert grad(y, y, torch.tensor([7.0], dtype=torch.float64))[0].tolist() == [7.0]


def test_unused_input():
    x, unused = leaf(1.0), leaf(1.0)
    with pytest.raises(RuntimeError, match="appears to not have been used in the graph"):
        grad((x * 2).sum(), unused)
    assert grad((x * 2).sum(), (x, unused), allow_unused=True)[1] is None
    assert grad((x * 2).sum(), (x, unused), materialize_grads=True)[1].tolist() == [0.0]
    with pytest.raises(ValueError, match="Expected allow_unused to be True or not passed when materialize_grads=True"):
        grad((x * 2).sum(), unused, allow_unused=False, materialize_grads=True)


def test_backward_with_inputs_touches_nothing_else():
    a, b = leaf(2.0), leaf(3.0)
    (a * b).sum().backward(inputs=[a])
    assert a.grad.tolist() == [3.0] and b.grad is None


def test_backward_with_a_non_leaf_input():
    a = leaf(2.0)
    b = a * 2
    (b * b).sum().backward(inputs=[b])
    assert b.grad.tolist() == [8.0] and a.grad is None


def test_empty_inputs_are_refused():
    x = leaf(1.0)
    with pytest.raises(RuntimeError, match=r"`inputs` argument to `backward\(\)` cannot be empty"):
        (x * 1).sum().backward(inputs=[])


def test_implicit_gradient_needs_one_element():
    x = leaf(1.0, 2.0)
    with pytest.raises(RuntimeError, match="grad can be implicitly created only for scalar outputs"):
        (x * 2).backward()


def test_a_tensor_without_history_has_no_backward():
    with pytest.raises(RuntimeError, match="element 0 of tensors does not require grad and does not have a grad_fn"):
        torch.tensor(1.0).backward()


def test_gradient_of_another_shape_is_refused():
    x = leaf(1.0, 2.0)
    with pytest.raises(RuntimeError, match="Mismatch in shape: grad_output\\[0\\] has a shape of"):
        (x * 2).backward(torch.tensor([1.0], dtype=torch.float64))


def test_counts_of_tensors_and_gradients_must_match():
    x = leaf(1.0)
    with pytest.raises(RuntimeError, match="got 2 tensors and 1 gradients"):
        torch.autograd.backward([x * 2, x * 3], [None])


def test_several_roots():
    x = leaf(2.0)
    torch.autograd.backward([(x * x).sum(), (x * 3).sum()])
    assert x.grad.tolist() == [7.0]


def test_later_nodes_run_first():
    order = []
    x = leaf(1.0)
    a = x * 2
    b = a * 2
    c = a * 3
    for name, t in (("a", a), ("b", b), ("c", c)):
        t.grad_fn.register_prehook(lambda grads, name=name: order.append(name))
    (b + c).sum().backward()
    assert order == ["c", "b", "a"]


def test_broadcast_gradients_are_reduced():
    a = torch.tensor([[1.0], [2.0]], dtype=torch.float64, requires_grad=True)
    b = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64, requires_grad=True)
    s = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
    (a * b * s).sum().backward()
    assert a.grad.tolist() == [[12.0], [12.0]]
    assert b.grad.tolist() == [6.0, 6.0, 6.0]
    assert s.grad.item() == 18.0


def test_gradients_have_the_dtype_of_their_input():
    a = torch.tensor([1.0], dtype=torch.float32, requires_grad=True)
    b = torch.tensor([2.0], dtype=torch.float64, requires_grad=True)
    (a * b).sum().backward()
    assert a.grad.dtype is torch.float32 and b.grad.dtype is torch.float64


class Fails(Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, g):
        raise ZeroDivisionError("from the backward")


def test_exceptions_arrive_and_leave_the_engine_usable():
    x = leaf(1.0)
    with pytest.raises(ZeroDivisionError, match="from the backward"):
        Fails.apply(x * 2).sum().backward()
    assert torch.is_grad_enabled()
    (x * 2).sum().backward()
    assert x.grad.tolist() == [2.0]


class Inner(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        with torch.enable_grad():
            y = torch.tensor([3.0], dtype=torch.float64, requires_grad=True)
            (y * y).sum().backward()
        return g * y.grad


def test_reentrant_backward():
    x = leaf(1.0)
    Inner.apply(x).sum().backward()
    assert x.grad.tolist() == [6.0]


def test_callbacks_run_when_the_pass_has_finished():
    from gradloom.core.engine import queue_callback

    x, seen = leaf(1.0), []
    y = x * 2
    y.register_hook(lambda g: queue_callback(lambda: seen.append(x.grad.tolist())))
    y.sum().backward()
    assert seen == [[2.0]]
    with pytest.raises(RuntimeError, match="Final callbacks can only be installed during backward pass"):
        queue_callback(print)


def test_grad_mode_is_off_in_backward_and_on_under_create_graph():
    seen = []
    x = leaf(1.0)
    y = x * x
    y.register_hook(lambda g: seen.append(torch.is_grad_enabled()))
    y.sum().backward(retain_graph=True)
    y.sum().backward(create_graph=True)
    assert seen == [False, True]
    x.grad = None


def test_threads_share_a_leaf_without_losing_gradients():
    x = leaf(1.0)

    def work():
        for _ in range(50):
            (x * 2).sum().backward()

    in_threads(*[work] * 4)
    assert x.grad.tolist() == [400.0]


def test_grad_mode_belongs_to_its_thread():
    with torch.no_grad():
        assert in_threads(torch.is_grad_enabled) == [True]


@pytest.mark.slow
def test_a_long_graph():
    x = leaf(1.0)
    y = x
    for _ in range(100_000):
        y = y + 1
    y.sum().backward()
    assert x.grad.tolist() == [1.0]
    del y


def test_a_deep_graph_is_freed_without_recursion():
    x = leaf(1.0)
    y = x
    for _ in range(100_000):
        y = y * x
    node = weakref.ref(y.grad_fn)
    del y
    assert node() is None


def test_graphs_are_freed_without_the_collector():
    gc.collect()
    gc.disable()
    try:
        x = leaf(1.0)
        y = (x * x).exp() if hasattr(torch, "exp") else x * x
        z = y.sum()
        refs = [weakref.ref(o) for o in (y, z, y.grad_fn, z.grad_fn, x)]
        z.backward(retain_graph=True)
        grad(z, x, create_graph=True)
        del y, z, x
        assert [r() for r in refs] == [None] * len(refs)
    finally:
        gc.enable()


@pytest.mark.parametrize(
    ("step", "most"),
    [(lambda x: x * 1.5, 2), (lambda x: x.neg(), 2), (lambda x: x + x, 2)],
    ids=["number", "one", "two"],
)
def test_an_operator_leaves_two_objects_to_the_collector(step, most):
    """Note [Edges]: the node and its tuple of edges; an edge, or a number that repeats, is no object of its own."""

    def tracked(steps):
        y = leaf(1.0)
        for _ in range(steps):
            y = step(y)
        gc.collect()
        return len(gc.get_objects()), y

    tracked(100)
    few, many = tracked(100)[0], tracked(1100)[0]
    assert many - few <= most * 1000 + 500  # others live and die meanwhile; a third object would be 1000


@pytest.mark.parametrize("numbers", [(0.0, -0.0), (1, 1.0), (2.0, 2), (float("nan"), 1.0)])
def test_equal_numbers_stay_apart(numbers):
    for _ in range(20):
        for number in numbers:
            x = leaf(2.0)
            y = x * number
            assert repr(y.tolist()) == repr([2.0 * number])
            assert y.grad_fn._saved_other.dtype is (torch.int64 if type(number) is int else torch.float64)
            y.sum().backward()
            assert repr(x.grad.tolist()) == repr([float(number)])


@pytest.mark.parametrize("hold", [lambda g: g, lambda g: g.detach(), lambda g: g[0], lambda g: g.numpy()[1:]])
def test_a_gradient_that_a_hook_keeps_is_not_shared_by_a_view_of_it(hold):
    x, kept = torch.ones(6000, requires_grad=True), []
    y = x.view(2, 3000)
    y.register_hook(lambda grad: kept.append(hold(grad)))
    (y * 3).sum().backward()
    x.grad.zero_()
    assert kept[0].min() == 3
