"""Run the checks of operators and collect their findings."""

from __future__ import annotations

import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np

import gradloom
from gradloom.core.tensor import wrap

from . import value_checks
from .agreement import Agreement
from .boundaries import boundary_cases
from .case import Case, is_float, tensors
from .definitions import check_definition, has_definition
from .diagnosis import explained
from .findings import BACKWARD, ENTRY, FORWARD, KERNEL, MISSING, WRONG, Fault, OperatorResult, said
from .first_order import FirstOrder
from .jacobians import Detail
from .operators import Operator
from .report import Report
from .sampling import NoSamples, cases
from .second_order import SecondOrder
from .sources import Source
from .variations import Plan, is_storage, plan

VALUE_CHECKS: tuple[tuple[str, Callable[[Case], Any]], ...] = (
    ("scalar", check_definition),
    ("variants", value_checks.check_variants),
    ("broadcast", value_checks.check_broadcast),
    ("layout", value_checks.check_layout),
    ("layout", value_checks.check_bits),
    ("dtypes", value_checks.check_single),
    ("dtypes", value_checks.check_integers),
)
THOROUGH_CHECKS = (("dtypes", value_checks.check_half),)
MODES = ("fast", "default", "thorough")
# For first and second derivatives.
DETAIL = {
    "fast": (Detail(0, 1), Detail(0, 1)),
    "default": (Detail(48), Detail(16)),
    "thorough": (Detail(128, 6), Detail(64, 4)),
}
# For samples after the first and what is derived from samples, and for variations; closer only in thorough mode.
FEW, BRIEF = Detail(0, 3), Detail(0, 1)
SEEDS = {"fast": 1, "default": 1, "thorough": 3}
# Number of boundary points of a sample, and of the samples that are moved there.
BOUNDARIES = {"fast": (0, 0), "default": (6, 1), "thorough": (100, 3)}


def run(
    operators: Iterable[Operator], mode: str = "default", progress: Callable[[int, int, Operator], None] | None = None
) -> Report:
    """Verify operators one after another.

    Args:
        mode: 'fast' (each sample once, Jacobians times random vectors), 'default', or 'thorough' (several draws of
            each sample, larger Jacobians entry by entry).
        progress: called before each operator with the number done, the total number, and the operator.
    """
    if mode not in MODES:
        raise ValueError(f"mode is {mode!r}; it is one of {', '.join(MODES)}")
    operators = list(operators)
    start = time.perf_counter()
    results = []
    for done, operator in enumerate(operators):
        if progress is not None:
            progress(done, len(operators), operator)
        results.append(verify_operator(operator, mode, tuple(operators)))
    return Report(results, mode, time.perf_counter() - start)


def verify_operator(operator: Operator, mode: str = "default", others: tuple[Operator, ...] = ()) -> OperatorResult:
    """Check one operator. Any exception that it raises is a finding.

    Args:
        others: operators that its formulas may use, besides gradloom's.
    """
    result = OperatorResult(operator.name, operator.family, operator.joined.strategy)
    start = time.perf_counter()
    state = gradloom.get_rng_state()
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            result.findings = explained(operator, list(_guarded(operator, mode, result)), others)
    finally:
        gradloom.set_rng_state(state)
    result.seconds = time.perf_counter() - start
    return result


def _guarded(operator: Operator, mode: str, result: OperatorResult) -> Iterator[Fault]:
    """Yield the faults of an operator; an exception of a sampler or a check is one, too, and the last."""
    try:
        yield from _faults(operator, mode, result)
    except Exception as error:
        message = f"the samples or a check raise {said(error)} ({raised_at(error)}), so that the rest was not checked"
        yield Fault(Case(operator, (), {}), "call", message, ENTRY)


def raised_at(error: Exception) -> str:
    """Return "file:line" of the statement that raised."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{frame.filename}:{frame.lineno}"


def _faults(operator: Operator, mode: str, result: OperatorResult, made: Plan | None = None) -> Iterator[Fault]:
    """Yield the faults of an operator, one check after another.

    Args:
        made: the calls to check, if they are known: `variations.plan`, which does not depend on the derivative.
    """
    nothing = Case(operator, (), {})
    try:
        made = plan(operator, mode) if made is None else made
    except NoSamples as error:
        message = f"there are no samples ({error}): give the entry a `domain:`, or samples"
        yield Fault(nothing, "call", message, ENTRY)
        return
    source = Source(operator)
    stored = {a.python_name for a in operator.schema.inputs if is_storage(a) and a.type.base.name != "ScalarType"}
    result.unvaried, result.ignored = list(made.unvaried), tuple(n for n in source.ignored if n not in stored)
    if source.is_readable:
        _count(result, "static")
    yield from _static(nothing, made)
    is_right = True
    for fault in _of_cases(operator, mode, result, made):
        is_right = is_right and fault.severity != WRONG
        yield fault
    if is_right and mode != "fast":  # the modes of a wrong derivative tell nothing new
        yield from _at_boundaries(made.base, mode, result, limits=mode == "thorough")
    if not result.counts.keys() & {"reverse", "forward"}:
        yield from _without_derivative(nothing, made, result)


def _of_cases(operator: Operator, mode: str, result: OperatorResult, made: Plan) -> Iterator[Fault]:
    """Check the samples, and the derivatives of their variations."""
    repeated = range(1, SEEDS[mode]) if operator.samples is None else ()
    for number, case in enumerate((*made.base, *(c for seed in repeated for c in cases(operator, seed)))):
        is_close = number == 0 and not operator.by_composition  # a composite has no formula of its own
        yield from _of_case(case, mode, result, is_close or mode == "thorough")
    yield from made.faults
    for case in made.varied:
        yield from _of_case(case, mode, result)


def _at_boundaries(base: list[Case], mode: str, result: OperatorResult, limits: bool) -> Iterator[Fault]:
    """Compare the modes of an operator's derivatives at boundary points of its first samples.

    Args:
        limits: whether to compare them with difference quotients, too.
    """
    most, samples = BOUNDARIES[mode]
    usable = (c for c in base if c.places and all(c.read(p)._array.size for p in c.places))
    for case in islice(usable, samples):
        operator = case.operator
        if operator.differentiable and operator.schema.kind == "functional" and not operator.is_random:
            for one in islice(boundary_cases(case), most):
                _count(result, "boundary")
                yield from Agreement(one, limits).faults()


def _without_derivative(nothing: Case, made: Plan, result: OperatorResult) -> Iterator[Fault]:
    """Note why no derivative was checked; yield a fault if the operator has none and takes what could have one."""
    strategy = nothing.operator.joined.strategy
    if strategy == "not_implemented" and any(case.floats for case in (*made.base, *made.varied)):
        message = "no derivative: derivatives.yaml has no entry for it"
        yield Fault(nothing, "reverse", message, ENTRY, severity=MISSING)
    elif strategy == "not_differentiable":
        result.underived = "its entry says that it is not differentiable"
    else:
        result.underived = "no call has a floating-point tensor with a derivative"


def _static(nothing: Case, made: Plan) -> Iterator[Fault]:
    """Yield what the source of an operator shows."""
    operator = nothing.operator
    source = Source(operator)
    for problem in source.unknown_keywords():
        yield Fault(nothing, "static", problem, KERNEL)
    for argument in operator.schema.inputs:
        name = argument.python_name
        if argument.type.is_tensor and argument.type.is_optional and not made.faults and name not in made.none:
            if source.is_computed_with(name) and not source.is_tested(name):
                yield Fault(nothing, "static", f"`{name}`, which may be None, is used without a test for None", KERNEL)
        if operator.joined.strategy == "formula" and name in made.once and source.unused(name):
            message = f"`{name}` occurs in the kernel and in no formula, and no other value of it could be tried"
            yield Fault(nothing, "static", message, BACKWARD)


def _of_case(case: Case, mode: str, result: OperatorResult, is_close: bool = False) -> Iterator[Fault]:
    """Check a sample, or of a variation of one only the derivatives.

    Args:
        is_close: whether Jacobians are compared entry by entry, and not along a few random directions.
    """
    _count(result, "call")
    try:
        yield from value_checks.check_call(case)
    except Exception as error:
        yield Fault(case, "call", f"raises {said(error)}", KERNEL)
        return
    if case.operator.schema.kind != "functional":
        if case.operator.joined.strategy == "formula":
            yield from _derivatives(_on_a_copy(case), mode, result, is_close)
        return
    wanted = {"fast": VALUE_CHECKS[:2], "default": VALUE_CHECKS, "thorough": VALUE_CHECKS + THOROUGH_CHECKS}
    for name, check in wanted[mode] if not case.is_varied else ():
        if name == "scalar" and not has_definition(case):
            continue
        try:
            if (yield from check(case)) is not value_checks.SKIPPED:
                _count(result, name)
        except Exception as error:
            yield Fault(case, name, f"raises {said(error)}", ENTRY)
    if not case.operator.differentiable:
        return
    yield from _derivatives(case, mode, result, is_close)
    for one in _derived(case) if mode != "fast" and not case.is_varied else ():
        yield from _derivatives(one, mode, result, mode == "thorough")


def _on_a_copy(case: Case) -> Case:
    """Return the call of an operator that writes to arguments on copies of them, as a functional call."""
    write = case.operator.call
    written = {a.python_name for a in case.operator.schema.inputs if a.is_write}

    def call(*args: Any, **kwargs: Any) -> Any:
        copies = [a.clone() if n in written else a for n, a in zip(case.names, args, strict=False)]
        return write(*copies, **{n: a.clone() if n in written else a for n, a in kwargs.items()})

    copy = Case(replace(case.operator, call=call), case.args, case.kwargs, case.label)
    copy.is_varied = case.is_varied
    return copy


def _derivatives(case: Case, mode: str, result: OperatorResult, is_close: bool) -> Iterator[Fault]:
    first, second = DETAIL[mode]
    if case.is_varied:
        first = second = BRIEF
    elif mode == "default" and not is_close:
        first = FEW
    try:
        if not case.places:
            return
        one = FirstOrder(case, first)
        wrong = False
        for fault in one.faults():
            wrong = wrong or not (fault.blame == FORWARD or fault.check == "forward")
            yield fault
        for name in one.counts:
            _count(result, name)
        if wrong or not one.function.kept:
            return  # the derivative of a wrong derivative tells nothing new
        two = SecondOrder(case, one.function, second, quick=mode != "thorough")
        yield from two.faults()
        for name in two.counts:
            _count(result, name)
    except Exception as error:
        yield Fault(case, "reverse", f"raises {said(error)}", ENTRY)


def _derived(case: Case) -> Iterator[Case]:
    """Yield the call with complex numbers, if it takes them, and with 0-dim and zero-size tensors."""
    if case.floats and all(case.read(p).dtype is gradloom.float64 for p in case.floats):
        other = case.changed(_complex, "complex")
        if all(case.read(p)._array.size for p in case.floats) and _runs(other):
            yield other
    if case.operator.is_pointwise and not case.operator.is_random and case.floats:
        try:
            shape = np.broadcast_shapes(*(case.read(p)._array.shape for p in case.floats))
        except ValueError:
            return
        if not shape or 0 in shape:
            return
        for label, index in (("0-dim", (0,) * len(shape)), ("zero-size", (slice(0, 0),))):
            inputs = tuple(wrap(np.array(np.broadcast_to(case.read(p)._array, shape)[index])) for p in case.floats)
            args, kwargs = case.with_inputs(inputs, case.floats)
            other = Case(case.operator, tuple(args), kwargs, label)
            if _runs(other):
                yield other

    elif not case.operator.is_random and case.floats:
        yield from _emptied(case)


def _emptied(case: Case) -> Iterator[Case]:
    """Yield the call with size 0 in the first dimension of all its tensors, if they share that and it is accepted; and
    with a 0-dim tensor in place of its only tensor."""
    found = [t for _, value in case.arguments() for t in tensors(value)]
    sizes = {t.shape[0] for t in found if t.ndim}
    says_sizes = any(a.python_name.endswith("sizes") for a in case.operator.schema.inputs)
    if len(sizes) == 1 and sizes != {0} and all(t.ndim for t in found) and not says_sizes:
        other = case.changed(lambda t: wrap(t._array[:0].copy()), "zero-size")
        if _runs(other):
            yield other
    if len(found) == 1 and found[0].ndim and 0 not in found[0].shape:
        other = case.changed(lambda t: wrap(np.array(t._array.reshape(-1)[0])), "0-dim")
        if _runs(other) and all(np.isfinite(t._array).all() for t in tensors(other.plain()) if is_float(t)):
            yield other


def _complex(tensor: Any) -> Any:
    if not is_float(tensor):
        return tensor
    array = tensor._array
    random = np.random.default_rng((11, array.size))
    return wrap(np.asarray(array + 1j * random.uniform(0.2, 0.8, array.shape)))


def _runs(case: Case) -> bool:
    try:
        case.plain()
    except Exception:
        return False
    return True


def _count(result: OperatorResult, check: str) -> None:
    result.counts[check] = result.counts.get(check, 0) + 1
