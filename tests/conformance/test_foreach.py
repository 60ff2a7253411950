"""Operators on lists of tensors against PyTorch: on the samples of its own database values, in-place forms, gradients
and errors; their schemas; and the updates of optimizers that are such operators."""

from __future__ import annotations

import warnings
from itertools import islice

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch.testing._internal import common_methods_invocations as database  # noqa: E402

import gradloom  # noqa: E402
from tests.releases import pytorch_before  # noqa: E402

INFOS = [
    info
    for group in ("unary", "binary", "pointwise", "reduce", "other")
    for info in getattr(database, f"foreach_{group}_op_db")
]
SAMPLES = 24


def ours(value):
    """Return the same value with tensors of gradloom."""
    if isinstance(value, torch.Tensor):
        found = gradloom.from_numpy(value.detach().numpy().copy())
        return found.requires_grad_(value.requires_grad)
    if isinstance(value, (list, tuple)):
        return type(value)(map(ours, value))
    if isinstance(value, torch.dtype):
        return getattr(gradloom, str(value).removeprefix("torch."))
    return value


def outcome(library, function, sample, inplace):
    """Return the values and gradients, or the error."""
    convert = ours if library is gradloom else lambda value: value
    tensors = convert([x.detach().clone().requires_grad_(x.requires_grad) for x in sample.input])
    arguments = convert(list(sample.args))
    given = [x * 1 for x in tensors] if inplace else tensors
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = getattr(library, function)(
                given, *arguments, **{name: convert(value) for name, value in sample.kwargs.items()}
            )
            assert not inplace or found is given
            differentiable = [y for y in found if y.requires_grad]
            wanted = [x for x in tensors if x.requires_grad]
            slopes = ()
            if differentiable:
                ones = [library.ones_like(y) for y in differentiable]
                slopes = library.autograd.grad(differentiable, wanted, ones, allow_unused=True)
    except Exception as error:
        return "no derivative" if "derivative for" in str(error) else type(error).__name__
    return [None if x is None else x.detach().resolve_conj().resolve_neg().numpy() for x in (*found, *slopes)]


def assert_same(found, expected, what):
    assert isinstance(found, list) == isinstance(expected, list), f"{what}: {str(found)[:80]}, not {str(expected)[:80]}"
    if not isinstance(expected, list):
        refused = ("NotImplementedError", "TypeError")  # a dtype; RuntimeError before 2.15
        if not (pytorch_before("2.15") and expected == "RuntimeError" and found in refused):
            assert found == expected, what
        return
    assert len(found) == len(expected), what
    for ours_, theirs in zip(found, expected, strict=True):
        assert (ours_ is None) == (theirs is None), what
        if theirs is not None:
            assert (ours_.dtype, ours_.shape) == (theirs.dtype, theirs.shape), what
            tolerance = 64 * np.finfo(theirs.dtype).eps if theirs.dtype.kind in "fc" else 0
            finite = np.abs(theirs[np.isfinite(theirs)])
            largest = max(1, finite.max(initial=0))  # a product's error is in proportion to its row and column
            np.testing.assert_allclose(ours_, theirs, tolerance, tolerance * largest, err_msg=what)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "int64", "bool"])
@pytest.mark.parametrize("info", INFOS, ids=lambda info: info.name)
def test_lists_give_what_pytorch_gives(info, dtype):
    dtype = getattr(torch, dtype)
    requires_grad = dtype.is_floating_point and info.supports_autograd
    checked = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        samples = info.sample_inputs(
            "cpu", dtype, requires_grad=requires_grad, noncontiguous=False, allow_higher_dtype_scalars=True
        )
        for sample in islice(samples, SAMPLES):
            sample.kwargs.pop("disable_fastpath", None)
            for inplace in (False, True):
                function = f"{info.name}_" if inplace else info.name
                if not hasattr(torch, function):
                    assert not hasattr(gradloom, function)
                    continue
                expected, found = (outcome(library, function, sample, inplace) for library in (torch, gradloom))
                if expected == "no derivative":  # where ours has that of the operator
                    continue
                assert_same(found, expected, f"{function} {sample.args} {sample.kwargs}"[:500])
                checked += 1
    assert checked


@pytest.mark.parametrize(
    "call",
    [
        "_foreach_add([], 1)",
        "_foreach_exp([])",
        "_foreach_add(A, [1])",
        "_foreach_add(A, A[:1])",
        "_foreach_add(A, [1, 2], alpha=2)",
        "_foreach_add(A, L.tensor([3.0, 2]))",
        "_foreach_add(A[0], 1)",
        "_foreach_add(A, 'x')",
        "_foreach_mul(A, A, alpha=2)",
        "_foreach_addcmul(A, A, A, [2])",
        "_foreach_addcmul(A, A, A, L.tensor(2.0))",
        "_foreach_addcmul(A, A, A, L.tensor([2.0, 3, 4]))",
        "_foreach_add_([L.ones(2).long()], 1.5)",
        "_foreach_add_([L.ones(2, requires_grad=True)], 1)",
        "_foreach_max([L.ones(0)])",
        "_foreach_norm([L.ones(2).long()])",
        "_foreach_neg([L.ones(2).bool()])",
    ],
)
def test_what_lists_refuse(call):
    messages = []
    for library in (torch, gradloom):
        with pytest.raises((TypeError, RuntimeError)) as caught:
            eval(f"L.{call}", {"L": library, "A": [library.ones(2), library.ones(3)]})
        messages.append((caught.type, str(caught.value).splitlines()[0]))
    if pytorch_before("2.15") and messages[0][0] is RuntimeError:  # the class for a dtype
        messages[0] = (messages[1][0], messages[0][1])
    assert messages[1] == messages[0]


LISTS = sorted({schema.name for schema in torch._C._jit_get_all_schemas() if schema.name.startswith("aten::_foreach_")})


def in_aten(library, name):
    packet = getattr(library.ops.aten, name)
    return {overload: getattr(packet, overload) for overload in packet.overloads()}


def test_lists_are_operators_of_the_same_schemas():
    assert len(LISTS) > 90
    for name in LISTS:
        theirs, ours_ = (in_aten(library, name.removeprefix("aten::")) for library in (torch, gradloom))
        expected = {key: str(one._schema) for key, one in theirs.items()}
        assert {key: str(one._schema) for key, one in ours_.items()} == expected
    assert gradloom.ops.aten._foreach_add_.Scalar([gradloom.ones(2)], 1) is None
    for short, others in (("zero", ()), ("copy", ([5.0],)), ("abs", ())):  # which write to `out`, and to nothing else
        written = []
        for library in (torch, gradloom):
            x, out = library.tensor([-1.0]), library.zeros(0)
            lists = ([library.tensor(other)] for other in others)
            assert in_aten(library, f"_foreach_{short}")["out"]([x], *lists, out=[out]) is None
            with pytest.raises(RuntimeError, match="Expected out tensor to have dtype float") as caught:
                in_aten(library, "_foreach_abs")["out"]([x], out=[out.long()])
            written.append((x.tolist(), out.tolist(), str(caught.value)))
        assert written[0] == written[1]
    with pytest.raises(RuntimeError, match="1 results and 2 outputs"):
        gradloom.ops.aten._foreach_abs.out([gradloom.ones(1)], out=[gradloom.ones(1), gradloom.ones(1)])
    assert gradloom.ops.aten._foreach_add([gradloom.ones(2)], 1)[0].tolist() == [2, 2]


ADAM = {"beta1": 0.9, "beta2": 0.99, "weight_decay": 0.1, "eps": 1e-8}
SGD = {"weight_decay": 0.1, "momentum": 0.9}
UPDATES = [
    ("adam", 6, {**ADAM, "amsgrad": True, "maximize": False}),
    ("adamw", 6, {**ADAM, "amsgrad": False, "maximize": True}),
    ("sgd", 3, {**SGD, "dampening": 0.1, "nesterov": False, "maximize": False, "is_first_step": True}),
    ("sgd", 3, {**SGD, "dampening": 0.0, "nesterov": True, "maximize": True, "is_first_step": False}),
    ("adagrad", 4, {"lr_decay": 0.1, "weight_decay": 0.1, "eps": 1e-8, "maximize": True}),
]


def updated(library, short, lists, options, form):
    """Return the lists after an update, or the results of its functional or out form."""
    library.manual_seed(1)
    given = [[library.rand(3), library.rand(2, 2)] for _ in range(5)]
    steps = [library.tensor(3.0), library.tensor(4.0)]
    if short.startswith("adam"):
        given = [*(given if options["amsgrad"] else [*given[:4], []]), steps]
    else:
        given = [*given[: 3 if short == "adagrad" else lists], *([steps] if short == "adagrad" else [])]
    assert len(given) == lists
    options = {k: library.tensor(v[0]) if isinstance(v, list) else v for k, v in options.items()}
    if form == "_":
        assert getattr(library, f"_fused_{short}_")(*given, **options) is None
        return given
    overload = ("tensor_lr_" if hasattr(options["lr"], "item") else "") + form
    overload = getattr(getattr(library.ops.aten, f"_fused_{short}"), overload.rstrip("_") or "default")
    if form == "out":
        out = [library.zeros_like(x) for x in given[0]]
        assert overload(*given, **options, out=out) is None
        return [out, *given]
    return [*overload(*given, **options), *given]


@pytest.mark.parametrize("form", ["_", "", "out"])
@pytest.mark.parametrize("lr", [0.1, [0.1]], ids=["number", "tensor"])
@pytest.mark.parametrize("scale", [{}, {"grad_scale": [2.0], "found_inf": [0.0]}, {"found_inf": [1.0]}])
@pytest.mark.parametrize("short, lists, options", UPDATES, ids=lambda value: value if isinstance(value, str) else "")
def test_updates_of_lists_give_what_pytorch_gives(short, lists, options, scale, lr, form):
    expected, found = (
        updated(library, short, lists, {**options, **scale, "lr": lr}, form) for library in (torch, gradloom)
    )
    assert [len(x) for x in found] == [len(x) for x in expected]
    for a, b in zip(found, expected, strict=True):
        for x, y in zip(a, b, strict=True):
            np.testing.assert_allclose(x.numpy(), y.numpy(), rtol=2e-6, atol=1e-6)


def test_updates_are_operators_of_the_same_schemas():
    for short in ("adam", "adamw", "sgd", "adagrad"):
        for name in (f"_fused_{short}", f"_fused_{short}_"):
            theirs, ours_ = (in_aten(library, name) for library in (torch, gradloom))
            assert {k: str(v._schema) for k, v in ours_.items()} == {k: str(v._schema) for k, v in theirs.items()}
