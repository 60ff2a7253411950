"""When graphs, tensors and gradients are freed: at once, without the cycle collector, however deep the graph."""

import gc
import weakref

import pytest


@pytest.fixture(autouse=True)
def no_collector():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


class Mark:
    """Something that lives as long as the node whose metadata holds it."""


def mark(tensor_or_node):
    """A weak reference that dies with a node (a tensor's grad_fn)."""
    node = getattr(tensor_or_node, "grad_fn", tensor_or_node)
    node.metadata["mark"] = sentinel = Mark()
    return weakref.ref(sentinel)


def leaf(torch, *values):
    return torch.tensor(list(values), requires_grad=True)


def custom(torch):
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = x * 2
            ctx.save_for_backward(x, y)
            return y

        @staticmethod
        def backward(ctx, grad):
            _x, _y = ctx.saved_tensors
            return grad * 2

    return Twice.apply


PROGRAMS = {
    "input saved": lambda torch, x: x * x,
    "output saved": lambda torch, x: x.exp(),
    "output saved in place": lambda torch, x: (x * 1).sigmoid_(),
    "several outputs": lambda torch, x: x.sort()[0],
    "view": lambda torch, x: (x * 2)[0],
    "views of views": lambda torch, x: (x * 2).view(2, 1).t()[0],
    "list of views": lambda torch, x: (x * 2).unbind()[1],
    "custom function": lambda torch, x: custom(torch)(x),
    "double backward": lambda torch, x: torch.autograd.grad((x * x * x).sum(), x, create_graph=True)[0],
    "layers": lambda torch, x: torch.nn.functional.relu(x.reshape(1, 2) @ x.reshape(2, 1)),
}


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_a_graph_dies_with_its_root(torch, program):
    x = leaf(torch, 1.0, 2.0)
    y = program(torch, x)
    z = y.sum()
    dead = [mark(y), mark(z), weakref.ref(y), weakref.ref(z)]
    del y, z
    assert [d() for d in dead] == [None] * 4
    dead = weakref.ref(x)
    del x
    assert dead() is None


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_a_graph_dies_after_backward(torch, program):
    x = leaf(torch, 1.0, 2.0)
    y = program(torch, x)
    y.sum().backward(retain_graph=True)
    y.sum().backward()
    dead = [mark(y), weakref.ref(y)]
    del y
    assert [d() for d in dead] == [None, None] and x.grad is not None


def write_to_a_view(torch, x):
    base = x * 2
    base[0].mul_(3)
    return base


def write_to_a_base(torch, x):
    base = x * 2
    view = base[0]
    base.mul_(3)
    assert view.grad_fn is not None
    return base


def write_a_view_of_a_view(torch, x):
    base = x * 2
    base.view(2, 1)[0].exp_()
    return base


@pytest.mark.parametrize("program", [write_to_a_view, write_to_a_base, write_a_view_of_a_view])
def test_a_rebased_history_is_no_cycle(torch, program):
    y = program(torch, leaf(torch, 1.0, 2.0))
    dead = [mark(y), weakref.ref(y)]
    y.sum().backward()
    del y
    assert [d() for d in dead] == [None, None]


def test_backward_frees_what_was_saved_and_keeps_the_graph(torch):
    x = leaf(torch, 1.0, 2.0)
    middle = x * 2
    y = (middle * middle).sum()
    saved = weakref.ref(middle)
    node = mark(middle)
    del middle
    y.backward()
    assert saved() is None and node() is not None
    del y
    assert node() is None


def test_retain_grad_and_hooks_are_no_cycles(torch):
    x = leaf(torch, 1.0, 2.0)
    y = x * 2
    y.retain_grad()
    y.register_hook(lambda g: g * 2)
    y.grad_fn.register_hook(lambda i, o: None)
    y.grad_fn.register_prehook(lambda o: None)
    x.register_hook(lambda g: g)
    x.register_post_accumulate_grad_hook(lambda p: None)
    y.sum().backward()
    dead = [mark(y), weakref.ref(y)]
    del y
    assert [d() for d in dead] == [None, None]
    dead = weakref.ref(x)
    del x
    assert dead() is None


def test_a_hook_on_several_gradients_keeps_no_tensor(torch):
    x = leaf(torch, 1.0)
    y = x * 2
    handle = torch.autograd.graph.register_multi_grad_hook((y,), lambda grads: None)
    y.sum().backward()
    dead = weakref.ref(y)
    del y
    assert dead() is None
    handle.remove()


def test_a_handle_keeps_neither_tensor_nor_hook(torch):
    x = leaf(torch, 1.0)
    y = x * 2
    hook = Mark.__new__(type("Hook", (Mark,), {"__call__": lambda self, grad: None}))
    handle = y.register_hook(hook)
    dead = [weakref.ref(y), weakref.ref(hook)]
    del y, hook
    assert [d() for d in dead] == [None, None]
    handle.remove()


def test_a_leaf_holds_its_accumulate_grad_weakly(torch):
    x = leaf(torch, 1.0)
    y = x * 2
    node = mark(y.grad_fn.next_functions[0][0])
    assert node() is not None
    del y
    assert node() is None
    y = x * 2
    assert "mark" not in y.grad_fn.next_functions[0][0].metadata


def test_a_graph_keeps_its_leaves(torch):
    x = leaf(torch, 1.0)
    y = x * 2
    alive = weakref.ref(x)
    del x
    accumulate = y.grad_fn.next_functions[0][0]
    assert accumulate.variable.tolist() == [1.0]
    y.sum().backward()
    assert accumulate.variable.grad.tolist() == [2.0]
    del y, accumulate
    assert alive() is None


def test_nodes_and_edges_keep_the_graph_behind_them_and_not_the_tensors(torch):
    x = leaf(torch, 1.0)
    y = x * 2
    z = y + 1
    behind, tensor = mark(y), weakref.ref(y)
    edge = torch.autograd.graph.get_gradient_edge(z)
    del y, z
    assert behind() is not None and tensor() is None
    assert torch.autograd.grad(edge, x, torch.ones(1))[0].tolist() == [2.0]
    del edge
    assert behind() is None


def test_a_result_of_grad_keeps_its_graph_only_under_create_graph(torch):
    x = leaf(torch, 1.0, 2.0)
    y = x * x
    node = mark(y)
    (plain,) = torch.autograd.grad(y.sum(), x, retain_graph=True)
    (recorded,) = torch.autograd.grad((y * y).sum(), x, create_graph=True)
    del y
    assert node() is not None
    del recorded
    assert node() is None and plain.grad_fn is None


def test_gradients_on_their_way_are_freed_as_soon_as_they_were_used(torch):
    x, gradients, alive = leaf(torch, 1.0, 2.0), [], []
    y = x
    for _ in range(5):
        y = y.sin()
        y.register_hook(
            lambda g: (alive.append(sum(r() is not None for r in gradients)), gradients.append(weakref.ref(g))) and None
        )
    y.sum().backward()
    assert max(alive) <= 1


def test_detaching_frees_the_graph(torch):
    y = leaf(torch, 1.0) * 2
    node = mark(y)
    y.detach_()
    assert node() is None


def test_ctx_dies_with_the_result(torch):
    class Keeps(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark = Mark()
            marks.append(weakref.ref(ctx.mark))
            return x.clone()

        @staticmethod
        def backward(ctx, grad):
            return grad

    marks = []
    x = leaf(torch, 1.0)
    y = Keeps.apply(x)
    assert marks[0]() is not None
    y.sum().backward()
    del y
    assert marks[0]() is None
    Keeps.apply(torch.ones(1))
    assert marks[1]() is None


# --- deep graphs ----------------------------------------------------------------------------------------------------


def steps_in_place(torch, x, count):
    y = x * 1
    for _ in range(count // 10):
        y[0].mul_(1.0)
    return y


def chain(step):
    def build(torch, x, count):
        y = x
        for _ in range(count):
            y = step(torch, x, y)
        return y

    return build


DEEP = {
    "additions": chain(lambda torch, x, y: y + 1),
    "saved inputs": chain(lambda torch, x, y: y * x),
    "saved intermediates on both sides": chain(lambda torch, x, y: y * y),
    "saved outputs": chain(lambda torch, x, y: y.tanh()),
    "views": chain(lambda torch, x, y: (y + 0).view(2)),
    "writes into a view": steps_in_place,
}


@pytest.mark.parametrize("build", DEEP.values(), ids=DEEP)
def test_deep_graphs_are_freed_without_deep_recursion(torch, build):
    x = leaf(torch, 1.0, 1.0)
    y = build(torch, x, 50_000)
    node = mark(y)
    del y
    assert node() is None


def test_deep_chains_of_custom_functions_are_freed(torch):
    x = leaf(torch, 1.0, 1.0)
    twice = custom(torch)
    y = x
    for _ in range(20_000):
        y = twice(y)
    node = mark(y)
    del y
    assert node() is None


def test_deep_graphs_run_and_are_freed(torch):
    x = leaf(torch, 1.0, 1.0)
    y = x
    for _ in range(50_000):
        y = y * 1.0
    y.sum().backward()
    assert x.grad.tolist() == [1.0, 1.0]
    node = mark(y)
    del y
    assert node() is None


def test_grad_with_respect_to_the_end_of_a_deep_graph(torch):
    x = leaf(torch, 1.0, 1.0)
    y = x
    for _ in range(50_000):
        y = y + 1
    z = y * 2
    assert torch.autograd.grad(z.sum(), y, retain_graph=True)[0].tolist() == [2.0, 2.0]
    assert torch.autograd.grad(z.sum(), x)[0].tolist() == [2.0, 2.0]
