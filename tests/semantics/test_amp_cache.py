"""Casts of parameters are kept for the rest of a region: which, and how long."""

import pytest


def cast_of(product):
    """The node of the second factor of a product."""
    return product.grad_fn.next_functions[1][0]


@pytest.fixture
def pair(torch):
    return torch.ones(2, 2), torch.ones(2, 2, requires_grad=True)


def test_a_parameter_is_cast_once_in_a_region(torch, pair):
    x, w = pair
    with torch.autocast("cpu"):
        first, second = x @ w, x @ w
    assert cast_of(first) is cast_of(second)
    assert cast_of(first).name() == "ToCopyBackward0"
    (first + second).float().sum().backward()
    assert w.grad.tolist() == [[4.0, 4.0], [4.0, 4.0]]


def test_different_operators_share_the_cast(torch, pair):
    x, w = pair
    with torch.autocast("cpu"):
        product, layer = x @ w, torch.nn.functional.linear(x, w)
    transposed = layer.grad_fn.next_functions[1][0]
    assert transposed.next_functions[0][0] is cast_of(product)


def test_regions_within_a_region_share_its_casts(torch, pair):
    x, w = pair
    with torch.autocast("cpu"):
        first = x @ w
        with torch.autocast("cpu"):
            second = x @ w
        with torch.autocast("cpu", enabled=False):
            pass
        third = x @ w
    assert cast_of(first) is cast_of(second) is cast_of(third)


def test_the_casts_are_forgotten_when_the_outermost_region_ends(torch, pair):
    x, w = pair
    with torch.autocast("cpu"):
        first = x @ w
    with torch.autocast("cpu"):
        second = x @ w
    assert cast_of(first) is not cast_of(second)


def test_a_region_may_keep_no_casts(torch, pair):
    x, w = pair
    with torch.autocast("cpu", cache_enabled=False):
        assert not torch.is_autocast_cache_enabled()
        assert cast_of(x @ w) is not cast_of(x @ w)
    assert torch.is_autocast_cache_enabled()


def test_keeping_casts_is_switched_by_hand(torch, pair):
    x, w = pair
    torch.set_autocast_cache_enabled(False)
    try:
        with torch.autocast("cpu"):
            assert cast_of(x @ w) is not cast_of(x @ w)
    finally:
        torch.set_autocast_cache_enabled(True)
    with pytest.raises(TypeError, match="enabled must be a bool"):
        torch.set_autocast_cache_enabled(1)


def test_the_casts_are_forgotten_on_request(torch, pair):
    x, w = pair
    with torch.autocast("cpu"):
        first = x @ w
        torch.clear_autocast_cache()
        assert cast_of(x @ w) is not cast_of(first)


def test_what_is_no_leaf_or_is_a_view_is_cast_each_time(torch, pair):
    x, w = pair
    with torch.no_grad():
        view = w.view(2, 2)
    view.requires_grad_()
    with torch.autocast("cpu"):
        for other in (w * 1, view):
            assert cast_of(x @ other) is not cast_of(x @ other)


def test_casts_to_float32_are_not_kept(torch):
    w = torch.ones(2, requires_grad=True, dtype=torch.bfloat16)
    with torch.autocast("cpu"):
        first, second = torch.nn.functional.mse_loss(w, w * 2), torch.nn.functional.mse_loss(w, w * 2)
    assert first.grad_fn.next_functions[0][0] is not second.grad_fn.next_functions[0][0]


def test_a_first_use_without_grad_does_not_cut_off_later_ones(torch, pair):
    x, w = pair
    for mode in (torch.no_grad, torch.inference_mode):
        with torch.autocast("cpu"):
            with mode():
                assert not (x @ w).requires_grad
            y = x @ w
        assert cast_of(y).name() == "ToCopyBackward0"
        w.grad = None
        y.float().sum().backward()
        assert w.grad.tolist() == [[2.0, 2.0], [2.0, 2.0]]


def test_a_later_use_without_grad_takes_the_kept_cast(torch, pair):
    x, w = pair
    with torch.autocast("cpu"):
        assert (x @ w).requires_grad
        with torch.no_grad():
            assert not (x @ w).requires_grad


def test_a_parameter_that_is_written_to_in_a_region_keeps_its_cast(torch, pair):
    x, w = pair
    with torch.autocast("cpu"):
        x @ w
        with torch.no_grad():
            w.mul_(3)
        assert (x @ w).tolist() == [[2.0, 2.0], [2.0, 2.0]]
        torch.clear_autocast_cache()
        assert (x @ w).tolist() == [[6.0, 6.0], [6.0, 6.0]]


def test_a_region_of_another_dtype_makes_casts_of_its_own(gradloom):
    x, w = gradloom.ones(2, 2), gradloom.ones(2, 2, requires_grad=True)
    with gradloom.autocast("cpu"):
        first = x @ w
        with gradloom.autocast("cpu", dtype=gradloom.float16):
            assert (x @ w).dtype is gradloom.float16
        assert cast_of(x @ w) is cast_of(first)


def test_casts_do_not_outlive_the_region(gradloom):
    from gradloom.amp.settings import settings

    with gradloom.autocast("cpu"):
        gradloom.ones(2, 2) @ gradloom.ones(2, 2, requires_grad=True)
        assert len(settings().casts) == 1
    assert not settings().casts
