"""vmap over the operators of PyTorch's database: against a loop over the examples, and gradients through it.

What a batching rule computes has to be what the operator computes for each example. So gradloom is compared with itself
here: test_databases compares the operators with PyTorch.
"""

from __future__ import annotations

import contextlib
import warnings
from collections import Counter

import numpy as np
import pytest

pytest.importorskip("torch", reason="PyTorch, the reference, is not installed: make conformance installs it")

import torch
from torch.testing._internal.common_methods_invocations import op_db

import gradloom
from gradloom.autograd import forward_ad
from gradloom.batching.rules import _loop

from .case import UNDEFINED_VALUES, Case, describe
from .families import family_of, in_database
from .library import Absent
from .opinfo_runner import draw_samples, make_case, quiet, spread
from .proxy import callable_for, candidate_library
from .records import Unconvertible, map_leaves
from .results import OpResult

SAMPLES = 4
DTYPES = ("float64", "complex128", "int64", "bool")
EXAMPLES = 3
WAYS = ("all", "first", "others")
DERIVATIVES = ("gradients", "tangents")
# What vmap refuses with reason: the message says why.
REFUSALS = (
    "randomness error mode",
    "dynamic shape",
    "calling .item()",
    "have storage",
    "depends on the values",
    "boolean mask",
    "num_classes",
    "embedding_renorm_(self, *extra_args) is not possible",  # max_norm writes to a weight that is shared
    "would resize the storage",
    "without out=",
    "Batch norm got a batched",
    "not contiguous has no batching rule",
)
# Operators that vmap refuses because they ask a batch element for its value, in PyTorch, too.
DATA_DEPENDENT = ("allclose", "nn.functional.gaussian_nll_loss")
# What differs, and why.
KNOWN = {"addr": "the derivative with respect to a factor that is nan, with alpha 0"}


def examples(tensor) -> list:
    """Tensors like the given one, with other values of the same kind."""
    array = tensor.detach().resolve_conj().resolve_neg().numpy()
    found = [array]
    for i in range(1, EXAMPLES):
        if array.dtype.kind in "fc":
            other = array * (1 - 0.125 * i)
        else:
            other = np.flip(array, 0) if array.ndim and i % 2 else array
        found.append(np.ascontiguousarray(other).astype(array.dtype).reshape(array.shape))
    return [gradloom.from_numpy(a.copy()) for a in found]


class Mapped:
    """One sample, of which some tensors are replaced by batches.

    Attributes:
        batches: the tensors that are mapped over, each with the examples along dimension 0.
    """

    def __init__(self, case: Case, candidate, way: str) -> None:
        self.case, self.candidate = case, candidate
        self.values = case.values(candidate, lambda record, tensor: tensor.detach())
        tensors = candidate_tensors(self.values, candidate)
        chosen = {"all": tensors, "first": tensors[:1], "others": tensors[1:]}[way]
        self.chosen = [id(t) for t in chosen]
        self.batches = [gradloom.stack(examples(t)) for t in chosen]

    def call(self, *given):
        by_id = dict(zip(self.chosen, given, strict=True))
        values = map_leaves(lambda leaf: by_id.get(id(leaf), leaf), self.values)
        self.case.reseed()
        found = self.case.call(self.candidate, values)
        return tuple(candidate_tensors(found, self.candidate))

    def mapped(self, batches):
        return gradloom.vmap(self.call)(*batches)

    def looped(self, batches):
        rows = [self.call(*[b[i].clone() for b in batches]) for i in range(EXAMPLES)]
        return [gradloom.stack(column) for column in zip(*rows, strict=True)]

    def gradients(self, compute):
        batches = [b.detach().requires_grad_() if b.is_floating_point() or b.is_complex() else b for b in self.batches]
        outputs = [o for o in compute(batches) if o.requires_grad]
        leaves = [b for b in batches if b.requires_grad]
        if not outputs:
            return [None] * len(leaves)
        vectors = [gradloom.ones_like(o) * (1 + 0.25 * k) for k, o in enumerate(outputs)]
        return gradloom.autograd.grad(outputs, leaves, vectors, allow_unused=True)


class Derived:
    """One sample with gradients or tangents for several vectors: in one pass, and for one vector after the other."""

    def __init__(self, case: Case, candidate) -> None:
        self.case, self.candidate = case, candidate
        self.points: list = []

        def collect(record, tensor):
            if tensor.is_floating_point() or tensor.is_complex():
                tensor = tensor.detach().requires_grad_()
                self.points.append(tensor)
            return tensor

        self.values = case.values(candidate, collect)

    def outputs(self, points=()):
        given = {id(own): point for own, point in zip(self.points, points, strict=False)}
        values = map_leaves(lambda leaf: given.get(id(leaf), leaf), self.values)
        self.case.reseed()
        found = candidate_tensors(self.case.call(self.candidate, values), self.candidate)
        return [t for t in found if t.is_floating_point() or t.is_complex()]

    def gradients(self, at_once: bool):
        outputs = [o for o in self.outputs() if o.requires_grad]
        vectors = [gradloom.stack(examples(gradloom.ones_like(o))) for o in outputs]
        if not outputs:
            return []

        def grad(given, batched):
            return gradloom.autograd.grad(
                outputs, self.points, given, retain_graph=True, allow_unused=True, is_grads_batched=batched
            )

        if at_once:
            return list(grad(vectors, True))
        return _columns([grad([v[i] for v in vectors], False) for i in range(EXAMPLES)])

    def tangents(self, at_once: bool):
        vectors = [gradloom.stack(examples(gradloom.ones_like(p).detach())) for p in self.points]
        points = [p.detach() for p in self.points]

        def pushed(*given):
            with forward_ad.dual_level():
                duals = [forward_ad.make_dual(p, v) for p, v in zip(points, given, strict=True)]
                pairs = [forward_ad.unpack_dual(o) for o in self.outputs(duals)]
                return tuple([gradloom.zeros_like(p.primal) if p.tangent is None else p.tangent for p in pairs])

        if at_once:
            return list(gradloom.vmap(pushed, randomness="same")(*vectors))
        return _columns([pushed(*[v[i] for v in vectors]) for i in range(EXAMPLES)])


def _columns(rows) -> list:
    return [None if column[0] is None else gradloom.stack(column) for column in zip(*rows, strict=True)]


def candidate_tensors(value, candidate) -> list:
    """The tensors of a nested value, in order."""
    if candidate.is_tensor(value):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [t for v in value for t in candidate_tensors(v, candidate)] if isinstance(value, (tuple, list)) else []


def differing(found, expected) -> str | None:
    if len(found) != len(expected):
        return f"{len(found)} results, not {len(expected)}"
    for i, (f, e) in enumerate(zip(found, expected, strict=True)):
        if f is None or e is None:
            present = e if f is None else f
            if present is not None and bool((present != 0).any()):
                return f"result {i} is {'None' if f is None else 'not None'}"
            continue
        if f.shape != e.shape or f.dtype != e.dtype:
            return f"result {i} is {f.dtype} {tuple(f.shape)}, not {e.dtype} {tuple(e.shape)}"
        a, b = (
            np.asarray(t._array).astype(np.float32 if t.dtype is gradloom.bfloat16 else t._array.dtype)
            for t in (f.detach(), e.detach())
        )
        wide = np.result_type(a, np.float64)
        single = f.dtype in (gradloom.float32, gradloom.complex64)
        if not np.allclose(a, b, rtol=1e-6, atol=1e-6 if single else 1e-7, equal_nan=True):
            return f"result {i} differs by {np.nanmax(np.abs(a.astype(wide) - b.astype(wide)))}"
    return None


def refused_with_reason(case: Case, error: Exception) -> bool:
    if "data-dependent control flow" in str(error):
        return case.op.name in DATA_DEPENDENT
    return any(words in str(error) for words in REFUSALS)


def problem(case: Case, candidate, way: str, counts: Counter) -> str | None:
    """What is wrong with one sample, mapped in one way."""
    sample = Mapped(case, candidate, way)
    if not sample.batches:
        return None
    try:
        expected = sample.looped(sample.batches)
    except Absent:
        raise
    except Exception:  # the other examples are no valid input
        counts["not compared"] += 1
        return None
    if not expected:
        return None
    try:
        found = sample.mapped(sample.batches)
    except Exception as error:
        if refused_with_reason(case, error):
            counts["refused"] += 1
            return None
        return describe(error)
    counts["compared"] += 1
    if case.op.name in UNDEFINED_VALUES:
        found, expected = [gradloom.zeros_like(t) for t in found], [gradloom.zeros_like(t) for t in expected]
    if (reason := differing(found, expected)) is not None:
        return reason
    try:
        wanted = sample.gradients(sample.looped)
    except Exception:
        return None
    try:
        gradients = sample.gradients(sample.mapped)
    except Exception as error:
        return f"gradient: {describe(error)}"
    counts["gradients compared"] += any(g is not None for g in wanted)
    reason = differing(gradients, wanted)
    return reason and f"gradient: {reason}"


def derivative_problem(case: Case, candidate, way: str, counts: Counter) -> str | None:
    """What is wrong with derivatives for several vectors at once."""
    sample = Derived(case, candidate)
    if not sample.points:
        return None
    compute = sample.gradients if way == "gradients" else sample.tangents
    try:
        expected = compute(False)
    except Absent:
        raise
    except Exception:  # not differentiable
        return None
    try:
        found = compute(True)
    except Exception as error:
        if refused_with_reason(case, error):
            counts[f"{way} refused"] += 1
            return None
        return f"{way}: {describe(error)}"
    counts[way] += 1
    reason = differing(found, expected)
    return reason and f"{way}: {reason}"


def problems(op, candidate, counts: Counter, dtype: str) -> list[str]:
    """What differs for one operator, as lines."""
    samples = draw_samples(op, getattr(torch, dtype), False, OpResult(op.full_name, ""))
    function = callable_for(op.op, candidate, op.name)
    found = []
    for index in spread(len(samples), SAMPLES):
        name, sample = samples[index]
        try:
            case = make_case(op, function, candidate, dtype, f"{dtype} sample {name}", sample)
            for way in WAYS:
                reason = problem(case, candidate, way, counts)
                if reason:
                    found.append(f"{op.full_name}: {dtype} {name}: {way}: {reason}")
            for way in DERIVATIVES:
                reason = derivative_problem(case, candidate, way, counts)
                if reason:
                    found.append(f"{op.full_name}: {dtype} {name}: {reason}")
        except Unconvertible:
            continue
    return found


def of_family(family: str, counts: Counter) -> dict[str, list[str]]:
    """The lines of every operator of a family that has samples."""
    candidate = candidate_library(gradloom)
    found = {}
    for op in op_db:
        if family_of(op) != family:
            continue
        for dtype in DTYPES:
            if getattr(torch, dtype) in op.supported_dtypes("cpu"):
                with contextlib.suppress(Absent):
                    found.setdefault(op.full_name, []).extend(problems(op, candidate, counts, dtype))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("family", in_database())
def test_vmap_is_a_loop_over_examples(family):
    counts: Counter = Counter()
    with quiet(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        by_operator = of_family(family, counts)
    print(family, dict(counts), sorted(_loop._warned))
    wrong = [line for name, lines in by_operator.items() if name not in KNOWN for line in lines]
    fixed = [
        f"{name} agrees now: take it from the list"
        for name, lines in by_operator.items()
        if name in KNOWN and not lines
    ]
    assert wrong + fixed == []
