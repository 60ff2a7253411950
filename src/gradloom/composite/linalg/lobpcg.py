"""A few extreme eigenpairs of large symmetric matrices, from products with the matrix alone: LOBPCG.

Knyazev (2001) gives the method, "basic" here; "ortho" is its robust form of Duersch, Shao, Yang and Gu (2018), whose
search space is kept orthonormal by the procedure of Stathopoulos and Wu (2002). lobpcg is a function of the main
namespace, not an operator, as in PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from ...autograd.function import Function
from ...core.tensor import Tensor
from ...dispatch import _operators as ops
from ...types.dtype import float16, float32, float64

_EPS = {float32: 1.2e-07, float64: 2.23e-16}


def lobpcg(
    A: Tensor,
    k: int | None = None,
    B: Tensor | None = None,
    X: Tensor | None = None,
    n: int | None = None,
    iK: Tensor | None = None,
    niter: int | None = None,
    tol: float | None = None,
    largest: bool | None = None,
    method: str | None = None,
    tracker: Callable[[LOBPCG], None] | None = None,
    ortho_iparams: dict[str, int] | None = None,
    ortho_fparams: dict[str, float] | None = None,
    ortho_bparams: dict[str, bool] | None = None,
) -> tuple[Tensor, Tensor]:
    """Return the k largest or smallest eigenvalues of A x = lambda B x, and their eigenvectors.

    Args:
        A: (..., m, m), symmetric, dense, or one sparse matrix.
        k: number of eigenpairs; the number of columns of X, or 1, by default.
        B: (..., m, m), symmetric and positive definite; the identity by default.
        X: (..., m, n), a first approximation of the eigenvectors; random by default.
        n: the number of columns of a random X; k by default.
        iK: (m, m), a preconditioner, which only the method "basic" applies.
        niter: the greatest number of iterations, 1000 by default; -1 sets no limit.
        tol: the residual at which an eigenpair counts as converged; the square root of the dtype's epsilon by default.
        largest: whether to find the largest eigenvalues (default) or the smallest.
        method: "ortho" (default) or "basic", which needs less time for an iteration but may fail.
        tracker: called with the LOBPCG object after each iteration. It may set `bvars["force_stop"]` to end the
            iteration; tensors that it keeps must be copies.
        ortho_iparams, ortho_fparams, ortho_bparams: parameters of "ortho": `ortho_i_max`, `ortho_j_max`; `ortho_tol`,
            `ortho_tol_drop`, `ortho_tol_replace`; `ortho_use_drop`.

    Returns:
        The eigenvalues (..., k) and the eigenvectors (..., m, k).

    Raises:
        AssertionError: if A is not square, or B or X has another shape.
        ValueError: if m < 3 n; from the backward pass, if A is sparse or complex, or with B.

    The gradient is that of (A + A^T) / 2. It is infinite where two of the k eigenvalues are equal.

    Example:
        >>> A = torch.diag(torch.arange(1.0, 13.0))
        >>> torch.lobpcg(A, k=2, largest=False)[0]
        tensor([1.0000, 2.0000])
    """
    options = (k, X, n, iK, niter, tol, largest, method, tracker, ortho_iparams, ortho_fparams, ortho_bparams)
    if A.requires_grad or B is not None and B.requires_grad:
        symmetric = (A + A.mT) / 2
        eigenvalues, eigenvectors = LOBPCGAutogradFunction.apply(
            symmetric, None if B is None else (B + B.mT) / 2, options
        )
        return eigenvalues, eigenvectors
    return _eigenpairs(A, B, *options)


def _eigenpairs(A, B, k, X, n, iK, niter, tol, largest, method, tracker, iparams, fparams, bparams):
    """Return the eigenvalues and eigenvectors, of each matrix in turn."""
    if A.shape[-2] != A.shape[-1]:
        raise AssertionError(f"A must be square, got shape {A.shape}")
    if B is not None and A.shape != B.shape:
        raise AssertionError(f"A and B must have same shape, got {A.shape} vs {B.shape}")
    dtype = A.dtype if A.dtype in (float16, float32, float64) else float32
    if tol is None:
        tol = _EPS[dtype] ** 0.5
    m = A.shape[-1]
    if k is None:
        k = 1 if X is None else X.shape[-1]
    n = X.shape[-1] if X is not None else k if n is None else n
    if m < 3 * n:
        raise ValueError(
            f"LOBPCG algorithm is not applicable when the number of A rows (={m})"
            f" is smaller than 3 x the number of requested eigenpairs (={n})"
        )
    method = "ortho" if method is None else method
    integers: dict[str, int] = {"m": m, "n": n, "k": k, "niter": 1000 if niter is None else niter}
    floats: dict[str, float] = {"tol": tol}
    flags: dict[str, bool] = {"largest": True if largest is None else largest}
    if method == "ortho":
        integers |= {"ortho_i_max": 3, "ortho_j_max": 3, **(iparams or {})}
        floats |= {"ortho_tol": tol, "ortho_tol_drop": tol, "ortho_tol_replace": tol, **(fparams or {})}
        flags |= {"ortho_use_drop": False, **(bparams or {})}

    def of_one(matrix, second, start):
        if start is None:
            start = ops.randn((m, n), dtype=dtype, device=A.device)
        if tuple(start.shape) != (m, n):
            raise AssertionError(f"X shape mismatch: got {start.shape}, expected {(m, n)}")
        worker = LOBPCG(matrix, second, start, iK, integers, floats, flags, method, tracker)
        worker.run()
        return worker.E[:k], worker.X[:, :k]

    if A.dim() == 2:
        return of_one(A, B, X)
    batch = A.shape[:-2]
    A, B, X = (None if x is None else ops.reshape(x, (-1, *x.shape[-2:])) for x in (A, B, X))
    found = []
    for index in range(prod(batch)):
        integers["batch_index"] = index
        found.append(of_one(*(None if x is None else x[index] for x in (A, B, X))))
    if not found:
        return ops.empty((*batch, k), dtype=dtype), ops.empty((*batch, m, k), dtype=dtype)
    eigenvalues, eigenvectors = (ops.stack(list(part)) for part in zip(*found, strict=True))
    return ops.reshape(eigenvalues, (*batch, k)), ops.reshape(eigenvectors, (*batch, m, k))


class LOBPCGAutogradFunction(Function):
    """lobpcg of symmetric matrices, with the derivative of their eigenpairs."""

    @staticmethod
    def forward(ctx: Any, A: Tensor, B: Tensor | None, options: tuple[Any, ...]) -> tuple[Tensor, Tensor]:
        eigenvalues, eigenvectors = _eigenpairs(A, B, *options)
        ctx.save_for_backward(A, B, eigenvalues, eigenvectors)
        return eigenvalues, eigenvectors

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        A, B, D, U = ctx.saved_tensors
        grad_D, grad_U = grads
        given = [x for x in (A, B) if x is not None]
        kinds = {"sparse": any(x.is_sparse for x in given), "complex": any(x.is_complex() for x in given)}
        for kind, found in kinds.items():
            if found:
                raise ValueError(
                    f"lobpcg.backward does not support {kind} input yet. Note that lobpcg.forward does though."
                )
        if B is not None:
            raise ValueError("lobpcg.backward does not support backward with B != I yet.")
        return _eigenpairs_backward(grad_D, grad_U, A, D, U), None, None


def _eigenpairs_backward(grad_D, grad_U, A, D, U):
    """Return the gradient for A of k eigenpairs (D, U) of symmetric matrices.

    A change dA moves u_j by the sum over i != j of u_i (u_i^T dA u_j) / (d_j - d_i) within the span of U, and by
    -P (A - d_j)^+ P dA u_j in its complement, where P = 1 - U U^T. The second part is solved for without a basis of the
    complement: A - d_j + U diag(1 + d_j - d) U^T acts as A - d_j on the complement and as the identity on U.
    """
    Ut = U.mT
    within = ops.matmul(Ut, grad_U)
    gaps = D.unsqueeze(-2) - D.unsqueeze(-1)
    same = ops.eye(D.shape[-1], device=D.device) != 0
    factors = ops.masked_fill(ops.reciprocal(ops.masked_fill(gaps, same, 1)), same, 0)
    inner = ops.diag_embed(grad_D) + within * factors
    grad = ops.matmul(U, ops.matmul(inner, Ut))
    if U.shape[-1] == U.shape[-2]:
        return grad
    outside = grad_U - ops.matmul(U, within)
    eye = ops.eye(A.shape[-1], dtype=A.dtype, device=A.device)
    shifts = D.unsqueeze(-1)  # (..., k, 1): one system for each eigenpair
    on_span = ops.matmul(U.unsqueeze(-3) * (1 + shifts - D.unsqueeze(-2)).unsqueeze(-2), Ut.unsqueeze(-3))
    systems = A.unsqueeze(-3) - shifts.unsqueeze(-1) * eye + on_span
    solved = ops.linalg_solve(systems, outside.mT.unsqueeze(-1)).squeeze(-1).mT
    return grad - ops.matmul(solved, Ut)


class LOBPCG:
    """The state of the iteration for one matrix, which a tracker sees.

    Attributes:
        iparams, fparams, bparams: the parameters, by name.
        ivars, fvars, bvars, tvars: variables, among them `ivars["istep"]`, the number of iterations,
            `ivars["converged_count"]` and `tvars["rerr"]`, the relative residuals.
        A, B, iK: the matrices.
        E, X, R, S: the eigenvalues (n), eigenvectors (m, n), residuals (m, n) and the search space (m, 3 n).
    """

    def __init__(
        self,
        A: Tensor,
        B: Tensor | None,
        X: Tensor,
        iK: Tensor | None,
        iparams: dict[str, int],
        fparams: dict[str, float],
        bparams: dict[str, bool],
        method: str,
        tracker: Callable[[LOBPCG], None] | None,
    ) -> None:
        self.A, self.B, self.X, self.iK = A, B, X, iK
        self.iparams, self.fparams, self.bparams = iparams, fparams, bparams
        self.method, self.tracker = method, tracker
        m, n = iparams["m"], iparams["n"]
        self.E = ops.new_zeros(X, (n,))
        self.R = ops.new_zeros(X, (m, n))
        self.S = ops.new_zeros(X, (m, 3 * n))
        self.tvars: dict[str, Tensor] = {}
        self.ivars: dict[str, int] = {"istep": 0}
        self.fvars: dict[str, float] = {"_": 0.0}
        self.bvars: dict[str, bool] = {"_": False}

    def __str__(self) -> str:
        names = "iparams fparams bparams ivars fvars bvars tvars A B iK X E".split()
        return "".join(["LOBPCG:\n", *(f"  {name}={getattr(self, name)}\n" for name in names)])

    def run(self) -> None:
        """Iterate until k eigenpairs have converged, the iterations are used up, or the tracker ends it."""
        while True:
            self.update()
            if self.tracker is not None:
                self.tracker(self)
            if self.stop_iteration():
                return

    def stop_iteration(self) -> bool:
        """Return whether the iteration ends."""
        enough = self.ivars["converged_count"] >= self.iparams["k"]
        return bool(self.bvars.get("force_stop", False) or self.ivars["iterations_left"] == 0 or enough)

    def update(self) -> None:
        """Carry out one iteration."""
        if self.ivars["istep"] == 0:
            norm = float(ops.norm(self.X))
            self.fvars["X_norm"] = norm
            self.fvars["A_norm"] = float(ops.norm(_product(self.A, self.X))) / norm
            self.fvars["B_norm"] = float(ops.norm(_product(self.B, self.X))) / norm
            self.ivars["iterations_left"] = self.iparams["niter"]
            self.ivars["converged_count"] = self.ivars["converged_end"] = 0
            self._start()
        else:
            self._improve()
        self.ivars["iterations_left"] -= 1
        self.ivars["istep"] += 1

    def _start(self):
        """Find the eigenpairs within the span of the first approximation."""
        to_standard = self._rayleigh_ritz(self.X)
        values, vectors = self._eigh(_form(_form(self.A, self.X), to_standard))
        self.X = ops.matmul(self.X, ops.matmul(to_standard, vectors))
        if self.method != "ortho":
            self.E = values
        self.update_residual()
        self.update_converged_count()
        self._set_search_space(None)

    def _improve(self):
        """Find the eigenpairs within the search space: of X that have not converged, the last directions, and W."""
        n, done = self.iparams["n"], self.ivars["converged_count"]
        space = self.S[:, done : self.ivars["converged_end"]]
        left = n - done
        if self.method == "ortho":
            values, vectors = self._eigh(_form(self.A, space))
            best = vectors[:, :left]
            others = vectors[:, left:]
            directions = ops.matmul(space, ops.matmul(others, ops.linalg_qr(vectors[:left, left:].mT)[0]))
        else:
            to_standard = self._rayleigh_ritz(space)
            values, vectors = self._eigh(_form(_form(self.A, space), to_standard))
            best = ops.matmul(to_standard, vectors[:, :left])
            directions = ops.matmul(space, ops.matmul(to_standard, vectors[:, n : 2 * n - done]))
        self.X = ops.cat([self.X[:, :done], ops.matmul(space, best)], 1)
        self.E = ops.cat([self.E[:done], values[:left]])
        self.update_residual()
        self.update_converged_count()
        self._set_search_space(directions)

    def _set_search_space(self, directions):
        """Set S to X, the last directions, and the new ones W, from the residuals that have not converged."""
        residuals = self.R[:, self.ivars["converged_count"] :]
        parts = [self.X] if directions is None else [self.X, directions]
        if self.method == "ortho":
            parts.append(self._orthonormal(residuals, ops.cat(parts, 1)))
        else:
            parts.append(_product(self.iK, residuals))
        space = ops.cat(parts, 1)
        end = self.ivars["converged_end"] = space.shape[1]
        self.S = ops.cat([space, self.S[:, end:]], 1)

    def update_residual(self) -> None:
        """Set R = A X - B X diag(E)."""
        self.R = _product(self.A, self.X) - _product(self.B, self.X) * self.E

    def update_converged_count(self) -> int:
        """Count the eigenpairs that have converged, up to the first that has not, so that their order is strict."""
        scale = self.fvars["A_norm"] + ops.abs(self.E) * self.fvars["B_norm"]
        error = ops.linalg_vector_norm(self.R, 2, (0,)) / (ops.linalg_vector_norm(self.X, 2, (0,)) * scale)
        converged = (error < self.fparams["tol"]).tolist()
        count = converged.index(False) if False in converged else len(converged)
        previous = self.ivars["converged_count"]
        if count < previous:
            raise AssertionError(f"the number of converged eigenpairs (was {previous}, got {count}) cannot decrease")
        self.ivars["converged_count"], self.tvars["rerr"] = count, error
        return count

    def _eigh(self, M):
        """Return the eigenvalues and eigenvectors of a small matrix, in the order that is asked for."""
        values, vectors = ops.linalg_eigh(M, "U")
        return (values.flip(-1), vectors.flip(-1)) if self.bparams["largest"] else (values, vectors)

    def _rayleigh_ritz(self, space):
        """Return T with T^T (space^T B space) T = 1, which makes the generalized problem within the space standard."""
        gram = _form(self.B, space)
        scale = ops.rsqrt(gram.diagonal())
        factor = ops.linalg_cholesky(gram * scale * scale.unsqueeze(-1), upper=True)
        return ops.linalg_solve_triangular(factor, ops.diag_embed(scale), upper=True, left=False)

    def _orthonormal(self, U, V):
        """Return columns that span U without V, B-orthonormal and B-orthogonal to V, whose columns are B-orthonormal.

        Raises ValueError if there are more columns than rows.
        """
        tolerance, drops = self.fparams["ortho_tol"], self.bparams["ortho_use_drop"]
        BV_norm = float(ops.norm(_product(self.B, V)))
        for i in range(self.iparams["ortho_i_max"]):
            U = U - ops.matmul(V, ops.matmul(V.mT, _product(self.B, U)))
            for j in range(self.iparams["ortho_j_max"]):
                threshold = "ortho_tol_drop" if drops and j == 0 else "ortho_tol_replace"
                U = self._by_svd(U, drops and j > 0, self.fparams[threshold])
                self.ivars["ortho_i"], self.ivars["ortho_j"] = i, j
                if not U.numel():
                    return U
                BU = _product(self.B, U)
                gram = ops.matmul(U.mT, BU)
                eye = ops.eye(gram.shape[-1], dtype=gram.dtype, device=gram.device)
                error = float(ops.norm(gram - eye)) / float(ops.norm(BU) * ops.norm(U))
                self.fvars[f"ortho_UBUmI_rerr[{i}, {j}]"] = error
                if error < tolerance:
                    break
            error = float(ops.norm(ops.matmul(V.mT, BU))) / (BV_norm * float(ops.norm(U)))
            self.fvars[f"ortho_VBU_rerr[{i}]"] = error
            if error < tolerance:
                break
            if self.iparams["m"] < U.shape[-1] + V.shape[-1]:
                raise ValueError(
                    f"Overdetermined shape of U: #B-cols(={self.iparams['m']}) >= #U-cols(={U.shape[-1]}) + "
                    f"#V-cols(={V.shape[-1]}) must hold"
                )
        return U

    def _by_svd(self, U, drop, threshold):
        """Return B-orthonormal columns of U's span, from the eigenvectors of its scaled Gram matrix.

        Eigenvalues below `threshold` times the greatest are dropped with their vectors, or else raised to that.
        """
        if not U.numel():
            return U
        gram = _form(self.B, U)
        present = gram.diagonal() != 0
        if not bool(present.all()):
            U = U[:, present]
            if not U.numel():
                return U
            gram = _form(self.B, U)
        scale = ops.rsqrt(gram.diagonal()).unsqueeze(-1)
        values, vectors = ops.linalg_eigh(gram * scale * scale.mT, "U")
        least = threshold * float(values.abs().max())
        if drop:
            kept = values > least
            values, vectors, scale = values[kept], vectors[:, kept], scale[kept]
        else:
            values = values.clamp_min(least)
        return ops.matmul(U * scale.mT, vectors * ops.rsqrt(values))


def _product(A, X):
    """Return A X; a matrix of None is the identity."""
    return X if A is None else A @ X


def _form(A, X):
    """Return X^T A X."""
    return ops.matmul(X.mT, _product(A, X))
