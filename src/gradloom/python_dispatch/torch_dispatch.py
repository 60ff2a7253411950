"""`__torch_dispatch__`: dispatch modes, and subclasses of Tensor that override operators below autograd.

Note [Torch dispatch]
Below autograd, Python code can handle the call of one overload: the innermost dispatch mode of the thread, then the
classes of the arguments, subclasses first. Their handlers are called as in PyTorch,

    __torch_dispatch__(func, types, args, kwargs)

with `func` an operator object (Note [Operator objects]), lists as lists, numbers as numbers, and without the arguments
that equal their defaults. Within a handler nothing is recorded, a mode does not see its own calls, and writes do not
increment versions: the wrapper records the history of the result (Note [Interception]).

Wrappers recognise a class with `__torch_dispatch__` by its `_operand`, a property that raises AttributeError. `_array`
of an instance holds values (`_make_subclass`), or shape and dtype only (`_make_wrapper_subclass`). Within
`_DisableTorchDispatch` no handler is called, and instances with values are tensors like others.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any

from ..core.edge import NO_EDGE, shallow_copy
from ..core.views import replay_by_operator
from ..dispatch import _operators
from ..dispatch.interception import PYTHON, Call, attend, operand_of, record, register
from ..dispatch.records import name_of
from ..dispatch.state import (
    AUTOCAST,
    FORWARD_AD,
    GRAD_ASKED,
    GRAD_OFF,
    disabled_torch_dispatch,
    overrides_operators,
    state,
    whole_context,
)
from ..memory.metadata import Metadata


def add_subclass(cls: Any) -> None:
    """Let a new subclass override operators, unless its `__torch_dispatch__` is disabled: then it is plain."""
    overrides = cls.__torch_dispatch__ is not disabled_torch_dispatch
    cls._detached_alias = _alias if overrides else _operators.Tensor._detached_alias
    cls._operand = _overridden if overrides else _operators.Tensor.__dict__["_operand"]
    if overrides:
        register(PYTHON, handle)


def _operand(self: Any) -> Any:
    array = self._array
    if state.dispatch_off and array.__class__ is not Metadata:
        return array
    return operand_of(self)


_overridden = property(_operand)


def _alias(self: Any) -> Any:
    """Return the `_detached_alias` of a tensor that overrides operators, with its class and attributes."""
    if self._vc is None:
        self._vc = [0]
    return shallow_copy(self)


def push_mode(mode: Any) -> tuple[Any, ...]:
    """Enter a dispatch mode; return the modes before, for `restore_modes`."""
    register(PYTHON, handle)
    before = state.dispatch_modes
    state.dispatch_modes = (*before, mode)
    attend()
    return before


def restore_modes(modes: tuple[Any, ...]) -> None:
    """Set the dispatch modes of this thread, innermost last."""
    state.dispatch_modes = modes
    attend()


@whole_context
def dispatch_mode(mode: Any) -> Iterator[None]:
    """A `with` block within which a dispatch mode is entered."""
    before = state.dispatch_modes
    try:
        push_mode(mode)
        yield
    finally:
        try:
            restore_modes(before)
        except BaseException:  # see Note [Interrupts]
            restore_modes(before)
            raise


def overloaded(tensors: Any) -> list[Any]:
    """Return one tensor of each class that overrides operators, subclasses before their bases."""
    found: list[Any] = []
    for tensor in tensors:
        cls = tensor.__class__
        if not overrides_operators(cls) or any(cls is t.__class__ for t in found):
            continue
        at = next((i for i, t in enumerate(found) if issubclass(cls, t.__class__)), len(found))
        found.insert(at, tensor)
    return found


def handle(call: Call) -> Any:
    """Call the handlers of modes and classes for an intercepted call, and record the history of the result."""
    whole = call.wrapper.__name__ in _WHOLE if call.composite is not None else True
    if not whole and call.out is None or state.dispatch_off:
        return NotImplemented
    if not state.dispatch_modes and not any(overrides_operators(t.__class__) for t in call.tensors()):
        return NotImplemented
    if call.out is not None:
        _refuse_gradients(call)
        found = dispatch(call, call.args)
        if isinstance(call.out, (tuple, list)):
            for tensor in call.out:
                _operators.bump_version(tensor)
            return found
        _operators.bump_version(call.out)
        return call.out
    if call.composite is not None:
        return _WHOLE[call.wrapper.__name__](call, dispatch(call, call.args))
    if hasattr(call.wrapper, "record"):  # an operator of gradloom.library
        return call.wrapper.record(lambda *args: dispatch(call, args), *call.args)
    found = record(call.wrapper, lambda: dispatch(call, call.args), call.args)
    if getattr(found, "_view", None) is not None and found._array.__class__ is Metadata:
        replay_by_operator(found, call)
    return found


def _detached(call: Call, found: Any) -> Any:
    """Let the result of detach share the version of its source."""
    source = call.args[0]
    if source._vc is None:
        source._vc = [0]
    found._vc = source._vc
    return found


# Composites here that are primitive operators in PyTorch: modes and classes see them whole.
_WHOLE = {"detach": _detached, "equal": lambda call, found: found}


def _refuse_gradients(call: Call) -> None:
    if not state.flags & GRAD_OFF and any(t.requires_grad for t in call.tensors()):
        name = name_of(call.wrapper).partition(".")[0]
        raise RuntimeError(
            f"{name}(): functions with out=... arguments don't support automatic differentiation, but "
            "one of the arguments requires grad."
        )


def dispatch(call: Call, args: tuple[Any, ...]) -> Any:
    """Return the result of the modes and classes that handle a call, below autograd.

    Raises:
        TypeError: if all of them return NotImplemented.
        RuntimeError: if their result does not match the operator's returns.
    """
    op = _overload(call, args)
    schema = op._schema
    outs = () if call.out is None else tuple(call.out) if isinstance(call.out, (tuple, list)) else (call.out,)
    inputs = len(schema.arguments) - len(outs)
    numbers = op._row.numbers.split()
    values = [
        _unwrapped(v) if a.name in numbers or a.type.kind() == "NumberType" else v
        for a, v in zip(schema.arguments, args[:inputs], strict=False)
    ]
    positional, keywords = import_module("gradloom.ops._schema").python_arguments(schema, (*values, *outs))
    if len(args) > inputs:
        _name_placement(schema, keywords)
    tensors = list(Call(call.wrapper, tuple(values), call.out).tensors())
    written = [
        t
        for a, v in zip(schema.arguments, (*values, *outs), strict=False)
        if a.is_write
        for t in (v if isinstance(v, (tuple, list)) else (v,))
        if isinstance(t, _operators.Tensor)
    ]
    versions = [None if t._vc is None else t._vc[0] for t in written]
    flags, outside = state.flags, state.flags_outside
    state.flags_outside = flags
    state.flags = (flags if flags & GRAD_OFF else flags | GRAD_OFF | GRAD_ASKED) & ~(FORWARD_AD | AUTOCAST)
    try:
        found = _call_handlers(op, overloaded(tensors), positional, keywords)
    finally:
        state.flags, state.flags_outside = flags, outside
    for tensor, version in zip(written, versions, strict=True):
        if tensor._vc is not None:
            tensor._vc[0] = version or 0
    return _checked(op, schema, found, tensors, written)


def _overload(call: Call, args: tuple[Any, ...]) -> Any:
    """Return the operator object of a call; PyTorch may have a separate overload for a number as second argument."""
    op = import_module("gradloom.ops").overload_of(call.wrapper, call.out is not None)
    if getattr(args[1] if len(args) > 1 else None, "_wrapped_number", None) is not None:
        same = [
            row
            for row in op.overloadpacket._rows.values()
            if row.function is op._row.function and ("out" in row.tags.split()) == (call.out is not None)
        ]
        return getattr(op.overloadpacket, same[-1].overload)
    return op


def _unwrapped(value: Any) -> Any:
    """Return the number that a tensor wraps, where it stands for a number."""
    number = getattr(value, "_wrapped_number", None) if isinstance(value, _operators.Tensor) else None
    return value if number is None else number


def _name_placement(schema: Any, keywords: dict[str, Any]) -> None:
    """Add the device of a new tensor and pin_memory=False to its arguments, as PyTorch does."""
    names = [a.name for a in schema.arguments]
    if "pin_memory" in names:
        if "device" in names and keywords.get("device") is None and not schema.arguments[0].name == "self":
            keywords["device"] = import_module("gradloom.types.device").CPU
        keywords.setdefault("pin_memory", False)


def _call_handlers(op: Any, overloaded: list[Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call the innermost mode, then the classes, until one does not return NotImplemented."""
    types = tuple([t.__class__ for t in overloaded])
    tried = []
    modes = state.dispatch_modes
    rules = getattr(op._row.made_by, "dispatch_rules", None)
    if modes:
        mode = modes[-1]
        tried.append(f"  - mode object {mode!r}")
        state.dispatch_modes = modes[:-1]
        attend()
        try:
            rule = _rule(rules, type(mode))
            found = handler_of(mode)(op, types, args, kwargs) if rule is None else rule(mode, op, types, args, kwargs)
        finally:
            state.dispatch_modes = modes
            attend()
        if found is not NotImplemented:
            return found
    for tensor in overloaded:
        tried.append(f"  - tensor subclass {tensor.__class__!r}")
        rule = _rule(rules, tensor.__class__)
        found = (
            tensor.__class__.__torch_dispatch__(op, types, args, kwargs)
            if rule is None
            else rule(op, types, args, kwargs)
        )
        if found is not NotImplemented:
            return found
    raise TypeError(
        "\n".join(
            [
                f"Multiple dispatch failed for 'gradloom.ops.{op}'; all __torch_dispatch__ "
                "handlers returned NotImplemented:\n",
                *tried,
            ]
        )
    )


def _rule(rules: Any, cls: type) -> Any:
    return next((rules[c] for c in cls.__mro__ if c in rules), None) if rules else None


def handler_of(mode: Any) -> Any:
    """Return the `__torch_dispatch__` of a mode.

    Raises RuntimeError if it is a classmethod.
    """
    found = mode.__torch_dispatch__
    if getattr(found, "__self__", None) is type(mode):
        raise RuntimeError(
            "Defining your mode's `__torch_dispatch__` as a classmethod is not supported, please make it a plain method"
        )
    return found


def _checked(op: Any, schema: Any, found: Any, inputs: list[Any], written: list[Any]) -> Any:
    """Return the result of a handler in the form of the operator's returns.

    Raises RuntimeError if a result that must be a tensor is none, or the number of results differs.
    """
    returns = schema.returns
    if not returns:
        return None
    if len(returns) == 1:
        return _one(op, returns[0], found, inputs, written)
    if not isinstance(found, (tuple, list)) or len(found) != len(returns):
        raise RuntimeError(
            f"{op}: __torch_dispatch__ returned {type(found).__name__}, but it has {len(returns)} results: {schema}"
        )
    return tuple([_one(op, r, v, inputs, written) for r, v in zip(returns, found, strict=True)])


def _one(op: Any, expected: Any, value: Any, inputs: list[Any], written: list[Any]) -> Any:
    kind = expected.type.without_optional.kind()
    if kind == "ListType" and isinstance(value, (tuple, list)):
        return [_one(op, expected.element(), v, inputs, written) for v in value]
    if kind not in ("TensorType", "ListType") or value is None:
        return value
    if kind == "ListType" or not isinstance(value, _operators.Tensor):
        raise RuntimeError(
            f"Unable to cast {value!r} to Tensor: __torch_dispatch__ returned it for {op}, which returns {expected}"
        )
    if any(value is t for t in written):
        return value
    if any(value is t for t in inputs) or value._edge is not NO_EDGE:
        return fresh(value)  # its history will be replaced
    return value


def fresh(tensor: Any) -> Any:
    """Return an alias: the same tensor as another object, without history."""
    return tensor._detached_alias()


def local_scalar(tensor: Any) -> Any:
    """Call aten::_local_scalar_dense, as which modes and classes see `item()`."""
    return import_module("gradloom._library.registry").without_wrapper("_local_scalar_dense")(tensor)


def lift_fresh(tensor: Any) -> Any:
    """Call aten::lift_fresh, as which modes see a tensor made from data."""
    return import_module("gradloom._library.registry").without_wrapper("lift_fresh")(tensor)


def make_wrapper_subclass(
    cls: Any,
    size: Any,
    strides: Any = None,
    storage_offset: int | None = None,
    memory_format: Any = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    **_: Any,
) -> Any:
    """See `Tensor._make_wrapper_subclass`."""
    if not overrides_operators(cls):
        raise TypeError(f"{cls.__name__} must define __torch_dispatch__ to be made by _make_wrapper_subclass")
    from ..types.device import META, names_meta
    from ..types.dtype import get_default_dtype

    numpy_type = (dtype or get_default_dtype()).numpy
    shape = tuple([int(n) for n in size])
    steps = None if strides is None else tuple([int(s) * numpy_type.itemsize for s in strides])
    out = object.__new__(cls)
    out._array = Metadata(shape, numpy_type, steps)
    out._edge, out._vc = NO_EDGE, None
    if device is not None and names_meta(device):
        out.__dict__.update(device=META, is_meta=True, is_cpu=False)
    if requires_grad:
        out.requires_grad = True
    return out
