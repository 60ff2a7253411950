"""Scaled dot-product attention, softmax(scale q k^T + mask) v, in blocks of heads or of rows of queries.

Note [Blocks of attention]
The scores of a whole batch, (batch, heads, queries, keys), are never in memory at once. A block holds the scores of
some heads or, for long sequences, of some queries of one head; it is as large as a core's cache. A row of scores is
always whole, so that its softmax needs no second visit. The backward pass computes the scores again, and gets the
softmax from them by the saved logarithms of its sums.

Subtracting a row's maximum before the exponential protects against overflow. It costs two visits of the block. If all
scores of a block are moderate and so are all sums, the exponential is taken as it is.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ._common import threads
from ._common.blas import SMALL, dot, gemm
from ._common.errors import type_name
from ._common.layout import new_like
from ._common.numbers import widen
from ._common.tables import number, ones

_BLOCK = 1 << 16  # scores in a block
_MODERATE = 16.0  # scores up to here need no shift; nor do sums from exp(-_MODERATE)
_LEAST_SUM = math.exp(-_MODERATE)
_NAME = "scaled_dot_product_attention_flash_attention"


def _check(query, key, value, dropout_p, attn_mask):
    if query.dtype.kind not in "fV" and query.dtype.name not in ("bfloat16", "float16"):
        kind = type_name(query.dtype)
        raise RuntimeError(f"{_NAME}: Expected data type in FP32, FP64, BF16, FP16, but got {kind} instead.")
    if not query.ndim == key.ndim == value.ndim == 4:
        raise RuntimeError(f"{_NAME}: Accept only 4 dims inputs shape of {{B, H, T, K}}")
    if dropout_p != 0.0:
        raise RuntimeError(f"{_NAME}: Currently do not support dropout > 0")
    if not query.shape[-1] == key.shape[-1] == value.shape[-1]:
        raise RuntimeError(f"{_NAME}: Q/K/V should have the same head size")
    if attn_mask is not None and attn_mask.dtype not in (query.dtype, np.dtype(np.float32)):
        raise RuntimeError(f"{_NAME}: Attention mask is the same data type as query")


class _Heads(NamedTuple):
    """The inputs with heads in groups: queries (batch, groups, shared, L, D), keys and values (batch, groups, 1, S, D),
    which the `shared` heads of a group share, and a mask or None, (batch, groups, shared, L, S)."""

    query: np.ndarray
    key: np.ndarray
    value: np.ndarray
    mask: np.ndarray | None
    causal: bool
    scale: np.ndarray

    @property
    def shape(self) -> tuple[int, int, int, int, int]:
        batch, groups, shared, rows, _ = self.query.shape
        return batch, groups, shared, rows, self.key.shape[-2]

    def columns(self, rows: slice) -> int:
        """Return how many keys the queries in `rows` may attend to."""
        return min(self.key.shape[-2], rows.stop) if self.causal else self.key.shape[-2]

    def scores(self, at: tuple[slice, slice], rows: slice) -> np.ndarray:
        """Return the masked scores of the queries in `rows` of some batch elements and groups, for `columns(rows)`."""
        count = self.columns(rows)
        found = np.matmul(self.query[at][..., rows, :] * self.scale, self.key[at][..., :count, :].swapaxes(-1, -2))
        if self.mask is not None:
            found += self.mask[at][..., rows, :count]
        if self.causal and count > rows.start:
            found[..., rows.start :] += _later(rows.stop - rows.start, count - rows.start, found.dtype)
        return found


def _later(rows: int, columns: int, dtype: np.dtype) -> np.ndarray:
    """Return a matrix of -inf above the diagonal, and zeros elsewhere."""
    found = np.zeros((rows, columns), dtype)
    for row in range(min(rows, columns)):
        found[row, row + 1 :] = -np.inf
    return found


def _grouped(query, key, value, attn_mask, is_causal, scale) -> _Heads:
    batch, heads, rows, size = query.shape
    groups = key.shape[1]
    shape = (batch, groups, heads // max(groups, 1), rows)
    mask = None
    if attn_mask is not None:
        mask = np.broadcast_to(widen(attn_mask), (batch, heads, rows, key.shape[2])).reshape(*shape, key.shape[2])
    query, key, value = (widen(x) for x in (query, key, value))
    factor = number(1 / math.sqrt(max(size, 1)) if scale is None else scale, query.dtype)
    return _Heads(query.reshape(*shape, size), key[:, :, None], value[:, :, None], mask, is_causal, factor)


def _blocks(heads: _Heads, by_rows: bool) -> list[tuple[tuple[slice, slice], list[slice]]]:
    """Cut the heads into tasks; a task is some batch elements and groups, and the row blocks to compute in turn. With
    `by_rows`, each row block of a long sequence is a task of its own."""
    batch, groups, shared, rows, columns = heads.shape
    each = max(1, shared * rows * columns)
    count = max(1, _BLOCK // each)
    if each > _BLOCK:
        step = max(16, _BLOCK // max(1, shared * columns))
        parts = [slice(start, min(start + step, rows)) for start in range(0, rows, step)]
    else:
        parts = [slice(0, rows)]
    tasks = []
    for b in range(0, batch, max(1, count // max(1, groups))):
        for g in range(0, groups, count):
            at = (slice(b, min(b + max(1, count // groups), batch)), slice(g, min(g + count, groups)))
            tasks += [(at, [part]) for part in parts] if by_rows else [(at, parts)]
    return tasks


def _share(work, tasks, heads: _Heads) -> None:
    if len(tasks) == 1 and heads.query.size * heads.key.shape[-2] <= SMALL:
        work(tasks[0])
    else:
        threads.share(work, tasks)


def _row_sums(x: np.ndarray) -> np.ndarray:
    """Sum the last dimension of a contiguous array by a product with ones, which is faster than NumPy's reduction."""
    return np.matmul(x, ones[x.dtype.char, x.shape[-1]])


def _weigh(heads: _Heads, at, rows) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return exp(scores - shift), its row sums, and the logarithms of the sums of exp(scores), 0 for an empty row."""
    found = heads.scores(at, rows)
    top = np.maximum.reduce(found, None) if found.size else -np.inf
    if -_MODERATE <= top <= _MODERATE:
        np.exp(found, out=found)
        total = _row_sums(found)
        if np.minimum.reduce(total, None) >= _LEAST_SUM:
            return found, total, np.log(total)
        found = heads.scores(at, rows)
    shift = np.maximum.reduce(found, -1, keepdims=True, initial=-np.inf)
    nothing = np.isneginf(shift)
    shift[nothing] = 0
    found -= shift
    np.exp(found, out=found)
    total = _row_sums(found)
    total[nothing[..., 0]] = 1
    return found, total, np.log(total) + shift[..., 0]


def flash_attention(query, key, value, dropout_p=0.0, is_causal=False, attn_mask=None, scale=None):
    """Return softmax(scale query key^T + attn_mask) value, and the logarithms of the sums of the softmax.

    Args:
        query: (batch, heads, L, D), floating; key, value: (batch, groups, S, D), with a divisor of heads.
        dropout_p: 0; is_causal: let query i attend to keys up to i only.
        attn_mask: additive, broadcast to (batch, heads, L, S), or None.
        scale: factor of the products; None for 1 / sqrt(D).

    Returns:
        (batch, heads, L, D), laid out as the query; zeros for a query that may attend to nothing. (batch, heads, L), of
        float32 for half types.

    Raises:
        RuntimeError: for other ranks, dtypes and sizes, and for dropout.
    """
    _check(query, key, value, dropout_p, attn_mask)
    if attn_mask is None and not is_causal and _are_few(query, key, value):
        found = _attend_at_once(query, key, value, scale)
        if found is not None:
            return found
    heads = _grouped(query, key, value, attn_mask, is_causal, scale)
    batch, number, length, _ = query.shape
    shape = heads.query.shape
    out = new_like(query)
    sums = np.empty((batch, length, number), heads.query.dtype).transpose(0, 2, 1)
    to, to_sums = (_split(out, shape), _split(sums, shape[:-1])) if out.size else (out, sums)

    def work(task):
        at, (rows,) = task
        weights, total, logarithms = _weigh(heads, at, rows)
        found = np.matmul(weights, heads.value[at][..., : heads.columns(rows), :])
        np.divide(found, total[..., None], out=to[at][..., rows, :], casting="unsafe")
        to_sums[at][..., rows] = logarithms

    if out.size:
        _share(work, _blocks(heads, by_rows=True), heads)
    return out, sums


def _are_few(query, key, value) -> bool:
    """Return whether all scores are one block of contiguous float arrays whose heads share no keys."""
    return (
        query.dtype.char in "fd"
        and query.dtype is key.dtype is value.dtype
        and query.shape[:2] == key.shape[:2] == value.shape[:2]
        and 0 < query.size
        and 0 < query.size // query.shape[3] * key.shape[2] <= _BLOCK
        and query.flags.c_contiguous
        and key.flags.c_contiguous
        and value.flags.c_contiguous
    )


def _attend_at_once(query, key, value, scale):
    """Return what `flash_attention` does, in one block without a shift; None if scores or sums are not moderate."""
    batch, heads, length, size = query.shape
    columns = key.shape[2]
    factor = number(1 / math.sqrt(size) if scale is None else scale, query.dtype)
    scaled = np.multiply(query, factor).reshape(-1, length, size)
    weights = gemm(scaled, key.reshape(-1, columns, size).swapaxes(1, 2))
    if not -_MODERATE <= weights.item(weights.argmax()) <= _MODERATE:  # also NaN
        return None
    np.exp(weights, weights)
    total = dot(weights.reshape(-1, columns), ones[query.dtype.char, columns])
    if total.item(total.argmin()) < _LEAST_SUM:
        return None
    out = gemm(weights, value.reshape(-1, columns, value.shape[3])).reshape(-1, value.shape[3])
    np.divide(out, total[:, None], out)
    sums = np.empty((batch, length, heads), query.dtype).transpose(0, 2, 1)
    np.log(total.reshape(sums.shape), sums)
    return out.reshape(query.shape), sums


def _split(array, shape):
    """Split the heads of an array (batch, heads, ...) into groups, as a view."""
    return array.reshape(shape)  # to split a dimension takes no copy


def flash_attention_backward(
    grad_out, query, key, value, out, logsumexp, dropout_p, is_causal, attn_mask=None, scale=None
):
    """Return the gradients of `flash_attention` for query, key and value.

    With P = exp(S - logsumexp), the softmax of the scores S:

        gV = P^T gO    gP = gO V^T    gS = P (gP - rows(gO O))    gQ = scale gS K    gK = scale gS^T Q

    where rows() sums over the last dimension.
    """
    _check(query, key, value, dropout_p, attn_mask)
    heads = _grouped(query, key, value, attn_mask, is_causal, scale)
    shape = heads.query.shape
    grad, result = widen(grad_out).reshape(shape), widen(out).reshape(shape)
    logarithms = logsumexp.reshape(shape[:-1])
    work_type = heads.query.dtype
    grads = [_time_major(x.shape, work_type) for x in (query, key, value)]
    to_query = _split(grads[0], shape) if query.size else grads[0]
    to_key, to_value = grads[1][:, :, None], grads[2][:, :, None]

    def work(task):
        at, parts = task
        for rows in parts:
            count = heads.columns(rows)
            keys, values = heads.key[at][..., :count, :], heads.value[at][..., :count, :]
            queries, g = heads.query[at][..., rows, :], grad[at][..., rows, :]
            weights = heads.scores(at, rows)
            weights -= logarithms[at][..., rows, None]
            np.exp(weights, out=weights)
            _add(to_value[at], count, np.matmul(weights.swapaxes(-1, -2), g))
            of_scores = np.matmul(g, values.swapaxes(-1, -2))
            of_scores -= _row_sums(g * result[at][..., rows, :])[..., None]
            of_scores *= weights
            np.multiply(np.matmul(of_scores, keys), heads.scale, out=to_query[at][..., rows, :])
            _add(to_key[at], count, np.matmul(of_scores.swapaxes(-1, -2), queries * heads.scale))

    if query.size and key.size:
        _share(work, _blocks(heads, by_rows=False), heads)
    return tuple(g.astype(query.dtype, copy=False) for g in grads)


def _time_major(shape, dtype):
    """Return a new array (batch, heads, time, size) with the heads of one time side by side in memory."""
    batch, heads, length, size = shape
    return np.zeros((batch, length, heads, size), dtype).transpose(0, 2, 1, 3)


def _add(target, count, terms):
    """Add the terms of the heads that share keys to the first `count` rows of their gradient."""
    terms = terms[:, :, 0] if terms.shape[2] == 1 else np.add.reduce(terms, 2)
    target[:, :, 0, :count] += terms
