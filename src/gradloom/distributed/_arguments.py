"""Arguments of collectives: overrides by other classes of tensors, checks, roots."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import gradloom as gl

from ..overrides import handle_torch_function, has_torch_function
from ._world import _canonicalize_group_rank, _group_or_default_group, _rank_not_in_group, _warn_not_in_group

__all__ = [
    "_check_single_tensor",
    "_check_tensor_list",
    "_ensure_all_tensors_same_dtype",
    "_finish",
    "_root",
    "_set",
    "_validate_output_list_for_rank",
    "_with_list",
    "overridable",
]

_Function = TypeVar("_Function", bound=Callable[..., Any])


def overridable(position: int) -> Callable[[_Function], _Function]:
    """Let classes with `__torch_function__` override a collective by the tensor, or tensors, at a position."""

    def decorate(function: _Function) -> _Function:
        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            given = args[position] if position < len(args) else None
            if given.__class__ is not gl.Tensor and given is not None:
                relevant = tuple(given) if isinstance(given, (list, tuple)) else (given,)
                if has_torch_function(relevant):
                    return handle_torch_function(call, relevant, *args, **kwargs)
            return function(*args, **kwargs)

        return call  # type: ignore[return-value]

    return decorate


def _check_single_tensor(param: Any, name: str) -> None:
    if not isinstance(param, gl.Tensor):
        raise TypeError(
            f"Invalid function argument. Expected parameter `{name}` of type torch.Tensor\n"
            f"             but got {type(param)} instead."
        )


def _check_tensor_list(param: Any, name: str) -> None:
    if not isinstance(param, list):
        raise TypeError(
            f"Invalid function argument. Expected parameter `{name}` of type List[torch.Tensor]\n"
            f"             but got {type(param)} instead."
        )
    if not all(isinstance(one, gl.Tensor) for one in param):
        raise TypeError(
            f"Invalid function argument. Expected parameter `{name}` of type List[torch.Tensor]\n"
            f"             but got {type(param)} with elements of type {[type(one) for one in param]}."
        )


def _ensure_all_tensors_same_dtype(*tensors: Any) -> None:
    seen = None
    for given in tensors:
        for tensor in given if isinstance(given, list) else (given,):
            dtype = tensor.dtype
            if dtype.is_complex:
                dtype = gl.float32 if dtype is gl.complex64 else gl.float64
            if seen is not None and seen != dtype:
                raise ValueError(f"Invalid usage of tensors with different dtypesFound {seen} and  {tensor.dtype}")
            seen = dtype


def _finish(work: Any, async_op: bool) -> Any:
    if async_op:
        return work
    if work is not None:
        work.wait()
    return None


def _set(options: Any, async_op: bool, **values: Any) -> Any:
    options.asyncOp = async_op
    for name, value in values.items():
        setattr(options, name, value)
    return options


def _validate_output_list_for_rank(my_rank: int, dst: int, gather_list: Any) -> None:
    if dst == my_rank:
        if not gather_list:
            raise ValueError("Argument ``gather_list`` must be specified on destination rank.")
    elif gather_list:
        raise ValueError("Argument ``gather_list`` must NOT be specified on non-destination ranks.")


def _root(group: Any, rank: int | None, group_rank: int | None) -> int:
    """Return a root as a number of the group: rank 0 of the default group if neither number names one."""
    return _canonicalize_group_rank(group, 0 if rank is None and group_rank is None else rank, group_rank)


def _with_list(call: str, group: Any, tensor: Any, tensors: Any) -> Any:
    """Check the tensors of `gather` or `scatter`; return the group, or None outside it, with a warning."""
    _check_single_tensor(tensor, "tensor")
    if tensors:
        _check_tensor_list(tensors, f"{call}_list")
    _ensure_all_tensors_same_dtype(tensor, tensors or [])
    group = _group_or_default_group(group)
    if _rank_not_in_group(group):
        _warn_not_in_group(call)
        return None
    return group
