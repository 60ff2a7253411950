"""Results of a custom function's forward: their history, saved tensors and tangents."""

from __future__ import annotations

from ..core.edge import gradient_edge
from ..core.node import NO_EDGE, as_pair, bump_version
from ..core.saved_variable import SavedVariable
from ..core.tangents import set_tangent, tangent_of, update_tangent, without_tangents, zeros_for
from ..core.views import (
    CUSTOM_FUNCTION,
    DEFAULT,
    MULTI_OUTPUT,
    forbidden_view_message,
    make_view,
    move_retained_gradient,
    rebase_history,
)
from ..dispatch import _operators
from ..dispatch.state import FORWARD_AD, disabled_torch_function, state
from ..types.dtype import FLOATING, dtype


def wrap_outputs(ctx, inputs: list, outputs: tuple, records: bool, separate: bool) -> tuple:
    """Return the results with the node as their history.

    A tensor that forward wrote to (`mark_dirty`) is returned itself, an unmodified input as a view, and other values
    unchanged.

    Args:
        ctx: the node.
        inputs: the tensors among the arguments of forward.
        outputs: the results of forward.
        records: whether the node is to be the history of the results.
        separate: whether setup_context marked and saved tensors.

    Raises:
        RuntimeError: if a dirty argument is not returned, is a leaf that requires grad, or is not a tensor; if a dirty
            view is one of several returned tensors; if setup_context saves an input that forward returned unchanged.
    """
    Tensor = _operators.Tensor
    dirty = {id(t) for t in _checked_dirty(ctx, inputs, outputs)} if ctx.dirty_tensors is not None else ()
    unmarked = {id(t) for t in _checked_unmarked(ctx)} if ctx.non_differentiable is not None else ()
    given = {id(t) for t in inputs}
    metadata: list = []
    for out in outputs:
        metadata += (out._array.shape, out._array.dtype) if isinstance(out, Tensor) else (None, None)
    ctx.input_metadata = tuple(metadata)
    wrapped: list = []
    views, differentiable_outputs = [], 0
    for nr, out in enumerate(outputs):
        if isinstance(out, Tensor):
            differentiable = records and id(out) not in unmarked and out._array.dtype.kind in "fcV"
            differentiable_outputs += differentiable
            edge = (ctx, nr) if differentiable else NO_EDGE
            if id(out) in dirty:
                if differentiable:
                    _check_write(out, len(outputs))
                    _rewrite(out, ctx, edge)
                elif out.requires_grad:
                    out = out._detached_alias()
            elif id(out) in given and not differentiable and out.requires_grad:
                out = out._detached_alias()
            elif id(out) in given:
                if separate and ctx.to_save is not None and any(out is t for t in _tuple_of(ctx, "to_save")):
                    raise RuntimeError(
                        "An input that has been returned as-is as output is being saved for backward. "
                        "This is not supported if you override setup_context: return and save a view of "
                        "it, x.view_as(x), or save it in a forward that takes ctx."
                    )
                kind = Tensor if type(out).__torch_function__ is disabled_torch_function else type(out)
                out = make_view(Tensor._make_subclass(kind, out), out, edge, state.flags, CUSTOM_FUNCTION)
            elif out._view is not None:
                out._view.edge = edge
            else:
                out._edge = edge
            if out._view is not None and id(out) not in dirty:  # written in place: a view remains a view
                views.append(out._view)
        wrapped.append(out)
    if not ctx._materialize_non_diff_grads:
        ctx._undifferentiated = [
            nr for nr, out in enumerate(wrapped) if isinstance(out, Tensor) and out._edge is NO_EDGE
        ]
    if ctx.output_grad_dtypes is not None:
        _declare_dtypes(ctx, outputs, unmarked)
    for view in views:
        view.creation = MULTI_OUTPUT if differentiable_outputs > 1 else CUSTOM_FUNCTION
    return tuple(wrapped)


def _declare_dtypes(ctx, outputs: tuple, unmarked) -> None:
    """Put the dtypes of `set_output_grad_dtype` into the node's metadata."""
    declared, ctx.output_grad_dtypes = ctx.output_grad_dtypes, None
    if len(declared) != len(outputs):
        raise RuntimeError(
            "set_output_grad_dtype expected the number of declarations to match the number of outputs: the Function "
            f"returned {len(outputs)} values but {len(declared)} declarations were provided"
        )
    metadata = list(ctx.input_metadata)
    for nr, (wanted, out) in enumerate(zip(declared, outputs, strict=True)):
        if wanted is not None and not isinstance(wanted, dtype):
            raise RuntimeError(
                "set_output_grad_dtype expects each declaration to be a torch.dtype or None, but got "
                f"{type(wanted).__name__}"
            )
        own = metadata[2 * nr + 1]
        if own is None or own.kind not in "fcV" or id(out) in unmarked:
            if wanted is not None:
                raise RuntimeError(
                    f"set_output_grad_dtype: got a concrete dtype for output {nr}, but that output is not a "
                    "differentiable tensor (it is a non-tensor, was marked non-differentiable, or has a "
                    f"non-differentiable dtype). Pass None for output {nr} instead."
                )
        elif wanted is None:
            metadata[2 * nr + 1] = None
        elif wanted.category < FLOATING:
            raise RuntimeError(
                f"set_output_grad_dtype: gradients are floating point or complex; {wanted} for output {nr} is neither"
            )
        else:
            metadata[2 * nr + 1] = wanted.numpy
    ctx._output_metadata, ctx.input_metadata = ctx.input_metadata, tuple(metadata)


def _tuple_of(ctx, name: str) -> tuple:
    """Return an attribute that a method of `ctx` sets; refuse a value that was assigned directly and is not a tuple."""
    found = getattr(ctx, name)
    if not isinstance(found, tuple):
        raise RuntimeError(
            f"autograd internal error: {name} attribute is expected to be a tuple but is "
            f"{type(found).__name__}: set it by the method of ctx"
        )
    return found


def _checked_dirty(ctx, inputs, outputs):
    for i, tensor in enumerate(_tuple_of(ctx, "dirty_tensors")):
        if not isinstance(tensor, _operators.Tensor):
            raise RuntimeError(
                f"mark_dirty can only accept variables, but argument {i} is of type {type(tensor).__name__}"
            )
        bump_version(tensor)
        if not any(tensor is o for o in outputs):
            raise RuntimeError(
                "Some elements marked as dirty during the forward method were not returned as output. "
                "The inputs that are modified inplace must all be outputs of the Function."
            )
        if not any(tensor is t for t in inputs):
            import warnings

            warnings.warn(
                "ctx.mark_dirty() received a tensor that was not an input. It is for inputs that forward has "
                "written to.",
                stacklevel=4,
            )
    return ctx.dirty_tensors


def _check_write(tensor, outputs: int) -> None:
    """Refuse a write that would break the graph. Forward has already written, so a view's history may be stale."""
    view = tensor._view
    if tensor.requires_grad and tensor._last_edge[0] is None:
        raise RuntimeError("a leaf Variable that requires grad has been used in an in-place operation.")
    if view is not None:
        if outputs > 1:
            raise RuntimeError(
                "If your Function modifies inplace an input that is a view of another Tensor, your Function cannot "
                "return more than one Tensor. This is not supported by the current autograd engine. You should "
                "either make sure the input is not a view (using .clone() for example) or make your Function only "
                "return one Tensor (potentially splitting it into two Functions: one doing the inplace that returns"
                " a single Tensor and a second one that does the other operations). You can ask on the forum "
                "https://discuss.pytorch.org/ if you need help to do this change."
            )
        if view.creation != DEFAULT:
            raise RuntimeError(forbidden_view_message(view, "is being modified inplace"))
        if view.base.requires_grad and view.base.is_leaf:
            raise RuntimeError("a view of a leaf Variable that requires grad is being used in an in-place operation.")


def _checked_unmarked(ctx):
    for i, tensor in enumerate(_tuple_of(ctx, "non_differentiable")):
        if not isinstance(tensor, _operators.Tensor):
            raise RuntimeError(
                f"mark_non_differentiable only accepts variable arguments, but got argument {i} of type "
                f"{type(tensor).__name__}"
            )
    return ctx.non_differentiable


def _rewrite(out, ctx, edge) -> None:
    """Give a tensor that forward wrote to its new history."""
    if out._view is None:
        before, out._edge = out._edge, edge
        if out._retains_grad:
            move_retained_gradient(before, edge)
    else:
        metadata = ctx.input_metadata
        rebase_history(out, ctx)
        ctx.input_metadata = metadata


def save_tensors(ctx, outputs: tuple) -> None:
    """Convert the arguments of save_for_backward to saved variables; a node must not refer to its own outputs.

    Raises:
        TypeError: for anything but a tensor.
    """
    kept: list = []
    for tensor in _tuple_of(ctx, "to_save"):
        if tensor is None:
            kept.append(None)
            continue
        if not isinstance(tensor, _operators.Tensor):
            raise TypeError(
                f"save_for_backward can only save variables, but argument {len(kept)} is of type "
                f"{type(tensor).__name__}"
            )
        nr = next((i for i, o in enumerate(outputs) if o is tensor), None)
        kept.append(SavedVariable(tensor, nr if nr is None else _own_number(ctx, tensor, nr)))
    ctx._saved = tuple(kept)
    ctx.to_save = None


def _own_number(ctx, output, nr: int) -> int | None:
    """Return the output number of a result that is saved; None if its history is another node."""
    edge = output._edge if output._view is None else gradient_edge(output)
    if edge is None:
        return None
    node, number = as_pair(edge)
    if node is ctx:
        return number  # if it is returned twice, the last one
    # The history of a view that forward wrote to reaches the node through other nodes, which would also form a cycle.
    written = output._view is not None and any(output is t for t in ctx.dirty_tensors or ())
    return nr if written else None


def propagate_tangents(function, ctx, args: tuple, is_tensor: tuple, returned: tuple, outputs: tuple) -> None:
    """Call `jvp` if an argument has a tangent, and set the tangents of the outputs.

    Args:
        function, ctx: the Function and its node.
        args, is_tensor: the arguments of forward, and whether each is a tensor.
        returned: the results of forward.
        outputs: the results as `apply` returns them.

    Raises:
        RuntimeError: if jvp does not return a tangent, or None, for each output, or one that does not fit.
    """
    flags = state.flags
    tangents = [tangent_of(a) if t else None for a, t in zip(args, is_tensor, strict=True)]
    if all(t is None for t in tangents):
        return
    if ctx.materialize_grads:
        tangents = [
            zeros_for(a)._dense() if t and found is None and a._array.dtype.kind in "fcV" else found
            for a, t, found in zip(args, is_tensor, tangents, strict=True)
        ]
    versions = [None if t is None else t._version for t in tangents]
    state.flags, state.forward_grad = flags & ~FORWARD_AD, False
    try:
        found = function.jvp(ctx, *tangents)
    finally:
        state.flags, state.forward_grad = flags, True
    found = found if isinstance(found, tuple) else (found,)
    if len(found) != len(outputs):
        raise RuntimeError(
            "Function's jvp returned an invalid number of forward gradients (expected "
            f"{len(outputs)} but got {len(found)})"
        )
    dirty, unmarked = [[id(t) for t in marked or ()] for marked in (ctx.dirty_tensors, ctx.non_differentiable)]
    for i, (given, out, tangent) in enumerate(zip(returned, outputs, found, strict=True)):
        if tangent is None and id(given) not in dirty:
            continue
        if tangent is not None and not isinstance(tangent, _operators.Tensor):
            raise RuntimeError(f"expected Variable or None (got {type(tangent).__name__}) for grad output {i}.")
        if not isinstance(out, _operators.Tensor):
            continue
        if tangent is not None:
            _check_tangent(i, out, tangent, id(given) not in unmarked)
        if id(given) in dirty:
            if not any(tangent is t and t._version != v for t, v in zip(tangents, versions, strict=True)):
                raise RuntimeError(
                    "An inplace custom Function is not modifying the forward mode gradients inplace. If the "
                    "forward is modifying an input inplace, then the jvp function must modify the corresponding "
                    "gradient inplace."
                )
            update_tangent(out, tangent)
            continue
        if out._view is not None and tangent._view is None:
            raise RuntimeError(
                "A custom Function's forward is returning a view (or an input as-is) but the jvp is not "
                "returning a view."
            )
        if out is given and out._view is None and tangent._view is not None:  # memory that the result does not share
            tangent = without_tangents(_operators.clone, tangent)
        set_tangent(out, tangent)


def _check_tangent(position: int, out, tangent, differentiable: bool) -> None:
    if not differentiable or out._array.dtype.kind not in "fcV":
        raise RuntimeError(
            f"Function's jvp returned a gradient at position {position}, but  the corresponding forward "
            "output is not a differentiable Tensor.You should return None at that position instead."
        )
    if tangent._array.dtype.kind not in "fcV":
        raise RuntimeError(
            "Expected tangent to be floating point or complex, but Function's jvp returned one of dtype "
            f"{tangent.dtype} at position {position}."
        )
    if tangent._array.shape != out._array.shape:
        raise RuntimeError(
            "Trying to set a forward gradient that has a different size than that of the original "
            f"Tensor, this is not supported. Tensor is of size {list(out.shape)} while the given "
            f"forward gradient is of size {list(tangent.shape)}."
        )
