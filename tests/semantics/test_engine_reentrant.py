"""Backward passes inside backward passes, callbacks, queries about the running pass, and exceptions."""

import gc
import weakref

import pytest

from tests.waiting import in_threads


def leaf(torch, *values):
    return torch.tensor(list(values), requires_grad=True)


def identity(torch, on_backward):
    """A function of one tensor that calls `on_backward()` in its backward and passes the gradient on."""

    class Identity(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, grad):
            on_backward()
            return grad

    return Identity.apply


def recursive(torch, ran=None):
    """A function of x that in its backward calls itself with x - 1, and runs that backward, until x is negative."""

    class Recursive(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            with torch.enable_grad():
                ctx.x = x.detach().requires_grad_() - 1
            return ctx.x.detach()

        @staticmethod
        def backward(ctx, grad):
            if ctx.x.item() < 0:
                if ran is not None:
                    ran()
                return grad
            with torch.enable_grad():
                Recursive.apply(ctx.x).sum().backward()
            return grad

    return Recursive.apply


def test_a_pass_inside_a_function(torch):
    class Inner(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            assert not torch.is_grad_enabled()
            with torch.enable_grad():
                y = leaf(torch, 3.0)
                (y * y).sum().backward()
            assert not torch.is_grad_enabled()
            return grad * y.grad

    x = leaf(torch, 1.0)
    Inner.apply(x).sum().backward()
    assert x.grad.tolist() == [6.0] and torch.is_grad_enabled()


def test_a_pass_inside_a_hook(torch):
    x, w = leaf(torch, 1.0), leaf(torch, 5.0)
    y = x * 2

    def hook(grad):
        with torch.enable_grad():
            (w * w).sum().backward()
        return grad + w.grad

    y.register_hook(hook)
    y.sum().backward()
    assert x.grad.tolist() == [22.0] and w.grad.tolist() == [10.0]


def test_an_inner_pass_may_add_to_a_leaf_that_the_outer_one_adds_to(torch):
    x = leaf(torch, 3.0)

    def inner():
        with torch.enable_grad():
            (x * x).sum().backward()

    y = identity(torch, inner)(x * 10)
    (y + x).sum().backward()
    assert x.grad.tolist() == [17.0]


@pytest.mark.parametrize("depth", [1, 19, 20, 21, 150, 1000])
def test_passes_nested_deep(torch, depth):
    x, ran = torch.tensor(float(depth), requires_grad=True), []
    recursive(torch, lambda: ran.append(1))(x).sum().backward()
    assert x.grad.item() == 1.0 and ran == [1]


def test_a_pass_inside_itself_is_found(gradloom):  # PyTorch starts threads until there are no more
    class Forgetful(gradloom.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            with gradloom.enable_grad():
                ctx.result = x.detach().requires_grad_() * 2
            return ctx.result  # without detach()

        @staticmethod
        def backward(ctx, g):
            ctx.result.backward(g)

    with pytest.raises(RecursionError, match="backward passes run inside each other"):
        Forgetful.apply(leaf(gradloom, 1.0)).sum().backward()


def test_passes_nested_deep_through_hooks(torch):
    def nest(level):
        y = leaf(torch, 1.0) * 2
        if level:
            y.register_hook(lambda g: descend(level - 1))
        else:
            y.register_hook(lambda g: reached.append(torch.is_grad_enabled()))
        y.sum().backward()

    def descend(level):
        with torch.enable_grad():
            nest(level)

    reached = []
    nest(300)
    assert reached == [False]


def test_an_exception_comes_through_all_levels_as_it_is(torch):
    class Mine(Exception):
        pass

    def fail():
        raise error

    error = Mine("deep down")
    x = torch.tensor(100.0, requires_grad=True)
    with pytest.raises(Mine) as caught:
        recursive(torch, fail)(x).sum().backward()
    assert caught.value is error and x.grad is None
    (x * 2).backward()
    assert x.grad.item() == 2.0 and torch.is_grad_enabled()


def test_the_modes_of_the_program_reach_the_deepest_level(torch):
    seen = []

    def look():
        with torch.enable_grad():
            leaf(torch, 2.0) * leaf(torch, 3.0)

    x = torch.tensor(70.0, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: seen.append(t.item()) or t, lambda t: t):
        recursive(torch, look)(x).sum().backward()
    assert seen.count(2.0) == seen.count(3.0) == 1


# --- callbacks ------------------------------------------------------------------------------------------------------


def queue(torch, callback):
    torch.autograd.Variable._execution_engine.queue_callback(callback)


def test_callbacks_run_when_everything_else_has(torch):
    x, seen = leaf(torch, 1.0), []
    y = x * 2

    def hook(grad):
        queue(torch, lambda: seen.append(("first", x.grad is not None, torch.is_grad_enabled())))
        queue(torch, lambda: [seen.append("second"), queue(torch, lambda: seen.append("third"))] and None)

    y.register_hook(hook)
    y.sum().backward()
    assert seen == [("first", True, False), "second", "third"]


def test_callbacks_of_an_inner_pass_run_at_its_end(torch):
    x, seen = leaf(torch, 1.0), []
    y = x * 2
    z = leaf(torch, 1.0) * 2
    z.register_hook(lambda g: queue(torch, lambda: seen.append("inner")))

    def hook(grad):
        queue(torch, lambda: seen.append("outer"))
        with torch.enable_grad():
            z.sum().backward()
        seen.append("after the inner pass")

    y.register_hook(hook)
    y.sum().backward()
    assert seen == ["inner", "after the inner pass", "outer"]


def test_a_callback_that_raises_ends_the_callbacks(torch):
    x, seen = leaf(torch, 1.0), []
    y = x * 2
    y.register_hook(lambda g: queue(torch, lambda: 1 / 0))
    y.register_hook(lambda g: queue(torch, lambda: seen.append(1)))
    with pytest.raises(ZeroDivisionError):
        y.sum().backward()
    assert seen == [] and x.grad.tolist() == [2.0]


def test_callbacks_do_not_run_after_an_exception_and_belong_to_a_pass(torch):
    x, seen = leaf(torch, 1.0), []
    y = x * 2

    def hook(grad):
        queue(torch, lambda: seen.append(1))
        raise KeyError("x")

    y.register_hook(hook)
    with pytest.raises(KeyError):
        y.sum().backward()
    assert seen == []
    with pytest.raises(RuntimeError, match="Final callbacks can only be installed during backward pass"):
        queue(torch, print)


# --- queries --------------------------------------------------------------------------------------------------------


def test_the_running_pass_has_a_number_and_the_running_node_is_known(torch):
    core = torch._C
    x, seen = leaf(torch, 1.0), []
    y = x * 2
    z = y * 3

    def note(*args):
        seen.append((core._current_graph_task_id(), core._current_autograd_node()))

    y.register_hook(note)
    y.grad_fn.register_prehook(note)
    y.grad_fn.register_hook(note)
    z.register_hook(note)
    z.sum().backward(retain_graph=True)
    assert [node for _, node in seen] == [z.grad_fn, y.grad_fn, y.grad_fn, y.grad_fn]
    assert len({number for number, _ in seen}) == 1 and seen[0][0] >= 0
    first = seen[0][0]
    seen.clear()
    z.sum().backward()
    assert seen[0][0] != first
    assert core._current_graph_task_id() == -1 and core._current_autograd_node() is None


def test_which_nodes_the_engine_runs(torch):
    core = torch._C
    x, other = leaf(torch, 1.0), leaf(torch, 1.0) * 2
    y = x * 2
    z = y * 3
    leaf_node = y.grad_fn.next_functions[0][0]
    nodes, seen = [z.grad_fn, y.grad_fn, other.grad_fn, leaf_node], []
    z.register_hook(lambda g: seen.append([core._will_engine_execute_node(node) for node in nodes]))
    z.sum().backward(retain_graph=True)
    z.sum().backward(retain_graph=True, inputs=[x])
    z.sum().backward(retain_graph=True, inputs=[y])
    assert seen == [[True, True, False, True], [True, True, False, True], [True, True, False, False]]
    with pytest.raises(RuntimeError, match="_will_engine_execute_node expects an grad_fn, but got int"):
        core._will_engine_execute_node(3)
    with pytest.raises(RuntimeError, match="should only be called during the backward pass"):
        core._will_engine_execute_node(y.grad_fn)


def test_multithreading_can_be_switched_off(torch):
    def enabled():
        return torch._C._is_multithreading_enabled()

    assert enabled()
    with torch.autograd.set_multithreading_enabled(False):
        assert not enabled()
        x = leaf(torch, 3.0)
        (x * x).sum().backward()
    assert enabled() and x.grad.tolist() == [6.0]
    torch.autograd.set_multithreading_enabled(False)
    assert not enabled()
    torch.autograd.set_multithreading_enabled(True)
    with pytest.raises(TypeError, match="must be bool, not int"):
        torch.autograd.set_multithreading_enabled(3)


# --- exceptions -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "error",
    [ValueError("a"), KeyError("b"), StopIteration(3), KeyboardInterrupt("c"), SystemExit(3)],
    ids=lambda e: type(e).__name__,
)
@pytest.mark.parametrize("where", ["function", "tensor hook", "leaf hook", "pre-hook", "post-hook", "accumulate hook"])
def test_an_exception_arrives_as_it_is_and_leaves_the_engine_usable(torch, error, where):
    def fail(*args):
        raise error

    x = leaf(torch, 1.0)
    y = x * 2
    if where == "function":
        z = identity(torch, fail)(y)
    else:
        z = y * 1
        handle = {
            "tensor hook": y.register_hook,
            "leaf hook": x.register_hook,
            "pre-hook": y.grad_fn.register_prehook,
            "post-hook": y.grad_fn.register_hook,
            "accumulate hook": x.register_post_accumulate_grad_hook,
        }[where](fail)
    with pytest.raises(type(error)) as caught:
        z.sum().backward(retain_graph=True)
    assert caught.value is error and caught.value.args == error.args
    assert torch._C._current_graph_task_id() == -1 and torch.is_grad_enabled()
    if where != "function":
        handle.remove()
    x.grad = None
    y.sum().backward()
    assert x.grad.tolist() == [2.0]


def test_what_ran_before_an_exception_has_happened(torch):
    a, b = leaf(torch, 1.0), leaf(torch, 1.0)
    early, late = a * 2, b * 3

    def fail(grad):
        raise KeyError("x")

    early.register_hook(fail)
    with pytest.raises(KeyError):
        (early + late).sum().backward()
    assert a.grad is None and b.grad.tolist() == [3.0]


def test_a_failed_pass_holds_nothing(torch):
    gc.collect()
    gc.disable()
    try:
        x = leaf(torch, 1.0)
        y = x * 2

        def fail(grad):
            raise KeyError("x")

        y.register_hook(fail)
        z = y.exp()
        node = weakref.ref(z.grad_fn) if torch.__name__ == "gradloom" else weakref.ref(z)
        try:
            z.sum().backward()
        except KeyError:
            pass
        del y, z, fail
        assert node() is None
    finally:
        gc.enable()


def test_an_exception_in_a_thread_stays_there(torch):
    def work():
        try:
            identity(torch, lambda: 1 / 0)(leaf(torch, 1.0)).sum().backward()
        except ZeroDivisionError as error:
            caught.append(error)

    caught = []
    in_threads(*[work] * 4)
    assert len(caught) == 4
    x = leaf(torch, 1.0)
    (x * 2).sum().backward()
    assert x.grad.tolist() == [2.0]
