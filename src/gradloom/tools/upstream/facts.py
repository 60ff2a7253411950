"""The facts of one release of PyTorch: schemas, where their kernels are, derivatives, and public names.

facts = read(wheel("torch-2.15.0-cp312-cp312-macosx_14_0_arm64.whl"))
facts.schemas["clamp_min"]        # '(Tensor self, Scalar min) -> Tensor'
facts.derivatives["clamp_min"]    # {'self': 'where(self > min, ...)', 'result': 'auto_element_wise'}

Note [Facts, not files]
Schemas, formulas, the keys of `dispatch:` and names are all that is read of a wheel, and all that is kept of a release:
no comment, no help text, and no code. Formulas are quoted as they are, without white space at the ends of lines.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from gradloom.codegen.errors import UsageError

from .files import Files
from .names import public_names

FUNCTIONS = "torchgen/packaged/ATen/native/native_functions.yaml"
DERIVATIVES = "torchgen/packaged/autograd/derivatives.yaml"
OUTPUTS = "output_differentiability"
# Key of `dispatch:`, or its start -> the kind of kernel. Others are devices; these say nothing.
_KINDS = {
    "CompositeImplicitAutogradNestedTensor": "nested",
    "CompositeImplicit": "composite",
    "CompositeExplicit": "explicit",
    "SparseCsr": "compressed",
    "Sparse": "sparse",
    "NestedTensor": "nested",
    "Quantized": "quantized",
    "Mkldnn": "mkldnn",
    "CPU": "cpu",
}
_NO_KINDS = "Meta", "ZeroTensor"

Formulas = dict[str, str]


@dataclass
class Facts:
    """The facts of one release.

    Attributes:
        version: such as `2.15.0`, without the build.
        schemas: full name (`add.Tensor`) -> the schema without the name.
        kernels: full name -> the kinds of its kernels, separated by spaces: cpu, device, composite (differentiable by
            composition), explicit (a composite with a derivative of its own), sparse, compressed, nested, quantized,
            mkldnn; only where `dispatch:` says it.
        derivatives: full name -> {inputs or outputs: formula}; of another key of `dispatch:`, `<key>/<inputs>`. Empty
            for releases before 2.1, whose wheels lack them.
        names: public name, with its module -> its parameters, or '' where these are not known.
        where: where the facts are from.
    """

    version: str
    schemas: dict[str, str] = field(default_factory=dict)
    kernels: dict[str, str] = field(default_factory=dict)
    derivatives: dict[str, Formulas] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    where: str = ""


def read(files: Files) -> Facts:
    """Return the facts of a wheel or an installed release. Raises UsageError for files that are not PyTorch's."""
    facts = Facts(files.version, where=str(files))
    for entry in _entries(files, FUNCTIONS):
        name, _, rest = str(entry.get("func", "")).partition("(")
        if not rest:
            raise UsageError(f"{files}: {FUNCTIONS} has an entry without a schema")
        facts.schemas[name] = joined(f"({rest}")
        if kinds := {_kind(key.strip()) for keys in entry.get("dispatch") or {} for key in keys.split(",")} - {""}:
            facts.kernels[name] = " ".join(sorted(kinds))
    for entry in _entries(files, DERIVATIVES) if files.read(DERIVATIVES) is not None else ():
        name = str(entry.pop("name", "")).partition("(")[0]
        if not name:
            raise UsageError(f"{files}: {DERIVATIVES} has an entry without a name")
        facts.derivatives[name] = dict(_formulas(entry))
    facts.names = public_names(files)
    return facts


def _entries(files: Files, path: str) -> list[dict[str, Any]]:
    text = files.read(path)
    if text is None:
        raise UsageError(f"{files} is not PyTorch: it has no {path}")
    try:
        found = yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.YAMLError as error:
        raise UsageError(f"{files}: {path} is not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(found, list) or not all(isinstance(entry, dict) for entry in found):
        raise UsageError(f"{files}: {path} is not a list of entries")
    return found


def _kind(key: str) -> str:
    if key in _NO_KINDS:
        return ""
    return next((kind for start, kind in _KINDS.items() if key.startswith(start)), "device")


def _formulas(entry: Mapping[str, Any]) -> list[tuple[str, str]]:
    found = []
    for key, value in entry.items():
        if key == "dispatch" and isinstance(value, Mapping):
            for backend, section in value.items():
                start = "" if backend == "Default" else f"{backend}/"
                found += [(start + name, formula) for name, formula in _formulas(section)]
        else:
            found.append((joined(key), joined(value)))
    return found


def joined(value: Any) -> str:
    """Return a value of YAML as one line."""
    if isinstance(value, list):
        return ", ".join(map(joined, value))
    return " ".join(str(value).split())


# --- schemas ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Argument:
    """One argument of a schema: `int[2] padding=0` is ('int[2]', 'padding', '0')."""

    type: str
    name: str
    default: str | None
    by_keyword: bool


_ALIAS = re.compile(r"\([a-z*|]+!?(?:\s*->\s*[a-z*|]+)?\)|\([a-z]!?\s*->\s*\*\)")


def arguments(schema: str) -> list[Argument]:
    """Return the arguments of a schema."""
    found, by_keyword = [], False
    for part in _split(_inner(schema)[0]):
        if part == "*":
            by_keyword = True
            continue
        before, _, default = part.partition("=")
        kind, _, name = before.strip().rpartition(" ")
        found.append(Argument(_plain(kind), name, default.strip() if "=" in part else None, by_keyword))
    return found


def returns(schema: str) -> str:
    """Return what follows the arrow of a schema, without aliases."""
    return _plain(_inner(schema)[1].partition("->")[2].strip())


def _plain(kind: str) -> str:
    return _ALIAS.sub("", kind).replace("SymInt", "int").replace("SymBool", "bool")


def _inner(schema: str) -> tuple[str, str]:
    """Return (arguments, rest)."""
    depth = 0
    for place, sign in enumerate(schema):
        depth += (sign == "(") - (sign == ")")
        if depth == 0:
            return schema[1:place], schema[place + 1 :]
    return schema, ""


def _split(text: str) -> list[str]:
    parts, depth, start = [], 0, 0
    for place, sign in enumerate(text):
        depth += (sign in "([") - (sign in ")]")
        if sign == "," and depth == 0:
            parts.append(text[start:place].strip())
            start = place + 1
    return [p for p in (*parts, text[start:].strip()) if p]
