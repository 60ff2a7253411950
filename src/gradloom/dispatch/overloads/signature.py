"""The signature of one overload: assigns the values of a call to parameters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import inf, nan
from typing import Any

from .registry import types
from .types import ArgumentType, argument_type

REQUIRED = object()

# Names from NumPy that PyTorch accepts for a parameter of this name.
_ALIASES = {"dim": ("axis",), "keepdim": ("keepdims",), "input": ("x", "a", "x1"), "other": ("x2",)}
_NAMED = {"inf": inf, "nan": nan, "-inf": -inf, "Mean": 1, "Sum": 2}


class Parameter:
    """A name with a type, and a default or REQUIRED; `slot` is its place among the wrapper's arguments.

    `out` has no slot: it is keyword-only, always optional, and passed as `out=`.

    Args:
        name, type_, default: as entries have them; no default means REQUIRED.

    Attributes:
        takes_none: whether None stands for the default, an empty list, as PyTorch's parser of Python functions has it.
    """

    __slots__ = ("name", "type", "given", "default", "keyword_only", "slot", "takes_none")

    def __init__(self, name: str, type_: ArgumentType, default: Any, keyword_only: bool, slot: int | None):
        self.name, self.type, self.given, self.keyword_only, self.slot = name, type_, default, keyword_only, slot
        self.default = default if default is REQUIRED or default is None else self._value(default)
        self.takes_none = False

    def _value(self, default):
        base, size = self.type.base, self.type.size
        if type(default) is str and base not in ("str", "Device"):
            named = types.constants if default in types.constants else _NAMED
            if default not in named:
                raise ValueError(f"parameter {self.name!r}: unknown default {default!r}")
            default = named[default]
        if size is not None:
            return default if type(default) is tuple else (default,) * size
        return float(default) if base == "float" else default

    def goes_by(self, name: str, names, exact: bool = False) -> bool:
        """Return whether `name` denotes the parameter; an alias does not if the proper name is in `names`, too."""
        return name == self.name or (not exact and name in _ALIASES.get(self.name, ()) and self.name not in names)

    def __str__(self):
        return f"{self.type.display} {self.name}" + ("" if self.default is REQUIRED else f" = {self._shown()}")

    def _shown(self) -> str:
        if type(self.given) is str:
            return f'"{self.given}"' if self.type.base == "str" else self.given
        return f"[{','.join(map(str, self.given))}]" if type(self.given) is tuple else str(self.given)


class Misfit:
    """The reason why a signature cannot accept a number of positional and a set of keyword arguments.

    Attributes:
        text: PyTorch's message after 'f()'.
        sources: the assignments that were possible.
        keywords: names without a parameter.
        missing: names of required parameters without a value.
    """

    __slots__ = ("text", "sources", "keywords", "missing")

    def __init__(self, text, sources=None, keywords=(), missing=()):
        self.text, self.sources, self.keywords, self.missing = text, sources or {}, keywords, missing


class Signature:
    """A wrapper's parameters in schema order.

    A method's first value is always its `self`, at whatever position the schema has it. `shown`, the parameters that
    errors count and name, does not include it. `varargs` is the parameter that takes separate integers, if any. An
    `exact` signature, as objects of gradloom.ops have, follows the schema: `self` has that name, there are no aliases,
    integers are passed in a list, and `out` is an ordinary parameter.

    Args:
        parameters: from `gradloom.schema.parameters`.
    """

    __slots__ = (
        "wrapper",
        "out_wrapper",
        "parameters",
        "positional",
        "shown",
        "varargs",
        "template",
        "keyword_names",
        "offset",
        "minimum",
        "most_positional",
        "least_positional",
        "exact",
    )

    def __init__(self, parameters: Iterable, wrapper, out_wrapper=None, *, method: bool = False, exact: bool = False):
        self.wrapper, self.out_wrapper, self.exact = wrapper, out_wrapper or wrapper, exact
        self.parameters = [p for p in _made(parameters, exact) if not (method and p.slot is None)]
        parameters = self.parameters
        self.offset = int(method)
        own = next((p for p in parameters if p.name == "self" and p.slot is not None), None)
        leading = [own] if method and own else []
        if method and not leading:
            raise ValueError(f"a method needs a parameter named self, and has {', '.join(map(str, self.parameters))}")
        if not (method or exact) and own and own.type.base.startswith("Tensor") and own.type.size is None:
            own.name = "input"
        self.shown = [p for p in parameters if not (method and p is own)]
        self.positional = leading + [p for p in self.shown if not p.keyword_only]
        self.most_positional = len(self.positional) - self.offset
        self.least_positional = sum(p.default is REQUIRED for p in self.positional[self.offset :])
        self.minimum = sum(p.default is REQUIRED for p in self.shown)
        # PyTorch's rule for x.view(2, 3): the list, of any length, must be the only positional parameter
        last = self.positional[-1] if self.most_positional == 1 and not exact else None
        self.varargs = last if last and last.type.base == "int" and last.type.size == 0 else None
        self.keyword_names = [p.name for p in parameters if p.keyword_only and p.slot is not None]
        self.template = [None if p.default is REQUIRED else p.default for p in parameters if p.slot is not None]

    def assign(self, count: int, names, classes) -> dict | Misfit:
        """Return {parameter: index of its value, or slice of varargs}, or a Misfit. `count` values are passed by
        position (a method's self included), then one for each of `names`."""
        sources: dict = dict(zip(self.positional, range(count), strict=False))
        if self.varargs in sources and not issubclass(classes[self.offset], (tuple, list)):
            sources[self.varargs] = slice(self.offset, count)
        elif count > len(self.positional):
            return Misfit(self.too_many(count))
        unknown = []
        for place, name in enumerate(names, count):
            parameter = next((p for p in self.shown if p.goes_by(name, names, self.exact) and p not in sources), None)
            if parameter is None:
                unknown.append(name)
            else:
                sources[parameter] = place
        missing = [p.name for p in self.shown if p.default is REQUIRED and p not in sources]
        if missing:
            return Misfit(_missing(missing), sources, unknown, missing)
        if unknown:
            twice = any(p.name == unknown[0] for p in self.shown)
            return Misfit(
                f" got multiple values for argument '{unknown[0]}'"
                if twice
                else f" got an unexpected keyword argument '{unknown[0]}'",
                sources,
                unknown,
            )
        return sources

    def too_many(self, count: int) -> str:
        """Return PyTorch's message for too many positional values."""
        given, least, most = count - self.offset, self.least_positional, self.most_positional
        takes = (
            f"{most} positional argument{'s' * (most != 1)}"
            if least == most
            else f"from {least} to {most} positional arguments"
        )
        return f" takes {takes} but {given} {'was' if given == 1 else 'were'} given"

    def __str__(self):
        words = [str(p) for p in self.shown]
        if any(p.keyword_only for p in self.shown):
            words.insert(self.most_positional, "*")
        return f"({', '.join(words)})"


def _takes_tensor(type_: ArgumentType) -> bool:
    return type_.base.startswith("Tensor") and type_.size is None


def _takes_number(type_: ArgumentType) -> bool:
    return type_.base in ("Scalar", "int", "float", "complex") and type_.size != 0


def _goes_before(one: Signature, other: Signature) -> bool:
    """Return whether `one` is tried first: it takes tensors where `other` takes numbers, or fewer parameters."""
    mine, theirs = _of_schema(one), _of_schema(other)
    differs = False
    for a, b in zip(mine, theirs, strict=False):
        if _takes_tensor(a.type) and _takes_number(b.type):
            differs = True
        elif (a.type.base, a.type.size) != (b.type.base, b.type.size):
            return False
    return differs or len(mine) < len(theirs)


def _of_schema(signature: Signature) -> list[Parameter]:
    return signature.positional + [p for p in signature.shown if p.keyword_only and p.slot is not None]


def in_order_of_trial(signatures: list[Signature]) -> list[Signature]:
    """Sort signatures in order of trial: a tensor goes before a number, which would accept a 0-dim tensor."""
    found: list[Signature] = []
    for signature in signatures:
        later = [i for i, placed in enumerate(found) if _goes_before(signature, placed)]
        found.insert(later[0] if later else len(found), signature)
    return found


def _missing(names):
    # PyTorch's plural, which tests match
    return f" missing {len(names)} required positional argument{'s' if len(names) == 1 else ''}: " + ", ".join(
        f'"{name}"' for name in names
    )


def _made(parameters: Iterable, exact: bool) -> Iterator[Parameter]:
    keyword_only, slot = False, 0
    for parameter in parameters:
        if parameter == "*":
            keyword_only = True
            continue
        name, type_, *default = parameter
        is_out = keyword_only and name == "out" and not exact and type_.startswith("Tensor")
        found = default[0] if default else REQUIRED
        made = Parameter(name, argument_type(type_, exact), found, keyword_only, None if is_out else slot)
        made.takes_none = found == () and not exact
        yield made
        slot += not is_out
