"""Intel's library for linear algebra."""

from __future__ import annotations


def is_available() -> bool:
    """Whether NumPy's BLAS is this one."""
    import numpy as np

    blas = np.show_config(mode="dicts")["Build Dependencies"].get("blas", {})
    return "mkl" in str(blas.get("name", "")).lower()
