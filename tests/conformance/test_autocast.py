"""Autocast against PyTorch: the same operators have a rule, and all of its database give the same dtypes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch, the reference, is not installed: make conformance installs it")
from torch.testing._internal.common_methods_invocations import op_db  # noqa: E402

import gradloom  # noqa: E402
from gradloom.codegen.operators.native_functions import load  # noqa: E402

from .case import Reject  # noqa: E402
from .families import banners, family_of, in_database  # noqa: E402
from .library import Absent  # noqa: E402
from .opinfo_runner import draw, make_case, quiet  # noqa: E402
from .proxy import callable_for, candidate_library  # noqa: E402
from .records import Unconvertible, dtype_name, leaves  # noqa: E402

ROOT = Path(__file__).parents[2]
SAMPLES = 3
#: Where PyTorch computes in chunks, by a custom function that does not know of autocast.
OTHERWISE = {"nn.functional.linear_cross_entropy.chunked", "nn.functional.linear_cross_entropy.chunked_none"}
CANDIDATE = candidate_library(gradloom)


def test_those_operators_have_a_rule_for_which_pytorch_registers_one():
    names = {name.removeprefix("aten::"): name for name in torch._C._dispatch_get_all_op_names()}
    registered = {n for n, name in names.items() if torch._C._dispatch_has_kernel_for_dispatch_key(name, "AutocastCPU")}
    ours = load(ROOT / "native_functions.yaml")
    casting_arguments = {f.name for f in ours if f.autocast and f.autocast != "lower_result" and f.name in names}
    assert casting_arguments == {f.name for f in ours if f.name in registered}


@pytest.mark.slow
@pytest.mark.parametrize("family", in_database())
def test_results_have_the_dtypes_that_they_have_in_pytorch(family):
    found = [compare(op) for op in op_db if family_of(op) == family]
    wrong = [line for _, lines in found for line in lines]
    assert not wrong, "\n".join(["", *wrong])
    if family in banners().values() or not found:
        assert sum(count for count, _ in found) or not found


def compare(op):
    """How many samples of an operator were compared, and what differs."""
    count, wrong = 0, []
    try:
        function = callable_for(op.op, CANDIDATE, op.name)
    except Absent:
        return 0, []
    if op.full_name in OTHERWISE:
        return 0, []
    with quiet():
        for dtype in (torch.float32, torch.bfloat16):
            if dtype not in op.supported_dtypes("cpu"):
                continue
            for region in ("bfloat16", "float16") if dtype is torch.float32 else ("bfloat16",):
                for index, sample in enumerate(samples_of(op, dtype)):
                    where = f"{op.full_name} {dtype_name(dtype)} sample {index} in {region}"
                    try:
                        case = make_case(op, function, CANDIDATE, dtype_name(dtype), where, sample)
                        expected, actual = dtypes(case, region)
                    except (Reject, Absent, Unconvertible):
                        continue
                    count += 1
                    if expected != actual:
                        wrong.append(f"{where}: {actual}, in PyTorch {expected}")
    return count, wrong


def samples_of(op, dtype, requires_grad=False):
    try:
        return list(draw(op, SAMPLES, op.sample_inputs_func, op, "cpu", dtype, requires_grad))
    except Exception:  # a sampler that needs a package that is not here
        return []


def dtypes(case, region):
    """Of what a case returns within a region: (in PyTorch, here)."""
    with torch.autocast("cpu", dtype=getattr(torch, region)):
        expected = case.reference_call()
    with gradloom.autocast("cpu", dtype=getattr(gradloom, region)):
        actual, raised = case.attempt(case.candidate_call)
    if raised and raised.startswith("raises NotImplementedError"):
        raise Absent(raised)
    return dtypes_in(expected, torch), raised or dtypes_in(actual, gradloom)


def dtypes_in(value, library):
    return [dtype_name(leaf.dtype) for leaf in leaves(value) if isinstance(leaf, library.Tensor)]


RULES = {f.schema.name.name for f in load(ROOT / "native_functions.yaml") if f.autocast}
CAST = [
    op
    for op in op_db
    if op.name.rpartition(".")[2] in RULES
    and op.full_name not in OTHERWISE
    and op.supports_autograd
    and not op.name.startswith("sparse.")  # whose samples no record can hold
]


@pytest.mark.slow
@pytest.mark.parametrize("op", CAST, ids=lambda op: op.full_name)
def test_gradients_through_casts_are_those_of_pytorch(op):
    try:
        function = callable_for(op.op, CANDIDATE, op.name)
    except Absent:
        pytest.skip("gradloom has no such operator yet")
    count = 0
    with quiet():
        for index, sample in enumerate(samples_of(op, torch.float32, True)):
            try:
                case = make_case(op, function, CANDIDATE, "float32", f"sample {index}", sample)
                expected = gradients(case, case.reference)
            except (Reject, Unconvertible):
                continue
            actual = gradients(case, CANDIDATE)
            assert len(actual) == len(expected)
            for a, e in zip(actual, expected, strict=True):
                assert (a is None) == (e is None), index
                if e is not None:
                    assert dtype_name(a.dtype) == dtype_name(e.dtype) == "float32"
                    scale = float(e.abs().max()) if e.numel() else 0.0
                    assert np.allclose(a.numpy(), e.numpy(), rtol=0.05, atol=0.02 * scale + 1e-6), (index, a, e)
            count += 1
    assert count


def gradients(case, library):
    """Of the sum of the results within a region, for the sample's inputs."""
    values = case.values(library)
    inputs = [t for t in leaves(values) if isinstance(t, library.Tensor) and t.requires_grad]
    with library.module.autocast("cpu"):
        found = case.call(library, values) if library is CANDIDATE else case.sure(lambda: case.call(library, values))
    results = [
        t.abs() if t.is_complex() else t for t in leaves(found) if isinstance(t, library.Tensor) and t.requires_grad
    ]
    total = sum(t.float().sum() for t in results)
    return list(library.module.autograd.grad(total, inputs, allow_unused=True))


@pytest.mark.parametrize("family", ["matmul", "loss", "conv"])
def test_a_rule_that_is_not_followed_is_found(family, monkeypatch):
    from gradloom.amp import casting

    monkeypatch.setattr(casting, "cast_by", lambda rule, args: args)
    operators = [
        op
        for op in op_db
        if family_of(op) == family and op.name.rpartition(".")[2] in ("mm", "linear", "mse_loss", "conv2d")
    ]
    assert operators and all(compare(op)[1] for op in operators)


@pytest.mark.parametrize(
    ("name", "arguments", "shape"),
    [
        ("Linear", (4, 2), (3, 4)),
        ("Conv1d", (4, 3, 2), (2, 4, 5)),
        ("Conv3d", (1, 2, 2), (1, 1, 4, 4, 4)),
        ("ConvTranspose1d", (4, 3, 2), (2, 4, 5)),
        ("BatchNorm1d", (4,), (2, 4)),
        ("LayerNorm", (4,), (2, 4)),
        ("GroupNorm", (2, 4), (2, 4)),
        ("InstanceNorm1d", (4,), (2, 4, 5)),
        ("RMSNorm", (4,), (2, 4)),
        ("LocalResponseNorm", (3,), (2, 4, 5)),
        ("LocalResponseNorm", (2,), (1, 4, 3, 3)),
        ("PReLU", (), (2, 4)),
        ("AvgPool2d", (2,), (1, 1, 4, 4)),
        ("AvgPool3d", (2,), (1, 1, 4, 4, 4)),
        ("MaxPool3d", (2,), (1, 1, 4, 4, 4)),
        ("AdaptiveAvgPool3d", (2,), (1, 1, 4, 4, 4)),
        ("LPPool2d", (2, 2), (1, 1, 4, 4)),
        ("Softmax", (0,), (2, 4)),
        ("GELU", (), (2, 4)),
        ("GLU", (), (2, 4)),
        ("Dropout", (0.5,), (2, 4)),
    ],
)
def test_modules_return_the_dtypes_that_they_return_in_pytorch(name, arguments, shape):
    found = []
    for library in (torch, gradloom):
        module = getattr(library.nn, name)(*arguments)
        for dtype in ("float32", "bfloat16"):
            with library.autocast("cpu"):
                found.append(dtype_name(module(library.ones(shape, dtype=getattr(library, dtype))).dtype))
    assert found[:2] == found[2:]
