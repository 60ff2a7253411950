"""Transforms of functions: derivatives of them as functions, composable with each other, as in torch.func."""

from __future__ import annotations

from ._forward import jvp, linearize
from ._jacobians import hessian, jacfwd, jacrev
from ._reverse import grad, grad_and_value, vjp

__all__ = ["grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp", "linearize", "vjp"]
