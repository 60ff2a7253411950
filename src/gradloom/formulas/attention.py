"""Derivatives of the fused attention.

Note [Attention's derivatives]
With scores S = c Q K^T + mask, P = softmax(S), O = P V, and rows(X) the row sums of X, kept as a column,

    backward   gV = P^T g    G = g V^T    T = P (G - rows(P G))    gQ = c T K    gK = c T^T Q

where T is the gradient of S. The softmax has the derivative dP = P (dS - rows(P dS)), which is symmetric.
"""

from __future__ import annotations

import math

from ..dispatch import _operators as ops
from ..types.dtype import bool as bool_


def _scores(query, key, attn_mask, is_causal, scale):
    """Return (P, c)."""
    factor = 1 / math.sqrt(max(query.size(-1), 1)) if scale is None else scale
    scores = ops.matmul(query, ops.transpose(key, -2, -1)) * factor
    if attn_mask is not None:
        scores = scores + attn_mask
    if is_causal:
        allowed = ops.tril(ops.ones((query.size(-2), key.size(-2)), dtype=bool_, device=query.device))
        scores = ops.masked_fill(scores, ops.logical_not(allowed), -math.inf)
    return ops._safe_softmax(scores, -1), factor


def _rows(x):
    return ops.sum(x, [-1], True)


def _t(x):
    return ops.transpose(x, -2, -1)


class _Groups:
    """Heads that share keys: `expand` repeats keys for the heads, `total` adds up their gradients."""

    def __init__(self, query, key):
        self.groups, self.shared = key.size(1), query.size(1) // key.size(1) if key.size(1) else 1

    def expand(self, *tensors):
        if self.shared == 1:
            return tensors
        return [None if t is None else ops.repeat_interleave(t, self.shared, 1) for t in tensors]

    def total(self, x):
        return x if self.shared == 1 else ops.sum(ops.unflatten(x, 1, (self.groups, self.shared)), [2])


def attention_jvp(query_p, query_t, key_p, key_t, value_p, value_t, is_causal, attn_mask, scale):
    """dO = dP V + P dV with dS = c (dQ K^T + Q dK^T); see Note [Attention's derivatives]."""
    key_p, key_t, value_p, value_t = _Groups(query_p, key_p).expand(key_p, key_t, value_p, value_t)
    p, c = _scores(query_p, key_p, attn_mask, is_causal, scale)
    ds = (ops.matmul(query_t, _t(key_p)) + ops.matmul(query_p, _t(key_t))) * c
    return ops.matmul(p * (ds - _rows(p * ds)), value_p) + ops.matmul(p, value_t)


def attention_double_backward(grads, grad_out, query, key, value, is_causal, attn_mask, scale, grad_input_mask):
    """Return the gradients of grad_out, query, key and value for cotangents a, b, e of gQ, gK and gV.

    With A = c (a K^T + Q b^T) the cotangent of T, B = P (A - rows(P A)) that of G, W = A (G - rows(P G)) - rows(P A) G
    + g e^T that of P and Z = P (W - rows(P W)) that of S:

        for g:  B V + P e        for Q:  c (Z K + T b)        for K:  c (Z^T Q + T^T a)        for V:  B^T g
    """
    groups = _Groups(query, key)
    a, b, e = grads
    key, value, b, e = groups.expand(key, value, b, e)
    p, c = _scores(query, key, attn_mask, is_causal, scale)
    of_weights = ops.matmul(grad_out, _t(value))
    inner = of_weights - _rows(p * of_weights)
    total = None
    for term in (a is not None and ops.matmul(a, _t(key)), b is not None and ops.matmul(query, _t(b))):
        if term is not False:
            total = term if total is None else total + term
    w = None if e is None else ops.matmul(grad_out, _t(e))
    of_out = None if e is None else ops.matmul(p, e)
    of_value = None
    if total is not None:
        total = total * c
        mean = _rows(p * total)
        back = p * (total - mean)
        term = total * inner - mean * of_weights
        w = term if w is None else w + term
        of_out = ops.matmul(back, value) if of_out is None else of_out + ops.matmul(back, value)
        of_value = groups.total(ops.matmul(_t(back), grad_out)) if grad_input_mask[3] else None
    of_query = of_key = None
    if w is not None and (grad_input_mask[1] or grad_input_mask[2]):
        z, t = p * (w - _rows(p * w)), p * inner
        of_query, of_key = ops.matmul(z, key), ops.matmul(_t(z), query)
        of_query = of_query if b is None else of_query + ops.matmul(t, b)
        of_key = of_key if a is None else of_key + ops.matmul(_t(t), a)
        of_query, of_key = of_query * c, groups.total(of_key * c)
    return of_out, of_query, of_key, of_value


def attention_backward_jvp(
    grad_out_p, grad_out_t, query_p, query_t, key_p, key_t, value_p, value_t, is_causal, attn_mask, scale
):
    """Return the tangents of gQ, gK and gV: the product rule along the lines of Note [Attention's derivatives]."""
    groups = _Groups(query_p, key_p)
    q, dq, g, dg = query_p, query_t, grad_out_p, grad_out_t
    k, dk, v, dv = groups.expand(key_p, key_t, value_p, value_t)
    p, c = _scores(q, k, attn_mask, is_causal, scale)
    ds = (ops.matmul(dq, _t(k)) + ops.matmul(q, _t(dk))) * c
    dp = p * (ds - _rows(p * ds))
    of_weights = ops.matmul(g, _t(v))
    d_of_weights = ops.matmul(dg, _t(v)) + ops.matmul(g, _t(dv))
    inner = of_weights - _rows(p * of_weights)
    t, dt = p * inner, dp * inner + p * (d_of_weights - _rows(dp * of_weights + p * d_of_weights))
    of_query = (ops.matmul(dt, k) + ops.matmul(t, dk)) * c
    of_key = groups.total(ops.matmul(_t(dt), q) + ops.matmul(_t(t), dq)) * c
    return of_query, of_key, groups.total(ops.matmul(_t(dp), g) + ops.matmul(_t(p), dg))
