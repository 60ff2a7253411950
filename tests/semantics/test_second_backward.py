"""What a second pass over the same graph needs and says."""

import pytest


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
