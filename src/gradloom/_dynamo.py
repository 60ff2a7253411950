"""The names of torch._dynamo, PyTorch's compiler front end. There is no compiler: functions are returned unchanged."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

from .compiler import (
    allow_in_graph as allow_in_graph,
    assume_constant_result as assume_constant_result,
    disable as disable,
    is_compiling as is_compiling,
    list_backends as list_backends,
    reset as reset,
)
from .utils._refused import declare

# Settings of the compiler: they can be set, and have no effect.
config: Any = SimpleNamespace(
    cache_size_limit=8,
    recompile_limit=8,
    accumulated_cache_size_limit=256,
    capture_dynamic_output_shape_ops=False,
    capture_scalar_outputs=False,
    disable=False,
    optimize_ddp=True,
    suppress_errors=False,
    verbose=False,
)


def graph_break(msg: str = "") -> None:
    """Do nothing: there is no compiled graph to end."""


def is_dynamo_supported() -> bool:
    """Return False."""
    return False


def optimize(*options: Any, **settings: Any) -> Any:
    """Return a decorator that returns its function unchanged."""
    return lambda function: function


optimize_assert = optimize


def mark_static_address(tensor: Any, guard: bool = True) -> None:
    """Do nothing: only a compiler needs to know that a tensor stays where it is."""


def mark_static(tensor: Any, index: Any = None) -> None:
    """Do nothing: only a compiler distinguishes static from dynamic sizes."""


def mark_dynamic(tensor: Any, index: Any, *, min: int | None = None, max: int | None = None) -> None:
    """Do nothing: only a compiler distinguishes static from dynamic sizes."""


maybe_mark_dynamic = mark_static

_REASON = "gradloom has no compiler; torch.compile returns functions and modules unchanged"
_NAMES = {
    "": "OptimizedModule explain export",
    "_trace_wrapped_higher_order_op": "",
    "decorators": "",
    "eval_frame": "OptimizedModule",
    "exc": "BackendCompilerFailed TorchDynamoException Unsupported",
    "external_utils": "",
    "utils": "",
}

__getattr__ = declare(__name__, _NAMES, _REASON)


def is_compile_supported(device_type: str) -> bool:
    """Return whether `torch.compile` runs functions of tensors on a device: True for the CPU."""
    return device_type == "cpu"


class TransformGetItemToIndex(nullcontext[None]):
    """Context without effect: under vmap, `x[index]` takes an index that is a tensor of the batch."""


def _give_away() -> None:
    """Put names into the submodules that PyTorch defines them in."""
    import sys

    names: dict[str, list[Any]] = {
        "_trace_wrapped_higher_order_op": [TransformGetItemToIndex],
        "decorators": [mark_static_address, disable],
        "external_utils": [is_compiling],
        "utils": [is_compile_supported],
    }
    for module, given in names.items():
        for value in given:
            setattr(sys.modules[f"{__name__}.{module}"], value.__name__, value)


_give_away()
