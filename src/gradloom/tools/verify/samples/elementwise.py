"""Samples of elementwise operators whose schema is not specific enough: integers, bools, bounds, complex numbers."""

from __future__ import annotations

import numpy as np

import gradloom

from . import calls, integers

INF = float("inf")


def tensor(*values, dtype=None):
    return gradloom.tensor(values, dtype=dtype or gradloom.float64)


def complex_tensor(seed=0):
    random = np.random.default_rng(seed)
    return gradloom.from_numpy(random.uniform(0.3, 0.9, (2, 3)) + 1j * random.uniform(0.2, 0.8, (2, 3)))


def unary(*more):
    """A matrix that is not contiguous, a 0-dim and a zero-size tensor, complex numbers, and more tensors."""

    def found():
        x = gradloom.from_numpy(np.linspace(0.2, 0.9, 6).reshape(3, 2).T)
        for sample in (x, NUMBER * 0.3, x * gradloom.empty(0, 1, 3), complex_tensor(), *more):
            yield (sample,), {}

    return found


X, Y = tensor(0.3, -1.2, 2.5), tensor(1.1, 0.7, -0.4)
TIES = tensor(0.3, 0.7, 2.5)  # with two elements of X
MATRIX = gradloom.from_numpy(np.arange(6.0).reshape(2, 3) - 2.4)
Z, W = complex_tensor(), complex_tensor(1)
I, J = integers(5, -3, 12), integers(3, 6, -8)  # noqa: E741
SHIFTS, SHIFT = integers(1, 0, 3), gradloom.tensor(4)
NUMBER = gradloom.tensor(1.3, dtype=gradloom.float64)
BOOLS = gradloom.tensor([[True, False, True], [False, False, True]])
ROW = gradloom.tensor([True, False, True])

SAMPLES = {
    # exponents with a path of their own, also in the derivative
    "pow.Tensor_Scalar": calls(
        *((x, p) for x in (tensor(0.4, 1.3, 2.2), Z) for p in (0, 1, 2, 3, 0.5, -0.5, -1, -2, 2.5)),
        (X, 3),
        (MATRIX, 2),
        (Z, 1.5 + 0.5j),
    ),
    "pow.Tensor_Tensor": calls((X.abs(), Y), (Z, W), (X.abs(), Z), (X, integers(2, 3, 1))),
    "pow.Scalar": calls((0.6, X), (1, X), (0, X.abs()), (2.0, Z), (0.5 + 1j, X)),
    "pow_.Tensor": calls((tensor(0.4, 1.3, 2.2), Y)),
    "add.Tensor": calls((X, Y), (MATRIX, X), (X, MATRIX), (X, Y, {"alpha": 2.5}), (Z, W, {"alpha": 1 + 2j}), (X, Z)),
    "sub.Tensor": calls((X, Y), (MATRIX, X), (X, MATRIX), (X, Y, {"alpha": 2.5}), (Z, W, {"alpha": 1 + 2j}), (X, Z)),
    "rsub.Tensor": calls((X, Y), (MATRIX, X), (X, Y, {"alpha": 2.5}), (Z, W, {"alpha": 1 + 2j})),
    "rsub.Scalar": calls((X, 0.7), (MATRIX, 0.7, 2.5), (Z, 0.7, 1 + 2j)),
    "mul.Tensor": calls((X, Y), (MATRIX, X), (X, MATRIX), (Z, W), (X, Z), (Z, X)),
    "div.Tensor": calls((X, Y), (MATRIX, X), (X, MATRIX), (Z, W), (X, Z), (Z, X)),
    "div.Scalar": calls((X, 2.5), (Z, 1 + 2j)),
    **{f"{name}_.Tensor": calls((X, Y), (MATRIX, X)) for name in ("eq", "ne", "lt", "le", "gt", "ge")},
    "mul.Scalar": calls((X, 2.5), (Z, 1 + 2j)),
    "div.Tensor_mode": calls(
        *((X, Y, {"rounding_mode": m}) for m in (None, "trunc", "floor")), (MATRIX, X, {"rounding_mode": None})
    ),
    "div.Scalar_mode": calls(*((X, 0.7, {"rounding_mode": m}) for m in (None, "trunc", "floor"))),
    "divide.Tensor_mode": calls(*((X, Y, {"rounding_mode": m}) for m in (None, "trunc", "floor"))),
    "divide_.Tensor_mode": calls(*((X, Y, {"rounding_mode": m}) for m in (None, "trunc", "floor"))),
    "floor_divide": calls((X, Y), (I, J), (MATRIX, X)),
    "floor_divide_.Tensor": calls((X, Y), (I, J)),
    "addcmul": calls((X, Y, MATRIX), (MATRIX, X, Y, {"value": -1.5}), (Z, W, Z, {"value": 1 - 2j})),
    "addcdiv": calls((X, Y, MATRIX), (MATRIX, X, Y, {"value": -1.5}), (Z, W, Z, {"value": 1 - 2j})),
    "lerp.Scalar": calls((X, Y, 0.3), (X, Y, 0.8), (MATRIX, X, 0.5), (Z, W, 0.3 + 0.2j)),
    "lerp.Tensor": calls((X, Y, tensor(0.1, 0.6, 2.0)), (MATRIX, X, Y), (Z, W, W)),
    **{
        name: unary()
        for name in """
            sin cos tan asin acos atan sinh cosh tanh asinh atanh exp exp2 expm1 log log2 log10 log1p sqrt rsqrt
            reciprocal sigmoid sinc sgn
            """.split()
    },
    "acosh": calls((tensor(1.2, 2.5, 3.0),), (Z,)),
    "abs": unary(MATRIX),
    "neg": unary(MATRIX),
    "logaddexp": calls((X, Y), (MATRIX, X), (Z, W)),
    "bitwise_not": calls((I,), (BOOLS,)),
    **{f"bitwise_{name}.Tensor": calls((I, J), (BOOLS, ROW)) for name in ("and", "or", "xor")},
    **{f"bitwise_{name}.Scalar_Tensor": calls((6, I), (True, BOOLS)) for name in ("and", "or", "xor")},
    **{f"bitwise_{name}_shift.Tensor": calls((I, SHIFTS), (I, integers(64, -1, 70))) for name in ("left", "right")},
    **{f"bitwise_{name}_shift.Scalar_Tensor": calls((13, SHIFTS)) for name in ("left", "right")},
    "heaviside": calls((tensor(-1.0, 0.0, 2.0), Y), (integers(-1, 0, 2), J)),
    "gcd": calls((I, J), (I, SHIFT)),
    "lcm": calls((I, J), (I, SHIFT)),
    "polygamma": calls(*((n, tensor(0.4, 1.7, -0.6)) for n in range(4))),
    "polygamma_": calls(*((tensor(0.4, 1.7, -0.6), n) for n in range(4))),
    "mvlgamma": calls((tensor(2.5, 3.1), 1), (tensor(2.5, 3.1), 4)),
    "clamp": calls((MATRIX, -1.0, 1.0), (MATRIX, None, 0.5), (MATRIX, 0.5, None), (MATRIX, 1.0, -1.0)),
    "clamp.Tensor": calls(
        (MATRIX, X - 1, X + 1),
        (MATRIX, None, X),
        (MATRIX, X, None),
        (MATRIX, X, Y),
        (X, TIES, None),
        (X, None, TIES),
        (X, TIES, TIES + 1),
        (X, TIES - 1, TIES),
    ),
    "clip": calls((MATRIX, -1.0, 1.0)),
    "clip.Tensor": calls((MATRIX, X - 1, X + 1)),
    "copysign.Tensor": calls((X, Y), (MATRIX, X), (tensor(0.0, -0.3, 1.0), Y)),
    "copysign.Scalar": calls((X, -0.7), (tensor(0.0, -0.3, 1.0), 0.7)),
    # ties: the gradient is shared, as by central differences
    "maximum": calls((X, Y), (MATRIX, X), (X, MATRIX), (X, TIES)),
    "minimum": calls((X, Y), (MATRIX, X), (X, MATRIX), (X, TIES)),
    "fmax": calls((X, Y), (MATRIX, tensor(1.0, float("nan"), 2.0)), (X, TIES)),
    "fmin": calls((X, Y), (MATRIX, tensor(1.0, float("nan"), 2.0)), (X, TIES)),
    "clamp_min.Tensor": calls((X, Y), (MATRIX, X), (X, TIES)),
    "clamp_max.Tensor": calls((X, Y), (MATRIX, X), (X, TIES)),
    "where.self": calls((BOOLS, MATRIX, X), (BOOLS, X, MATRIX), (ROW, MATRIX, X), (BOOLS, complex_tensor(), X)),
    "where.ScalarSelf": calls((BOOLS, 0.5, MATRIX)),
    "where.ScalarOther": calls((BOOLS, MATRIX, 0.5)),
    "where.Scalar": calls((BOOLS, 0.5, 2.5)),
    "where": calls((BOOLS,), (gradloom.tensor([[True]]),)),
    "fill.Tensor": calls((X, NUMBER), (Z, NUMBER)),
    "fill_.Tensor": calls((X, NUMBER), (Z, NUMBER)),
    "fill.Scalar": calls((X, 2.5), (Z, 1 + 2j)),
    "is_nonzero": calls((NUMBER,), (gradloom.tensor([[True]]),)),
    "logit": calls((tensor(0.2, 0.7), None), (tensor(0.2, 0.5, 0.98), 0.1)),
    "logit_backward": calls((X, tensor(0.2, 0.5, 0.98), 0.1), (X, tensor(0.2, 0.5, 0.98), None)),
    "sigmoid_backward": calls((X, Y), (Z, W)),
    "tanh_backward": calls((X, Y), (Z, W)),
    "round.decimals": calls((X, {"decimals": 1}), (X * 100, {"decimals": -1})),
    "xlogy.Tensor": calls((X, tensor(0.3, 1.5, 2.0)), (tensor(0.0, 1.0, 2.0), tensor(0.3, 1.5, 2.0))),
}
