"""gradloom.func over the operators of PyTorch's database: vjp, jvp, and each of them in the other."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="PyTorch, the reference, is not installed: make conformance installs it")

import torch
from torch.testing._internal.common_methods_invocations import op_db

from tests.releases import pytorch_before

from .case import Case, describe
from .compare import difference, loosened
from .families import family_of, in_database
from .library import Absent, Library
from .opinfo_runner import draw_samples, make_case, quiet, spread
from .proxy import callable_for, candidate_library
from .records import Unconvertible, dtype_name, map_leaves
from .results import OpResult

SAMPLES = 2
TOLERANCES = loosened(100.0)
MODES = ("vjp", "jvp", "jvp of vjp", "vjp of jvp", "jvp of jvp")
# What differs, and why.
_CONSTANT = "differentiated further, PyTorch's forward formula takes the statistics for constants, which is wrong"
_FACTORS = "differentiated further, PyTorch's forward formula takes the LU factors for constants, which is wrong"
_SYMMETRIC = "a nested jvp is made of two reverse passes, which see the symmetric part of a tangent (Note [Nested jvp])"
KNOWN = {
    "cumprod": "PyTorch's forward formula divides by the input, which has zeros",
    "torch.ops.aten._safe_softmax.default": "PyTorch's gradient is nan where all of a row is masked",
    "as_strided_scatter": "PyTorch's gradient for self is that of the replaced region",
    "native_batch_norm": _CONSTANT,
    "nn.functional.batch_norm": _CONSTANT,
    "nn.functional.instance_norm": _CONSTANT,
    "nn.functional.layer_norm": _CONSTANT,
    "_native_batch_norm_legit": _CONSTANT,
    "_batch_norm_with_update": _CONSTANT,
    "linalg.householder_product": "PyTorch's forward formula, differentiated further, differs from finite differences",
    "linalg.cholesky": _SYMMETRIC,
    "linalg.cholesky_ex": _SYMMETRIC,
    "linalg.matrix_sqrth": _SYMMETRIC,
    "linalg.eigh": f"{_SYMMETRIC}; PyTorch's vjp of jvp is nan",
    "triangular_solve": "PyTorch's tangent also uses the half of A's tangent that the operator does not read",
    "cholesky_inverse": "PyTorch's derivatives also use the triangle that the operator does not read",
    "cholesky_solve": "PyTorch's derivatives also use the triangle that the operator does not read",
    "linalg.norm.subgradients_at_zero": "PyTorch's second derivative at zero is nan",
    "masked.logaddexp": "PyTorch's second derivatives are nan where exp overflows",
    "masked.mean": "PyTorch divides the zero tangent of a constant by a count of zero",
}
if pytorch_before("2.15"):
    KNOWN |= dict.fromkeys(
        ("logdet", *(f"linalg.{name}" for name in ("det", "slogdet", "solve", "solve_ex", "tensorsolve"))), _FACTORS
    )


class Side:
    """One library's transforms of one sample: a function of those of its tensors that require grad."""

    def __init__(self, case: Case, library: Library) -> None:
        self.case, self.library = case, library
        self.func = {name: library.find(f"func.{name}") for name in ("vjp", "jvp")}
        self.points: list = []

        def collect(record, tensor):
            if not record.requires_grad:
                return tensor
            self.points.append(tensor.detach())
            return self.points[-1]

        self.values = case.values(library, collect)

    def function(self, *points):
        given = {id(own): point for own, point in zip(self.points, points, strict=True)}
        values = map_leaves(lambda leaf: given.get(id(leaf), leaf), self.values)
        self.case.reseed()
        found = self.case.processed(self.case.call(self.library, values), self.library)
        return tuple([t for t in self.case.tensors(found, self.library) if t.is_floating_point() or t.is_complex()])

    def vectors(self, like, salt):
        return tuple(
            [
                self.library.build(self.case.random(tuple(t.shape), dtype_name(t.dtype), f"{salt} {i}"))
                for i, t in enumerate(like)
            ]
        )

    def tangents(self, salt):
        return self.vectors(self.points, f"tangent {salt}")

    def result(self, mode: str):
        vjp, jvp, f = self.func["vjp"], self.func["jvp"], self.function

        def pulled(*points):
            outputs, vjp_fn = vjp(f, *points)
            return vjp_fn(self.vectors(outputs, "cotangent"))

        def pushed(*points):
            return jvp(f, points, self.tangents("inner"))[1]

        if mode == "vjp":
            return pulled(*self.points)
        if mode == "jvp":
            return pushed(*self.points)
        inner = pulled if mode == "jvp of vjp" else pushed
        if mode.startswith("jvp"):
            return jvp(inner, tuple(self.points), self.tangents("outer"))[1]
        outputs, vjp_fn = vjp(inner, *self.points)
        return vjp_fn(self.vectors(outputs, "second cotangent"))


def problems(op, candidate: Library) -> list[str]:
    """What differs for one operator, as lines."""
    result, found = OpResult(op.full_name, ""), []
    samples = draw_samples(op, torch.float64, True, result)
    function = callable_for(op.op, candidate, op.name)
    for index in spread(len(samples), SAMPLES):
        name, sample = samples[index]
        try:
            case = make_case(op, function, candidate, "float64", f"float64 sample {name}", sample)
            reference, actual = Side(case, case.reference), Side(case, candidate)
        except Unconvertible:
            continue
        if reference.points:
            found += [
                f"{op.full_name}: {mode}: {reason}"
                for mode in MODES
                if (reason := compare(case, reference, actual, mode))
            ]
    return found


def compare(case: Case, reference: Side, actual: Side, mode: str) -> str | None:
    try:
        expected = reference.result(mode)
    except Exception:  # what PyTorch cannot do is not compared
        return None
    try:
        found = actual.result(mode)
    except Absent:
        return None
    except Exception as error:
        case.candidate.check_absence(error)
        return describe(error)
    return difference(expected, found, case.reference, case.candidate, TOLERANCES)


@pytest.mark.slow
@pytest.mark.parametrize("family", in_database())
def test_transforms_give_what_pytorch_s_give(family):
    candidate = candidate_library(__import__("gradloom"))
    found = []
    with quiet():
        for op in op_db:
            if family_of(op) != family or not op.supports_autograd or not op.supports_forward_ad:
                continue
            if torch.float64 not in op.supported_backward_dtypes("cpu"):
                continue
            try:
                lines = problems(op, candidate)
            except Absent:
                continue
            if op.full_name not in KNOWN:
                found += lines
            elif not lines:
                found.append(f"{op.full_name} agrees with PyTorch now: take it from the list")
    assert not found, "\n".join(["", *found])


def test_the_comparison_notices_a_wrong_transform(monkeypatch):
    candidate = candidate_library(__import__("gradloom"))
    op = next(op for op in op_db if op.full_name == "sin")
    assert not problems(op, candidate)
    right = candidate.module.func.jvp
    monkeypatch.setattr(candidate.module.func, "jvp", lambda *a: (None, [t * 2 for t in right(*a)[1]]))
    assert any("jvp" in line for line in problems(op, candidate))
