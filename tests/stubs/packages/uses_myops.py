"""A program that uses a package of operators, which `gradloom new myops` made and to which `bounds` was added."""

from __future__ import annotations

from typing import assert_type

import myops
from myops import rolling_mean, softabs

import gradloom
from gradloom import Tensor


def functions(x: Tensor) -> Tensor:
    out = gradloom.empty(0)
    assert_type(softabs(x, out=out), Tensor)
    assert_type(myops.softabs(x.detach(), 0.2), Tensor)
    assert_type(myops.softabs_(x.clone(), eps=0.3), Tensor)
    assert_type(rolling_mean(x, window=2), Tensor)
    assert_type(myops.softabs_loss(x, gradloom.ones_like(x), 0.1), Tensor)
    assert_type(gradloom.ops.myops.softabs is not None, bool)  # there type checkers know nothing: it is Any
    return myops.softabs(x)


def methods(x: Tensor) -> Tensor:
    y = myops.methods_of(x)
    assert_type(y.softabs(0.2), Tensor)
    assert_type(myops.methods_of(x.clone()).softabs_(), myops.TensorWithMethods)
    assert_type(y.exp() + y, Tensor)  # it has the others, too
    assert y is x
    return myops.methods_of(y.softabs()).softabs()


def overloads(x: Tensor) -> None:
    low, high = myops.bounds(x, [0])
    found = myops.bounds(x, [0, 1], keepdim=True)
    assert_type(low, Tensor)
    assert_type(found.high, Tensor)
    assert_type(myops.bounds(x, 2.0), Tensor)
    assert_type(myops.methods_of(x).bounds(2).sum(), Tensor)
    assert (high - found.low).shape == (1, 3)


def main() -> None:
    x = gradloom.tensor([-3.0, 0.5, 4.0])
    functions(x)
    methods(x.requires_grad_())
    overloads(gradloom.arange(6.0).reshape(2, 3))


if __name__ == "__main__":
    main()
