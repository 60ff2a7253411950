"""The templates, which hold all emitted text, and how they are filled in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment

TEMPLATES = Path(__file__).parent / "templates"


class _Environment(ImmutableSandboxedEnvironment):
    """The sandbox, which decides about an attribute by its name and the object's class: so it decides once."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._decided: dict[tuple[type, str], bool] = {}

    def is_safe_attribute(self, obj: object, attr: str, value: object) -> bool:
        key = (type(obj), attr)
        decided = self._decided.get(key)
        if decided is None:
            decided = self._decided[key] = super().is_safe_attribute(obj, attr, value)
        return decided


# Nothing that templates print is ever read as a template; the sandbox is for those who replace a template.
_ENVIRONMENT = _Environment(
    loader=jinja2.FileSystemLoader(TEMPLATES),
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)


def fill(name: str, /, **facts: object) -> str:
    """The text of a template with these facts in it."""
    return _ENVIRONMENT.get_template(name).render(**facts)


def _lines(text: str, spaces: int) -> str:
    """The lines of a part of a template, indented, without blank ones."""
    return "".join(f"{' ' * spaces}{line}\n" for line in text.splitlines() if line.strip())


def _docstring(text: str) -> str:
    """Text between three double quotes, whatever it holds."""
    text = text.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    return text + " " if text.endswith('"') else text


_ENVIRONMENT.filters["lines"] = _lines
_ENVIRONMENT.filters["docstring"] = _docstring
