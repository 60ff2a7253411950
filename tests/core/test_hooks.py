"""Hooks on tensors and nodes."""

from __future__ import annotations

import pytest

import gradloom as torch


def leaf(*values):
    return torch.tensor(list(values), dtype=torch.float64, requires_grad=True)


def test_a_tensor_hook_sees_and_replaces_the_gradient():
    x = leaf(1.0)
    y = x * 2
    seen = []
    y.register_hook(lambda g: seen.append(g.tolist()))
    y.register_hook(lambda g: g * 10)
    y.register_hook(lambda g: seen.append(g.tolist()))
    y.sum().backward()
    assert seen == [[1.0], [10.0]] and x.grad.tolist() == [20.0]


def test_a_removed_hook_is_not_called():
    x = leaf(1.0)
    handle = x.register_hook(lambda g: g * 10)
    handle.remove()
    (x * 1).sum().backward()
    assert x.grad.tolist() == [1.0]


def test_a_leaf_hook_sees_the_whole_gradient_once():
    x, seen = leaf(1.0), []
    x.register_hook(lambda g: seen.append(g.tolist()))
    (x * 2 + x * 3).sum().backward()
    assert seen == [[5.0]]


def test_hooks_of_leaves_run_under_grad_too():
    x = leaf(1.0)
    x.register_hook(lambda g: g * 10)
    assert torch.autograd.grad((x * 2).sum(), x)[0].tolist() == [20.0]


def test_hook_needs_a_gradient():
    with pytest.raises(RuntimeError, match="cannot register a hook on a tensor that doesn't require gradient"):
        torch.tensor(1.0).register_hook(print)


@pytest.mark.parametrize(
    ("bad", "error", "words"),
    [
        (lambda g: 3, TypeError, "expected Variable, but hook returned 'int'"),
        (lambda g: g.sum(), RuntimeError, "has changed the size of value"),
    ],
)
def test_a_hook_that_returns_nonsense(bad, error, words):
    x = leaf(1.0, 2.0)
    y = x * 2
    y.register_hook(bad)
    with pytest.raises(error, match=words):
        y.sum().backward()


def test_retain_grad_comes_after_hooks():
    x = leaf(1.0)
    y = x * 2
    y.retain_grad()
    y.register_hook(lambda g: g * 10)
    y.sum().backward()
    assert y.grad.tolist() == [10.0]
    assert y.retains_grad and not x.retains_grad


def test_grad_of_a_non_leaf_warns():
    y = leaf(1.0) * 2
    with pytest.warns(UserWarning, match="not a leaf Tensor is being accessed"):
        assert y.grad is None


def test_node_hooks():
    x, seen = leaf(1.0), []
    y = x * 2
    y.grad_fn.register_prehook(lambda grads: (grads[0] * 2,))
    y.grad_fn.register_hook(lambda inputs, outputs: seen.append((inputs[0].tolist(), outputs[0].tolist())))
    y.sum().backward()
    assert seen == [([4.0], [2.0])] and x.grad.tolist() == [4.0]


def test_a_node_hook_replaces_gradients():
    x = leaf(1.0)
    y = x * 2
    y.grad_fn.register_hook(lambda inputs, outputs: tuple(None if g is None else g * 0 for g in inputs))
    y.sum().backward()
    assert x.grad.tolist() == [0.0]


def test_post_accumulate_grad_hook():
    x, seen = leaf(1.0), []
    x.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.tolist()))
    (x * 2).sum().backward()
    (x * 2).sum().backward()
    assert seen == [[2.0], [4.0]]
    with pytest.raises(RuntimeError, match="post accumulate grad hooks cannot be registered on non-leaf tensors"):
        (x * 2).register_post_accumulate_grad_hook(print)


def test_a_hook_may_remove_itself():
    x, seen = leaf(1.0), []
    y = x * 2

    def once(g):
        seen.append(1)
        handle.remove()

    handle = y.register_hook(once)
    y.sum().backward(retain_graph=True)
    y.sum().backward()
    assert seen == [1]


def test_node_metadata_is_the_users():
    y = leaf(1.0) * 2
    y.grad_fn.metadata["note"] = 3
    assert y.grad_fn.metadata == {"note": 3}
