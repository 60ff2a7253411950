"""Views: every operator that makes them, views of views, and what a write to one does to the others.

Gradients are compared with a computation without views: a mask says which elements a view shows.
"""

import warnings

import pytest

# name -> the view of a (3, 4) tensor, the node that makes it. Of operators that are made of others, the last node.
VIEWS = {
    "view": (lambda b: b.view(6, 2), "ViewBackward0"),
    "view_as": (lambda b: b.view_as(b), "ViewBackward0"),
    "reshape": (lambda b: b.reshape(2, 6), "ViewBackward0"),
    "reshape_as": (lambda b: b.reshape_as(b), "ViewBackward0"),
    "flatten": (lambda b: b.flatten(), "ViewBackward0"),
    "ravel": (lambda b: b.ravel(), "ViewBackward0"),
    "unflatten": (lambda b: b.unflatten(0, (3, 1)), "ViewBackward0"),
    "permute": (lambda b: b.permute(1, 0), "PermuteBackward0"),
    "transpose": (lambda b: b.transpose(0, 1), "TransposeBackward0"),
    "swapaxes": (lambda b: b.swapaxes(0, 1), "TransposeBackward0"),
    "swapdims": (lambda b: b.swapdims(0, 1), "TransposeBackward0"),
    "movedim": (lambda b: b.movedim(0, 1), "PermuteBackward0"),
    "moveaxis": (lambda b: b.moveaxis(0, 1), "PermuteBackward0"),
    "t": (lambda b: b.t(), "TBackward0"),
    "T": (lambda b: b.T, "PermuteBackward0"),
    "mT": (lambda b: b.mT, "TransposeBackward0"),
    "H": (lambda b: b.H, "TransposeBackward0"),
    "adjoint": (lambda b: b.adjoint(), "TransposeBackward0"),
    "squeeze": (lambda b: b.unsqueeze(0).squeeze(), "SqueezeBackward0"),
    "squeeze of a dimension": (lambda b: b.unsqueeze(1).squeeze(1), "SqueezeBackward1"),
    "squeeze of dimensions": (lambda b: b.unsqueeze(1).squeeze((0, 1)), "SqueezeBackward2"),
    "unsqueeze": (lambda b: b.unsqueeze(-1), "UnsqueezeBackward0"),
    "narrow": (lambda b: b.narrow(1, 1, 2), "SliceBackward0"),
    "select": (lambda b: b.select(0, 1), "SelectBackward0"),
    "an index": (lambda b: b[1], "SelectBackward0"),
    "two indices": (lambda b: b[1, 2], "SelectBackward0"),
    "a slice": (lambda b: b[1:3], "SliceBackward0"),
    "a slice with a step": (lambda b: b[:, ::2], "SliceBackward0"),
    "an ellipsis": (lambda b: b[..., 1], "SelectBackward0"),
    "None": (lambda b: b[None, :, None], "UnsqueezeBackward0"),
    "diagonal": (lambda b: b.diagonal(), "DiagonalBackward0"),
    "diagonal above": (lambda b: b.diagonal(1), "DiagonalBackward0"),
    "unfold": (lambda b: b.unfold(1, 2, 2), "UnfoldBackward0"),
    "as_strided": (lambda b: b.as_strided((2, 2), (4, 1), 1), "AsStridedBackward0"),
    "expand of the size itself": (lambda b: b.expand(3, 4), "ExpandBackward0"),
    "broadcast_to": (lambda b: b.broadcast_to(3, 4), "ExpandBackward0"),
    "a chain": (lambda b: b.t()[1:3].unsqueeze(0)[..., ::2], "SliceBackward0"),
}
MULTI = {
    "unbind": (lambda b: b.unbind(), "UnbindBackward0"),
    "unbind of a dimension": (lambda b: b.unbind(1), "UnbindBackward0"),
    "split": (lambda b: b.split(1), "SplitBackward0"),
    "split of sizes": (lambda b: b.split([1, 2]), "SplitWithSizesBackward0"),
    "chunk": (lambda b: b.chunk(3), "SplitBackward0"),
    "iteration": (lambda b: tuple(b), "UnbindBackward0"),
}
EACH_VIEW = pytest.mark.parametrize("make, node", VIEWS.values(), ids=VIEWS)
EACH_MULTI = pytest.mark.parametrize("make, node", MULTI.values(), ids=MULTI)
COPIES = {
    "clone": lambda b: b.clone(),
    "index by a list": lambda b: b[[0, 2]],
    "index by a mask": lambda b: b[b > 0],
    "flatten of what is not contiguous": lambda b: b.t().flatten(),
    "repeat": lambda b: b.repeat(1, 1),
    "contiguous of what is not": lambda b: b.t().contiguous(),
    "diag": lambda b: b.diag(),
    "flip": lambda b: b.flip(0),
    "index_select": lambda b: b.index_select(0, b.argmax(0)[:1]),
    "narrow_copy": lambda b: b.narrow_copy(0, 0, 1),
    "to of another dtype": lambda b: b.float(),
    "detach": lambda b: b.detach(),
    "roll": lambda b: b.roll(1),
}


@pytest.fixture
def a(torch):
    """A leaf of shape (3, 4)."""
    return (torch.arange(12, dtype=torch.float64).reshape(3, 4) / 7 + 0.3).clone().requires_grad_()


def weights(torch, tensor):
    return torch.arange(1, tensor.numel() + 1, dtype=torch.float64).reshape(tensor.shape)


def weighted(torch, tensor):
    """A sum in which every element counts differently."""
    return (tensor * weights(torch, tensor)).sum()


def mask_of(torch, make):
    """Which elements of a (3, 4) tensor a view shows: 1 where it does."""
    mask = torch.zeros(3, 4, dtype=torch.float64)
    make(mask).fill_(1)
    return mask


def name(tensor):
    return type(tensor.grad_fn).__name__


def close(torch, found, expected):
    return torch.allclose(found, expected, rtol=1e-10, atol=0)


# --- what a view is -------------------------------------------------------------------------------


@EACH_VIEW
def test_a_view_shows_the_memory_of_its_base(torch, a, make, node):
    b = a * 1
    view = make(b)
    assert view._is_view() and view._base is b and view.requires_grad and not view.is_leaf
    assert name(view) == node
    b.detach().fill_(7)
    assert bool((view == 7).all()) and view._version == b._version == 1


@EACH_VIEW
def test_the_gradient_of_a_view_arrives_at_its_base(torch, a, make, node):
    weighted(torch, make(a * 1)).backward()
    expected = torch.zeros(3, 4, dtype=torch.float64)
    make(expected).copy_(weights(torch, make(expected)))
    assert torch.equal(a.grad, expected)


@pytest.mark.parametrize("make", COPIES.values(), ids=COPIES)
def test_what_is_no_view(torch, a, make):
    b = a * 1
    found = make(b)
    assert not found._is_view() and found._base is None


def test_conversions_that_change_nothing_are_no_views(a):
    b = a * 1
    for same in (b.contiguous(), b.to(b.dtype), b.double(), b.resolve_conj(), b.conj(), b.real):
        assert same is b


def test_a_view_of_a_view_has_the_root_as_its_base(torch, a):
    b = a * 1
    view = b[1:].t()[0].unsqueeze(0)
    assert view._base is b
    assert [type(view.grad_fn).__name__, type(view.grad_fn.next_functions[0][0]).__name__] == [
        "UnsqueezeBackward0",
        "SelectBackward0",
    ]


def test_a_view_keeps_its_base_alive(torch):
    view = torch.ones(3)[1:]
    assert view._base.tolist() == [1.0] * 3


def test_views_of_leaves_without_gradients(torch):
    base = torch.ones(3)
    view = base[1:]
    assert view._is_view() and view._base is base and view.is_leaf and not view.requires_grad


# --- writes to a view -----------------------------------------------------------------------------


@EACH_VIEW
def test_a_write_to_a_view_rebases_the_history_of_its_base(torch, a, make, node):
    b = a * 1
    view = make(b)
    view.mul_(3)
    assert name(b) == "CopySlices" and name(view) == "AsStridedBackward0"
    assert type(b.grad_fn.next_functions[0][0]).__name__ == "MulBackward0"
    mask = mask_of(torch, make)
    assert close(torch, b, a * (1 + 2 * mask))
    weighted(torch, b).backward()
    assert close(torch, a.grad, weights(torch, a) * (1 + 2 * mask))


@EACH_VIEW
def test_the_gradient_of_a_written_view(torch, a, make, node):
    b = a * 1
    view = make(b)
    view.mul_(3)
    weighted(torch, view).backward()
    expected = torch.zeros(3, 4, dtype=torch.float64)
    make(expected).copy_(3 * weights(torch, make(expected)))
    assert close(torch, a.grad, expected)


@EACH_VIEW
def test_a_write_to_the_base_reaches_the_view(torch, a, make, node):
    b = a * 1
    view = make(b)
    b.mul_(2)
    assert name(b) == "MulBackward0" and name(view) == "AsStridedBackward0" and view._version == 1
    weighted(torch, view).backward()
    expected = torch.zeros(3, 4, dtype=torch.float64)
    make(expected).copy_(2 * weights(torch, make(expected)))
    assert close(torch, a.grad, expected)


@EACH_VIEW
def test_writes_to_base_and_view_in_turns(torch, a, make, node):
    b = a * 1
    view = make(b)
    b.mul_(2)
    view.mul_(3)
    b.add_(a)
    view.sin_()
    mask = mask_of(torch, make)
    before = a.detach() * 2 * (1 + 2 * mask) + a.detach()
    assert close(torch, b.detach(), torch.where(mask > 0, before.sin(), before))
    weighted(torch, b).backward()
    slope = (2 * (1 + 2 * mask) + 1) * torch.where(mask > 0, before.cos(), torch.ones_like(before))
    assert close(torch, a.grad, weights(torch, a) * slope)


@EACH_VIEW
def test_second_derivatives_through_a_written_view(torch, a, make, node):
    b = a * 1
    make(b).mul_(a[0, 0])
    (first,) = torch.autograd.grad((b**3).sum(), a, create_graph=True)
    (found,) = torch.autograd.grad(first.sum(), a)
    mask = mask_of(torch, make)
    c = torch.where(mask > 0, a * a[0, 0], a)
    (expected_first,) = torch.autograd.grad((c**3).sum(), a, create_graph=True)
    (expected,) = torch.autograd.grad(expected_first.sum(), a)
    assert close(torch, first, expected_first) and close(torch, found, expected)


@EACH_VIEW
def test_writing_what_requires_grad_into_a_view_of_what_does_not(torch, a, make, node):
    base = torch.ones(3, 4, dtype=torch.float64)
    view = make(base)
    view.mul_(a[0, 0])
    assert base.requires_grad and view.requires_grad and name(base) == "CopySlices"
    base.sum().backward()
    assert close(torch, a.grad[0, 0], mask_of(torch, make).sum()) and a.grad.count_nonzero() == 1


def test_a_write_to_one_view_reaches_another(torch, a):
    b = a * 1
    row, column = b[0], b[:, 0]
    row.mul_(column[1].detach().clone())
    assert name(column) == "AsStridedBackward0"
    column.sum().backward()
    expected = torch.zeros(3, 4, dtype=torch.float64)
    expected[:, 0] = 1
    expected[0, 0] = a.detach()[1, 0]
    assert close(torch, a.grad, expected)


def test_writes_that_add_one_view_to_another(torch, a):
    b = a * 1
    first, second = b[0], b[1]
    first.add_(second)
    second.sub_(first, alpha=2)
    (first.sum() + 3 * second.sum()).backward()
    assert a.grad[:, 0].tolist() == [1.0 - 6.0, 1.0 + 3.0 - 6.0, 0.0]


def test_a_write_that_saved_a_part_which_was_written_to_since_is_found(torch, a):
    b = a * 1
    first, second = b[0], b[1]
    first.mul_(second)
    second.mul_(first)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        (first.sum() + second.sum()).backward()


def test_a_saved_view_that_is_written_to_is_found(torch, a):
    for make, _ in VIEWS.values():
        view = make(a * 1)
        result = view.sin()
        view.mul_(2)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            result.sum().backward()


# --- several views at once ------------------------------------------------------------------------


@EACH_MULTI
def test_several_views_are_outputs_of_one_node(torch, a, make, node):
    b = a * 1
    views = make(b)
    assert [v.output_nr for v in views] == list(range(len(views)))
    assert len({v.grad_fn for v in views}) == 1 and name(views[0]) == node
    assert all(v._is_view() and v._base is b for v in views)
    sum((i + 1) * v.sum() for i, v in enumerate(views)).backward()
    expected = torch.zeros(3, 4, dtype=torch.float64)
    for i, v in enumerate(make(expected)):
        v.fill_(i + 1)
    assert torch.equal(a.grad, expected)


SEVERAL = "This view is the output of a function that returns multiple views"


@EACH_MULTI
def test_one_of_several_views_must_not_be_written_to(torch, a, make, node):
    operator, said = node.replace("Backward0", ""), f"is a view and is being modified inplace. {SEVERAL}"
    with pytest.raises(RuntimeError, match=f"Output 0 of {operator} {said}"):
        make(a * 1)[0].mul_(2)
    with pytest.raises(RuntimeError, match=f"Output 1 of {operator} {said}"):
        make(a * 1)[1].mul_(2)
    with pytest.raises(RuntimeError, match=f"Output 0 of Select {said}"):
        make(a * 1)[1][0] = 5
    with pytest.raises(RuntimeError, match=SEVERAL):
        make(a * 1)[0].view(-1).add_(1)
    with pytest.raises(RuntimeError, match=SEVERAL):
        make(a)[0].mul_(2)


@EACH_MULTI
def test_one_of_several_views_must_not_be_used_after_a_write_to_the_base(torch, a, make, node):
    b = a * 1
    views = make(b)
    b.mul_(2)
    for use in (lambda: views[0] * 2, lambda: views[0].grad_fn):
        with pytest.raises(
            RuntimeError,
            match=f"is a view and its base or another view of its base has been modified inplace. {SEVERAL}",
        ):
            use()


@EACH_MULTI
def test_several_views_may_be_written_to_where_nothing_is_recorded(torch, a, make, node):
    base = torch.zeros(3, 4, dtype=torch.float64)
    make(base)[0].add_(1)
    assert base.sum() == make(base)[0].numel()
    b = a * 1
    with torch.no_grad():
        make(b)[0].zero_()
    assert make(b)[0].sum() == 0


# --- views made while nothing is recorded ---------------------------------------------------------


MODES = {
    "no_grad": "A view was created in no_grad mode and is being modified inplace with grad mode enabled",
    "inference_mode": "A view was created in inference mode and is being modified inplace in normal mode",
}


@pytest.mark.parametrize("mode", MODES)
@EACH_VIEW
def test_a_view_made_while_nothing_was_recorded_requires_grad_but_must_not_be_written_to(torch, a, make, node, mode):
    b = a * 1
    with getattr(torch, mode)():
        view = make(b)
    assert view._is_view() and view.requires_grad and view.grad_fn is None and not view.is_inference()
    assert name(view * 2) == "MulBackward0"
    with pytest.raises(RuntimeError, match=MODES[mode]):
        view.mul_(2)


@pytest.mark.parametrize("mode", MODES)
def test_a_view_of_a_leaf_made_while_nothing_was_recorded(torch, a, mode):
    with getattr(torch, mode)():
        view = a[0]
        inside = a[1]
        inside.mul_(2)
    assert a._version == 1
    with pytest.raises(RuntimeError, match=MODES[mode]):
        view.mul_(2)


def test_a_view_made_in_no_grad_of_what_requires_no_gradient(torch, a):
    base = torch.zeros(3, 4, dtype=torch.float64)
    with torch.no_grad():
        view = base[0]
    view.add_(1)
    assert base.sum() == 4
    with pytest.raises(RuntimeError, match=MODES["no_grad"]):
        view.mul_(a[0])


def test_a_hook_on_a_view_that_no_gradient_reaches_is_never_called(torch, a):
    with torch.no_grad():
        view = a.view(-1)
    seen = []
    handle = view.register_hook(seen.append)
    (view * 3).sum().backward()
    assert view.requires_grad and view.is_leaf and not seen and a.grad is None
    handle.remove()


def test_a_view_that_was_a_leaf_gets_no_gradient_after_it_was_frozen(torch):
    leaf = torch.ones(4).view(2, 2).requires_grad_()
    result = (leaf * 2).sum()
    leaf.requires_grad_(False)
    result.backward(retain_graph=True)
    assert leaf.grad is None
    leaf.requires_grad_()
    result.backward()
    assert leaf.grad.tolist() == [[2.0, 2.0], [2.0, 2.0]]


def test_a_view_made_in_no_grad_must_not_be_made_anew(torch, a):
    b = a * 1
    with torch.no_grad():
        view = b[0]
    b.mul_(2)
    with pytest.raises(
        RuntimeError,
        match="A view was created in no_grad mode and its base or another view of its "
        "base has been modified inplace with grad mode enabled",
    ):
        view.grad_fn  # noqa: B018


def test_what_must_not_be_made_anew_takes_part_where_no_history_is_asked_for(torch, a):
    class Scaled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.save_for_backward(x)
            return x * y

        @staticmethod
        def backward(ctx, grad):
            return grad, grad

    b = a * 1
    with torch.no_grad():
        view = b[0]
    b.mul_(2)
    view.retain_grad()  # a leaf as far as its own history goes
    parts = b.chunk(2, -1)
    with torch.no_grad():
        parts[0].mul_(2)
        made = [Scaled.apply(t, t) for t in (view, parts[0])]
    assert not any(t.requires_grad for t in made)
    with pytest.raises(RuntimeError, match="is a view and its base or another view of its base has been modified"):
        Scaled.apply(parts[0], parts[0])


def test_a_function_must_not_write_to_what_it_made_in_no_grad_of_a_leaf(torch, a):
    class Same(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.view_as(x)

        @staticmethod
        def backward(ctx, grad):
            return grad

    class Doubled(Same):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            return x.mul_(2)

    with torch.no_grad():
        same = Same.apply(a)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad has been used in an in-place operation"):
        Doubled.apply(same)


def test_a_view_may_be_made_and_written_to_in_no_grad(torch, a):
    b = a * 1
    with torch.no_grad():
        b[0].zero_()
    assert name(b) == "MulBackward0" and b._version == 1
    b.sum().backward()
    assert a.grad.tolist() == [[1.0] * 4] * 3


def test_a_view_made_with_grad_mode_is_made_anew_in_no_grad_too(torch, a):
    b = a * 1
    view = b[0]
    with torch.no_grad():
        b.mul_(2)
        assert name(view) == "AsStridedBackward0"
    view.sum().backward()
    assert a.grad[0].tolist() == [1.0] * 4, "the write was not recorded"


# --- views of custom functions --------------------------------------------------------------------


def function(torch, compute, gradient):
    class Custom(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return compute(x)

        @staticmethod
        def backward(ctx, *grads):
            return gradient(*grads)

    return Custom.apply


CUSTOM = "This view was created inside a custom Function"


def test_an_input_that_a_custom_function_returns_is_a_view_of_it(torch, a):
    b = a * 1
    same = function(torch, lambda x: x, lambda g: g * 10)(b)
    assert same is not b and same._is_view() and same._base is b and name(same) == "CustomBackward"
    same.sum().backward()
    assert a.grad[0, 0] == 10


@pytest.mark.parametrize("compute", [lambda x: x, lambda x: x.view(-1), lambda x: x[0]], ids=["itself", "view", "row"])
def test_a_view_made_by_a_custom_function_must_not_be_written_to(torch, a, compute):
    def gradient(grad):
        return grad.new_ones(3, 4)

    b = a * 1
    with pytest.raises(RuntimeError, match=f"Output 0 of Custom is a view and is being modified inplace. {CUSTOM}"):
        function(torch, compute, gradient)(b).mul_(2)
    view = function(torch, compute, gradient)(b)
    b.mul_(2)
    with pytest.raises(RuntimeError, match="its base or another view of its base has been modified inplace. " + CUSTOM):
        view.grad_fn  # noqa: B018


def test_several_views_made_by_a_custom_function_must_not_be_written_to(torch, a):
    views = function(torch, lambda x: (x[0], x[1]), lambda g, h: torch.stack([g, h, 0 * g]))(a * 1)
    with pytest.raises(RuntimeError, match=SEVERAL):
        views[1].mul_(2)
    (views[0].sum() + 2 * views[1].sum()).backward()
    assert a.grad[:, 0].tolist() == [1.0, 2.0, 0.0]


def test_copies_made_by_a_custom_function_may_be_written_to(torch, a):
    result = function(torch, lambda x: x[0].clone(), lambda g: torch.stack([g, 0 * g, 0 * g]))(a * 1)
    result.mul_(2)
    result.sum().backward()
    assert a.grad[:, 0].tolist() == [2.0, 0.0, 0.0]


def test_what_a_custom_function_returns_of_its_inputs_in_no_grad_is_no_view(torch, a):
    b = a * 1
    with torch.no_grad():
        same = function(torch, lambda x: x, lambda g: g)(b)
    assert not same.requires_grad and not same._is_view()
    same.mul_(2)
    assert torch.equal(b.detach(), same)


# --- complex views --------------------------------------------------------------------------------


@pytest.fixture
def c(torch):
    return torch.tensor([1 + 2j, 3 - 1j], dtype=torch.complex128, requires_grad=True)


def test_real_and_imaginary_parts_are_views(torch, c):
    b = c * 1
    real, imaginary = b.real, b.imag
    assert (name(real), name(imaginary)) == ("SelectBackward0", "SelectBackward0")
    assert real._base is b and imaginary._base is b
    real.mul_(2)
    imaginary.add_(real)
    assert b.tolist() == [2 + 4j, 6 + 5j]
    assert name(b) == "CopySlices"
    (b * b.conj()).real.sum().backward()
    # |b|^2 = (2x)^2 + (y + 2x)^2
    x, y = c.detach().real, c.detach().imag
    assert torch.allclose(c.grad, torch.complex(8 * x + 4 * (y + 2 * x), 2 * (y + 2 * x)))


def test_view_as_real_and_view_as_complex_follow_writes(torch, c):
    b = c * 1
    torch.view_as_real(b)[:, 0].mul_(3)
    b.real.sum().backward()
    assert c.grad.tolist() == [3, 3]
    pairs = torch.ones(3, 2, dtype=torch.float64, requires_grad=True)
    d = pairs * 1
    torch.view_as_complex(d).mul_(1j)
    assert name(d) == "CopySlices" and d.tolist() == [[-1.0, 1.0]] * 3
    d[:, 0].sum().backward()
    assert pairs.grad.tolist() == [[0.0, -1.0]] * 3


def test_a_real_part_is_made_anew_after_a_write_to_its_base(torch, c):
    b = c * 1
    real = b.real
    b.mul_(2j)
    real.sum().backward()
    assert c.grad.tolist() == [-2j, -2j]


def test_real_and_imaginary_parts_can_be_assigned(torch, c):
    b = c * 1
    b.real = torch.ones(2, dtype=torch.float64)
    assert b.tolist() == [1 + 2j, 1 - 1j]
    b.imag = b.real * 3
    assert b.tolist() == [1 + 3j, 1 + 3j] and b._version == 2
    with pytest.raises(RuntimeError, match="a view of a leaf Variable that requires grad is being used in an in-place"):
        c.real = torch.zeros(2, dtype=torch.float64)


# --- as_strided -----------------------------------------------------------------------------------


def test_as_strided_sees_the_storage(torch, a):
    b = (a * 1).t()
    view = b.as_strided((2, 2), (1, 3), 1)
    assert torch.equal(view, (a * 1).flatten().as_strided((2, 2), (1, 3), 1))
    row = (a * 1)[1:]
    assert row.as_strided((2,), (1,)).tolist() == row[0, :2].tolist()
    assert row.as_strided((2,), (1,), 0).tolist() == a[0, :2].tolist()


def test_the_gradients_of_elements_that_as_strided_shows_twice_add_up(torch):
    x = torch.zeros(4, dtype=torch.float64, requires_grad=True)
    view = (x * 1).as_strided((2, 3), (1, 1))
    weighted(torch, view).backward()
    assert x.grad.tolist() == [1.0, 2.0 + 4.0, 3.0 + 5.0, 6.0]


def test_as_strided_of_an_expanded_tensor(torch, a):
    expanded = (a * 1)[:, :1].expand(3, 4)
    expanded.as_strided((2, 2), (4, 0)).sum().backward()
    assert a.grad[:, 0].tolist() == [2.0, 2.0, 0.0]


def test_as_strided_in_place_changes_what_a_tensor_shows(torch, a):
    b = a * 1
    assert b.as_strided_((3,), (2,)) is b
    assert tuple(b.shape) == (3,) and b._version == 1 and name(b) == "AsStridedBackward1"
    b.sum().backward()
    assert a.grad.flatten().tolist() == [1.0, 0.0, 1.0, 0.0, 1.0] + [0.0] * 7


def test_as_strided_beyond_the_memory_is_refused(torch, a):
    for arguments, said in (
        (((2, 3), (9, 9)), "are out of bounds for storage of size 96"),
        (((2,), (1,), 20), "out of bounds for storage"),
        (((2,), (-1,)), "Negative strides are not supported"),
        (((-1,), (1,)), "Storage size calculation overflowed with sizes="),
        (((2,), (1, 1)), "mismatch in length of strides and shape"),
    ):
        with pytest.raises(RuntimeError, match=said):
            a.as_strided(*arguments)


def test_the_number_of_an_output_is_that_before_its_base_was_written(torch):
    x = torch.ones(2, 3, requires_grad=True) * 1
    parts = x.unbind(0)
    x.mul_(2)
    assert [part.output_nr for part in parts] == [0, 1]
    with pytest.raises(RuntimeError, match="Output 1 of Unbind"):
        parts[1].grad_fn  # noqa: B018
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert parts[1].grad is None


def test_a_parameter_shares_the_version_of_its_data(torch):
    x = torch.ones(3)
    parameter = torch.nn.Parameter(x)
    x.mul_(2)
    assert parameter._version == x._version == 1


def test_a_list_is_written_as_a_whole_or_not_at_all(torch):
    leaf, other = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True) * 1
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        torch._foreach_add_([other, leaf], 1.0)
    assert other._version == 0 and other.tolist() == [1, 1]
    torch._foreach_add_([other], 1.0)
    assert other.grad_fn.name() == "AddBackward1"
    torch._foreach_mul_([other], [3.0])
    assert other.grad_fn.name() == "MulBackward1" and other.tolist() == [6, 6]


def test_an_empty_tuple_of_dimensions_is_not_a_call_without_any(torch):
    column = torch.ones(3, 1, 1)
    assert column.squeeze(()).shape == column.squeeze([]).shape == (3, 1, 1)
    assert column.squeeze((1,)).shape == column.squeeze(1).shape == (3, 1)
    assert column.squeeze((1, 2)).shape == column.squeeze(1, 2).shape == column.squeeze().shape == (3,)


@pytest.mark.parametrize("name", ["std", "var", "hash_tensor"])
def test_integers_are_passed_separately_for_lists_of_any_length_only(torch, name):
    with pytest.raises(TypeError):
        getattr(torch.ones(3, 1, 2), name)(1, 2)


def test_the_gradient_of_a_broadcast_tensor_is_a_view_of_a_sum(torch):
    row = torch.ones(3, requires_grad=True)
    (grad,) = torch.autograd.grad((torch.ones(4, 3, requires_grad=True) * row).sum(), row, create_graph=True)
    assert grad.grad_fn.name() == "ViewBackward0" and grad.grad_fn.next_functions[0][0].name() == "SumBackward1"
