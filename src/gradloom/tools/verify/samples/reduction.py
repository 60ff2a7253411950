"""Samples of reductions: zero to three dimensions, each way of naming dimensions, ties and zeros."""

from __future__ import annotations

import gradloom

from . import tensor, transposed

INF = float("inf")


def everything(*args, complex=True, **kwargs):
    """Over all elements: a matrix, a 0-dim tensor, one that is not contiguous."""

    def samples():
        for x in (tensor(2, 3), tensor(), transposed(3, 2), *((tensor(2, 2, complex=True),) if complex else ())):
            yield (x, *args), kwargs

    return samples


def along_dims(*before, optional=True, complex=True, last=(), **kwargs):
    """Over an `int[]? dim`: one, several, all, negative, with keepdim."""

    def samples():
        x = tensor(2, 3)
        yield (x, *before, (0,), *last), kwargs
        yield (x, *before, (-1,), *last, True), kwargs
        yield (tensor(2, 3, 2), *before, (0, 2), *last), kwargs
        yield (transposed(3, 2), *before, (), *last), kwargs
        if optional:
            yield (x, *before, None, *last, True), kwargs
        yield (tensor(), *before, (0,), *last), kwargs
        if complex:
            yield (tensor(3, 2, complex=True), *before, (0,), *last), kwargs

    return samples


def along_dim(*before, complex=False, keepdim=True, low=0.3, **kwargs):
    """Along an `int dim`: each one, negative, with keepdim, of a 0-dim tensor."""

    def samples():
        yield (tensor(3, 2, low=low), *before, 0), kwargs
        yield (transposed(3, 2), *before, 1), kwargs
        yield (tensor(), *before, 0), kwargs
        if keepdim:
            yield (tensor(3, 2), *before, -1, True), kwargs
        if complex:
            yield (tensor(2, 2, complex=True), *before, 1), kwargs

    return samples


def by_keyword(complex=True, **kwargs):
    """With dim and keepdim, for operators whose other arguments are keyword-only."""

    def samples():
        for dim, keepdim in ((None, False), ((0,), True), ((0, -1), False)):
            yield (tensor(2, 3), dim), {**kwargs, "keepdim": keepdim}
        if complex:
            yield (tensor(3, complex=True), (0,)), {**kwargs, "keepdim": False}

    return samples


def with_unbiased():
    yield (tensor(2, 3), False), {}
    yield (tensor(2, 3), True), {}


def dim_with_unbiased():
    yield (tensor(2, 3), (1,), False, True), {}
    yield (tensor(2, 3), None, True), {}


def corrected():
    yield from by_keyword(correction=None)()
    yield (tensor(4), (0,)), {"correction": 2}
    yield (tensor(4), (0,)), {"correction": 0.5}


def products():
    """With no, one and two zeros, for which derivatives of all orders differ."""
    for zeros in range(3):
        x = tensor(4)
        x._array[:zeros] = 0
        yield (x,), {}
    yield (tensor(2, 2),), {}
    yield (tensor(),), {}
    yield (tensor(3, complex=True),), {}


def products_along_dim():
    for zeros in range(3):
        x = tensor(3, 2)
        x._array[:zeros, 0] = 0
        yield (x, 0), {}
    yield (tensor(2, 2), -1, True), {}


def running_products():
    for zeros in range(3):
        x = tensor(4)
        x._array[1 : 1 + zeros] = 0
        yield (x, 0), {}
    yield (tensor(2, 2, complex=True), 1), {}


def norms(*rest, **kwargs):
    def samples():
        for p in (0, 0.5, 1, 1.5, 2, 3, INF, -INF):
            yield (tensor(2, 3), p, *rest), kwargs
        if not kwargs:
            for p in (1.5, 2, 3):
                yield (tensor(3, complex=True), p, *rest), kwargs

    return samples


def norms_of_type():
    for keepdim in (False, True):
        yield (tensor(2, 3), 3, (0,), keepdim), {"dtype": gradloom.float64}


def nansums():
    yield from along_dims(complex=False)()
    yield (gradloom.tensor([[0.5, float("nan"), 1.5], [2.0, 1.0, 0.7]], dtype=gradloom.float64), (1,)), {}


def vector_norms():
    yield from norms(None)()
    yield (tensor(2, 3), 3, (0,), True), {}
    yield (tensor(3, 3), 2, (1,)), {}
    yield (tensor(3, 3), 2, (1,), True), {}
    yield (tensor(2, 3, 2), 2, (0, -1)), {}
    yield (tensor(2, 3), 2, (0,)), {"dtype": gradloom.float64}


def distances():
    for p in (0, 0.5, 1, 1.5, 2, 3, INF):
        yield (tensor(2, 3), tensor(3, seed=1), p), {}


def row_distances(*rest):
    def samples():
        for p in (1.0, 1.5, 2.0, 3.0, INF):
            yield (tensor(3, 2), tensor(4, 2, seed=1, low=2, high=3), p, *rest), {}
        yield (tensor(2, 1, 2), tensor(2, 3, 2, seed=1, low=2, high=3), 2.0, *rest), {}
        yield (tensor(27, 1), tensor(2, 1, seed=1, low=2, high=3), 2.0, *rest), {}

    return samples


def euclidean_distances():
    yield (tensor(3, 2), tensor(4, 2, seed=1, low=2, high=3)), {}
    yield (tensor(2, 3, 2), tensor(2, 4, 2, seed=1, low=2, high=3)), {}


def renormed():
    for p in (1, 1.5, 2, 3):
        yield (tensor(3, 2), p, 0, 1.2), {}
    yield (tensor(2, 2, 2), 2, -1, 1), {}


def differences():
    yield (tensor(4),), {}
    yield (tensor(4, 3), 2, 0), {}
    yield (tensor(3, 2), 1, -1, tensor(3, 1, seed=1), tensor(3, 2, seed=2)), {}


def integrals_over_points():
    yield (tensor(4), tensor(4, seed=1)), {}
    yield (tensor(3, 2), tensor(3, seed=1)), {"dim": 0}
    yield (tensor(3, 2), tensor(2, seed=1)), {}
    yield (tensor(2, 3), tensor(2, 3, seed=1)), {}


def integrals():
    yield (tensor(4),), {}
    yield (tensor(3, 2),), {"dx": 0.5, "dim": 0}


def quantiles(scalar):
    def samples():
        for q in (0.3, 0.6):
            for interpolation in ("linear", "midpoint", "lower", "higher", "nearest"):
                point = q if scalar else gradloom.tensor(q, dtype=gradloom.float64)
                yield (tensor(4), point), {"interpolation": interpolation}
        point = 0.4 if scalar else gradloom.tensor([0.2, 0.9], dtype=gradloom.float64)
        yield (tensor(3, 4), point, 0, True), {}

    return samples


def quantiles_where_defined(scalar):
    def samples():
        point = 0.4 if scalar else gradloom.tensor([0.2, 0.9], dtype=gradloom.float64)
        yield (tensor(3, 4), point, 1), {}

    return samples


def without_nan(*args):
    def samples():
        yield (tensor(2, 3), *args), {}
        yield (tensor(2, 3), (0,), True), {}

    return samples


def selected():
    """Indices along a dimension, and a gradient for each."""
    yield (tensor(2), 1, gradloom.tensor([2, 0]), (2, 3), False), {}
    yield (tensor(1, 3), 0, gradloom.tensor([[1, 0, 1]]), (2, 3), True), {}
    yield (tensor(), 0, gradloom.tensor(0), (), False), {}


def counted():
    yield (gradloom.tensor([1, 0, 3, 1]),), {}
    yield (gradloom.tensor([1, 0, 3, 1]), tensor(4), 6), {}


def covariances():
    yield (tensor(2, 4),), {}
    yield (tensor(4),), {"correction": 0}
    yield (tensor(2, 3),), {"fweights": gradloom.tensor([1, 2, 1]), "aweights": tensor(3, seed=1)}
    yield (tensor(2, 3, complex=True),), {}


def correlations():
    yield (tensor(3, 4),), {}
    yield (tensor(2, 3, complex=True),), {}


def slopes(**kwargs):
    """With one spacing for all dimensions or one for each."""

    def samples():
        yield (tensor(3, 4),), {**kwargs}
        yield (tensor(4, 3),), {**kwargs, "edge_order": 2}

    return samples


def slopes_of_points(**kwargs):
    def samples():
        yield (tensor(4, 2),), {**kwargs, "spacing": [tensor(4, seed=1).sort()[0].detach()]}
        yield (tensor(3, 2),), {**kwargs, "spacing": [tensor(3, seed=1).sort()[0].detach()], "edge_order": 2}

    return samples


def histograms():
    yield (tensor(5), 3), {"range": (0.0, 2.0), "weight": tensor(5, seed=1), "density": True}
    yield (tensor(5), 3), {}


def histograms_of_bins():
    yield (tensor(5), gradloom.tensor([0.0, 1.0, 3.0], dtype=gradloom.float64)), {}


def grids(bins):
    def samples():
        yield (tensor(5, 2), bins), {}

    return samples


def truths():
    for values in ([[True, False], [True, True]], [False], []):
        yield (gradloom.tensor(values, dtype=gradloom.bool),), {}


def running_extrema_backward():
    for dim in (0, -1):
        yield (tensor(3, 2, seed=1), tensor(3, 2), tensor(3, 2).cummax(dim)[1], dim), {}


def ranked():
    for k, dim, keepdim in ((1, 0, False), (2, -1, True)):
        yield (tensor(3, 3), k, dim, keepdim), {}


def traced():
    yield (tensor(3, 2),), {}
    yield (tensor(2, 2, complex=True),), {}


def extrema_by_keyword():
    yield (tensor(2, 3),), {"dim": None, "keepdim": False}
    yield (tensor(2, 3),), {"dim": 1, "keepdim": True}


def nonzero_dims():
    yield (tensor(2, 3), (0,)), {}
    yield (tensor(2, 3), (0, 1)), {}


def pairs():
    """Rows and norms; the maximum norm has a kink where two differences are equal."""
    for p in (2.0, 0.0, 1.0, 1.5, 3.0, float("inf")):
        yield (tensor(4, 3).exp() if p == float("inf") else tensor(4, 3), p), {}


def segments():
    lengths, offsets = gradloom.tensor([2, 0, 3]), gradloom.tensor([0, 1, 5])
    for kind in ("sum", "mean", "max", "min", "prod"):
        yield (tensor(5, 2), kind), {"lengths": lengths, "initial": 1}
        yield (tensor(5), kind), {"offsets": offsets}
        rows = gradloom.tensor([[1, 2], [3, 0]])
        yield (tensor(2, 3, 2), kind), {"lengths": rows, "axis": 1, "initial": 2}
    yield (tensor(5), "sum"), {"lengths": gradloom.tensor([1, 2]), "unsafe": True}
    for zeros in (1, 2):
        x = tensor(5)
        x._array[2 : 2 + zeros] = 0
        yield (x, "prod"), {"lengths": lengths, "initial": 2}


SAMPLES = {
    "sum": everything(),
    "mean": everything(),
    "max": everything(complex=False),
    "min": everything(complex=False),
    "all": everything(),
    "any": everything(),
    "median": everything(complex=False),
    "nanmedian": everything(complex=False),
    "sum.dim_IntList": along_dims(),
    "mean.dim": along_dims(),
    "nansum": nansums,
    "nanmean": without_nan(),
    "amax": along_dims(optional=False, complex=False),
    "amin": along_dims(optional=False, complex=False),
    "logsumexp": along_dims(optional=False),
    "special_logsumexp": along_dims(optional=False),
    "frobenius_norm.dim": along_dims(optional=False),
    "norm.ScalarOpt_dim": along_dims(3, optional=False),
    "norm.ScalarOpt_dim_dtype": norms_of_type,
    "all.dims": along_dims(),
    "any.dims": along_dims(),
    "all.dim": along_dim(),
    "any.dim": along_dim(),
    "max.dim": along_dim(),
    "min.dim": along_dim(),
    "median.dim": along_dim(),
    "nanmedian.dim": along_dim(),
    "argmax": along_dim(),
    "argmin": along_dim(),
    "mode": along_dim(),
    "count_nonzero": along_dim(keepdim=False),
    "count_nonzero.dim_IntList": nonzero_dims,
    "kthvalue": ranked,
    "aminmax": extrema_by_keyword,
    "cumsum": along_dim(complex=True, keepdim=False),
    "cumprod": running_products,
    "cummax": along_dim(keepdim=False),
    "cummin": along_dim(keepdim=False),
    "cummaxmin_backward": running_extrema_backward,
    "_is_all_true": truths,
    "_is_any_true": truths,
    "logcumsumexp": along_dim(complex=True, keepdim=False),
    "prod": products,
    "prod.dim_int": products_along_dim,
    "var": with_unbiased,
    "std": with_unbiased,
    "var_mean": with_unbiased,
    "std_mean": with_unbiased,
    "var.dim": dim_with_unbiased,
    "std.dim": dim_with_unbiased,
    "var_mean.dim": dim_with_unbiased,
    "std_mean.dim": dim_with_unbiased,
    "var.correction": corrected,
    "std.correction": corrected,
    "var_mean.correction": corrected,
    "std_mean.correction": corrected,
    "norm.Scalar": norms(),
    "norm.ScalarOpt_dtype": norms(dtype=gradloom.float64),
    "linalg_vector_norm": vector_norms,
    "dist": distances,
    "cdist": row_distances(),
    "pdist": pairs,
    "_pdist_forward": pairs,
    "_cdist_forward": row_distances(None),
    "_euclidean_dist": euclidean_distances,
    "segment_reduce": segments,
    "renorm": renormed,
    "trace": traced,
    "diff": differences,
    "trapezoid.x": integrals_over_points,
    "trapz.x": integrals_over_points,
    "cumulative_trapezoid.x": integrals_over_points,
    "trapezoid.dx": integrals,
    "trapz.dx": integrals,
    "cumulative_trapezoid.dx": integrals,
    "quantile": quantiles(False),
    "quantile.scalar": quantiles(True),
    "nanquantile": quantiles_where_defined(False),
    "nanquantile.scalar": quantiles_where_defined(True),
    "cov": covariances,
    "corrcoef": correlations,
    "gradient.scalarint": slopes(spacing=2),
    "gradient.scalararray": slopes(spacing=0.5, dim=[1, 0]),
    "gradient.array": slopes(dim=[-1]),
    "gradient.scalarrayint": slopes(spacing=[2], dim=1),
    "gradient.scalarrayarray": slopes(spacing=[2, 0.5], dim=[0, 1]),
    "gradient.tensorarrayint": slopes_of_points(dim=0),
    "gradient.tensorarray": slopes_of_points(dim=[0]),
    "histogram.bin_ct": histograms,
    "histogram.bins_tensor": histograms_of_bins,
    "histogramdd": grids((2, 3)),
    "histogramdd.int_bins": grids(2),
    "histogramdd.TensorList_bins": grids([gradloom.tensor([0.0, 1, 2], dtype=gradloom.float64)] * 2),
    "bincount": counted,
    "value_selecting_reduction_backward": selected,
}

# The sizes, the dimension and the indices belong together.
FIXED = {"value_selecting_reduction_backward": ("grad", "dim", "indices", "sizes", "keepdim")}
