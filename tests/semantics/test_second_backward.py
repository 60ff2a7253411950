"""What a second pass over the same graph needs and says."""

import pytest


def test_a_second_pass_is_refused_unless_the_first_kept_the_graph(torch):
    a = torch.tensor([2.0, 3.0], requires_grad=True)
    q = (a ** 2).sum()
    q.backward(retain_graph=True)
    q.backward()
    assert a.grad.tolist() == [8.0, 12.0]
    with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
        q.backward()
    assert a.grad.tolist() == [8.0, 12.0]
