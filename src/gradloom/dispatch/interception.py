"""Interception: how a profiler, vmap, autocast or `__torch_dispatch__` gets to see a call before the kernel runs.

Note [Interception]
A call that nobody wants to see pays nothing for those who might. A wrapper finds out that somebody does where it looks
anyway:

    x._operand     where wrappers read the arrays of their arguments: a second name of the slot `_array`. A subclass of
                   Tensor that answers calls itself has a property there that raises AttributeError. All that is not
                   a wrapper reads `_array`
    state.flags    the bit INTERCEPT: a mode or a profiler of this thread; AUTOCAST, in wrappers of operators with an
                   autocast policy

and hands the call, one overload with its arguments as the parser made them, to `intercept`. Whoever may answer it is
asked in the order of the keys below, which is PyTorch's; ZEROS are tangents that are known to be zero. One that does
not care returns NotImplemented. An answer may pass the call on with `call.below(KEY)`. Autograd stands above PYTHON and
below the others: a profiler, vmap and autocast call operators that record their history as ever, and for
`__torch_dispatch__` there is a second set of wrappers (`generated/redispatch`), which record the history of a result
that somebody else computes. (`__torch_function__` comes before all of them; see Note [Torch functions].)

Who answers is registered when the feature is first used (`register`).
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import FunctionType
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from . import _operators
from .state import AUTOCAST, INTERCEPT, state

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# Who is asked, in this order.
PROFILER, VMAP, CASTS, PYTHON, ZEROS = range(5)
_answers: list[Any] = [None] * 5


def register(key: int, answer: Callable[[Call], Any]) -> None:
    """From now on `answer(call)` is asked about intercepted calls, in the place that `key` has in the order."""
    _answers[key] = answer


class Call:
    """An intercepted call of one overload.

    Attributes:
        wrapper: the generated function of the overload.
        args: all arguments in the order of the schema; those of a factory are followed by its requires_grad.
        out: what `out=` was given, or None.
        composite: the function that a composite operator is made of; None for others.
    """

    __slots__ = ("wrapper", "args", "out", "composite")

    def __init__(self, wrapper: Any, args: tuple[Any, ...], out: Any = None, composite: Any = None) -> None:
        self.wrapper, self.args, self.out, self.composite = wrapper, args, out, composite

    def tensors(self) -> Iterator[Any]:
        """The tensors among the arguments, also those in lists, and `out`."""
        for value in (*self.args, self.out):
            if isinstance(value, _operators.Tensor):
                yield value
            elif value.__class__ in (tuple, list):
                yield from (t for t in value if isinstance(t, _operators.Tensor))

    def with_args(self, args: tuple[Any, ...], out: Any = None) -> Call:
        """The same call with other arguments."""
        return Call(self.wrapper, args, out, self.composite)

    def below(self, key: int) -> Any:
        """Pass the call on to those that come after `key`, and in the end to the operator itself."""
        for answer in _answers[key + 1 :]:
            if answer is not None:
                found = answer(self)
                if found is not NotImplemented:
                    return found
        return self.run()

    def run(self) -> Any:
        """The operator itself; a composite one calls others, which are intercepted in their turn.

        Raises:
            TypeError: if there are tensors whose values only somebody else can compute with.
        """
        if self.composite is not None and self.out is None:
            return self.composite(*self.args)
        for t in self.tensors():
            if not has_operand(t):
                name = self.wrapper.__doc__.partition("(")[0]  # the docstring of a wrapper begins with its schema
                raise TypeError(
                    f"no implementation of {name} was found for arguments of class {type(t).__name__}, "
                    "which has no values of its own"
                )
        flags = state.flags
        state.flags = flags & ~(INTERCEPT | AUTOCAST)
        try:
            return self.plain()
        finally:
            state.flags = flags

    def plain(self) -> Any:
        """Call the wrapper, with the flags as they are."""
        code = self.wrapper.__dict__.get("_own", self.wrapper).__code__  # whatever it runs to ask who answers
        count = code.co_argcount
        named = dict(zip(code.co_varnames[count:], self.args[count:], strict=False))
        if self.out is not None:
            named["out"] = self.out
        return self.wrapper(*self.args[:count], **named)


def intercept(wrapper: Any, args: tuple[Any, ...], out: Any = None, composite: Any = None) -> Any:
    """Answer a call that a generated wrapper hands over; see Note [Interception]."""
    return Call(wrapper, args, out, composite).below(-1)


def attend(thread: dict[str, Any] | None = None) -> None:
    """Set the bit INTERCEPT as long as somebody wants to see the calls of a thread: call it when one comes or goes.

    Args:
        thread: the state of the thread, as a dictionary; the running one by default.
    """
    if thread is None:
        thread = state.__dict__
    wanted = thread.get("profiler") is not None or thread.get("dispatch_modes") or thread.get("batching")
    flags = thread.get("flags", state.__class__.flags)
    thread["flags"] = flags | INTERCEPT if wanted else flags & ~INTERCEPT


def has_operand(tensor: Any) -> bool:
    """Whether kernels may read the tensor's array."""
    return hasattr(tensor, "_operand")


# Wrapper whose derivative is replaced -> what records the new one; its code runs in the module of the old one.
recorders: dict[Any, FunctionType] = {}


def recording(wrapper: Any) -> Any:
    """The function that calls somebody else's kernel and records the history of an operator.

    Args:
        wrapper: a generated function.

    Returns:
        `record(kernel, *args)`; `kernel(*args)` returns what the operator returns, and is called with the arguments.
    """
    package, _, family = wrapper.__module__.rpartition(".variable_type.")
    module = import_module(f"{package}.redispatch.{family}")
    other = recorders.get(wrapper)
    if other is None:
        return getattr(module, wrapper.__name__)
    overrides = other.__globals__
    module.__dict__[overrides["NAME"]] = sys.modules[overrides["__name__"]]
    return FunctionType(other.__code__, module.__dict__, wrapper.__name__)


# The class attributes of Tensor in which an instance holds its place in a graph, and what it remembers of it.
_HISTORY = (
    "_view",
    "_accumulator",
    "_grad",
    "_tangent",
    "_post_accumulate_grad_hooks",
    "_retains_grad",
    "_detachments",
    "_inference",
    "_backward_hooks",
)


def shallow_copy(tensor: Any) -> Any:
    """A tensor of the same class that stands for the same values, without history; it shares what the other holds."""
    from ..core.node import NO_EDGE

    out = object.__new__(tensor.__class__)
    out.__dict__.update({name: value for name, value in tensor.__dict__.items() if name not in _HISTORY})
    out._array, out._edge, out._vc = tensor._array, NO_EDGE, tensor._vc
    return out


class Metadata:
    """Shape, dtype and strides of an array that does not exist.

    It is `_array` of tensors that have no values of their own: those that vmap maps over, and wrapper subclasses. What
    asks for sizes, dtypes and strides goes on as if there were an array. What asks for values gets a RuntimeError,
    however it asks (NumPy's functions, operators, methods): there is no memory that could be read by mistake.

    Args:
        shape: the sizes, a tuple of ints.
        numpy_type: the NumPy dtype.
        strides: in bytes; those of contiguous memory by default.
    """

    __slots__ = ("shape", "dtype", "_strides")
    base = None
    conj_bit = neg_bit = False
    message = (
        "Cannot read the values of this tensor: it has none of its own. It stands for others, as tensors within "
        "vmap and wrapper subclasses do; use operators on it, which reach those."
    )
    __array_priority__ = 1000

    def __init__(self, shape: tuple[int, ...], numpy_type: np.dtype, strides: tuple[int, ...] | None = None) -> None:
        self.shape = shape
        self.dtype = numpy_type
        self._strides = strides

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        size = 1
        for n in self.shape:
            size *= n
        return size

    @property
    def itemsize(self) -> int:
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    @property
    def strides(self) -> tuple[int, ...]:
        if self._strides is None:
            strides, step = [], self.dtype.itemsize
            for n in reversed(self.shape):
                strides.append(step)
                step *= n
            self._strides = tuple(reversed(strides))
        return self._strides

    @property
    def flags(self) -> _Flags:
        return _Flags(self)

    def transpose(self, axes: tuple[int, ...]) -> Metadata:
        """With the dimensions in another order."""
        return Metadata(tuple([self.shape[d] for d in axes]), self.dtype, tuple([self.strides[d] for d in axes]))

    def reshape(self, shape: tuple[int, ...], copy: bool | None = False) -> Metadata:
        """Seen in another shape. Raises ValueError if the strides do not allow it."""
        anything = np.lib.stride_tricks.as_strided(np.empty(1, self.dtype), self.shape, self.strides)  # never read
        seen = anything.reshape(shape, copy=False)
        return Metadata(seen.shape, self.dtype, seen.strides)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of unsized object")
        return self.shape[0]

    def __repr__(self) -> str:
        return f"Metadata({self.shape}, {self.dtype})"

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise RuntimeError(self.message)

    __array__ = __array_ufunc__ = __array_function__ = _refuse
    __getitem__ = __setitem__ = __iter__ = __contains__ = __bool__ = __int__ = __float__ = __complex__ = _refuse
    __index__ = __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _refuse
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __neg__ = __invert__ = __and__ = __or__ = __xor__ = _refuse
    __pow__ = __rpow__ = __matmul__ = __rmatmul__ = __mod__ = __floordiv__ = __abs__ = _refuse
    __hash__ = object.__hash__

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(f"'Metadata' object has no attribute '{name}'")
        self._refuse()


class _Flags:
    """The flags of an array that does not exist."""

    __slots__ = ("c_contiguous", "contiguous", "f_contiguous")
    writeable = True
    owndata = False

    def __init__(self, array: Metadata) -> None:
        step, contiguous = array.itemsize, True
        for n, stride in zip(reversed(array.shape), reversed(array.strides), strict=True):
            contiguous &= n <= 1 or stride == step
            step *= n
        self.c_contiguous = self.contiguous = contiguous or not array.size
        self.f_contiguous = self.c_contiguous and array.ndim < 2
