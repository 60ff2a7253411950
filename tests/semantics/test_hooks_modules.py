"""Hooks on modules: full backward hooks and pre-hooks, with the forward hooks around them."""

import warnings

import pytest


@pytest.fixture
def nn(torch):
    return torch.nn


@pytest.fixture
def triple(torch, nn):
    """A linear module that multiplies by 3."""
    module = nn.Linear(2, 2, bias=False)
    with torch.no_grad():
        module.weight.copy_(torch.eye(2) * 3)
    return module


def scale(nn):
    """A module of two tensors and anything."""

    class Scale(nn.Module):
        def forward(self, x, y=None, note=None):
            return x * 2 if y is None else (x * 2, y * 3)

    return Scale()


def listed(gradients):
    return [None if g is None else g.tolist() for g in gradients]


def test_a_full_backward_hook_sees_the_gradients_of_inputs_and_outputs(torch, triple):
    seen = []
    handle = triple.register_full_backward_hook(lambda m, i, o: seen.append((m is triple, listed(i), listed(o))))
    x = torch.ones(1, 2, requires_grad=True)
    y = triple(x)
    assert y.grad_fn.name() == "BackwardHookFunctionBackward"
    y.sum().backward()
    assert seen == [(True, [[[3.0, 3.0]]], [[[1.0, 1.0]]])] and x.grad.tolist() == [[3.0, 3.0]]
    handle.remove()
    assert triple(x).grad_fn.name() == "MmBackward0"


def test_hooks_replace_gradients_of_inputs_and_pre_hooks_those_of_outputs(torch, triple):
    seen = []
    triple.register_full_backward_hook(lambda m, i, o: (i[0] * 10,))
    triple.register_full_backward_hook(lambda m, i, o: seen.append((listed(i), listed(o))))
    triple.register_full_backward_pre_hook(lambda m, o: (o[0] * 2,))
    triple.register_full_backward_pre_hook(lambda m, o: seen.append(listed(o)))
    x = torch.ones(1, 2, requires_grad=True)
    triple(x).sum().backward()
    assert seen == [[[[2.0, 2.0]]], ([[[60.0, 60.0]]], [[[2.0, 2.0]]])]
    assert x.grad.tolist() == [[60.0, 60.0]] and triple.weight.grad.tolist() == [[2.0, 2.0]] * 2


def test_several_inputs_and_outputs_keep_their_places(torch, nn):
    module, seen = scale(nn), []
    module.register_full_backward_hook(lambda m, i, o: seen.append((listed(i), listed(o))))
    x, y = torch.ones(1, requires_grad=True), torch.ones(1)
    module(x, y, "note")[0].sum().backward()
    y.requires_grad_()
    module(x, y, "note")[1].sum().backward()
    assert seen == [([[2.0], [0.0], None], [[1.0], None]), ([[0.0], [3.0], None], [None, [1.0]])]


@pytest.mark.parametrize("pre", [False, True], ids=["hook", "pre-hook"])
def test_hooks_must_return_as_many_gradients_as_there_are(torch, nn, pre):
    words = (
        r"Backward pre hook returned an invalid number of grad_output, got {}, but expected 1"
        if pre
        else r"Backward hook returned an invalid number of grad_input, got {}, but expected 1"
    )
    for answer in ((), (torch.ones(2), torch.ones(2))):
        module = scale(nn)
        register = module.register_full_backward_pre_hook if pre else module.register_full_backward_hook
        register(lambda *args, answer=answer: answer)
        with pytest.raises(RuntimeError, match=words.format(len(answer))):
            module(torch.ones(2, requires_grad=True)).sum().backward()
    module = scale(nn)
    register = module.register_full_backward_pre_hook if pre else module.register_full_backward_hook
    register(lambda *args: (torch.ones(3),))
    with pytest.raises(RuntimeError, match="has changed the size of value"):
        module(torch.ones(2, requires_grad=True)).sum().backward()


def test_a_hook_may_return_nothing_for_a_gradient(torch, nn):
    module = scale(nn)
    module.register_full_backward_hook(lambda m, i, o: (None,))
    x = torch.ones(2, requires_grad=True)
    module(x).sum().backward()
    assert x.grad is None


def test_without_gradients_of_inputs_hooks_run_with_a_warning_and_may_replace_nothing(torch, triple):
    seen = []
    triple.register_full_backward_hook(lambda m, i, o: seen.append((i, listed(o))))
    with pytest.warns(UserWarning, match="Full backward hook is firing when gradients are computed with respect to mo"):
        triple(torch.ones(1, 2)).sum().backward()
    assert seen == [((None,), [[[1.0, 1.0]]])]
    triple.register_full_backward_hook(lambda m, i, o: (torch.ones(1, 2),))
    with (
        pytest.warns(UserWarning),
        pytest.raises(RuntimeError, match="Modules where no input requires gradient should always return None"),
    ):
        triple(torch.ones(1, 2)).sum().backward()


@pytest.mark.parametrize("wrap", [lambda t: {"a": t}, lambda t: [t], lambda t: None], ids=["dict", "list", "None"])
def test_outputs_that_are_no_tensors_warn_that_no_hook_runs(torch, nn, wrap):
    class Wraps(nn.Module):
        def forward(self, x):
            return wrap(x * 2)

    module, seen = Wraps(), []
    module.register_full_backward_hook(lambda m, i, o: seen.append(1))
    with pytest.warns(UserWarning, match="For backward hooks to be called, module output should be a Tensor or a tupl"):
        module(torch.ones(1, requires_grad=True))
    assert seen == []


def test_the_order_of_hooks_and_prepend(torch, nn):
    module, seen = scale(nn), []

    def note(name):
        return lambda *args: seen.append(name)

    for register, name in (
        (module.register_forward_pre_hook, "forward pre"),
        (module.register_forward_hook, "forward"),
        (module.register_full_backward_pre_hook, "backward pre"),
        (module.register_full_backward_hook, "backward"),
    ):
        register(note(f"{name} 2"))
        register(note(f"{name} 1"), prepend=True)
    module(torch.ones(1, requires_grad=True)).sum().backward()
    assert seen == [
        "forward pre 1",
        "forward pre 2",
        "forward 1",
        "forward 2",
        "backward pre 1",
        "backward pre 2",
        "backward 1",
        "backward 2",
    ]


def test_hooks_of_all_modules_run_before_those_of_one(torch, nn):
    everywhere, seen = nn.modules.module, []
    module = scale(nn)
    handles = [
        everywhere.register_module_full_backward_hook(lambda m, i, o: seen.append("all")),
        everywhere.register_module_full_backward_pre_hook(lambda m, o: seen.append("all, pre")),
    ]
    module.register_full_backward_hook(lambda m, i, o: seen.append("one"))
    x = torch.ones(1, requires_grad=True)
    module(x).sum().backward()
    for handle in handles:
        handle.remove()
    module(x).sum().backward()
    assert seen == ["all, pre", "all", "one", "one"]


def test_a_module_that_writes_to_its_input_is_refused(torch, nn):
    module = nn.ReLU(inplace=True)
    module.register_full_backward_hook(lambda m, i, o: None)
    with pytest.raises(RuntimeError, match="Output 0 of BackwardHookFunction is a view and is being modified inplace"):
        module(torch.ones(2, requires_grad=True) * 1)


def test_every_call_of_a_module_runs_its_hooks_in_each_pass(torch, triple):
    seen = []
    triple.register_full_backward_hook(lambda m, i, o: seen.append(listed(o)[0][0][0]))
    x = torch.ones(1, 2, requires_grad=True)
    y = triple(triple(x))
    y.sum().backward(retain_graph=True)
    assert seen == [1.0, 3.0]
    y.sum().backward()
    assert seen == [1.0, 3.0] * 2


def test_under_grad_hooks_run_only_if_their_gradients_are_computed(torch, triple):
    seen = []
    triple.register_full_backward_hook(lambda m, i, o: seen.append(i[0] is not None))
    x = torch.ones(1, 2, requires_grad=True)
    y = triple(x).sum()
    torch.autograd.grad(y, triple.weight, retain_graph=True)
    assert seen == []
    torch.autograd.grad(y, x)
    assert seen == [True]
    with torch.no_grad():
        triple(x)
    assert seen == [True]


def test_double_backward_through_a_module_with_hooks(torch, nn):
    module, seen = nn.Tanh(), []
    module.register_full_backward_hook(lambda m, i, o: seen.append(i[0].requires_grad))
    x = torch.ones(1, requires_grad=True)
    (first,) = torch.autograd.grad(module(x).sum(), x, create_graph=True)
    first.sum().backward()
    assert seen[0] is True
    assert x.grad.item() == pytest.approx(-2 * torch.tanh(x).item() / torch.cosh(x).item() ** 2)


def test_a_module_hook_that_raises(torch, nn):
    module = nn.Tanh()
    handle = module.register_full_backward_hook(lambda m, i, o: 1 / 0)
    x = torch.ones(1, requires_grad=True)
    y = module(x)
    with pytest.raises(ZeroDivisionError):
        y.sum().backward(retain_graph=True)
    assert x.grad is None
    handle.remove()
    with pytest.raises(ZeroDivisionError):  # the graph was made with the hook
        y.sum().backward()
    module(x).sum().backward()
    assert x.grad is not None


def test_hooks_of_the_old_kind_see_the_last_node(torch, nn):
    module, seen = nn.Linear(2, 2), []
    module.register_backward_hook(lambda m, i, o: seen.append(([list(g.shape) for g in i], [list(g.shape) for g in o])))
    with pytest.raises(RuntimeError, match="Cannot use both regular backward hooks and full backward hooks on a singl"):
        module.register_full_backward_hook(print)
    with pytest.warns(FutureWarning, match="Using a non-full backward hook when the forward contains multiple autogra"):
        y = module(torch.ones(1, 2, requires_grad=True))
    y.sum().backward()
    assert seen == [([[2], [1, 2], [2, 2]], [[1, 2]])]
    full = nn.Linear(2, 2)
    full.register_full_backward_hook(lambda *args: None)
    with pytest.raises(RuntimeError, match="Cannot use both regular backward hooks and full backward hooks"):
        full.register_backward_hook(print)


def test_hooks_that_always_run_see_the_arguments_as_pre_hooks_left_them(torch):
    class Fails(torch.nn.Module):
        def forward(self, x):
            raise ValueError("no")

    module, seen = Fails(), []
    module.register_forward_pre_hook(lambda m, args: (args[0] * 2,))
    module.register_forward_hook(lambda m, args, out: seen.append((args[0].item(), out)), always_call=True)
    with pytest.raises(ValueError, match="no"):
        module(torch.tensor(3.0))
    module.register_forward_pre_hook(lambda m, args: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        module(torch.tensor(4.0))
    assert seen == [(6.0, None), (8.0, None)]


@pytest.mark.since("2.15")
def test_only_backward_hooks_warn_where_no_input_requires_a_gradient(torch):
    module, seen = torch.nn.Linear(2, 1), []
    module.register_full_backward_pre_hook(lambda m, grads: seen.append(grads[0].item()))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        module(torch.ones(2)).sum().backward()
    module.register_full_backward_hook(lambda m, grads, slopes: None)
    with pytest.warns(UserWarning, match="Full backward hook is firing when gradients are computed") as told:
        module(torch.ones(2)).sum().backward()
    assert seen == [1.0, 1.0] and told[0].filename == __file__
