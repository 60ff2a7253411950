"""func.rearrange: dimensions moved by a pattern."""

from importlib import import_module

import pytest


@pytest.fixture
def rearrange(torch):
    return import_module(f"{torch.__name__}.func").rearrange


@pytest.fixture
def t(torch):
    return torch.arange(24).reshape(2, 3, 4)


@pytest.mark.parametrize(
    "pattern, sizes, expected",
    [
        ("a b c -> c a b", {}, lambda t: t.permute(2, 0, 1)),
        ("a b c -> (a b) c", {}, lambda t: t.reshape(6, 4)),
        ("a b c -> (c a) b", {}, lambda t: t.permute(2, 0, 1).reshape(8, 3)),
        ("a b (c d) -> a d b c", {"d": 2}, lambda t: t.reshape(2, 3, 2, 2).permute(0, 3, 1, 2)),
        ("(x y) b c -> x y b c", {"x": 2}, lambda t: t[:, None]),
        ("... c -> c ...", {}, lambda t: t.permute(2, 0, 1)),
        ("a ... -> (a ...)", {}, lambda t: t.reshape(24)),
        ("... -> (...)", {}, lambda t: t.reshape(24)),
        ("a ... -> ... a 1", {}, lambda t: t.permute(1, 2, 0)[..., None]),
        ("a b c->() c b   a", {}, lambda t: t[None].permute(0, 3, 2, 1)),
        ("a (b) c -> (a) b c", {}, lambda t: t),
    ],
)
def test_a_pattern_says_where_dimensions_go(torch, rearrange, t, pattern, sizes, expected):
    assert torch.equal(rearrange(t, pattern, **sizes), expected(t))


def test_several_tensors_are_stacked_first(torch, rearrange, t):
    assert torch.equal(rearrange([t[0], t[1]], "batch a b -> a b batch"), t.permute(1, 2, 0))


def test_it_is_differentiable_and_a_view_where_it_can_be(torch, rearrange):
    x = torch.zeros(2, 3, requires_grad=True)
    moved = rearrange(x, "a b -> b a")
    assert moved._base is x
    (moved * torch.tensor([1.0, 2.0])).sum().backward()
    assert x.grad.tolist() == [[1.0] * 3, [2.0] * 3]


@pytest.mark.parametrize(
    "pattern, sizes, message",
    [
        ("a b c -> a b", {}, "Identifiers only on one side of rearrange expression"),
        ("a b c -> a b c d", {}, "Identifiers only on one side"),
        ("a b -> b a", {}, "Number of dimensions in pattern"),
        ("a a c -> a c", {}, "duplicate dimension 'a'"),
        ("a b c", {}, "must contain a single '->'"),
        ("a b c -> b a c", {"z": 3}, "Identifiers not found in rearrange expression"),
        ("a ... c ... -> a c", {}, "only one ellipsis"),
        ("a b c -> (...)", {}, "Ellipsis found in right side, but"),
        ("a 3 c -> a c", {}, "only supports unnamed axes of size 1"),
        ("a b. c -> a", {}, "dots only inside ellipsis"),
        ("a ((b c)) d -> a", {}, "brackets inside brackets"),
        ("a (b c -> a b c", {}, "Imbalanced parentheses"),
        ("_a b c -> c b _a", {}, "Invalid axis identifier: _a"),
    ],
)
def test_other_patterns_are_refused(rearrange, t, pattern, sizes, message):
    with pytest.raises(ValueError, match=message):
        rearrange(t, pattern, **sizes)


@pytest.mark.parametrize(
    "pattern, sizes, message",
    [
        ("(a b c) d e -> a b c d e", {"a": 2}, "cannot infer the sizes of 'b' and 'c' at once"),
        ("a b c -> b a c", {"a": 3}, "the pattern has 3 for a dimension of 2 elements"),
        ("a (b c) d -> a b c d", {"b": 2}, "a dimension of 3 elements does not divide evenly into 2"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(gradloom, pattern, sizes, message):
    with pytest.raises(ValueError, match=message):
        gradloom.func.rearrange(gradloom.zeros(2, 3, 4), pattern, **sizes)
