"""gradloom.autograd.graph: the backward graph itself, as in torch.autograd.graph: its nodes and edges, hooks on several
gradients at once, and what nodes keep for backward."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ..core.edge import gradient_edge
from ..core.node import Node
from . import increment_version
from .multi_grad_hook import _MultiHandle as _MultiHandle, register_multi_grad_hook
from .saved_tensor_hooks import (
    allow_mutation_on_saved_tensors,
    disable_saved_tensors_hooks,
    save_on_cpu,
    saved_tensors_hooks,
)
from .variable import Variable

if TYPE_CHECKING:
    from ..core.tensor import Tensor
    from .rare_modes import set_override_stale_capture_stream, set_warn_on_accumulate_grad_stream_mismatch

__all__ = [
    "GradientEdge",
    "Node",
    "allow_mutation_on_saved_tensors",
    "disable_saved_tensors_hooks",
    "get_gradient_edge",
    "increment_version",
    "register_multi_grad_hook",
    "save_on_cpu",
    "saved_tensors_hooks",
    "set_override_stale_capture_stream",
    "set_warn_on_accumulate_grad_stream_mismatch",
]


class GradientEdge(NamedTuple):
    """An edge of the backward graph: stands for a tensor among the roots and inputs of `backward` and `grad`, without
    holding its memory.

    Args:
        node: the node that the gradient flows into.
        output_nr: which output of the forward operator it is the gradient of.
        ownership_token: PyTorch's; not needed here, where an edge owns its node.
    """

    node: Node
    output_nr: int
    ownership_token: object = None


if not TYPE_CHECKING:

    def __getattr__(name):
        if name in ("_get_grad_fn_or_grad_acc", "_register_logging_hooks_on_whole_graph"):
            from . import private_names

            return getattr(private_names, name)
        if name in ("set_override_stale_capture_stream", "set_warn_on_accumulate_grad_stream_mismatch"):
            from . import rare_modes

            return getattr(rare_modes, name)
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


def _engine_run_backward(tensors, *args, **kwargs):
    return Variable._execution_engine.run_backward(tensors, *args, **kwargs)


def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    """The edge along which the gradient of `tensor` flows; for a leaf, that of its AccumulateGrad.

    Raises:
        RuntimeError: if the tensor does not require grad.
    """
    node, nr = gradient_edge(tensor) if tensor.requires_grad else (None, 0)
    if node is None:
        raise RuntimeError("It is not possible to get the gradient edge for a Tensor that does not require gradients")
    return GradientEdge(node, nr)
