"""What nodes keep for backward: versions, pack and unpack hooks, handles, lifetimes.

Every handle (`_raw_saved_*`) here is used while its node is alive: PyTorch's own dangle after that.
"""

import gc
import weakref
from importlib import import_module

import pytest

from tests.waiting import in_threads


@pytest.fixture
def graph(torch):
    return import_module(f"{torch.__name__}.autograd.graph")


@pytest.fixture
def x(torch):
    return torch.tensor([1.0, 2.0], requires_grad=True)


def same(thing):
    return thing


class Log(list):
    """Hooks that keep the tensor and note that they were called."""

    def __init__(self, name=""):
        super().__init__()
        self.name = name

    def pack(self, tensor):
        self.append(f"pack {self.name}".strip())
        return tensor

    def unpack(self, packed):
        self.append(f"unpack {self.name}".strip())
        return packed


# --- default hooks --------------------------------------------------------------------------------


def test_every_saved_tensor_goes_through_the_hooks(graph, x):
    log = Log()
    with graph.saved_tensors_hooks(log.pack, log.unpack):
        z = (x * x).exp()
    assert log == ["pack"] * 3
    z.sum().backward()
    assert log == ["pack"] * 3 + ["unpack"] * 3
    assert x.grad.tolist() == pytest.approx([2 * 2.7182817, 4 * 54.59815], rel=1e-5)


def test_the_hooks_may_keep_anything(torch, graph, x):
    with graph.saved_tensors_hooks(lambda t: t.tolist(), torch.tensor):
        y = (x**3).sum()
    y.backward()
    assert x.grad.tolist() == [3.0, 12.0]


def test_what_the_hooks_change_backward_sees(graph, x):
    with graph.saved_tensors_hooks(lambda t: t * 10, same):
        y = (x * x).sum()
    y.backward()
    assert x.grad.tolist() == [20.0, 40.0]


def test_of_nested_hooks_the_innermost_are_called(graph, x):
    outer, inner = Log("outer"), Log("inner")
    with graph.saved_tensors_hooks(outer.pack, outer.unpack):
        a = x.exp()
        with graph.saved_tensors_hooks(inner.pack, inner.unpack):
            b = x.exp()
        c = x.exp()
    assert (outer, inner) == (["pack outer"] * 2, ["pack inner"])
    (a + b + c).sum().backward()
    assert (len(outer), len(inner)) == (4, 2)


def test_the_hooks_belong_to_the_block_also_when_it_raises(graph, x):
    log = Log()
    with pytest.raises(KeyError), graph.saved_tensors_hooks(log.pack, log.unpack):
        raise KeyError
    x.exp()
    assert log == []


def test_the_hooks_belong_to_the_thread(graph, x):
    log = Log()
    with graph.saved_tensors_hooks(log.pack, log.unpack):
        in_threads(x.exp)
    assert log == []


def test_nothing_is_packed_where_nothing_is_saved(torch, graph, x):
    log = Log()
    with graph.saved_tensors_hooks(log.pack, log.unpack):
        x.detach().exp()
        x + 1
        with torch.no_grad():
            x.exp()
    assert log == []


def test_python_numbers_do_not_reach_the_hooks(graph, x):
    log = Log()
    with graph.saved_tensors_hooks(log.pack, log.unpack):
        (x * 3).sum().backward()
    assert log == []


def test_the_pack_hook_gets_inputs_themselves(graph, x):
    seen = []
    y = x * 2
    with graph.saved_tensors_hooks(lambda t: seen.append(t) or t, same):
        x * x
        y * y
    assert seen[0] is x and seen[1] is x
    assert seen[2] is y and seen[3] is y


def test_the_pack_hook_gets_outputs_with_their_node(graph, x):
    seen = []
    with graph.saved_tensors_hooks(lambda t: seen.append((t.requires_grad, type(t.grad_fn).__name__)) or t, same):
        x.exp()
    assert seen == [(True, "ExpBackward0")]


def test_hooks_record_nothing(torch, graph, x):
    modes = []

    def pack(tensor):
        modes.append((torch.is_grad_enabled(), (tensor * 2).requires_grad))
        return tensor

    def unpack(packed):
        modes.append(torch.is_grad_enabled())
        return packed

    with graph.saved_tensors_hooks(pack, unpack):
        y = x.exp()
    y.sum().backward()
    assert modes == [(False, False), False]


def test_parameters_can_be_told_from_other_tensors(torch, graph):
    kinds = []
    weight = torch.nn.Parameter(torch.ones(2))
    with graph.saved_tensors_hooks(lambda t: kinds.append(isinstance(t, torch.nn.Parameter)) or t, same):
        (weight * torch.ones(2, requires_grad=True)).sum().backward()
    assert sorted(set(kinds)) == [False, True]


def test_a_view_that_was_packed_keeps_its_history(graph, x):
    v = x.view(2, 1)
    with graph.saved_tensors_hooks(lambda t: t.clone(), same):
        y = v * v
    assert type(y.grad_fn._saved_self.grad_fn).__name__ == "ViewBackward0"
    assert not y.grad_fn._saved_self._is_view()
    y.sum().backward()
    assert x.grad.tolist() == [2.0, 4.0]


# --- what hooks must not do -----------------------------------------------------------------------


def test_a_pack_hook_that_writes_to_its_argument_is_refused(graph, x):
    y = x * 1
    with (
        graph.saved_tensors_hooks(lambda t: t.mul_(2), same),
        pytest.raises(RuntimeError, match="A saved tensor pack hook is modifying its input in place"),
    ):
        y * y
    with (
        graph.saved_tensors_hooks(lambda t: t.detach().zero_(), same),
        pytest.raises(RuntimeError, match="pack hook cannot be modified by in-place operations"),
    ):
        y.exp()


@pytest.mark.parametrize("found, kind", [(7, "int"), (None, "NoneType"), ("text", "str")])
def test_an_unpack_hook_that_gives_no_tensor_is_refused(graph, x, found, kind):
    with graph.saved_tensors_hooks(same, lambda packed: found):
        y = x.exp()
    with pytest.raises(
        TypeError, match=f"Output of saved tensor unpack_hook expected to be a Tensor but got result of type {kind}"
    ):
        y.sum().backward()


@pytest.mark.parametrize("function", ["exp", "sigmoid", "square"])
def test_an_unpack_hook_that_gives_another_size_is_an_error_of_the_formula(torch, graph, x, function):
    with graph.saved_tensors_hooks(same, lambda packed: torch.ones(5)):
        y = getattr(x, function)()
    with pytest.raises(RuntimeError, match=r"The size of tensor a \(\d\) must match the size of tensor b \(\d\)|size"):
        y.sum().backward()


def test_hooks_must_be_callable(graph, x):
    with pytest.raises(TypeError, match="incompatible function arguments"), graph.saved_tensors_hooks(3, same):
        x.exp()
    with pytest.raises(TypeError, match="incompatible function arguments"), graph.saved_tensors_hooks(same, None):
        x.exp()
    x.exp().sum().backward()


def test_exceptions_of_hooks_arrive_as_they_are(graph, x):
    def fails(tensor):
        raise KeyError("mine")

    with graph.saved_tensors_hooks(fails, same), pytest.raises(KeyError, match="mine"):
        x.exp()
    with graph.saved_tensors_hooks(same, fails):
        y = x.exp()
    with pytest.raises(KeyError, match="mine"):
        y.sum().backward()
    x.exp().sum().backward()


# --- disabled -------------------------------------------------------------------------------------


def test_disabled_hooks_raise_the_given_message(graph, x):
    with graph.disable_saved_tensors_hooks("not here"):
        with pytest.raises(RuntimeError, match="^not here$"), graph.saved_tensors_hooks(same, same):
            x.exp()
        with graph.disable_saved_tensors_hooks("nor here"):
            with pytest.raises(RuntimeError, match="^nor here$"), graph.saved_tensors_hooks(same, same):
                pass
        with pytest.raises(RuntimeError, match="^not here$"), graph.saved_tensors_hooks(same, same):
            pass
    with graph.saved_tensors_hooks(same, same):
        x.exp()


def test_disabling_while_hooks_are_in_force_raises(graph):
    with graph.saved_tensors_hooks(same, same), pytest.raises(RuntimeError, match="^too late$"):
        with graph.disable_saved_tensors_hooks("too late"):
            pass
    with graph.saved_tensors_hooks(same, same):
        pass


def test_disabling_works_as_a_decorator(graph):
    @graph.disable_saved_tensors_hooks("not here")
    def use():
        with graph.saved_tensors_hooks(same, same):
            pass

    with pytest.raises(RuntimeError, match="^not here$"):
        use()
    with graph.saved_tensors_hooks(same, same):
        pass


def test_hooks_on_one_tensor_are_allowed_where_default_hooks_are_disabled(graph, x):
    with graph.disable_saved_tensors_hooks("not here"):
        y = x.exp()
        y.grad_fn._raw_saved_result.register_hooks(same, same)
    y.sum().backward()


# --- save_on_cpu ----------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"device_type": "cpu"}])
def test_save_on_cpu_leaves_gradients_as_they_are(graph, x, options):
    with graph.save_on_cpu(**options):
        y = (x.exp() * x).sum()
    y.backward()
    assert x.grad.tolist() == pytest.approx([2 * 2.7182817, 3 * 7.389056], rel=1e-5)


# --- one tensor -----------------------------------------------------------------------------------


def test_hooks_can_be_put_on_one_saved_tensor(graph, x):
    y = x.exp()
    handle = y.grad_fn._raw_saved_result
    assert type(handle).__name__ == "SavedTensor"
    handle.register_hooks(lambda t: t * 2, lambda t: t * 5)
    assert y.grad_fn._saved_result.tolist() == pytest.approx([27.18281, 73.89056], rel=1e-5)
    assert y.grad_fn._saved_result.grad_fn is y.grad_fn
    y.sum().backward()
    assert x.grad.tolist() == pytest.approx([27.18281, 73.89056], rel=1e-5)


def test_a_handle_shows_what_is_kept(graph, x):
    y = x * x
    handle = y.grad_fn._raw_saved_self
    assert handle.data is x and handle.unpack_hook is None
    unpack = handle.register_hooks(lambda t: "packed", lambda packed: x.detach()) or handle.unpack_hook
    assert handle.data == "packed" and callable(unpack)
    z = x.exp()
    result = z.grad_fn._raw_saved_result
    assert result.data.grad_fn is None and not result.data.requires_grad


def test_a_handle_unpacks(graph, x):
    y = x * x
    assert y.grad_fn._raw_saved_self.unpack() is x
    z = x * 2
    assert z.grad_fn._raw_saved_self.unpack() is None


def test_hooks_of_one_tensor_get_inputs_without_history(graph, x):
    seen = []
    y = x * 2
    z = y * y
    z.grad_fn._raw_saved_self.register_hooks(lambda t: seen.append((t is y, t.requires_grad)) or t, same)
    assert seen == [(False, False)]
    assert z.grad_fn._saved_self.grad_fn is y.grad_fn


def test_a_second_pair_of_hooks_on_one_tensor_is_refused(graph, x):
    y = x.exp()
    handle = y.grad_fn._raw_saved_result
    handle.register_hooks(same, same)
    with pytest.raises(RuntimeError, match="on a saved tensor whose hooks have already been set"):
        handle.register_hooks(same, same)
    with graph.saved_tensors_hooks(same, same):
        y = x.exp()
    with pytest.raises(RuntimeError, match="only one pair of hooks is allowed at a time"):
        y.grad_fn._raw_saved_result.register_hooks(same, same)


def test_hooks_on_an_undefined_tensor_are_refused(x):
    y = x * 2
    handle = y.grad_fn._raw_saved_self
    with pytest.raises(RuntimeError, match="Calling register_hooks on a saved tensor with value None is forbidden"):
        handle.register_hooks(same, same)


def test_hooks_on_a_freed_tensor_are_refused(x):
    y = x.exp()
    y.sum().backward()
    handle = y.grad_fn._raw_saved_result
    assert handle.data is None
    with pytest.raises(RuntimeError, match="Calling register_hooks on a saved tensor after it has been freed"):
        handle.register_hooks(same, same)


def test_hooks_of_one_tensor_must_be_callable_and_not_write(x):
    y = x.exp()
    handle = y.grad_fn._raw_saved_result
    with pytest.raises(TypeError, match="incompatible function arguments"):
        handle.register_hooks(1, same)
    with pytest.raises(RuntimeError, match="A saved tensor pack hook is modifying its input in place"):
        handle.register_hooks(lambda t: t.mul_(2), same)


def test_handles_are_made_by_nodes_only(x):
    y = x.exp()
    with pytest.raises(RuntimeError, match="Trying to create a SavedTensor object from Python is forbidden"):
        type(y.grad_fn._raw_saved_result)()


def test_a_saved_list_has_a_handle_for_each_tensor(torch, x):
    y = torch.index_put(x, (torch.tensor([0]),), torch.tensor([3.0]))
    (first,) = y.grad_fn._raw_saved_indices
    seen = []
    first.register_hooks(lambda t: seen.append("pack") or t, lambda t: seen.append("unpack") or t)
    y.sum().backward()
    assert seen == ["pack", "unpack"]
    assert x.grad.tolist() == [0.0, 1.0]


def test_what_was_freed_cannot_be_read(x):
    y = x.exp()
    y.sum().backward()
    with pytest.raises(RuntimeError, match="after they have already been freed"):
        y.grad_fn._saved_result  # noqa: B018
    assert type(y.grad_fn._raw_saved_result).__name__ == "SavedTensor"


def test_retain_graph_keeps_what_hooks_packed(graph, x):
    log = Log()
    with graph.saved_tensors_hooks(log.pack, log.unpack):
        y = x.exp().sum()
    y.backward(retain_graph=True)
    y.backward()
    assert log == ["pack", "unpack", "unpack"]
    with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
        y.backward()


# --- saved tensors and derivatives of higher order ------------------------------------------------


def test_an_unpacked_leaf_is_a_leaf_whose_gradient_goes_to_the_original(torch, graph, x):
    with graph.saved_tensors_hooks(lambda t: t.detach().clone(), same):
        y = x * x
    saved = y.grad_fn._saved_self
    assert saved is not x and saved.is_leaf and saved.requires_grad
    (saved * 3).sum().backward()
    assert x.grad.tolist() == [3.0, 3.0] and saved.grad is None


def test_an_unpacked_result_has_the_history_of_the_original(graph, x):
    y = x * 2
    with graph.saved_tensors_hooks(lambda t: t.detach().clone(), same):
        z = y * y
    assert z.grad_fn._saved_self.grad_fn is y.grad_fn


def test_what_required_no_gradient_requires_none_when_unpacked(torch, graph, x):
    other = torch.ones(2)
    with graph.saved_tensors_hooks(lambda t: t.clone(), same):
        y = x * other
    assert not y.grad_fn._saved_other.requires_grad


@pytest.mark.parametrize("function", ["exp", "tanh", "sigmoid", "square"])
def test_third_derivatives_go_through_unpacked_tensors(torch, graph, x, function):
    def derivatives():
        y = getattr(x, function)().sum()
        found = []
        for _ in range(3):
            (y,) = torch.autograd.grad(y.sum(), x, create_graph=True)
            found.append(y.tolist())
            if not y.requires_grad:
                break
        return found

    expected = derivatives()
    with graph.saved_tensors_hooks(lambda t: t.detach().tolist(), torch.tensor):
        assert derivatives() == expected


def test_a_backward_pass_with_create_graph_packs_too(torch, graph, x):
    y = (x**3).sum()
    log = Log()
    with graph.saved_tensors_hooks(log.pack, log.unpack):
        torch.autograd.grad(y, x, create_graph=True)
    assert log and set(log) == {"pack"}


# --- custom functions -----------------------------------------------------------------------------


def saves_all(torch):
    class SavesAll(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            inner = a * 2
            result = a * 3
            ctx.save_for_backward(a, inner, result, None)
            return result

        @staticmethod
        def backward(ctx, grad):
            ctx.seen.append(ctx.saved_tensors)
            return grad * ctx.saved_tensors[0]

    return SavesAll


def test_save_for_backward_goes_through_the_hooks(torch, graph, x):
    log = Log()
    with graph.saved_tensors_hooks(log.pack, log.unpack):
        y = saves_all(torch).apply(x)
    assert log == ["pack"] * 3
    y.grad_fn.seen = seen = []
    y.sum().backward()
    ((a, inner, result, none),) = seen
    assert a.tolist() == [1.0, 2.0] and a.requires_grad and a.is_leaf
    assert inner.tolist() == [2.0, 4.0] and not inner.requires_grad
    assert result.tolist() == [3.0, 6.0] and result.grad_fn is y.grad_fn
    assert none is None
    assert x.grad.tolist() == [1.0, 2.0]


def test_without_hooks_save_for_backward_gives_inputs_themselves(torch, x):
    y = saves_all(torch).apply(x)
    y.grad_fn.seen = seen = []
    y.sum().backward()
    a, inner, result, none = seen[0]
    assert a is x
    assert not inner.requires_grad
    assert result is not y and result.grad_fn is y.grad_fn


def test_a_custom_function_has_handles_on_its_saved_tensors(torch, x):
    y = saves_all(torch).apply(x)
    handles = y.grad_fn._raw_saved_tensors
    assert [type(h).__name__ for h in handles] == ["SavedTensor"] * 4
    handles[0].register_hooks(lambda t: t * 10, same)
    with pytest.raises(RuntimeError, match="with value None is forbidden"):
        handles[3].register_hooks(same, same)
    y.grad_fn.seen = []
    y.sum().backward()
    assert x.grad.tolist() == [10.0, 20.0]
    with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
        y.grad_fn._raw_saved_tensors  # noqa: B018


def test_a_custom_function_that_records_nothing_packs_nothing(torch, graph, x):
    log = Log()
    with graph.saved_tensors_hooks(log.pack, log.unpack):
        saves_all(torch).apply(x.detach())
        with torch.no_grad():
            saves_all(torch).apply(x)
    assert log == []


# --- versions -------------------------------------------------------------------------------------


MODIFIED = "one of the variables needed for gradient computation has been modified by an inplace operation"


def test_a_write_to_a_saved_input_is_found(x):
    y = x * 1
    z = y * y
    y.add_(1)
    with pytest.raises(
        RuntimeError,
        match=rf"{MODIFIED}: \[torch.FloatTensor \[2\]\], which is output 0 of "
        r"Add, is at version 1; expected version 0 instead",
    ):
        z.sum().backward()


def test_a_write_to_a_saved_output_is_found(x):
    y = x.exp()
    y.add_(1)
    with pytest.raises(RuntimeError, match=r"which is output 0 of Exp, is at version 1; expected version 0 instead"):
        y.sum().backward()


def test_a_write_to_a_tensor_without_history_is_found(torch, x):
    other = torch.ones(2, dtype=torch.float32)
    y = x * other
    other.mul_(2)
    with pytest.raises(RuntimeError, match=rf"{MODIFIED}: \[torch.FloatTensor \[2\]\] is at version 1; "):
        y.sum().backward()


def test_the_version_at_the_time_of_saving_counts(x):
    y = x * 1
    y.sigmoid_()
    z = y * y
    y.add_(1)
    with pytest.raises(RuntimeError, match="is at version 2; expected version 1 instead"):
        z.sum().backward()


def test_reading_a_saved_tensor_that_was_written_to_raises(x):
    y = x * 1
    z = y * y
    y.add_(1)
    with pytest.raises(RuntimeError, match=MODIFIED):
        z.grad_fn._saved_self  # noqa: B018


def test_writes_through_views_and_detached_tensors_are_found(torch, x):
    for write in (lambda y: y[0].zero_(), lambda y: y.detach().zero_(), lambda y: y.view(2, 1).t().mul_(2)):
        y = x * 1
        z = y * y
        write(y)
        with pytest.raises(RuntimeError, match=MODIFIED):
            z.sum().backward()


def test_writes_through_data_are_not_found(x):
    y = x * 1
    z = y * y
    y.data.mul_(2)
    z.sum().backward()
    assert x.grad.tolist() == [4.0, 8.0]


def test_the_optimizer_between_two_passes_is_found(torch):
    weight = torch.nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    loss = (weight * weight).sum()
    loss.backward(retain_graph=True)
    optimizer.step()
    with pytest.raises(RuntimeError, match=MODIFIED):
        loss.backward()


def test_tensors_kept_by_hooks_are_not_checked(graph, x):
    y = x * 1
    with graph.saved_tensors_hooks(lambda t: t.clone(), same):
        z = y * y
    y.mul_(100)
    z.sum().backward()
    assert x.grad.tolist() == [2.0, 4.0]


def test_a_saved_tensor_whose_data_was_replaced_by_another_size_is_an_error(torch, x):
    other = torch.ones(2)
    y = x * other
    other.data = torch.ones(5)
    with pytest.raises(RuntimeError, match=r"The size of tensor a \(2\) must match the size of tensor b \(5\)"):
        y.sum().backward()


# --- allow_mutation_on_saved_tensors --------------------------------------------------------------


def test_saved_tensors_may_be_written_to_in_the_block(torch, graph):
    with graph.allow_mutation_on_saved_tensors():
        a = torch.ones(2, requires_grad=True)
        b = a.clone()
        out = (b**2).sum()
        b.sin_()
        out.backward()
    assert a.grad.tolist() == [2.0, 2.0]


def test_each_saved_version_is_kept(torch, graph):
    with graph.allow_mutation_on_saved_tensors():
        a = torch.tensor([2.0], requires_grad=True)
        b = a.clone()
        first = b * b
        b.mul_(3)
        second = b * b
        b.zero_()
        (first + second).sum().backward()
    assert a.grad.tolist() == [4.0 + 2 * 6.0 * 3]


def test_a_write_to_a_view_of_a_saved_tensor_is_allowed(torch, graph):
    with graph.allow_mutation_on_saved_tensors():
        a = torch.tensor([2.0, 3.0], requires_grad=True)
        b = a.clone()
        out = (b[:1] * b[1:]).sum()
        b[0] = 100.0
        out.backward()
    assert a.grad.tolist() == [3.0, 2.0]


def test_a_parameter_may_be_stepped_between_forward_and_backward(torch, graph):
    with graph.allow_mutation_on_saved_tensors():
        weight = torch.nn.Parameter(torch.tensor([2.0]))
        loss = (weight * weight).sum()
        with torch.no_grad():
            weight.fill_(100.0)
        loss.backward()
    assert weight.grad.tolist() == [4.0]


def test_second_derivatives_in_the_block(torch, graph):
    with graph.allow_mutation_on_saved_tensors():
        a = torch.tensor([2.0], requires_grad=True)
        b = a.clone()
        out = (b**3).sum()
        b.zero_()
        (first,) = torch.autograd.grad(out, a, create_graph=True)
        (second,) = torch.autograd.grad(first.sum(), a)
    assert (first.tolist(), second.tolist()) == ([12.0], [12.0])


def test_backward_after_the_block_is_refused(torch, graph):
    with graph.allow_mutation_on_saved_tensors():
        a = torch.ones(2, requires_grad=True)
        out = (a.clone() ** 2).sum()
    with pytest.raises(AssertionError, match="Trying to backward outside of the 'allow_mutation_on_saved_tensors'"):
        out.backward()


def test_clear_gives_the_copies_up(torch, graph):
    with graph.allow_mutation_on_saved_tensors() as context:
        a = torch.ones(2, requires_grad=True)
        b = a.clone()
        out = (b**2).sum()
        b.sin_()
        context.clear()
        with pytest.raises(AssertionError, match="Trying to backward outside"):
            out.backward()


def test_leaves_that_require_grad_may_still_not_be_written_to(torch, graph):
    with graph.allow_mutation_on_saved_tensors():
        a = torch.ones(2, requires_grad=True)
        with pytest.raises(RuntimeError, match="a leaf Variable that requires grad is being used in an in-place"):
            a.mul_(2)


def test_tensors_saved_before_the_block_are_still_checked(torch, graph):
    a = torch.ones(2, requires_grad=True)
    b = a.clone()
    out = (b**2).sum()
    with graph.allow_mutation_on_saved_tensors():
        b.sin_()
        with pytest.raises(RuntimeError, match=MODIFIED):
            out.backward()


def test_such_blocks_do_not_nest(gradloom):  # in PyTorch the refused block stays in force
    graph = import_module("gradloom.autograd.graph")
    with graph.allow_mutation_on_saved_tensors():
        with pytest.raises(RuntimeError, match="allow_mutation_on_saved_tensors contexts cannot be nested"):
            with graph.allow_mutation_on_saved_tensors():
                pass
    with graph.allow_mutation_on_saved_tensors():
        pass


def test_a_tensor_that_many_nodes_save_is_copied_once(gradloom):
    graph = import_module("gradloom.autograd.graph")
    x = gradloom.ones(1000, requires_grad=True)
    with graph.allow_mutation_on_saved_tensors():
        products = [x * x for _ in range(5)]
        kept = {id(p.grad_fn._raw_saved_self.data) for p in products}
        kept |= {id(p.grad_fn._raw_saved_other.data) for p in products}
        assert len(kept) == 1


# --- lifetimes ------------------------------------------------------------------------------------


@pytest.fixture
def no_collector():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize("function", ["exp", "square", "sigmoid", "cumsum"])
def test_a_graph_is_freed_with_its_result(torch, no_collector, function):
    x = torch.ones(3, requires_grad=True)
    y = getattr(x, function)(*[0] * (function == "cumsum"))
    result = weakref.ref(y)
    del y
    assert result() is None


def test_a_saved_output_lives_no_longer_than_its_graph(graph, no_collector, x):
    y = x.exp()
    gone = []
    weakref.finalize(y, gone.append, True)
    z = y.sum()
    del y
    assert gone, "the node keeps the values, not the tensor"
    z.backward()


def test_packed_things_are_freed_by_backward(graph, no_collector, x):
    class Packed:
        def __init__(self, tensor):
            self.tensor = tensor.detach()

    alive = weakref.WeakSet()

    def pack(tensor):
        packed = Packed(tensor)
        alive.add(packed)
        return packed

    with graph.saved_tensors_hooks(pack, lambda packed: packed.tensor):
        y = (x * x).sum()
    assert len(alive) == 2
    y.backward(retain_graph=True)
    assert len(alive) == 2
    y.backward()
    assert len(alive) == 0


def test_packed_things_are_freed_with_the_graph(graph, no_collector, x):
    class Packed:
        pass

    alive = weakref.WeakSet()

    def pack(tensor):
        packed = Packed()
        alive.add(packed)
        return packed

    with graph.saved_tensors_hooks(pack, lambda packed: x):
        y = x.exp().sum()
    assert len(alive) == 1
    del y
    assert len(alive) == 0


def test_saved_tensors_do_not_live_longer_than_backward(torch, no_collector, x):
    big = torch.ones(2)
    values = weakref.ref(big)
    y = (x * big).sum()
    del big
    assert values() is not None
    y.backward()
    assert values() is None


def test_hooks_that_keep_an_output_itself_make_no_cycle(gradloom, no_collector):
    graph = import_module("gradloom.autograd.graph")
    x = gradloom.ones(2, requires_grad=True)
    with graph.saved_tensors_hooks(same, same):
        y = x.exp()
    node = weakref.ref(y.grad_fn)
    del y
    assert node() is None


def test_an_unpacked_tensor_keeps_the_graph_alive(graph, no_collector, x):
    y = x * 2
    with graph.saved_tensors_hooks(same, same):
        z = y * y
    saved = z.grad_fn._saved_self
    del y, z
    saved.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


@pytest.mark.parametrize("retain", [False, True])
def test_a_node_calls_the_unpack_hook_once_for_each_saved_tensor(torch, retain):
    kept, calls = {}, []

    def pack(tensor):
        kept[len(kept)] = tensor.detach()
        return len(kept) - 1

    def unpack(number):
        calls.append(number)
        return kept[number] if retain else kept.pop(number)

    a, b = (torch.ones(2, requires_grad=True) for _ in range(2))
    with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
        y = torch.where(a > 0, a / b, b).sum()
    y.backward(retain_graph=retain)
    assert sorted(calls) == [0, 1, 2]
    if retain:
        y.backward()
        assert sorted(calls) == [0, 0, 1, 1, 2, 2]
