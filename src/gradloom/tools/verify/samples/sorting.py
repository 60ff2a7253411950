"""Samples of the sorting operators. Values differ, so that their order does not change under finite differences."""

from __future__ import annotations

import gradloom

from . import tensor, transposed


def in_order(**kwargs):
    """Along each dimension, in both orders, of a 0-dim tensor."""

    def samples():
        yield (tensor(3, 4),), dict(kwargs)
        if kwargs:
            yield (transposed(3, 2),), {**kwargs, "dim": 0, "descending": True}
        else:
            yield (transposed(3, 2), 0, True), {}
        yield (tensor(),), dict(kwargs)

    return samples


def by_rows():
    yield (tensor(3, 2),), {}
    yield (tensor(4),), {}


def greatest():
    yield (tensor(5), 3), {}
    yield (tensor(3, 4), 2, 0, False), {}
    yield (tensor(2, 3), 0), {}
    yield (tensor(300), 4), {}
    yield (tensor(), 1), {}


def whole_numbers(*rest):
    """Integers, since unique elements have no derivative."""

    def samples():
        yield (gradloom.tensor([3, 1, 1, 2]), *rest), {}
        yield (gradloom.tensor([[3, 1, 1], [3, 1, 1], [0, 1, 2]]), *rest), {}

    return samples


SAMPLES = {
    "sort": in_order(),
    "sort.stable": in_order(stable=True),
    "argsort": in_order(),
    "argsort.stable": in_order(stable=True),
    "msort": by_rows,
    "topk": greatest,
    "_unique": whole_numbers(True, True),
    "_unique2": whole_numbers(True, True, True),
    "unique_dim": whole_numbers(0, True, True, True),
    "unique_consecutive": whole_numbers(True, True),
    "unique_dim_consecutive": whole_numbers(-1, True, True),
}
