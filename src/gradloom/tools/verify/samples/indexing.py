"""Samples of indexing operators: repeated, empty and 0-dim indices, and masks that broadcast."""

from __future__ import annotations

import numpy as np

import gradloom

from . import calls, integers

DOUBLE = gradloom.float64


def tensor(values, dtype=DOUBLE):
    return gradloom.tensor(values, dtype=dtype)


def matrix(rows=3, columns=4, start=0.3):
    return gradloom.from_numpy(np.arange(rows * columns, dtype=float).reshape(rows, columns) * 0.7 - start)


X, Y, NUMBER = matrix(), matrix(3, 4, 4.1), tensor(1.7)
TURNED = gradloom.from_numpy(np.arange(12.0).reshape(4, 3).T)
EMPTY = gradloom.empty(0, 4, dtype=DOUBLE)
COMPLEX = gradloom.from_numpy(np.arange(12).reshape(3, 4) * (0.5 + 0.2j))
SCALAR, PLACE = tensor(2.3), gradloom.tensor(0)
REPEATED, FEW, NONE = integers(0, 2, 2, 1), integers(0, 2), gradloom.empty(0, dtype=gradloom.int64)
GRID = gradloom.tensor([[0, 1, 2, 0], [2, 1, 0, 0]])
WIDE = gradloom.tensor([[0, 3, 3], [1, 1, 1], [2, 0, 0]])
MASK = gradloom.tensor([[True, False, True, False], [False, False, True, True], [True, True, False, False]])
ROW = gradloom.tensor([True, False, False, True])
COLUMN = gradloom.tensor([[True], [False], [True]])
PARTS, SOURCE = matrix(2, 4, 1.9), matrix(2, 4, 3.3)
CUBE = gradloom.from_numpy(np.arange(24.0).reshape(2, 3, 4) * 0.3 - 2)

_GATHERED = (
    (X, 0, GRID),
    (X, 1, WIDE),
    (TURNED, -1, WIDE),
    (SCALAR, 0, PLACE),
    (X, 0, NONE.reshape(0, 4)),
    (COMPLEX, 0, GRID),
)
_SCATTERED = (
    (X, 0, GRID, PARTS),
    (X, 1, WIDE, matrix(3, 3)),
    (TURNED, 0, GRID, PARTS),
    (SCALAR, 0, PLACE, NUMBER),
    (COMPLEX, 1, WIDE, matrix(3, 3) * 1j),
)
_SCATTERED_ONCE = (
    (X, 0, gradloom.tensor([[0, 1, 2, 0], [2, 2, 0, 1]]), PARTS),
    (TURNED, 1, gradloom.tensor([[3, 0], [1, 2]]), matrix(2, 2)),
    (SCALAR, 0, PLACE, NUMBER),
)
_INDICES = (
    (X, (REPEATED,)),
    (X, (None, REPEATED[:3])),
    (X, (FEW, FEW)),
    (TURNED, (FEW,)),
    (X, (NONE,)),
    (CUBE, (integers(0, 1, 1), None, integers(0, 2, 0))),
    (CUBE, (None, GRID[:, :2])),
    (X, (MASK,)),
    (X, (None, ROW)),
    (COMPLEX, (REPEATED,)),
    (CUBE, (gradloom.tensor([[0], [1]]), integers(0, 2, 1))),
    (CUBE, (None, integers(0, 2), REPEATED[:2])),
)


_SENT = ((X, 0, GRID, PARTS), (SCALAR, 0, PLACE, NUMBER))
_ROWS_SENT = ((X, 0, FEW, PARTS), (X, 1, integers(3, 0, 0), matrix(3, 3, 1.05)))


def _reductions(name):
    def found():
        for reduce in ("sum", "mean", "prod", "amax", "amin")[0 if name == "scatter" else 1 :]:
            for include_self in (True, False):
                for x, dim, index, source in _SENT if name == "scatter" else _ROWS_SENT:
                    yield (x, dim, index, source, reduce), {"include_self": include_self}
        zero = gradloom.where(PARTS == PARTS.min(), 0, PARTS)  # the product of the others is its derivative
        yield (X, 0, GRID if name == "scatter" else FEW, zero, "prod"), {}

    return found


def _bags(*paddings):
    """Sums, weighted sums, means and maxima of bags, one of them empty."""

    def found():
        indices, offsets, ends = integers(0, 2, 2, 1, 0), integers(0, 2, 2, 4), integers(0, 2, 5)
        factors = tensor([0.3, -1.2, 0.8, 1.5, 0.4])
        for padding in paddings:
            for mode in range(3):
                yield (X, indices, offsets, False, mode, False, None, False, *padding), {}
            yield (X, indices, ends, False, 1, False, None, True, *padding), {}
            yield (X, indices, offsets, False, 0, False, factors, False, *padding), {}

    return found


def _put(samples):
    """Each sample of `index` with values to write, also broadcast ones; without repeated places."""

    def found():
        for x, indices in (s for s in samples if s[1][0] is not REPEATED):
            shape = gradloom.dispatch._operators.index(x, indices).shape
            values = gradloom.from_numpy(np.arange(float(np.prod(shape))).reshape(shape) * 0.1).to(x.dtype)
            yield (x, indices, values, True), {}
        yield (X, (FEW,), PARTS), {}
        yield (X, (FEW,), PARTS[0]), {}
        yield (X, (REPEATED,), PARTS[:1], True), {}
        yield (X, (MASK,), NUMBER), {}
        yield (X, (None, ROW), matrix(3, 2)), {}

    return found


SAMPLES = {
    "masked_fill.Scalar": calls((X, MASK, 0.5), (X, ROW, -1), (X, COLUMN, 2), (SCALAR, MASK, 1), (COMPLEX, MASK, 1j)),
    "masked_fill.Tensor": calls((X, MASK, NUMBER), (X, ROW, NUMBER), (SCALAR, MASK, NUMBER)),
    "index.Tensor": calls(*_INDICES),
    "index_put": _put(_INDICES),
    "index_put_": calls((X, (FEW,), PARTS), (X, (MASK,), NUMBER), (X, (REPEATED,), PARTS[:1], True)),
    "_index_put_impl_": calls((X, (FEW,), PARTS), (X, (REPEATED,), PARTS[:1], True)),
    "index_add": calls(
        (X, 0, FEW, PARTS),
        (X, 0, REPEATED, matrix(4, 4)),
        (TURNED, 1, FEW, matrix(3, 2), {"alpha": 2.5}),
        (SCALAR, 0, PLACE, NUMBER),
        (matrix(3, 400), 0, REPEATED, matrix(4, 400)),
    ),
    "index_copy": calls((X, 0, FEW, PARTS), (TURNED, 1, FEW, matrix(3, 2)), (SCALAR, 0, PLACE, NUMBER)),
    "index_fill.int_Scalar": calls((X, 0, FEW, 0.5), (TURNED, 1, integers(-1, 0), 1), (SCALAR, 0, PLACE, 2)),
    "index_fill.int_Tensor": calls(
        (X, 0, FEW, NUMBER), (TURNED, 1, integers(-1, 0, 0), NUMBER), (SCALAR, 0, PLACE, NUMBER)
    ),
    "index_reduce": _reductions("index"),
    "index_select": calls((X, 0, REPEATED), (TURNED, 1, FEW), (X, 1, NONE), (SCALAR, 0, PLACE), (EMPTY, 1, FEW)),
    "masked_scatter": calls((X, MASK, matrix(2, 4)), (X, ROW, matrix(2, 4)), (SCALAR, MASK, matrix(2, 4))),
    "masked_scatter_backward": calls((X, MASK, (2, 4)), (X, ROW, (6,))),
    "masked_select": calls((X, MASK), (X, ROW), (TURNED, COLUMN), (SCALAR, MASK), (X, gradloom.tensor(False))),
    "put": calls(
        (X, integers(0, 5, -1), tensor([1.0, 2, 3])),
        (X, integers(0, 5, -1), tensor([[1.0, 2, 3]])),
        (TURNED, integers(0, 5, 5), tensor([1.0, 2, 3]), True),
        (SCALAR, PLACE, NUMBER),
    ),
    "take": calls((X, GRID), (TURNED, integers(0, 11, -1, 0)), (SCALAR, PLACE), (X, NONE)),
    "take_along_dim": calls((X, GRID, 0), (X, WIDE, 1), (X, GRID), (X, integers(0, 2).reshape(1, 2), 1)),
    "gather": calls(*_GATHERED),
    "scatter.src": calls(*_SCATTERED_ONCE),
    "scatter.value": calls((X, 0, GRID, 0.5), (TURNED, 1, WIDE, 2), (SCALAR, 0, PLACE, 1)),
    "scatter.reduce": calls((X.int(), 0, GRID, PARTS.int(), {"reduce": "add"})),
    "scatter.value_reduce": calls((X.int(), 0, GRID, 2, {"reduce": "multiply"})),
    "scatter_add": calls(*_SCATTERED),
    "scatter_reduce.two": _reductions("scatter"),
    "nonzero": calls((X,), (SCALAR,), (EMPTY,), (MASK,)),
    "embedding": calls((X, REPEATED), (X, GRID), (X, PLACE), (X, NONE), (X, integers(0, 2, 1), -1)),
    "embedding_backward": calls((PARTS, FEW, 3, -1, False, False)),
    "embedding_dense_backward": calls(
        (PARTS, FEW, 3, -1, False), (matrix(4, 2), REPEATED, 3, 2, False), (matrix(4, 400), REPEATED, 3, -1, False)
    ),
    "embedding_renorm_": calls((X.detach(), FEW, 1.0, 2.0)),
    "_unsafe_index.Tensor": calls(*_INDICES[:3]),
    "_unsafe_masked_index": calls(
        (X, ROW, (integers(0, 9, 0, 2), integers(0, 1, 7, 3)), 0.5), (X, ROW, (REPEATED,), 1)
    ),
    "_unsafe_masked_index_put_accumulate": calls(
        (X, ROW, (integers(0, 9, 0, 2), integers(0, 1, 7, 3)), tensor([1.0, 2, 3, 4]))
    ),
    "_unsafe_index_put": calls((X, (FEW,), PARTS), (X, (REPEATED,), PARTS[:1], True)),
    "embedding_bag": _bags(()),
    "embedding_bag.padding_idx": _bags((None,), (2,), (-1,)),
    "_embedding_bag": _bags((), (2,)),
    "one_hot": calls((REPEATED,), (GRID, 5)),
    "nonzero_static": calls((X, {"size": 3}), (MASK, {"size": 20, "fill_value": 7})),
    "nonzero_numpy": calls((X,), (SCALAR,)),
    "argwhere": calls((X,), (SCALAR,)),
    "searchsorted.Tensor": calls(
        (X, Y), (X[0], Y), (X[0], NUMBER, {"right": True}), (X[0], Y, {"sorter": integers(0, 1, 2, 3)})
    ),
    "searchsorted.Scalar": calls((X[0], 1.2), (X[0], 0.4, {"side": "right", "out_int32": True})),
    "bucketize.Tensor": calls((Y, X[0]), (NUMBER, X[0], {"right": True})),
    "bucketize.Scalar": calls((1.2, X[0])),
    "_convert_indices_from_coo_to_csr": calls(
        (integers(0, 0, 1, 3), 5), (integers(2, 2), 3, {"out_int32": True}), (NONE, 2)
    ),
    "_convert_indices_from_csr_to_coo": calls(
        (integers(0, 2, 3, 3, 4), integers(1, 2, 0, 1)),
        (integers(0, 0, 2), integers(3, 0), {"out_int32": True, "transpose": True}),
        (gradloom.tensor([[0, 1, 2], [0, 0, 2]]), gradloom.tensor([[1, 0], [0, 2]])),
    ),
    "isin.Tensor_Tensor": calls((X, Y), (GRID, FEW, {"invert": True})),
    "isin.Tensor_Scalar": calls((GRID, 2)),
    "isin.Scalar_Tensor": calls((2, GRID)),
}

# In-place operators with a kernel of their own: the samples of the functional ones that keep the shape.
for _name in """
    masked_fill.Scalar masked_fill.Tensor index_add index_copy index_fill.int_Scalar index_fill.int_Tensor
    index_reduce masked_scatter put scatter.src scatter.value scatter.reduce scatter.value_reduce scatter_add
    scatter_reduce.two
    """.split():
    _base, _dot, _overload = _name.partition(".")
    SAMPLES[f"{_base}_{_dot}{_overload}"] = lambda found=SAMPLES[_name]: (
        s for s in found() if s[0][0] is not SCALAR or s[0][1] is not MASK
    )

# Where several indices name one element, what is written last counts: those of the samples differ. The gradient of
# embeddings leaves `padding_idx` out and is divided by frequencies, though the result is not.
FIXED = {
    **dict.fromkeys(
        ("_unsafe_index_put", "index_put", "index_put_", "_index_put_impl_"), ("accumulate", "indices", "values")
    ),
    **dict.fromkeys(("scatter.src", "scatter_.src"), ("dim", "index")),
    **dict.fromkeys(("put", "put_"), ("accumulate", "index")),
    "_unsafe_masked_index_put_accumulate": ("mask", "values"),
    **dict.fromkeys(
        ("embedding", "embedding_bag", "embedding_bag.padding_idx", "_embedding_bag"),
        ("padding_idx", "scale_grad_by_freq", "sparse"),
    ),
}
