"""Types and hooks that the parser cannot import, such as Tensor and dtype; `register_types` supplies them."""

from __future__ import annotations

from typing import Any


class _Missing:
    __slots__ = ()

    def __repr__(self):
        return "MISSING"


MISSING = _Missing()  # "not passed", where None is a value


class Fallback(Exception):
    """Raised by a plan that cannot finish a call; caught by its parser."""


class Mismatch(Fallback):
    """Raised for a value that does not fit although its class does.

    Args:
        text: None, or the whole error with placeholders {function}, {argument} and {index}.
    """

    def __init__(self, text: str | None = None):
        super().__init__(text)
        self.text = text


class Overridden(Fallback):
    """Raised for an argument that overrides functions by `__torch_function__`."""


class _Types:
    """Late-bound types and hooks."""

    Tensor: type = type("Unregistered", (), {})
    dtype: type | None = None
    device: type | None = None
    layout: type | None = None
    memory_format: type | None = None
    Generator: type | None = None
    storages: tuple[type, ...] = ()  # classes, once gradloom.storage is imported
    python_dtypes: dict = {}  # float -> float64 ..., for dtype=float
    constants: dict = {}  # names that schemas use as defaults: long, contiguous_format
    disabled_torch_function: Any = None  # the `__torch_function__` of classes without overrides
    wrapped_number: Any = None  # number -> Tensor that promotes weakly
    lone_number: Any = None  # the same, if all operands are numbers
    handle_torch_function: Any = None  # (overloads, args, kwargs) -> result
    warn_once: Any = None  # (key, message)
    stand_ins: dict[type, type] = {}  # class of objects that stand for numbers -> class of the numbers


types = _Types()
plain_classes: set[type] = set()  # tensor classes without an override; emptied when it reaches 1,000


def register_types(**bindings) -> dict:
    """Bind the types and hooks; return the previous bindings, so that a test can restore them.

    Keywords: Tensor, dtype, device, layout, memory_format, Generator (classes); python_dtypes {float: float64, ...};
    constants {"long": int64, "contiguous_format": ...}; disabled_torch_function; wrapped_number(number) and
    lone_number(number) -> Tensor; handle_torch_function(overloads, args, kwargs) -> result;
    warn_once(key, message).

    Raises TypeError for an unknown keyword.
    """
    previous = {}
    for name, value in bindings.items():
        if name.startswith("_") or not hasattr(_Types, name):
            raise TypeError(f"register_types() got an unexpected keyword argument {name!r}")
        previous[name] = getattr(types, name)
        setattr(types, name, value)
    plain_classes.clear()
    return previous


def overrides(cls: type) -> bool:
    """Return whether a class other than Tensor's subclasses overrides functions by `__torch_function__`.

    False as long as no `handle_torch_function` is registered. Overrides of Tensor's subclasses are called before the
    parser is reached; see Note [Torch functions].
    """
    function = getattr(cls, "__torch_function__", None)
    if function is None or types.handle_torch_function is None or issubclass(cls, types.Tensor):
        return False
    return function is not types.disabled_torch_function


def learn_plain(cls: type) -> bool:
    """Add a tensor class without an override to `plain_classes`; return whether it was new."""
    if cls in plain_classes:
        return False
    if len(plain_classes) >= 1000:
        plain_classes.clear()
    plain_classes.add(cls)
    return True


def type_name(cls: type) -> str:
    """Return a class's name as PyTorch's errors print it: with its module only if the class is written in C."""
    for name in ("dtype", "device", "layout", "memory_format", "Generator"):
        if cls is getattr(types, name):
            return f"torch.{name}"
    written_in_python = cls.__flags__ & (1 << 9)
    if written_in_python or cls.__module__ == "builtins":
        return cls.__name__
    return f"{cls.__module__}.{cls.__name__}"


def is_self(value) -> bool:
    """Return whether an unbound method takes a value as its `self`."""
    return isinstance(value, types.Tensor) or hasattr(type(value), "__torch_function__")
