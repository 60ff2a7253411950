"""The cross entropy of a linear map in chunks of rows, which never holds the logits of all rows.

With reduction "mean" and "sum" the gradients follow from the logits of a chunk while these exist: they are computed in
the forward pass, and the backward pass multiplies them by its gradient. With "none" each row has a gradient of its own,
so the backward pass computes the logits again. A backward pass that is recorded, for second derivatives, computes all
logits at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import gradloom as gl
from gradloom import Tensor
from gradloom.autograd.function import Function
from gradloom.nn._functional import operators as ops
from gradloom.nn._reduction import get_enum
from gradloom.types import DType


class Chunking(NamedTuple):
    """The chunks of one loss.

    Attributes:
        size: rows of a chunk.
        acc_dtype: the dtype of sums.
        logits_dtype: the dtype of logits.
        allow_retain_graph: whether gradients are kept for a second backward pass.
    """

    size: int
    acc_dtype: DType
    logits_dtype: DType
    allow_retain_graph: bool


def chunks_of(options: Any, rows: int, features: int, classes: int, dtype: DType) -> Chunking:
    """Return the chunks that options give for an input (rows, features) and a number of classes.

    Args:
        options: a `LinearCrossEntropyOptions`.
        rows, features, classes, dtype: of the loss.

    Raises:
        ValueError: if `batch_chunk_size` is not what `chunking_method` chooses.
        RuntimeError: for an `acc_dtype` that the dtype does not allow.
    """
    half = dtype in (gl.float16, gl.bfloat16)
    method, size = options.chunking_method, options.batch_chunk_size
    if method == "auto":
        method = None if size is not None else "aspect_ratio" if half else "aspect_ratio:2"
    chosen = min(size or rows, rows)
    if method is not None:
        chosen = _by_aspect_ratio(rows, features, classes, int(method.partition(":")[2] or 1))
        if size not in (None, chosen):
            raise ValueError(
                f"batch_chunk_size (={size}) and chunking_method ('{method}') give different chunk sizes "
                f"({size} vs {chosen}); pass only one."
            )
    acc_dtype = options.acc_dtype or (gl.float32 if half and options.acc_policy == "auto" else dtype)
    if acc_dtype != dtype and not (half and acc_dtype == gl.float32):
        raise RuntimeError(
            "linear_cross_entropy supports float32 acc_dtype with float16/bfloat16 inputs, but got "
            f"{acc_dtype} acc_dtype and {dtype} inputs."
        )
    narrow = dtype == gl.float16 and options.acc_policy in ("balanced", "compact")
    return Chunking(max(1, chosen), acc_dtype, dtype if narrow else acc_dtype, options.allow_retain_graph)


def _by_aspect_ratio(rows, features, classes, divisor):
    """Return the size of chunks whose logits are about as large as the input, divided by `divisor`."""
    share = -(-rows // max(1, -(-classes // features)))
    return min((1 << (share - 1).bit_length()) // divisor, rows)


class _Operands(NamedTuple):
    """A loss's inputs: (N, F), (C, F), (N,), (C,) or None, and the factor of each row, (N,)."""

    input: Tensor
    linear_weight: Tensor
    target: Tensor
    linear_bias: Tensor | None
    factors: Tensor


class _Settings(NamedTuple):
    reduction: str
    ignore_index: int
    chunking: Chunking


def chunked_loss(
    input: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    linear_bias: Tensor | None,
    weight: Tensor | None,
    settings: tuple[Any, ...],
) -> Tensor:
    """Return the loss of class indices.

    Args:
        input: (N, F) or (F,).
        linear_weight: (C, F).
        target: (N,) or (), int64.
        linear_bias: (C,) or None.
        weight: (C,) or None, the weight of each class.
        settings: the reduction, the class to ignore, and the chunks.
    """
    function: type[Function] = GeneratedBackwardFor_torch_nn__linear_cross_entropy_batch_chunked_default
    if settings[0] == "none":
        function = GeneratedBackwardFor_torch_nn__linear_cross_entropy_batch_chunked_no_reduction_default
    if input.dim() == 2:
        result: Tensor = function.apply(input, linear_weight, target, linear_bias, weight, _Settings(*settings))
        return result
    row = input.unsqueeze(0), linear_weight, target.unsqueeze(0), linear_bias, weight
    return function.apply(*row, _Settings(*settings)).squeeze(0)


class GeneratedBackwardFor_torch_nn__linear_cross_entropy_batch_chunked_default(Function):
    """The mean or the sum; named for its node, as in PyTorch."""

    @staticmethod
    def forward(
        ctx: Any,
        input: Tensor,
        linear_weight: Tensor,
        target: Tensor,
        linear_bias: Tensor | None,
        weight: Tensor | None,
        settings: _Settings,
    ) -> Tensor:
        operands = _operands(input, linear_weight, target, linear_bias, weight, settings)
        chunking = settings.chunking
        ctx.save_for_backward(input, linear_weight, target, linear_bias, weight)
        ctx.settings = settings
        ctx.keep = chunking.allow_retain_graph
        wanted = [ctx.needs_input_grad[i] for i in (0, 1, 3)]
        start = float("nan") if settings.reduction == "mean" and not input.shape[0] else 0.0  # a mean of nothing is NaN
        total = gl.full((), start, dtype=chunking.acc_dtype, device=input.device)
        gradients = _Gradients(operands, wanted)
        for losses, rows, slopes in _chunks(operands, chunking, any(wanted)):
            total += losses.sum()
            gradients.add(rows, slopes)
        ctx.gradients = gradients.finished()
        return total.to(input.dtype)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients that `forward` computed, times that of the loss; once, unless they are kept.

        Args:
            ctx: from `forward`.
            grads: the gradient of the loss.
        """
        if ctx.gradients is None:
            raise RuntimeError(
                "linear_cross_entropy chunked backward called twice; retain_graph=True / double backward are not "
                "supported."
            )
        if gl.is_grad_enabled():
            ctx.keep = True  # second derivatives pass here again
            found = _recorded_gradients(ctx, grads[0])
        else:
            found = [None if gradient is None else gradient * grads[0] for gradient in ctx.gradients]
        if not ctx.keep:
            ctx.gradients = None
        return found[0], found[1], None, found[2], None, None


class GeneratedBackwardFor_torch_nn__linear_cross_entropy_batch_chunked_no_reduction_default(Function):
    """The loss of each row; named for its node, as in PyTorch."""

    @staticmethod
    def forward(
        ctx: Any,
        input: Tensor,
        linear_weight: Tensor,
        target: Tensor,
        linear_bias: Tensor | None,
        weight: Tensor | None,
        settings: _Settings,
    ) -> Tensor:
        operands = _operands(input, linear_weight, target, linear_bias, weight, settings)
        ctx.save_for_backward(input, linear_weight, target, linear_bias, weight)
        ctx.settings = settings
        losses = [losses for losses, _, _ in _chunks(operands, settings.chunking, False)]
        return ops.cat([gl.zeros(0, dtype=settings.chunking.acc_dtype, device=input.device), *losses]).to(input.dtype)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        """Compute the gradients, from logits that are computed again.

        Args:
            ctx: from `forward`.
            grads: the gradient of each row's loss.
        """
        if gl.is_grad_enabled():
            of_input, of_weight, of_bias = _recorded_gradients(ctx, grads[0])
            return of_input, of_weight, None, of_bias, None, None
        with gl.no_grad():
            input, linear_weight, target, linear_bias, weight = ctx.saved_tensors
            operands = _operands(input, linear_weight, target, linear_bias, weight, ctx.settings)
            operands = operands._replace(factors=operands.factors * grads[0])
            gradients = _Gradients(operands, [ctx.needs_input_grad[i] for i in (0, 1, 3)])
            for _, rows, slopes in _chunks(operands, ctx.settings.chunking, True):
                gradients.add(rows, slopes)
            of_input, of_weight, of_bias = gradients.finished()
        return of_input, of_weight, None, of_bias, None, None


def _recorded_gradients(ctx: Any, grad: Tensor) -> list[Tensor | None]:
    """Return the gradients of the input, the weight and the bias as functions of these, from the logits of all rows."""
    input, linear_weight, target, linear_bias, weight = ctx.saved_tensors
    reduction, ignore_index, chunking = ctx.settings
    of_logits = [None if t is None else t.to(chunking.logits_dtype) for t in (input, linear_weight, linear_bias)]
    factors = None if weight is None else weight.to(chunking.logits_dtype)
    loss = ops.cross_entropy_loss(ops.linear(*of_logits), target, factors, get_enum(reduction), ignore_index, 0.0)
    wanted = [ctx.needs_input_grad[i] for i in (0, 1, 3)]
    inputs = [t for t, is_wanted in zip((input, linear_weight, linear_bias), wanted, strict=True) if is_wanted]
    found = iter(gl.autograd.grad(loss.to(input.dtype), inputs, grad, create_graph=True))
    return [next(found) if is_wanted else None for is_wanted in wanted]


def _operands(input, linear_weight, target, linear_bias, weight, settings):
    """Return the inputs in the dtype of the logits; ignored rows get the factor 0 and any class."""
    reduction, ignore_index, chunking = settings
    ignored = target == ignore_index
    target = target.masked_fill(ignored, 0)
    factors = gl.ones_like(target, dtype=chunking.acc_dtype)
    if weight is not None:
        factors = weight.to(chunking.acc_dtype)[target]
    factors = factors.masked_fill(ignored, 0)
    if reduction == "mean":
        factors = factors / factors.sum()  # NaN if all rows are ignored
    dtype = chunking.logits_dtype
    bias = None if linear_bias is None else linear_bias.to(dtype)
    return _Operands(input, linear_weight.to(dtype), target, bias, factors)


def _chunks(operands: _Operands, chunking: Chunking, differentiate: bool) -> Iterator[tuple[Tensor, slice, Any]]:
    """Yield the losses of each chunk, its rows, and the derivatives by its logits, if they are wanted."""
    for start in range(0, operands.input.shape[0], chunking.size):
        rows = slice(start, start + chunking.size)
        target, factors = operands.target[rows].unsqueeze(1), operands.factors[rows].unsqueeze(1)
        logits = ops.linear(
            operands.input[rows].to(chunking.logits_dtype), operands.linear_weight, operands.linear_bias
        )
        logits -= logits.amax(1, keepdim=True)
        picked = logits.gather(1, target)
        total = logits.exp_().sum(1, keepdim=True)
        losses = ((total.log() - picked) * factors).squeeze(1)
        if differentiate:
            logits /= total
            logits.scatter_add_(1, target, gl.full_like(picked, -1))
            factors = factors.to(logits.dtype)
            # a batch of gradients makes a batch of factors only
            logits = logits.mul_(factors) if type(factors) is type(logits) else logits * factors
        yield losses, rows, logits


class _Gradients:
    """The gradients of the input, the linear map's weight and its bias, summed up chunk by chunk.

    Args:
        operands: the inputs.
        wanted: which gradients are computed.
    """

    def __init__(self, operands: _Operands, wanted: list[bool]) -> None:
        self.operands, self.wanted = operands, wanted
        self.input: list[Tensor] = []
        self.weight: Tensor | None = None
        self.bias: Tensor | None = None

    def add(self, rows: slice, slopes: Tensor) -> None:
        """Add what the derivatives by a chunk's logits, (n, C), contribute."""
        dtype = self.operands.factors.dtype
        of_input, of_weight, of_bias = self.wanted
        if of_input:
            self.input.append((slopes @ self.operands.linear_weight).to(self.operands.input.dtype))
        if of_weight:
            left, right = slopes.mT.to(dtype), self.operands.input[rows].to(dtype)
            self.weight = left @ right if self.weight is None else self.weight.addmm_(left, right)
        if of_bias:
            found = slopes.sum(0, dtype=dtype)
            self.bias = found if self.bias is None else self.bias.add_(found)

    def finished(self) -> list[Tensor | None]:
        """Return the gradients in the input's dtype, None where none is wanted; without chunks they are zeros."""
        operands, found = self.operands, []
        sums = ops.cat(self.input) if self.input else None, self.weight, self.bias
        likes = operands.input, operands.linear_weight, operands.linear_bias
        for wanted, total, like in zip(self.wanted, sums, likes, strict=True):
            total = gl.zeros_like(like) if wanted and total is None else total
            found.append(None if total is None else total.to(operands.input.dtype))
        return found
