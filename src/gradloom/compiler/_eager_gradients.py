"""Eager replacements of derivative helpers that take several operators: one loop, with the same operations in order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.tensor import Tensor, wrap
from ..dispatch.state import GRAD_OFF, state
from ._eager_pointwise import replacement_by

# As `formulas.elementwise.pow_backward`, with the power of `kernels.elementwise.arithmetic.pow_scalar`.
_POWER = "sqrt(self) if exponent == 1.5 else 1 / sqrt(self) if exponent == 0.5 else self ** (exponent - 1)"
_POW_BACKWARD = f"grad * (({_POWER}) * exponent)"


def pow_backward(kept: dict[Any, Any], compiled: Callable[..., Any]) -> Callable[[Any], Any]:
    """Return what makes the replacement of the gradient of a power with a number, without history."""
    make = replacement_by(_POW_BACKWARD, ["grad", "self", "exponent"], "pow_backward", (0, 1), kept, compiled)

    def replace(original: Any) -> Any:
        def of_arrays(grad: Any, self: Any, exponent: Any) -> Any:
            return original(wrap(grad), wrap(self), exponent)._array

        kernel = make(of_arrays)

        def replaced(grad: Any, self: Any, exponent: Any) -> Any:
            if (
                state.flags == GRAD_OFF and grad.__class__ is self.__class__ is Tensor
                and exponent.__class__ in (int, float) and exponent
            ):  # fmt: skip
                g, x = grad._array, self._array
                if type(g) is type(x) is np.ndarray:
                    return wrap(kernel(g, x, exponent))
            return original(grad, self, exponent)

        return replaced

    return replace
