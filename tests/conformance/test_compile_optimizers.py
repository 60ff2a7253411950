"""Steps of optimizers through compile equal PyTorch's, over the settings of its database."""

from __future__ import annotations

import warnings

import pytest

pytest.importorskip("torch", reason="PyTorch, the reference, is not installed: make conformance installs it")
pytest.importorskip("llvmlite")

from torch.testing._internal.common_optimizers import optim_db

import gradloom
from gradloom.compiler._api import optimized_of

from .known import load_known
from .optimizer_runner import run_optimizer
from .proxy import candidate_library

# They compute with matrices, or call their closure several times, so they have no update rule.
WITHOUT_LOOPS = {"LBFGS", "Muon", "Adafactor", "SparseAdam"}


def test_compiled_steps_equal_pytorchs():
    candidate = candidate_library(gradloom)
    compiled = []

    def found(name, find=candidate.find):
        kind = find(name)
        if not (isinstance(kind, type) and issubclass(kind, gradloom.optim.Optimizer)):
            return kind

        def make(*args, **kwargs):
            optimizer = kind(*args, **kwargs)
            optimizer.step = gradloom.compile(optimizer.step, backend="llvm")
            compiled.append(optimized_of(optimizer.step))
            return optimizer

        return make

    candidate.find = found
    for info in optim_db:
        compiled.clear()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = run_optimizer(info, candidate, ("step",))
        misses = [miss for stage in result.stages.values() for miss in stage.misses]
        known = load_known()["optimizers"].get(f"optim.{info.name}", {})
        assert misses == [] or "step" in known, (info.name, misses)
        loops = [e for o in compiled for entry in o.entries for e in entry.after if e.updates and e.updates.fused]
        assert bool(loops) == (info.name not in WITHOUT_LOOPS), (info.name, len(loops))
