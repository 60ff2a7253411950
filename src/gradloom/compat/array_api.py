"""The namespace that `Tensor.__array_namespace__` returns: the Python array API standard, version 2024.12.

Packages that work on any array (SciPy, scikit-learn) ask an array for its namespace and call that. Many functions of
the standard are operators, whose parser takes `axis` and `keepdims`, too; the others are here, and in `_array_linalg`.
gradloom's rules hold where the standard leaves them open: tensors keep their graph, and an integer tensor and a
floating one have the floating dtype.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from importlib import import_module as _import_module
from typing import Any, NamedTuple as _NamedTuple

from .. import functional
from ..core.tensor import Tensor
from ..dispatch import _operators as ops
from ..dispatch.promotion import result_type as _result_type
from ..tensors.interchange import asarray as _asarray, from_dlpack as from_dlpack
from ..types import dtype as _dtypes
from ..types.device import device as _device
from ..types.dtype import (
    bool as bool,
    can_cast as _can_cast,
    complex64 as complex64,
    complex128 as complex128,
    dtype as _dtype,
    finfo as _finfo,
    float32 as float32,
    float64 as float64,
    get_default_dtype as _get_default_dtype,
    iinfo as _iinfo,
    int8 as int8,
    int16 as int16,
    int32 as int32,
    int64 as int64,
    promote_types as _promote_types,
    uint8 as uint8,
    uint16 as uint16,
    uint32 as uint32,
    uint64 as uint64,
)
from ._array_linalg import SHARED as _SHARED, fft as fft, linalg as linalg

__array_api_version__ = "2024.12"
e, inf, nan, pi, newaxis = math.e, math.inf, math.nan, math.pi, None

# Functions of the standard that are operators or functions of gradloom, by the operator's name where it differs.
_UNARY = """
    abs acos acosh asin asinh atan atanh bitwise_invert:bitwise_not ceil cos cosh exp expm1 floor imag isfinite isinf
    isnan log log10 log1p log2 logical_not negative:neg positive real reciprocal sign:sgn signbit sin sinh sqrt
    square tan tanh trunc
    """
_BINARY = """
    add atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor copysign divide:div equal:eq
    floor_divide greater:gt greater_equal:ge hypot less:lt less_equal:le logaddexp logical_and logical_or logical_xor
    maximum minimum multiply:mul nextafter not_equal:ne pow remainder subtract:sub
    """
_OTHERS = "diff empty_like full_like isin moveaxis ones_like searchsorted tile where zeros_like"


def _operator(name: str) -> Any:
    def function(*args: Any, **kwargs: Any) -> Any:
        return getattr(ops, name)(*args, **kwargs)

    return function


def _promoting(name: str) -> Any:
    def function(x1: Any, x2: Any, /, **kwargs: Any) -> Any:
        return getattr(ops, name)(*_promoted(x1, x2), **kwargs)

    return function


def _promoted(x1: Any, x2: Any) -> tuple[Any, Any]:
    """Give two tensors one dtype if they differ: PyTorch's promotion does not count tensors without dimensions."""
    if isinstance(x1, Tensor) and isinstance(x2, Tensor) and x1.dtype is not x2.dtype:
        wanted = _promote_types(x1.dtype, x2.dtype)
        return x1.to(wanted), x2.to(wanted)
    return x1, x2


def _bind(names: str, make: Callable[[str], Any]) -> None:
    for name, _, operator in (word.partition(":") for word in names.split()):
        made = globals()[name] = make(operator or name)
        made.__name__ = made.__qualname__ = name
        made.__doc__ = f"Return `{operator or name}` of the arguments; the standard's `{name}`."


_bind(_UNARY, _operator)
_bind(_BINARY, _promoting)
_bind(_OTHERS, _operator)
globals().update(_SHARED)


def _dims(axis: Any, x: Tensor) -> tuple[int, ...]:
    return tuple(range(x.ndim)) if axis is None else (axis,) if isinstance(axis, int) else tuple(axis)


# Creation.


def asarray(obj: Any, /, *, dtype: Any = None, device: Any = None, copy: Any = None) -> Tensor:
    """Return a tensor of a tensor, an array, a number or nested sequences; `copy` as for `gradloom.asarray`."""
    return _asarray(obj, dtype=dtype, device=device, copy=copy)


def arange(start: Any, /, stop: Any = None, step: Any = 1, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Return evenly spaced numbers from `start`, or 0, up to `stop`, which is left out; none if there are none."""
    start, stop = (0, start) if stop is None else (start, stop)
    if (stop - start) / step <= 0:
        integral = {int} == {type(number) for number in (start, stop, step)}
        kind = dtype or (int64 if integral else _get_default_dtype())
        return ops.empty((0,), dtype=kind, device=device)
    return ops.arange(start, stop, step, dtype=dtype, device=device)


def empty(shape: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Return a tensor of a shape, not initialised."""
    return ops.empty(_shape(shape), dtype=dtype, device=device)


def zeros(shape: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Return a tensor of zeros."""
    return ops.zeros(_shape(shape), dtype=dtype, device=device)


def ones(shape: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Return a tensor of ones."""
    return ops.ones(_shape(shape), dtype=dtype, device=device)


def full(shape: Any, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Return a tensor of a shape, filled with a number."""
    return ops.full(_shape(shape), fill_value, dtype=dtype, device=device)


def _shape(shape: Any) -> tuple[int, ...]:
    return (shape,) if isinstance(shape, int) else tuple(shape)


def eye(n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: Any = None, device: Any = None) -> Tensor:
    """Return a matrix with ones on its k-th diagonal and zeros elsewhere."""
    columns = n_rows if n_cols is None else n_cols
    found = ops.zeros((n_rows, columns), dtype=dtype, device=device)
    if -n_rows < k < columns:
        found.diagonal(k).fill_(1)
    return found


def linspace(
    start: Any, stop: Any, /, num: int, *, dtype: Any = None, device: Any = None, endpoint: Any = True
) -> Tensor:
    """Return `num` evenly spaced numbers from `start` to `stop`, which is the last of them if `endpoint`."""
    if not endpoint:
        return ops.linspace(start, stop, num + 1, dtype=dtype, device=device)[:num]
    return ops.linspace(start, stop, num, dtype=dtype, device=device)


def meshgrid(*arrays: Tensor, indexing: str = "xy") -> tuple[Tensor, ...]:
    """Return the coordinates of a grid; see `gradloom.meshgrid`."""
    return tuple(functional.meshgrid(*arrays, indexing=indexing))


def tril(x: Tensor, /, *, k: int = 0) -> Tensor:
    """Return the lower triangles of matrices, up to the k-th diagonal."""
    return ops.tril(x, k)


def triu(x: Tensor, /, *, k: int = 0) -> Tensor:
    """Return the upper triangles of matrices, from the k-th diagonal on."""
    return ops.triu(x, k)


# Dtypes.


def astype(x: Tensor, dtype: Any, /, *, copy: Any = True, device: Any = None) -> Tensor:
    """Return a tensor converted to a dtype; itself if nothing changes and `copy` is False."""
    return x.to(device=device or x.device, dtype=dtype, copy=copy)


def can_cast(from_: Any, to: Any, /) -> Any:
    """Return whether a dtype, or a tensor's, converts to another without loss of kind."""
    return _can_cast(from_.dtype if isinstance(from_, Tensor) else from_, to)


def finfo(type: Any, /) -> Any:
    """Return the limits of a floating dtype, or of a tensor's."""
    return _finfo(type.dtype if isinstance(type, Tensor) else type)


def iinfo(type: Any, /) -> Any:
    """Return the limits of an integer dtype, or of a tensor's."""
    return _iinfo(type.dtype if isinstance(type, Tensor) else type)


def result_type(*arrays_and_dtypes: Any) -> Any:
    """Return the dtype of an operation on tensors, dtypes and numbers."""
    kinds = [item.dtype if isinstance(item, Tensor) else item for item in arrays_and_dtypes]
    found = [kind for kind in kinds if isinstance(kind, _dtype)]
    numbers = [kind for kind in kinds if not isinstance(kind, _dtype)]
    if not found:
        raise ValueError("result_type expects at least one tensor or dtype")
    wanted = found[0]
    for kind in found[1:]:
        wanted = _promote_types(wanted, kind)
    for number in numbers:
        wanted = _result_type(ops.empty((1,), dtype=wanted), number)
    return wanted


_KINDS: dict[str, tuple[Any, ...]] = {
    "bool": (bool,),
    "signed integer": (int8, int16, int32, int64),
    "unsigned integer": (uint8, uint16, uint32, uint64),
    "real floating": (float32, float64),
    "complex floating": (complex64, complex128),
}
_KINDS["integral"] = _KINDS["signed integer"] + _KINDS["unsigned integer"]
_KINDS["numeric"] = _KINDS["integral"] + _KINDS["real floating"] + _KINDS["complex floating"]


def isdtype(dtype: Any, kind: Any) -> Any:
    """Return whether a dtype is another, or of a kind such as "real floating", or of one of a tuple of these."""
    if isinstance(kind, tuple):
        return True in [isdtype(dtype, one) for one in kind]
    if not isinstance(kind, str):
        return dtype is kind
    if kind not in _KINDS:
        raise ValueError(f"isdtype() does not know the kind {kind!r}; the kinds are {', '.join(_KINDS)}")
    if kind in ("real floating", "numeric") and dtype in (_dtypes.float16, _dtypes.bfloat16):
        return True
    return dtype in _KINDS[kind]


class _Info:
    """What `__array_namespace_info__` returns: dtypes, devices and what depends on data."""

    def capabilities(self) -> dict[str, Any]:
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> Any:
        return _device("cpu")

    def default_dtypes(self, *, device: Any = None) -> dict[str, Any]:
        real = _get_default_dtype()
        wide = complex128 if real is float64 else complex64
        return {"real floating": real, "complex floating": wide, "integral": int64, "indexing": int64}

    def devices(self) -> list[Any]:
        return [_device("cpu"), _device("meta")]

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, Any]:
        kinds = ("bool", "numeric") if kind is None else kind if isinstance(kind, tuple) else (kind,)
        return {str(one).removeprefix("torch."): one for name in kinds for one in _KINDS[name]}


def __array_namespace_info__() -> _Info:
    """Return an object that tells dtypes, devices and capabilities."""
    return _Info()


# Elementwise, where the standard has other arguments.


def clip(x: Tensor, /, min: Any = None, max: Any = None) -> Tensor:
    """Bound a tensor's elements; the result has its dtype."""
    if min is None and max is None:
        return x.clone()
    bounds = [bound.to(x.dtype) if isinstance(bound, Tensor) else bound for bound in (min, max)]
    if isinstance(bounds[0], Tensor) != isinstance(bounds[1], Tensor):  # the operator takes two tensors or two numbers
        bounds = [ops.scalar_tensor(b, dtype=x.dtype) if isinstance(b, (int, float)) else b for b in bounds]
    return ops.clamp(x, *bounds).to(x.dtype)


def conj(x: Tensor, /) -> Tensor:
    """Return the complex conjugate; a real tensor itself."""
    return ops.conj(x).resolve_conj()


def round(x: Tensor, /) -> Tensor:
    """Round to the nearest integer, halves to the even one; real and imaginary parts for themselves."""
    return ops.complex(ops.round(x.real), ops.round(x.imag)) if x.is_complex() else ops.round(x)


# Reductions.


def _reduction(name: str) -> Any:
    def function(x: Tensor, /, *, axis: Any = None, keepdims: Any = False) -> Tensor:
        dims = _dims(axis, x)
        return getattr(ops, name)(x, dims, keepdims) if dims else x.clone()

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Return `{name}` over dimensions; over all of them by default."
    return function


max, min = _reduction("amax"), _reduction("amin")
mean = _reduction("mean")


def sum(x: Tensor, /, *, axis: Any = None, dtype: Any = None, keepdims: Any = False) -> Tensor:
    """Add over dimensions; over all of them by default."""
    dims = _dims(axis, x)
    return ops.sum(x, dims, keepdims, dtype=dtype) if dims else x.to(dtype or _summed(x), copy=True)


def _summed(x: Tensor) -> Any:
    return int64 if isdtype(x.dtype, ("bool", "integral")) else x.dtype


def prod(x: Tensor, /, *, axis: Any = None, dtype: Any = None, keepdims: Any = False) -> Tensor:
    """Multiply over dimensions; over all of them by default."""
    x = x.to(dtype or _summed(x), copy=True)
    for dim in sorted((d % x.ndim for d in _dims(axis, x)), reverse=True):
        x = ops.prod(x, dim, keepdims)
    return x


def all(x: Tensor, /, *, axis: Any = None, keepdims: Any = False) -> Tensor:
    """Return whether all elements are true."""
    return ops.all(x.to(bool), _dims(axis, x), keepdims) if _dims(axis, x) else x.to(bool)


def any(x: Tensor, /, *, axis: Any = None, keepdims: Any = False) -> Tensor:
    """Return whether an element is true."""
    return ops.any(x.to(bool), _dims(axis, x), keepdims) if _dims(axis, x) else x.to(bool)


def std(x: Tensor, /, *, axis: Any = None, correction: float = 0.0, keepdims: Any = False) -> Tensor:
    """Return the standard deviation, with `correction` degrees of freedom less."""
    return ops.std(x, _dims(axis, x), correction=correction, keepdim=keepdims)


def var(x: Tensor, /, *, axis: Any = None, correction: float = 0.0, keepdims: Any = False) -> Tensor:
    """Return the variance, with `correction` degrees of freedom less."""
    return ops.var(x, _dims(axis, x), correction=correction, keepdim=keepdims)


def argmax(x: Tensor, /, *, axis: int | None = None, keepdims: Any = False) -> Tensor:
    """Return the index of the first maximum; in the flattened tensor by default."""
    return ops.argmax(x, axis, keepdims)


def argmin(x: Tensor, /, *, axis: int | None = None, keepdims: Any = False) -> Tensor:
    """Return the index of the first minimum; in the flattened tensor by default."""
    return ops.argmin(x, axis, keepdims)


def count_nonzero(x: Tensor, /, *, axis: Any = None, keepdims: Any = False) -> Tensor:
    """Return the number of elements that are not zero."""
    return ops.sum(x != 0, _dims(axis, x), keepdims) if _dims(axis, x) else (x != 0).to(int64)


def _cumulative(operator: str, first: int) -> Any:
    def function(x: Tensor, /, *, axis: int | None = None, dtype: Any = None, include_initial: Any = False) -> Tensor:
        if axis is None:
            if x.ndim != 1:
                raise ValueError(f"axis must be given for a tensor of {x.ndim} dimensions")
            axis = 0
        found = getattr(ops, operator)(x, axis, dtype=dtype)
        if include_initial:
            shape = list(found.shape)
            shape[axis] = 1
            found = ops.cat([ops.full(shape, first, dtype=found.dtype, device=x.device), found], axis)
        return found

    function.__name__ = function.__qualname__ = operator.replace("cum", "cumulative_")
    function.__doc__ = f"Return `{operator}` along a dimension, with {first} before it if `include_initial`."
    return function


cumulative_sum, cumulative_prod = _cumulative("cumsum", 0), _cumulative("cumprod", 1)


# Shape and order.


def broadcast_arrays(*arrays: Tensor) -> tuple[Tensor, ...]:
    """Expand tensors to their common shape."""
    return tuple(functional.broadcast_tensors(*arrays))


def broadcast_to(x: Tensor, /, shape: Sequence[int]) -> Tensor:
    """Expand a tensor to a shape."""
    return x.expand(tuple(shape))


def concat(arrays: Sequence[Tensor], /, *, axis: int | None = 0) -> Tensor:
    """Join tensors along a dimension; flattened if it is None."""
    return ops.cat([x.reshape(-1) for x in arrays], 0) if axis is None else ops.cat(list(arrays), axis)


def stack(arrays: Sequence[Tensor], /, *, axis: int = 0) -> Tensor:
    """Join tensors of one shape along a new dimension."""
    return ops.stack(list(_one_dtype(arrays)), axis)


def _one_dtype(arrays: Sequence[Tensor]) -> list[Tensor]:
    wanted = result_type(*arrays)
    return [x.to(wanted) for x in arrays]


def expand_dims(x: Tensor, /, *, axis: int = 0) -> Tensor:
    """Insert a dimension of size 1."""
    return ops.unsqueeze(x, axis)


def squeeze(x: Tensor, /, axis: Any) -> Tensor:
    """Remove dimensions of size 1. Raises ValueError for one of another size."""
    dims = _dims(axis, x)
    for dim in dims:
        if x.shape[dim] != 1:
            raise ValueError(f"dimension {dim} has size {x.shape[dim]}, not 1")
    return ops.squeeze(x, dims)


def flip(x: Tensor, /, *, axis: Any = None) -> Tensor:
    """Reverse the order along dimensions; along all of them by default."""
    return ops.flip(x, _dims(axis, x))


def permute_dims(x: Tensor, /, axes: Sequence[int]) -> Tensor:
    """Reorder the dimensions."""
    return ops.permute(x, tuple(axes))


def repeat(x: Tensor, repeats: Any, /, *, axis: int | None = None) -> Tensor:
    """Repeat each element, or each slice along a dimension."""
    return ops.repeat_interleave(x, repeats, axis)


def reshape(x: Tensor, /, shape: Sequence[int], *, copy: Any = None) -> Tensor:
    """Return a tensor of another shape; a copy if need be or `copy` is True. Raises ValueError if it is False and must
    copy."""
    if copy is False:
        try:
            return x.view(tuple(shape))
        except RuntimeError as error:
            raise ValueError(f"reshape() would have to copy: {error}") from None
    return ops.reshape(x.clone() if copy else x, tuple(shape))


def roll(x: Tensor, /, shift: Any, *, axis: Any = None) -> Tensor:
    """Shift elements along dimensions; those that leave at one end enter at the other."""
    return ops.roll(x, shift, axis)


def unstack(x: Tensor, /, *, axis: int = 0) -> tuple[Tensor, ...]:
    """Split a tensor into its slices along a dimension."""
    return tuple(ops.unbind(x, axis))


def take(x: Tensor, indices: Tensor, /, *, axis: int | None = None) -> Tensor:
    """Select slices along a dimension, which may be left out for one-dimensional tensors."""
    if axis is None and x.ndim != 1:
        raise ValueError(f"axis must be given for a tensor of {x.ndim} dimensions")
    return ops.index_select(x, axis or 0, indices)


def take_along_axis(x: Tensor, indices: Tensor, /, *, axis: int = -1) -> Tensor:
    """Select elements along a dimension, by indices of the tensor's shape there."""
    return ops.take_along_dim(x, indices, axis)


def nonzero(x: Tensor, /) -> tuple[Tensor, ...]:
    """Return the indices of elements that are not zero, a tensor for each dimension."""
    if not x.ndim:
        raise ValueError("nonzero() expects a tensor with dimensions")
    return tuple(x.nonzero(as_tuple=True))


def sort(x: Tensor, /, *, axis: int = -1, descending: Any = False, stable: Any = True) -> Tensor:
    """Sort along a dimension."""
    return ops.sort(x, stable=stable, dim=axis, descending=descending)[0]


def argsort(x: Tensor, /, *, axis: int = -1, descending: Any = False, stable: Any = True) -> Tensor:
    """Return the indices that sort along a dimension."""
    return ops.sort(x, stable=stable, dim=axis, descending=descending)[1]


class UniqueAll(_NamedTuple):
    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


class UniqueCounts(_NamedTuple):
    values: Tensor
    counts: Tensor


class UniqueInverse(_NamedTuple):
    values: Tensor
    inverse_indices: Tensor


def unique_all(x: Tensor, /) -> UniqueAll:
    """Return the distinct values, where each occurs first, the index of each element's value, and how often it is."""
    values, inverse, counts = functional.unique(x, return_inverse=True, return_counts=True)
    places = ops.arange(inverse.numel(), device=x.device).flip((0,))
    first = ops.empty_like(counts).scatter_(0, inverse.reshape(-1).flip((0,)), places)
    return UniqueAll(values, first, inverse, counts)


def unique_counts(x: Tensor, /) -> UniqueCounts:
    """Return the distinct values and how often each occurs."""
    return UniqueCounts(*functional.unique(x, return_counts=True))


def unique_inverse(x: Tensor, /) -> UniqueInverse:
    """Return the distinct values and the index of each element's value."""
    return UniqueInverse(*functional.unique(x, return_inverse=True))


def unique_values(x: Tensor, /) -> Tensor:
    """Return the distinct values."""
    return functional.unique(x)


def array_namespace(api_version: str | None) -> Any:
    """Return this module, if it has a version of the standard; else raise ValueError."""
    if api_version is not None and not "2021.12" <= api_version <= __array_api_version__:
        raise ValueError(f"gradloom has the array API standard of {__array_api_version__}, not of {api_version}")
    return _import_module(__name__)
