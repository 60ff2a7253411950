"""Custom functions: the options that a class sets, arguments by name, and attributes of ctx that are set by hand."""

import weakref

import pytest


def leaf(torch, *values):
    return torch.tensor(list(values), requires_grad=True)


def make(torch, forward=lambda ctx, x: x * 2, backward=lambda ctx, g: g * 2, **members):
    """A Function class of these methods and attributes."""
    methods = {"forward": forward, "backward": backward}
    return type("Made", (torch.autograd.Function,), {n: staticmethod(m) for n, m in methods.items()} | members)


# --- gradients in one list ------------------------------------------------------------------------------------------


def test_a_boxed_backward_gets_all_gradients_in_one_list_of_its_own(torch):
    seen = []

    def backward(ctx, grads):
        seen.append((type(grads), [None if g is None else g.tolist() for g in grads]))
        first = grads.pop(0)
        grads.clear()
        return first * 2, None

    function = make(torch, lambda ctx, x, k: (x * 2, x * 3, k), backward, boxed_grads_call=True)
    a = leaf(torch, 1.0)
    y = function.apply(a, 5)
    told = []
    y[0].grad_fn.register_hook(lambda inputs, outputs: told.append(len(outputs)))
    y[0].sum().backward()
    assert seen == [(list, [[1.0], [0.0], None])] and a.grad.tolist() == [2.0]
    assert told == [3]


def test_a_boxed_backward_gets_none_where_gradients_are_not_materialized(torch):
    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        return x * 2, x * 3

    seen = []
    function = make(torch, forward, lambda ctx, grads: seen.append(grads[1]) or grads[0], boxed_grads_call=True)
    function.apply(leaf(torch, 1.0))[0].sum().backward()
    assert seen == [None]


# --- saved tensors that are given away ------------------------------------------------------------------------------


def test_saved_tensors_may_be_given_away_when_they_are_read(torch):
    alive = []

    def forward(ctx, x):
        between = x * 3
        alive.append(weakref.ref(between))
        ctx.save_for_backward(between)
        return x * 2

    def backward(ctx, g):
        (between,) = ctx.saved_tensors
        assert alive[0]() is between and ctx._raw_saved_tensors == ()
        del between
        assert alive[0]() is None
        with pytest.raises(RuntimeError, match="saved_tensors can only be accessed once when clear_saved_tensors_on"):
            ctx.saved_tensors  # noqa: B018
        return g

    y = make(torch, forward, backward, clear_saved_tensors_on_access=True).apply(leaf(torch, 1.0))
    y.sum().backward()
    with pytest.raises(RuntimeError, match="can only be accessed once"):
        y.grad_fn.saved_tensors  # noqa: B018
    with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
        y.grad_fn._raw_saved_tensors  # noqa: B018


def test_what_is_given_away_is_missed_by_a_second_pass(torch):
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2

    function = make(torch, forward, lambda ctx, g: g * ctx.saved_tensors[0], clear_saved_tensors_on_access=True)
    y = function.apply(leaf(torch, 1.0)).sum()
    y.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="can only be accessed once"):
        y.backward()


def test_a_node_that_was_freed_says_so_also_if_it_kept_nothing(torch):
    y = make(torch).apply(leaf(torch, 1.0))
    assert y.grad_fn.saved_tensors == ()
    y.sum().backward()
    for name in ("saved_tensors", "_raw_saved_tensors"):
        with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
            getattr(y.grad_fn, name)
    y.sum().backward()  # it needs nothing, so that it still runs


# --- zeros for outputs that have no gradient ------------------------------------------------------------------------


@pytest.mark.parametrize("marks", [True, False])
def test_outputs_that_are_not_differentiable_may_be_left_without_zeros(torch, marks):
    def forward(ctx, x):
        ctx._materialize_non_diff_grads = False
        place = x.argmax()
        if marks:
            ctx.mark_non_differentiable(place)
        return x * 2, x * 3, place

    seen = []
    make(torch, forward, lambda ctx, *grads: seen.extend(grads) or grads[0]).apply(leaf(torch, 1.0))[0].sum().backward()
    assert seen[1].tolist() == [0.0] and seen[2] is None


# --- arguments by name ----------------------------------------------------------------------------------------------


def test_arguments_by_name_stand_where_forward_has_them(torch):
    seen = []

    def forward(ctx, x, a=1, b=2):
        seen.append((a, b, ctx.needs_input_grad))
        return x * a * b

    function = make(torch, forward, lambda ctx, g: (g, None, None))
    x = leaf(torch, 1.0)
    function.apply(x, a=3).sum().backward()
    function.apply(x, b=5, a=3).sum().backward()
    function.apply(b=5, a=3, x=x).sum().backward()
    assert seen == [(3, 2, (True, False)), (3, 5, (True, False, False)), (3, 5, (True, False, False))]


@pytest.mark.parametrize(
    ("args", "kwargs", "words"),
    [
        ((), {"b": 5}, "missing required argument: 'x'"),
        ((1,), {"b": 5}, "missing required argument: 'a'"),
        ((1, 2), {"a": 5}, "got multiple values for argument 'a'"),
        ((1,), {"c": 5}, "got an unexpected keyword argument 'c'"),
        ((1,), {"ctx": 5}, "got an unexpected keyword argument 'ctx'"),
        ((1,), {"only": 5}, "got an unexpected keyword argument 'only'"),
    ],
)
def test_names_that_have_no_place_are_refused(torch, args, kwargs, words):
    function = make(torch, lambda ctx, x, a=1, b=2, *, only=1: x * only)
    with pytest.raises(TypeError, match=words):
        function.apply(*args, **kwargs)


def test_with_setup_context_arguments_by_name_only_are_refused(torch):
    function = make(torch, lambda x, *, k=3: x * k, setup_context=staticmethod(lambda ctx, inputs, output: None))
    for kwargs in ({}, {"k": 2}):
        with pytest.raises(TypeError, match="unexpected keyword argument 'k'"):
            function.apply(leaf(torch, 1.0), **kwargs)


# --- attributes set by hand -----------------------------------------------------------------------------------------


def test_what_the_methods_of_ctx_set_is_none_until_then(torch):
    seen = []

    def forward(ctx, x):
        seen.extend([ctx.to_save, ctx.saved_for_forward, ctx.dirty_tensors, ctx.non_differentiable])
        ctx.to_save = (x, None)
        return x * 2

    y = make(torch, forward).apply(leaf(torch, 1.0))
    assert seen == [None] * 4 and y.grad_fn.to_save is None and y.grad_fn.saved_tensors[1] is None


@pytest.mark.parametrize("name", ["to_save", "dirty_tensors", "non_differentiable"])
@pytest.mark.parametrize("value", [3, [], "ab"])
def test_those_attributes_have_to_be_tuples(torch, name, value):
    def forward(ctx, x):
        setattr(ctx, name, value)
        return x * 2

    with pytest.raises(RuntimeError, match=f"{name} attribute is expected to be a tuple but is "):
        make(torch, forward).apply(leaf(torch, 1.0))


@pytest.mark.parametrize("value", [0, 1, None, "yes"])
def test_whether_zeros_are_made_is_said_by_a_bool(torch, value):
    with pytest.raises(TypeError, match="set_materialize_grads received an invalid combination of arguments"):
        make(torch, lambda ctx, x: ctx.set_materialize_grads(value)).apply(leaf(torch, 1.0))


def test_marking_shared_memory_is_not_needed(torch):
    ctx = torch.autograd.function.FunctionCtx()
    with pytest.warns(FutureWarning, match="`mark_shared_storage` is deprecated"):
        ctx.mark_shared_storage((1, 2))


def test_a_node_class_knows_its_function(torch):
    function = make(torch)
    assert function._backward_cls._forward_cls is function
    assert function.apply(leaf(torch, 1.0)).grad_fn._forward_cls is function


def test_an_input_that_is_returned_as_it_is_cannot_be_saved_by_setup_context(torch):
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output)

    function = make(torch, lambda x: x, setup_context=staticmethod(setup_context))
    for x in (leaf(torch, 1.0), torch.ones(1)):
        with pytest.raises(RuntimeError, match="An input that has been returned as-is as output is being saved"):
            function.apply(x)
    saves_itself = make(torch, lambda ctx, x: ctx.save_for_backward(x) or x, lambda ctx, g: g * ctx.saved_tensors[0])
    x = leaf(torch, 3.0)
    saves_itself.apply(x).sum().backward()
    assert x.grad.tolist() == [3.0]


# --- the dtype of gradients, and gradients that others have computed ------------------------------------------------


def dtypes_in_backward(torch, *declared, outputs=1, forward=None):
    seen = []

    def multiples(ctx, x):
        ctx.set_output_grad_dtype(*declared)
        return tuple([x * (i + 1) for i in range(outputs)])

    def backward(ctx, *grads):
        seen.append([None if g is None else g.dtype for g in grads])
        return grads[0].float()

    x = leaf(torch, 1.0, 2.0)
    found = make(torch, forward or multiples, backward).apply(x)
    sum(y.sum() for y in found if y.grad_fn is not None).backward()
    return seen[0], x.grad.dtype


@pytest.mark.since("2.15")
def test_backward_gets_gradients_in_the_dtypes_that_forward_declares(torch):
    wide, narrow = torch.float64, torch.float32
    assert dtypes_in_backward(torch, wide) == ([wide], narrow)
    assert dtypes_in_backward(torch, None) == ([narrow], narrow)
    assert dtypes_in_backward(torch, None, wide, narrow, outputs=3) == ([narrow, wide, narrow], narrow)

    def marked(ctx, x):
        y, z = x * 2, x * 3
        ctx.mark_non_differentiable(z)
        ctx.set_output_grad_dtype(wide, None)
        return y, z

    assert dtypes_in_backward(torch, forward=marked) == ([wide, narrow], narrow)


@pytest.mark.since("2.15")
def test_a_declared_dtype_is_that_of_roots_hooks_and_retained_gradients(torch):
    def forward(ctx, x):
        ctx.set_output_grad_dtype(torch.float64)
        return x * 2

    seen = []
    x = leaf(torch, 1.0, 2.0)
    y = make(torch, forward, lambda ctx, g: seen.append(g.dtype) or g.float()).apply(x)
    assert y.dtype is torch.float32 and y.grad_dtype is torch.float64 and (x * 2).grad_dtype is torch.float32
    y.retain_grad()
    y.register_hook(lambda grad: seen.append(grad.dtype))
    y.backward(torch.ones(2, dtype=torch.float16))
    assert seen == [torch.float64] * 2 and y.grad.dtype is torch.float64 and x.grad.dtype is torch.float32


@pytest.mark.since("2.15")
@pytest.mark.parametrize(
    "declared, message",
    [
        (("float64", "float64"), "the Function returned 1 values but 2 declarations were provided"),
        ((), "the Function returned 1 values but 0 declarations were provided"),
        (("text",), "expects each declaration to be a torch.dtype or None, but got str"),
    ],
)
def test_declarations_that_do_not_fit_the_outputs_are_errors(torch, declared, message):
    with pytest.raises(RuntimeError, match=message):
        dtypes_in_backward(torch, *[getattr(torch, d, d) for d in declared])


@pytest.mark.since("2.15")
def test_a_dtype_is_declared_once_and_for_outputs_with_gradients(torch):
    def twice(ctx, x):
        ctx.set_output_grad_dtype(None)
        ctx.set_output_grad_dtype(None)

    with pytest.raises(RuntimeError, match="set_output_grad_dtype can only be called once"):
        dtypes_in_backward(torch, forward=twice)

    def with_text(ctx, x):
        ctx.set_output_grad_dtype(None, torch.float64)
        return x * 2, "text"

    with pytest.raises(
        RuntimeError, match="got a concrete dtype for output 1, but that output is not a differentiable"
    ):
        dtypes_in_backward(torch, forward=with_text)


@pytest.mark.since("2.15")
@pytest.mark.parametrize("is_leaf", [True, False])
def test_backward_adds_to_the_gradients_that_others_have_computed(torch, is_leaf):
    seen = []

    def backward(ctx, g):
        waiting, of_w, of_number = ctx.input_grad_buffers
        seen.append((waiting is not None, of_w, of_number))
        if waiting is None:
            return g * 2, g, None
        waiting.add_(g * 2)
        return None, g, None

    function = make(torch, lambda ctx, x, w, k: x * w, backward)
    x, w = leaf(torch, 1.0, 2.0), leaf(torch, 1.0, 1.0)
    a = x if is_leaf else x * 1
    (function.apply(a, w, 3) + a.exp() + a.sin()).sum().backward()  # exp and sin run first
    assert seen.pop() == (True, None, None)
    torch.testing.assert_close(x.grad, 2 + x.detach().exp() + x.detach().cos())
    x.grad = None
    a = x if is_leaf else x * 1
    (a.exp() + function.apply(a, w, 3)).sum().backward()  # exp runs last
    assert seen.pop() == (False, None, None)
    torch.testing.assert_close(x.grad, 2 + x.detach().exp())


@pytest.mark.since("2.15")
def test_waiting_gradients_cannot_be_read_everywhere(torch):
    kept = []

    def backward(ctx, g):
        kept.append(ctx)
        kept.append(ctx.input_grad_buffers)
        return g

    function = make(torch, lambda ctx, x: x * 1, backward)
    x = leaf(torch, 1.0)
    torch.autograd.grad(function.apply(x), x)
    with pytest.raises(RuntimeError, match="can only be accessed while autograd is executing backward"):
        kept[0].input_grad_buffers  # noqa: B018
    with pytest.raises(RuntimeError, match="does not support create_graph=True"):
        torch.autograd.grad(function.apply(x), x, create_graph=True)
    with pytest.raises(RuntimeError, match="does not support anomaly detection"), torch.autograd.detect_anomaly():
        torch.autograd.grad(function.apply(x), x)
    y = function.apply(x)
    y.grad_fn.register_hook(lambda *grads: None)
    with pytest.raises(RuntimeError, match="does not support post-hooks"):
        torch.autograd.grad(y, x)
