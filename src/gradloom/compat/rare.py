"""Functions of the main namespace that few programs call: facts about devices and builds, and what only others have."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, Generic, NoReturn, TypeVar

import gradloom as gl
from gradloom.dispatch.overloads import parsed
from gradloom.types import Device, DType
from gradloom.types.public import found_in

T = TypeVar("T")

torch: ModuleType = gl  # which PyTorch's package has, too: some programs write torch.torch
legacy_contiguous_format = gl.contiguous_format


@parsed(("self", "Tensor"))
def get_device(input: gl.Tensor) -> int:
    """Return the number of a tensor's device, -1 for the CPU."""
    return input.get_device()


def get_device_module(device: Device | None = None) -> ModuleType:
    """Return the module of a device, such as `torch.cpu`.

    Args:
        device: the CPU if None.

    Raises RuntimeError for an unknown device, or one without a module.
    """
    name = "cpu" if device is None else gl.device(device).type  # type: ignore[arg-type]
    try:
        return import_module(f"gradloom.{name}")
    except ModuleNotFoundError:
        raise RuntimeError(
            f"Device '{name}' does not have a corresponding module registered as 'torch.{name}'."
        ) from None


def get_file_path(*path_components: str) -> str:
    """Return a path below the folder that gradloom is installed in."""
    return str(Path(gl.__file__).parents[1].joinpath(*path_components))


def thread_safe_generator() -> gl.Generator | None:
    """Return None: there are no worker threads of a DataLoader, which would have a generator of their own."""
    return None


@parsed(("self", "Tensor"))
def is_distributed(input: gl.Tensor) -> bool:
    """Return False; kept for programs written for PyTorch."""
    return False


def is_vulkan_available() -> bool:
    """Return False."""
    return False


def init_num_threads() -> None:
    """Do nothing: the number of threads is known from the start."""


def prepare_multiprocessing_environment(path: str) -> None:
    """Do nothing; kept for programs written for PyTorch."""


def profiler_allow_cudagraph_cupti_lazy_reinit_cuda12() -> bool:
    """Return True."""
    return True


@parsed(("self", "Tensor"), ("the_template", "Tensor"))
def resize_as_sparse_(input: gl.Tensor, the_template: gl.Tensor) -> gl.Tensor:
    """Give a sparse tensor the sizes of another one, in place; see `Tensor.sparse_resize_`."""
    return input.resize_as_sparse_(the_template)


def dequantize(tensor: gl.Tensor) -> gl.Tensor:
    """Return the values as float32: there are no quantized tensors."""
    return tensor.dequantize()


def _copying(name: str) -> Callable[[gl.Tensor], gl.Tensor]:
    def copied(input: gl.Tensor) -> gl.Tensor:
        found: gl.Tensor = getattr(input, name)().clone()
        return found

    copied.__name__ = copied.__qualname__ = f"{name}_copy"
    copied.__doc__ = f"Return a copy of `input.{name}()`, which only compressed sparse tensors have."
    return parsed(("self", "Tensor"))(copied)


class classproperty(Generic[T]):
    """A property of a class: a decorator of a method that takes the class."""

    def __init__(self, func: Callable[[Any], T]) -> None:
        self.func = func
        self.__doc__ = func.__doc__

    def __get__(self, instance: object, owner: Any) -> T:
        return self.func(owner)


def _warn_of_old_name(name: str, device: str) -> None:
    new = name.replace(f"_{device}", "")
    warnings.warn(
        f"torch.{name}() is deprecated. Please use torch.{new}('{device}') instead.", DeprecationWarning, stacklevel=3
    )


def _named(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    function.__name__ = function.__qualname__ = name
    return function


def _autocast_enabled(device: str) -> Callable[[], bool]:
    def enabled() -> bool:
        _warn_of_old_name(enabled.__name__, device)
        return False

    return _named(f"is_autocast_{device}_enabled", enabled)


def _autocast_dtype(device: str, name: str) -> Callable[[], DType]:
    def dtype() -> DType:
        _warn_of_old_name(dtype.__name__, device)
        found: DType = getattr(gl, name)
        return found

    return _named(f"get_autocast_{device}_dtype", dtype)


def _set_autocast_enabled(device: str) -> Callable[[bool], None]:
    def set_enabled(enabled: bool) -> None:
        _warn_of_old_name(set_enabled.__name__, device)
        if enabled:
            raise RuntimeError(f"gradloom computes on the CPU: there is no autocast for '{device}'")

    return _named(f"set_autocast_{device}_enabled", set_enabled)


def _set_autocast_dtype(device: str) -> Callable[[DType], None]:
    def set_dtype(dtype: DType) -> None:
        _warn_of_old_name(set_dtype.__name__, device)

    return _named(f"set_autocast_{device}_dtype", set_dtype)


# Autocast for devices that do not exist here: it is off, and cannot be enabled.
is_autocast_ipu_enabled: Callable[[], bool] = _autocast_enabled("ipu")
is_autocast_xla_enabled: Callable[[], bool] = _autocast_enabled("xla")
get_autocast_ipu_dtype: Callable[[], DType] = _autocast_dtype("ipu", "float16")
get_autocast_xla_dtype: Callable[[], DType] = _autocast_dtype("xla", "bfloat16")
set_autocast_ipu_enabled: Callable[[bool], None] = _set_autocast_enabled("ipu")
set_autocast_xla_enabled: Callable[[bool], None] = _set_autocast_enabled("xla")
set_autocast_ipu_dtype: Callable[[DType], None] = _set_autocast_dtype("ipu")
set_autocast_xla_dtype: Callable[[DType], None] = _set_autocast_dtype("xla")


@parsed(("self", "Tensor"), ("running_mean", "Tensor?"), ("running_var", "Tensor?"), ("momentum", "float"))
def batch_norm_update_stats(
    input: gl.Tensor, running_mean: gl.Tensor | None, running_var: gl.Tensor | None, momentum: float
) -> tuple[gl.Tensor, gl.Tensor]:
    """Return the mean and the biased variance of each channel, and update running ones in place.

    Args:
        input: (batch, channels, *).
        running_mean, running_var: (channels,), or None. The variance is updated with the unbiased one.
        momentum: the weight of the new values.
    """
    dims = [dim for dim in range(input.dim()) if dim != 1]
    with gl.no_grad():
        variance, mean = gl.var_mean(input, dims, correction=0)
        count = input.numel() // max(input.shape[1], 1)
        if running_mean is not None:
            running_mean.lerp_(mean.to(running_mean.dtype), momentum)
        if running_var is not None:
            running_var.lerp_((variance * (count / max(count - 1, 1))).to(running_var.dtype), momentum)
    return mean, variance


@parsed(
    ("self", "Tensor"),
    ("src", "Tensor"),
    ("dim", "int", 0),
    ("start", "int?", None),
    ("end", "int?", None),
    ("step", "int", 1),
)
def slice_inverse(
    input: gl.Tensor, src: gl.Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> gl.Tensor:
    """Return the tensor that `input` is a slice of, as a view; see `Tensor.slice_inverse`."""
    return input.slice_inverse(src, dim, start, end, step)


def _refusing(name: str) -> Callable[..., NoReturn]:
    def refused(*args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(
            f"Could not run 'aten::{name}' with arguments from the 'CPU' backend: PyTorch has it for others only."
        )

    refused.__name__ = refused.__qualname__ = name
    refused.__doc__ = "Raise NotImplementedError, as PyTorch does on a CPU: the operator is for other devices."
    return refused


ccol_indices_copy: Callable[[gl.Tensor], gl.Tensor] = _copying("ccol_indices")
col_indices_copy: Callable[[gl.Tensor], gl.Tensor] = _copying("col_indices")
crow_indices_copy: Callable[[gl.Tensor], gl.Tensor] = _copying("crow_indices")
row_indices_copy: Callable[[gl.Tensor], gl.Tensor] = _copying("row_indices")
indices_copy: Callable[..., NoReturn] = _refusing("indices_copy")
values_copy: Callable[..., NoReturn] = _refusing("values_copy")
native_norm: Callable[..., NoReturn] = _refusing("native_norm")
batch_norm_backward_elemt: Callable[..., NoReturn] = _refusing("batch_norm_backward_elemt")
batch_norm_backward_reduce: Callable[..., NoReturn] = _refusing("batch_norm_backward_reduce")
batch_norm_elemt: Callable[..., NoReturn] = _refusing("batch_norm_elemt")
batch_norm_stats: Callable[..., NoReturn] = _refusing("batch_norm_stats")
batch_norm_gather_stats: Callable[..., NoReturn] = _refusing("batch_norm_gather_stats")
batch_norm_gather_stats_with_counts: Callable[..., NoReturn] = _refusing("batch_norm_gather_stats_with_counts")


_here = [value for value in list(globals().values()) if getattr(value, "__module__", "") == __name__]
found_in("gradloom", *_here)
