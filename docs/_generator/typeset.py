"""Convert TeX formulas to MathML when the site is built, so that readers need neither a network nor a script."""

from __future__ import annotations

import html as entities
import re
from functools import lru_cache

from latex2mathml.converter import convert
from latex2mathml.exceptions import (
    DenominatorNotFoundError,
    DoubleSubscriptsError,
    DoubleSuperscriptsError,
    ExtraLeftOrMissingRightError,
    MissingEndError,
    MissingSuperScriptOrSubscriptError,
    NoAvailableTokensError,
    NumeratorNotFoundError,
)
from mkdocs.exceptions import PluginError

# What pymdownx.arithmatex leaves where a page has `$...$` or `$$...$$`.
_INLINE = re.compile(r'<span class="arithmatex">\\\((.*?)\\\)</span>', re.DOTALL)
_DISPLAY = re.compile(r'<div class="arithmatex">\\\[(.*?)\\\]</div>', re.DOTALL)
_ERRORS = (
    DenominatorNotFoundError,
    DoubleSubscriptsError,
    DoubleSuperscriptsError,
    ExtraLeftOrMissingRightError,
    MissingEndError,
    MissingSuperScriptOrSubscriptError,
    NoAvailableTokensError,
    NumeratorNotFoundError,
)
# Names of several letters, which the converter would set letter by letter, as a product of so many variables.
_WORD = re.compile(r"\\(operatorname|mathit|mathrm)\{((?:[^{}\\]|\\_)+)\}")
_TEXT = re.compile(r"\\text\{[^{}]*\}")  # where the converter leaves `\_` as it is
_SET_WORD = re.compile(r"<mtext>(operatorname|mathit|mathrm):(.*?)</mtext>")
_STYLES = {"operatorname": ' mathvariant="normal"', "mathrm": ' mathvariant="normal"', "mathit": ' class="word"'}


def formulas(page: str) -> str:
    """Return the HTML of a page with its formulas as MathML, excluded from the search.

    Raises PluginError, which ends the build, for TeX that is wrong.
    """
    page = _INLINE.sub(lambda m: f"<span data-search-exclude>{_mathml(m[1], 'inline')}</span>", page)
    return _DISPLAY.sub(lambda m: f'<div class="formula" data-search-exclude>{_mathml(m[1], "block")}</div>', page)


@lru_cache(maxsize=4096)
def _mathml(tex: str, display: str) -> str:
    tex = entities.unescape(tex).strip()
    tex = _TEXT.sub(lambda m: m[0].replace(r"\_", "_"), tex)
    marked = _WORD.sub(lambda m: rf"\text{{{m[1]}:{m[2].replace(chr(92), '')}}}", tex)
    try:
        mathml: str = convert(marked, display=display)
    except _ERRORS as error:
        raise PluginError(f"a formula cannot be set: {type(error).__name__}: {tex}") from error
    if "\\" in mathml:
        raise PluginError(f"a formula cannot be set: it has an unknown command: {tex}")
    return _SET_WORD.sub(lambda m: f"<mi{_STYLES[m[1]]}>{m[2]}</mi>", mathml)
