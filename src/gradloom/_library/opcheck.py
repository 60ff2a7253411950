"""opcheck: compare an operator with its schema and registrations; and the context of fake functions."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Sequence
from typing import Any

from ..autograd import grad
from ..core.tensor import Tensor
from ..dispatch import _operators
from ..memory.ownership import owner
from ..ops._objects import OpOverload, OpOverloadPacket
from . import registry
from .autograd import tensors_of
from .custom_ops import CustomOpDef
from .operator import AUTOGRAD

TESTS = ("test_schema", "test_autograd_registration", "test_faketensor", "test_backward")
_COMPILED = ("test_aot_dispatch_static", "test_aot_dispatch_dynamic")


# Stands for a size that depends on values; a prime that tests are unlikely to use.
DYNAMIC = 7919


class FakeImplCtx:
    """The object that `gradloom.library.get_ctx()` returns within a function given to register_fake."""

    def new_dynamic_size(self, *, min: int = 0, max: int | None = None) -> int:
        """Return an extent of a result that depends on the values of the arguments.

        Args:
            min, max: its bounds.

        Raises ValueError if it may not be negative.
        """
        if min < 0:
            raise ValueError(
                f"ctx.new_dynamic_size(min={min}, max={max}): expected min to be greater than or equal to "
                "0: this API can only create non-negative sizes."
            )
        return DYNAMIC

    create_unbacked_symint = new_dynamic_size


class _Current(threading.local):
    ctx: FakeImplCtx | None = None


_current = _Current()


def get_ctx() -> FakeImplCtx | None:
    """Return the context in which a function given to register_fake runs; None outside of one."""
    return _current.ctx


def fake_call(function: Callable[..., Any], arguments: tuple[Any, Any]) -> Any:
    """Call a function given to register_fake with positional and keyword arguments."""
    before, _current.ctx = _current.ctx, FakeImplCtx()
    try:
        return function(*arguments[0], **arguments[1])
    finally:
        _current.ctx = before


class OpCheckError(Exception):
    """Raised by opcheck if an operator differs from its schema or registrations."""

    __module__ = "gradloom.library"


def opcheck(
    op: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    *,
    test_utils: str | Sequence[str] = TESTS,
    raise_exception: bool = True,
    atol: float | None = None,
    rtol: float | None = None,
) -> dict[str, Any]:
    """Check an operator's registrations with one set of arguments; gradcheck checks its gradients.

    Args:
        op: an OpOverload, an operator with one overload, or a CustomOpDef.
        args, kwargs: its arguments; some require grad if it has a derivative.
        test_utils: the checks, of
            `test_schema` (aliases and writes are those of the schema), `test_autograd_registration` (results that
            require grad come from a registered derivative), `test_faketensor` (the function given to register_fake
            returns the right shapes and dtypes; skipped without one) and `test_backward` (backward runs, if an
            argument requires grad). The names of PyTorch's checks with its compiler mean `test_backward`.
        raise_exception: whether to raise at the first check that fails.
        atol, rtol: have no effect, since nothing is compiled.

    Returns:
        For each check `"SUCCESS"` or the exception.

    Raises:
        OpCheckError: if a check fails and raise_exception is set.
        ValueError: if `op` is not an operator, or a check does not exist.
    """
    names = (test_utils,) if isinstance(test_utils, str) else tuple(test_utils)
    if not {*names} <= {*TESTS, *_COMPILED}:
        raise ValueError(
            f"opcheck(op, ..., test_utils={names}), expected test_utils to be subset of "
            f"{(*TESTS, *_COMPILED)} but it was not"
        )
    if isinstance(op, CustomOpDef):
        op = op._opoverload
    elif isinstance(op, OpOverloadPacket) and len(op.overloads()) == 1:
        op = getattr(op, op.overloads()[0])
    if not isinstance(op, OpOverload):
        raise ValueError(
            "opcheck(op, ...): op must be instance of torch._ops.OpOverload, e.g. "
            f"torch.ops.aten.sin.default, got {type(op)}"
        )
    results: dict[str, Any] = {}
    for name in names:
        check = _CHECKS["test_backward" if name in _COMPILED else name]
        try:
            check(op, args, kwargs or {})
            results[name] = "SUCCESS"
        except Exception as error:
            if raise_exception:
                raise OpCheckError(f"opcheck(op, ...): {name} failed with {error}") from error
            results[name] = error
    return results


def _copied(op: OpOverload, args: Any, kwargs: Any) -> tuple[Any, Any]:
    """Return the arguments with copies of the tensors; those that are written to are not leaves."""
    written = {a.name for a in op._schema.arguments if a.is_write}
    names = [a.name for a in op._schema.arguments]
    values = [_copy(v, name in written) for v, name in zip(args, names, strict=False)]
    return values, {name: _copy(v, name in written) for name, v in kwargs.items()}


def _copy(value: Any, written: bool) -> Any:
    if isinstance(value, Tensor):
        out = value.detach().clone().requires_grad_(value.requires_grad)
        return _operators.clone(out) if written and out.requires_grad else out
    if isinstance(value, (list, tuple)):
        return type(value)(_copy(v, written) for v in value)
    return copy.copy(value)


def _named(op: OpOverload, args: Any, kwargs: Any) -> dict[str, list[Any]]:
    """Return the tensors of each argument."""
    given = dict(zip((a.name for a in op._schema.arguments), args, strict=False)) | dict(kwargs)
    return {name: list(tensors_of((value,))) for name, value in given.items()}


def _results(found: Any) -> list[Any]:
    return list(tensors_of(found if isinstance(found, tuple) else (found,)))


def _check_schema(op: OpOverload, args: Any, kwargs: Any) -> None:
    args, kwargs = _copied(op, args, kwargs)
    named = _named(op, args, kwargs)
    before = {name: [t._array.copy() for t in tensors] for name, tensors in named.items()}
    found = op(*args, **kwargs)
    for argument in op._schema.arguments:
        tensors = named.get(argument.name, [])
        if not argument.is_write and any(
            old.tobytes() != t._array.tobytes() for old, t in zip(before.get(argument.name, []), tensors, strict=True)
        ):
            raise RuntimeError(f"Argument {argument.name} is not defined as mutable but was mutated")
        if argument.alias_info is None:
            mine = {id(owner(t._array)) for t in tensors}
            if any(id(owner(r._array)) in mine for r in _results(found)):
                raise RuntimeError(f"Argument {argument.name} is not defined to alias output but was aliasing")


def _check_registration(op: OpOverload, args: Any, kwargs: Any) -> None:
    if not any(t.requires_grad for tensors in _named(op, args, kwargs).values() for t in tensors):
        return
    if any(map(op.has_kernel_for_dispatch_key, (*AUTOGRAD, "CompositeImplicitAutograd"))):
        return
    args, kwargs = _copied(op, args, kwargs)
    if any(t.requires_grad for t in _results(op(*args, **kwargs))):
        raise RuntimeError(
            f"{op.name()}: at least one output of this operator has requires_grad=True but the operator "
            "does not have an autograd kernel defined at an autograd key (e.g. DispatchKey::Autograd). "
            "If it is made of differentiable operators, register it as CompositeImplicitAutograd; else "
            "give it a derivative with register_autograd."
        )


def _check_fake(op: OpOverload, args: Any, kwargs: Any) -> None:
    operator = registry.operators.get(op.name())
    if operator is None or operator.fake is None:
        return
    args, kwargs = _copied(op, args, kwargs)
    wanted = _results(op(*args, **kwargs))
    found = _results(fake_call(operator.fake, _copied(op, args, kwargs)))
    said = f"When comparing the output of {op} on FakeTensor and concrete Tensors, found"
    if len(wanted) != len(found):
        raise RuntimeError(f"{said} {len(found)} and {len(wanted)} tensors")
    for real, fake in zip(wanted, found, strict=True):
        if not _same_shape(real, fake):
            raise RuntimeError(
                f"{said} mismatched tensor metadata: Shapes {real.shape} and {fake.shape} are not equal!"
            )
        if real.dtype is not fake.dtype:
            raise RuntimeError(
                f"{said} mismatched tensor metadata: Dtypes {real.dtype} and {fake.dtype} are not equal!"
            )


def _same_shape(real: Any, fake: Any) -> bool:
    return len(real.shape) == len(fake.shape) and all(
        m in (n, DYNAMIC) for n, m in zip(real.shape, fake.shape, strict=True)
    )


def _check_backward(op: OpOverload, args: Any, kwargs: Any) -> None:
    args, kwargs = _copied(op, args, kwargs)
    leaves = [t for tensors in _named(op, args, kwargs).values() for t in tensors if t.requires_grad]
    outputs = [t for t in _results(op(*args, **kwargs)) if t.requires_grad]
    if leaves and outputs:
        grad(outputs, leaves, [_operators.ones_like(t) for t in outputs], allow_unused=True)


_CHECKS: dict[str, Callable[[OpOverload, Any, Any], None]] = {
    "test_schema": _check_schema,
    "test_autograd_registration": _check_registration,
    "test_faketensor": _check_fake,
    "test_backward": _check_backward,
}
