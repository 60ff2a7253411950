"""Make tensors from Python data and NumPy arrays; decompose them for copying and pickling."""

from __future__ import annotations

from operator import index
from typing import Any

import numpy as np

from ..core import late
from ..core.node import NO_EDGE
from ..core.tensor import Tensor, new, wrap
from ..core.variants import mark_inference, require_gradient
from ..dispatch import _operators
from ..dispatch.overloads.registry import type_name
from ..dispatch.state import INFERENCE, state
from ..kernels._common.errors import negative_size
from ..kernels.shape.copies import to_copy
from ..memory.ownership import flat, offset_in_elements, owner, rooted, strided_view
from ..types import Device, DType
from ..types.device import names_meta
from ..types.dtype import ALL, BY_NAME, PYTHON_TYPES, TYPE_OF, default, dtype, legacy_type_name, scalar_type_name
from ..types.public import found_in as _found_in
from ..types.silence import silence, warn_user
from .python_data import array_of, in_own_type


def tensor(
    data: Any,
    *,
    dtype: DType | None = None,
    device: Device | None = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """Return a new leaf tensor with a copy of `data`.

    Args:
        data: a number, nested sequences of numbers, an ndarray, or any object that NumPy converts to an array.
        dtype: the element type; by default that of an array, and for Python numbers bool, int64, or the default
            floating or complex type.
        device: the CPU, or "meta", for a tensor without data.
        requires_grad: whether autograd records operations on it.

    Raises TypeError, ValueError if `data` is not numeric, or ragged.
    """
    if device is not None and names_meta(device):
        found = tensor(data, dtype=dtype).to("meta")
        if requires_grad:
            require_gradient(found)
        return found
    dtype = _wanted(dtype, "tensor")
    if isinstance(data, Tensor):
        warn_user(
            "To copy construct from a tensor, it is recommended to use sourceTensor.detach().clone() or "
            "sourceTensor.detach().clone().requires_grad_(True), rather than torch.tensor(sourceTensor)."
        )
        array = to_copy(data._array, None if dtype is None else dtype.numpy)
    else:
        array = array_of(data, dtype)
        if isinstance(data, np.ndarray):
            _check_strides(data)
            array = np.array(array, order="C")
        elif array is data or array.base is not None:
            array = array.copy()
    return _leaf(array, requires_grad)


def _leaf(array, requires_grad):
    out = made(wrap(array))
    if state.dispatch_modes:
        out = late.lift_fresh(out)
    if requires_grad:
        require_gradient(out)
    return out


def made(out):
    """Return `out`, which is new; in inference mode mark it as an inference tensor."""
    if state.flags & INFERENCE:
        mark_inference((out,))
    return out


def _wanted(given, function: str):
    """Return a dtype argument as a dtype or None; it may be a Python type."""
    if given is None or given.__class__ is dtype:
        return given
    if isinstance(given, type) and given in PYTHON_TYPES:
        return PYTHON_TYPES[given]
    raise TypeError(f"{function}(): argument 'dtype' must be torch.dtype, not {type(given).__name__}")


def _check_strides(array) -> None:
    if any(s < 0 for s in array.strides) and array.size:
        raise ValueError(
            "At least one stride in the given numpy array is negative, and tensors with negative strides "
            "are not currently supported. (You can probably work around this by making a copy of your "
            "array  with array.copy().) "
        )


def from_numpy(array: np.ndarray[Any, Any]) -> Tensor:
    """Return a tensor on the memory of an ndarray; writes to one are visible in the other.

    Args:
        array: an ndarray of a dtype that gradloom supports.

    Raises:
        TypeError: if it is not an ndarray of a supported type.
        ValueError: if it has negative strides or another byte order.
    """
    if not isinstance(array, np.ndarray):
        raise TypeError(f"expected np.ndarray (got {type(array).__name__})")
    _check_strides(array)
    if not array.dtype.isnative:
        raise ValueError(
            "given numpy array has byte order different from the native byte order. Conversion between "
            "byte orders is currently not supported."
        )
    own = in_own_type(array.view(np.ndarray))
    if not array.flags.writeable:
        warn_user(
            "The given NumPy array is not writable; writing to the tensor will raise. Copy the array before "
            "converting it to a tensor."
        )
    return made(wrap(rooted(own)))


def as_tensor(data: Any, dtype: DType | None = None, device: Device | None = None) -> Tensor:
    """Return `data` as a tensor; share memory with an ndarray and keep the history of a tensor where possible."""
    meta = device is not None and names_meta(device)
    dtype = _wanted(dtype, "as_tensor")
    if isinstance(data, Tensor):
        found = data if dtype is None or dtype is data.dtype else _operators.to(data, dtype)
        return found if device is None else _operators.to(found, device)
    if meta:
        return as_tensor(data, dtype).to("meta")
    if isinstance(data, np.ndarray):
        return from_numpy(data if dtype is None else data.astype(dtype.numpy, copy=False))
    return made(wrap(array_of(data, dtype)))


def new_tensor(
    self: Tensor,
    data: Any,
    *,
    dtype: DType | None = None,
    device: Device | None = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """Return a new leaf as `tensor` does, by default of the dtype of `self`.

    Args:
        data: as for `tensor`.
    """
    return tensor(data, dtype=dtype or self.dtype, device=device or self.device, requires_grad=requires_grad)


def parse_type(name: Any) -> dtype:
    """Return the dtype for a dtype, a legacy name such as "torch.FloatTensor", or a Python type."""
    if isinstance(name, dtype):
        return name
    if isinstance(name, type) and name in PYTHON_TYPES:
        return PYTHON_TYPES[name]
    if not isinstance(name, (str, type)):
        raise TypeError("dtype must be a type, str, or dtype object")
    text = name if isinstance(name, str) else f"torch.{getattr(name, '__name__', name)}"
    for d in ALL:
        if legacy_type_name(d) == text:
            return d
    raise ValueError(f"invalid type: '{name}'")


def legacy_tensor(cls: Any, args: tuple[Any, ...], kwargs: dict[str, Any], dtype: dtype | None = None) -> Any:
    """Return `Tensor(2, 3)`, `Tensor([1., 2.])` or `Tensor()`: sizes or data, of the default dtype (or the class's)."""
    device = kwargs.pop("device", None)
    if cls.is_meta is True:  # the type of a tensor of the meta device
        cls = late.plain_class(cls)
    if device is not None and names_meta(device):
        return legacy_tensor(cls, args, kwargs, dtype).to("meta")
    args += (kwargs.pop("data"),) if "data" in kwargs and not args else ()
    if kwargs:
        raise TypeError(
            f"new() received an invalid combination of arguments - got unexpected keyword argument(s) "
            f"{', '.join(kwargs)}"
        )
    wanted = dtype or default.float
    if len(args) == 1 and isinstance(args[0], Tensor):
        if dtype is not None and args[0].dtype is not wanted:
            raise TypeError(f"expected a tensor of type {wanted}, got one of type {args[0].dtype}")
        return _operators.alias(args[0]) if cls is Tensor else Tensor._make_subclass(cls, args[0])
    if not args:
        array = np.empty((0,), wanted.numpy)
    elif len(args) == 1 and hasattr(args[0], "untyped"):
        array = _of_storage(args[0], wanted)
    elif len(args) == 1 and not _is_size(args[0]):
        from ..types.size import Size

        if isinstance(args[0], Size):
            array = np.empty(args[0], wanted.numpy)
        else:
            array = array_of(args[0], wanted)
            if not array.ndim and not isinstance(args[0], np.ndarray):
                raise TypeError(f"new(): data must be a sequence (got {type_name(type(args[0]))})")
    else:
        array = np.empty(_sizes(args), wanted.numpy)
    out = new(cls)
    out._array, out._edge, out._vc = array, NO_EDGE, None
    return made(out)


def _is_size(value) -> bool:
    """Return whether a value of Python or NumPy is one integer."""
    if isinstance(value, (np.generic, np.ndarray)):
        return not value.ndim and value.dtype.kind in "iu"
    return isinstance(value, int) and value.__class__ is not bool


def _sizes(args):
    """Return the sizes of `Tensor(2, 3)`."""
    try:
        if any(n.__class__ is bool for n in args):
            raise TypeError
        sizes = [index(n) for n in args]
    except TypeError:
        raise TypeError(
            "new() received an invalid combination of arguments - got "
            f"({', '.join(type(n).__name__ for n in args)}), where sizes, or data as one sequence, are "
            "expected"
        ) from None
    if min(sizes) < 0:
        raise negative_size(sizes)
    return sizes


def _of_storage(source, wanted):
    found = getattr(source, "dtype", wanted)
    if found is not wanted:
        raise RuntimeError(
            f"Expected a Storage of type {scalar_type_name(wanted)} or an UntypedStorage, but got type "
            f"{scalar_type_name(found)} for argument 1 'storage'"
        )
    memory = source.untyped()._elements()
    return memory[: memory.size // wanted.itemsize * wanted.itemsize].view(wanted.numpy)


def deepcopy_tensor(source: Tensor, memo: dict[int, Any]) -> Any:
    """Return a copy with its own memory; only leaves can be copied, because a graph cannot.

    Raises RuntimeError for a tensor with a grad_fn.
    """
    from copy import deepcopy

    if id(source) in memo:
        return memo[id(source)]
    if not source.is_leaf:
        raise RuntimeError(
            "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol "
            "at the moment.  If you were attempting to deepcopy a module, this may be because of a "
            "torch.nn.utils.weight_norm usage, see https://github.com/pytorch/pytorch/pull/103001"
        )
    if source._array.__class__ is not np.ndarray:  # it has no values of its own
        out = source.detach().clone()
        if source.is_meta:
            out = Tensor._make_subclass(type(source), out)
        if type(out) is not type(source):
            raise RuntimeError(
                "The default implementation of __deepcopy__() needs clone() of a "
                f"{type(source).__name__} to be of its own class, but it is a {type(out).__name__}: let "
                "its __torch_dispatch__ answer detach and clone, or give the class a __deepcopy__."
            )
    else:
        out = new(type(source))
        out._array = np.asarray(_copied(source._array, memo))
        out._edge, out._vc = NO_EDGE, None
        made(out)
    memo[id(source)] = out
    if source.requires_grad:
        out.requires_grad = True
    if source._grad is not None:
        out._grad = deepcopy(source._grad, memo)
    for name, value in source.__dict__.items():
        if name not in Tensor.__dict__:
            out.__dict__[name] = deepcopy(value, memo)
    return out


def _copied(array, memo):
    """Return a copy of an array that shares memory with the copies of other arrays on the same memory."""
    if type(array) is not np.ndarray:
        return array.through(lambda memory: _copied(memory, memo))
    base = owner(array)
    key = ("memory", id(base))
    memory = memo.get(key)
    if memory is None:
        if base is array:
            out = array.copy(order="K")
            memo[key] = flat(out)
            return out
        memory = memo[key] = flat(base).copy()
    return strided_view(
        memory.view(array.dtype) if memory.size else array[:0],
        array.shape,
        [s // array.itemsize for s in array.strides],
        offset_in_elements(array),
    )


def warn_of_lost_hooks(source: Tensor) -> None:
    """Warn of the hooks of `source`, if it is a leaf: pickles do not hold them."""
    for hook in (source._backward_hooks or {}).values() if source.is_leaf else ():
        if not hasattr(hook, "__torch_unserializable__"):
            warn_user(
                f"backward hook {hook!r} on tensor will not be serialized. If this is expected, you can "
                "decorate the function with @torch.utils.hooks.unserializable_hook to suppress this warning"
            )


def reduce_tensor(source: Tensor) -> tuple[Any, ...]:
    """Return the pickle of a tensor: its storage, its position there, its class and its attributes.

    Tensors without an ndarray have a method `_reduced` that returns theirs.
    """
    if hasattr(source, "_reduced"):
        found: tuple[Any, ...] = source._reduced()
        return found
    warn_of_lost_hooks(source)
    extra = {n: v for n, v in source.__dict__.items() if n not in Tensor.__dict__}
    array = source._array
    base = owner(array)
    bits = (source.is_conj(), source.is_neg())
    place = None
    if base is not array:  # the pickle contains `base` once, shared by all its views
        place = (array.shape, tuple([s // array.itemsize for s in array.strides]), offset_in_elements(array))
    return _rebuild, (type(source), base, str(TYPE_OF[array.dtype])[6:], place, source.requires_grad, extra, bits)


def _rebuild(cls, base, type_name, place, requires_grad, extra, bits=(False, False)):
    out = new(cls)
    wanted = BY_NAME[type_name].numpy
    if place is None:  # a pickled array has a dtype object of its own, which kernels would not recognize
        out._array = base if base.dtype is wanted else base.view(wanted)
    else:
        memory = flat(base)
        out._array = strided_view(memory if memory.dtype is wanted else memory.view(wanted), *place)
    if any(bits):
        from ..memory.conjugation import with_bits

        out._array = with_bits(out._array, *bits)
    out._edge, out._vc = NO_EDGE, None
    made(out)
    if requires_grad:
        out.requires_grad = True
    out.__dict__.update(extra)
    return out


_found_in("gradloom", as_tensor, from_numpy, tensor)


silence(globals())
