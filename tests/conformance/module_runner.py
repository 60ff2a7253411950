"""Run one module of PyTorch's database (a ModuleInfo) on the reference and on a candidate.

Both sides build the module from the same seed; its initial parameters are compared first, then outputs,
gradients of inputs and parameters, double backward, and the state afterwards (running statistics,
state_dict).
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import torch

from . import autograd_checks
from .case import Case, Reject, describe, same_error_class, seed_all
from .compare import difference
from .library import Absent, Library
from .names import NAMES
from .opinfo_runner import quiet, run_check, spread
from .pool import Progress
from .proxy import find_first
from .records import Recorder, Unconvertible, record_tensor
from .results import ABSENT, MODULE_STAGES, OpResult

_DTYPES = ("float64", "float32")
_WHOLE = (*_DTYPES, "complex128", "complex64", "bfloat16", "float16")
_SAMPLES = 6
KIND = "modules"


def run_module(
    info: Any,
    candidate: Library,
    stages: tuple[str, ...] = MODULE_STAGES,
    progress: Progress = lambda stage, where: None,
    whole: bool = False,
) -> OpResult:
    """Every check of one ModuleInfo; `whole` takes all samples and dtypes. What the candidate does is never raised: it
    is a miss."""
    started = time.perf_counter()
    result = OpResult(info.name, KIND, KIND)
    try:
        mine = find_first(candidate, [info.name, *NAMES.of(info.module_cls)])
        with quiet():
            for dtype in _WHOLE if whole else _DTYPES:
                if getattr(torch, dtype) in info.dtypes:
                    for training in (True, False) if info.train_and_eval_differ else (True,):
                        _run_dtype(info, mine, candidate, dtype, training, stages, result, progress, whole)
            if "errors" in stages:
                _run_errors(info, mine, candidate, result)
    except Absent as absent:
        result.status, result.absent = ABSENT, str(absent)
    result.settle_absence()
    result.seconds = time.perf_counter() - started
    return result


def _run_dtype(
    info: Any,
    mine: type,
    candidate: Library,
    dtype: str,
    training: bool,
    stages: tuple[str, ...],
    result: OpResult,
    progress: Progress,
    whole: bool,
) -> None:
    seed_all(zlib.crc32(info.name.encode()))
    kind = getattr(torch, dtype)
    inputs = list(info.module_inputs_func(info, device="cpu", dtype=kind, requires_grad=True, training=training))
    for index in spread(len(inputs), len(inputs) if whole else _SAMPLES):
        where = f"{dtype} {'train' if training else 'eval'} sample {index}"
        for stage in (stage for stage in MODULE_STAGES if stage in stages and stage in CHECKS):
            progress(stage, where)
            try:
                case = ModuleCase.of(info, mine, candidate, dtype, training, where, inputs[index])
            except Unconvertible as reason:
                result.skip(stage, where, str(reason))
                break
            run_check(CHECKS[stage], case, stage, result)


@dataclass
class ModuleCase(Case):
    """A module with constructor arguments and one input. Calling it builds the module from one seed."""

    constructor: tuple[tuple, dict] = ((), {})
    training: bool = True
    has_input: bool = True
    built: dict[Library, Any] = field(init=False, default_factory=dict)  # by the last call

    @classmethod
    def of(
        cls, info: Any, mine: type, candidate: Library, dtype: str, training: bool, where: str, sample: Any
    ) -> ModuleCase:
        recorder = Recorder()
        given = sample.forward_input
        args, kwargs = (given.args, given.kwargs) if given is not None else ((), {})
        op = SimpleNamespace(
            name=info.name, full_name=info.name, op=info.module_cls, supports_gradgrad=info.supports_gradgrad
        )
        case = cls(op, mine, candidate, dtype, where, None, recorder.record(tuple(args)), recorder.record(kwargs))
        build = sample.constructor_input
        case.constructor = recorder.record((tuple(build.args), dict(build.kwargs)))
        case.training, case.has_input = training, given is not None
        return case

    @property
    def lazy(self) -> bool:
        return self.op.name.startswith("nn.Lazy")

    def module(self, library: Library) -> Any:
        """A new module of this library, seeded, in the case's dtype and mode."""
        self.reseed()
        kind = self.op.op if library is self.reference else self.function
        args, kwargs = library.build(self.constructor)
        module = kind(*args, **kwargs)
        module = module.to(library.find(self.dtype))
        module.train(self.training)
        return module

    def call(self, library: Library, values: tuple[Any, ...], function: Callable | None = None, **extra: Any) -> Any:
        if not self.has_input:
            raise Reject("no forward input")
        _, args, kwargs = values
        module = self.built[library] = self.module(library)
        if library is self.candidate and not self.lazy:
            self.same_parameters(module)
        self.reseed()
        return module(*args, **kwargs)

    def same_parameters(self, module: Any) -> None:
        """Give the candidate's module the reference's parameters: `init` looks at the initial values."""
        state = {
            name: self.candidate.build(record_tensor(value.detach()))
            for name, value in self.module(self.reference).state_dict().items()
            if isinstance(value, torch.Tensor)
        }
        if state:
            module.load_state_dict(state)

    def further_inputs(self, library: Library) -> list[Any]:
        return [parameter for _, parameter in sorted(self.built[library].named_parameters())]


def init(case: ModuleCase, result: OpResult) -> str | None:
    """Names, shapes, dtypes and initial values of the state, and repr (noted only)."""
    module = case.sure(lambda: case.module(case.reference))
    mine, raised = case.attempt(lambda: case.module(case.candidate))
    if raised:
        return raised
    if repr(module) != repr(mine):
        result.note(f"{case.where}: repr {repr(module)!r} expected, got {repr(mine)!r}")
    if case.lazy:  # nothing to compare before the first input
        return None
    return difference(dict(module.state_dict()), dict(mine.state_dict()), case.reference, case.candidate)


def forward(case: ModuleCase, result: OpResult) -> str | None:
    expected = case.reference_call()
    actual, raised = case.attempt(case.candidate_call)
    return raised or case.difference(expected, actual)


def state(case: ModuleCase, result: OpResult) -> str | None:
    """The state after one pass (running statistics, counters), and that it loads into a fresh module."""
    case.reference_call()
    _, raised = case.attempt(case.candidate_call)
    if raised:
        return raised
    expected = dict(case.built[case.reference].state_dict())
    found = case.built[case.candidate].state_dict()
    reason = difference(expected, dict(found), case.reference, case.candidate)
    if reason:
        return reason
    fresh, raised = case.attempt(lambda: _reloaded(case, found))
    return raised or difference(expected, fresh, case.reference, case.candidate)


def _reloaded(case: ModuleCase, found: Any) -> dict[str, Any]:
    module = case.module(case.candidate)
    module.load_state_dict(found)
    return dict(module.state_dict())


def _run_errors(info: Any, mine: type, candidate: Library, result: OpResult) -> None:
    """Constructions and inputs that PyTorch refuses must be refused with the same class of exception."""
    if info.module_error_inputs_func is None:
        return
    seed_all(zlib.crc32(info.name.encode()))
    inputs = list(
        info.module_error_inputs_func(info, device="cpu", dtype=torch.float32, requires_grad=False, training=True)
    )
    for index, item in enumerate(inputs):
        where = f"error input {index}"
        try:
            case = ModuleCase.of(info, mine, candidate, "float32", True, where, item.module_error_input)
        except Unconvertible as reason:
            result.note(f"{where} left out: {reason}")
            continue
        run_check(refusal, case, "errors", result)


def refusal(case: ModuleCase, result: OpResult) -> str | None:
    expected, actual = _raised(case, case.reference), _raised(case, case.candidate)
    if expected is None:
        raise Reject("PyTorch accepts it")
    if actual is None:
        return f"{type(expected).__name__} expected, nothing raised"
    return None if same_error_class(expected, actual) else f"{type(expected).__name__} expected, {describe(actual)}"


def _raised(case: ModuleCase, library: Library) -> Exception | None:
    def use() -> None:
        module = case.module(library)
        if case.has_input:
            _, args, kwargs = case.values(library)
            module(*args, **kwargs)

    return case.raised(library, use)


CHECKS: dict[str, Callable] = {
    "init": init,
    "forward": forward,
    "backward": autograd_checks.backward,
    "double_backward": autograd_checks.double_backward,
    "state": state,
}
