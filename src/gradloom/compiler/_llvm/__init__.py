"""The llvm backend: loop programs become machine code for this processor.

    kernel = compile(program)      # a LoopProgram; see gradloom.compiler._loops
    kernel([x, y, out], [0.1])     # inputs, outputs, numbers

`plan` lays out the loops, `access`, `emit` and `lower` write LLVM's text, `exponentials` and `trigonometry` are
functions, `schedule` shares work among threads, `host` makes object code, `link`, `image`, `code` and `cache` keep it,
`kernel` calls it, and `pool` has its threads. What is no loop program is in `scans`, `orders`, `places`, `words`,
`pooling` and `convolution`, whose code `routines` calls. `matrices` writes products of matrices, `product` calls them,
and `chain` computes several steps of a program together. Each is imported when it is first needed.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ...kernels._common import blas
from .host import Unsupported, available

if TYPE_CHECKING:
    import numpy as np

__all__ = [
    "Chain", "Kernel", "Product", "Step", "Unsupported", "available", "compile", "cut_kernel", "cut_product",
    "divide_products", "emitted", "forget", "reason_for_blas",
]  # fmt: skip
_PLACES = {
    "Chain": "chain",
    "Step": "chain",
    "cut_kernel": "chain",
    "cut_product": "chain",
    "Kernel": "kernel",
    "forget": "kernel",
    "compile": "schedule",
    "emitted": "schedule",
    "Product": "product",
    "reason_for_blas": "product",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
    return found


def divide_products() -> None:
    """Let the threads of machine code divide the products of NumPy's BLAS from now on."""
    if blas.divide is None:
        blas.divide = _divide_first


def _divide_first(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> bool:
    from .divided import divide

    blas.divide = divide
    return divide(a, b, out)
