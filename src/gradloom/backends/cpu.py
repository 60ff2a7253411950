"""The CPU."""

from __future__ import annotations

from ..memory.malloc import keep_freed_memory

__all__ = ["get_cpu_capability", "keep_freed_memory"]


def get_cpu_capability() -> str:
    """Return the widest vector instructions that NumPy uses here: "AVX512", "AVX2" or "DEFAULT"."""
    import numpy as np

    used = np.show_config(mode="dicts")["SIMD Extensions"]
    found = {*used.get("baseline", ()), *used.get("found", ())}
    if any(name.startswith(("AVX512", "X86_V4")) for name in found):
        return "AVX512"
    return "AVX2" if found & {"AVX2", "X86_V3"} else "DEFAULT"
