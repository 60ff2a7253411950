"""What operators do within vmap: types, indices, writes in place, random numbers."""

from __future__ import annotations

import pytest


@pytest.fixture
def x(torch):
    torch.manual_seed(0)
    return torch.randn(4, 3, dtype=torch.float64)


def same(torch, found, expected):
    assert found.dtype == expected.dtype and found.shape == expected.shape
    assert torch.allclose(found, expected) if found.is_floating_point() else bool((found == expected).all())


# --- type promotion is that of single examples ------------------------------------------------------------------------

PROMOTIONS = {
    "0-dim double and a float": lambda t: (t.ones(2, dtype=t.float64), t.ones(2, 3)),
    "0-dim float and an int": lambda t: (t.ones(2), t.ones(2, 3, dtype=t.int64)),
    "0-dim int and a 0-dim float": lambda t: (t.ones(2, dtype=t.int64), t.ones(2)),
    "0-dim int and a small int": lambda t: (t.ones(2, dtype=t.int64), t.ones(2, 3, dtype=t.int8)),
    "a bool and an int": lambda t: (t.ones(2, 3, dtype=t.bool), t.ones(2, dtype=t.int16)),
    "half and float": lambda t: (t.ones(2, 3, dtype=t.float16), t.ones(2, 3)),
}


@pytest.mark.parametrize("make", PROMOTIONS.values(), ids=PROMOTIONS)
@pytest.mark.parametrize("name", ["add", "mul", "div", "maximum", "eq"])
def test_promotion_knows_no_batch(torch, make, name):
    f = getattr(torch, name)
    a, b = make(torch)
    same(torch, torch.vmap(f)(a, b), torch.stack([f(*pair) for pair in zip(a, b, strict=True)]))
    same(torch, torch.vmap(f, in_dims=(None, 0))(a[0], b), torch.stack([f(a[0], row) for row in b]))


@pytest.mark.parametrize("make", PROMOTIONS.values(), ids=PROMOTIONS)
def test_where_promotes_as_outside_too(gradloom, make):
    def f(a, b):
        return gradloom.where(b > 0, a, b)

    a, b = make(gradloom)
    same(gradloom, gradloom.vmap(f)(a, b), gradloom.stack([f(*pair) for pair in zip(a, b, strict=True)]))


def test_numbers_promote_as_outside(torch):
    ints = torch.arange(3)
    same(torch, torch.vmap(lambda a: a + 0.5)(ints), ints + 0.5)
    same(torch, torch.vmap(lambda a: 2 / a)(ints + 1), 2 / (ints + 1))
    same(torch, torch.vmap(lambda a: a**2)(ints), ints**2)


# --- indices ----------------------------------------------------------------------------------------------------------


def test_numbers_and_slices_select_as_in_one_example(torch, x):
    t = torch.arange(24.0).reshape(2, 3, 4)
    same(torch, torch.vmap(lambda a: a[1])(t), t[:, 1])
    same(torch, torch.vmap(lambda a: a[..., -1])(t), t[..., -1])
    same(torch, torch.vmap(lambda a: a[1:, None, ::2])(t), t[:, 1:, None, ::2])


def test_every_example_may_have_indices_of_its_own(torch, x):
    i = torch.tensor([0, 2, 1, 0])
    same(torch, torch.vmap(lambda a, k: a[k])(x, i), x[torch.arange(4), i])
    same(torch, torch.vmap(lambda k: x[0][k])(i % 3), x[0][i % 3])
    pairs = torch.tensor([[0, 1], [2, 2], [1, 0], [0, 0]])
    same(torch, torch.vmap(lambda a, k: a[k])(x, pairs), x.gather(1, pairs))


def test_indices_that_are_apart_put_their_dimensions_first(torch):
    t = torch.arange(120.0).reshape(2, 3, 4, 5)
    i, j = torch.tensor([[0, 2], [1, 1]]), torch.tensor([[3, 4], [0, 1]])
    for f in (lambda a, p, q: a[p, :, q], lambda a, p, q: a[:, p, q % 3], lambda a, p, q: a[p, q % 4]):
        expected = torch.stack([f(*one) for one in zip(t, i, j, strict=True)])
        same(torch, torch.vmap(f)(t, i, j), expected)
        same(torch, torch.vmap(f, in_dims=(0, None, None))(t, i[0], j[0]), torch.stack([f(a, i[0], j[0]) for a in t]))
        same(torch, torch.vmap(f, in_dims=(None, 0, None))(t[0], i, j[0]), torch.stack([f(t[0], p, j[0]) for p in i]))


def test_a_mask_that_all_examples_share_selects(torch, x):
    mask = torch.tensor([True, False, True])
    same(torch, torch.vmap(lambda a: a[mask])(x), x[:, mask])


def test_gather_scatter_and_their_kin_take_batched_indices(torch, x):
    i = torch.tensor([[0, 1], [2, 2], [1, 0], [0, 0]])
    for f in (
        lambda a, k: a.gather(0, k),
        lambda a, k: a.scatter_add(0, k, a[:2]),
        lambda a, k: a.index_select(0, k),
        lambda a, k: a.index_add(0, k, a[:2]),
        lambda a, k: torch.take(a, k),
    ):
        same(torch, torch.vmap(f)(x, i), torch.stack([f(*one) for one in zip(x, i, strict=True)]))


def test_items_can_be_set_in_what_is_mapped(torch, x):
    def f(a):
        a = a.clone()
        a[0] = a[1] * 2
        a[1:] += 1
        return a

    same(torch, torch.vmap(f)(x), torch.stack([f(a) for a in x]))


# --- writes in place --------------------------------------------------------------------------------------------------


def test_writes_reach_the_tensor_that_is_mapped(torch, x):
    t = x.clone()
    torch.vmap(lambda a: a.mul_(2))(t)
    same(torch, t, x * 2)
    torch.vmap(lambda a: a[0].zero_())(t)
    assert t[:, 0].tolist() == [0.0] * 4


def test_a_write_returns_the_tensor_itself(torch, x):
    def f(a):
        a = a.clone()
        assert a.add_(1) is a
        assert a.unsqueeze_(0) is a and a.shape == (1, 3)
        assert a.t_() is a and a.shape == (3, 1)
        return a.squeeze_()

    same(torch, torch.vmap(f)(x), x + 1)


def test_a_tensor_made_from_a_mapped_one_can_be_written(torch, x):
    def f(a):
        out = a.new_zeros(2)
        out[1] = a.sum()
        return out

    same(torch, torch.vmap(f)(x), torch.stack([torch.zeros_like(x.sum(1)), x.sum(1)], 1))


def test_views_follow_a_write(torch, x):
    def f(a):
        a = a.clone()
        first = a[0]
        a.mul_(3)
        return first

    same(torch, torch.vmap(f)(x), x[:, 0] * 3)


# --- random numbers ---------------------------------------------------------------------------------------------------

DRAWS = {
    "rand": lambda t, a: t.rand(3),
    "randn": lambda t, a: t.randn(3),
    "randint": lambda t, a: t.randint(99, (3,)),
    "randn_like": lambda t, a: t.randn_like(a),
    "uniform_": lambda t, a: a.clone().uniform_(),
    "randperm": lambda t, a: t.randperm(40),
}


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_same_randomness_draws_once_and_different_for_each(torch, draw):
    t = torch.zeros(3, 3)
    found = torch.vmap(lambda a: draw(torch, a), randomness="same")(t)
    assert bool((found[0] == found[1]).all() and (found[0] == found[2]).all())
    found = torch.vmap(lambda a: draw(torch, a), randomness="different")(t)
    assert found.shape[0] == 3 and not bool((found[0] == found[1]).all() and (found[0] == found[2]).all())


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_random_numbers_are_refused_unless_asked_for(torch, draw):
    with pytest.raises(RuntimeError, match="randomness error mode"):
        torch.vmap(lambda a: draw(torch, a))(torch.zeros(3, 3))


def test_dropout_zeroes_as_randomness_says(torch):
    drop = torch.nn.functional.dropout
    ones = torch.ones(4, 50)
    found = torch.vmap(drop, randomness="different")(ones)
    assert not bool((found[0] == found[1]).all())
    assert set(found.flatten().tolist()) == {0.0, 2.0}
    with pytest.raises(RuntimeError, match="randomness error mode"):
        torch.vmap(drop)(ones)


def test_the_same_cannot_be_drawn_from_different_distributions(torch):
    with pytest.raises(RuntimeError, match="same randomness with a batched tensor input"):
        torch.vmap(torch.bernoulli, randomness="same")(torch.rand(3, 2))
    with pytest.raises(RuntimeError, match="different inplace randomness on an unbatched tensor"):
        torch.vmap(lambda a: torch.zeros(3).uniform_(), randomness="different")(torch.zeros(2, 3))


def test_same_randomness_is_the_same_in_all_chunks(torch):
    found = torch.vmap(lambda a: torch.rand(2), randomness="same", chunk_size=1)(torch.zeros(3))
    assert bool((found[0] == found[2]).all())


def test_the_seed_decides(torch):
    def draw():
        torch.manual_seed(5)
        return torch.vmap(lambda a: torch.rand(2), randomness="different")(torch.zeros(3))

    same(torch, draw(), draw())


# --- layers -----------------------------------------------------------------------------------------------------------


def test_convolutions_of_one_weight_or_many(torch):
    torch.manual_seed(1)
    images, weights, bias = torch.randn(3, 2, 2, 6, 6), torch.randn(3, 4, 2, 3, 3), torch.randn(3, 4)
    conv = torch.nn.functional.conv2d
    for dims in [(0, None, None), (None, 0, None), (0, 0, 0), (0, None, 0), (None, 0, 0)]:
        given = [t if d == 0 else t[0] for t, d in zip((images, weights, bias), dims, strict=True)]
        found = torch.vmap(conv, in_dims=dims)(*given)
        rows = [conv(*[t[i] if d == 0 else t for t, d in zip(given, dims, strict=True)]) for i in range(3)]
        assert torch.allclose(found, torch.stack(rows), atol=1e-5)


@pytest.mark.filterwarnings("ignore:There is a performance drop")  # PyTorch's
@pytest.mark.parametrize("dims", [2, 3])
def test_fractional_pooling_has_random_samples_of_each_example_or_of_all(torch, dims):
    torch.manual_seed(0)
    pool = getattr(torch.nn.functional, f"fractional_max_pool{dims}d")
    xs, samples = torch.randn(3, 2, 4, *(7,) * dims, requires_grad=True), torch.rand(3, 2, 4, dims)

    def f(x, s):
        return pool(x, 2, output_size=3, _random_samples=s)

    for given in (xs, xs[:, 0]):  # images, and one image whose place is the first of the samples
        found = torch.vmap(f)(given, samples)
        expected = torch.stack([f(x, s) for x, s in zip(given, samples, strict=True)])
        same(torch, found, expected)
        assert torch.equal(torch.vmap(f, (0, None))(given, samples[0])[0], expected[0])
        assert torch.equal(torch.vmap(f, (None, 0))(given[0], samples)[0], expected[0])
        gradients = [torch.autograd.grad(out.square().sum(), xs)[0] for out in (found, expected)]
        same(torch, *gradients)


def test_normalisations_and_losses(torch):
    torch.manual_seed(1)
    F = torch.nn.functional
    t, w, labels = torch.randn(3, 5, 4), torch.randn(3, 4), torch.tensor([[0, 1, 2, 3, 0]] * 3)
    cases = [
        (lambda a, w, y: F.layer_norm(a, (4,), w, w), (0, 0, None)),
        (lambda a, w, y: F.group_norm(a, 2, None, None) if a.shape[1] % 2 == 0 else a, (0, 0, None)),
        (lambda a, w, y: F.batch_norm(a, None, None, w, w, True), (0, 0, None)),
        (lambda a, w, y: F.cross_entropy(a, y), (0, 0, 0)),
        (lambda a, w, y: F.cross_entropy(a, y, w.abs(), reduction="sum"), (0, None, 0)),
        (lambda a, w, y: F.mse_loss(a, w.expand(5, 4)), (0, 0, None)),
        (lambda a, w, y: F.embedding(y, a), (0, 0, 0)),
        (lambda a, w, y: F.max_pool1d(a, 2), (0, 0, None)),
        (lambda a, w, y: torch.einsum("ij,j->i", a, w), (0, 0, None)),
    ]
    for f, dims in cases:
        given = [v.clone() if d == 0 else v[0].clone() for v, d in zip((t, w, labels), dims, strict=True)]
        rows = [f(*[v[i].clone() if d == 0 else v for v, d in zip(given, dims, strict=True)]) for i in range(3)]
        assert torch.allclose(torch.vmap(f, in_dims=dims)(*given), torch.stack(rows), atol=1e-5)


def test_batch_norm_cannot_update_statistics_that_examples_share(torch):
    mean, var = torch.zeros(4), torch.ones(4)
    with pytest.raises(RuntimeError, match="running_mean or running_var"):
        torch.vmap(lambda a: torch.nn.functional.batch_norm(a, mean, var, training=True))(torch.randn(3, 5, 4))


# --- operators from elsewhere -----------------------------------------------------------------------------------------


def test_operators_that_are_defined_at_run_time_follow_the_same_rules(gradloom):
    definition = gradloom.ops.define(
        """
    - func: softabs_of(Tensor self, Tensor eps) -> Tensor
      tags: pointwise
      kernel: xp.sqrt(self * self + eps * eps)
    - func: largest_of(Tensor self, int dim) -> Tensor
      batch: dims(dim)
      kernel: self.max(axis=dim)
    """,
        """
    - name: softabs_of(Tensor self, Tensor eps) -> Tensor
      self: grad * (self / result)
      eps: grad * (eps / result)
    """,
        namespace="for_vmap",
    )
    try:
        t, eps = gradloom.arange(6.0).reshape(2, 3), gradloom.ones(3)
        softabs, largest = gradloom.ops.for_vmap.softabs_of, gradloom.ops.for_vmap.largest_of
        same(gradloom, gradloom.vmap(softabs, (0, None))(t, eps), softabs(t, eps))  # warnings are errors in tests
        same(gradloom, gradloom.vmap(largest, (0, None))(t, -1), t.max(1).values)
        found = gradloom.vmap(gradloom.func.grad(lambda a: softabs(a, eps).sum()))(t)
        same(gradloom, found, t / softabs(t, eps))
    finally:
        definition.remove()


def test_fill_takes_a_value_of_each_example(torch, x):
    same(torch, torch.vmap(lambda a: a.clone().fill_(a[1]))(x), x[:, 1:2].expand(4, 3))
