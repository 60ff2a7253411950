"""Containers of modules: Sequential, ModuleList and ModuleDict; and of parameters."""

from __future__ import annotations

import operator
import warnings
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Self

from gradloom.core.tensor import Tensor
from gradloom.nn.modules.module import Module, _indent
from gradloom.nn.parameter import Parameter

__all__ = ["Container", "ModuleDict", "ModuleList", "ParameterDict", "ParameterList", "Sequential"]


class Container(Module):
    """A module with the given children. Deprecated: subclass `Module` instead.

    Args:
        kwargs: children by name.

    Shape:
        input, output: none; a container has no `forward`.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__()
        warnings.warn(
            "`nn.Container` is deprecated. All of its functionality is now implemented in `nn.Module`. "
            "Subclass that instead.",
            FutureWarning,
            stacklevel=2,
        )
        for name, module in kwargs.items():
            self.add_module(name, module)


class _Numbered(Module):
    """Base of Sequential and ModuleList: children are named "0", "1", ..., in order."""

    def _position(self, index) -> int:
        """Return a non-negative position for an index that may count from the end; IndexError if out of range."""
        position = operator.index(index)
        count = len(self)
        if not -count <= position < count:
            raise IndexError(f"index {position} is out of range")
        return position % count

    def _renumber(self, modules):
        """Make `modules` the children, numbered from 0."""
        self._modules = {str(position): module for position, module in enumerate(modules)}

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Module]:
        return iter(self._modules.values())

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if not name.isdigit()]

    def __delitem__(self, index: int | slice) -> None:
        kept = list(self._modules.values())
        del kept[index if isinstance(index, slice) else self._position(index)]
        self._renumber(kept)

    def pop(self, key: int) -> Module:
        """Remove the child at position `key` and return it."""
        module = self[key]
        del self[key]
        return module


class Sequential(_Numbered):
    """Call the children one after another, each on the previous one's result.

    Args:
        args: modules, or one OrderedDict from names to modules.
    """

    def __init__(self, *args: Module | OrderedDict[str, Module]) -> None:
        super().__init__()
        named = args[0].items() if len(args) == 1 and isinstance(args[0], OrderedDict) else enumerate(args)
        for name, module in named:
            self.add_module(str(name), module)

    def forward(self, input: Any) -> Tensor:
        for module in self._modules.values():
            input = module(input)
        return input

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return type(self)(OrderedDict(list(self._modules.items())[index]))
        return list(self._modules.values())[self._position(index)]

    def __setitem__(self, index: int, module: Module) -> None:
        setattr(self, list(self._modules)[self._position(index)], module)

    def append(self, module: Module) -> Self:
        """Append a module; return the Sequential."""
        self.add_module(str(len(self)), module)
        return self

    def insert(self, index: int, module: Module) -> Self:
        """Insert a module before position `index`; return the Sequential. IndexError if out of range."""
        if not isinstance(module, Module):
            raise AssertionError(f"module should be of type: {Module}")
        count = len(self)
        if not -count <= index <= count:
            raise IndexError(f"Index out of range: {index}")
        modules = list(self._modules.values())
        modules.insert(index, module)
        self._renumber(modules)
        return self

    def extend(self, sequential: Iterable[Module]) -> Self:
        """Append modules; return the Sequential.

        Args:
            sequential: an iterable of modules.
        """
        for module in list(sequential):
            self.append(module)
        return self

    def __add__(self, other: Sequential) -> Sequential:
        _require_sequential(other)
        return type(self)(*self, *other)

    def __iadd__(self, other: Sequential) -> Self:
        _require_sequential(other)
        return self.extend(other)

    def __mul__(self, times: int) -> Sequential:
        self._require_factor(times)
        return type(self)(*list(self) * times)

    __rmul__ = __mul__

    def __imul__(self, times: int) -> Self:
        self._require_factor(times)
        return self.extend(list(self) * (times - 1))

    def _require_factor(self, times):
        if not isinstance(times, int):
            raise TypeError(f"unsupported operand type(s) for *: {type(self)} and {type(times)}")
        if times <= 0:
            raise ValueError(f"Non-positive multiplication factor {times} for {type(self)}")


def _require_sequential(other):
    if not isinstance(other, Sequential):
        raise ValueError(f"add operator supports only objects of Sequential class, but {type(other)} is given.")


class ModuleList(_Numbered):
    """A list of modules, registered as children; it has no forward.

    Args:
        modules: an iterable of modules.
    """

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.extend(modules)

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return type(self)(list(self._modules.values())[index])
        return self._modules[str(self._position(index))]

    def __setitem__(self, index: int, module: Module) -> None:
        setattr(self, str(self._position(index)), module)

    def append(self, module: Module) -> Self:
        """Append a module; return the list."""
        self.add_module(str(len(self)), module)
        return self

    def extend(self, modules: Iterable[Module]) -> Self:
        """Append the modules of an iterable; return the list."""
        if not isinstance(modules, Iterable):
            raise TypeError(f"ModuleList.extend should be called with an iterable, but got {type(modules).__name__}")
        for module in list(modules):
            self.append(module)
        return self

    def insert(self, index: int, module: Module) -> None:
        """Insert a module before position `index`."""
        modules = list(self._modules.values())
        modules.insert(index, module)
        self._renumber(modules)

    def __iadd__(self, modules: Iterable[Module]) -> Self:
        return self.extend(modules)

    def __add__(self, modules: Iterable[Module]) -> ModuleList:
        return type(self)([*self, *modules] if isinstance(modules, Iterable) else [*self, modules])

    def __repr__(self) -> str:
        """Print equal neighbours once: (0-2): 3 x Linear(...)."""
        runs = []
        for position, module in enumerate(self):
            text = repr(module)
            if runs and runs[-1][2] == text:
                runs[-1][1] = position
            else:
                runs.append([position, position, text])
        if not runs:
            return self._get_name() + "()"
        lines = []
        for first, last, text in runs:
            span = f"({first})" if first == last else f"({first}-{last})"
            times = "" if first == last else f"{last - first + 1} x "
            lines.append(_indent(f"{span}: {times}{text}"))
        body = "\n  ".join(lines)
        return f"{self._get_name()}(\n  {body}\n)"


class ModuleDict(Module):
    """A dictionary of modules, registered as children in the order in which they are added; it has no forward.

    Args:
        modules: a mapping from names to modules, or pairs (name, module).
    """

    def __init__(self, modules: Mapping[str, Module] | Iterable[tuple[str, Module]] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key: str) -> Module:
        return self._modules[key]

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        del self._modules[key]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Module]:
        return iter(self._modules)

    def __contains__(self, key: str) -> bool:
        return key in self._modules

    def clear(self) -> None:
        """Remove all entries."""
        self._modules.clear()

    def pop(self, key: str) -> Module:
        """Remove the module under `key` and return it; KeyError if there is none."""
        module = self[key]
        del self[key]
        return module

    def keys(self) -> Iterable[str]:
        """Return the names."""
        return self._modules.keys()

    def items(self) -> Iterable[tuple[str, Module]]:
        """Return pairs (name, module)."""
        return self._modules.items()

    def values(self) -> Iterable[Module]:
        """Return the modules."""
        return self._modules.values()

    def update(self, modules: Mapping[str, Module] | Iterable[tuple[str, Module]]) -> None:
        """Add the modules of a mapping or of pairs, overwriting existing names.

        Args:
            modules: a mapping from names to modules, or pairs (name, module).
        """
        if not isinstance(modules, Iterable):
            raise TypeError(
                "ModuleDict.update should be called with an iterable of key/value pairs, but got "
                f"{type(modules).__name__}"
            )
        if isinstance(modules, (Mapping, ModuleDict)):
            modules = modules.items()
        for number, pair in enumerate(modules):
            if not isinstance(pair, Iterable):
                raise TypeError(
                    f"ModuleDict update sequence element #{number} should be Iterable; is {type(pair).__name__}"
                )
            pair = tuple(pair)
            if len(pair) != 2:
                raise ValueError(f"ModuleDict update sequence element #{number} has length {len(pair)}; 2 is required")
            self[pair[0]] = pair[1]


def _as_part(value):
    """Make a tensor a parameter, so that it is registered; return anything else as it is."""
    return Parameter(value) if isinstance(value, Tensor) and not isinstance(value, Parameter) else value


def _described(key, value, type_name):
    if not isinstance(value, Tensor):
        return f"({key}): Object of type: {type(value).__name__}"
    size = "x".join(str(extent) for extent in value.shape)
    what = "Parameter" if isinstance(value, Parameter) else "Tensor"
    return f"({key}): {what} containing: [{type_name(value)} of size {size}]"


class ParameterList(Module):
    """A list of parameters, registered under "0", "1", ...; tensors become parameters.

    Args:
        values: parameters, tensors or any other values.
    """

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        self._size = 0
        if values is not None:
            self.extend(values)

    def _position(self, index):
        position = operator.index(index)
        if not -len(self) <= position < len(self):
            raise IndexError(f"index {position} is out of range")
        return position % len(self)

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return type(self)(getattr(self, str(position)) for position in range(len(self))[index])
        return getattr(self, str(self._position(index)))

    def __setitem__(self, index: int, value: Any) -> None:
        setattr(self, str(self._position(index)), _as_part(value))

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Any]:
        return iter(self[position] for position in range(len(self)))

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if not name.isdigit()]

    def append(self, value: Any) -> Self:
        """Append a value; return the list."""
        position = self._size
        self._size += 1
        self[position] = value
        return self

    def extend(self, values: Iterable[Any]) -> Self:
        """Append the values of an iterable; return the list."""
        if not isinstance(values, Iterable) or isinstance(values, Tensor):
            raise TypeError(f"ParameterList.extend should be called with an iterable, but got {type(values).__name__}")
        for value in values:
            self.append(value)
        return self

    __iadd__ = extend

    def extra_repr(self) -> str:
        return "\n".join(
            "  " + _described(position, value, lambda tensor: tensor.dtype) for position, value in enumerate(self)
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("ParameterList should not be called.")


class ParameterDict(Module):
    """A dictionary of parameters; tensors put into it become parameters.

    Args: a mapping (added in sorted order unless it keeps its own), or an iterable of (name, value).
    """

    def __init__(self, parameters: Mapping[str, Any] | Iterable[tuple[str, Any]] | ParameterDict | None = None) -> Any:
        super().__init__()
        # The keys in order; the values are attributes of the module.
        self._keys = {}
        if parameters is not None:
            self.update(parameters)

    def _attribute(self, key):
        if not isinstance(key, str):
            raise TypeError(
                "Index given to ParameterDict cannot be used as a key as it is not a string (type is "
                f"'{type(key).__name__}')."
            )
        return key

    def __getitem__(self, key: str) -> Any:
        return getattr(self, self._attribute(key))

    def __setitem__(self, key: str, value: Any) -> Any:
        attribute = self._attribute(key)
        self._keys[key] = None
        setattr(self, attribute, _as_part(value))

    def __delitem__(self, key: str) -> Any:
        del self._keys[key]
        delattr(self, self._attribute(key))

    def __len__(self) -> Any:
        return len(self._keys)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __reversed__(self) -> Iterator[str]:
        return reversed(list(self._keys))

    def __contains__(self, key: str) -> Any:
        return key in self._keys

    def copy(self) -> ParameterDict:
        """Return a new ParameterDict with the same values."""
        return ParameterDict([(key, self[key]) for key in self._keys])

    def setdefault(self, key: str, default: Any = None) -> Any:
        """Return the value of `key`, after setting it to `default` if there is none."""
        if key not in self._keys:
            self[key] = default
        return self[key]

    def clear(self) -> None:
        """Remove all entries."""
        for key in list(self._keys):
            del self[key]

    def pop(self, key: str) -> Any:
        """Remove `key` and return its value."""
        value = self[key]
        del self[key]
        return value

    def popitem(self) -> tuple[str, Any]:
        """Remove and return the pair that was added last."""
        key = next(reversed(self._keys))
        return key, self.pop(key)

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value of `key`, or `default`."""
        return self[key] if key in self._keys else default

    def fromkeys(self, keys: Iterable[str], default: Any = None) -> ParameterDict:
        """Return a new ParameterDict with the value `default` for each of `keys`."""
        return ParameterDict([(key, default) for key in keys])

    def keys(self) -> Iterable[str]:
        """Return the names."""
        return self._keys.keys()

    def items(self) -> Iterable[tuple[str, Any]]:
        """Return pairs (name, value)."""
        return ((key, self[key]) for key in self._keys)

    def values(self) -> Iterable[Any]:
        """Return the values."""
        return (self[key] for key in self._keys)

    def update(self, parameters: Mapping[str, Any] | Iterable[tuple[str, Any]] | ParameterDict) -> None:
        """Add the pairs of a mapping or iterable, overwriting existing names.

        A plain mapping's names are added in sorted order, those of anything ordered in their own.

        Args:
            parameters: a mapping, or pairs of key and value.
        """
        if not isinstance(parameters, Iterable):
            raise TypeError(
                "ParametersDict.update should be called with an iterable of key/value pairs, but got "
                f"{type(parameters).__name__}"
            )
        from collections import OrderedDict

        if isinstance(parameters, (OrderedDict, ParameterDict)):
            pairs = list(parameters.items())
        elif isinstance(parameters, Mapping):
            pairs = sorted(parameters.items())
        else:
            pairs = [_checked_pair(number, pair) for number, pair in enumerate(parameters)]
        for key, value in pairs:
            self[key] = value

    def __or__(self, other: Mapping[str, Any] | ParameterDict) -> ParameterDict:
        merged = self.copy()
        merged.update(other)
        return merged

    def __ror__(self, other: Mapping[str, Any] | ParameterDict) -> ParameterDict:
        merged = other.copy()
        merged.update(self)
        return merged

    def __ior__(self, other: Mapping[str, Any] | ParameterDict) -> Self:
        self.update(other)
        return self

    def extra_repr(self) -> str:
        return "\n".join("  " + _described(key, value, lambda tensor: tensor.type()) for key, value in self.items())

    def __call__(self, input: Any) -> Any:
        raise RuntimeError("ParameterDict should not be called.")


def _checked_pair(number, pair):
    if not isinstance(pair, Iterable):
        raise TypeError(f"ParameterDict update sequence element #{number} should be Iterable; is {type(pair).__name__}")
    pair = tuple(pair)
    if len(pair) != 2:
        raise ValueError(f"ParameterDict update sequence element #{number} has length {len(pair)}; 2 is required")
    return pair
