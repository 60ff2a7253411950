"""gradloom._C._functions: node classes by name, and functions that insert undefined gradients or delayed errors."""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING, Any

from ..core.accumulate_grad import AccumulateGrad as AccumulateGrad
from ..core.edge import NO_EDGE, gradient_edge
from ..core.node import Error as Error, Node, NotImplementedNode, next_sequence_nr
from ..core.tensor import Tensor
from ..core.views import CopySlices as CopySlices
from ..dispatch.state import GRAD_OFF, state
from ..types.silence import module_name

NotImplemented = NotImplementedNode


class UndefinedGradBackward(Node):
    """Pass an undefined gradient on, whatever arrives."""

    __slots__ = ()

    def apply(self, grads: Any, edges: Any) -> Any:
        return (None,) * len(edges)


class UndefinedGrad:
    """`UndefinedGrad()(tensor)` returns the tensor with a node that passes only undefined gradients on."""

    def __call__(self, *tensors: Tensor) -> Tensor:
        """Return the tensor with the new node.

        Args:
            tensors: one Tensor.

        Raises TypeError for another number of arguments, or anything but a Tensor.
        """
        _check_tensors(tensors, 1)
        return _passed_through(tensors, lambda: object.__new__(UndefinedGradBackward))[0]


class DelayedError:
    """`DelayedError(message, n)(*tensors)` returns the tensors with a node that raises when a gradient reaches it.

    Args:
        msg: message of the RuntimeError.
        num_inputs: number of tensors that the call takes.

    Raises:
        RuntimeError: if `msg` is not a str, or `num_inputs` not an int.
    """

    def __init__(self, *args: Any) -> None:
        if len(args) != 2:
            raise RuntimeError(f"Requires two arguments, got {len(args)}: a message and a number of tensors")
        self.msg, self.num_inputs = args
        if not isinstance(self.msg, str):
            raise RuntimeError(f"argument 'msg' must be a string, but got {type(self.msg).__name__}")
        if not isinstance(self.num_inputs, int):
            raise RuntimeError(f"argument 'num_inputs' must be an int, but got {type(self.num_inputs).__name__}")

    def __call__(self, *tensors: Tensor) -> Tensor | tuple[Tensor, ...]:
        """Return the tensors with the new node.

        Args:
            tensors: `num_inputs` Tensors.

        Raises TypeError for another number of arguments, or anything but a Tensor.
        """
        _check_tensors(tensors, self.num_inputs)
        found = _passed_through(tensors, lambda: Error(self.msg))
        return found[0] if len(found) == 1 else found


def _check_tensors(tensors: tuple[Any, ...], count: int) -> None:
    if len(tensors) != count:
        raise TypeError(f"expected {count} arguments, got {len(tensors)} instead")
    for i, tensor in enumerate(tensors):
        if not isinstance(tensor, Tensor):
            raise TypeError(f"argument {i} is not a Variable: expected a Tensor, got {type(tensor).__name__}")


def _passed_through(tensors: tuple[Any, ...], make_node) -> tuple[Tensor, ...]:
    """Return aliases of the tensors whose history is a new node, if one of them requires grad."""
    edges = tuple([t._edge or gradient_edge(t) for t in tensors])
    found = tuple([t._detached_alias() for t in tensors])
    if not state.flags & GRAD_OFF and any(edge is not NO_EDGE for edge in edges):
        node = make_node()
        node.next_edges, node.hooks, node.sequence_nr = edges, None, next_sequence_nr()
        node.input_metadata = tuple([part for t in found for part in (t._array.shape, t._array.dtype)])
        for nr, tensor in enumerate(found):
            tensor._edge = (node, nr)
    return found


def _families() -> list[ModuleType]:
    from importlib import import_module
    from pkgutil import iter_modules

    from ..generated import functions

    return [import_module(f"{functions.__name__}.{found.name}") for found in iter_modules(functions.__path__)]


if not TYPE_CHECKING:

    def __getattr__(name):
        """Return a generated node class, such as `MulBackward0`."""
        if "Backward" in name:
            for family in _families():
                found = vars(family).get(name)
                if found is not None:
                    globals()[name] = found
                    return found
        raise AttributeError(f"module '{__name__}' has no attribute '{name}': no operator here has a node of that name")


def __dir__() -> list[str]:
    nodes = {
        name
        for family in _families()
        for name, value in vars(family).items()
        if isinstance(value, type) and issubclass(value, Node) and value.__module__ == module_name(vars(family))
    }
    named = "AccumulateGrad CopySlices DelayedError Error NotImplemented UndefinedGrad UndefinedGradBackward"
    return sorted({*nodes, *named.split()})
