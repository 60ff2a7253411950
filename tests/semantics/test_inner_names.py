"""Names of torch.autograd that start with an underscore and are imported all the same, and rarely used modes."""

from __future__ import annotations

import logging

import pytest


def of(torch, module):
    from importlib import import_module

    return import_module(f"{torch.__name__}.{module}")


@pytest.fixture
def leaf(torch):
    return torch.ones(3, requires_grad=True)


def test_writes_can_be_hidden(torch, leaf):
    hidden = of(torch, "autograd.grad_mode")._unsafe_preserve_version_counter
    factor, other = torch.full((3,), 2.0), torch.ones(3)
    product = leaf * factor
    with hidden(factor):
        factor.add_(1)
    with hidden((factor, other)):
        other.add_(1)
        factor.add_(1)
    assert factor._version == other._version == 0
    product.sum().backward()
    assert leaf.grad.tolist() == [4, 4, 4]


@pytest.mark.parametrize("enforced", [True, False])
def test_the_layout_of_first_gradients_is_the_leafs_unless_switched_off(torch, enforced):
    policy = of(torch, "autograd.grad_mode").enforce_grad_layout_policy
    leaf = torch.ones(2, 3).t().requires_grad_()
    with policy(enforced):
        assert torch._C._is_grad_layout_enforcement_enabled() is enforced
        torch.autograd.backward([leaf * 1], [torch.ones(3, 2)])
    assert leaf.grad.stride() == ((1, 3) if enforced else (2, 1))
    assert leaf.grad.tolist() == [[1, 1], [1, 1], [1, 1]]
    assert torch._C._is_grad_layout_enforcement_enabled()


def test_view_replay_is_told(torch):
    switch = of(torch, "autograd.grad_mode")._force_original_view_tracking
    assert not torch.autograd.is_view_replay_enabled()
    with switch(True):
        assert torch.autograd.is_view_replay_enabled()
    assert not torch.autograd.is_view_replay_enabled()


def test_inference_mode_can_be_entered_without_a_block(torch):
    modes = of(torch, "autograd.grad_mode")
    entered = modes._enter_inference_mode(True)
    try:
        assert torch.is_inference_mode_enabled()
    finally:
        modes._exit_inference_mode(entered)
    assert not torch.is_inference_mode_enabled()


def test_context_managers_of_ones_own_decorate(torch):
    base = of(torch, "utils._contextlib")._DecoratorContextManager
    assert of(torch, "autograd.grad_mode")._DecoratorContextManager is base
    assert issubclass(torch.no_grad, base)

    class Noted(base):
        notes = []

        def __enter__(self):
            self.notes.append("in")

        def __exit__(self, *exc):
            self.notes.append("out")

    @Noted()
    def function(x):
        Noted.notes.append("call")
        return x

    @Noted()
    def generator():
        yield 1
        yield 2

    assert function(3) == 3 and Noted.notes == ["in", "call", "out"]
    assert list(generator()) == [1, 2]


def test_context_managers_without_arguments_decorate_without_parentheses(torch):
    base = of(torch, "utils._contextlib")._NoParamDecoratorContextManager
    entered = []

    class Counted(base):
        def __enter__(self):
            entered.append(1)

        def __exit__(self, *exc):
            pass

    @Counted
    def bare():
        return 1

    @Counted()
    def called():
        return 2

    assert (bare(), called(), len(entered)) == (1, 2, 2)


def test_a_function_is_run_in_a_context(torch):
    decorate = of(torch, "utils._contextlib").context_decorator
    function = decorate(lambda: torch.set_grad_enabled(False), lambda: torch.is_grad_enabled())
    assert function() is False and function() is False and torch.is_grad_enabled()


def test_gradients_to_start_from_are_made(torch, leaf):
    made = torch.autograd._make_grads((leaf.sum(), leaf * 2), (None, torch.ones(3)), False)
    assert [grad.tolist() for grad in made] == [1, [1, 1, 1]]
    with pytest.raises(RuntimeError, match="only for scalar outputs"):
        torch.autograd._make_grads((leaf * 2,), (None,), False)
    with pytest.raises(RuntimeError, match="Mismatch in shape"):
        torch.autograd._make_grads((leaf * 2,), (torch.ones(2),), False)
    with pytest.raises(RuntimeError, match="is_grads_batched=True"):
        torch.autograd._make_grads((leaf * 2,), (torch.ones(4, 2),), True)


def test_small_helpers(torch, leaf):
    autograd = torch.autograd
    assert autograd._tensor_or_tensors_to_tuple(None, 2) == (None, None)
    assert autograd._tensor_or_tensors_to_tuple(leaf, 1)[0] is leaf
    assert len(autograd._tensor_or_tensors_to_tuple([leaf, None], 2)) == 2
    assert autograd._calculate_shape(leaf, torch.ones(2, 3), True) == ((3,), (3,))
    assert autograd._is_checkpoint_valid()
    assert autograd._get_sequence_nr() == leaf.exp().grad_fn._sequence_nr()
    assert autograd.DeviceType.CPU.value == 0 and autograd.kineto_available()
    assert autograd.ProfilerActivity is torch.profiler.ProfilerActivity
    assert type(leaf.exp().grad_fn._raw_saved_result) is autograd.SavedTensor
    assert issubclass(autograd.NestedIOFunction, autograd.Function)


def test_a_pass_that_computes_some_gradients_is_no_place_for_a_checkpoint(torch, leaf):
    seen = []
    product = leaf * 2
    product.register_hook(lambda grad: seen.append(torch.autograd._is_checkpoint_valid()))
    torch.autograd.grad(product.sum(), leaf, retain_graph=True)
    product.sum().backward()
    assert seen == [False, True]


def test_the_engine_can_be_run(torch, leaf):
    found = of(torch, "autograd.graph")._engine_run_backward(
        ((leaf * 2).sum(),), (torch.tensor(1.0),), False, False, (leaf,), allow_unreachable=False, accumulate_grad=False
    )
    assert found[0].tolist() == [2, 2, 2] and leaf.grad is None


def test_the_node_of_a_tensor_is_found(torch, leaf):
    find = of(torch, "autograd.graph")._get_grad_fn_or_grad_acc
    product = leaf * 2
    assert find(product) is product.grad_fn
    assert find(leaf).variable is leaf
    assert find(torch.autograd.graph.get_gradient_edge(product)) is product.grad_fn
    with pytest.raises(AssertionError):
        find(torch.ones(1))


def test_a_graph_can_be_logged(gradloom, caplog):
    register = of(gradloom, "autograd.graph")._register_logging_hooks_on_whole_graph
    loss = (gradloom.ones(3, requires_grad=True) * 2).sum()
    unregister = register([loss])
    with caplog.at_level(logging.DEBUG, logger="gradloom.autograd.graph"):
        loss.backward(retain_graph=True)
        unregister()
        loss.backward()
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 3
    for text, (name, gradient) in zip(
        told, [("SumBackward0", "f32[]"), ("MulBackward0", "f32[3]"), ("AccumulateGrad", "f32[3]")], strict=True
    ):
        assert text.startswith(f"Executing: <{name} object at ")
        assert text.endswith(f"with grad_outputs: [{gradient}]")


def test_switches_want_bools(gradloom):
    for name in ("enforce_grad_layout_policy", "_force_original_view_tracking"):
        with pytest.raises(TypeError, match="takes a bool, but got int"):
            getattr(gradloom.autograd.grad_mode, name)(1)


def test_a_context_is_one_thing_or_the_other(gradloom):
    decorate = of(gradloom, "utils._contextlib").context_decorator
    with pytest.raises(AssertionError, match="expected a context manager"):
        decorate(3, print)


def test_how_tensors_print(torch):
    printing = torch._tensor_str
    x = torch.tensor([[1.0, 2.5], [3.0, float("nan")]], requires_grad=True)
    assert printing._tensor_str(x, 4) == "[[1.0000, 2.5000],\n     [3.0000,    nan]]"
    assert printing._str(x, tensor_contents="...") == "tensor(..., requires_grad=True)"
    for text, newline, expected in (
        ("X(1", False, "X(1, a=1, b=2)"),
        ("X(1", True, "X(1,\n  a=1, b=2)"),
        ("X(" + "1" * 74, False, "X(" + "1" * 74 + ",\n  a=1, b=2)"),
    ):
        assert printing._add_suffixes(text, ["a=1", "b=2"], 2, newline) == expected
    before = printing.get_printoptions()
    with printing.printoptions(precision=1, sci_mode=True):
        assert str(torch.tensor([20.0])) == "tensor([2.0e+01])" and printing.PRINT_OPTS.precision == 1
    assert printing.get_printoptions() == before and before["threshold"] == 1000


def test_rows_of_sparse_matrices_in_both_forms(torch):
    rows, starts = torch.tensor([0, 0, 1, 3]), torch.tensor([0, 2, 3, 3, 4])
    assert torch._convert_indices_from_coo_to_csr(rows, 5).tolist() == [0, 2, 3, 3, 4, 4]
    assert torch._convert_indices_from_coo_to_csr(rows, 4, out_int32=True).dtype is torch.int32
    assert torch._convert_indices_from_csr_to_coo(starts, rows).tolist() == [[0, 0, 1, 3], [0, 0, 1, 3]]
    batch = torch._convert_indices_from_csr_to_coo(
        torch.tensor([[0, 1], [0, 1]]), torch.tensor([[5], [7]]), transpose=True
    )
    assert batch.tolist() == [[0, 1], [5, 7], [0, 0]]
    with pytest.raises(RuntimeError, match="Input is supposed to be a vector, but got 2 dimensional tensor."):
        torch._convert_indices_from_coo_to_csr(rows[None], 5)
    with pytest.raises(NotImplementedError, match="convert_indices_from_csr_to_coo_cpu\" not implemented for 'Float'"):
        torch._convert_indices_from_csr_to_coo(starts.float(), rows)


def test_layouts_without_tensors(torch):
    assert [str(getattr(torch, f"sparse_{kind}")) for kind in ("csr", "bsc")] == [
        "torch.sparse_csr",
        "torch.sparse_bsc",
    ]
    assert isinstance(torch.sparse_csc, torch.layout) and torch.ones(2).layout != torch.sparse_csr
    assert torch._C._get_default_device() == "cpu"
