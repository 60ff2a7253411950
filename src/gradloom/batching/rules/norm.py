"""Rules of normalizations: vmap's batch adds further groups to normalize."""

from __future__ import annotations

from math import prod
from typing import Any

from ...core.tangents import tangent_of
from ...core.tensor import Tensor
from ...dispatch import _operators as ops
from ..call import Call
from ..tensor import physical_at
from .conv import as_channels, from_channels

RUNNING = (
    "Batch norm got a batched tensor as input while the running_mean or running_var, which will be updated in "
    "place, were not batched. Within vmap, use a norm without running statistics "
    "(track_running_stats=False, GroupNorm), or eval()."
)


def _affine(call: Call, found: Tensor, shape: Any) -> Tensor:
    """Apply batched weight and bias; `shape` is a parameter's shape that broadcasts with a batch element."""
    for name, combine in (("weight", ops.mul), ("bias", ops.add)):
        value = call[name]
        if value is not None:
            physical = physical_at(value, call.level)
            found = combine(found, ops.reshape(physical, (call.size, *shape)))
    return found


def native_layer_norm(call: Call) -> Any:
    x = call.physical("input")
    separate = call.is_batched("weight") or call.is_batched("bias")
    found = call.invoke({"input": x, **({"weight": None, "bias": None} if separate else {})})
    out = found[0]
    if separate:
        ones = (1,) * (x._array.ndim - 1 - len(call["normalized_shape"]))
        out = _affine(call, out, (*ones, *call["normalized_shape"]))
    return call.wrap((out, *found[1:]))


def native_layer_norm_backward(call: Call) -> Any:
    """Multiply the incoming gradient by the weight; sum parameter gradients within each batch element."""
    shape = tuple(call["normalized_shape"])
    grad, x, mean, rstd = (call.physical(n) for n in ("grad_out", "input", "mean", "rstd"))
    mask = tuple(call["output_mask"])
    rank = x._array.ndim - 1
    lead = rank - len(shape)
    of_input = of_weight = of_bias = None
    if mask[0]:
        inner = grad
        if call["weight"] is not None:
            inner = grad * ops.reshape(call.physical("weight"), (call.size, *(1,) * lead, *shape))
        of_input = call.invoke(
            {
                "grad_out": inner,
                "input": x,
                "mean": mean,
                "rstd": rstd,
                "weight": None,
                "bias": None,
                "output_mask": (True, False, False),
            }
        )[0]
    if mask[1]:
        dims = tuple(range(lead + 1, rank + 1))
        of_weight = _over(grad * _normalized(x, mean, rstd, dims), lead)
    if mask[2]:
        of_bias = _over(grad, lead)
    return call.wrap((of_input, of_weight, of_bias))


def _normalized(x: Tensor, mean: Tensor, rstd: Tensor, dims: tuple[int, ...]) -> Tensor:
    """Return (x - mean) * rstd, differentiable by x, on which the statistics of the forward pass depend without a
    derivative: they are computed again, with the same epsilon."""
    if not x.requires_grad and tangent_of(x) is None:
        return (x - mean) * rstd
    centered = x - ops.mean_dim(x, dims, True, None)
    variance = ops.mean_dim(centered * centered, dims, True, None)
    epsilon = ops.detach(1 / (rstd * rstd) - variance)
    return centered * ops.rsqrt(variance + epsilon)


def _over(tensor: Tensor, lead: int) -> Tensor:
    return ops.sum(tensor, tuple(range(1, lead + 1))) if lead else tensor


def _flat(call: Call, *names: str) -> dict[str, Any]:
    """Return per-channel vectors for the channels of the whole batch."""
    return {n: None if call[n] is None else ops.reshape(call.physical(n), (-1,)) for n in names}


def native_batch_norm(call: Call) -> Any:
    return _batch_norm(call, bool(call.values.get("training", False)))


def batch_norm_with_update(call: Call) -> Any:
    return _batch_norm(call, True)


def _batch_norm(call: Call, training: bool) -> Any:
    x = call.physical("input")
    running: dict[str, Any] = {}
    for n in ("running_mean", "running_var"):
        if n not in call.values:
            continue
        if training and call[n] is not None and not call.is_batched(n):
            raise RuntimeError(RUNNING)
        running[n] = None if call[n] is None else ops.reshape(call.physical(n), (-1,))
    found = call.invoke({"input": as_channels(x), **_flat(call, "weight", "bias"), **running})
    if training:
        for n, flat in running.items():
            if flat is not None and not _shares_memory(flat, call.physical(n)):
                ops.copy_(ops.detach(call.physical(n)), ops.unflatten(ops.detach(flat), 0, (call.size, -1)))
    statistics = [ops.reshape(s, (call.size, s._array.shape[0] // max(call.size, 1))) for s in found[1:]]
    return call.wrap((from_channels(found[0], call.size), *statistics))


def _shares_memory(a: Tensor, b: Tensor) -> bool:
    return a._view is not None and (a._view.base is b or a._view.base is getattr(b._view, "base", None))


def native_batch_norm_backward(call: Call) -> Any:
    changes = {n: as_channels(call.physical(n)) for n in ("grad_out", "input")}
    deviation = "save_invstd" if "save_invstd" in call.values else "save_var"
    vectors = _flat(call, "weight", "running_mean", "running_var", "save_mean", deviation)
    found = call.invoke({**changes, **vectors})
    of_input = None if found[0] is None else from_channels(found[0], call.size)
    return call.wrap((of_input, *[None if f is None else ops.unflatten(f, 0, (call.size, -1)) for f in found[1:]]))


def native_group_norm(call: Call) -> Any:
    x, n, c = call.physical("input"), call["N"], call["C"]
    separate = call.is_batched("weight") or call.is_batched("bias")
    changes: dict[str, Any] = {"input": ops.flatten(x, 0, 1), "N": call.size * n}
    found = call.invoke({**changes, **({"weight": None, "bias": None} if separate else {})})
    out, *statistics = [ops.unflatten(f, 0, (call.size, n)) for f in found]
    if separate:
        out = _affine(call, out, (1, c, *(1,) * (x._array.ndim - 3)))
    return call.wrap((out, *statistics))


def native_group_norm_backward(call: Call) -> Any:
    grad, x, mean, rstd = (call.physical(n) for n in ("grad_out", "input", "mean", "rstd"))
    n, c, group, mask = call["N"], call["C"], call["group"], tuple(call["output_mask"])
    size = call.size
    row = (size, 1, c, *(1,) * (x._array.ndim - 3))
    of_input = of_weight = of_bias = None
    if mask[0]:
        inner = grad if call["weight"] is None else grad * ops.reshape(call.physical("weight"), row)
        folded = {
            name: ops.flatten(t, 0, 1)
            for name, t in (("grad_out", inner), ("input", x), ("mean", mean), ("rstd", rstd))
        }
        of_input = call.invoke({**folded, "weight": None, "N": size * n, "output_mask": (True, False, False)})[0]
        of_input = ops.unflatten(of_input, 0, (size, n))
    if mask[1]:
        sets = (size, n, group, c // group * call["HxW"])
        normal = _normalized(ops.reshape(x, sets), ops.unsqueeze(mean, -1), ops.unsqueeze(rstd, -1), (3,))
        of_weight = _of_channels(grad * ops.reshape(normal, grad.shape), size, c)
    if mask[2]:
        of_bias = _of_channels(grad, size, c)
    return call.wrap((of_input, of_weight, of_bias))


def _of_channels(tensor: Tensor, size: int, channels: int) -> Tensor:
    count = prod(tensor._array.shape[3:])
    laid = ops.reshape(tensor, (size, tensor._array.shape[1], channels, count))
    return ops.sum(laid, (1, 3))
