"""With inputs=, and in autograd.grad, a node computes the gradients that lead to an input and no others."""

import pytest

from tests.waiting import in_threads


def leaf(torch, *values):
    return torch.tensor(list(values), requires_grad=True)


def seen_by_hook(y):
    seen = []
    y.grad_fn.register_hook(lambda grad_inputs, grad_outputs: seen.append([g is not None for g in grad_inputs]))
    return seen


def test_the_gradient_of_another_input_is_not_computed(torch):
    a, b = leaf(torch, 2.0), leaf(torch, 3.0)
    for inputs, expected in (([a], [True, False]), ([b], [False, True]), ([a, b], [True, True])):
        y = a * b
        seen = seen_by_hook(y)
        torch.autograd.grad(y, inputs)
        assert seen == [expected]


def test_backward_with_inputs_asks_for_these_only(torch):
    a, b = leaf(torch, 2.0), leaf(torch, 3.0)
    y = a * b
    seen = seen_by_hook(y)
    y.backward(inputs=[b])
    assert seen == [[False, True]] and a.grad is None and b.grad.tolist() == [2.0]


def test_backward_without_inputs_computes_all(torch):
    a, b = leaf(torch, 2.0), leaf(torch, 3.0)
    y = a * b
    seen = seen_by_hook(y)
    y.backward()
    assert seen == [[True, True]]


def test_an_input_may_lie_behind_the_next_node(torch):
    a, b = leaf(torch, 2.0), leaf(torch, 3.0)
    y = a.exp() * b.exp()
    seen = seen_by_hook(y)
    torch.autograd.grad(y, b)
    assert seen == [[False, True]]


def test_a_hook_on_an_input_that_is_not_asked_for_stays_silent(torch):
    a, b = leaf(torch, 2.0), leaf(torch, 3.0)
    b.register_hook(lambda grad: pytest.fail("nobody asked for this gradient"))
    assert torch.autograd.grad(a * b, a)[0].tolist() == [3.0]


def test_a_hook_cannot_put_a_gradient_where_none_was_computed(torch):
    a, b = leaf(torch, 2.0), leaf(torch, 3.0)
    y = a * b
    y.grad_fn.register_hook(lambda grad_inputs, grad_outputs: (grad_inputs[0], grad_inputs[0]))
    with pytest.raises(RuntimeError, match="can't replace a None gradient with a non-None value"):
        torch.autograd.grad(y, a)


def test_a_derivative_that_nobody_wrote_is_no_obstacle_to_the_others(torch):
    a, b = leaf(torch, 0.5), leaf(torch, 1.5)
    y = torch.igamma(a, b)
    assert torch.autograd.grad(y, b, retain_graph=True)[0].item() == pytest.approx(0.10279, abs=1e-4)
    with pytest.raises((NotImplementedError, RuntimeError)):
        torch.autograd.grad(y, a)


def test_elements_of_a_list_of_inputs_are_asked_for_one_by_one(torch):
    a, b, c = leaf(torch, 1.0), leaf(torch, 2.0), leaf(torch, 3.0)
    y = torch.cat([a, b * 1, c])
    assert torch.autograd.grad(y.sum(), b)[0].tolist() == [1.0]
    assert torch.autograd.grad(torch.stack([a, b]).sum(), b)[0].tolist() == [1.0]


def test_formulas_for_several_inputs_at_once_get_a_mask(torch):
    x = torch.ones(1, 1, 3, 3, requires_grad=True)
    w = torch.ones(1, 1, 2, 2, requires_grad=True)
    y = torch.nn.functional.conv2d(x, w)
    seen = seen_by_hook(y)
    assert torch.autograd.grad(y.sum(), w)[0].flatten().tolist() == [4.0] * 4
    assert seen == [[False, True, False]]


def test_a_custom_function_is_told_what_its_inputs_need_not_what_the_pass_asks_for(torch):
    needs = []

    class Product(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a, b):
            ctx.save_for_backward(a, b)
            return a * b

        @staticmethod
        def backward(ctx, grad):
            needs.append(ctx.needs_input_grad)
            a, b = ctx.saved_tensors
            return grad * b, grad * a

    a, b = leaf(torch, 2.0), leaf(torch, 3.0)
    assert torch.autograd.grad(Product.apply(a, b), b)[0].tolist() == [2.0]
    assert needs == [(True, True)]


def test_a_write_into_a_view_computes_what_is_asked_for(torch):
    a, b = leaf(torch, 1.0, 2.0), leaf(torch, 3.0)
    x = a * 1
    x[:1].mul_(b)
    for inputs, expected in ((a, [3.0, 1.0]), (b, [1.0])):
        assert torch.autograd.grad(x.sum(), inputs, retain_graph=True)[0].tolist() == expected
    seen = seen_by_hook(x)
    torch.autograd.grad(x.sum(), b)
    assert seen == [[False, True]]


def test_second_derivatives_of_one_input_go_through_what_both_need(torch):
    a, b = leaf(torch, 2.0), leaf(torch, 3.0)
    (grad_a,) = torch.autograd.grad(a * a * b, a, create_graph=True)
    assert grad_a.item() == 12.0
    assert torch.autograd.grad(grad_a, b)[0].item() == 4.0


def test_passes_of_several_threads_ask_one_graph_for_different_inputs(torch):
    a, b = leaf(torch, 2.0), leaf(torch, 3.0)
    y = a * 1
    for _ in range(50):
        y = y * b

    def run(*inputs):
        return [torch.autograd.grad(y, inputs, retain_graph=True) for _ in range(20)]

    first, second, both = in_threads(lambda: run(a), lambda: run(b), lambda: run(a, b))
    assert all(g == first[0] for g in first) and all(g == second[0] for g in second)
    assert both[0] == (*first[0], *second[0])


def test_the_hooks_of_a_root_see_its_gradient_even_if_nothing_is_wanted_of_it(torch):
    x, other, seen = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True), []
    y = x * 2
    y.retain_grad()
    y.register_hook(lambda g: seen.append(g.tolist()))
    y.grad_fn.register_prehook(lambda g: seen.append("not run"))
    found = torch.autograd.grad(y, other, torch.tensor([3.0, 4.0]), allow_unused=True)
    y.backward(torch.tensor([5.0, 6.0]), inputs=[other])
    assert found == (None,) and seen == [[3.0, 4.0], [5.0, 6.0]]
    assert y.grad.tolist() == [8.0, 10.0] and x.grad is None and other.grad is None
    torch.autograd.grad([y, other], other, [torch.ones(2), torch.ones(2)])  # with several, the graph begins before them
    assert len(seen) == 2


def test_a_root_of_which_nothing_is_wanted_does_not_count_as_executed(torch):
    x, other, seen = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True), []
    y = x * 2
    y.register_hook(lambda g: seen.append(torch._C._will_engine_execute_node(y.grad_fn)))
    torch.autograd.grad(y, other, torch.ones(2), allow_unused=True)
    assert seen == [False]
