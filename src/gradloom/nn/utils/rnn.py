"""Packed sequences: sequences of different lengths, sorted, with the rows of each step together."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple, Self

import gradloom as gl
from gradloom import Tensor
from gradloom.nn._functional import operators as ops

__all__ = [
    "PackedSequence",
    "invert_permutation",
    "pack_padded_sequence",
    "pack_sequence",
    "pad_packed_sequence",
    "pad_sequence",
    "unpack_sequence",
    "unpad_sequence",
]


class PackedSequence_(NamedTuple):
    """The fields of `PackedSequence`."""

    data: Tensor
    batch_sizes: Tensor
    sorted_indices: Tensor | None
    unsorted_indices: Tensor | None


class PackedSequence(PackedSequence_):
    """Sequences of different lengths, as recurrent networks take and return them. `pack_padded_sequence` and
    `pack_sequence` make them.

    Args:
        data: (rows, *), the rows of the first step, then those of the second and so on; or a pair of data and
            batch_sizes.
        batch_sizes: (steps,) of int64, the number of sequences that have each step.
        sorted_indices: (batch,), the order of the given sequences by decreasing length; None if they were sorted.
        unsorted_indices: the inverse of that order.

    Raises:
        ValueError: for batch_sizes that are not on the CPU.
    """

    def __new__(
        cls,
        data: Any,
        batch_sizes: Tensor | None = None,
        sorted_indices: Tensor | None = None,
        unsorted_indices: Tensor | None = None,
    ) -> Self:
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        if batch_sizes is None:
            if not (isinstance(data, (list, tuple)) and len(data) == 2):
                raise AssertionError("Expected data to be a list or tuple of length 2")
            data, batch_sizes = data
        elif batch_sizes.device.type != "cpu":
            raise ValueError(
                "batch_sizes should always be on CPU. Instances of PackedSequence should never be created manually. "
                "They should be instantiated by functions like pack_sequence and pack_padded_sequences in nn.utils.rnn."
            )
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def pin_memory(self) -> Self:
        """Pin the memory of all tensors."""
        pinned = [None if t is None else t.pin_memory() for t in (self.sorted_indices, self.unsorted_indices)]
        return type(self)(self.data.pin_memory(), self.batch_sizes, *pinned)

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Convert the data as `Tensor.to` does, and move the indices; return self if nothing changes."""
        data = self.data.to(*args, **kwargs)
        if data is self.data:
            return self
        indices = [None if t is None else t.to(data.device) for t in (self.sorted_indices, self.unsorted_indices)]
        return type(self)(data, self.batch_sizes, *indices)

    def cuda(self, *args: Any, **kwargs: Any) -> Self:
        """Move to a GPU."""
        return self.to(*args, **{"device": "cuda", **kwargs})

    def cpu(self, *args: Any, **kwargs: Any) -> Self:
        """Move to the CPU."""
        return self.to(*args, **{"device": "cpu", **kwargs})

    def double(self) -> Self:
        """Convert the data to float64."""
        return self.to(dtype=gl.float64)

    def float(self) -> Self:
        """Convert the data to float32."""
        return self.to(dtype=gl.float32)

    def half(self) -> Self:
        """Convert the data to float16."""
        return self.to(dtype=gl.float16)

    def long(self) -> Self:
        """Convert the data to int64."""
        return self.to(dtype=gl.int64)

    def int(self) -> Self:
        """Convert the data to int32."""
        return self.to(dtype=gl.int32)

    def short(self) -> Self:
        """Convert the data to int16."""
        return self.to(dtype=gl.int16)

    def char(self) -> Self:
        """Convert the data to int8."""
        return self.to(dtype=gl.int8)

    def byte(self) -> Self:
        """Convert the data to uint8."""
        return self.to(dtype=gl.uint8)

    @property
    def is_cuda(self) -> bool:
        """Whether the data is on a GPU."""
        return self.data.is_cuda

    def is_pinned(self) -> bool:
        """Return whether the data's memory is pinned."""
        return self.data.is_pinned()


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """Return the inverse of a permutation; None for None."""
    if permutation is None:
        return None
    places = gl.arange(0, permutation.numel(), device=permutation.device)
    return gl.empty_like(permutation).scatter_(0, permutation, places)


def pack_padded_sequence(
    input: Tensor, lengths: Tensor | list[int], batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """Pack padded sequences.

    Args:
        input: (steps, batch, *), or (batch, steps, *) if `batch_first`.
        lengths: the length of each sequence.
        batch_first: the first dimension of the input is the batch.
        enforce_sorted: require that lengths decrease; else the sequences are sorted.

    Raises:
        RuntimeError: for lengths that are not sorted, not positive, or not one for each sequence.
    """
    if isinstance(lengths, gl.Tensor):
        lengths = lengths.to(dtype=gl.int64)
    else:
        lengths = gl.as_tensor(lengths, dtype=gl.int64)
    sorted_indices = None
    if not enforce_sorted:
        lengths, sorted_indices = gl.sort(lengths, descending=True)
        input = input.index_select(0 if batch_first else 1, sorted_indices)
    data, batch_sizes = ops._pack_padded_sequence(input, lengths, batch_first)
    return PackedSequence(data, batch_sizes, sorted_indices)


def pad_packed_sequence(
    sequence: PackedSequence, batch_first: bool = False, padding_value: float = 0.0, total_length: int | None = None
) -> tuple[Tensor, Tensor]:
    """Invert `pack_padded_sequence`.

    Args:
        sequence: packed sequences.
        batch_first: return (batch, steps, *) in place of (steps, batch, *).
        padding_value: value beyond a sequence's end.
        total_length: number of steps; None for that of the longest sequence.

    Returns:
        The padded sequences in their original order, and their lengths.

    Raises:
        ValueError: for a total_length that is too small.
    """
    longest = sequence.batch_sizes.size(0)
    if total_length is not None:
        if total_length < longest:
            raise ValueError(
                "Expected total_length to be at least the length of the longest sequence in input, but got "
                f"total_length={total_length} and max sequence length being {longest}"
            )
        longest = total_length
    padded, lengths = ops._pad_packed_sequence(sequence.data, sequence.batch_sizes, batch_first, padding_value, longest)
    order = sequence.unsorted_indices
    if order is None:
        return padded, lengths
    return padded.index_select(0 if batch_first else 1, order), lengths[order]


def pad_sequence(
    sequences: Tensor | list[Tensor], batch_first: bool = False, padding_value: float = 0.0, padding_side: str = "right"
) -> Tensor:
    """Join sequences (length, *) of different lengths.

    Args:
        sequences: the sequences.
        batch_first: return (batch, steps, *) in place of (steps, batch, *).
        padding_value: value beyond a sequence's end.
        padding_side: "right" or "left".

    Raises:
        RuntimeError: for something that is not iterable, or for no sequences.
    """
    if not isinstance(sequences, Iterable):
        raise RuntimeError(
            f"pad_sequence: Expected iterable for input sequences, but got arg of type: {type(sequences)}"
        )
    return ops.pad_sequence(tuple(sequences), batch_first, padding_value, padding_side)


def unpad_sequence(padded_sequences: Tensor, lengths: Tensor, batch_first: bool = False) -> list[Tensor]:
    """Return the sequences without padding.

    Args:
        padded_sequences: (steps, batch, *), or (batch, steps, *) if `batch_first`.
        lengths: (batch,), the length of each sequence.
        batch_first: the first dimension is the batch.
    """
    if not batch_first:
        padded_sequences.transpose_(0, 1)
    steps = gl.arange(padded_sequences.shape[1], device=lengths.device)
    return [sequence[steps < length] for sequence, length in zip(padded_sequences, lengths, strict=True)]


def pack_sequence(sequences: list[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Pack `sequences` (length, *), sorted by length if `enforce_sorted`; see `pack_padded_sequence`."""
    lengths = gl.as_tensor([s.size(0) for s in sequences])
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """Return the sequences of `packed_sequences`."""
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)
