"""SavedVariable: a tensor that a node keeps until its backward runs.

Note [Saved variables]
A node keeps a saved tensor in a slot `saved_<name>`, which has

    the tensor itself    for an input that was never written to (no version counter): the common case, without another
                         object
    a SavedOutput        for a new output of the node, whose version is 0
    a SavedVariable      for an input with a version to compare, an output of an in-place operator, or a tensor packed
                         by hooks
    RELEASED             after an earlier backward pass freed the graph
    None                 for an undefined tensor, or one that no formula needs

The generated node reads its slot inline and calls `unpack` only if the object's `_vc` is not None. It is None in a
tensor that was never written to, and never in objects of the other three classes.

A node must not refer to its own output as a tensor (tensor -> node -> tensor would be a cycle). It keeps the array and
the version counter, and `unpack` makes a new tensor with the node as its history.
"""

from __future__ import annotations

from weakref import ref

import numpy as np

from ..dispatch import _operators
from ..dispatch.state import GIVEN_RESULT, GRAD_OFF, SAVED_HOOKS, state
from ..memory.metadata import Metadata
from . import late
from .accumulate_grad import AccumulateGrad
from .edge import gradient_edge, shallow_copy
from .node import Node, operator_name

new = object.__new__
_UNUSUAL = SAVED_HOOKS | GIVEN_RESULT
FREED_MESSAGE = (
    "Trying to backward through the graph a second time (or directly access saved tensors after they have already been "
    "freed). Saved intermediate values of the graph are freed when you call .backward() or autograd.grad(). Specify "
    "retain_graph=True if you need to backward through the graph a second time or if you need to access saved tensors "
    "after calling backward."
)


class _Released:
    """Mark of a slot whose tensor was freed."""

    __slots__ = ()
    _vc = "released"

    def unpack(self, node):
        raise RuntimeError(FREED_MESSAGE)

    def __repr__(self):
        return "<released saved variable>"


RELEASED = _Released()


class SavedOutput:
    """A new output of the saving node: what `SavedVariable` has for it, in a fraction of the time."""

    __slots__ = ("array", "counter", "output_nr", "_tangent", "__weakref__")
    _vc = "saved"
    version = 0
    unpack_hook = None

    @property
    def data(self):
        """The saved value, without history."""
        out = _operators.wrap(self.array)
        out._vc = self.counter
        return out

    def unpack(self, node):
        """Return the saved tensor with its history. Raises RuntimeError if its memory was written to since."""
        if self.counter[0]:
            raise RuntimeError(modified_message(self.array, None, self.output_nr, node, self.counter, 0, self))
        out = _operators.wrap(self.array)
        out._vc = self.counter
        out._edge = (node, self.output_nr)
        return _with_tangent(out, self._tangent)

    def general(self):
        """Return a SavedVariable of the same output, on which hooks can be registered."""
        saved = SavedVariable(self.data, self.output_nr)
        saved.version, saved._tangent = 0, self._tangent
        return saved


def save_output(tensor, output_nr):
    """Return the value of a node's slot for its output `output_nr`, where the thread's flags are 0."""
    if tensor._vc is not None:
        return SavedVariable(tensor, output_nr)
    saved = new(SavedOutput)
    saved.array = tensor._array
    saved.counter = tensor._vc = [0]
    saved.output_nr = output_nr
    saved._tangent = None  # it has none yet: `set_tangent` sets both
    return saved


class SavedVariable:
    """A saved tensor, with the version at which it was saved."""

    __slots__ = (
        "tensor",
        "array",
        "counter",
        "version",
        "output_nr",
        "unpack_hook",
        "packed",
        "edge",
        "leaf",
        "detachments",
        "_tangent",
        "__weakref__",
    )
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
        elif tensor._inference and state.func_level is None:  # a transform's graph does not outlive the transform
            raise RuntimeError(
                "Inference tensors cannot be saved for backward. Please do not use Tensors created in "
                "inference mode in computation tracked by autograd. To work around this, you can make a clone to get a "
                "normal tensor and use it in autograd, or use `torch.no_grad()` instead of `torch.inference_mode()`."
            )
        self.counter = counter
        self.version = counter[0]
        self.output_nr = output_nr
        self.detachments = tensor._detachments
        self.unpack_hook = None
        self.packed = None
        self._tangent = None  # an output has none yet: `set_tangent` sets both
        self.array = tensor._array
        self.tensor = tensor if output_nr is None else None
        if state.flags & _UNUSUAL:
            self._save_unusual(tensor)

    def _save_unusual(self, tensor):
        """Apply the default hooks; for an output without values, keep its components."""
        if state.flags & SAVED_HOOKS and tensor._wrapped_number is None:
            self._pack(tensor, tensor, *state.saved_tensor_hooks[-1])
        elif self.tensor is None and isinstance(self.array, Metadata):
            self.packed = shallow_copy(tensor)

    def register_hooks(self, pack, unpack):
        """Keep `pack(tensor)` instead of the tensor; `unpack` must return an equal tensor.

        Raises RuntimeError if there are hooks already, or `pack` writes to its argument.
        """
        if self.unpack_hook is not None:
            raise RuntimeError(
                "Calling register_hooks on a saved tensor whose hooks have already been set. Hint: only "
                "one pair of hooks is allowed at a time."
            )
        original = self.tensor
        shown = original._detached_alias() if original is not None else self._output()
        self._pack(original, shown, pack, unpack)

    def _pack(self, original, shown, pack, unpack):
        """Keep `pack(shown)` instead of `original`, together with the edge of `original`."""
        outer = state.flags
        state.flags = outer & ~SAVED_HOOKS | GRAD_OFF
        before = self.counter[0]
        try:
            packed = pack(shown)
        finally:
            state.flags = outer
        if self.counter[0] != before:
            raise RuntimeError(
                "A saved tensor pack hook is modifying its input in place. Tensors provided as input to "
                "pack hook cannot be modified by in-place operations as this can lead to unexpected side-effects. "
                "Please open an issue if you need to perform in-place operations on the input to a pack hook."
            )
        self.edge = self.leaf = None
        if self.output_nr is not None:
            if packed is shown:
                packed = shown._detached_alias()  # avoids the cycle tensor -> node -> saved value -> tensor
        elif original is not None:
            self._tangent = original._tangent
            edge = original._edge or gradient_edge(original)
            if isinstance(edge, AccumulateGrad):
                self.leaf = ref(edge)
            else:
                self.edge = edge
        self.unpack_hook, self.packed = unpack, packed
        self.tensor = self.array = None

    @property
    def data(self):
        """The saved value: the tensor, without history if it is an output; or the result of the pack hook."""
        if self.unpack_hook is not None:
            return self.packed
        return self.tensor if self.tensor is not None else self._output()

    def unpack(self, node):
        """Return the saved tensor with its history.

        Args:
            node: the node that saved it.

        Raises RuntimeError if its memory was written to since.
        """
        if self.unpack_hook is not None:
            return self._unpack_hooked(node)
        if self.counter[0] != self.version:
            if self.tensor is not None and self.tensor._detachments != self.detachments:
                check_attached(self.tensor)
            raise RuntimeError(
                modified_message(self.array, self.tensor, self.output_nr, node, self.counter, self.version, self)
            )
        if self.tensor is not None:
            if self.tensor._detachments != self.detachments:
                check_attached(self.tensor)
            return self.tensor
        found = self._output()
        found._edge = (node, self.output_nr)
        return _with_tangent(found, self._tangent)

    def _unpack_hooked(self, node):
        """Return the unpack hook's result; the hook runs once if several formulas of a node need the tensor."""
        task = state.graph_task
        if task is None:
            return self.unpack_anew(node)
        of_node, known = task.notes.get("unpacked", (None, None))
        if of_node is not node:
            of_node, known = task.notes["unpacked"] = (node, {})
        out = known.get(id(self))
        if out is None:
            out = known[id(self)] = self.unpack_anew(node)
        return out

    def unpack_anew(self, node):
        """Return what the unpack hook returns now, with the saved tensor's history."""
        found = self.unpack_hook(self.packed)
        if not isinstance(found, _operators.Tensor):
            raise TypeError(
                "Output of saved tensor unpack_hook expected to be a Tensor but got result of type "
                f"{type(found).__name__}"
            )
        if found._vc is None:
            found._vc = [0]
        out = shallow_copy(found) if isinstance(found._array, Metadata) else _operators.wrap(found._array)
        out._vc = found._vc  # so that a graph of this pass, too, notices writes
        if self.output_nr is not None:
            out._edge = (node, self.output_nr)
        elif self.leaf is not None:
            out._edge, out._accumulator = None, self.leaf  # a leaf: gradients go to its accumulator
        else:
            out._edge = self.edge
        return _with_tangent(out, self._tangent)

    def _output(self):
        """Return a saved output as a new tensor without history, with the version counter of its memory."""
        out = _operators.wrap(self.array) if self.packed is None else shallow_copy(self.packed)
        out._vc = self.counter
        return out


def _with_tangent(tensor, tangent):
    if tangent is not None:
        from .tangents import hold_tangent

        hold_tangent(tensor, tangent)
    return tensor


def save(tensor):
    """Return the value of a node's slot for an input: the tensor or a SavedVariable."""
    if tensor is None:
        return None
    if tensor._vc is None and (not state.flags & SAVED_HOOKS or tensor._wrapped_number is not None):
        return tensor
    return SavedVariable(tensor)


def save_list(tensors):
    """Return a tuple of saved inputs."""
    return tuple([save(t) for t in tensors])


def unpack(saved, node):
    """Return the tensor in a slot, if it is not simply a tensor that was never written to."""
    if saved is None:
        return None
    if isinstance(saved, _operators.Tensor):
        counter = saved._vc  # saved at version 0, before it had a counter
        if counter is not None and counter[0] != 0:
            if saved._detachments:
                check_attached(saved)
            raise RuntimeError(modified_message(saved._array, saved, None, node, counter, 0, saved))
        if saved._detachments:
            check_attached(saved)
        return saved
    return saved.unpack(node)


def check_attached(tensor) -> None:
    """Refuse a tensor whose history `detach_()` removed after it was saved."""
    if tensor.grad_fn is None:
        raise RuntimeError(
            "Trying to use a saved tensor that has been detached in-place, i.e. with .detach_().This is "
            "not supported, please use out-of-place `.detach()` instead"
        )


def unpack_list(saved, node):
    """Return the tensors in a slot that holds a list."""
    if saved is RELEASED:
        raise RuntimeError(FREED_MESSAGE)
    return tuple([unpack(s, node) for s in saved])


def modified_message(array: np.ndarray, tensor, output_nr, node, counter, expected: int, saved) -> str:
    """Return the message for a saved tensor that was written to.

    Args:
        array, tensor: the saved array and tensor; the tensor is None for an output of the node.
        output_nr: which output of the node; None for an input.
        node: the node that saved it; None for an argument saved by a checkpoint.
        counter: the version counter, with the writes that anomaly mode noted; see Note [Anomaly mode].
        expected: the version that was saved.
        saved: the object in the node's slot, from which the slot's name is found.
    """
    from ..types.dtype import TYPE_OF, type_text

    if tensor is not None:
        array = tensor._array  # its shape may have changed, too
    origin = ""
    if output_nr is not None:
        origin = f", which is output {output_nr} of {operator_name(node)},"
    elif tensor is not None:
        maker, nr = tensor.grad_fn, tensor.output_nr
        if maker is not None:
            origin = f", which is output {nr} of {operator_name(maker)},"
    return (
        "one of the variables needed for gradient computation has been modified by an inplace operation: "
        f"[{type_text(TYPE_OF[array.dtype])} {list(array.shape)}]{origin} is at version {counter[0]}; "
        f"expected version {expected} instead.{late.describe_writes(node, saved, counter, expected)}"
    )


def saved_outputs(node, output_nr):
    """Return the objects in which a node keeps one of its own outputs."""
    for field in node._saved_fields:
        saved = getattr(node, f"saved_{field}", None)
        for one in saved if isinstance(saved, tuple) else (saved,):
            if isinstance(one, (SavedOutput, SavedVariable)) and one.output_nr == output_nr:
                yield one


class SavedTensor:
    """Handle on a saved tensor (`_raw_saved_<field>`), on which pack and unpack hooks can be registered."""

    __slots__ = ("_node", "_field", "_position")

    def __init__(self, *args):
        if len(args) != 3 or not isinstance(args[0], Node):
            raise RuntimeError("Trying to create a SavedTensor object from Python is forbidden.")
        self._node, self._field, self._position = args

    @property
    def _value(self):
        value = getattr(self._node, self._field)
        if self._position is None or value is RELEASED:
            return value
        return value[self._position] if value else RELEASED

    def register_hooks(self, pack_hook=None, unpack_hook=None):
        """Keep `pack_hook(tensor)` instead of the tensor; `unpack_hook` must return an equal tensor.

        Raises:
            TypeError: if either is not callable.
            RuntimeError: if hooks are set already, the tensor was freed or is undefined, or `pack_hook` writes to it.
        """
        check_callable("register_hooks()", pack_hook, unpack_hook)
        value = self._value
        if value is RELEASED:
            raise RuntimeError(
                "Calling register_hooks on a saved tensor after it has been freed. Saved intermediate "
                "values of the graph are freed when you call .backward() or autograd.grad(). Specify "
                "retain_graph=True if you need to backward through the graph a second time or if you need to access "
                "saved variables after calling backward."
            )
        if value is None:
            raise RuntimeError("Calling register_hooks on a saved tensor with value None is forbidden")
        if isinstance(value, SavedVariable):
            value.register_hooks(pack_hook, unpack_hook)
            return
        outer, state.flags = state.flags, state.flags & ~SAVED_HOOKS
        try:
            saved = value.general() if isinstance(value, SavedOutput) else SavedVariable(value)
        finally:
            state.flags = outer
        saved.register_hooks(pack_hook, unpack_hook)
        if self._position is None:
            setattr(self._node, self._field, saved)
        else:
            kept = getattr(self._node, self._field)
            setattr(self._node, self._field, (*kept[: self._position], saved, *kept[self._position + 1 :]))

    @property
    def data(self):
        """The saved value: a Tensor, the pack hook's result, or None. No hook runs."""
        value = self._value
        if value is RELEASED or value is None:
            return None
        return value.data if isinstance(value, (SavedOutput, SavedVariable)) else value

    @property
    def unpack_hook(self):
        """The unpack hook, if there are hooks."""
        value = self._value
        return value.unpack_hook if isinstance(value, SavedVariable) else None

    def unpack(self):
        """Return the saved tensor with its history; None if it is undefined.

        Raises RuntimeError if it was freed, or written to since.
        """
        return unpack(self._value, self._node)


def raw_saved(node, field: str):
    """Return the handle on the value that a node saved in a field; for a list of tensors, a tuple of handles.

    Raises RuntimeError if the tensors of a list were freed.
    """
    value = getattr(node, field)
    if isinstance(value, tuple):
        return tuple([SavedTensor(node, field, i) for i in range(len(value))])
    return SavedTensor(node, field, None)


def check_callable(function: str, *hooks) -> None:
    """Refuse hooks that cannot be called, with a TypeError that names the function."""
    for hook in hooks:
        if not callable(hook):
            raise TypeError(
                f"{function}: incompatible function arguments: a pack hook and an unpack hook are "
                f"functions of one argument, but got {type(hook).__name__}"
            )
