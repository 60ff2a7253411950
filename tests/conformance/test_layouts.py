"""Where results lie in memory: strides, contiguity, offset, and what they share with inputs, as in PyTorch.

Over the samples of PyTorch's database, with inputs that are contiguous, transposed, channels-last, sliced, expanded and
mixed; and the same of gradients. What differs is in known_layouts.yaml, with its reason; what does so no longer has to
leave it.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="PyTorch, the reference, is not installed: make conformance installs it")

import torch
import yaml
from torch.testing._internal.common_methods_invocations import op_db

import gradloom
from tests.releases import pytorch_before

from .case import Case, Reject, describe
from .families import family_of, in_database
from .layouts import observed, variants
from .library import PYTORCH, Absent
from .opinfo_runner import draw_samples, make_case, quiet, spread
from .proxy import callable_for, candidate_library
from .records import Unconvertible
from .results import OpResult

SAMPLES = 3

KNOWN = yaml.safe_load(Path(__file__).with_name("known_layouts.yaml").read_text(encoding="utf-8"))


def differences(case: Case, backward: bool) -> Iterator[str]:
    """What is seen with gradloom and not with PyTorch, as lines."""
    expected = case.sure(lambda: observed(case, PYTORCH, backward))
    try:
        actual = observed(case, case.candidate, backward)
    except Absent:
        raise
    except Exception as error:
        case.candidate.check_absence(error)
        yield describe(error)
        return
    for i, (wanted, found) in enumerate(zip(expected, actual, strict=True)):
        for key, value in wanted.items():
            if found.get(key) != value:
                yield f"{'gradient' if backward else 'result'} {i}: {key} {value} expected, got {found.get(key)}"


def misses(op, candidate) -> list[str]:
    """What differs for one operator, as lines."""
    kind = next((k for k in (torch.float64, torch.int64, torch.bool) if k in op.supported_dtypes("cpu")), None)
    if kind is None:
        return []
    differentiable = op.supports_autograd and kind in op.supported_backward_dtypes("cpu")
    function = callable_for(op.op, candidate, op.name)
    samples = draw_samples(op, kind, differentiable, OpResult(op.full_name, ""))
    found = []
    for index in spread(len(samples), SAMPLES):
        name, sample = samples[index]
        with contextlib.suppress(Unconvertible):
            case = make_case(op, function, candidate, "float64", name, sample)
            for way, laid in variants(case):
                for backward in (False, True)[: 1 + differentiable]:
                    with contextlib.suppress(Reject):
                        where = f"{op.full_name}: sample {name}, {way}"
                        found += [f"{where}: {line}" for line in differences(laid, backward)]
    return found


def reasons() -> dict[str, str]:
    """Why an operator may differ. What a release changed has the reason `since 2.15: ...` and counts for older ones."""
    return {
        name: reason
        for reason, names in KNOWN.items()
        if not (release := re.match(r"since (\d+\.\d+): ", reason)) or pytorch_before(release[1])
        for name in names
    }


@pytest.mark.parametrize("family", in_database())
def test_results_lie_in_memory_as_in_pytorch(family):
    candidate, known, new, gone = candidate_library(gradloom), reasons(), [], []
    with quiet():
        for op in op_db:
            if family_of(op) == family:
                with contextlib.suppress(Absent):
                    lines = misses(op, candidate)
                    new += lines if op.full_name not in known else []
                    gone += [op.full_name] if op.full_name in known and not lines else []
    assert not new, "\n".join(["", *new])
    assert not gone, f"these lie as in PyTorch now; remove them from known_layouts.yaml: {gone}"


def test_every_listed_name_is_one_of_pytorchs():
    assert set(reasons()) <= {op.full_name for op in op_db}
