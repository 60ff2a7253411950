"""Hooks on tensors: register_hook, retain_grad, register_post_accumulate_grad_hook."""

import functools

import pytest


def leaf(torch, *values):
    return torch.tensor(list(values), requires_grad=True)


def noting(seen, name, factor=None):
    """A hook that notes its name and the gradient, and multiplies by `factor`."""

    def hook(grad):
        seen.append((name, grad.tolist()))
        return None if factor is None else grad * factor

    return hook


def nothing(torch):
    """A function whose backward returns an undefined gradient."""

    class Nothing(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x + 1

        @staticmethod
        def backward(ctx, grad):
            return None

    return Nothing.apply


def test_hooks_run_in_order_each_seeing_what_the_one_before_returned(torch):
    x, seen = leaf(torch, 1.0), []
    y = x * 2
    y.register_hook(noting(seen, 1))
    y.register_hook(noting(seen, 2, 10))
    y.register_hook(noting(seen, 3))
    y.sum().backward()
    assert seen == [(1, [1.0]), (2, [1.0]), (3, [10.0])] and x.grad.tolist() == [20.0]


def test_the_hooks_of_a_leaf_see_its_whole_gradient_once_in_each_pass(torch):
    x, seen = leaf(torch, 1.0), []
    x.register_hook(noting(seen, "x", 2))
    (x * 2 + x * 3).sum().backward()
    assert seen == [("x", [5.0])] and x.grad.tolist() == [10.0]
    assert torch.autograd.grad((x * 2).sum(), x)[0].tolist() == [4.0]
    x.backward(torch.ones(1))
    assert len(seen) == 3 and x.grad.tolist() == [12.0]


def test_the_hooks_of_a_leaf_outlive_graphs(torch):
    x, seen = leaf(torch, 1.0), []
    y = x * 2
    x.register_hook(noting(seen, "x"))
    del y
    (x * 3).sum().backward()
    assert seen == [("x", [3.0])]


def test_a_hook_registered_after_the_graph_was_made_runs(torch):
    x, seen = leaf(torch, 1.0), []
    y = (x * 2).sum()
    x.register_hook(noting(seen, "x"))
    y.backward()
    assert seen == [("x", [2.0])]


def test_a_hook_on_the_root_sees_the_given_gradient(torch):
    y, seen = leaf(torch, 1.0) * 2, []
    y.register_hook(noting(seen, "y"))
    y.backward(torch.tensor([7.0]))
    assert seen == [("y", [7.0])]


def test_a_removed_hook_does_not_run_and_may_be_removed_again(torch):
    x = leaf(torch, 1.0)
    y = x * 2
    kept, removed = y.register_hook(lambda g: g * 3), y.register_hook(lambda g: g * 10)
    removed.remove()
    removed.remove()
    with y.register_hook(lambda g: g * 100):
        pass
    y.sum().backward()
    assert x.grad.tolist() == [6.0]
    kept.remove()


def test_hooks_of_several_outputs_of_one_node(torch):
    x, seen = leaf(torch, 1.0, 2.0), []
    first, second = (x * 1).unbind()
    second.register_hook(noting(seen, "second"))
    first.register_hook(noting(seen, "first", 5))
    (first * 2 + second * 3).backward()
    assert sorted(seen) == [("first", 2.0), ("second", 3.0)] and x.grad.tolist() == [10.0, 3.0]


def test_an_undefined_gradient_is_none_for_a_hook(torch):
    x, seen = leaf(torch, 1.0), []
    y = x * 2
    y.retain_grad()
    y.register_hook(lambda g: seen.append(("y", g)))
    y.grad_fn.register_prehook(lambda g: seen.append(("pre", g)))
    y.grad_fn.register_hook(lambda i, o: seen.append(("post", i, o)))
    x.register_hook(lambda g: seen.append(("x", g)))
    x.register_post_accumulate_grad_hook(lambda p: seen.append("accumulated"))
    nothing(torch)(y).sum().backward()
    assert seen == [("y", None), ("pre", (None,)), ("post", (None, None), (None,)), ("x", None), "accumulated"]
    assert x.grad is None and y.grad is None


def test_an_undefined_gradient_cannot_be_replaced(torch):
    y = leaf(torch, 1.0) * 2
    y.register_hook(lambda g: torch.ones(1))
    with pytest.raises(RuntimeError, match="can't replace a None gradient with a non-None value"):
        nothing(torch)(y).sum().backward()


def test_hooks_added_while_the_hooks_of_a_tensor_run_wait_for_the_next_pass(torch):
    x, seen = leaf(torch, 1.0), []
    y = x * 2

    def adds(grad):
        seen.append("adds")
        y.register_hook(lambda g: seen.append("added"))

    y.register_hook(adds)
    y.register_hook(lambda g: seen.append("last"))
    y.sum().backward(retain_graph=True)
    assert seen == ["adds", "last"]
    seen.clear()
    y.sum().backward()
    assert seen == ["adds", "last", "added"]


def test_hooks_removed_while_the_hooks_of_a_tensor_run_still_run_in_this_pass(torch):
    x, seen, handles = leaf(torch, 1.0), [], []
    y = x * 2

    def removes(grad):
        seen.append("removes")
        for handle in handles:
            handle.remove()

    handles.append(y.register_hook(removes))
    handles.append(y.register_hook(lambda g: seen.append("removed")))
    y.register_hook(lambda g: seen.append("stays"))
    y.sum().backward(retain_graph=True)
    assert seen == ["removes", "removed", "stays"]
    seen.clear()
    y.sum().backward()
    assert seen == ["stays"]


def test_a_hook_may_add_hooks_further_down(torch):
    x, seen = leaf(torch, 1.0), []
    y = x * 1
    z = y * 1
    z.register_hook(lambda g: y.register_hook(lambda g: seen.append("y")) and None)
    z.register_hook(lambda g: x.register_hook(lambda g: seen.append("x")) and None)
    z.sum().backward()
    assert seen == ["y", "x"]


def test_a_hook_that_raises_ends_the_pass(torch):
    x, seen = leaf(torch, 1.0), []
    y = x * 2
    handle = y.register_hook(lambda g: 1 / 0)
    y.register_hook(lambda g: seen.append("after"))
    with pytest.raises(ZeroDivisionError):
        y.sum().backward(retain_graph=True)
    assert x.grad is None and seen == []
    handle.remove()
    y.sum().backward()
    assert x.grad.tolist() == [2.0] and seen == ["after"]


@pytest.mark.parametrize(
    ("value", "error", "words"),
    [
        (3, TypeError, "expected Variable, but hook returned 'int'"),
        (True, TypeError, "expected Variable, but hook returned 'bool'"),
        ((1,), TypeError, "expected Variable, but hook returned 'tuple'"),
        ([3], RuntimeError, "hook '<lambda>' has changed the size of value"),
        ([], RuntimeError, "hook '<lambda>' has changed the size of value"),
        ([1, 2], RuntimeError, "hook '<lambda>' has changed the size of value"),
    ],
)
def test_a_hook_must_return_a_tensor_of_the_same_shape(torch, value, error, words):
    y = leaf(torch, 1.0, 2.0) * 2
    answer = torch.ones(value) if isinstance(value, list) else value
    y.register_hook(lambda g: answer)
    with pytest.raises(error, match=words):
        y.sum().backward()


def test_a_hook_must_return_a_tensor_of_the_same_type(torch):
    y = leaf(torch, 1.0, 2.0) * 2
    y.register_hook(lambda g: g.double())
    with pytest.raises(
        RuntimeError,
        match=r"hook '<lambda>' has changed the type of value \(was torch.FloatTensor got "
        r"torch.DoubleTensor\)",
    ):
        y.sum().backward()


def test_messages_name_the_hook_if_it_has_a_name(torch):
    class Callable:
        def __call__(self, grad):
            return grad.sum()

        def method(self, grad):
            return grad.sum()

    for hook, name in (
        (Callable(), "<unknown>"),
        (Callable().method, "method"),
        (functools.partial(lambda a, g: g.sum(), 1), "<unknown>"),
    ):
        y = leaf(torch, 1.0, 2.0) * 2
        y.register_hook(hook)
        with pytest.raises(RuntimeError, match=f"hook '{name}' has changed the size of value"):
            y.sum().backward()


def test_hooks_are_for_tensors_that_require_grad(torch):
    with pytest.raises(RuntimeError, match="cannot register a hook on a tensor that doesn't require gradient"):
        torch.ones(1).register_hook(print)
    with pytest.raises(RuntimeError, match="cannot register a hook on a tensor that doesn't require gradient"):
        torch.ones(1).register_post_accumulate_grad_hook(print)
    with pytest.raises(RuntimeError, match="can't retain_grad on Tensor that has requires_grad=False"):
        torch.ones(1).retain_grad()


@pytest.mark.parametrize(
    ("register", "accumulated"), [("register_hook", False), ("register_post_accumulate_grad_hook", True)]
)
def test_what_is_no_callable_fails_when_backward_comes_to_it(torch, register, accumulated):
    x = leaf(torch, 1.0)
    handle = getattr(x, register)(3)
    with pytest.raises(TypeError, match="'int' object is not callable"):
        (x * 2).sum().backward()
    assert (x.grad is not None) == accumulated
    handle.remove()
    x.grad = None
    (x * 2).sum().backward()
    assert x.grad.tolist() == [2.0]


def test_gradients_in_hooks_are_recorded_under_create_graph(torch):
    x, seen = leaf(torch, 3.0), []
    y = x * x
    y.register_hook(lambda g: seen.append(torch.is_grad_enabled()))
    (first,) = torch.autograd.grad((y * y).sum(), x, create_graph=True)
    torch.autograd.grad(first.sum(), x, retain_graph=True)
    assert seen[0] is True and seen[-1] is False


def test_a_factor_from_a_hook_is_part_of_the_second_derivative(torch):
    x = leaf(torch, 3.0)
    y = x * x
    y.register_hook(lambda g: g * x)
    (first,) = torch.autograd.grad(y.sum(), x, create_graph=True)  # 2 x * x
    assert torch.autograd.grad(first.sum(), x)[0].tolist() == [12.0]


# --- in-place writes and detaching ----------------------------------------------------------------------------------


def test_hooks_belong_to_the_value_that_the_tensor_had(torch):
    x, seen = leaf(torch, 1.0), []
    y = x * 1
    y.register_hook(noting(seen, "before the write"))
    y.mul_(3)
    y.register_hook(noting(seen, "after the write"))
    y.sum().backward()
    assert seen == [("after the write", [1.0]), ("before the write", [3.0])] and x.grad.tolist() == [3.0]


def test_hooks_of_a_base_and_a_view_that_was_written_to(torch):
    x, seen = leaf(torch, 1.0, 2.0), []
    base = x * 1
    view = base[0]
    base.register_hook(noting(seen, "old base"))
    view.register_hook(noting(seen, "old view"))
    view.mul_(5)
    base.register_hook(noting(seen, "new base"))
    view.register_hook(noting(seen, "new view"))
    base.sum().backward(retain_graph=True)
    assert seen == [("new base", [1.0, 1.0]), ("old base", [5.0, 1.0])]
    seen.clear()
    view.backward()
    assert seen == [("new view", 1.0), ("new base", [1.0, 0.0]), ("old base", [5.0, 0.0])]


def test_the_hooks_of_a_leaf_survive_writes_and_switching_requires_grad(torch):
    x, seen = leaf(torch, 1.0), []
    x.register_hook(noting(seen, "x"))
    with torch.no_grad():
        x.mul_(2)
    x.requires_grad_(False)
    x.requires_grad_(True)
    (x * 1).sum().backward()
    assert seen == [("x", [1.0])]


def test_hooks_stay_with_a_tensor_that_is_detached_in_place(torch):
    y, seen = leaf(torch, 1.0) * 2, []
    y.register_hook(noting(seen, "y"))
    y.detach_()
    y.requires_grad_()
    (y * 3).sum().backward()
    assert seen == [("y", [3.0])]


def test_hooks_of_a_leaf_that_was_written_from_another_tensor(torch):
    x, seen = leaf(torch, 2.0), []
    y = torch.ones(1)
    y.mul_(x)
    y.register_hook(noting(seen, "y"))
    y.sum().backward()
    assert seen == [("y", [1.0])]


def test_backward_hooks_are_listed(torch):
    x = leaf(torch, 1.0)
    assert x._backward_hooks is None
    handle = x.register_hook(print)
    assert x._backward_hooks[handle.id] is print
    handle.remove()
    assert not x._backward_hooks


# --- retain_grad ----------------------------------------------------------------------------------------------------


def test_retain_grad_keeps_what_the_tensor_hooks_made_and_not_the_node_hooks(torch):
    x, seen = leaf(torch, 1.0), []
    y = x * 1
    y.register_hook(lambda g: g * 2)
    y.retain_grad()
    y.register_hook(lambda g: g * 3)
    y.grad_fn.register_prehook(lambda g: seen.append(g[0].item()) or (g[0] * 7,))
    y.sum().backward()
    assert y.grad.tolist() == [6.0] and seen == [6.0] and x.grad.tolist() == [42.0]
    assert y.retains_grad and not x.retains_grad


def test_retained_gradients_add_up_in_new_tensors(torch):
    y = leaf(torch, 1.0) * 2
    y.retain_grad()
    y.retain_grad()
    (y * 1).sum().backward(retain_graph=True)
    first = y.grad
    (y * 1).sum().backward(retain_graph=True)
    assert y.grad is not first and first.tolist() == [1.0] and y.grad.tolist() == [2.0]
    y.grad = torch.tensor([100.0])
    (y * 1).sum().backward()
    assert y.grad.tolist() == [101.0]


def test_a_retained_gradient_is_a_copy(torch):
    x = leaf(torch, 1.0)
    y = x * 1
    y.retain_grad()
    y.sum().backward()
    y.grad.zero_()
    assert x.grad.tolist() == [1.0]


def test_retain_grad_follows_the_tensor_through_a_write(torch):
    x = leaf(torch, 1.0, 2.0)
    y = x * 1
    y.retain_grad()
    y.mul_(3)
    y.retain_grad()
    (y * 2).sum().backward()
    assert y.grad.tolist() == [2.0, 2.0] and x.grad.tolist() == [6.0, 6.0]


def test_retain_grad_of_a_leaf_does_nothing(torch):
    x = leaf(torch, 1.0)
    x.retain_grad()
    assert not x.retains_grad
    (x * 2).sum().backward()
    assert x.grad.tolist() == [2.0]


def test_retained_gradients_under_grad(torch):
    x = leaf(torch, 1.0)
    y = x * 2
    y.retain_grad()
    assert torch.autograd.grad((y * 3).sum(), x)[0].tolist() == [6.0] and y.grad.tolist() == [3.0]


# --- post accumulate ------------------------------------------------------------------------------------------------


def test_a_post_accumulate_hook_runs_after_each_accumulation(torch):
    x, seen = leaf(torch, 1.0), []
    x.register_post_accumulate_grad_hook(lambda p: seen.append((p is x, p.grad.tolist())))
    (x * 2).sum().backward()
    (x * 2).sum().backward()
    assert seen == [(True, [2.0]), (True, [4.0])]
    torch.autograd.grad((x * 2).sum(), x)
    assert len(seen) == 2
    (x * 2).sum().backward(inputs=[x])
    assert len(seen) == 3


def test_post_accumulate_hooks_run_in_order_and_may_clear_grad(torch):
    x, seen = leaf(torch, 1.0), []
    x.register_post_accumulate_grad_hook(lambda p: seen.append(1))
    handle = x.register_post_accumulate_grad_hook(lambda p: seen.append(2))
    x.register_post_accumulate_grad_hook(lambda p: setattr(p, "grad", None))
    (x * 2).sum().backward()
    assert seen == [1, 2] and x.grad is None
    handle.remove()
    (x * 2).sum().backward()
    assert seen == [1, 2, 1]


def test_a_post_accumulate_hook_may_take_a_step_of_the_optimizer(torch):
    x = leaf(torch, 1.0)
    optimizer = torch.optim.SGD([x], lr=0.5)

    def step(p):
        optimizer.step()
        optimizer.zero_grad()

    x.register_post_accumulate_grad_hook(step)
    (x * 2).sum().backward()
    assert x.tolist() == [0.0] and x.grad is None


def test_post_accumulate_hooks_are_for_leaves(torch):
    with pytest.raises(RuntimeError, match="post accumulate grad hooks cannot be registered on non-leaf tensors"):
        (leaf(torch, 1.0) * 2).register_post_accumulate_grad_hook(print)


def test_a_post_accumulate_hook_that_raises_or_returns_something_ends_the_pass(torch):
    for hook, error, message in (
        (lambda p: 1 / 0, ZeroDivisionError, "division by zero"),
        (lambda p: p.grad, RuntimeError, "post accumulate grad hooks should return None"),
    ):
        x = leaf(torch, 1.0)
        x.register_post_accumulate_grad_hook(hook)
        with pytest.raises(error, match=message):
            (x * 2).sum().backward()
        assert x.grad.tolist() == [2.0]


def test_a_post_accumulate_hook_runs_where_nothing_was_accumulated(torch):
    class Nothing(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return None

    x, seen = leaf(torch, 1.0), []
    x.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad))
    Nothing.apply(x).sum().backward()
    y = x * 2
    x.requires_grad_(False)  # so that the leaf takes no gradient any more
    y.sum().backward()
    assert seen == [None, None] and x.grad is None
