"""Wrong uses, each with the error that mypy must report on its line, and pyright's (`-` where it has none)."""

from __future__ import annotations

from typing import Any

import gradloom as torch
import gradloom.nn.functional as F
from gradloom import Tensor, nn


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(2, 3)

    def forward(self, x: Tensor, *, scale: float = 1.0) -> Tensor:
        return self.linear(x) * scale


class Halves(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x / 2


def names(x: Tensor) -> None:
    torch.sinn(x)  # E: attr-defined | reportAttributeAccessIssue
    x.sum(axes=0)  # E: call-overload | reportCallIssue
    x.summ()  # E: attr-defined | reportAttributeAccessIssue
    F.rellu(x)  # E: attr-defined | reportAttributeAccessIssue
    torch.special.i00(x)  # E: attr-defined | reportAttributeAccessIssue
    torch.linalg.nrm(x)  # E: attr-defined | reportAttributeAccessIssue
    nn.Liner(2, 3)  # E: attr-defined | reportAttributeAccessIssue
    torch.optim.SDG([x])  # E: attr-defined | reportAttributeAccessIssue
    print(torch.max(x, 0).vals)  # E: attr-defined | reportAttributeAccessIssue
    print(torch.float31)  # E: attr-defined | reportAttributeAccessIssue


def arguments(x: Tensor, text: str) -> None:
    torch.sin(text)  # E: arg-type | reportArgumentType
    torch.sin()  # E: call-arg | reportCallIssue
    torch.sin(x, x)  # E: call-arg | reportCallIssue
    torch.add(x, text)  # E: arg-type | reportArgumentType
    torch.matmul(x, 2)  # E: arg-type | reportArgumentType
    torch.zeros("two")  # E: call-overload | reportCallIssue
    torch.zeros(2, dtype="float32")  # E: call-overload | reportCallIssue
    torch.sum(x, dim="rows")  # E: call-overload | reportArgumentType
    torch.cat(x, 0.5)  # E: call-overload | reportArgumentType
    torch.tensor([1.0], requires_grad="yes")  # E: arg-type | reportArgumentType
    torch.randn(2, generator=0)  # E: call-overload | reportCallIssue
    x.reshape("a")  # E: call-overload | reportCallIssue
    x.add_(x, beta=2)  # E: call-arg | reportCallIssue
    torch.add(x, x, out=3)  # E: arg-type | reportArgumentType
    F.softmax(x, dim="last")  # E: arg-type | reportArgumentType
    F.cross_entropy(x)  # E: call-arg | reportCallIssue
    nn.Linear("a", 3)  # E: arg-type | reportArgumentType
    nn.Sequential(nn.ReLU, nn.Tanh())  # E: arg-type | reportArgumentType
    torch.device(2.5)  # E: arg-type | reportArgumentType
    torch.Generator().manual_seed("0")  # E: arg-type | reportArgumentType


def operators(x: Tensor) -> None:
    x + "a"  # E: operator | reportOperatorIssue
    x @ 2  # E: operator | reportOperatorIssue
    x["a"]  # E: index | reportArgumentType
    x[0] = "a"  # E: assignment | reportArgumentType
    print(x < [1])  # E: operator | reportOperatorIssue


def modules(net: Net, x: Tensor) -> None:
    net(3)  # E: arg-type | reportArgumentType
    net(x, 2.0)  # E: call-arg | reportCallIssue
    net(x, scale="a")  # E: arg-type | reportArgumentType
    net.linear(x, x)  # E: call-arg | reportCallIssue
    text: str = net(x)  # E: assignment | reportAssignmentType
    net.load_state_dict([x])  # E: arg-type | reportArgumentType
    torch.optim.SGD(3, lr=0.1)  # E: arg-type | reportArgumentType
    torch.optim.Adam(net.parameters(), lr="fast")  # E: arg-type | reportArgumentType
    torch.optim.SGD(net.parameters(), momentumm=0.9)  # E: call-arg | reportCallIssue
    torch.optim.lr_scheduler.StepLR(net, step_size=1)  # E: arg-type | reportArgumentType
    print(text)


def derivatives(x: Tensor) -> None:
    torch.autograd.grad(x)  # E: call-overload | reportCallIssue
    torch.autograd.backward("x")  # E: arg-type | reportArgumentType
    x.backward(gradient=1.0)  # E: arg-type | reportArgumentType
    x.register_hook(3)  # E: arg-type | reportArgumentType
    x.grad.sum()  # E: union-attr | reportOptionalMemberAccess
    gradients: Tensor = torch.autograd.grad(x, x)  # E: assignment | reportAssignmentType
    torch.set_grad_enabled("off")  # E: arg-type | reportArgumentType
    print(gradients)
