"""Functions behind the modules of `gradloom.nn`.

A function that takes its operator's arguments (`linear`, `conv2d`, `gelu`, ...) is that operator. One whose arguments
differ (reductions by name, `inplace=True`, defaults that depend on other arguments) is a Python function of a family
in `gradloom/nn/_functional/`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradloom.nn._functional import (
    activation as _activation,
    attention as _attention,
    grouped as _grouped,
    indexing as _indexing,
    loss as _loss,
    margin_loss as _margin_loss,
    norm as _norm,
    pool as _pool,
    random as _random,
    shape as _shape,
)
from gradloom.nn._functional import operators as _ops
from gradloom.types.public import found_in, home_of

# Operators with another name than the function.
_RENAMED = {"logsigmoid": "log_sigmoid"}
_OPERATORS = tuple(
    """
    adaptive_avg_pool1d avg_pool1d avg_pool2d avg_pool3d bilinear celu_ channel_shuffle conv1d conv2d conv3d
    conv_tbc conv_transpose1d conv_transpose2d conv_transpose3d cosine_similarity elu_ gelu hardshrink hardtanh_
    leaky_relu_ linear logsigmoid native_channel_shuffle one_hot pairwise_distance pdist pixel_shuffle
    pixel_unshuffle prelu relu_ rrelu_ scaled_dot_product_attention selu_ softplus softshrink threshold_
    """.split()
)
_OVERRIDES = ("handle_torch_function", "has_torch_function", "has_torch_function_unary", "has_torch_function_variadic")
_FAMILIES = (
    _activation, _attention, _grouped, _indexing, _loss, _margin_loss, _norm, _pool, _random, _shape,
)  # fmt: skip
_WRITTEN_HERE = {
    name: function
    for family in _FAMILIES
    for name, function in vars(family).items()
    if not name.startswith("_") and home_of(function).endswith(family.__name__.partition(".")[2])
}

if TYPE_CHECKING:  # names that are bound below, and those that __getattr__ finds
    from gradloom.nn._functional.activation import *
    from gradloom.nn._functional.attention import *
    from gradloom.nn._functional.grouped import *
    from gradloom.nn._functional.indexing import *
    from gradloom.nn._functional.loss import *
    from gradloom.nn._functional.margin_loss import *
    from gradloom.nn._functional.norm import *
    from gradloom.nn._functional.pool import *
    from gradloom.nn._functional.random import *
    from gradloom.nn._functional.shape import *
    from gradloom.overrides import (
        handle_torch_function as handle_torch_function,
        has_torch_function as has_torch_function,
        has_torch_function_unary as has_torch_function_unary,
        has_torch_function_variadic as has_torch_function_variadic,
    )
    from gradloom._stubs.operators import (
        adaptive_avg_pool1d as adaptive_avg_pool1d,
        avg_pool1d as avg_pool1d,
        avg_pool2d as avg_pool2d,
        avg_pool3d as avg_pool3d,
        bilinear as bilinear,
        celu_ as celu_,
        channel_shuffle as channel_shuffle,
        conv1d as conv1d,
        conv2d as conv2d,
        conv3d as conv3d,
        conv_transpose1d as conv_transpose1d,
        conv_transpose2d as conv_transpose2d,
        conv_transpose3d as conv_transpose3d,
        cosine_similarity as cosine_similarity,
        elu_ as elu_,
        gelu as gelu,
        conv_tbc as conv_tbc,
        hardshrink as hardshrink,
        hardtanh_ as hardtanh_,
        leaky_relu_ as leaky_relu_,
        linear as linear,
        native_channel_shuffle as native_channel_shuffle,
        log_sigmoid as _log_sigmoid,
        one_hot as one_hot,
        pairwise_distance as pairwise_distance,
        pdist as pdist,
        pixel_shuffle as pixel_shuffle,
        pixel_unshuffle as pixel_unshuffle,
        prelu as prelu,
        relu_ as relu_,
        rrelu_ as rrelu_,
        scaled_dot_product_attention as scaled_dot_product_attention,
        selu_ as selu_,
        softplus as softplus,
        softshrink as softshrink,
        threshold_ as threshold_,
    )

    logsigmoid = _log_sigmoid
else:
    globals().update(_WRITTEN_HERE)
    found_in(__name__, *_WRITTEN_HERE.values())
    __all__ = sorted((*_OPERATORS, *_WRITTEN_HERE))  # noqa: PLE0605

    def __getattr__(name):
        if name in _OVERRIDES:
            from gradloom import overrides

            return getattr(overrides, name)
        # Bound on first use, so that this module can be imported before the operators; kept as an attribute.
        if name not in _OPERATORS:
            from gradloom.types.absent import absent

            raise absent(__name__, name)
        found = globals()[name] = getattr(_ops, _RENAMED.get(name, name))
        return found


def __dir__() -> list[str]:
    return [*_OPERATORS, *_OVERRIDES, *_WRITTEN_HERE]
