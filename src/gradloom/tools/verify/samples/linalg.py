"""Samples of linear algebra: square, tall, wide and empty matrices, batches, complex matrices.

CALLS makes matrices Hermitian of which an operator reads one triangle, and replaces vectors that are determined up to a
phase by their squared magnitudes.
"""

from __future__ import annotations

import math

import gradloom
from gradloom.dispatch import _operators as ops

from . import tensor


def spread(*shape, complex=False, seed=0):
    """Return matrices whose singular values and eigenvalues are well apart: those of `tensor`, and 1, 2 ... added."""
    made = tensor(*shape, complex=complex, seed=seed)
    size = min(shape[-2:])
    return made + gradloom.eye(*shape[-2:], dtype=made.dtype) * gradloom.arange(1.0, shape[-1] + 1) * (2 if size else 1)


def matrices(*shapes, **kwargs):
    def samples():
        for shape in shapes:
            yield (spread(*shape),), dict(kwargs)
        yield (spread(*shapes[0], complex=True),), dict(kwargs)

    return samples


def several(*functions):
    def samples():
        for function in functions:
            yield from function()

    return samples


SQUARE = (2, 2), (1, 3, 3), (2, 0, 0)
ALL = (2, 2), (1, 3, 2), (2, 3), (0, 2, 3)


def without_phase(vectors):
    return ops.real(vectors * vectors.conj()) if vectors.is_complex() else vectors * vectors


def written(operator, finish, out, *args, **kwargs):
    """Return what `finish` makes of an operator's results. For `out`, the operator writes to tensors of its own types,
    and what is made of them is copied to `out`."""
    if out is None:
        return finish(operator(*args, **kwargs))
    own = [found.new_empty(0) for found in operator(*args, **kwargs)]
    for target, found in zip(out, finish(operator(*args, **kwargs, out=tuple(own))), strict=True):
        target.resize_(found.shape).copy_(found)
    return out


def of_hermitian(operator):
    def call(A, *args, out=None, **kwargs):
        hermitian = (A + A.mH) / 2
        return written(operator, lambda found: (found[0], without_phase(found[1])), out, hermitian, *args, **kwargs)

    return call


def of_eigenvalues(operator):
    def call(self, out=None):
        return written(operator, lambda found: (found[0], without_phase(found[1])), out, self)

    return call


def values_of_hermitian(operator):
    def call(A, *args, **kwargs):
        return operator((A + A.mH) / 2, *args, **kwargs)

    return call


def reduced(rows):
    """Return the reduced singular vectors without their phases: the others are any orthonormal basis of the rest."""

    def finish(found):
        u, s, v = found
        k = s.shape[-1]
        v = v[..., :k, :] if rows and v.dim() > 1 else v[..., :k]
        return without_phase(u[..., :k]), s, without_phase(v)

    def wrapped(operator):
        def call(*args, out=None, **kwargs):
            return written(operator, finish, out, *args, **kwargs)

        return call

    return wrapped


HERMITIAN = several(matrices(*SQUARE), matrices((2, 2), UPLO="U"))
SVD = several(matrices(*ALL), matrices((2, 2), (1, 3, 2), full_matrices=True))

NORMS = several(
    *(matrices((2, 3), ord=p) for p in (1, -1, 2, -2, math.inf, -math.inf)),
    matrices((2, 1, 3), ord=2, dim=(2, 0), keepdim=True),
    matrices((2, 2, 2), ord=1, dim=(2, 0)),
)
NAMED_NORMS = several(
    matrices((2, 3), ord="fro"), matrices((2, 3), ord="nuc"), matrices((2, 2), ord="nuc", keepdim=True)
)
NUCLEAR = matrices((2, 2), (2, 3))
BY_DIM = matrices((2, 1, 3), dim=(2, 0))


def general_norms():
    yield from matrices((2, 3), (1, 2, 2))()
    yield from matrices((2, 2), ord=2)()
    yield from matrices((2, 2), (1, 2, 2), ord=2, dim=(1,))()
    yield from matrices((1, 2, 2), ord=-2, dim=(1, 2))()


def ranks(*tolerances):
    def samples():
        for given in tolerances:
            yield (spread(2, 3),), dict(given)
        yield (spread(2, 2, 2),), dict(tolerances[0])
        yield (spread(2, 2),), {**tolerances[0], "hermitian": True}
        yield (spread(2, 0, 3),), dict(tolerances[0])

    return samples


def by_tolerance(*tolerances):
    def samples():
        for given in tolerances:
            yield (spread(2, 3), given), {}
            yield (spread(1, 3, 2), given), {}
        yield (spread(2, 2), tolerances[0], True), {}

    return samples


def small():
    """Return a tolerance below all singular values."""
    return gradloom.tensor(1e-8, dtype=gradloom.float64)


TENSORS = ranks({}, {"atol": small()}, {"rtol": small()}, {"atol": small(), "rtol": small()})
FLOATS = ranks({"atol": 1e-8}, {"rtol": 1e-8}, {"atol": 1e-8, "rtol": 1e-8})


def least_squares():
    for driver, m, n in (("gels", 3, 2), ("gelsd", 2, 2), ("gelsy", 2, 3), (None, 3, 2)):
        yield (spread(m, n), tensor(m, 1, seed=1)), {"driver": driver}
    yield (spread(2, 3, 2), tensor(2, 3, seed=1)), {"driver": "gelss"}
    yield (spread(3, 2), tensor(3, seed=1)), {"driver": "gels"}
    yield (spread(2, 2, complex=True), tensor(2, 2, seed=1, complex=True)), {"driver": "gels"}
    yield (spread(3, 2), tensor(3, 2, seed=1)), {"rcond": 1e-8}


def exponentials():
    for scale in (1, 0.01, 20):
        yield (tensor(2, 2) * scale - scale,), {}
    yield (tensor(2, 2, 2),), {}
    yield (tensor(2, 2, complex=True),), {}
    yield (tensor(1, 1),), {}
    yield (tensor(0, 2, 2),), {}


def exponential_gradients():
    yield (tensor(2, 2), tensor(2, 2, seed=1)), {}
    yield (tensor(1, 2, 2), tensor(1, 2, 2, seed=1)), {}


def of_hermitian_if_told(operator):
    def call(A, *args, hermitian=False, **kwargs):
        told = hermitian or args[1:] == (True,)
        args, kwargs = args[:1], {**kwargs, "hermitian": told}
        return operator((A + A.mH) / 2 if told else A, *args, **kwargs)

    return call


def with_right_side(*shapes, right=1, **kwargs):
    """Return matrices and as many right-hand sides, and complex ones."""

    def samples():
        for shape in shapes:
            yield (spread(*shape), tensor(*shape[:-1], right, seed=1)), dict(kwargs)
        yield (spread(2, 2, complex=True), tensor(2, 1, seed=1, complex=True)), dict(kwargs)

    return samples


def swapped(samples):
    """Return samples with the right-hand side first."""

    def changed():
        for (A, B, *rest), kwargs in samples():
            yield (B, A, *rest), kwargs

    return changed


PAIRS = with_right_side((2, 2), (1, 3, 3), (2, 0, 0))


def triangles():
    yield from with_right_side((3, 3), (1, 2, 2), upper=True)()
    yield from with_right_side((2, 2), upper=False, unitriangular=True)()
    yield (spread(2, 2), tensor(1, 2, seed=1)), {"upper": True, "left": False}
    yield (spread(2, 2), tensor(2, 2, 1, seed=1)), {"upper": False}


def systems():
    yield from PAIRS()
    yield (spread(2, 2), tensor(2, seed=1)), {}
    yield (spread(2, 2, 2), tensor(2, 2, seed=1)), {}
    yield (spread(2, 2), tensor(1, 2, seed=1)), {"left": False}
    yield (spread(2, 1, 2, 2), tensor(1, 2, 1, seed=1)), {}


def by_lu(lead):
    def samples():
        for adjoint in (False, True):
            for (A, B), _ in systems():
                if B.dim() == A.dim() == 2:
                    LU, pivots = gradloom.linalg.lu_factor(A.detach())
                    left = B.shape[0] == A.shape[0]
                    given = {"left": left, "adjoint": adjoint} if lead else {}
                    if lead or left and not adjoint:
                        yield ((LU, pivots, B) if lead else (B, LU, pivots)), given

    return samples


def unpacked():
    for shape in ((2, 2), (1, 3, 2), (2, 3)):
        LU, pivots = gradloom.linalg.lu_factor(spread(*shape))
        yield (LU, pivots), {}


def reflections():
    for shape, complex in (((3, 2), False), ((2, 2, 1), False), ((2, 2), False), ((2, 1), True)):
        yield (tensor(*shape, complex=complex) - 1, tensor(*shape[:-2], shape[-1], seed=1, complex=complex)), {}


def reflected():
    for V, tau in (given for given, _ in reflections()):
        for left, transpose in ((True, False), (False, True)) + ((True, True), (False, False)) * (V.dim() == 2):
            size = (V.shape[-2], 1) if left else (1, V.shape[-2])
            C = tensor(*V.shape[:-2], *size, seed=2, complex=V.is_complex())
            yield (V, tau, C), {"left": left, "transpose": transpose}


def by_ldl():
    for shape in ((2, 2), (1, 3, 3)):
        A = spread(*shape)
        LD, pivots = gradloom.linalg.ldl_factor(A + A.mT)
        yield (LD, pivots, tensor(*shape[:-1], 2, seed=1)), {}


def scaled_identities():
    """Matrices whose eigenvalues and singular values coincide."""
    yield (2.0 * gradloom.eye(2, dtype=gradloom.float64),), {}
    yield (gradloom.eye(3, 3, dtype=gradloom.float64).expand(2, 3, 3),), {}


def lyapunov_equations():
    for shape in SQUARE:
        yield (spread(*shape), tensor(*shape, seed=1)), {}
    yield (spread(2, 2, complex=True), tensor(2, 2, seed=1, complex=True)), {}
    yield (gradloom.zeros(2, 2, dtype=gradloom.float64), tensor(2, 2, seed=1)), {}


def tensor_maps(solve):
    def samples():
        A = spread(4, 4)
        if solve:
            yield (A.reshape(2, 2, 4), tensor(2, 2, seed=1)), {}
            yield (A.reshape(2, 2, 4).permute(2, 0, 1), tensor(2, 2, seed=1)), {"dims": (0,)}
        else:
            yield (A.reshape(2, 2, 4), 2), {}
            yield (A.reshape(4, 2, 2), 1), {}

    return samples


def powers():
    for n in (2, 0, 1, 3, -1, -2, 5):
        yield (spread(2, 2), n), {}
    yield (spread(2, 2, 2), 2), {}


HERMITIAN_POSITIVE = several(matrices(*SQUARE), matrices((2, 2), upper=True))
FLAGS = "upper", "transpose", "unitriangular"


def of_positive(operator):
    """Call an operator on positive-definite matrices, A A^H + 1."""

    def call(A, *args, **kwargs):
        eye = gradloom.eye(A.shape[-2], dtype=A.dtype)
        return operator(A @ A.mH + eye, *args, **kwargs)

    return call


def of_triangle(position):
    """Call an operator on lower triangles, or upper ones for `upper`, in the argument at a position."""

    def wrapped(operator):
        def call(*args, **kwargs):
            args = list(args)
            upper = kwargs.get("upper", len(args) > position + 1 and args[position + 1] is True)
            args[position] = args[position].triu() if upper else args[position].tril()
            return operator(*args, **kwargs)

        return call

    return wrapped


def of_factor(operator):
    """Call an operator on triangles with a real diagonal, as Cholesky factors have: LAPACK does not read the imaginary
    part."""

    def call(L, *args, **kwargs):
        if L.is_complex():
            diagonal = L.diagonal(0, -2, -1)
            L = L - gradloom.diag_embed((diagonal - diagonal.conj()) / 2)
        return operator(L, *args, **kwargs)

    return of_triangle(0)(call)


CALLS = {
    "linalg_pinv.atol_rtol_tensor": of_hermitian_if_told,
    "linalg_pinv.atol_rtol_float": of_hermitian_if_told,
    "linalg_pinv": of_hermitian_if_told,
    "linalg_pinv.rcond_tensor": of_hermitian_if_told,
    "_linalg_eigh": of_hermitian,
    "linalg_eigh": of_hermitian,
    "linalg_eigvalsh": values_of_hermitian,
    "_linalg_svd": reduced(rows=True),
    "linalg_svd": reduced(rows=True),
    "svd": reduced(rows=False),
    "linalg_eig": of_eigenvalues,
    "linalg_matrix_sqrth": of_positive,
    "_linalg_lyapunov": of_positive,
    "cholesky": of_positive,
    "linalg_cholesky": of_positive,
    "linalg_cholesky_ex": of_positive,
    "cholesky_inverse": of_factor,
    "cholesky_solve": of_triangle(1),
    "logdet": of_positive,
}
# Without vectors there are no gradients; the other drivers of the SVD are for GPUs; a tolerance between singular values
# lowers the rank, which the derivatives take to be constant.
FIXED = {
    "linalg_qr": ("mode",),
    "qr": ("some",),
    "linalg_cond": ("p",),
    "_linalg_eigh": ("compute_v",),
    "_linalg_svd": ("compute_uv", "driver"),
    "linalg_svd": ("driver",),
    "linalg_svdvals": ("driver",),
    "linalg_pinv.atol_rtol_tensor": ("atol", "rtol"),
    "linalg_pinv.atol_rtol_float": ("atol", "rtol"),
    "linalg_pinv": ("rcond",),
    "linalg_pinv.rcond_tensor": ("rcond",),
    "pinverse": ("rcond",),
    "linalg_lstsq": ("rcond", "driver"),
    "linalg_lu": ("pivot",),
    "linalg_lu_factor": ("pivot",),
    "linalg_lu_factor_ex": ("pivot",),
    "_lu_with_info": ("pivot",),
    "linalg_vander": ("N",),
    "linalg_tensorsolve": ("dims",),
}
CONSTANT = {"linalg_pinv.rcond_tensor": ("rcond",), "linalg_ldl_factor": ("self",)}


def power_matrices():
    for count, increasing in ((None, False), (2, True), (4, False), (1, True)):
        yield (tensor(3), count, increasing), {}


SAMPLES = {
    "vander": power_matrices,
    "_linalg_eigh": HERMITIAN,
    "linalg_eigh": HERMITIAN,
    "linalg_eigvalsh": HERMITIAN,
    "_linalg_svd": SVD,
    "linalg_svd": several(
        matrices((2, 2), (2, 3), full_matrices=True), matrices((2, 2), (1, 3, 2), (2, 3), full_matrices=False)
    ),
    "linalg_svdvals": matrices(*ALL),
    "linalg_eig": matrices(*SQUARE),
    "linalg_eigvals": matrices(*SQUARE),
    "_linalg_eigvals": matrices(*SQUARE),
    "linalg_inv_ex": matrices(*SQUARE),
    "linalg_inv": matrices(*SQUARE),
    "inverse": matrices(*SQUARE),
    "linalg_cholesky_ex": HERMITIAN_POSITIVE,
    "linalg_cholesky": HERMITIAN_POSITIVE,
    "cholesky": HERMITIAN_POSITIVE,
    "cholesky_inverse": HERMITIAN_POSITIVE,
    "cholesky_solve": several(swapped(PAIRS), swapped(with_right_side((2, 2), upper=True))),
    "linalg_solve_triangular": triangles,
    "triangular_solve": several(
        swapped(PAIRS), *(swapped(with_right_side((2, 2), **{name: name != "upper"})) for name in FLAGS)
    ),
    "linalg_lu_factor_ex": matrices(*ALL),
    "linalg_lu_factor": matrices(*ALL),
    "_lu_with_info": matrices(*ALL),
    "linalg_lu": matrices(*ALL),
    "linalg_lu_solve": by_lu(True),
    "lu_solve": by_lu(False),
    "lu_unpack": unpacked,
    "_linalg_solve_ex": systems,
    "linalg_solve_ex": systems,
    "linalg_solve": systems,
    "_linalg_det": matrices(*SQUARE),
    "linalg_det": matrices(*SQUARE),
    "det": matrices(*SQUARE),
    "_linalg_slogdet": matrices(*SQUARE),
    "linalg_slogdet": matrices(*SQUARE),
    "slogdet": matrices(*SQUARE),
    "logdet": matrices(*SQUARE),
    "geqrf": matrices(*ALL),
    "linalg_householder_product": reflections,
    "orgqr": reflections,
    "ormqr": reflected,
    "linalg_ldl_factor_ex": matrices(*SQUARE),
    "linalg_ldl_factor": matrices(*SQUARE),
    "linalg_ldl_solve": by_ldl,
    "linalg_tensorinv": tensor_maps(False),
    "linalg_tensorsolve": tensor_maps(True),
    "linalg_matrix_power": powers,
    "matrix_power": powers,
    "linalg_qr": several(
        matrices((2, 2), (1, 3, 2), (2, 3), (0, 3), (3, 0)), matrices((2, 2), (2, 3), mode="complete")
    ),
    "qr": several(matrices((2, 2), (1, 3, 2), (2, 3)), matrices((2, 2), some=False)),
    "linalg_cond": several(*(matrices((2, 2), p=p) for p in (None, 1, -1, 2, -2, math.inf, -math.inf))),
    "linalg_cond.p_str": several(*(matrices((2, 2), (1, 2, 2), p=p) for p in ("fro", "nuc"))),
    "linalg_matrix_norm": NORMS,
    "linalg_matrix_norm.str_ord": NAMED_NORMS,
    "linalg_norm": general_norms,
    "linalg_norm.ord_str": NAMED_NORMS,
    "nuclear_norm": NUCLEAR,
    "nuclear_norm.dim": BY_DIM,
    "linalg_matrix_rank.atol_rtol_tensor": TENSORS,
    "linalg_matrix_rank.atol_rtol_float": FLOATS,
    "linalg_matrix_rank": by_tolerance(0.1, 1e-8),
    "linalg_matrix_rank.tol_tensor": by_tolerance(small()),
    "linalg_pinv.atol_rtol_tensor": TENSORS,
    "linalg_pinv.atol_rtol_float": FLOATS,
    "linalg_pinv": by_tolerance(1e-8),
    "linalg_pinv.rcond_tensor": by_tolerance(small()),
    "pinverse": matrices((2, 3), (1, 3, 2), (2, 2)),
    "linalg_lstsq": least_squares,
    "linalg_matrix_exp": exponentials,
    "linalg_matrix_sqrth": several(matrices(*SQUARE), scaled_identities),
    "linalg_polar": several(matrices((2, 2), (1, 3, 2), (0, 2, 2)), scaled_identities),
    "_linalg_nuclear_norm": several(matrices(*ALL), scaled_identities),
    "_linalg_lyapunov": lyapunov_equations,
    "matrix_exp": exponentials,
    "matrix_exp_backward": exponential_gradients,
    "svd": several(matrices((2, 2), (1, 3, 2), (2, 3)), matrices((2, 2), some=False)),
}
