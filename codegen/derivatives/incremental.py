"""Load a specification again, from the results of an earlier run: only what has changed is analysed anew.

    memo = Memo(results of the last run)
    load(target, memo)                          # what specification.load gives
    memo.results()                              # for the next run

Note [Kept steps]
Each step is kept by a digest of what it follows from, of which the environment is a part: Python, the packages that the
generator uses, the generator and its templates, and the kernels, formulas, composites and modules of the target.

    step                      follows from
    an operator               the text of its entry, the banner above it
    checks, what formulas may call, names, stubs
                              the declarations of all operators: their entries without kernel, `scalar:`, `over:` and
                              the like (`NativeFunction.declaration`), and their forms on arrays
    a derivative              the text of its entry, the declarations of all operators
    a node class, a wrapper   its operator and its derivatives, the names of its nodes, the declarations
    records of a family       the above for all of the family, the definitions of all operators

An entry is a text of its own, in the line where it stands now. Between the steps, the results of all entries are joined
as ever, which is fast. The text of a file is not kept, but its digest, and what the file in generated/ says is used if
it has that. Whatever goes wrong, an error in the YAML files included, is left to a run from nothing, which then reports
it; and nothing is kept of it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

from .. import BEGAN
from ..language.scope import Callables, find_helpers
from ..memo import Memo, digest, digest_of
from ..operators import native_functions
from ..operators.entries import RULE_FOLDERS, Reader, rules_in
from ..operators.keys import SOURCE_FOLDERS
from ..operators.model import NativeFunction, NativeFunctions
from ..reading.yaml_files import LaterEntry, Source, read_text, split
from ..target import FILES, GENERATOR, Target
from . import derivatives, specification
from .derivatives import array_form, callables_of
from .derived import is_up_to_date, kept_text
from .entries import DERIVED
from .model import DifferentiabilityInfo
from .specification import Specification, check_names

_USED_PACKAGES = ("yaml", "jinja2", "numpy")
_MARGIN = 2 * 10**9  # nanoseconds between the loading of the first module and that of the generator, at most


class NotSimpleError(Exception):
    """The steps do not apply: the YAML files have an error or an unusual form, or this process is out of date."""


def load(target: Target, memo: Memo, shown: Callable[[str], str] | None = None) -> Specification:
    """Load the specification of gradloom as `specification.load` does, from what a memo has of it."""
    shown = shown or (lambda name: name)
    try:
        return Steps(target, memo, environment(target), texts(target, shown)).specification
    except Exception:
        return specification.load(target, shown)


def texts(target: Target, shown: Callable[[str], str]) -> list[tuple[str, str]]:
    """Return the texts of the two YAML files, and of derived.yaml if there is one, and their names in messages."""
    found = [(read_text(target.path(name), shown(name)), shown(name)) for name in FILES]
    kept = kept_text(target)
    return [*found, (kept, DERIVED)] if kept else found


def environment(target: Target) -> bytes:
    """Return the digest of all that a generation follows from besides the two YAML files. Raises NotSimpleError if a
    file of the generator is newer than what this process has loaded."""
    assert target.source is not None
    if any(path.stat().st_mtime_ns > BEGAN - _MARGIN for path in _loaded()):
        raise NotSimpleError("the generator has changed")
    parts: list[str | bytes] = [sys.version, str(target)]
    for package in _USED_PACKAGES:
        spec = find_spec(package)
        folder = Path(spec.origin).parent if spec is not None and spec.origin is not None else None
        for path in sorted(folder.glob("*.py")) if folder is not None else ():
            found = path.stat()
            parts.append(f"{path} {found.st_size} {found.st_mtime_ns}")
    for path in sources(target):
        parts += (str(path), path.read_bytes())
    return digest(*parts)


def sources(target: Target) -> Iterator[Path]:
    """Yield the files that the environment consists of."""
    assert target.source is not None
    yield from _loaded()
    folders = [folder for name in RULE_FOLDERS if (folder := rules_in(name).folder) is not None]
    # The stubs leave out what the last two write by hand.
    folders += [target.source / name for name in (*SOURCE_FOLDERS, "core", "tensors")]
    for folder in folders:
        yield from sorted(folder.rglob("*.py"))
    yield from sorted(target.source.glob("*.py"))


def _loaded() -> Iterator[Path]:
    """Yield the files of the generator, and of the schema language on which it stands."""
    for kind in ("*.py", "*.yaml", "*.jinja"):
        yield from sorted(GENERATOR.rglob(kind))
    language = find_spec("gradloom.schema")
    assert language is not None and language.origin is not None
    yield from sorted(Path(language.origin).parent.rglob("*.py"))


class Steps:
    """Loads a specification step by step, and knows the digests of what it loaded."""

    def __init__(self, target: Target, memo: Memo, environment: bytes, texts: Sequence[tuple[str, str]]) -> None:
        self.target, self.memo, self.environment, self.texts = target, memo, environment, texts
        self.operators: dict[int, bytes] = {}  # the digest of an operator, by its identity
        self.derivatives: dict[int, bytes] = {}  # the digest of an entry, by the identity of its infos' place
        self.specification = self._load()
        self.keys: dict[tuple[str, bool], bytes] = {}  # the digests of wrappers

    def _load(self) -> Specification:
        target, memo = self.target, self.memo
        assert target.source is not None
        functions = self._functions()
        self.declarations = digest_of(self._declared)
        self.definitions = digest_of(self.operators.values())
        memo.data(digest("checked", self.declarations), lambda: self._check(functions))

        def callables() -> Callables:
            assert target.source is not None
            helpers = find_helpers(target.source / "formulas", target.shown_folder("formulas"))
            return callables_of(functions, helpers)

        callable_ = memo.value(digest("callables", self.declarations), callables)
        single = derivatives.Single(functions, callable_)
        infos: dict[str, dict[str, DifferentiabilityInfo]] = {}
        for part in self._parts(1):
            self._add(part, single, infos)
        kept = self.texts[2][0] if len(self.texts) > 2 else ""
        if not is_up_to_date(functions, infos, kept):
            raise NotSimpleError("derivatives are to be derived")
        for part in self._parts(2) if kept else ():
            self._add(part, single, infos)
        return Specification(target, functions, derivatives.join(functions, infos), callable_, derived=kept)

    def _add(
        self, part: Source, single: derivatives.Single, infos: dict[str, dict[str, DifferentiabilityInfo]]
    ) -> None:
        """Add the derivative of an entry to those of the operators."""
        key = digest("derivative", self.declarations, part.text)
        name, found = self.memo.value(key, lambda: single.analysed(part), part)
        if name in infos:
            raise NotSimpleError(f"`{name}` has two entries")
        infos[name] = single.named(name, found)
        for info in infos[name].values():
            self.derivatives[id(info.place)] = digest(key, info.dispatch_key)

    def _parts(self, file: int) -> list[Source]:
        text, shown = self.texts[file]
        parts = split(text, shown)
        if parts is None:
            raise NotSimpleError(shown)
        return parts

    def _functions(self) -> NativeFunctions:
        reader = Reader(self.target.source)
        parts = self._parts(0)
        text = self.texts[0][0]
        above = reader.families.banners(text[: len(text) - sum(len(part.text) for part in parts)])
        banner = above[-1] if above else None
        found = []
        self._declared: list[bytes] = []
        for part in parts:
            key = digest("operator", self.environment, banner or "", part.text)

            def make(part: Source = part, banner: str | None = banner) -> tuple[NativeFunction, bytes]:
                function = replace(reader.alone(part, banner), entry=LaterEntry(part))
                return function, digest(self.environment, repr((function.declaration, array_form(function))))

            function, declared = self.memo.value(key, make, part)
            found.append(function)
            self.operators[id(function)] = key
            self._declared.append(declared)
            banners = reader.families.banners(part.text)
            banner = banners[-1] if banners else banner
        return NativeFunctions(tuple(found))

    def _check(self, functions: NativeFunctions) -> bytes:
        native_functions.check_together(functions)
        check_names(functions)
        return b""
