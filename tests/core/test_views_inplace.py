"""Views and writes in place: memory, versions, histories and gradients that PyTorch 2.13 gives."""

from __future__ import annotations

import pytest

import gradloom as L


def leaf(*values):
    return L.tensor(values or (1.0, 2.0, 3.0, 4.0), dtype=L.float64, requires_grad=True)


def names(tensor):
    """The graph of a tensor as nested names."""

    def walk(node):
        following = [walk(n) for n, _ in node.next_functions if n is not None]
        return node.name().replace("torch::autograd::", "") + (f"({', '.join(following)})" if following else "")

    return walk(tensor.grad_fn)


# --- memory and versions ----------------------------------------------------------------------------------

VIEWS = {
    "view": lambda x: x.view(4, 3),
    "reshape": lambda x: x.reshape(2, 6),
    "t": lambda x: x.t(),
    "permute": lambda x: x.permute(1, 0),
    "transpose": lambda x: x.transpose(0, 1),
    "select": lambda x: x.select(0, 1),
    "narrow": lambda x: x.narrow(1, 1, 2),
    "unsqueeze": lambda x: x.unsqueeze(0),
    "squeeze": lambda x: x.squeeze(),
    "expand": lambda x: x.expand(2, 3, 4),
    "diagonal": lambda x: x.diagonal(),
    "unfold": lambda x: x.unfold(1, 2, 1),
    "unbind": lambda x: x.unbind()[1],
    "split": lambda x: x.split(2)[1],
    "chunk": lambda x: x.chunk(2, 1)[1],
    "as_strided": lambda x: x.as_strided((2, 2), (1, 4), 1),
    "flatten": lambda x: x.flatten(),
    "movedim": lambda x: x.movedim(0, 1),
    "detach": lambda x: x.detach(),
    "T": lambda x: x.T,
    "tensor_split": lambda x: x.tensor_split(2)[1],
    "view_as": lambda x: x.view_as(x),
    "unflatten": lambda x: x.unflatten(1, (2, 2)),
}


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_shows_its_bases_memory(name):
    x = L.zeros(3, 4)
    view = VIEWS[name](x)
    x.fill_(7)
    assert view.min().item() == 7
    assert view._version == x._version == 1
    assert view.untyped_storage() == x.untyped_storage()
    assert view._base is (None if name == "detach" else x)


def test_a_view_of_a_view_has_the_root_as_its_base():
    x = L.zeros(3, 4)
    assert x.t().select(0, 1).unsqueeze(0)._base is x


@pytest.mark.parametrize(
    "make",
    [
        lambda x: x.clone(),
        lambda x: x * 1,
        lambda x: x.t().reshape(12),
        lambda x: x.double().float(),
        lambda x: x.repeat(1, 1),
        lambda x: x.flip(0),
        lambda x: L.view_copy(x, (12,)),
        lambda x: L.cat([x]),
    ],
)
def test_what_is_no_view_has_its_own_memory(make):
    x = L.zeros(3, 4)
    other = make(x)
    x.fill_(7)
    assert other.max().item() == 0 and other._base is None and other._version == 0


# --- histories --------------------------------------------------------------------------------------------


def test_a_write_to_a_tensor_becomes_its_history():
    x = leaf()
    y = x * 2
    y.mul_(3)
    assert names(y) == "MulBackward0(MulBackward0(AccumulateGrad))"
    y.sum().backward()
    assert x.grad.tolist() == [6.0] * 4


def test_a_write_to_a_view_reaches_the_base():
    x = leaf()
    y = x * 2
    v = y.narrow(0, 1, 2)
    v.mul_(10)
    assert names(y) == "CopySlices(MulBackward0(AccumulateGrad))"
    assert names(v) == "AsStridedBackward0(CopySlices(MulBackward0(AccumulateGrad)))"
    y.sum().backward()
    assert x.grad.tolist() == [2.0, 20.0, 20.0, 2.0]


def test_a_write_to_the_base_reaches_its_views():
    x = leaf()
    y = x * 2
    v = y.narrow(0, 1, 2)
    y.mul_(10)
    assert names(v) == "AsStridedBackward0(MulBackward0(MulBackward0(AccumulateGrad)))"
    v.sum().backward()
    assert x.grad.tolist() == [0.0, 20.0, 20.0, 0.0]


def test_a_write_to_one_view_reaches_another():
    x = leaf()
    y = x * 2
    a, b = y.narrow(0, 0, 2), y.narrow(0, 1, 2)
    a.mul_(10)
    b.sum().backward()
    assert x.grad.tolist() == [0.0, 20.0, 2.0, 0.0]


def test_writing_a_tensor_that_requires_grad_into_a_view_of_one_that_does_not():
    x = leaf(5.0, 6.0)
    base = L.zeros(4, dtype=L.float64)
    base.narrow(0, 1, 2).copy_(x)
    assert base.requires_grad and base.grad_fn.name() == "torch::autograd::CopySlices"
    (base * L.tensor([1.0, 2.0, 3.0, 4.0])).sum().backward()
    assert x.grad.tolist() == [2.0, 3.0]


def test_writes_through_a_chain_of_views():
    x = L.arange(6.0, dtype=L.float64).reshape(2, 3).clone().requires_grad_()
    y = x * 3
    y.t().select(0, 1).mul_(2)
    y.view(6).narrow(0, 0, 2).zero_()
    y.sum().backward()
    assert x.grad.tolist() == [[0.0, 0.0, 3.0], [3.0, 6.0, 3.0]]


def test_second_derivatives_through_writes():
    x = leaf(0.3, 0.7)

    def f(x):
        y = x.sin()
        y.narrow(0, 0, 1).mul_(x.narrow(0, 1, 1))
        return y.exp()

    assert L.autograd.gradgradcheck(f, (x,))


def test_real_and_complex_views():
    w = L.tensor([1 + 2j, 3 - 1j], dtype=L.complex128, requires_grad=True)
    z = w * 1
    z.real.mul_(3)
    assert z.tolist() == [3 + 2j, 9 - 1j]
    L.view_as_real(z).sum().backward()
    assert w.grad.tolist() == [3 + 1j, 3 + 1j]


def test_shape_changes_in_place():
    x = L.ones(2, 3, requires_grad=True)
    y = x * 2
    assert y.t_() is y and y.shape == (3, 2) and y.grad_fn.name() == "TBackward1"
    y.unsqueeze_(0).squeeze_().transpose_(0, 1)
    assert names(y).startswith("TransposeBackward1(SqueezeBackward3(UnsqueezeBackward1(TBackward1(MulBackward0")
    y.narrow(1, 0, 1).mul_(5)
    y.sum().backward()
    assert x.grad.tolist() == [[10.0, 2.0, 2.0]] * 2


def test_hooks_and_retained_gradients_follow_writes():
    x = leaf()
    y = x * 2
    y.retain_grad()
    v = y.narrow(0, 0, 2)
    v.retain_grad()
    y.mul_(3)
    (y.sum() + v.sum()).backward()
    assert y.grad.tolist() == [2.0, 2.0, 1.0, 1.0] and v.grad.tolist() == [1.0, 1.0]


# --- what is refused --------------------------------------------------------------------------------------


def no_grad_view(x):
    with L.no_grad():
        return x.view(-1)


REFUSED = {
    "leaf": (lambda x: x.mul_(2), "a leaf Variable that requires grad is being used in an in-place operation"),
    "view of leaf": (
        lambda x: x.view(2, 2).mul_(2),
        "a view of a leaf Variable that requires grad is being used in an in-place",
    ),
    "unbind": (
        lambda x: (x * 1).unbind()[0].mul_(2),
        "Output 0 of Unbind is a view and is being modified inplace. This view is "
        "the output of a function that returns multiple views",
    ),
    "split": (lambda x: (x * 1).split(2)[1].mul_(2), "Output 1 of Split is a view and is being modified inplace"),
    "split sizes": (
        lambda x: (x * 1).split([1, 3])[1].mul_(2),
        "Output 1 of SplitWithSizes is a view and is being modified",
    ),
    "no_grad": (
        lambda x: no_grad_view(x * 1).mul_(2),
        "A view was created in no_grad mode and is being modified inplace",
    ),
    "expanded": (
        lambda x: (x * 1).expand(2, 4).mul_(2),
        "more than one element of the written-to tensor refers to a single",
    ),
    "overlap": (
        lambda x: x.detach().narrow(0, 1, 3).add_(x.detach().narrow(0, 0, 3)),
        "some elements of the input tensor and the written-to tensor refer",
    ),
    "detach_": (lambda x: (x * 1).view(2, 2).detach_(), "Can't detach views in-place"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_writes(name):
    write, words = REFUSED[name]
    with pytest.raises(RuntimeError, match=words.replace("(", r"\(")):
        write(leaf())


def test_a_stale_view_of_several_must_not_be_used():
    y = leaf() * 1
    part = y.unbind()[0]
    y.mul_(2)
    with pytest.raises(RuntimeError, match="its base or another view of its base has been modified inplace"):
        part.grad_fn  # noqa: B018


def test_a_saved_tensor_that_was_written_to_is_noticed_through_a_view():
    x = leaf()
    y = x * 1
    z = y.sin()
    y.view(2, 2).mul_(2)
    with pytest.raises(
        RuntimeError,
        match=r"modified by an inplace operation: \[torch.DoubleTensor \[4\]\], which is output 0 of "
        "AsStrided|is at version 1; expected version 0",
    ):
        z.sum().backward()


# --- modes ------------------------------------------------------------------------------------------------


def test_views_made_without_recording():
    x = leaf()
    with L.no_grad():
        v = x.view(2, 2)
    assert v.requires_grad and v.is_leaf and v._is_view()
    assert (v * 2).grad_fn.next_functions == ((None, 0), (None, 0))
    with L.no_grad():
        v.mul_(2)
    assert x.tolist() == [2.0, 4.0, 6.0, 8.0] and x._version == 1


def test_a_view_may_become_a_leaf_of_its_own():
    base = L.zeros(4)
    v = base.view(2, 2).requires_grad_()
    assert v.is_leaf and v._is_view() and not base.requires_grad
    (v * 3).sum().backward()
    assert v.grad.tolist() == [[3.0, 3.0], [3.0, 3.0]]


def test_inference_mode():
    base = L.zeros(4)
    with L.inference_mode():
        made = L.ones(4)
        view = base.view(2, 2)
        view.add_(1)
    assert made.is_inference() and not view.is_inference() and base._version == 1
    with pytest.raises(RuntimeError, match="Inplace update to inference tensor outside InferenceMode"):
        made.add_(1)
    with pytest.raises(
        RuntimeError, match="A view was created in inference mode and is being modified inplace in normal mode"
    ):
        view.add_(L.ones(2, 2, requires_grad=True))


def test_forward_mode_follows_writes_through_views():
    import gradloom.autograd.forward_ad as fw

    with fw.dual_level():
        x = fw.make_dual(L.tensor([1.0, 2.0, 3.0]), L.tensor([1.0, 1.0, 1.0]))
        y = x * 2
        y.narrow(0, 1, 2).mul_(5)
        assert fw.unpack_dual(y).tangent.tolist() == [2.0, 10.0, 10.0]


def test_a_base_gets_a_tangent_from_what_is_written_into_its_view():
    import gradloom.autograd.forward_ad as fw

    with fw.dual_level():
        x = fw.make_dual(L.tensor([1.0, 2.0]), L.tensor([3.0, 4.0]))
        base = L.zeros(2, 2)
        base.select(1, 0).copy_(x)
        assert fw.unpack_dual(base).tangent.tolist() == [[3.0, 0.0], [4.0, 0.0]]
        base.t().mul_(2)
        assert fw.unpack_dual(base.sum()).tangent.item() == 14.0
