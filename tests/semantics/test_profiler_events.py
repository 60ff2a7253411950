"""What a profile records: operators, nodes and marked blocks, their nesting, arguments, numbers, memory."""

from __future__ import annotations

import pytest

from tests.releases import pytorch_before
from tests.waiting import in_threads


def profiled(torch, program, **options):
    """The events of a program, and the profile."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], **options) as prof:
        program()
    return prof.events(), prof


def top(events):
    return [event for event in events if event.cpu_parent is None and event.name != "[memory]"]


def named(events, name):
    return [event for event in events if event.name == name]


def leaf(torch, *shape):
    return torch.ones(*shape, requires_grad=True)


def test_operators_have_the_names_of_their_schemas(torch):
    x = torch.ones(3)
    events, _ = profiled(torch, lambda: (x + x, x.mul(x), x.add_(x), torch.exp(x), x.sum()))
    assert [event.name for event in top(events)] == ["aten::add", "aten::mul", "aten::add_", "aten::exp", "aten::sum"]


def test_what_an_operator_is_made_of_is_its_child(torch):
    x, weight, bias = torch.ones(3, 4), torch.ones(5, 4), torch.ones(5)
    events, _ = profiled(torch, lambda: torch.nn.functional.linear(x, weight, bias))
    (linear,) = top(events)
    assert linear.name == "aten::linear"
    assert [child.name for child in linear.cpu_children] == ["aten::t", "aten::addmm"]
    assert all(child.cpu_parent is linear for child in linear.cpu_children)


def test_blocks_contain_what_runs_in_them(torch):
    x = torch.ones(3)

    def program():
        with torch.profiler.record_function("outer"):
            x.exp()
            with torch.profiler.record_function("inner"):
                x.cos()
        x.sin()

    events, _ = profiled(torch, program)
    assert [event.name for event in top(events)] == ["outer", "aten::sin"]
    (outer,) = named(events, "outer")
    assert [child.name for child in outer.cpu_children] == ["aten::exp", "inner"]
    assert [child.name for child in outer.cpu_children[1].cpu_children] == ["aten::cos"]


def test_a_decorated_function_is_a_block_and_keeps_its_name(torch, documented):
    @torch.profiler.record_function("marked")
    def work(x, *, times=1):
        """Work."""
        return x * times

    x = torch.ones(3)
    assert work.__name__ == "work" and work.__doc__ == documented("Work.")
    assert work(x, times=3).tolist() == [3, 3, 3]
    events, _ = profiled(torch, lambda: (work(x), work(x)))
    assert [event.name for event in top(events)] == ["marked", "marked"]
    assert all(event.is_user_annotation and event.scope == 7 for event in top(events))


def test_a_block_that_raises_is_closed(torch):
    def program():
        with pytest.raises(ValueError, match="on purpose"), torch.profiler.record_function("fails"):
            raise ValueError("on purpose")
        torch.ones(3)

    events, _ = profiled(torch, program)
    assert [event.name for event in top(events)] == ["fails", "aten::ones"]


def test_an_operator_that_raises_is_closed(torch):
    def program():
        with pytest.raises(RuntimeError):
            torch.mm(x, x)
        x.exp()

    x = torch.ones(2, 3)
    events, _ = profiled(torch, program)
    assert [event.name for event in top(events)] == ["aten::mm", "aten::exp"]


def test_one_block_object_can_be_entered_again(torch):
    block = torch.profiler.record_function("again")

    def program():
        with block:
            pass
        with block:
            pass

    events, _ = profiled(torch, program)
    assert [event.name for event in events] == ["again", "again"]


def test_blocks_do_nothing_without_a_profiler(torch):
    with torch.profiler.record_function("nobody looks"):
        assert torch.ones(2).sum().item() == 2
    with pytest.raises(AssertionError):
        torch.profiler.record_function("never entered").__exit__(None, None, None)


def test_a_node_is_one_event_in_one_of_the_engine(torch):
    x = leaf(torch, 3)
    y = (x * x).sum()
    events, _ = profiled(torch, y.backward)
    engine = [event for event in top(events) if event.name.startswith("autograd::engine::")]
    prefix = "autograd::engine::evaluate_function: "
    assert [event.name for event in engine] == [
        prefix + name for name in ("SumBackward0", "MulBackward0", "torch::autograd::AccumulateGrad")
    ]
    for event in engine:
        node = next(child for child in event.cpu_children if child.scope == 1)
        assert node.name == event.name.removeprefix(prefix)
        assert event.scope == 0


def test_what_a_node_computes_with_is_inside_it(torch):
    x = leaf(torch, 3)
    y = (x.exp() * 2.0).sum()
    events, _ = profiled(torch, y.backward)
    (node,) = named(events, "ExpBackward0")
    assert "aten::mul" in [child.name for child in node.cpu_children]


def test_hooks_run_inside_the_event_of_the_engine(torch):
    x = leaf(torch, 3)
    y = x.exp()
    y.register_hook(lambda grad: grad.sin())
    y.grad_fn.register_hook(lambda grad_inputs, grad_outputs: (grad_inputs[0].cos(),))
    events, _ = profiled(torch, lambda: y.sum().backward())
    (engine,) = named(events, "autograd::engine::evaluate_function: ExpBackward0")
    names = [child.name for child in engine.cpu_children]
    assert names.index("aten::sin") < names.index("ExpBackward0") < names.index("aten::cos")


def test_the_gradients_are_those_without_a_profiler(torch):
    def gradients():
        x = torch.linspace(-1, 1, 6).reshape(2, 3).requires_grad_()
        b = torch.ones(3, requires_grad=True)
        ((x * b).exp() + b).sum().backward()
        return x.grad.tolist(), b.grad.tolist()

    expected, found = gradients(), []
    profiled(torch, lambda: found.append(gradients()), record_shapes=True, profile_memory=True, with_stack=True)
    assert found == [expected]


def test_a_forward_call_and_its_node_have_the_same_number(torch):
    x = leaf(torch, 3)

    def program():
        (x.exp().cos() * 2.0).sum().backward()

    events, _ = profiled(torch, program)
    for operator, node in (("aten::exp", "ExpBackward0"), ("aten::cos", "CosBackward0"), ("aten::sum", "SumBackward0")):
        forward = next(event for event in events if event.name == operator)
        (backward,) = named(events, node)
        assert forward.sequence_nr == backward.sequence_nr >= 0
        assert (forward.fwd_thread or 0) == 0 and backward.fwd_thread == forward.thread
    numbers = [named(events, name)[0].sequence_nr for name in ("ExpBackward0", "CosBackward0", "SumBackward0")]
    assert numbers == sorted(set(numbers))


def test_what_is_not_recorded_has_no_number(torch):
    x = leaf(torch, 3)

    def program():
        with torch.no_grad():
            x.exp()
        x.sum().backward()

    events, _ = profiled(torch, program)
    assert named(events, "aten::exp")[0].sequence_nr == -1
    assert named(events, "torch::autograd::AccumulateGrad")[0].sequence_nr == -1
    assert all(event.sequence_nr == -1 for event in named(events, "aten::expand"))


def test_a_custom_function_has_the_name_of_its_class(torch):
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2.0

        @staticmethod
        def backward(ctx, grad):
            return grad * 2.0

    x = leaf(torch, 3)
    events, _ = profiled(torch, lambda: Twice.apply(x).sum().backward())
    (forward,) = named(events, "Twice")
    (backward,) = named(events, "TwiceBackward")
    assert forward.sequence_nr == backward.sequence_nr >= 0
    assert [child.name for child in forward.cpu_children] == ["aten::mul"]
    assert [child.name for child in backward.cpu_children] == ["aten::mul"]


def test_a_pass_with_several_roots_begins_at_a_node_of_its_own(torch):
    x = leaf(torch, 3)
    roots = [x.exp().sum(), x.cos().sum()]
    events, _ = profiled(torch, lambda: torch.autograd.backward(roots))
    assert len(named(events, "torch::autograd::GraphRoot")) == 1


def test_recorded_passes_number_what_they_compute(torch):
    x = leaf(torch, 3)

    def program():
        (grad,) = torch.autograd.grad((x * x * x).sum(), x, create_graph=True)
        grad.sum().backward()

    events, _ = profiled(torch, program)
    node = named(events, "MulBackward0")[0]
    inside = [child.sequence_nr for child in node.cpu_children if child.name == "aten::mul"]
    assert inside and min(inside) >= 0
    again = {event.sequence_nr for event in named(events, "MulBackward0")}
    assert set(inside) <= again


def test_shapes_and_values_of_arguments_are_kept_on_request(torch):
    a, b = torch.ones(3, 4), torch.ones(2, 4)
    events, _ = profiled(
        torch, lambda: (torch.cat([a, b]), torch.add(a, a, alpha=2), a.sum(0, keepdim=True)), record_shapes=True
    )
    cat, add, total = top(events)
    assert cat.input_shapes == [[], []] and cat.structured_input_shapes == [[[3, 4], [2, 4]], []]
    assert cat.concrete_inputs == [None, 0] and cat.input_dtypes == ["TensorList", "Scalar"]
    assert add.input_shapes == [[3, 4], [3, 4], []] and add.concrete_inputs == [None, None, 2]
    assert add.structured_input_strides == [[4, 1], [4, 1], []] and add.input_dtypes == ["float", "float", "Scalar"]
    assert total.concrete_inputs[1:3] == [[0], True]


def test_shapes_are_not_kept_unless_asked_for(torch):
    a = torch.ones(3, 4)
    events, _ = profiled(torch, lambda: a + a)
    assert events[0].input_shapes == []


def test_a_node_has_the_shapes_of_its_gradients(torch):
    x = leaf(torch, 2, 3)
    y = (x * 2.0).sum()
    events, _ = profiled(torch, y.backward, record_shapes=True)
    assert named(events, "SumBackward0")[0].input_shapes == [[]]
    assert named(events, "MulBackward0")[0].input_shapes == [[2, 3]]


def test_memory_of_results_is_counted(torch):
    x = torch.ones(10, 10)
    kept = []
    events, _ = profiled(torch, lambda: kept.append(x @ x), profile_memory=True)
    (matmul,) = top(events)
    assert (matmul.name, matmul.cpu_memory_usage, matmul.self_cpu_memory_usage) == ("aten::matmul", 400, 0)
    assert named(events, "aten::mm")[0].self_cpu_memory_usage == 400


def test_memory_that_is_freed_is_counted_against_what_runs_then(torch):
    x = torch.ones(10, 10)

    def program():
        with torch.profiler.record_function("block"):
            y = x.exp()
            del y
        z = x.cos()
        del z

    events, _ = profiled(torch, program, profile_memory=True)
    (block,) = named(events, "block")
    assert (block.cpu_memory_usage, block.self_cpu_memory_usage) == (0, -400)
    assert [event.cpu_memory_usage for event in named(events, "[memory]")] == [-400]
    assert sum(event.self_cpu_memory_usage for event in events) == 0


def test_views_and_writes_allocate_nothing(torch):
    x = torch.ones(10, 10)
    events, _ = profiled(torch, lambda: (x.t(), x.add_(x), x[1:]), profile_memory=True)
    assert [event.cpu_memory_usage for event in top(events)] == [0, 0, 0]


def test_floating_point_operations_are_estimated_on_request(torch):
    a, b = torch.ones(3, 4), torch.ones(4, 5)
    image, weight = torch.ones(2, 4, 8, 8), torch.ones(4, 2, 3, 3)

    def program():
        torch.mm(a, b)
        torch.addmm(torch.ones(5), a, b)
        a * a
        torch.ones(4) + a
        torch.nn.functional.conv2d(image, weight, groups=2, dilation=2)

    events, _ = profiled(torch, program, with_flops=True, record_shapes=True)
    found = {event.name: event.flops for event in top(events) if event.flops}
    assert found == {"aten::mm": 120, "aten::addmm": 120, "aten::mul": 12, "aten::add": 4, "aten::conv2d": 4608}


def test_optimizers_are_blocks(torch):
    parameter = torch.nn.Parameter(torch.ones(3))
    optimizer = torch.optim.SGD([parameter], lr=0.1)

    def closure():
        loss = parameter.exp().sum()
        loss.backward()
        return loss

    events, _ = profiled(torch, lambda: (optimizer.step(closure), optimizer.zero_grad()))
    step, zero = [event for event in top(events) if event.is_user_annotation]
    assert step.name == "Optimizer.step#SGD.step" and zero.name == "Optimizer.zero_grad#SGD.zero_grad"
    assert "aten::exp" in [child.name for child in step.cpu_children]


def test_other_threads_are_not_recorded(torch):
    def program():
        in_threads(lambda: torch.ones(3).exp())
        torch.ones(3).cos()

    events, _ = profiled(torch, program)
    assert [event.name for event in top(events)] == ["aten::ones", "aten::cos"]


def test_nothing_is_recorded_after_the_block(torch):
    events, prof = profiled(torch, lambda: torch.ones(3))
    count = len(events)
    torch.ones(3).exp()
    assert len(prof.events()) == count


def test_times_nest(torch):
    x = leaf(torch, 3)
    events, _ = profiled(torch, lambda: torch.nn.functional.cross_entropy(x[None], torch.tensor([1])).backward())
    for event in events:
        assert event.time_range.start <= event.time_range.end
        assert event.cpu_time_total == event.time_range.elapsed_us()
        assert event.self_cpu_time_total <= event.cpu_time_total
        if event.cpu_parent is not None:
            assert event.cpu_parent.time_range.start <= event.time_range.start
            assert event.time_range.end <= event.cpu_parent.time_range.end


def test_profiles_inside_modes_and_modes_inside_profiles(torch):
    x = torch.ones(3)

    def program():
        with torch.no_grad():
            x.exp()
        with torch.inference_mode():
            x.cos()

    with torch.no_grad():
        events, _ = profiled(torch, program)
    assert [event.name for event in top(events)] == ["aten::exp", "aten::cos"]
    assert torch.is_grad_enabled()


def test_stacks_lead_to_the_users_code(gradloom):
    x = leaf(gradloom, 3)

    def forward():
        return x.exp()

    events, prof = profiled(gradloom, lambda: forward().sum().backward(), with_stack=True)
    forward_stack = named(events, "aten::exp")[0].stack
    assert __file__ in forward_stack[0] and forward_stack[0].endswith(": forward")
    assert named(events, "ExpBackward0")[0].stack == forward_stack
    assert all("gradloom/tensor" not in entry for event in events for entry in event.stack)
    rows = prof.key_averages(group_by_stack_n=1).table()
    assert "Source Location" in rows and "forward" in rows


def test_overload_names_on_request(gradloom):
    class Config:
        capture_overload_names = True

    x = gradloom.ones(3)
    events, prof = profiled(gradloom, lambda: (x + x, x.sum()), experimental_config=Config())
    assert [(event.name, event.overload_name) for event in top(events)] == [("aten::add", "Tensor"), ("aten::sum", "")]
    assert "Overload Name" in prof.key_averages(group_by_overload_name=True).table()


def test_a_profile_inside_another_records_and_so_does_the_other(gradloom):
    x = gradloom.ones(3)
    with gradloom.profiler.profile() as outer:
        x.exp()
        with gradloom.profiler.profile() as inner:
            x.cos()
        x.sin()
    assert [event.name for event in inner.events()] == ["aten::cos"]
    assert [event.name for event in outer.events()] == ["aten::exp", "aten::cos", "aten::sin"]


def test_deep_passes_go_on_being_recorded_in_their_thread(gradloom):
    x = leaf(gradloom, 1)

    class Nested(gradloom.autograd.Function):
        @staticmethod
        def forward(ctx, value, depth):
            ctx.depth = depth
            return value * 1.0

        @staticmethod
        def backward(ctx, grad):
            if ctx.depth:
                with gradloom.enable_grad():
                    Nested.apply(x, ctx.depth - 1).sum().backward()
            return grad, None

    events, _ = profiled(gradloom, lambda: Nested.apply(x, 50).sum().backward())
    assert len(named(events, "NestedBackward")) == 51
    assert len({event.thread for event in events}) > 1


def test_nothing_is_left_behind(gradloom):
    from gradloom.dispatch.state import state

    profiled(gradloom, lambda: gradloom.ones(3), profile_memory=True)
    assert state.profiler is None and state.flags == 0
    with pytest.raises(ZeroDivisionError), gradloom.profiler.profile():
        raise ZeroDivisionError
    assert state.profiler is None and state.flags == 0


def test_blocks_want_texts(gradloom):
    with pytest.raises(TypeError, match="takes strings, got int"):
        gradloom.profiler.record_function(3)


def test_calls_within_vmap_are_recorded_and_go_on_being_so(gradloom):
    x = gradloom.ones(3, 2)
    prof = gradloom.profiler.profile()

    def function(row):
        prof.start()
        return (row * row).sum()

    gradloom.func.vmap(function)(x)
    x.exp()
    prof.stop()
    names = [event.name for event in top(prof.events())]
    assert names[:2] == ["aten::mul", "aten::sum"] and names[-1] == "aten::exp"


def test_profiles_and_dispatch_modes_see_the_same_calls(torch):
    from importlib import import_module

    modes = import_module(f"{torch.__name__}.utils._python_dispatch")
    seen = []

    class Noting(modes.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    x = torch.ones(3)
    prof = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])
    with Noting():
        prof.start()
        x.exp()
        prof.stop()
        x.cos()
    x.sin()
    assert seen == ["aten.exp.default", "aten.cos.default"]
    assert "aten::exp" in [event.name for event in prof.events()]
    assert "aten::cos" not in [event.name for event in prof.events()]


def test_errors_of_nodes_say_the_same_while_they_are_profiled(torch):
    def failure():
        x = torch.ones(3, requires_grad=True)
        y = x.exp()
        y.add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation") as caught:
            y.sum().backward()
        return str(caught.value), getattr(caught.value, "__notes__", None)

    expected, found = failure(), []
    events, _ = profiled(torch, lambda: found.append(failure()))
    assert found == [expected]
    assert named(events, "ExpBackward0")[0].cpu_parent.name == "autograd::engine::evaluate_function: ExpBackward0"


def test_hooks_that_fail_say_the_same_while_they_are_profiled(gradloom):
    def failure():
        x = gradloom.ones(3, requires_grad=True)
        y = x.exp()
        y.register_hook(lambda grad: grad[:1])
        with pytest.raises(RuntimeError) as caught:
            y.sum().backward()
        return str(caught.value), caught.value.__notes__

    expected, found = failure(), []
    profiled(gradloom, lambda: found.append(failure()))
    assert found == [expected] and "a hook of" in expected[1][0]


def test_operators_of_libraries_have_their_names_and_contain_what_they_call(torch):
    from importlib import import_module

    library = import_module(f"{torch.__name__}.library")

    def double(x: torch.Tensor) -> torch.Tensor:
        return x * 2.0

    double.__annotations__ = {"x": torch.Tensor, "return": torch.Tensor}
    operator = library.custom_op("profiled_lib::double", double, mutates_args=())
    x = leaf(torch, 3)
    operator.register_autograd(lambda ctx, grad: grad * 2.0)
    events, _ = profiled(torch, lambda: operator(x).sum().backward(), record_shapes=True)
    outer = top(events)[0]
    generated = torch.__name__ == "torch" and not pytorch_before("2.15")  # which names its autograd.Function instead
    name = "GeneratedBackwardFor_profiled_lib_double_default" if generated else "profiled_lib::double"
    assert (outer.name, outer.input_shapes) == (name, [[3]])
    assert "aten::mul" in [event.name for event in events if event.cpu_parent is not None]
    inner = next(event for event in events if event.name == "aten::mul")
    while inner.cpu_parent is not None:
        inner = inner.cpu_parent
    assert inner is outer


def test_operators_that_were_defined_have_the_name_of_their_namespace(gradloom):
    gradloom.ops.define(
        """
- func: profiled_double(Tensor self) -> Tensor
  kernel: self + self
""",
        """
- name: profiled_double(Tensor self) -> Tensor
  self: grad * 2
""",
    )
    x = leaf(gradloom, 3)
    events, _ = profiled(gradloom, lambda: gradloom.ops.user.profiled_double(x).sum().backward())
    assert events[0].name == "user::profiled_double"
    assert len(named(events, "ProfiledDoubleBackward0")) == 1
