"""Weak references and dictionaries by identity: as keys of others, tensors would be compared by their elements."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, MutableMapping
from typing import Any

from gradloom.core.tensor import Tensor

__all__ = ["TensorWeakRef", "WeakIdKeyDictionary", "WeakIdRef", "WeakTensorKeyDictionary"]


class WeakIdRef(weakref.ref[Any]):
    """A weak reference that equals another if both refer to one object, or once did.

    Args:
        key: the object.
        callback: called with the reference when the object dies.
    """

    __slots__ = ("_id",)

    def __new__(cls, key: Any, callback: Callable[[Any], Any] | None = None) -> WeakIdRef:
        return super().__new__(cls, key, callback)

    def __init__(self, key: Any, callback: Callable[[Any], Any] | None = None) -> None:
        super().__init__(key, callback)  # type: ignore[call-arg]
        self._id = id(key)

    def __hash__(self) -> int:
        return self._id

    def __eq__(self, other: object) -> bool:
        own, others = self(), other() if isinstance(other, weakref.ref) else None
        return self is other if own is None or others is None else own is others


class WeakIdKeyDictionary(MutableMapping[Any, Any]):
    """A dictionary by the identity of its keys; an item vanishes with its key.

    Args:
        dict: the first items.
        ref_type: the class of the references to keys.
    """

    def __init__(self, dict: Any = None, ref_type: type[Any] = WeakIdRef) -> None:
        self.data: Any = {}
        self.ref_type = ref_type
        own = weakref.ref(self)

        def remove(reference):
            found = own()
            if found is not None:
                found.data.pop(reference, None)

        self._remove = remove
        if dict is not None:
            self.update(dict)

    def __getitem__(self, key: Any) -> Any:
        return self.data[self.ref_type(key)]

    def __setitem__(self, key: Any, value: Any) -> None:
        self.data[self.ref_type(key, self._remove)] = value

    def __delitem__(self, key: Any) -> None:
        del self.data[self.ref_type(key)]

    def __contains__(self, key: object) -> bool:
        try:
            return self.ref_type(key) in self.data
        except TypeError:  # an object without weak references
            return False

    def __iter__(self) -> Iterator[Any]:
        for reference in list(self.data):  # keys may die meanwhile
            key = reference()
            if key is not None:
                yield key

    def __len__(self) -> int:
        return sum(reference() is not None for reference in list(self.data))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} at {id(self):#x}>"

    def keyrefs(self) -> list[Any]:
        """Return the references to the keys; some may be dead when they are used."""
        return list(self.data)

    def copy(self) -> WeakIdKeyDictionary:
        """Return a dictionary with the same items."""
        return WeakIdKeyDictionary(self, self.ref_type)

    __copy__ = copy

    def __deepcopy__(self, memo: dict[int, Any]) -> WeakIdKeyDictionary:
        from copy import deepcopy

        found = WeakIdKeyDictionary(ref_type=self.ref_type)
        for key, value in self.items():
            found[key] = deepcopy(value, memo)
        return found

    def __or__(self, other: Any) -> WeakIdKeyDictionary:
        found = self.copy()
        found.update(other)
        return found

    def __ior__(self, other: Any) -> WeakIdKeyDictionary:
        self.update(other)
        return self

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, WeakIdKeyDictionary):
            return NotImplemented
        return {id(key): value for key, value in self.items()} == {id(key): value for key, value in other.items()}

    __hash__ = None  # type: ignore[assignment]


WeakTensorKeyDictionary = WeakIdKeyDictionary


class TensorWeakRef:
    """A weak reference to a tensor; calling it returns the tensor, or None once that is gone.

    Raises AssertionError for something other than a tensor.
    """

    ref: WeakIdRef

    def __init__(self, tensor: Tensor) -> None:
        if not isinstance(tensor, Tensor):
            raise AssertionError(f"expected torch.Tensor, got {type(tensor)}")
        self.ref = WeakIdRef(tensor)

    def __call__(self) -> Tensor | None:
        found: Tensor | None = self.ref()
        return found
