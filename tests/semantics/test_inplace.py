"""Writes in place: operators, versions, history, hooks, what is refused; set_ and resize_."""

import pytest


@pytest.fixture
def a(torch):
    """A leaf of shape (2, 3) with the values 1 to 6."""
    return torch.arange(1, 7, dtype=torch.float64).reshape(2, 3).clone().requires_grad_()


def name(tensor):
    return type(tensor.grad_fn).__name__


# An in-place operator, with its other arguments as a function of the library and of a tensor of ones.
OPERATORS = {
    "abs_": (),
    "acos_": (),
    "add_": (2,),
    "addcdiv_": ("o", "o"),
    "addcmul_": ("o", "o"),
    "asin_": (),
    "atan2_": ("o",),
    "atan_": (),
    "ceil_": (),
    "clamp_": (0.4, 1),
    "clamp_max_": (0.4,),
    "clamp_min_": (0.4,),
    "copysign_": ("o",),
    "cos_": (),
    "cosh_": (),
    "cumprod_": (0,),
    "cumsum_": (0,),
    "deg2rad_": (),
    "div_": ("o",),
    "erf_": (),
    "erfc_": (),
    "exp2_": (),
    "exp_": (),
    "expm1_": (),
    "fill_": (2,),
    "float_power_": (2,),
    "floor_": (),
    "fmod_": (2,),
    "frac_": (),
    "hypot_": ("o",),
    "lerp_": ("o", 0.25),
    "lgamma_": (),
    "log10_": (),
    "log1p_": (),
    "log2_": (),
    "log_": (),
    "logit_": (),
    "masked_fill_": ("m", 3.0),
    "mul_": ("o",),
    "nan_to_num_": (),
    "neg_": (),
    "pow_": (3,),
    "reciprocal_": (),
    "relu_": (),
    "remainder_": (2,),
    "round_": (),
    "rsqrt_": (),
    "sigmoid_": (),
    "sign_": (),
    "sin_": (),
    "sinc_": (),
    "sinh_": (),
    "sqrt_": (),
    "square_": (),
    "sub_": ("o",),
    "tan_": (),
    "tanh_": (),
    "tril_": (),
    "triu_": (),
    "trunc_": (),
    "xlogy_": ("o",),
    "zero_": (),
}


@pytest.mark.parametrize("operator", OPERATORS)
def test_an_in_place_operator_has_the_gradient_of_the_operator(torch, operator):
    x = torch.tensor([[0.3, 0.6], [0.2, 0.9]], dtype=torch.float64, requires_grad=True)
    other = {
        "o": torch.full((2, 2), 0.7, dtype=torch.float64, requires_grad=True),
        "m": torch.tensor([[True, False], [False, False]]),
    }
    given = [other[v] if isinstance(v, str) else v for v in OPERATORS[operator]]
    functional = getattr(torch, operator[:-1], None) if operator not in ("fill_", "zero_") else None

    def gradients(compute):
        x.grad = other["o"].grad = None
        (compute(x * 1) * torch.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=torch.float64)).sum().backward()
        return [g if g is None else g.tolist() for g in (x.grad, other["o"].grad)]

    def in_place(y):
        assert getattr(y, operator)(*given) is y and y._version == 1
        return y

    def of_a_view(y):
        getattr(y[:], operator)(*given)
        assert y._version == 1 and name(y) == "CopySlices"
        return y

    if functional is not None:
        assert gradients(in_place) == gradients(lambda y: functional(y, *given))
    assert gradients(in_place) == gradients(of_a_view)


@pytest.mark.parametrize("operator", OPERATORS)
def test_a_column_is_written_as_whole_memory_is(torch, operator):
    """The column of a matrix of any width: code for vectors reads and writes some strides in ways of its own."""
    for dtype in (torch.float32, torch.float64)[operator == "float_power_" :]:
        values = torch.linspace(0.1, 0.9, 19, dtype=dtype)[:, None]
        other = {"o": torch.full((19, 1), 0.7, dtype=dtype), "m": values > 0.5}
        given = [other[v] if isinstance(v, str) else v for v in OPERATORS[operator]]
        expected = getattr(values.clone(), operator)(*given)
        for width in range(2, 10):
            matrix = values.repeat(1, width)
            getattr(matrix[:, 1:2], operator)(*given)
            assert torch.allclose(matrix[:, 1:2], expected, rtol=1e-5), width
            assert (matrix[:, :1] == values).all() and (matrix[:, 2:] == values).all()


@pytest.mark.parametrize("operator", ["eq_", "ne_", "lt_", "le_", "gt_", "ge_"])
def test_a_comparison_in_place_has_the_gradient_zero(torch, a, operator):
    b = a * 1
    getattr(b, operator)(torch.full((2, 3), 3.0, dtype=torch.float64))
    assert name(b) == f"{operator[:-1].capitalize()}Backward1"
    b.sum().backward()
    assert a.grad.tolist() == [[0.0] * 3] * 2


@pytest.mark.parametrize("operator", ["floor_divide_", "heaviside_"])
def test_an_in_place_operator_without_a_derivative_says_so(torch, a, operator):
    for whole in (True, False):
        b = a * 1
        getattr(b if whole else b[0], operator)(torch.full((3,), 2.0, dtype=torch.float64))
        assert name(b) == ("NotImplemented" if whole else "CopySlices") and b._version == 1
        with pytest.raises(RuntimeError, match=f"derivative for aten::{operator} is not implemented"):
            b.sum().backward()
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad is being used in an in-place operation"):
        getattr(a, operator)(torch.ones(3, dtype=torch.float64))


def test_augmented_assignments_are_in_place(a):
    b = before = a * 1
    b += 1
    b -= 2
    b *= 3
    b /= 2
    b **= 2
    assert b is before and b._version == 5
    b.sum().backward()
    assert a.grad.tolist() == [[4.5 * (v - 1) for v in row] for row in a.tolist()]


def test_a_tensor_may_take_part_in_writing_to_itself_unless_that_needs_what_was_there(a):
    b = a * 1
    b.add_(b)
    b.sum().backward()
    assert a.grad.tolist() == [[2.0] * 3] * 2
    c = a * 1
    c.mul_(c)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        c.sum().backward()


def test_copy_takes_the_gradient_to_the_source(torch, a):
    whole = torch.zeros(2, 3, dtype=torch.float64).copy_(a)
    other = torch.zeros(2, 3).copy_(a)
    more = torch.zeros(4, 2, 3, dtype=torch.float64).copy_(a)
    assert [name(t) for t in (whole, other, more)] == ["CopyBackwards"] * 3
    (whole.sum() + other.sum() + more.sum()).backward()
    assert a.grad.tolist() == [[6.0] * 3] * 2


def test_filling_cuts_the_history(torch, a):
    b = a * 1
    b.zero_()
    assert name(b) == "ZeroBackward0"
    b.fill_(a[0, 0])
    assert name(b) == "FillBackward3"
    b.sum().backward()
    assert a.grad.tolist() == [[6.0, 0.0, 0.0], [0.0, 0.0, 0.0]]


def test_columns_written_one_by_one(torch, a):
    b = a * 1
    b[:, 0].mul_(2)
    b[:, 1].neg_()
    b[:, 2] = b[:, 0] + b[:, 1]
    assert b._version == 3
    b[:, 2].sum().backward()
    assert a.grad.tolist() == [[2.0, -1.0, 0.0]] * 2
    c = a * 1
    c[:, 0].exp_()
    c[:, 1].log_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        c.sum().backward()


# --- hooks and retained gradients -----------------------------------------------------------------


def test_hooks_put_on_before_a_write_see_the_gradient_of_what_was_there(torch, a):
    b = a * 1
    seen = []
    b.register_hook(lambda grad: seen.append(("before", grad.tolist())))
    b.mul_(2)
    b.register_hook(lambda grad: seen.append(("after", grad.tolist())))
    b.sum().backward()
    assert seen == [("after", [[1.0] * 3] * 2), ("before", [[2.0] * 3] * 2)]


def test_retained_gradients_follow_a_write(a):
    b = a * 1
    b.retain_grad()
    b.mul_(2)
    b.sum().backward()
    assert b.grad.tolist() == [[1.0] * 3] * 2 and a.grad.tolist() == [[2.0] * 3] * 2


def test_a_base_whose_view_was_written_to_retains_the_gradient_of_what_it_is_now(a):
    b = a * 1
    b.retain_grad()
    b[0].mul_(2)
    b.sum().backward()
    assert b.grad.tolist() == [[1.0] * 3] * 2 and a.grad.tolist() == [[2.0] * 3, [1.0] * 3]


# --- what is refused ------------------------------------------------------------------------------


def test_a_result_that_does_not_fit_is_refused(torch, a):
    b = a * 1
    for write, said in (
        (lambda: b.add_(torch.ones(2, 2, 3)), "doesn't match the broadcast shape"),
        (lambda: b[0].add_(torch.ones(2, 3, dtype=torch.float64)), "doesn't match the broadcast shape"),
        (lambda: torch.ones(2, dtype=torch.int64).add_(1.5), "result type Float can't be cast to the "),
        (lambda: torch.ones(2).add_(1j), "result type ComplexFloat can't be cast to the desired"),
        (lambda: torch.tensor([True]).add_(1), "result type Long can't be cast to the desired output"),
        (lambda: torch.ones(2, dtype=torch.int64).exp_(), "result type Float can't be cast"),
    ):
        with pytest.raises(RuntimeError, match=said):
            write()
    assert torch.equal(a, b)


def test_elements_that_share_memory_must_not_be_written_to(torch):
    for write in (
        lambda e: e.add_(1),
        lambda e: e.copy_(torch.ones(2, 3)),
        lambda e: e.exp_(),
        lambda e: torch.add(torch.ones(2, 3), 1, out=e),
    ):
        with pytest.raises(
            RuntimeError, match="more than one element of the written-to tensor refers to a single memory location"
        ):
            write(torch.ones(1, 3).expand(2, 3))
    assert torch.zeros(1, 3).expand(2, 3).fill_(2).sum() == 12


def test_a_source_that_partly_overlaps_must_not_be_read_while_it_is_written_to(torch):
    x = torch.ones(4)
    for write in (lambda: x[1:].add_(x[:-1]), lambda: torch.add(x[1:], 1, out=x[:-1])):
        with pytest.raises(
            RuntimeError,
            match="some elements of the input tensor and the written-to tensor refer to a single memory location",
        ):
            write()


@pytest.mark.parametrize("name", ["cat", "concat", "hstack", "vstack", "dstack", "column_stack", "row_stack", "stack"])
def test_tensors_are_not_joined_into_one_of_them(torch, name):
    x = torch.ones(2, 3)
    for parts in ([x], [x, x], [x[:1], x[1:]], [x.view(2, 3)]):
        with pytest.raises(
            RuntimeError, match="input tensor and the written-to tensor refer to a single memory location"
        ):
            getattr(torch, name)(parts, out=x)
    every_second = torch.ones(2, 6)[:, ::2]
    empty = torch.ones(0)
    for parts, out in (([every_second], every_second), ([torch.ones(2, 3), empty], empty)):
        with pytest.raises(
            RuntimeError, match="input tensor and the written-to tensor refer to a single memory location"
        ):
            torch.cat(parts, out=out)
    both = torch.ones(4, 3)
    assert getattr(torch, name)([both[:2]], out=both.new_empty(0)).sum() == 6


def test_a_custom_function_must_not_write_to_a_leaf(torch, a):
    class Doubles(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            return x.mul_(2)

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad has been used in an in-place operation"):
        Doubles.apply(a)
    b = a * 1
    assert Doubles.apply(b) is b and name(b) == "DoublesBackward"
    b.sum().backward()
    assert a.grad.tolist() == [[2.0] * 3] * 2
    view = (a * 1)[0]
    Doubles.apply(view)
    assert name(view._base) == "CopySlices"
    with torch.no_grad():
        found = Doubles.apply(b)
    assert not found.requires_grad and found.data_ptr() == b.data_ptr()


# --- changes of shape in place --------------------------------------------------------------------


def test_shapes_change_in_place_with_a_history(a):
    b = a * 1
    for change, shape, node in (
        (lambda: b.unsqueeze_(0), (1, 2, 3), "UnsqueezeBackward1"),
        (lambda: b.squeeze_(0), (2, 3), "SqueezeBackward4"),
        (lambda: b.t_(), (3, 2), "TBackward1"),
        (lambda: b.transpose_(0, 1), (2, 3), "TransposeBackward1"),
    ):
        assert change() is b
        assert tuple(b.shape) == shape and name(b).startswith(node[:-1])
    assert b._version == 4 and not b._is_view()
    b[0].mul_(3)
    b.sum().backward()
    assert a.grad.tolist() == [[3.0] * 3, [1.0] * 3]


def test_the_gradient_of_a_leaf_that_got_dimensions_since(torch, a):
    b = a * 2
    with torch.no_grad():
        a.unsqueeze_(0)
    ((b.sum() + a.contiguous().sum()) * 1.5).backward()
    assert tuple(a.grad.shape) == (1, 2, 3) and a.grad.flatten().tolist() == [4.5] * 6


def test_a_view_changes_its_shape_in_place_and_remains_a_view(a):
    b = a * 1
    view = b[0]
    view.unsqueeze_(0)
    view.mul_(2)
    b.sum().backward()
    assert view._is_view() and tuple(view.shape) == (1, 3) and a.grad.tolist() == [[2.0] * 3, [1.0] * 3]


# --- versions -------------------------------------------------------------------------------------


def test_every_write_counts_once(torch):
    x = torch.zeros(3)
    writes = [
        lambda: x.add_(1),
        lambda: x.__setitem__(0, 1),
        lambda: x.__setitem__(slice(None), 2),
        lambda: x.__setitem__(torch.tensor([0]), 1),
        lambda: x.__setitem__(x > 0, 3),
        lambda: x.copy_(torch.ones(3)),
        lambda: x.zero_(),
        lambda: x.fill_(1),
        lambda: x.unsqueeze_(0),
        lambda: x.squeeze_(),
        lambda: x.resize_(4),
        lambda: x.set_(torch.ones(2)),
        lambda: x.detach().add_(1),
        lambda: x.index_add_(0, torch.tensor([0]), torch.ones(1)),
        lambda: x.uniform_(),
        lambda: x.clamp_(0),
        lambda: torch.relu_(x),
        lambda: x[1:].zero_(),
        lambda: torch.exp(torch.ones(2), out=x),
        lambda: x.requires_grad_(False).mul_(2),
    ]
    for count, write in enumerate(writes, 1):
        write()
        assert x._version == count


def test_what_does_not_write_does_not_count(torch):
    x = torch.zeros(3)
    for look in (
        lambda: x + 1,
        lambda: x.view(3),
        lambda: x.detach(),
        lambda: x.resize_(3),
        lambda: x.requires_grad_(),
        lambda: x.detach_(),
        lambda: x.numpy(),
        lambda: x.clone().add_(1),
        lambda: x.data.add_(1),
    ):
        look()
    assert x._version == 0


def test_views_and_detached_tensors_share_the_version(torch):
    x = torch.zeros(4)
    family = x, x[1:], x.view(2, 2), x.detach(), x.view(2, 2).t()[0]
    family[2].add_(1)
    assert [t._version for t in family] == [1] * 5
    assert x.data._version == x.clone()._version == 0


def test_increment_version_tells_of_writes_from_outside(torch):
    from importlib import import_module

    graph = import_module(f"{torch.__name__}.autograd.graph")
    x = torch.ones(2)
    graph.increment_version(x)
    graph.increment_version([x, x[:1]])
    assert x._version == 3
    y = torch.ones(2, requires_grad=True) * 1
    z = y * y
    graph.increment_version(y)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()


# --- set_ and resize_ -----------------------------------------------------------------------------


def test_set_lets_a_tensor_show_the_memory_of_another(torch):
    x, y = torch.ones(2), torch.zeros(3)
    assert x.set_(y) is x
    assert tuple(x.shape) == (3,) and x.data_ptr() == y.data_ptr() and not x._is_view()
    x.add_(1)
    assert y.tolist() == [1.0] * 3 and y._version == 0
    assert x.set_(torch.arange(6.0), 2, (2, 2), (1, 1)).tolist() == [[2.0, 3.0], [3.0, 4.0]]
    assert tuple(x.set_().shape) == (0,)


def test_set_takes_a_storage(torch):
    storage = torch.arange(6.0).untyped_storage()
    x = torch.ones(2)
    assert x.set_(storage).tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    assert x.set_(storage, 1, (2,), (2,)).tolist() == [1.0, 3.0]
    assert x.set_(storage, 1, (2, 2)).tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert x.set_(source=storage, storage_offset=5, size=(1,), stride=(1,)).tolist() == [5.0]


def test_set_has_no_derivative(torch, a):
    b = a * 1
    b.set_(torch.zeros(2, dtype=torch.float64))
    assert name(b) == "NotImplemented"
    with pytest.raises(RuntimeError, match=r"derivative for (aten::)?set_ is not implemented"):
        b.sum().backward()
    assert torch.ones(1, dtype=torch.float64).set_(a).requires_grad
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad is being used in an in-place operation"):
        a.set_(torch.zeros(2, dtype=torch.float64))
    with torch.no_grad():
        a.set_(torch.zeros(2, dtype=torch.float64))
    assert tuple(a.shape) == (2,) and a.requires_grad and a.is_leaf


def test_set_keeps_the_dtype(torch):
    with pytest.raises(RuntimeError, match="Could not set tensor of type"):
        torch.ones(2).set_(torch.zeros(2, dtype=torch.int64))


def test_resize_keeps_the_elements_that_fit(torch):
    x = torch.arange(4.0)
    assert x.resize_(2, 2) is x and x.tolist() == [[0.0, 1.0], [2.0, 3.0]]
    assert x.resize_((2,)).tolist() == [0.0, 1.0]
    assert x.resize_(6)[:4].tolist() == [0.0, 1.0, 2.0, 3.0]
    assert tuple(x.resize_as_(torch.ones(2, 1)).shape) == (2, 1)
    y = torch.arange(6.0)
    view = y[2:4].resize_(3)
    view.add_(10)
    assert y.tolist() == [0.0, 1.0, 12.0, 13.0, 14.0, 5.0] and view._is_view()


def test_what_requires_grad_cannot_be_resized(torch, a):
    b = a * 1
    for resize in (
        lambda: a.resize_(2),
        lambda: b.resize_(2),
        lambda: b[0].resize_(1),
        lambda: b.resize_as_(torch.ones(1)),
        lambda: torch.no_grad()(a.resize_)(3),
    ):
        with pytest.raises(RuntimeError, match="cannot resize variables that require grad"):
            resize()
    assert tuple(a.detach().resize_(3).shape) == (3,)


def test_what_has_a_tangent_cannot_be_resized(torch):
    with torch.autograd.forward_ad.dual_level():
        x = torch.autograd.forward_ad.make_dual(torch.ones(4), torch.ones(4))
        with pytest.raises(RuntimeError, match="cannot resize variables that has a forward grad"):
            x.resize_(2)
