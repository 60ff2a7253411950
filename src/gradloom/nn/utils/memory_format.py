"""Memory formats of the weights of convolutions."""

from __future__ import annotations

from typing import TypeVar

import gradloom as gl
from gradloom.nn.modules import conv
from gradloom.nn.modules.module import Module

__all__ = ["convert_conv2d_weight_memory_format", "convert_conv3d_weight_memory_format"]

_Model = TypeVar("_Model", bound=Module)


def convert_conv2d_weight_memory_format(module: _Model, memory_format: gl.memory_format) -> _Model:
    """Convert the weights of all two-dimensional convolutions of a module, and return it.

    Args:
        module: is changed in place.
        memory_format: such as `gradloom.channels_last`.
    """
    return _convert(module, memory_format, (conv.Conv2d, conv.ConvTranspose2d))


def convert_conv3d_weight_memory_format(module: _Model, memory_format: gl.memory_format) -> _Model:
    """Convert the weights of all three-dimensional convolutions of a module, and return it.

    Args:
        module: is changed in place.
        memory_format: such as `gradloom.channels_last_3d`.
    """
    return _convert(module, memory_format, (conv.Conv3d, conv.ConvTranspose3d))


def _convert(module, memory_format, classes):
    for part in module.modules():
        if isinstance(part, classes):
            part.weight.data = part.weight.detach().clone().contiguous(memory_format=memory_format)
    return module
