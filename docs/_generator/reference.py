"""The operator reference: Markdown pages made from the two YAML files by the generator's model.

    pages = reference.pages(root)          # {'operators/elementwise.md': '...', ..., 'support.md': '...'}

One page for each family, an index of all operators, and the support matrix. Nothing is typed in by hand: signatures,
kernels, formulas, saved values and line numbers are read from the files, and templates/ holds the words around them.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import jinja2
from locate import Definitions

from gradloom.codegen.derivatives import derivatives
from gradloom.codegen.derivatives.model import DifferentiabilityInfo, DifferentiableFunction, SavedAttribute
from gradloom.codegen.notation.equations import Equation, Equations, Notation
from gradloom.codegen.operators import native_functions
from gradloom.codegen.operators.model import NativeFunction
from gradloom.codegen.outputs.support import Fact
from gradloom.codegen.reading.yaml_files import load_entries
from gradloom.codegen.target import own
from gradloom.tools.prove import certificates
from gradloom.tools.support import support_row

NATIVE, DERIVATIVES = "native_functions.yaml", "derivatives.yaml"
# The page of a family lies in operators/, so that this leads from it to the top of the checkout.
TO_ROOT = "../.."

# What the tables show for an answer.
SIGNS = {"yes": "✓", "part": "✓ in part", "no": "✗", "none": "–", "unknown": "?"}

_NEEDS = re.compile(r"\bneeds_(\w+)\b")


@dataclass(frozen=True)
class Link:
    """A link to a place in the checkout: its text, path and line."""

    text: str
    path: str
    line: int
    summary: str = ""

    def __str__(self) -> str:
        return f"[`{self.text}`]({TO_ROOT}/{self.path}#L{self.line})"


@dataclass(frozen=True)
class Formula:
    """A formula: its inputs or outputs, its text in derivatives.yaml, and its equations."""

    of: tuple[str, ...]
    source: str
    equations: tuple[Equation, ...]
    proof: str = ""  # the end of a sentence


def _about(names: tuple[str, ...], equations: tuple[Equation, ...]) -> tuple[Equation, ...]:
    return tuple(e for e in equations if set(e.of) <= set(names))


@dataclass(frozen=True)
class Overload:
    """One entry of native_functions.yaml with its derivative, as the template prints it."""

    native: NativeFunction
    joined: DifferentiableFunction
    equations: Equations
    definitions: Definitions
    formula_line: int | None
    proofs: Mapping[str, str]

    @property
    def name(self) -> str:
        return self.native.name

    @property
    def schemas(self) -> tuple[str, ...]:
        return tuple(map(str, self.native.schemas))

    @property
    def info(self) -> DifferentiabilityInfo | None:
        return self.joined.info

    @property
    def entry(self) -> Link:
        return Link(f"{NATIVE}:{self.native.text.line}", NATIVE, self.native.text.line)

    @property
    def formula_entry(self) -> Link | None:
        line = self.formula_line
        return None if line is None else Link(f"{DERIVATIVES}:{line}", DERIVATIVES, line)

    @property
    def implementation(self) -> str:
        """The array expression that computes it, or a link to the function."""
        if self.native.composite is not None:
            module = self.native.composite_module or ""
            return f"{self._function('composite', module, self.native.composite)}, made of other operators"
        kernel = self.native.kernel
        assert kernel is not None
        if kernel.kind == "expression":
            return code(kernel.source)
        ((dotted, module),) = kernel.modules
        return str(self._function("kernels", module, dotted))

    def _function(self, room: str, module: str, dotted: str) -> Link:
        function = dotted.partition(".")[2]
        place = self.definitions.find(room, module, function)
        return Link(f"{room}/{module.replace('.', '/')}.py: {function}", place.shown, place.line)

    @property
    def node(self) -> str | None:
        return self.info.node if self.info is not None else None

    @property
    def gradients(self) -> tuple[Formula, ...]:
        """The formulas of the gradients of its inputs."""
        found = self.info.derivatives if self.info is not None else ()
        return tuple(
            Formula(d.inputs, d.source, _about(d.inputs, self.equations.backward), self._proof(*d.inputs))
            for d in found
        )

    @property
    def tangents(self) -> tuple[Formula, ...]:
        """The formulas of the tangents of its results."""
        found = self.info.forward if self.info is not None else ()
        return tuple(
            Formula(f.outputs, f.source, _about(f.outputs, self.equations.forward), self._proof("result"))
            for f in found
        )

    def _proof(self, *of: str) -> str:
        word = self.proofs.get(of[0], "") if len(of) == 1 else ""
        link = f"[{word.partition(':')[0]}](../proofs.md)"
        return link + (f": {word.partition(': ')[2]}" if ":" in word else "") if word else ""

    @property
    def support(self) -> tuple[tuple[str, Fact], ...]:
        """Its support row: (title, answer)."""
        return tuple(support_row(self.name).items())

    @property
    def saved(self) -> str:
        """What its node saves, as the end of a sentence; empty if nothing."""
        known = self.info.saved if self.info is not None else ()
        tensors = [_saved(s) for s in known if s.kind != "value"]
        values = [_saved(s) for s in known if s.kind == "value"]
        word = f"the value{'s' if len(values) > 1 else ''} {', '.join(values)}"
        return "; ".join(tensors + ([word] if values else []))

    @property
    def helpers(self) -> tuple[Link, ...]:
        """The helpers that its formulas call, with the first lines of their docstrings."""
        if self.info is None:
            return ()
        found = []
        for module, name in sorted({*self.info.helpers, *self.info.forward_helpers}):
            place = self.definitions.find("formulas", module.removeprefix("gradloom.formulas."), name)
            found.append(Link(name, place.shown, place.line, place.summary))
        return tuple(found)

    @property
    def undifferentiated(self) -> str | None:
        """The reason why it has no formulas of its own."""
        return {
            "composition": "by the operators that it is made of",
            "not_differentiable": "none of its results is differentiable",
            "not_implemented": "its derivative is not implemented; a backward pass that reaches it says so",
        }.get(self.joined.strategy)


@dataclass(frozen=True)
class Operator:
    """All overloads of one name."""

    name: str
    family: str
    overloads: tuple[Overload, ...]

    @property
    def candidates(self) -> tuple[str, ...]:
        """The names of it and its in-place variant in Python."""
        found: dict[str, None] = {}
        for overload in self.overloads:
            for schema in overload.native.schemas:
                name = schema.name.name
                if schema.kind == "out":
                    continue
                derived = schema is not overload.native.schema
                variants = overload.native.variants
                module = overload.native.python_module
                if "function" in variants or (derived and schema.kind != "inplace"):
                    found[f"gradloom.{_in_module(name, module)}"] = None
                    if is_reachable(f"gradloom.nn.functional.{name}"):
                        found[f"gradloom.nn.functional.{name}"] = None
                if "method" in variants or schema.kind == "inplace":
                    found[f"gradloom.Tensor.{name}"] = None
        return tuple(found)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name in self.candidates if is_reachable(name))

    def shares(self, overload: Overload) -> Overload | None:
        """An earlier overload with the same formulas, such as the functional one of an in-place operator."""
        before = self.overloads[: self.overloads.index(overload)]
        return next((b for b in before if b.node is not None and b.node == overload.node), None)

    @property
    def is_public(self) -> bool:
        """Whether programs call it by a name without a leading underscore."""
        return any(not name.rpartition(".")[2].startswith("_") for name in self.names)

    @property
    def purpose(self) -> str:
        """A remark on operators that programs do not call directly."""
        return "" if self.names else "No program calls it by name: formulas, composites and modules do."


def _in_module(name: str, module: str | None) -> str:
    if module is None:
        return name
    return f"nn.functional.{name}" if module == "nn" else f"{module}.{name.removeprefix(f'{module}_')}"


@functools.cache
def is_reachable(dotted: str) -> bool:
    """Return whether the library has a public object of that name."""
    import gradloom
    import gradloom.nn.functional

    place: object = gradloom
    for part in dotted.split(".")[1:]:
        if not hasattr(place, part):
            return False
        place = getattr(place, part)
    return callable(place)


def _saved(s: SavedAttribute) -> str:
    kind = " (a result)" if s.is_output and s.kind != "value" else ""
    condition = f", if {_spoken(s.condition)}" if s.condition else ""
    return f"`{s.name}`{kind}{condition}"


def _spoken(condition: str) -> str:
    """Return a condition such as `needs_self or needs_other` in words."""
    if re.fullmatch(r"needs_\w+( or needs_\w+)*", condition):
        names = " or ".join(f"`{n}`" for n in _NEEDS.findall(condition))
        return f"{names} needs a gradient"
    return code(condition)


def code(text: str) -> str:
    """Return a code span of one line of text."""
    text = " ".join(text.split())
    return f"`` {text} ``" if "`" in text else f"`{text}`"


def operators(root: Path) -> tuple[Operator, ...]:
    """Return all operators of a checkout, in the order of native_functions.yaml.

    Raises SpecError where the YAML files are wrong.
    """
    package = root / "src" / "gradloom"
    functions = native_functions.load(root / NATIVE, shown=NATIVE, package=package)
    joined = derivatives.load(root / DERIVATIVES, functions, shown=DERIVATIVES, package=package)
    lines = {
        e.fields["name"].value.partition("(")[0]: e.fields["name"].line
        for e in load_entries(root / DERIVATIVES, DERIVATIVES)
    }
    definitions, notation = Definitions(root, package), Notation(package / "formulas")
    proofs = certificates.up_to_date(own(root))
    groups: dict[tuple[str, str], list[Overload]] = {}
    for function in functions:
        one = joined[function.name]
        known = proofs[function.name].formulas if function.name in proofs else {}
        place = _line(lines, function, joined)
        overload = Overload(function, one, notation.of(one), definitions, place, known)
        groups.setdefault((function.family, function.schema.name.base), []).append(overload)
    return tuple(Operator(name, family, tuple(group)) for (family, name), group in groups.items())


def _line(lines: dict[str, int], function: NativeFunction, joined: derivatives.Derivatives) -> int | None:
    """Return the place of the formulas: its own entry, or that of the operator whose entry it shares."""
    info = joined[function.name].info
    names = [function.name] + ([info.name.partition("(")[0]] if info is not None else [])
    return next((lines[name] for name in names if name in lines), None)


def pages(root: Path, found: tuple[Operator, ...] | None = None) -> dict[str, str]:
    """Return {path below docs/: text} of every page; `found` is what `operators(root)` returns."""
    found = operators(root) if found is None else found
    families: dict[str, list[Operator]] = {}
    for operator in found:
        families.setdefault(operator.family, []).append(operator)
    made = {
        f"operators/{family}.md": _template(
            "family.md.jinja", family=family, operators=sorted(members, key=lambda o: o.name.strip("_"))
        )
        for family, members in families.items()
    }
    made["operators/index.md"] = _template(
        "index.md.jinja", families=families, letters=_by_letter(found), entries=sum(len(o.overloads) for o in found)
    )
    made["support.md"] = _template("support.md.jinja", families=families, signs=SIGNS)
    return made


def _by_letter(found: tuple[Operator, ...]) -> Iterator[tuple[str, list[Operator]]]:
    letters: dict[str, list[Operator]] = {}
    for operator in sorted(found, key=lambda o: (o.name.strip("_"), o.family)):
        letters.setdefault(operator.name.strip("_")[0], []).append(operator)
    yield from letters.items()


_ENVIRONMENT = jinja2.Environment(
    loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)
_ENVIRONMENT.filters["code"] = code
_ENVIRONMENT.filters["cell"] = lambda text: " ".join(text.split()).replace("|", "\\|")


def _template(name: str, **facts: object) -> str:
    return _ENVIRONMENT.get_template(name).render(**facts)
