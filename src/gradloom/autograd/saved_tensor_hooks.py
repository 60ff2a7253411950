"""Hooks for what nodes keep for backward; part of gradloom.autograd.graph."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from ..core.saved_variable import check_callable
from ..dispatch.state import SAVED_HOOKS, state
from ..memory.ownership import address

if TYPE_CHECKING:
    from ..core.tensor import Tensor

__all__ = ["allow_mutation_on_saved_tensors", "disable_saved_tensors_hooks", "save_on_cpu", "saved_tensors_hooks"]


class saved_tensors_hooks:
    """A `with` block in which every tensor that is saved for backward goes through a pair of hooks.

    Args:
        pack_hook: called with each Tensor when it is saved; what it returns, of any type, is kept instead. It must not
            write to the tensor.
        unpack_hook: called with that when backward needs the tensor; it returns a Tensor equal to the saved one.

    In nested blocks only the hooks of the innermost are called. Tensors kept by hooks are not checked for writes.

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
    """A `with` block in which saved tensors wait for backward in the memory of the CPU.

    Every tensor is in that memory here, so nothing is copied; programs that use it run unchanged.

    Args:
        pin_memory: taken and without effect: there is no other device that would read pinned memory.
        device_type: taken and without effect.
    """

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        super().__init__(lambda tensor: (tensor.device, tensor.detach()), lambda packed: packed[1].to(packed[0]))


class disable_saved_tensors_hooks:
    """A `with` block (or a decorator) within which entering `saved_tensors_hooks` is an error.

    Args:
        error_message: what the RuntimeError says.

    Raises:
        RuntimeError: with that message, if hooks are in force when the block is entered.
        TypeError: if the message is no str.
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


class _Copy:
    """A saved tensor's values as they were; held by the nodes that saved it."""

    __slots__ = ("tensor", "counter", "__weakref__")

    def __init__(self, tensor, counter):
        self.tensor = tensor
        self.counter = counter  # held, so that no other counter gets its id while the copy is known by it


class _AllowMutationOnSavedContext:
    """What `allow_mutation_on_saved_tensors` gives: the copies that were made in its block."""

    def __init__(self) -> None:
        # (identity of the version counter, version, geometry) -> copy: a tensor that many nodes save is copied once.
        self._copies: WeakValueDictionary = WeakValueDictionary()
        self._active = True

    def clear(self) -> None:
        """Forget the copies; the graph cannot be run backward any more."""
        self._copies.clear()
        self._active = False

    def _pack(self, tensor):
        counter, array = tensor._vc, tensor._array
        key = (id(counter), counter[0], address(array), array.shape, array.strides, array.dtype)
        found = self._copies.get(key)
        if found is None:
            found = self._copies[key] = _Copy(tensor.detach().clone(), counter)
        return found

    def _unpack(self, copy):
        if not self._active:
            raise AssertionError(
                "Trying to backward outside of the 'allow_mutation_on_saved_tensors' context in which "
                "the graph was originally recorded."
            )
        return copy.tensor


@contextmanager
def allow_mutation_on_saved_tensors() -> Iterator[_AllowMutationOnSavedContext]:
    """A `with` block in which tensors may be written to in place although they are saved for backward.

    Backward, within the block, uses the values that the tensors had when they were saved. They are copied when they are
    saved, a tensor that several nodes save only once; PyTorch copies when the first write happens.

    Raises:
        RuntimeError: if such a block is open already.
        AssertionError: in a backward pass after the block, or after `clear()` of what the block gives.
    """
    if any(
        isinstance(getattr(pack, "__self__", None), _AllowMutationOnSavedContext)
        for pack, _ in state.saved_tensor_hooks
    ):
        raise RuntimeError("allow_mutation_on_saved_tensors contexts cannot be nested")
    context = _AllowMutationOnSavedContext()
    with saved_tensors_hooks(context._pack, context._unpack):
        try:
            yield context
        finally:
            context.clear()
