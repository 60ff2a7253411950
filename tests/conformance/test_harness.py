"""The harness itself: PyTorch passes against itself, and each planted defect is reported as what it is."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch, the reference, is not installed: make conformance installs it")

from torch.testing._internal.common_methods_invocations import op_db  # noqa: E402
from torch.testing._internal.common_modules import module_db  # noqa: E402
from torch.testing._internal.common_optimizers import optim_db  # noqa: E402

from . import report, session  # noqa: E402
from .compare import further_off  # noqa: E402
from .module_runner import run_module  # noqa: E402
from .opinfo_runner import SAMPLES, Plan, run_op, spread  # noqa: E402
from .optimizer_runner import run_optimizer  # noqa: E402
from .planted import Altered, changed, refusing, sine  # noqa: E402
from .proxy import candidate_library  # noqa: E402
from .results import ABSENT, PRESENT  # noqa: E402

OPS = {op.full_name: op for op in op_db}
MODULES = {info.name: info for info in module_db}
OPTIMIZERS = {info.name: info for info in optim_db}
FEW = Plan(samples=2)


def check(name, defects=None, plan=FEW):
    """One operator of PyTorch with planted defects against PyTorch."""
    library = candidate_library(Altered(defects or {}))
    if name in OPS:
        return run_op(OPS[name], library, plan=plan)
    if name in MODULES:
        return run_module(MODULES[name], library)
    return run_optimizer(OPTIMIZERS[name], library)


def reasons(result, stage):
    return " / ".join(miss["reason"] for miss in result.stages[stage].misses)


# C functions, methods, Python functions, aten overloads, properties, lambdas over factories, methods and
# seeds.
@pytest.mark.parametrize(
    "name",
    [
        "add",
        "__getitem__",
        "__radd__",
        "nn.functional.relu",
        "slice",
        "T",
        "randn",
        "expand",
        "einsum",
        "where",
        "cauchy",
        "item",
        "nn.functional.dropout",
        "max_pool2d_with_indices_backward",
        "polygamma.polygamma_n_1",
        "linalg.svd",
        "topk",
        "nn.functional.triplet_margin_with_distance_loss",
        "signal.windows.hann",
        "masked.sum",
        "to",
        "empty_strided",
        "nn.Linear",
        "nn.BatchNorm1d",
        "nn.LazyConv1d",
        "SGD",
        "LBFGS",
    ],
)
def test_pytorch_conforms_with_itself(name):
    result = check(name)
    assert result.status == PRESENT
    assert result.missed() == []
    first = {"operators": "forward", "modules": "init", "optimizers": "step"}[result.kind]
    assert result.stages[first].checked > 0


@pytest.mark.slow
def test_pytorch_conforms_with_itself_everywhere():
    run = session.run_in_new_process("torch", session.Selection(samples=2))
    assert report.miss_lines(run.results) == []
    assert [result.name for result in run.results if result.status == ABSENT] == []
    assert sum("forward" in result.stages for result in run.results if result.kind == "operators") >= 680


@pytest.mark.parametrize(
    "change, reason",
    [
        (lambda result: result + 1, "expected"),
        (lambda result: result.to(torch.complex128), "dtype float64 expected, got complex128"),
        (lambda result: result.unsqueeze(0), "shape () expected, got (1,)"),
        (lambda result: (result,), "a tensor expected, got tuple"),
        (lambda result: None, "a tensor expected, got NoneType"),
    ],
)
def test_a_wrong_result_is_a_forward_miss(change, reason):
    result = check("atan2", {"atan2": changed(torch.atan2, change)})
    assert "forward" in result.missed()
    assert reason in reasons(result, "forward")
    assert "inplace" not in result.missed()  # Tensor.atan2_ is another function


def test_an_exception_is_a_miss_that_names_it():
    def failing(*args, **kwargs):
        raise KeyError("no such thing")

    assert "raises KeyError: 'no such thing'" in reasons(check("sin", {"sin": failing}), "forward")


@pytest.mark.parametrize(
    "factors, stages",
    [
        (dict(), []),
        (dict(gradient=1.001), ["backward", "double_backward"]),
        (dict(second=1.001), ["double_backward"]),
        (dict(tangent=1.001), ["forward_mode"]),
    ],
)
def test_a_wrong_derivative_is_a_miss_of_its_own_stage(factors, stages):
    assert check("sin", {"sin": sine(**factors)}).missed() == stages


def test_an_output_that_does_not_require_grad_is_a_backward_miss():
    result = check("exp", {"exp": lambda x, **out: torch.exp(x, **out) if out else torch.exp(x.detach())})
    assert result.missed() == ["backward", "double_backward", "forward_mode"]
    assert "outputs require grad: [True] expected, got [False]" in reasons(result, "backward")


def test_a_missing_gradient_and_one_too_many_are_misses():
    def half(x, y, **out):
        return torch.hypot(x, y, **out) if out else torch.hypot(x, y.detach())

    result = check("hypot", {"hypot": half})
    assert "backward" in result.missed()
    assert "gradient 1: a tensor expected, got None" in reasons(result, "backward")

    result = check(
        "copysign",
        {
            "copysign": lambda x, y, **out: (
                torch.copysign(x, y, **out) + 0 * y if not out else torch.copysign(x, y, **out)
            )
        },
    )
    assert result.missed() == []  # PyTorch gives zeros there, too

    result = check(
        "nn.functional.embedding",
        {
            "nn.functional.embedding": lambda idx, weight, **kw: torch.nn.functional.embedding(
                idx, weight, **kw
            ).detach()
        },
    )
    assert "outputs require grad: [True] expected, got [False]" in reasons(result, "backward")


def test_a_copy_in_place_is_a_miss():
    result = check("mul", {"Tensor.mul_": lambda x, other: x * other})
    assert result.missed() == ["inplace"]
    assert "does not return its input" in reasons(result, "inplace")


def test_a_wrong_gradient_in_place_is_a_miss():
    def detached(x, *args):
        with torch.no_grad():
            return torch.Tensor.mul_(x, *args)

    result = check("mul", {"Tensor.mul_": detached})
    assert result.missed() == ["inplace"]
    assert "gradient 0" in reasons(result, "inplace")


def test_an_out_that_is_left_alone_is_a_miss():
    result = check("mul", {"mul": lambda *args, out=None: torch.mul(*args)})
    assert result.missed() == ["out"]


def test_an_out_that_is_filled_but_not_returned_is_a_miss():
    def mul(*args, out=None):
        return torch.mul(*args) if out is None else torch.mul(*args, out=out).clone()

    assert "does not return the tensor given as out=" in reasons(check("mul", {"mul": mul}), "out")


def test_a_differentiable_out_is_a_miss():
    def mul(*args, out=None):
        if out is None:
            return torch.mul(*args)
        return torch.mul(*(arg.detach() if isinstance(arg, torch.Tensor) else arg for arg in args), out=out)

    result = check("mul", {"mul": mul})
    assert result.missed() == ["out"]
    assert "RuntimeError expected, nothing raised" in reasons(result, "out")


def test_another_class_of_exception_is_an_errors_miss():
    result = check("gather", {"gather": refusing(torch.gather, ValueError)})
    assert result.missed() == ["out", "errors"]  # out= with inputs that require grad is one of its errors
    assert "RuntimeError expected, raises ValueError" in reasons(result, "errors")


def test_another_message_is_only_noted():
    def gather(*args, **kwargs):
        try:
            return torch.gather(*args, **kwargs)
        except RuntimeError:
            raise RuntimeError("no") from None

    result = check("gather", {"gather": gather})
    assert result.missed() == []
    assert any("got 'no'" in note for note in result.notes)


def test_a_method_that_differs_from_its_function_is_a_variants_miss():
    result = check("mul", {"Tensor.mul": lambda x, other: x * other + 1})
    assert result.missed() == ["variants"]
    assert reasons(result, "variants").startswith("method: ")
    assert "method: Tensor.mul is absent" in reasons(check("mul", {"Tensor.mul": None}), "variants")


def test_containers_and_field_names_count():
    assert "tuple expected, got list" in reasons(check("split", {"split": changed(torch.split, list)}), "forward")
    plain = reasons(check("topk", {"topk": changed(torch.topk, tuple)}), "forward")
    assert "fields values, indices expected, got a plain tuple" in plain


def test_a_more_exact_result_is_no_miss_and_a_less_exact_one_is():
    def digamma(off):
        def function(x, **out):
            return torch.digamma(x.double()).float() + off if x.dtype == torch.float32 else torch.digamma(x, **out)

        return function

    exact, coarse = {"digamma": digamma(0.0)}, {"digamma": digamma(1e-3)}
    assert "forward" not in check("digamma", exact, Plan()).missed()
    assert "forward" in check("digamma", coarse, Plan()).missed()
    assert further_off(np.array([1.0]), np.array([1.1]), np.array([1.3]), (1e-5, 1e-6))
    assert not further_off(np.array([1.0]), np.array([1.1]), np.array([0.9]), (1e-5, 1e-6))
    assert further_off(np.array([1.0]), np.array([np.inf]), np.array([np.nan]), (1e-5, 1e-6))
    assert not further_off(np.array([1.0]), np.array([np.nan]), np.array([1.0]), (1e-5, 1e-6))
    assert further_off(np.array([1.0]), np.array([np.nan]), np.array([1.1]), (1e-5, 1e-6))
    assert further_off(np.array([np.nan]), np.array([np.nan]), np.array([1.0]), (1e-5, 1e-6))


def resorted(step):
    """torch.sort whose equal elements come in the opposite order, with every index then moved by `step`."""

    def sort(x, dim=-1, descending=False, **rest):
        if x.dim() == 0 or rest:  # stable=True leaves no freedom
            return torch.sort(x, dim=dim, descending=descending, **rest)
        turned = torch.sort(x.flip(dim), dim=dim, descending=descending, stable=True)
        place = (x.shape[dim] - 1 - turned.indices + step) % max(x.shape[dim], 1)
        return torch.return_types.sort((x.gather(dim, (place - step) % max(x.shape[dim], 1)), place))

    return sort


def test_equal_elements_may_come_in_any_order_but_not_other_elements():
    plan = Plan(("forward", "backward", "double_backward", "forward_mode"))
    freely = [miss for stage in check("sort", {"sort": resorted(0)}, plan).stages.values() for miss in stage.misses]
    assert freely == []
    assert "forward" in check("sort", {"sort": resorted(1)}, plan).missed()
    swapped = changed(
        torch.topk, lambda r: torch.return_types.topk((r.values, r.indices.flip(-1) if r.indices.dim() else r.indices))
    )
    assert "forward" in check("topk", {"topk": swapped}, plan).missed()


def test_float32_gradients_are_judged_by_float64_where_pytorch_is_off():
    class Better(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return torch.digamma(x)

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return (grad.double() * torch.polygamma(1, x.double())).to(x.dtype)

    plan = Plan(("backward",))
    better = {"digamma": lambda x: Better.apply(x) if x.dtype == torch.float32 else torch.digamma(x)}
    assert check("digamma", better, plan).missed() == []
    off = {"digamma": lambda x: torch.digamma(x) + 1e-2 * (x - x.detach()) * (x.dtype == torch.float32)}
    assert check("digamma", off, plan).missed() == ["backward"]


def test_another_random_stream_is_a_miss():
    def dropout(x, *args, **kwargs):
        torch.rand(1)
        return torch.nn.functional.dropout(x, *args, **kwargs)

    assert "forward" in check("nn.functional.dropout", {"nn.functional.dropout": dropout}, Plan()).missed()


def test_defects_of_one_dtype_or_layout_are_found():
    def of_bfloat16(x, *args, **kwargs):
        return torch.cumsum(x, *args, **kwargs) + (1 if x.dtype == torch.bfloat16 else 0)

    def of_strides(x, *args, **kwargs):
        return torch.cumsum(x, *args, **kwargs) + (0 if x.is_contiguous() else 1)

    wheres = [
        [miss["where"] for miss in check("cumsum", {"cumsum": defect}, Plan()).stages["forward"].misses]
        for defect in (of_bfloat16, of_strides)
    ]
    assert wheres[0] and all(where.startswith("bfloat16") for where in wheres[0])
    assert wheres[1] and all("non-contiguous" in where for where in wheres[1])


def test_other_strides_are_only_noted():
    result = check(
        "add", {"add": changed(torch.add, lambda r: r.mT.contiguous().mT if r.ndim > 1 and r.shape[-1] > 1 else r)}
    )
    assert "forward" not in result.missed()
    assert result.strides["different"] > 0 and any("strides" in note for note in result.notes)


@pytest.mark.parametrize(
    "name, missing",
    [
        ("add", "add"),
        ("nn.functional.relu", "nn.functional.relu"),
        ("expand", "Tensor.expand"),
        ("randn", "randn"),
        ("where", "where"),
        ("nn.Linear", "nn.Linear"),
        ("SGD", "optim.SGD"),
    ],
)
def test_what_the_candidate_lacks_is_absent_and_no_miss(name, missing):
    result = check(name, {missing: None})
    assert (result.status, result.absent, result.missed()) == (ABSENT, missing, [])


@pytest.mark.parametrize(
    "dtypes, status, missed",
    [
        ((torch.bfloat16,), PRESENT, ["forward", "backward", "inplace", "out"]),
        (tuple(vars(torch)[name] for name in SAMPLES), ABSENT, []),
    ],
)
def test_a_function_without_its_operator_is_absent_if_it_never_works(dtypes, status, missed):
    def cumsum(x, *args, **kwargs):
        if x.dtype in dtypes:
            raise NotImplementedError("this library has no operator 'running_total' yet")
        return torch.cumsum(x, *args, **kwargs)

    result = check("cumsum", {"cumsum": cumsum, "Tensor.cumsum_": cumsum})
    assert (result.status, result.missed()) == (status, missed)
    assert missed == [] or "needs running_total, which is absent" in reasons(result, "backward")


def test_an_attribute_error_of_its_own_is_a_miss():
    result = check("cumsum", {"cumsum": lambda x, *args, **kwargs: x.no_such_attribute})
    assert result.status == PRESENT and "raises AttributeError" in reasons(result, "forward")


def test_a_lacking_in_place_variant_is_a_miss():
    assert check("add", {"Tensor.add_": None}).missed() == ["inplace"]


class OtherStart(torch.nn.Linear):
    def reset_parameters(self):
        super().reset_parameters()
        torch.nn.init.zeros_(self.weight)


class OtherOutput(torch.nn.Linear):
    def forward(self, input):
        return super().forward(input) * 2


class OtherStatistics(torch.nn.BatchNorm1d):
    def forward(self, input):
        result = super().forward(input)
        if self.running_mean is not None:
            self.running_mean += 1
        return result


class OtherStep(torch.optim.SGD):
    def step(self, closure=None):
        super().step()
        with torch.no_grad():
            self.param_groups[0]["params"][0].mul_(1.001)


@pytest.mark.parametrize(
    "name, path, defect, stages",
    [
        ("nn.Linear", "nn.Linear", OtherStart, ["init"]),
        ("nn.Linear", "nn.Linear", OtherOutput, ["forward", "backward", "double_backward"]),
        ("SGD", "optim.SGD", OtherStep, ["step", "state"]),
    ],
)
def test_defects_of_modules_and_optimizers(name, path, defect, stages):
    assert check(name, {path: defect}).missed() == stages


def test_a_wrong_running_statistic_is_a_state_miss():
    assert "state" in check("nn.BatchNorm1d", {"nn.BatchNorm1d": OtherStatistics}).missed()


def test_samples_are_spread_evenly():
    assert spread(3, 8) == [0, 1, 2]
    assert spread(9, 3) == [0, 4, 8]
    assert np.all(np.diff(spread(60, 8)) > 0)
