"""An operator whose kernels are Python functions, registered by dispatch key.

Note [Library operators]
A LibraryOperator takes the place of the generated wrapper for an operator of gradloom.library: it takes all arguments
in the schema's order, lets features intercept the call (Note [Interception]), records history, and calls a kernel. From
the top:

    interception    profiler, vmap, autocast
    autograd        the kernel of the key Autograd; or the formula of register_autograd (autograd.py); without either,
                    the kernel's operations are recorded, and backward through them warns
    Python          dispatch modes and __torch_dispatch__
    kernel          the first of CPU, CompositeExplicitAutograd and CompositeImplicitAutograd
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from ..core.tensor import Tensor
from ..core.variants import refuse_tangents
from ..dispatch import interception
from ..dispatch.state import AUTOCAST, FORWARD_AD, GRAD_OFF, INTERCEPT, state
from ..memory.metadata import Metadata
from ..memory.ownership import owner
from ..ops._schema import FunctionSchema, python_arguments
from .autograd import tensors_of, warn_in_backward

_NUMBERS = {"IntType": int, "FloatType": float, "BoolType": bool}
KERNELS = ("CPU", "CompositeExplicitAutograd", "CompositeImplicitAutograd")
AUTOGRAD = ("Autograd", "AutogradCPU")
KEYS = frozenset(
    (
        *KERNELS,
        *AUTOGRAD,
        "CompositeExplicitAutogradNonFunctional",
        "Meta",
        "CUDA",
        "AutogradCUDA",
        "MPS",
        "XPU",
        "HPU",
        "XLA",
        "MTIA",
        "PrivateUse1",
        "AutogradOther",
        "ADInplaceOrView",
        "BackendSelect",
        "Functionalize",
        "Python",
        "AutocastCPU",
        "AutocastCUDA",
        "FuncTorchBatched",
        "SparseCPU",
    )
)


class _Excluded(threading.local):
    autograd = False  # within _AutoDispatchBelowAutograd


_excluded = _Excluded()


class _AutoDispatchBelowAutograd:
    """Context in which operators of libraries skip their Autograd kernels and record no history."""

    def __enter__(self) -> None:
        self._before = _excluded.autograd, state.flags
        _excluded.autograd = True
        state.flags |= GRAD_OFF

    def __exit__(self, *_: object) -> None:
        _excluded.autograd, state.flags = self._before


class LibraryCall(interception.Call):
    """An intercepted call of a LibraryOperator."""

    __slots__ = ()

    def with_args(self, args: tuple[Any, ...], out: Any = None) -> LibraryCall:
        return LibraryCall(self.wrapper, args, out, self.composite)

    def run(self) -> Any:
        if self.composite is None:
            self._check_values()
        return self.run_functions()

    def run_functions(self) -> Any:
        """Call the functions that the library registered; what they call is intercepted if a profiler is to see it."""
        flags = state.flags
        only_profiled = state.profiler is not None and not state.dispatch_modes and not state.batching
        state.flags = flags & ~INTERCEPT if self.composite is None and not only_profiled else flags
        try:
            return self.plain()
        finally:
            state.flags = flags

    def _check_values(self) -> None:
        for t in self.tensors():
            if not interception.has_operand(t):
                raise TypeError(
                    f"no implementation of {self.wrapper.name} was found for arguments of class "
                    f"{type(t).__name__}, which has no values of its own"
                )

    def plain(self) -> Any:
        return self.wrapper.compute(self.args)


class LibraryOperator:
    """The implementation of an overload that a library defined; see Note [Library operators].

    Attributes:
        schema: its FunctionSchema.
        kernels: dispatch key -> function.
        formula: the Formula of register_autograd, or None.
        fake: the function of register_fake, for opcheck.
        vmap_rule: the batching rule.
        dispatch_rules: subclass or mode -> function called in place of its `__torch_dispatch__`.
        autocast_dtype: the dtype that autocast casts floating arguments to, or None.
        is_custom: whether it is a custom_op, whose results must not share memory with its arguments.
        name: `mylib::foo`, with the overload if that has a name.
    """

    def __init__(self, schema: FunctionSchema) -> None:
        self.schema = schema
        self.name = self.__name__ = schema.name + (f".{schema.overload_name}" if schema.overload_name else "")
        self.kernels: dict[str, Callable[..., Any]] = {}
        self.formula: Any = None
        self.fake: Callable[..., Any] | None = None
        self.vmap_rule: Callable[..., Any] | None = None
        self.dispatch_rules: dict[type, Callable[..., Any]] = {}
        self.autocast_dtype: Any = None
        self.is_custom = False
        self.overload: Any = None
        self.__doc__: str | None = None

    def __contains__(self, key: object) -> bool:
        """Return whether there is a function for a dispatch key."""
        return (
            key in self.kernels
            or (key in AUTOGRAD and self.formula is not None)
            or (key == "Meta" and self.fake is not None)
        )

    @property
    def composite(self) -> Callable[..., Any] | None:
        """The composite kernel, if it is the only one."""
        if any(key in self.kernels for key in (*KERNELS[:2], *AUTOGRAD)) or self.formula is not None:
            return None
        return self.kernels.get("CompositeImplicitAutograd")

    def __call__(self, *values: Any) -> Any:
        flags = state.flags
        if flags & AUTOCAST and self.autocast_dtype is not None:
            values, state.flags = tuple([cast(v, self.autocast_dtype) for v in values]), flags & ~AUTOCAST
            try:
                return self(*values)
            finally:
                state.flags = flags
        if flags & INTERCEPT or not all(map(interception.has_operand, tensors_of(values))):
            return LibraryCall(self, values, None, self.composite).below(-1)
        return self.compute(values)

    def arguments(self, values: tuple[Any, ...]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return all values in the schema's order as positional and keyword arguments for a Python function."""
        return python_arguments(self.schema, values)

    def record(self, kernel: Callable[..., Any], *values: Any) -> Any:
        """Return the result of `kernel(*values)` with its history."""
        return self.compute(values, kernel)

    def compute(self, values: tuple[Any, ...], below: Callable[..., Any] | None = None) -> Any:
        """Return the results with their history; `below` computes them instead of the kernels."""
        below = below or self.kernel
        if _excluded.autograd:
            return below(*values)
        autograd = next((self.kernels[key] for key in AUTOGRAD if key in self.kernels), None)
        if autograd is not None:
            return self._call(autograd, values)
        if state.flags & FORWARD_AD and self.composite is None:
            refuse_tangents(self.name, list(tensors_of(values)))
        if self.formula is not None:
            return self.formula.record(values, below)
        if self.composite is not None:
            return self._call(self.composite, values)
        return warn_in_backward(self.name, values, below)

    def _call(self, function: Callable[..., Any], values: tuple[Any, ...]) -> Any:
        args, keywords = python_arguments(self.schema, values)
        return self._returned(function(*args, **keywords))

    def kernel(self, *values: Any) -> Any:
        """Return the result of the kernel for the CPU.

        Raises:
            NotImplementedError: if there is none.
            RuntimeError: if its results differ from the schema, or those of a custom operator share memory.
        """
        function = next((self.kernels[key] for key in KERNELS if key in self.kernels), None)
        if function is None:
            have = ", ".join(self.kernels) or "none"
            raise NotImplementedError(
                f"Could not run '{self.name}' with arguments from the 'CPU' backend: no kernel "
                f"is registered for it (there are: {have}). Register one with "
                f'gradloom.library.register_kernel("{self.name}", "cpu")'
            )
        found = self._call(function, values)
        if self.is_custom:
            self._check_aliases(values, found)
            for argument, value in zip(self.schema.arguments, values, strict=True):
                if argument.is_write:
                    for tensor in tensors_of((value,)):
                        bump(tensor)
        return found

    def _returned(self, found: Any) -> Any:
        """Return the results of a function in the form of the schema."""
        returns = self.schema.returns
        if not returns:
            if found is not None:
                raise RuntimeError(
                    f"{self.name} returned {type(found).__name__}, and its schema says that it returns "
                    f"nothing: {self.schema}"
                )
            return None
        if len(returns) == 1:
            return self._one(returns[0], found)
        if not isinstance(found, (tuple, list)):
            raise TypeError(
                f"{self.name} returned an object of type '{type(found).__name__}', which is not an "
                f"instance of 'sequence'; its schema says that it returns {len(returns)} values: "
                f"{self.schema}"
            )
        if len(found) != len(returns):
            raise RuntimeError(
                f"{self.name} returned {len(found)} values, and its schema says {len(returns)}: {self.schema}"
            )
        return tuple(map(self._one, returns, found))

    def _one(self, expected: Any, value: Any) -> Any:
        kind = expected.type.without_optional.kind()
        if kind == "ListType":
            if not isinstance(value, (tuple, list)):
                raise TypeError(f"{self.name} returned {value!r} where its schema says {expected}")
            if expected.type.without_optional.getElementType().kind() == "TensorType":
                for element in value:
                    self._check_tensor(expected, element)
            return list(value)
        if kind == "TensorType":
            self._check_tensor(expected, value)
        elif (
            (number := _NUMBERS.get(kind)) and value.__class__ is not number and isinstance(value, (Tensor, int, float))
        ):
            if isinstance(value, float):
                raise RuntimeError(f"{self.name} returned {value!r} where its schema says {expected}")
            return number(value)
        return value

    def _check_tensor(self, expected: Any, value: Any) -> None:
        if not (value is None or isinstance(value, Tensor)):
            raise RuntimeError(
                f"Unable to cast {value!r} to Tensor: {self.name} returned it where its schema says {expected}"
            )

    def _check_aliases(self, values: tuple[Any, ...], found: Any) -> None:
        seen = {id(owner(t._array)) for t in tensors_of(values) if t._array.__class__ is not Metadata}
        for tensor in tensors_of(found if isinstance(found, tuple) else (found,)):
            if tensor._array.__class__ is Metadata:
                continue
            memory = id(owner(tensor._array))
            if memory in seen:
                raise RuntimeError(
                    f"{self.name}: The output of this custom operator (1) must not also be an input to this custom "
                    "operator and (2) may not alias any inputs to this custom operator or other returns. The most "
                    "common way to trigger this error is if we have y = custom_op(x) and y and x are the same Tensor. "
                    "Return a clone instead (y = x.clone()), or do not return it."
                )
            seen.add(memory)


def cast(value: Any, dtype: Any) -> Any:
    """Convert a floating tensor, except float64, to a dtype; the tensors of a list likewise."""
    if isinstance(value, Tensor):
        kind = value._array.dtype
        return value.to(dtype) if kind.kind in "fV" and kind.itemsize < 8 else value
    return [cast(v, dtype) for v in value] if value.__class__ in (tuple, list) else value


def bump(tensor: Any) -> None:
    """Increment a tensor's version counter."""
    from ..core.node import bump_version

    bump_version(tensor)
