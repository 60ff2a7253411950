"""Helpers for training: limits on gradients, packed sequences, weights that are functions of parameters, pruning."""

import typing as _typing

from gradloom.nn.utils import clip_grad, convert_parameters, parametrizations, parametrize, rnn, stateless
from gradloom.nn.utils.clip_grad import (
    clip_grad_norm,
    clip_grad_norm_,
    clip_grad_value_,
    clip_grads_with_norm_,
    get_total_norm,
)
from gradloom.nn.utils.convert_parameters import parameters_to_vector, vector_to_parameters
from gradloom.nn.utils.fusion import (
    fuse_conv_bn_eval,
    fuse_conv_bn_weights,
    fuse_linear_bn_eval,
    fuse_linear_bn_weights,
)
from gradloom.nn.utils.init import skip_init
from gradloom.nn.utils.memory_format import convert_conv2d_weight_memory_format, convert_conv3d_weight_memory_format
from gradloom.nn.utils.spectral_norm import remove_spectral_norm, spectral_norm
from gradloom.nn.utils.weight_norm import remove_weight_norm, weight_norm

__all__ = [
    "clip_grad",
    "clip_grad_norm",
    "clip_grad_norm_",
    "clip_grad_value_",
    "clip_grads_with_norm_",
    "convert_conv2d_weight_memory_format",
    "convert_conv3d_weight_memory_format",
    "convert_parameters",
    "fuse_conv_bn_eval",
    "fuse_conv_bn_weights",
    "fuse_linear_bn_eval",
    "fuse_linear_bn_weights",
    "get_total_norm",
    "parameters_to_vector",
    "parametrizations",
    "parametrize",
    "remove_spectral_norm",
    "remove_weight_norm",
    "rnn",
    "skip_init",
    "spectral_norm",
    "stateless",
    "vector_to_parameters",
    "weight_norm",
]

if not _typing.TYPE_CHECKING:
    from gradloom.types.absent import getattr_of as _getattr_of

    __getattr__ = _getattr_of(__name__)
