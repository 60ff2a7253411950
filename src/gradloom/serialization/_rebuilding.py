"""What the pickles of tensors call: functions that make tensors, parameters and layouts from what a file has."""

from __future__ import annotations

from importlib import import_module

import numpy as np

from ..core.tensor import Tensor, wrap
from ..dispatch import _operators
from ..memory.metadata import MetaArray
from ..memory.ownership import flat, strided_view
from ..storage import _Storage
from ..tensors.construction import made
from ..types.device import layout, sparse_coo
from ..types.dtype import uint8


def rebuild_tensor(stored, offset, size, stride, requires_grad, hooks, metadata=None, kind=None):
    if not isinstance(stored, _Storage):
        raise RuntimeError("load(): the file is damaged: a tensor without a storage")
    if isinstance(stored._owner, MetaArray):
        return rebuild_meta_tensor(kind or getattr(stored, "dtype", uint8), size, stride, requires_grad)
    memory = flat(stored._owner).view(np.uint8)
    numpy_type = (kind or getattr(stored, "dtype", uint8)).numpy
    typed = memory.view(numpy_type) if memory.nbytes % numpy_type.itemsize == 0 else memory[:0].view(numpy_type)
    bits = metadata or {}
    if bits.get("conj") and numpy_type.kind != "c":
        raise RuntimeError("load(): the file is damaged: a real tensor with a conjugate bit")
    array = strided_view(typed, tuple(size), tuple(stride), offset)
    if bits:
        from ..memory.conjugation import with_bits

        array = with_bits(array, bool(bits.get("conj")), bool(bits.get("neg")))
    out = wrap(array)
    made(out)
    if requires_grad:
        out.requires_grad = True
    return out


def rebuild_tensor_v1(stored, offset, size, stride):
    return rebuild_tensor(stored, offset, size, stride, False, None)


def rebuild_tensor_v3(stored, offset, size, stride, requires_grad, hooks, kind, metadata=None):
    try:
        _ = kind.numpy
    except TypeError as error:  # of a dtype without tensors
        raise RuntimeError(f"load(): {error}") from None
    return rebuild_tensor(stored, offset, size, stride, requires_grad, hooks, metadata, kind)


def rebuild_parameter(data, requires_grad, hooks):
    from ..nn.parameter import Parameter

    if not isinstance(data, Tensor):
        raise RuntimeError("load(): the file is damaged: a parameter without a tensor")
    return Parameter(data, requires_grad)


def rebuild_parameter_with_state(data, requires_grad, hooks, state):
    out = rebuild_parameter(data, requires_grad, hooks)
    return with_state(out, state)


def rebuild_from_type(function, kind, args, state):
    out = function(*args)
    if not isinstance(out, kind) and issubclass(kind, Tensor):
        out = Tensor._make_subclass(kind, out, out.requires_grad)
    return with_state(out, state)


def rebuild_wrapper_subclass(kind, dtype, size, stride, offset, layout, device, requires_grad):
    if not (isinstance(kind, type) and issubclass(kind, Tensor)):
        raise RuntimeError(f"load(): {kind!r} is not a subclass of Tensor: the file is damaged")
    return Tensor._make_wrapper_subclass(
        kind,
        size,
        strides=stride,
        storage_offset=offset,
        layout=layout,
        device=device,
        dtype=dtype,
        requires_grad=requires_grad,
    )


def rebuild_sparse_tensor(kind, components):
    from ..sparse import sparse_coo_tensor

    if kind is not sparse_coo:
        raise RuntimeError(f"load(): a tensor of layout {kind}; gradloom has strided and torch.sparse_coo only")
    indices, values, size, *coalesced = components
    known = {"is_coalesced": coalesced[0]} if coalesced else {}
    return sparse_coo_tensor(indices, values, size, check_invariants=True, **known)


def rebuild_meta_tensor(dtype, size, stride, requires_grad):
    found = _operators.empty_strided(size, stride, dtype=dtype, device="meta")
    return found.requires_grad_() if requires_grad else found


def get_layout(name: str) -> layout:
    known = vars(import_module("gradloom.types.device")).values()
    found = next((v for v in known if isinstance(v, layout) and str(v) == name), None)
    if found is None:
        raise RuntimeError(f"load(): unknown layout {name!r}")
    return found


def with_state(tensor, state):
    for part in state if isinstance(state, tuple) else (state,):
        tensor.__dict__.update(part or {})
    return tensor


def untyped_storage(*args):
    raise RuntimeError("load(): the file is damaged: a storage that is no part of it")


def encode(text: str, encoding: str) -> bytes:
    """Encode bytes as protocol 2 does."""
    return text.encode(encoding)
