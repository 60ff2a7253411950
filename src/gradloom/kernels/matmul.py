"""Products of matrices and vectors.

Note [Products]
All products are computed by `np.dot` or `np.matmul`, which pass float32, float64 and complex matrices to BLAS,
transposed ones by their strides; large ones are divided among threads (`gemm`). Halves are multiplied in float32 and
rounded once at the end. A batch in which neither of the last two dimensions is contiguous is copied first, because
`np.matmul` would fall back to a slow loop; `np.dot` copies by itself.
"""

from __future__ import annotations

import numpy as np

from ..types.dtype import TYPE_OF, c_name
from ._common import threads
from ._common.blas import FEW, SMALL, gemm
from ._common.dims import dim_error, require_dim, wrap_dims
from ._common.errors import not_implemented, type_name
from ._common.layout import as_operands
from ._common.numbers import convertible, is_half, number_as, widen


def mm(self: np.ndarray, mat2: np.ndarray) -> np.ndarray:
    """Return the product of matrices (n, k) and (k, m): (n, m)."""
    if self.ndim != 2:
        raise RuntimeError("self must be a matrix")
    if mat2.ndim != 2:
        raise RuntimeError("mat2 must be a matrix")
    if self.shape[1] != mat2.shape[0]:
        raise _cannot_multiply(self, mat2)
    if self.dtype is not mat2.dtype:
        raise RuntimeError(
            f"expected m1 and m2 to have the same dtype, but got: {c_name(self.dtype)} != {c_name(mat2.dtype)}"
        )
    return product(self, mat2, "addmm_impl_cpu_")


def addmm(self: np.ndarray, mat1: np.ndarray, mat2: np.ndarray, beta=1, alpha=1) -> np.ndarray:
    """beta * self + alpha * (mat1 @ mat2), where self broadcasts to (n, m); beta 0 leaves self unread."""
    _require_one_type(self, mat1, mat2)
    if mat1.ndim != 2:
        raise RuntimeError(f"mat1 must be a matrix, got {mat1.ndim}-D tensor")
    if mat2.ndim != 2:
        raise RuntimeError(f"mat2 must be a matrix, got {mat2.ndim}-D tensor")
    if mat1.shape[1] != mat2.shape[0]:
        raise _cannot_multiply(mat1, mat2)
    check_expand(self, (mat1.shape[0], mat2.shape[1]))
    return add_scaled(self, product(mat1, mat2, "addmm_impl_cpu_", keep_wide=True), beta, alpha)


def bmm(self: np.ndarray, mat2: np.ndarray) -> np.ndarray:
    """Multiply the matrices in batches (b, n, k) and (b, k, m): (b, n, m)."""
    check_batches(self, mat2)
    return product(self, mat2, "bmm")


def mv(self: np.ndarray, vec: np.ndarray) -> np.ndarray:
    """Return the product of a matrix (n, m) and a vector (m,): (n,)."""
    if self.ndim != 2 or vec.ndim != 1:
        _check_dim(self, 0)
        raise RuntimeError(f"vector + matrix @ vector expected, got 1, {self.ndim}, {vec.ndim}")
    if self.shape[1] != vec.shape[0]:
        raise RuntimeError(
            f"size mismatch, got input ({self.shape[0]}), mat ({self.shape[0]}x{self.shape[1]}), vec ({vec.shape[0]})"
        )
    if self.dtype is not vec.dtype:
        found, other = type_name(self.dtype), type_name(vec.dtype)
        raise RuntimeError(f"addmv input tensors must have the same dtype, but got {other}, {found}, and {other}")
    return product(self, vec, "addmv_impl_cpu")


def dot(self: np.ndarray, tensor: np.ndarray) -> np.ndarray:
    """Return the inner product of two vectors (n,), a scalar; nothing is conjugated."""
    if self.ndim != 1 or tensor.ndim != 1:
        raise RuntimeError(f"1D tensors expected, but got {self.ndim}D and {tensor.ndim}D tensors")
    if self.dtype is not tensor.dtype:
        raise RuntimeError(
            "dot : expected both vectors to have same dtype, but found "
            f"{type_name(self.dtype)} and {type_name(tensor.dtype)}"
        )
    n, m = self.size, tensor.size
    if n != m:
        raise RuntimeError(
            f"inconsistent tensor size, expected tensor [{n}] and src [{m}] to have the same number of "
            f"elements, but got {n} and {m} elements respectively"
        )
    return product(self, tensor, "dot")


def vdot(self: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return the inner product of two vectors (n,), the first one conjugated; a scalar."""
    return dot(self.conj() if self.dtype.kind == "c" else self, other)


def addmv(self: np.ndarray, mat: np.ndarray, vec: np.ndarray, beta=1, alpha=1) -> np.ndarray:
    """beta * self + alpha * (mat @ vec), where self broadcasts to (n,); beta 0 leaves self unread."""
    if mat.ndim != 2 or vec.ndim != 1 or self.ndim > 1:
        raise RuntimeError(f"vector + matrix @ vector expected, got {self.ndim}, {mat.ndim}, {vec.ndim}")
    n, m = mat.shape
    if m != vec.shape[0] or self.shape not in ((n,), (1,), ()):
        _check_dim(self, 0)
        raise RuntimeError(
            f"size mismatch, got input ({self.shape[0] if self.ndim else 1}), mat ({n}x{m}), vec ({vec.shape[0]})"
        )
    if not self.dtype is mat.dtype is vec.dtype:
        names = [type_name(a.dtype) for a in (self, mat, vec)]
        raise RuntimeError("addmv input tensors must have the same dtype, but got {}, {}, and {}".format(*names))
    found = product(mat, vec, "addmv_impl_cpu", keep_wide=True)
    if is_half(self.dtype):  # PyTorch rounds both numbers, and beta * self
        beta, alpha = number_as(beta, self.dtype), number_as(alpha, self.dtype).astype(np.float32)
        return add_scaled(self * beta if beta else self, found, 1 if beta else 0, alpha)
    return add_scaled(self, found, beta, alpha)


def addr(self: np.ndarray, vec1: np.ndarray, vec2: np.ndarray, beta=1, alpha=1) -> np.ndarray:
    """beta * self + alpha * (outer product of vec1 and vec2), where self broadcasts to (n, m); all of one dtype. Raises
    RuntimeError if shapes do not fit, or a number does not fit the dtype."""
    for name, vector in (("vec1", vec1), ("vec2", vec2)):
        if vector.ndim != 1:
            raise RuntimeError(f"addr: Expected 1-D argument {name}, but got {vector.ndim}-D")
    check_expand(self, (vec1.size, vec2.size))
    kind = self.dtype.kind
    if kind == "b":
        found = np.logical_and.outer(vec1, vec2) & bool(alpha)
        return found if not beta else found | self
    if kind in "iu" and (beta.__class__ is float or alpha.__class__ is float):
        name = "beta" if beta.__class__ is float else "alpha"
        raise RuntimeError(f"For integral input tensors, argument {name} must not be a floating point number.")
    if is_half(self.dtype):  # each step is rounded
        found = np.multiply.outer(vec1 * number_as(alpha, self.dtype), vec2)
        return as_operands(found + self * number_as(beta, self.dtype) if beta else found, self)
    return as_operands(add_scaled(self, np.multiply.outer(vec1, vec2), beta, alpha), self)


def baddbmm(self: np.ndarray, batch1: np.ndarray, batch2: np.ndarray, beta=1, alpha=1) -> np.ndarray:
    """beta * self + alpha * (batched products); self broadcasts to (b, n, m), and is not read if beta is 0."""
    _check_dim(batch1, 1)
    _check_dim(batch2, 2)
    check_batches(batch1, batch2)
    if self.dtype is not batch1.dtype:
        raise RuntimeError(
            f"Input dtypes must be the same, got: input {c_name(self.dtype)}, batch1: {c_name(batch1.dtype)}, "
            f"batch2: {c_name(batch2.dtype)}"
        )
    check_expand(self, (batch1.shape[0], batch1.shape[1], batch2.shape[2]))
    return add_scaled(self, product(batch1, batch2, "baddbmm", keep_wide=True), beta, alpha)


def _check_dim(array: np.ndarray, dim: int) -> None:
    """Raise IndexError unless the array has a dimension `dim`."""
    if dim >= array.ndim:
        if not array.ndim:
            raise IndexError("Dimension specified as 0 but tensor has no dimensions")
        raise dim_error(dim, array.ndim)


def addbmm(self: np.ndarray, batch1: np.ndarray, batch2: np.ndarray, beta=1, alpha=1) -> np.ndarray:
    """beta * self + alpha * (sum over the batch of batch1 @ batch2), where self broadcasts to (n, m). Computed as one
    product of (n, b * k) and (b * k, m)."""
    for name, batch in (("batch1", batch1), ("batch2", batch2)):
        if batch.ndim != 3:
            raise RuntimeError(f"{name} must be a 3D tensor")
    (b, n, k), (c, k2, m) = batch1.shape, batch2.shape
    if b != c:
        raise RuntimeError(f"batch1 and batch2 must have same number of batches, got {b} and {c}")
    if k != k2:
        raise RuntimeError(f"Incompatible matrix sizes for bmm ({n}x{k} and {k2}x{m})")
    _require_one_type(self, batch1, batch2)
    check_expand(self, (n, m))
    rows = batch1.transpose(1, 0, 2).reshape(n, b * k)
    return add_scaled(self, product(rows, batch2.reshape(b * k, m), "addbmm", keep_wide=True), beta, alpha)


def linalg_cross(self: np.ndarray, other: np.ndarray, dim: int = -1) -> np.ndarray:
    """Return cross products along a dimension of size 3; shapes broadcast."""
    ndim = self.ndim
    if ndim != other.ndim:
        raise RuntimeError("linalg.cross: inputs must have the same number of dimensions.")
    if not -ndim <= dim < ndim:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-ndim}, {ndim - 1}], but got {dim})")
    if self.shape[dim] != 3 or other.shape[dim] != 3:
        raise RuntimeError(
            f"linalg.cross: inputs dimension {dim} must have length 3. Got {self.shape[dim]} and {other.shape[dim]}"
        )
    if self.dtype is not other.dtype:
        raise RuntimeError(f"expected scalar type {type_name(self.dtype)} but found {type_name(other.dtype)}")
    if self.dtype.kind == "b":
        raise not_implemented("cross", self)
    a, b = np.moveaxis(self, dim, 0), np.moveaxis(other, dim, 0)
    found = np.empty(np.broadcast_shapes(self.shape, other.shape), self.dtype)
    out = np.moveaxis(found, dim, 0)
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        out[i] = a[j] * b[k] - a[k] * b[j]
    return found


def trilinear(
    i1: np.ndarray,
    i2: np.ndarray,
    i3: np.ndarray,
    expand1: tuple,
    expand2: tuple,
    expand3: tuple,
    sumdim: tuple,
    unroll_dim: int = 1,
) -> np.ndarray:
    """Return sum(i1 * i2 * i3) over dimensions, after inserting dimensions of size 1 in each factor.

    Args:
        expand1, expand2, expand3: the dimensions of the product at which each factor gets a dimension of size 1.
        sumdim: the dimensions of the product that are summed over.
        unroll_dim: accepted for compatibility and ignored.
    """
    factors = []
    for factor, missing in ((i1, expand1), (i2, expand2), (i3, expand3)):
        ndim = factor.ndim + len(missing)
        missing = wrap_dims(missing, ndim)
        factors.append((widen(factor), [d for d in range(ndim) if d not in missing], ndim))
    if len({ndim for _, _, ndim in factors}) != 1:
        raise RuntimeError("_trilinear: the factors must have the same number of dimensions once expanded")
    ndim = factors[0][2]
    summed = wrap_dims(sumdim, ndim)
    kept = [d for d in range(ndim) if d not in summed]
    operands = [x for factor, dims, _ in factors for x in (factor, dims)]
    with threads.single_threaded_blas(), np.errstate(all="ignore"):
        found = np.einsum(*operands, kept, optimize=True)
    return found.astype(i1.dtype, order="C", copy=False)


def product(a: np.ndarray, b: np.ndarray, name: str, keep_wide: bool = False) -> np.ndarray:
    """a @ b for arrays of one dtype and shapes that fit: vectors, matrices, or batches (b, n, k) and (b, k, m).

    Args:
        name: PyTorch's name of the kernel, for its error about bools.
        keep_wide: return the product of halves in float32, for a caller that computes on.
    """
    dtype = a.dtype
    plain = a.__class__ is b.__class__ is np.ndarray
    if plain and b.ndim < 3 and dtype.char in "fd" and a.size * b.shape[-1] <= SMALL:  # the common case
        found = a.dot(b)
        return found if found.__class__ is np.ndarray else np.asarray(found)
    if dtype.kind == "b":
        raise not_implemented(name, a)
    half = is_half(dtype)
    if half:
        a, b = widen(a), widen(b)
    work = a.size * b.shape[-1]
    if b.ndim < 3 and (work <= FEW or work <= SMALL and dtype.kind != "c"):
        found = a.dot(b) if plain else np.dot(a, b)
        if found.__class__ is not np.ndarray:
            found = np.asarray(found)
    else:
        found = gemm(_for_blas(a), _for_blas(b))
        if found.__class__ is not np.ndarray:
            found = np.asarray(found)
    return found.astype(dtype) if half and not keep_wide else found


def multiply(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> None:
    """Write the product of matrices, or batches of them, of one float dtype to `out`."""
    most = SMALL if a.dtype.kind != "c" else FEW
    if a.ndim == 2 and a.size * b.shape[1] <= most and out.flags.c_contiguous:
        a.dot(b, out)
    else:
        gemm(_for_blas(a), _for_blas(b), out)


def add_scaled(self: np.ndarray, found: np.ndarray, beta, alpha) -> np.ndarray:
    """beta * self + alpha * found, computed in the memory of `found` and returned in self's dtype. Integer dtypes use
    the integer part of beta and alpha."""
    dtype = self.dtype
    if beta == 1 and alpha == 1 and found.dtype is dtype and complex not in (beta.__class__, alpha.__class__):
        found += self
        return found
    beta, alpha = _factor(beta, found.dtype), _factor(alpha, found.dtype)
    if alpha == 0:
        found = np.zeros_like(found)  # also in place of infinities and NaNs
    elif alpha != 1:
        found *= alpha
    if beta == 1:
        found += widen(self)
    elif beta != 0:
        found += widen(self) * beta
    return found if found.dtype is dtype else found.astype(dtype)


def _factor(number, dtype):
    """Return a factor of a sum. Raises RuntimeError for a number that the dtype does not hold."""
    return number if number.__class__ is int and number in (0, 1) else number_as(number, dtype)


def check_expand(self: np.ndarray, shape: tuple) -> None:
    """Raise RuntimeError unless an array broadcasts to `shape`, as PyTorch's expand does."""
    own = self.shape
    if own == shape or len(own) == 1 and shape and own[0] == shape[-1]:
        return
    if self.ndim > len(shape):
        from ..types.dtype import type_text

        raise RuntimeError(
            f"expand({type_text(TYPE_OF[self.dtype])}{{{list(self.shape)}}}, size={list(shape)}): "
            f"the number of sizes provided ({len(shape)}) must be greater or equal to the number of "
            f"dimensions in the tensor ({self.ndim})"
        )
    lead = len(shape) - self.ndim
    for d, n in enumerate(self.shape):
        if n != 1 and n != shape[lead + d]:
            raise RuntimeError(
                f"The expanded size of the tensor ({shape[lead + d]}) must match the existing size ({n}) "
                f"at non-singleton dimension {lead + d}.  Target sizes: {list(shape)}.  Tensor sizes: "
                f"{list(self.shape)}"
            )


def check_batches(batch1: np.ndarray, batch2: np.ndarray) -> None:
    """Raise RuntimeError unless shapes are (b, n, k) and (b, k, m), and dtypes equal."""
    if batch1.ndim != 3:
        raise RuntimeError("batch1 must be a 3D tensor")
    if batch2.ndim != 3:
        raise RuntimeError("batch2 must be a 3D tensor")
    b, _, k = batch1.shape
    if batch2.shape[0] != b or batch2.shape[1] != k:
        raise RuntimeError(
            f"Expected size for first two dimensions of batch2 tensor to be: [{b}, {k}] but got: "
            f"[{batch2.shape[0]}, {batch2.shape[1]}]."
        )
    if batch1.dtype is not batch2.dtype:
        raise RuntimeError(f"expected scalar type {type_name(batch1.dtype)} but found {type_name(batch2.dtype)}")


def _for_blas(a: np.ndarray) -> np.ndarray:
    """Return `a`, or a copy if neither of its last two dimensions is contiguous."""
    if a.ndim < 2:
        return a
    item = a.itemsize
    rows, columns = a.strides[-2:]
    if (columns == item and rows >= item and rows % item == 0) or (
        rows == item and columns >= item and columns % item == 0
    ):
        return a
    return np.ascontiguousarray(a)


def _require_one_type(self, mat1, mat2) -> None:
    if self.dtype is not mat2.dtype or mat1.dtype is not mat2.dtype:
        name, other = ("self", self) if self.dtype is not mat2.dtype else ("mat1", mat1)
        raise RuntimeError(
            f"{name} and mat2 must have the same dtype, but got {type_name(other.dtype)} and {type_name(mat2.dtype)}"
        )


def _cannot_multiply(a, b) -> RuntimeError:
    return RuntimeError(
        f"mat1 and mat2 shapes cannot be multiplied ({a.shape[0]}x{a.shape[1]} and {b.shape[0]}x{b.shape[1]})"
    )


def int_mm(self: np.ndarray, mat2: np.ndarray) -> np.ndarray:
    """Return the product of matrices (n, k) of 8-bit integers and (k, m) of int8: int32 (n, m), modulo 2**32.

    BLAS multiplies them as floats, exactly: a product is below 2**15, and a sum of k fits the digits of the dtype.
    """
    require_dim(0, self.ndim)
    require_dim(1, mat2.ndim)
    for name, matrix in (("self", self), ("mat2", mat2)):
        if matrix.ndim != 2:
            raise RuntimeError(f"_int_mm: {name} must be a matrix, got {matrix.ndim}-D tensor")
    k = self.shape[1]
    if k != mat2.shape[0]:
        (n, _), (rows, m) = self.shape, mat2.shape
        raise RuntimeError(f"_int_mm: mat1 and mat2 shapes cannot be multiplied ({n}x{k} and {rows}x{m})")
    if self.dtype.char not in "bB":
        raise RuntimeError(f"int_mm_out_cpu: Expected self dtype to be int8 or uint8 but got {c_name(self.dtype)}")
    if mat2.dtype.char != "b":
        raise RuntimeError(f"int_mm_out_cpu: Expected mat2 dtype to be of type int8 but got {c_name(mat2.dtype)}")
    kind = np.float32 if k < 1 << 9 else np.float64
    return product(self.astype(kind), mat2.astype(kind), "int_mm").astype(np.int64).astype(np.int32)


def scaled_mm(
    self, mat2, scale_a, scale_b, bias=None, scale_result=None, out_dtype=None, use_fast_accum=False
) -> np.ndarray:
    """Return (scale_a self) @ (scale_b mat2) + bias of matrices of 8-bit floats, computed in float32.

    Args:
        self, mat2: (n, k) and (k, m).
        scale_a, scale_b: float32, one number each, or (n, 1) and (1, m).
        bias: m numbers of float32, float16 or bfloat16.
        scale_result: one number, by which a result of 8-bit floats is divided.
        out_dtype: dtype of the result; None for that of self.
        use_fast_accum: accepted; sums are those of float32.
    """
    _check_scaled(self, mat2, bias, ())
    by_row = scale_a.size > 1 or scale_b.size > 1
    return _scaled(self, mat2, scale_a, scale_b, [1, 1] if by_row else [0, 0], bias, scale_result, out_dtype)


def scaled_mm_by_recipe(
    self,
    mat2,
    scale_a,
    recipe_a,
    swizzle_a,
    scale_b,
    recipe_b,
    swizzle_b,
    bias,
    out_dtype,
    contraction_dim=(),
    use_fast_accum=False,
) -> np.ndarray:
    """`scaled_mm` with lists of scales and their kinds: 0 for one number, 1 for (n, 1) and (1, m). Other kinds, which
    PyTorch has on GPUs, raise ValueError."""
    _check_scaled(self, mat2, bias, contraction_dim, by_recipe=True)
    if swizzle_a and swizzle_b and any([*swizzle_a, *swizzle_b]):
        raise ValueError("CPU does not support swizzle.")
    recipes = [*recipe_a, *recipe_b]
    if len(scale_a) != 1 or len(scale_b) != 1 or recipes not in ([0, 0], [1, 1]):
        recipes = None
    return _scaled(self, mat2, scale_a[0], scale_b[0], recipes, bias, None, out_dtype)


def _check_scaled(a, b, bias, contraction, by_recipe=False) -> None:
    for name, matrix in (("mat_a", a), ("mat_b", b)):
        if matrix.ndim != 2:
            raise ValueError(f"{name} must be a matrix")
    if contraction and len(contraction) != 2:
        raise ValueError("contraction_dim must have exactly 2 elements")
    along_a, along_b = contraction or (1, 0)
    if a.shape[along_a] != b.shape[along_b]:
        where = f" with contraction dims mat_a: {along_a}, mat_b: {along_b}" if contraction else ""
        raise ValueError(
            f"mat_a and mat_b shapes cannot be multiplied ({a.shape[0]}x{a.shape[1]} and {b.shape[0]}x{b.shape[1]})"
            + where
        )
    if a.shape[1] != b.shape[0]:
        raise RuntimeError(str(_cannot_multiply(a, b)).replace("mat1", "mat_a").replace("mat2", "mat_b"))
    if by_recipe and not (_is_float8(a) and _is_float8(b)):
        raise ValueError(
            f"Expected both inputs to be fp8 or fp4 types but got mat_a.dtype={type_name(a.dtype)} and "
            f"mat_b.dtype={type_name(b.dtype)}"
        )
    if bias is None:
        return
    if bias.size != b.shape[1]:
        raise ValueError(f"Bias must be size {b.shape[1]} but got {bias.size}")
    if bias.dtype.char != "f" and not is_half(bias.dtype):
        raise ValueError(f"Bias must be Float32 or BFloat16 or Half, but got {type_name(bias.dtype)}")


def _is_float8(matrix) -> bool:
    return bool(matrix.dtype.itemsize == 1 and matrix.dtype.isbuiltin == 2)


def _scaled(a, b, scale_a, scale_b, recipes, bias, scale_result, out_dtype):
    if (
        recipes is None
        or not (_is_float8(a) and _is_float8(b))
        or scale_a.dtype.char != "f"
        or scale_b.dtype.char != "f"
    ):
        raise ValueError(_scaling_error(a, b, scale_a, scale_b))
    for name, scale, count in (("scale_a", scale_a, a.shape[0]), ("scale_b", scale_b, b.shape[1])):
        if recipes == [0, 0] and scale.size != 1:
            raise ValueError(f"{name} must have 1 Float element")
        if recipes == [1, 1]:
            _check_row_scale(name, scale, count, a.shape[0])
    kind = np.dtype(np.float32)
    found = gemm(a.astype(kind) * scale_a, b.astype(kind) * scale_b)
    if bias is not None:
        found += bias.astype(kind)
    target = a.dtype if out_dtype is None else out_dtype
    if scale_result is not None and target.itemsize == 1:
        found /= scale_result.astype(kind)
    return convertible(found, target).astype(target)


def _check_row_scale(name, scale, count, rows) -> None:
    wrap_dims((0, 1), scale.ndim)
    if scale.size != count:
        raise ValueError(f"{name} must have {count} Float elements, got {scale.size}")
    if name == "scale_a" and scale.shape != (rows, 1):
        raise ValueError(f"scale_a must have shape [{rows}, 1], got [{list(scale.shape)}]")


def _scaling_error(a, b, scale_a, scale_b) -> str:
    found = [
        f"mat_{x}.dtype()={type_name(m.dtype)}, scale_{x}.dtype()={type_name(s.dtype)}, scale_{x}.size()="
        f"{list(s.shape)}{joint}scale_{x}.stride()={[n // s.itemsize for n in s.strides]}"
        for x, m, s, joint in (("a", a, scale_a, ", "), ("b", b, scale_b, " and "))
    ]
    return (
        "Invalid scaling configuration.\n"
        "- For TensorWise scaling, a and b should be float8, scales should be float and singletons.\n"
        f"- For RowWise scaling, a and b should be float8, scales should be float, scale_a should be ({a.shape[0]}, 1) "
        f"and scale_b should be (1, {b.shape[1]}), and both should be contiguous.\n"
        f"Got {', '.join(found)}"
    )
