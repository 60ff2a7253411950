"""Forward mode: dual tensors, their views and writes, and its mixtures with reverse mode."""

import pytest

from tests.waiting import in_threads


@pytest.fixture
def fw(torch):
    return torch.autograd.forward_ad


@pytest.fixture
def pair(torch):
    return torch.tensor([1.0, 2.0, 3.0]), torch.tensor([10.0, 20.0, 30.0])


def tangent(fw, tensor):
    found = fw.unpack_dual(tensor).tangent
    return None if found is None else found.tolist()


def test_a_dual_tensor_carries_its_tangent_through_operators(torch, fw, pair):
    x, t = pair
    with fw.dual_level():
        dual = fw.make_dual(x, t)
        primal, found = fw.unpack_dual(dual * dual + x)
        assert primal.tolist() == [2.0, 6.0, 12.0] and found.tolist() == [20.0, 80.0, 180.0]
        assert tangent(fw, torch.cat([x, dual])) == [0.0, 0.0, 0.0, 10.0, 20.0, 30.0]
        assert tangent(fw, x * 2) is None
        assert tangent(fw, dual > 1) is None


def test_unpacking_shares_memory_and_drops_the_tangent(torch, fw, pair):
    x, t = pair
    with fw.dual_level():
        dual = fw.make_dual(x, t)
        unpacked = fw.unpack_dual(dual)
        assert unpacked.primal.data_ptr() == x.data_ptr() and tangent(fw, unpacked.primal) is None
        assert type(unpacked).__name__ == "UnpackedDualTensor" and len(unpacked) == 2
        assert tangent(fw, dual) == [10.0, 20.0, 30.0]
        assert fw.unpack_dual(x).primal is x or fw.unpack_dual(x).primal.data_ptr() == x.data_ptr()


def test_tangents_end_with_their_level(torch, fw, pair):
    x, t = pair
    with fw.dual_level():
        dual = fw.make_dual(x, t)
        product = dual * 2
    assert tangent(fw, dual) is None and tangent(fw, product) is None
    with fw.dual_level():
        assert tangent(fw, product) is None
        assert tangent(fw, fw.make_dual(x, t) * 2) == [20.0, 40.0, 60.0]


def test_levels_do_not_nest(torch, fw, pair):
    with fw.dual_level():
        with pytest.raises(RuntimeError, match="Nested forward mode AD is not supported"):
            fw.enter_dual_level()
    with pytest.raises(RuntimeError, match="Dual level must be a positive number"):
        fw.exit_dual_level()
    with fw.dual_level(), pytest.raises(RuntimeError, match="not the last one"):
        fw.exit_dual_level(level=2)
    with pytest.raises(RuntimeError, match="no level exists"):
        fw.make_dual(*pair)


def test_make_dual_refuses_what_has_no_derivative(torch, fw, pair):
    x, t = pair
    with fw.dual_level():
        with pytest.raises(ValueError, match="Expected primal to be floating point or complex"):
            fw.make_dual(torch.tensor([1, 2, 3]), t)
        with pytest.raises(ValueError, match="Expected tangent to be floating point or complex"):
            fw.make_dual(x, torch.tensor([1, 2, 3]))
        with pytest.raises(RuntimeError, match="different size than that of the original"):
            fw.make_dual(x, t[:2])
        with pytest.raises(RuntimeError, match="Invalid level"):
            fw.make_dual(x, t, level=3)
        with pytest.raises(TypeError, match="must be Tensor, not float"):
            fw.unpack_dual(1.0)


def test_a_tangent_keeps_its_dtype(torch, fw, pair):
    x, t = pair
    with fw.dual_level():
        dual = fw.make_dual(x, t.double())
        assert fw.unpack_dual(dual).tangent.dtype is torch.float64
        assert fw.unpack_dual(dual.double()).tangent.tolist() == [10.0, 20.0, 30.0]
        assert fw.unpack_dual(dual.int()).tangent is None


def test_a_tensor_has_one_tangent(torch, fw, pair):
    x, t = pair
    with fw.dual_level():
        dual = fw.make_dual(x, t)
        with pytest.raises(RuntimeError, match="already has a forward gradient"):
            fw.make_dual(dual, t)


def test_views_of_a_dual_tensor_are_views_of_its_tangent(torch, fw, pair):
    x, t = pair
    with fw.dual_level():
        dual = fw.make_dual(x, t)
        part = dual[1:]
        assert tangent(fw, part) == [20.0, 30.0]
        assert tangent(fw, dual.view(3, 1).t()) == [[10.0, 20.0, 30.0]]
        first, rest = dual.split([1, 2])
        assert tangent(fw, first) == [10.0] and tangent(fw, rest) == [20.0, 30.0]
        part.mul_(2)
        assert dual.tolist() == [1.0, 4.0, 6.0] and tangent(fw, dual) == [10.0, 40.0, 60.0]
        assert tangent(fw, part) == [40.0, 60.0]


def test_writing_a_dual_into_a_view_gives_the_base_a_tangent(torch, fw, pair):
    x, t = pair
    with fw.dual_level():
        base = torch.zeros(4)
        base[:3].copy_(fw.make_dual(x, t))
        assert tangent(fw, base) == [10.0, 20.0, 30.0, 0.0]
        other = torch.zeros(2, 3)
        other[1] = fw.make_dual(x, t)
        assert tangent(fw, other) == [[0.0] * 3, [10.0, 20.0, 30.0]]


def test_a_view_made_before_its_base_became_dual_sees_the_tangent(torch, fw, pair):
    x, t = pair
    with fw.dual_level():
        base = torch.zeros(3)
        view = base[1:]
        base.copy_(fw.make_dual(x, t))
        assert view.tolist() == [2.0, 3.0]
        assert tangent(fw, view) == [20.0, 30.0]
        assert tangent(fw, view * 2) == [40.0, 60.0]


def test_in_place_operators_update_the_tangent(torch, fw, pair):
    x, t = pair
    with fw.dual_level():
        dual = fw.make_dual(x.clone(), t.clone())
        dual.mul_(fw.make_dual(x.clone(), t.clone()))
        assert tangent(fw, dual) == [20.0, 80.0, 180.0]
        dual.zero_()
        assert tangent(fw, dual) == [0.0, 0.0, 0.0]
        plain = torch.ones(3)
        plain.add_(fw.make_dual(x, t))
        assert tangent(fw, plain) == [10.0, 20.0, 30.0]


def test_the_given_tangent_is_not_written_to(torch, fw, pair):
    x, t = pair
    with fw.dual_level():
        dual = fw.make_dual(x, t)
        assert fw.unpack_dual(dual).tangent is t or fw.unpack_dual(dual).tangent.data_ptr() == t.data_ptr()
        out = dual * 3
        out.mul_(2)
    assert t.tolist() == [10.0, 20.0, 30.0]


def test_out_variants_refuse_dual_tensors(torch, fw, pair):
    x, t = pair
    with fw.dual_level():
        with pytest.raises(NotImplementedError, match="that does not support it because it is an out= function"):
            torch.mul(fw.make_dual(x, t), x, out=torch.empty(3))


def test_reverse_over_forward(torch, fw):
    x = torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True)
    t = torch.tensor([3.0, 5.0], dtype=torch.float64, requires_grad=True)
    with fw.dual_level():
        found = fw.unpack_dual(fw.make_dual(x, t) ** 3).tangent
        by_x, by_t = torch.autograd.grad(found.sum(), (x, t))
    assert by_x.tolist() == [18.0, 60.0] and by_t.tolist() == [3.0, 12.0]


def test_forward_over_reverse(torch, fw):
    x = torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True)
    with fw.dual_level():
        dual = fw.make_dual(x, torch.tensor([3.0, 5.0], dtype=torch.float64))
        (gradient,) = torch.autograd.grad((dual**3).sum(), dual, create_graph=True)
        assert gradient.tolist() == [3.0, 12.0]
        assert tangent(fw, gradient) == [18.0, 60.0]


def test_forward_over_reverse_without_create_graph(torch, fw):
    x = torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True)
    with fw.dual_level():
        dual = fw.make_dual(x, torch.tensor([3.0, 5.0], dtype=torch.float64))
        (gradient,) = torch.autograd.grad((dual * dual * dual).sum(), x)
        assert tangent(fw, gradient) == [18.0, 60.0]


def test_no_grad_keeps_tangents_and_detach_drops_them(torch, fw, pair):
    x, t = pair
    with fw.dual_level():
        dual = fw.make_dual(x, t)
        with torch.no_grad():
            assert tangent(fw, dual * 2) == [20.0, 40.0, 60.0]
        assert tangent(fw, dual.detach()) is None and tangent(fw, dual.data) is None
        assert tangent(fw, dual.clone()) == [10.0, 20.0, 30.0]


def test_the_switch_for_forward_mode(torch, fw, pair):
    x, t = pair
    with fw.dual_level():
        dual = fw.make_dual(x, t)
        with fw._set_fwd_grad_enabled(False):
            assert tangent(fw, dual * 2) is None
        assert tangent(fw, dual * 2) == [20.0, 40.0, 60.0]


def test_complex_tangents(torch, fw):
    z = torch.tensor([1.0 + 2.0j], dtype=torch.complex128)
    t = torch.tensor([1.0j], dtype=torch.complex128)
    with fw.dual_level():
        dual = fw.make_dual(z, t)
        assert tangent(fw, dual * dual) == [2j * (1 + 2j)]
        assert tangent(fw, dual.conj()) == [-1j]
        assert tangent(fw, dual.abs())[0] == pytest.approx(2 / 5**0.5)
        assert tangent(fw, torch.view_as_real(dual)) == [[0.0, 1.0]]


def test_composite_operators_get_tangents_by_decomposition(torch, fw, pair):
    x, t = pair
    with fw.dual_level():
        dual = fw.make_dual(x, t)
        assert tangent(fw, torch.nn.functional.linear(dual[None], torch.ones(2, 3))) == [[60.0, 60.0]]
        assert tangent(fw, torch.einsum("i,i->", dual, x)) == 140.0
        assert tangent(fw, torch.nn.functional.mse_loss(dual, x)) == 0.0
        assert tangent(fw, torch.var(dual)) == pytest.approx(20.0)


def test_a_tangent_of_other_strides(torch, fw):
    x = torch.arange(6.0).view(2, 3)
    t = torch.arange(6.0).view(3, 2).t()
    with fw.dual_level():
        dual = fw.make_dual(x, t)
        assert tangent(fw, dual) == t.tolist()
        assert tangent(fw, dual.t()[1]) == t.t()[1].tolist()
        assert tangent(fw, dual.view(-1)) == [0.0, 2.0, 4.0, 1.0, 3.0, 5.0]


def test_modules_are_differentiated_in_the_direction_of_their_parameters(torch, fw):
    torch.manual_seed(0)
    module = torch.nn.Linear(2, 1).double()
    point = torch.ones(3, 2, dtype=torch.float64)
    weight, bias = module.weight.detach(), module.bias.detach()
    with fw.dual_level():
        del module.weight, module.bias
        module.weight = fw.make_dual(weight, torch.ones_like(weight))
        module.bias = fw.make_dual(bias, torch.zeros_like(bias))
        assert tangent(fw, module(point)) == [[2.0]] * 3


def test_a_dual_tensor_prints_its_tangent(torch, fw):
    with fw.dual_level():
        text = repr(fw.make_dual(torch.tensor([1.0]), torch.tensor([2.0])))
    assert text == "tensor([1.], tangent=tensor([2.]))"


def test_the_result_of_dual_and_plain_tensors_in_lists(torch, fw, pair):
    x, t = pair
    with fw.dual_level():
        dual = fw.make_dual(x, t)
        stacked = torch.stack([dual, x, dual * 2])
        assert tangent(fw, stacked) == [[10.0, 20.0, 30.0], [0.0] * 3, [20.0, 40.0, 60.0]]
        assert [tangent(fw, p) for p in stacked.unbind()] == [[10.0, 20.0, 30.0], [0.0] * 3, [20.0, 40.0, 60.0]]


def test_where_and_masked_writes(torch, fw, pair):
    x, t = pair
    mask = torch.tensor([True, False, True])
    with fw.dual_level():
        dual = fw.make_dual(x, t)
        assert tangent(fw, torch.where(mask, dual, torch.zeros(3))) == [10.0, 0.0, 30.0]
        assert tangent(fw, dual.masked_fill(mask, 0.0)) == [0.0, 20.0, 0.0]
        out = dual.clone()
        out[mask] = 0.0
        assert tangent(fw, out) == [0.0, 20.0, 0.0]
        out[0] = dual[2]
        assert tangent(fw, out) == [30.0, 20.0, 0.0]


def test_undefined_gradients_stay_undefined(torch, fw, pair):
    x, _ = pair
    with fw.dual_level():
        out = torch.stack([x, x])
        assert tangent(fw, out) is None
        assert tangent(fw, x.add_(1)) is None


def test_saved_outputs_carry_their_tangent_into_backward(torch, fw):
    x = torch.tensor([0.5], dtype=torch.float64, requires_grad=True)
    with fw.dual_level():
        dual = fw.make_dual(x, torch.ones(1, dtype=torch.float64))
        (gradient,) = torch.autograd.grad(dual.exp().sum(), dual, create_graph=True)
        assert tangent(fw, gradient)[0] == pytest.approx(2.718281828**0.5)


def test_other_threads_see_the_level(torch, fw, pair):
    x, t = pair
    with fw.dual_level():
        dual = fw.make_dual(x, t)
        assert in_threads(lambda: tangent(fw, dual * 2)) == [[20.0, 40.0, 60.0]]


def test_requires_grad_of_a_dual_tensor(torch, fw, pair):
    x, t = pair
    x.requires_grad_()
    with fw.dual_level():
        dual = fw.make_dual(x, t)
        assert dual.requires_grad and not dual.is_leaf
        (dual * 2).sum().backward()
        assert x.grad.tolist() == [2.0, 2.0, 2.0]


def test_large_tensors_get_zero_tangents_that_can_be_written_to(torch, fw):
    x, t = torch.ones(100, 100), torch.ones(100, 100)
    with fw.dual_level():
        both = fw.make_dual(x, t) + torch.zeros(100, 100)
        out = torch.zeros(100, 100).copy_(x)
        out[0] = fw.make_dual(x, t)[0]
        out.mul_(3)
        assert fw.unpack_dual(both).tangent.sum().item() == 10_000
        assert fw.unpack_dual(out).tangent.sum().item() == 300
        cat = torch.cat([x, fw.make_dual(x, t)])
        cat.add_(1)
        assert fw.unpack_dual(cat).tangent.sum().item() == 10_000


def test_an_operator_without_a_forward_formula_says_so(torch, fw):
    torch.manual_seed(0)
    x = torch.randn(5, 2, 4).log_softmax(2)
    arguments = torch.tensor([[1, 2], [2, 1]]), torch.tensor([5, 5]), torch.tensor([2, 2])
    with fw.dual_level():
        with pytest.raises(NotImplementedError, match="Trying to use forward AD with _ctc_loss that does not support"):
            torch.nn.functional.ctc_loss(fw.make_dual(x, torch.ones_like(x)), *arguments)
        assert torch.nn.functional.ctc_loss(x, *arguments).item() > 0


def test_custom_functions_give_their_own_tangents(torch, fw):
    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(x):
            return x**3

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_forward(*inputs)

        @staticmethod
        def jvp(ctx, x_t):
            (x,) = ctx.saved_tensors
            return 3 * x**2 * x_t

    with fw.dual_level():
        x = fw.make_dual(torch.tensor([2.0]), torch.tensor([1.0]))
        assert tangent(fw, Cube.apply(x)) == [12.0]
        assert tangent(fw, Cube.apply(torch.ones(1))) is None


def test_copying_a_tensor_without_a_tangent_leaves_one_of_zeros(torch):
    with torch.autograd.forward_ad.dual_level():
        x = torch.autograd.forward_ad.make_dual(torch.tensor([1.0, 2.0]), torch.tensor([5.0, 6.0])).clone()
        x.copy_(torch.tensor([3.0, 4.0]))
        assert torch.autograd.forward_ad.unpack_dual(x).tangent.tolist() == [0.0, 0.0]


def test_the_result_that_an_in_place_operator_saves_has_its_new_tangent(torch):
    """d/dx of the gradient for the exponent, x^y log(x), which is computed from the result."""
    forward_ad = torch.autograd.forward_ad
    values, exponent = torch.tensor([0.5, 1.5], dtype=torch.float64), torch.tensor([1.25, 0.5], dtype=torch.float64)
    found = []
    for in_place in (False, True):
        with forward_ad.dual_level():
            x = forward_ad.make_dual(values.clone().requires_grad_(), torch.ones_like(values))
            y = exponent.clone().requires_grad_()
            power = x.clone().pow_(y) if in_place else x.pow(y)
            (grad,) = torch.autograd.grad(power.sum(), y, create_graph=True)
            found.append(forward_ad.unpack_dual(grad).tangent.tolist())
    assert found[0] == found[1]


def test_a_sum_with_a_missing_tangent_is_the_other_and_no_graph_is_recorded_for_it(torch):
    x, y = torch.ones(2), torch.full((2,), 3.0)
    with forward_ad_of(torch).dual_level():
        dual = forward_ad_of(torch).make_dual(x, torch.full((2,), 5.0))
        for result, expected in (
            (torch.logaddexp(dual, x), 2.5),
            (torch.hypot(dual, torch.zeros(2)), 5.0),
            (torch.lerp(dual, y, x * 0.5), 2.5),
            (torch.addcmul(y, dual, y), 15.0),
        ):
            tangent = forward_ad_of(torch).unpack_dual(result).tangent
            assert tangent.tolist() == [expected, expected]
            assert type(tangent) is torch.Tensor and not tangent.requires_grad


def forward_ad_of(torch):
    return torch.autograd.forward_ad


# --- errors inside a level ------------------------------------------------------------------------


def test_an_error_of_an_operator_written_as_a_sign_stays_the_error_that_it_was(torch):
    fwd = torch.autograd.forward_ad

    def refuse(tensor):
        raise KeyboardInterrupt("while packing")

    x = torch.ones(2, requires_grad=True)
    with pytest.raises(KeyboardInterrupt, match="while packing"), fwd.dual_level():
        dual = fwd.make_dual(x, torch.ones(2))
        with torch.autograd.graph.saved_tensors_hooks(refuse, lambda packed: packed):
            dual * dual
    with fwd.dual_level():  # the level of the error is closed
        dual = fwd.make_dual(x, torch.ones(2))
        assert fwd.unpack_dual(dual * dual).tangent.tolist() == [2.0, 2.0]
