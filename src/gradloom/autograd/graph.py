"""gradloom.autograd.graph: nodes and edges of the backward graph, hooks on several gradients and on saved tensors."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary, WeakSet, WeakValueDictionary, finalize, ref

from ..core import late
from ..core.edge import gradient_edge
from ..core.engine import queue_callback, will_run
from ..core.node import NO_EDGE, Node, RemovableHandle, as_pair
from ..core.roots import is_edge
from ..core.saved_variable import check_callable, modified_message
from ..core.tensor import Tensor
from ..dispatch.state import SAVED_HOOKS, state, whole_context
from ..memory.locks import new_lock
from ..memory.metadata import Metadata
from ..memory.ownership import address
from ..types.public import found_in as _found_in
from .node_hooks import node_creation_hook
from .passes import increment_version
from .variable import Variable

__all__ = [
    "GradientEdge",
    "Node",
    "allow_mutation_on_saved_tensors",
    "disable_saved_tensors_hooks",
    "get_gradient_edge",
    "increment_version",
    "node_creation_hook",
    "queue_callback",
    "register_multi_grad_hook",
    "save_on_cpu",
    "saved_tensors_hooks",
    "set_warn_on_accumulate_grad_stream_mismatch",
]


class GradientEdge(NamedTuple):
    """An edge of the backward graph: a root or input of `backward` and `grad` that does not keep a tensor's memory
    alive.

    Args:
        node: the node that the gradient flows into.
        output_nr: the output of the forward operator whose gradient it is.
        ownership_token: accepted for compatibility; not needed, since an edge refers to its node.
    """

    node: Node
    output_nr: int
    ownership_token: object = None


def _engine_run_backward(tensors, *args, **kwargs):
    return Variable._execution_engine.run_backward(tensors, *args, **kwargs)


def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    """Return the edge along which the gradient of `tensor` flows; for a leaf, that of its AccumulateGrad.

    Raises:
        RuntimeError: if the tensor does not require grad.
    """
    node, nr = as_pair(gradient_edge(tensor)) if tensor.requires_grad else NO_EDGE
    if node is None:
        raise RuntimeError("It is not possible to get the gradient edge for a Tensor that does not require gradients")
    return GradientEdge(node, nr)


def _get_grad_fn_or_grad_acc(tensor: Any) -> Node:
    """Return the node into which a tensor's gradient flows: its grad_fn or, for a leaf, its AccumulateGrad.

    Args:
        tensor: a Tensor or a GradientEdge.

    Raises AssertionError if it does not require grad.
    """
    node = tensor.node if is_edge(tensor) else as_pair(tensor._edge or gradient_edge(tensor))[0]
    if node is None:
        raise AssertionError("Expected gradient function to be set: the tensor does not require grad")
    return node


def _register_logging_hooks_on_whole_graph(t_outputs: Sequence[Any]) -> Callable[[], None]:
    """Log each node when it runs: at level DEBUG, to the logger `gradloom.autograd.graph`.

    Args:
        t_outputs: Tensors or GradientEdges, the roots of the graph.

    Returns:
        A function that removes the hooks.
    """
    import logging

    log = logging.getLogger("gradloom.autograd.graph")

    def tell(grads: Sequence[Tensor | None]) -> None:
        log.debug("Executing: %s with grad_outputs: [%s]", state.graph_task.node, ", ".join(map(_in_short, grads)))

    seen: set[Node] = set()
    waiting = [_get_grad_fn_or_grad_acc(output) for output in t_outputs]
    handles = []
    while waiting:
        node = waiting.pop()
        if node not in seen:
            seen.add(node)
            handles.append(node.register_prehook(tell))
            waiting += [following for following, _ in node.next_functions if following is not None]

    def unregister() -> None:
        for handle in handles:
            handle.remove()

    return unregister


def _in_short(grad: Tensor | None) -> str:
    """Return a gradient as `f32[2, 3]`."""
    if grad is None:
        return "None"
    numpy_type = grad._array.dtype
    kind = "bf" if numpy_type.name == "bfloat16" else "b" if numpy_type.kind == "b" else numpy_type.kind
    return f"{kind}{numpy_type.itemsize * 8}{list(grad.shape)}"


class _MultiHandle(RemovableHandle):
    """Handle of a hook on several tensors."""

    def __init__(self, handles: Any) -> Any:
        self.handles = tuple(handles)

    def remove(self) -> None:
        """Remove the hook; a second call does nothing."""
        for handle in self.handles:
            handle.remove()

    def __getstate__(self) -> Any:
        return self.handles

    def __setstate__(self, handles: Any) -> Any:
        self.handles = handles


def register_multi_grad_hook(tensors: Sequence[Tensor], fn: Callable[..., Any], *, mode: str = "all") -> _MultiHandle:
    """Call a hook in each backward pass that computes gradients of some of `tensors`.

    Args:
        tensors: Tensors that require grad.
        fn: with mode "all", called as `fn(grads)` after all gradients of the pass are computed, with one entry per
            tensor: its gradient, or None; with mode "any", as `fn(grad)` with the first gradient. Its result is
            ignored.
        mode: "all" or "any".

    Returns:
        A handle whose `remove()` removes the hook.

    Raises:
        ValueError: for another mode.
        AssertionError: if a tensor does not require grad.
    """
    if mode not in ("all", "any"):
        raise ValueError(f"Expects mode to be one of ('all', 'any') but got {mode}")
    tensors = tuple(tensors)
    if not all(tensor.requires_grad for tensor in tensors):
        raise AssertionError(
            "Expected gradient function to be set: every tensor of register_multi_grad_hook must require grad"
        )
    if mode == "any":
        hook = _first_of_each_pass(fn)
        return _MultiHandle([tensor.register_hook(hook) for tensor in tensors])
    collector = _all_of_each_pass(fn, [_node_of(tensor) for tensor in tensors])
    return _MultiHandle([tensor.register_hook(collector(i)) for i, tensor in enumerate(tensors)])


def _first_of_each_pass(fn):
    key, lock = object(), new_lock()

    def call_once(grad):
        task = state.graph_task
        with lock:
            if key in task.notes:
                return
            task.notes[key] = True
        fn(grad)

    return call_once


def _node_of(tensor):
    """Return a function that gives the tensor's node without keeping the graph alive, which holds the hooks."""
    if not tensor.is_leaf:
        return ref(as_pair(gradient_edge(tensor))[0])
    leaf = ref(tensor)
    return lambda: None if (found := leaf()) is None else as_pair(gradient_edge(found))[0]


def _all_of_each_pass(fn, nodes):
    """Return a factory of hooks that collect the gradients of each pass separately; `nodes` are functions that return
    the nodes, or None for those that are gone."""
    key, lock = object(), new_lock()

    def collector(index):
        def collect(grad):
            task = state.graph_task
            with lock:
                found = task.notes.get(key)
                if found is None:
                    running = [node for of in nodes if (node := of()) is not None and will_run(node)]
                    found = task.notes[key] = [len(running), [None] * len(nodes)]
                found[0] -= 1
                found[1][index] = grad
                if found[0]:
                    return
                del task.notes[key]
            fn(found[1])

        return collect

    return collector


def set_warn_on_accumulate_grad_stream_mismatch(enabled: bool) -> None:
    """Have no effect: gradients are accumulated without streams.

    Args:
        enabled: whether PyTorch would warn.
    """


class saved_tensors_hooks:
    """A `with` block in which a pair of hooks packs and unpacks every tensor saved for backward.

    Args:
        pack_hook: called with each Tensor when it is saved; its result, of any type, is saved instead. It must not
            write to the tensor.
        unpack_hook: called with this result when backward needs the tensor; returns a Tensor equal to the one saved.

    In nested blocks only the innermost hooks are called. Tensors saved through hooks are not checked for writes.

    Raises:
        TypeError: if a hook is not callable; in backward, if `unpack_hook` returns something else than a Tensor.
        RuntimeError: when entered within `disable_saved_tensors_hooks`; in forward, if `pack_hook` writes to its
            argument.
    """

    def __init__(self, pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Tensor]) -> None:
        self.pack_hook = pack_hook
        self.unpack_hook = unpack_hook

    def __enter__(self) -> None:
        check_callable("saved_tensors_hooks()", self.pack_hook, self.unpack_hook)
        if state.saved_hooks_disabled is not None:
            raise RuntimeError(state.saved_hooks_disabled)
        state.saved_tensor_hooks = (*state.saved_tensor_hooks, (self.pack_hook, self.unpack_hook))
        state.flags |= SAVED_HOOKS

    def __exit__(self, *exc: object) -> None:
        state.saved_tensor_hooks = state.saved_tensor_hooks[:-1]
        if not state.saved_tensor_hooks:
            state.flags &= ~SAVED_HOOKS


class save_on_cpu(saved_tensors_hooks):
    """A `with` block in which saved tensors are kept in the memory of the CPU.

    All tensors are on the CPU, so nothing is copied.

    Args:
        pin_memory: has no effect.
        device_type: has no effect.
    """

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        super().__init__(lambda tensor: (tensor.device, tensor.detach()), lambda packed: packed[1].to(packed[0]))


class disable_saved_tensors_hooks:
    """A `with` block (or a decorator) within which entering `saved_tensors_hooks` is an error.

    Args:
        error_message: the message of the RuntimeError.

    Raises:
        RuntimeError: with that message, if hooks are active when the block is entered.
        TypeError: if the message is not a str.
    """

    def __init__(self, error_message: str) -> None:
        self.error_message = error_message

    def __enter__(self) -> None:
        if not isinstance(self.error_message, str):
            raise TypeError(
                "disable_saved_tensors_hooks(): argument 'error_message' must be str, not "
                f"{type(self.error_message).__name__}"
            )
        if state.saved_tensor_hooks:
            raise RuntimeError(self.error_message)
        self._before = state.saved_hooks_disabled
        state.saved_hooks_disabled = self.error_message

    def __exit__(self, *exc: object) -> None:
        state.saved_hooks_disabled = self._before

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            with disable_saved_tensors_hooks(self.error_message):
                return function(*args, **kwargs)

        return call


class _Handle:
    """What nodes hold in place of a saved tensor; the context has the tensor, or its copy, under this key."""

    __slots__ = ("counter", "version", "__weakref__")

    def __init__(self, counter, version):
        self.counter = counter  # kept alive, because its id is part of the handle's key
        self.version = version


class _AllowMutationOnSavedContext:
    """The tensors saved in a block of `allow_mutation_on_saved_tensors`.

    Attributes:
        original: handle -> saved tensor that was not written to since, without history.
        cloned: handle -> copy of one that was.
        tid_to_weakhandle: identity of a saved tensor's memory, version and geometry -> its handle.
    """

    def __init__(self) -> None:
        self.cloned: WeakKeyDictionary[_Handle, Tensor] = WeakKeyDictionary()
        self.original: WeakKeyDictionary[_Handle, Tensor] = WeakKeyDictionary()
        self.tid_to_weakhandle: WeakValueDictionary[Any, _Handle] = WeakValueDictionary()
        self._handles: dict[int, WeakSet[_Handle]] = {}  # id of a version counter -> handles
        self._active = True

    def clear(self) -> None:
        """Forget all saved tensors; the graph cannot be run backward any more."""
        self.cloned.clear()
        self.original.clear()
        self.tid_to_weakhandle.clear()
        self._handles.clear()

    def _pack(self, tensor):
        counter, array = tensor._vc, tensor._array
        place = id(array) if isinstance(array, Metadata) else address(array)
        key = (id(counter), counter[0], place, array.shape, array.strides, array.dtype)
        handle = self.tid_to_weakhandle.get(key)
        if handle is None:
            handle = self.tid_to_weakhandle[key] = _Handle(counter, counter[0])
            self.original[handle] = tensor._detached_alias()
            of_memory = self._handles.get(id(counter))
            if of_memory is None:
                of_memory = self._handles[id(counter)] = WeakSet()
                finalize(handle, self._forget, id(counter))
            of_memory.add(handle)
        return handle

    def _forget(self, counter_id):
        if not self._handles.get(counter_id, True):
            del self._handles[counter_id]

    def _unpack(self, handle):
        copy = self.cloned.get(handle)
        if copy is not None and self._active:
            return copy
        if not self._active or handle not in self.original:
            raise AssertionError(
                "Trying to backward outside of the 'allow_mutation_on_saved_tensors' context in which "
                "the graph was originally recorded."
            )
        found = self.original[handle]
        if handle.counter[0] != handle.version:  # written to by something that dispatches no operator
            raise RuntimeError(modified_message(found._array, None, None, None, handle.counter, handle.version, found))
        return found

    def _before_write(self, tensor):
        """Copy what was saved of the memory of a tensor that is about to be written to."""
        of_memory = self._handles.get(id(tensor._vc))
        for handle in tuple(of_memory or ()):
            if handle in self.original:
                self.cloned[handle] = self.original.pop(handle).clone()


class _CloneBeforeWrite:
    """The dispatch mode of `allow_mutation_on_saved_tensors`."""

    def __init__(self, context):
        self._context = context

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        for position, argument in enumerate(func._schema.arguments):
            if argument.is_write:
                written = kwargs.get(argument.name) if argument.name in kwargs else args[position]
                for tensor in written if isinstance(written, (tuple, list)) else (written,):
                    self._context._before_write(tensor)
        return func(*args, **kwargs)


@whole_context
def allow_mutation_on_saved_tensors() -> Iterator[_AllowMutationOnSavedContext]:
    """A `with` block in which tensors may be written to in place although they are saved for backward.

    Backward, within the block, uses the values that the tensors had when they were saved. A saved tensor is copied
    before the first operator that writes to its memory; the context has the copies in its attribute `cloned`.

    Raises:
        RuntimeError: if such a block is open already.
        AssertionError: in a backward pass after the block, or after `clear()` of the block's value.
    """
    if any(isinstance(mode, _CloneBeforeWrite) for mode in state.dispatch_modes):
        raise RuntimeError("allow_mutation_on_saved_tensors contexts cannot be nested")
    context = _AllowMutationOnSavedContext()
    with saved_tensors_hooks(context._pack, context._unpack), late.dispatch_mode(_CloneBeforeWrite(context)):
        try:
            yield context
        finally:
            context.clear()
            context._active = False


_found_in(__name__, Node, increment_version, node_creation_hook, queue_callback)
