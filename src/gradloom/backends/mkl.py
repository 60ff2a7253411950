"""Intel's MKL."""

from __future__ import annotations


def is_available() -> bool:
    """Return whether NumPy's BLAS is MKL."""
    import numpy as np

    blas = np.show_config(mode="dicts")["Build Dependencies"].get("blas", {})
    return "mkl" in str(blas.get("name", "")).lower()
