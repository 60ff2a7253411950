"""Making tensors from Python data and NumPy arrays, and taking them apart for copying and pickling."""

from __future__ import annotations

import numpy as np

from . import _operators
from . import dtype as dtypes
from .autograd.node import NO_EDGE
from .device import check_device
from .dispatch import INFERENCE, state
from .dtype import TYPE_OF, default, dtype
from .storage import rooted
from .tensor import Tensor, new, wrap
from .variants import require_gradient

_PYTHON_FLOAT, _PYTHON_COMPLEX = np.dtype(np.float64), np.dtype(np.complex128)


def tensor(data, *, dtype=None, device=None, requires_grad=False, pin_memory=False):
    """A new leaf tensor with a copy of `data`.

    Args:
        data: a number, nested sequences of numbers, an ndarray, or anything NumPy reads as an array.
        dtype: the element type; by default that of an array, and for Python numbers bool, int64, or the default
            floating or complex type.
        device: the CPU.
        requires_grad: whether autograd records operations on it.

    Raises:
        TypeError, ValueError: if `data` is not numeric, or ragged.
    """
    check_device(device)
    if isinstance(data, Tensor):
        import warnings
        warnings.warn("To copy construct from a tensor, it is recommended to use sourceTensor.detach().clone() or "
                      "sourceTensor.detach().clone().requires_grad_(True), rather than torch.tensor(sourceTensor).",
                      UserWarning, stacklevel=2)
        array = data._array.astype(dtype.numpy if dtype is not None else data._array.dtype, copy=True)
    else:
        array = array_of(data, dtype)
        if array is data or array.base is not None:
            array = array.copy()
    return _leaf(array, requires_grad)


def _leaf(array, requires_grad):
    out = wrap(array)
    if state.flags & INFERENCE:
        out._inference = True
    if requires_grad:
        require_gradient(out)
    return out


def array_of(data, wanted: dtype | None) -> np.ndarray:
    """Python data as an ndarray of the type that PyTorch would choose."""
    kind = data.__class__
    if kind is float:
        return np.array(data, default.numpy_float if wanted is None else wanted.numpy)
    if kind is np.ndarray or isinstance(data, np.generic):
        array = np.asarray(data)
        if array.dtype.kind in "OUS":
            TYPE_OF[array.dtype]  # raises, naming the types that are supported
        TYPE_OF[array.dtype]
        return array if wanted is None else array.astype(wanted.numpy, copy=False)
    if isinstance(data, str) or data is None:
        raise TypeError(f"new(): invalid data type '{kind.__name__}'")
    return _array_of_sequence(data, wanted)


def _array_of_sequence(data, wanted):
    if isinstance(data, (list, tuple)) and _holds_tensors(data):
        data = _untensored(data)
    if wanted is not None and wanted.numpy.kind == "V":
        return np.asarray(data, np.float32).astype(wanted.numpy)
    try:
        array = np.asarray(data)
    except ValueError as error:
        raise _ragged(data, error) from None
    if array.dtype.kind == "O":
        raise _not_numeric(data)
    if array.dtype.kind in "US":
        raise ValueError("too many dimensions 'str'" if array.ndim else f"new(): invalid data type '{data!r}'")
    if array.size == 0 and not isinstance(data, np.ndarray) and not hasattr(data, "__array__"):
        array = array.astype(default.numpy_float)
    elif not hasattr(data, "__array__") and not _holds_arrays(data):
        if array.dtype == _PYTHON_FLOAT:
            array = array.astype((wanted or default.float).numpy)
        elif array.dtype == _PYTHON_COMPLEX:
            array = array.astype(default.numpy_complex if wanted is None else wanted.numpy)
        elif array.dtype == np.uint64 and wanted is None:
            raise RuntimeError("Overflow when unpacking long long")
    TYPE_OF[array.dtype]
    return array if wanted is None else _converted(array, wanted)


def _converted(array, wanted):
    if array.dtype.kind == "c" and wanted.category < dtypes.COMPLEX:
        raise TypeError(f"can't convert complex to {'float' if wanted.is_floating_point else 'int'}")
    return array.astype(wanted.numpy, copy=False)


def _holds_tensors(data) -> bool:
    return any(isinstance(d, Tensor) or (isinstance(d, (list, tuple)) and _holds_tensors(d)) for d in data)


def _holds_arrays(data) -> bool:
    while isinstance(data, (list, tuple)) and data:
        data = data[0]
    return isinstance(data, (np.ndarray, np.generic))


def _untensored(data):
    if isinstance(data, Tensor):
        return data._array if data._array.ndim else data._array[()]
    return [_untensored(d) for d in data] if isinstance(data, (list, tuple)) else data


def _ragged(data, error):
    """The expected and the found length of the first sequence that does not fit, as PyTorch reports it."""
    depth, level = 0, list(data)
    while level and all(isinstance(d, (list, tuple)) for d in level):
        depth += 1
        lengths = [len(d) for d in level]
        for n in lengths:
            if n != lengths[0]:
                return ValueError(f"expected sequence of length {lengths[0]} at dim {depth} (got {n})")
        level = [e for d in level for e in d]
    if any(isinstance(d, (list, tuple)) for d in level):
        bad = next(d for d in level if isinstance(d, (list, tuple)) != isinstance(level[0], (list, tuple)))
        return TypeError("not a sequence" if not isinstance(bad, (list, tuple)) else
                         f"must be real number, not {type(bad).__name__}")
    return ValueError(str(error))


def _not_numeric(data):
    flat = [data]
    while flat and isinstance(flat[0], (list, tuple)):
        flat = [e for d in flat if isinstance(d, (list, tuple)) for e in d]
    bad = next((d for d in flat if not isinstance(d, (int, float, complex, np.generic))), data)
    if isinstance(bad, int):
        return RuntimeError("Overflow when unpacking long long")
    if bad is data:
        return RuntimeError(f"Could not infer dtype of {type(bad).__name__}")
    return TypeError(f"must be real number, not {type(bad).__name__}")


def from_numpy(array):
    """A tensor on the memory of an ndarray; writes to either are seen by both.

    Raises:
        TypeError: if it is not an ndarray of a supported type.
        ValueError: if it has negative strides or another byte order.
    """
    if not isinstance(array, np.ndarray):
        raise TypeError(f"expected np.ndarray (got {type(array).__name__})")
    if any(s < 0 for s in array.strides) and array.size:
        raise ValueError("At least one stride in the given numpy array is negative, and tensors with negative strides "
                         "are not currently supported. (You can probably work around this by making a copy of your "
                         "array  with array.copy().) ")
    if not array.dtype.isnative:
        raise ValueError("given numpy array has byte order different from the native byte order. Conversion between "
                         "byte orders is currently not supported.")
    TYPE_OF[array.dtype]
    if not array.flags.writeable:
        import warnings
        warnings.warn("The given NumPy array is not writable; writing to the tensor will raise. Copy the array before "
                      "converting it to a tensor.", UserWarning, stacklevel=2)
    return wrap(rooted(array.view(np.ndarray)))


def as_tensor(data, dtype=None, device=None):
    """`data` as a tensor, sharing memory with an ndarray and keeping the history of a tensor where possible."""
    check_device(device)
    if isinstance(data, Tensor):
        return data if dtype is None or dtype is data.dtype else _operators.to(data, dtype)
    if isinstance(data, np.ndarray):
        return from_numpy(data if dtype is None else data.astype(dtype.numpy, copy=False))
    return wrap(array_of(data, dtype))


def asarray(obj, *, dtype=None, device=None, copy=None, requires_grad=False):
    """As `as_tensor`, with control over copying.

    Args:
        copy: True always copies, False never does (raising if it would have to), None copies if needed.
    """
    check_device(device)
    if copy is False and not isinstance(obj, (Tensor, np.ndarray)):
        raise ValueError("can't alias arbitrary sequence")
    out = as_tensor(obj, dtype)
    shares = isinstance(obj, (Tensor, np.ndarray)) and np.shares_memory(
        out._array, obj._array if isinstance(obj, Tensor) else obj)
    if copy is False and not shares:
        raise ValueError(f"can't alias tensor with dtype '{obj.dtype}' into dtype '{dtype}'.")
    if copy and shares:
        out = _operators.clone(out)
    if requires_grad != out.requires_grad:
        out = out.detach().requires_grad_(requires_grad)
    return out


def parse_type(name):
    """A dtype from a dtype, a legacy name such as "torch.FloatTensor", or a Python type."""
    if isinstance(name, dtype):
        return name
    if isinstance(name, type) and name in dtypes.PYTHON_TYPES:
        return dtypes.PYTHON_TYPES[name]
    text = name if isinstance(name, str) else f"torch.{getattr(name, '__name__', name)}"
    for d in dtypes.ALL:
        if dtypes.legacy_type_name(d) == text:
            return d
    raise ValueError(f"invalid type: '{name}'")


def legacy_tensor(cls, args, kwargs, dtype=None):
    """`Tensor(2, 3)`, `Tensor([1., 2.])`, `Tensor()`: sizes or data, of the default (or the class's) type."""
    check_device(kwargs.pop("device", None))
    if kwargs:
        raise TypeError(f"new() received an invalid combination of arguments - got unexpected keyword argument(s) "
                        f"{', '.join(kwargs)}")
    wanted = dtype or default.float
    if len(args) == 1 and isinstance(args[0], Tensor):
        return Tensor._make_subclass(cls, args[0])
    if not args:
        array = np.empty((0,), wanted.numpy)
    elif len(args) == 1 and not isinstance(args[0], int):
        from .size import Size
        if isinstance(args[0], Size):
            array = np.empty(args[0], wanted.numpy)
        else:
            array = array_of(args[0], wanted)
            if not array.ndim:
                raise TypeError(f"new(): data must be a sequence (got {type(args[0]).__name__})")
    else:
        array = np.empty(args, wanted.numpy)
    out = new(cls)
    out._array, out._edge, out._vc = array, NO_EDGE, None
    return out


def deepcopy_tensor(source, memo):
    """A copy with its own memory; only leaves can be copied, because a graph cannot.

    Raises:
        RuntimeError: for a tensor with a grad_fn.
    """
    from copy import deepcopy

    if id(source) in memo:
        return memo[id(source)]
    if not source.is_leaf:
        raise RuntimeError("Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol "
                           "at the moment.  If you were attempting to deepcopy a module, this may be because of a "
                           "torch.nn.utils.weight_norm usage, see https://github.com/pytorch/pytorch/pull/103001")
    out = new(type(source))
    out._array = source._array.copy(order="K")
    out._edge, out._vc = NO_EDGE, None
    memo[id(source)] = out
    if source.requires_grad:
        out.requires_grad = True
    if source._grad is not None:
        out._grad = deepcopy(source._grad, memo)
    for name, value in source.__dict__.items():
        if name not in Tensor.__dict__:
            out.__dict__[name] = deepcopy(value, memo)
    return out


def reduce_tensor(source):
    """How a tensor pickles: its array, its class, and whether it requires grad."""
    if source.grad_fn is not None:
        import warnings
        warnings.warn("a pickled non-leaf tensor loses its history", stacklevel=3)
    extra = {n: v for n, v in source.__dict__.items() if n not in Tensor.__dict__}
    array = source._array
    name = TYPE_OF[array.dtype]
    if array.dtype.kind == "V":
        array = array.view(np.uint16)
    return _rebuild, (type(source), array, str(name)[6:], source.requires_grad, extra)


def _rebuild(cls, array, type_name, requires_grad, extra):
    out = new(cls)
    wanted = getattr(dtypes, type_name).numpy
    out._array = array if array.dtype == wanted else array.view(wanted)
    out._edge, out._vc = NO_EDGE, None
    if requires_grad:
        out.requires_grad = True
    out.__dict__.update(extra)
    return out
