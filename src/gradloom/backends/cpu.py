"""The CPU."""

from __future__ import annotations


def get_cpu_capability() -> str:
    """The widest vector instructions that NumPy uses here: "AVX512", "AVX2" or "DEFAULT"."""
    import numpy as np

    used = np.show_config(mode="dicts")["SIMD Extensions"]
    found = {*used.get("baseline", ()), *used.get("found", ())}
    return (
        "AVX512"
        if any(name.startswith(("AVX512", "X86_V4")) for name in found)
        else ("AVX2" if found & {"AVX2", "X86_V3"} else "DEFAULT")
    )
