"""Levels of reverse mode: a transform gives its function new tensors in place of the arguments.

Note [One graph]
A transform such as `grad` differentiates only with respect to the tensors that it passes to the function. A tensor that
an outer transform also differentiates must stay distinct from them, so each argument is passed as a new tensor:

- an argument without history, or one passed in no_grad mode: a new leaf that shares its memory;
- an argument that is differentiable from outside: a view of it. Gradients of this level end at the view; the derivative
  of the outer level goes through it.

All levels record into one graph, and operators have nothing to unwrap. When the function has returned, a result is
detached if its history leads only to leaves of this level; if it leads to tensors of an outer level, or the caller's,
it keeps its history. A tensor that the function itself made require grad, such as a parameter of a Module that it
creates, counts as a leaf of this level: the caller cannot refer to it. (A kept history may also lead to leaves of this
level. Nobody can ask for their gradients once the function has returned: a leaf knows its level, and the walk checks
whether that level is still running.) The same walk tells whether the gradients must be differentiable (`create_graph`),
so a derivative that nobody differentiates further costs no more than `autograd.grad`.

Tangents of an open forward-mode level propagate: a new leaf takes the tangent of its argument. Within vmap, an argument
that all batch elements share is expanded to the batch, because each element has its own gradient.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..autograd import grad as autograd_grad
from ..autograd.forward_ad import name_identity
from ..core.accumulate_grad import AccumulateGrad
from ..core.attributes import fields
from ..core.edge import gradient_edge
from ..core.node import as_pair
from ..core.tangents import hold_tangent, tangent_of
from ..core.tensor import Tensor
from ..core.views import TRANSFORM_INPUT
from ..dispatch import _operators as ops
from ..dispatch.state import FORWARD_AD, GRAD_ASKED, GRAD_OFF, INFERENCE, state
from ..utils._pytree import tree_map_only

_MODES = GRAD_OFF | GRAD_ASKED | INFERENCE
UNITS: set[int] = set()  # numbers of the vmaps that jacrev or jacfwd is running


class Level:
    """A `with` block in which a function is recorded on inputs of its own; see Note [One graph].

    Attributes:
        records_outside: whether the caller records history, so that results may have history.
        running: whether the function is running.
        outer: the level around this one, or None.
    """

    def __init__(self) -> None:
        self.before = state.flags & _MODES
        self.records_outside = not self.before & GRAD_OFF
        self.running = False
        self.outer: Level | None = None

    def __enter__(self) -> Level:
        state.flags &= ~_MODES
        self.running = True
        self.outer, state.func_level = state.func_level, self
        return self

    def __exit__(self, *error: object) -> None:
        state.flags = state.flags & ~_MODES | self.before
        self.running = False
        state.func_level = self.outer

    def enter(self, argument: Any) -> Tensor:
        """Return the tensor that replaces an argument.

        Raises:
            ValueError: if the argument is not a Tensor.
            RuntimeError: if its dtype cannot be differentiated.
        """
        if not isinstance(argument, Tensor):
            raise ValueError(f"Thing passed to transform API must be Tensor, got {type(argument)}")
        argument = batched_at_open_levels(argument)
        if self.records_outside and argument.requires_grad:
            found = ops.view_as(argument, argument)
            seen = bottom(found)
            seen._view.creation = TRANSFORM_INPUT
            name_identity(seen)
        else:
            found = self.owned(self._leaf(argument))
        return found

    def made(self, leaf: Tensor) -> None:
        """Mark a tensor that the running function made require grad as a leaf of this level."""
        bottom(leaf).__dict__["_made_at"] = self

    def owned(self, leaf: Tensor) -> Tensor:
        """Mark a leaf as one of this level."""
        bottom(leaf).__dict__["_level"] = self
        return leaf

    def _leaf(self, argument):
        found = (argument.clone() if argument._inference else argument).detach().requires_grad_()
        if state.flags & FORWARD_AD:
            tangent = tangent_of(argument)
            if tangent is not None:
                hold_tangent(found, tangent)
        return found

    def reaches_out(self, tensor: Tensor | None) -> bool:
        """Return whether a tensor's history leads to a tensor that is differentiated outside this level."""
        if tensor is None or not tensor.requires_grad:
            return False
        stack = [as_pair(gradient_edge(tensor))[0]]
        seen = set(stack)
        while stack:
            node = stack.pop()
            if node is None:
                return True  # a view of a tensor that requires grad, without a node of its own
            if node.__class__ is AccumulateGrad and self._is_foreign(node.variable):
                return True
            for following, _ in node.next_functions:
                if following is not None and following not in seen:
                    seen.add(following)
                    stack.append(following)
        return False

    def _is_foreign(self, leaf) -> bool:
        own = fields(leaf)
        maker = own.get("_made_at")
        while maker is not None:
            if maker is self:
                return False
            maker = maker.outer
        level = own.get("_level")
        return level is None or level is not self and level.running

    def gradients(
        self,
        outputs: Sequence[Tensor],
        vectors: Sequence[Tensor | None],
        inputs: Sequence[Tensor],
        records: bool,
        retain_graph: bool | None = None,
    ) -> list[Tensor | None]:
        """Return the vector-Jacobian product for each input; None for inputs that no output depends on.

        Args:
            outputs, vectors: one vector for each output, or None.
            inputs: tensors that `enter` returned.
            records: whether the caller records history now.
            retain_graph: whether the graph is needed again; default: if the result is differentiable.

        Raises:
            TypeError: if a vector is not a Tensor.
            RuntimeError: if it does not have its output's shape.
        """
        for vector in vectors:
            if vector is not None and not isinstance(vector, Tensor):
                raise TypeError(f"gradients can be either Tensors or None, but got {type(vector).__name__}")
        pairs = [(o, v) for o, v in zip(outputs, vectors, strict=True) if o.requires_grad]
        if not pairs:
            return [None] * len(inputs)
        create = records and (
            any(v is not None and v.requires_grad for _, v in pairs) or any(self._leads_out(o) for o, _ in pairs)
        )
        return list(
            autograd_grad([o for o, _ in pairs], inputs, [v for _, v in pairs], retain_graph, create, allow_unused=True)
        )

    def _leads_out(self, tensor) -> bool:
        return self.reaches_out(tensor) or bool(state.flags & FORWARD_AD) and self.reaches_out(tangent_of(tensor))

    def leave(self, tree: Any, records: bool | None = None) -> Any:
        """Return a tree with each Tensor detached, unless its history leads outside this level.

        Args:
            tree: any value; other leaves are unchanged.
            records: whether the caller records history now; default: whether it did when the level was made.
        """
        records = self.records_outside if records is None else records
        return tree_map_only(Tensor, lambda tensor: self._left(tensor, records), tree)

    def _left(self, tensor, records):
        tangent = tangent_of(tensor) if state.flags & FORWARD_AD else None
        if not tensor.requires_grad or records and self.reaches_out(tensor):
            return tensor
        found = tensor.detach()
        if tangent is not None:
            hold_tangent(found, self._left(tangent, records))
        return found


def batched_at_open_levels(tensor: Tensor) -> Tensor:
    """Return the tensor batched at every running vmap, except those over unit vectors (Note [Unit vectors])."""
    if not state.batching:
        return tensor
    from ..batching.tensor import batched_at, levels_of

    own = levels_of(tensor)
    return batched_at(tensor, [level for level in state.batching if level.number not in UNITS or level in own])


def bottom(tensor: Any) -> Any:
    """Return the physical tensor below all batch levels."""
    while (physical := getattr(tensor, "_physical", None)) is not None:
        tensor = physical
    return tensor


def filled(gradients: Sequence[Tensor | None], like: Sequence[Tensor]) -> list[Tensor]:
    """Replace None among gradients by zeros of the shapes and dtypes of `like`."""
    return [ops.zeros_like(t).detach() if g is None else g for g, t in zip(gradients, like, strict=True)]
