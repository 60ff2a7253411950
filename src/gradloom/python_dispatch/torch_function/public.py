"""The table of public functions: their names, and the function that handlers get for each.

The modules of public functions stand above this one, so they are imported by name when the table is made.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from types import FunctionType
from typing import Any, NamedTuple

from ...dispatch import _operators
from ...dispatch.python_operators import BINARY, COMPARISONS, UNARY
from ...types.public import home_of

_ROOT = __name__.partition(".")[0]

# Modules whose functions in the top-level namespace take tensors. Functions of other modules (seeds, grad modes,
# default dtypes) cannot be overridden, nor can these few:
_WITH_TENSORS = (
    "generated",
    "functional",
    "dispatch.overloads",
    "tensors.indexing",
    "tensors.construction",
    "dispatch.promotion",
)
# Functions of the top-level namespace that are imported on first use.
_LAZY = tuple(
    """
    lobpcg lu pca_lowrank svd_lowrank batch_norm_backward_elemt batch_norm_backward_reduce batch_norm_elemt
    batch_norm_gather_stats batch_norm_gather_stats_with_counts batch_norm_stats batch_norm_update_stats
    ccol_indices_copy col_indices_copy crow_indices_copy dequantize dsmm get_device hsmm hspmm indices_copy
    is_distributed native_norm resize_as_sparse_ row_indices_copy saddmm slice_inverse smm sspaddmm sym_float
    sym_ite sym_max sym_min sym_not sym_sqrt values_copy
    """.split()
)
_IGNORED = frozenset(
    ("is_tensor", "is_storage", "broadcast_shapes", "from_numpy", "set_default_dtype", "get_default_dtype")
)
# Functions that make a tensor from any data, or concern dtypes; only modes override them.
_FROM_DATA = frozenset(("tensor", "as_tensor", "asarray", "can_cast", "promote_types"))
# Functions whose list of operands handlers receive as single arguments.
_SPREAD = frozenset(("einsum",))
# Members of Tensor that concern the object and its class; nothing overrides them.
IGNORED_MEMBERS = frozenset(
    (
        "__new__",
        "__init_subclass__",
        "__hash__",
        "__dict__",
        "__iter__",
        "as_subclass",
        "_make_subclass",
        "_detached_alias",
        "_leaf_reference",
        "__torch_function__",
        "__torch_dispatch__",
    )
)
# Functions of nn.init that classes can override in PyTorch: those that fill a tensor directly.
_INIT = ("uniform_", "normal_", "constant_", "kaiming_uniform_")

# Python operator -> the method that handlers receive; operators not listed are received as they are.
_REPORTED = {
    **{f"__{name}__": BINARY[name] for name in ("add", "sub", "mul", "truediv", "mod", "matmul")},
    **{f"__r{name}__": BINARY[name] for name in ("add", "mul", "and", "or", "xor")},
    **{f"__i{name}__": f"{BINARY[name]}_" for name in ("add", "sub", "mul", "truediv", "floordiv", "mod")},
    **{f"__{name}__": name for name in COMPARISONS if name != "eq"},
    **{f"__{name}__": operator for name, operator in UNARY.items()},
    "__div__": "div",
    "__idiv__": "div_",
}
BINARY_OPERATORS = frozenset(
    [f"__{prefix}{name}__" for name in (*BINARY, "div") for prefix in ("", "r", "i")]
    + [f"__{name}__" for name in COMPARISONS]
)


NONE, OTHERS, ALL = range(3)
_ACCESSORS = ("__get__", "__set__", "__delete__")


class Public(NamedTuple):
    """A public function.

    Attributes:
        function: the function object.
        reported: the function that handlers receive; None for the call's first argument, an operator object.
        name: the name by which it is known.
        dispatches_on: the arguments that may override it: ALL, NONE, or OTHERS (all but tensors, which factories do not
            take).
        operator: whether it is a binary operator of Python, which returns NotImplemented for unknown operands.
        spread: whether handlers receive the elements of its second argument, a list, as arguments.
    """

    function: Any
    reported: Any
    name: str
    dispatches_on: int = ALL
    operator: bool = False
    spread: bool = False


def public_functions() -> Iterator[Public]:
    """Yield every public function once, under the name by which it is known."""
    seen: set[int] = set()
    for found in names():
        if id(found.function) not in seen:
            seen.add(id(found.function))
            yield found


def names() -> Iterator[Public]:
    """Yield every name of every public function."""
    top = import_module(_ROOT)
    without_tensors = _factories()
    operators = import_module(f"{_ROOT}.generated.namespaces").FUNCTIONS
    for name in (*operators, *_FROM_DATA, *_LAZY):
        getattr(top, name)  # some are imported on first use
    for name, function in list(vars(top).items()):
        if _is_function(function) and name not in _IGNORED and _has_tensors(name, function):
            dispatches_on = NONE if name in _FROM_DATA else OTHERS if name in without_tensors else ALL
            yield Public(function, function, f"torch.{name}", dispatches_on, False, name in _SPREAD)
    yield from _members(_operators.Tensor)
    functional = import_module(f"{_ROOT}.nn.functional")
    for name in dir(functional):
        function = _found(functional, name)
        if _is_function(function) and not name.startswith("_") and home_of(function) != f"{_ROOT}.overrides":
            yield Public(function, function, f"torch.nn.functional.{name}")
    init = import_module(f"{_ROOT}.nn.init")
    for name in _INIT:
        yield Public(getattr(init, name), getattr(init, name), f"torch.nn.init.{name}")
    for place in ("backward", "grad", "forward_ad.make_dual", "forward_ad.unpack_dual"):
        module, _, name = f"autograd.{place}".rpartition(".")
        function = getattr(import_module(f"{_ROOT}.{module}"), name)
        yield Public(function, function, f"torch.{module}.{name}")
    foreach = import_module(f"{_ROOT}.foreach")
    for name in foreach.__all__:
        yield Public(getattr(foreach, name), getattr(foreach, name), f"torch.foreach.{name}")
    objects = import_module(f"{_ROOT}.ops._objects")
    for kind in (objects.OpOverload, objects.OpOverloadPacket):
        yield Public(kind.__call__, None, f"torch.ops.{kind.__name__}.__call__")
    for space, members in import_module(f"{_ROOT}.generated.namespaces").MODULES.items():
        prefix = "torch._C._nn" if space == "nn" else f"torch.{space}"
        for name, operator in members.items():
            function = getattr(_operators, operator)
            yield Public(function, function, f"{prefix}.{name}", OTHERS if operator in without_tensors else ALL)


def members(tensor: type) -> dict[str, Any]:
    """Return the attributes of Tensor and of its base."""
    for name in import_module(f"{_ROOT}.generated.namespaces").METHODS:
        getattr(tensor, name)  # most are imported on first use
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
    module = home_of(function)
    if module.partition(".")[0] != _ROOT or module == _ROOT or name in _FROM_DATA or name in _LAZY:
        return True
    return module.startswith(tuple(f"{_ROOT}.{part}" for part in _WITH_TENSORS))


def _found(module, name):
    try:
        return getattr(module, name)
    except (AttributeError, NotImplementedError):
        return None


def _factories() -> set[str]:
    """Return the operators without a tensor argument but `out`; a 0-dim tensor passed to them stands for a number."""
    namespaces = import_module(f"{_ROOT}.generated.namespaces")
    entries = {name: guard.entries for name, guard in namespaces.GUARDS.items()}
    entries.update(namespaces.ENTRIES)
    return {name for name, found in entries.items() if not any(_takes_tensors(entry[0]) for entry in found)}


def _takes_tensors(parameters: tuple[Any, ...]) -> bool:
    return any("Tensor" in p[1] and p[0] != "out" for p in parameters if p != "*")


_names: dict[Any, str] = {}  # of all public functions; filled when a name is first looked up


def name_of(function: Any) -> str | None:
    """Return the name of a public function: "torch.add", "torch.Tensor.shape.__get__"; None for others. If it is also a
    method, the function's name is returned."""
    if not _names:
        _names.update(_named())  # in one step, since other threads may look up names, too
    if not _is_hashable(function):
        return None
    return _names.get(function) or (str(function) if hasattr(function, "_qualified_op_name") else None)


def _named() -> dict[Any, str]:
    found: dict[Any, str] = {}
    for item in names():
        if item.name.startswith("torch.nn.functional."):  # their best-known name
            found[item.function] = item.name
        found.setdefault(item.function, item.name)
        if item.name.endswith(_ACCESSORS):
            found.setdefault(item.reported, item.name)
    for name, other in list(vars(import_module(_ROOT)).items()):
        if _is_function(other) and not name.startswith("_"):
            found.setdefault(other, f"torch.{name}")
    return found


def forget_names() -> None:
    """Forget the names, since operators were added or removed; the next look-up makes the table anew."""
    _names.clear()


def _is_hashable(value) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True
