"""The MT19937 stream of PyTorch's CPU generator (Matsumoto and Nishimura 1998), and filling arrays from it.

NumPy's bit generator supplies the 32-bit words; this module adds PyTorch's other state: the 64-bit seed, one cached
normal number, and the byte image of `get_state` and `set_state`. `numpy.random` is imported when the first number is
drawn.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from functools import cache

import numpy as np

from ...memory.locks import new_lock, renewed
from .._common.errors import type_name

WORDS = 624  # words of MT19937 state
_FEW = 4096  # words, up to which raw calls are faster than a typed one, whose setup is slow
# Constants are 0-dim arrays, which NumPy takes faster than numbers.
_LOW24, _LOW53, _HIGH = (np.array(n, np.uint64) for n in ((1 << 24) - 1, (1 << 53) - 1, 32))
_LOW24_OF_WORDS = np.array((1 << 24) - 1, np.uint32)
_TO_UNIT24, _TO_UNIT53 = np.array(2.0**-24, np.float32), np.array(2.0**-53)
_SIGNED = np.dtype(np.int64)

# The byte image: seed, words left before the next refill (+ 1), seeded flag, index of the next word; the state words,
# each in 8 bytes; the cached double normal (x unused, y its value, rho unused, whether it is valid); the cached float
# normal, which PyTorch reserves but never fills, and whether it is valid.
_HEAD = struct.Struct("<QiiQ")
_TAIL = struct.Struct("<dddi4xf?3x")
STATE_BYTES = _HEAD.size + 8 * WORDS + _TAIL.size


class Stream:
    """MT19937 words, and the state shared by PyTorch's transforms.

    Attributes:
        seed_value: the 64-bit seed last given; only its low 32 bits reach MT19937.
        cached_normal: the pending second number of a Box-Muller pair (standard normal), or None.
        lock: held by a kernel while it draws, so that concurrent calls get contiguous sequences.
    """

    __slots__ = ("seed_value", "cached_normal", "lock", "_bits", "_numbers", "_untouched")

    def __init__(self, seed: int):
        self.lock = new_lock()
        self._bits = self._numbers = None
        self.seed(seed)

    def seed(self, seed: int) -> None:
        """Restart from `seed` (0 <= seed < 2**64), with no cached normal."""
        with self.lock:
            self.seed_value = seed
            self.cached_normal = None
            self._untouched = True
            if self._numbers is not None:
                self._numbers.seed(seed & 0xFFFFFFFF)

    def _source(self):
        """Return the NumPy bit generator, made and seeded on first use."""
        if self._bits is None:
            from numpy.random import MT19937, RandomState

            bits = MT19937(0)
            renewed(bits.lock)
            self._numbers = RandomState(bits)  # shares the state of `bits`
            self._numbers.seed(self.seed_value & 0xFFFFFFFF)
            self._bits = bits
        return self._bits

    @property
    def position(self) -> int:
        """A number that changes when words are drawn."""
        return -1 if self._bits is None else int(self._bits.state["state"]["pos"])

    def words(self, n: int) -> np.ndarray:
        """Return the next `n` words, uint64 (n,) or, if they are many, uint32 (n,), whichever is faster."""
        if n > _FEW:
            return self.words32(n)
        bits = self._bits or self._source()
        if n:
            self._untouched = False
        return bits.random_raw(n)

    def words32(self, n: int) -> np.ndarray:
        """Return the next `n` words, uint32 (n,)."""
        if n <= _FEW:
            return self.words(n).astype(np.uint32)
        self._source()
        self._untouched = False
        return self._numbers.randint(0, 1 << 32, size=n, dtype=np.uint32)

    def words64(self, n: int) -> np.ndarray:
        """Return the next `n` pairs of words, the first of each pair in the high half: uint64 (n,)."""
        bits = self._bits or self._source()
        if n:
            self._untouched = False
        if n <= _FEW // 2:
            pairs = bits.random_raw(2 * n)
            draws = np.left_shift(pairs[0::2], _HIGH)
            return np.bitwise_or(draws, pairs[1::2], draws)
        return self._numbers.randint(0, 1 << 64, size=n, dtype=np.uint64)

    def uniform24(self, n: int, out: np.ndarray | None = None) -> np.ndarray:
        """Draw `n` numbers in [0, 1): the low 24 bits of a word each. float32 (n,), or in `out`, of any shape."""
        words = self.words(n)
        wide = words.itemsize == 8
        np.bitwise_and(words, _LOW24 if wide else _LOW24_OF_WORDS, words)
        values = words.view(_SIGNED if wide else np.int32).astype(np.float32)  # a signed integer converts faster
        if out is None:
            return np.multiply(values, _TO_UNIT24, values)
        return np.multiply(values.reshape(out.shape), _TO_UNIT24, out)

    def uniform53(self, n: int) -> np.ndarray:
        """Draw `n` numbers in [0, 1): the low 53 bits of a 64-bit draw each. float64 (n,)."""
        draws = self.words64(n)
        draws &= _LOW53
        # A signed integer converts to double in one vector instruction, an unsigned one does not.
        values = draws.view(_SIGNED).astype(np.float64)
        return np.multiply(values, _TO_UNIT53, values)

    def mark(self) -> tuple:
        """Return a position for `rewind`, for a caller that draws more than it will use."""
        return self.seed_value if self._bits is None else self._bits.state, self._untouched

    def rewind(self, mark: tuple) -> None:
        """Go back to a position taken by `mark`."""
        position, self._untouched = mark
        if not isinstance(position, int):
            self._source().state = position
        elif self._bits is not None or position != self.seed_value:  # the first word of that seed
            self._source()
            self._numbers.seed(position & 0xFFFFFFFF)

    def to_bytes(self) -> np.ndarray:
        """Return the whole state as PyTorch's byte image: uint8 (5056,)."""
        with self.lock:
            state = self._source().state["state"]
            position = int(state["pos"])
            # PyTorch starts a fresh state at word 0 of an exhausted block, NumPy at word 624.
            following, left = (0, 1) if self._untouched else (position, WORDS + 1 - position)
            cached = self.cached_normal
            image = (
                _HEAD.pack(self.seed_value, left, 1, following)
                + state["key"].astype("<u8").tobytes()
                + _TAIL.pack(0.0, cached or 0.0, 0.0, cached is not None, 0.0, False)
            )
        return np.frombuffer(image, np.uint8).copy()

    def from_bytes(self, image: np.ndarray) -> None:
        """Restore a state written by `to_bytes` or PyTorch's `get_rng_state`. `image` is uint8 (5056,)."""
        if image.size != STATE_BYTES:
            raise RuntimeError(
                f"Expected a CPUGeneratorImplState of size {STATE_BYTES} but found the input RNG state "
                f"size to be {image.size}"
            )
        data = np.ascontiguousarray(image).tobytes()
        seed, left, seeded, following = _HEAD.unpack_from(data)
        if seeded != 1 or not 0 < left <= WORDS or following > WORDS:
            raise RuntimeError("Invalid mt19937 state")
        key = np.frombuffer(data, "<u8", WORDS, _HEAD.size).astype(np.uint32)
        _, cached, _, valid, _, _ = _TAIL.unpack_from(data, _HEAD.size + 8 * WORDS)
        position = WORDS if left == 1 else following
        with self.lock:
            self._source().state = {"bit_generator": "MT19937", "state": {"key": key, "pos": position}}
            self.seed_value = seed
            self.cached_normal = cached if valid else None
            self._untouched = following == 0 and left == 1


# The stream of the default generator, seeded with the operating system's randomness.
default_stream = Stream(int.from_bytes(os.urandom(8), "little"))
BLOCK = 32768  # numbers drawn at a time, so that temporaries stay in cache; a multiple of 16
HALF = ("float16", "bfloat16")
DIGITS = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}  # of the significand, the leading one included
LARGEST = {
    "float16": 65504.0,
    "bfloat16": 3.3895313892515355e38,
    "float32": 3.4028234663852886e38,
    "float64": 1.7976931348623157e308,
}


@cache  # computing `dtype.name` takes longer than drawing a few numbers
def name_of(dtype: np.dtype) -> str:
    """Return the name of a dtype, such as float32."""
    return dtype.name


def require(out: np.ndarray, operation: str, kinds: str, even_if_empty: bool = False) -> None:
    """Raise NotImplementedError unless the dtype is of one of `kinds`: f(loating), i(nteger), b(ool). Arrays without
    elements pass, as nothing is drawn for them, unless `even_if_empty`."""
    kind = "f" if name_of(out.dtype) in DIGITS else out.dtype.kind.replace("u", "i").replace("f", "V")
    if kind not in kinds and (out.size or even_if_empty):
        raise NotImplementedError(f"\"{operation}\" not implemented for '{type_name(out.dtype)}'")


def real_parts(out: np.ndarray) -> np.ndarray:
    """View a complex array as a real one with a last axis of 2; return any other array unchanged."""
    if out.dtype.kind != "c":
        return out
    real = out.real
    return np.lib.stride_tricks.as_strided(real, (*out.shape, 2), (*out.strides, real.itemsize))


def memory_axes(out: np.ndarray) -> list[int]:
    """Return the axes of `out` in the order of its memory, the largest stride first."""
    if out.flags.c_contiguous:
        return list(range(out.ndim))
    return sorted(range(out.ndim), key=lambda axis: -abs(out.strides[axis]))


def narrowed(values: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Convert `values` to float32 before a half `dtype`, since C++ converts in two steps."""
    if dtype.char in "eE" and values.dtype.char not in "?f":
        return values.astype(np.float32)
    return values


def fill(out: np.ndarray, draw: Callable[[int], np.ndarray]) -> np.ndarray:
    """Fill `out` in memory order with the results of `draw(n)`, block by block, and return it. As in PyTorch, a
    transposed array receives transposed numbers."""
    whole = out.flags.c_contiguous
    view = out if whole else out.transpose(memory_axes(out))
    whole = whole or view.flags.c_contiguous
    flat = view.reshape(-1) if whole else np.empty(view.size, view.dtype)
    if 0 < flat.size <= BLOCK:
        flat[...] = narrowed(draw(flat.size), flat.dtype)
    else:
        for start in range(0, flat.size, BLOCK):
            stop = min(start + BLOCK, flat.size)
            flat[start:stop] = narrowed(draw(stop - start), flat.dtype)
    if not whole:
        view[...] = flat.reshape(view.shape)
    return out
