"""Write an explanation as HTML: a document, or a fragment for a notebook."""

from __future__ import annotations

import html
from collections.abc import Iterable

from .page import Block, Code, Formulas, Heading, Paragraph, Table

_STYLE = """
.gradloom-explain {font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; text-align: left}
.gradloom-explain pre {background: #8881; padding: .6rem .8rem; border-radius: 4px; overflow-x: auto; line-height: 1.35}
.gradloom-explain code, .gradloom-explain pre {font-family: ui-monospace, monospace; font-size: .87em}
.gradloom-explain table {border-collapse: collapse; margin: .5rem 0}
.gradloom-explain td, .gradloom-explain th {padding: .15rem .9rem .15rem 0; vertical-align: top; text-align: left}
.gradloom-explain math {margin: .35rem 0; width: max-content}
.gradloom-explain .legend {opacity: .75; margin: .3rem 0}
.gradloom-explain .place {font-family: ui-monospace, monospace; font-size: .87em}
.gradloom-explain summary {cursor: pointer}
"""


def document(title: str, blocks: Iterable[Block]) -> str:
    """Return a self-contained page without scripts."""
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{html.escape(title)}</title>\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        "<style>body {margin: 2rem; color-scheme: light dark}</style></head>\n<body>\n"
        f"{fragment(blocks)}\n</body></html>\n"
    )


def fragment(blocks: Iterable[Block]) -> str:
    """Return a `<div>` with its own style."""
    parts = [_write(block) for block in blocks]
    style = _STYLE + _pygments_style()
    return f'<div class="gradloom-explain"><style>{style}</style>\n' + "\n".join(parts) + "\n</div>"


def _write(block: Block) -> str:
    match block:
        case Heading(level, text):
            return f"<h{level + 1}>{html.escape(text)}</h{level + 1}>"
        case Paragraph(text):
            return "".join([f"<p>{_with_code(part)}</p>" for part in text.split("\n\n")])
        case Code(title, place):
            head = f'<span class="place">{html.escape(place.shown)}</span> {html.escape(title)}'
            return f"<details open><summary>{head}</summary>{_highlighted(place.text, place.language)}</details>"
        case Formulas(equations, legend):
            lines = [e.mathml for e in equations]
            return "\n".join([*lines, *[f'<p class="legend">{html.escape(words)}</p>' for words in legend if words]])
        case Table(heads, rows):
            return _table(heads, rows)


def _with_code(text: str) -> str:
    """Return escaped text with the parts between backquotes as code."""
    parts = html.escape(text).split("`")
    if len(parts) % 2 == 0:
        return html.escape(text)
    return "".join([f"<code>{part}</code>" if i % 2 else part for i, part in enumerate(parts)])


def _table(heads: tuple[str, ...], rows: tuple[tuple[str, ...], ...]) -> str:
    lines = [f"<tr>{''.join([f'<th>{html.escape(h)}</th>' for h in heads])}</tr>"] if heads else []
    lines += [f"<tr>{''.join([f'<td>{html.escape(cell)}</td>' for cell in row])}</tr>" for row in rows]
    return f"<table>{''.join(lines)}</table>"


def _highlighted(source: str, language: str) -> str:
    try:
        from pygments import highlight
        from pygments.formatters import HtmlFormatter
        from pygments.lexers import get_lexer_by_name
    except ImportError:
        return f"<pre>{html.escape(source)}</pre>"
    inside = highlight(source, get_lexer_by_name(language), HtmlFormatter(nowrap=True)).rstrip("\n")
    return f'<pre class="highlight">{inside}</pre>'


def _pygments_style() -> str:
    try:
        from pygments.formatters import HtmlFormatter
    except ImportError:
        return ""
    text: str = HtmlFormatter(style="default").get_style_defs(".gradloom-explain .highlight")
    return "\n".join([line for line in text.splitlines() if "background" not in line or "{" not in line])
