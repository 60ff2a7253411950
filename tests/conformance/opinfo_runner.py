"""Run one operator of PyTorch's database (an OpInfo) on the reference and on a candidate, stage by stage.

A stage is one kind of check: forward, backward, double_backward, forward_mode, inplace, out, errors,
variants. Each check of a stage is one sample at one dtype; a check that the reference itself refuses is not
counted.
"""

from __future__ import annotations

import contextlib
import itertools
import sys
import time
import warnings
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from . import autograd_checks, variant_checks
from .case import Case, Check, Reject, describe, seed_all
from .library import Absent, Library
from .pool import Progress
from .proxy import callable_for
from .records import Recorder, TensorRecord, Unconvertible, dtype_name, leaves
from .results import ABSENT, STAGES, OpResult

#: How many samples of an operator each stage sees, by dtype. The first dtypes carry the derivative checks.
SAMPLES = {
    "float64": dict(forward=40, backward=16, double_backward=6, forward_mode=12, inplace=8, out=5, variants=2),
    "float32": dict(forward=16, backward=6, double_backward=2, forward_mode=3, inplace=2, out=2),
    "complex128": dict(forward=16, backward=8, double_backward=3, forward_mode=5, inplace=2, out=2),
    "int64": dict(forward=16, inplace=4, out=2, variants=1),
    "bool": dict(forward=8, inplace=2, out=1),
    "bfloat16": dict(forward=8, backward=3, inplace=1, out=1),
}
#: The dtypes of a whole run, which sees all samples in all stages.
WHOLE = (*SAMPLES, "complex64", "float16", "int32", "int16", "int8", "uint8")
#: Samples of one operator and dtype that are drawn from the database, of which those above are picked evenly.
DRAWN = 120
ERROR_SAMPLES = 30
DERIVATIVES = ("backward", "double_backward", "forward_mode")
#: Samples with more elements than this are left out: a pure Python library is here to be right, not to be
#: fast.
LARGEST = 100_000


@dataclass(frozen=True)
class Plan:
    """What to run: the stages, and at most `samples` samples for each stage and dtype.

    A `whole` run takes all samples, each also non-contiguous, in all dtypes, whatever their size.
    """

    stages: tuple[str, ...] = STAGES
    samples: int | None = None
    whole: bool = False

    @property
    def dtypes(self) -> tuple[str, ...]:
        return WHOLE if self.whole else tuple(SAMPLES)

    def budget(self, dtype: str, stage: str) -> int:
        count = sys.maxsize if self.whole else SAMPLES[dtype].get(stage, 0)
        if stage not in self.stages:
            return 0
        return count if self.samples is None else min(count, self.samples)


def run_op(
    op: Any, candidate: Library, family: str = "", plan: Plan = Plan(), progress: Progress = lambda stage, where: None
) -> OpResult:
    """Every planned check of one OpInfo. What the candidate does never raises here: it is a miss."""
    started = time.perf_counter()
    result = OpResult(op.full_name, family)
    try:
        function = callable_for(op.op, candidate, op.name)
        with quiet():
            for dtype in plan.dtypes:
                _run_dtype(op, function, candidate, dtype, plan, result, progress)
            if "errors" in plan.stages:
                _run_errors(op, function, candidate, plan, result, progress)
    except Absent as absent:
        result.status, result.absent = ABSENT, str(absent)
    result.settle_absence()
    result.seconds = time.perf_counter() - started
    return result


def _run_dtype(
    op: Any, function: Callable, candidate: Library, dtype: str, plan: Plan, result: OpResult, progress: Progress
) -> None:
    """All stages that look at samples, for one dtype."""
    kind = getattr(torch, dtype)
    if kind not in op.supported_dtypes("cpu"):
        return
    differentiable = op.supports_autograd and kind in op.supported_backward_dtypes("cpu")
    samples = draw_samples(op, kind, differentiable, result, plan.whole)
    stages = [stage for stage in CHECKS if plan.budget(dtype, stage) and samples]
    if not differentiable:
        stages = [stage for stage in stages if stage not in DERIVATIVES]
    for stage in stages:
        for index in spread(len(samples), plan.budget(dtype, stage)):
            name, sample = samples[index]
            try:
                case = make_case(op, function, candidate, dtype, f"{dtype} sample {name}", sample, plan.whole)
            except Unconvertible as reason:
                result.skip(stage, f"{dtype} sample {name}", str(reason))
                continue
            progress(stage, case.where)
            run_check(CHECKS[stage], case, stage, result)


def make_case(
    op: Any, function: Callable, candidate: Library, dtype: str, where: str, sample: Any, whole: bool = False
) -> Case:
    """A sample of the database as a Case; Unconvertible for what NumPy cannot hold, or only at length."""
    records = Recorder().record((sample.input, sample.args, dict(sample.kwargs)))
    size = sum(int(np.prod(leaf.shape)) for leaf in leaves(records) if isinstance(leaf, TensorRecord))
    if size > LARGEST and not whole:
        raise Unconvertible(f"{size} elements")
    return Case(op, function, candidate, dtype, where, *records, sample=sample)


def run_check(check: Check, case: Case, stage: str, result: OpResult) -> None:
    """One check of one case, with everything that can happen to it put down in the result."""
    try:
        reason = check(case, result)
    except Reject as refusal:
        raised = refusal.__cause__
        result.skip(stage, case.where, f"PyTorch {describe(raised)}" if raised else str(refusal), bool(raised))
        return
    except Absent as absent:
        result.count(stage, case.where, f"needs {absent}, which is absent", absent=str(absent))
        return
    except Unconvertible as problem:
        result.skip(stage, case.where, str(problem))
        return
    except Exception as error:  # reading a result failed: one of the candidate's tensors is not what it says
        reason = f"cannot be compared: {describe(error)}"
    result.count(stage, case.where, reason)


def draw_samples(
    op: Any, kind: torch.dtype, requires_grad: bool, result: OpResult, whole: bool = False
) -> list[tuple[str, Any]]:
    """Named samples of one dtype, always the same ones, with a non-contiguous copy of the first, or of each."""
    drawn = []
    count = sys.maxsize if whole else DRAWN
    try:
        for index, sample in enumerate(draw(op, count, op.sample_inputs_func, op, "cpu", kind, requires_grad)):
            drawn.append((str(index), sample))
            if whole or index == 0:
                drawn.append((f"{index} non-contiguous", sample.noncontiguous()))
    except Exception as error:  # a sampler that needs hardware or a package that is not here
        result.note(f"{dtype_name(kind)} samples: {type(error).__name__}: {error}")
    return drawn


def draw(op: Any, count: int, generate: Callable, *arguments: Any) -> Iterator[Any]:
    """At most `count` items that a generator function of the database gives, each from the same seed.

    The database's own iterator does this too, but looks through the source of every calling frame to name the
    test.
    """
    seed = zlib.crc32(op.full_name.encode())
    seed_all(seed)
    source = iter(generate(*arguments))
    try:
        for item in itertools.islice(source, count):
            yield item
            seed_all(seed)
    finally:
        # A generator that is left alone would be closed while something else runs, and restores grad mode
        # then.
        getattr(source, "close", lambda: None)()


def spread(length: int, count: int) -> list[int]:
    """`count` indices out of `length`, evenly, the first and the last among them."""
    if length <= count:
        return list(range(length))
    return sorted({round(i * (length - 1) / max(count - 1, 1)) for i in range(count)})


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


def forward(case: Case, result: OpResult) -> str | None:
    """The value of the operator, its structure, shapes and dtypes; strides are only noted."""
    expected = case.reference_call()
    actual, raised = case.attempt(case.candidate_call)
    if raised:
        return raised
    reason = case.difference(expected, actual)
    if reason is None:
        result.compare_strides(case, expected, actual)
    return reason


def _run_errors(
    op: Any, function: Callable, candidate: Library, plan: Plan, result: OpResult, progress: Progress
) -> None:
    """Inputs that PyTorch refuses must be refused with the same class of exception."""
    if op.error_inputs_func is None:
        return
    try:
        drawn = list(draw(op, sys.maxsize if plan.whole else ERROR_SAMPLES, op.error_inputs_func, op, "cpu"))
    except Exception as error:
        result.note(f"error inputs: {type(error).__name__}: {error}")
        return
    for index, item in enumerate(drawn):
        sample = item.sample_input
        try:
            case = make_case(op, function, candidate, "", f"error input {index}", sample, plan.whole)
        except Unconvertible as reason:
            result.skip("errors", f"error input {index}", str(reason))
            continue
        progress("errors", case.where)
        run_check(variant_checks.errors, case, "errors", result)


CHECKS: dict[str, Check] = {
    "forward": forward,
    "backward": autograd_checks.backward,
    "double_backward": autograd_checks.double_backward,
    "forward_mode": autograd_checks.forward_mode,
    "inplace": variant_checks.inplace,
    "out": variant_checks.out,
    "variants": variant_checks.variants,
}
