"""The libraries that gradloom computes with, as text."""

from __future__ import annotations

__all__ = ["parallel_info", "show"]


def show() -> str:
    """Return the versions of gradloom, Python, NumPy and NumPy's BLAS."""
    import platform

    import numpy as np

    from . import __version__

    blas = np.show_config(mode="dicts")["Build Dependencies"].get("blas", {})
    return (
        f"gradloom {__version__}\n  - Python {platform.python_version()}\n  - NumPy {np.__version__}\n"
        f"  - BLAS: {blas.get('name', 'unknown')} {blas.get('version', '')}".rstrip()
        + "\n"
    )


def parallel_info() -> str:
    """Return the numbers of threads that operators use."""
    from .backends.settings import get_num_interop_threads, get_num_threads

    return (
        f"threads of one operator (get_num_threads): {get_num_threads()}\n"
        f"operators at once (get_num_interop_threads): {get_num_interop_threads()}\n"
    )
