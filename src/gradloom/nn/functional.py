"""The functions behind the modules of `gradloom.nn`: operators, and conveniences around them.

What takes its operator's arguments as they are (`linear`, `conv2d`, `gelu`, ...) is that operator; what
PyTorch lets users write differently (reductions by name, `inplace=True`, defaults that depend on other
arguments) is a Python function of one of the families in `gradloom/nn/_functional/`.
"""

from __future__ import annotations

from gradloom.nn._functional import activation, indexing, loss, norm, pool, random, shape
from gradloom.nn._functional import operators as _ops
from gradloom.nn._functional.activation import *  # noqa: F403
from gradloom.nn._functional.indexing import *  # noqa: F403
from gradloom.nn._functional.loss import *  # noqa: F403
from gradloom.nn._functional.norm import *  # noqa: F403
from gradloom.nn._functional.pool import *  # noqa: F403
from gradloom.nn._functional.random import *  # noqa: F403
from gradloom.nn._functional.shape import *  # noqa: F403

# Operators under the names they have here, where the two differ.
_RENAMED = {"logsigmoid": "log_sigmoid"}
_OPERATORS = (
    "adaptive_avg_pool1d",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "bilinear",
    "celu_",
    "channel_shuffle",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_tbc",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "cosine_similarity",
    "elu_",
    "gelu",
    "hardshrink",
    "hardtanh_",
    "leaky_relu_",
    "linear",
    "logsigmoid",
    "native_channel_shuffle",
    "one_hot",
    "pairwise_distance",
    "pdist",
    "pixel_shuffle",
    "pixel_unshuffle",
    "prelu",
    "relu_",
    "rrelu_",
    "scaled_dot_product_attention",
    "selu_",
    "softplus",
    "softshrink",
    "threshold_",
)
_WRITTEN_HERE = tuple(
    name for family in (activation, indexing, loss, norm, pool, random, shape) for name in family.__all__
)

__all__ = sorted((*_OPERATORS, *_WRITTEN_HERE))  # noqa: PLE0605


def __getattr__(name):
    # Late bound, so that this module can be imported before the operators are, and found once: kept as an
    # attribute.
    if name not in _OPERATORS:
        raise AttributeError(f"module 'gradloom.nn.functional' has no attribute '{name}'")
    found = globals()[name] = getattr(_ops, _RENAMED.get(name, name))
    return found


def __dir__():
    return list(__all__)
