"""What a kernel expression may use of `xp`, of an array and of Python.

Everything here computes arrays from arrays: it uses no files, no Python callables per element and no global state, and
writes to no argument.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable
from functools import cache
from typing import Any

import numpy

SUBMODULES = frozenset({"linalg", "fft"})

CONSTANTS = frozenset({"pi", "e", "euler_gamma", "inf", "nan", "newaxis"})

# The functions of NumPy that compute arrays from arrays, one by one: a new version of NumPy adds nothing to the
# language. Left out are functions that read or write files, call back into Python, keep a state, return text, write to
# an argument or make arrays of Python objects, and those that NumPy 2.0 does not have.
# tests/codegen/test_security.py compares the lists with what the installed NumPy says of each name.
UFUNCS = frozenset(
    """abs absolute acos acosh add arccos arccosh arcsin arcsinh arctan arctan2 arctanh asin asinh atan atan2 atanh
    bitwise_and bitwise_count bitwise_invert bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift
    bitwise_xor cbrt ceil conj conjugate copysign cos cosh deg2rad degrees divide divmod equal exp exp2 expm1
    fabs float_power floor floor_divide fmax fmin fmod frexp gcd greater greater_equal heaviside hypot invert
    isfinite isinf isnan lcm ldexp left_shift less less_equal log log10 log1p log2 logaddexp logaddexp2
    logical_and logical_not logical_or logical_xor matmul maximum minimum mod modf multiply negative nextafter
    not_equal positive pow power rad2deg radians reciprocal remainder right_shift rint sign signbit sin sinh
    spacing sqrt square subtract tan tanh true_divide trunc vecdot""".split()
)

DTYPES = frozenset(
    """bool bool_ byte cdouble clongdouble complex128 complex64 complexfloating csingle double float16 float32
    float64 floating half inexact int16 int32 int64 int8 int_ intc integer intp long longdouble longlong number
    short signedinteger single ubyte uint uint16 uint32 uint64 uint8 uintc uintp ulong ulonglong unsignedinteger
    ushort""".split()
)

FUNCTIONS = frozenset(
    """all allclose amax amin angle any append arange argmax argmin argpartition argsort argwhere around array
    array_equal array_equiv array_split asarray ascontiguousarray astype atleast_1d atleast_2d atleast_3d
    average bincount block broadcast_arrays broadcast_shapes broadcast_to can_cast choose clip column_stack
    compress concat concatenate convolve copy corrcoef correlate count_nonzero cov cross cumprod cumsum delete
    diag diag_indices_from diagflat diagonal diff digitize dot dsplit dstack ediff1d einsum einsum_path empty
    empty_like expand_dims extract eye finfo flatnonzero flip fliplr flipud full full_like geomspace gradient
    histogram histogram2d histogram_bin_edges histogramdd hsplit hstack i0 identity iinfo imag indices inner
    insert interp intersect1d isclose iscomplex iscomplexobj isin isneginf isposinf isreal isrealobj issubdtype
    ix_ kron lexsort linspace logspace matrix_transpose max mean median meshgrid mgrid min moveaxis nan_to_num
    nanargmax nanargmin nancumprod nancumsum nanmax nanmean nanmedian nanmin nanpercentile nanprod nanquantile
    nanstd nansum nanvar ndim nonzero ogrid ones ones_like outer packbits pad partition percentile permute_dims
    poly polyadd polyder polydiv polyfit polyint polymul polysub polyval prod promote_types ptp quantile ravel
    ravel_multi_index real real_if_close repeat reshape resize result_type roll rollaxis roots rot90 round
    searchsorted select setdiff1d setxor1d shape sinc size sort sort_complex split squeeze stack std sum
    swapaxes take take_along_axis tensordot tile trace transpose trapezoid tri tril tril_indices_from trim_zeros
    triu triu_indices_from union1d unique unique_all unique_counts unique_inverse unique_values unpackbits
    unravel_index unwrap vander var vdot vsplit vstack where zeros zeros_like""".split()
)

_LINALG = frozenset(
    """cholesky cond cross det diagonal eig eigh eigvals eigvalsh inv lstsq matmul matrix_norm matrix_power
    matrix_rank matrix_transpose multi_dot norm outer pinv qr slogdet solve svd svdvals tensordot tensorinv
    tensorsolve trace vecdot vector_norm""".split()
)

_FFT = frozenset(
    """fft fft2 fftn fftshift hfft ifft ifft2 ifftn ifftshift ihfft irfft irfft2 irfftn rfft rfft2 rfftn""".split()
)

UFUNC_METHODS = frozenset({"accumulate", "outer", "reduce", "reduceat"})

# Attributes of arrays, of their dtypes (kind, itemsize) and of `xp.finfo` and `xp.iinfo` (eps, tiny, min,
# max).
ATTRIBUTES = frozenset(
    """T mT bits dtype eps imag itemsize kind max min ndim real resolution shape size smallest_normal strides
    tiny""".split()
)

METHODS = frozenset(
    """all any argmax argmin argsort astype clip conj conjugate copy cumprod cumsum diagonal dot flatten item
    max mean min nonzero prod ravel repeat reshape round searchsorted squeeze std sum swapaxes take tolist
    trace transpose var view""".split()
)

BUILTINS = frozenset(
    """abs bool complex enumerate float int isinstance len list max min range reversed round sorted sum tuple
    zip""".split()
)

# The ufunc of each operator, by the name of its ast class.
OPERATORS = {
    "Add": "add", "Sub": "subtract", "Mult": "multiply", "Div": "true_divide", "FloorDiv": "floor_divide",
    "Mod": "remainder", "Pow": "power", "MatMult": "matmul", "LShift": "left_shift", "RShift": "right_shift",
    "BitAnd": "bitwise_and", "BitOr": "bitwise_or", "BitXor": "bitwise_xor", "USub": "negative",
    "UAdd": "positive", "Invert": "invert", "Eq": "equal", "NotEq": "not_equal", "Lt": "less",
    "LtE": "less_equal", "Gt": "greater", "GtE": "greater_equal",
}  # fmt: skip

_IN = {"": UFUNCS | DTYPES | FUNCTIONS | CONSTANTS, "linalg": _LINALG, "fft": _FFT}

# Parameters by which a function would write to an array, given by keyword or by position.
_WRITING = ("out", "overwrite_input")
_NAN_TO_NUM = ("nan_to_num", "copy")

# A dtype of Python objects: operations on its elements call their methods.
OBJECT_DTYPE = re.compile(r"(?:.*,)?\s*\d*[<>=|]?O\d*(?:,.*)?|.*object.*", re.IGNORECASE)


def kind_of(path: tuple[str, ...]) -> str | None:
    """Return what `xp.<path>` is: 'ufunc', 'function', 'value' (a constant or dtype), 'module', or None if it is not
    allowed."""
    first = path[0]
    if first in SUBMODULES:
        if len(path) == 1:
            return "module"
        return "function" if len(path) == 2 and path[1] in names_in(first) else None
    if len(path) == 1 and first in names_in(""):
        if first in UFUNCS:
            return "ufunc"
        return "value" if first in DTYPES | CONSTANTS else "function"
    is_ufunc = len(path) == 2 and kind_of(path[:1]) == "ufunc"
    return "function" if is_ufunc and path[1] in UFUNC_METHODS else None


@cache  # three keys: the namespace itself and its two submodules
def names_in(submodule: str) -> frozenset[str]:
    """Return the functions, dtypes and constants of `xp` or `xp.<submodule>` that the installed NumPy has."""
    module = getattr(numpy, submodule) if submodule else numpy
    return frozenset(name for name in _IN[submodule] if hasattr(module, name))


def written_parameter(path: tuple[str, ...], positional: int, keywords: Iterable[str]) -> str | None:
    """Return the parameter through which a call of `xp.<path>` would write to an array; None if it writes to none."""
    names = _parameters(path)
    for name in (*_WRITING, *_NAN_TO_NUM[1:] * (path[-1] == _NAN_TO_NUM[0])):
        if name in keywords or (name in names and names.index(name) < positional):
            return name
    return None


def _parameters(path: tuple[str, ...]) -> list[str]:
    """Return the positional parameters of a function, as far as NumPy exposes them."""
    if path[-1] in UFUNC_METHODS and len(path) == 2:
        return {"reduce": ["array", "axis", "dtype", "out"], "accumulate": ["array", "axis", "dtype", "out"],
                "reduceat": ["array", "indices", "axis", "dtype", "out"]}.get(path[1], [])  # fmt: skip
    if len(path) == 1 and path[0] in UFUNCS:
        ufunc = getattr(numpy, path[0])
        return [*(f"x{i}" for i in range(ufunc.nin)), *["out"] * ufunc.nout]
    if path in (("dot",), ("concatenate",), ("concat",)):  # written in C, without a signature
        return ["a", "b", "out"]
    module = getattr(numpy, path[0]) if len(path) == 2 else numpy
    function: Any = getattr(module, path[-1], None)
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    return [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]


# PyTorch's names of functions, and of methods and attributes of arrays, with NumPy's.
NUMPY_NAMES = dict(
    pair.split("=")
    for pair in """sub=subtract mul=multiply div=divide neg=negative eq=equal ne=not_equal lt=less le=less_equal
    gt=greater ge=greater_equal cat=concatenate clamp=clip mm=matmul bmm=matmul mv=matmul permute=transpose
    unsqueeze=expand_dims bitwise_neg=invert norm=linalg.norm inv=linalg.inv det=linalg.det solve=linalg.solve
    svd=linalg.svd qr=linalg.qr cholesky=linalg.cholesky eigh=linalg.eigh rfft=fft.rfft float=float64 int=int64
    double=float64 long=int64 cfloat=complex64 gather=take_along_axis index_select=take expand=broadcast_to
    movedim=moveaxis""".split()
)
NUMPY_FORMS = {
    "rsqrt": "write `1 / xp.sqrt(x)`",
    "sigmoid": "write `1 / (1 + xp.exp(-x))`",
    "expit": "write `1 / (1 + xp.exp(-x))`",
    "relu": "write `xp.maximum(x, 0)`",
    "softplus": "write `xp.logaddexp(x, 0)`",
    "silu": "write `x / (1 + xp.exp(-x))`",
    "frac": "write `x - xp.trunc(x)`",
    "lerp": "write `a + w * (b - a)`",
}
ARRAY_MEMBERS = {
    "numel": "write `.size`",
    "nelement": "write `.size`",
    "dim": "write `.ndim`",
    "ndimension": "write `.ndim`",
    "t": "write `.T`",
    "to": "write `.astype(...)`",
    "type": "write `.astype(...)`",
    "float": "write `.astype(xp.float32)`",
    "double": "write `.astype(xp.float64)`",
    "long": "write `.astype(xp.int64)`",
    "permute": "write `.transpose(...)`",
    "clamp": "write `.clip(...)`",
    "clone": "write `.copy()`",
    "view_as": "write `.reshape(...)`",
    "unsqueeze": "write `x[:, None]`",
    "expand": "write `xp.broadcast_to(...)`",
    "is_complex": "write `x.dtype.kind == 'c'`",
    "is_floating_point": "write `x.dtype.kind == 'f'`",
    "H": "write `.T.conj()`",
    "device": "kernels run where their arrays are",
    "stride": "write `.strides`, which counts bytes",
}
