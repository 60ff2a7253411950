"""Custom functions: forward and backward, what ctx keeps and knows, and what is said of every misuse."""

import collections
import copy
import pickle

import pytest


def leaf(torch, *values):
    return torch.tensor(list(values), requires_grad=True)


def make(torch, forward=lambda ctx, x: x * 2, backward=lambda ctx, g: g * 2, **methods):
    """The `apply` of a Function class of these methods."""
    methods = {"forward": forward, "backward": backward} | methods
    members = {name: staticmethod(method) for name, method in methods.items() if method is not None}
    return type("Made", (torch.autograd.Function,), members).apply


def test_a_function_and_its_gradient(torch):
    a = leaf(torch, 1.0, 2.0)
    y = make(torch)(a)
    assert y.tolist() == [2.0, 4.0] and y.grad_fn.name() == type(y.grad_fn).__name__ == "MadeBackward"
    assert isinstance(y.grad_fn, torch.autograd.function.FunctionCtx)
    assert isinstance(y.grad_fn, torch.autograd.graph.Node)
    assert "grad_fn=<MadeBackward>" in repr(y)
    y.sum().backward()
    assert a.grad.tolist() == [2.0, 2.0]


def test_vjp_is_another_name_for_backward(torch):
    a = leaf(torch, 1.0)
    make(torch, backward=None, vjp=lambda ctx, g: g * 5)(a).sum().backward()
    assert a.grad.tolist() == [5.0]
    both = make(torch, vjp=lambda ctx, g: g)
    with pytest.raises(RuntimeError, match="Implementing both 'backward' and 'vjp' for a custom Function is not allow"):
        both(a).sum().backward()


def test_methods_may_be_inherited_and_class_methods(torch):
    class Base(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @classmethod
        def backward(cls, ctx, g):
            return g * 2

    class Derived(Base):
        @classmethod
        def backward(cls, ctx, g):
            return super().backward(ctx, g) * 10

    a = leaf(torch, 1.0)
    y = Derived.apply(a)
    y.sum().backward()
    assert a.grad.tolist() == [20.0] and y.grad_fn.name() == "DerivedBackward"


def test_what_is_not_implemented_is_named(torch):
    a = leaf(torch, 1.0)
    with pytest.raises(NotImplementedError, match="You must implement the forward function for custom autogr"):
        make(torch, forward=None)(a)
    y = make(torch, backward=None)(a)
    with pytest.raises(NotImplementedError, match="You must implement either the backward or vjp method"):
        y.sum().backward()
    function = torch.autograd.Function
    for method, words in (
        (function.jvp, "must implement the jvp function"),
        (function.vmap, "override the vmap"),
        (function.setup_context, "setup_context is not implemented"),
    ):
        with pytest.raises(NotImplementedError, match=words):
            method(None, None, None)


def test_functions_are_not_instantiated(torch):
    function = type("Old", (torch.autograd.Function,), {})
    with pytest.warns(DeprecationWarning, match="should not be instantiated"):
        old = function()
    with pytest.raises(RuntimeError, match="Legacy autograd function with non-static forward method is deprecated"):
        old(torch.ones(1))


def test_arguments_of_apply(torch):
    a = leaf(torch, 1.0)
    twice = make(torch)
    assert twice(x=a).tolist() == [2.0]
    for args, kwargs in (((), {}), ((a, a), {}), ((a,), {"k": 1})):
        with pytest.raises(TypeError, match="argument"):
            twice(*args, **kwargs)


def test_an_exception_in_forward_leaves_the_grad_mode(torch):
    with pytest.raises(ZeroDivisionError):
        make(torch, lambda ctx, x: 1 / 0)(leaf(torch, 1.0))
    assert torch.is_grad_enabled()


def test_nothing_is_recorded_inside_forward_and_backward(torch):
    a, seen = leaf(torch, 1.0), []

    def forward(ctx, x):
        seen.append((torch.is_grad_enabled(), x is a, x.requires_grad, (x * 2).requires_grad))
        return x * 2

    def backward(ctx, g):
        seen.append((torch.is_grad_enabled(), g.requires_grad))
        return g * a

    function = make(torch, forward, backward)
    function(a).sum().backward()
    (found,) = torch.autograd.grad(function(a).sum(), a, create_graph=True)
    assert seen == [(False, True, True, False), (False, False), (False, True, True, False), (True, False)]
    assert found.requires_grad


def test_history_made_inside_forward_is_replaced(torch):
    def forward(ctx, x):
        with torch.enable_grad():
            return x * 3

    a = leaf(torch, 1.0)
    y = make(torch, forward, lambda ctx, g: g * 7)(a)
    assert y.grad_fn.name() == "MadeBackward"
    y.sum().backward()
    assert a.grad.tolist() == [7.0]


def test_functions_inside_functions(torch):
    inner = make(torch)
    outer = make(torch, lambda ctx, x: inner(x), lambda ctx, g: inner(g))
    a = leaf(torch, 1.0)
    (found,) = torch.autograd.grad(outer(a).sum(), a, create_graph=True)
    assert found.tolist() == [2.0] and found.grad_fn is None  # the gradient that came in was a constant


# --- ctx ------------------------------------------------------------------------------------------------------------


def test_saved_tensors_come_back_with_none_in_its_place_and_only_the_last_call_counts(torch):
    a, seen = leaf(torch, 1.0), []

    def forward(ctx, x):
        ctx.save_for_backward(x * 5)
        ctx.save_for_backward(x, None, x * 3)
        return x * 2

    def backward(ctx, g):
        x, nothing, triple = ctx.saved_tensors
        seen.append((x is a, nothing, triple.tolist()))
        return g

    y = make(torch, forward, backward)(a)
    assert y.grad_fn.saved_tensors[0] is a
    y.sum().backward(retain_graph=True)
    y.sum().backward()
    assert seen == [(True, None, [3.0])] * 2
    for use in (lambda: y.sum().backward(), lambda: y.grad_fn.saved_tensors):
        with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
            use()


def test_without_saved_tensors_a_graph_can_be_used_again(torch):
    a = leaf(torch, 1.0)
    y = make(torch)(a)
    assert y.grad_fn.saved_tensors == ()
    y.sum().backward()
    y.sum().backward()
    assert a.grad.tolist() == [4.0]


@pytest.mark.parametrize("value", [3, "x", [1], (2,)])
def test_only_tensors_can_be_saved(torch, value):
    def forward(ctx, x):
        ctx.save_for_backward(x, value)
        return x * 2

    words = f"save_for_backward can only save variables, but argument 1 is of type {type(value).__name__}"
    with pytest.raises(TypeError, match=words):
        make(torch, forward)(leaf(torch, 1.0))


def test_only_tensors_can_be_saved_for_forward(torch):
    def forward(ctx, x):
        ctx.save_for_forward(3)
        return x * 2

    with pytest.raises(AssertionError, match="save_for_forward expects all arguments to be tensors"):
        make(torch, forward)(leaf(torch, 1.0))


def test_saved_tensors_know_their_versions(torch):
    def forward(ctx, x):
        y = x * 2
        ctx.save_for_backward(x, y)
        return y

    function = make(torch, forward, lambda ctx, g: g * len(ctx.saved_tensors))
    a = leaf(torch, 1.0)
    b = a * 1
    y = function(b)
    b.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation.*output 0 of Add, is at version 1"):
        y.sum().backward()
    y = function(a)
    z = y * 1
    y.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation.*which is output 0 of Made, is at vers"):
        z.sum().backward()


def test_a_saved_output_has_the_node_as_its_history(torch):
    def forward(ctx, x):
        y = x.exp()
        ctx.save_for_backward(y)
        return y

    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return g * y

    a = leaf(torch, 1.0)
    y = make(torch, forward, backward)(a)
    assert y.grad_fn.saved_tensors[0].grad_fn is y.grad_fn and y.grad_fn.saved_tensors[0] is not y
    (first,) = torch.autograd.grad(y.sum(), a, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), a)
    assert first.item() == second.item() == y.item()


def test_saved_variables_is_the_old_name(torch):
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2

    y = make(torch, forward)(leaf(torch, 1.0))
    with pytest.warns(DeprecationWarning, match="'saved_variables' is deprecated; use 'saved_tensors'"):
        assert y.grad_fn.saved_variables[0].tolist() == [1.0]


def test_ctx_takes_any_attribute_and_is_the_node(torch):
    seen = []

    def forward(ctx, x, n):
        ctx.n, ctx.table = n, {"a": 1}
        seen.append(ctx)
        return x * n

    y = make(torch, forward, lambda ctx, g: (g * ctx.n, None))(leaf(torch, 1.0), 3)
    assert y.grad_fn is seen[0] and (y.grad_fn.n, y.grad_fn.table) == (3, {"a": 1})
    y.sum().backward()
    assert y.grad_fn.n == 3
    with pytest.raises(AttributeError, match="has no attribute 'other'"):
        y.grad_fn.other  # noqa: B018


def test_needs_input_grad_has_an_entry_per_argument(torch):
    a, seen = leaf(torch, 1.0, 2.0), []

    def forward(ctx, x, n, y, z=None):
        seen.append(ctx.needs_input_grad)
        return x * 2

    def backward(ctx, g):
        seen.append(ctx.needs_input_grad)
        return g, None, None, None

    function, other = make(torch, forward, backward), torch.ones(2)
    function(a, 3, other, None).sum().backward()
    function(other, 3, a, [a])
    function(other, 3, other)
    assert seen == [(True, False, False, False)] * 2 + [(False, False, True, False), (False, False, False)]


def test_needs_input_grad_does_not_depend_on_which_gradients_are_asked_for(torch):
    a, b, seen = leaf(torch, 1.0), leaf(torch, 1.0), []

    def backward(ctx, g):
        seen.append(ctx.needs_input_grad)
        return g, g

    y = make(torch, lambda ctx, x, y: x * y, backward)(a, b).sum()
    torch.autograd.grad(y, a, retain_graph=True)
    y.backward(inputs=[b])
    assert seen == [(True, True)] * 2 and a.grad is None


def test_without_gradients_nothing_is_recorded(torch):
    kept = []

    def forward(ctx, x):
        kept.append(ctx)
        ctx.save_for_backward(x)
        return x * 2

    function = make(torch, forward)
    assert not function(torch.ones(1)).requires_grad and function(torch.ones(1)).grad_fn is None
    with torch.no_grad():
        assert not function(leaf(torch, 1.0)).requires_grad
    assert [ctx.saved_tensors for ctx in kept] == [()] * 3
    assert kept[0].next_functions == () and kept[0].needs_input_grad == (False,)


def test_set_materialize_grads(torch):
    a, seen = leaf(torch, 1.0), []

    def function(value):
        def forward(ctx, x):
            ctx.set_materialize_grads(value)
            return x * 2, x * 3

        return make(
            torch, forward, lambda ctx, g, h: seen.append([t if t is None else t.tolist() for t in (g, h)]) or g
        )

    function(True)(a)[0].sum().backward()
    function(False)(a)[0].sum().backward()
    assert seen == [[[1.0], [0.0]], [[1.0], None]]
    with pytest.raises(TypeError, match="set_materialize_grads received an invalid combination of arguments"):
        function(None)(a)


# --- setup_context --------------------------------------------------------------------------------------------------


def test_setup_context_sees_all_inputs_with_their_defaults_and_the_output(torch):
    seen = []

    def setup_context(ctx, inputs, output):
        seen.append((inputs[1:], output.tolist(), torch.is_grad_enabled()))
        ctx.n = inputs[1]
        ctx.save_for_backward(inputs[0], output)

    function = make(torch, lambda x, n=2: x * n, lambda ctx, g: (g * ctx.n, None), setup_context=setup_context)
    a = leaf(torch, 1.0)
    function(a).sum().backward()
    y = function(a, n=7)
    y.sum().backward(retain_graph=True)
    assert seen == [((2,), [2.0], False), ((7,), [7.0], False)] and a.grad.tolist() == [9.0]
    assert y.grad_fn.saved_tensors[0] is a and y.grad_fn.saved_tensors[1].grad_fn is y.grad_fn
    for args in ((), (a, 1, 2)):
        with pytest.raises(TypeError, match="argument"):
            function(*args)


def test_with_setup_context_forward_gets_no_ctx(torch):
    function = make(torch, lambda ctx, x: x, setup_context=lambda ctx, inputs, output: None)
    with pytest.raises(TypeError, match="argument"):
        function(leaf(torch, 1.0))


def test_setup_context_may_mark(torch):
    function = make(torch, lambda x: x * 2, setup_context=lambda ctx, i, o: ctx.mark_non_differentiable(o))
    assert not function(leaf(torch, 1.0)).requires_grad


# --- what backward returns ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda torch, g: g, r"function MadeBackward returned an incorrect number of gradients \(expected 3, got 1\)"),
        (lambda torch, g: (g, g), r"an incorrect number of gradients \(expected 3, got 2\)"),
        (lambda torch, g: (), r"an incorrect number of gradients \(expected 3, got 0\)"),
        (lambda torch, g: None, r"an incorrect number of gradients \(expected 3, got 1\)"),
        (lambda torch, g: [g, None, g], r"an incorrect number of gradients \(expected 3, got 1\)"),
        (lambda torch, g: (g, None, g, g), r"an incorrect number of gradients \(expected 3, got 4\)"),
        (
            lambda torch, g: (g, g, g),
            "returned a gradient different than None at position 2, but the corresponding forwa",
        ),
        (lambda torch, g: (g, 3, g), "returned a gradient different than None at position 2"),
        (lambda torch, g: (3, None, g), r"expected Variable or None \(got int\)"),
        (
            lambda torch, g: (g, None, torch.ones(5)),
            r"Function MadeBackward returned an invalid gradient at index 1 - got "
            r"\[5\] but expected shape compatible with \[2\]",
        ),
        (lambda torch, g: (g, None, g.to(torch.complex64)), "input_is_complex == grad_is_complex"),
    ],
)
def test_backward_must_return_a_gradient_for_each_argument(torch, answer, words):
    a, b = leaf(torch, 1.0, 2.0), leaf(torch, 3.0, 4.0)
    function = make(torch, lambda ctx, x, n, y: x + y, lambda ctx, g: answer(torch, g))
    with pytest.raises(RuntimeError, match=words):
        function(a, 3, b).sum().backward()
    assert a.grad is None and b.grad is None


def test_what_backward_may_return_besides(torch):
    a, b, constant = leaf(torch, 1.0, 2.0), leaf(torch, 3.0, 4.0), torch.ones(2)
    for answer, y, expected in (
        (lambda g: (g, None, g, None, None), b, ([1.0, 1.0], [1.0, 1.0])),  # more, if all are None
        (lambda g: (g, None, None), b, ([1.0, 1.0], None)),  # undefined gradients
        (lambda g: (g, None, torch.ones(5)), constant, ([1.0, 1.0], None)),  # nobody looks at it
        (lambda g: (g.double(), None, g.half()), b, ([1.0, 1.0], [1.0, 1.0])),
    ):
        a.grad = b.grad = None
        make(torch, lambda ctx, x, n, y: x + y, lambda ctx, g, answer=answer: answer(g))(a, 3, y).sum().backward()
        assert tuple(t.grad if t.grad is None else t.grad.tolist() for t in (a, b)) == expected


# --- double backward ------------------------------------------------------------------------------------------------


def test_backward_is_differentiated_if_it_uses_differentiable_operators(torch):
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * 3 * x**2

    a = torch.tensor([2.0], requires_grad=True)
    (first,) = torch.autograd.grad(make(torch, forward, backward)(a), a, create_graph=True)
    (second,) = torch.autograd.grad(first, a, create_graph=True)
    (third,) = torch.autograd.grad(second, a)
    assert (first.item(), second.item(), third.item()) == (12.0, 12.0, 6.0)


def test_a_saved_intermediate_is_a_constant_for_double_backward(torch):
    def forward(ctx, x):
        square = x * x
        ctx.save_for_backward(square)
        return square * x

    function = make(torch, forward, lambda ctx, g: g * 3 * ctx.saved_tensors[0])
    a = leaf(torch, 2.0)
    (first,) = torch.autograd.grad(function(a).sum(), a, create_graph=True)
    assert not first.requires_grad


def test_once_differentiable(torch):
    once, seen = torch.autograd.function.once_differentiable, []

    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @once
    def backward(ctx, g):
        seen.append(torch.is_grad_enabled())
        return g * 2 * ctx.saved_tensors[0]

    function, a = make(torch, forward, backward), leaf(torch, 3.0)
    function(a).sum().backward()
    assert a.grad.tolist() == [6.0]
    (first,) = torch.autograd.grad(function(a).sum(), a, create_graph=True)
    assert not first.requires_grad and seen == [False, False]  # nothing that came in required grad
    (first,) = torch.autograd.grad(function(a).pow(2).sum(), a, create_graph=True)
    assert first.requires_grad
    with pytest.raises(RuntimeError, match="trying to differentiate twice a function that was marked with @once"):
        first.sum().backward()
    assert backward.__name__ == "backward"


# --- copies and hooks -----------------------------------------------------------------------------------------------


def test_the_node_of_a_function_cannot_be_pickled_or_copied(torch):
    y = make(torch)(leaf(torch, 1.0))
    for use in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="cannot pickle 'MadeBackward' object"):
            use(y.grad_fn)
    with pytest.raises(RuntimeError, match="Only Tensors created explicitly by the user"):
        copy.deepcopy(y)


def test_hooks_of_the_node_see_the_gradients_of_tensor_arguments_only(torch):
    seen = []
    function = make(torch, lambda ctx, x, s, y: x * 2 + y, lambda ctx, g: (g * 2, None, g))
    y = function(leaf(torch, 1.0), "s", torch.ones(1))
    y.grad_fn.register_hook(lambda i, o: seen.append(([g.tolist() for g in i], [g.tolist() for g in o])))
    y.sum().backward()
    assert seen == [([[2.0], [1.0]], [[1.0]])]
    assert [node is None for node, _ in y.grad_fn.next_functions] == [False, True]


# --- what forward returns -------------------------------------------------------------------------------------------


def test_results_that_are_no_tensors_pass_through(torch):
    a, seen = leaf(torch, 1.0), []
    function = make(torch, lambda ctx, x: (x * 2, None, "s", [x * 3]), lambda ctx, *g: seen.append(g[1:]) or g[0] * 2)
    first, *rest = function(a)
    assert rest[:2] == [None, "s"] and not rest[2][0].requires_grad
    first.sum().backward()
    assert a.grad.tolist() == [2.0] and seen == [(None, None, None)]
    pair = collections.namedtuple("pair", "a b")
    for value in (None, 3, "s", [1], {"a": 1}, (), (1,)):
        assert make(torch, lambda ctx, x, value=value: value)(a) == value
    assert type(make(torch, lambda ctx, x: pair(x * 1, x * 2))(a)) is tuple


def test_tensors_inside_lists_are_not_seen(torch):
    a = leaf(torch, 1.0)
    assert not make(torch, lambda ctx, x: x[0] * 2)([a]).requires_grad
    assert not make(torch, lambda ctx, n: torch.ones(n))(3).requires_grad


def test_outputs_that_are_not_differentiable(torch):
    a, seen = leaf(torch, 1.0), []

    def forward(ctx, x):
        positive = x > 0
        marked = x * 3
        ctx.mark_non_differentiable(marked)
        return x * 2, positive, x.long(), marked

    def backward(ctx, *grads):
        seen.append([(g.dtype, g.tolist()) for g in grads])
        return grads[0]

    results = make(torch, forward, backward)(a)
    assert [t.requires_grad for t in results] == [True, False, False, False]
    assert [t.is_leaf for t in results] == [False, True, True, True]
    results[0].sum().backward()
    assert seen == [[(torch.float32, [1.0]), (torch.bool, [False]), (torch.int64, [0]), (torch.float32, [0.0])]]


@pytest.mark.parametrize("value", [3, None, "x"])
def test_only_tensors_can_be_marked(torch, value):
    a = leaf(torch, 1.0)
    with pytest.raises(RuntimeError, match="mark_non_differentiable only accepts variable arguments, but got"):
        make(torch, lambda ctx, x: ctx.mark_non_differentiable(value) or x * 2)(a)
    with pytest.raises(RuntimeError, match="mark_dirty can only accept variables, but argument"):
        make(torch, lambda ctx, x: ctx.mark_dirty(value) or x * 2)(a)


def test_the_same_result_twice(torch):
    a, seen = leaf(torch, 1.0), []

    def forward(ctx, x):
        y = x * 2
        return y, y

    y, z = make(torch, forward, lambda ctx, g, h: seen.append((g.tolist(), h.tolist())) or g + h)(a)
    assert y is z
    (y + z * 2).sum().backward()
    assert a.grad.tolist() == [3.0]


def test_a_leaf_from_outside_becomes_a_result(torch):
    a, other = leaf(torch, 1.0), leaf(torch, 5.0)
    y = make(torch, lambda ctx, x: other, lambda ctx, g: g * 5)(a)
    assert y is other and other.grad_fn.name() == "MadeBackward"
    y.sum().backward()
    assert a.grad.tolist() == [5.0]


def test_names_of_the_module(torch):
    module = torch.autograd.function
    assert module.Function is torch.autograd.Function
    assert type(module.Function) is module.FunctionMeta
    y = make(torch)(leaf(torch, 1.0))
    assert isinstance(y.grad_fn, module.BackwardCFunction)
    assert issubclass(module.InplaceFunction, module.Function)
