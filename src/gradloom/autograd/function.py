"""Custom functions: forward and backward written by the user, as nodes of the graph."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from ..core import late
from ..core.anomaly import remember
from ..core.edge import DEAD_EDGE, gradient_edge
from ..core.engine import sum_so_far
from ..core.node import NO_EDGE, Error, Node, as_pair, next_sequence_nr
from ..core.saved_variable import FREED_MESSAGE, SavedVariable, raw_saved, unpack
from ..core.tensor import Tensor
from ..dispatch import _operators
from ..dispatch.state import ANOMALY, FORWARD_AD, GRAD_OFF, state
from .function_outputs import propagate_tangents, save_tensors, wrap_outputs
from .node_hooks import tell_of_results

_Result = TypeVar("_Result")

__all__ = [
    "BackwardCFunction",
    "Function",
    "FunctionCtx",
    "FunctionMeta",
    "InplaceFunction",
    "NestedIOFunction",
    "once_differentiable",
]


class FunctionCtx:
    """Methods of `ctx` in forward, backward and setup_context. Any other attribute may be set on it, too."""

    if TYPE_CHECKING:
        saved_tensors: tuple[Any, ...]
        output_grad_dtypes: Any
        hooks: Any
        next_edges: Any
        _is_tensor: Any
        needs_input_grad: tuple[bool, ...]

        def __getattr__(self, name: str) -> Any: ...
        def __setattr__(self, name: str, value: Any) -> None: ...

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Save tensors (inputs, outputs, intermediates, or None) for backward, with version checks."""
        self.to_save = tensors

    def save_for_forward(self, *tensors: Tensor | None) -> None:
        """Save tensors for `jvp`."""
        for tensor in tensors:
            if not (isinstance(tensor, _operators.Tensor) or tensor is None):
                raise AssertionError(
                    "save_for_forward expects all arguments to be tensors; you should save non-tensors as attributes "
                    "on ctx."
                )
        self.saved_for_forward = tensors

    def mark_dirty(self, *args: Tensor) -> None:
        """Declare inputs that forward wrote to in place; they must be returned."""
        self.dirty_tensors = args

    def mark_non_differentiable(self, *args: Tensor) -> None:
        """Declare outputs through which no gradient flows."""
        self.non_differentiable = args

    def set_materialize_grads(self, value: bool) -> None:
        """Set whether undefined gradients reach backward as zeros (the default) or as None.

        Args:
            value: True for zeros.
        """
        if not isinstance(value, bool):
            raise TypeError(
                "set_materialize_grads received an invalid combination of arguments - got "
                f"({type(value).__name__}), but expected (bool)"
            )
        self.materialize_grads: bool = value

    def set_output_grad_dtype(self, *dtypes: Any) -> None:
        """Declare the dtype in which backward receives the gradient of each output, instead of the output's own.

        Args:
            dtypes: for each returned value a dtype to which the gradient is converted, or None: it comes as it is. For
                values that are no tensors, or have no gradient, None.

        Raises RuntimeError for a second call. `apply` raises it for what does not fit the outputs.
        """
        if self.output_grad_dtypes is not None:
            raise RuntimeError("set_output_grad_dtype can only be called once")
        self.output_grad_dtypes = dtypes

    @property
    def input_grad_buffers(self) -> tuple[Any, ...]:
        """In backward: the gradients of forward's arguments that other nodes have computed so far, or None.

        It is None where there is no such gradient, or something else refers to it. Backward may add its own gradient to
        the tensor in place, and return None for that argument. The tensor must not be kept.

        Raises RuntimeError outside of this node's backward, with create_graph=True or anomaly detection, and if the
        node has hooks for its results.
        """
        task = state.graph_task
        if task is None or task.node is not self:
            raise RuntimeError("input_grad_buffers can only be accessed while autograd is executing backward()")
        if task.create_graph:
            raise RuntimeError("input_grad_buffers does not support create_graph=True")
        if state.flags & ANOMALY:
            raise RuntimeError("input_grad_buffers does not support anomaly detection")
        if self.hooks is not None and self.hooks.post:
            raise RuntimeError(
                "input_grad_buffers does not support post-hooks on the producing autograd node because directly "
                "accumulated gradients are returned as None and cannot be observed or replaced by those hooks"
            )
        edges = iter(self.next_edges)
        return tuple([sum_so_far(task, next(edges)) if is_tensor else None for is_tensor in self._is_tensor])

    def mark_shared_storage(self, *pairs: Any) -> None:
        """Warn and do nothing: shared memory is detected automatically."""
        import warnings

        warnings.warn(
            "`mark_shared_storage` is deprecated. Tensors with shared storages are automatically tracked: "
            "leave the call out.",
            FutureWarning,
            stacklevel=2,
        )


class FunctionMeta(type):
    """Metaclass that gives every Function class its node class, `<Name>Backward`."""

    def __init__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> None:
        super().__init__(name, bases, namespace)
        members = {"_forward_cls": cls, "__module__": BackwardCFunction.__module__}
        cls._backward_cls = type(f"{name}Backward", (BackwardCFunction,), members)


def _unpacked(saved, node):
    """Return a saved tensor of a custom function; an unpack hook runs in every access."""
    if saved.__class__ is SavedVariable and saved.unpack_hook is not None:
        return saved.unpack_anew(node)
    return unpack(saved, node)


class BackwardCFunction(FunctionCtx, Node):
    """The node of a custom function; also the `ctx` that its methods receive."""

    _forward_cls = None
    to_save = saved_for_forward = dirty_tensors = non_differentiable = None
    output_grad_dtypes = None
    _output_metadata = None  # with set_output_grad_dtype: `input_metadata` without what it declares
    materialize_grads = True
    _materialize_non_diff_grads = True  # False: outputs that are not differentiable get None, whatever the others get
    _undifferentiated = ()  # their numbers, in that case
    _saved = ()
    _released = _accessed = False
    needs_input_grad = ()

    def name(self):
        return type(self).__name__

    def __repr__(self):
        return f"<{type(self).__module__}.{type(self).__name__} object at {id(self):#x}>"

    @property
    def saved_tensors(self):
        if self._accessed:
            raise RuntimeError(
                "saved_tensors can only be accessed once when clear_saved_tensors_on_access=True is set "
                f"on the autograd.Function. {self._forward_cls.__name__} does so: keep the tuple, or "
                "leave the attribute out."
            )
        if self._released:
            raise RuntimeError(FREED_MESSAGE)
        if self.saved_for_forward:  # only until `apply` returns
            return self.saved_for_forward
        found = tuple([_unpacked(s, self) for s in self._saved])
        if self._forward_cls.clear_saved_tensors_on_access:
            self._saved, self._accessed = (), True
        return found

    @property
    def saved_variables(self):
        import warnings

        warnings.warn("'saved_variables' is deprecated; use 'saved_tensors'", DeprecationWarning, stacklevel=2)
        return self.saved_tensors

    @property
    def _raw_saved_tensors(self):
        if self._released:
            raise RuntimeError(FREED_MESSAGE)
        return raw_saved(self, "_saved")

    def release_variables(self):
        self._saved, self._released = (), True

    def __getattr__(self, name):
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def apply(self, grads, edges):
        function = self._forward_cls
        backward, vjp = function.backward, function.vjp
        if backward is not Function.backward and vjp is not Function.vjp:
            raise RuntimeError(
                "Implementing both 'backward' and 'vjp' for a custom Function is not allowed. You "
                "should only implement one of them."
            )
        call = vjp if vjp is not Function.vjp else backward
        if self.materialize_grads:
            grads = [
                _zeros(self._output_metadata or self.input_metadata, i)
                if g is None and i not in self._undifferentiated
                else g
                for i, g in enumerate(grads)
            ]
        found = call(self, grads) if function.boxed_grads_call else call(self, *grads)
        found = found if isinstance(found, tuple) else (found,)
        return self._edge_gradients(found)

    def _edge_gradients(self, found):
        """Return the gradients of the tensor arguments; backward returns one for every argument."""
        is_tensor = self._is_tensor
        if len(found) > len(is_tensor):
            if any(g is not None for g in found[len(is_tensor) :]):
                raise RuntimeError(
                    f"function {self.name()} returned an incorrect number of gradients (expected "
                    f"{len(is_tensor)}, got {len(found)})"
                )
            found = found[: len(is_tensor)]
        if len(found) != len(is_tensor):
            raise RuntimeError(
                f"function {self.name()} returned an incorrect number of gradients (expected "
                f"{len(is_tensor)}, got {len(found)})"
            )
        out = []
        for i, (grad, tensor) in enumerate(zip(found, is_tensor, strict=True)):
            if not tensor:
                if grad is not None:
                    raise RuntimeError(
                        f"function {self.name()} returned a gradient different than None at position "
                        f"{i + 1}, but the corresponding forward input was not a Variable"
                    )
                continue
            if grad is not None:
                if not isinstance(grad, _operators.Tensor):
                    raise RuntimeError(f"expected Variable or None (got {type(grad).__name__})")
                if grad._array.dtype.kind == "c":
                    self._refuse_complex(grad, i, len(out))
            out.append(grad)
        return tuple(out)

    def _refuse_complex(self, grad, position: int, edge: int):
        """Refuse a complex gradient of a real input. In operators' formulas the engine takes the real part; a user's
        backward must do so explicitly."""
        following, nr = as_pair(self.next_edges[edge])
        wanted = following.input_metadata[2 * nr + 1] if following is not None else None
        if wanted is not None and wanted.kind != "c":
            raise RuntimeError(
                f"function {self.name()} returned a complex gradient ({grad.dtype}) at position "
                f"{position + 1}, where the input of forward is real. Return its real part. (Expected "
                "isFloatingType(grad.scalar_type()) || (input_is_complex == grad_is_complex) to be "
                "true, but got false.)"
            )


def _zeros(metadata, index):
    import numpy as np

    shape = metadata[2 * index]
    return None if shape is None else _operators.wrap(np.zeros(shape, metadata[2 * index + 1]))


class Function(metaclass=FunctionMeta):
    """Base class for custom functions: define the static methods forward and backward, call `apply`.

    forward(ctx, *args) computes the result (or forward(*args) together with setup_context(ctx, inputs, output)).
    backward(ctx, *grads) returns one gradient per argument of forward, None for those without.
    jvp(ctx, *tangents) returns the tangents of the outputs, for forward mode.

    Attributes:
        generate_vmap_rule: True if vmap may batch forward and backward operator by operator.
        clear_saved_tensors_on_access: True if `ctx.saved_tensors` may be read once only. It then drops its references,
            so that backward can free each tensor after its last use.
        boxed_grads_call: True if backward takes the gradients as one list, `backward(ctx, grads)`, from which it may
            remove each after its last use.
    """

    generate_vmap_rule = False
    clear_saved_tensors_on_access = False
    boxed_grads_call = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        import warnings

        warnings.warn(
            f"{type(self)} should not be instantiated. Methods on autograd functions are all "
            "static, so you should invoke them on the class itself. Instantiating an autograd function will "
            "raise an error in a future version of PyTorch.",
            DeprecationWarning,
            stacklevel=2,
        )

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise RuntimeError(
            "Legacy autograd function with non-static forward method is deprecated. Please use "
            "new-style autograd function with static forward method. (Example: "
            "https://pytorch.org/docs/stable/autograd.html#torch.autograd.Function)"
        )

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """Compute a result or a tuple: `forward(ctx, *args)`, or `forward(*args)` if there is a setup_context."""
        raise NotImplementedError("You must implement the forward function for custom autograd.Function.")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> Any:
        """Save on `ctx` what backward needs from the arguments and the output, for a forward that takes no ctx."""
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(*args: Any, **kwargs: Any) -> Any:
        """Return a gradient (or None) per argument of forward, from one per output: `backward(ctx, *grads)`."""
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom "
            "autograd.Function to use it with backward mode AD."
        )

    vjp = backward

    @staticmethod
    def jvp(*args: Any, **kwargs: Any) -> Any:
        """Return the tangents of the outputs, from one per argument of forward: `jvp(ctx, *tangents)`."""
        raise NotImplementedError(
            "You must implement the jvp function for custom autograd.Function to use it with forward mode AD."
        )

    @staticmethod
    def vmap(*args: Any, **kwargs: Any) -> Any:
        """Compute a batch: `vmap(info, in_dims, *args)` returns the outputs and their batch dimensions."""
        raise NotImplementedError(
            "To use autograd.Function with vmap, you must either override the vmap staticmethod "
            "or set generate_vmap_rule=True."
        )

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Call forward and record it."""
        separate = cls.setup_context is not Function.setup_context
        if separate or kwargs:
            args = _by_position(cls.forward, args, kwargs, separate)
        if state.batching:
            found = late.apply_batched(cls, args)
            if found is not NotImplemented:
                return found
        Tensor = _operators.Tensor
        is_tensor = tuple([isinstance(a, Tensor) for a in args])
        tensors = [a for a, t in zip(args, is_tensor, strict=True) if t]
        flags = state.flags
        if flags & GRAD_OFF:  # asks for no history: that of a stale view would be refused
            edges = tuple([DEAD_EDGE if t.requires_grad else NO_EDGE for t in tensors])
        else:
            edges = tuple([t._edge or gradient_edge(t) for t in tensors])
        requires_grad = any(e is not NO_EDGE for e in edges)
        records = requires_grad and not flags & GRAD_OFF
        ctx = object.__new__(cls._backward_cls)
        ctx.next_edges, ctx.sequence_nr, ctx.input_metadata, ctx.hooks = (), next_sequence_nr(), (), None
        if records:
            ctx.next_edges = edges
        ctx._is_tensor = is_tensor
        if flags & ANOMALY:
            remember(ctx)
        ctx.needs_input_grad = _needs(is_tensor, edges) if requires_grad else (False,) * len(args)
        profiler = state.profiler
        record = None if profiler is None else profiler.begin(cls.__name__, sequence_nr=ctx.sequence_nr)
        if record is not None:
            profiler.describe(record, args)
        state.flags = (flags | GRAD_OFF) & ~FORWARD_AD
        if flags & FORWARD_AD:
            state.forward_grad = False
        try:
            if separate:
                output = cls.forward(*args)
                cls.setup_context(ctx, args, output)
            else:
                output = cls.forward(ctx, *args)
        finally:
            state.flags = flags
            if flags & FORWARD_AD:
                state.forward_grad = True
            if record is not None:
                profiler.end(record)
        outputs = output if isinstance(output, tuple) else (output,)
        wrapped = wrap_outputs(ctx, tensors, outputs, records, separate)
        if records and ctx.to_save is not None:
            save_tensors(ctx, wrapped)
        if flags & FORWARD_AD:
            propagate_tangents(cls, ctx, args, is_tensor, outputs, wrapped)
        if records and state.node_hooks:
            tell_of_results(wrapped, ctx.sequence_nr)
        ctx.saved_for_forward = ctx.dirty_tensors = ctx.non_differentiable = None  # results, which refer to ctx
        return wrapped if isinstance(output, tuple) else wrapped[0]


class InplaceFunction(Function):
    """A Function with an attribute for in-place writes; kept for programs written for PyTorch.

    Args:
        inplace: the value of `self.inplace`.
    """

    def __init__(self, inplace: bool = False):
        super().__init__()
        self.inplace = inplace


class NestedIOFunction(Function):
    """A Function of nested arguments, in the style before static methods.

    It exists for `isinstance` and `issubclass` only: instances cannot be called.
    """

    def forward_extended(self, *input: Any) -> None:
        """Compute the outputs; a subclass defines this method instead of forward."""
        raise NotImplementedError

    def backward_extended(self, *grad_output: Any) -> None:
        """Compute the gradients; a subclass defines this method instead of backward."""
        raise NotImplementedError


def _needs(is_tensor, edges):
    following = iter(edges)
    return tuple([t and next(following) is not NO_EDGE for t in is_tensor])


_SingleLevelFunction = Function  # PyTorch's three names for one class
_ContextMethodMixin = FunctionCtx


def once_differentiable(function: Callable[..., _Result]) -> Callable[..., _Result]:
    """Mark a backward as not differentiable itself: differentiating through it raises.

    Args:
        function: the backward method, below @staticmethod.
    """

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
        # Its edges lead to leaves of its own, as in PyTorch: it raises when `backward` runs all nodes; autograd.grad
        # skips it if other paths lead to the inputs.
        node = Error("trying to differentiate twice a function that was marked with @once_differentiable")
        node.sequence_nr = next_sequence_nr()
        marked, edges = [], []
        for out in found:
            edges.append(NO_EDGE)
            if isinstance(out, _operators.Tensor):
                leaf, out = out._detached_alias(), out._detached_alias()
                if leaf._array.dtype.kind in "fcV":
                    leaf.requires_grad = True
                    edges[-1] = gradient_edge(leaf)
                node.input_metadata = (*node.input_metadata, out._array.shape, out._array.dtype)
                out._edge = (node, len(node.input_metadata) // 2 - 1)
            marked.append(out)
        node.next_edges = tuple(edges)
        return tuple(marked) if isinstance(outputs, tuple) else marked[0]

    return wrapper


def _by_position(
    forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], separate: bool
) -> tuple[Any, ...]:
    """Return all arguments of `Function.apply` by position, since backward numbers their gradients.

    Args:
        forward: the method to call.
        args: the positional arguments, without `ctx`.
        kwargs: the keyword arguments.
        separate: whether there is a setup_context, which gets the defaults of omitted arguments. Otherwise arguments
            before a keyword argument are required, and forward fills in those after it.

    Raises TypeError for a name that is not a parameter of forward or follows a `*`, and for a duplicate or missing
    argument.
    """
    import inspect

    signature = inspect.signature(forward)
    if separate:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        for name in bound.kwargs:
            _refuse_keyword(name)
        return bound.args
    names = [
        name
        for name, parameter in signature.parameters.items()
        if parameter.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
    ][1:]
    for name in kwargs:
        if name not in names:
            _refuse_keyword(name)
        if name in names[: len(args)]:
            raise TypeError(f"forward() got multiple values for argument '{name}'")
    last = max(map(names.index, kwargs))
    for position in range(len(args), last):
        if names[position] not in kwargs:
            raise TypeError(
                f"forward() missing required argument: '{names[position]}' (position {position}). A custom "
                "function takes an argument by name only if those in front of it are given"
            )
    return (*args, *[kwargs[name] for name in names[len(args) : last + 1]])


def _refuse_keyword(name: str) -> NoReturn:
    raise TypeError(
        f"forward() got an unexpected keyword argument '{name}'. A custom function takes by name only what "
        "it could take by position: an argument after `*` or in `**kwargs` has no gradient to return"
    )
