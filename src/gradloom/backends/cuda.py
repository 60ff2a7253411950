"""Flags for NVIDIA GPUs, of which there are none. Those of flash and math attention choose among the CPU's kernels."""

from __future__ import annotations

from collections.abc import Callable

from gradloom.composite.attention import ALLOWED


class _Matmul:
    """Flags of matrix products on a GPU."""

    allow_tf32: bool = False
    allow_fp16_reduced_precision_reduction: bool = True
    allow_bf16_reduced_precision_reduction: bool = True
    allow_fp16_accumulation: bool = False
    fp32_precision: str = "none"


matmul: _Matmul = _Matmul()


def is_built() -> bool:
    """Return False: gradloom cannot use a GPU."""
    return False


def _sdp_flag(name: str) -> tuple[Callable[[], bool], Callable[[bool], None]]:
    """Make the getter and the setter of a flag that allows one implementation of attention."""

    def get() -> bool:
        return ALLOWED[name]

    def enable(enabled: bool) -> None:
        ALLOWED[name] = enabled

    get.__name__ = get.__qualname__ = f"{name}_sdp_enabled"
    enable.__name__ = enable.__qualname__ = f"enable_{name}_sdp"
    get.__doc__, enable.__doc__ = f"Return the flag of {name} attention.", f"Set the flag of {name} attention."
    return get, enable


flash_sdp_enabled, enable_flash_sdp = _sdp_flag("flash")
math_sdp_enabled, enable_math_sdp = _sdp_flag("math")
mem_efficient_sdp_enabled, enable_mem_efficient_sdp = _sdp_flag("mem_efficient")
cudnn_sdp_enabled, enable_cudnn_sdp = _sdp_flag("cudnn")
