"""Functions that make distributed tensors: zeros, ones, empty, full, linspace, logspace, rand and randn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import gradloom as gl

from ..device_mesh import DeviceMesh
from ._dtensor import DTensor, _mesh_or_current, _part
from ._spec import DTensorSpec, TensorMeta
from .placement_types import Placement, Replicate, normalized

__all__ = ["empty", "full", "linspace", "logspace", "ones", "rand", "randn", "zeros"]


def _made(
    fill: Callable[..., Any],
    size: Any,
    dtype: Any,
    layout: Any,
    requires_grad: bool,
    device_mesh: DeviceMesh | None,
    placements: Sequence[Placement] | None,
    is_whole: bool = False,
) -> DTensor:
    mesh = _mesh_or_current(device_mesh)
    shape = tuple(size[0]) if len(size) == 1 and isinstance(size[0], Sequence) else tuple(size)
    found = normalized([Replicate()] * mesh.ndim if placements is None else placements, len(shape), mesh.ndim)
    if any(one.is_partial() for one in found):
        raise RuntimeError("A tensor that is made cannot be a sum over the processes: leave Partial out")
    spec = DTensorSpec(mesh, found, TensorMeta.contiguous(shape, dtype or gl.get_default_dtype()))
    options = {"dtype": dtype, "layout": layout or gl.strided}
    if is_whole:  # its numbers depend on their places
        local = fill(shape, **options)
        for mesh_dim, one in enumerate(found):
            local = _part(local, one, mesh, mesh_dim, None)
    else:
        local = fill(spec.local_shape(), **options)
    made = DTensorSpec(mesh, found, TensorMeta(shape, spec.tensor_meta.stride, local.dtype))
    return DTensor(local, made, requires_grad=requires_grad)


def zeros(
    *size: Any,
    requires_grad: bool = False,
    dtype: Any = None,
    layout: Any = None,
    device_mesh: DeviceMesh | None = None,
    placements: Sequence[Placement] | None = None,
) -> DTensor:
    """Return a distributed tensor of zeros.

    Args:
        size: of the whole tensor: a sequence, or integers.
        requires_grad: whether gradients are recorded.
        dtype: the default dtype if None.
        layout: `torch.strided`.
        device_mesh: the processes; the mesh entered by `with` if None.
        placements: one for each dimension of the mesh; replicated if None.
    """
    return _made(gl.zeros, size, dtype, layout, requires_grad, device_mesh, placements)


def ones(
    *size: Any,
    dtype: Any = None,
    layout: Any = None,
    requires_grad: bool = False,
    device_mesh: DeviceMesh | None = None,
    placements: Sequence[Placement] | None = None,
) -> DTensor:
    """Return a distributed tensor of ones; see `zeros` for the arguments."""
    return _made(gl.ones, size, dtype, layout, requires_grad, device_mesh, placements)


def empty(
    *size: Any,
    dtype: Any = None,
    layout: Any = None,
    requires_grad: bool = False,
    device_mesh: DeviceMesh | None = None,
    placements: Sequence[Placement] | None = None,
) -> DTensor:
    """Return a distributed tensor with any values; see `zeros` for the arguments."""
    return _made(gl.empty, size, dtype, layout, requires_grad, device_mesh, placements)


def full(
    size: Any,
    fill_value: Any,
    *,
    dtype: Any = None,
    layout: Any = None,
    requires_grad: bool = False,
    device_mesh: DeviceMesh | None = None,
    placements: Sequence[Placement] | None = None,
) -> DTensor:
    """Return a distributed tensor with one value everywhere; see `zeros` for the other arguments.

    Args:
        size: of the whole tensor.
        fill_value: the value.
    """

    def fill(shape: Any, **options: Any) -> Any:
        return gl.full(shape, fill_value, **options)

    return _made(fill, (size,), dtype, layout, requires_grad, device_mesh, placements)


def rand(
    *size: Any,
    requires_grad: bool = False,
    dtype: Any = None,
    layout: Any = None,
    device_mesh: DeviceMesh | None = None,
    placements: Sequence[Placement] | None = None,
) -> DTensor:
    """Return a distributed tensor of random numbers between 0 and 1; see `zeros` for the arguments.

    All processes must have the same seed. The whole tensor has the values that `torch.rand` gives.
    """
    return _made(gl.rand, size, dtype, layout, requires_grad, device_mesh, placements, is_whole=True)


def randn(
    *size: Any,
    requires_grad: bool = False,
    dtype: Any = None,
    layout: Any = None,
    device_mesh: DeviceMesh | None = None,
    placements: Sequence[Placement] | None = None,
) -> DTensor:
    """Return a distributed tensor of normally distributed random numbers; see `rand`."""
    return _made(gl.randn, size, dtype, layout, requires_grad, device_mesh, placements, is_whole=True)


def linspace(
    start: Any,
    end: Any,
    steps: int,
    *,
    dtype: Any = None,
    layout: Any = None,
    requires_grad: bool = False,
    device_mesh: DeviceMesh | None = None,
    placements: Sequence[Placement] | None = None,
) -> DTensor:
    """Return a distributed tensor of evenly spaced numbers; see `zeros` for the other arguments.

    Args:
        start, end: the first and last number, which may be tensors without dimensions.
        steps: how many numbers there are.
    """
    line = partial(gl.linspace, _number(start), _number(end), steps)
    return _made(_without_shape(line), (steps,), dtype, layout, requires_grad, device_mesh, placements, is_whole=True)


def logspace(
    start: Any,
    end: Any,
    steps: int,
    base: float = 10.0,
    *,
    dtype: Any = None,
    layout: Any = None,
    requires_grad: bool = False,
    device_mesh: DeviceMesh | None = None,
    placements: Sequence[Placement] | None = None,
) -> DTensor:
    """Return a distributed tensor of powers of `base` with evenly spaced exponents; see `linspace`."""
    line = partial(gl.logspace, _number(start), _number(end), steps, base)
    return _made(_without_shape(line), (steps,), dtype, layout, requires_grad, device_mesh, placements, is_whole=True)


def _number(value: Any) -> Any:
    if not isinstance(value, gl.Tensor):
        return value
    if value.dim():
        raise RuntimeError("linspace only supports 0-dimensional start and end tensors")
    return value.item()


def _without_shape(fill: Callable[..., Any]) -> Callable[..., Any]:
    return lambda shape, **options: fill(**options)
