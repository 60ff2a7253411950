"""Forward mode with tangents of another dtype than their primal's, and operators through which no tangent goes."""

from __future__ import annotations

import pytest


@pytest.fixture
def fw(torch):
    return torch.autograd.forward_ad


PAIRS = [("float32", "float64"), ("float64", "float32"), ("float16", "float32"), ("float32", "bfloat16")]
FUNCTIONS = {
    "twice": lambda torch, x: x * 2,
    "square": lambda torch, x: x * x,
    "exp": lambda torch, x: x.exp(),
    "sum": lambda torch, x: x.sum(),
    "view": lambda torch, x: x.view(2, 1),
    "element": lambda torch, x: x[0],
    "clone": lambda torch, x: x.clone(),
    "cat": lambda torch, x: torch.cat([x, x]),
    "expand": lambda torch, x: x.expand(3, 2),
}


@pytest.mark.parametrize(("primal", "tangent"), PAIRS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_tangent_keeps_its_dtype_as_far_as_promotion_lets_it(torch, fw, name, primal, tangent):
    value = torch.tensor([1.0, 2.0], dtype=getattr(torch, primal))
    with fw.dual_level():
        dual = fw.make_dual(value, torch.tensor([3.0, 4.0], dtype=getattr(torch, tangent)))
        assert fw.unpack_dual(dual).tangent.dtype is getattr(torch, tangent)
        found = fw.unpack_dual(FUNCTIONS[name](torch, dual))
        assert found.primal.dtype is value.dtype
        mixed = name in ("twice", "square", "exp")  # whose formulas multiply it with what has the primal's dtype
        expected = torch.promote_types(value.dtype, getattr(torch, tangent)) if mixed else getattr(torch, tangent)
        assert found.tangent.dtype is expected


def test_a_cast_casts_the_tangent(torch, fw):
    with fw.dual_level():
        dual = fw.make_dual(torch.ones(2), torch.ones(2, dtype=torch.float64))
        assert fw.unpack_dual(dual.to(torch.float16)).tangent.dtype is torch.float16


def test_what_is_written_in_place_is_brought_to_the_tangents_dtype(torch, fw):
    with fw.dual_level():
        tangent = torch.tensor([3.0, 4.0], dtype=torch.float64)
        dual = fw.make_dual(torch.tensor([1.0, 2.0]), tangent)
        part = dual[0]
        assert fw.unpack_dual(part).tangent.dtype is torch.float64
        dual.mul_(2)
        assert fw.unpack_dual(dual).tangent.tolist() == [6.0, 8.0] and tangent.tolist() == [6.0, 8.0]
        dual[1] = fw.make_dual(torch.tensor(1.0), torch.tensor(9.0))
        assert fw.unpack_dual(dual).tangent.tolist() == [6.0, 9.0]
        assert fw.unpack_dual(dual).tangent.dtype is torch.float64
        copy = torch.zeros(2)
        copy.copy_(dual)
        assert fw.unpack_dual(copy).tangent.tolist() == [6.0, 9.0]


def test_operators_that_need_one_dtype_refuse_a_tangent_of_another(torch, fw):
    with fw.dual_level():
        dual = fw.make_dual(torch.ones(2, 2), torch.ones(2, 2, dtype=torch.float64))
        with pytest.raises(RuntimeError, match="expected m1 and m2 to have the same dtype"):
            dual @ torch.ones(2, 2)


def test_jvp_gives_a_tangent_of_the_dtype_that_follows(torch):
    value, tangent = torch.func.jvp(lambda x: x * x, (torch.ones(2),), (torch.ones(2, dtype=torch.float64),))
    assert value.dtype is torch.float32 and tangent.dtype is torch.float64


def test_a_custom_function_may_return_a_tangent_of_another_dtype(torch, fw):
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def jvp(ctx, tangent):
            return tangent.double() * 2

    with fw.dual_level():
        found = fw.unpack_dual(Twice.apply(fw.make_dual(torch.ones(1), torch.ones(1))))
        assert found.tangent.dtype is torch.float64 and found.primal.dtype is torch.float32


# --- where no derivative is ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["rand_like", "randn_like", "randint_like", "zeros_like", "ones_like", "empty_like"])
def test_what_is_only_shaped_like_a_tensor_has_no_history_and_no_tangent(torch, fw, name):
    arguments = (5,) if name == "randint_like" else ()
    x = torch.ones(3, requires_grad=True)
    result = getattr(torch, name)(x * 1, *arguments)
    assert not result.requires_grad and result.grad_fn is None
    with fw.dual_level():
        dual = fw.make_dual(torch.ones(3), torch.ones(3))
        assert fw.unpack_dual(getattr(torch, name)(dual, *arguments)).tangent is None


def test_a_sample_of_noise_beside_what_is_learnt(torch):
    """The reparametrization that variational autoencoders train with."""
    mean, log_scale = torch.zeros(4, requires_grad=True), torch.zeros(4, requires_grad=True)
    scale = log_scale.exp()
    noise = torch.randn_like(scale)
    (mean + noise * scale).sum().backward()
    assert torch.equal(log_scale.grad, noise) and torch.equal(mean.grad, torch.ones(4))


@pytest.mark.parametrize(
    "name",
    [
        "spherical_bessel_j0",
        "airy_ai",
        "scaled_modified_bessel_k0",
        "chebyshev_polynomial_t",
        "hermite_polynomial_h",
        "laguerre_polynomial_l",
        "legendre_polynomial_p",
    ],
)
def test_special_functions_without_a_derivative_are_constants(torch, fw, name):
    x = torch.full((2,), 0.5, requires_grad=True)
    arguments = (2,) if "polynomial" in name else ()
    assert not getattr(torch.special, name)(x, *arguments).requires_grad
    with fw.dual_level():
        dual = fw.make_dual(torch.full((2,), 0.5), torch.ones(2))
        assert fw.unpack_dual(getattr(torch.special, name)(dual, *arguments)).tangent is None


def test_messages_name_the_operator_that_stops_a_tangent(torch, fw):
    with fw.dual_level():
        dual = fw.make_dual(torch.ones(2), torch.ones(2))
        with pytest.raises(
            NotImplementedError, match="forward AD with add_out that does not support it because it is an out= function"
        ):
            torch.add(dual, 1, out=torch.empty(2))
        for operation, name in (
            (lambda: dual // 2, "floor_divide"),
            (lambda: 5 % dual, "remainder"),
            (lambda: dual.heaviside(dual), "heaviside"),
        ):
            with pytest.raises(NotImplementedError, match=f"forward AD with aten::{name} that does not support it"):
                operation()


# --- small things of the module -----------------------------------------------------------------------------


def test_the_pair_can_be_made_and_taken_apart(torch, fw):
    pair = fw.UnpackedDualTensor(torch.ones(1), None)
    primal, tangent = pair
    assert primal is pair.primal and tangent is None is pair.tangent


def test_the_level_has_a_name_in_the_module(torch, fw):
    assert fw._current_level == -1
    with fw.dual_level():
        assert fw._current_level == 0
    with pytest.raises(AttributeError):
        fw._no_such_level  # noqa: B018


def test_a_single_tangent_is_shown_as_a_number(torch, fw):
    with fw.dual_level():
        assert repr(fw.make_dual(torch.tensor(1.0), torch.tensor(2.0))) == "tensor(1., tangent=2.0)"
        assert repr(fw.make_dual(torch.ones(1), torch.ones(1))) == "tensor([1.], tangent=tensor([1.]))"
