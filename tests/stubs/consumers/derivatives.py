"""Derivatives: grad, higher orders, custom functions, hooks, forward mode, Jacobians, the graph."""

from __future__ import annotations

from typing import Any, assert_type

import gradloom as torch
from gradloom import Tensor
from gradloom.autograd import Function, forward_ad
from gradloom.autograd.function import FunctionCtx, once_differentiable
from gradloom.autograd.functional import hessian, jacobian, vjp


class Exp(Function):
    """With forward and backward that share a context."""

    @staticmethod
    def forward(ctx: FunctionCtx, x: Tensor, factor: float) -> Tensor:
        result = (x * factor).exp()
        ctx.save_for_backward(result)
        ctx.factor = factor
        return result

    @staticmethod
    def backward(ctx: FunctionCtx, grad: Tensor) -> tuple[Tensor | None, None]:
        (result,) = ctx.saved_tensors
        return (grad * result * ctx.factor if ctx.needs_input_grad[0] else None), None


class Double(Function):
    """With setup_context."""

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return x * 2

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.mark_non_differentiable()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return grad * 2


def first_and_second_order() -> None:
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    y = (x**3).sum()
    (first,) = torch.autograd.grad(y, x, create_graph=True)
    assert_type(first, Tensor)
    (second,) = torch.autograd.grad(first.sum(), [x])
    assert_type(second, Tensor)
    maybe = torch.autograd.grad(second.sum() + (x * 1).sum(), (x,), allow_unused=True)[0]
    assert_type(maybe, Tensor | None)
    y.backward(retain_graph=True, inputs=[x])
    torch.autograd.backward([y, (x * 2).sum()], [torch.ones(()), None])
    print(x.grad, x.is_leaf, y.grad_fn, y.requires_grad)
    x.grad = None


def custom() -> Tensor:
    x = torch.randn(3, dtype=torch.float64, requires_grad=True)
    y: Tensor = Exp.apply(x, 2.0)
    z: Tensor = Double.apply(y)
    assert torch.autograd.gradcheck(lambda t: Exp.apply(t, 2.0), (x,))
    return z


def hooks(model: torch.nn.Module) -> None:
    def on_gradient(grad: Tensor) -> Tensor:
        return grad * 2

    def on_forward(module: torch.nn.Module, args: tuple[Any, ...], output: Any) -> None:
        print(type(module).__name__)

    x = torch.ones(3, requires_grad=True)
    handle = x.register_hook(on_gradient)
    model_handle = model.register_forward_hook(on_forward)
    y = (x * 2).sum()
    node = y.grad_fn
    if node is not None:
        print(node.name(), node.next_functions[0][0])
        node.register_hook(lambda inputs, outputs: None)
    handle.remove()
    model_handle.remove()
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t.detach().numpy(), torch.from_numpy):
        (x * x).sum().backward()


def forward_mode() -> Tensor:
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(torch.ones(2), torch.tensor([1.0, 0.0]))
        primal, tangent = forward_ad.unpack_dual(dual.sin())
        assert_type(primal, Tensor)
        assert_type(tangent, Tensor | None)
        return primal


def jacobians() -> None:
    x = torch.ones(2)
    print(jacobian(lambda t: t**2, x), hessian(lambda t: (t**3).sum(), x))
    outputs, product = vjp(lambda t: t**2, x, torch.ones(2))
    print(outputs, product)


@torch.no_grad
def without_parentheses(x: Tensor) -> Tensor:
    return x * 2


@torch.enable_grad()
def with_parentheses(x: Tensor, times: int = 2) -> Tensor:
    with torch.set_grad_enabled(False), torch.autograd.detect_anomaly():
        return x * times


def main() -> None:
    first_and_second_order()
    print(custom())
    hooks(torch.nn.Linear(3, 3))
    print(forward_mode())
    jacobians()
    assert_type(with_parentheses(torch.ones(1), times=3), Tensor)
    print(without_parentheses(torch.ones(1)), torch.is_grad_enabled())


if __name__ == "__main__":
    main()
