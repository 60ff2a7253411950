"""Leaves and what requires grad: requires_grad, detach, detach_, data."""

import pytest


@pytest.fixture
def x(torch):
    return torch.tensor([1.0, 2.0], requires_grad=True)


# --- what is a leaf -------------------------------------------------------------------------------


def test_leaves_are_what_no_recorded_operator_made(torch, x):
    plain = torch.ones(2)
    leaves = plain, x, plain * 2, plain.view(1, 2), x.detach(), torch.nn.Parameter(x * 2)
    assert [t.is_leaf for t in leaves] == [True] * 6
    assert [t.is_leaf for t in (x * 2, x.view(1, 2), x.clone(), x.to(torch.float64))] == [False] * 4


def test_conversions_that_change_nothing_return_the_tensor_itself(torch, x):
    assert x.to(torch.float32) is x and x.float() is x and x.contiguous() is x and torch.as_tensor(x) is x
    assert x.requires_grad_() is x and x.detach_() is x


def test_integer_and_boolean_results_require_no_grad(torch, x):
    for result in (x.int(), x > 0, x.argmax(), x.max(0).indices, torch.ones_like(x), x.new_tensor([1.0])):
        assert not result.requires_grad and result.is_leaf


def test_output_numbers(torch, x):
    outputs = x, x * 2, torch.unbind(x)[1], x.max(0).values, torch.std_mean(x)[1]
    assert [t.output_nr for t in outputs] == [0, 0, 1, 0, 1]


def test_what_the_graph_says_of_a_tensor_cannot_be_set(x):
    for name in ("is_leaf", "grad_fn", "_version", "output_nr", "_base"):
        with pytest.raises(AttributeError):
            setattr(x, name, None)


# --- requires_grad --------------------------------------------------------------------------------


def test_only_floating_and_complex_tensors_can_require_grad(torch):
    for values in ([1, 2], [True]):
        with pytest.raises(RuntimeError, match="only Tensors of floating point dtype can require gradients"):
            torch.tensor(values).requires_grad_()
        with pytest.raises(RuntimeError, match="Only Tensors of floating point and complex dtype can require"):
            torch.tensor(values, requires_grad=True)
        with pytest.raises(RuntimeError, match="Only Tensors of floating point and complex dtype can require"):
            torch.nn.Parameter(torch.tensor(values))
        assert not torch.tensor(values).requires_grad_(False).requires_grad
        assert not torch.nn.Parameter(torch.tensor(values), requires_grad=False).requires_grad
    for dtype in (torch.float16, torch.bfloat16, torch.float64, torch.complex64):
        assert torch.ones(1, dtype=dtype).requires_grad_().requires_grad


def test_requires_grad_of_a_result_cannot_be_taken_away(x):
    y = x * 2
    for change in (lambda: y.requires_grad_(False), lambda: setattr(y, "requires_grad", False)):
        with pytest.raises(RuntimeError, match="you can only change requires_grad flags of leaf variables"):
            change()
    assert y.requires_grad_(True) is y


def test_requires_grad_is_a_bool(x):
    for wrong in ("yes", 1, None):
        with pytest.raises(RuntimeError, match="requires_grad must be a bool"):
            x.requires_grad = wrong
        with pytest.raises(TypeError, match=r"requires_grad_\(\): argument 'requires_grad' \(position 1\) must be"):
            x.requires_grad_(wrong)
    with pytest.raises(RuntimeError):
        del x.requires_grad


def test_a_leaf_may_be_frozen_and_thawed(torch, x):
    assert x.requires_grad_(requires_grad=False).requires_grad is False
    assert not (x * 2).requires_grad
    x.requires_grad = True
    (x * 2).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_a_frozen_leaf_gets_no_gradient_from_a_graph_made_before(torch, x):
    y = torch.ones(2, requires_grad=True)
    z = (x * y).sum()
    x.requires_grad_(False)
    z.backward()
    assert y.grad.tolist() == [1.0, 2.0]


def test_a_view_of_a_tensor_without_history_can_be_a_leaf_of_its_own(torch):
    base = torch.ones(2)
    view = base.view(2)
    view.requires_grad_()
    assert view.requires_grad and view.is_leaf and view._is_view() and not base.requires_grad
    (view * 2).sum().backward()
    assert view.grad.tolist() == [2.0, 2.0] and base.grad is None


def test_a_result_of_no_grad_becomes_a_leaf(torch, x):
    with torch.no_grad():
        y = x * 2
    y.requires_grad_()
    (y * 3).sum().backward()
    assert y.is_leaf and y.grad.tolist() == [3.0, 3.0] and x.grad is None


def test_writing_a_tensor_that_requires_grad_into_one_that_does_not(torch, x):
    y = torch.ones(2)
    y.add_(x)
    assert y.requires_grad and not y.is_leaf
    z = torch.ones(2)
    z[0] = x[0]
    assert type(z.grad_fn).__name__ == "CopySlices"
    (y.sum() + z.sum()).backward()
    assert x.grad.tolist() == [2.0, 1.0]


def test_integers_take_values_without_history(torch, x):
    whole = torch.ones(2, dtype=torch.int64)
    whole.copy_(x)
    assert whole.tolist() == [1, 2] and not whole.requires_grad


LEAF = "a leaf Variable that requires grad is being used in an in-place operation"
VIEW_OF_LEAF = "a view of a leaf Variable that requires grad is being used in an in-place operation"


def test_leaves_that_require_grad_cannot_be_written_to(torch, x):
    for write in (
        lambda: x.add_(1),
        lambda: x.zero_(),
        lambda: x.copy_(torch.ones(2)),
        lambda: x.fill_(1),
        lambda: x.uniform_(),
        lambda: x.clamp_(0, 1),
        lambda: x.exp_(),
        lambda: torch.relu_(x),
        lambda: x.masked_fill_(x.detach() > 1, 0),
        lambda: x.index_fill_(0, torch.tensor([0]), 1),
        lambda: x.__setitem__(slice(None), 0),
    ):
        with pytest.raises(RuntimeError, match=LEAF):
            write()
    for write in (lambda: x[0].add_(1), lambda: x.__setitem__(0, 1), lambda: x.view(2, 1).mul_(2)):
        with pytest.raises(RuntimeError, match=VIEW_OF_LEAF):
            write()
    assert x.tolist() == [1.0, 2.0]


def test_leaves_may_be_written_to_where_nothing_is_recorded(torch, x):
    with torch.no_grad():
        x.add_(1)
        x[0] = 5
        x.view(2, 1).mul_(2)
    x.detach().add_(1)
    torch.nn.init.ones_(x)
    assert x.tolist() == [1.0, 1.0] and x.is_leaf and x.requires_grad


# --- detach ---------------------------------------------------------------------------------------


def test_a_detached_tensor_shares_memory_and_version_but_no_history(torch, x):
    y = x * 2
    d = y.detach()
    assert not d.requires_grad and d.is_leaf and d.grad_fn is None and not d._is_view()
    assert d.data_ptr() == y.data_ptr()
    y.add_(1)
    assert (d._version, d.tolist()) == (1, [3.0, 5.0])
    d.add_(1)
    assert (y._version, y.tolist()) == (2, [4.0, 6.0])
    assert torch.detach(x).requires_grad is False


def test_a_detached_leaf_is_a_tensor_of_its_own(x):
    d = x.detach().requires_grad_()
    (d * 3).sum().backward()
    assert d.grad.tolist() == [3.0, 3.0] and x.grad is None


def test_detach_of_a_view_is_no_view(x):
    d = (x * 2).view(2, 1).detach()
    assert not d._is_view() and d.grad_fn is None


def test_detach_in_place_takes_the_history_away(torch, x):
    y = x * 2
    assert y.detach_() is y
    assert y.is_leaf and not y.requires_grad and y.grad_fn is None and y._version == 0
    leaf = torch.ones(2, requires_grad=True)
    leaf.detach_()
    assert not leaf.requires_grad
    assert torch.detach_(torch.ones(1)).tolist() == [1.0]


def test_views_cannot_be_detached_in_place(torch, x):
    for view in ((x * 2).view(2, 1), torch.ones(2).view(2, 1), torch.unbind(x * 1)[0]):
        with pytest.raises(RuntimeError, match=r"Can't detach views in-place. Use detach\(\) instead"):
            view.detach_()


def test_a_graph_that_does_not_need_the_detached_tensor_is_intact(x):
    y = x * 2
    z = y.exp()
    y.detach_()
    z.sum().backward()
    assert x.grad.tolist() == pytest.approx([2 * 7.389056, 2 * 54.59815], rel=1e-5)


def test_a_saved_tensor_that_is_detached_in_place_is_found(torch, x):
    y = x * 2
    z = y * y
    y.detach_()
    again = x * 1
    again.add_(0)  # has a version by now
    w = again * again
    again.detach_()
    for lost in (z, w):
        with pytest.raises(RuntimeError, match="Trying to use a saved tensor that has been detached in-place"):
            lost.sum().backward()


def test_a_tensor_may_be_saved_after_it_was_detached_in_place(torch, x):
    y = x * 2
    y.detach_()
    (x * y).sum().backward()
    assert x.grad.tolist() == [2.0, 4.0]
    y.requires_grad_()
    (y * y).sum().backward()
    assert y.grad.tolist() == [4.0, 8.0]


# --- data -----------------------------------------------------------------------------------------


def test_data_shares_memory_but_no_version(x):
    y = x * 2
    d = y.data
    assert not d.requires_grad and d.is_leaf and not d._is_view() and d._version == 0
    d.add_(1)
    assert (y.tolist(), y._version, d._version) == ([3.0, 5.0], 0, 1)


def test_setting_data_replaces_the_memory(torch, x):
    x.data = torch.zeros(3)
    assert x.tolist() == [0.0] * 3 and x.is_leaf and x.requires_grad and x._version == 0
    (x * 2).sum().backward()
    assert x.grad.tolist() == [2.0] * 3


def test_a_leaf_takes_gradients_of_graphs_made_before_and_after_its_data_was_set(torch, x):
    before = (x * 2).sum()
    x.data = torch.zeros(2)
    after = (x * 3).sum()
    (first,) = torch.autograd.grad(before, x)
    assert first.tolist() == [2.0, 2.0]
    after.backward()
    assert x.grad.tolist() == [3.0, 3.0]


def test_data_may_change_the_dtype_of_what_requires_no_grad(torch, x):
    plain = torch.ones(2)
    plain.data = torch.zeros(3, dtype=torch.int64)
    assert plain.dtype is torch.int64
    with pytest.raises(RuntimeError, match="data set to a tensor that requires gradients must be floating point or"):
        x.data = torch.zeros(3, dtype=torch.int64)
    x.data = torch.zeros(3, dtype=torch.float64)
    (x * 2).sum().backward()
    assert x.grad.dtype is torch.float64


def test_data_is_a_tensor(torch, x):
    for wrong, kind in (([1], "list"), (None, "NoneType"), (3, "int")):
        with pytest.raises(TypeError, match=f"Variable data has to be a tensor, but got {kind}"):
            x.data = wrong
    with pytest.raises(RuntimeError, match="Deleting tensor data is not allowed. Delete tensor instead!"):
        del x.data


def test_a_view_keeps_the_memory_that_its_base_gave_up(torch):
    base = torch.ones(2)
    view = base.view(2, 1)
    base.data = torch.zeros(2)
    view.add_(5)
    assert (base.tolist(), view.tolist()) == ([0.0, 0.0], [[6.0], [6.0]])
    assert view._base is base


def test_parameters_are_updated_through_data(torch):
    weight = torch.nn.Parameter(torch.ones(2))
    weight.data.add_(3)
    weight.data = weight.data * 2
    assert isinstance(weight, torch.nn.Parameter) and weight.tolist() == [8.0, 8.0] and weight._version == 0


# --- grad of a tensor that is no leaf -------------------------------------------------------------


def test_reading_grad_of_a_result_warns(x):
    y = x * 2
    with pytest.warns(UserWarning, match="The .grad attribute of a Tensor that is not a leaf Tensor is being"):
        assert y.grad is None
    y.retain_grad()
    assert y.grad is None and y.retains_grad


def test_retain_grad_of_leaves_and_of_what_requires_none(torch, x):
    x.retain_grad()
    assert not x.retains_grad
    with pytest.raises(RuntimeError, match="can't retain_grad on Tensor that has requires_grad=False"):
        torch.zeros(2).retain_grad()


# --- arguments without a derivative


WITHOUT_DERIVATIVE = {
    ("soft_margin_loss", "target"): lambda f, x, y: f.soft_margin_loss(x, y),
    ("nll_loss_forward", "weight"): lambda f, x, y: f.nll_loss(x, x.argmax(1), y[0]),
    ("nll_loss2d_forward", "weight"): lambda f, x, y: f.nll_loss(x[:, :, None, None], x.argmax(1)[:, None, None], y[0]),
    ("binary_cross_entropy", "weight"): lambda f, x, y: f.binary_cross_entropy(x, x, y),
    ("binary_cross_entropy_with_logits", "weight"): lambda f, x, y: f.binary_cross_entropy_with_logits(x, x, y),
    ("binary_cross_entropy_with_logits", "pos_weight"): lambda f, x, y: f.binary_cross_entropy_with_logits(
        x, x, pos_weight=y
    ),
    ("multi_margin_loss", "weight"): lambda f, x, y: f.multi_margin_loss(x, x.argmax(1), weight=y[0]),
    ("rrelu_with_noise", "noise"): None,
}


@pytest.mark.parametrize(("operator", "argument"), WITHOUT_DERIVATIVE)
@pytest.mark.parametrize("requires", [False, True])
def test_an_argument_without_derivative_may_not_require_a_gradient(torch, operator, argument, requires):
    x, y = torch.rand(3, 3).requires_grad_(requires), torch.rand(3, 3, requires_grad=True)
    call = WITHOUT_DERIVATIVE[operator, argument]
    if call is None:

        def call(functions, x, y):
            return torch.ops.aten.rrelu_with_noise(x, y)

    with pytest.raises(
        RuntimeError,
        match=f"The function '{operator}' is not differentiable with respect to argument "
        f"'{argument}'. This input cannot have requires_grad True",
    ):
        call(torch.nn.functional, x, y)
    with torch.no_grad():
        assert not call(torch.nn.functional, x, y).requires_grad
    assert call(torch.nn.functional, x, y.detach()).requires_grad == requires


def test_a_view_made_without_grad_mode_becomes_a_leaf_of_its_own(torch):
    base = torch.ones(2, 2, requires_grad=True) * 2
    with torch.no_grad():
        view = base.t()
    assert view.requires_grad and view.is_leaf
    (view * 1.5).sum().backward()
    assert view.grad is None
    assert view.requires_grad_() is view
    (view * 1.5).sum().backward()
    assert view.grad.tolist() == [[1.5, 1.5], [1.5, 1.5]]


def test_a_saved_tensor_that_was_detached_in_place_is_said_to_be_so_even_if_it_was_written(torch):
    x = torch.ones(2, requires_grad=True)
    y = x * 2
    z = y * y
    y.detach_().zero_()
    with pytest.raises(RuntimeError, match="saved tensor that has been detached in-place"):
        z.sum().backward()


def test_messages_name_types_as_pytorch_does(torch):
    for dtype, text in (
        (torch.float32, "torch.FloatTensor"),
        (torch.bfloat16, "CPUBFloat16Type"),
        (torch.complex64, "CPUComplexFloatType"),
        (torch.float16, "torch.HalfTensor"),
    ):
        x = torch.ones(2, dtype=dtype, requires_grad=True)
        y = x.exp()
        y.mul_(2)
        with pytest.raises(RuntimeError, match=rf"inplace operation: \[{text} \[2\]\], which is output 0 of Exp"):
            y.backward(torch.ones_like(y))


def test_distances_within_no_batches_have_a_history(torch):
    x = torch.ones(0, 30, 2, requires_grad=True)
    found = torch.cdist(x, x)
    assert found.shape == (0, 30, 30) and found.grad_fn.name() == "CdistBackward0"
