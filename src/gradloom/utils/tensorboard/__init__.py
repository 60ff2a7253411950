"""SummaryWriter: event files for TensorBoard, as PyTorch's torch.utils.tensorboard writes them.

Needs the package tensorboard: `pip install 'gradloom[tensorboard]'`.
"""

from __future__ import annotations

from .writer import SummaryWriter as SummaryWriter

__all__ = ["SummaryWriter"]
