"""Distributed tensors: what operators compute on parts is what they compute on whole tensors, however they lie."""

from __future__ import annotations

import itertools
import os
import random
import traceback
import weakref

import numpy as np
import pytest

import gradloom as torch
from gradloom.distributed.device_mesh import init_device_mesh
from gradloom.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from gradloom.distributed.tensor._dispatch import _plans
from tests.distributed import groups
from tests.distributed.dtensor_cases import CASES

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs fork and shared memory")
# A sum of parts is rounded in another order; the values are of the order of 1, the sums have at most 100 terms.
NEAR = {"rtol": 1e-9, "atol": 1e-9}


def placements(shape, kinds=("sum",)):
    return [Replicate(), *map(Shard, range(len(shape))), *map(Partial, kinds)]


def ways(shapes, mesh_ndim, limit, seed):
    """Return ways to distribute tensors: all, or a random sample of them."""
    each = [list(itertools.product(placements(shape), repeat=mesh_ndim)) for shape in shapes]
    whole = 1
    for one in each:
        whole *= len(one)
    if whole <= limit:
        return list(itertools.product(*each))
    chance = random.Random(seed)
    return [tuple(chance.choice(one) for one in each) for _ in range(limit)]


def values(shapes, seed):
    rng = np.random.default_rng(seed)
    return [torch.from_numpy(rng.standard_normal(shape)) for shape in shapes]


def wrong(mesh, name, how, inputs):
    """Return how a distributed call differs from the ordinary one; None if it does not."""
    call = CASES[name][0]
    plain = [one.clone().requires_grad_() for one in inputs]
    parts = [distribute_tensor(one, mesh, way).requires_grad_() for one, way in zip(inputs, how, strict=True)]
    expected, found = call(*plain), call(*parts)
    if not isinstance(found, DTensor) or found.shape != expected.shape or found.stride() != expected.stride():
        return f"result {type(found).__name__} {tuple(found.shape)} {found.stride()}, not {tuple(expected.shape)}"
    if not np.allclose(found.full_tensor().detach(), expected.detach(), **NEAR):
        return f"values, distributed as {found.placements}"
    if expected.requires_grad:
        expected.square().sum().backward()
        found.square().sum().backward()
        for number, (one, other) in enumerate(zip(plain, parts, strict=True)):
            if (one.grad is None) != (other.grad is None):
                return f"gradient {number} is missing"
            if one.grad is not None and not np.allclose(other.grad.full_tensor(), one.grad, **NEAR):
                return f"gradient {number}, distributed as {other.grad.placements}"
    return None


def compared(rank, size, shape, limit):
    mesh, found = init_device_mesh("cpu", shape), []
    for number, (name, (_, shapes)) in enumerate(CASES.items()):
        inputs = values(shapes, number)
        for how in ways(shapes, len(shape), limit, number):
            try:
                text = wrong(mesh, name, how, inputs)
            except RuntimeError as error:
                text = None if "this view of a DTensor is a copy" in str(error) else traceback.format_exc()
            if text:
                found.append(f"{name} of {how}: {text}")
                break  # ranks that differ in what they call would wait for each other
    return found


@pytest.mark.parametrize(("shape", "limit"), [((3,), 2), ((2, 2), 1)])
def test_operators_on_parts_equal_those_on_whole_tensors(tmp_path, shape, limit):
    """Two ways of each operator on three ranks, and one on four; `compared` with a higher limit tries more."""
    for number, (call, shapes) in enumerate(CASES.values()):
        call(*values(shapes, number))  # what the ranks, forks of this process, need not load
    found = groups.run(int(np.prod(shape)), compared, tmp_path, shape, limit)
    assert not any(found), "\n".join(found[0])


def kept_by_plans(rank, size):
    """Return whether the plan of an operator keeps an ordinary tensor alive, or is made anew for each."""
    x = distribute_tensor(torch.ones(4), init_device_mesh("cpu", (size,)), [Shard(0)])
    plans = []
    for number in range(3):
        leaf = torch.tensor(float(number), requires_grad=True)
        kept, known = weakref.ref(leaf), len(_plans._known)
        x * (leaf + 1)
        del leaf
        plans.append((kept() is not None, len(_plans._known) - known))
    return plans


def test_plans_of_operators_keep_no_tensors(tmp_path):
    assert groups.run(2, kept_by_plans, tmp_path) == [[(False, 1), (False, 0), (False, 0)]] * 2
