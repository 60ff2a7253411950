"""Run functions written against PyTorch on another library.

PyTorch's databases describe an operator by a C function (`torch.add`), a method (`torch.Tensor.add_`), a
Python function or a lambda that calls several of those. The first three have a public name, and the candidate
is asked for the same name. A lambda is run as it stands, on `Proxy` objects: PyTorch hands every function
that meets one to `__torch_function__`, and what has no tensor argument (`torch.randn(3)`) reaches `_Forward`,
a function mode. Both look the function up by name in the candidate, call it on the candidate's tensors, and
wrap what comes back.
"""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from .library import Absent, Library
from .names import NAMES
from .records import Recorder, dtype_name, map_leaves


class Proxy:
    """Stands for one tensor of the candidate inside code written for PyTorch."""

    __slots__ = ("_tensor", "_bridge")

    def __init__(self, tensor: Any, bridge: Bridge) -> None:
        self._tensor = tensor
        self._bridge = bridge

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        bridge = next(found for found in map(_bridge_of, [*args, *(kwargs or {}).values()]) if found)
        return bridge.forward(func, args, kwargs or {})

    def __getattr__(self, name: str) -> Any:
        return self._bridge.attribute(self._tensor, name)

    def __iter__(self) -> Any:
        return iter([self._bridge.wrap(item) for item in self._tensor])

    def __len__(self) -> int:
        return len(self._tensor)

    def __repr__(self) -> str:
        return f"Proxy({self._tensor!r})"

    __hash__ = object.__hash__


def _bridge_of(value: Any) -> Bridge | None:
    """The bridge of the first proxy in a (nested) argument."""
    if isinstance(value, Proxy):
        return value._bridge
    if isinstance(value, (tuple, list)):
        return next((found for found in map(_bridge_of, value) if found), None)
    return None


def _define_operators() -> None:
    """Give Proxy Python's operators: each is applied to the candidate's tensors themselves."""

    def define(name: str, function: Callable, swapped: bool = False) -> None:
        def method(self: Proxy, *others: Any) -> Any:
            operands = (others[0], self) if swapped else (self, *others)
            return self._bridge.call(function, operands, {})

        setattr(Proxy, name, method)

    for name in "add sub mul truediv floordiv mod pow matmul and or xor lshift rshift".split():
        function = getattr(operator, f"__{name}__")
        define(f"__{name}__", function)
        define(f"__r{name}__", function, swapped=True)
        define(f"__i{name}__", getattr(operator, f"__i{name}__"))
    for name in "neg pos abs invert eq ne lt le gt ge getitem setitem index contains".split():
        define(f"__{name}__", getattr(operator, f"__{name}__"))
    for kind in (bool, int, float, complex):
        define(f"__{kind.__name__}__", kind)


_define_operators()


class Bridge:
    """Translates calls made on proxies and PyTorch values into calls of one candidate library."""

    def __init__(self, library: Library) -> None:
        self.library = library
        self._dtype_type = type(library.module.float32)

    def forward(self, func: Any, args: tuple, kwargs: dict) -> Any:
        """Call the candidate's function of the same name as PyTorch's `func`; Absent if it has none."""
        names = NAMES.of(func)
        if any(name.startswith("Tensor.") for name in names) and getattr(func, "__name__", "") == "__get__":
            return self.attribute(self.unwrap(args[0]), names[0].removeprefix("Tensor."))
        return self.call(find_first(self.library, names or [repr(func)]), args, kwargs)

    def call(self, function: Callable, args: tuple, kwargs: dict) -> Any:
        args, kwargs = self.unwrap(args), self.unwrap(kwargs)
        with torch._C.DisableTorchFunction():
            return self.wrap(function(*args, **kwargs))

    def attribute(self, tensor: Any, name: str) -> Any:
        """A tensor's attribute as code written for PyTorch expects it; methods take and return proxies."""
        if not hasattr(tensor, name):
            raise Absent(f"Tensor.{name}")
        method = getattr(self.library.Tensor, name, None)
        with torch._C.DisableTorchFunction():
            value = getattr(tensor, name)
        if callable(value) and callable(method):
            return lambda *args, **kwargs: self.call(method, (tensor, *args), kwargs)
        if isinstance(value, self._dtype_type):
            return getattr(torch, dtype_name(value))
        return self.wrap(value)

    def wrap(self, value: Any) -> Any:
        if self.library.is_tensor(value):
            return Proxy(value, self)
        if type(value) is tuple:
            return tuple(map(self.wrap, value))
        if isinstance(value, tuple) and not hasattr(value, "numel"):  # a named tuple; a Size stays as it is
            items = [self.wrap(item) for item in value]
            return type(value)._make(items) if hasattr(value, "_make") else type(value)(items)
        return list(map(self.wrap, value)) if isinstance(value, list) else value

    def unwrap(self, value: Any) -> Any:
        """Proxies, and PyTorch's own values, as the candidate's."""
        recorder = Recorder()

        def leaf(item: Any) -> Any:
            if isinstance(item, Proxy):
                return item._tensor
            if self.library.is_tensor(item):
                return item
            return self.library.build(recorder.record(item))

        if isinstance(value, tuple) and not hasattr(value, "_make") and not isinstance(value, torch.Size):
            items = [self.unwrap(item) for item in value]
            return type(value)(items) if type(value) is not tuple else tuple(items)
        return map_leaves(leaf, value)


class _Forward(TorchFunctionMode):
    """Sends every function of PyTorch that runs inside to the bridge."""

    def __init__(self, bridge: Bridge) -> None:
        super().__init__()
        self.bridge = bridge

    def __torch_function__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        return self.bridge.forward(func, args, kwargs or {})


def run_on_proxies(function: Callable, library: Library) -> Callable:
    """A function on the candidate's tensors that runs the PyTorch code of `function` on proxies."""
    bridge = Bridge(library)

    def seeded(op: Callable, *args: Any, **kwargs: Any) -> Any:
        # The database's helper of this name seeds PyTorch and then calls a method object, which accepts no
        # proxy.
        library.seed(42)
        return bridge.forward(op, args, kwargs) if NAMES.of(op) else op(*args, **kwargs)

    def run(*args: Any, **kwargs: Any) -> Any:
        scope = getattr(function, "__globals__", {})
        helper = scope.get("wrapper_set_seed")
        if helper is not None:
            scope["wrapper_set_seed"] = seeded
        try:
            with _Forward(bridge):
                return bridge.unwrap(function(*bridge.wrap(args), **{k: bridge.wrap(v) for k, v in kwargs.items()}))
        finally:
            if helper is not None:
                scope["wrapper_set_seed"] = helper

    return run


def candidate_library(module: Any) -> Library:
    """A module with PyTorch's API as a Library; functions passed as arguments run on proxies."""
    library = Library(module)
    library.adapt_function = lambda function: run_on_proxies(function, library)
    return library


def find_first(library: Library, names: list[str]) -> Any:
    """The candidate's function under the first name that it has; Absent(first name) if it has none."""
    for name in names:
        with contextlib.suppress(Absent):
            found = library.find(name)
            if callable(found):
                return found
    raise Absent(names[0])


def callable_for(function: Callable, library: Library, name: str = "") -> Callable:
    """The candidate's version of a PyTorch callable: looked up by name, or, when it is unnamed, run on
    proxies.

    `name` is one more name to try last. Raises Absent where PyTorch's function has a name and the candidate
    none of it.
    """
    names = NAMES.of(function)
    if names:
        return find_first(library, [*names, *([name] if name and name not in names else [])])
    return run_on_proxies(function, library)
