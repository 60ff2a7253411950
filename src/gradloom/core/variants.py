"""In-place and out variants: writing results into existing memory, and operators without derivatives."""

from __future__ import annotations

import numpy as np

from ..dispatch import _operators
from ..dispatch.interception import intercept
from ..dispatch.records import name_of
from ..dispatch.state import FORWARD_AD, GRAD_OFF, INFERENCE, state
from ..kernels._common.errors import refusal, size_mismatch
from ..kernels._common.layout import (
    check_apart,
    check_no_internal_overlap,
    check_no_partial_overlap,
    check_other_tensor,
)
from ..kernels.shape.joins import common_dtype
from ..memory.metadata import Metadata
from ..memory.ownership import resized
from ..types.dtype import TYPE_OF, c_name, can_cast, scalar_type_name
from ..types.silence import warn_user
from .node import NO_EDGE, bump_version
from .tangents import tangent_of


def write_out(wrapper, args, out, takes="", /, **keywords):
    """Call an operator and write its result(s) to `out`, resized if need be.

    Args:
        wrapper: the generated function of the operator.
        args, keywords: its arguments.
        out: a Tensor, or a sequence of Tensors for several results.
        takes: a set of words: `same_dtype` if the dtypes must be equal instead of castable, `same_kind` if both must be
            floating or complex, `computed` if the last argument is a dtype, by default that of `out`, `any_dtype` if
            the result fits every dtype; `shared` if `out` may overlap inputs, `apart` if it must not. By default `out`
            may coincide with an input, but not overlap it in part. `quiet` if it is resized without a warning,
            `counted` if it keeps its shape where that has as many elements as the result, and `counted_aloud` if
            another number of elements is then warned of. `fixed` if it must be contiguous and have the result's shape.

    Returns:
        `out`.

    Raises RuntimeError if gradients would be required, or for a dtype or memory that the operator does not take.
    """
    outs = tuple(out) if isinstance(out, (tuple, list)) else (out,)
    name = name_of(wrapper).partition(".")[0]
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
        _check_no_tangents(f"{name}_out", (*inputs, *outs), "it is an out= function")
    state.flags = flags | GRAD_OFF
    try:
        found = wrapper(*args, **keywords)
    except RuntimeError as error:
        if name in _JOINS and "zero-dimensional" not in str(error):  # of which the dtype comes before the shapes
            state.flags = flags
            if not flags & GRAD_OFF:
                _check_no_gradients(name, (*inputs, *outs))
            _check_cast(common_dtype([t._array for t in inputs]), outs[0]._array.dtype, name)
        raise
    finally:
        state.flags = flags
    results = tuple(found) if isinstance(found, (tuple, list)) else (found,)
    if not flags & GRAD_OFF and (
        kinds := {r._array.dtype.kind for r in results} - ({"b"} if name not in _OF_BOOLS else set())
    ):
        _check_no_gradients(name, (*inputs, *outs) if kinds & {"f", "c", "V"} else outs)
    if "shared" not in takes:
        check = check_apart if "apart" in takes else check_no_partial_overlap
        for target, result in zip(outs, results, strict=False):
            if name not in _JOINS:  # which resize first, and then write to memory of their own
                check_no_internal_overlap(target._array)
            for t in inputs:
                if t is target and check is check_apart:
                    check_other_tensor(target._array, result._array)
                check(target._array, t._array)
    if isinstance(found, _operators.Tensor) and not isinstance(out, _operators.Tensor):
        raise TypeError(f"{name}(): argument 'out' must be Tensor, not {type(out).__name__}")
    if len(results) != len(outs):
        raise TypeError(f"{name}(): expected a tuple of {len(results)} elements as 'out', got {len(outs)}")
    if "fixed" in takes:
        for target, result in zip(outs, results, strict=True):
            _check_fixed(f"{name.lstrip('_')}_out_cpu", target._array, result._array)
    check = _check_same_dtype if "same_dtype" in takes else _check_same_kind if "same_kind" in takes else _check_cast
    for position, (target, result) in enumerate(zip(outs, results, strict=True) if "any_dtype" not in takes else ()):
        check(result._array.dtype, target._array.dtype, name, position)
    if len(outs) == 1 and any(t is outs[0] for t in inputs):
        _check_same_shape(outs[0]._array, results[0]._array, inputs)
    for target, result in zip(outs, results, strict=True):
        if "counted" in takes:
            _store_counted(target, result._array, "counted_aloud" in takes)
        else:  # PyTorch's factories resize without a warning
            _store(target, result._array, quietly=not inputs or "quiet" in takes)
    return out if isinstance(out, _operators.Tensor) else type(found)(outs) if isinstance(found, tuple) else list(outs)


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


def _check_no_gradients(name, tensors):
    if any(t.requires_grad for t in tensors):
        raise RuntimeError(
            f"{name}(): functions with out=... arguments don't support automatic differentiation, but one of the "
            "arguments requires grad."
        )


def _check_no_tangents(name, tensors, why):
    if any(tangent_of(t) is not None for t in tensors if t is not None):
        raise NotImplementedError(f"Trying to use forward AD with {name} that does not support it because {why}")


def refuse_tangents(name: str, inputs) -> None:
    """Refuse tangents at an operator without a forward-mode formula.

    Raises NotImplementedError if one of the tensors has a tangent.
    """
    _check_no_tangents(
        name, inputs, "it has not been implemented yet: its entry in derivatives.yaml has no formula for its result."
    )


def _tensors(args):
    for a in args:
        if isinstance(a, _operators.Tensor):
            yield a
        elif isinstance(a, (tuple, list)):
            yield from (t for t in a if isinstance(t, _operators.Tensor))


# Differentiable operators that also have results of bools.
_OF_BOOLS = frozenset(
    """add mul cat stack hstack vstack dstack column_stack maximum minimum fmax fmin
    bitwise_and bitwise_or bitwise_xor""".split()
)
_REDUCE_TO_BOOLS = frozenset(("all", "any"))  # which also write to uint8
_JOINS = frozenset(("cat", "hstack", "vstack", "dstack", "stack", "column_stack"))


def _own_words(result: np.dtype, target: np.dtype, name: str, position: int) -> str | None:
    from .out_refusals import own_words

    return own_words(name, result, target, position)


def _check_cast(result: np.dtype, target: np.dtype, name: str = "", position: int = 0) -> None:
    if result is not target:
        from_, to = TYPE_OF[result], TYPE_OF[target]
        if not can_cast(from_, to):
            wanted = f"can't be cast to the desired output type {scalar_type_name(to)}"
            if name in _JOINS:
                raise TypeError(f"torch.cat(): input types {wanted}")
            words = _own_words(result, target, name, position)
            raise RuntimeError(words or f"result type {scalar_type_name(from_)} {wanted}")


def _check_same_dtype(result: np.dtype, target: np.dtype, name: str, position: int) -> None:
    if result is not target and not (name in _REDUCE_TO_BOOLS and target.char == "B"):
        raise RuntimeError(
            _own_words(result, target, name, position)
            or f"Expected out tensor to have dtype {c_name(result)}, but got {c_name(target)} instead"
        )


def _check_same_kind(result: np.dtype, target: np.dtype, name: str, position: int) -> None:
    kind = "complex" if result.kind == "c" else "floating point"
    if target.kind not in ("c" if result.kind == "c" else "fV"):
        found = scalar_type_name(TYPE_OF[target])
        raise RuntimeError(
            _own_words(result, target, name, position)
            or f"{name.rpartition('_')[2]} expects a {kind} output tensor, but got {found}"
        )


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


def _store_counted(target, result: np.ndarray, aloud: bool) -> None:
    array = target._array
    if array.size != result.size:
        if aloud and array.size:
            import warnings

            warnings.warn(
                f"The number of elements in the out tensor of shape {list(array.shape)} is {array.size} which does not "
                f"match the computed number of elements {result.size}. Note that this may occur as a result of "
                f"rounding error. The out tensor will be resized to a tensor of shape ({result.size},).",
                UserWarning,
                stacklevel=4,
            )
        _store(target, result, True)
    else:
        _store(target, result.reshape(array.shape), True)


def write_inplace(array: np.ndarray, result) -> None:
    """Write a computed result into the array of a tensor.

    Raises RuntimeError if the result's dtype or shape does not fit.
    """
    if result.__class__ is not np.ndarray:
        result = np.asarray(result)
    if array.shape != result.shape:
        raise RuntimeError(
            f"output with shape {list(array.shape)} doesn't match the broadcast shape {list(result.shape)}"
        )
    if array.dtype is not result.dtype:
        _check_cast(result.dtype, array.dtype)
    if 0 in array.strides:
        check_no_internal_overlap(array)
    array[...] = result


def refused_write(error: Exception, written, promoted, operator: str, /, *arguments, **integers) -> Exception:
    """Translate an error of an in-place operator's kernel.

    As in PyTorch, shapes that do not broadcast are reported first, then an operator without a meaning for a dtype (as
    clamp for complex numbers), then a result that cannot be cast, then what the kernel refuses.

    Args:
        written: the array to write to.
        promoted: the same array in the dtype of the result.
        error, operator, arguments, integers: as for `refusal`.
    """
    found = refusal(error, operator, *arguments, **integers)
    shapes = [a.shape for a in arguments if isinstance(a, np.ndarray)]
    mismatch = size_mismatch(shapes)
    if isinstance(found, NotImplementedError):
        if mismatch is None and (shape := np.broadcast_shapes(*shapes)) != written.shape:
            mismatch = f"output with shape {list(written.shape)} doesn't match the broadcast shape {list(shape)}"
        if mismatch is not None:
            return RuntimeError(mismatch)
    is_undefined = isinstance(error, NotImplementedError) and "not implemented for" not in str(error)
    if not is_undefined and mismatch is None:
        try:
            _check_cast(promoted.dtype, written.dtype)
        except RuntimeError as cast:
            return cast
    return found


def require_gradient(tensor) -> None:
    """Make the result of a factory a leaf that requires grad.

    Raises RuntimeError if its dtype has no gradients.
    """
    if tensor._array.dtype.kind not in "fcV":
        raise RuntimeError("Only Tensors of floating point and complex dtype can require gradients")
    tensor.requires_grad = True


def factory_dtype(dtype, out):
    """Return the dtype of what a factory writes to `out`.

    Args:
        dtype: the argument, or None.
        out: a tensor.

    Raises RuntimeError if `dtype` is given and differs from that of `out`.
    """
    if isinstance(out, _operators.Tensor):
        if dtype is not None and dtype is not out.dtype:
            raise RuntimeError(
                f"dtype {scalar_type_name(dtype)} does not match dtype of out parameter ({scalar_type_name(out.dtype)})"
            )
        return out.dtype
    return dtype


def no_gradients(array: np.ndarray) -> RuntimeError:
    """Return the error for integers that were asked for, by their dtype, of an input that requires grad."""
    return RuntimeError(f"Autograd not support dtype: {scalar_type_name(TYPE_OF[array.dtype])}")


def not_differentiable(name: str, argument: str) -> RuntimeError:
    """Return the error for an argument that requires grad although the operator has no derivative for it."""
    return RuntimeError(
        f"The function '{name}' is not differentiable with respect to argument '{argument}'. This "
        "input cannot have requires_grad True."
    )


def not_implemented_history(name: str, inputs, results) -> None:
    """Give results of an operator without a derivative a node that raises when a gradient arrives."""
    node = not_implemented_node(name, inputs)
    if node is None:
        return
    for nr, result in enumerate(results):
        array = result._array
        node.input_metadata = (*node.input_metadata, array.shape, array.dtype)
        if array.dtype.kind in "fcV":
            result._edge = (node, nr)


def not_implemented_write(name: str, inputs) -> None:
    """Give a tensor that an operator without a derivative wrote to a node that raises when a gradient arrives.

    Args:
        name: the in-place operator.
        inputs: its tensor arguments; it wrote to the first.
    """
    node = not_implemented_node(name, inputs) if inputs[0]._array.dtype.kind in "fcV" else None
    if node is not None:
        from .views import rebase_history

        rebase_history(inputs[0], node)


def not_implemented_node(name: str, inputs, namespace: str = "aten::"):
    """Return the node of an operator without a derivative; None if no input requires grad."""
    for t in inputs:
        if t is not None and t._edge is not NO_EDGE:
            break
    else:
        return None
    from .edge import gradient_edge
    from .node import NotImplementedNode, next_sequence_nr

    # a number in place of a tensor is not an input: PyTorch has another overload for it
    edges = [t._edge or gradient_edge(t) for t in inputs if t is not None and t._wrapped_number is None]
    if all(e is NO_EDGE for e in edges):
        return None
    node = NotImplementedNode(f"derivative for {namespace}{name.partition('.')[0]} is not implemented", edges)
    node.sequence_nr = next_sequence_nr()
    return node


def fits(array: np.ndarray, *operands) -> bool:
    """Return whether a ufunc of `array` and `operands` may write straight into `array`: all have the same floating or
    complex dtype, and the shapes broadcast to that of `array`."""
    kind = array.dtype
    if kind.kind not in "fc" or 0 in array.strides:
        return False
    shape, whole = array.shape, array.base is None
    for other in operands:
        if other.__class__ is not np.ndarray:
            if other.__class__ is complex and kind.kind != "c":
                return False
            continue
        if other.dtype is not kind:
            return False
        if whole and other.base is None and (other.shape == shape or not other.ndim):
            continue
        if other is not array and not (whole and other.base is None):
            check_no_partial_overlap(array, other)
        if (
            other.ndim
            and other.shape != shape
            and (
                other.ndim > len(shape)
                or any(n != 1 and n != m for n, m in zip(reversed(other.shape), reversed(shape), strict=False))
            )
        ):
            return False
    return True


def mark_inference(results) -> None:
    """Mark tensors as made in inference mode. They get a version counter, which is never read, so that saving them for
    backward takes the path that refuses."""
    for r in results:
        if r is not None:
            r._inference = True
            if r._vc is None:
                r._vc = [0]


def mark_detached_inference(result) -> None:
    """Mark a tensor made by `detach()` or `.data` of an inference tensor: outside of inference mode it is writable."""
    result._inference = True if state.flags & INFERENCE else 2
    result._vc = [0]
