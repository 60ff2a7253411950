"""PowerSGD: gradients as products of thin matrices.

Vogels, Karimireddy and Jaggi, "PowerSGD: Practical Low-Rank Gradient Compression for Distributed Optimization", NeurIPS
2019. A gradient M, (n, m), becomes P Q^T with P (n, r) and Q (m, r): one step of subspace iteration, in which the ranks
average M Q, make its columns orthonormal, and average M^T P. What the approximation leaves out is added to the next
gradient (error feedback).

The steps of a bucket run in the thread of the backward pass: their order among the buckets is the same on all ranks.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ....core.tensor import wrap
from ....futures import Future
from ... import distributed_c10d as dist
from . import default_hooks as default

__all__ = ["PowerSGDState", "batched_powerSGD_hook", "powerSGD_hook"]


class PowerSGDState:
    """Settings and memory of `powerSGD_hook`, for one model.

    Args:
        process_group: whose ranks average; None for the default group.
        matrix_approximation_rank: r, the number of columns of P and Q.
        start_powerSGD_iter: number of iterations that average gradients as they are, at least 2 with error feedback or
            warm start.
        min_compression_rate: matrices that become smaller by less are averaged as they are.
        use_error_feedback: add what was left out to the next gradient.
        warm_start: start from the Q of the iteration before, not from a random one.
        orthogonalization_epsilon: added to the norm of a column, against columns of zeros.
        random_seed: of the first Q, the same on all ranks.
        compression_stats_logging_frequency, batch_tensors_with_same_shape: have no effect.
    """

    def __init__(
        self,
        process_group: Any,
        matrix_approximation_rank: int = 1,
        start_powerSGD_iter: int = 1_000,
        min_compression_rate: float = 2,
        use_error_feedback: bool = True,
        warm_start: bool = True,
        orthogonalization_epsilon: float = 0,
        random_seed: int = 0,
        compression_stats_logging_frequency: int = 10_000,
        batch_tensors_with_same_shape: bool = False,
    ) -> None:
        if (use_error_feedback or warm_start) and start_powerSGD_iter <= 1:
            raise ValueError(
                "Expect `start_powerSGD_iter` > 1 if `use_error_feedback` or `warm_start` is enabled, because PowerSGD "
                "can only be applied after the first two iterations in DDP."
            )
        self.process_group = process_group
        self.matrix_approximation_rank, self.start_powerSGD_iter = matrix_approximation_rank, start_powerSGD_iter
        self.min_compression_rate = min_compression_rate
        self.use_error_feedback, self.warm_start = use_error_feedback, warm_start
        self.orthogonalization_epsilon = orthogonalization_epsilon
        self.rng = np.random.RandomState(random_seed)
        self.error_dict: dict[int, np.ndarray] = {}
        self.p_memory_dict: dict[int, list[np.ndarray]] = {}
        self.q_memory_dict: dict[int, list[np.ndarray]] = {}
        self.iter = 0
        self.total_numel_before_compression = self.total_numel_after_compression = 0

    def maybe_increase_iter(self, bucket: Any) -> None:
        """Count an iteration at its last bucket."""
        if bucket.is_last():
            self.iter += 1

    def compression_stats(self) -> tuple[float, int, int]:
        """Return the compression rate so far, and the numbers of elements before and after compression."""
        before, after = self.total_numel_before_compression, self.total_numel_after_compression
        return (before / after if after else 0.0), before, after


def powerSGD_hook(state: PowerSGDState, bucket: Any) -> Any:
    """Average the gradients of a bucket: matrices by low-rank approximations, vectors as they are."""
    return _reduced(state, bucket, [tuple(one.shape) for one in bucket.gradients()])


def batched_powerSGD_hook(state: PowerSGDState, bucket: Any) -> Any:
    """Average the gradients of a bucket as one square matrix: fewer calls, a coarser approximation."""
    side = math.ceil(math.sqrt(bucket.buffer().numel()))
    return _reduced(state, bucket, [(side, side)])


def _reduced(state: PowerSGDState, bucket: Any, shapes: list[tuple[int, ...]]) -> Any:
    if state.iter < state.start_powerSGD_iter:
        state.maybe_increase_iter(bucket)
        return default.allreduce_hook(state.process_group, bucket)
    buffer = bucket.buffer()
    flat, index = buffer.detach()._array, bucket.index()
    if state.use_error_feedback:
        error = state.error_dict.get(index)
        if error is None or error.shape != flat.shape:
            error = state.error_dict[index] = np.zeros_like(flat)
        flat += error
        error[...] = flat
    _approximate(state, flat, index, shapes)
    if state.use_error_feedback:
        error -= flat
    state.maybe_increase_iter(bucket)
    future: Any = Future()
    future.set_result(buffer)
    return future


def _approximate(state: PowerSGDState, flat: np.ndarray, index: int, shapes: list[tuple[int, ...]]) -> None:
    """Replace gradients by the average of their approximations, in place."""
    matrices, others, start = [], [], 0
    needed = sum(math.prod(shape) for shape in shapes)
    whole = flat if needed == flat.size else np.concatenate([flat, np.zeros(needed - flat.size, flat.dtype)])
    for shape in shapes:
        end = start + math.prod(shape)
        part = whole[start:end]
        rows = shape[0] if shape else 1
        columns = part.size // rows if rows else 0
        rank = min(rows, columns, state.matrix_approximation_rank)
        state.total_numel_before_compression += part.size
        if len(shape) > 1 and (rows + columns) * rank * state.min_compression_rate < rows * columns:
            matrices.append((part.reshape(rows, columns), rank))
            state.total_numel_after_compression += (rows + columns) * rank
        else:
            others.append(part)
            state.total_numel_after_compression += part.size
        start = end
    _average(state, others)
    qs = state.q_memory_dict.get(index) if state.warm_start else None
    if qs is None or [q.shape for q in qs] != [(m.shape[1], rank) for m, rank in matrices]:
        qs = [_orthonormal(state.rng.standard_normal((m.shape[1], r)).astype(m.dtype), 0.0) for m, r in matrices]
    ps = [matrix @ q for (matrix, _), q in zip(matrices, qs, strict=True)]
    _average(state, ps)
    ps = [_orthonormal(p, state.orthogonalization_epsilon) for p in ps]
    qs = [matrix.T @ p for (matrix, _), p in zip(matrices, ps, strict=True)]
    _average(state, qs)
    for (matrix, _), p, q in zip(matrices, ps, qs, strict=True):
        np.matmul(p, q.T, out=matrix)
    if state.warm_start:
        state.p_memory_dict[index], state.q_memory_dict[index] = ps, qs
    if whole is not flat:
        flat[...] = whole[: flat.size]


def _average(state: PowerSGDState, arrays: list[np.ndarray]) -> None:
    """Average arrays over the ranks by one call, in place."""
    if not arrays:
        return
    group = default._group(state.process_group)
    flat = np.concatenate([one.reshape(-1) for one in arrays])
    flat /= group.size()
    dist.all_reduce(wrap(flat), group=group)
    start = 0
    for one in arrays:
        one[...] = flat[start : start + one.size].reshape(one.shape)
        start += one.size


def _orthonormal(matrix: np.ndarray, epsilon: float) -> np.ndarray:
    """Return orthonormal columns that span those of a matrix."""
    if epsilon == 0:
        return np.linalg.qr(matrix.astype(np.float64))[0].astype(matrix.dtype)
    found = matrix.astype(np.float64)
    for column in range(found.shape[1]):
        found[:, column] -= found[:, :column] @ (found[:, :column].T @ found[:, column])
        found[:, column] /= np.linalg.norm(found[:, column]) + epsilon
    return found.astype(matrix.dtype)
