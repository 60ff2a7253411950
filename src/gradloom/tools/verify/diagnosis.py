"""Turn faults into findings: group the faults of one formula, and add its place and the likely causes."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

import gradloom
from gradloom.codegen.derivatives.model import Derivative, ForwardDerivative
from gradloom.codegen.reading.yaml_files import Text

from .causes import likely_causes, shape_causes, squared
from .findings import BACKWARD, CHECKS, COMPOSITIONS, FORWARD, KERNEL, WRONG, Comparison, Fault, Finding
from .first_order import FirstOrder
from .jacobians import Detail, coordinates, from_real
from .operators import Operator, own_operators
from .sampling import cases

# Number of calls with the same fault that are examined for a shared cause.
LOOKED_AT = 3


def explained(operator: Operator, faults: list[Fault], others: tuple[Operator, ...] = ()) -> list[Finding]:
    """Return one finding per group of faults with the same check, blame, input and message (except numbers).

    Args:
        others: operators, besides gradloom's own, whose wrong derivatives may cause a wrong second derivative.
    """
    groups: dict[tuple, list[Fault]] = {}
    for fault in faults:
        name = fault.input.name if fault.input is not None and fault.severity == WRONG else None
        groups.setdefault((fault.check, fault.blame, name, fault.output, _stem(fault)), []).append(fault)
    return [_explained(operator, group, others) for group in groups.values()]


def _explained(operator: Operator, group: list[Fault], others: tuple[Operator, ...]) -> Finding:
    """Return the finding of a group; without a place and causes if looking for these raises."""
    try:
        return _finding(operator, group, others)
    except Exception:
        first = group[0]
        cases = tuple(dict.fromkeys(str(f.case) for f in group))
        message = f"{operator.name}: {first.message}"
        return Finding(operator.name, first.check, message, cases=cases, severity=first.severity)


def _stem(fault: Fault) -> str:
    """Return the message without the parts that differ from call to call."""
    return "".join(c for c in fault.message.partition(": ")[0] if not c.isdigit())


def _finding(operator: Operator, group: list[Fault], others: tuple[Operator, ...]) -> Finding:
    first = min(group, key=_size)
    formula = _formula(operator, first)
    expected, found = first.expected, first.found
    worst = ""
    if first.comparison is not None and _fits(first.comparison):
        expected, found = _for_ones(first)
        worst = _worst(first.comparison, first)
    second = _wrong_parts(operator, first, others) if first.check in COMPOSITIONS.values() else ()
    causes = dict.fromkeys([*second, *first.causes, *_causes(group, formula)])
    return Finding(
        operator=operator.name,
        check=first.check,
        message=f"{operator.name}: {first.message}",
        place=_place(operator, first, formula),
        input=first.input.name if first.input is not None else None,
        output=first.output,
        cases=tuple(dict.fromkeys(str(f.case) for f in [first, *group])),
        expected=expected,
        found=found,
        worst=worst,
        causes=tuple(causes),
        sources=_sources(operator, first, formula),
        severity=first.severity,
    )


def _causes(group: list[Fault], formula: Derivative | ForwardDerivative | None) -> list[str]:
    """Return the likely causes. If backward raised, so that there are no numbers, try a call with square matrices."""
    first = min(group, key=_size)
    compared = [f for f in sorted(group, key=_size) if f.comparison is not None][:LOOKED_AT]
    if compared or first.check not in ("reverse", "forward") or first.severity != WRONG or first.input is None:
        return likely_causes(compared, formula)
    if "invalid gradient" in first.message or "gradient has shape" in first.message:
        return list(shape_causes(first.message))
    other = squared(first.case)
    if other is not None and first.input in other.places:
        try:
            again = [
                f
                for f in FirstOrder(other, Detail()).faults()
                if f.check == first.check and f.input == first.input and f.comparison is not None
            ]
        except Exception:
            again = []
        return likely_causes(again[:1], formula)
    return []


def _wrong_parts(operator: Operator, fault: Fault, others: tuple[Operator, ...]) -> Iterator[str]:
    """Yield the operators that the formula uses and whose own derivative is wrong."""
    known = {o.joined.info.node: o for o in (*own_operators(), *others) if o.joined.info is not None}
    try:
        inputs = fault.case.inputs()
        outputs = [o for o in fault.case.call(*inputs) if o.requires_grad]
        found = gradloom.autograd.grad(
            outputs,
            inputs,
            [gradloom.ones_like(o).requires_grad_() for o in outputs],
            create_graph=True,
            allow_unused=True,
        )
    except Exception:
        return
    for name in _node_names([g.grad_fn for g in found if g is not None and g.grad_fn is not None]):
        part = known.get(name)
        if part is None or part.name == operator.name:
            continue
        wrong = _first_wrong(part)
        if wrong is not None:
            yield f"the derivative of `{part.name}`, which the formula uses, is wrong ({wrong})"


def _node_names(roots: list[Any]) -> list[str]:
    names, seen, waiting = [], set(), list(roots)
    while waiting:
        node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        names.append(node.name())
        waiting += [following for following, _ in node.next_functions if following is not None]
    return list(dict.fromkeys(names))


def _first_wrong(operator: Operator) -> str | None:
    """Return the place of an operator's first wrong formula; None if its first derivatives are correct."""
    try:
        for case in cases(operator):
            for fault in FirstOrder(case, Detail(16)).faults() if case.places else ():
                if fault.severity == WRONG:
                    place = _place(operator, fault, _formula(operator, fault))
                    return f"{place.path}:{place.line}" if place is not None else operator.name
    except Exception:
        return None
    return None


def _size(fault: Fault) -> tuple[int, int, int]:
    """Sort key: unchanged samples first; of those, the smallest one that is large enough to be conclusive."""
    comparison = fault.comparison
    entries = comparison.expected.size if comparison is not None else 0
    return (bool(fault.case.label), entries < 4, entries)


def _formula(operator: Operator, fault: Fault) -> Derivative | ForwardDerivative | None:
    """Return the formula to blame."""
    info = operator.joined.info
    if info is None:
        return None
    if fault.blame == BACKWARD and fault.input is not None:
        return next((d for d in info.derivatives if fault.input.name in d.inputs), None)
    if fault.blame == FORWARD:
        names = [o.name for o in info.differentiable_outputs]
        number = min(fault.output or 0, len(names) - 1)
        return next((f for f in info.forward if names and names[number] in f.outputs), None)
    return None


def _place(operator: Operator, fault: Fault, formula: Derivative | ForwardDerivative | None) -> Text | None:
    if formula is not None and formula.place is not None:
        return formula.place
    entry = operator.joined.function.entry
    value = entry.get("composite") or entry.get("kernel")
    if (fault.blame == KERNEL or operator.by_composition) and isinstance(value, Text):
        return value
    info = operator.joined.info
    if fault.check in CHECKS[CHECKS.index("reverse") :] and info is not None:
        return info.place
    return operator.joined.function.text


def _sources(operator: Operator, fault: Fault, formula: Derivative | ForwardDerivative | None) -> tuple[str, ...]:
    """Return the files and lines of a formula's helpers, or of a kernel or composite."""
    info, function = operator.joined.info, operator.joined.function
    wanted: list[tuple[str, str, str]] = []
    if formula is not None and info is not None:
        helpers = info.helpers if isinstance(formula, Derivative) else info.forward_helpers
        wanted = [("formulas", module, name) for module, name in helpers if f"{name}(" in formula.source]
    elif function.composite is not None and function.composite_module is not None:
        wanted = [("composite", function.composite_module, function.composite.partition(".")[2])]
    elif fault.blame == KERNEL and function.kernel is not None and function.kernel.kind == "named":
        ((dotted, module),) = function.kernel.modules
        wanted = [("kernels", module, dotted.partition(".")[2])]
    found = (_line_of(*one) for one in wanted)
    return tuple(f for f in found if f)


def _line_of(room: str, module: str, name: str) -> str:
    """Return `src/gradloom/formulas/norm.py:12 (name)`; empty if the source is unknown."""
    try:
        function = getattr(import_module(f"gradloom.{room}.{module}"), name)
        path, line = inspect.getsourcefile(function), inspect.getsourcelines(function)[1]
    except (AttributeError, ImportError, OSError, TypeError):
        return ""
    package = Path(gradloom.__file__).parent
    if path is None or not Path(path).is_relative_to(package):
        return ""
    base = "src/gradloom" if package.parent.name == "src" else "gradloom"
    return f"{base}/{Path(path).relative_to(package).as_posix()}:{line} ({name})"


def _fits(comparison: Comparison) -> bool:
    """Return whether both Jacobians have the shape of input and output; some operators' shapes differ by call."""
    shape = coordinates(comparison.input), coordinates(comparison.output)
    return comparison.expected.shape == shape == comparison.found.shape


def _for_ones(fault: Fault) -> tuple[np.ndarray, np.ndarray]:
    """Return the gradients for a cotangent of ones, or the tangents for a tangent of ones, by both Jacobians."""
    comparison = fault.comparison
    assert comparison is not None
    if fault.blame == FORWARD:
        ones = _ones(comparison.input)
        return (
            from_real(ones @ comparison.expected, comparison.output),
            from_real(ones @ comparison.found, comparison.output),
        )
    ones = _ones(comparison.output)
    return from_real(comparison.expected @ ones, comparison.input), from_real(comparison.found @ ones, comparison.input)


def _ones(array: np.ndarray) -> np.ndarray:
    if array.dtype.kind != "c":
        return np.ones(array.size)
    return np.tile([1.0, 0.0], array.size)


def _worst(comparison: Comparison, fault: Fault) -> str:
    """Describe the entry that differs most."""
    with np.errstate(all="ignore"):
        difference = np.nan_to_num(np.abs(comparison.expected - comparison.found), nan=np.inf)
    if not difference.size:
        return ""
    row, column = np.unravel_index(int(np.argmax(difference)), difference.shape)
    parts = [_entry(number, array) for number, array in ((row, comparison.input), (column, comparison.output))]
    result = "result" if not fault.output else f"result{fault.output}"
    name = str(fault.input) if fault.input is not None else "input"
    return (
        f"d {parts[1].format(result)} / d {parts[0].format(name)}: expected "
        f"{comparison.expected[row, column]:.7g}, found {comparison.found[row, column]:.7g}"
    )


def _entry(number: int, array: np.ndarray) -> str:
    part = ""
    if array.dtype.kind == "c":
        number, imaginary = divmod(number, 2)
        part = " (imaginary part)" if imaginary else " (real part)"
    index = ", ".join(map(str, np.unravel_index(number, array.shape))) if array.shape else ""
    return "{}" + (f"[{index}]" if index else "") + part
