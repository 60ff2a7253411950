"""The templates, which hold all emitted text, and how they are filled in."""

from __future__ import annotations

from pathlib import Path

import jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment

TEMPLATES = Path(__file__).parent / "templates"

# Nothing that templates print is ever read as a template; the sandbox is for those who replace a template.
_ENVIRONMENT = ImmutableSandboxedEnvironment(
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
