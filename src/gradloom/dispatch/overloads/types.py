"""The values that each schema type accepts, and their conversion for the wrapper.

`ArgumentType.accept(cls)` decides for a *class*, so that one plan serves all arguments of that class. It returns None
if no value of the class fits, else (converter, total). The converter returns the normalised value (`keep` leaves it
unchanged). Unless `total`, it raises `Mismatch` for values that do not fit, such as a list whose elements are not
integers, or a tensor that is not a scalar.
"""

from __future__ import annotations

from functools import lru_cache
from operator import index

import numpy as np

from ...kernels._common.numbers import check_whole
from .registry import Mismatch, Overridden, learn_plain, overrides, plain_classes, type_name, types


def keep(value):
    return value


KEEP = keep, True


# Each function maps a class to (converter, total) or None.


def _tensor(cls):
    return KEEP if issubclass(cls, types.Tensor) else None


def _tensor_or_number(cls):
    if issubclass(cls, types.Tensor):
        return KEEP
    found = _python_number(cls)
    if found is None:
        return None
    plain, wrap = found[0], types.wrapped_number
    if plain is keep:
        return wrap, True

    def wrap_plain(value):
        return wrap(plain(value))

    wrap_plain.makes_tensor = True  # type: ignore[attr-defined]
    return wrap_plain, True


def is_wrap(converter) -> bool:
    """Return whether a converter makes a tensor from a number."""
    return converter is types.wrapped_number or getattr(converter, "makes_tensor", False)


def _python_number(cls):
    if cls is int:
        return check_whole, True
    if cls in (float, bool, complex):
        return KEEP
    for kind in (int, float, complex):  # subclasses: NumPy's float64, complex128; IntEnum
        if issubclass(cls, kind):
            return kind, True
    if issubclass(cls, np.longdouble):
        return float, True
    if issubclass(cls, np.clongdouble):
        return complex, True
    if issubclass(cls, np.bool_):
        return float, True  # as in PyTorch
    return (cls.item, True) if issubclass(cls, np.number) else None


def _zero_dim(kinds, convert):
    """Return a converter of 0-dim tensors without gradient; `kinds` are NumPy's letters, V is bfloat16's."""

    def converter(tensor):
        array = tensor._array
        if array.ndim or array.dtype.kind not in kinds or tensor.requires_grad:
            raise Mismatch
        return convert(array.item())

    return converter


def _scalar(cls):
    if issubclass(cls, types.Tensor):
        return _zero_dim("biufcV", keep), False
    return _python_number(cls)


def _number(cls):
    return _python_number(cls) if issubclass(cls, (int, float, complex)) else None


def _int(cls):
    if cls is int:
        return KEEP
    if issubclass(cls, (int, np.integer)) and cls is not bool:
        return int, True
    return (_zero_dim("iu", int), False) if issubclass(cls, types.Tensor) else None


def _float(cls):
    if cls is float:
        return KEEP
    if issubclass(cls, (float, int, np.number, np.bool_)) and not issubclass(cls, np.complexfloating):
        return float, True
    return (_zero_dim("biufV", float), False) if issubclass(cls, types.Tensor) else None


def _complex(cls):
    found = _scalar(cls)
    return found and ((lambda value: complex(found[0](value))), found[1])


def _bool(cls):
    return KEEP if cls is bool else None


def _str(cls):
    return KEEP if issubclass(cls, str) else None


def _dtype(cls):
    if types.dtype and issubclass(cls, types.dtype):
        return KEEP
    return (_dtype_of_python_type, False) if cls is type else None


def _dtype_of_python_type(value):
    found = types.python_dtypes.get(value)
    if found is None:
        raise Mismatch
    return found


def _device(cls):
    if types.device and issubclass(cls, types.device):
        return KEEP
    return (types.device, True) if cls is str or cls is int else None


def _storage(cls):
    return KEEP if issubclass(cls, types.storages) else None


def _registered(name):
    def accept(cls):
        registered = getattr(types, name)
        return KEEP if registered and issubclass(cls, registered) else None

    return accept


# PyTorch decides by the first element whether a list fits, and reports a later one by its position.


def ints(values) -> tuple[int, ...]:
    """Convert a list of integers. As in PyTorch, bools are accepted except as the first element."""
    if values and type(values[0]) is bool:
        raise Mismatch
    if type(values) is tuple:
        for value in values:
            if type(value) is not int:
                break
        else:
            return values
    try:
        return tuple(map(index, values))
    except TypeError:
        pass
    for position, value in enumerate(values):
        if type(value) not in plain_classes and overrides(type(value)):
            raise Overridden
        try:
            index(value)
        except TypeError:
            if position == 0:
                raise Mismatch from None
            raise Mismatch(
                "{function}(): argument '{argument}' failed to unpack the object at pos "
                f'{position + 1} with error "type must be tuple of ints,but got '
                f'{type_name(type(value))}"'
            ) from None
    raise Mismatch


def _each(accept_element, noun):
    """Return a converter of lists with elements of one scalar type."""

    def convert(values):
        found = []
        for position, value in enumerate(values):
            accepted = accept_element(type(value))
            try:
                if accepted is None:
                    raise Mismatch
                found.append(accepted[0](value))
            except Mismatch:
                if position == 0:
                    raise
                raise Mismatch(
                    f"{{function}}(): argument '{{argument}}' must be {noun}, but found element "
                    f"of type {type_name(type(value))} at pos {position + 1}"
                ) from None
        return tuple(found)

    return convert


def _tensors(values):
    for value in values:
        if type(value) not in plain_classes:
            return _uncommon_tensors(values)
    return tuple(values)


def _tensors_or_none(values):
    for value in values:
        if value is not None and type(value) not in plain_classes:
            return _uncommon_tensors(values, (type(None),))
    return tuple(values)


def _uncommon_tensors(values, also=()):
    overridden = False
    for position, value in enumerate(values):
        cls = type(value)
        if overrides(cls):
            overridden = True
        elif issubclass(cls, types.Tensor):
            learn_plain(cls)
        elif cls not in also:
            raise Mismatch(f"expected Tensor as element {position} in argument {{index}}, but got {type_name(cls)}")
    if overridden:
        raise Overridden
    return tuple(values)


def _sequence(convert, size, exact):
    def sized(values):
        if len(values) != size:
            raise Mismatch(f"expected tuple of {size} elements but got {len(values)}")
        return convert(values)

    answer = (sized if exact else convert), False
    return lambda cls: answer if issubclass(cls, (tuple, list)) else None


def alone(value):
    return (value,)


def _one_or_more(sequence, accept_one, size):
    """Accept a list, or a single value that is repeated: int[2]."""

    def accept(cls):
        if (found := sequence(cls)) or cls is bool:
            return found
        if (found := accept_one(cls)) is None:
            return None
        one, total = found
        if one is keep and size == 1:
            return alone, True
        return (lambda value: (one(value),) * size), total

    return accept


def _index(cls):
    """Accept an element of a list of integers: any object that `operator.index` accepts."""
    if cls is int:
        return KEEP
    return (lambda value: ints((value,))[0], False) if hasattr(cls, "__index__") or overrides(cls) else None


def accept_varargs(classes):
    """Return the result of `accept` for integers passed separately: x.view(2, 3)."""
    if all(cls is int for cls in classes):
        return KEEP
    return (ints, False) if _index(classes[0]) and classes[0] is not bool else None


# schema name: (PyTorch's name, accept, PyTorch's name of a list, converter of a list)
_KINDS: dict[str, tuple] = {
    "Tensor": ("Tensor", _tensor, "tuple of Tensors", _tensors),
    "Tensor|number": ("Tensor", _tensor_or_number, None, None),
    "Scalar": ("Number", _scalar, "tuple of Scalars", _each(_scalar, "tuple of Scalars")),
    "int": ("int", _int, "tuple of ints", ints),
    "float": ("float", _float, "tuple of floats", _each(_float, "tuple of floats")),
    "complex": ("complex", _complex, None, None),
    "bool": ("bool", _bool, "tuple of bools", _each(_bool, "tuple of bools")),
    "str": ("str", _str, None, None),
    "ScalarType": ("torch.dtype", _dtype, None, None),
    "Device": ("torch.device", _device, None, None),
    "Layout": ("torch.layout", _registered("layout"), None, None),
    "MemoryFormat": ("torch.memory_format", _registered("memory_format"), None, None),
    "Generator": ("torch.Generator", _registered("Generator"), None, None),
    "Storage": ("torch.Storage", _storage, None, None),
}


class ArgumentType:
    """One type of the schema language, such as `int[2]?`.

    Args:
        text: without annotation.
        exact: refuse tensors as Scalars, as schemas do; PyTorch's parser of Python functions accepts them.

    Attributes:
        base: `int`.
        size: None if it is not a list, 0 for a list of any length.
        optional: whether None fits.
        display: PyTorch's name in errors.
    """

    __slots__ = ("base", "size", "optional", "display", "_accept")

    def __init__(self, text: str, exact: bool = False):
        inner, bracket, size = text.removesuffix("?").partition("[")
        self.base, self.optional = inner.removesuffix("?"), text.endswith("?")
        if self.base not in _KINDS or (bracket and _KINDS[self.base][3] is None):
            raise ValueError(
                f"argument type {text!r} is not supported; the types are {', '.join(_KINDS)}, "
                "some with [] or [n], and ? for optional"
            )
        one, accept_one, many, convert = _KINDS[self.base]
        self.size = int(size.removesuffix("]") or 0) if bracket else None
        if self.size is None:
            self.display, self._accept = one, _number if exact and self.base == "Scalar" else accept_one
            return
        if inner == "Tensor?":
            convert = _tensors_or_none
        self.display = many
        self._accept = _sequence(convert, self.size, self.size and self.base in ("Tensor", "bool"))
        if self.size and self.base in ("int", "float"):
            self._accept = _one_or_more(self._accept, _index if self.base == "int" else accept_one, self.size)

    def accept(self, cls: type):
        """Return (converter, total) for arguments of this class, or None if none fits."""
        if cls is _NONE:
            return KEEP if self.optional else None
        # in PyTorch an object with an override is accepted for any tensor or number
        return KEEP if self.base in _OVERRIDABLE and overrides(cls) else self._accept(cls)


argument_type = lru_cache(256)(ArgumentType)  # about 50 types occur

_NONE = type(None)
_OVERRIDABLE = {"Tensor", "Tensor|number", "Scalar", "int", "float", "complex"}
