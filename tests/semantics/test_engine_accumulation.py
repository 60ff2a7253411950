"""What happens to .grad when a gradient arrives at a leaf, and what happens to gradients on their way."""

import pytest


def leaf(torch, *values):
    return torch.tensor(list(values), requires_grad=True)


def returning(torch, make):
    """A function of one tensor whose backward returns `make(grad)`."""

    class Returns(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, grad):
            return make(grad)

    return Returns.apply


def test_a_gradient_that_nobody_else_holds_becomes_grad_without_a_copy(torch):
    a, made = leaf(torch, 1.0, 2.0), []

    def make(grad):
        fresh = torch.full((2,), 5.0)
        made.append(fresh.data_ptr())
        return fresh

    returning(torch, make)(a).sum().backward()
    assert a.grad.data_ptr() == made[0]


@pytest.mark.parametrize(
    "reshape",
    [
        lambda x: x.view(2000, 3),
        lambda x: x.reshape(3, 2000).unsqueeze(0),
        lambda x: x.view(2, 3000).t(),
        lambda x: x[None],
    ],
    ids=["view", "views", "transposed", "indexed"],
)
def test_a_view_of_a_gradient_that_nobody_else_holds_becomes_grad_without_a_copy(torch, reshape):
    x, places = torch.arange(1.0, 6001).requires_grad_(), []
    y = reshape(x)
    y.register_hook(lambda grad: places.append(grad.data_ptr()))
    (y * y.detach()).sum().backward()
    assert x.grad.data_ptr() == places[0] and not x.grad._is_view()
    assert x.grad.tolist() == x.tolist()
    x.grad.add_(1)
    assert x.grad[0].item() == 2


def test_views_of_a_gradient_that_somebody_holds_are_copied(torch):
    x = torch.ones(6000, requires_grad=True)
    y = x.view(2, 3000)
    y.retain_grad()
    (y * 3).sum().backward()
    x.grad.zero_()
    assert y.grad.min() == y.grad.max() == 3


def test_a_gradient_that_somebody_holds_is_copied(torch):
    a, kept = leaf(torch, 1.0, 2.0), []

    def make(grad):
        kept.append(torch.full((2,), 5.0))
        return kept[0]

    returning(torch, make)(a).sum().backward()
    assert a.grad.data_ptr() != kept[0].data_ptr()
    a.grad.zero_()
    assert kept[0].tolist() == [5.0, 5.0]


def test_the_gradient_given_to_backward_is_copied(torch):
    a, g = leaf(torch, 1.0, 2.0), torch.ones(2)
    a.backward(g)
    assert a.grad.data_ptr() != g.data_ptr() and a.grad.tolist() == [1.0, 1.0]


def test_two_leaves_do_not_share_a_gradient(torch):
    a, b = leaf(torch, 1.0), leaf(torch, 2.0)
    (a + b).sum().backward()
    a.grad.add_(10)
    assert b.grad.tolist() == [1.0]


def test_a_gradient_is_added_to_grad_in_place(torch):
    a = leaf(torch, 1.0, 2.0)
    a.grad = torch.ones(2)
    held, version = a.grad, a.grad._version
    (a * 2).sum().backward()
    assert a.grad is held and held.tolist() == [3.0, 3.0] and held._version == version + 1


def test_under_create_graph_the_sum_is_a_new_tensor(torch):
    a = leaf(torch, 1.0, 2.0)
    a.grad = torch.ones(2)
    held = a.grad
    (a * a).sum().backward(create_graph=True)
    assert a.grad is not held and held.tolist() == [1.0, 1.0]
    assert a.grad.tolist() == [3.0, 5.0] and a.grad.requires_grad
    (second,) = torch.autograd.grad(a.grad.sum(), a)
    assert second.tolist() == [2.0, 2.0]
    a.grad = None


def test_the_first_gradient_under_create_graph_has_a_history_of_its_own(torch):
    a = leaf(torch, 1.0, 2.0)
    (a * a).sum().backward(create_graph=True)
    assert a.grad.grad_fn.name() == "torch::autograd::CopyBackwards"
    a.grad = None


def test_a_grad_with_history_is_added_to_in_place_without_create_graph(torch):
    a = leaf(torch, 1.0, 2.0)
    (a * a).sum().backward(create_graph=True)
    held = a.grad
    (a * a).sum().backward()
    assert a.grad is held and held.tolist() == [4.0, 8.0]
    a.grad = None


def test_grad_that_overlaps_itself_is_not_written_to(torch):
    a = leaf(torch, 1.0, 2.0, 3.0)
    a.grad = torch.ones(1).expand(3)
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor refers to a single memory"):
        (a * 2).sum().backward()
    assert a.grad.tolist() == [1.0, 1.0, 1.0]


def test_grad_takes_the_layout_of_its_leaf(torch):
    a = torch.ones(2, 3).t().requires_grad_()
    (a * torch.arange(6.0).view(3, 2)).sum().backward()
    assert a.grad.stride() == a.stride() == (1, 3)
    b = torch.ones(2, 3, requires_grad=True)
    (b.t() * torch.arange(6.0).view(3, 2)).sum().backward()
    assert b.grad.stride() == (3, 1)
    c = torch.ones(2, 3, requires_grad=True)
    c.sum().backward()  # an expanded gradient
    assert c.grad.stride() == (3, 1)
    c.grad.add_(1)
    assert c.grad.tolist() == [[2.0] * 3] * 2


def test_a_gradient_that_does_not_fit_grad_is_refused_in_pytorchs_words(torch):
    a = leaf(torch, 1.0, 2.0)
    (a * 2).sum().backward()
    a.data = torch.ones(3)
    with pytest.raises(RuntimeError, match=r"The size of tensor a \(2\) must match the size of tensor b \(3\)"):
        (a * 2).sum().backward()


@pytest.mark.parametrize(("dims", "each"), [((), 1.0), ((0,), 3.0)])
def test_the_gradient_of_a_mean_may_be_written_to(torch, dims, each):
    a = torch.ones(2, 3, requires_grad=True)
    (grad,) = torch.autograd.grad(a.mean(*dims).sum(), a)
    assert grad.mul_(6).tolist() == [[each] * 3] * 2


def test_every_use_of_a_leaf_adds_to_its_gradient(torch):
    a = leaf(torch, 2.0)
    (a + a).sum().backward()
    (a * a * a).sum().backward()
    assert a.grad.tolist() == [14.0]


@pytest.mark.parametrize("detach", ["requires_grad_", "detach_"])
def test_a_leaf_detached_after_the_forward_pass_gets_nothing(torch, detach):
    a = leaf(torch, 1.0)
    y = (a * 2).sum()
    if detach == "detach_":
        a.detach_()
    else:
        a.requires_grad_(False)
    y.backward()
    assert a.grad is None


def test_a_leaf_whose_data_was_exchanged_gets_the_gradient_of_what_was_used(torch):
    for data in (torch.zeros(2), torch.zeros(3), torch.zeros(2, dtype=torch.float64)):
        a = leaf(torch, 1.0, 2.0)
        y = (a * 2).sum()
        a.data = data
        y.backward()
        assert a.grad.tolist() == [2.0, 2.0] and a.grad.dtype is torch.float32


def test_a_view_that_is_a_leaf_has_a_gradient_of_its_own(torch):
    base = torch.ones(3)
    view = base[:2].requires_grad_()
    (view * 2).sum().backward()
    assert view.grad.tolist() == [2.0, 2.0] and base.grad is None


def test_what_can_be_assigned_to_grad(torch):
    a = leaf(torch, 1.0, 2.0)
    a.grad = torch.ones(2)
    a.grad = None
    assert a.grad is None
    a.grad = torch.ones(2)
    del a.grad
    assert a.grad is None
    with pytest.raises(RuntimeError, match=r"attempting to assign a gradient of size '\[3\]' to a tensor of size '\[2"):
        a.grad = torch.ones(3)
    with pytest.raises(RuntimeError, match="attempting to assign a gradient with dtype"):
        a.grad = torch.ones(2, dtype=torch.float64)
    with pytest.raises(TypeError, match="assigned grad expected to be a Tensor or None but got grad of type int"):
        a.grad = 3
    with pytest.raises(RuntimeError, match="can't assign Variable as its own grad"):
        a.grad = a


# --- gradients on their way -----------------------------------------------------------------------------------------


def test_a_gradient_that_was_broadcast_is_summed_to_the_shape_of_its_input(torch):
    for shape, expected in (((5, 2, 3), 5.0), ((4, 2, 3), 4.0)):
        a = torch.ones(2, 3, requires_grad=True)
        returning(torch, lambda g, shape=shape: torch.ones(shape))(a).sum().backward()
        assert a.grad.tolist() == [[expected] * 3] * 2


@pytest.mark.parametrize("shape", [(3,), (), (3, 2), (2, 1)])
def test_a_gradient_of_a_shape_that_the_input_does_not_broadcast_to_is_refused(torch, shape):
    a = torch.ones(2, 3, requires_grad=True)
    with pytest.raises(
        RuntimeError,
        match=r"Function ReturnsBackward returned an invalid gradient at index 0 - got .*"
        r"but expected shape compatible with \[2, 3\]",
    ):
        returning(torch, lambda g: torch.ones(shape))(a).sum().backward()
    assert a.grad is None


@pytest.mark.parametrize("dtype", ["float64", "float16", "int64", "bool"])
def test_a_gradient_of_another_type_is_converted(torch, dtype):
    a = torch.ones(2, requires_grad=True)
    returning(torch, lambda g: torch.ones(2, dtype=getattr(torch, dtype)))(a).sum().backward()
    assert a.grad.dtype is torch.float32 and a.grad.tolist() == [1.0, 1.0]


def test_undefined_gradients_stay_undefined(torch):
    a, b = leaf(torch, 1.0), leaf(torch, 1.0)
    nothing = returning(torch, lambda g: None)
    y = nothing(a * b * 3).sum()
    assert torch.autograd.grad(y, [a, b], allow_unused=True, retain_graph=True) == (None, None)
    (y + b.sum()).backward()
    assert a.grad is None and b.grad.tolist() == [1.0]


def test_a_function_of_which_one_output_is_used_gets_zeros_for_the_other_and_may_return_nothing(torch):
    class Two(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            return x + 1, y + 1

        @staticmethod
        def backward(ctx, g, h):
            seen.append((g.tolist(), h.tolist()))
            return None, h

    seen = []
    a, b = leaf(torch, 1.0), leaf(torch, 1.0)
    x, _ = Two.apply(a * 1, b * 1)
    found = torch.autograd.grad(x.sum(), [a, b], allow_unused=True, retain_graph=True)
    assert seen == [([1.0], [0.0])] and found[0] is None and found[1].tolist() == [0.0]
    with pytest.raises(RuntimeError, match="at index 0 appears to not have been used"):
        torch.autograd.grad(x.sum(), [a, b])


# --- order ----------------------------------------------------------------------------------------------------------


def test_later_nodes_run_first_and_leaves_as_soon_as_they_can(torch):
    a, b, order = leaf(torch, 1.0), leaf(torch, 2.0), []
    x = a * 2
    y = x.exp()
    z = x.sin()
    w = y * z
    q = b * w
    for name, tensor in {"x": x, "y": y, "z": z, "w": w, "q": q}.items():
        tensor.grad_fn.register_prehook(lambda grads, name=name: order.append(name))
    a.register_post_accumulate_grad_hook(lambda p: order.append("a"))
    b.register_post_accumulate_grad_hook(lambda p: order.append("b"))
    q.sum().backward()
    assert order == ["q", "b", "w", "z", "y", "x", "a"]


@pytest.mark.parametrize(
    ("program", "order"),
    [
        (lambda torch, a, b, c: a * b, "ab"),
        (lambda torch, a, b, c: b * a, "ba"),
        (lambda torch, a, b, c: torch.addcmul(c, b, a), "cba"),
        (lambda torch, a, b, c: torch.stack([b, c, a]), "bca"),
        (lambda torch, a, b, c: (a * b).exp() * c, "cab"),
    ],
)
def test_leaves_whose_gradients_are_complete_at_once_run_in_the_order_of_inputs(torch, program, order):
    leaves, seen = [torch.ones(2, 2, requires_grad=True) for _ in "abc"], []
    for name, leaf_ in zip("abc", leaves, strict=True):
        leaf_.register_hook(lambda g, name=name: seen.append(name))
    held = [torch.autograd.graph.get_gradient_edge(leaf_) for leaf_ in leaves[::-1]]  # made in another order
    program(torch, *leaves).sum().backward()
    assert "".join(seen) == order and len(held) == 3


def test_the_order_of_roots_does_not_matter(torch):
    a, order = leaf(torch, 1.0), []
    products = [a * i for i in range(4)]
    for i, tensor in enumerate(products):
        tensor.grad_fn.register_prehook(lambda grads, i=i: order.append(i))
    roots = [products[i] for i in (2, 0, 3, 1)]
    torch.autograd.backward(roots, [torch.ones(1)] * 4, retain_graph=True)
    assert order == [3, 2, 1, 0]
    order.clear()
    products[1].grad_fn._set_sequence_nr(1_000_000_000)
    torch.autograd.backward(roots, [torch.ones(1)] * 4)
    assert order == [1, 3, 2, 0]


def test_sequence_numbers_rise_with_each_node(torch):
    a = leaf(torch, 1.0)
    first, second, third = [(a * 2).grad_fn for _ in range(3)]
    assert second._sequence_nr() - first._sequence_nr() == third._sequence_nr() - second._sequence_nr() == 1
    accumulate = third.next_functions[0][0]
    assert accumulate._sequence_nr() == (1 << 64) - 1
    with pytest.raises(OverflowError, match="can't convert negative int to unsigned"):
        first._set_sequence_nr(-1)


def test_only_what_leads_to_the_inputs_runs(torch):
    a, b, ran = leaf(torch, 1.0), leaf(torch, 2.0), []
    left, right = a * 2, b * 3
    left.register_hook(lambda g: ran.append("left"))
    right.register_hook(lambda g: ran.append("right"))
    right.grad_fn.register_prehook(lambda g: ran.append("right node"))
    torch.autograd.grad((left * right).sum(), a)
    assert ran == ["left"]


def test_formulas_are_evaluated_in_the_order_of_their_inputs_names(torch):
    a, b, seen = leaf(torch, 2.0), leaf(torch, 3.0), []
    of_a, of_b = torch.autograd.grad(a * b, (a, b), create_graph=True)  # `other` before `self`
    assert of_b.grad_fn._sequence_nr() < of_a.grad_fn._sequence_nr()
    of_a.grad_fn.register_prehook(lambda grads: seen.append("a"))
    of_b.grad_fn.register_prehook(lambda grads: seen.append("b"))
    (of_b + of_a).backward()
    assert seen == ["a", "b"]
