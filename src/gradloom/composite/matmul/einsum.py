"""Einstein summation: parse the equation, and evaluate it by matrix products of two operands at a time.

A label is a letter, or a number below 0 for a dimension under the ellipsis (-1 for the last one).

Note [Plans of einsum]
Which operators are called depends on the equation and the shapes only. The functions below work them out on `_Value`s,
which have shapes and note what is done to them; the plan is remembered, and a later call runs only the operators.
"""

from __future__ import annotations

import math
from functools import lru_cache

from ...dispatch import _operators as ops

_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
_ELLIPSIS = "..."


def einsum(equation, tensors, path=None):
    """Return the sums of products of elements that the equation describes (PyTorch's einsum).

    Args:
        equation: subscripts of the operands, separated by commas, and "->" with those of the result. Without it the
            result has the letters that occur once, in alphabetical order, after the dimensions under an ellipsis.
        tensors: the operands. Sizes of 1 broadcast.
        path: pairs of positions in the list of operands, one after another; the product of a pair goes to the end of
            the list. The default for more than two operands is the result of np.einsum_path.
    """
    if not tensors:
        raise RuntimeError("einsum(): must provide at least one operand")
    shapes = tuple([tensor.shape for tensor in tensors])
    steps, place = _plan(equation, shapes, None if path is None else tuple(path))
    values = [*tensors]
    for name, first, second, arguments in steps:
        operator = getattr(ops.exact, name)
        if second is None:
            values[first] = operator(values[first], *arguments)
        else:
            values[first], values[second] = operator(values[first], values[second]), None
    return values[place]


@lru_cache(256)
def _plan(equation, shapes, path) -> tuple:
    """Return the steps of `einsum`, (operator, place, place of a second operand or None, further arguments), each of
    whose results replaces the first operand, and the place of the result. See Note [Plans of einsum]."""
    steps: list[tuple] = []
    tensors = [_Value(steps, place, tuple(shape)) for place, shape in enumerate(shapes)]
    found = _evaluated(equation, tensors, path)
    return tuple(steps), found.place


class _Value:
    """An operand or a result in a plan. Its methods stand for Tensor's; each value is used once.

    Attributes:
        steps: the plan's.
        place: that of the value among the operands.
        shape: tuple of ints.
    """

    __slots__ = ("steps", "place", "shape")

    def __init__(self, steps, place, shape):
        self.steps, self.place, self.shape = steps, place, shape

    def _then(self, shape, operator, *arguments):
        self.steps.append((operator, self.place, None, arguments))
        return _Value(self.steps, self.place, tuple(shape))

    def _with(self, other, shape, operator):
        self.steps.append((operator, self.place, other.place, ()))
        return _Value(self.steps, self.place, tuple(shape))

    def dim(self):
        return len(self.shape)

    def diagonal_at(self, i, j):
        """Replace dimensions i < j by their diagonal, at i."""
        rest = [n for d, n in enumerate(self.shape) if d not in (i, j)]
        found = self._then([*rest, self.shape[i]], "diagonal", 0, i, j)
        order = [*range(i), len(rest), *range(i, len(rest))]
        return found.permute(order)

    def unsqueeze(self, dim):
        return self._then([*self.shape[:dim], 1, *self.shape[dim:]], "unsqueeze", dim)

    def permute(self, dims):
        return self._then([self.shape[d] for d in dims], "permute", tuple(dims))

    def sum(self, dims, keepdim=False):
        kept = [1 if d in dims else n for d, n in enumerate(self.shape) if keepdim or d not in dims]
        return self._then(kept, "sum_dim_IntList", tuple(dims), keepdim, None)

    def view(self, shape):
        return self._then(shape, "view", tuple(shape))

    def reshape(self, *shape):
        return self._then(shape, "reshape", shape)

    def times(self, other):
        shape = [m if n == 1 else n for n, m in zip(self.shape, other.shape, strict=True)]
        return self._with(other, shape, "mul_Tensor")

    def bmm(self, other):
        return self._with(other, [*self.shape[:2], other.shape[2]], "bmm")


def _evaluated(equation, tensors, path):
    """Return the value of the equation."""
    left, arrow, right = equation.partition("->")
    inputs = _inputs(left, tensors)
    output = _output(right, inputs) if arrow else _implicit_output(inputs)
    sizes = _sizes(inputs, tensors)
    order = [*output, *sorted((x for x in sizes if x not in output), key=str)]
    operands = [_arranged(tensor, labels, order) for tensor, labels in zip(tensors, inputs, strict=True)]
    kept = len(output)
    if len(operands) == 1:
        return operands[0] if kept == len(order) else operands[0].sum(list(range(kept, len(order))))
    counts = [sum(x.shape[d] != 1 for x in operands) for d in range(len(order))]
    for i, j in list(_pairs(path, operands, order, output, sizes)):
        second, first = operands.pop(max(i, j)), operands.pop(min(i, j))
        if i > j:
            first, second = second, first
        operands.append(_contract(first, second, kept, counts))
    found = operands[0]
    return found if kept == len(order) else found.view(found.shape[:kept])


def _inputs(text, tensors) -> list:
    """Return the labels of each operand's dimensions."""
    parts = text.split(",")
    if len(parts) != len(tensors):
        what = "fewer" if len(tensors) < len(parts) else "more"
        raise RuntimeError(f"einsum(): {what} operands were provided than specified in the equation")
    found, start = [], 0
    for number, (part, tensor) in enumerate(zip(parts, tensors, strict=True)):
        labels = _labels(part, f"operand {number}", start)
        start += len(part) + 1
        named, ndim = len(labels) - (_ELLIPSIS in labels), tensor.dim()
        if _ELLIPSIS not in labels and named != ndim:
            raise RuntimeError(
                f"einsum(): the number of subscripts in the equation ({named}) does not match the number of "
                f"dimensions ({ndim}) for operand {number} and no ellipsis was given"
            )
        if named > ndim:
            raise RuntimeError(
                f"einsum(): the number of subscripts in the equation ({named}) is more than the number of "
                f"dimensions ({ndim}) for operand {number}"
            )
        found.append(_expanded(labels, ndim - named))
    return found


def _labels(text, what, start) -> list:
    labels, i = [], 0
    while i < len(text):
        letter = text[i]
        if letter in _LETTERS:
            labels.append(letter)
        elif letter == ".":
            if _ELLIPSIS in labels:
                raise RuntimeError(
                    f"einsum(): found '.' for {what} "
                    + (
                        "but an ellipsis (...) was already found"
                        if what == "output"
                        else "for which an ellipsis was already found"
                    )
                )
            if text[i : i + 3] != _ELLIPSIS:
                raise RuntimeError(f"einsum(): found '.' for {what} that is not part of any ellipsis")
            labels.append(_ELLIPSIS)
            i += 2
        elif letter != " ":
            raise RuntimeError(
                f"einsum(): invalid subscript given at index {start + i} in the equation string, subscripts "
                "must be in [a-zA-Z]"
            )
        i += 1
    return labels


def _expanded(labels, count) -> list:
    """Return the labels with the ellipsis replaced by `count` dimensions."""
    if _ELLIPSIS not in labels:
        return labels
    at = labels.index(_ELLIPSIS)
    return [*labels[:at], *range(-count, 0), *labels[at + 1 :]]


def _covered(inputs) -> int:
    """Return the largest number of dimensions that an ellipsis stands for."""
    return max((-x for labels in inputs for x in labels if x.__class__ is int), default=0)


def _output(text, inputs) -> list:
    labels = _labels(text, "output", 0)
    known = {x for found in inputs for x in found}
    for i, x in enumerate(labels):
        if x == _ELLIPSIS:
            continue
        if x in labels[:i]:
            raise RuntimeError(f"einsum(): output subscript {x} appears more than once in the output")
        if x not in known:
            raise RuntimeError(f"einsum(): output subscript {x} does not appear in the equation for any input operand")
    return _expanded(labels, _covered(inputs))


def _implicit_output(inputs) -> list:
    letters = [x for labels in inputs for x in labels if x.__class__ is str]
    once = sorted(x for x in letters if letters.count(x) == 1)
    return [*range(-_covered(inputs), 0), *once]


def _sizes(inputs, tensors) -> dict:
    """Return the size of each label; sizes of 1 broadcast."""
    sizes: dict = {}
    for number, (labels, tensor) in enumerate(zip(inputs, tensors, strict=True)):
        own: dict = {}
        for x, n in zip(labels, tensor.shape, strict=True):
            if own.setdefault(x, n) != n:
                raise RuntimeError(
                    f"einsum(): subscript {x} is repeated for operand {number} but the sizes don't match, "
                    f"{n} != {own[x]}"
                )
        for x, n in own.items():
            known = sizes.setdefault(x, n)
            if n != known and n != 1 and known != 1:
                name = x if x.__class__ is str else "..."
                raise RuntimeError(
                    f"einsum(): subscript {name} has size {n} for operand {number} which does not broadcast "
                    f"with previously seen size {known}"
                )
            if known == 1:
                sizes[x] = n
    return sizes


def _arranged(tensor, labels, order):
    """Return the tensor with all labels as dimensions: repeated labels become diagonals, absent ones size 1."""
    labels = list(labels)
    for x in dict.fromkeys(labels):
        while labels.count(x) > 1:
            i = labels.index(x)
            j = labels.index(x, i + 1)
            tensor = tensor.diagonal_at(i, j)
            del labels[j]
    for x in order:
        if x not in labels:
            tensor = tensor.unsqueeze(len(labels))
            labels.append(x)
    return tensor.permute([labels.index(x) for x in order])


def _pairs(path, operands, order, output, sizes):
    count = len(operands)
    if path is not None:
        yield from zip(path[::2], path[1::2], strict=True)
    elif count <= 2:
        yield from [(0, 1)] * (count - 1)
    else:
        yield from _greedy_pairs(operands, order, output, sizes)


def _greedy_pairs(operands, order, output, sizes):
    import numpy as np

    letter = dict(zip(sizes, sorted(_LETTERS), strict=False))  # np.einsum_path refuses more than 52 labels
    if len(letter) < len(sizes):
        return [(0, 1)] * (len(operands) - 1)
    own = [[x for x, n in zip(order, t.shape, strict=True) if n != 1] for t in operands]
    inputs = ",".join("".join(letter[x] for x in labels) for labels in own)
    known = {x for labels in own for x in labels}
    equation = f"{inputs}->{''.join(letter[x] for x in output if x in known)}"
    shapes = [np.broadcast_to(np.empty(()), [sizes[x] for x in labels]) for labels in own]
    found = np.einsum_path(equation, *shapes, optimize="greedy")[0][1:]
    pairs, names = [], list(range(len(operands)))
    for step in found:
        chosen = [names[i] for i in step]
        for other in chosen[1:]:  # a step with more than two operands: their order does not matter
            i, j = names.index(chosen[0]), names.index(other)
            pairs.append((i, j))
            names = [x for x in names if x not in (chosen[0], other)] + [chosen[0]]
    return pairs


def _contract(a, b, kept, counts):
    """Return the product of two operands, summed over the dimensions from `kept` on that no other operand has. Update
    `counts`, the number of operands with each dimension of a size other than 1."""
    summed, alone = [], ([], [])
    for d in range(kept, a.dim()):
        wide = a.shape[d] != 1, b.shape[d] != 1
        if all(wide):
            counts[d] -= 1
            if counts[d] == 1:
                summed.append(d)
                counts[d] = 0
        elif any(wide) and counts[d] == 1:
            alone[wide[1]].append(d)
            counts[d] = 0
    a, b = (x.sum(dims, True) if dims else x for x, dims in zip((a, b), alone, strict=True))
    if not summed:
        return a.times(b)
    return _product(a, b, summed)


def _product(a, b, summed):
    """Return the product, summed over common dimensions (kept with size 1), by one batched matrix product."""
    groups = _groups(a, b, summed)
    both, of_a, of_b = groups
    n, m, k = (math.prod(a.shape[d] for d in dims) for dims in (both, of_a, summed))
    p = math.prod(b.shape[d] for d in of_b)
    left = a.permute([*both, *of_a, *summed, *of_b]).reshape(n, m, k)
    right = b.permute([*both, *summed, *of_b, *of_a]).reshape(n, k, p)
    order = [*both, *of_a, *summed, *of_b]
    shape = [*(a.shape[d] for d in both + of_a), *(1,) * len(summed), *(b.shape[d] for d in of_b)]
    return left.bmm(right).view(shape).permute([order.index(d) for d in range(a.dim())])


def _groups(a, b, summed):
    """Return the remaining dimensions: those of both operands, of the first only, and of the second only."""
    found = [], [], []
    for d in range(a.dim()):
        if d not in summed:
            found[0 if a.shape[d] != 1 and b.shape[d] != 1 else 1 if a.shape[d] != 1 else 2].append(d)
    return found
