"""The backward graph as a data structure: nodes, what they keep, what they lead to, and calling them."""

import copy
import pickle

import pytest


def leaf(torch, *values):
    return torch.tensor(list(values), requires_grad=True)


def fields(node):
    return sorted(name for name in dir(node) if name.startswith("_saved_"))


def test_a_node_is_one_object_with_a_name(torch):
    y = leaf(torch, 1.0, 2.0) * 2
    node = y.grad_fn
    assert node is y.grad_fn and node == y.grad_fn and hash(node) == hash(y.grad_fn)
    assert node != (y * 2).grad_fn
    assert node.name() == type(node).__name__ == "MulBackward0"
    assert repr(node).startswith("<MulBackward0 object at 0x")
    assert isinstance(node, torch.autograd.graph.Node) and issubclass(type(node), torch.autograd.graph.Node)
    assert not isinstance(y, torch.autograd.graph.Node) and node.requires_grad is True


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda torch, x: x + 1, "AddBackward0"),
        (lambda torch, x: 1 - x, "RsubBackward1"),
        (lambda torch, x: x.pow(2), "PowBackward0"),
        (lambda torch, x: 2**x, "PowBackward2"),
        (lambda torch, x: x.sum(), "SumBackward0"),
        (lambda torch, x: x.sum(0), "SumBackward1"),
        (lambda torch, x: x[0], "SelectBackward0"),
        (lambda torch, x: x[:1], "SliceBackward0"),
        (lambda torch, x: x.view(2, 1), "ViewBackward0"),
        (lambda torch, x: x.double(), "ToCopyBackward0"),
        (lambda torch, x: x.clone(), "CloneBackward0"),
        (lambda torch, x: torch.zeros(2).copy_(x), "CopyBackwards"),
        (lambda torch, x: torch.stack([x, x]), "StackBackward0"),
        (lambda torch, x: x.max(0).values, "MaxBackward0"),
        (lambda torch, x: torch.nn.functional.relu(x), "ReluBackward0"),
        (lambda torch, x: x.std(), "StdBackward0"),
        (lambda torch, x: x.reshape(1, 2) @ x.reshape(2, 1), "MmBackward0"),
        (lambda torch, x: -x, "NegBackward0"),
    ],
)
def test_class_names(torch, make, name):
    node = make(torch, leaf(torch, 1.0, 2.0)).grad_fn
    assert type(node).__name__ == name
    assert node.name() == (name if name[-1].isdigit() else f"torch::autograd::{name}")


def test_a_write_into_a_view_gives_its_base_a_copy_slices_node(torch):
    y = leaf(torch, 1.0, 2.0) * 2
    y[0].mul_(3)
    assert type(y.grad_fn).__name__ == "CopySlices" and y.grad_fn.name() == "torch::autograd::CopySlices"


def test_next_functions_are_pairs_of_node_and_output_number(torch):
    a, constant = leaf(torch, 1.0, 2.0), torch.ones(2)
    product = a * constant
    (accumulate, nr), nothing = product.grad_fn.next_functions
    assert accumulate.name() == "torch::autograd::AccumulateGrad" and accumulate.variable is a and nr == 0
    assert type(accumulate).__name__ == "AccumulateGrad" and accumulate.next_functions == ()
    assert nothing == (None, 0)
    assert isinstance(product.grad_fn.next_functions, tuple)
    parts = torch.split(product, 1)
    assert (parts[1] * 2).grad_fn.next_functions[0] == (parts[0].grad_fn, 1)
    assert parts[1].output_nr == 1 and parts[0].grad_fn is parts[1].grad_fn
    assert parts[0].grad_fn.next_functions == ((product.grad_fn, 0),)


def test_all_uses_of_a_leaf_lead_to_one_node(torch):
    a = leaf(torch, 1.0)
    y, z = a + a, a * 2
    nodes = {edge[0] for t in (y, z) for edge in t.grad_fn.next_functions if edge[0] is not None}
    assert len(nodes) == 1


def test_a_list_of_tensors_has_an_edge_each(torch):
    a, b = leaf(torch, 1.0), torch.ones(1)
    edges = torch.cat([a, b, a * 2]).grad_fn.next_functions
    assert [None if node is None else type(node).__name__ for node, _ in edges] == [
        "AccumulateGrad",
        None,
        "MulBackward0",
    ]


def test_metadata_is_a_dict_for_the_users_notes(torch):
    y = leaf(torch, 1.0) * 2
    y.grad_fn.metadata["note"] = [1]
    assert y.grad_fn.metadata == {"note": [1]} and y.grad_fn.metadata is y.grad_fn.metadata
    with pytest.raises(AttributeError):
        y.grad_fn.metadata = {}


def test_input_metadata_describes_the_outputs_of_the_forward_operator(torch):
    y = torch.ones(2, 3, requires_grad=True).double() * 2
    (one,) = y.grad_fn._input_metadata
    assert list(one.shape) == [2, 3] and one.dtype is torch.float64 and one.device == torch.device("cpu")
    assert one.is_nested_tensor is False
    assert [list(m.shape) for m in torch.split(y, 1)[0].grad_fn._input_metadata] == [[1, 3], [1, 3]]


@pytest.mark.parametrize("name", ["next_functions", "requires_grad", "_saved_self", "anything"])
def test_attributes_of_a_node_cannot_be_set(torch, name):
    node = (leaf(torch, 1.0) * 2).grad_fn
    with pytest.raises(AttributeError):
        setattr(node, name, None)


def test_nodes_are_made_by_operators_only_and_cannot_be_copied_or_pickled(torch):
    node = (leaf(torch, 1.0) * 2).grad_fn
    with pytest.raises(TypeError, match="cannot create 'MulBackward0' instances"):
        type(node)()
    with pytest.raises(TypeError, match="abstract class Node|cannot create 'Node'"):
        torch.autograd.graph.Node()
    for use in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="cannot pickle 'MulBackward0' object"):
            use(node)


# --- what nodes keep ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "saved"),
    [
        (lambda torch, x: x + 1, ["_saved_alpha"]),
        (lambda torch, x: x * 2, ["_saved_other", "_saved_self"]),
        (lambda torch, x: x.pow(3), ["_saved_exponent", "_saved_self"]),
        (lambda torch, x: x.exp(), ["_saved_result"]),
        (lambda torch, x: x.sum(), ["_saved_self_sym_sizes"]),
        (lambda torch, x: x.sum(0, keepdim=True), ["_saved_dim", "_saved_keepdim", "_saved_self_sym_sizes"]),
        (lambda torch, x: torch.cat([x, x]), ["_saved_dim"]),
        (lambda torch, x: x.double(), []),
        (lambda torch, x: x[0], ["_saved_dim", "_saved_index", "_saved_self_sym_sizes"]),
        (lambda torch, x: torch.where(x > 1, x, x * 2), ["_saved_condition"]),
        (lambda torch, x: x.clamp(0, 1.5), ["_saved_max", "_saved_min", "_saved_self"]),
        (
            lambda torch, x: x.std(),
            ["_saved_correction", "_saved_dim", "_saved_keepdim", "_saved_result", "_saved_self"],
        ),
        (lambda torch, x: torch.softmax(x, 0), ["_saved_dim", "_saved_result"]),
    ],
)
def test_saved_fields_are_listed(torch, make, saved):
    assert fields(make(torch, leaf(torch, 1.0, 2.0)).grad_fn) == saved


def test_saved_values(torch):
    a, b = leaf(torch, 1.0, 2.0), torch.tensor([3.0, 4.0])
    node = (a * b).grad_fn
    assert node._saved_self is None  # nobody needs it: b requires no gradient
    assert node._saved_other is b
    assert a.pow(3).grad_fn._saved_exponent == 3 and a.pow(3).grad_fn._saved_self is a
    total = a.reshape(1, 2).sum(1, keepdim=True).grad_fn
    assert (total._saved_dim, total._saved_keepdim, total._saved_self_sym_sizes) == ((1,), True, (1, 2))
    assert torch.where(a > 1, a, b).grad_fn._saved_condition.tolist() == [False, True]


def test_a_saved_output_comes_back_with_its_history(torch):
    y = leaf(torch, 1.0, 2.0).exp()
    saved = y.grad_fn._saved_result
    assert saved.grad_fn is y.grad_fn and saved.output_nr == 0 and saved.tolist() == y.tolist()
    assert saved is not y and saved.data_ptr() == y.data_ptr()


def test_a_saved_intermediate_outlives_its_name(torch):
    a = leaf(torch, 1.0, 2.0)
    middle = a * 2
    node = (middle * middle).grad_fn
    maker = middle.grad_fn
    assert node._saved_self is middle
    del middle
    assert node._saved_self.tolist() == [2.0, 4.0] and node._saved_self.grad_fn is maker


def test_saved_tensors_are_gone_after_backward_and_numbers_are_not(torch):
    y = leaf(torch, 1.0, 2.0).pow(3)
    node = y.grad_fn
    y.sum().backward()
    with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time .or directly access"):
        node._saved_self  # noqa: B018
    assert node._saved_exponent == 3
    raw = node._raw_saved_self
    with pytest.raises(RuntimeError, match="Calling register_hooks on a saved tensor after it has been freed"):
        raw.register_hooks(lambda t: t, lambda t: t)


def test_a_saved_tensor_that_was_written_to_is_refused(torch):
    a, b = leaf(torch, 1.0), torch.ones(1)
    y = a * b
    b.add_(1)
    with pytest.raises(RuntimeError, match=r"modified by an inplace operation: \[torch.FloatTensor \[1\]\] is at ver"):
        y.grad_fn._saved_other  # noqa: B018
    assert type(y.grad_fn._raw_saved_other).__name__ == "SavedTensor"


def test_raw_saved_fields_are_handles(torch):
    a = leaf(torch, 1.0, 2.0)
    y = a * a
    raw = y.grad_fn._raw_saved_self
    assert type(raw).__name__ == "SavedTensor"
    raw.register_hooks(lambda t: t.tolist(), lambda kept: torch.tensor(kept) * 10)
    assert y.grad_fn._saved_self.tolist() == [10.0, 20.0]
    assert y.grad_fn._saved_other.tolist() == [1.0, 2.0]
    y.sum().backward()
    assert a.grad.tolist() == [11.0, 22.0]
    with pytest.raises(RuntimeError, match="Trying to create a SavedTensor object from Python is forbidden"):
        type(raw)()


def test_a_list_of_saved_tensors_is_a_tuple(torch):
    a = leaf(torch, 1.0, 2.0)
    node = a[torch.tensor([1])].grad_fn
    assert [t.tolist() for t in node._saved_indices] == [[1]]
    assert [type(t).__name__ for t in node._raw_saved_indices] == ["SavedTensor"]


def test_fields_that_do_not_exist(torch):
    node = (leaf(torch, 1.0) * 2).grad_fn
    for name in ("_saved_foo", "_raw_saved_foo", "foo"):
        with pytest.raises(AttributeError, match=f"'MulBackward0' object has no attribute '{name}'"):
            getattr(node, name)


# --- calling a node -------------------------------------------------------------------------------------------------


def test_a_node_called_with_gradients_of_its_outputs_returns_those_of_its_inputs(torch):
    a, b = leaf(torch, 1.0, 2.0), leaf(torch, 3.0, 4.0)
    node = (a * b).grad_fn
    found = node(torch.ones(2))
    assert isinstance(found, tuple) and [g.tolist() for g in found] == [[3.0, 4.0], [1.0, 2.0]]
    assert [g.requires_grad for g in found] == [True, True]  # it is recorded like any other computation
    with torch.no_grad():
        assert [g.requires_grad for g in node(torch.ones(2))] == [False, False]
    assert node(None) == (None, None) and a.grad is None
    assert (a * 2).grad_fn(torch.ones(2))[1] is None


def test_a_node_with_one_input_returns_one_gradient(torch):
    a = leaf(torch, 1.0, 2.0)
    assert torch.allclose(a.exp().grad_fn(torch.ones(2)), a.exp())
    parts = a.split(1)[0].grad_fn
    assert parts(torch.ones(1), None).tolist() == [1.0, 0.0] and parts(None, None) is None


def test_calling_an_accumulate_grad_accumulates(torch):
    a = leaf(torch, 1.0, 2.0)
    accumulate = (a * 2).grad_fn.next_functions[0][0]
    assert accumulate(torch.ones(2)) == () and a.grad.tolist() == [1.0, 1.0]
    assert accumulate(None) == () and a.grad.tolist() == [1.0, 1.0]


def test_calling_a_node_runs_no_hooks(torch):
    y = leaf(torch, 1.0) * 2
    seen = []
    y.register_hook(seen.append)
    y.grad_fn.register_prehook(seen.append)
    y.grad_fn.register_hook(lambda *args: seen.append(args))
    y.grad_fn(torch.ones(1))
    assert seen == []


@pytest.mark.parametrize("gradients", [(), (1, 2), (3,), ("x",)])
def test_a_node_called_with_anything_else_is_a_type_error(torch, gradients):
    node = (leaf(torch, 1.0) * 2).grad_fn
    with pytest.raises(TypeError, match=r"expected 1 arguments, got \d instead|argument 0 is not a Variable"):
        node(*gradients)


def test_a_freed_node_cannot_be_called(torch):
    a = leaf(torch, 1.0)
    y = a * a
    y.sum().backward()
    with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
        y.grad_fn(torch.ones(1))


def test_walking_a_graph(torch):
    a, b = leaf(torch, 1.0), leaf(torch, 2.0)
    names, waiting = [], [((a * b).exp() + a).grad_fn]
    while waiting:
        node = waiting.pop()
        names.append(node.name().rpartition(":")[2])
        waiting += [following for following, _ in node.next_functions if following is not None]
    assert sorted(names) == ["AccumulateGrad"] * 3 + ["AddBackward0", "ExpBackward0", "MulBackward0"]


# --- the fields that a node shows -----------------------------------------------------------------


def test_integers_are_shown_without_a_sign(torch):
    x = torch.ones(2, 3, requires_grad=True)
    assert x.sum(-1).grad_fn._saved_dim == (2**64 - 1,)
    assert x.unsqueeze(-1).grad_fn._saved_dim == 2**64 - 1
    assert x.softmax(1).grad_fn._saved_dim == 1
    assert x.sum(1).grad_fn._saved_self_sym_sizes == (2, 3)


def test_numbers_keep_their_sign_and_type(torch):
    x = torch.ones(2, 3, requires_grad=True)
    assert (x**-2).grad_fn._saved_exponent == -2
    assert torch.add(x, x, alpha=-3).grad_fn._saved_alpha == -3
    assert torch.threshold(x, -1, -2.5).grad_fn._saved_threshold == -1
    for value, kind in ((1 + 0j, complex), (1.0, float), (1, int), (False, bool)):
        assert type(torch.threshold(x, threshold=value, value=value).grad_fn._saved_threshold) is kind


def test_optional_and_textual_fields(torch):
    x = torch.ones(2, 2, requires_grad=True)
    assert torch.logit(x, 0.25).grad_fn._saved_eps == 0.25 and torch.logit(x).grad_fn._saved_eps is None
    assert torch.div(x, 2.0, rounding_mode="trunc").grad_fn._saved_rounding_mode == "trunc"
    assert x[:, torch.tensor([0, 1])].grad_fn._saved_indices[0] is None
    found = x.as_strided((3,), (1,), 1).grad_fn
    assert found._saved_size == (3,) and found._saved_stride == (1,) and found._saved_storage_offset == 1
