"""What programs set about NVIDIA's GPUs, of which there are none; nothing depends on it."""

from __future__ import annotations


class _Matmul:
    """Flags of matrix products on a GPU."""

    allow_tf32: bool = False
    allow_fp16_reduced_precision_reduction: bool = True
    allow_bf16_reduced_precision_reduction: bool = True
    allow_fp16_accumulation: bool = False
    fp32_precision: str = "none"


matmul: _Matmul = _Matmul()
_sdp = {"flash": True, "math": True, "mem_efficient": True, "cudnn": True}


def is_built() -> bool:
    """Whether gradloom could use a GPU: False."""
    return False


def flash_sdp_enabled() -> bool:
    """What enable_flash_sdp was told."""
    return _sdp["flash"]


def enable_flash_sdp(enabled: bool) -> None:
    """Allow one way of computing attention on a GPU."""
    _sdp["flash"] = enabled


def math_sdp_enabled() -> bool:
    """What enable_math_sdp was told."""
    return _sdp["math"]


def enable_math_sdp(enabled: bool) -> None:
    """Allow one way of computing attention on a GPU."""
    _sdp["math"] = enabled


def mem_efficient_sdp_enabled() -> bool:
    """What enable_mem_efficient_sdp was told."""
    return _sdp["mem_efficient"]


def enable_mem_efficient_sdp(enabled: bool) -> None:
    """Allow one way of computing attention on a GPU."""
    _sdp["mem_efficient"] = enabled


def cudnn_sdp_enabled() -> bool:
    """What enable_cudnn_sdp was told."""
    return _sdp["cudnn"]


def enable_cudnn_sdp(enabled: bool) -> None:
    """Allow one way of computing attention on a GPU."""
    _sdp["cudnn"] = enabled
