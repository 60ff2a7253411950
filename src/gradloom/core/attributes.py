"""The `__dict__` of tensors: cold fields and users' attributes; see Note [Tensor layout] in tensor.py.

A tensor's dictionary has both. Programs see, replace and copy only their own: `Tensor.__dict__` hides the cold fields,
and where a subclass has a `__dict__` of another class, they are kept elsewhere.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Any

_dictionary: Any = None  # the descriptor of a tensor's dictionary


def provide(descriptor: Any) -> None:
    """Register the descriptor of the dictionary that a tensor has."""
    global _dictionary
    _dictionary = descriptor


def dictionary() -> Any:
    """Return the descriptor of the dictionary that a tensor has."""
    return _dictionary


def fields(tensor: Any) -> dict[str, Any]:
    """Return the dictionary that a tensor has: cold fields, where they are set, and users' attributes."""
    found: dict[str, Any] = _dictionary.__get__(tensor)
    return found


# The cold fields; see Note [Tensor layout] in tensor.py.
COLD = frozenset(
    """
    _view _accumulator _grad _grad_dtype _tangent _post_accumulate_grad_hooks _wrapped_number _retains_grad
    _detachments _inference _name _backward_hooks
    """.split()
)


class OwnAttributes(dict[str, Any]):
    """The attributes that a program gave a tensor. Changes are changes of the tensor."""

    def __init__(self, everything: dict[str, Any]) -> None:
        super().__init__({name: value for name, value in everything.items() if name not in COLD})
        self._everything = everything

    def __setitem__(self, name: str, value: Any) -> None:
        super().__setitem__(name, value)
        self._everything[name] = value

    def __delitem__(self, name: str) -> None:
        super().__delitem__(name)
        del self._everything[name]

    def update(self, *others: Any, **more: Any) -> None:
        """Set several attributes."""
        for name, value in dict(*others, **more).items():
            self[name] = value

    def setdefault(self, name: str, value: Any = None) -> Any:
        """Return an attribute, set to a value if there is none."""
        if name not in self:
            self[name] = value
        return self[name]

    def pop(self, name: str, *default: Any) -> Any:
        """Remove an attribute and return it."""
        if name in self:
            del self._everything[name]
        return super().pop(name, *default)

    def popitem(self) -> tuple[str, Any]:
        """Remove the last attribute and return it with its name."""
        name, value = super().popitem()
        del self._everything[name]
        return name, value

    def clear(self) -> None:
        """Remove all attributes."""
        for name in self:
            del self._everything[name]
        super().clear()

    def __reduce__(self) -> Any:  # a copy belongs to no tensor
        return dict, (dict(self),)


class _ColdField:
    """A cold field in the slot `_cold`, out of sight of a class that has a `__dict__` of its own."""

    def __init__(self, name: str, default: Any) -> None:
        self.name, self.default = name, default

    def __get__(self, tensor: Any, owner: Any = None) -> Any:
        if tensor is None:
            return self.default
        try:
            return tensor._cold[self.name]
        except (AttributeError, KeyError):
            return self.default

    def __set__(self, tensor: Any, value: Any) -> None:
        try:
            tensor._cold[self.name] = value
        except AttributeError:
            tensor._cold = {self.name: value}


def keep_cold_apart(cls: type, tensor: type) -> None:
    """Keep the cold fields of a subclass's instances out of their `__dict__`, if the subclass shows all of that.

    It does where it inherits from an ordinary class before Tensor, as `class Tagged(Meta, torch.Tensor)`: programs
    replace such a dictionary, or copy it from one tensor to another.
    """
    shown = next(vars(base)["__dict__"] for base in cls.__mro__ if "__dict__" in vars(base))
    if shown is not vars(tensor)["__dict__"] and not any(isinstance(vars(cls).get(name), _ColdField) for name in COLD):
        for name in COLD:
            setattr(cls, name, _ColdField(name, getattr(tensor, name)))


def copy_fields(source: Any, target: Any, left_out: Container[str] = ()) -> None:
    """Give a new tensor, of whatever class, the cold fields and attributes of another."""
    found = {name: value for name, value in fields(source).items() if name not in left_out}
    found.update({name: value for name, value in getattr(source, "_cold", {}).items() if name not in left_out})
    if isinstance(vars(type(target)).get("_view"), _ColdField):
        for name in COLD & found.keys():
            setattr(target, name, found.pop(name))
    fields(target).update(found)
