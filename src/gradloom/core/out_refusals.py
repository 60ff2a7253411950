"""PyTorch's words for an out= tensor of a dtype that an operator does not write to, where it has words of its own.

In a template, {result} and {out} are the dtypes of the result and of the out= tensor, as in Float, and {c_result} and
{c_out} their names in C++, as in float. A tuple has a template for each of several results.
"""

from __future__ import annotations

import numpy as np

from ..types.dtype import TYPE_OF, c_name, scalar_type_name

_SAME = "Found dtype {out} but expected {result}"
_SCALAR_TYPE = "expected scalar type {result} but found {out}"
_SCALAR_TYPE_OF_SCAN = "expected scalar_type {result} but found {out}"
_NOT_BOOLEAN = "{} does not support non-boolean outputs."
_HISTOGRAM = (
    "torch.histogram: input tensor and hist tensor should have the same dtype, but got input {c_result} and hist "
    "{c_out}"
)
_MEDIAN = (
    "Expected tensor for 'values' to have the same type as tensor for argument #2 'self'; but type "
    "torch.{out}Tensor does not equal torch.{result}Tensor (while checking arguments for median)",
    "Expected tensor for argument #1 'indices' to have scalar type Long; but got torch.{out}Tensor instead "
    "(while checking arguments for median)",
)
_PLACES = (
    "torch.searchsorted(): output tensor's dtype is wrong, it can only be Int(int32) or Long(int64) depending on "
    "whether out_int32 flag is True, but we got output tensor's dtype {out} and out_int32 flag is {int32}"
)


def _castable(called: str, *results: str) -> tuple[str, ...]:
    words = "{called}: Expected {name} to be safely castable from {{result}} dtype, but got {name} with dtype {{out}}"
    return tuple(words.format(called=called, name=name) for name in results)


# Names of operators -> their words.
_WORDS: dict[str, str | tuple[str, ...]] = {
    "abs bitwise_not ceil conj_physical floor frac gelu hardshrink neg round sgn sign softplus softshrink trunc": _SAME,
    "linalg_solve_triangular log_sigmoid native_batch_norm _native_batch_norm_legit": _SCALAR_TYPE,
    "cummax cummin logcumsumexp": _SCALAR_TYPE_OF_SCAN,
    "dot vdot": "result dtype {out} does not match input dtype {result}",
    "inner tensordot": "tensordot: Expected the output tensor to have dtype {result}, but got an output tensor with "
    "dtype {out}",
    "addbmm": "self and mat2 must have the same dtype, but got {out} and {result}",
    "all": "all only supports bool tensor for result, got: {out}",
    "any": "any only supports bool tensor for result, got: {out}",
    "amax amin": "Expected the dtype for input and out to match, but got {result} for input's dtype and {out} for "
    "out's dtype.",
    "bucketize searchsorted": _PLACES,
    "cholesky": _castable("cholesky", "result"),
    "cholesky_inverse": _castable("cholesky_inverse", "result"),
    "cholesky_solve": _castable("cholesky_solve", "result"),
    "complex polar": "Expected object of scalar type {result} but got scalar type {out} for argument 'out'",
    "fft_fft2 fft_ifft2 fft_ifftn": "fftn expects a complex output tensor, but got {out}",
    "fft_hfft2": "hfftn expects a floating point output tensor, but got {out}",
    "fft_ihfft2": "ihfftn expects a complex output tensor, but got {out}",
    "fft_irfft2": "irfftn expects a floating point output tensor, but got {out}",
    "fft_rfft2": "rfftn expects a complex output tensor, but got {out}",
    "float_power": "the output given to float_power has dtype {out} but the operation's result requires dtype {result}",
    "frexp": (
        "torch.frexp() expects mantissa to have dtype {c_result} but got {c_out}",
        "torch.frexp() expects exponent to have {c_result} dtype but got {c_out}",
    ),
    "geqrf": _castable("torch.geqrf", "a", "tau"),
    "hash_tensor": "Expected result to be of dtype uint64, but got {out}",
    "histc": _HISTOGRAM,
    "histogram": (
        _HISTOGRAM,
        "torch.histogram: input tensor and bin_edges tensor should have the same dtype, but got input {c_result} and "
        "bin_edges {c_out} for dimension 0",
    ),
    "heaviside": "heaviside is not yet implemented for tensors with different dtypes.",
    "index_select": "index_select(): self and result must have the same scalar type",
    "isneginf": _NOT_BOOLEAN.format("isneginf"),
    "isposinf": _NOT_BOOLEAN.format("isposinf"),
    "kthvalue": ("output values must be of same type as input", "output indices must be of scalar type {result}"),
    "ldexp": "ldexp can't be cast to the desired output type {out}",
    "linalg_cond": _castable("linalg.cond", "result"),
    "linalg_eig": _castable("torch.linalg.eig", "eigenvalues", "eigenvectors"),
    "linalg_eigvals": _castable("torch.linalg.eigvals", "eigenvalues"),
    "linalg_householder_product": _castable("torch.linalg.householder_product", "result"),
    "linalg_lstsq": _castable("torch.linalg.lstsq", "solution", "solution", "rank", "singular_values"),
    "linalg_matrix_norm": "linalg.matrix_norm expected out tensor dtype {result} but got: {out}",
    "linalg_matrix_power": _castable("matrix_power", "result"),
    "linalg_matrix_rank": _castable("torch.linalg.matrix_rank", "result"),
    "linalg_multi_dot": "multi_dot(): expected out tensor to have dtype {c_result} but got {c_out}",
    "linalg_norm": "linalg.norm expected out tensor dtype {result} but got: {out}",
    "linalg_pinv": _castable("linalg.pinv", "result"),
    "linalg_tensorinv": _castable("tensorinv", "result"),
    "linalg_tensorsolve": _castable("tensorsolve", "result"),
    "linalg_vecdot": "linalg.vecdot: Expected out of dtype{result} but found {out}",
    "logsumexp": "logsumexp(): Expected floating point type for result tensor, but got: {out}",
    "masked_select": "masked_select(): self and result must have the same scalar type",
    "median nanmedian": _MEDIAN,
    "mode": (
        "expected scalar type '{result}' but got '{out}' for values output",
        "expected scalar type '{result}' but got '{out}' for indices output",
    ),
    "multinomial": "multinomial expects Long tensor out, got: {out}",
    "mvlgamma": "mvlgamma: result type {result} can't be cast to the desired output type {result}",
    "nan_to_num": "nan_to_num: dtype of out: {out} should be same as input: {result}",
    "narrow_copy": "Expected self.dtype() == output.dtype() to be true, but got false.  (Could this error message be "
    "improved?  If so, please report an enhancement request to PyTorch.)",
    "nonzero": "nonzero: Expected out tensor to have scalar type Long but got scalar type{out}",
    "ormqr": "torch.ormqr: Expected input and result to have the same dtype, but input has dtype{result} and result "
    "has dtype {out}",
    "quantile nanquantile": "quantile() out tensor must be same dtype as the input tensor",
    "signbit": _NOT_BOOLEAN.format("signbit"),
    "take": "take(): self and out expected to have the same dtype, but got self.dtype = {result} and out.dtype = {out}",
    "where": "Expected out type to be {result} but got {out}",
}
_OF = {name: words for names, words in _WORDS.items() for name in names.split()}


def own_words(operator: str, result: np.dtype, out: np.dtype, position: int) -> str | None:
    """Return what an operator says of an out= tensor, or None if it has no words of its own.

    Args:
        operator: the operator's name, without the overload.
        result, out: the dtypes of the result and of the out= tensor.
        position: which of several results it is.
    """
    words = _OF.get(operator)
    if isinstance(words, tuple):
        words = words[position] if position < len(words) else None
    if words is None:
        return None
    names = {"result": scalar_type_name(TYPE_OF[result]), "out": scalar_type_name(TYPE_OF[out])}
    return words.format(c_result=c_name(result), c_out=c_name(out), int32=result.itemsize == 4, **names)
