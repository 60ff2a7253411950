"""Nodes: the functions of the backward graph. Most classes are generated; AccumulateGrad is in accumulate_grad.py.

Note [Nodes]
Generated nodes have `__slots__`. The wrapper that makes a node sets its attributes one by one, since a constructor call
would cost as much as the operator. Every node has

    next_edges       one edge per input of the forward operator; see Note [Edges] in edge.py
    sequence_nr      rises with each node made; the engine runs later nodes first
    input_metadata   (shape, dtype) of each forward output, flattened into one tuple: what gradients must match
    hooks            None, or a NodeHooks, which also has the rarely used `metadata` dict and anomaly trace

`apply(grads, edges)` takes the list of gradients of its outputs (None where undefined) and returns a tuple with one
gradient per next edge. `edges` are the next edges, with NO_EDGE in place of those whose gradients this pass does not
need; formulas skip those. Chains of a million nodes are freed without deep recursion: CPython's trashcan unwinds
containers and instances with slots alike.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Callable
from itertools import count
from typing import Any, Self

import numpy as np

from ..dispatch import _operators
from ..dispatch.state import INFERENCE, state
from ..memory.locks import new_lock
from ..types.size import Size

NO_EDGE = (None, 0)


def as_pair(edge: Any) -> Any:
    """Return an edge as `(node, number)`; see Note [Edges] in edge.py."""
    return edge if type(edge) is tuple else (edge, 0)


REGISTERING = new_lock()  # guards the registration of hooks; no other lock is taken while it is held
write_watcher = None  # anomaly mode's function, called with the version counter after each in-place write
next_sequence_nr = count().__next__


_numbering = new_lock()  # threads that register hooks at once must get different numbers


class RemovableHandle:
    """The handle that every `register_*hook` returns: `remove()`, or leaving its `with` block, removes the hook.

    It refers to the dictionary of hooks weakly, so that a handle keeps neither the owner nor its hooks alive.

    Args:
        hooks_dict: the ordered dictionary in which the caller is about to store the hook under `self.id`.
        extra_dict: a dictionary, or a list of them, with further facts kept under the same id.
    """

    __module__ = "gradloom.utils.hooks"  # where users find it
    next_id: int = 0
    id: int
    hooks_dict_ref: Any
    extra_dict_ref: tuple[Any, ...]

    def __init__(self, hooks_dict: Any, *, extra_dict: Any = None) -> None:
        self.hooks_dict_ref = weakref.ref(hooks_dict)
        with _numbering:
            self.id = RemovableHandle.next_id
            RemovableHandle.next_id += 1
        extras = () if extra_dict is None else extra_dict if isinstance(extra_dict, list) else (extra_dict,)
        self.extra_dict_ref = tuple(weakref.ref(extra) for extra in extras)

    def remove(self) -> None:
        """Remove the hook; a second call does nothing."""
        for reference in (self.hooks_dict_ref, *self.extra_dict_ref):
            owner = reference()
            if owner is not None:
                owner.pop(self.id, None)

    def __getstate__(self) -> Any:
        return self.hooks_dict_ref(), self.id, tuple(reference() for reference in self.extra_dict_ref)

    def __setstate__(self, state: Any) -> None:
        hooks, self.id, extras = state
        # A handle that outlives its owner gets an empty dictionary, so that remove() stays harmless.
        self.hooks_dict_ref = weakref.ref(OrderedDict() if hooks is None else hooks)
        self.extra_dict_ref = tuple(weakref.ref(OrderedDict() if extra is None else extra) for extra in extras)
        with _numbering:
            RemovableHandle.next_id = max(RemovableHandle.next_id, self.id + 1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, exc_type: object, exc_value: object, traceback: object) -> None:
        self.remove()


class NodeHooks:
    """Hooks, user metadata and the anomaly trace of a node, made when first needed."""

    __slots__ = ("pre", "post", "tensor_pre", "retain_grad", "metadata", "trace")

    def __init__(self) -> None:
        self.pre: OrderedDict[int, Any] = OrderedDict()
        self.post: OrderedDict[int, Any] = OrderedDict()
        self.tensor_pre: dict[int, Any] = {}  # output number -> {id: hook}
        self.retain_grad: dict[int, Any] = {}  # output number -> hook that stores .grad, always after the tensor hooks
        self.metadata: dict[Any, Any] | None = None
        self.trace: Any = None


_Slot = type(NodeHooks.pre)


class Node:
    """Base class of all nodes of the backward graph."""

    __slots__ = ("next_edges", "sequence_nr", "input_metadata", "hooks", "__weakref__")
    next_edges: tuple[Any, ...]
    sequence_nr: int
    hooks: NodeHooks | None
    input_metadata: tuple[Any, ...]
    _entry: str = ""  # the name of a generated node's entry in derivatives.yaml: `mul.Tensor`
    _saved_fields: tuple = ()  # fields that `_saved_<field>` shows
    _raw_fields: tuple = ()  # those with tensors, which `_raw_saved_<field>` also shows
    _number_fields: tuple = ()  # those with a Scalar

    def __init__(self) -> None:
        raise TypeError(f"cannot create '{type(self).__name__}' instances: operators make their nodes")

    def __getattr__(self, name: str) -> Any:
        """Return a saved value: `_saved_<field>` unpacks it, `_raw_saved_<field>` gives a handle on it."""
        if name.startswith("_saved_") and name[7:] in self._saved_fields:
            found = shown(object.__getattribute__(self, f"saved_{name[7:]}"), self)
            return found if name[7:] in self._number_fields else unsigned(found)
        if name.startswith("_raw_saved_") and name[11:] in self._raw_fields:
            from .saved_variable import raw_saved

            return raw_saved(self, f"saved_{name[11:]}")
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __dir__(self) -> list[str]:
        own = [
            name
            for name in super().__dir__()
            if name not in ("_entry", "_saved_fields", "_raw_fields", "_number_fields")
            and not (name.startswith("saved_") and type(getattr(type(self), name, None)) is _Slot)
        ]
        return own + [f"_saved_{f}" for f in self._saved_fields] + [f"_raw_saved_{f}" for f in self._raw_fields]

    def apply(self, grads: Any, edges: Any) -> Any:
        raise NotImplementedError(f"{self.name()} has no apply()")

    # Method that drops saved tensors after a backward pass without retain_graph; None for nodes that save none.
    release_variables = None

    @property
    def next_functions(self) -> tuple[tuple[Node | None, int], ...]:
        """Pairs `(node, input number)`: the nodes that this node's gradients go to."""
        return tuple([as_pair(edge) for edge in self.next_edges])

    def name(self) -> str:
        """Return PyTorch's name of the node: the class's, with C++'s namespace for hand-written nodes."""
        name = type(self).__name__
        return name if name.rpartition("Backward")[2][:1].isdigit() else f"torch::autograd::{name}"

    def _sequence_nr(self) -> int:
        return self.sequence_nr

    def _set_sequence_nr(self, number: int) -> None:
        """Set the sequence number; the engine runs nodes with higher numbers first."""
        if not isinstance(number, int):
            raise TypeError(f"an integer is required: a sequence number must not be a {type(number).__name__}")
        if number < 0:
            raise OverflowError("can't convert negative int to unsigned: a sequence number is at least 0")
        if number >= 1 << 64:
            raise OverflowError("int too big to convert: a sequence number has 64 bits")
        self.sequence_nr = number

    @property
    def requires_grad(self) -> bool:
        """Return True: nodes exist only where something requires grad."""
        return True

    @property
    def metadata(self) -> dict[Any, Any]:
        """A dict for the user's own data about this node."""
        hooks = self.ensure_hooks()
        if hooks.metadata is None:
            hooks.metadata = {}
        if hooks.trace is not None:
            hooks.metadata.setdefault("traceback_", hooks.trace.lines())
            if hooks.trace.parent is not None:
                hooks.metadata.setdefault("parent_", hooks.trace.parent)
        return hooks.metadata  # type: ignore[return-value]

    @property
    def _input_metadata(self):
        found = self.input_metadata
        return tuple(
            [
                InputMetadata((), np.dtype(np.float32))
                if found[i] is None  # an undefined output
                else InputMetadata(found[i], found[i + 1])
                for i in range(0, len(found), 2)
            ]
        )

    def ensure_hooks(self) -> NodeHooks:
        if self.hooks is None:
            with REGISTERING:  # all threads must get the same dictionary
                if self.hooks is None:
                    self.hooks = NodeHooks()
        return self.hooks

    def register_hook(self, fn: Callable[..., Any], /) -> RemovableHandle:
        """Call `fn(grad_inputs, grad_outputs)` after this node has run; a returned tuple replaces grad_inputs."""
        return _register(self.ensure_hooks().post, fn)

    def _register_hook_dict(self, tensor: Any) -> None:
        """Run the hooks in `tensor._backward_hooks` on the gradient of that output of the node."""
        self.ensure_hooks().tensor_pre[tensor.output_nr] = tensor._backward_hooks

    def register_prehook(self, fn: Callable[..., Any], /) -> RemovableHandle:
        """Call `fn(grad_outputs)` before this node runs; a returned tuple replaces grad_outputs."""
        return _register(self.ensure_hooks().pre, fn)

    def __call__(self, *grads: Any) -> Any:
        """Run this node by hand on gradients of its outputs, without its hooks.

        Args:
            grads: a Tensor, or None for an undefined gradient, for each output of the forward operator.

        Returns:
            The gradient of its only input, or a tuple of gradients.

        Raises TypeError if the number of gradients differs, or one is not a Tensor.
        """
        wanted = len(self.input_metadata) // 2
        if len(grads) != wanted:
            raise TypeError(f"expected {wanted} arguments, got {len(grads)} instead")
        for i, grad in enumerate(grads):
            if grad is not None and not isinstance(grad, _operators.Tensor):
                raise TypeError(f"argument {i} is not a Variable")
        out = self.apply(list(grads), self.next_edges)
        return out[0] if len(out) == 1 else tuple(out)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} object at {id(self):#x}>"

    def __reduce_ex__(self, protocol: Any) -> None:
        raise TypeError(
            f"cannot pickle '{type(self).__name__}' object: a node belongs to the graph of this process. "
            "Save tensors instead, detached ones"
        )

    def __lt__(self, other: Node) -> bool:
        return False  # with equal numbers, the engine's heap takes the node that came first


def tell_created(node: Node) -> None:
    """Call this thread's node creation hooks with a new node; see `autograd.graph.node_creation_hook`.

    Raises RuntimeError if a hook returns a value or makes a node.
    """
    hooks, state.node_hooks = state.node_hooks, (_refuse_nodes,)
    try:
        for hook in hooks:
            found = hook(node)
            if found is not None:
                raise RuntimeError(f"node creation hook must return None, got {type(found).__name__}")
    finally:
        state.node_hooks = hooks


def _refuse_nodes(node):
    raise RuntimeError(
        "Creating a new autograd node from inside a node creation hook is not supported. Node creation hooks should "
        "only observe the node (e.g. record it, stash metadata, or register backward hooks on it); got a new node of "
        f"type {node.name()} while a hook was running."
    )


def operator_name(node: Any) -> str:
    """Return the name of a node in messages: `Exp` for ExpBackward0, `Squeeze3` for SqueezeBackward3."""
    name = node.name()
    stem, _, number = name.rpartition("Backward")
    return stem + number.removeprefix("0") if stem and (number.isdigit() or not number) else name


def _register(hooks: dict, fn):
    handle = RemovableHandle(hooks)
    hooks[handle.id] = fn
    return handle


class InputMetadata:
    """Shape, dtype and device of the gradient that a node expects for one of its outputs."""

    __slots__ = ("shape", "_numpy_type")

    def __init__(self, shape: Any, numpy_type: Any) -> None:
        self.shape = list(shape)
        self._numpy_type = numpy_type

    @property
    def dtype(self) -> Any:
        from ..types.dtype import TYPE_OF

        return None if self._numpy_type is None else TYPE_OF[self._numpy_type]

    @property
    def device(self) -> Any:
        from ..types.device import CPU

        return CPU

    is_nested_tensor = False
    is_cpp_nested_tensor = False


def shown(saved: Any, node: Any) -> Any:
    """Convert a saved value to the form in which `_saved_<field>` shows it."""
    from .saved_variable import unpack

    if saved.__class__ is Size:
        return tuple(saved)
    if isinstance(saved, tuple) and any(hasattr(s, "_vc") for s in saved):
        return tuple([shown(s, node) for s in saved])
    if hasattr(saved, "_vc"):
        saved = unpack(saved, node)
        number = saved._wrapped_number
        if number is not None:
            return _operators.wrap(np.array(number, np.int64 if number.__class__ is int else None))
    return saved


def unsigned(saved):
    """Convert integers to unsigned 64-bit ones, as PyTorch's getters do: dimension -1 becomes 2**64 - 1."""
    if saved.__class__ is int:
        return saved & 0xFFFF_FFFF_FFFF_FFFF
    return tuple([unsigned(s) for s in saved]) if saved.__class__ is tuple else saved


class GraphRoot(Node):
    """Start of a backward pass with several roots: passes each root its gradient."""

    __slots__ = ("grads",)

    def __init__(self, edges: Any, grads: Any) -> None:
        self.next_edges = tuple(edges)
        self.grads = tuple(grads)
        self.sequence_nr = 1 << 61
        self.input_metadata = ()
        self.hooks = None

    def apply(self, grads: Any, edges: Any) -> Any:
        return self.grads


def zeros_of(node: Any, output_nr: int) -> Any:
    """Return zeros in the shape and dtype of a node's output, for a formula that needs an undefined gradient."""
    metadata = node.input_metadata
    return _operators.wrap(np.zeros(metadata[2 * output_nr], metadata[2 * output_nr + 1]))


def bump_version(tensor: Any) -> None:
    """Increment the tensor's version after a write to its memory.

    Raises RuntimeError for an inference tensor outside of inference mode.
    """
    if tensor._inference is True and not state.flags & INFERENCE:
        raise RuntimeError(
            "Inplace update to inference tensor outside InferenceMode is not allowed.You can make a "
            "clone to get a normal tensor before doing inplace update.See "
            "https://github.com/pytorch/rfcs/pull/17 for more details."
        )
    counter = tensor._vc
    if counter is None:
        counter = tensor._vc = [1]
    else:
        counter[0] += 1
    if write_watcher is not None:
        write_watcher(counter)


class Error(Node):
    """Node of a derivative that cannot be computed: raises when a gradient reaches it."""

    __slots__ = ("message",)

    def __init__(self, message: str, next_edges: Any = ()) -> None:
        self.message = message
        self.next_edges = tuple(next_edges)
        self.input_metadata = ()
        self.hooks = None

    def apply(self, grads: Any, edges: Any) -> None:
        raise RuntimeError(self.message)


class NotImplementedNode(Error):
    """Backward of an operator without a derivative."""

    __slots__ = ()


NotImplementedNode.__name__ = NotImplementedNode.__qualname__ = "NotImplemented"  # as PyTorch prints it


class UndefinedGrad(Node):
    """Pass on undefined gradients: the node of outputs that cannot have a gradient."""

    __slots__ = ()

    def apply(self, grads: Any, edges: Any) -> Any:
        return (None,) * len(edges)
