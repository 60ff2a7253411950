"""Samples of products: matrices that are not square, transposed, empty and complex ones, and scaled sums."""

from __future__ import annotations

import gradloom

from . import tensor, transposed


def shapes(*cases, **kwargs):
    """One sample per tuple of shapes; the tensors of a sample differ."""

    def samples():
        for case in cases:
            yield tuple(tensor(*shape, seed=i) for i, shape in enumerate(case)), dict(kwargs)

    return samples


def complex_too(cases, **kwargs):
    def samples():
        yield from shapes(*cases, **kwargs)()
        yield tuple(tensor(*shape, seed=i, complex=True) for i, shape in enumerate(cases[0])), dict(kwargs)

    return samples


def scaled(*cases):
    """self, two factors, and beta and alpha."""

    def samples():
        yield from complex_too(cases)()
        yield from shapes(cases[0], beta=0.5, alpha=-2)()
        yield from shapes(cases[0], beta=0)()
        numbers = [tensor(*shape, seed=i, complex=True) for i, shape in enumerate(cases[0])]
        yield tuple(numbers), {"beta": 0.5 - 1j, "alpha": -2 + 0.5j}

    return samples


def mm():
    yield from complex_too([((2, 3), (3, 4)), ((2, 0), (0, 3)), ((0, 2), (2, 3))])()
    yield (transposed(3, 2), tensor(3, 4, seed=1)), {}
    yield (tensor(2, 3), transposed(4, 3)), {}


MATMUL = complex_too(
    [
        ((2, 3), (3, 4)),
        ((3,), (3,)),
        ((2, 3), (3,)),
        ((3,), (3, 2)),
        ((2, 2, 3), (3,)),
        ((2, 2, 3), (3, 2)),
        ((3,), (2, 3, 2)),
        ((2, 3), (2, 3, 2)),
        ((2, 1, 2, 3), (2, 3, 2)),
        ((1, 2, 3), (2, 3, 2)),
        ((2, 2, 3), (1, 3, 2)),
        ((0, 2, 3), (3, 2)),
    ]
)


def linear():
    yield from shapes(
        ((2, 3), (4, 3), (4,)),
        ((2, 2, 3), (4, 3), (4,)),
        ((3,), (4, 3), (4,)),
        ((2, 3), (4, 3)),
        ((2, 2, 3), (4, 3)),
        ((2, 3), (3,)),
    )()
    yield (transposed(3, 2, 2), tensor(4, 3), tensor(4)), {}


def trilinear():
    yield (tensor(2, 3), tensor(5, 3, 4), tensor(2, 4), (1, 3), (0,), (1, 2), (2, 3), 1), {}
    yield (tensor(2, 3), tensor(2, 3, seed=1), tensor(2, 3, seed=2), (), (), (), (1,)), {}


def tensordot():
    yield (tensor(2, 3, 4), tensor(4, 2, 5), (0, 2), (1, 0)), {}
    yield (tensor(2, 3), tensor(3, 2), (0, 1), (1, 0)), {}
    yield (tensor(2, 1), tensor(3, 2), (1,), (0,)), {}
    yield (tensor(2), tensor(3), (), ()), {}


def einsum():
    cases = {
        "ij,jk->ik": ((2, 3), (3, 4)),
        "ij,jk": ((2, 3), (3, 4)),
        "ii->i": ((3, 3),),
        "ij->": ((2, 3),),
        "iij->ji": ((2, 2, 3),),
        "i,j,k->kij": ((2,), (3,), (2,)),
        "bij,bkj->bik": ((2, 3, 2), (2, 4, 2)),
        "...i,...i->...": ((2, 3), (3,)),
        "ij,ij->i": ((2, 1), (2, 3)),
        "ij,kj,lj->ikl": ((2, 3), (2, 3), (4, 3)),
        "i,i": ((0,), (0,)),
        ",i->i": ((), (2,)),
    }
    for equation, found in cases.items():
        yield (equation, [tensor(*shape, seed=i) for i, shape in enumerate(found)]), {}
    yield ("ij,jk,kl->il", [tensor(2, 3), tensor(3, 2), tensor(2, 4)]), {"path": (1, 2, 0, 1)}


def chain():
    yield ([tensor(2, 3), tensor(3, 4), tensor(4, 2)],), {}
    yield ([tensor(2, 3), tensor(3, 4)],), {}


def multi_dot():
    yield from chain()
    yield ([tensor(2, 3), tensor(3, 4), tensor(4, 2), tensor(2, 5)],), {}
    yield ([tensor(3), tensor(3, 4), tensor(4)],), {}


def cross():
    yield (tensor(2, 3), tensor(2, 3, seed=1)), {}
    yield (tensor(3, 2), tensor(3, 2, seed=1)), {"dim": 0}


def linalg_cross():
    yield from cross()
    yield (tensor(2, 3), tensor(1, 3)), {}
    yield (tensor(2, 3, complex=True), tensor(2, 3, seed=1, complex=True)), {}


def with_path(samples):
    def found():
        for args, kwargs in samples():
            yield args, {"path": None, **kwargs}

    return found


def bytes_of_integers():
    """Matrices of 8-bit integers, with a sum of more than 2**31."""
    a, b = (tensor(2, 3) * 50).to(gradloom.int8), (tensor(3, 4) * 50).to(gradloom.int8)
    yield (a, b), {}
    yield (a.to(gradloom.uint8), b[:, ::2]), {}
    yield (a[:, :0], b[:0]), {}
    yield (
        (gradloom.full((1, 140000), -128, dtype=gradloom.int8), gradloom.full((140000, 1), -128, dtype=gradloom.int8)),
        {},
    )


def bytes_of_floats():
    """Matrices of 8-bit floats, and scales for all, or for each row and column."""
    a, b = tensor(2, 3).to(gradloom.float8_e4m3fn), tensor(3, 4).to(gradloom.float8_e5m2)
    one, rows, columns = gradloom.tensor(0.5), tensor(2, 1).float(), tensor(1, 4).float()
    yield (a, b, one, one), {"out_dtype": gradloom.float64}
    yield (a, b, rows, columns), {"out_dtype": gradloom.float32, "bias": tensor(4).float()}
    yield (a, b, one, one), {"scale_result": one, "bias": tensor(4).half(), "use_fast_accum": True}


def scaled_by_recipe():
    for args, kwargs in bytes_of_floats():
        recipe = [int(args[2].dim() == 2)]
        rest = (kwargs.get("bias"), kwargs.get("out_dtype"))
        yield (*args[:2], [args[2]], recipe, [], [args[3]], recipe, [], *rest), {}
        yield (*args[:2], [args[2]], recipe, [0], [args[3]], recipe, [0], *rest), {"contraction_dim": [1, 0]}


OUTER = complex_too([((2,), (3,)), ((0,), (2,))])

SAMPLES = {
    "_int_mm": bytes_of_integers,
    "_scaled_mm": bytes_of_floats,
    "_scaled_mm_v2": scaled_by_recipe,
    "mm": mm,
    "addmm": scaled(((2, 4), (2, 3), (3, 4)), ((4,), (2, 3), (3, 4)), ((), (2, 0), (0, 4)), ((2, 1), (2, 3), (3, 4))),
    "bmm": complex_too([((2, 2, 3), (2, 3, 4)), ((0, 2, 3), (0, 3, 2)), ((2, 2, 0), (2, 0, 2))]),
    "baddbmm": scaled(
        ((2, 2, 4), (2, 2, 3), (2, 3, 4)), ((4,), (2, 2, 3), (2, 3, 4)), ((1, 2, 1), (3, 2, 2), (3, 2, 2))
    ),
    "addbmm": scaled(((2, 4), (2, 2, 3), (2, 3, 4)), ((4,), (2, 2, 3), (2, 3, 4)), ((2, 2), (0, 2, 3), (0, 3, 2))),
    "dot": complex_too([((3,), (3,)), ((0,), (0,))]),
    "vdot": complex_too([((3,), (3,)), ((0,), (0,))]),
    "mv": complex_too([((2, 3), (3,)), ((2, 0), (0,))]),
    "addmv": scaled(((2,), (2, 3), (3,)), ((), (2, 3), (3,)), ((2,), (2, 0), (0,))),
    "addr": scaled(((2, 3), (2,), (3,)), ((3,), (2,), (3,)), ((), (2,), (3,))),
    "_trilinear": trilinear,
    "bilinear": shapes(((2, 3), (2, 4), (2, 3, 4), (2,)), ((2, 2, 3), (2, 2, 2), (2, 3, 2)), ((3,), (2,), (2, 3, 2))),
    "matmul": MATMUL,
    "linalg_matmul": MATMUL,
    "linear": linear,
    "outer": OUTER,
    "ger": OUTER,
    "inner": complex_too([((2, 3), (4, 3)), ((3,), (3,)), ((), (2,)), ((2, 2, 3), (3,))]),
    "tensordot": tensordot,
    "einsum": with_path(einsum),
    "kron": complex_too([((2, 3), (3, 2)), ((2,), (3, 2)), ((), (2,))]),
    "cross": cross,
    "linalg_cross": linalg_cross,
    "linalg_vecdot": complex_too([((2, 3), (2, 3)), ((3,), (2, 3))]),
    "chain_matmul": chain,
    "linalg_multi_dot": multi_dot,
}

# The dimensions say how three tensors fit together.
FIXED = {"_trilinear": ("i1", "i2", "i3", "expand1", "expand2", "expand3", "sumdim")}
