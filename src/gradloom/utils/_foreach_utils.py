"""How packages' optimizers group tensors for functions on lists of them: PyTorch's private module of this name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core.tensor import Tensor


def _get_foreach_kernels_supported_devices() -> list[str]:
    """Return the types of devices on which an optimizer takes functions on lists by itself."""
    return ["cuda", "xpu", "mtia", "privateuseone"]


def _get_fused_kernels_supported_devices() -> list[str]:
    """Return the types of devices for which optimizers take `fused=True`."""
    return ["mps", "cuda", "xpu", "hpu", "cpu", "mtia", "privateuseone"]


def _device_has_foreach_support(device: Any) -> bool:
    """Return whether functions on lists work on a device, however fast: True for the CPU."""
    return device.type in (*_get_foreach_kernels_supported_devices(), "cpu")


def _has_foreach_support(tensors: Sequence[Tensor], device: Any) -> bool:
    """Return whether functions on lists work for tensors on a device."""
    return _device_has_foreach_support(device) and all(t is None or type(t) is Tensor for t in tensors)


def _group_tensors_by_device_and_dtype(
    tensorlistlist: Sequence[Sequence[Tensor | None]], with_indices: bool = False
) -> dict[tuple[Any, Any], tuple[list[list[Any]], list[int]]]:
    """Return lists of tensors in groups, by the device and dtype of the tensors in the first list.

    Args:
        tensorlistlist: lists of equal length, such as parameters, gradients and states; others than the first may have
            None, or be empty.
        with_indices: return the positions, too.

    Returns:
        {(device, dtype): (lists of the group, positions, or an empty list)}.

    Raises RuntimeError if there is no list, the first is empty or has None, or the lengths differ.
    """
    if not tensorlistlist or not tensorlistlist[0]:
        raise RuntimeError("expected lists of tensors, of which the first has at least one")
    first = tensorlistlist[0]
    if any(len(each) not in (0, len(first)) for each in tensorlistlist):
        raise RuntimeError(f"expected lists of tensors of equal length, got {[len(each) for each in tensorlistlist]}")
    groups: dict[tuple[Any, Any], tuple[list[list[Any]], list[int]]] = {}
    for i, tensor in enumerate(first):
        if tensor is None:
            raise RuntimeError(
                "Tensors of the first list of nested Tensor lists are supposed to be defined but the "
                f"{i}-th Tensor is not."
            )
        lists, indices = groups.setdefault((tensor.device, tensor.dtype), ([[] for _ in tensorlistlist], []))
        for found, given in zip(lists, tensorlistlist, strict=True):
            if given:
                found.append(given[i])
        if with_indices:
            indices.append(i)
    return groups
