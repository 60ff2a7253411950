"""vmap: what is mapped over, where the batch comes from and goes to, and what is refused."""

from __future__ import annotations

import pytest


def close(torch, found, expected):
    assert found.shape == expected.shape and found.dtype == expected.dtype
    assert torch.allclose(found, expected, equal_nan=True)


@pytest.fixture
def x(torch):
    torch.manual_seed(0)
    return torch.randn(4, 3, dtype=torch.float64)


def test_the_function_sees_one_example(torch, x):
    seen = []

    def f(a):
        seen.append((tuple(a.shape), a.dim(), a.numel(), a.dtype, len(a), a.size(0)))
        return a * 2

    result = torch.vmap(f)(x)
    assert seen == [((3,), 1, 3, torch.float64, 3, 3)]
    close(torch, result, x * 2)


def test_func_has_the_same_vmap(torch, x):
    close(torch, torch.func.vmap(torch.sin)(x), x.sin())


@pytest.mark.parametrize("dim", [0, 1, -1, -2])
def test_in_dims_and_out_dims_may_be_negative(torch, x, dim):
    found = torch.vmap(lambda a: a.cumsum(0), in_dims=dim, out_dims=dim)(x)
    close(torch, found, x.cumsum(1 if dim in (0, -2) else 0))


def test_none_in_in_dims_is_the_same_for_all_examples(torch, x):
    w = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
    close(torch, torch.vmap(torch.dot, in_dims=(None, 0))(w, x), x @ w)
    close(torch, torch.vmap(lambda a, n: a * n, in_dims=(0, None))(x, 3), x * 3)


def test_in_dims_have_the_structure_of_the_inputs_or_stop_earlier(torch, x):
    def f(pair, other):
        return pair["a"] + pair["b"] + other

    inputs = {"a": x, "b": x.t()}
    found = torch.vmap(f, in_dims=({"a": 0, "b": 1}, None))(inputs, 1.0)
    close(torch, found, x + x + 1.0)
    close(torch, torch.vmap(f, in_dims=(0, None))({"a": x, "b": x}, 1.0), x + x + 1.0)


def test_keyword_arguments_are_the_same_for_all_examples(torch, x):
    close(torch, torch.vmap(lambda a, b: a - b)(x, b=x[0]), x - x[0])


def test_outputs_may_be_containers_and_out_dims_with_them(torch, x):
    def f(a):
        return {"same": a, "pair": (a.sum(), [a.outer(a)])}

    found = torch.vmap(f, out_dims={"same": 1, "pair": (0, [2])})(x)
    close(torch, found["same"], x.t())
    close(torch, found["pair"][0], x.sum(1))
    close(torch, found["pair"][1][0], (x.unsqueeze(2) * x.unsqueeze(1)).permute(1, 2, 0))


def test_one_out_dim_is_for_all_outputs(torch, x):
    first, second = torch.vmap(lambda a: (a, -a), out_dims=1)(x)
    close(torch, first, x.t())
    close(torch, second, -x.t())


def test_an_output_that_does_not_depend_on_the_batch_is_repeated(torch, x):
    close(torch, torch.vmap(lambda a: torch.ones(2))(x), torch.ones(4, 2))


def test_out_dim_none_returns_what_is_the_same_in_all_examples(torch, x):
    first, second = torch.vmap(lambda a: (a, torch.ones(2)), out_dims=(0, None))(x)
    assert second.shape == (2,)
    with pytest.raises(ValueError, match="can not return a BatchedTensor when out_dim is None"):
        torch.vmap(lambda a: a, out_dims=None)(x)


def test_vmaps_nest(torch, x):
    outer = torch.vmap(torch.vmap(lambda a, b: a * b, in_dims=(0, None)), in_dims=(None, 0))
    close(torch, outer(x[0], x[1]), x[1].unsqueeze(1) * x[0])
    pairwise = torch.vmap(torch.vmap(torch.dot, in_dims=(None, 0)), in_dims=(0, None))
    close(torch, pairwise(x, x), x @ x.t())


def test_three_levels_deep(torch):
    t = torch.arange(24.0).reshape(2, 3, 4)
    close(torch, torch.vmap(torch.vmap(torch.vmap(lambda a: a.sin() + 1)))(t), t.sin() + 1)


def test_an_inner_vmap_may_map_an_outer_tensor_too(torch, x):
    found = torch.vmap(lambda a: torch.vmap(lambda b: a.dot(b))(x))(x)
    close(torch, found, x @ x.t())


@pytest.mark.parametrize("size", [1, 2, 3, 4, 7])
def test_chunks_give_the_same(torch, x, size):
    close(torch, torch.vmap(lambda a: a.sum() * a, chunk_size=size)(x), x.sum(1, keepdim=True) * x)
    close(torch, torch.vmap(lambda a: a.sum() * a, chunk_size=size, in_dims=1, out_dims=1)(x), x.sum(0) * x)


def test_a_batch_of_no_examples_has_the_shape_of_one(torch):
    assert torch.vmap(lambda a: (a * 2).sum(0))(torch.zeros(0, 3, 5)).shape == (0, 5)


def test_a_batched_tensor_prints_its_level(torch, x):
    text = []
    torch.vmap(lambda a: (text.append(repr(a)), a)[1])(x[:2])
    assert text[0].startswith("BatchedTensor(lvl=1, bdim=0, value=\n    tensor(")


def test_named_results_keep_their_class(torch, x):
    found = torch.vmap(lambda a: a.max(0))(x)
    close(torch, found.values, x.max(1).values)
    assert found.indices.tolist() == x.max(1).indices.tolist()


MISTAKES = {
    "in_dim of a number": (lambda t, x: t.vmap(lambda a, b: a)(x, 2.0), ValueError, "cannot vmap over non-Tensor"),
    "in_dim out of range": (lambda t, x: t.vmap(lambda a: a, in_dims=5)(x), ValueError, "-2 <= in_dim < 2"),
    "no dimension": (lambda t, x: t.vmap(lambda a: a)(x[0, 0]), ValueError, "dimensionality 0"),
    "in_dims of another type": (lambda t, x: t.vmap(lambda a: a, in_dims="a")(x), ValueError, "expected `in_dims`"),
    "in_dims None": (lambda t, x: t.vmap(lambda a: a, in_dims=None)(x), ValueError, "expected `in_dims`"),
    "in_dims of another structure": (
        lambda t, x: t.vmap(lambda a: a, in_dims=(0, 0))(x),
        ValueError,
        "in_dims is not compatible with the structure of `inputs`",
    ),
    "in_dim no integer": (lambda t, x: t.vmap(lambda a: a, in_dims=(1.5,))(x), ValueError, "either an integer"),
    "sizes differ": (lambda t, x: t.vmap(lambda a, b: a)(x, x.t()), ValueError, r"got sizes \[4, 3\]"),
    "no inputs": (lambda t, x: t.vmap(lambda: 1)(), ValueError, "got no inputs"),
    "out_dims of another structure": (
        lambda t, x: t.vmap(lambda a: a, out_dims=(0, 1))(x),
        ValueError,
        "out_dims is not compatible with the structure of `outputs`",
    ),
    "out_dims of another type": (lambda t, x: t.vmap(lambda a: a, out_dims="a")(x), ValueError, "must be an int, None"),
    "out_dim out of range": (lambda t, x: t.vmap(lambda a: a, out_dims=7)(x), IndexError, "Dimension out of range"),
    "no tensor returned": (lambda t, x: t.vmap(lambda a: 3)(x), ValueError, "must only return Tensors"),
    "chunk_size": (lambda t, x: t.vmap(lambda a: a, chunk_size=0)(x), ValueError, "greater than 0"),
    "randomness": (lambda t, x: t.vmap(lambda a: a, randomness="no")(x), RuntimeError, "Only allowed values"),
    "item": (lambda t, x: t.vmap(lambda a: a.sum().item())(x), RuntimeError, r"calling .item\(\) on a Tensor"),
    "float": (lambda t, x: t.vmap(lambda a: float(a.sum()))(x), RuntimeError, r"calling .item\(\) on a Tensor"),
    "int": (lambda t, x: t.vmap(lambda a: int(a.sum()))(x), RuntimeError, r"calling .item\(\) on a Tensor"),
    "range": (lambda t, x: t.vmap(lambda i: list(range(i)))(t.tensor([0, 2])), RuntimeError, r"calling .item\(\)"),
    "control flow": (lambda t, x: t.vmap(lambda a: a if a.sum() > 0 else -a)(x), RuntimeError, "data-dependent"),
    "numpy": (lambda t, x: t.vmap(lambda a: a.numpy())(x), RuntimeError, "have storage"),
    "tolist": (lambda t, x: t.vmap(lambda a: a.tolist())(x), RuntimeError, "have storage"),
    "data_ptr": (lambda t, x: t.vmap(lambda a: a.data_ptr())(x), RuntimeError, "have storage"),
    "data": (lambda t, x: t.vmap(lambda a: a.data)(x), RuntimeError, "accessing `data` under vmap"),
    "mask": (lambda t, x: t.vmap(lambda a: a[a > 0])(x), RuntimeError, "boolean mask"),
    "masked_select": (lambda t, x: t.vmap(lambda a: t.masked_select(a, a > 0))(x), RuntimeError, "vmap over"),
    "nonzero": (lambda t, x: t.vmap(t.nonzero)(x), RuntimeError, "dynamic shape"),
    "unique": (lambda t, x: t.vmap(t.unique)(x), RuntimeError, "dynamic shape"),
    "in place": (
        lambda t, x: t.vmap(lambda a: t.zeros(3, dtype=a.dtype).copy_(a))(x),
        RuntimeError,
        "there exists a Tensor `other` in extra_args",
    ),
    "setitem": (
        lambda t, x: t.vmap(lambda a: t.zeros(3, dtype=a.dtype).__setitem__(0, a[0]))(x),
        RuntimeError,
        "there exists a Tensor `other` in extra_args",
    ),
    "out": (lambda t, x: t.vmap(lambda a: t.add(a, 1, out=t.zeros(3, dtype=a.dtype)))(x), RuntimeError, "out="),
    "backward": (
        lambda t, x: t.vmap(lambda a: (a * a).sum().backward())(x.clone().requires_grad_()),
        RuntimeError,
        r"backward\(\) called inside",
    ),
}


@pytest.mark.parametrize("call, kind, words", MISTAKES.values(), ids=MISTAKES)
def test_mistakes_and_what_needs_values_are_refused(torch, x, call, kind, words):
    with pytest.raises(kind, match=words):
        call(torch, x)


def test_an_error_leaves_nothing_behind(torch, x):
    with pytest.raises(RuntimeError):
        torch.vmap(lambda a: a.sum().item())(x)
    close(torch, torch.vmap(lambda a: a + 1)(x), x + 1)
    assert torch.rand(2).shape == (2,)


def test_a_tensor_that_outlives_its_vmap_says_so(gradloom):
    kept = []
    gradloom.vmap(lambda a: (kept.append(a), a)[1])(gradloom.ones(2, 3))
    with pytest.raises(RuntimeError, match="after the vmap that it belongs to has returned"):
        kept[0] + 1


def test_an_operator_without_a_rule_is_called_for_each_example_and_warns_once(gradloom):
    from gradloom.batching.rules import _loop

    _loop._warned.discard("histc")
    t = gradloom.rand(3, 5)
    with pytest.warns(UserWarning, match="performance drop because we have not yet implemented the batching rule"):
        found = gradloom.vmap(lambda a: gradloom.histc(a, 4, 0, 1))(t)
    assert gradloom.equal(found, gradloom.stack([gradloom.histc(a, 4, 0, 1) for a in t]))
    gradloom.vmap(lambda a: gradloom.histc(a, 4, 0, 1))(t)  # warnings are errors in tests


def test_each_example_may_have_an_index_of_its_own(torch):
    x, places = torch.arange(6.0).reshape(2, 3), torch.tensor([1, 2])
    assert torch.vmap(lambda a, i: a[i])(x, places).tolist() == [1.0, 5.0]

    def assigned(a, i, value):
        a = a.clone()
        a[i] = value
        return a

    found = torch.vmap(assigned)(x, places, torch.tensor([10.0, 20.0]))
    assert found.tolist() == [[0.0, 10.0, 2.0], [3.0, 4.0, 20.0]]
