"""Linear algebra and Fourier transforms of the array API standard: `linalg` and `fft` of `array_api`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

from .. import functional
from ..core.tensor import Tensor
from ..dispatch import _operators as ops
from ..types.dtype import finfo, promote_types


def _same(operator: str) -> Callable[..., Any]:
    def function(x: Tensor, /, *args: Any, **kwargs: Any) -> Any:
        return getattr(ops, operator)(x, *args, **kwargs)

    return function


def matmul(x1: Tensor, x2: Tensor, /) -> Tensor:
    """Return the product of matrices or vectors."""
    return ops.matmul(*_promoted(x1, x2))


def _promoted(x1: Tensor, x2: Tensor) -> tuple[Tensor, Tensor]:
    wanted = promote_types(x1.dtype, x2.dtype)
    return x1.to(wanted), x2.to(wanted)


def matrix_transpose(x: Tensor, /) -> Tensor:
    """Swap the last two dimensions."""
    return x.mT


def tensordot(x1: Tensor, x2: Tensor, /, *, axes: Any = 2) -> Tensor:
    """Contract dimensions of two tensors."""
    return functional.tensordot(*_promoted(x1, x2), dims=axes)


def vecdot(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """Return the scalar products of vectors along a dimension; the first vectors are conjugated."""
    x1, x2 = _promoted(x1, x2)
    if not (x1.is_floating_point() or x1.is_complex()):
        return ops.sum(x1 * x2, axis)
    return ops.linalg_vecdot(x1, x2, dim=axis)


def cross(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """Return the cross products of vectors of three elements."""
    return ops.linalg_cross(*functional.broadcast_tensors(*_promoted(x1, x2)), dim=axis)


def diagonal(x: Tensor, /, *, offset: int = 0) -> Tensor:
    """Return the diagonals of matrices."""
    return ops.diagonal(x, offset, -2, -1)


def trace(x: Tensor, /, *, offset: int = 0, dtype: Any = None) -> Tensor:
    """Return the sums of the diagonals of matrices."""
    return ops.sum(diagonal(x, offset=offset), -1, dtype=dtype)


def outer(x1: Tensor, x2: Tensor, /) -> Tensor:
    """Return the outer product of two vectors."""
    return ops.outer(*_promoted(x1, x2))


def solve(x1: Tensor, x2: Tensor, /) -> Tensor:
    """Solve x1 @ x = x2; x2 is a vector only if it has one dimension."""
    x1, x2 = _promoted(x1, x2)
    if x2.ndim == 1:
        return ops.linalg_solve(x1, x2.unsqueeze(-1)).squeeze(-1)
    shape = functional.broadcast_shapes(x1.shape[:-2], x2.shape[:-2])  # or a batch of matrices passes for vectors
    return ops.linalg_solve(x1, x2.expand(*shape, *x2.shape[-2:]))


def matrix_norm(x: Tensor, /, *, keepdims: Any = False, ord: Any = "fro") -> Tensor:
    """Return norms of matrices."""
    return ops.linalg_matrix_norm(x, ord, (-2, -1), keepdims)


def vector_norm(x: Tensor, /, *, axis: Any = None, keepdims: Any = False, ord: Any = 2) -> Tensor:
    """Return norms of vectors; of the flattened tensor by default."""
    if axis == ():
        return (x != 0).to(x.abs().dtype) if ord == 0 else x.abs()
    return ops.linalg_vector_norm(x, ord, axis, keepdims)


def matrix_rank(x: Tensor, /, *, rtol: Any = None) -> Tensor:
    """Return the numbers of singular values above `rtol` times the largest."""
    return ops.linalg_matrix_rank(x, rtol=_default_rtol(x) if rtol is None else rtol)


def pinv(x: Tensor, /, *, rtol: Any = None) -> Tensor:
    """Return pseudo-inverses; singular values up to `rtol` times the largest count as zero."""
    return ops.linalg_pinv(x, rtol=_default_rtol(x) if rtol is None else rtol)


def _default_rtol(x: Tensor) -> float:
    return float(max(x.shape[-2:]) * finfo(x.dtype).eps)


class SlogdetResult(NamedTuple):
    sign: Tensor
    logabsdet: Tensor


def slogdet(x: Tensor, /) -> SlogdetResult:
    """Return the signs and the logarithms of the absolute values of determinants."""
    return SlogdetResult(*ops.linalg_slogdet(x))


def cholesky(x: Tensor, /, *, upper: Any = False) -> Tensor:
    """Return the Cholesky factors of Hermitian, positive definite matrices."""
    return ops.linalg_cholesky(x, upper=upper)


def svd(x: Tensor, /, *, full_matrices: Any = True) -> Any:
    """Return the singular value decompositions (U, S, Vh)."""
    return ops.linalg_svd(x, full_matrices)


def qr(x: Tensor, /, *, mode: str = "reduced") -> Any:
    """Return the decompositions into an orthogonal and an upper triangular matrix."""
    return ops.linalg_qr(x, mode)


_SAME = "det eig eigh eigvals eigvalsh inv matrix_power svdvals"
SHARED = {function.__name__: function for function in (matmul, matrix_transpose, tensordot, vecdot)}
_OWN = (
    cross, diagonal, trace, outer, solve, matrix_norm, vector_norm, matrix_rank, pinv, slogdet, cholesky, svd, qr
)  # fmt: skip

linalg = SimpleNamespace(
    **SHARED,
    **{function.__name__: function for function in _OWN},
    **{name: _same(f"linalg_{name}") for name in _SAME.split()},
)


def _transform(name: str) -> Callable[..., Tensor]:
    def one(x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
        return getattr(ops, f"fft_{name}")(x, n, axis, norm)

    def several(x: Tensor, /, *, s: Sequence[int] | None = None, axes: Any = None, norm: str = "backward") -> Tensor:
        return getattr(ops, f"fft_{name}")(x, s, axes, norm)

    return several if name.endswith("n") else one


def _shift(name: str) -> Callable[..., Tensor]:
    def shift(x: Tensor, /, *, axes: Any = None) -> Tensor:
        return getattr(ops, f"fft_{name}")(x, axes)

    return shift


def _frequencies(name: str) -> Callable[..., Tensor]:
    def frequencies(n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Tensor:
        return getattr(ops, f"fft_{name}")(n, d, dtype=dtype, device=device)

    return frequencies


_TRANSFORMS = "fft ifft fftn ifftn rfft irfft rfftn irfftn hfft ihfft"
fft = SimpleNamespace(
    **{name: _transform(name) for name in _TRANSFORMS.split()},
    **{name: _shift(name) for name in ("fftshift", "ifftshift")},
    **{name: _frequencies(name) for name in ("fftfreq", "rfftfreq")},
)
