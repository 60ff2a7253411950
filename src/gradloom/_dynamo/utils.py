"""The names of torch._dynamo.utils that have a meaning here."""

from __future__ import annotations

from ..compiler._counters import counters as counters


def is_compile_supported(device_type: str) -> bool:
    """Return whether `torch.compile` runs functions of tensors on a device: True for the CPU."""
    return device_type == "cpu"
