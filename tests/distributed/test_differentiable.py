"""Collectives through which gradients flow, those that return tensors, and meshes of ranks."""

from __future__ import annotations

import os

import pytest

import gradloom as gl
import gradloom.distributed as dist
from gradloom.distributed import _functional_collectives as returning
from gradloom.distributed.nn import functional as differentiable
from tests.distributed.ranks import run
from tests.distributed.test_collectives import default_group

pytestmark = pytest.mark.skipif(os.name != "posix", reason="ranks are forks")


def wrong(rank, size, store, check, folder):
    with default_group(rank, size, folder):
        return [f"{name} of rank {rank}" for name, right in check(rank, size) if not right]


@pytest.mark.parametrize("name", ["gradients", "second_derivatives", "returned", "going_on", "meshes"])
def test_with_four_ranks(name, tmp_path):
    assert run(4, wrong, tmp_path, globals()[name], tmp_path) == [[]] * 4


def leaf(rank, *shape):
    return gl.full(shape or (3,), float(rank + 1), dtype=gl.float64).requires_grad_()


def gradients(rank, size):
    """The loss of rank r is (r + 1) times the sum of its result: what arrives where tells who sent it."""
    weight, everyone = rank + 1.0, list(range(size))
    all_weights = sum(r + 1.0 for r in everyone)

    x = leaf(rank)
    (weight * differentiable.all_reduce(x)).sum().backward()
    yield "all_reduce", bool((x.grad == all_weights).all())
    x = leaf(rank)
    y = differentiable.broadcast(x, 1)
    (weight * y).sum().backward()
    yield "broadcast", bool((y == 2).all()) and bool((x.grad == (all_weights if rank == 1 else 0)).all())
    x = leaf(rank)
    (weight * differentiable.reduce(x, 2)).sum().backward()
    yield "reduce", bool((x.grad == 3).all())
    x = leaf(rank)
    parts = differentiable.all_gather(x)
    sum((r + 1) * weight * part.sum() for r, part in enumerate(parts)).backward()
    yield "all_gather", bool((x.grad == (rank + 1) * all_weights).all()) and parts[3].tolist() == [4.0] * 3
    x = leaf(rank)
    parts = differentiable.gather(x, 1)
    sum((r + 1) * weight * part.sum() for r, part in enumerate(parts)).backward()
    yield "gather", bool((x.grad == (rank + 1) * 2).all())
    xs = [leaf(10 * rank + r) for r in everyone]
    y = differentiable.scatter(xs, 1)
    (weight * y).sum().backward()
    wanted = [r + 1.0 if rank == 1 else 0.0 for r in everyone]
    yield "scatter", y[0].item() == 11 + rank and [x.grad[0].item() for x in xs] == wanted
    xs = [leaf(r) for r in everyone]
    y = differentiable.reduce_scatter(gl.empty(3, dtype=gl.float64), xs)
    (weight * y).sum().backward()
    yield (
        "reduce_scatter",
        y[0].item() == size * (rank + 1) and [x.grad[0].item() for x in xs] == [r + 1.0 for r in everyone],
    )
    xs = [leaf(rank) for _ in everyone]
    ys = differentiable.all_to_all([gl.empty(3, dtype=gl.float64) for _ in everyone], xs)
    sum(weight * y.sum() for y in ys).backward()
    yield "all_to_all", [x.grad[0].item() for x in xs] == [r + 1.0 for r in everyone]
    x = leaf(rank, size * (rank + 1))
    out = gl.empty(sum(r + 1 for r in everyone), dtype=gl.float64)
    y = differentiable.all_to_all_single(out, x, [r + 1 for r in everyone], [rank + 1] * size)
    (weight * y).sum().backward()
    yield "all_to_all_single", x.grad.view(size, -1)[:, 0].tolist() == [r + 1.0 for r in everyone]
    x = leaf(rank, 2, 3)
    y = differentiable._all_gather_base(gl.empty(2 * size, 3, dtype=gl.float64), x)
    (weight * y).sum().backward()
    yield "_all_gather_base", bool((x.grad == all_weights).all()) and x.grad.shape == (2, 3)


def second_derivatives(rank, size):
    x = leaf(rank)
    y = differentiable.all_reduce(x**2)
    (grad,) = gl.autograd.grad((y**2).sum(), x, create_graph=True)
    total = sum((r + 1.0) ** 2 for r in range(size))
    yield "first", bool((grad == 4 * size * total * (rank + 1)).all())
    (second,) = gl.autograd.grad(grad.sum(), x)
    # d/dx_r of sum over ranks q of 4 * size * total * x_q: each rank adds the gradient of its own sum.
    wanted = 4 * size * (total + 2 * (rank + 1) * sum(q + 1.0 for q in range(size)))
    yield "second", bool((second == wanted).all())


def returned(rank, size):
    world, everyone = dist.group.WORLD, list(range(size))
    x = gl.full((4, 2), float(rank))
    yield "all_reduce", bool((returning.wait_tensor(returning.all_reduce(x, "sum", world)) == sum(everyone)).all())
    yield "argument", bool((x == rank).all())
    y = returning.all_gather_tensor(x, 1, everyone)
    yield "all_gather_tensor", y.shape == (4, 2 * size) and y[0, ::2].tolist() == everyone
    y = returning.reduce_scatter_tensor(gl.arange(8.0).view(4, 2), "avg", 0, world.group_name)
    yield "reduce_scatter_tensor", y.tolist() == [[2.0 * rank, 2.0 * rank + 1]]
    y = returning.all_to_all_single(x, None, None, world)
    yield "all_to_all_single", y[:, 0].tolist() == everyone
    yield "broadcast", bool((returning.broadcast(x, 2, world) == 2).all())
    yield "permute_tensor", bool((returning.permute_tensor(x, [1, 2, 3, 0], world) == (rank - 1) % size).all())
    with pytest.raises(ValueError, match="reduceOp"):
        returning.all_reduce(x, "mean", world)


def going_on(rank, size):
    x, world = gl.full((2, 2), float(rank)), dist.group.WORLD
    if rank == 0:
        y = returning.all_reduce(x, "sum", world)  # the others have not called it
        yield "goes on", type(y) is returning.AsyncCollectiveTensor and not y.completed
        for other in range(1, size):
            dist.send(x, other)
    else:
        dist.recv(gl.empty(2, 2), 0)
        y = returning.all_reduce(x, "sum", world)
    yield "type", type(y + 0) is gl.Tensor and y.completed
    yield "values", y.tolist() == [[size * (size - 1) / 2] * 2] * 2
    y, z = returning.all_gather_tensor(x, 0, world), returning.reduce_scatter_tensor(x.repeat(size, 1), "max", 0, world)
    x.zero_()  # what a collective reads is a copy
    yield "gathered", returning.wait_tensor(y)[::2, 0].tolist() == list(range(size))
    yield "scattered", z.shape == (2, 2) and gl.equal(z, gl.full((2, 2), size - 1.0))
    w = x.clone().requires_grad_()
    y = returning.all_reduce(w, "sum", world)
    yield "with gradients", type(y) is gl.Tensor and y.requires_grad


def meshes(rank, size):
    mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))
    yield "coordinate", mesh.get_coordinate() == (rank // 2, rank % 2) and mesh.shape == (2, 2) and mesh.size(0) == 2
    total = gl.tensor([float(rank)])
    dist.all_reduce(total, group=mesh.get_group("shard"))
    yield "rows", total.item() == (1 if rank < 2 else 5)
    total = gl.tensor([float(rank)])
    dist.all_reduce(total, group=mesh["replicate"].get_group())
    yield "columns", total.item() == 2 + 2 * (rank % 2)
    part = mesh["shard"]
    yield "slices", part.ndim == 1 and part.mesh.tolist() == [rank - rank % 2, rank - rank % 2 + 1]
    yield "local rank", mesh.get_local_rank("replicate") == rank // 2 and part.get_local_rank() == rank % 2
    yield "text", repr(mesh) == "DeviceMesh((replicate=2, shard=2), 'cpu', stride=(2, 1))"
    flat = mesh._flatten("all")
    yield "flattened", flat.get_group() is dist.group.WORLD and flat.mesh_dim_names == ("all",)
    yield "functional", returning.all_reduce(gl.ones(1), "sum", (mesh, 1)).item() == 2
    yield "equality", mesh == dist.DeviceMesh.from_group(mesh.get_all_groups(), "cpu", [[0, 1], [2, 3]],
                                                          mesh_dim_names=("replicate", "shard"))  # fmt: skip
    with pytest.raises(RuntimeError, match="there are no devices"):
        dist.init_device_mesh("cuda", (4,))
    with pytest.raises(RuntimeError, match="should not be bigger than"):
        dist.init_device_mesh("cpu", (5,))
