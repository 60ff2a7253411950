"""Inverses and factorizations that raise an error for singular matrices, and older names."""

from __future__ import annotations

from ...dispatch import _operators as ops
from ...kernels._common.errors import LinAlgError
from ...kernels.linalg.factorizations import singular_message
from ...return_types import result_class
from .solve import failures

_QR = result_class("qr", ("Q", "R"))


def inv(A):
    """Return the inverses of matrices. Raises LinAlgError for a singular one."""
    inverse, info = ops.linalg_inv_ex(A)
    if (failed := failures(info)) is not None:
        raise LinAlgError(singular_message("linalg.inv", failed))
    return inverse


def inverse(self):
    """Return the inverses of matrices. Raises LinAlgError for a singular one."""
    return ops.linalg_inv(self)


def qr(self, some=True):
    """Return Q and R of the QR decomposition of matrices: reduced ones for `some`, else complete ones."""
    return _QR(tuple(ops.linalg_qr(self, "reduced" if some else "complete")))
