"""Operators on lists of tensors, `torch._foreach_add` and the like: an operator for each tensor.

A family is a list of overloads, each with the parameters after `self` and a function of one tensor's values. From it
follow `_foreach_f`, which returns a tuple of results, and `_foreach_f_`, which calls the in-place operator for each
tensor and returns the list, after it has made sure that all of them may be written. Derivatives are those of the
operators, whose nodes PyTorch names differently if they are not in place.

All raise RuntimeError for an empty list and for lists of different lengths, and TypeError as the operators do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import repeat
from typing import Any

from ..core.tensor import Tensor
from ..core.views import check_inplace
from ..dispatch import _operators as ops
from ..dispatch.overloads import overloaded_function
from ..dispatch.state import GRAD_OFF, state

_UNARY = """
abs acos asin atan ceil cos cosh erf erfc exp expm1 floor frac lgamma log log10 log1p log2 neg reciprocal round rsqrt
sigmoid sign sin sinh sqrt tan tanh trunc
""".split()
_NUMBER, _NUMBERS = ("scalar", "Scalar"), ("scalars", "Scalar[]")
_LIST, _TENSOR, _ALPHA = ("other", "Tensor[]"), ("other", "Tensor"), ("alpha", "Scalar", 1)


def _plain(operator: str) -> Callable[..., Any]:
    """Return a function that calls an operator or, with `inplace`, its in-place variant."""

    def of_one(inplace, *arguments):
        return getattr(ops, f"{operator}_" if inplace else operator)(*arguments)

    return of_one


def _with_numbers(operator: str) -> Callable[..., Any]:
    """Return the same of an operator that has an overload for a number as its second argument."""

    def of_one(inplace, x, other):
        name = f"{operator}_" if inplace else operator
        return getattr(ops, name if isinstance(other, Tensor) else f"{name}_Scalar")(x, other)

    return of_one


def _scaled(operator: str) -> Callable[..., Any]:
    def of_one(inplace, x, other, alpha=1):
        name = f"{operator}_" if inplace else operator
        if isinstance(other, Tensor):
            return getattr(ops, name)(x, other, alpha=alpha)
        return getattr(ops, f"{name}_Scalar")(x, other, alpha)

    return of_one


def _fused(operator: str) -> Callable[..., Any]:
    def of_one(inplace, x, first, second, value=1):
        return getattr(ops, f"{operator}_" if inplace else operator)(x, first, second, value=value)

    return of_one


def _maximum(inplace, x):
    if not x.numel():
        raise RuntimeError(
            "_foreach_max cannot compute the maximum of an empty tensor; max over zero elements is undefined."
        )
    return ops.max(x)


def _norm(inplace, x, order, dtype):
    return ops.linalg_vector_norm(x, order, dtype=dtype)


def _power_sum(inplace, x, order, dtype):
    return ops.sum(ops.pow(ops.abs(x if dtype is None else ops.to_dtype(x, dtype)), order))


_ORDER = (("ord", "Scalar", 2), ("dtype", "ScalarType?", None))
_PAIR = (("tensor1", "Tensor[]"), ("tensor2", "Tensor[]"))
_EXPONENTS = (("exponent", "Tensor[]"), ("exponent", "Scalar"), ("exponent", "Scalar[]"))

# Family -> its overloads, in the order in which calls try them: the parameters after `self`, and the function of one
# tensor. A family named with an underscore has the in-place form only, one in _RETURNING only the other.
_FAMILIES: dict[str, list[tuple[tuple[Any, ...], Callable[..., Any]]]] = {
    **{name: [((), _plain(name))] for name in _UNARY},
    **{
        name: [
            ((_NUMBER,), _scaled(name)),
            ((_LIST, "*", _ALPHA), _scaled(name)),
            ((_NUMBERS,), _scaled(name)),
            ((_TENSOR, "*", _ALPHA), _scaled(name)),
        ][: 4 if name == "add" else 3]
        for name in ("add", "sub")
    },
    **{
        name: [((kind,), _with_numbers(name)) for kind in (_NUMBER, _LIST, _NUMBERS, _TENSOR)]
        for name in ("mul", "div")
    },
    **{
        name: [((kind,), _plain(clamp)) for kind in (_NUMBER, _LIST, _NUMBERS)]
        for clamp, names in (("clamp_min", ("clamp_min", "maximum")), ("clamp_max", ("clamp_max", "minimum")))
        for name in names
    },
    "pow": [((kind,), _plain("pow")) for kind in _EXPONENTS],
    **{
        name: [
            ((*_PAIR, ("scalars", "Scalar[]")), _fused(name)),
            ((*_PAIR, ("scalars", "Tensor")), _fused(name)),
            ((*_PAIR, ("value", "Scalar", 1)), _fused(name)),
        ]
        for name in ("addcmul", "addcdiv")
    },
    "lerp": [
        ((("tensors1", "Tensor[]"), weight), _plain("lerp"))
        for weight in (("weights", "Tensor[]"), ("weight", "Scalar"), ("weight", "Scalar[]"))
    ],
    "max": [((), _maximum)],
    "norm": [(_ORDER, _norm)],
    "powsum": [(_ORDER, _power_sum)],
    "mm": [((("mat2", "Tensor[]"),), _plain("mm"))],
    "clone": [(("*", ("memory_format", "MemoryFormat?", None)), lambda _, x, f: ops.clone(x, memory_format=f))],
    "copy_": [((("src", "Tensor[]"), ("non_blocking", "bool", False)), _plain("copy"))],
    "zero_": [((), _plain("zero"))],
}
_RETURNING = ("max", "norm", "powsum", "mm", "clone")


def _in_turn(parameters, values, count) -> Iterator[tuple[Any, ...]]:
    """Yield the arguments for each tensor: the elements of lists, and other values repeated."""
    columns = []
    for parameter, value in zip([p for p in parameters if p != "*"], values, strict=True):
        name, kind = parameter[:2]
        if kind == "Tensor[]" and len(value) != count:
            raise RuntimeError(f"Tensor lists must have the same number of tensors, got {count} and {len(value)}")
        if kind == "Scalar[]" and len(value) != count:
            raise RuntimeError("Tensor list must have same number of elements as scalar list.")
        if kind == "Tensor" and name == "scalars":
            value, kind = _unpacked(value, count), "Scalar[]"
        elif kind == "Tensor" and value.dim():
            raise RuntimeError(
                f"scalar tensor expected to be 0 dim but it has {value.dim()} dimensions and {value.numel()} elements."
            )
        columns.append(value if kind.endswith("[]") else repeat(value, count))
    return zip(*columns, strict=True) if columns else repeat((), count)


def _unpacked(scalars, count):
    if scalars.dim() != 1:
        raise RuntimeError(f"Expected packed scalar Tensor to be of dimension 1. Got {scalars.dim()} instead.")
    if scalars.size(0) != count:
        raise RuntimeError(
            f"Expected length of scalars to match input of length {count} but got {scalars.size(0)} instead."
        )
    return scalars.tolist()


def _overload(parameters, of_one, inplace):
    def call(tensors, *values):
        if not tensors:
            raise RuntimeError("Tensor list must have at least one tensor.")
        rows = _in_turn(parameters, values, len(tensors))
        if inplace and not state.flags & GRAD_OFF:
            others = [v for v in values if isinstance(v, (Tensor, list, tuple))]
            for i, x in enumerate(tensors):
                of_x = [v if isinstance(v, Tensor) else v[i] for v in others]
                check_inplace(x, [v for v in of_x if isinstance(v, Tensor)])
        return tuple([of_one(inplace, x, *row) for x, row in zip(tensors, rows, strict=False)])

    return (("self", "Tensor[]"), *parameters), call


def _of_family(family: str, inplace: bool) -> Callable[..., Any]:
    name = f"_foreach_{family.rstrip('_')}{'_' if inplace else ''}"
    entries = [_overload(parameters, of_one, inplace) for parameters, of_one in _FAMILIES[family]]
    if family == "pow" and not inplace:
        entries.append(_POWERS_OF_NUMBER)
    function = overloaded_function(name, tuple(entries))
    if not inplace:
        return function

    def changed(*args, **kwargs):
        function(*args, **kwargs)
        return args[0] if args else kwargs["self"]

    changed.__name__ = changed.__qualname__ = name
    changed.__module__ = "gradloom"
    return changed


def _powers_of_number(number, exponents):
    return tuple([ops.pow(number, exponent) for exponent in exponents])


_POWERS_OF_NUMBER = (("self", "Scalar"), ("exponent", "Tensor[]")), _powers_of_number


def _forms() -> Iterator[tuple[str, bool]]:
    """Yield each family with the forms it has: in-place or not."""
    for family in _FAMILIES:
        for inplace in (False, True):
            if not (inplace if family in _RETURNING else not inplace and family.endswith("_")):
                yield family, inplace


def _functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    for family, inplace in _forms():
        function = _of_family(family, inplace)
        yield function.__name__, function


globals().update(_functions())


def overloads() -> dict[str, list[tuple[str, Callable[..., Any], str]]]:
    """Return the overloads of all functions: name -> (overload, function of all arguments, schema). Those of in-place
    functions return None, as their schemas say."""
    found = {}
    for family, inplace in _forms():
        name = f"_foreach_{family.rstrip('_')}{'_' if inplace else ''}"
        entries = [(_overload_name(family, p), *_overload(p, of_one, inplace)) for p, of_one in _FAMILIES[family]]
        if name == "_foreach_pow":
            entries.append(("ScalarAndTensor", *_POWERS_OF_NUMBER))
        found[name] = [
            (overload, _with_result(function, inplace), _schema(name, overload, parameters, inplace))
            for overload, parameters, function in entries
        ]
    return found


def _overload_name(family, parameters):
    """Return PyTorch's name of an overload: the kind of the number, or of the list, that distinguishes it."""
    kinds = [parameter[1] for parameter in parameters if parameter != "*"]
    names = {"Scalar": "Scalar", "Scalar[]": "ScalarList", "Tensor": "Tensor"}
    if "*" in parameters and kinds[0] == "Tensor[]":  # `alpha` distinguishes nothing
        return "List"
    return next((names[kind] for kind in kinds if kind in names), "List" if len(_FAMILIES[family]) > 1 else "default")


def _schema(name, overload, parameters, inplace):
    words = []
    for parameter in parameters:
        if parameter == "*":
            words.append("*")
            continue
        written = inplace and parameter[0] == "self"
        default = f"={parameter[2]}" if len(parameter) == 3 else ""
        words.append(f"{'Tensor(a!)[]' if written else parameter[1]} {parameter[0]}{default}")
    full = name if overload == "default" else f"{name}.{overload}"
    return f"{full}({', '.join(words)}) -> {'()' if inplace else 'Tensor[]'}"


def _with_result(function, inplace):
    """Return the function with the result of an operator: a list, or None if it works in place."""

    def call(*values):
        found = function(*values)
        return None if inplace else list(found)

    return call
