"""What a kernel expression may use of `xp`, of an array and of Python.

Everything here computes arrays from arrays: no files, no Python callables that run per element, no global
state, and nothing that writes to its arguments.
"""

from __future__ import annotations

from functools import cache

import numpy

SUBMODULES = frozenset({"linalg", "fft"})

CONSTANTS = frozenset({"pi", "e", "euler_gamma", "inf", "nan", "newaxis"})

# Functions that make arrays or answer questions about types; all others are found by being array functions.
_MAKERS = frozenset(
    """arange array asarray ascontiguousarray broadcast_shapes can_cast empty eye finfo full identity iinfo
    indices issubdtype mgrid ogrid ones promote_types result_type tri zeros""".split()
)

# Array functions that read or write files, call back into Python, write to an argument, or return text.
_REFUSED = frozenset(
    """apply_along_axis apply_over_axes array2string array_repr array_str copyto fill_diagonal fromfile
    fromfunction fromiter fromregex frompyfunc fromstring frombuffer genfromtxt load loadtxt memmap piecewise
    place put put_along_axis putmask save savetxt savez savez_compressed shares_memory may_share_memory
    vectorize""".split()
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

# The ufunc that an operator is, by the name of its ast class.
OPERATORS = {
    "Add": "add", "Sub": "subtract", "Mult": "multiply", "Div": "true_divide", "FloorDiv": "floor_divide",
    "Mod": "remainder", "Pow": "power", "MatMult": "matmul", "LShift": "left_shift", "RShift": "right_shift",
    "BitAnd": "bitwise_and", "BitOr": "bitwise_or", "BitXor": "bitwise_xor", "USub": "negative",
    "UAdd": "positive", "Invert": "invert", "Eq": "equal", "NotEq": "not_equal", "Lt": "less",
    "LtE": "less_equal", "Gt": "greater", "GtE": "greater_equal",
}  # fmt: skip

_ArrayFunction = type(numpy.sum)


def kind_of(path: tuple[str, ...]) -> str | None:
    """What `xp.<path>` is: 'ufunc', 'function', 'value' (a constant or dtype), 'module', or None if not to be
    used.
    """
    if len(path) == 1 and path[0] in CONSTANTS:
        return "value"
    if path[0] in SUBMODULES:
        if len(path) == 1:
            return "module"
        return "function" if len(path) == 2 and path[1] in names_in(path[0]) else None
    if len(path) == 1 and path[0] in names_in(""):
        member = getattr(numpy, path[0])
        if isinstance(member, numpy.ufunc):
            return "ufunc"
        return "value" if isinstance(member, type) and issubclass(member, numpy.generic) else "function"
    is_ufunc = len(path) == 2 and kind_of(path[:1]) == "ufunc"
    return "function" if is_ufunc and path[1] in UFUNC_METHODS else None


@cache  # three keys: the namespace itself and its two submodules
def names_in(submodule: str) -> frozenset[str]:
    """The functions, dtypes and constants of `xp`, or of `xp.<submodule>`."""
    module = getattr(numpy, submodule) if submodule else numpy
    names = set[str]() if submodule else set(CONSTANTS | (_MAKERS & set(dir(numpy))))
    for name in dir(module):
        if name.startswith("_") or name in _REFUSED:
            continue
        member = getattr(module, name)
        is_dtype = isinstance(member, type) and issubclass(member, numpy.generic)
        if isinstance(member, numpy.ufunc | _ArrayFunction) or (is_dtype and not submodule):
            names.add(name)
    return frozenset(names)
