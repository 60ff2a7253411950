"""Hooks on nodes: register_prehook and register_hook; and register_multi_grad_hook."""

import pytest


def leaf(torch, *values):
    return torch.tensor(list(values), requires_grad=True)


def test_pre_hooks_see_and_replace_what_a_node_receives_and_post_hooks_what_it_returns(torch):
    x, seen = leaf(torch, 1.0), []
    y = x * 2
    y.grad_fn.register_prehook(lambda grads: seen.append(("pre", grads[0].item())) or (grads[0] * 10,))
    y.grad_fn.register_prehook(lambda grads: seen.append(("pre", grads[0].item())))
    y.grad_fn.register_hook(lambda i, o: seen.append(("post", i[0].item(), i[1], o[0].item())) or (i[0] * 10, None))
    y.grad_fn.register_hook(lambda i, o: seen.append(("post", i[0].item(), i[1], o[0].item())))
    y.sum().backward()
    assert seen == [("pre", 1.0), ("pre", 10.0), ("post", 20.0, None, 10.0), ("post", 200.0, None, 10.0)]
    assert x.grad.tolist() == [200.0]


def test_the_order_of_all_hooks(torch):
    x, seen = leaf(torch, 1.0), []

    def note(name):
        return lambda *args: seen.append(name)

    y = x * 2
    accumulate = y.grad_fn.next_functions[0][0]
    accumulate.register_hook(note("x post"))
    accumulate.register_prehook(note("x pre"))
    x.register_post_accumulate_grad_hook(note("x accumulated"))
    x.register_hook(note("x tensor"))
    y.grad_fn.register_hook(note("y post"))
    y.grad_fn.register_prehook(note("y pre"))
    y.register_hook(note("y tensor"))
    y.sum().backward(retain_graph=True)
    assert seen == ["y tensor", "y pre", "y post", "x tensor", "x pre", "x accumulated", "x post"]
    seen.clear()
    torch.autograd.grad(y.sum(), x, retain_graph=True)
    assert seen == ["y tensor", "y pre", "y post", "x tensor"]
    seen.clear()
    torch.autograd.grad(y.sum(), y, retain_graph=True)
    assert seen == ["y tensor"]
    seen.clear()
    y.sum().backward(inputs=[y])
    assert seen == ["y tensor", "y pre", "y post"]


def test_gradients_asked_for_are_those_after_tensor_hooks_or_if_the_node_runs_before_them(torch):
    x = leaf(torch, 1.0)
    y = x * 2
    y.register_hook(lambda g: g * 3)
    y.grad_fn.register_prehook(lambda grads: (grads[0] * 10,))
    assert torch.autograd.grad(y.sum(), y, retain_graph=True)[0].tolist() == [3.0]
    of_y, of_x = torch.autograd.grad(y.sum(), [y, x])
    assert of_y.tolist() == [1.0] and of_x.tolist() == [60.0]


def test_hooks_of_an_accumulate_grad_change_what_is_accumulated(torch):
    x, seen = leaf(torch, 1.0), []
    y = x * 2
    accumulate = y.grad_fn.next_functions[0][0]
    accumulate.register_prehook(lambda grads: (grads[0] * 10,))
    accumulate.register_hook(lambda i, o: seen.append((i, o[0].tolist())))
    y.sum().backward()
    assert x.grad.tolist() == [20.0] and seen == [((), [20.0])]


def test_hooks_of_an_accumulate_grad_die_with_it_and_those_of_the_leaf_do_not(torch):
    x, seen = leaf(torch, 1.0), []
    y = x * 2
    y.grad_fn.next_functions[0][0].register_prehook(lambda grads: seen.append("node"))
    x.register_hook(lambda g: seen.append("leaf"))
    y.sum().backward()
    assert seen == ["leaf", "node"]
    seen.clear()
    del y
    (x * 3).sum().backward()
    assert seen == ["leaf"]


def test_hooks_of_a_node_with_several_outputs_and_inputs(torch):
    a, b, seen = leaf(torch, 1.0, 2.0), leaf(torch, 3.0), []
    first, second = torch.split(a * 1, 1)
    first.grad_fn.register_prehook(lambda grads: seen.append([g is None for g in grads]))
    first.sum().backward()
    node = torch.cat([a, b]).grad_fn
    node.register_hook(lambda i, o: (i[0] * 2, None))
    joined = torch.autograd.graph.GradientEdge(node, 0)
    torch.autograd.backward(joined, torch.ones(3))
    assert seen == [[False, True]] and a.grad.tolist() == [3.0, 2.0] and b.grad is None


def test_post_hooks_see_gradients_in_the_shape_of_the_inputs(torch):
    row, column, seen = leaf(torch, 1.0, 2.0), torch.ones(3, 1, requires_grad=True), []
    y = row * column
    y.grad_fn.register_hook(lambda i, o: seen.append([list(g.shape) for g in i]))
    y.sum().backward()
    assert seen == [[[2], [3, 1]]]


def test_hooks_added_and_removed_while_the_node_runs(torch):
    x, seen = leaf(torch, 1.0), []
    y = x * 2
    node = y.grad_fn

    def pre(grads):
        seen.append("pre")
        node.register_prehook(lambda grads: seen.append("added pre"))
        node.register_hook(lambda i, o: seen.append("added post"))

    def post(i, o):
        seen.append("post")
        removed.remove()

    node.register_prehook(pre)
    node.register_hook(post)
    removed = node.register_hook(lambda i, o: seen.append("removed"))
    y.sum().backward(retain_graph=True)
    assert seen == ["pre", "post", "removed", "added post"]
    seen.clear()
    y.sum().backward()
    assert seen == ["pre", "added pre", "post", "added post", "added post"]


@pytest.mark.parametrize(
    ("answer", "error", "words"),
    [
        (3, TypeError, "expected tuple, but hook returned 'int'"),
        ("tensor", TypeError, "expected tuple, but hook returned 'Tensor'"),
        (["tensor"], TypeError, "expected tuple, but hook returned 'list'"),
        ((3,), TypeError, "expected Variable, but hook returned 'int'"),
        ((), RuntimeError, r"hook '<lambda>' has returned an incorrect number of values \(got 0, but expected 1\)"),
        (("tensor", "tensor"), RuntimeError, r"an incorrect number of values \(got 2, but expected 1\)"),
        (("longer",), RuntimeError, "hook '<lambda>' has changed the size of value"),
        (("double",), RuntimeError, "hook '<lambda>' has changed the type of value"),
    ],
)
@pytest.mark.parametrize("when", ["pre", "post"])
def test_node_hooks_must_return_a_tuple_that_fits(torch, when, answer, error, words):
    tensors = {"tensor": torch.ones(2), "longer": torch.ones(3), "double": torch.ones(2, dtype=torch.float64)}
    if isinstance(answer, str):
        answer = tensors[answer]
    elif isinstance(answer, (tuple, list)):
        answer = type(answer)(tensors.get(value, value) for value in answer)
    y = leaf(torch, 1.0, 2.0).exp()
    if when == "pre":
        y.grad_fn.register_prehook(lambda grads: answer)
    else:
        y.grad_fn.register_hook(lambda i, o: answer)
    with pytest.raises(error, match=words):
        y.sum().backward()


def test_node_hooks_may_make_gradients_undefined_and_not_the_reverse(torch):
    x = leaf(torch, 1.0)
    y = x.exp()
    handle = y.grad_fn.register_prehook(lambda grads: (None,))
    y.sum().backward(retain_graph=True)
    assert x.grad is None
    handle.remove()
    handle = y.grad_fn.register_hook(lambda i, o: (None,))
    y.sum().backward()
    assert x.grad is None
    z = x * 2
    z.grad_fn.register_hook(lambda i, o: (i[0], torch.ones(1)))
    with pytest.raises(RuntimeError, match="can't replace a None gradient with a non-None value"):
        z.sum().backward()


def test_node_hooks_that_are_no_callables_fail_when_the_node_runs(torch):
    for name in ("register_hook", "register_prehook"):
        y = leaf(torch, 1.0) * 2
        getattr(y.grad_fn, name)(3)
        with pytest.raises(TypeError, match="'int' object is not callable"):
            y.sum().backward()
        with pytest.raises(TypeError):
            getattr(y.grad_fn, name)(fn=print)


def test_a_removed_node_hook_does_not_run(torch):
    y, seen = leaf(torch, 1.0) * 2, []
    handles = [
        y.grad_fn.register_hook(lambda i, o: seen.append(1)),
        y.grad_fn.register_prehook(lambda o: seen.append(2)),
    ]
    for handle in handles:
        handle.remove()
        handle.remove()
    y.sum().backward()
    assert seen == []


# --- hooks on several gradients -------------------------------------------------------------------------------------


def several(torch):
    return torch.autograd.graph.register_multi_grad_hook


def test_all_waits_for_the_gradients_that_the_pass_computes(torch):
    a, b, seen = leaf(torch, 1.0), leaf(torch, 2.0), []
    c, d = a * b, a * b
    handle = several(torch)((a, b, c, d), lambda grads: seen.append([g is not None for g in grads]))
    c.sum().backward(retain_graph=True)
    (c + d).sum().backward(retain_graph=True)
    c.sum().backward(inputs=[a], retain_graph=True)
    torch.autograd.grad(c.sum(), c, retain_graph=True)
    assert seen == [[True, True, True, False], [True] * 4, [True, False, True, False], [False, False, True, False]]
    handle.remove()
    handle.remove()
    c.sum().backward()
    assert len(seen) == 4


def test_all_does_not_wait_for_what_the_pass_was_asked_for_and_cannot_reach(torch):
    a, b, elsewhere, seen = leaf(torch, 1.0), leaf(torch, 2.0), leaf(torch, 3.0), []
    several(torch)((elsewhere, a, b), lambda grads: seen.append([None if g is None else g.item() for g in grads]))
    (a * b).backward(inputs=[elsewhere, a])
    assert seen == [[None, 2.0, None]] and elsewhere.grad is None


def test_any_takes_the_first(torch):
    a, seen = leaf(torch, 1.0), []
    b = a * 2
    handle = several(torch)((a, b), lambda grad: seen.append(grad.tolist()), mode="any")
    (b * 3).sum().backward(retain_graph=True)
    (b * 5).sum().backward(retain_graph=True)
    assert seen == [[3.0], [5.0]]
    handle.remove()
    b.sum().backward()
    assert len(seen) == 2


def test_hooks_on_several_gradients_replace_none(torch):
    a = leaf(torch, 1.0)
    b = a * 2
    several(torch)((a, b), lambda grads: [g * 10 for g in grads])
    several(torch)((a, b), lambda grad: grad * 10, mode="any")
    b.sum().backward()
    assert a.grad.tolist() == [2.0]


def test_undefined_gradients_count_as_computed(torch):
    class Nothing(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone(), x.clone()

        @staticmethod
        def backward(ctx, *grads):
            return None

    a, seen = leaf(torch, 1.0), []
    b = a * 2
    x, y = Nothing.apply(b)
    several(torch)((a, b, x, y), lambda grads: seen.append([None if g is None else g.tolist() for g in grads]))
    x.sum().backward()
    assert seen == [[None, None, [1.0], None]]


def test_the_same_tensor_twice(torch):
    b, seen = leaf(torch, 1.0) * 2, []
    several(torch)((b, b), lambda grads: seen.append(len(grads)))
    b.sum().backward()
    assert seen == [2]


def test_passes_inside_passes_are_told_apart(gradloom):  # PyTorch loses the call of the outer pass
    torch = gradloom
    a, seen = leaf(torch, 1.0), []
    b, c = a * 2, a * 3
    several(torch)((b, c), lambda grads: seen.append([g is None for g in grads]))

    def inner(grad):
        if not seen:
            with torch.enable_grad():
                b.sum().backward(retain_graph=True)

    c.register_hook(inner)
    (b + c).sum().backward()
    assert seen == [[False, True], [False, False]]


def test_a_pass_that_failed_leaves_no_half_collected_gradients(torch):
    a, seen = leaf(torch, 1.0), []
    b, c = a * 2, a * 3
    handle = b.register_hook(lambda g: 1 / 0)
    several(torch)((b, c), lambda grads: seen.append([g.tolist() for g in grads]))
    with pytest.raises(ZeroDivisionError):
        (b + c).sum().backward(retain_graph=True)
    handle.remove()
    ((b + c) * 5).sum().backward()
    assert seen == [[[5.0], [5.0]]]


def test_a_hook_on_several_gradients_that_raises(torch):
    a = leaf(torch, 1.0)
    b = a * 2
    handle = several(torch)((a, b), lambda grads: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        b.sum().backward(retain_graph=True)
    handle.remove()
    a.grad = None
    b.sum().backward()
    assert a.grad.tolist() == [2.0]


def test_bad_calls_of_hooks_on_several_gradients(torch):
    a = leaf(torch, 1.0)
    with pytest.raises(ValueError, match=r"Expects mode to be one of \('all', 'any'\) but got some"):
        several(torch)((a,), print, mode="some")
    with pytest.raises(AssertionError, match="Expected gradient function to be set"):
        several(torch)((a, torch.ones(1)), print)


# --- versions -------------------------------------------------------------------------------------------------------


def test_increment_version_makes_saved_tensors_stale(torch):
    increment = torch.autograd.graph.increment_version
    a, x = torch.ones(2), leaf(torch, 1.0, 2.0)
    increment(a)
    increment([a, a])
    increment(t for t in [a[0]])
    increment(x)
    assert a._version == 4 and x._version == 1
    y = a * x
    increment(a)
    with pytest.raises(RuntimeError, match="is at version 5; expected version 4 instead"):
        y.sum().backward()
    for wrong in (3, None, [3]):
        with pytest.raises(RuntimeError, match="increment_version expect"):
            increment(wrong)
    with torch.inference_mode():
        increment(torch.ones(1))  # has no version to increment


# --- hooks on the creation of nodes ---------------------------------------------------------------------------------


def created(torch, program):
    """The nodes that a program makes: their names and those of the nodes behind them."""
    found = []
    with torch.autograd.graph.node_creation_hook(
        lambda node: found.append((node.name(), [n and n.name() for n, _ in node.next_functions]))
    ):
        program()
    return found


class _Double:
    """A custom function of a library, made where it is needed."""

    def __new__(cls, torch):
        methods = {"forward": staticmethod(lambda ctx, x: x * 2), "backward": staticmethod(lambda ctx, g: g * 2)}
        return type("Double", (torch.autograd.Function,), methods)


@pytest.mark.since("2.15")
def test_a_hook_is_told_of_each_node_that_is_made(torch):
    x = leaf(torch, 1.0, 2.0)
    leaf_name = "torch::autograd::AccumulateGrad"
    assert created(torch, lambda: x * 2) == [(leaf_name, []), ("MulBackward0", [leaf_name, None])]
    y = x * 2
    assert created(torch, lambda: x * 2) == [("MulBackward0", [leaf_name, None])]
    assert created(torch, lambda: (y.detach() * 2, y.sin().exp())) == [
        ("SinBackward0", ["MulBackward0"]),
        ("ExpBackward0", ["SinBackward0"]),
    ]
    assert created(torch, lambda: y.split(1)) == [("SplitBackward0", ["MulBackward0"])]
    assert created(torch, lambda: _Double(torch).apply(y)) == [("DoubleBackward", ["MulBackward0"])]
    assert created(torch, lambda: torch.nn.functional.cross_entropy(y[None], torch.tensor([1]))) == [
        ("UnsqueezeBackward0", ["MulBackward0"]),
        ("LogSoftmaxBackward0", ["UnsqueezeBackward0"]),
        ("NllLossBackward0", ["LogSoftmaxBackward0"]),
    ]


@pytest.mark.since("2.15")
def test_nodes_that_backward_makes_are_reported_and_may_be_written_to(torch):
    x = leaf(torch, 1.0, 2.0)
    y = (x * x).sum()
    found = created(torch, lambda: torch.autograd.grad(y, x, create_graph=True))
    assert [name for name, _ in found] == ["MulBackward0", "MulBackward0", "AddBackward0"]
    with torch.autograd.graph.node_creation_hook(lambda node: node.metadata.update(region="a")):
        z = x.sin()
    assert z.grad_fn.metadata == {"region": "a"}


@pytest.mark.since("2.15")
def test_creation_hooks_nest_and_refuse_values_and_new_nodes(torch):
    hook, x, order = torch.autograd.graph.node_creation_hook, leaf(torch, 1.0) * 1, []
    with hook(lambda node: order.append("outer")), hook(lambda node: order.append("inner")):
        x.sin()
    assert order == ["outer", "inner"]
    with pytest.raises(RuntimeError, match="new autograd node from inside a node creation hook"), hook(lambda n: x * 5):
        x.sin()
    with pytest.raises(RuntimeError, match="node creation hook must return None, got int"), hook(lambda n: 1):
        x.sin()
    with pytest.raises(TypeError), hook(3):
        pass
    assert [name for name, _ in created(torch, x.sin)] == ["SinBackward0"]


@pytest.mark.since("2.15")
def test_callbacks_that_are_queued_in_backward_run_at_its_end(torch):
    x, order = leaf(torch, 1.0), []
    queue = torch.autograd.graph.queue_callback
    y = x * 2
    y.register_hook(lambda grad: queue(lambda: order.append("callback")))
    x.register_hook(lambda grad: order.append("leaf"))
    y.sum().backward()
    assert order == ["leaf", "callback"]
    with pytest.raises(RuntimeError, match="Final callbacks can only be installed during backward pass"):
        queue(order.clear)
