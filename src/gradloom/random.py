"""Random number generators: `Generator`, the default generator, and functions that seed it and save its state.

The kernels of `kernels/random/` draw from a generator's `Stream`. The state has PyTorch's format of 5056 bytes, so each
library can load a state that the other saved.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from .core.tensor import Tensor
from .dispatch.state import whole_context
from .kernels.random.streams import Stream, default_stream
from .types import Device
from .types.device import CPU, check_device
from .types.public import found_in as _found_in

if TYPE_CHECKING:
    from .types.device import device as _Device

__all__ = [
    "Generator",
    "default_generator",
    "fork_rng",
    "get_rng_state",
    "initial_seed",
    "manual_seed",
    "seed",
    "set_rng_state",
]

# PyTorch's seed of a new Generator. The default generator is seeded by the operating system instead.
_UNSEEDED = 67280421310721


def _fresh_seed() -> int:
    return int.from_bytes(os.urandom(8), "little")


def _checked_seed(seed: int) -> int:
    """Return a seed as an unsigned 64-bit number; negative ones wrap around."""
    if not -(1 << 63) <= seed < 1 << 64:
        raise ValueError("Overflow when unpacking long long")
    return seed & ((1 << 64) - 1)


class Generator:
    """A source of random numbers, by MT19937; it gives PyTorch's numbers for the same seed.

    Several threads may draw from one generator; each call then gets consecutive numbers.

    Args:
        device: the CPU.

    Raises:
        RuntimeError: for another device.
    """

    __slots__ = ("_stream", "__weakref__")

    def __init__(self, device: Device = "cpu") -> None:
        try:
            check_device(device)
        except AssertionError:
            raise RuntimeError(f"Cannot get a generator of the device {device}: gradloom computes on the CPU") from None
        self._stream = Stream(_UNSEEDED)

    @property
    def device(self) -> _Device:
        """The generator's device: the CPU."""
        return CPU

    def manual_seed(self, seed: int) -> Generator:
        """Seed the generator and return it.

        Args:
            seed: -2**63 <= seed < 2**64; a negative seed stands for 2**64 + seed. Only the low 32 bits have an effect.

        Raises:
            RuntimeError: if `seed` is not an int. ValueError: if it is out of range.
        """
        if isinstance(seed, bool) or not isinstance(seed, int):
            raise RuntimeError(f"manual_seed expected a long, but got {type(seed).__name__}")
        self._stream.seed(_checked_seed(seed))
        return self

    def seed(self) -> int:
        """Seed the generator by the operating system, and return the seed."""
        seed = _fresh_seed()
        self._stream.seed(seed)
        return seed

    def initial_seed(self) -> int:
        """Return the seed last set, as an unsigned 64-bit number."""
        return self._stream.seed_value

    def get_state(self) -> Tensor:
        """Return the state in PyTorch's format, a uint8 tensor (5056,)."""
        from .core.tensor import wrap

        return wrap(self._stream.to_bytes())

    def set_state(self, new_state: Tensor) -> None:
        """Restore a state that `get_state` returned, here or in PyTorch.

        Args:
            new_state: tensor, uint8 (5056,).

        Raises:
            TypeError: if it is not a tensor of bytes. RuntimeError: if it is not a generator's state.
        """
        from .core.tensor import Tensor

        if not isinstance(new_state, Tensor):
            raise TypeError(f"expected a torch.ByteTensor, but got {type(new_state).__name__}")
        if new_state._array.dtype != "uint8":
            raise TypeError("RNG state must be a torch.ByteTensor")
        self._stream.from_bytes(new_state._array)

    def clone_state(self) -> Generator:
        """Return a new generator in the same state."""
        clone = Generator()
        clone._stream.from_bytes(self._stream.to_bytes())
        return clone

    def get_offset(self) -> int:
        """Raise RuntimeError: only generators of accelerators count an offset."""
        raise RuntimeError("CPU Generator does not use offset")

    def set_offset(self, offset: int) -> None:
        """Raise RuntimeError: only generators of accelerators count an offset."""
        raise RuntimeError("CPU Generator does not use offset")

    def __reduce__(self) -> tuple[Any, ...]:
        return Generator, (self.device,), (self.initial_seed(), None, self.get_state())

    def __setstate__(self, saved: Any) -> None:
        _, _, state = saved
        self.set_state(state)


default_generator: Generator = Generator()
default_generator._stream = default_stream


def manual_seed(seed: int) -> Generator:
    """Seed the default generator with int(seed) and return it. See `Generator.manual_seed`."""
    return default_generator.manual_seed(int(seed))


def seed() -> int:
    """Seed the default generator by the operating system, and return the seed."""
    return default_generator.seed()


def initial_seed() -> int:
    """Return the seed last given to the default generator."""
    return default_generator.initial_seed()


def get_rng_state() -> Tensor:
    """Return the state of the default generator: uint8 tensor (5056,)."""
    return default_generator.get_state()


def set_rng_state(new_state: Tensor) -> None:
    """Restore a saved state of the default generator. See `Generator.set_state`.

    Args:
        new_state: tensor, uint8 (5056,).
    """
    default_generator.set_state(new_state)


@whole_context
def fork_rng(devices: Any = None, enabled: bool = True) -> Iterator[None]:
    """Return a context that restores the state of the default generator at its end.

    Args:
        devices: accepted for compatibility; there are no accelerators.
        enabled: False makes the context do nothing.
    """
    if not enabled:
        yield
        return
    saved = default_generator._stream.to_bytes()
    try:
        yield
    finally:
        try:
            default_generator._stream.from_bytes(saved)
        except BaseException:  # see Note [Interrupts]
            default_generator._stream.from_bytes(saved)
            raise


_found_in("gradloom._C", Generator)
