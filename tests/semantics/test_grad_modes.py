"""no_grad, enable_grad, set_grad_enabled and inference_mode: blocks, statements and decorators; inference tensors."""

import asyncio

import pytest

from tests.waiting import in_threads


@pytest.fixture
def x(torch):
    return torch.tensor([1.0, 2.0], requires_grad=True)


def modes(torch):
    return torch.is_grad_enabled(), torch.is_inference_mode_enabled()


# --- blocks and statements ------------------------------------------------------------------------


def test_nothing_is_recorded_in_no_grad(torch, x):
    with torch.no_grad():
        y = x * 2
        assert not torch.is_grad_enabled()
    assert torch.is_grad_enabled()
    assert not y.requires_grad and y.is_leaf and y.grad_fn is None


def test_leaves_may_be_made_in_no_grad(torch):
    with torch.no_grad():
        x = torch.ones(2, requires_grad=True)
        weight = torch.nn.Parameter(torch.ones(2))
    assert x.requires_grad and weight.requires_grad
    (x * weight).sum().backward()
    assert x.grad.tolist() == [1.0, 1.0]


def test_enable_grad_records_within_no_grad(torch, x):
    with torch.no_grad():
        with torch.enable_grad():
            y = x * 2
        z = x * 2
    assert y.requires_grad and not z.requires_grad


def test_set_grad_enabled_is_a_statement_and_a_block(torch):
    torch.set_grad_enabled(False)
    try:
        assert not torch.is_grad_enabled()
        with torch.set_grad_enabled(True):
            assert torch.is_grad_enabled()
        assert not torch.is_grad_enabled()
    finally:
        torch.set_grad_enabled(True)
    assert torch.is_grad_enabled()


def test_set_grad_enabled_takes_a_bool_only(torch):
    for wrong in (1, None, "no"):
        with pytest.raises(TypeError, match=r"set_grad_enabled\(\): argument 'enabled' \(position 1\) must be bool"):
            torch.set_grad_enabled(wrong)
    assert torch.is_grad_enabled()


def test_set_grad_enabled_shows_its_mode(torch):
    with torch.no_grad():
        shown = repr(torch.set_grad_enabled(mode=False))
    assert shown == f"{torch.__name__}.autograd.grad_mode.set_grad_enabled(mode=False)"


@pytest.mark.parametrize("name", ["no_grad", "enable_grad", "inference_mode"])
def test_a_block_that_raises_gives_the_mode_back(torch, name):
    for before in (True, False):
        with torch.set_grad_enabled(before):
            with pytest.raises(KeyError), getattr(torch, name)():
                raise KeyError
            assert modes(torch) == (before, False)


def test_an_object_serves_several_blocks_one_after_another(torch):
    mode = torch.no_grad()
    for _ in range(2):
        with mode:
            assert not torch.is_grad_enabled()
        assert torch.is_grad_enabled()


def test_modes_belong_to_the_thread(torch):
    with torch.inference_mode():
        assert in_threads(lambda: modes(torch)) == [(True, False)]


def test_the_classes_live_in_grad_mode(torch):
    for name in ("no_grad", "enable_grad", "set_grad_enabled", "inference_mode"):
        found = getattr(torch.autograd.grad_mode, name)
        assert found is getattr(torch, name) and name in torch.autograd.grad_mode.__all__
        assert getattr(torch.autograd, name) is found


# --- decorators -----------------------------------------------------------------------------------


def decorated(torch, function):
    """The function decorated in each way, with the grad mode that must hold in it."""
    yield torch.no_grad()(function), False
    yield torch.no_grad(function), False
    yield torch.enable_grad()(function), True
    yield torch.enable_grad(function), True
    yield torch.inference_mode()(function), False
    yield torch.inference_mode(function), False
    yield torch.inference_mode(False)(function), True
    yield torch.set_grad_enabled(False)(function), False


def test_functions_can_be_decorated(torch, documented):
    def ask(value, *, key):
        """Its docstring."""
        assert (value, key) == (1, 2)
        return torch.is_grad_enabled()

    for outside in (True, False):
        for function, inside in decorated(torch, ask):
            with torch.set_grad_enabled(outside):
                assert function(1, key=2) is inside
                assert torch.is_grad_enabled() is outside
            assert function.__name__ == "ask" and function.__doc__ == documented("Its docstring.")


def test_decorating_with_set_grad_enabled_leaves_the_mode_outside(torch):
    function = torch.set_grad_enabled(False)(torch.is_grad_enabled)
    assert torch.is_grad_enabled()
    assert function() is False


def test_a_decorated_function_may_call_itself(torch):
    @torch.no_grad()
    def countdown(n):
        return [torch.is_grad_enabled(), *(countdown(n - 1) if n else [])]

    assert countdown(3) == [False] * 4
    assert torch.is_grad_enabled()


def test_a_decorated_function_that_raises_gives_the_mode_back(torch):
    @torch.no_grad()
    def fails():
        raise KeyError

    with pytest.raises(KeyError):
        fails()
    assert torch.is_grad_enabled()


def test_methods_can_be_decorated(torch):
    class Thing:
        @torch.no_grad()
        def method(self):
            return torch.is_grad_enabled()

        @staticmethod
        @torch.no_grad()
        def static():
            return torch.is_grad_enabled()

        @classmethod
        @torch.no_grad()
        def of_class(cls):
            return torch.is_grad_enabled()

    assert (Thing().method(), Thing.static(), Thing.of_class()) == (False, False, False)


def test_in_a_decorated_generator_the_mode_holds_in_its_body_only(torch):
    seen = []

    @torch.no_grad()
    def generate():
        try:
            got = yield torch.is_grad_enabled()
            seen.append((got, torch.is_grad_enabled()))
            try:
                yield "first"
            except ValueError:
                seen.append(("caught", torch.is_grad_enabled()))
            yield "second"
            return "done"
        finally:
            seen.append(("finally", torch.is_grad_enabled()))

    generator = generate()
    assert (next(generator), torch.is_grad_enabled()) == (False, True)
    assert (generator.send("sent"), torch.is_grad_enabled()) == ("first", True)
    assert (generator.throw(ValueError), torch.is_grad_enabled()) == ("second", True)
    with pytest.raises(StopIteration) as stop:
        next(generator)
    assert stop.value.value == "done"
    assert seen == [("sent", False), ("caught", False), ("finally", False)]
    assert torch.is_grad_enabled()


def test_a_decorated_generator_can_be_closed_and_can_raise(torch):
    seen = []

    @torch.no_grad()
    def generate(fails):
        try:
            yield 1
            if fails:
                raise KeyError
        finally:
            seen.append(torch.is_grad_enabled())

    generator = generate(False)
    next(generator)
    generator.close()
    generator = generate(True)
    next(generator)
    with pytest.raises(KeyError):
        next(generator)
    assert seen == [False, False]
    assert torch.is_grad_enabled()


def test_a_generators_consumer_may_change_the_mode(torch):
    @torch.enable_grad()
    def generate():
        while True:
            yield torch.is_grad_enabled()

    generator = generate()
    with torch.no_grad():
        assert next(generator) is True
        assert not torch.is_grad_enabled()
    assert next(generator) is True


def test_decorating_a_coroutine_function_does_not_reach_its_body(torch):
    @torch.no_grad()
    async def ask():
        before = torch.is_grad_enabled()
        await asyncio.sleep(0)
        return before, torch.is_grad_enabled()

    async def other():
        return torch.is_grad_enabled()

    async def both():
        return await asyncio.gather(ask(), other())

    assert asyncio.run(both()) == [(True, True), True]


def test_a_block_in_a_coroutine_holds_until_it_ends(torch):
    async def ask():
        with torch.no_grad():
            return torch.is_grad_enabled()

    assert asyncio.run(ask()) is False
    assert torch.is_grad_enabled()


@pytest.mark.parametrize("name", ["no_grad", "inference_mode"])
def test_decorating_a_class_warns_and_wraps_its_constructor(torch, name):
    with pytest.warns(FutureWarning, match="Decorating classes is deprecated"):

        @getattr(torch, name)()
        class Thing:
            def __init__(self, value):
                self.value, self.made = value, torch.is_grad_enabled()

            def ask(self):
                return torch.is_grad_enabled()

    thing = Thing(3)
    assert (thing.value, thing.made, thing.ask()) == (3, False, True)


# --- inference mode -------------------------------------------------------------------------------


def test_what_is_computed_in_inference_mode_is_an_inference_tensor(torch, x):
    with torch.inference_mode():
        made = [
            torch.ones(2),
            x * 2,
            x.clone(),
            torch.tensor([1.0]),
            torch.arange(3),
            torch.rand(2).sum(),
            torch.ones(2, requires_grad=True),
        ]
        assert modes(torch) == (False, True)
        views = [x.view(2, 1), x[0], x.detach()]
    assert modes(torch) == (True, False)
    assert [t.is_inference() for t in made] == [True] * 7
    assert [t.is_inference() for t in views] == [False] * 3
    assert [t.requires_grad for t in made] == [False] * 6 + [True]
    assert torch.is_inference(made[0]) and not torch.is_inference(x)


def test_inference_mode_can_be_left_inside(torch, x):
    with torch.inference_mode():
        with torch.inference_mode(False):
            assert modes(torch) == (True, False)
            y = x * 2
        assert modes(torch) == (False, True)
    assert not y.is_inference() and y.requires_grad


def test_enable_grad_records_nothing_in_inference_mode(torch, x):
    with torch.inference_mode():
        with torch.enable_grad():
            assert modes(torch) == (True, True)
            y = x * 2
            with torch.no_grad():
                assert modes(torch) == (False, True)
            assert modes(torch) == (True, True)
            with torch.inference_mode(False):
                z = x * 2
        torch.set_grad_enabled(True)
        assert modes(torch) == (True, True)
    assert modes(torch) == (True, False)
    assert y.is_inference() and not y.requires_grad
    assert z.requires_grad


def test_views_of_inference_tensors_are_inference_tensors(torch):
    with torch.inference_mode():
        a = torch.ones(2)
        inside = a.view(2, 1)
    outside = [a.view(2, 1), a[0], a.detach(), a.data]
    assert inside.is_inference() and not inside._is_view()
    assert [t.is_inference() for t in outside] == [True] * 4
    assert not (a + 1).is_inference() and not a.clone().is_inference()


def test_memory_shown_as_another_dtype_in_inference_mode_is_an_inference_tensor(torch):
    a = torch.ones(2)
    with torch.inference_mode():
        found = a.view(torch.int32)
    assert found.is_inference() and not found._is_view() and found.data_ptr() == a.data_ptr()
    a.add_(1)
    with pytest.raises(RuntimeError, match="Inplace update to inference tensor outside InferenceMode"):
        found.zero_()


def test_inference_tensors_have_no_version(torch):
    with torch.inference_mode():
        a = torch.ones(2)
        with pytest.raises(RuntimeError, match="Inference tensors do not track version counter"):
            a._version  # noqa: B018


def test_inference_tensors_may_be_written_to_in_the_mode_only(torch):
    with torch.inference_mode():
        a = torch.ones(2)
        view = a.view(2, 1)
        a.add_(1)
        a[0] = 5
    for write in (
        lambda: a.add_(1),
        lambda: view.mul_(2),
        lambda: torch.add(a, 1, out=a),
        lambda: a.__setitem__(0, 1),
        lambda: a.zero_(),
        lambda: torch.no_grad()(a.add_)(1),
    ):
        with pytest.raises(RuntimeError, match="Inplace update to inference tensor outside InferenceMode is not"):
            write()


def test_inference_tensors_cannot_be_saved_for_backward(torch, x):
    with torch.inference_mode():
        a = torch.ones(2)

    class Saves(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, a):
            ctx.save_for_backward(a)
            return x * 1

        @staticmethod
        def backward(ctx, grad):
            return grad, None

    for use in (lambda: a * x, lambda: x * a, lambda: a.view(1, 2) @ x, lambda: Saves.apply(x, a)):
        with pytest.raises(RuntimeError, match="Inference tensors cannot be saved for backward"):
            use()


def test_inference_tensors_may_be_used_where_they_are_not_saved(torch, x):
    with torch.inference_mode():
        a = torch.ones(2)
    (a + x).sum().backward()
    assert x.grad.tolist() == [1.0, 1.0]
    assert (a * 2).tolist() == [2.0, 2.0]
    with torch.no_grad():
        assert not (a * x).requires_grad
    (a.clone() * x).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_inference_tensors_cannot_require_grad_later(torch):
    with torch.inference_mode():
        a = torch.ones(2)
        a.requires_grad_()
        b = torch.ones(2)
    assert a.requires_grad
    with pytest.raises(RuntimeError, match="Setting requires_grad=True on inference tensor outside InferenceMode"):
        b.requires_grad_()
    assert not b.requires_grad_(False).requires_grad


def test_normal_tensors_may_be_written_to_in_inference_mode(torch):
    a = torch.ones(2)
    leaf = torch.ones(2, requires_grad=True)
    with torch.inference_mode():
        a.add_(1)
        leaf.add_(1)
        a.view(2, 1).mul_(2)
    assert (a.tolist(), a._version) == ([4.0, 4.0], 2)
    assert (leaf.tolist(), leaf._version, leaf.requires_grad) == ([2.0, 2.0], 1, True)


def test_a_saved_tensor_that_is_written_to_in_inference_mode_is_found(torch, x):
    y = x * 1
    z = y * y
    with torch.inference_mode():
        y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()


def test_views_of_normal_tensors_made_in_inference_mode_are_restricted(torch, x):
    y = x * 1
    with torch.inference_mode():
        view = y.view(2, 1)
        of_leaf = x.view(2, 1)
    assert view.requires_grad and view._is_view() and view._base is y
    for written in (view, of_leaf):
        with pytest.raises(
            RuntimeError, match="A view was created in inference mode and is being modified inplace in normal mode"
        ):
            written.add_(1)
    assert (view * 2).requires_grad


def test_normal_tensors_may_take_values_of_inference_tensors(torch):
    with torch.inference_mode():
        a = torch.full((2,), 3.0)
    normal = torch.ones(2)
    normal.copy_(a)
    normal += a
    assert normal.tolist() == [6.0, 6.0] and not normal.is_inference()


def test_backward_may_run_in_inference_mode(torch, x):
    y = (x * x).sum()
    with torch.inference_mode():
        y.backward()
        with pytest.raises(RuntimeError, match="does not require grad and does not have a grad_fn"):
            (x * x).sum().backward()
    assert x.grad.tolist() == [2.0, 4.0]


def test_a_module_computes_the_same_in_every_mode(torch):
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2))
    inputs = torch.rand(5, 3)
    expected = net(inputs).tolist()
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            assert net(inputs).tolist() == expected


def test_a_mode_knows_what_was_before(torch):
    outer, inner = torch.no_grad(), torch.enable_grad()
    assert outer.prev is False
    with outer:
        assert outer.prev is True
        with inner:
            assert inner.prev is False
        with torch.set_grad_enabled(True) as nothing:
            assert nothing is None
        assert torch.set_grad_enabled(False).prev is False


def test_all_names_of_the_module_are_there(torch):
    names = {}
    exec(f"from {torch.__name__}.autograd.grad_mode import *", names)
    assert names["no_grad"] is torch.no_grad and names["enforce_grad_layout_policy"](True) is not None


def test_numpy_reads_a_tensor_that_requires_grad_where_nothing_is_recorded(torch):
    a = torch.ones(2, requires_grad=True)
    for tensor in (a, a * 1):
        with pytest.raises(RuntimeError, match="Can't call numpy"):
            tensor.numpy()
        with torch.no_grad():
            assert tensor.numpy().tolist() == tensor.__array__().tolist() == [1.0, 1.0]
        with torch.inference_mode():
            assert tensor.numpy().shape == (2,)
