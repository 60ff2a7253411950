"""One signature of an overloaded function, parsed from its text, and which value goes to which parameter."""

from __future__ import annotations

import ast
import re
from math import inf, nan

from .registry import types
from .types import ArgumentType

REQUIRED = object()

# Names from NumPy that PyTorch accepts for a parameter of this name.
_ALIASES = {"dim": ("axis",), "keepdim": ("keepdims",), "input": ("x", "a", "x1"), "other": ("x2",)}
_ENUMS = {"None": None, "True": True, "False": False, "inf": inf, "nan": nan, "-inf": -inf, "Mean": 1, "Sum": 2}
# Patterns are text until a first signature is parsed: compiling them would be most of the cost of the import.
_SPLIT = r"""((?:[^,"'(\[]|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|\([^)]*\)|\[[^\]]*\])+),?\s*"""
_PARAMETER = r"(\S+(?: -> \S+\))?) (\w+)(?:=(.*))?"


class Parameter:
    """A name with a type, and a default or REQUIRED; `slot` is its place among the wrapper's arguments.

    `out` has no slot: it is keyword-only, always optional, and passed as `out=`.
    """

    __slots__ = ("name", "type", "default", "default_text", "keyword_only", "slot")

    def __init__(self, text: str, keyword_only: bool, slot: int | None, exact: bool = False):
        match = re.fullmatch(_PARAMETER, text, re.DOTALL)
        if not match:
            raise ValueError(f"parameter {text!r} is not of the form 'Type name' or 'Type name=default'")
        type_text, self.name, self.default_text = match.groups()
        self.keyword_only, self.slot = keyword_only, slot
        if not exact and keyword_only and self.name == "out" and type_text.startswith("Tensor"):
            type_text = re.sub(r"\([^)]*\)|\?$", "", type_text) + "?"
            self.default_text, self.slot = "None", None
        self.type = ArgumentType(type_text, exact)
        self.default = REQUIRED if self.default_text is None else self._default(self.default_text)

    def _default(self, text):
        base, size = self.type.base, self.type.size
        if text in _ENUMS:
            value = _ENUMS[text]
        elif text in types.constants:
            value = types.constants[text]
        else:
            try:
                value = ast.literal_eval(text)
            except (ValueError, SyntaxError):
                raise ValueError(f"parameter {self.name!r}: unknown default {text!r}") from None
        if size is not None and value is not None:
            return tuple(value) if isinstance(value, list) else (value,) * size
        return float(value) if base == "float" and value is not None else value

    def goes_by(self, name: str, names, exact: bool = False) -> bool:
        """Whether `name` means it: an alias does not if the parameter's own name is among `names`, too."""
        return name == self.name or (not exact and name in _ALIASES.get(self.name, ()) and self.name not in names)

    def __str__(self):
        default = "" if self.default is REQUIRED else f" = {self.default_text}"
        if default and self.type.base == "str" and self.default_text[0] == "'":
            default = f' = "{self.default}"'
        return f"{self.type.display} {self.name}{default}"


class Misfit:
    """Why a signature cannot take so many positional and such keyword arguments.

    text: PyTorch's, after 'f()'. sources: what could be assigned. keywords: names that have no place.
    missing: names of required parameters without a value.
    """

    __slots__ = ("text", "sources", "keywords", "missing")

    def __init__(self, text, sources=None, keywords=(), missing=()):
        self.text, self.sources, self.keywords, self.missing = text, sources or {}, keywords, missing


class Signature:
    """Parameters in schema order with the wrapper that they are for.

    A method's first value is always its `self`, wherever the schema has it; it is not among `shown`, the
    parameters that a caller passes and errors count and name. `varargs` is the parameter that takes integers
    one by one, if any. An `exact` signature is a schema to the letter, as objects of gradloom.ops take it: `self`
    goes by that name, nothing has a second one, integers come in a list, and `out` is a parameter as any other.
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

    def __init__(self, text: str, wrapper, out_wrapper=None, *, method: bool = False, exact: bool = False):
        self.wrapper, self.out_wrapper, self.exact = wrapper, out_wrapper or wrapper, exact
        self.parameters = parameters = [p for p in _parse(text, exact) if not (method and p.slot is None)]
        self.offset = int(method)
        own = next((p for p in parameters if p.name == "self" and p.slot is not None), None)
        leading = [own] if method and own else []
        if method and not leading:
            raise ValueError(f"a method needs a parameter named self: {text}")
        if not (method or exact) and own and own.type.base.startswith("Tensor") and own.type.size is None:
            own.name = "input"
        self.shown = [p for p in parameters if not (method and p is own)]
        self.positional = leading + [p for p in self.shown if not p.keyword_only]
        self.most_positional = len(self.positional) - self.offset
        self.least_positional = sum(p.default is REQUIRED for p in self.positional[self.offset :])
        self.minimum = sum(p.default is REQUIRED for p in self.shown)
        # PyTorch's rule for x.view(2, 3): the list must be all that can be passed by position
        last = self.positional[-1] if self.most_positional == 1 and not exact else None
        self.varargs = last if last and last.type.base == "int" and last.type.size is not None else None
        self.keyword_names = [p.name for p in parameters if p.keyword_only and p.slot is not None]
        self.template = [None if p.default is REQUIRED else p.default for p in parameters if p.slot is not None]

    def assign(self, count: int, names, classes) -> dict | Misfit:
        """{parameter: index of its value, or the slice of those that varargs take}, or what is wrong.

        `count` values come by position (a method's self included), then one for each of `names`.
        """
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
        """What is said of so many positional values."""
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
    """Whether `one` comes first: it takes tensors where `other` takes numbers, or less of the same."""
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
    """The given order, but a tensor before a number, for which a 0-dim tensor would pass."""
    found: list[Signature] = []
    for signature in signatures:
        later = [i for i, placed in enumerate(found) if _goes_before(signature, placed)]
        found.insert(later[0] if later else len(found), signature)
    return found


def _missing(names):
    # PyTorch's own plural, which tests match
    return f" missing {len(names)} required positional argument{'s' if len(names) == 1 else ''}: " + ", ".join(
        f'"{name}"' for name in names
    )


def _parse(text: str, exact: bool) -> list[Parameter]:
    """Parameters of 'name.overload(Type name, *, Type name=default) -> ...'; both ends are optional."""
    text = text.partition(") -> ")[0].rstrip().removesuffix(")")
    found: list[Parameter] = []
    keyword_only = False
    slot = 0
    for part in re.findall(_SPLIT, text.partition("(")[2]):
        if part.strip() == "*":
            keyword_only = True
            continue
        found.append(Parameter(part.strip(), keyword_only, slot, exact))
        slot += found[-1].slot is not None
    return found
