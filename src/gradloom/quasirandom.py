"""Sobol sequences: PyTorch's torch.quasirandom.

The direction numbers are those of S. Joe and F. Y. Kuo, in the table that SciPy carries. Scrambling is A. B. Owen's in
the form of J. Matoušek: a random lower triangular matrix for each dimension, and a random shift.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

import gradloom as gl

from .core.tensor import Tensor

__all__ = ["SobolEngine"]


class SobolEngine:
    """Draws the points of a Sobol sequence in the unit cube, the same as PyTorch's.

    Args:
        dimension: dimension of the points, 1 to 21201.
        scramble: scramble the sequence.
        seed: seed of the scrambling; None draws from the default generator.

    Attributes:
        num_generated: the number of points drawn so far.
        sobolstate: direction numbers, an int64 tensor (dimension, 30).
        shift, quasi: int64 tensors (dimension,): the first point and the last one drawn, times 2**30.

    Raises:
        ValueError: for another dimension.
        ImportError: if SciPy lacks the table.

    Example:
        >>> gradloom.quasirandom.SobolEngine(2).draw(3)
    """

    MAXBIT = 30
    MAXDIM = 21201

    def __init__(self, dimension: int, scramble: bool = False, seed: int | None = None) -> None:
        if not 1 <= dimension <= self.MAXDIM:
            raise ValueError(f"Supported range of dimensionality for SobolEngine is [1, {self.MAXDIM}]")
        self.seed, self.scramble, self.dimension = seed, scramble, dimension
        self.sobolstate = gl.from_numpy(_direction_numbers(dimension, self.MAXBIT))
        self.shift = gl.zeros(dimension, dtype=gl.int64)
        if scramble:
            self._scramble()
        self.quasi = self.shift.clone()
        self._first_point = (self.shift / 2**self.MAXBIT).reshape(1, -1)  # in the default dtype, as PyTorch's
        self.num_generated = 0

    def draw(self, n: int = 1, out: Tensor | None = None, dtype: gl.dtype | None = None) -> Tensor:
        """Return the next points.

        Args:
            n: their number.
            out: tensor that is resized to hold them, and returned.
            dtype: their dtype; None for the default one.

        Shape:
            output: (n, dimension)
        """
        first = self.num_generated == 0
        points = self._advance(n - first)
        dtype = gl.get_default_dtype() if dtype is None else dtype
        result = gl.from_numpy(points).to(dtype) * 2.0**-self.MAXBIT
        if first:
            result = gl.cat((self._first_point.to(dtype), result))
        if out is not None:
            return out.resize_as_(result).copy_(result)
        return result

    def draw_base2(self, m: int, out: Tensor | None = None, dtype: gl.dtype | None = None) -> Tensor:
        """Return the next 2**m points; `out` and `dtype` are as for `draw`.

        Raises ValueError if the number of points drawn would not be a power of 2, so that they would not be balanced.
        """
        n = 2**m
        total = self.num_generated + n
        if total & (total - 1):
            raise ValueError(
                f"The balance properties of Sobol' points require n to be a power of 2. {self.num_generated} points "
                f"have been previously generated, then: n={self.num_generated}+2**{m}={total}. If you still want to do "
                "this, please use 'SobolEngine.draw()' instead."
            )
        return self.draw(n, out, dtype)

    def fast_forward(self, n: int) -> SobolEngine:
        """Skip `n` points, and return the engine."""
        self._advance(n - (self.num_generated == 0))
        return self

    def reset(self) -> SobolEngine:
        """Begin anew with the first point, and return the engine."""
        self.quasi.copy_(self.shift)
        self.num_generated = 0
        return self

    def _advance(self, count: int) -> Any:
        """Move on by `count` points, and by the first one if it is the first call; return them as integers."""
        first = self.num_generated == 0
        start = 0 if first else self.num_generated - 1
        # Point k + 1 differs from point k by the direction number of the lowest zero bit of k.
        numbers = np.arange(start, start + count, dtype=np.int64)
        lowest_zero = np.log2((~numbers & (numbers + 1)).astype(np.float64)).astype(np.int64)
        steps = self.sobolstate.numpy()[:, lowest_zero].T
        points = np.bitwise_xor.accumulate(np.concatenate([self.quasi.numpy()[None], steps]), axis=0)
        self.quasi = gl.from_numpy(points[-1].copy())
        self.num_generated += count + first
        return points[1:]

    def _scramble(self) -> None:
        generator = None if self.seed is None else gl.Generator().manual_seed(self.seed)
        bits = self.MAXBIT
        powers = 2 ** np.arange(bits, dtype=np.int64)
        shift = gl.randint(2, (self.dimension, bits), generator=generator)
        self.shift = gl.from_numpy(shift.numpy() @ powers)
        matrices = gl.randint(2, (self.dimension, bits, bits), generator=generator).numpy()
        matrices = np.tril(matrices, -1) + np.eye(bits, dtype=np.int64)
        # Bit 29 of a direction number is the first element of the vector that the matrix is applied to, modulo 2.
        vectors = self.sobolstate.numpy()[:, :, None] >> np.arange(bits - 1, -1, -1) & 1
        scrambled = np.einsum("dij,dvj->dvi", matrices, vectors) & 1
        self.sobolstate = gl.from_numpy(scrambled @ powers[::-1].copy())

    def __repr__(self) -> str:
        parts = [f"dimension={self.dimension}"]
        if self.scramble:
            parts.append("scramble=True")
        if self.seed is not None:
            parts.append(f"seed={self.seed}")
        return f"{type(self).__name__}({', '.join(parts)})"


def _direction_numbers(dimension: int, bits: int) -> Any:
    """Return the direction numbers as an int64 array (dimension, bits)."""
    try:
        initialize = import_module("scipy.stats._sobol")._initialize_v
    except (ImportError, AttributeError) as error:
        raise ImportError("SobolEngine needs SciPy's table of direction numbers, which this SciPy lacks") from error
    numbers = np.zeros((dimension, bits), dtype=np.uint32)
    initialize(numbers, dimension, bits)
    return numbers.astype(np.int64)
