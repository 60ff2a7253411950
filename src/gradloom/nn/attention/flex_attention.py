"""Attention whose scores a function of the user's changes, and masks in blocks.

A `score_mod(score, b, h, q_idx, kv_idx)` changes one score, a `mask_mod(b, h, q_idx, kv_idx)` says whether it counts.
Both see 0-dim tensors: `vmap` calls them once for all scores, as PyTorch does without a compiler. The whole matrix of
scores exists, so a block mask saves nothing but is checked, printed, sliced and converted as PyTorch's.
"""

from __future__ import annotations

import inspect
import itertools
import math
import operator
import warnings
from collections.abc import Callable
from functools import reduce
from typing import Any, Literal, NamedTuple, TypeAlias, TypedDict

import gradloom as gl
from gradloom import Tensor
from gradloom.types import Device

__all__ = [
    "AuxOutput",
    "AuxRequest",
    "BlockMask",
    "FlexKernelOptions",
    "and_masks",
    "create_block_mask",
    "create_mask",
    "flex_attention",
    "noop_mask",
    "or_masks",
]

MaskMod: TypeAlias = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
ScoreMod: TypeAlias = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]

_DEFAULT_SPARSE_BLOCK_SIZE = 128
_WHOLE = 1 << 30  # the size of a block that covers any length
_SLICED = (
    "Cannot use mask_mod from a sliced BlockMask. When you slice a BlockMask using [], the mask_mod attribute is "
    "reset: set it from the mask_mod of the original BlockMask."
)


class FlexKernelOptions(TypedDict, total=False):
    """Options of PyTorch's kernels, without effect here."""

    num_warps: int
    num_stages: int
    BLOCK_M: int
    BLOCK_N: int
    PRESCALE_QK: bool
    ROWS_GUARANTEED_SAFE: bool
    BLOCKS_ARE_CONTIGUOUS: bool
    WRITE_DQ: bool
    FORCE_USE_FLEX_ATTENTION: bool
    USE_TMA: bool
    kpack: int
    matrix_instr_nonkdim: int
    waves_per_eu: int
    BACKEND: Literal["AUTO", "TRITON", "FLASH", "TRITON_DECODE"]


class AuxRequest(NamedTuple):
    """What `flex_attention` returns besides its result.

    Attributes:
        lse: the logarithm of the sum of the exponentials of each row of scores.
        max_scores: the maximum of each row of scores.
    """

    lse: bool = False
    max_scores: bool = False


class AuxOutput(NamedTuple):
    """What an `AuxRequest` asked for; each (B, H, Q), or None."""

    lse: Tensor | None = None
    max_scores: Tensor | None = None


def noop_mask(batch: Tensor, head: Tensor, token_q: Tensor, token_kv: Tensor) -> Tensor:
    """Return True: a mask_mod by which all scores count.

    Args:
        batch, head, token_q, token_kv: numbers of the score, 0-dim tensors.
    """
    return batch.new_ones((), dtype=gl.bool)


def or_masks(*mask_mods: MaskMod) -> MaskMod:
    """Return a mask_mod by which a score counts if it does by any of the given ones.

    Raises RuntimeError if one is not callable.
    """
    return _combined(mask_mods, operator.or_, False)


def and_masks(*mask_mods: MaskMod) -> MaskMod:
    """Return a mask_mod by which a score counts if it does by all of the given ones.

    Raises RuntimeError if one is not callable.
    """
    return _combined(mask_mods, operator.and_, True)


def _combined(mask_mods: tuple[MaskMod, ...], combine: Callable[[Tensor, Tensor], Tensor], of_none: bool) -> MaskMod:
    if not all(map(callable, mask_mods)):
        raise RuntimeError(f"All inputs should be callable mask_mods: {mask_mods}")

    def mask_mod(batch: Tensor, head: Tensor, token_q: Tensor, token_kv: Tensor) -> Tensor:
        masks = (mask(batch, head, token_q, token_kv) for mask in mask_mods)
        return reduce(combine, masks, batch.new_full((), of_none, dtype=gl.bool))

    return mask_mod


def _sliced_mask_mod(b: Tensor, h: Tensor, q_idx: Tensor, kv_idx: Tensor) -> Tensor:
    raise RuntimeError(_SLICED)


class BlockMask:
    """A mask of attention in blocks: which blocks of keys a block of queries sees, in part or in full.

    `create_block_mask` makes one from a mask_mod, `from_kv_blocks` from lists of blocks. Indexing with a batch element,
    a head and blocks of queries returns the mask of these, without its mask_mod.

    Attributes:
        seq_lengths: the numbers of queries and keys.
        kv_num_blocks: (B, H, rows), int32, how many blocks of keys each block of queries sees in part.
        kv_indices: (B, H, rows, columns), int32, which; those behind the number do not count.
        full_kv_num_blocks, full_kv_indices: the same for blocks seen in full, or None.
        q_num_blocks, q_indices, full_q_num_blocks, full_q_indices: the same by blocks of keys, or None.
        BLOCK_SIZE: queries and keys of a block.
        mask_mod: the function that says which scores count.

    Raises:
        RuntimeError: if `kv_indices` has less than two dimensions.
        AssertionError: if one of a pair of tensors is missing.
    """

    kv_num_blocks: Tensor
    kv_indices: Tensor
    full_kv_num_blocks: Tensor | None
    full_kv_indices: Tensor | None
    q_num_blocks: Tensor | None
    q_indices: Tensor | None
    full_q_num_blocks: Tensor | None
    full_q_indices: Tensor | None
    mask_mod: MaskMod

    def __init__(
        self,
        seq_lengths: tuple[int, int],
        kv_num_blocks: Tensor,
        kv_indices: Tensor,
        full_kv_num_blocks: Tensor | None,
        full_kv_indices: Tensor | None,
        q_num_blocks: Tensor | None,
        q_indices: Tensor | None,
        full_q_num_blocks: Tensor | None,
        full_q_indices: Tensor | None,
        BLOCK_SIZE: tuple[int, int] = (_DEFAULT_SPARSE_BLOCK_SIZE, _DEFAULT_SPARSE_BLOCK_SIZE),
        mask_mod: MaskMod = noop_mask,
    ) -> None:
        if kv_indices.dim() < 2:
            raise RuntimeError("BlockMask must have at least 2 dimensions")
        for side, number, indices in (
            ("kv", full_kv_num_blocks, full_kv_indices),
            ("q", full_q_num_blocks, full_q_indices),
        ):
            if (number is None) != (indices is None):
                raise AssertionError(f"full_{side}_num_blocks and full_{side}_indices must be both provided or omitted")
        self.seq_lengths = seq_lengths
        self.kv_num_blocks, self.kv_indices = kv_num_blocks, kv_indices
        self.full_kv_num_blocks, self.full_kv_indices = full_kv_num_blocks, full_kv_indices
        self.q_num_blocks, self.q_indices = q_num_blocks, q_indices
        self.full_q_num_blocks, self.full_q_indices = full_q_num_blocks, full_q_indices
        self.BLOCK_SIZE, self.mask_mod = BLOCK_SIZE, mask_mod

    @classmethod
    def from_kv_blocks(
        cls,
        kv_num_blocks: Tensor,
        kv_indices: Tensor,
        full_kv_num_blocks: Tensor | None = None,
        full_kv_indices: Tensor | None = None,
        BLOCK_SIZE: int | tuple[int, int] = _DEFAULT_SPARSE_BLOCK_SIZE,
        mask_mod: MaskMod | None = None,
        seq_lengths: tuple[int, int] | None = None,
        compute_q_blocks: bool = True,
    ) -> BlockMask:
        """Return the mask with these blocks of keys; see the class for the tensors.

        Args:
            kv_num_blocks, kv_indices: blocks seen in part.
            full_kv_num_blocks, full_kv_indices: blocks seen in full, or None.
            BLOCK_SIZE: queries and keys of a block, or one number for both.
            mask_mod: which scores count in blocks seen in part; all by default.
            seq_lengths: the numbers of queries and keys; all of the blocks' by default.
            compute_q_blocks: whether to list the blocks by keys, too.
        """
        if kv_indices.dim() < 2:
            raise RuntimeError("BlockMask must have at least 2 dimensions")
        if (full_kv_num_blocks is None) != (full_kv_indices is None):
            raise AssertionError("full_kv_num_blocks and full_kv_indices must be both provided or omitted")
        size = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else BLOCK_SIZE
        by_keys: tuple[Tensor | None, ...] = (None, None, None, None)
        if compute_q_blocks:
            full = (None, None)
            if full_kv_num_blocks is not None and full_kv_indices is not None:
                full = _transposed(full_kv_num_blocks, full_kv_indices)
            by_keys = *_transposed(kv_num_blocks, kv_indices), *full
        if seq_lengths is None:
            seq_lengths = kv_indices.shape[-2] * size[0], kv_indices.shape[-1] * size[1]
        by_queries = kv_num_blocks, kv_indices, full_kv_num_blocks, full_kv_indices
        return cls(
            seq_lengths, *by_queries, *by_keys, BLOCK_SIZE=size, mask_mod=noop_mask if mask_mod is None else mask_mod
        )

    def as_tuple(self, flatten: bool = True) -> tuple[Any, ...]:
        """Return the lengths, the eight tensors, four places that only kernels on GPUs use (None), the block sizes and
        the mask_mod; without `flatten`, lengths and sizes as pairs."""
        lengths, sizes = (self.seq_lengths, self.BLOCK_SIZE) if flatten else ((self.seq_lengths,), (self.BLOCK_SIZE,))
        return (*lengths, *self._tensors(), None, None, None, None, *sizes, self.mask_mod)

    def _tensors(self):
        return (
            self.kv_num_blocks,
            self.kv_indices,
            self.full_kv_num_blocks,
            self.full_kv_indices,
            self.q_num_blocks,
            self.q_indices,
            self.full_q_num_blocks,
            self.full_q_indices,
        )

    @property
    def shape(self) -> tuple[int, ...]:
        """The batch elements and heads of the mask, and the numbers of queries and keys."""
        return (*self.kv_indices.shape[:-2], *self.seq_lengths)

    def numel(self) -> int:
        """Return the number of scores."""
        return math.prod(self.shape)

    def sparsity(self) -> float:
        """Return which part of the scores, in percent, is in blocks that are not seen."""
        seen = self.kv_num_blocks.sum()
        if self.full_kv_num_blocks is not None:
            seen = seen + self.full_kv_num_blocks.sum()
        return 100 * (1 - seen.item() * self.BLOCK_SIZE[0] * self.BLOCK_SIZE[1] / self.numel())

    def to_dense(self) -> Tensor:
        """Return (B, H, rows, columns), int32: 1 for each block that is seen."""
        dense = _to_dense(self.kv_num_blocks, self.kv_indices)
        if self.full_kv_num_blocks is not None:
            dense = dense | _to_dense(self.full_kv_num_blocks, self.full_kv_indices)
        return dense

    def to(self, device: Device) -> BlockMask:
        """Return the mask on a device."""
        moved = [None if x is None else x.to(device) for x in self._tensors()]
        return BlockMask(self.seq_lengths, *moved, BLOCK_SIZE=self.BLOCK_SIZE, mask_mod=self.mask_mod)

    def __getitem__(self, index: Any) -> BlockMask:
        given = (*(index if isinstance(index, tuple) else (index,)), slice(None), slice(None), slice(None))[:3]
        # a number keeps its dimension
        kept = tuple(
            slice(i % n, i % n + 1)
            if isinstance(i, int) and -n <= i < n
            else slice(i, i + 1)
            if isinstance(i, int)
            else i
            for i, n in zip(given, self.kv_num_blocks.shape[:3], strict=True)
        )
        chosen = [None if x is None else x[kept] for x in self._tensors()[:4]]
        return BlockMask.from_kv_blocks(
            *chosen,  # type: ignore[arg-type]
            BLOCK_SIZE=self.BLOCK_SIZE,
            mask_mod=_sliced_mask_mod,
            seq_lengths=self.seq_lengths,
            compute_q_blocks=self.q_indices is not None,
        )

    def _adjust(self, new_q_len: int, new_kv_len: int) -> BlockMask:
        """Return the upper left part of the mask, of other lengths."""
        rows, columns = -(-new_q_len // self.BLOCK_SIZE[0]), -(-new_kv_len // self.BLOCK_SIZE[1])
        parts: list[Tensor | None] = []
        for number, indices in (self._tensors()[:2], self._tensors()[2:4]):
            parts += (None, None) if number is None else _to_ordered(_to_dense(number, indices)[..., :rows, :columns])
        return BlockMask.from_kv_blocks(
            *parts,
            BLOCK_SIZE=self.BLOCK_SIZE,
            mask_mod=self.mask_mod,
            seq_lengths=(new_q_len, new_kv_len),
            compute_q_blocks=self.q_indices is not None,
        )

    def __repr__(self) -> str:
        names = "kv_num_blocks kv_indices full_kv_num_blocks full_kv_indices q_num_blocks q_indices".split()
        names += ["full_q_num_blocks", "full_q_indices"]
        shapes = [None if x is None else x.shape for x in self._tensors()]
        lines = [f"    {name}={shape},\n" for name, shape in zip(names, shapes, strict=True)]
        return (
            f"BlockMask(\n{''.join(lines)}    BLOCK_SIZE={self.BLOCK_SIZE},\n    shape={self.shape},\n"
            f"    sparsity={self.sparsity():.2f}%,\n    mask_mod={getattr(self.mask_mod, '__name__', self.mask_mod)}\n)"
        )

    def __str__(self) -> str:
        picture = self.to_string().strip()
        return f"BlockMask(shape={self.shape}, sparsity={self.sparsity():.2f}%, \n{picture}\n)"

    def to_string(self, grid_size: int | tuple[int, int] = (20, 20), limit: int = 4) -> str:
        """Return a picture of the blocks of each head: full, shaded and empty squares.

        Args:
            grid_size: the greatest numbers of rows and columns of a picture, or one number for both.
            limit: how many pictures to return.
        """
        dense = self.to_dense().float()
        rows, columns = (grid_size, grid_size) if isinstance(grid_size, int) else grid_size
        found = []
        for count, batch in enumerate(itertools.product(*map(range, dense.shape[:-2]))):
            if count == limit:
                found.append("...")
                found.append("To print out more, set BlockMask.to_string(limit=N)")
                found.append("You can also index (BlockMask[batch, head]) to choose a specific batch or head")
                break
            found.append(f"{batch}\n{_picture(dense[batch], rows, columns)}")
        return "\n".join(found)


def _picture(dense, rows, columns):
    """Draw a matrix of 0 and 1 with at most so many rows and columns; each square stands for a part of the matrix."""
    height, width = (max(1, -(-size // most)) for size, most in zip(dense.shape, (rows, columns), strict=True))
    lines = []
    for top in range(0, dense.shape[0], height):
        parts = [dense[top : top + height, left : left + width] for left in range(0, dense.shape[1], width)]
        means = [part.mean().item() for part in parts]
        lines.append("".join(["██" if mean == 1 else "  " if mean == 0 else "░░" for mean in means]) + "\n")
    return "".join(lines)


def _to_dense(number: Tensor, indices: Tensor) -> Tensor:
    """Return (..., rows, columns), int32, with 1 at the first `number` (..., rows) of `indices` (..., rows, n)."""
    columns = indices.shape[-1]
    counts = gl.arange(indices.shape[-1], device=indices.device) < number.unsqueeze(-1)
    places = gl.where(counts, indices, columns).long()
    dense = gl.zeros((*indices.shape[:-1], columns + 1), dtype=gl.int32, device=indices.device)
    return dense.scatter(-1, places, 1)[..., :columns].contiguous()


def _to_ordered(dense: Tensor) -> tuple[Tensor, Tensor]:
    """Return how many blocks of each row are seen, and the columns with these first, both int32."""
    dense = dense.to(gl.int32)
    order = gl.argsort(dense, dim=-1, descending=True, stable=True)
    return dense.sum(-1).to(gl.int32), order.to(gl.int32)


def _transposed(number: Tensor, indices: Tensor) -> tuple[Tensor, Tensor]:
    return _to_ordered(_to_dense(number, indices).transpose(-2, -1))


def _count_positional(function: Callable[..., Any]) -> int:
    """Return how many arguments a mod takes: 5 for a score_mod, 4 for a mask_mod; raise AssertionError otherwise."""
    code = getattr(function, "__code__", None)
    if code is not None:
        count = code.co_argcount - len(getattr(function, "__defaults__", None) or ())
    else:
        given = inspect.signature(function).parameters.values()
        count = sum(parameter.default is inspect.Parameter.empty for parameter in given)
    if count not in (4, 5):
        raise AssertionError(f"Expected 4 or 5 positional args, got {count}")
    return int(count)


def _for_all(function: Callable[..., Any], first: tuple[int | None, ...] = ()) -> Callable[..., Any]:
    """Return the function for all batch elements, heads, queries and keys, after the arguments of `first`."""
    for position in (3, 2, 1, 0):
        dims = tuple(0 if i == position else None for i in range(4))
        function = gl.vmap(function, in_dims=first + dims)
    return function


def _places(*sizes: int, device: Any) -> tuple[Tensor, ...]:
    return tuple(gl.arange(size, device=device) for size in sizes)


def create_mask(
    mod_fn: ScoreMod | MaskMod, B: int | None, H: int | None, Q_LEN: int, KV_LEN: int, device: Device | None = None
) -> Tensor:
    """Return the mask (B, H, Q_LEN, KV_LEN), bool, of a mask_mod, or of a score_mod where that is not -inf.

    Args:
        mod_fn: the function, told by the number of its arguments.
        B, H: numbers of batch elements and heads; 1 if None.
        Q_LEN, KV_LEN: numbers of queries and keys.
        device: of the tensors that the function is called with.
    """
    B, H = 1 if B is None else B, 1 if H is None else H
    places = _places(B, H, Q_LEN, KV_LEN, device=device)
    if _count_positional(mod_fn) == 4:
        mask: Tensor = _for_all(mod_fn)(*places)
        return mask
    return ~gl.isneginf(_for_all(mod_fn, (0,))(gl.zeros(B, H, Q_LEN, KV_LEN, device=device), *places))


def create_block_mask(
    mask_mod: MaskMod,
    B: int | None,
    H: int | None,
    Q_LEN: int,
    KV_LEN: int,
    device: Device | None = None,
    BLOCK_SIZE: int | tuple[int, int] = _DEFAULT_SPARSE_BLOCK_SIZE,
    _compile: bool = False,
    separate_full_blocks: bool = True,
) -> BlockMask:
    """Return the BlockMask of a mask_mod.

    Args:
        mask_mod: called with four 0-dim tensors.
        B, H: numbers of batch elements and heads; 1 if None, which then stands for all.
        Q_LEN, KV_LEN: numbers of queries and keys.
        device: of the mask.
        BLOCK_SIZE: queries and keys of a block, or one number for both.
        separate_full_blocks: list the blocks in which all scores count apart from the others.

    Raises:
        AssertionError: for a function that does not take four arguments.

    Example:
        >>> from gradloom.nn.attention.flex_attention import create_block_mask
        >>> print(create_block_mask(lambda b, h, q, kv: q >= kv, None, None, 64, 64, BLOCK_SIZE=16))
        BlockMask(shape=(1, 1, 64, 64), sparsity=37.50%,
        (0, 0)
        ██
        ████
        ██████
        ████████
        )
    """
    if _count_positional(mask_mod) != 4:
        raise AssertionError(f"create-block_mask requires a mask_mod function! Got {mask_mod}")
    rows, columns = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else BLOCK_SIZE
    mask = create_mask(mask_mod, B, H, Q_LEN, KV_LEN, device)
    mask = gl.nn.functional.pad(mask, (0, -KV_LEN % columns, 0, -Q_LEN % rows))
    b, h, q, kv = mask.shape
    counts = mask.view(b, h, q // rows, rows, kv // columns, columns).sum((3, 5))
    everything = rows * columns
    full: tuple[Tensor | None, ...] = (None, None)
    if separate_full_blocks:
        partial, full = (counts > 0) & (counts < everything), _to_ordered(counts == everything)
    else:
        partial = counts > 0
    return BlockMask.from_kv_blocks(
        *_to_ordered(partial), *full, BLOCK_SIZE=(rows, columns), mask_mod=mask_mod, seq_lengths=(Q_LEN, KV_LEN)
    )


def flex_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score_mod: ScoreMod | None = None,
    block_mask: BlockMask | None = None,
    scale: float | None = None,
    enable_gqa: bool = False,
    return_lse: bool = False,
    kernel_options: FlexKernelOptions | None = None,
    *,
    return_aux: AuxRequest | None = None,
) -> Any:
    """Return softmax(score_mod(query @ key^T * scale)) @ value, with the scores that a mask leaves out at -inf.

    Derivatives of all orders and forward mode go through it, also for tensors that the functions capture.

    Args:
        query: (B, Hq, Q, E).
        key: (B, Hkv, KV, E), with a B of 1 for all batch elements if there is a block_mask.
        value: (B, Hkv, KV, Ev).
        score_mod: called with a score, the batch element, the head, the query and the key, 0-dim tensors.
        block_mask: from `create_block_mask`, for these numbers of queries and keys.
        scale: 1 / sqrt(E) by default.
        enable_gqa: let each head of keys serve Hq / Hkv heads of queries.
        return_lse: deprecated; `return_aux=AuxRequest(lse=True)`.
        kernel_options: accepted without effect.
        return_aux: what to return besides.

    Returns:
        (B, Hq, Q, Ev); with `return_lse` also the logarithms (B, Hq, Q), with `return_aux` an AuxOutput. Rows without
        any score are zero.

    Raises:
        ValueError: if sizes, or the mask, do not fit.
        NotImplementedError: for other than four dimensions.
        RuntimeError: for a BlockMask that was sliced and got no mask_mod.
    """
    _check_sizes(query, key, value, block_mask, enable_gqa)
    if block_mask is not None:
        _check_block_mask(query, key, block_mask)
    if return_lse and return_aux is not None:
        raise ValueError(
            "Cannot specify both return_lse and return_aux. return_lse is deprecated, please use "
            "return_aux=AuxRequest(lse=True) instead."
        )
    if return_lse:
        warnings.warn(
            "return_lse is deprecated and will be removed in v2.10. Please use return_aux=AuxRequest(lse=True) "
            "instead.",
            FutureWarning,
            stacklevel=2,
        )
    scores = _scores(query, key, score_mod, block_mask, 1 / math.sqrt(query.size(-1)) if scale is None else scale)
    groups = query.size(1) // value.size(1)
    values = value.to(query.dtype).repeat_interleave(groups, 1)
    weights = gl._safe_softmax(scores, -1)  # zeros for a row without any score
    result = weights.to(query.dtype) @ values
    if return_aux is not None:
        lse = scores.logsumexp(-1) if return_aux.lse else None
        return result, AuxOutput(lse, scores.amax(-1) if return_aux.max_scores else None)
    return (result, scores.logsumexp(-1)) if return_lse else result


def _scores(query, key, score_mod, block_mask, scale):
    """Return the scores (B, Hq, Q, KV), in float32 unless the query is float64."""
    dtype = gl.float64 if query.dtype == gl.float64 else gl.float32
    keys = key.to(dtype).repeat_interleave(query.size(1) // key.size(1), 1)
    scores = query.to(dtype) @ keys.transpose(-2, -1) * scale
    places = _places(*scores.shape, device=scores.device)
    if score_mod is not None:
        scores = _for_all(score_mod, (0,))(scores, *places).to(dtype)
    if block_mask is not None:
        scores = scores.masked_fill(~_for_all(block_mask.mask_mod)(*places), -math.inf)
    return scores


def _check_sizes(query, key, value, block_mask, enable_gqa):
    if query.dim() < 2 or key.dim() < 2 or value.dim() < 2:
        raise ValueError(
            "Expected query, key, and value to all be  at least 2 dimensional, but got query.dim: "
            f"{query.dim()}, key.dim: {key.dim()} and value.dim: {value.dim()} instead."
        )
    if query.size(-1) != key.size(-1):
        raise ValueError(
            f"Expect query and key/value to have the same embedding dimension but got E={query.size(-1)} and "
            f"E={key.size(-1)}."
        )
    if query.dim() != 4 or key.dim() != 4 or value.dim() != 4:
        raise NotImplementedError("NYI: query, key, and value must be 4D tensors")
    heads, key_heads = query.size(1), key.size(1)
    if not enable_gqa and heads != key_heads:
        raise ValueError(
            f"Expect query and key/value to have the same number of heads but got Hq={heads} and Hkv={key_heads}. "
            "Try setting enable_gqa=True for GQA."
        )
    if heads % key_heads:
        raise ValueError(
            f"Expect number of query heads to be a multiple of kv heads for GQA but got Hq={heads} and Hkv={key_heads}."
        )
    if query.size(0) != key.size(0) and block_mask is None:
        raise ValueError(
            "Expect query and key/value to have the same batch size, or non-none block_mask, but got block_mask=None, "
            f"Bq={query.size(0)}, and Bkv={key.size(0)}."
        )


def _check_block_mask(query, key, block_mask):
    if block_mask.mask_mod is _sliced_mask_mod:
        raise RuntimeError("Cannot use mask_mod from a sliced BlockMask")
    batch = block_mask.kv_num_blocks.size(0)
    if query.size(0) != key.size(0) and batch != query.size(0):
        raise ValueError(
            "Expect query and key/value to have the same batch size, or block_mask and query to have the same batch "
            f"size, but got Bq={query.size(0)}, Bkv={key.size(0)}, B_block_mask={batch}."
        )
    if block_mask.BLOCK_SIZE == (_WHOLE, _WHOLE):
        return
    lengths, expected = (query.size(-2), key.size(-2)), tuple(block_mask.shape[-2:])
    if lengths == expected:
        return
    if lengths[0] > expected[0] or lengths[1] > expected[1]:
        raise RuntimeError(
            "block_mask was created for a smaller length than you're using it for, you likely need to create a new "
            "block mask."
        )
    raise RuntimeError(
        "block_mask was created for a larger length than you're using it for, you can either 1. create a new block "
        "mask with the correct length, or 2. 'adjust' the existing block mask to the correct length by calling "
        "block_mask._adjust(q_len, kv_len)."
    )
