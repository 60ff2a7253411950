"""`autocast`, and the decorators for custom Functions that run inside it."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Mapping
from typing import Any, Self, TypeVar

from ..dispatch import _operators as ops
from ..dispatch.state import Whole
from ..types.dtype import bfloat16, dtype as DType, float16, float64
from .settings import (
    clear_autocast_cache,
    get_autocast_dtype,
    is_autocast_available,
    is_autocast_cache_enabled,
    is_autocast_enabled,
    set_autocast_cache_enabled,
    set_autocast_dtype,
    set_autocast_enabled,
    settings,
)

__all__ = ["autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]

_Function = TypeVar("_Function", bound=Callable[..., Any])
CPU_DTYPES = (bfloat16, float16)


class autocast(Whole):
    """Compute products and convolutions in lower precision within a region, and sensitive operators in float32.

    Operators whose YAML entry has the key `autocast` cast their floating-point arguments; the others compute in the
    dtypes they are given. Parameters and their gradients keep their dtypes. A context manager and a decorator; regions
    may be nested, with other dtypes or with `enabled=False`.

    Args:
        device_type: "cpu". Regions for other device types have no effect.
        dtype: bfloat16 or float16; default: `get_autocast_dtype(device_type)`, which is bfloat16 at first.
        enabled: whether to cast within the region.
        cache_enabled: whether a parameter that is used several times is cast once; default: the current setting, which
            is True at first.

    Warns:
        UserWarning: casting is disabled, because the CPU does not cast to `dtype` or the device is "cuda".

    Raises:
        ValueError: if `device_type` is not a string.
        TypeError: if `dtype` is not a dtype.
        RuntimeError: if the device type has no autocast.
    """

    device: str

    def __init__(
        self, device_type: str, dtype: DType | None = None, enabled: bool = True, cache_enabled: bool | None = None
    ) -> None:
        _check_device_type(device_type)
        default = get_autocast_dtype(device_type)
        self.device = device_type.partition(":")[0]
        self.fast_dtype: DType = default if dtype is None else dtype
        self._cache_enabled = is_autocast_cache_enabled() if cache_enabled is None else cache_enabled
        self._enabled = bool(enabled) and self._is_possible()

    def _is_possible(self) -> bool:
        """Return whether casting can be enabled; warn if it cannot."""
        if not isinstance(self.fast_dtype, DType):
            raise TypeError(f"autocast(): argument 'dtype' must be torch.dtype, not {type(self.fast_dtype).__name__}")
        if self.device == "cpu" and self.fast_dtype not in CPU_DTYPES:
            warnings.warn(
                f"In CPU autocast, but the target dtype is not supported: {self.fast_dtype}. Disabling "
                f"autocast.\nOn the CPU it casts to {' and '.join(map(str, CPU_DTYPES))}.",
                stacklevel=3,
            )
            return False
        if self.device == "cuda":
            warnings.warn("CUDA is not available. Disabling autocast. Use torch.autocast('cpu').", stacklevel=3)
            return False
        return True

    def _change(self) -> Self:
        device = self.device
        before = is_autocast_enabled(device), get_autocast_dtype(device), is_autocast_cache_enabled()
        region = settings()
        self._keep((region.nesting, before))
        self._set(self._enabled, self.fast_dtype, self._cache_enabled)
        region.nesting += 1
        return self

    def _restore(self, before: tuple[int, tuple[bool, DType, bool]]) -> None:
        settings().nesting, former = before
        if before[0] == 0:
            clear_autocast_cache()
        self._set(*former)

    def _set(self, enabled: bool, dtype: DType, caches: bool) -> None:
        set_autocast_enabled(self.device, enabled)
        set_autocast_dtype(self.device, dtype)
        set_autocast_cache_enabled(caches)

    def __call__(self, function: _Function) -> _Function:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            with self._again():  # several threads may run the function at once
                return function(*args, **kwargs)

        return call  # type: ignore[return-value]

    def _again(self) -> autocast:
        """Return another region with the same settings."""
        found = object.__new__(autocast)
        found.__dict__.update(self.__dict__, _kept=())
        return found


def _enter_autocast(*args: Any) -> autocast:
    """Enter a region with these arguments; `_exit_autocast` leaves it."""
    return autocast(*args).__enter__()


def _exit_autocast(mode: autocast) -> None:
    """Leave a region that `_enter_autocast` entered."""
    mode.__exit__(None, None, None)


def _check_device_type(device_type: object) -> None:
    if not isinstance(device_type, str):
        raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")


def _cast(value: Any, device_type: str, dtype: DType) -> Any:
    """Cast the floating-point tensors in a value, also in mappings, lists and tuples, except float64 ones."""
    if isinstance(value, ops.Tensor):
        casts = value.is_floating_point() and value.device.type == device_type and value.dtype is not float64
        return value.to(dtype) if casts else value
    if isinstance(value, Mapping):
        return {_cast(k, device_type, dtype): _cast(v, device_type, dtype) for k, v in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*[_cast(v, device_type, dtype) for v in value])
    if isinstance(value, (list, tuple)):
        return type(value)([_cast(v, device_type, dtype) for v in value])
    return value


def custom_fwd(fwd: Callable[..., Any] | None = None, *, device_type: str, cast_inputs: DType | None = None) -> Any:
    """Decorate the `forward` of a custom Function for use within autocast; decorate its `backward` with `custom_bwd`.

    Args:
        fwd: the static method `forward(ctx, *args)`; None returns a decorator.
        device_type: the device type of the region: "cpu".
        cast_inputs: within a region, cast floating-point tensors among the arguments to this dtype and run the body
            with autocast disabled. None leaves the arguments and autocast as they are.

    Raises:
        ValueError: if `device_type` is not a string.
    """
    _check_device_type(device_type)
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def forward(ctx: Any, *args: Any, **kwargs: Any) -> Any:
        ctx._dtype = get_autocast_dtype(device_type)
        enabled = is_autocast_enabled(device_type)
        ctx._fwd_used_autocast = enabled and cast_inputs is None
        if cast_inputs is None or not enabled:
            return fwd(ctx, *args, **kwargs)
        with autocast(device_type, enabled=False):
            return fwd(ctx, *_cast(args, device_type, cast_inputs), **_cast(kwargs, device_type, cast_inputs))

    return forward


def custom_bwd(bwd: Callable[..., Any] | None = None, *, device_type: str) -> Any:
    """Decorate the `backward` of a custom Function to run with the autocast settings of its forward.

    Args:
        bwd: the static method `backward(ctx, *grads)`; None returns a decorator.
        device_type: the device type of the region: "cpu".

    Raises:
        ValueError: if `device_type` is not a string.
        AttributeError: in backward, if the forward was not decorated with `custom_fwd`.
    """
    _check_device_type(device_type)
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def backward(ctx: Any, *grads: Any) -> Any:
        if not hasattr(ctx, "_fwd_used_autocast"):
            raise AttributeError(
                f"'{type(ctx).__name__}' object has no attribute '_fwd_used_autocast': decorate its "
                "forward with custom_fwd"
            )
        with autocast(device_type, dtype=ctx._dtype, enabled=ctx._fwd_used_autocast):
            return bwd(ctx, *grads)

    return backward
