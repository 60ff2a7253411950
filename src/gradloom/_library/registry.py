"""The operators that libraries have defined, by name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cache
from importlib import import_module
from typing import Any

from .. import ops
from ..ops._objects import OpOverload, OpOverloadPacket, Row, namespace_of
from ..ops._schema import Tag, parse_schema
from .operator import KEYS, LibraryOperator

operators: dict[str, LibraryOperator] = {}  # `mylib::foo.overload`
_waiting: dict[str, dict[str, Callable[..., Any]]] = {}  # kernels registered before their operator is defined
_DEVICES = {
    "cpu": "CPU",
    "cuda": "CUDA",
    "mps": "MPS",
    "xpu": "XPU",
    "hpu": "HPU",
    "xla": "XLA",
    "mtia": "MTIA",
    "meta": "Meta",
    "privateuseone": "PrivateUse1",
}


def parse_qualname(qualname: str) -> tuple[str, str]:
    """Return namespace and name of `mylib::foo`.

    Raises ValueError if it is not of this form.
    """
    parts = qualname.split("::") if isinstance(qualname, str) else []
    if len(parts) != 2 or not all(parts):
        raise ValueError(
            f'Expected `qualname` to be of the form "namespace::name", but got {qualname}. The qualname '
            "passed to the torch.library APIs must consist of a namespace and a name, e.g. aten::sin"
        )
    return parts[0], parts[1]


def define(namespace: str, text: str, tags: Iterable[Any] = (), replace: bool = False) -> LibraryOperator:
    """Define an operator of a namespace, without kernels.

    Args:
        text: `foo.overload(Tensor x) -> Tensor`.
        tags: members of gradloom.Tag.
        replace: whether it may replace one that a library defined before.

    Raises RuntimeError if the text is not a schema, or the operator exists, and TypeError for anything but tags.
    """
    words = " ".join(_tag_names(tags))
    schema = parse_schema(text)
    own, _, name = schema.name.rpartition("::")
    if own and own != namespace:
        raise RuntimeError(
            f"Explicitly provided namespace ({own}) in schema string does not match namespace of the "
            f"library ({namespace}): {text}"
        )
    schema = parse_schema(f"{namespace}::{text.strip().removeprefix(f'{namespace}::')}")
    operator = LibraryOperator(schema)
    table = vars(namespace_of(namespace))["_operators"]
    overload = schema.overload_name or "default"
    packet: OpOverloadPacket = (
        getattr(namespace_of(namespace), name) if name in table else OpOverloadPacket(namespace, name, [])
    )
    if overload in packet.overloads() and not (replace and operator.name in operators):
        raise RuntimeError(
            f"Tried to register an operator ({schema}) with the same name and overload name multiple "
            "times. Each overload's schema should only be registered with a single call to define()."
        )
    table[name] = packet
    operator.__doc__ = str(schema)
    operator.overload = packet._add(
        Row(overload, operator, str(schema).removeprefix(f"{namespace}::"), words, "", operator)
    )
    operators[operator.name] = operator
    operator.kernels.update(_waiting.pop(operator.name, {}))
    return operator


def _tag_names(tags: Any) -> list[str]:
    found: list[Any] = [tags] if isinstance(tags, (Tag, str)) else list(tags)
    for tag in found:
        if not isinstance(tag, Tag):
            raise TypeError(f"an operator's tags are members of gradloom.Tag, such as gradloom.Tag.core, not {tag!r}")
    return [tag.name for tag in found]


def remove(operator: LibraryOperator) -> None:
    """Remove an operator, unless another one has replaced it."""
    if operators.get(operator.name) is not operator:
        return
    del operators[operator.name]
    packet = operator.overload.overloadpacket
    packet._remove(operator.overload._overloadname)
    if not packet.overloads():
        vars(namespace_of(packet.namespace))["_operators"].pop(packet.__name__, None)


def qualified(op: Any) -> str:
    """Return `mylib::foo` for a name, an operator object or a CustomOpDef.

    Raises ValueError for anything else.
    """
    name = getattr(op, "_qualname", None)
    if isinstance(name, str):
        return name
    if isinstance(op, OpOverload):
        return op.name()
    if isinstance(op, str):
        parse_qualname(op)
        return op.removesuffix(".default")
    raise ValueError(f"expected the name of an operator ('mylib::foo'), an OpOverload or a CustomOpDef, got {type(op)}")


def may_be_refused(op: Any) -> bool:
    """Return whether no library has defined an operator, and one in C++ that may have it was refused.

    That is one of a package of the same name, or any one if nobody has defined operators in the namespace.
    """
    if not ops.refused_libraries:
        return False
    name = qualified(op)
    namespace = parse_qualname(name)[0]
    if namespace == "aten" or name in operators:
        return False
    known = any(other.startswith(f"{namespace}::") for other in operators)
    return not known or ops.library_of(namespace) is not None


def find(op: Any) -> LibraryOperator:
    """Return the operator of a library; see `qualified` for `op`.

    Raises RuntimeError if no library has defined it.
    """
    name = qualified(op)
    if name not in operators:
        namespace, short = parse_qualname(name)
        if namespace == "aten":
            raise NotImplementedError(
                f"{name} is an operator of gradloom's own, whose kernel and derivative are in "
                "its YAML files; gradloom.ops.define replaces a derivative (`override: true`)"
            )
        raise RuntimeError(f"operator {name} does not exist")
    return operators[name]


def set_kernel(name: str, key: str, function: Callable[..., Any]) -> Callable[[], None]:
    """Register a kernel; the operator may be defined later. Return a function that undoes it.

    Raises:
        RuntimeError: if there is no such key.
        TypeError: if `function` is not callable.
    """
    if not callable(function):
        raise TypeError(f"Input function is required to be a callable but found type {type(function)}")
    if key not in KEYS:
        raise RuntimeError(
            f"could not parse dispatch key: {key}. The keys that mean something here are CPU, "
            "CompositeExplicitAutograd, CompositeImplicitAutograd, Autograd and Meta"
        )
    if name.startswith("aten::") and name not in operators:
        find(name)
    operator = operators.get(name)
    table = _waiting.setdefault(name, {}) if operator is None else operator.kernels
    if key in table:
        import warnings

        warnings.warn(
            f"Overriding a previously registered kernel for the same operator and the same dispatch key\n"
            f"  operator: {name}\n  dispatch key: {key}",
            stacklevel=3,
        )
    table[key] = function
    if key == "Meta" and operator is not None:
        operator.fake = function

    def undo() -> None:
        for held in (table, _waiting.get(name, {})):
            if held.get(key) is function:
                del held[key]

    return undo


def key_of_device(device_type: str) -> str:
    """Return the dispatch key of a device type; `default` means all devices.

    Raises RuntimeError if there is no such device.
    """
    if device_type == "default":
        return "CompositeExplicitAutograd"
    if device_type in _DEVICES:
        return _DEVICES[device_type]
    if re.fullmatch(r"[A-Z]\w+", device_type or ""):
        return device_type
    raise RuntimeError(f"Expected one of {', '.join(_DEVICES)} device type at start of device string: {device_type}")


@cache
def without_wrapper(name: str) -> LibraryOperator:
    """Define an operator of PyTorch for what gradloom's tensors do without one, once; see `ops._objects.Namespace`."""
    schema, kernel = _WITHOUT_WRAPPER[name]
    operator = define("aten", schema)
    operator.kernels["CompositeImplicitAutograd" if name == "_sparse_addmm" else "CPU"] = kernel
    return operator


def _item(tensor: Any) -> Any:
    found = tensor._array.item()
    return float(found) if tensor._array.dtype.kind == "V" else found


def _pin_memory(self: Any, device: Any = None) -> Any:
    return self.pin_memory(device)


def _sparse_addmm(self: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    return import_module("gradloom.sparse").addmm(self, mat1, mat2, beta=beta, alpha=alpha)


_WITHOUT_WRAPPER: dict[str, tuple[str, Callable[..., Any]]] = {
    "_local_scalar_dense": ("_local_scalar_dense(Tensor self) -> Scalar", _item),
    "lift_fresh": ("lift_fresh(Tensor(a) self) -> Tensor(a)", lambda tensor: tensor),
    "is_pinned": ("is_pinned(Tensor self, Device? device=None) -> bool", lambda self, *device: self.is_pinned(*device)),
    "pin_memory": ("pin_memory(Tensor(a) self, Device? device=None) -> Tensor(a)", _pin_memory),
    "_pin_memory": ("_pin_memory(Tensor self, Device? device=None) -> Tensor", _pin_memory),
    "sym_size": ("sym_size.int(Tensor self, int dim) -> SymInt", lambda self, dim: self.shape[dim]),
    "_sparse_addmm": (
        "_sparse_addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
        _sparse_addmm,
    ),
}
