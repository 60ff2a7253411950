"""The handler of calls with tensors of the meta device: devices, views, factories, writes and `out=`."""

from __future__ import annotations

from typing import Any, NoReturn

from ..core.node import bump_version
from ..core.tensor import Tensor
from ..dispatch.function_code import own_code
from ..dispatch.interception import META, Call, call_wrapper, record, register
from ..dispatch.records import is_inplace, name_of, record_of
from ..dispatch.state import AUTOCAST, FORWARD_AD, GRAD_OFF, INTERCEPT, state
from ..memory.metadata import MetaArray, NoDataError
from ..types.device import names_meta
from ..types.dtype import TYPE_OF, can_cast, scalar_type_name
from .arrays import seen, wrap_any
from .rules.sizes import NONZERO
from .runs import compute

_INDICES = frozenset("index indices".split())


def depends_on_values(wrapper: Any) -> bool:
    """Return whether an operator's result depends on values of tensors, and no rule gives its shape without them."""
    record = record_of(wrapper)
    return record is not None and record.depends_on_values and not record.shape


def _tags_of(wrapper: Any) -> tuple[str, ...]:
    record = record_of(wrapper)
    return () if record is None else record.tags


def handle(call: Call) -> Any:
    """Compute an intercepted call on the meta device; NotImplemented if it has nothing to do with it."""
    library = hasattr(call.wrapper, "record")
    tensors = list(call.tensors())
    values = {} if library else dict(zip(parameters(call.wrapper), call.args, strict=False))
    has_meta = any(t.is_meta for t in tensors)
    if not has_meta and not ("device" in values and names_meta(values["device"])):
        return NotImplemented
    if library:
        return _of_library(call)
    name = name_of(call.wrapper)
    if call.composite is not None and call.out is None:
        if depends_on_values(call.wrapper):
            refuse(name)
        return NotImplemented
    return _Meta(call, name, values, tensors).run()


def parameters(wrapper: Any) -> tuple[str, ...]:
    """Return the names of a wrapper's parameters in the order of `Call.args`."""
    code, keywords = own_code(wrapper), getattr(wrapper, "keyword_only", ())
    return (*code.co_varnames[: code.co_argcount], *keywords)


class _Meta:
    """A call with tensors of the meta device, or for it.

    Attributes:
        name: the operator's.
        values: parameter -> argument.
        target: whether its result is on the meta device.
    """

    def __init__(self, call: Call, name: str, values: dict[str, Any], tensors: list[Any]) -> None:
        self.call, self.name, self.values, self.tensors = call, name, values, tensors
        device = values.get("device")
        self.target = True if device is None else names_meta(device)

    def run(self) -> Any:
        call = self.call
        if call.out is not None:
            return self._out()
        if depends_on_values(call.wrapper):
            refuse(self.name)
        if not self.target:
            return self._to_cpu()
        if "device" not in self.values:
            self._check_devices()
        return record(call.wrapper, lambda: compute(call, self.name, self.values), call.args)

    def _check_devices(self) -> None:
        """Raise RuntimeError for tensors on both devices; those of the CPU may be 0-dimensional, or indices, unless the
        operator takes one device. NoDataError, for a tensor of the CPU that would be written without data."""
        tags = _tags_of(self.call.wrapper)
        if "mixed_devices" in tags:
            if not self.tensors[0].is_meta:
                if is_inplace(self.name) and "indices" not in self.values:
                    raise NoDataError(MetaArray.message)
                self._refuse_devices(self.tensors[0], next(t for t in self.tensors if t.is_meta))
            return
        if state.graph_task is not None:
            return  # zeros for an undefined gradient are on the CPU
        strict = "one_device" in tags
        allowed = [v for n, v in self.values.items() if n in _INDICES and not strict]
        first = next(t for t in self.tensors if strict or t._array.ndim or t.is_meta)
        for t in self.tensors:
            counts = strict or t._array.ndim or t.is_meta
            if t.is_meta != first.is_meta and counts and not any(t is a for a in allowed):
                self._refuse_devices(t, first)
        if is_inplace(self.name) and not self.tensors[0].is_meta:
            raise NoDataError("Cannot inplace into non-meta tensor with meta tensor argument")

    def _refuse_devices(self, found: Any, expected: Any) -> NoReturn:
        raise RuntimeError(
            f"Expected all tensors to be on the same device, but found at least two devices, {expected.device} and "
            f"{found.device}! ({self.name}: Tensor on device {found.device} is not on the expected device "
            f"{expected.device}!)"
        )

    def _to_cpu(self) -> Any:
        """Compute a factory on the CPU that takes the geometry of a tensor of the meta device."""
        if self.name == "_to_copy":
            raise NoDataError(MetaArray.message)

        def cpu(value: Any) -> Any:
            return wrap_any(seen(_data(value))) if isinstance(value, Tensor) and value.is_meta else value

        args = [cpu(value) for value in self.call.args]
        return call_wrapper(self.call.wrapper, tuple(args))

    def _out(self) -> Any:
        call = self.call
        outs = call.out if isinstance(call.out, (tuple, list)) else (call.out,)
        if not state.flags & GRAD_OFF and any(t.requires_grad for t in (*self.tensors, *outs)):
            raise RuntimeError(
                f"{self.name.partition('.')[0]}(): functions with out=... arguments don't support automatic "
                "differentiation, but one of the arguments requires grad."
            )
        inputs = [t for t in self.tensors if not any(t is o for o in outs)]
        for target in outs:
            other = next((t for t in inputs if t.is_meta != target.is_meta and t._array.ndim), None)
            if other is not None or not target.is_meta:
                self._refuse_devices(target, other if other is not None else inputs[0])
        values = dict(self.values)
        if "device" in values:
            values["device"] = outs[0].device
        args = (*values.values(), *call.args[len(values) :])
        if call.composite is not None:
            found = _below(lambda: call.composite(*args))
        else:
            found = _below(lambda: handle(call.with_args(args)))
        results = found if isinstance(found, (tuple, list)) else (found,)
        for target, r in zip(outs, results, strict=True):
            given, wanted = TYPE_OF[r._array.dtype], target.dtype
            if not can_cast(given, wanted):
                raise RuntimeError(
                    f"result type {scalar_type_name(given)} can't be cast to the desired output type "
                    f"{scalar_type_name(wanted)}"
                )
            if target._array.shape != r._array.shape:
                target._array = MetaArray(r._array.shape, target._array.dtype)
            bump_version(target)
        return call.out


def _below(function: Any) -> Any:
    """Call a function below autograd, without interception by modes."""
    flags = state.flags
    state.flags = (flags | GRAD_OFF) & ~(INTERCEPT | AUTOCAST | FORWARD_AD)
    try:
        return function()
    finally:
        state.flags = flags


def _data(tensor: Any) -> Any:
    return tensor._array


def refuse(name: str) -> NoReturn:
    """Raise NotImplementedError for an operator whose result depends on values."""
    if name == "nonzero":
        raise NotImplementedError(NONZERO)
    raise NotImplementedError(
        f"aten::{name}: attempted to run this operator with Meta tensors, but there was no fake impl or Meta kernel "
        "registered. Its result depends on values, and a meta tensor has none."
    )


def _of_library(call: Any) -> Any:
    """Call the function that register_fake gave an operator of a library."""
    operator = call.wrapper
    if call.composite is not None:
        return NotImplemented
    fake = operator.kernels.get("Meta") or operator.fake
    if fake is None:
        raise NotImplementedError(
            f"{operator.name}: attempted to run this operator with Meta tensors, but there was no fake impl or Meta "
            f'kernel registered. Register one with gradloom.library.register_fake("{operator.name}")'
        )

    def kernel(*values: Any) -> Any:
        args, keywords = operator.arguments(values)
        return fake(*args, **keywords)

    return operator.record(kernel, *call.args)


register(META, handle)
