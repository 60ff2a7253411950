"""Writing an operator's results to tensors given as `out=`."""

from __future__ import annotations

import numpy as np

from ..core.node import bump_version
from ..core.variants import check_no_tangents, uncastable
from ..dispatch import _operators
from ..dispatch.interception import intercept
from ..dispatch.records import Record, record_of
from ..dispatch.state import FORWARD_AD, GRAD_OFF, state
from ..kernels._common.errors import size_mismatch
from ..kernels._common.layout import (
    check_apart,
    check_no_internal_overlap,
    check_no_partial_overlap,
    check_other_tensor,
    overlap,
)
from ..kernels.shape.joins import common_dtype
from ..memory.metadata import Metadata
from ..memory.ownership import resized
from ..types.dtype import TYPE_OF, c_name, scalar_type_name
from ..types.silence import warn_user


def write_out(wrapper, args, out, /, **keywords):
    """Call an operator and write its result(s) to `out`, resized if need be.

    The operator's record has words about what it asks of `out`, which the keys `out:`, `type_promotion:` and `tags:`
    of its entry give:

    - its dtype: `same_dtype` or `same_or_uint8` if it must be that of the result, `same_kind` if both must be floating
      or complex, `as_cat` if the dtype of the inputs must be castable to it, `computed` if the last argument is a
      dtype, by default that of `out`, `any_dtype` if the result fits every dtype; by default, that of the result must
      be castable to it;
    - its memory: `shared` if it may overlap inputs, `apart` if it must not, `over_self` if it may coincide with the
      first input, but not overlap another one; by default it may coincide with an input, but not overlap it in part;
    - its size: `quiet` if it is resized without a warning, `counted` if it keeps its shape where that has as many
      elements as the result, and `counted_aloud` if another number of elements is then warned of; `fixed` if it must be
      contiguous and have the result's shape;
    - several results: `disjoint` if they must not share memory.

    Args:
        wrapper: the generated function of the operator.
        args, keywords: its arguments.
        out: a Tensor, or a sequence of Tensors for several results.

    Returns:
        `out`.

    Raises RuntimeError if gradients would be required, or for a dtype or memory that the operator does not take.
    """
    outs = tuple(out) if isinstance(out, (tuple, list)) else (out,)
    record = record_of(wrapper)
    name, takes = record.operator, record.out
    for t in outs:
        if not isinstance(t, _operators.Tensor):
            raise TypeError(f"{name}(): argument 'out' must be Tensor, not {type(t).__name__}")
        if isinstance(t._array, Metadata):
            return intercept(wrapper, (*args, *keywords.values()), out)
    if "computed" in takes and args[-1] is None:
        args = (*args[:-1], outs[0].dtype)
    flags = state.flags
    inputs = list(_tensors(args))
    if "computed" in takes and not flags & GRAD_OFF:
        _check_no_gradients(name, (*inputs, *outs))
    if flags & FORWARD_AD:
        check_no_tangents(f"{name}_out", (*inputs, *outs), "it is an out= function")
    state.flags = flags | GRAD_OFF
    try:
        found = wrapper(*args, **keywords)
    except RuntimeError as error:
        if "as_cat" in takes and "zero-dimensional" not in str(error):  # the dtype is checked before the shapes
            state.flags = flags
            if not flags & GRAD_OFF:
                _check_no_gradients(name, (*inputs, *outs))
            _check_as_cat(common_dtype([t._array for t in inputs]), outs[0]._array.dtype)
        raise
    finally:
        state.flags = flags
    results = tuple(found) if isinstance(found, (tuple, list)) else (found,)
    if not flags & GRAD_OFF:
        kinds = {r._array.dtype.kind for r in results}
        if not record.is_differentiable or record.is_composite and "as_cat" not in takes:
            kinds.discard("b")
        if kinds:
            _check_no_gradients(name, (*inputs, *outs) if kinds & {"f", "c", "V"} else outs)
    if "shared" not in takes:
        check = check_apart if "apart" in takes else check_no_partial_overlap
        of_others = check_apart if "over_self" in takes else check
        for target, result in zip(outs, results, strict=False):
            if "as_cat" not in takes:  # which resizes first, and then writes to memory of its own
                check_no_internal_overlap(target._array)
            for position, t in enumerate(inputs):
                if t is target and check is check_apart:
                    check_other_tensor(target._array, result._array)
                (of_others if position else check)(target._array, t._array)
    if isinstance(found, _operators.Tensor) and not isinstance(out, _operators.Tensor):
        raise TypeError(f"{name}(): argument 'out' must be Tensor, not {type(out).__name__}")
    if len(results) != len(outs):
        raise TypeError(f"{name}(): expected a tuple of {len(results)} elements as 'out', got {len(outs)}")
    if "fixed" in takes:
        for target, result in zip(outs, results, strict=True):
            _check_fixed(f"{name.lstrip('_')}_out_cpu", target._array, result._array)
    if "disjoint" in takes and (outs[0] is outs[1] or overlap(outs[0]._array, outs[1]._array)):
        from ..schema import parse  # for errors only

        named = " and ".join(f"`{r.name}`" for r in parse(record.schema).returns)
        raise ValueError(f"{name}(): the {named} out= tensors must not overlap.")
    for position, (target, result) in enumerate(zip(outs, results, strict=True)):
        if target._array.dtype is not result._array.dtype:
            _check_dtype(record, position, result._array.dtype, target._array.dtype)
    if len(outs) == 1 and any(t is outs[0] for t in inputs):
        _check_same_shape(outs[0]._array, results[0]._array, inputs)
    draws = not inputs and "nondeterministic_seeded" in record.tags
    for target, result in zip(outs, results, strict=True):
        if draws and target._array.shape == result._array.shape:
            _store_in_memory_order(target, result._array)
        elif "counted" in takes or "counted_aloud" in takes:
            _store_counted(target, result._array, "counted_aloud" in takes)
        else:  # PyTorch's factories resize without a warning
            _store(target, result._array, quietly=not inputs or "quiet" in takes)
    return out if isinstance(out, _operators.Tensor) else type(found)(outs) if isinstance(found, tuple) else list(outs)


def store(target, result) -> None:
    """Write one result to a tensor of its dtype, resized if need be. Raises RuntimeError for another dtype."""
    if target._array.dtype is not result._array.dtype:
        raise RuntimeError(_other_dtype(result._array.dtype, target._array.dtype))
    _store(target, result._array, quietly=False)


def _tensors(args):
    for a in args:
        if isinstance(a, _operators.Tensor):
            yield a
        elif isinstance(a, (tuple, list)):
            yield from (t for t in a if isinstance(t, _operators.Tensor))


def _check_no_gradients(name, tensors):
    if any(t.requires_grad for t in tensors):
        raise RuntimeError(
            f"{name}(): functions with out=... arguments don't support automatic differentiation, but one of the "
            "arguments requires grad."
        )


# --- dtypes -----------------------------------------------------------------------------------------------------------


def _check_dtype(record: Record, position: int, result: np.dtype, target: np.dtype) -> None:
    """Raise for a result that an operator does not write to a tensor of another dtype."""
    takes = record.out
    wrong: str | None
    if "any_dtype" in takes or "same_or_uint8" in takes and target.char == "B":
        return
    if "as_cat" in takes:
        _check_as_cat(result, target)
        return
    if "same_dtype" in takes or "same_or_uint8" in takes:
        wrong = _other_dtype(result, target)
    elif "same_kind" in takes:
        wrong = _other_kind(record, result, target)
    else:
        wrong = uncastable(result, target)
    if wrong is not None:
        raise RuntimeError(_own_error(record, position, result, target) or wrong)


def _other_dtype(result: np.dtype, target: np.dtype) -> str:
    return f"Expected out tensor to have dtype {c_name(result)}, but got {c_name(target)} instead"


def _check_as_cat(result: np.dtype, target: np.dtype) -> None:
    if uncastable(result, target) is not None:
        wanted = scalar_type_name(TYPE_OF[target])
        raise TypeError(f"torch.cat(): input types can't be cast to the desired output type {wanted}")


def _other_kind(record: Record, result: np.dtype, target: np.dtype) -> str | None:
    """Return the error for a dtype that is not floating or complex as the result's is; None if it is."""
    kind = "complex" if result.kind == "c" else "floating point"
    if target.kind in ("c" if result.kind == "c" else "fV"):
        return None
    found = scalar_type_name(TYPE_OF[target])
    return f"{record.operator.rpartition('_')[2]} expects a {kind} output tensor, but got {found}"


def _own_error(record: Record, position: int, result: np.dtype, target: np.dtype) -> str | None:
    """Return what the operator says of a tensor of the wrong dtype: the template of its key `out_error:`."""
    if position >= len(record.out_errors):
        return None
    return record.out_errors[position].format(
        result=scalar_type_name(TYPE_OF[result]),
        out=scalar_type_name(TYPE_OF[target]),
        c_result=c_name(result),
        c_out=c_name(target),
        is_int32=result.char == "i",
    )


# --- shapes -----------------------------------------------------------------------------------------------------------


def _check_same_shape(target, result, inputs) -> None:
    """Raise RuntimeError for an operand of an elementwise operator that is its `out` too, and would be resized."""
    shapes = [t._array.shape for t in inputs]
    if target.shape != result.shape and size_mismatch(shapes) is None and np.broadcast_shapes(*shapes) == result.shape:
        raise RuntimeError(
            f"output with shape {list(target.shape)} doesn't match the broadcast shape {list(result.shape)}"
        )


def _check_fixed(called: str, target: np.ndarray, result: np.ndarray) -> None:
    """Raise RuntimeError unless `out` has the dtype and shape of the result and is contiguous."""
    if target.dtype is not result.dtype:
        wanted = scalar_type_name(TYPE_OF[result.dtype])
        raise RuntimeError(f"{called}: Expected result dtype to be of type k{wanted} but got {c_name(target.dtype)}")
    if not target.ndim:
        raise IndexError("Dimension specified as 0 but tensor has no dimensions")
    for i, (n, wanted) in enumerate(zip(target.shape, result.shape, strict=False)):
        if n != wanted:
            raise RuntimeError(f"{called}: Expected result.size({i}) to be {wanted} but got {n}")
    if target.ndim != result.ndim:
        raise RuntimeError(f"{called}: Expected result to be of dimension {result.ndim} but got {target.ndim}")
    if not target.flags.c_contiguous:
        raise RuntimeError(f"{called}: Expected result to be contiguous.")


def _store(target, result: np.ndarray, quietly: bool) -> None:
    array = target._array
    if array.shape != result.shape:
        if array.size and not quietly:
            warn_user(
                f"An output with one or more elements was resized since it had shape {list(array.shape)}, "
                f"which does not match the required output shape {list(result.shape)}. This behavior is "
                "deprecated, and in a future PyTorch release outputs will not be resized unless they have "
                "zero elements. You can explicitly reuse an out tensor t by resizing it, inplace, to zero "
                "elements with t.resize_(0)."
            )
        array = target._array = resized(array, np.empty_like(result))
    else:
        check_no_internal_overlap(array)
    array[...] = result
    bump_version(target)


def _store_in_memory_order(target, result: np.ndarray) -> None:
    """Store random numbers: the first that was drawn goes to the first address, as in-place operators draw them."""
    array = target._array
    if not array.flags.c_contiguous and 0 not in array.strides:
        order = sorted(range(array.ndim), key=array.strides.__getitem__, reverse=True)
        check_no_internal_overlap(array)
        laid = array.transpose(order)
        laid[...] = result.reshape(laid.shape)
        bump_version(target)
    else:
        _store(target, result, True)


def _store_counted(target, result: np.ndarray, aloud: bool) -> None:
    array = target._array
    if array.size != result.size:
        if aloud and array.size:
            warn_user(
                f"The number of elements in the out tensor of shape {list(array.shape)} is {array.size} which does not "
                f"match the computed number of elements {result.size}. Note that this may occur as a result of "
                f"rounding error. The out tensor will be resized to a tensor of shape ({result.size},)."
            )
        _store(target, result, True)
    else:
        _store(target, result.reshape(array.shape), True)
