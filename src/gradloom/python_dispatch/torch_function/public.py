"""Which functions are public, under which names, and what a call of each is reported as.

The modules that users see stand above this one, so they are imported by name when the table is made.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from types import FunctionType
from typing import Any, NamedTuple

from ...dispatch import _operators

_ROOT = __name__.partition(".")[0]

# Functions of the top-level namespace that have nothing to do with tensors that somebody else might answer for. Those
# of other modules than these are not public functions of tensors at all (seeds, grad modes, default dtypes).
_WITH_TENSORS = ("generated", "functional", "tensors.indexing", "tensors.construction", "dispatch.promotion")
_IGNORED = frozenset(
    ("is_tensor", "is_storage", "broadcast_shapes", "from_numpy", "set_default_dtype", "get_default_dtype")
)
# These make a new tensor from whatever they are given, as it is, or are about dtypes; only modes are asked about them.
_FROM_DATA = frozenset(("tensor", "as_tensor", "asarray", "can_cast", "promote_types"))
# Members of Tensor that are about the object and its class, not about a tensor.
IGNORED_MEMBERS = frozenset(
    (
        "__new__",
        "__init_subclass__",
        "__hash__",
        "__iter__",
        "as_subclass",
        "_make_subclass",
        "_detached_alias",
        "_leaf_reference",
        "__torch_function__",
        "__torch_dispatch__",
    )
)
# Methods of nn.init that PyTorch asks about: those that fill a tensor at once.
_INIT = ("uniform_", "normal_", "constant_", "kaiming_uniform_")

# Python's operators are calls of methods; what is not here is reported as itself.
_REPORTED = {
    "__add__": "add",
    "__radd__": "add",
    "__iadd__": "add_",
    "__sub__": "sub",
    "__isub__": "sub_",
    "__mul__": "mul",
    "__rmul__": "mul",
    "__imul__": "mul_",
    "__truediv__": "div",
    "__itruediv__": "div_",
    "__div__": "div",
    "__idiv__": "div_",
    "__ifloordiv__": "floor_divide_",
    "__mod__": "remainder",
    "__imod__": "remainder_",
    "__matmul__": "matmul",
    "__rand__": "bitwise_and",
    "__ror__": "bitwise_or",
    "__rxor__": "bitwise_xor",
    "__lt__": "lt",
    "__le__": "le",
    "__gt__": "gt",
    "__ge__": "ge",
    "__ne__": "ne",
    "__neg__": "neg",
    "__pos__": "positive",
    "__abs__": "abs",
}
_BINARY = (
    "add",
    "sub",
    "mul",
    "truediv",
    "floordiv",
    "mod",
    "pow",
    "matmul",
    "and",
    "or",
    "xor",
    "lshift",
    "rshift",
    "div",
)
BINARY_OPERATORS = frozenset(
    [f"__{prefix}{name}__" for name in _BINARY for prefix in ("", "r", "i")]
    + [f"__{name}__" for name in ("eq", "ne", "lt", "le", "gt", "ge")]
)


NOBODY, OTHERS, ALL = range(3)
_ACCESSORS = ("__get__", "__set__", "__delete__")


class Public(NamedTuple):
    """A public function: what its code belongs to, what its calls are reported as, and what they are like.

    reported: None stands for the first argument, an operator's object.
    asked: who among its arguments may answer, ALL, OTHERS (but no Tensor: a factory takes none) or NOBODY.
    operator: whether it is one of Python's binary operators, which return NotImplemented for what they do not know.
    """

    function: Any
    reported: Any
    name: str
    asked: int = ALL
    operator: bool = False


def public_functions() -> Iterator[Public]:
    """Every public function once, under the name that it is known by."""
    seen: set[int] = set()
    for found in names():
        if id(found.function) not in seen:
            seen.add(id(found.function))
            yield found


def names() -> Iterator[Public]:
    """Every name of every public function."""
    top = import_module(_ROOT)
    without_tensors = _factories()
    for name, function in list(vars(top).items()):
        if _is_function(function) and name not in _IGNORED and _has_tensors(name, function):
            asked = NOBODY if name in _FROM_DATA else OTHERS if name in without_tensors else ALL
            yield Public(function, function, f"torch.{name}", asked)
    yield from _members(_operators.Tensor)
    functional = import_module(f"{_ROOT}.nn.functional")
    for name in dir(functional):
        function = _found(functional, name)
        if _is_function(function) and not name.startswith("_"):
            yield Public(function, function, f"torch.nn.functional.{name}")
    init = import_module(f"{_ROOT}.nn.init")
    for name in _INIT:
        yield Public(getattr(init, name), getattr(init, name), f"torch.nn.init.{name}")
    for place in ("backward", "grad", "forward_ad.make_dual", "forward_ad.unpack_dual"):
        module, _, name = f"autograd.{place}".rpartition(".")
        function = getattr(import_module(f"{_ROOT}.{module}"), name)
        yield Public(function, function, f"torch.{module}.{name}")
    objects = import_module(f"{_ROOT}.ops._objects")
    for kind in (objects.OpOverload, objects.OpOverloadPacket):
        yield Public(kind.__call__, None, f"torch.ops.{kind.__name__}.__call__")
    for space, members in import_module(f"{_ROOT}.generated.namespaces").MODULES.items():
        prefix = "torch._C._nn" if space == "nn" else f"torch.{space}"
        for name, operator in members.items():
            function = getattr(_operators, operator)
            yield Public(function, function, f"{prefix}.{name}", OTHERS if operator in without_tensors else ALL)


def members(tensor: type) -> dict[str, Any]:
    """What Tensor has as attributes, and what it derives from."""
    return {**vars(tensor.__mro__[1]), **vars(tensor)}


def _members(tensor: type) -> Iterator[Public]:
    for name, member in members(tensor).items():
        if name in IGNORED_MEMBERS:
            continue
        if _is_function(member):
            reported = getattr(tensor, _REPORTED.get(name, name))
            yield Public(member, reported, f"torch.Tensor.{name}", ALL, name in BINARY_OPERATORS)
        elif isinstance(member, property):
            for accessor, method in ((member.fget, "__get__"), (member.fset, "__set__"), (member.fdel, "__delete__")):
                if _is_function(accessor):
                    yield Public(accessor, getattr(member, method), f"torch.Tensor.{name}.{method}")


def _is_function(value) -> bool:
    return value.__class__ is FunctionType


def _has_tensors(name, function) -> bool:
    if name.startswith("_"):
        return name in import_module(f"{_ROOT}.generated.namespaces").FUNCTIONS
    module = function.__module__ or ""
    if module.partition(".")[0] != _ROOT or module == _ROOT or name in _FROM_DATA:
        return True
    return module.startswith(tuple(f"{_ROOT}.{part}" for part in _WITH_TENSORS))


def _found(module, name):
    try:
        return getattr(module, name)
    except (AttributeError, NotImplementedError):
        return None


def _factories() -> set[str]:
    """Operators none of whose overloads takes a tensor, but for `out`: a 0-dim tensor there stands for a number."""
    namespaces = import_module(f"{_ROOT}.generated.namespaces")
    entries = {name: guard.entries for name, guard in namespaces.GUARDS.items()} | namespaces.ENTRIES
    return {name for name, found in entries.items() if not any(_takes_tensors(entry[0]) for entry in found)}


def _takes_tensors(parameters: tuple[Any, ...]) -> bool:
    return any("Tensor" in p[1] and p[0] != "out" for p in parameters if p != "*")


_names: dict[Any, str] = {}  # of all public functions, made when a name is first asked for


def name_of(function: Any) -> str | None:
    """What a public function is called: "torch.add", "torch.Tensor.shape.__get__"; None for others.

    A function that is a method, too, is called by the name of the function.
    """
    if not _names:
        _names.update(_named())  # at once: another thread may look, too
    if not _is_hashable(function):
        return None
    return _names.get(function) or (str(function) if hasattr(function, "_qualified_op_name") else None)


def _named() -> dict[Any, str]:
    found: dict[Any, str] = {}
    for item in names():
        if item.name.startswith("torch.nn.functional."):  # under which name they are best known
            found[item.function] = item.name
        found.setdefault(item.function, item.name)
        if item.name.endswith(_ACCESSORS):
            found.setdefault(item.reported, item.name)
    for name, other in list(vars(import_module(_ROOT)).items()):
        if _is_function(other) and not name.startswith("_"):
            found.setdefault(other, f"torch.{name}")
    return found


def forget_names() -> None:
    """Make the table anew when a name is next asked for: operators were added or taken away."""
    _names.clear()


def _is_hashable(value) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True
