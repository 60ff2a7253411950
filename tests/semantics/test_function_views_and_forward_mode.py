"""Custom functions that return or write to their inputs or views of them, and custom functions in forward mode."""

import gc
import weakref

import pytest

FORBIDDEN = "This view was created inside a custom Function"
MULTIPLE = "This view is the output of a function that returns multiple views"


def leaf(torch, *values):
    return torch.tensor(list(values), requires_grad=True)


def make(torch, forward, backward=lambda ctx, g: g * 2, **methods):
    """The `apply` of a Function class of these methods."""
    members = {name: staticmethod(m) for name, m in ({"forward": forward, "backward": backward} | methods).items()}
    return type("Made", (torch.autograd.Function,), members).apply


def write(ctx, x):
    x.mul_(2)
    ctx.mark_dirty(x)
    return x


# --- inputs and views as results ------------------------------------------------------------------------------------


def test_an_input_comes_back_as_a_view_of_itself_with_the_functions_gradient(torch):
    a = leaf(torch, 1.0)
    y = make(torch, lambda ctx, x: x, lambda ctx, g: g * 3)(a)
    assert y is not a and y._is_view() and y._base is a and y.data_ptr() == a.data_ptr()
    assert y.grad_fn.name() == "MadeBackward"
    y.sum().backward()
    assert a.grad.tolist() == [3.0]


def test_the_view_of_an_input_must_not_be_written_nor_its_base(torch):
    identity = make(torch, lambda ctx, x: x)
    b = leaf(torch, 1.0) * 1
    y = identity(b)
    with pytest.raises(RuntimeError, match=f"Output 0 of Made is a view and is being modified inplace. {FORBIDDEN}"):
        y.add_(1)
    assert b._version == y._version == 0
    b.add_(1)
    with pytest.raises(RuntimeError, match="is a view and its base or another view of its base has been modified inpl"):
        y.grad_fn  # noqa: B018


def test_returned_inputs_without_gradients(torch):
    identity = make(torch, lambda ctx, x: x)
    x = torch.ones(1)
    y = identity(x)
    assert y is not x and not y.requires_grad
    y.add_(1)
    assert x.tolist() == [2.0]
    a = leaf(torch, 1.0)
    with torch.no_grad():
        y = identity(a)
    assert y is not a and not y.requires_grad and not y._is_view() and y.data_ptr() == a.data_ptr()


def test_inputs_returned_several_times(torch):
    a, b = leaf(torch, 1.0), leaf(torch, 1.0)
    function = make(torch, lambda ctx, x, y: (x, y, x), lambda ctx, *g: (g[0] * 10 + g[2] * 100, g[1]))
    results = function(a, b)
    assert [t.output_nr for t in results] == [0, 1, 2] and len({id(t) for t in results}) == 3
    (results[0] + results[1] * 2 + results[2] * 3).sum().backward()
    assert a.grad.tolist() == [310.0] and b.grad.tolist() == [2.0]


def test_a_view_of_an_input(torch):
    def backward(ctx, g):
        full = torch.zeros(2)
        full[0] = g * 5
        return full

    a = leaf(torch, 1.0, 2.0)
    b = a * 1
    y = make(torch, lambda ctx, x: x[0], backward)(b)
    assert y._is_view() and y._base is b and y.grad_fn.name() == "MadeBackward"
    y.backward()
    assert a.grad.tolist() == [5.0, 0.0]
    with pytest.raises(RuntimeError, match=FORBIDDEN):
        y.add_(1)


def test_several_views_of_an_input(torch):
    a = leaf(torch, 1.0, 2.0)
    b = a * 1
    y, z = make(torch, lambda ctx, x: (x[0], x[1]), lambda ctx, g, h: torch.stack([g, h]))(b)
    (y + 2 * z).backward()
    assert a.grad.tolist() == [1.0, 2.0]
    for view in (y, z):
        with pytest.raises(RuntimeError, match=MULTIPLE):
            view.mul_(2)


def test_a_view_beside_another_result_counts_as_one_of_several(torch):
    y, z = make(torch, lambda ctx, x: (x.view(-1), x.detach()), lambda ctx, g, h: g + h)(leaf(torch, 1.0))
    assert y._is_view() and not z._is_view() and y.grad_fn is z.grad_fn
    with pytest.raises(RuntimeError, match=MULTIPLE):
        y.add_(1)
    z.add_(1)


# --- writing to inputs ----------------------------------------------------------------------------------------------


def test_a_dirty_input_is_returned_itself_with_a_new_version_and_history(torch):
    a = leaf(torch, 1.0)
    b = a * 1
    version = b._version
    y = make(torch, write, lambda ctx, g: g * 2)(b)
    assert y is b and b.grad_fn.name() == "MadeBackward" and b._version > version and b.tolist() == [2.0]
    b.sum().backward()
    assert a.grad.tolist() == [2.0]


def test_a_dirty_input_keeps_its_place_among_the_results(torch):
    def forward(ctx, x, y):
        x.mul_(2)
        ctx.mark_dirty(x)
        return y * 1, x

    a, b, seen = leaf(torch, 1.0), leaf(torch, 1.0), []
    written = a * 1
    function = make(torch, forward, lambda ctx, g, h: seen.append((g.tolist(), h.tolist())) or (h * 2, g))
    p, q = function(written, b)
    assert q is written and q.output_nr == 1 and p.grad_fn is q.grad_fn
    (p + q * 10).sum().backward()
    assert seen == [([1.0], [10.0])] and a.grad.tolist() == [20.0] and b.grad.tolist() == [1.0]


def test_a_dirty_input_without_gradient_gets_one_from_the_others(torch):
    def forward(ctx, x, y):
        x.mul_(y)
        ctx.mark_dirty(x)
        return x

    x, a = torch.ones(1), leaf(torch, 3.0)
    y = make(torch, forward, lambda ctx, g: (None, g))(x, a)
    assert y is x and x.requires_grad
    y.sum().backward()
    assert a.grad.tolist() == [1.0]
    plain = torch.ones(1)
    assert make(torch, write)(plain) is plain and not plain.requires_grad and plain._version > 0


def test_views_of_a_dirty_input_are_made_anew(torch):
    a = leaf(torch, 1.0, 2.0)
    b = a * 1
    view = b[0]
    make(torch, write, lambda ctx, g: g * 2)(b)
    assert view.grad_fn.name() == "AsStridedBackward0"
    view.backward()
    assert a.grad.tolist() == [2.0, 0.0]


def test_a_dirty_view_rebases_its_base(torch):
    a = leaf(torch, 1.0, 2.0)
    b = a * 1
    view = b[:1]
    make(torch, write, lambda ctx, g: g * 2)(view)
    assert b.tolist() == [2.0, 2.0] and b.grad_fn.name() == "torch::autograd::CopySlices"
    b.sum().backward()
    assert a.grad.tolist() == [2.0, 1.0]


def test_a_dirty_view_must_be_the_only_result(torch):
    def forward(ctx, x):
        write(ctx, x)
        return x, x * 3

    view = (leaf(torch, 1.0, 2.0) * 1)[:1]
    with pytest.raises(RuntimeError, match="If your Function modifies inplace an input that is a view of another Tens"):
        make(torch, forward, lambda ctx, g, h: g)(view)


def test_a_leaf_that_requires_grad_must_not_be_dirty(torch):
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad has been used in an in-place operation"):
        make(torch, write)(leaf(torch, 1.0))
    with torch.no_grad():
        assert make(torch, write)(leaf(torch, 1.0)).tolist() == [2.0]


def test_a_view_of_a_leaf_must_not_be_dirty(torch):
    with pytest.raises(RuntimeError, match="a view of a leaf Variable that requires grad is being used in an in-place"):
        make(torch, write)(leaf(torch, 1.0, 2.0)[:1])


def test_one_of_several_views_must_not_be_dirty(torch):
    part, _ = (leaf(torch, 1.0, 2.0) * 1).chunk(2)
    with pytest.raises(RuntimeError, match="Output 0 of Split.* is a view and is being modified inplace"):
        make(torch, write)(part)


def test_what_is_dirty_must_be_returned(torch):
    def forward(ctx, x):
        x.mul_(2)
        ctx.mark_dirty(x)
        return x * 1

    with pytest.raises(RuntimeError, match="Some elements marked as dirty during the forward method were not returned"):
        make(torch, forward)(leaf(torch, 1.0) * 1)


def test_only_inputs_are_dirty(torch):
    def forward(ctx, x):
        y = x * 2
        ctx.mark_dirty(y)
        return y

    with pytest.warns(UserWarning, match=r"mark_dirty\(\) received a tensor that was not an input"):
        assert make(torch, forward)(leaf(torch, 1.0)).grad_fn.name() == "MadeBackward"


def test_a_write_that_is_not_marked_leaves_the_history(torch):
    b = leaf(torch, 1.0) * 1
    y = make(torch, lambda ctx, x: x.mul_(2))(b)
    assert y is not b and y.grad_fn.name() == "MadeBackward" and b.grad_fn.name() == "MulBackward0"


def test_retain_grad_follows_a_dirty_input(torch):
    b = leaf(torch, 1.0) * 1
    b.retain_grad()
    make(torch, write, lambda ctx, g: g * 2)(b)
    (b * 3).sum().backward()
    assert b.grad.tolist() == [3.0]


# --- forward mode ---------------------------------------------------------------------------------------------------


@pytest.fixture
def fw(torch):
    import importlib

    return importlib.import_module(f"{torch.__name__}.autograd.forward_ad")


def tangent(fw, tensor):
    found = fw.unpack_dual(tensor).tangent
    return None if found is None else found.tolist()


def test_jvp_gives_the_tangents_of_the_results(torch, fw):
    def forward(ctx, x, y):
        ctx.save_for_forward(x, y)
        return x * y

    def jvp(ctx, x_t, y_t):
        seen.append((x_t.tolist(), y_t.tolist()))
        x, y = ctx.saved_tensors
        return x_t * y + y_t * x

    seen = []
    function = make(torch, forward, jvp=jvp)
    a, b = torch.tensor([2.0]), torch.tensor([3.0])
    with fw.dual_level():
        dual = fw.make_dual(a, torch.tensor([1.0]))
        assert tangent(fw, function(dual, b)) == [3.0] and tangent(fw, function(dual, dual)) == [5.0 - 1.0]
        assert tangent(fw, function(a, b)) is None
    assert seen == [([1.0], [0.0]), ([1.0], [1.0])]


def test_tensors_saved_for_forward_are_not_there_in_backward(torch):
    seen = []

    def forward(ctx, x):
        ctx.save_for_forward(x)
        return x * 2

    make(torch, forward, lambda ctx, g: seen.append(ctx.saved_tensors) or g)(leaf(torch, 1.0)).sum().backward()
    assert seen == [()]


def test_jvp_gets_none_for_what_is_no_tensor_and_zeros_unless_told_otherwise(torch, fw):
    def function(materialize):
        def forward(ctx, x, n, y):
            ctx.set_materialize_grads(materialize)
            return x * n

        return make(
            torch,
            forward,
            jvp=lambda ctx, *t: (
                seen.append([v if v is None else v.tolist() for v in t] + [torch.is_grad_enabled()]) or t[0] * 3
            ),
        )

    seen = []
    with fw.dual_level():
        dual = fw.make_dual(torch.ones(1), torch.ones(1))
        function(True)(dual, 3, torch.ones(1))
        function(False)(dual, 3, torch.ones(1))
    assert seen == [[[1.0], None, [0.0], True], [[1.0], None, None, True]]


def test_a_missing_jvp_matters_only_with_tangents(torch, fw):
    function = make(torch, lambda ctx, x: x * 2)
    with fw.dual_level():
        function(torch.ones(1))
        with pytest.raises(NotImplementedError, match="You must implement the jvp function for custom autograd.Functi"):
            function(fw.make_dual(torch.ones(1), torch.ones(1)))


@pytest.mark.parametrize(
    ("forward", "jvp", "words"),
    [
        (lambda x: x * 2, lambda t: (t, t), r"invalid number of forward gradients \(expected 1 but got 2\)"),
        (lambda x: x * 2, lambda t: (), r"invalid number of forward gradients \(expected 1 but got 0\)"),
        (lambda x: (x * 2, x * 3), lambda t: t, r"invalid number of forward gradients \(expected 2 but got 1\)"),
        (lambda x: x * 2, lambda t: 3, r"expected Variable or None \(got int\) for grad output 0"),
        (
            lambda x: x * 2,
            lambda t: t.sum(),
            "Trying to set a forward gradient that has a different size than that of th",
        ),
        (lambda x: x > 0, lambda t: t, "returned a gradient at position 0, but  the corresponding forward output"),
        (lambda x: x, lambda t: t * 2, "is returning a view .or an input as-is. but the jvp is not returning a"),
        (lambda x: x.view(-1), lambda t: t * 2, "but the jvp is not returning a view"),
    ],
)
def test_jvp_must_return_a_tangent_for_each_result(torch, fw, forward, jvp, words):
    function = make(torch, lambda ctx, x: forward(x), jvp=lambda ctx, t: jvp(t))
    with fw.dual_level(), pytest.raises(RuntimeError, match=words):
        function(fw.make_dual(torch.ones(2), torch.ones(2)))


def test_what_jvp_may_return(torch, fw):
    for forward, jvp, expected in (
        (lambda x: (x * 2, x * 3), lambda t: (t * 2, t * 3), [[2.0], [3.0]]),
        (lambda x: (x * 2, None, x * 3), lambda t: (t * 2, None, t), [[2.0], [1.0]]),
        (lambda x: (x * 2, x > 0), lambda t: (t * 2, None), [[2.0], None]),
        (lambda x: (x.view(-1),), lambda t: (t.view(-1),), [[1.0]]),
    ):
        function = make(torch, lambda ctx, x, forward=forward: forward(x), jvp=lambda ctx, t, jvp=jvp: jvp(t))
        with fw.dual_level():
            results = function(fw.make_dual(torch.ones(1), torch.ones(1)))
            assert [tangent(fw, t) for t in results if isinstance(t, torch.Tensor)] == expected


def test_where_forward_writes_jvp_writes(torch, fw):
    with fw.dual_level():
        dual = fw.make_dual(torch.ones(1), torch.ones(1))
        written = make(torch, write, jvp=lambda ctx, t: t.mul_(2))(dual)
        assert written is dual and tangent(fw, dual) == [2.0]
        with pytest.raises(RuntimeError, match="inplace custom Function is not"):
            make(torch, write, jvp=lambda ctx, t: t * 2)(dual)
        with pytest.raises(RuntimeError, match="inplace custom Function is not"):
            make(torch, write, jvp=lambda ctx, t: None)(dual)


@pytest.mark.parametrize("change", [lambda t: t.long(), lambda t: t > 0])
def test_a_tangent_is_a_floating_or_complex_tensor(torch, fw, change):
    function = make(torch, lambda ctx, x: x * 2, jvp=lambda ctx, t: change(t))
    with fw.dual_level(), pytest.raises(RuntimeError, match="floating.point|is_floating_point"):
        function(fw.make_dual(torch.ones(1), torch.ones(1)))


def test_an_output_marked_non_differentiable_has_no_tangent(torch, fw):
    def forward(ctx, x):
        rest = x * 3
        ctx.mark_non_differentiable(rest)
        return x * 2, rest

    with fw.dual_level():
        dual = fw.make_dual(torch.ones(1), torch.ones(1))
        results = make(torch, forward, jvp=lambda ctx, t: (t, None))(dual)
        assert [tangent(fw, t) for t in results] == [[1.0], None]
        with pytest.raises(RuntimeError, match="jvp returned a gradient at position 1"):
            make(torch, forward, jvp=lambda ctx, t: (t, t))(dual)


def test_an_argument_of_integers_has_no_tangent_and_a_result_that_is_no_tensor_ignores_one(torch, fw):
    seen = []

    def jvp(ctx, *tangents):
        seen.extend(tangents)
        return tangents[0], tangents[0]

    with fw.dual_level():
        dual = fw.make_dual(torch.ones(1), torch.ones(1))
        y, number = make(torch, lambda ctx, x, n, z: (x * 2, 5), jvp=jvp)(dual, torch.arange(1), torch.ones(1))
        assert tangent(fw, y) == [1.0] and number == 5
    assert seen[1] is None and seen[2].tolist() == [0.0]


@pytest.mark.parametrize("forward", [lambda x: x, lambda x: x.view_as(x), lambda x: x[:2]])
@pytest.mark.parametrize("made", ["primal", "result", "view"])
def test_what_is_written_to_a_view_changes_the_tangent_of_its_base_and_the_other_way(torch, fw, forward, made):
    function = make(torch, lambda ctx, x: forward(x), jvp=lambda ctx, t: forward(t))
    with fw.dual_level():
        x = fw.make_dual(torch.ones(3), torch.full((3,), 3.0))
        x = {"primal": x, "result": x * 1, "view": x[:2]}[made]
        if made != "view" and forward(x) is x:
            with pytest.raises(RuntimeError, match="the jvp is not returning a view"):
                function(x)
            return
        y = function(x)
        y.mul_(2)
        assert tangent(fw, y)[:2] == [6.0, 6.0] and tangent(fw, x)[:2] == [6.0, 6.0]
        x.mul_(2)
        assert tangent(fw, y)[:2] == [12.0, 12.0] and tangent(fw, x)[:2] == [12.0, 12.0]


def test_what_is_written_to_a_new_result_leaves_the_tangent_of_a_view_alone(torch, fw):
    with fw.dual_level():
        part = fw.make_dual(torch.ones(3), torch.ones(3))[1:]
        y = make(torch, lambda ctx, x: x * 2, jvp=lambda ctx, t: t)(part)
        y.mul_(5)
        assert tangent(fw, y) == [5.0, 5.0] and tangent(fw, part) == [1.0, 1.0]


def test_a_jvp_that_returns_a_tangent_without_writing_to_it_is_not_in_place(torch, fw):
    with fw.dual_level():
        dual = fw.make_dual(torch.ones(1), torch.ones(1))
        with pytest.raises(RuntimeError, match="inplace custom Function is not"):
            make(torch, write, jvp=lambda ctx, t: t)(dual)


def test_forward_and_jvp_see_no_tangents(torch, fw):
    def forward(ctx, x):
        ctx.save_for_forward(x)
        seen.append((fw.unpack_dual(x).tangent, repr(x)))
        return x * 2

    def jvp(ctx, t):
        seen.append((fw.unpack_dual(ctx.saved_tensors[0]).tangent, repr(ctx.saved_tensors[0])))
        return t * 2

    seen = []
    with fw.dual_level():
        dual = fw.make_dual(torch.ones(1), torch.ones(1))
        assert tangent(fw, make(torch, forward, jvp=jvp)(dual)) == [2.0]
        assert tangent(fw, dual) == [1.0] and "tangent" in repr(dual)
    assert seen == [(None, "tensor([1.])")] * 2


def test_reverse_over_forward(torch, fw):
    def forward(ctx, x):
        ctx.save_for_forward(x)
        ctx.save_for_backward(x)
        return x**3

    function = make(
        torch,
        forward,
        lambda ctx, g: g * 3 * ctx.saved_tensors[0] ** 2,
        jvp=lambda ctx, t: t * 3 * ctx.saved_tensors[0] ** 2,
    )
    x = leaf(torch, 2.0)
    with fw.dual_level():
        y = function(fw.make_dual(x, torch.ones(1)))
        primal, found = fw.unpack_dual(y)
        assert found.tolist() == [12.0]
        assert torch.autograd.grad(found.sum(), x, retain_graph=True)[0].tolist() == [12.0]
    assert torch.autograd.grad(primal.sum(), x)[0].tolist() == [12.0]


# --- lifetimes, and classes of results ------------------------------------------------------------------------------


@pytest.mark.parametrize("view", [False, True])
@pytest.mark.parametrize("saved", [False, True])
def test_a_written_input_makes_no_cycle(torch, view, saved):
    def forward(ctx, x):
        if saved:
            ctx.save_for_backward(x)
        return write(ctx, x)

    base = leaf(torch, 1.0, 2.0) * 1
    y = make(torch, forward)(base[:1] if view else base)
    kept = weakref.ref(y)
    gc.collect()
    gc.disable()
    try:
        del base, y
        assert kept() is None
    finally:
        gc.enable()


def test_a_marked_output_makes_no_cycle(torch):
    def forward(ctx, x):
        y = x * 2
        ctx.mark_non_differentiable(y)
        return y, x * 3

    marked, y = make(torch, forward, lambda ctx, g, h: h)(leaf(torch, 1.0))
    assert y.grad_fn.non_differentiable is None and y.grad_fn.dirty_tensors is None
    kept = weakref.ref(marked)
    del marked
    assert kept() is None


def test_a_view_that_was_written_and_saved_is_the_functions_result(torch):
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return write(ctx, x)

    seen = []

    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        seen.append((x.tolist(), x.grad_fn is ctx, x._is_view()))
        return g * x

    a = leaf(torch, 1.0, 2.0)
    base = a * 1
    make(torch, forward, backward)(base[:1])
    (found,) = torch.autograd.grad(base.sum(), a, create_graph=True)
    assert seen == [([2.0], True, False)] and found.tolist() == [2.0, 1.0]
    found.sum().backward()
    assert a.grad.tolist() == [2.0, 0.0]


def test_a_parameter_that_comes_back_is_a_tensor(torch):
    parameter = torch.nn.Parameter(torch.ones(2))
    y = make(torch, lambda ctx, x: x)(parameter)
    assert type(y) is torch.Tensor and y._base is parameter
