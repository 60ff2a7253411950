"""Samples of attention: masks, causality, scales, shared heads, and sequences of several blocks.

The backward operator takes the result and its logarithms of sums, but differentiates as if these were recomputed from
the inputs. So CALLS makes them anew.
"""

from __future__ import annotations

import numpy as np

import gradloom
from gradloom.dispatch import _operators as ops

from . import tensor

inf = float("inf")


def inputs(*lead, rows=3, columns=4, size=2, groups=None):
    """Return query, key and value; `groups` replaces the number of heads of the latter two."""
    keys = lead if groups is None else (*lead[:-1], groups)
    shapes = (*lead, rows, size), (*keys, columns, size), (*keys, columns, size)
    return [tensor(*shape, seed=seed, low=-1.0, high=1.0) for seed, shape in enumerate(shapes)]


def bias(*shape):
    return tensor(*shape, seed=5, low=-1.0, high=1.0)


def masked(rows, columns):
    """Return a mask that forbids some keys, and all keys to the first query."""
    found = np.zeros((rows, columns))
    found[0] = found[1, 2] = -inf
    return gradloom.from_numpy(found)


def fused():
    yield tuple(inputs(2, 2)), {}
    yield (*inputs(1, 2), 0.0, True), {"scale": 0.7}
    yield (*inputs(2, 1, rows=4, columns=2), 0.0, True), {"attn_mask": bias(4, 2)}
    yield tuple(inputs(1, 2)), {"attn_mask": bias(1, 2, 3, 4)}
    yield (*inputs(1, 4, groups=2), 0.0, False), {"attn_mask": masked(3, 4), "scale": -0.5}


def fused_backward():
    for (query, key, value, *rest), given in fused():
        dropout_p, is_causal = rest or (0.0, False)
        settings = (query, key, value, query, query[..., 0], dropout_p, is_causal)
        yield (tensor(*query.shape, seed=9, low=-1.0, high=1.0), *settings), given


def anew(backward):
    def call(grad_out, query, key, value, output, logsumexp, dropout_p, is_causal, *, attn_mask=None, scale=None):
        given = {"attn_mask": attn_mask, "scale": scale}
        output, logsumexp = ops._scaled_dot_product_flash_attention_for_cpu(
            query, key, value, dropout_p, is_causal, **given
        )
        output, logsumexp = output.detach(), logsumexp.detach()
        return backward(grad_out, query, key, value, output, logsumexp, dropout_p, is_causal, **given)

    return call


def attention():
    def samples():
        yield tuple(inputs(2, 2)), {}
        yield tuple(inputs(2)), {"is_causal": True, "scale": 0.7}
        yield (*inputs(2), bias(3, 4)), {}
        yield (*inputs(1, 2), masked(3, 4).isfinite()), {}
        yield tuple(inputs(1, 4, groups=2)), {"enable_gqa": True}
        yield (*inputs(3, 4, groups=2)[:1], *inputs(3, 4, groups=1)[1:]), {"enable_gqa": True, "is_causal": True}

    return samples


CALLS = {"_scaled_dot_product_flash_attention_for_cpu_backward": anew}
SAMPLES = {
    "scaled_dot_product_attention": attention(),
    "_fused_sdp_choice": attention(),
    "_scaled_dot_product_attention_math": attention(),
    "_scaled_dot_product_flash_attention_for_cpu": fused,
    "_scaled_dot_product_flash_attention_for_cpu_backward": fused_backward,
}
CONSTANT: dict[str, tuple[str, ...]] = {}

# The fused kernel has no dropout; the backward operator's arguments belong together.
FIXED = {
    "_scaled_dot_product_flash_attention_for_cpu": ("dropout_p",),
    "_scaled_dot_product_flash_attention_for_cpu_backward": ("dropout_p", "out", "logsumexp"),
}
