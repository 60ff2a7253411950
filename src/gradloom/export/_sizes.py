"""Programs that hold for many sizes, made of graphs for some.

Note [Dynamic sizes]
There are no symbolic sizes: operators run with real tensors. So a module is traced several times, with arguments of
different sizes, and the graphs are compared. They must have the same operators in the same order. A number that is not
the same in all of them, such as the size that `view` gets, must be computed from sizes of tensors that come before it
in the graph: it is one of them, or `scale * size + offset`, a quotient, or a product of two. More graphs are traced
than such an expression has coefficients, so that a wrong one does not fit by accident. What differs otherwise
(operators, constants, numbers) depends on the size in a way that the graph cannot show, and is refused.

Control flow is found where it differs between the sizes that are tried: the bounds, the example's, and some around it.
As in PyTorch, a size of 0 or 1 is expected to behave as larger ones do.
"""

from __future__ import annotations

import operator
import random
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

import gradloom as gl

from ..core.tensor import Tensor
from ..fx.graph import Graph
from ..fx.node import Node
from ._dimensions import Axis, UserError

__all__ = ["assignments", "generalize", "resized", "settled"]

_FAR = 64  # a finite maximum up to this much above the example is tried


def settled(axes: Sequence[Axis], leaves: Sequence[Any]) -> dict[str, int]:
    """Return the roots' sizes in the example. Raises UserError if it contradicts the dimensions."""
    found: dict[str, int] = {}
    for axis in axes:
        size = int(leaves[axis.leaf].shape[axis.dim])
        root = axis.root_of(size, f"dimension {axis.dim} of input {axis.leaf}")
        if found.setdefault(axis.root, root) != root:
            raise UserError(
                f"Constraints violated ({axis.root})! {axis} is {size} in input {axis.leaf}, but {axis.root} is "
                f"{found[axis.root]} elsewhere"
            )
        if not axis.bounds.lower <= root <= axis.bounds.upper and not axis.automatic:
            raise UserError(f"Constraints violated ({axis.root})! {root} is not in the range {axis.bounds}")
    return found


def resized(leaves: Sequence[Any], axes: Sequence[Axis], sizes: Mapping[str, int]) -> list[Any]:
    """Return example arguments of other sizes: their slices are repeated, so that indices stay in range."""
    found = list(leaves)
    for axis in axes:
        tensor = found[axis.leaf]
        size, wanted = tensor.shape[axis.dim], axis.size(sizes[axis.root])
        if size != wanted:
            with gl.no_grad():
                found[axis.leaf] = tensor.index_select(axis.dim, gl.arange(wanted) % max(size, 1))
            found[axis.leaf].requires_grad_(leaves[axis.leaf].requires_grad)
    return found


def assignments(axes: Sequence[Axis], example: Mapping[str, int]) -> list[dict[str, int]]:
    """Return sizes of the roots to trace; the example's first, if they are not 0 or 1."""
    candidates: dict[str, list[int]] = {}
    for root, size in example.items():
        mine = [axis for axis in axes if axis.root == root]
        low = max(2, *[axis.bounds.lower for axis in mine])
        high = min(axis.bounds.upper for axis in mine)
        tried = [low, high if high <= size + _FAR else size + 11, *[size + step for step in (1, 3, 2, 6, 7, -1, 4, 9)]]
        lowest = max(low, *[-(axis.offset // axis.scale) + 2 for axis in mine])
        candidates[root] = list(dict.fromkeys(n for n in (lowest, *tried) if low <= n <= high and n >= lowest))
        if not candidates[root]:
            candidates[root] = [size]
    generator = random.Random(len(example))
    found = [dict(example)] if min(example.values()) > 1 else []
    found += [{root: sizes[turn % len(sizes)] for root, sizes in candidates.items()} for turn in (0, 1)]
    while len(found) < 5 + len(example):
        one: dict[str, int] = {}
        for root, sizes in candidates.items():
            one[root] = generator.choice([n for n in sizes if n not in one.values()] or sizes)
        found.append(one)
    return found


class _Sizes:
    """The numbers of several graphs that differ, as expressions.

    Args:
        graph: the graph of the first trace, to which the expressions are added.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._known: list[tuple[tuple[int, ...], Node, int]] = []  # sizes in the traces, the tensor, its dimension
        self._nodes: dict[tuple[Any, ...], Node] = {}

    def note(self, nodes: Sequence[Node]) -> None:
        """Note the sizes of a tensor that differ between the traces."""
        values = [value for node in nodes if isinstance(value := node.meta.get("val"), Tensor)]
        if len(values) < len(nodes):
            return
        if len({value.ndim for value in values}) > 1:
            raise UserError(f"the number of dimensions of {nodes[0].name} depends on a dynamic size")
        for dim, sizes in enumerate(zip(*[map(int, value.shape) for value in values], strict=True)):
            if len(set(sizes)) > 1 and all(sizes != known for known, *_ in self._known):
                self._known.append((sizes, nodes[0], dim))

    def expression(self, values: tuple[Any, ...], before: Node) -> Any:
        """Return a node that computes a number that differs between the traces."""
        for made in self._tries(values, before):
            return made
        raise UserError(
            f"Constraints violated! {before.name} has the number {values[0]!r}, which depends on a dynamic size: it is "
            f"{list(values)} for the sizes that were tried, which follows from no size of a tensor before it. Make the "
            "dimension static, or write the program without this number"
        )

    def _tries(self, values: tuple[Any, ...], before: Node) -> Iterator[Any]:
        whole = all(isinstance(value, int) for value in values)
        for sizes, node, dim in self._known:
            if sizes == values and whole:
                yield self._size(node, dim)
        for sizes, node, dim in self._known:
            line = _line(sizes, values) if whole else None
            if line is not None:
                yield self._affine(self._size(node, dim), *line)
        for sizes, node, dim in self._known if whole else ():
            for divisor in range(2, 33):
                for offset in range(divisor):
                    if all((size + offset) // divisor == value for size, value in zip(sizes, values, strict=True)):
                        yield self._call(operator.floordiv, self._affine(self._size(node, dim), 1, offset), divisor)
        for position, (sizes, node, dim) in enumerate(self._known):
            for others, other, along in self._known[position:] if whole else ():
                scale = _constant(Fraction(v, a * b) for v, a, b in zip(values, sizes, others, strict=True) if a * b)
                if scale is not None and scale.denominator == 1:
                    product = self._call(operator.mul, self._size(node, dim), self._size(other, along))
                    yield self._affine(product, int(scale), 0)
        for sizes, node, dim in self._known if not whole else ():
            for function, invert in ((operator.mul, False), (operator.truediv, True)):
                ratios = [v * s if invert else v / s for v, s in zip(values, sizes, strict=True) if s]
                if max(ratios) - min(ratios) <= 1e-12 * abs(ratios[0]):
                    nearest = float(f"{ratios[0]:.15g}")
                    yield self._call(function, nearest, self._size(node, dim))

    def _affine(self, size: Node, scale: int, offset: int) -> Node:
        product = size if scale == 1 else self._call(operator.mul, size, scale)
        return self._call(operator.add, product, offset) if offset else product

    def _size(self, node: Node, dim: int) -> Node:
        return self._call(gl.ops.aten.sym_size.int, node, dim)

    def _call(self, function: Any, *args: Any) -> Node:
        """Return the node of a call, which stands right after the last of its arguments; one for equal calls."""
        key = (function, *args)
        if key not in self._nodes:
            order = {node: place for place, node in enumerate(self.graph.nodes)}
            last = max((arg for arg in args if isinstance(arg, Node)), key=order.__getitem__)
            while last.op == "placeholder" and last.next.op == "placeholder":
                last = last.next
            with self.graph.inserting_after(last):
                self._nodes[key] = self.graph.call_function(function, args)
        return self._nodes[key]


def _line(sizes: Sequence[int], values: Sequence[int]) -> tuple[int, int] | None:
    """Return (scale, offset) with `value == scale * size + offset` for all; None if there are none."""
    (a, v), *rest = dict(zip(sizes, values, strict=True)).items()
    if len(rest) < 2:
        return None
    b, w = rest[0]
    scale = Fraction(w - v, b - a)
    offset = v - scale * a
    fits = all(scale * size + offset == value for size, value in zip(sizes, values, strict=True))
    return (int(scale), int(offset)) if fits and scale.denominator == offset.denominator == 1 and scale else None


def _constant(ratios: Any) -> Fraction | None:
    found = set(ratios)
    return found.pop() if len(found) == 1 else None


def generalize(graphs: Sequence[Graph], roots: Sequence[Any]) -> None:
    """Make the first of several graphs hold for all sizes: replace its numbers that differ by expressions.

    Args:
        graphs: the graphs; numbers differ, and else they are the same.
        roots: their modules, which hold the constants.

    Raises:
        UserError: if the graphs differ otherwise.
    """
    every = [list(graph.nodes) for graph in graphs]
    if len({len(nodes) for nodes in every}) > 1:
        _differ(every)
    numbers = [{node: place for place, node in enumerate(nodes)} for nodes in every]
    sizes = _Sizes(graphs[0])
    for nodes in zip(*every, strict=True):
        first = nodes[0]
        if any((node.op, str(node.target)) != (first.op, str(first.target)) for node in nodes):
            _differ(every)
        if first.op == "get_attr":
            values = [getattr(root, str(node.target)) for node, root in zip(nodes, roots, strict=True)]
            _check_constant(first, values)
        if first.op in ("call_function", "call_method", "output"):
            merge = _Merge(sizes, numbers, first)
            first.args, first.kwargs = (
                merge(tuple(node.args for node in nodes)),
                merge(tuple(dict(node.kwargs) for node in nodes)),
            )
        sizes.note(nodes)


class _Merge:
    """Merges the arguments of a node's counterparts in several graphs."""

    def __init__(self, sizes: _Sizes, numbers: Sequence[Mapping[Node, int]], node: Node) -> None:
        self.sizes, self.numbers, self.node = sizes, numbers, node

    def __call__(self, values: tuple[Any, ...]) -> Any:
        first = values[0]
        if isinstance(first, Node):
            if len({number[value] for number, value in zip(self.numbers, values, strict=True)}) > 1:
                self._refuse("different inputs")
            return first
        if isinstance(first, (list, tuple)):
            if len({len(value) for value in values}) > 1:
                self._refuse("a list of another length")
            return type(first)(self(tuple(each)) for each in zip(*values, strict=True))
        if isinstance(first, dict):
            return {key: self(tuple(value[key] for value in values)) for key in first}
        if isinstance(first, slice):
            parts = [self(tuple(getattr(value, name) for value in values)) for name in ("start", "stop", "step")]
            return slice(*parts)
        if all(type(value) is type(first) and value == first for value in values):
            return first
        if all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values):
            return self.sizes.expression(values, self.node)
        return self._refuse(f"{first!r} or another value")

    def _refuse(self, what: str) -> Any:
        raise UserError(f"Constraints violated! {self.node.name} has {what}, depending on a dynamic size")


def _check_constant(node: Node, values: Sequence[Any]) -> None:
    same = all(
        value is values[0]
        or isinstance(value, Tensor)
        and value.shape == values[0].shape
        and value.dtype == values[0].dtype
        and bool(((value == values[0]) | (value != value)).all())
        for value in values
    )
    if not same:
        raise UserError(
            f"Constraints violated! the constant {node.target} depends on a dynamic size: make it by an operator, such "
            "as arange or zeros, whose arguments are sizes"
        )


def _differ(every: Sequence[Sequence[Node]]) -> None:
    """Raise UserError, which names the first operator in which graphs differ."""
    for nodes in zip(*every, strict=False):
        targets = list(dict.fromkeys(str(node.target) for node in nodes))
        if len(targets) > 1:
            raise UserError(
                "Constraints violated! the program takes another way depending on a dynamic size: at the same place it "
                f"calls {' and '.join(targets)}. Bound the dimension by `min` and `max`, or make it static"
            )
    counts = sorted({len(nodes) for nodes in every})
    raise UserError(
        f"Constraints violated! the program has {counts[0]} or {counts[-1]} operators, depending on a dynamic size"
    )
