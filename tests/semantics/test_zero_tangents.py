"""The tangent that an input does not have is nothing, not zeros: infinite and undefined values do not meet it."""

import math

import pytest

INF, NAN = math.inf, math.nan


def tangents(torch, function, *inputs):
    """The tangent of the result with a tangent of ones at each input alone."""
    fw, found = torch.autograd.forward_ad, []
    for position in range(len(inputs)):
        with fw.dual_level():
            given = [fw.make_dual(x, torch.ones_like(x)) if i == position else x for i, x in enumerate(inputs)]
            tangent = fw.unpack_dual(function(*given)).tangent
            assert not tangent._is_zerotensor()
            found.append(tangent.flatten().tolist())
    return found


CASES = [
    ("mul", lambda torch: torch.mul, [INF, 1.0], [2.0, INF], [[2.0, INF], [INF, 1.0]]),
    ("div", lambda torch: torch.div, [INF, 1.0], [2.0, INF], [[0.5, 0.0], [-INF, -0.0]]),
    ("mul_", lambda torch: lambda a, b: a.clone().mul_(b), [INF, 1.0], [2.0, INF], [[2.0, INF], [INF, 1.0]]),
    ("xlogy", lambda torch: torch.xlogy, [INF, 1.0], [2.0, INF], [[math.log(2.0), INF], [INF, 0.0]]),
    ("outer", lambda torch: torch.outer, [INF, 1.0], [2.0, 3.0], [[2.0, 3.0, 2.0, 3.0], [INF, INF, 1.0, 1.0]]),
    ("fmod", lambda torch: torch.fmod, [INF, 1.0], [2.0, 2.0], [[1.0, 1.0], [-INF, -0.0]]),
    ("add", lambda torch: torch.add, [INF, 1.0], [2.0, NAN], [[1.0, 1.0], [1.0, 1.0]]),
    ("sub", lambda torch: torch.sub, [INF, 1.0], [2.0, NAN], [[1.0, 1.0], [-1.0, -1.0]]),
]


@pytest.mark.parametrize(
    ("operator", "first", "second", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_what_has_no_tangent_does_not_spoil_the_tangent_of_the_other(torch, operator, first, second, expected):
    found = tangents(torch, operator(torch), torch.tensor(first), torch.tensor(second))
    for got, wanted in zip(found, expected, strict=True):
        assert [math.copysign(1, a) for a in got] == [math.copysign(1, a) for a in wanted]
        assert got == pytest.approx(wanted)


def test_operators_of_three_inputs_leave_out_those_without_a_tangent(torch):
    ones, infinite = torch.ones(2), torch.tensor([INF, -INF])
    assert tangents(torch, torch.addcmul, ones, infinite, ones) == [[1.0, 1.0], [1.0, 1.0], [INF, -INF]]
    assert tangents(torch, torch.lerp, ones, infinite, torch.tensor(0.5))[1] == [0.5, 0.5]


def test_a_smaller_input_without_a_tangent_broadcasts(torch):
    wide, narrow = torch.ones(2, 3), torch.tensor([[INF], [2.0]])
    assert tangents(torch, torch.mul, wide, narrow) == [[INF] * 3 + [2.0] * 3, [1.0] * 6]


def test_a_tangent_that_is_set_to_such_zeros_is_an_ordinary_tensor(torch):
    fw = torch.autograd.forward_ad
    with fw.dual_level():
        dual = fw.make_dual(torch.ones(2), torch._efficientzerotensor((2,)))
        tangent = fw.unpack_dual(dual * 3).tangent
        assert tangent.tolist() == [0.0, 0.0] and not tangent._is_zerotensor()


def test_a_jvp_of_a_custom_function_gets_ordinary_zeros(torch):
    fw, seen = torch.autograd.forward_ad, []

    class Product(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a, b):
            ctx.save_for_forward(a, b)
            return a * b

        @staticmethod
        def jvp(ctx, a_t, b_t):
            seen.append((b_t.tolist(), b_t._is_zerotensor()))
            a, b = ctx.saved_tensors
            return a_t * b + a * b_t

    with fw.dual_level():
        assert fw.unpack_dual(Product.apply(fw.make_dual(torch.ones(1), torch.ones(1)), torch.ones(1))).tangent == 1
    assert seen == [([0.0], False)]


def test_what_operators_make_of_such_zeros(torch):
    zero, ones = torch._efficientzerotensor((2, 3)), torch.full((2, 3), INF)
    known = lambda t: t._is_zerotensor()  # noqa: E731
    assert zero.clone().tolist() == [[0.0] * 3] * 2
    assert known(zero * ones) and known(ones * zero) and known(zero * 2) and known(zero / ones) and known(zero + zero)
    assert known(zero.view(3, 2)) and known(zero.t()) and known(zero[0]) and known(zero.expand(4, 2, 3))
    assert known(torch.dot(zero[0], ones[0])) and known(torch.linalg.cross(zero, ones))
    assert not known(zero + ones) and not known(zero.exp()) and not known(zero.sum()) and not known(zero.clone())
    assert (zero + ones).tolist() == (ones + zero).tolist() == (ones - zero).tolist() == ones.tolist()
    assert (zero - ones).tolist() == (-ones).tolist()
    assert torch.add(zero, ones, alpha=-2).tolist() == (ones * -2).tolist()
    assert (zero * ones).shape == (2, 3) and (zero * ones.double()).dtype is torch.float64
    assert (zero + torch.ones(3, dtype=torch.complex64)).dtype is torch.complex64
    assert torch.zeros(2, 3).copy_(zero).tolist() == [[0.0] * 3] * 2
    with pytest.raises(RuntimeError, match="ZeroTensors are immutable"):
        zero.add_(1)


def test_reverse_mode_goes_through_tangents_of_which_a_part_is_missing(torch):
    fw = torch.autograd.forward_ad
    x, y = torch.tensor([2.0], requires_grad=True), torch.tensor([3.0], requires_grad=True)
    with fw.dual_level():
        tangent = fw.unpack_dual((fw.make_dual(x, torch.ones(1)) * y).exp()).tangent
        expected = torch.exp(torch.tensor(6.0)).item()
        grads = torch.autograd.grad(tangent, [x, y])
    assert tangent.item() == pytest.approx(3 * expected)
    assert [g.item() for g in grads] == pytest.approx([9 * expected, 7 * expected])


def test_a_tangent_depends_on_the_values_that_missing_tangents_met(torch):
    fw = torch.autograd.forward_ad
    x = torch.tensor([2.0], requires_grad=True)
    with fw.dual_level():
        tangent = fw.unpack_dual(fw.make_dual(x, torch.ones(1)) * torch.tensor([3.0])).tangent
        assert tangent.tolist() == [3.0] and tangent.requires_grad
        assert torch.autograd.grad(tangent, x)[0].clone().tolist() == [0.0]
        plain = fw.unpack_dual(fw.make_dual(x.detach(), torch.ones(1)) * torch.tensor([3.0])).tangent
        assert not plain.requires_grad


def test_inference_mode_makes_no_tangents(torch):
    fw = torch.autograd.forward_ad
    with fw.dual_level():
        dual = fw.make_dual(torch.ones(2), torch.ones(2))
        with torch.inference_mode():
            assert fw.unpack_dual(dual * 2).tangent is None
            with torch.inference_mode(False):
                assert fw.unpack_dual(dual * 2).tangent is not None
        assert fw.unpack_dual(dual * 2).tangent.tolist() == [2.0, 2.0]


def test_the_primal_that_is_handed_out_has_a_node_of_its_own(torch):
    fw = torch.autograd.forward_ad
    x = torch.ones(2, requires_grad=True)
    with fw.dual_level():
        primal = fw.unpack_dual(fw.make_dual(x, torch.ones(2)) * 3).primal
        assert primal.grad_fn.name() in ("Identity", "torch::autograd::Identity")
        primal.sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]
