"""SavedVariable: what a node keeps of a tensor until its backward runs.

Note [Saved variables]
A node keeps a saved tensor in a slot `saved_<name>`. What is in the slot:

    the tensor itself    an input that had never been written to (no version counter): the common case, no object made
    a SavedVariable      an input with a version to compare, an output, or one that went through hooks
    RELEASED             the graph was freed by an earlier backward pass
    None                 an undefined tensor, or one that no formula will ask for

The generated node reads its slot in line and calls `unpack` only if the found object has a `_vc`: a tensor that was
never written to has none, the other two classes always claim one.

An output must not be held by its own node as a tensor (tensor -> node -> tensor would be a cycle); its array and
version counter are kept, and `unpack` makes a new tensor with the node as its history.
"""

from __future__ import annotations

import numpy as np

from .. import _operators
from ..dispatch import SAVED_HOOKS, state
from .node import operator_name

FREED_MESSAGE = (
    "Trying to backward through the graph a second time (or directly access saved tensors after they have already been "
    "freed). Saved intermediate values of the graph are freed when you call .backward() or autograd.grad(). Specify "
    "retain_graph=True if you need to backward through the graph a second time or if you need to access saved tensors "
    "after calling backward.")


class _Released:
    """Stands in a slot whose tensor was dropped."""

    __slots__ = ()
    _vc = "released"

    def unpack(self, node):
        raise RuntimeError(FREED_MESSAGE)

    def __repr__(self):
        return "<released saved variable>"


RELEASED = _Released()


class SavedVariable:
    """A tensor together with the version that it had when it was saved."""

    __slots__ = ("tensor", "array", "counter", "version", "output_nr", "hooks", "packed", "origin", "_tangent",
                 "__weakref__")
    _vc = "saved"

    def __init__(self, tensor, output_nr=None):
        """
        Args:
            tensor: the Tensor to save.
            output_nr: for an output of the saving node, which one; None for an input.
        """
        counter = tensor._vc
        if counter is None:
            counter = tensor._vc = [0]
        self.counter = counter
        self.version = counter[0]
        self.output_nr = output_nr
        self.hooks = None
        self.packed = None
        self.origin = None
        self._tangent = None  # of an output, which has none yet: `set_tangent` gives it to both
        self.array = tensor._array
        self.tensor = tensor if output_nr is None else None
        if state.flags & SAVED_HOOKS and state.saved_tensor_hooks:
            self.register_hooks(*state.saved_tensor_hooks[-1])

    def register_hooks(self, pack, unpack):
        """Replace what is kept by `pack(tensor)`; `unpack` must give back an equal tensor."""
        if self.hooks is not None:
            raise RuntimeError("Calling register_hooks on a saved tensor whose hooks have already been set. "
                               "Hint: only one pair of hooks is allowed at a time.")
        data = self.tensor._detached_alias() if self.tensor is not None else _operators.wrap(self.array)
        if self.tensor is not None:
            self.origin = (self.tensor._edge, self.tensor._leaf_reference())
        before = data._version
        outer, state.flags = state.flags, state.flags & ~SAVED_HOOKS | 1
        try:
            packed = pack(data)
        finally:
            state.flags = outer
        if data._version != before:
            raise RuntimeError("A saved tensor pack hook is modifying its input in place. Tensors provided as input "
                               "to pack hook can not be modified by in-place operations as this can lead to "
                               "unexpected side-effects. Please open an issue if you need to perform in-place "
                               "operations on the input to a pack hook.")
        self.hooks, self.packed = unpack, packed
        self.tensor = self.array = None

    def unpack(self, node):
        """The saved tensor, with its history.

        Args:
            node: the node that saved it.

        Raises:
            RuntimeError: if its memory was written to since.
        """
        if self.hooks is not None:
            return self._unpack_hooked(node)
        if self.counter[0] != self.version:
            raise RuntimeError(modified_message(self.array, self.tensor, self.output_nr, node, self.counter,
                                                self.version, self))
        if self.tensor is not None:
            return self.tensor
        found = _operators.wrap(self.array)
        found._vc = self.counter
        found._edge = (node, self.output_nr)
        if self._tangent is not None:
            from .forward_ad import hold_tangent
            hold_tangent(found, self._tangent)
        return found

    def _unpack_hooked(self, node):
        found = self.hooks(self.packed)
        if not isinstance(found, _operators.Tensor):
            raise TypeError("Output of saved tensor unpack_hook expected to be a Tensor but got result of type "
                            f"{type(found).__name__}")
        out = found._detached_alias()
        if self.output_nr is not None:
            out._edge = (node, self.output_nr)
            return out
        edge, leaf = self.origin
        if edge is not None:
            out._edge = edge
        elif leaf is not None and leaf() is not None:
            out._edge = (leaf(), 0)
        return out


def save(tensor):
    """What a slot should hold for an input, whatever the situation."""
    if tensor is None:
        return None
    if tensor._vc is None and not state.flags & SAVED_HOOKS:
        return tensor
    return SavedVariable(tensor)


def save_list(tensors):
    """A tuple of saved inputs."""
    return tuple([save(t) for t in tensors])


def unpack(saved, node):
    """The tensor in a slot that is not simply an unmodified tensor."""
    if saved is None:
        return None
    if isinstance(saved, _operators.Tensor):
        counter = saved._vc  # saved at version 0, before it had a counter
        if counter is not None and counter[0] != 0:
            raise RuntimeError(modified_message(saved._array, saved, None, node, counter, 0, saved))
        return saved
    return saved.unpack(node)


def unpack_list(saved, node):
    """The tensors of a slot that holds a list."""
    if saved is RELEASED:
        raise RuntimeError(FREED_MESSAGE)
    return tuple([unpack(s, node) for s in saved])


def modified_message(array: np.ndarray, tensor, output_nr, node, counter, expected: int, saved) -> str:
    """The message for a saved tensor that was written to.

    Args:
        array, tensor: what was saved; the tensor is None for an output of the node.
        output_nr: which output of the node; None for an input.
        node: the node that saved it.
        counter: the version counter, with the writes that anomaly mode noted; see Note [Anomaly mode].
        expected: the version that was saved.
        saved: what the node holds, to find its name.
    """
    from ..dtype import TYPE_OF, legacy_type_name
    from .error_notes import written_by

    if tensor is not None:
        array = tensor._array  # of which the shape may have changed, too
    origin = ""
    if output_nr is not None:
        origin = f", which is output {output_nr} of {operator_name(node)},"
    elif tensor is not None:
        maker, nr = tensor.grad_fn, tensor.output_nr
        if maker is not None:
            origin = f", which is output {nr} of {operator_name(maker)},"
    return ("one of the variables needed for gradient computation has been modified by an inplace operation: "
            f"[{legacy_type_name(TYPE_OF[array.dtype])} {list(array.shape)}]{origin} is at version {counter[0]}; "
            f"expected version {expected} instead. {written_by(node, saved, counter, expected)}")


def saved_outputs(node, output_nr):
    """The SavedVariables in which a node keeps one of its own outputs."""
    for field in node._saved_fields:
        saved = getattr(node, f"saved_{field}", None)
        for one in saved if isinstance(saved, tuple) else (saved,):
            if one.__class__ is SavedVariable and one.output_nr == output_nr:
                yield one


class SavedTensor:
    """What `_raw_saved_<field>` returns: a handle on which pack and unpack hooks can be put."""

    __slots__ = ("_node", "_field")

    def __init__(self, node, field):
        self._node, self._field = node, field

    def register_hooks(self, pack_hook, unpack_hook):
        """Keep `pack_hook(tensor)` in place of the tensor; `unpack_hook` must give back an equal one.

        Raises:
            TypeError: if either is not callable.
            RuntimeError: if hooks are set already, or the tensor was freed or is undefined.
        """
        for hook in (pack_hook, unpack_hook):
            if not callable(hook):
                raise TypeError(f"register_hooks() expects callables, got {type(hook).__name__}")
        saved = getattr(self._node, self._field)
        if saved is RELEASED:
            raise RuntimeError(FREED_MESSAGE)
        if saved is None:
            raise RuntimeError("Calling register_hooks on a saved tensor with value None is forbidden")
        if not isinstance(saved, SavedVariable):
            saved = SavedVariable(saved)
            setattr(self._node, self._field, saved)
        saved.register_hooks(pack_hook, unpack_hook)

    @property
    def data(self):
        return unpack(getattr(self._node, self._field), self._node)
