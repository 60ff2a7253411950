"""Calls of operators on tensors, for comparison of distributed tensors with ordinary ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gradloom as torch

F = torch.nn.functional

# Name -> (function, shapes of its arguments). Sizes of 4 are divided evenly by 2 and 4 ranks; those of 5 and 3 are not.
CASES: dict[str, tuple[Callable[..., Any], list[tuple[int, ...]]]] = {
    "add": (torch.add, [(4, 5), (4, 5)]),
    "add broadcast": (torch.add, [(4, 5), (5,)]),
    "sub of one": (lambda a: a - 1, [(5, 3)]),
    "mul": (torch.mul, [(5, 3), (1, 3)]),
    "div": (lambda a, b: a / (b * b + 1), [(4, 3), (4, 3)]),
    "double": (lambda a: a * 2 / 3, [(5, 4)]),
    "neg": (lambda a: -a, [(5, 4)]),
    "relu": (torch.relu, [(5, 4)]),
    "where": (lambda a, b: torch.where(a > 0, a, b), [(4, 5), (4, 5)]),
    "lerp": (lambda a, b: torch.lerp(a, b, 0.3), [(3, 5), (3, 5)]),
    "to": (lambda a: a.to(torch.float32), [(5, 4)]),
    "clone": (lambda a: a.clone(), [(5, 4)]),
    "sum": (torch.sum, [(5, 4)]),
    "sum dim": (lambda a: a.sum(0, keepdim=True), [(5, 4)]),
    "sum dims": (lambda a: a.sum((0, 2)), [(5, 4, 3)]),
    "mean": (torch.mean, [(4, 5)]),
    "mean dim": (lambda a: a.mean(1), [(5, 4)]),
    "prod": (lambda a: a.prod(), [(5, 3)]),
    "amax": (lambda a: a.amax(0), [(5, 4)]),
    "amin few": (lambda a: a.amin(0), [(1, 4)]),
    "max": (lambda a: a.max(), [(5, 4)]),
    "max dim": (lambda a: a.max(1)[0], [(5, 4)]),
    "var": (lambda a: a.var(0), [(5, 4)]),
    "std": (lambda a: a.std(1, keepdim=True), [(5, 4)]),
    "logsumexp": (lambda a: a.logsumexp(1), [(5, 4)]),
    "argmax": (lambda a: a.argmax(1), [(5, 4)]),
    "norm": (lambda a: a.norm(), [(5, 4)]),
    "norm 3": (lambda a: torch.linalg.vector_norm(a, 3.0, 0), [(5, 4)]),
    "norm inf": (lambda a: torch.linalg.vector_norm(a, float("inf")), [(5, 4)]),
    "norm 0": (lambda a: torch.linalg.vector_norm(a, 0.0), [(5, 4)]),
    "any": (lambda a: (a > 1).any(0), [(5, 4)]),
    "mm": (torch.mm, [(5, 4), (4, 3)]),
    "mm of 5": (torch.mm, [(4, 5), (5, 4)]),
    "bmm": (torch.bmm, [(4, 5, 3), (4, 3, 5)]),
    "mv": (torch.mv, [(4, 5), (5,)]),
    "dot": (torch.dot, [(5,), (5,)]),
    "matmul": (torch.matmul, [(2, 4, 5), (5, 4)]),
    "linear": (F.linear, [(4, 5), (3, 5), (3,)]),
    "linear of batches": (F.linear, [(2, 4, 5), (4, 5), (4,)]),
    "addmm": (lambda a, b, c: torch.addmm(a, b, c, beta=0.5), [(1, 4), (5, 3), (3, 4)]),
    "einsum": (lambda a, b: torch.einsum("bij,bkj->bik", a, b), [(4, 3, 5), (4, 2, 5)]),
    "view": (lambda a: a.view(20), [(4, 5)]),
    "view of uneven": (lambda a: a.view(20), [(5, 4)]),
    "view split": (lambda a: a.view(2, 2, 5), [(4, 5)]),
    "view heads": (lambda a: a.view(4, 5, 2, 2), [(4, 5, 4)]),
    "view joined": (lambda a: a.reshape(4, 20), [(4, 5, 4)]),
    "view ones": (lambda a: a.view(1, 4, 1, 5), [(4, 5)]),
    "reshape of transposed": (lambda a: a.t().reshape(-1), [(4, 5)]),
    "t": (lambda a: a.t(), [(5, 4)]),
    "transpose": (lambda a: a.transpose(0, 2), [(5, 4, 3)]),
    "permute": (lambda a: a.permute(2, 0, 1), [(5, 4, 3)]),
    "unsqueeze": (lambda a: a.unsqueeze(-1), [(5, 4)]),
    "squeeze": (lambda a: a.squeeze(), [(5, 1, 4)]),
    "squeeze dim": (lambda a: a.squeeze(0), [(1, 5, 4)]),
    "expand": (lambda a: a.expand(3, 5, 4), [(5, 1)]),
    "select": (lambda a: a[1], [(5, 4)]),
    "slice": (lambda a: a[:, 1:3], [(5, 4)]),
    "slice step": (lambda a: a[::2, :], [(5, 4)]),
    "split": (lambda a: torch.cat(a.split(2, 1), 0), [(5, 4)]),
    "chunk": (lambda a: torch.stack(a.chunk(2, 0), 1), [(4, 5)]),
    "unbind": (lambda a: a.unbind(1)[2], [(5, 4)]),
    "cat": (lambda a, b: torch.cat([a, b], 1), [(5, 4), (5, 3)]),
    "stack": (lambda a, b: torch.stack([a, b], -1), [(5, 4), (5, 4)]),
    "flatten": (lambda a: a.flatten(1), [(4, 5, 3)]),
    "repeat": (lambda a: a.repeat(2, 1), [(5, 4)]),
    "flip": (lambda a: a.flip(0), [(5, 4)]),
    "roll": (lambda a: a.roll(1, 1), [(5, 4)]),
    "tril": (lambda a: a.tril(), [(4, 5, 4)]),
    "cumsum": (lambda a: a.cumsum(1), [(5, 4)]),
    "sort": (lambda a: a.sort(1)[0], [(5, 4)]),
    "topk": (lambda a: a.topk(2, 0)[0], [(5, 4)]),
    "softmax": (lambda a: a.softmax(1), [(5, 4)]),
    "log_softmax": (lambda a: a.log_softmax(-1), [(5, 4)]),
    "gelu": (F.gelu, [(5, 4)]),
    "layer_norm": (lambda a, w, b: F.layer_norm(a, (4,), w, b), [(5, 3, 4), (4,), (4,)]),
    "rms_norm": (lambda a, w: F.rms_norm(a, (4,), w), [(5, 3, 4), (4,)]),
    "group_norm": (lambda a: F.group_norm(a, 2), [(4, 4, 3)]),
    "batch_norm": (lambda a, w, b: F.batch_norm(a, None, None, w, b, True), [(5, 4), (4,), (4,)]),
    "conv2d": (F.conv2d, [(4, 3, 5, 5), (4, 3, 2, 2), (4,)]),
    "conv2d without bias": (lambda a, w: F.conv2d(a, w, padding=1), [(5, 4, 4, 4), (3, 4, 3, 3)]),
    "max_pool2d": (lambda a: F.max_pool2d(a, 2), [(4, 3, 4, 4)]),
    "attention": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        [(4, 5, 3, 4), (4, 5, 3, 4), (4, 5, 3, 4)],
    ),
    "attention with mask": (
        lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, attn_mask=m),
        [(4, 4, 3, 4), (4, 4, 3, 4), (4, 4, 3, 4), (4, 1, 3, 3)],
    ),
    "mse_loss": (F.mse_loss, [(4, 5), (4, 5)]),
    "mse_loss sum": (lambda a, b: F.mse_loss(a, b, reduction="sum"), [(5, 3), (5, 3)]),
    "in place": (lambda a, b: (a * 1).add_(b, alpha=2).mul_(3), [(5, 4), (5, 4)]),
    "in place of one": (lambda a: (a * 1).sigmoid_(), [(5, 4)]),
    "in place at a slice": (lambda a: _halved(a * 1), [(5, 4)]),
    "in place of a triangle": (lambda a: (a * 1).tril_(), [(4, 5, 4)]),
    "in place of a product": (lambda a, b, c: (a * 1).addmm_(b, c), [(4, 3), (4, 5), (5, 3)]),
    "add to out": (lambda a, b, c: torch.add(a.detach(), b.detach(), out=c.detach() * 1), [(4, 5)] * 3),
    "mul to out": (lambda a, b, c: torch.mul(a.detach(), b.detach(), out=c.detach() * 1), [(4, 5)] * 3),
    "sum to out": (lambda a, b: torch.sum(a.detach(), 1, out=b.detach() * 1), [(4, 5), (4,)]),
    "max to out": (lambda a, b: torch.max(a.detach(), 1, out=_pair(b.detach() * 1))[0], [(4, 5), (4,)]),
    "view of another dtype": (lambda a: a.detach().view(torch.int64) // 2, [(5, 4)]),
    "view of smaller elements": (lambda a: a.detach().view(torch.int32) // 2, [(4, 4)]),
    "cross product": (lambda a, b: torch.linalg.cross(a, b), [(5, 3), (5, 3)]),
    "inverse": (lambda a: torch.linalg.inv(a @ a.mT + torch.ones_like(a).tril()), [(4, 4)]),
    "index_select": (lambda a: a.index_select(0, torch.ones_like(a[:2, 0]).long()), [(5, 4)]),
    "checkpointed": (lambda a, b: (a @ b).tanh().sum(0).square(), [(5, 4), (4, 5)]),
}


def _pair(values: Any) -> tuple[Any, Any]:
    return values, torch.zeros_like(values).long()


def _halved(tensor: Any) -> Any:
    tensor[:, 1].mul_(0.5)
    return tensor
