"""Gradients' norms in the log."""

from __future__ import annotations

import logging

from gradloom.autograd.graph import register_multi_grad_hook
from gradloom.core.tensor import Tensor

__all__ = ["debug_grad_log"]

log: logging.Logger = logging.getLogger(__name__)


def debug_grad_log(*tensors: Tensor) -> None:
    """Log the norms of the gradients of these tensors, in one line per backward pass, when all are computed.

    Args:
        tensors: those without a gradient are left out.

    The level is INFO, the line `[rank 0][bwd] t0_grad_norm=1.0000 t1_grad_norm=2.0000`.
    """
    followed = [tensor for tensor in tensors if tensor.requires_grad]

    def write(gradients):
        norms = [
            f"t{i}_grad_norm={gradient.norm().item():.4f}"
            for i, gradient in enumerate(gradients)
            if gradient is not None
        ]
        log.info("[rank 0][bwd] %s", " ".join(norms))

    if followed:
        register_multi_grad_hook(followed, write)
