"""History of operators of libraries: a formula from register_autograd, or a node that warns in backward."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from ..autograd.function import Function
from ..core.edge import gradient_edge
from ..core.node import NO_EDGE, Node, next_sequence_nr
from ..core.tensor import Tensor
from ..dispatch.state import GRAD_OFF, state
from ..ops._schema import python_arguments

if TYPE_CHECKING:
    from .operator import LibraryOperator


def tensors_of(values: Any) -> Iterator[Any]:
    """Yield the tensors among values, and in lists among them."""
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif value.__class__ in (tuple, list):
            yield from (t for t in value if isinstance(t, Tensor))


class Formula:
    """The derivative of an operator.

    Args:
        operator: its operator.
        overload: the operator object that errors name.
        backward: `backward(ctx, *grads)`; None to raise in backward.
        setup_context: `setup_context(ctx, inputs, output)`, or, for an operator with keyword-only arguments,
            `setup_context(ctx, inputs, keyword_only_inputs, output)`; None if backward needs nothing.
    """

    def __init__(
        self,
        operator: LibraryOperator,
        overload: Any,
        backward: Callable[..., Any] | None,
        setup_context: Callable[..., Any] | None,
    ) -> None:
        self.operator, self.overload = operator, overload
        self.backward, self.setup_context = backward, setup_context
        words = str(overload).replace(".", "_")
        self.function: Any = type(
            f"GeneratedBackwardFor_{words}",
            (Function,),
            {
                "forward": staticmethod(self._forward),
                "backward": staticmethod(self._backward),
                "__module__": __name__,
                "__doc__": f"The derivative of {overload}.",
            },
        )

    def record(self, values: tuple[Any, ...], below: Callable[..., Any]) -> Any:
        """Return the result of `below(*values)` with this formula as its history."""
        flags = state.flags
        if flags & GRAD_OFF or not any(t.requires_grad for t in tensors_of(values)):
            state.flags = flags | GRAD_OFF
            try:
                return below(*values)
            finally:
                state.flags = flags
        args, _ = python_arguments(self.operator.schema, values)
        leaves, lengths = _flatten(args)
        call = _Recorded(values, below, lengths)
        found = self.function.apply(*leaves, call)
        return call.results(found)

    def _forward(self, ctx: Any, *inputs: Any) -> Any:
        *leaves, call = inputs
        output = call.below(*call.values)
        ctx.call = call
        ctx.needs_input_grad = tuple(_unflatten(ctx.needs_input_grad[:-1], call.lengths))
        if self.setup_context is not None:
            arguments = self.operator.schema.arguments
            given = [list(v) if v.__class__ is tuple else v for v in call.values]
            positional = tuple([v for a, v in zip(arguments, given, strict=True) if not a.kwarg_only])
            named = {a.name: v for a, v in zip(arguments, given, strict=True) if a.kwarg_only}
            more = {"keyword_only_inputs": named} if named else {}
            self.setup_context(ctx=ctx, inputs=positional, output=output, **more)
        call.values = ()
        several = isinstance(output, tuple)
        call.several = several
        found, call.returned = _flatten(output if several else (output,))
        return tuple(found)

    def _backward(self, ctx: Any, *grads: Any) -> Any:
        if self.backward is None:
            raise RuntimeError(
                f"Trying to backward through {self.overload} but no autograd formula was registered. "
                "Please use register_autograd to add one."
            )
        call = ctx.call
        found = self.backward(ctx, *_unflatten(grads, call.returned))
        found = found if isinstance(found, tuple) else (found,)
        if any(n is not None for n in call.lengths):
            found = _same_structure(found, call.lengths)
        return (*found, None)


class _Recorded:
    """A call in progress.

    Attributes:
        lengths, returned: for each argument and each result, the number of elements of a list, else None.
    """

    __slots__ = ("values", "below", "lengths", "several", "returned")

    def __init__(self, values: tuple[Any, ...], below: Callable[..., Any], lengths: list[int | None]) -> None:
        self.values, self.below, self.lengths = values, below, lengths
        self.several, self.returned = False, lengths

    def results(self, found: tuple[Any, ...]) -> Any:
        results = tuple(_unflatten(found, self.returned))
        return results if self.several else results[0]


def _flatten(values: Any) -> tuple[list[Any], list[int | None]]:
    """Return values with lists of tensors flattened, and for each value the length of its list, or None."""
    leaves: list[Any] = []
    lengths: list[int | None] = []
    for value in values:
        if value.__class__ in (list, tuple) and any(isinstance(v, Tensor) for v in value):
            leaves += value
            lengths.append(len(value))
        else:
            leaves.append(value)
            lengths.append(None)
    return leaves, lengths


def _unflatten(leaves: Any, lengths: list[int | None]) -> list[Any]:
    """Undo `_flatten`."""
    found: list[Any] = []
    start = 0
    for n in lengths:
        if n is None:
            found.append(leaves[start])
            start += 1
        else:
            found.append(list(leaves[start : start + n]))
            start += n
    return found


def _same_structure(found: tuple[Any, ...], lengths: list[int | None]) -> list[Any]:
    """Return the gradients of backward, with lists flattened.

    Raises RuntimeError unless there is one for each argument, and a list of the same length for a list.
    """
    leaves: list[Any] = []
    fits = len(found) >= len(lengths) and all(g is None for g in found[len(lengths) :])
    for gradient, n in zip(found, lengths, strict=False):
        if n is not None and not (isinstance(gradient, (list, tuple)) and len(gradient) == n):
            fits = False
        leaves += gradient if isinstance(gradient, (list, tuple)) else [gradient]
    if not fits:
        raise RuntimeError(
            "Expected the return from backward to be of the same structure as the inputs. Got: "
            f"{_structure(found)} (return from backward), "
            f"({', '.join('*' if n is None else _row(n) for n in lengths)}) (inputs)"
        )
    return leaves


def _structure(found: tuple[Any, ...]) -> str:
    return f"({', '.join(_row(len(g)) if isinstance(g, (list, tuple)) else '*' for g in found)})"


def _row(n: int) -> str:
    return f"[{', '.join('*' * n)}]"


class WarnNotImplemented(Node):
    """The node of an operator without a derivative: backward warns and stops here."""

    operator = ""

    def apply(self, grads: Any, edges: Any) -> Any:
        _warn(self.operator)
        return (None,) * len(edges)


def warn_in_backward(name: str, values: tuple[Any, ...], below: Callable[..., Any]) -> Any:
    """Return the result of `below(*values)` with the history of its own operations; backward through it warns."""
    found = below(*values)
    edges = [] if state.flags & GRAD_OFF else [e for t in tensors_of(values) if (e := gradient_edge(t)) is not NO_EDGE]
    given = {id(t) for t in tensors_of(values)}
    for tensor in tensors_of(found if isinstance(found, tuple) else (found,)) if edges else ():
        if id(tensor) in given or tensor._array.dtype.kind not in "fcV":
            continue
        if tensor.requires_grad:
            tensor.register_hook(lambda grad: _warn(name))
            continue
        node = object.__new__(WarnNotImplemented)
        node.operator = name
        node.next_edges, node.sequence_nr, node.hooks = tuple(edges), next_sequence_nr(), None
        node.input_metadata = (tensor._array.shape, tensor._array.dtype)
        tensor._edge = node
    return found


def _warn(name: str) -> None:
    warnings.warn(
        f"{name}: an autograd kernel was not registered to the Autograd key(s) but we are trying to backprop "
        "through it. This may lead to silently incorrect behavior. If the operator is differentiable, "
        "register a formula with gradloom.library.register_autograd, a kernel for the key Autograd, or one "
        "for CompositeImplicitAutograd that is made of operators.",
        stacklevel=2,
    )
