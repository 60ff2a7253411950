"""Gradient edges as roots and inputs of backward and grad; second passes over one graph."""

import pytest


def leaf(torch, *values):
    return torch.tensor(list(values), requires_grad=True)


@pytest.fixture
def graph(torch):
    """a -> b = 2a -> c = sum(b * b), and the edges of a and b."""
    a = leaf(torch, 1.0, 2.0)
    b = a * 2
    c = (b * b).sum()
    edge = torch.autograd.graph.get_gradient_edge
    return a, b, c, edge(a), edge(b)


def test_an_edge_names_the_node_and_its_output(torch, graph):
    a, b, _, edge_a, edge_b = graph
    assert edge_b.node is b.grad_fn and edge_b.output_nr == 0
    assert edge_a.node.name() == "torch::autograd::AccumulateGrad" and edge_a.node.variable is a
    assert edge_b == torch.autograd.graph.get_gradient_edge(b)
    assert edge_b == torch.autograd.graph.GradientEdge(b.grad_fn, 0) and edge_b[:2] == (b.grad_fn, 0)
    assert repr(edge_b).startswith("GradientEdge(node=<MulBackward0 object at ")
    parts = torch.split(a * 1, 1)
    assert [torch.autograd.graph.get_gradient_edge(part).output_nr for part in parts] == [0, 1]


def test_an_edge_is_an_input(torch, graph):
    a, _, c, edge_a, edge_b = graph
    found = torch.autograd.grad(c, [edge_b, edge_a, a], retain_graph=True)
    assert [g.tolist() for g in found] == [[4.0, 8.0], [8.0, 16.0], [8.0, 16.0]]
    assert torch.autograd.grad(c, edge_b)[0].tolist() == [4.0, 8.0]


def test_an_edge_is_a_root(torch, graph):
    a, _, c, _, edge_b = graph
    edge_c = torch.autograd.graph.get_gradient_edge(c)
    assert torch.autograd.grad(edge_b, a, torch.ones(2), retain_graph=True)[0].tolist() == [2.0, 2.0]
    assert torch.autograd.grad(edge_c, a, retain_graph=True)[0].tolist() == [8.0, 16.0]
    both = torch.autograd.grad([c, edge_b], a, [None, torch.ones(2)], retain_graph=True)
    assert both[0].tolist() == [10.0, 18.0]
    torch.autograd.backward(edge_b, torch.ones(2, dtype=torch.float64), retain_graph=True)
    assert a.grad.tolist() == [2.0, 2.0]


def test_backward_into_an_edge(torch, graph):
    a, b, c, edge_a, edge_b = graph
    c.backward(inputs=[edge_a], retain_graph=True)
    assert a.grad.tolist() == [8.0, 16.0]
    c.backward(inputs=edge_b, retain_graph=True)  # there is no tensor whose .grad could hold it
    assert a.grad.tolist() == [8.0, 16.0] and not b.retains_grad


def test_an_edge_needs_no_tensor(torch):
    a = leaf(torch, 1.0, 2.0)
    b = a * 2
    edge = torch.autograd.graph.get_gradient_edge(b)
    c = (b * b).sum()
    del b
    assert torch.autograd.grad(c, edge)[0].tolist() == [4.0, 8.0]


def test_an_edge_as_root_wants_a_gradient_that_fits(torch, graph):
    a, _, _, _, edge_b = graph
    with pytest.raises(RuntimeError, match="grad can be implicitly created only for scalar outputs"):
        torch.autograd.grad(edge_b, a)
    with pytest.raises(RuntimeError, match=r"Mismatch in shape: grad_output\[0\] has a shape of torch.Size\(\[3\]\)"):
        torch.autograd.grad(edge_b, a, torch.ones(3))
    with pytest.raises(RuntimeError, match="For complex Tensors, both grad_output and output are required"):
        torch.autograd.grad(edge_b, a, torch.ones(2, dtype=torch.complex64))


def test_an_edge_that_is_not_reached(torch, graph):
    _, _, c, _, _ = graph
    edge = torch.autograd.graph.get_gradient_edge(leaf(torch, 1.0) * 2)
    assert torch.autograd.grad(c, edge, allow_unused=True, retain_graph=True) == (None,)
    with pytest.raises(RuntimeError, match="at index 0 appears to not have been used"):
        torch.autograd.grad(c, edge, retain_graph=True)
    with pytest.raises(RuntimeError, match="materialize_grads cannot be used when the given input is a GradientEdge"):
        torch.autograd.grad(c, edge, materialize_grads=True)


def test_a_pair_is_no_edge(torch, graph):
    _, b, c, _, _ = graph
    with pytest.raises(RuntimeError, match="all inputs have to be Tensors or GradientEdges, but got tuple"):
        torch.autograd.grad(c, [(b.grad_fn, 0)])


def test_a_tensor_without_gradient_has_no_edge(torch):
    for tensor in (torch.ones(1), torch.tensor([1])):
        with pytest.raises(RuntimeError, match="not possible to get the gradient edge for a Tensor that does not requ"):
            torch.autograd.graph.get_gradient_edge(tensor)


def test_edges_with_batched_gradients(torch):
    a = leaf(torch, 1.0, 2.0)
    edge = torch.autograd.graph.get_gradient_edge(a * a)
    assert torch.autograd.grad(edge, a, torch.eye(2), is_grads_batched=True)[0].tolist() == [[2.0, 0.0], [0.0, 4.0]]


def test_an_edge_to_an_output_that_does_not_exist_is_refused(gradloom):  # PyTorch crashes
    a = leaf(gradloom, 1.0)
    b = a * 2
    for nr in (1, -1):
        edge = gradloom.autograd.graph.GradientEdge(b.grad_fn, nr)
        with pytest.raises(RuntimeError, match=f"names output {nr} of MulBackward0, which has 1"):
            gradloom.autograd.grad(b.sum(), edge)
        with pytest.raises(RuntimeError, match=f"names output {nr} of MulBackward0, which has 1"):
            gradloom.autograd.grad(edge, a, gradloom.ones(1))


# --- a second pass over the same graph ------------------------------------------------------------


def test_a_second_pass_is_refused_unless_the_first_kept_the_graph(torch):
    a = torch.tensor([2.0, 3.0], requires_grad=True)
    q = (a**2).sum()
    q.backward(retain_graph=True)
    q.backward()
    assert a.grad.tolist() == [8.0, 12.0]
    with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
        q.backward()
    assert a.grad.tolist() == [8.0, 12.0]


@pytest.mark.parametrize("write", ["add_(1)", "zero_()", "mul_(2)", "copy_(other)"])
def test_a_write_into_a_view_wants_the_graph_kept_even_if_it_saved_nothing(torch, write):
    a, other = torch.ones(4, requires_grad=True), torch.ones(2, requires_grad=True)
    b = a + 1
    eval(f"b[:2].{write}", {"b": b, "other": other})
    b.sum().backward(retain_graph=True)
    torch.autograd.grad(b.sum(), a)
    with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
        b.sum().backward()
    with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
        b.grad_fn(torch.ones(4))
