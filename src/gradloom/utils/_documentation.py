"""Shared docstrings of families: the common text is written once, and decorators fill it in.

The decorators work on docstrings of this form: paragraphs, then the sections `Args:`, `Shape:`, `Returns:` and
`Raises:`, of entries "names: description".
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

_Decorated = TypeVar("_Decorated", bound=Callable[..., object])

_SIZES = {1: ("L",), 2: ("H", "W"), 3: ("D", "H", "W")}
_TITLES = ("Args:", "Shape:", "Returns:", "Raises:")


def spatial(dims: int, template: str | None = None) -> Callable[[_Decorated], _Decorated]:
    """Return a decorator that fills in a docstring for `dims` spatial dimensions.

    Args:
        dims: 1, 2 or 3. A class keeps it as `_spatial`.
        template: docstring, by default that of the class's first base. `{n}` becomes `dims`; `{in}` and `{out}` the
            spatial sizes of input and output, for instance "H, W" and "H_out, W_out"; `{dimensions}` "two dimensions";
            `{name}` the decorated's name without "Lazy" or "_with_indices".
    """
    sizes = _SIZES[dims]
    words = {
        "{n}": str(dims),
        "{dimensions}": ("dimension", "two dimensions", "three dimensions")[dims - 1],
        "{in}": ", ".join(sizes),
        "{out}": ", ".join(f"{size}_out" for size in sizes),
    }

    def decorate(decorated):
        text = template
        if isinstance(decorated, type):
            decorated._spatial = dims
            text = template or decorated.__bases__[0].__doc__
        name = decorated.__name__.removeprefix("Lazy").removesuffix("_with_indices")
        for field, word in (*words.items(), ("{name}", name)):
            text = text and text.replace(field, word)  # None under python -OO
        decorated.__doc__ = text
        return decorated

    return decorate


def completed(shape: str = "", raises: str = "", **arguments: str) -> Callable[[_Decorated], _Decorated]:
    """Return a decorator that completes a function's docstring.

    Args:
        shape, raises: entries of those sections, unless the docstring has them.
        arguments: descriptions of parameters, for those that the function takes and does not describe itself.
    """

    def decorate(function):
        if function.__doc__ is None:  # python -OO
            return function
        sections = _parse(function.__doc__)
        own = sections.setdefault("Args:", [])
        described = {name for entry in own for name in _names(entry)}
        for position, name in enumerate(_parameters(function)):
            if name in arguments and name not in described:
                own.insert(0 if position == 0 else len(own), f"{name}: {arguments[name]}")
        for title, entries in (("Shape:", shape), ("Raises:", raises)):
            sections.setdefault(title, entries.split("\n") if entries else [])
        function.__doc__ = _text(sections)
        return function

    return decorate


def like(function: Callable[..., object], *shape: str, **arguments: str) -> Callable[[_Decorated], _Decorated]:
    """Return a decorator that documents a module as the function that its `forward` calls.

    Args:
        function: its docstring's `Args:` become the module's if the constructor takes them, and part of `Shape:` if
            `forward` takes them.
        shape: further entries of `Shape:`.
        arguments: further entries of `Args:`, first.
    """

    def decorate(module):
        sections = _parse(function.__doc__ or "")
        if "Args:" not in sections:  # python -OO leaves the schemas of operators
            return module
        options, inputs = parameters(module, "__init__"), parameters(module, "forward")
        shapes = sections.get("Shape:", [])
        inputs -= {name for entry in shapes for name in _names(entry)}
        of_options, of_inputs = [f"{name}: {text}" for name, text in arguments.items()], []
        for entry in sections["Args:"]:
            if not options.isdisjoint(_names(entry)):
                of_options.append(entry)
            elif not inputs.isdisjoint(_names(entry)):
                of_inputs.append(entry)
        sections |= {"Args:": of_options, "Shape:": [*of_inputs, *shapes, *shape]}
        module.__doc__ = _text(sections)
        return module

    return decorate


def parameters(cls, name):
    """Return the names of the parameters of a class's method; it is not looked up if it is one that says them."""
    found = next(vars(base)[name] for base in cls.__mro__ if name in vars(base))
    return found.parameters if hasattr(found, "parameters") else _parameters(found)


def _parameters(function):
    code = function.__code__
    return dict.fromkeys(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]).keys()


def _parse(text):
    """Split a docstring into its paragraphs, under "", and the entries of each section."""
    sections = {"": []}
    for paragraph in text.strip().split("\n\n"):
        title, _, body = paragraph.strip().partition("\n")
        if title in _TITLES:
            sections[title] = re.split(r"\n {8}(?! )", f"\n{body}")[1:]
        else:
            sections[""].append(paragraph)
    return sections


def _names(entry):
    return entry.partition(":")[0].split(", ")


def _text(sections):
    """Write a docstring; the inverse of `_parse`."""
    blocks = list(sections[""])
    for title in _TITLES:
        if sections.get(title):
            blocks.append("\n        ".join([f"    {title}", *sections[title]]))
    return "\n\n".join(blocks) + "\n    "


elementwise = completed(
    "input: (*), any shape.\noutput: as the input.",
    input="floating point tensor.",
    inplace="write the result into the input.",
)

dropout = completed(
    "input: (*), any shape.\noutput: as the input.",
    "ValueError: for p outside [0, 1].",
    p="probability of an element or channel to be dropped, in [0, 1].",
    training="whether to drop; otherwise the input is returned.",
    inplace="write the result into the input.",
)

pointwise_loss = completed(
    'input, target: (*), any shape.\noutput: (); as the input for reduction "none".',
    input="predictions, floating.",
    target="values of the shape of `input`.",
    size_average="deprecated; use `reduction`.",
    reduce="deprecated; use `reduction`.",
    reduction='"none" for the loss of each element, "mean" or "sum" of them.',
)
