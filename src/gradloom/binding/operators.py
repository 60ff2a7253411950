"""Binds the generated operators: into the late-bound namespace, onto Tensor, and onto modules."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import Any

from ..core.tensor import Tensor, wrapped_number
from ..core.tensor_base import TensorBase
from ..core.user_stack import warn_once
from ..dispatch import _operators
from ..dispatch.overloads import register_types
from ..dispatch.promotion import number_type
from ..dispatch.state import DEBUG, disabled_torch_function
from ..random import Generator
from ..tensors import indexing
from ..types.device import (
    channels_last,
    channels_last_3d,
    contiguous_format,
    device,
    layout,
    memory_format,
    no_gpu,
    preserve_format,
    strided,
)
from ..types.dtype import BY_NAME, PYTHON_TYPES, bfloat16, dtype, int8, uint8
from ..types.public import found_in_tensors, provide_origin
from . import families
from .python_operators import bind_python_operators

_LAZY_METHODS = (
    "apply_",
    "map_",
    "map2_",
    "const_data_ptr",
    "is_shared",
    "is_pinned",
    "is_distributed",
    "dim_order",
    "pin_memory",
    "share_memory_",
    "__array_namespace__",
    "__dlpack__",
    "__dlpack_device__",
    "_view_func",
    "_view_func_unsafe",
    "storage_type",
    "resize",
    "resize_as",
    "eig",
    "lstsq",
    "solve",
    "symeig",
    "lu",
    "module_load",
    "reinforce",
    "slice_inverse",
    "dequantize",
    "ipu",
    "mtia",
    "xpu",
    "ccol_indices",
    "col_indices",
    "crow_indices",
    "row_indices",
)
# Methods that concern sparse tensors, in sparse/methods.py.
_SPARSE_METHODS = (
    "coalesce",
    "is_coalesced",
    "_coalesced_",
    "indices",
    "values",
    "_indices",
    "_values",
    "_nnz",
    "sparse_dim",
    "dense_dim",
    "_dimI",
    "_dimV",
    "sparse_mask",
    "to_dense",
    "to_sparse",
    "to_sparse_coo",
    "smm",
    "sspaddmm",
    "sparse_resize_",
    "sparse_resize_and_clear_",
    "resize_as_sparse_",
)
# Methods that convert to one dtype: PyTorch's short forms of `to`.
_CONVERSIONS = {"byte": uint8, "char": int8, "bfloat16": bfloat16} | {
    name: BY_NAME[name] for name in ("bool", "short", "int", "long", "half", "float", "double", "cfloat", "cdouble")
}


def _warn_user_once(key: str, message: str) -> None:
    warn_once(key, message)


def bind() -> None:
    """Bind everything once; the operators of most families are bound when one of them is first used."""
    constants = BY_NAME | dict(
        strided=strided,
        contiguous_format=contiguous_format,
        preserve_format=preserve_format,
        channels_last=channels_last,
        channels_last_3d=channels_last_3d,
    )
    register_types(
        Tensor=Tensor,
        dtype=dtype,
        device=device,
        layout=layout,
        memory_format=memory_format,
        Generator=Generator,
        python_dtypes=PYTHON_TYPES,
        constants=constants,
        wrapped_number=wrapped_number,
        lone_number=_lone_number,
        disabled_torch_function=disabled_torch_function,
        handle_torch_function=_of_unknown_class,
        warn_once=_warn_user_once,
    )
    if DEBUG:
        from .. import generated
        from ..diagnostics.debug_checks import add_folder

        add_folder(generated.__path__, required=True)
    from ..generated import namespaces

    families.provide(namespaces)
    for name, to_type in _CONVERSIONS.items():
        setattr(Tensor, name, _conversion(name, to_type))
    Tensor.cpu = found_in_tensors("cpu", _cpu)
    Tensor.cuda = found_in_tensors("cuda", _cuda)
    indexing.bind(Tensor)
    for name in _LAZY_METHODS:
        setattr(Tensor, name, _imported(name))
    for name in _SPARSE_METHODS:
        setattr(Tensor, name, _imported_with_sparse_tensors(name))
    bind_python_operators(namespaces.GUARDS)
    members.update(vars(TensorBase) | vars(Tensor))


# What Tensor has at first; programs may replace it.
members: dict[str, Any] = {}

# (holder, name) for each attribute of Tensor or gradloom that `gradloom.ops` has bound to an operator of a package.
of_packages: set[tuple[object, str]] = set()


def has_attribute(holder: Any, name: str) -> bool:
    """Return whether Tensor or the package `gradloom` has an attribute or submodule. Imports none of those that are
    imported on first use."""
    if name in vars(holder):
        return True
    if holder is Tensor:
        return hasattr(holder, name)
    return name in dir(holder) or find_spec(f"{holder.__name__}.{name}") is not None


def origin(place: str, name: str) -> str | None:
    """Return where an attribute of Tensor (place "method") or of gradloom ("function") comes from: "operator" for a
    built-in operator, "library" for everything else that gradloom has; None if the name is free."""
    if name in (families.method_names() if place == "method" else families.function_names()):
        return "operator"
    root = sys.modules[__name__.partition(".")[0]]
    holder: Any = Tensor if place == "method" else root
    is_bound = has_attribute(holder, name) and (holder, name) not in of_packages
    if getattr(root, "_broken", None) is not None:  # generated/ is missing, so any other name may be an operator's
        return "library" if is_bound and name not in families.BY_HAND else "operator"
    return "library" if is_bound else None


provide_origin(origin)


def namespace(module: str) -> dict:
    """Return the operators of a `python_module`, such as `linalg`, by their names there."""
    from ..generated.namespaces import MODULES

    return {name: getattr(_operators, operator) for name, operator in MODULES.get(module, {}).items()}


def _lone_number(value):
    """Return a wrapped number for an operation without tensors, whose result has the default dtype of its kind."""
    found = wrapped_number(value)
    found._array = found._array.astype(number_type(value).numpy)
    return found


def _conversion(name, dtype):
    def convert(self, *, memory_format=None):
        return _operators.to_dtype(self, dtype, False, False, memory_format)

    found_in_tensors(name, convert)
    convert.__doc__ = f"Return the tensor itself if its dtype is {dtype}, else a converted copy."
    return convert


def _cpu(self: Tensor, *, memory_format: Any = None) -> Tensor:
    """Return the tensor itself if it is on the CPU. Raises NotImplementedError for one of the meta device."""
    if self.is_meta:
        return _operators.to(self, "cpu")
    return self if memory_format is None else _operators.to_dtype(self, self.dtype, False, False, memory_format)


def _cuda(self: Tensor, device: Any = None, non_blocking: bool = False, memory_format: Any = None) -> None:
    """Raise AssertionError: gradloom computes on the CPU only."""
    raise no_gpu()


def _imported(name):
    """Return a method that imports tensors.lazy_methods on first use. It stays, since programs use it as a key."""

    def method(self, *args, **kwargs):
        from ..tensors import lazy_methods

        return getattr(lazy_methods, name)(self, *args, **kwargs)

    return found_in_tensors(name, method)


def _imported_with_sparse_tensors(name):
    """Return a method that imports sparse.methods on first use."""

    def method(self, *args, **kwargs):
        from ..sparse import methods

        return getattr(methods, name)(self, *args, **kwargs)

    return found_in_tensors(name, method)


def _of_unknown_class(overloads, args, kwargs):
    from ..python_dispatch.torch_function.unknown_classes import first_call

    return first_call(sys._getframe(1), overloads, args, kwargs)
