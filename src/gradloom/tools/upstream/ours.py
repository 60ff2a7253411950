"""What gradloom lacks of a release of PyTorch, or has otherwise, and why.

Note [Reasons]
The reason for an absence follows from rules: what gradloom's YAML files say of the name (a composite, a variant of
another entry, not differentiable), which kinds of kernels PyTorch has for it (a device, a layout), and what its name
says (mkldnn, nested, quantized). What no rule explains is missing: a dense tensor on the CPU can do it in PyTorch.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

import gradloom
from gradloom.codegen.reading.yaml_files import load_entries
from gradloom.codegen.target import FILES
from gradloom.tools.verify.operators import own_specification
from gradloom.utils._refused import is_refused, is_refused_module

from .comparing import CHANGED, NEW, Change, each, exists
from .facts import Facts, Formulas, arguments, joined, returns

KERNEL, FORMULAS, SCHEMA, NAME = "kernel", "derivative", "schema", "public name"
NODE, SAVED, VALUES = "node name", "saved field", "value"


@dataclass
class Gap:
    """What is missing or different in gradloom.

    Attributes:
        what: KERNEL, FORMULAS, SCHEMA, NAME, NODE, SAVED or VALUES.
        name: of the operator.
        theirs, ours: what PyTorch and gradloom have; '' for nothing.
        reason: why it is so for good; '' for what is missing.
    """

    what: str
    name: str
    theirs: str = ""
    ours: str = ""
    reason: str = ""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@cache
def own_facts() -> Facts:
    """Return gradloom's schemas and formulas, as those of a release."""
    spec = own_specification()
    facts = Facts(gradloom.__version__.partition("+")[0], where="gradloom")
    for function in (*spec.functions, *spec.functions.on_lists):
        for schema in function.schemas:
            name, _, rest = str(schema).partition("(")
            facts.schemas[name] = f"({rest}"
    for entry in load_entries(spec.target.path(FILES[1])):
        name = joined(entry.fields["name"].value).partition("(")[0]
        facts.derivatives[name] = _formulas(entry)
    return facts


def _formulas(entry: Any, start: str = "") -> Formulas:
    found: Formulas = {}
    for key, node in entry.fields.items():
        if key == "dispatch":
            for backend, section in node.fields.items():
                found |= _formulas(section, "" if backend == "Default" else f"{backend}/")
        elif key not in ("name", "node", "override"):
            found[start + key] = joined(getattr(node, "value", None) or [i.value for i in getattr(node, "items", ())])
    return found


def gaps(facts: Facts) -> Iterator[Gap]:
    """Yield what gradloom lacks of a release's operators or has otherwise, by the texts of both."""
    reasons, mine = Reasons(facts), own_facts()
    for name, schema in facts.schemas.items():
        if name not in mine.schemas:
            yield Gap(KERNEL, name, schema, reason=reasons.absent(name))
        else:
            yield from _of_schema(name, schema, mine.schemas[name], reasons)
    for name, formulas in facts.derivatives.items():
        if name not in mine.derivatives:
            yield Gap(FORMULAS, name, _shown(formulas), reason=reasons.without_entry(name))
        else:
            yield from _of_formulas(name, formulas, mine.derivatives[name], facts)


def _of_schema(name: str, theirs: str, ours: str, reasons: Reasons) -> Iterator[Gap]:
    a, b = ([(x.type, x.name, x.default, x.by_keyword) for x in arguments(s)] for s in (theirs, ours))
    words = []
    for number, (one, other) in enumerate(zip(a, b, strict=False)):
        if one[1] != other[1]:
            words.append(f"argument {number} is `{one[1]}`, here `{other[1]}`")
        elif one[0] != other[0]:
            words.append(f"`{one[1]}` is `{one[0]}`, here `{other[0]}`")
        elif not _same_default(one[2], other[2]):
            words.append(f"the default of `{one[1]}` is {one[2]}, here {other[2]}")
        elif one[3] != other[3]:
            words.append(f"`{one[1]}` is given by {'keyword only' if one[3] else 'position, too'}")
    if len(a) != len(b):
        words.append(f"{len(a)} arguments, here {len(b)}")
    if returns(theirs) != returns(ours):
        words.append(f"it returns {returns(theirs)}, here {returns(ours)}")
    if words:
        same = name.endswith("out") and reasons.takes(name, name.partition(".")[0])
        reason = "the same call with `out=`, whose tensors or overload have other names here"
        yield Gap(SCHEMA, name, theirs, ours, reason if same else "")


def _same_default(one: str | None, other: str | None) -> bool:
    def plain(text: str | None) -> Any:
        text = None if text is None else text.strip("\"'")
        try:
            return float(text or "")
        except ValueError:
            return text

    return bool(plain(one) == plain(other))


def _of_formulas(name: str, theirs: Formulas, ours: Formulas, facts: Facts) -> Iterator[Gap]:
    """Yield where PyTorch has a formula for an input, or for forward mode, and gradloom none, or the other way."""
    a, b = (_by_place(f, facts.schemas.get(name, "")) for f in (theirs, ours))
    for key in sorted(a.keys() | b.keys()):
        if "/" not in key and exists(a.get(key, "")) and not exists(b.get(key, "")):
            yield Gap(FORMULAS, name, f"{key}: {a[key]}", f"{key}: {b.get(key, '')}")


def _by_place(formulas: Formulas, schema: str) -> Formulas:
    """Return formulas by inputs; that for forward mode under one name."""
    inputs = {a.name for a in arguments(schema)} if schema else set()
    return {key if key.rstrip("_") in inputs or "/" in key else "forward mode": f for key, f in each(formulas).items()}


def _shown(formulas: Formulas) -> str:
    return "; ".join(f"{key}: {formula}" for key, formula in formulas.items())


# --- reasons ----------------------------------------------------------------------------------------------------------

# Pattern of a name -> the reason why there is no such operator.
_NAMED = {
    r"mkldnn|onednn": "mkldnn: there is no such layout or library here",
    r"cudnn|miopen|mps_|_mps|cuda|hip|flash_attention|efficient_attention|triton|cslt|semi_structured": "a device's "
    "library: gradloom computes on the CPU",
    r"quantize|fake_quant|qint|q_scale|q_zero|q_per|int_repr|fbgemm|dequantize|int4|int8|_dyn_quant|wrapped_|qparams": (
        "quantized tensors: there are none"
    ),
    r"nested|jagged|padded": "nested tensors: there are none",
    r"sparse_compressed|csr|csc|bsr|bsc|compressed_|crow_|ccol_|col_indices|row_indices": "compressed sparse layouts: "
    "there are none",
    r"^chalf$": "tensors of halves of a complex number: there are none",
    r"^_?test_": "for PyTorch's own tests",
    r"_foreach|^_amp_": "several tensors at once: made of the operators for one",
    r"^_?sym_|^_functional_|dep_token|^_?lift|_lazy_clone|_print$|_assert": "for PyTorch's compiler and tracing",
    r"_fw_primal|_make_dual|_unpack_dual|_new_zeros_with_|_has_same_storage|_version|^_backward$|^retains_grad|^output_nr"
    r"|^is_leaf$|^(set_)?data$": "part of the core, no operator here",
}
_KERNELS = {
    "device": "other devices: gradloom computes on the CPU",
    "mkldnn": "mkldnn: there is no such layout or library here",
    "nested": "nested tensors: there are none",
    "quantized": "quantized tensors: there are none",
    "compressed": "compressed sparse layouts: there are none",
    "sparse": "sparse tensors: their functions are methods here, without an operator of their own",
}


_BEFORE = re.compile(
    r"^(_|slow_|thnn_|infinitely_differentiable_|fused_|thnn_fused_|nnpack_spatial_|dilated_|native_|sparse_)"
)
_AFTER = re.compile(
    r"_(backward|forward|helper|jvp|only|overrideable|functional|copy|enum|interface|unsafe|dense|sparse|fallback|cpu"
    r"|data|mode|weights|per_sample|relu|activation|from_bin_\w+|bin_edges|\d?)$"
)


class Reasons:
    """The reasons why gradloom lacks what a release has; Note [Reasons]."""

    def __init__(self, facts: Facts) -> None:
        self.facts, self.functions = facts, own_specification().functions
        self.public = {n.partition(".")[0] for n in facts.schemas} | {n.rpartition(".")[2] for n in facts.names}
        self.overloads: dict[str, list[str]] = {}
        for name in own_facts().schemas:
            self.overloads.setdefault(name.partition(".")[0], []).append(name)

    def absent(self, name: str) -> str:
        """Return why there is no operator of a name; '' if it is missing."""
        base, _, overload = name.partition(".")
        for pattern, reason in _NAMED.items():
            if re.search(pattern, base):
                return reason
        kinds = self.facts.kernels.get(name, "").split()
        if kinds and not {"cpu", "composite", "explicit"} & set(kinds):
            return _KERNELS[next(k for k in reversed(list(_KERNELS)) if k in kinds)]
        if "Dimname" in self.facts.schemas[name] or "names" in overload:
            return "names of dimensions: there are none"
        if self.takes(name, base) or self.takes(name, base.rstrip("_")):
            return "another overload takes its calls here"
        functional = base.removesuffix("_copy").removesuffix("_functional")
        if functional != base and functional in self.overloads:
            return "for the compiler: the operator without the ending is here"
        if base not in self.overloads and _reachable(base):
            return "a function in Python here, without an operator of its own"
        if stem := self.stem(base):
            return f"a step of `{stem}`, which is here"
        if base.startswith("_") and name not in self.facts.derivatives:
            return "private, and without a derivative of its own"
        return ""

    def takes(self, name: str, base: str) -> bool:
        """Return whether an overload of a name here has all arguments of PyTorch's, but those that are written to."""
        theirs = self.facts.schemas[name]
        written = {a.name for a in arguments(theirs) if f"!) {a.name}" in theirs}
        given = {a.name for a in arguments(theirs)} - written - {"out"}
        schemas = own_facts().schemas
        return any(given <= {a.name for a in arguments(schemas[n])} | {"self"} for n in self.overloads.get(base, ()))

    def stem(self, base: str) -> str:
        """Return the operator of which another is a step, by its name: `cdist` for `_cdist_backward`; else ''."""
        while True:
            shorter = _BEFORE.sub("", base)
            shorter = _AFTER.sub("", base) if shorter == base else shorter
            if shorter == base or not shorter:
                return ""
            base = re.sub(r"^conv_dilated(\d)d$", r"conv\1d", shorter).replace("_fused_attention", "_attention")
            if base in self.public and _reachable(base):
                return base

    def without_entry(self, name: str) -> str:
        """Return why derivatives.yaml has no entry for an operator; '' if one is missing."""
        function = self.functions.get(name)
        has_formula = any(map(exists, each(self.facts.derivatives[name]).values()))
        if has_formula and function is not None and function.composite is not None:
            return "a composite here, and differentiable as such"
        strategy = "" if function is None else own_specification().derivatives[name].strategy
        if strategy == "formula":
            return "the entry of the functional operator serves it"
        if strategy == "not_differentiable":
            return "not differentiable: no result requires a gradient"
        if not has_formula:
            return "nothing to differentiate: no input has a formula in PyTorch either"
        if function is not None:
            return ""
        return self.absent(name) if name in self.facts.schemas else "for PyTorch's compiler and tracing"


def _reachable(name: str) -> bool:
    """Return whether programs can call a name in gradloom: as a function, or as a method of tensors."""
    for home in (gradloom, gradloom.Tensor, gradloom.nn.functional, gradloom.sparse):
        try:
            if callable(getattr(home, name, None)):
                return True
        except (AttributeError, NotImplementedError, RuntimeError):
            continue
    module, _, rest = name.partition("_")
    return module in ("linalg", "special", "fft") and hasattr(getattr(gradloom, module), rest)


# Pattern of a public name -> the reason why there is no such name.
_HOMES = {
    r"torch\.(backends\.)?(cuda|xpu|mps|mtia|cudnn|miopen)\b": "other devices: gradloom computes on the CPU",
    r"torch\.(backends\.)?(mkldnn|nested|quantized)\b": "layouts and dtypes that there are not",
    r"torch\.backends\.python_native\b|torch\.profiler\.(profiler\.)?(Cuspy|PerformanceMetrics)Config": "kernels and "
    "counters of GPUs",
    r"torch\.Sym(Int|Float|Bool)\b": "symbolic numbers: sizes are Python numbers here",
    r"torch\.compiler\.(precompile\b|PrecompileError|config\b)": "files of PyTorch's compiler: graphs are kept on disk",
    r"torch\.distributed\.checkpoint\.fsspec": "storage of fsspec: checkpoints are files",
    r"torch\.distributed\.config\.pipeline": "pipelining: gradloom refuses it",
}


def missing_names(changes: list[Change]) -> Iterator[Gap]:
    """Yield the new public names and parameters that gradloom has not."""
    for change in changes:
        reason = next((why for pattern, why in _HOMES.items() if re.match(pattern, change.name)), "")
        try:
            found = _resolved(change.name)
        except (AttributeError, ImportError, NotImplementedError, RuntimeError):
            if change.change == NEW:
                yield Gap(NAME, change.name, reason=reason or _refusal(change.name))
            continue
        if change.change == CHANGED:
            try:
                mine = inspect.signature(found).parameters
            except (TypeError, ValueError):
                continue
            for word in re.findall(r"new parameter `\**(\w+)`", change.words):
                if word not in mine and not any(p.kind is p.VAR_KEYWORD for p in mine.values()):
                    private = "private" if word.startswith("_") else ""
                    yield Gap(NAME, f"{change.name}({word})", reason=reason or private)


def _refusal(name: str) -> str:
    """Return why a name is absent if gradloom refuses the module, or the class, that it would be in."""
    while "." in (name := name.rpartition(".")[0]):
        try:
            found = _resolved(name)
            return f"gradloom refuses {name}" if is_refused(found) or is_refused_module(found) else ""
        except (AttributeError, ImportError, NotImplementedError, RuntimeError):
            continue
    return ""


def _resolved(name: str) -> Any:
    found: Any = gradloom
    for part in name.split(".")[1:]:
        if not hasattr(found, part) and inspect.ismodule(found):
            importlib.import_module(f"{found.__name__}.{part}")
        found = getattr(found, part)
    return found
