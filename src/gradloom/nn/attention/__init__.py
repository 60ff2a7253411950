"""Which computation `scaled_dot_product_attention` may choose."""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Iterable, Iterator

from gradloom.composite.attention import ALLOWED as _ALLOWED

__all__ = ["WARN_FOR_UNFUSED_KERNELS", "SDPBackend", "sdpa_kernel"]

WARN_FOR_UNFUSED_KERNELS: bool = False


class SDPBackend(enum.IntEnum):
    """Computations of attention. On a CPU there are MATH and FLASH_ATTENTION, the fused kernel."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4

    def __str__(self) -> str:
        return f"SDPBackend.{self.name}"


_NAMES = {
    SDPBackend.MATH: "math",
    SDPBackend.FLASH_ATTENTION: "flash",
    SDPBackend.EFFICIENT_ATTENTION: "mem_efficient",
    SDPBackend.CUDNN_ATTENTION: "cudnn",
}


@contextlib.contextmanager
def sdpa_kernel(backends: SDPBackend | Iterable[SDPBackend], set_priority: bool = False) -> Iterator[None]:
    """Allow only the given computations of `scaled_dot_product_attention` in a block, or in a decorated function.

    Args:
        backends: one, or a list. If neither MATH nor FLASH_ATTENTION can compute a call, it raises RuntimeError.
        set_priority: has no effect: the fused kernel, where it applies and is allowed, goes before MATH.

    Raises:
        AssertionError: if `backends` is neither an SDPBackend nor a list.
    """
    if not isinstance(backends, (SDPBackend, list)):
        raise AssertionError(
            "Backend must be an instance of SDPBackend or a list of SDPBackend instances, got "
            f"{type(backends).__name__}"
        )
    wanted = {backends} if isinstance(backends, SDPBackend) else set(backends)
    before = dict(_ALLOWED)
    _ALLOWED.update({name: backend in wanted for backend, name in _NAMES.items()})
    try:
        yield
    finally:
        _ALLOWED.update(before)
