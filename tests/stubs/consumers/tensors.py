"""Tensors: making, indexing, arithmetic, reductions with names, in place, out=, conversions, random numbers."""

from __future__ import annotations

from typing import assert_type

import numpy as np
import numpy.typing as npt

import gradloom as torch
from gradloom import Tensor


def made() -> list[Tensor]:
    a = torch.tensor([[1, 2], [3, 4]], dtype=torch.float64)
    array: npt.NDArray[np.float32] = np.ones((2, 2), np.float32)
    return [
        a,
        torch.zeros(2, 3),
        torch.zeros((2, 3), dtype=torch.int32, device="cpu"),
        torch.ones_like(a),
        torch.full((2,), 3.5),
        torch.arange(0, 10, 2),
        torch.linspace(0, 1, 5),
        torch.eye(3, requires_grad=True),
        torch.from_numpy(array),
        torch.as_tensor([1.0, 2.0]),
        torch.empty(torch.Size([2, 2])),
        torch.rand(2, 3),
        torch.randperm(5),
        torch.normal(0.0, 1.0, (2, 2)),
        torch.cat([a, a], dim=0),
        torch.stack((a, a)),
        torch.nn.Parameter(a),
        torch.FloatTensor([1.0]),
    ]


def indexing(x: Tensor, mask: Tensor) -> None:
    assert_type(x[0], Tensor)
    assert_type(x[..., None, 1:3, -1], Tensor)
    assert_type(x[mask], Tensor)
    assert_type(x[[0, 1], torch.tensor([1, 0])], Tensor)
    assert_type(x[np.array([0, 1])], Tensor)
    x[0] = 1.5
    x[:, mask[0]] = x[:, mask[0]] * 2
    for row in x:
        assert_type(row, Tensor)


def arithmetic(x: Tensor, y: Tensor) -> Tensor:
    z = 2 * x + y / 3 - x @ y.T + (1 - x) ** 2 + 2.0**x % 5 + -x // abs(y)
    z += 1
    z *= x
    comparison = (x > 0) & (y <= x) | ~(x != y)
    assert_type(comparison, Tensor)
    assert_type(x == y, Tensor)
    if (x > 0).all() and bool(comparison.any()):
        return torch.where(comparison, x, 0.0)
    return torch.add(x, y, alpha=2).clamp_(min=0).mul_(y).sqrt()


def reductions(x: Tensor) -> None:
    assert_type(x.sum(), Tensor)
    assert_type(x.mean(dim=(0, 1), keepdim=True), Tensor)
    assert_type(x.sum(axis=0), Tensor)
    assert_type(torch.sum(x, axis=(0, 1), keepdims=True), Tensor)
    assert_type(x.mean(1, keepdims=True), Tensor)
    assert_type(torch.cat([x, x], axis=1), Tensor)
    assert_type(x.max(axis=1, keepdims=True).values, Tensor)
    values, indices = x.max(dim=1)
    assert_type(values, Tensor)
    found = torch.max(x, dim=1)
    assert_type(found.values, Tensor)
    assert_type(found.indices, Tensor)
    assert_type(torch.topk(x, 2).values, Tensor)
    assert_type(x.sort(descending=True).indices, Tensor)
    assert_type(torch.max(x, x), Tensor)
    assert_type(x.unique(), Tensor)
    assert_type(torch.unique(x, return_inverse=True), tuple[Tensor, Tensor])
    assert_type(torch.nonzero(x, as_tuple=True), tuple[Tensor, ...])
    assert_type(torch.norm(x, p=2, dim=0), Tensor)
    assert_type(torch.allclose(x, x), bool)
    variance, mean = torch.var_mean(x, dim=0)
    assert_type(variance, Tensor)
    assert_type(x.std(0, correction=1), Tensor)
    print(indices, mean)


def shapes(x: Tensor) -> None:
    assert_type(x.shape, torch.Size)
    assert_type(x.size(), torch.Size)
    assert_type(x.size(0), int)
    rows, columns = x.shape
    assert_type(x.view(rows * columns), Tensor)
    assert_type(x.reshape(-1, 1).permute(1, 0).squeeze().unsqueeze(0).expand(2, -1), Tensor)
    assert_type(x.reshape((columns, rows)), Tensor)
    first, *rest = torch.split(x, 1)
    assert_type(torch.chunk(x, 2, dim=1), tuple[Tensor, ...])
    assert_type(torch.meshgrid(x[0], x[1], indexing="ij"), tuple[Tensor, ...])
    assert_type(torch.einsum("ij,kj->ik", x, x), Tensor)
    assert_type(torch.broadcast_shapes((2, 1), (3,)), torch.Size)
    assert_type(x.dim() + x.ndim + x.numel(), int)
    print(first, rest)


def conversions(x: Tensor) -> None:
    assert_type(x.double(), Tensor)
    assert_type(x.to(torch.float16), Tensor)
    assert_type(x.to("cpu", torch.float64), Tensor)
    assert_type(x.to(x), Tensor)
    assert_type(x.detach().cpu().contiguous().requires_grad_(), Tensor)
    assert_type(x.dtype, torch.dtype)
    assert_type(x.device, torch.device)
    assert_type(x.type(), str)
    assert_type(float(x.sum()) + int(x.sum()), float)
    print(np.asarray(x.detach()), x.numpy().shape, x.tolist(), x.real, x.mT)
    assert_type(torch.promote_types(torch.float32, torch.int64), torch.dtype)
    assert_type(torch.finfo(torch.float32).bits, int)


def written(x: Tensor) -> None:
    out = torch.empty(2, 3)
    torch.add(x, 1, out=out)
    torch.max(x, 1, out=(torch.empty(2), torch.empty(2, dtype=torch.long)))
    assert_type(x.add_(1).zero_().fill_(2).copy_(out), Tensor)
    x.uniform_(0, 1).normal_(mean=0, std=2)
    x.index_add_(0, torch.tensor([0]), x[:1].clone())
    parameter = torch.nn.Parameter(x)
    assert_type(parameter.detach_(), torch.nn.Parameter)


def modules_of_functions(x: Tensor) -> None:
    assert_type(torch.special.i0(x), Tensor)
    assert_type(torch.special.xlogy(x, 2.0), Tensor)
    assert_type(torch.linalg.vector_norm(x, dim=1), Tensor)
    assert_type(torch.nn.functional.softmax(x, dim=-1), Tensor)
    assert_type(torch.nn.functional.conv2d(x[None, None], torch.ones(1, 1, 2, 2), padding=(1, 1)), Tensor)
    assert_type(torch.nn.functional.max_pool2d(x[None], 2, return_indices=True), tuple[Tensor, Tensor])
    assert_type(torch.nn.functional.max_pool2d(x[None], 2), Tensor)
    assert_type(torch.nn.functional.one_hot(torch.tensor([0, 1]), num_classes=3), Tensor)
    assert_type(torch.nn.functional.mse_loss(x, x, reduction="sum"), Tensor)
    assert_type(torch.nn.init.xavier_uniform_(torch.empty(2, 2)), Tensor)
    assert_type(torch.signal.windows.hann(8), Tensor)


def main() -> None:
    print(made())
    with torch.random.fork_rng():
        torch.manual_seed(1)
    x, y = torch.rand(2, 3) + 1, torch.rand(2, 3)
    indexing(torch.rand(3, 4, 5), torch.rand(3, 4, 5) > 0.5) if x.dim() > 5 else None
    reductions(x)
    shapes(x)
    conversions(x)
    print(torch.multinomial(torch.ones(4), 2, replacement=True), torch.get_default_dtype())
    torch.set_printoptions(precision=3)
    written(y)


if __name__ == "__main__":
    main()
