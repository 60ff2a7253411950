"""What an error inside a level of forward mode leaves behind."""

import pytest


def test_an_error_of_an_operator_written_as_a_sign_stays_the_error_that_it_was(torch):
    fwd = torch.autograd.forward_ad

    def refuse(tensor):
        raise KeyboardInterrupt("while packing")

    x = torch.ones(2, requires_grad=True)
    with pytest.raises(KeyboardInterrupt, match="while packing"), fwd.dual_level():
        dual = fwd.make_dual(x, torch.ones(2))
        with torch.autograd.graph.saved_tensors_hooks(refuse, lambda packed: packed):
            dual * dual
    with fwd.dual_level():  # the level of the error is closed
        dual = fwd.make_dual(x, torch.ones(2))
        assert fwd.unpack_dual(dual * dual).tangent.tolist() == [2.0, 2.0]
