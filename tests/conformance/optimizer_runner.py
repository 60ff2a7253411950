"""Run one optimizer of PyTorch's database (an OptimizerInfo) on the reference and on a candidate.

Both sides start from the same parameters and are handed gradients that NumPy computes from their own
parameters, so the trajectories are compared without any other operator of the library taking part.
"""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from .case import Case, Reject, describe, same_error_class
from .compare import difference, loosened
from .library import Absent, Library
from .opinfo_runner import quiet, run_check
from .pool import Progress
from .records import Recorder, TensorRecord, Unconvertible
from .results import ABSENT, OPTIMIZER_STAGES, OpResult

KIND = "optimizers"
_STEPS, _WHOLE_STEPS = 6, 20
_SHAPES = ((4, 3), (5,))
_DTYPES = ("float64", "float32")
#: Settings that choose an implementation of PyTorch, not a different result.
_IMPLEMENTATION = ("foreach", "fused", "capturable", "differentiable")
_TOLERANCES = loosened(10.0)


def run_optimizer(
    info: Any,
    candidate: Library,
    stages: tuple[str, ...] = OPTIMIZER_STAGES,
    progress: Progress = lambda stage, where: None,
    whole: bool = False,
) -> OpResult:
    """Every check of one OptimizerInfo. What the candidate does never raises here: it is a miss."""
    started = time.perf_counter()
    result = OpResult(f"optim.{info.name}", KIND, KIND)
    try:
        mine = candidate.find(f"optim.{info.name}")
        with quiet():
            if not info.only_supports_sparse_grads:
                _run_settings(info, mine, candidate, stages, result, progress, whole)
            if info.only_supports_sparse_grads or info.supports_sparse:
                _run_settings(info, mine, candidate, stages, result, progress, whole, sparse=True)
            if "errors" in stages and info.optim_error_inputs_func is not None:
                _run_errors(info, mine, candidate, result)
    except Absent as absent:
        result.status, result.absent = ABSENT, str(absent)
    result.settle_absence()
    result.seconds = time.perf_counter() - started
    return result


def _run_settings(
    info: Any,
    mine: type,
    candidate: Library,
    stages: tuple[str, ...],
    result: OpResult,
    progress: Progress,
    whole: bool,
    sparse: bool = False,
) -> None:
    for index, given in enumerate(info.optim_inputs_func(device="cpu")):
        if sparse and given.kwargs.get("weight_decay"):  # a penalty is dense
            continue
        for dtype in _DTYPES:
            where = f"{dtype} {given.desc or 'default'} ({index}){', sparse gradients' if sparse else ''}"
            for stage, check in (("step", steps), ("state", state)):
                if stage not in stages:
                    continue
                progress(stage, where)
                op = SimpleNamespace(
                    name=info.name,
                    full_name=result.name,
                    op=info.optim_cls,
                    closure=info.step_requires_closure,
                    sparse=sparse,
                    steps=_WHOLE_STEPS if whole else _STEPS,
                )
                try:
                    settings = Recorder().record(dict(given.kwargs))
                except Unconvertible as reason:
                    result.skip(stage, where, str(reason))
                    continue
                run_check(check, Case(op, mine, candidate, dtype, where, None, (), settings), stage, result)


class Trajectory:
    """An optimizer of one library on two parameters, and its steps."""

    def __init__(self, case: Case, library: Library) -> None:
        self.case, self.library = case, library
        parameter = library.find("nn.Parameter")
        kind = case.op.op if library is case.reference else case.function
        shapes = [shape for shape in _SHAPES if len(shape) == 2 or case.op.name != "Muon"]  # which takes matrices only
        self.parameters = [
            parameter(library.build(case.random(shape, case.dtype, f"parameter {i}"))) for i, shape in enumerate(shapes)
        ]
        self.make = lambda parameters: kind(parameters, **library.build(case.kwargs))
        self.optimizer = self.make(self.parameters)

    def step(self) -> None:
        if self.case.op.closure:
            self.optimizer.step(self.loss)
        else:
            self.loss()
            self.optimizer.step()

    def loss(self) -> Any:
        """Sets the gradients of sum(cosh(p) + (p - 1)^2 / 2) and returns that loss. Sparse ones lack the first row."""
        total = 0.0
        for parameter in self.parameters:
            value = self.library.array(parameter).astype(np.float64)
            total += float((np.cosh(value) + (value - 1) ** 2 / 2).sum())
            gradient = (np.sinh(value) + value - 1).astype(self.case.dtype)
            if self.case.op.sparse:
                gradient[0] = 0
            parameter.grad = self.library.build(TensorRecord.of_array(gradient, self.case.dtype))
            if self.case.op.sparse:
                parameter.grad = parameter.grad.to_sparse(1)
        return self.library.build(TensorRecord.of_array(np.asarray(total, self.case.dtype), self.case.dtype))


def steps(case: Case, result: OpResult) -> str | None:
    """The parameters after each step."""
    reference = case.sure(lambda: Trajectory(case, case.reference))
    candidate, raised = case.attempt(lambda: Trajectory(case, case.candidate))
    for number in range(case.op.steps):
        case.sure(reference.step)
        raised = raised or case.attempt(candidate.step)[1]
        if raised:
            return raised
        reason = difference(
            [p.detach() for p in reference.parameters],
            [p.detach() for p in candidate.parameters],
            case.reference,
            case.candidate,
            _TOLERANCES,
        )
        if reason:
            return f"after step {number + 1}: {reason}"
    return None


def state(case: Case, result: OpResult) -> str | None:
    """state_dict() after two steps, and one more step of a fresh optimizer that loaded it."""
    sides = [case.sure(lambda: _two_steps(case, case.reference))]
    candidate, raised = case.attempt(lambda: _two_steps(case, case.candidate))
    if raised:
        return raised
    sides.append(candidate)
    expected, actual = (_comparable(side.optimizer.state_dict()) for side in sides)
    reason = difference(expected, actual, case.reference, case.candidate, _TOLERANCES)
    if reason:
        return f"state_dict: {reason}"
    case.sure(lambda: _resume(sides[0]))
    _, raised = case.attempt(lambda: _resume(sides[1]))
    reason = raised or difference(
        [p.detach() for p in sides[0].parameters],
        [p.detach() for p in sides[1].parameters],
        case.reference,
        case.candidate,
        _TOLERANCES,
    )
    return f"after load_state_dict: {reason}" if reason else None


def _two_steps(case: Case, library: Library) -> Trajectory:
    side = Trajectory(case, library)
    side.step()
    side.step()
    return side


def _resume(side: Trajectory) -> None:
    saved = side.optimizer.state_dict()
    side.optimizer = side.make(side.parameters)
    side.optimizer.load_state_dict(saved)
    side.step()


def _comparable(state_dict: dict) -> dict:
    """A state_dict in one order of keys, without the settings that only choose an implementation."""
    groups = [
        {key: group[key] for key in sorted(group) if key not in _IMPLEMENTATION} for group in state_dict["param_groups"]
    ]
    states = {
        key: dict(sorted(value.items())) if isinstance(value, dict) else value
        for key, value in sorted(state_dict["state"].items())
    }
    return {"state": states, "param_groups": groups}


def _run_errors(info: Any, mine: type, candidate: Library, result: OpResult) -> None:
    """Settings that PyTorch refuses must be refused with the same class of exception."""
    for index, item in enumerate(info.optim_error_inputs_func("cpu", torch.float32)):
        given = item.optimizer_error_input
        try:
            records = Recorder().record((given.params, dict(given.kwargs)))
        except Unconvertible as reason:
            result.note(f"error input {index} left out: {reason}")
            continue
        op = SimpleNamespace(name=info.name, full_name=result.name, op=info.optim_cls)
        case = Case(op, mine, candidate, "", f"error input {index} {given.desc}".rstrip(), *records[:1], (), records[1])
        run_check(refusal, case, "errors", result)


def refusal(case: Case, result: OpResult) -> str | None:
    expected, actual = _raised(case, case.reference), _raised(case, case.candidate)
    if expected is None:
        raise Reject("PyTorch accepts it")
    if actual is None:
        return f"{type(expected).__name__} expected, nothing raised"
    return None if same_error_class(expected, actual) else f"{type(expected).__name__} expected, {describe(actual)}"


def _raised(case: Case, library: Library) -> Exception | None:
    def construct() -> None:
        parameters, _, settings = case.values(library)
        (case.op.op if library is case.reference else case.function)(parameters, **settings)

    return case.raised(library, construct)
