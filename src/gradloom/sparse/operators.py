"""What operators do with sparse tensors. See Note [Sparse tensors].

The key `sparse:` of an operator's entry names a kernel, or says that the operator acts on the values. An operator
without the key is refused, and a composite one runs.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

from ..autograd.passes import increment_version
from ..core.tensor import Tensor
from ..core.views import replay_by_operator
from ..dispatch import _operators as ops
from ..dispatch.interception import SPARSE, Call, record, register
from ..dispatch.records import name_of, record_of
from ..tensors.out import store
from ..types.dtype import can_cast, scalar_type_name
from . import kernels
from .tensor import SparseTensor, make
from .values import on_coalesced, on_values


def handle(call: Call) -> Any:
    """Answer an intercepted call with a sparse tensor among its arguments.

    Raises NotImplementedError if the operator has no kernel for sparse tensors.
    """
    if not any(isinstance(t, SparseTensor) for t in call.tensors()):
        return NotImplemented
    kernel = kernel_of(call.wrapper)
    if call.composite is not None and call.out is None:
        return NotImplemented if kernel is None else kernel(*call.args)
    if kernel is None:
        raise refusal(call)
    if call.out is not None:
        return _stored(call, kernel)
    found = record(call.wrapper, lambda: kernel(*call.args), call.args)
    if getattr(found, "_view", None) is not None and isinstance(found, SparseTensor):
        replay_by_operator(found, call)
    return found


@lru_cache(1024)  # more than there are operators with the key
def kernel_of(wrapper: Any) -> Callable[..., Any] | None:
    """Return what computes an operator for sparse tensors; None if nothing does."""
    facts = record_of(wrapper)
    if facts is None or not facts.sparse:
        return None
    on_dense = _ON_VALUES.get(facts.sparse[0])
    if on_dense is not None:
        kernel = partial(on_dense, getattr(ops, facts.functional.partition(".")[0]))
    else:
        family, _, name = facts.sparse[0].partition(".")
        kernel = getattr(getattr(kernels, family), name)
    if "inplace" not in facts.sparse:
        return kernel
    return _inplace(kernel, name_of(wrapper).removeprefix("aten::") if facts.sparse[0] == "values" else "")


_ON_VALUES: dict[str, Callable[..., Any]] = {"values": on_coalesced, "stored_values": on_values}


def _stored(call: Call, kernel: Callable[..., Any]) -> Any:
    """Write a kernel's result to `out`.

    Raises RuntimeError for a dtype that `out` cannot hold, NotImplementedError if only one of the two is sparse.
    """
    out = call.out
    if not any(isinstance(t, SparseTensor) for t in call.with_args(call.args).tensors()):
        raise refusal(call)
    found = kernel(*call.args)
    if not isinstance(found, Tensor) or isinstance(found, SparseTensor) is not isinstance(out, SparseTensor):
        raise refusal(call)
    if not isinstance(found, SparseTensor):
        store(out, found)
        return out
    _check_cast(found, out)
    values = found._value_array.astype(out._array.dtype, copy=False)
    out._array = make(found._index_array, values, found._array.shape)._array
    out._replace(found._index_array, values, found._coalesced)
    increment_version(out)
    return out


def _check_cast(found: SparseTensor, target: Tensor) -> None:
    if not can_cast(found.dtype, target.dtype):
        raise RuntimeError(
            f"result type {scalar_type_name(found.dtype)} can't be cast to the desired output type "
            f"{scalar_type_name(target.dtype)}"
        )


def _inplace(kernel: Callable[..., SparseTensor], only_coalesced: str) -> Callable[..., Tensor]:
    """Return the in-place form of a kernel. It replaces the components, so that aliases keep theirs, as in PyTorch.

    Args:
        only_coalesced: the operator's name if it takes coalesced tensors only.
    """

    def write(self, *args):
        if only_coalesced and not self._coalesced:
            raise RuntimeError(f"{only_coalesced} requires coalesced input")
        if not isinstance(self, SparseTensor):
            raise NotImplementedError("gradloom has no in-place product of a dense tensor with a sparse one yet")
        found = kernel(self, *args)
        _check_cast(found, self)
        self._replace(found._index_array, found._value_array.astype(self._array.dtype, copy=False), found._coalesced)
        return self

    return write


def refusal(call: Call) -> NotImplementedError:
    """Return the error for an operator without a kernel for sparse tensors."""
    full_name = name_of(call.wrapper).removeprefix("aten::")
    name = full_name.partition(".")[0]
    detail = "with out= " if call.out is not None else ""
    return NotImplementedError(
        f"Could not run 'aten::{full_name}' with arguments from the 'SparseCPU' backend: gradloom has no sparse {name} "
        f"{detail}yet. Call it on to_dense(), or on the values() of a coalesced tensor."
    )


register(SPARSE, handle)
