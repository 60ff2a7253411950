"""The handler of calls with float8 tensors; see Note [Float8 tensors]."""

from __future__ import annotations

from typing import Any, NoReturn

from ..core.tensor import Tensor, wrap
from ..dispatch.interception import Call, call_wrapper, record
from ..dispatch.records import Float8, record_of
from ..dispatch.state import AUTOCAST, FORWARD_AD, GRAD_OFF, INTERCEPT, state
from ..kernels._common.numbers import convertible
from ..types.dtype import FLOAT8, float8_e8m0fnu, float32, scalar_type_name, type_text

# The numbers of elements for which an operator computes; 2 stands for more than one.
_COUNTS = {"": (), "empty": (0,), "one": (1,), "empty_or_one": (0, 1), "all": (0, 1, 2), "in_float32": (0, 1, 2)}


def handle(call: Call) -> Any:
    """Compute or refuse an intercepted call with float8 tensors; NotImplemented if it has nothing to do with it."""
    tensors = [t for t in call.tensors() if t._array.itemsize == 1 and t.dtype in FLOAT8]
    run_functions = getattr(call, "run_functions", None)
    if run_functions is not None:  # an operator of a library: what its functions call comes here in turn
        return run_functions() if tensors and call.composite is None else NotImplemented
    inputs = [t for t in tensors if t is not call.out]
    if not inputs:
        return _allowed(call) if tensors else NotImplemented
    record, dtype = record_of(call.wrapper), inputs[0].dtype
    assert record is not None
    facts = record.float8_e8m0 if dtype is float8_e8m0fnu and record.float8_e8m0 is not None else record.float8
    if facts is None:
        if call.composite is not None:
            return NotImplemented if call.out is None else _allowed(call)
        facts = Float8("", f"{record.operator[:-1] if record.is_inplace else record.operator}_cpu")
    if facts.number_error and _by_number(call.args):
        _refuse(facts.number_error, dtype)
    if min(max(t._array.size for t in inputs), 2) in _COUNTS[facts.computes]:
        if call.composite is not None and call.out is None:
            return NotImplemented
        in_float32 = record.float8 is not None and record.float8.computes == "in_float32" and call.out is None
        return _in_float32(call, record.is_inplace, dtype) if in_float32 else _allowed(call)
    if call.composite is None and call.out is None:
        _check_as_kernel(call, record.is_inplace)
    _refuse(facts.error, dtype)


def _by_number(args: tuple[Any, ...]) -> bool:
    """Return whether the second argument is a number or a 0-dimensional tensor."""
    return len(args) > 1 and (not isinstance(args[1], Tensor) or not args[1]._array.ndim)


def _refuse(words: str, dtype: Any) -> NoReturn:
    if " " in words:
        raise RuntimeError(words.replace("{}", type_text(dtype) if "argument #" in words else scalar_type_name(dtype)))
    raise NotImplementedError(f"\"{words}\" not implemented for '{scalar_type_name(dtype)}'")


def _allowed(call: Call) -> Any:
    """Run the operator with its own kernel."""
    flags, before = state.flags, state.float8
    state.flags, state.float8 = flags & ~(INTERCEPT | AUTOCAST), True
    try:
        return call.plain()
    finally:
        state.flags, state.float8 = flags, before


def _changed(args: tuple[Any, ...], change: Any) -> tuple[Any, ...]:
    """Return the arguments with each float8 tensor changed, also in lists."""

    def of(value: Any) -> Any:
        if isinstance(value, Tensor):
            return change(value) if value.dtype in FLOAT8 else value
        return value.__class__(map(of, value)) if value.__class__ in (tuple, list) else value

    return tuple(map(of, args))


def _in_float32(call: Call, own: bool, dtype: Any) -> Any:
    """Compute in float32 and round; the history is that of the operator itself."""
    _check_as_kernel(call, own)
    args = _changed(call.args, lambda t: wrap(t._array.astype(float32.numpy)))

    def kernel() -> Any:
        flags, before = state.flags, state.float8
        state.flags, state.float8 = (flags | GRAD_OFF) & ~(INTERCEPT | AUTOCAST | FORWARD_AD), True
        try:
            found = call_wrapper(call.wrapper, args)
        finally:
            state.flags, state.float8 = flags, before
        rounded = convertible(found._array, dtype.numpy).astype(dtype.numpy)
        if own:
            call.args[0]._array[...] = rounded
            return call.args[0]
        return wrap(rounded)

    return record(call.wrapper, kernel, call.args)


def _check_as_kernel(call: Call, own: bool) -> None:
    """Raise what the operator's kernel says of shapes, dimensions and dtypes, which PyTorch checks first."""
    args = _changed(call.args, lambda t: wrap(t._array.copy())) if own else call.args
    flags, before = state.flags, state.float8
    state.flags, state.float8 = (flags | GRAD_OFF) & ~(INTERCEPT | AUTOCAST | FORWARD_AD), True
    try:
        call_wrapper(call.wrapper, args)
    except NotImplementedError:
        return
    except (IndexError, RuntimeError):
        raise
    except Exception:
        return  # the kernel itself does not take the dtype
    finally:
        state.flags, state.float8 = flags, before
