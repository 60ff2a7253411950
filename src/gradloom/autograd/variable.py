"""Variable: the name of tensors with history before PyTorch 0.4. Calling it returns a Tensor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..core import engine
from ..dispatch import _operators
from .passes import backward, grad

if TYPE_CHECKING:
    from ..core.tensor import Tensor

__all__ = ["Variable", "VariableMeta"]


class ImperativeEngine:
    """The engine in the form of `Variable._execution_engine`, for programs written for PyTorch."""

    queue_callback = staticmethod(engine.queue_callback)
    is_checkpoint_valid = staticmethod(engine.is_checkpoint_valid)

    @staticmethod
    def run_backward(
        tensors, grad_tensors, keep_graph, create_graph, inputs=(), allow_unreachable=False, accumulate_grad=False
    ):
        """Run `autograd.backward` if accumulate_grad, else `autograd.grad`, with the arguments of PyTorch's engine.

        Returns:
            The gradients of `inputs`; an empty tuple if they were accumulated.
        """
        if accumulate_grad or not inputs:
            backward(tensors, grad_tensors, keep_graph, create_graph, inputs=inputs or None)
            return ()
        return grad(tensors, inputs, grad_tensors, keep_graph, create_graph, allow_unused=allow_unreachable)

    def __repr__(self):
        return "<gradloom.core.engine>"


class VariableMeta(type):
    """Every Tensor is a Variable."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, _operators.Tensor)

    def __call__(cls, data: Tensor | None = None, requires_grad: bool = False, volatile: object = None) -> Tensor:
        """Return a Tensor on the memory of `data`, without its history.

        Args:
            data: a Tensor; an empty one if not given.
            requires_grad: whether the result requires grad.
            volatile: has no effect since PyTorch 0.4.

        Raises:
            TypeError: if `data` is not a Tensor.
            ValueError: if both `volatile` and `requires_grad` are true.
        """
        if data is None:
            data = _operators.empty((0,))
        if not isinstance(data, _operators.Tensor):
            raise TypeError(f"Variable data has to be a tensor, but got {type(data).__name__}")
        if volatile:
            import warnings

            warnings.warn(
                "volatile was removed and now has no effect. Use `with torch.no_grad():` instead.", stacklevel=2
            )
            if requires_grad:
                raise ValueError("Variable can't be volatile and require_grad at the same time!")
        return data.detach().requires_grad_(requires_grad)


class Variable(metaclass=VariableMeta):
    """PyTorch's former name of Tensor; `Variable(t)` is `t` without history."""

    _execution_engine = ImperativeEngine()
