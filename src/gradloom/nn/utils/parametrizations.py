"""Parametrizations of weights: a length and a direction, a spectral norm of 1, orthogonal columns."""

from __future__ import annotations

from typing import Any

import gradloom as gl
from gradloom.nn import functional as F
from gradloom.nn.modules import conv
from gradloom.nn.modules.module import Module
from gradloom.nn.utils import parametrize

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]

_MAPS = ("matrix_exp", "cayley", "householder")


def _tensor_of(module: Module, name: str) -> gl.Tensor:
    tensor = getattr(module, name, None)
    if not isinstance(tensor, gl.Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    return tensor


class _WeightNorm(Module):
    """g v / |v|, where the norm is over all dimensions but `dim`."""

    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g: gl.Tensor, weight_v: gl.Tensor) -> gl.Tensor:
        return gl._weight_norm(weight_v, weight_g, self.dim)

    def right_inverse(self, weight: gl.Tensor) -> tuple[gl.Tensor, gl.Tensor]:
        return gl.norm_except_dim(weight, 2, self.dim), weight


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Parametrize a weight by its length `original0` and its direction `original1` (Salimans and Kingma 2016).

    Args:
        module: is changed in place.
        name: the weight.
        dim: the dimension over which there are lengths; None for one length of the whole weight.

    Returns:
        The module. State dicts of the older `nn.utils.weight_norm` can be loaded.

    Raises:
        ValueError: if the module has no such tensor.
    """
    _tensor_of(module, name)
    parametrize.register_parametrization(module, name, _WeightNorm(dim), unsafe=True)

    def rename(state_dict: dict, prefix: str, *_: Any) -> None:
        old = f"{prefix}{name}_g", f"{prefix}{name}_v"
        if all(key in state_dict for key in old):
            for i, key in enumerate(old):
                state_dict[f"{prefix}parametrizations.{name}.original{i}"] = state_dict.pop(key)

    module._register_load_state_dict_pre_hook(rename)
    return module


class _SpectralNorm(Module):
    """weight / sigma, where the power method estimates sigma, the greatest singular value, from step to step."""

    def __init__(self, weight: gl.Tensor, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12) -> None:
        super().__init__()
        ndim = weight.ndim
        if not -ndim <= dim < ndim:
            raise IndexError(f"Dimension out of range (expected to be in range of [-{ndim}, {ndim - 1}] but got {dim})")
        if n_power_iterations <= 0:
            raise ValueError(
                f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}"
            )
        self.dim, self.eps = dim % ndim, eps
        if ndim > 1:
            self.n_power_iterations = n_power_iterations
            matrix = self._as_matrix(weight)
            starts = [matrix.new_empty(n).normal_(0, 1) for n in matrix.shape]
            for name, start in zip(("_u", "_v"), starts, strict=True):
                self.register_buffer(name, F.normalize(start, dim=0, eps=eps))
            self._iterate(matrix, 15)  # the first estimate is near, so that one step each is enough afterwards

    def _as_matrix(self, weight: gl.Tensor) -> gl.Tensor:
        if self.dim:
            weight = weight.permute(self.dim, *(d for d in range(weight.dim()) if d != self.dim))
        return weight.flatten(1)

    def _iterate(self, matrix: gl.Tensor, count: int) -> None:
        with gl.no_grad():
            for _ in range(count):
                self._u.copy_(F.normalize(gl.mv(matrix, self._v), dim=0, eps=self.eps))
                self._v.copy_(F.normalize(gl.mv(matrix.mH, self._u), dim=0, eps=self.eps))

    def forward(self, weight: gl.Tensor) -> gl.Tensor:
        if weight.ndim == 1:
            return F.normalize(weight, dim=0, eps=self.eps)
        matrix = self._as_matrix(weight)
        if self.training:
            self._iterate(matrix, self.n_power_iterations)
        u, v = self._u.clone(), self._v.clone()  # the next step writes to them
        return weight / gl.vdot(u, gl.mv(matrix, v))

    def right_inverse(self, value: gl.Tensor) -> gl.Tensor:
        return value


def spectral_norm(
    module: Module, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> Module:
    """Parametrize a weight by its spectral norm, which becomes 1 (Miyato et al. 2018).

    Args:
        module: is changed in place. In training each read of the weight improves the estimate of the norm.
        name: the weight. It is flattened to a matrix with the rows of dimension `dim`.
        n_power_iterations: the number of steps of the power method each time.
        eps: the least norm of vectors.
        dim: the dimension of outputs; by default 1 for transposed convolutions, else 0.

    Returns:
        The module.

    Raises:
        ValueError: if the module has no such tensor.
    """
    weight = _tensor_of(module, name)
    if dim is None:
        transposed = (conv.ConvTranspose1d, conv.ConvTranspose2d, conv.ConvTranspose3d)
        dim = 1 if isinstance(module, transposed) else 0
    return parametrize.register_parametrization(module, name, _SpectralNorm(weight, n_power_iterations, dim, eps))


def _with_orthogonal_columns(A: gl.Tensor) -> gl.Tensor:
    """Return Q of A = Q R, with the signs that make the diagonal of R positive."""
    X, tau = gl.geqrf(A)
    return gl.linalg.householder_product(X, tau) * X.diagonal(dim1=-2, dim2=-1).sgn().unsqueeze(-2)


def _is_orthogonal(Q: gl.Tensor) -> bool:
    n, k = Q.shape[-2:]
    unit = gl.eye(k, dtype=Q.dtype)
    return gl.allclose(Q.mH @ Q, unit, atol=10.0 * n * gl.finfo(Q.dtype).eps)


class _Orthogonal(Module):
    """A matrix with orthogonal columns (or rows, if there are more columns), as a function of any matrix."""

    base: gl.Tensor | None

    def __init__(self, weight: gl.Tensor, orthogonal_map: str, *, use_trivialization: bool = True) -> None:
        super().__init__()
        if weight.is_complex() and orthogonal_map == "householder":
            raise ValueError("The householder parametrization does not support complex tensors.")
        self.shape = weight.shape
        self.orthogonal_map = orthogonal_map
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, X: gl.Tensor) -> gl.Tensor:
        wide = X.size(-2) < X.size(-1)
        Q = self._map(X.mT if wide else X)
        if hasattr(self, "base"):
            Q = self.base @ Q
        return Q.mT if wide else Q

    def _map(self, X: gl.Tensor) -> gl.Tensor:
        n, k = X.shape[-2:]
        if self.orthogonal_map == "householder":
            A = X.tril(diagonal=-1)
            tau = 2.0 / (1.0 + (A * A).sum(dim=-2))
            return gl.linalg.householder_product(A, tau) * X.diagonal(dim1=-2, dim2=-1).int().unsqueeze(-2)
        X = X.tril()
        if n != k:
            X = gl.cat([X, X.new_zeros(n, n - k).expand(*X.shape[:-2], -1, -1)], dim=-1)
        A = X - X.mH  # skew, so that both maps give an orthogonal matrix
        if self.orthogonal_map == "matrix_exp":
            Q = gl.matrix_exp(A)
        else:
            unit = gl.eye(n, dtype=A.dtype)
            Q = gl.linalg.solve(gl.add(unit, A, alpha=-0.5), gl.add(unit, A, alpha=0.5))
        return Q if n == k else Q[..., :k]

    def right_inverse(self, Q: gl.Tensor) -> gl.Tensor:
        if Q.shape != self.shape:
            raise ValueError(
                f"Expected a matrix or batch of matrices of shape {self.shape}. Got a tensor of shape {Q.shape}."
            )
        with gl.no_grad():
            wide = Q.size(-2) < Q.size(-1)
            tall = Q.mT if wide else Q
            n, k = tall.shape[-2:]
            if not hasattr(self, "base"):
                if self.orthogonal_map != "householder":
                    raise NotImplementedError(
                        "It is not possible to assign to the matrix exponential or the Cayley parametrizations when "
                        "use_trivialization=False."
                    )
                A, tau = gl.geqrf(tall)  # reflections, with their scalars as signs on the diagonal
                A.diagonal(dim1=-2, dim2=-1).sign_()
                A.diagonal(dim1=-2, dim2=-1)[tau == 0.0] *= -1
                return A.mT if wide else A
            if n == k:
                self.base = tall.clone() if _is_orthogonal(tall) else _with_orthogonal_columns(tall)
            else:
                others = gl.randn((*tall.shape[:-2], n, n - k), dtype=tall.dtype)
                self.base = _with_orthogonal_columns(gl.cat([tall, others], dim=-1))
            # what each map takes to the unit matrix, up to the sign that the householder map has on its diagonal
            zero = gl.zeros_like(Q)
            zero.diagonal(dim1=-2, dim2=-1).fill_(-1.0)
            return zero


def orthogonal(
    module: Module, name: str = "weight", orthogonal_map: str | None = None, *, use_trivialization: bool = True
) -> Module:
    """Parametrize a weight so that its columns are orthonormal, or its rows if it has more columns than rows.

    Args:
        module: is changed in place.
        name: the weight, a matrix or a batch of them.
        orthogonal_map: "matrix_exp" and "cayley" take a skew matrix to an orthogonal one, "householder" makes a product
            of reflections. The default is "matrix_exp" for square and complex matrices, else "householder".
        use_trivialization: whether a fixed orthogonal matrix `base` comes before the map, so that any orthogonal value
            can be assigned (Lezcano-Casado 2019).

    Returns:
        The module.

    Raises:
        ValueError: if the module has no such tensor, or it is no matrix, or for an unknown map.
    """
    weight = _tensor_of(module, name)
    if weight.ndim < 2:
        raise ValueError(f"Expected a matrix or batch of matrices. Got a tensor of {weight.ndim} dimensions.")
    if orthogonal_map is None:
        square = weight.size(-2) == weight.size(-1)
        orthogonal_map = "matrix_exp" if square or weight.is_complex() else "householder"
    if orthogonal_map not in _MAPS:
        raise ValueError(
            f'orthogonal_map has to be one of "matrix_exp", "cayley", "householder". Got: {orthogonal_map}'
        )
    parametrization = _Orthogonal(weight, orthogonal_map, use_trivialization=use_trivialization)
    return parametrize.register_parametrization(module, name, parametrization, unsafe=True)
