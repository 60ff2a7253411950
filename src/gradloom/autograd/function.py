"""Custom functions: forward and backward written by the user, as nodes of the graph."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from .. import _operators
from ..dispatch import ANOMALY, FORWARD_AD, GRAD_OFF, state
from .anomaly_mode import remember
from .edge import gradient_edge
from .node import NO_EDGE, Error, Node, bump_version, next_sequence_nr
from .saved_variable import FREED_MESSAGE, SavedVariable, raw_saved, unpack
from .views import CUSTOM_FUNCTION, DEFAULT, MULTI_OUTPUT, forbidden_view_message, make_view, rebase_history

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from ..tensor import Tensor

    _Result = TypeVar("_Result")

__all__ = ["Function", "FunctionCtx", "once_differentiable"]


class FunctionCtx:
    """What `ctx` offers inside forward, backward and setup_context. It takes any other attribute as well."""

    if TYPE_CHECKING:
        saved_tensors: tuple[Any, ...]
        needs_input_grad: tuple[bool, ...]

        def __getattr__(self, name: str) -> Any: ...
        def __setattr__(self, name: str, value: Any) -> None: ...

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Keep tensors (inputs, outputs, intermediates, or None) for backward, with version checks."""
        self.to_save = tensors

    def save_for_forward(self, *tensors: Tensor | None) -> None:
        """Keep tensors for `jvp`."""
        for tensor in tensors:
            if not (isinstance(tensor, _operators.Tensor) or tensor is None):
                raise TypeError("save_for_forward expects all arguments to be tensors; you should save non-tensors as "
                                "attributes on ctx.")
        self.saved_for_forward = tensors

    def mark_dirty(self, *args: Tensor) -> None:
        """Name the inputs that forward wrote to in place; they must be returned."""
        self.dirty_tensors = args

    def mark_non_differentiable(self, *args: Tensor) -> None:
        """Name the outputs that no gradient flows through."""
        self.non_differentiable = args

    def set_materialize_grads(self, value: bool) -> None:
        """Whether undefined gradients reach backward as zeros (the default) or as None."""
        self.materialize_grads = value


class _FunctionMeta(type):
    """Gives every Function class its node class, `<Name>Backward`."""

    def __init__(cls, name, bases, namespace):
        super().__init__(name, bases, namespace)
        cls._backward_cls = type(f"{name}Backward", (_CustomNode,), {"_function": cls})


class _CustomNode(FunctionCtx, Node):
    """The node of a custom function; also the `ctx` that its methods receive."""

    _function = None
    to_save = saved_for_forward = ()
    dirty_tensors = non_differentiable = ()
    materialize_grads = True
    _saved = ()
    _released = False
    needs_input_grad = ()

    def name(self):
        return type(self).__name__

    @property
    def saved_tensors(self):
        if self._released:
            raise RuntimeError(FREED_MESSAGE)
        if not self._saved and self.saved_for_forward:
            return self.saved_for_forward
        return tuple([unpack(s, self) for s in self._saved])

    @property
    def saved_variables(self):
        return self.saved_tensors

    @property
    def _raw_saved_tensors(self):
        if self._released:
            raise RuntimeError(FREED_MESSAGE)
        return raw_saved(self, "_saved")

    def release_variables(self):
        if self._saved:
            self._saved, self._released = (), True

    def __getattr__(self, name):
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __reduce__(self):
        raise TypeError(f"cannot pickle '{type(self).__name__}' object")

    def apply(self, grads):
        function = self._function
        backward, vjp = function.backward, function.vjp
        if backward is not Function.backward and vjp is not Function.vjp:
            raise RuntimeError("Implementing both 'backward' and 'vjp' for a custom Function is not allowed. You "
                               "should only implement one of them.")
        call = vjp if vjp is not Function.vjp else backward
        if self.materialize_grads:
            grads = [_zeros(self.input_metadata, i) if g is None else g for i, g in enumerate(grads)]
        found = call(self, *grads)
        found = found if isinstance(found, tuple) else (found,)
        return self._edge_gradients(found)

    def _edge_gradients(self, found):
        """The gradients of the tensor arguments, from what backward returned for all arguments."""
        is_tensor = self._is_tensor
        if len(found) > len(is_tensor):
            if any(g is not None for g in found[len(is_tensor):]):
                raise RuntimeError(f"function {self.name()} returned an incorrect number of gradients (expected "
                                   f"{len(is_tensor)}, got {len(found)})")
            found = found[:len(is_tensor)]
        if len(found) != len(is_tensor):
            raise RuntimeError(f"function {self.name()} returned an incorrect number of gradients (expected "
                               f"{len(is_tensor)}, got {len(found)})")
        out = []
        for i, (grad, tensor) in enumerate(zip(found, is_tensor, strict=True)):
            if not tensor:
                if grad is not None:
                    raise RuntimeError(f"function {self.name()} returned a gradient different from None at position "
                                       f"{i + 1}, but the corresponding forward input was not a Variable")
                continue
            if grad is not None and not isinstance(grad, _operators.Tensor):
                raise RuntimeError(f"expected Variable or None (got {type(grad).__name__})")
            out.append(grad)
        return tuple(out)


def _zeros(metadata, index):
    import numpy as np

    shape = metadata[2 * index]
    return None if shape is None else _operators.wrap(np.zeros(shape, metadata[2 * index + 1]))


class Function(metaclass=_FunctionMeta):
    """Base class for custom functions: define the static methods forward and backward, call `apply`.

    forward(ctx, *args) computes the result (or forward(*args) together with setup_context(ctx, inputs, output)).
    backward(ctx, *grads) returns one gradient per argument of forward, None for those without.
    jvp(ctx, *tangents) returns the tangents of the outputs, for forward mode.
    """

    generate_vmap_rule = False

    def __init__(self, *args, **kwargs):
        import warnings
        warnings.warn(f"{type(self).__name__} should not be instantiated. Methods on autograd functions are all "
                      "static, so you should invoke them on the class itself. Instantiating an autograd function will "
                      "raise an error in a future version of PyTorch.", DeprecationWarning, stacklevel=2)

    def __call__(self, *args, **kwargs):
        raise RuntimeError("Legacy autograd function with non-static forward method is deprecated. Please use "
                           "new-style autograd function with static forward method. (Example: "
                           "https://pytorch.org/docs/stable/autograd.html#torch.autograd.Function)")

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError("You must implement the forward function for custom autograd.Function.")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> Any:
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError("You must implement either the backward or vjp method for your custom "
                                  "autograd.Function to use it with backward mode AD.")

    vjp = backward

    @staticmethod
    def jvp(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError("You must implement the jvp function for custom autograd.Function to use it with "
                                  "forward mode AD.")

    @staticmethod
    def vmap(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError("To use autograd.Function with vmap, you must either override the vmap staticmethod "
                                  "or set generate_vmap_rule=True.")

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Call forward and record it."""
        separate = cls.setup_context is not Function.setup_context
        if kwargs and not separate:
            raise TypeError("apply() takes no keyword arguments")
        args = _bind(cls.forward, args, kwargs) if separate else args
        Tensor = _operators.Tensor
        is_tensor = tuple([isinstance(a, Tensor) for a in args])
        tensors = [a for a, t in zip(args, is_tensor, strict=True) if t]
        edges = tuple([t._edge or gradient_edge(t) for t in tensors])
        flags = state.flags
        records = not flags & GRAD_OFF and any(e is not NO_EDGE for e in edges)
        ctx = object.__new__(cls._backward_cls)
        ctx.next_edges, ctx.sequence_nr, ctx.input_metadata, ctx.hooks = edges, next_sequence_nr(), (), None
        ctx._is_tensor = is_tensor
        if flags & ANOMALY:
            remember(ctx)
        ctx.needs_input_grad = _needs(is_tensor, edges)
        versions = [t._vc[0] if t._vc else 0 for t in tensors]
        state.flags = (flags | GRAD_OFF) & ~FORWARD_AD
        try:
            if separate:
                output = cls.forward(*args)
                cls.setup_context(ctx, args, output)
            else:
                output = cls.forward(ctx, *args)
        finally:
            state.flags = flags
        outputs = output if isinstance(output, tuple) else (output,)
        wrapped = _wrap_outputs(ctx, cls, args, tensors, versions, outputs, records)
        if records:
            _save(ctx, wrapped)
        if flags & FORWARD_AD:
            _propagate_tangents(cls, ctx, args, is_tensor, wrapped)
        if not separate and not isinstance(output, tuple):
            return wrapped[0]
        return wrapped if isinstance(output, tuple) else wrapped[0]


def _bind(forward, args, kwargs):
    import inspect

    bound = inspect.signature(forward).bind(*args, **kwargs)
    bound.apply_defaults()
    return bound.args


def _needs(is_tensor, edges):
    following = iter(edges)
    return tuple([t and next(following) is not NO_EDGE for t in is_tensor])


def _wrap_outputs(ctx, cls, args, tensors, versions, outputs, records):
    """Results with the node as their history; inputs that come back unchanged as views of themselves."""
    Tensor = _operators.Tensor
    dirty = {id(t) for t in ctx.dirty_tensors}
    unmarked = {id(t) for t in ctx.non_differentiable}
    inputs = {id(t) for t in tensors}
    for tensor in ctx.dirty_tensors:
        if not any(tensor is o for o in outputs):
            raise RuntimeError("Some elements marked as dirty during the forward method were not returned as output. "
                               "The inputs that are modified inplace must all be outputs of the Function.")
        if records:
            _check_dirty(tensor, len(outputs))
    wrapped = []
    for nr, out in enumerate(outputs):
        if not isinstance(out, Tensor):
            if out is None or not isinstance(out, Tensor):
                ctx.input_metadata = (*ctx.input_metadata, None, None)
            wrapped.append(out)
            continue
        array = out._array
        ctx.input_metadata = (*ctx.input_metadata, array.shape, array.dtype)
        differentiable = records and id(out) not in unmarked and array.dtype.kind in "fcV"
        if id(out) in dirty:
            bump_version(out)
            if records:
                metadata = ctx.input_metadata
                rebase_history(out, ctx)
                ctx.input_metadata = metadata
            wrapped.append(out if differentiable or not out.requires_grad else out._detached_alias())
        elif id(out) in inputs and not differentiable and out.requires_grad:
            wrapped.append(out._detached_alias())
        elif id(out) in inputs:
            alias = Tensor._make_subclass(type(out), out)
            wrapped.append(make_view(alias, out, (ctx, nr) if differentiable else NO_EDGE, state.flags,
                                     CUSTOM_FUNCTION))
        else:
            if out._view is not None:
                out._view.creation = CUSTOM_FUNCTION
                out._view.edge = (ctx, nr) if differentiable else NO_EDGE
            else:
                out._edge = (ctx, nr) if differentiable else NO_EDGE
            wrapped.append(out)
    views = [out._view for out in wrapped if isinstance(out, Tensor) and out._view is not None]
    if records and views and sum([isinstance(out, Tensor) and out.requires_grad for out in wrapped]) > 1:
        for view in views:
            view.creation = MULTI_OUTPUT
    return tuple(wrapped)


def _check_dirty(tensor, outputs: int) -> None:
    """Refuse a write by a custom function that would break the graph."""
    if tensor.requires_grad and tensor.is_leaf:
        raise RuntimeError("a leaf Variable that requires grad has been used in an in-place operation.")
    view = tensor._view
    if view is not None:
        if outputs > 1:
            raise RuntimeError("If your Function modifies inplace an input that is a view of another Tensor, your "
                               "Function cannot return more than one Tensor: clone the input before you write to it, "
                               "or give the other results as Functions of their own.")
        if view.creation != DEFAULT:
            raise RuntimeError(forbidden_view_message(view, "is being modified inplace"))


def _save(ctx, outputs):
    """Turn what save_for_backward was given into saved variables; outputs must not hold their own node."""
    if not ctx.to_save:
        return
    kept = []
    for tensor in ctx.to_save:
        if tensor is None:
            kept.append(None)
            continue
        if not isinstance(tensor, _operators.Tensor):
            raise TypeError(f"save_for_backward can only save variables, but argument {len(kept)} is of type "
                            f"{type(tensor).__name__}")
        nr = next((i for i, o in enumerate(outputs) if o is tensor), None)
        edge = tensor._edge if tensor._view is None else gradient_edge(tensor)
        own = nr is not None and edge is not None and edge[0] is ctx
        kept.append(SavedVariable(tensor, nr if own else None))
    ctx._saved = tuple(kept)
    ctx.to_save = ()


def _propagate_tangents(cls, ctx, args, is_tensor, outputs):
    from .forward_ad import tangent_of, update_tangent, zeros_for

    flags = state.flags
    tangents = [tangent_of(a) if t else None for a, t in zip(args, is_tensor, strict=True)]
    if all(t is None for t in tangents):
        return
    if ctx.materialize_grads:
        tangents = [zeros_for(a) if t and found is None else found
                    for a, t, found in zip(args, is_tensor, tangents, strict=True)]
    state.flags = flags & ~FORWARD_AD
    try:
        found = cls.jvp(ctx, *tangents)
    finally:
        state.flags = flags
    found = found if isinstance(found, tuple) else (found,)
    for out, tangent in zip(outputs, found, strict=False):
        if isinstance(out, _operators.Tensor) and tangent is not None:
            update_tangent(out, tangent)


def once_differentiable(function: Callable[..., _Result]) -> Callable[..., _Result]:
    """Mark a backward as not differentiable itself: differentiating through it raises."""
    @functools.wraps(function)
    def wrapper(ctx, *args):
        flags = state.flags
        state.flags = flags | GRAD_OFF
        try:
            outputs = function(ctx, *args)
        finally:
            state.flags = flags
        if flags & GRAD_OFF or not any(isinstance(a, _operators.Tensor) and a.requires_grad for a in args):
            return outputs
        found = outputs if isinstance(outputs, tuple) else (outputs,)
        node = Error("trying to differentiate twice a function that was marked with @once_differentiable",
                     [a._edge or gradient_edge(a) for a in args if isinstance(a, _operators.Tensor)])
        node.sequence_nr = next_sequence_nr()
        marked = []
        for out in found:
            if isinstance(out, _operators.Tensor):
                out = out._detached_alias()
                node.input_metadata = (*node.input_metadata, out._array.shape, out._array.dtype)
                out._edge = (node, len(node.input_metadata) // 2 - 1)
            marked.append(out)
        return tuple(marked) if isinstance(outputs, tuple) else marked[0]
    return wrapper
