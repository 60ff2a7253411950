"""Gradients of large tensors in one loop: a formula of several operators, and its sum with another gradient.

A loop computes the operations of its formula in the same order, so its results are the same to the bit.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from ..core.engine import own_array
from ..core.node import NO_EDGE, as_pair
from ..core.saved_variable import SavedOutput, SavedVariable
from ..core.tensor import Tensor, wrap
from ..dispatch.state import GRAD_OFF, state
from ..types.silence import silence
from ._eager_pointwise import LARGE, deciding_in, exact, remember, replacement_by
from ._eager_programs import pointwise
from ._llvm import Unsupported
from ._scalar import CannotFuseError

ndarray = np.ndarray
_DTYPES = {"f": "float32", "d": "float64"}

# As `formulas.elementwise.pow_backward`, with the power of `kernels.elementwise.arithmetic.pow_scalar`.
_POWER = "sqrt(self) if exponent == 1.5 else 1 / sqrt(self) if exponent == 0.5 else self ** (exponent - 1)"
_POW_BACKWARD = f"grad * (({_POWER}) * exponent)"


def pow_backward(kept: dict[Any, Any], compiled: Callable[..., Any]) -> Callable[[Any], Any]:
    """Return the function that makes the replacement of `pow_backward` for calls that record no history."""
    make = replacement_by(_POW_BACKWARD, ["grad", "self", "exponent"], "pow_backward", (0, 1), kept, compiled)

    def replace(original: Any) -> Any:
        def of_arrays(grad: Any, self: Any, exponent: Any) -> Any:
            return original(wrap(grad), wrap(self), exponent)._array

        kernel = make(of_arrays)

        def replaced(grad: Any, self: Any, exponent: Any) -> Any:
            if (
                state.flags == GRAD_OFF and grad.__class__ is self.__class__ is Tensor
                and exponent.__class__ in (int, float) and exponent
            ):  # fmt: skip
                g, x = grad._array, self._array
                if type(g) is type(x) is np.ndarray:
                    return wrap(kernel(g, x, exponent))
            return original(grad, self, exponent)

        return replaced

    return replace


class Definition(NamedTuple):
    """The definition of a gradient, and the names of the saved tensors and of the other saved values in it."""

    source: str
    tensors: tuple[str, ...]
    values: tuple[str, ...]


_FUNCTIONS = "gradloom.generated.functions."


@cache  # of the classes of nodes
def definitions(node: type) -> tuple[Definition | None, ...] | None:
    """Return the definition of the gradient for each edge of a node; None if none has one."""
    if not node.__module__.startswith(_FUNCTIONS):
        return None
    family = node.__module__.removeprefix(_FUNCTIONS)
    found = getattr(import_module(f"gradloom.generated.records.{family}"), "GRADIENTS", {}).get(node.__name__)
    return None if found is None else tuple([None if edge is None else Definition(*edge) for edge in found])


def apply_adding(kept: dict[Any, Any], compiled: Callable[..., Any]) -> Callable[[Any], Any]:
    """Return the function that makes the engine's `apply_adding`: Note [Gradients added where they are computed]."""
    recent: dict[Any, Any] = {}

    def code_for(definition: Definition, key: Any, arrays: dict[str, Any], values: dict[str, Any]) -> Any:
        """Return the code that adds a gradient to a sum, and the names of its scalar arguments; False without code."""
        total = arrays["total"]
        dtype, deciding = _DTYPES[total.dtype.char], deciding_in(definition.source)
        numbers = [n for n, v in values.items() if n not in deciding and v.__class__ in (int, float)]
        known = {n: v for n, v in values.items() if n not in numbers}
        expanded = [name for name, a in arrays.items() if not a.flags.c_contiguous]
        shared = definition, total.shape, dtype, *exact(known.values()), *numbers, *expanded
        code = kept.get(shared)
        if code is None:
            source, inputs = f"total + ({definition.source})", dict.fromkeys(arrays, dtype)
            try:
                size, taken = total.size, tuple(numbers)
                code = compiled(shared, pointwise(source, inputs, size, dtype, known, taken, None, expanded, True))
            except (CannotFuseError, Unsupported):
                code = compiled(shared, None)
        found = (code, numbers) if code else False
        remember(recent, key, found)
        return found

    def prepared(node: Any, definition: Definition, grad: Any, total: Any) -> Any:
        """Return the code and its arguments; None or False if the node computes the gradient and the engine adds it."""
        arrays = {"total": total, "grad": grad}
        for name in definition.tensors:
            arrays[name] = _saved_array(getattr(node, f"saved_{name}"))
        layout = []
        for name, a in arrays.items():
            if type(a) is not ndarray or a.dtype != total.dtype:
                return None
            if not a.shape:  # a number, such as the factor of a product
                arrays[name] = a = np.broadcast_to(a, total.shape)
            if a.shape != total.shape:
                return None
            layout.append(a.flags.c_contiguous)
            if not layout[-1] and any(a.strides):
                return None
        values = {name: getattr(node, f"saved_{name}") for name in definition.values}
        if any(v.__class__ not in (int, float, bool, str, type(None)) for v in values.values()):
            return None
        key = definition, total.shape, total.dtype.char, *layout, *exact(values.values())
        found = recent.get(key)
        if found is None:
            found = code_for(definition, key, arrays, values)
        return found and (found[0], (*arrays.values(), total), [values[n] for n in found[1]])

    def make(_: Any) -> Any:
        def apply_adding(task: Any, node: Any, grads: Any, edges: Any) -> Any:
            gradients = definitions(node.__class__)
            if gradients is None:  # above all AccumulateGrad, which keeps a gradient to which nothing else refers
                return node.apply(grads, edges)
            grad = grads[0]
            if (
                state.flags != GRAD_OFF or grad.__class__ is not Tensor
                or type(grad._array) is not ndarray or grad._array.size < LARGE or grad._array.dtype.char not in _DTYPES
            ):  # fmt: skip
                return node.apply(grads, edges)
            rest, sums = list(edges), []
            for i, definition in enumerate(gradients):
                following, nr = as_pair(edges[i])
                entry = None if definition is None or following is None else task.pending.get(following)
                if entry is None or entry[1] is None or entry[1][nr] is None:
                    continue
                total = own_array(entry, nr)
                if total is None or total.shape != grad._array.shape or not total.flags.c_contiguous:
                    continue
                found = prepared(node, definition, grad._array, total)  # type: ignore[arg-type]
                if found:
                    sums.append(found)
                    rest[i] = NO_EDGE
            outputs = node.apply(grads, tuple(rest) if sums else edges)
            for code, arrays, numbers in sums:  # after `apply`, which may raise an error
                code(arrays, numbers)
            return outputs

        return apply_adding

    return make


def _saved_array(saved: Any) -> Any:
    """Return the array of a saved tensor; None if unpacking it would run a hook, make a view or raise an error."""
    kind: Any = saved.__class__
    if kind is Tensor:
        return saved._array if saved._vc is None else None
    if kind is SavedOutput:
        return None if saved.counter[0] else saved.array
    if kind is not SavedVariable or saved.unpack_hook is not None or saved.counter[0] != saved.version:
        return None
    tensor = saved.tensor
    if tensor is None:
        return saved.array
    return tensor._array if tensor.__class__ is Tensor and tensor._detachments == saved.detachments else None


silence(globals())
