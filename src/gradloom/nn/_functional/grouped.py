"""Products of groups of matrices, such as those of the experts of a mixture, and of scaled matrices of 8-bit floats."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any

import gradloom as gl
from gradloom import Tensor
from gradloom.nn._functional import operators as ops
from gradloom.types import DType


def grouped_mm(
    mat_a: Tensor,
    mat_b: Tensor,
    *,
    offs: Tensor | None = None,
    bias: Tensor | None = None,
    out_dtype: DType | None = None,
) -> Tensor:
    """Multiply matrices in groups. A matrix stands for all groups, one after the other along one dimension.

    Args:
        mat_a: (rows of all groups, k), or (groups, n, k).
        mat_b: (groups, k, m), or (k, columns of all groups). With two matrices, the groups divide k.
        offs: (groups,), int32: where each group ends along the dimension that is divided; None for two batches.
        bias: must be None.
        out_dtype: must be the dtype of `mat_a`.

    Shape:
        output: (rows, m), (n, columns), or (groups, n, m) for two batches or two matrices. Rows and columns behind the
        last group are zero.

    Raises:
        RuntimeError: for other shapes or dtypes than float32, bfloat16 and float16, or rows that are not aligned to 16
            bytes.
    """
    _check_grouped(mat_a, mat_b, offs, bias, out_dtype)
    if offs is None:
        return ops.bmm(mat_a, mat_b)
    ends = offs.tolist()
    parts = list(zip([0, *ends], ends, strict=False))
    if mat_a.dim() == 2 and mat_b.dim() == 2:
        return ops.stack([ops.mm(mat_a[:, a:b], mat_b[a:b]) for a, b in parts])
    if mat_a.dim() == 2:
        rows = [ops.mm(mat_a[a:b], mat_b[group]) for group, (a, b) in enumerate(parts)]
        rows.append(gl.zeros(mat_a.shape[0] - ends[-1], mat_b.shape[-1], dtype=mat_a.dtype, device=mat_a.device))
        return ops.cat(rows)
    columns = [ops.mm(mat_a[group], mat_b[:, a:b]) for group, (a, b) in enumerate(parts)]
    columns.append(gl.zeros(mat_a.shape[1], mat_b.shape[1] - ends[-1], dtype=mat_a.dtype, device=mat_a.device))
    return ops.cat(columns, 1)


def _check_grouped(mat_a, mat_b, offs, bias, out_dtype):
    names = {gl.float64: "Double", gl.complex64: "ComplexFloat", gl.complex128: "ComplexDouble", gl.int64: "Long"}
    for name, matrix in (("mat_a", mat_a), ("mat_b", mat_b)):
        if matrix.dtype not in (gl.float32, gl.bfloat16, gl.float16):
            found = names.get(matrix.dtype, str(matrix.dtype).rpartition(".")[2])
            raise RuntimeError(f"Expected {name} to be Float32, BFloat16 or Float16 matrix, got {found}")
    for name, matrix in (("mat_a", mat_a), ("mat_b", mat_b)):
        if matrix.dim() not in (2, 3):
            raise RuntimeError(f"{name} has to be 2 or 3d")
    both = mat_a.dim() == 3 and mat_b.dim() == 3
    if (offs is None) != both:
        raise RuntimeError("Have to provide offsets if there is a 2d matrix, or no offset if both matrices are 3d")
    if mat_a.shape[-1] != mat_b.shape[-2]:
        raise RuntimeError("contraction dimension of mat_a and mat_b must match")
    for matrix in (mat_a, mat_b):
        last = -2 if matrix.stride(-2) == 1 and matrix.stride(-1) != 1 else -1
        if matrix.stride(-1 if last == -2 else -2) * matrix.element_size() % 16:
            raise RuntimeError("strides should be multiple of 16 bytes")
    if both and mat_a.shape[0] != mat_b.shape[0]:
        raise RuntimeError("batched dimension has to match")
    if offs is not None:
        if offs.dtype != gl.int32:
            raise RuntimeError("Offsets have to be int32")
        batches = [matrix.shape[0] for matrix in (mat_a, mat_b) if matrix.dim() == 3]
        if batches and batches[0] != offs.shape[0]:
            raise RuntimeError("matrix batch sizes have to match")
    if bias is not None:
        raise RuntimeError("Bias not supported yet")
    if out_dtype is not None and out_dtype != mat_a.dtype:
        raise RuntimeError("Grouped gemm output dtype must match `mat_a` dtype")


class _ScalingType(Enum):
    """What a scale of `scaled_mm` belongs to: the whole matrix, a row, or a block of it."""

    TensorWise = 0
    RowWise = 1
    BlockWise1x16 = 2
    BlockWise1x32 = 3
    BlockWise1x128 = 4
    BlockWise128x128 = 5

    def __int__(self) -> int:
        return self.value


class _SwizzleType(Enum):
    """The order in which the scales of blocks lie in memory."""

    NO_SWIZZLE = 0
    SWIZZLE_32_4_4 = 1
    SWIZZLE_32_8 = 2

    def __int__(self) -> int:
        return self.value


ScalingType, SwizzleType = _ScalingType, _SwizzleType
for _kind in (ScalingType, SwizzleType):
    _kind.__qualname__ = _kind.__name__[1:]  # under which pickles find it; the names that PyTorch prints are private


def scaled_mm(
    mat_a: Tensor,
    mat_b: Tensor,
    scale_a: Tensor | list[Tensor],
    scale_recipe_a: _ScalingType | list[_ScalingType],
    scale_b: Tensor | list[Tensor],
    scale_recipe_b: _ScalingType | list[_ScalingType],
    swizzle_a: _SwizzleType | list[_SwizzleType] | None = None,
    swizzle_b: _SwizzleType | list[_SwizzleType] | None = None,
    bias: Tensor | None = None,
    output_dtype: DType | None = gl.bfloat16,
    contraction_dim: Sequence[int] = (),
    use_fast_accum: bool = False,
) -> Tensor:
    """Multiply matrices of 8-bit floats, each times its scale. The product is computed in float32; it has no gradient.

    Args:
        mat_a: (n, k), float8.
        mat_b: (k, m), float8.
        scale_a: float32, one number or, for `ScalingType.RowWise`, (n, 1).
        scale_recipe_a: what `scale_a` belongs to; TensorWise or RowWise.
        scale_b: float32, one number or, for RowWise, (1, m).
        scale_recipe_b: as `scale_recipe_a`, and the same.
        swizzle_a: None or `SwizzleType.NO_SWIZZLE`.
        swizzle_b: as `swizzle_a`.
        bias: m numbers of float32, float16 or bfloat16, added to each row.
        output_dtype: of the result; None for that of `mat_a`.
        contraction_dim: the dimensions of both matrices that are summed over, (1, 0) if empty.
        use_fast_accum: ignored, as on all CPUs.

    Shape:
        output: (n, m).

    Raises:
        ValueError: for other dtypes, shapes and recipes; those of blocks exist on GPUs only.
    """
    return ops._scaled_mm_v2(
        mat_a,
        mat_b,
        _listed(scale_a),
        [recipe.value for recipe in _listed(scale_recipe_a)],
        [swizzle.value for swizzle in _listed(swizzle_a)],
        _listed(scale_b),
        [recipe.value for recipe in _listed(scale_recipe_b)],
        [swizzle.value for swizzle in _listed(swizzle_b)],
        bias,
        output_dtype,
        contraction_dim,
        use_fast_accum,
    )


def scaled_addmm(
    input: Tensor,
    mat1: Tensor,
    mat2: Tensor,
    scale_a: Tensor | list[Tensor],
    scale_recipe_a: _ScalingType | list[_ScalingType],
    scale_b: Tensor | list[Tensor],
    scale_recipe_b: _ScalingType | list[_ScalingType],
    swizzle_a: _SwizzleType | list[_SwizzleType] | None = None,
    swizzle_b: _SwizzleType | list[_SwizzleType] | None = None,
    contraction_dim: Sequence[int] = (),
    use_fast_accum: bool = False,
    *,
    beta: float = 1.0,
    alpha: float = 1.0,
) -> Tensor:
    """Raise NotImplementedError, as PyTorch does on CPUs. `scaled_mm` computes the product, which can then be added.

    Args:
        input: (n, m), of float32, float16 or bfloat16: the matrix that the product would be added to.
        mat1: see `mat_a` of `scaled_mm`.
        mat2: see `mat_b` of `scaled_mm`.
        scale_a: see `scaled_mm` for this and for the next seven arguments.
        scale_recipe_a: see `scaled_mm`.
        scale_b: see `scaled_mm`.
        scale_recipe_b: see `scaled_mm`.
        swizzle_a: see `scaled_mm`.
        swizzle_b: see `scaled_mm`.
        contraction_dim: see `scaled_mm`.
        use_fast_accum: see `scaled_mm`.
        beta: factor of `input`.
        alpha: factor of the product.

    Shape:
        output: (n, m).

    Raises:
        ValueError: for an `input` that is not a contiguous matrix of these dtypes.
    """
    if input.dim() != 2:
        raise ValueError("input must be a matrix")
    if input.dtype not in (gl.float32, gl.float16, gl.bfloat16):
        raise ValueError(f"input must have dtype BFloat16, Half, or Float, but got {input.dtype}")
    if not input.is_contiguous():
        raise ValueError("input must have canonical contiguous row-major strides")
    raise NotImplementedError(
        "Could not run 'aten::_scaled_addmm.out' with arguments from the 'CPU' backend. Compute alpha * "
        "scaled_mm(mat1, mat2, ...) and add it to beta * input."
    )


def scaled_addmm_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Raise as `scaled_addmm` does; PyTorch writes the sum to `input` on GPUs.

    Args:
        input: see `scaled_addmm`.
        args: the arguments of `scaled_addmm` after the first.
        kwargs: see `args`.

    Shape:
        output: that of `input`.
    """
    return scaled_addmm(input, *args, **kwargs)


def scaled_grouped_mm(
    mat_a: Tensor,
    mat_b: Tensor,
    scale_a: Tensor | list[Tensor],
    scale_recipe_a: _ScalingType | list[_ScalingType],
    scale_b: Tensor | list[Tensor],
    scale_recipe_b: _ScalingType | list[_ScalingType],
    swizzle_a: _SwizzleType | list[_SwizzleType] | None = None,
    swizzle_b: _SwizzleType | list[_SwizzleType] | None = None,
    bias: Tensor | None = None,
    offs: Tensor | None = None,
    output_dtype: DType | None = gl.bfloat16,
    contraction_dim: Sequence[int] = (),
    use_fast_accum: bool = False,
) -> Tensor:
    """Raise NotImplementedError, as PyTorch does on CPUs. `scaled_mm` multiplies one group, `grouped_mm` floats.

    Args:
        mat_a: see `scaled_mm` for this and for all arguments but `offs`.
        mat_b: see `scaled_mm`.
        scale_a: see `scaled_mm`.
        scale_recipe_a: see `scaled_mm`.
        scale_b: see `scaled_mm`.
        scale_recipe_b: see `scaled_mm`.
        swizzle_a: see `scaled_mm`.
        swizzle_b: see `scaled_mm`.
        bias: see `scaled_mm`.
        offs: see `grouped_mm`.
        output_dtype: see `scaled_mm`.
        contraction_dim: see `scaled_mm`.
        use_fast_accum: see `scaled_mm`.

    Shape:
        output: none.

    Raises:
        NotImplementedError: always.
    """
    raise NotImplementedError(
        "Could not run 'aten::_scaled_grouped_mm_v2' with arguments from the 'CPU' backend. Multiply each group by "
        "scaled_mm, or convert the matrices to bfloat16 and call grouped_mm."
    )


def _listed(value):
    if value is None:
        return []
    return list(value) if isinstance(value, (list, tuple)) else [value]


def assert_int_or_pair(arg: int | list[int], arg_name: str, message: str) -> None:
    """Raise AssertionError with a message unless `arg` is an int or has two elements.

    Args:
        arg: checked.
        arg_name: put into the message for `{}`.
        message: of the error.

    Shape:
        output: None.
    """
    if not (isinstance(arg, int) or len(arg) == 2):
        raise AssertionError(message.format(arg_name))
