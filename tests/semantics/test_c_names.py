"""The names of torch._C that existing code reaches for."""

from __future__ import annotations

from importlib import import_module

import pytest

from tests.waiting import in_threads


@pytest.fixture
def leaf(torch):
    return torch.ones(3, requires_grad=True)


class TestFunctions:
    def test_nodes_have_their_classes(self, torch, leaf):
        product = leaf * 2
        functions = torch._C._functions
        assert type(product.grad_fn) is functions.MulBackward0
        assert type(product.grad_fn.next_functions[0][0]) is functions.AccumulateGrad
        assert isinstance(product.grad_fn, torch.autograd.graph.Node)
        assert issubclass(functions.AccumulateGrad, torch.autograd.graph.Node)
        written = leaf.clone()
        written[0].mul_(2)
        assert type(written.grad_fn) is functions.CopySlices
        assert not hasattr(functions, "NoSuchBackward0")
        assert {"AccumulateGrad", "MulBackward0", "DelayedError", "UndefinedGrad", "Error"} <= set(dir(functions))

    def test_undefined_gradients_can_be_made(self, torch, leaf):
        found = torch._C._functions.UndefinedGrad()(leaf * 2)
        assert found.tolist() == [2, 2, 2]
        assert found.grad_fn.name() == "torch::autograd::UndefinedGradBackward"
        found.sum().backward()
        assert leaf.grad is None

    def test_an_undefined_gradient_meets_a_defined_one(self, torch, leaf):
        (torch._C._functions.UndefinedGrad()(leaf * 2) + leaf * 3).sum().backward()
        assert leaf.grad.tolist() == [3, 3, 3]

    def test_undefined_gradients_reach_hooks_as_none(self, torch, leaf):
        product = leaf * 2
        seen = []
        product.grad_fn.register_prehook(lambda grads: seen.append(grads))
        torch._C._functions.UndefinedGrad()(product).sum().backward()
        assert seen == [(None,)]

    def test_what_needs_no_gradient_gets_no_history(self, torch):
        assert torch._C._functions.UndefinedGrad()(torch.ones(2)).grad_fn is None
        assert torch._C._functions.DelayedError("no", 1)(torch.ones(2)).grad_fn is None

    def test_undefined_grad_takes_one_tensor(self, torch, leaf):
        undefined = torch._C._functions.UndefinedGrad()
        with pytest.raises(TypeError, match="expected 1 arguments, got 2"):
            undefined(leaf, leaf)
        with pytest.raises(TypeError, match="argument 0 is not a Variable"):
            undefined(3)

    def test_errors_can_wait_for_a_gradient(self, torch, leaf):
        found = torch._C._functions.DelayedError("not differentiable here", 1)(leaf * 2)
        assert found.tolist() == [2, 2, 2] and found.requires_grad
        assert type(found.grad_fn) is torch._C._functions.Error
        assert found.grad_fn.name() == "torch::autograd::Error"
        with pytest.raises(RuntimeError, match="not differentiable here"):
            found.sum().backward()

    def test_errors_wait_behind_several_tensors(self, torch, leaf):
        first, second = torch._C._functions.DelayedError("no", 2)(leaf, torch.zeros(2))
        assert first.grad_fn is second.grad_fn and second.requires_grad
        with pytest.raises(RuntimeError, match="no"):
            second.sum().backward()

    def test_delayed_errors_check_their_arguments(self, torch, leaf):
        delayed = torch._C._functions.DelayedError
        with pytest.raises(RuntimeError, match="Requires two arguments, got 0"):
            delayed()
        with pytest.raises(RuntimeError, match="argument 'msg' must be a string"):
            delayed(3, 1)
        with pytest.raises(TypeError, match="expected 2 arguments, got 1"):
            delayed("no", 2)(leaf)
        with pytest.raises(TypeError, match="argument 0 is not a Variable"):
            delayed("no", 1)(3)


class TestState:
    @pytest.mark.parametrize(
        "name, default",
        [("_fwd_grad_enabled", True), ("_view_replay_enabled", False), ("_multithreading_enabled", True)],
    )
    def test_what_is_set_is_told(self, torch, name, default):
        tell, change = getattr(torch._C, f"_is{name}"), getattr(torch._C, f"_set{name}")
        assert tell() is default
        change(not default)
        try:
            assert tell() is not default
            assert in_threads(tell) == [default]
        finally:
            change(default)

    def test_recording_is_switched(self, torch):
        torch._C._set_grad_enabled(False)
        try:
            assert not torch.is_grad_enabled() and not torch._C.is_grad_enabled()
        finally:
            torch._C._set_grad_enabled(True)
        with pytest.raises(TypeError, match="must be bool, not int"):
            torch._C._set_grad_enabled(1)

    def test_tangents_are_switched(self, torch):
        forward_ad = torch.autograd.forward_ad
        x, t = torch.tensor(2.0), torch.tensor(1.0)
        torch._C._set_fwd_grad_enabled(False)
        try:
            with forward_ad.dual_level():
                assert forward_ad.unpack_dual(forward_ad.make_dual(x, t) * 3).tangent is None
        finally:
            torch._C._set_fwd_grad_enabled(True)
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(x, t)
            assert forward_ad.unpack_dual(dual * 3).tangent.item() == 3
            with forward_ad._set_fwd_grad_enabled(False):
                assert not torch._C._is_fwd_grad_enabled()
                assert forward_ad.unpack_dual(dual * 3).tangent is None
            assert torch._C._is_fwd_grad_enabled()

    def test_inference_mode_is_a_block(self, torch):
        with torch._C._InferenceMode(True):
            assert torch._C.is_inference_mode_enabled()
        assert not torch._C.is_inference_mode_enabled()

    def test_anomaly_mode_is_switched(self, torch):
        torch._C.set_anomaly_enabled(True, False)
        try:
            assert torch._C.is_anomaly_enabled() and not torch._C.is_anomaly_check_nan_enabled()
        finally:
            torch._C.set_anomaly_enabled(False)

    def test_there_is_no_pass_and_no_trace(self, torch):
        assert torch._C._current_graph_task_id() == -1
        assert torch._C._current_autograd_node() is None
        assert torch._C._get_tracing_state() is None
        assert torch._C._autograd._get_current_graph_task_keep_graph() is True

    def test_a_pass_tells_whether_it_keeps_the_graph(self, torch, leaf):
        seen = []
        leaf.register_hook(lambda grad: seen.append(torch._C._autograd._get_current_graph_task_keep_graph()))
        leaf.sum().backward()
        leaf.sum().backward(retain_graph=True)
        assert seen == [False, True]

    def test_the_next_number_can_be_asked_for(self, torch, leaf):
        number = torch._C._autograd._get_sequence_nr()
        assert torch._C._autograd._get_sequence_nr() == number
        assert leaf.exp().grad_fn._sequence_nr() == number
        assert torch._C._autograd._get_sequence_nr() == number + 1

    def test_objects_are_kept_for_a_thread(self, torch):
        torch._C._stash_obj_in_tls("key of a test", [1])
        assert torch._C._is_key_in_tls("key of a test") and torch._C._get_obj_in_tls("key of a test") == [1]
        torch._C._remove_obj_from_tls("key of a test")
        assert not torch._C._is_key_in_tls("key of a test")
        with pytest.raises(RuntimeError):
            torch._C._get_obj_in_tls("key of a test")


class TestTensors:
    def test_whether_anything_requires_grad(self, torch, leaf):
        asked = torch._C._any_requires_grad
        assert asked(leaf) and asked(3, leaf) and asked(x=leaf) and asked([leaf], [1])
        assert not asked(torch.ones(1), 3)

    def test_weak_references_expire(self, torch):
        tensor = torch.ones(2)
        reference = torch._C._WeakTensorRef(tensor)
        assert not reference.expired()
        del tensor
        assert reference.expired()

    def test_a_graph_keeps_what_weak_references_see(self, torch, leaf):
        factor = torch.full((3,), 2.0)
        reference = torch._C._WeakTensorRef(factor)
        product = leaf * factor
        del factor
        assert not reference.expired()
        product.sum().backward()
        assert reference.expired()

    def test_versions_are_changed(self, torch):
        tensor = torch.ones(2)
        torch._C._increment_version((tensor,))
        torch._C._increment_version([tensor])
        assert tensor._version == 2
        torch._C._autograd._unsafe_set_version_counter((tensor,), (7,))
        assert tensor._version == 7
        with pytest.raises(TypeError, match="incompatible function arguments"):
            torch._C._autograd._unsafe_set_version_counter(tensor, 7)

    def test_a_version_that_is_put_back_hides_a_write(self, torch, leaf):
        factor = torch.full((3,), 2.0)
        product = leaf * factor
        version = factor._version
        factor.add_(1)
        torch._C._autograd._unsafe_set_version_counter((factor,), (version,))
        product.sum().backward()
        assert leaf.grad.tolist() == [3, 3, 3]

    def test_views_tell_how_they_came_to_be(self, torch, leaf):
        kinds, asked = torch._C._autograd.CreationMeta, torch._C._autograd._get_creation_meta
        base = leaf.clone()
        assert asked(base[0]) is kinds.DEFAULT or asked(base[0]) == kinds.DEFAULT
        assert asked(base.unbind()[0]) == kinds.MULTI_OUTPUT_NODE
        with torch.no_grad():
            assert asked(leaf.view(3)) == kinds.NO_GRAD_MODE
        with pytest.raises(RuntimeError, match="Expected meta != nullptr"):
            asked(leaf)
        assert {name: kind.value for name, kind in kinds.__members__.items()} == {
            "DEFAULT": 0,
            "IN_CUSTOM_FUNCTION": 1,
            "MULTI_OUTPUT_NODE": 2,
            "NO_GRAD_MODE": 3,
            "INFERENCE_MODE": 4,
        }

    def test_how_a_view_came_to_be_can_be_set(self, torch, leaf):
        view = leaf.clone()[0]
        kinds = torch._C._autograd.CreationMeta
        torch._C._autograd._set_creation_meta(view, kinds.NO_GRAD_MODE)
        with pytest.raises(RuntimeError, match="no_grad mode"):
            view.mul_(2)
        torch._C._autograd._set_creation_meta(view, kinds.DEFAULT)
        view.mul_(2)

    def test_saved_tensors_have_their_class(self, torch, leaf):
        saved = leaf.exp().grad_fn._raw_saved_result
        assert type(saved) is torch._C._autograd.SavedTensor
        with pytest.raises(RuntimeError, match="from Python is forbidden"):
            torch._C._autograd.SavedTensor()

    def test_input_metadata_has_its_class(self, torch, leaf):
        assert type(leaf.exp().grad_fn._input_metadata[0]) is torch._C._autograd._InputMetadata

    def test_data_is_told(self, torch, leaf):
        data = torch._C._autograd._get_data_attr(leaf)
        assert data.data_ptr() == leaf.data_ptr() and not data.requires_grad

    def test_types_are_pytorchs(self, torch, leaf):
        assert isinstance(leaf, torch._C.TensorBase) and issubclass(torch.Tensor, torch._C.TensorBase)
        assert torch._C.Size is torch.Size and torch._C.Generator is torch.Generator
        assert torch._C.device is torch.device and torch._C.dtype is torch.dtype
        assert torch._C.default_generator is torch.default_generator
        assert issubclass(torch.autograd.Function, torch._C._FunctionBase)
        assert isinstance(torch.autograd.Variable._execution_engine, torch._C._ImperativeEngine)
        assert issubclass(torch.autograd.Variable, torch._C._LegacyVariableBase)
        assert torch._C._has_storage(leaf)


class TestSavedTensorHooks:
    def test_they_can_be_pushed_and_popped(self, torch, leaf):
        names = torch._C._autograd
        packed = []
        names._push_saved_tensors_default_hooks(lambda t: packed.append(t) or t, lambda t: t)
        try:
            leaf.exp()
            assert len(packed) == 1 and len(names._top_saved_tensors_default_hooks(True)) == 2
        finally:
            names._pop_saved_tensors_default_hooks()
        leaf.exp()
        assert len(packed) == 1 and names._top_saved_tensors_default_hooks(True) is None
        with pytest.raises(RuntimeError):
            names._pop_saved_tensors_default_hooks()

    def test_they_can_be_refused(self, torch):
        names = torch._C._autograd
        assert names._saved_tensors_hooks_is_enabled()
        names._saved_tensors_hooks_disable("not now")
        try:
            assert not names._saved_tensors_hooks_is_enabled()
            assert names._saved_tensors_hooks_get_disabled_error_message() == "not now"
            with pytest.raises(RuntimeError, match="not now"):
                names._push_saved_tensors_default_hooks(lambda t: t, lambda t: t)
        finally:
            names._saved_tensors_hooks_enable()
        assert names._saved_tensors_hooks_get_disabled_error_message() is None


class TestProfiler:
    def test_its_enumerations_have_pytorchs_numbers(self, torch):
        names = torch._C._profiler
        assert names.ProfilerState.KINETO.value == 6 and names.ProfilerState.Disabled.value == 0
        assert names.RecordScope.USER_SCOPE.value == 7 and names.RecordScope.BACKWARD_FUNCTION.value == 1
        assert names.ActiveProfilerType.KINETO.value == 2
        assert names.ProfilerActivity is torch.profiler.ProfilerActivity
        assert {a.name: a.value for a in names.ProfilerActivity.__members__.values()} == {
            "CPU": 0,
            "XPU": 1,
            "CUDA": 2,
            "HPU": 3,
            "MTIA": 4,
            "PrivateUse1": 5,
        }

    def test_it_tells_whether_it_runs(self, torch):
        names, kinds = torch._C._autograd, torch._C._profiler.ActiveProfilerType
        assert not names._profiler_enabled() and names._profiler_type() == kinds.NONE
        with torch.profiler.profile():
            assert names._profiler_enabled() and names._profiler_type() == kinds.KINETO
        assert names.kineto_available() and torch.profiler.ProfilerActivity.CPU in names._supported_activities()

    def test_overloads_are_captured_on_request(self, torch):
        config = torch._C._profiler._ExperimentalConfig(capture_overload_names=True)
        x = torch.ones(3)
        with torch.profiler.profile(
            activities=[torch.profiler.ProfilerActivity.CPU], experimental_config=config
        ) as prof:
            x + x
        assert prof.events()[0].overload_name == "Tensor"
        with pytest.raises(TypeError):
            torch._C._profiler._ExperimentalConfig(no_such_option=True)

    def test_a_configuration_keeps_what_it_is_told(self, torch):
        names = torch._C._profiler
        names.ProfilerConfig(names.ProfilerState.KINETO, True, False, False, False, False, names._ExperimentalConfig())

    def test_quick_blocks_look_like_operators(self, torch):
        block = torch._C._profiler._RecordFunctionFast
        x = torch.ones(3)
        with block("nobody looks"):
            pass
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True) as prof:
            with block("bare"):
                pass
            with block("with values", [x, 2], {"k": 3}):
                x.exp()
        bare, valued, exp = prof.events()
        assert (bare.name, bare.scope, bare.is_user_annotation, bare.input_shapes) == ("bare", 0, False, [])
        assert valued.input_shapes == [[3], []] and valued.concrete_inputs == [None, 2]
        assert valued.kwinputs == {"k": 3} and exp.cpu_parent is valued

    def test_blocks_can_be_entered_by_a_function(self, torch):
        names = torch._C._autograd
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as prof:
            handle = names._record_function_with_args_enter("by function", 1)
            names._record_function_with_args_exit(handle)
        assert [event.name for event in prof.events()] == ["by function"]


class TestFunctorch:
    def test_tensors_within_vmap_are_batched(self, torch):
        names, x = torch._C._functorch, torch.arange(6.0).reshape(3, 2)
        seen = []

        def look(row):
            seen.append(
                (
                    names.is_batchedtensor(row),
                    names.is_functorch_wrapped_tensor(row),
                    names.maybe_get_level(row),
                    names.maybe_get_bdim(row),
                    names.maybe_current_level(),
                    names.current_level(),
                    names.get_dynamic_layer_stack_depth(),
                    names.get_unwrapped(row).tolist(),
                    names.is_gradtrackingtensor(row),
                )
            )
            return row.sum()

        torch.func.vmap(look)(x)
        assert seen == [(True, True, 1, 0, 1, 1, 1, x.tolist(), False)]

    def test_levels_are_counted_from_the_outside(self, torch):
        names, x = torch._C._functorch, torch.ones(2, 3, 4)
        seen = []

        def look(row):
            outer = names.get_unwrapped(row)
            seen.append(
                (
                    names.maybe_get_level(row),
                    names.maybe_get_level(outer),
                    tuple(outer.shape),
                    tuple(names.get_unwrapped(outer).shape),
                )
            )
            return row.sum()

        torch.func.vmap(torch.func.vmap(look))(x)
        assert seen == [(2, 1, (3, 4), (2, 3, 4))]

    def test_tensors_elsewhere_are_not(self, torch, leaf):
        names = torch._C._functorch
        assert not names.is_batchedtensor(leaf) and not names.is_functorch_wrapped_tensor(leaf)
        assert names.maybe_get_level(leaf) == names.maybe_get_bdim(leaf) == -1
        assert names.maybe_current_level() is None and names.get_dynamic_layer_stack_depth() == 0
        with pytest.raises(RuntimeError, match="No wrappers present"):
            names.get_unwrapped(leaf)
        with pytest.raises(RuntimeError):
            names.current_level()


class TestOperators:
    def test_operators_are_found_by_their_modules(self, torch, leaf):
        assert torch._C._VariableFunctions.rsub(leaf, 1).tolist() == [0, 0, 0]
        assert torch._C._nn.gelu(leaf).shape == (3,)
        assert torch._C._linalg.linalg_vector_norm(torch.tensor([3.0, 4.0])).item() == 5
        assert torch._C._fft.fft_rfft(torch.ones(4))[0].real.item() == 4
        assert torch._C._special.special_entr(torch.tensor(1.0)).item() == 0
        for place in (torch._C._VariableFunctions, torch._C._nn, torch._C._special):
            assert not hasattr(place, "no_such_operator")

    def test_what_a_module_was_asked_to_become(self, torch, leaf):
        parsed = torch._C._nn._parse_to
        assert parsed(torch.float64) == (None, torch.float64, False, None)
        assert parsed("cpu", torch.float32, non_blocking=True) == (torch.device("cpu"), torch.float32, True, None)
        assert parsed(leaf) == (torch.device("cpu"), torch.float32, False, None)

    def test_docstrings_are_added_once(self, gradloom):
        def function():
            pass

        assert gradloom._C._add_docstr(function, "What it does.") is function
        assert function.__doc__ == "What it does."
        with pytest.raises(RuntimeError, match="already has a docstring"):
            gradloom._C._add_docstr(function, "Something else.")

    def test_names_without_a_meaning_are_not_there(self, torch):
        assert not hasattr(torch._C, "_no_such_name") and not hasattr(torch._C._autograd, "_no_such_name")
        assert torch._C._log_api_usage_once("a test") is None
        assert torch._C._get_privateuse1_backend_name() == "privateuseone"


def test_whether_an_argument_answers_functions_is_asked_under_the_inner_names_too(torch):
    class Duck:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return "answered"

    plain, duck = torch.ones(1), Duck()
    assert torch._C._has_torch_function((plain, duck)) and not torch._C._has_torch_function((plain,))
    assert torch._C._has_torch_function_unary(duck) and not torch._C._has_torch_function_unary(plain)
    assert torch._C._has_torch_function_variadic(plain, duck) and not torch._C._has_torch_function_variadic(plain)


def test_the_operators_are_reached_from_the_module_of_their_classes(torch):
    assert import_module(f"{torch.__name__}._ops").ops.aten.mul.Tensor is torch.ops.aten.mul.Tensor


def test_weak_references_are_to_tensors(gradloom):
    with pytest.raises(TypeError, match="takes a Tensor, but got int"):
        gradloom._C._WeakTensorRef(3)


def test_a_missing_name_says_why(gradloom):
    with pytest.raises(AttributeError, match="has no C\\+\\+ core"):
        gradloom._C._cuda_init  # noqa: B018
    with pytest.raises(AttributeError, match="no operator here has a node of that name"):
        gradloom._C._functions.CudnnRnnBackward0  # noqa: B018


def test_all_names_that_are_listed_are_there(gradloom):
    for place in (
        gradloom._C,
        gradloom._C._autograd,
        gradloom._C._functions,
        gradloom._C._functorch,
        gradloom._C._profiler,
    ):
        for name in dir(place):
            getattr(place, name)


def test_the_order_of_execution_is_told_within_a_pass_of_one_thread(torch):
    order = torch._C._current_graph_task_execution_order
    with pytest.raises(RuntimeError, match="should only be called during the backward pass"):
        order()
    for multithreading in (True, False):
        found, x = [], torch.ones(2, requires_grad=True)
        y = (x * 2).sum()

        def hook(grad, found=found):
            try:
                found.extend(node.name() for node in order())
            except RuntimeError as error:
                found.append(str(error))

        y.grad_fn.register_prehook(lambda grads, hook=hook: hook(grads))
        with torch.autograd.set_multithreading_enabled(multithreading):
            y.backward()
        if multithreading:
            assert len(found) == 1 and "multithreading disabled" in found[0]
        else:
            assert found[-2:] == ["MulBackward0", "torch::autograd::AccumulateGrad"]
