"""The library reference: a page for each public class and function of nn, nn.functional, optim, data and distributions.

    made = api.pages(families)           # {'api/nn.md': '...', 'api/nn/Linear.md': '...', ...}

A page has the signature, the docstring (arguments, shapes, errors), an example and, of a class, its own methods. The
examples are in examples/, one file for each module, because the docstrings of a family are one text: those of Conv1d,
Conv2d and Conv3d, or of MaxPool2d and max_pool2d, differ in a few words. tests/docs/test_examples.py runs them, and
tests/conformance/test_examples.py runs them with PyTorch.
"""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from types import ModuleType

EXAMPLES = Path(__file__).with_name("examples")
# The modules, with what their pages are called and the name that examples have for them.
MODULES = {
    "nn": "Layers, losses and containers",
    "nn.functional": "Functions of neural networks",
    "optim": "Optimizers",
    "optim.lr_scheduler": "Learning rates",
    "utils.data": "Datasets and loaders",
    "distributions": "Distributions and transforms",
}
SHORT = {
    "nn": "nn",
    "nn.functional": "F",
    "optim": "optim",
    "optim.lr_scheduler": "optim.lr_scheduler",
    "utils.data": "data",
    "distributions": "dist",
}
# What nn.functional has beside functions of networks: the protocol of tensor-like classes.
_PROTOCOL = re.compile(r"(has|handle)_torch_function|_with_indices$|^boolean_dispatch$")
_SECTION = re.compile(r"(Args|Attributes|Shape|Returns|Yields|Raises):")
_ENTRY = re.compile(r"([*\w][\w*, ./]*?): (.*)", re.DOTALL)
_TITLES = {"Args": "Arguments", "Shape": "Shapes", "Raises": "Errors"}


def members(module: str) -> dict[str, Callable[..., object]]:
    """Return the public classes and functions of one of MODULES, by name."""
    found = import_module(f"gradloom.{module}")
    names = getattr(found, "__all__", None) or [name for name in dir(found) if not name.startswith("_")]
    objects = {name: getattr(found, name) for name in sorted(names, key=str.lower) if not _PROTOCOL.search(name)}
    return {
        name: o
        for name, o in objects.items()
        if callable(o) and not isinstance(o, ModuleType) and str(getattr(o, "__module__", "")) not in ("typing", "enum")
    }


def examples(module: str) -> dict[str, str]:
    """Return the example of each name, in the form of the interpreter's prompt."""
    text = (EXAMPLES / f"{module}.txt").read_text(encoding="utf-8").partition("\n\n")[2]
    parts = [part.partition("\n") for part in re.split(r"\n\n(?=\S)", text)]
    return {name: textwrap.dedent(rest).rstrip("\n") + "\n" for name, _, rest in parts}


def names_of_examples(torch: ModuleType) -> dict[str, object]:
    """Return the names that the examples use, with gradloom or PyTorch as `torch`."""
    of = [("nn", "nn"), ("F", "nn.functional"), ("optim", "optim"), ("data", "utils.data"), ("dist", "distributions")]
    return {"torch": torch} | {short: import_module(f"{torch.__name__}.{name}") for short, name in of}


def pages(families: Mapping[str, str]) -> dict[str, str]:
    """Return {path below docs/: text} of every page.

    Args:
        families: the family of each operator, which is the name of its page in operators/.
    """
    made = {}
    names = [name.lower() for module in MODULES for name in members(module)]
    for module in MODULES:
        found, shown = members(module), examples(module)
        made[f"api/{module}.md"] = _index(module, found)
        for name, o in found.items():
            # The search also finds longer names: softmax is to stand before log_softmax and Softmax2d.
            boost = 4 if any(name.lower() in other != name.lower() for other in names) else 2
            page = _page(module, name, o, shown[name], families)
            made[f"api/{module}/{name}.md"] = f"---\nsearch:\n  boost: {boost}\n---\n\n{page}"
    return made


def _index(module: str, found: dict[str, Callable[..., object]]) -> str:
    lines = [f"# gradloom.{module}", "", f"{MODULES[module]}: {len(found)} names.", "", "| name | |", "|---|---|"]
    for name, o in found.items():
        text = inspect.cleandoc(o.__doc__ or "")
        about = "" if _is_schema(text) else escaped(" ".join(text.partition("\n\n")[0].split())).replace("|", "\\|")
        lines.append(f"| [`{name}`]({module}/{name}.md) | {about} |")
    return "\n".join([*lines, ""])


def _page(module: str, name: str, o: Callable[..., object], example: str, families: Mapping[str, str]) -> str:
    text = inspect.cleandoc(o.__doc__ or "")
    head = [f"# {name}".replace("_", "\\_"), "", f"In [gradloom.{module}](../{module}.md)."]
    if _is_schema(text):
        described = ["```{.text .schema}", text, "```"]
    else:
        described = ["```{.python .schema}", f"{SHORT[module]}.{name}{signature(o)}", "```", "", *markdown(text)]
    lines = [*head, "", *described, "", "## Example", "", "```pycon", example.rstrip("\n"), "```", ""]
    if name in families and not isinstance(o, type):
        lines += [f"Its operator: [`{name}`](../../operators/{families[name]}.md#{name}).", ""]
    return "\n".join([*lines, *_methods(o)])


def _methods(o: object) -> Iterator[str]:
    """Yield the documentation of a class's methods and properties: its own, and those of bases without a page."""
    if not isinstance(o, type):
        return
    paged = {id(member) for module in MODULES for member in members(module).values()}
    others = tuple(base for base in o.__mro__[1:] if id(base) in paged or "gradloom" not in base.__module__)
    own = [base for base in o.__mro__ if not any(issubclass(other, base) for other in others)]
    attributes = {name: m for base in reversed(own) for name, m in vars(base).items()}
    found = {name: m for name, m in attributes.items() if not name.startswith("_") and _is_documented(m)}
    for i, (name, method) in enumerate(found.items()):
        if not i:
            yield from ("## Methods", "")
        function = getattr(method, "__func__", method)
        yield f"### {name}".replace("_", "\\_")
        yield ""
        if not isinstance(method, property):
            yield from ("```{.python .schema}", f"{name}{signature(function, method=True)}", "```", "")
        yield from markdown(inspect.getdoc(method) or "", titles="**")
        yield ""


def _is_documented(o: object) -> bool:
    own = getattr(o, "__func__", o)
    return (isinstance(own, property) or inspect.isfunction(own)) and bool(own.__doc__)


def _is_schema(text: str) -> bool:
    """Whether a docstring is one that the generator wrote for an operator."""
    return re.match(r"\w+(\.\w+)?\(.*\) -> ", text) is not None


def signature(function: Callable[..., object], method: bool = False) -> str:
    """Return the parameters of a function or class, with their defaults and without annotations."""
    try:
        found = inspect.signature(function)
    except (TypeError, ValueError):
        return "(...)"
    parameters = [p for p in found.parameters.values() if not p.name.startswith("_")][method:]
    plain = [p.replace(annotation=inspect.Parameter.empty) for p in parameters]
    return str(found.replace(parameters=plain, return_annotation=inspect.Signature.empty))


# -- docstrings as Markdown --------------------------------------------------------------------------------


def markdown(text: str, titles: str = "##") -> list[str]:
    """Return the lines of a docstring as Markdown: paragraphs, literal blocks, and sections as definition lists."""
    made: list[str] = []
    for block in re.split(r"\n(?=\S)|\n\n+(?=\S)", text):
        first, _, rest = block.partition("\n")
        if (section := _SECTION.fullmatch(first)) and rest.startswith(" "):
            title = _TITLES.get(section[1], section[1])
            made += ["", f"## {title}" if titles == "##" else f"**{title}**", "", *_entries(textwrap.dedent(rest))]
        elif rest.lstrip("\n").startswith(" ") and first.endswith("::"):
            made += ["", escaped(first[:-1]), "", "```text", *textwrap.dedent(rest.strip("\n")).splitlines(), "```", ""]
        else:
            made += [*([""] if _begins_paragraph(text, block) else []), *escaped(block).splitlines()]
    return made


def _begins_paragraph(text: str, block: str) -> bool:
    return f"\n\n{block}" in text


def _entries(text: str) -> Iterator[str]:
    """Yield a section's entries, "names: description", as a definition list; text without names as it is."""
    for entry in re.split(r"\n+(?=\S)", text.strip("\n")):
        found = _ENTRY.fullmatch(entry)
        if found is None:
            yield from (escaped(entry), "")
            continue
        yield ", ".join(f"`{name.strip()}`" for name in found[1].split(","))
        yield f":   {escaped(' '.join(found[2].split()))}"
        yield ""


def escaped(text: str) -> str:
    """Return text with what Markdown would read as markup escaped, outside of code spans."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(p if i % 2 else re.sub(r"([\\*_<\[\]#|~])", r"\\\1", p) for i, p in enumerate(parts))
