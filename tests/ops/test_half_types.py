"""Values and derivatives in float16, bfloat16 and float32 over their whole range, against float64 of the same inputs.

Tensors are rounded to the dtype first, so that float64 has the same inputs. Of a pointwise operator, magnitudes from
the smallest to the largest number are tried; of others, their samples times powers of two. What float64 gives must be
given where the dtype can hold it, up to a few roundings: nothing overflows or is lost on the way. `DEVIATE` lists
the operators that deviate, with the reason. GRADLOOM_ALL_SAMPLES=1 takes all operators, not one of thirty.
"""

from __future__ import annotations

import itertools
import os
import warnings
from collections.abc import Iterator

import numpy as np
import pytest

import gradloom
from gradloom.autograd import forward_ad
from gradloom.core.tensor import wrap
from gradloom.tools.verify import own_operators
from gradloom.tools.verify.case import Case, is_float
from gradloom.tools.verify.sampling import NoSamples, cases

ALL = os.environ.get("GRADLOOM_ALL_SAMPLES") == "1"
# dtype -> units in the last place that a formula of several steps may lose; the powers of two that others are scaled by
TYPES = {
    gradloom.float16: (16, (0, -8, 6)),
    gradloom.bfloat16: (16, (0, -40, 40)),
    gradloom.float32: (1024, (0, -40, 40)),
}
COUNTS = {1: 60, 2: 8, 3: 2}  # number of tensors of a pointwise operator -> magnitudes of each

# Reason -> operators.
REASONS = {
    "a number is rounded to the dtype first, as in PyTorch": "remainder.Scalar fmod.Scalar pow.Scalar",
    "the formula reads the rounded result, or the rounded result of a step": """
        tanh expm1 sigmoid rsqrt special_i0e special_i1e special_ndtri special_log_ndtr pow.Tensor_Tensor silu_backward
        softplus_backward log_sigmoid_backward igamma igammac sinc special_sinc digamma polygamma asinh""",
    "a step leaves the range where the whole does not": """
        ldexp.Tensor lerp.Tensor sigmoid_backward tanh_backward round.decimals special_zeta soft_margin_loss
        soft_margin_loss_backward binary_cross_entropy_backward prod prod.dim_int cumprod cholesky_inverse corrcoef
        gradient.tensorarrayint gradient.tensorarray cosine_embedding_loss mkldnn_rnn_layer
        _scaled_dot_product_flash_attention_for_cpu_backward""",
    "differences of squares or of neighbors keep no digits": "_euclidean_dist triplet_margin_loss",
    "the steps of a function of a matrix are rounded": "linalg_matrix_exp matrix_exp linalg_lu_solve lu_solve",
    "positions or random numbers of the dtype choose the elements": """
        fractional_max_pool2d fractional_max_pool3d grid_sampler grid_sampler_2d grid_sampler_2d_backward
        grid_sampler_3d grid_sampler_3d_backward""",
    "statistics are stored in the dtype": "native_group_norm group_norm _weight_norm_interface",
}
DEVIATE = {name: reason for reason, names in REASONS.items() for name in names.split()}


def magnitudes(dtype, count):
    info = gradloom.finfo(dtype)
    found = np.geomspace(info.smallest_normal * 2, info.max / 2, count)
    found = np.concatenate([found, [0.3, 1.0, 1.7]])
    return np.concatenate([found, -found])


def calls(case: Case, dtype) -> Iterator[Case]:
    """Yield calls with numbers over the range of a dtype."""
    places = case.floats
    if case.operator.is_pointwise and all(p.index is None for p in places):
        if len(places) in COUNTS:
            numbers = magnitudes(dtype, COUNTS[len(places)])
            arrays = [np.array(column) for column in zip(*itertools.product(numbers, repeat=len(places)), strict=True)]
            made = case.changed(lambda t: t if is_float(t) else wrap(np.resize(t._array, arrays[0].shape)), "")
            args, kwargs = made.with_inputs(tuple(map(wrap, arrays)), made.floats)
            yield Case(case.operator, tuple(args), kwargs, "magnitudes")
        return
    for power in TYPES[dtype][1]:
        yield case.changed(lambda t, power=power: t * 2.0**power if is_float(t) else t, f"times 2 ** {power}")


def vector(like):
    """Return a cotangent or tangent that every dtype holds."""
    return wrap(np.random.default_rng(3).integers(3, 9, like.shape) / 4).to(like.dtype)


def derivatives(case: Case) -> dict[str, gradloom.Tensor]:
    """Return the results, gradients and tangents of a call."""
    inputs = case.inputs()
    outputs = case.call(*inputs)
    found = {f"result {n}": o.detach() for n, o in enumerate(outputs)}
    kept = [o for o in outputs if o.requires_grad and o.dtype is inputs[0].dtype]
    if not kept:
        return found
    gradients = gradloom.autograd.grad(kept, inputs, [vector(o) for o in kept], allow_unused=True)
    found |= {f"gradient of {p}": g for p, g in zip(case.places, gradients, strict=True) if g is not None}
    info = case.operator.joined.info
    if case.operator.by_composition or info is None or info.forward:
        for i, place in enumerate(case.places):
            with forward_ad.dual_level():
                duals = [x.detach() for x in inputs]
                duals[i] = forward_ad.make_dual(duals[i], vector(duals[i]))
                for n, output in enumerate(case.call(*duals)):
                    tangent = forward_ad.unpack_dual(output).tangent
                    if tangent is not None and output.dtype is inputs[0].dtype:
                        found[f"tangent {n} for that of {place}"] = tangent
    return found


def deviations(case: Case, dtype) -> Iterator[str]:
    """Yield what differs from float64, or is lost; nothing where the operator does not take the dtype."""
    narrow = case.changed(lambda t: t.to(dtype) if is_float(t) else t, "")
    try:
        found = derivatives(narrow)
    except (NotImplementedError, RuntimeError):
        return
    info, units = gradloom.finfo(dtype), TYPES[dtype][0]
    for name, wide in derivatives(narrow.changed(lambda t: t.to(gradloom.float64) if is_float(t) else t, "")).items():
        a, b = found.get(name), wide._array
        if a is None or wide.dtype is not gradloom.float64 or a.dtype is not dtype:
            continue
        a = a.to(gradloom.float64)._array
        fits = np.isfinite(b) & (np.abs(b) < info.max * 0.9)
        size = np.abs(b) if case.operator.is_pointwise else np.abs(b[fits]).max(initial=0.0)
        wrong = fits & ~(np.abs(a - b) <= units * info.eps * size + 16 * info.smallest_normal)
        if wrong.any():
            yield f"{name}, {case.label}, {dtype}: {a[wrong][0]:.5g} for {b[wrong][0]:.5g}"


def swept(operator) -> list[str]:
    """Return how an operator deviates."""
    found: list[str] = []
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for case in cases(operator):
            places = case.floats
            if case.places and all(case.read(p).dtype is gradloom.float64 and case.read(p).numel() for p in places):
                return [d for dtype in TYPES for call in calls(case, dtype) for d in deviations(call, dtype)]
    return found


OPERATORS = [o for o in own_operators() if o.differentiable and o.schema.kind == "functional" and not o.is_random]


@pytest.mark.parametrize("operator", OPERATORS[:: 1 if ALL else 30], ids=lambda o: o.name)
def test_the_whole_range(operator):
    try:
        found = swept(operator)
    except NoSamples:
        return
    assert not found or operator.name in DEVIATE, "\n".join(found)
    assert not (ALL and not found and operator.name in DEVIATE), "no longer deviates: remove its row"
