"""Einstein summation: the equation, and its evaluation by matrix products of two operands at a time.

A label is a letter, or a number below 0 for a dimension under the ellipsis (-1 for the last one).
"""

from __future__ import annotations

import math

_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
_ELLIPSIS = "..."


def einsum(equation, tensors, path=None):
    """Sums of products of elements, as the equation says (PyTorch's einsum).

    Args:
        equation: subscripts of the operands, separated by commas, and "->" with those of the result. Without
            it the result has the letters that occur once, in alphabetical order, after the dimensions under
            an ellipsis.
        tensors: the operands. Sizes of one broadcast.
        path: pairs of positions in the list of operands, one after another; the product of a pair goes to the
            end of the list. By default the first two, or for more than two operands what np.einsum_path
            finds.

    Raises:
        RuntimeError: for an equation that is malformed or does not fit the operands.
    """
    if not tensors:
        raise RuntimeError("einsum(): must provide at least one operand")
    left, arrow, right = equation.partition("->")
    inputs = _inputs(left, tensors)
    output = _output(right, inputs) if arrow else _implicit_output(inputs)
    sizes = _sizes(inputs, tensors)
    operands = [_unique(tensor, labels) for tensor, labels in zip(tensors, inputs, strict=True)]
    if len(operands) == 1:
        tensor, labels = _without(*operands[0], [x for x in operands[0][1] if x not in output])
        operands = [(tensor, labels)]
    for i, j in _pairs(path, operands, output, sizes):
        second, first = operands.pop(max(i, j)), operands.pop(min(i, j))
        if i > j:
            first, second = second, first
        needed = {*output, *(x for _, labels in operands for x in labels)}
        operands.append(_contract(*first, *second, needed))
    tensor, labels = operands[0]
    if labels == output and tensor is not tensors[0]:
        return tensor
    return tensor.permute([labels.index(x) for x in output])


# --- the equation
# -----------------------------------------------------------------------------------------------


def _inputs(text, tensors) -> list:
    """The labels of each operand's dimensions."""
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
    """Labels with `count` dimensions in place of the ellipsis."""
    if _ELLIPSIS not in labels:
        return labels
    at = labels.index(_ELLIPSIS)
    return [*labels[:at], *range(-count, 0), *labels[at + 1 :]]


def _covered(inputs) -> int:
    """The largest number of dimensions under an ellipsis."""
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
            raise RuntimeError(
                f"einsum(): output subscript {x} does not appear in the equation for any input operand"
            )
    return _expanded(labels, _covered(inputs))


def _implicit_output(inputs) -> list:
    letters = [x for labels in inputs for x in labels if x.__class__ is str]
    once = sorted(x for x in letters if letters.count(x) == 1)
    return [*range(-_covered(inputs), 0), *once]


def _sizes(inputs, tensors) -> dict:
    """The size of each label, those of one broadcast."""
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


# --- evaluation
# -------------------------------------------------------------------------------------------------


def _unique(tensor, labels) -> tuple:
    """The tensor's diagonals for labels that occur more than once."""
    labels = list(labels)
    for x in dict.fromkeys(labels):
        while labels.count(x) > 1:
            i = labels.index(x)
            j = labels.index(x, i + 1)
            tensor = tensor.diagonal(0, i, j)  # goes to the end
            del labels[j], labels[i]
            labels.append(x)
    return tensor, labels


def _without(tensor, labels, dropped) -> tuple:
    """The tensor summed over some labels."""
    if not dropped:
        return tensor, labels
    dims = [i for i, x in enumerate(labels) if x in dropped]
    return tensor.sum(dims), [x for x in labels if x not in dropped]


def _pairs(path, operands, output, sizes):
    count = len(operands)
    if path is not None:
        yield from zip(path[::2], path[1::2], strict=True)
    elif count <= 2:
        yield from [(0, 1)] * (count - 1)
    else:
        yield from _greedy_pairs(operands, output, sizes)


def _greedy_pairs(operands, output, sizes):
    import numpy as np

    letter = dict(
        zip(sizes, sorted(_LETTERS), strict=False)
    )  # no more than 52 labels, or np.einsum_path refuses
    if len(letter) < len(sizes):
        return [(0, 1)] * (len(operands) - 1)
    inputs = ",".join("".join(letter[x] for x in labels) for _, labels in operands)
    equation = f"{inputs}->{''.join(letter[x] for x in output)}"
    shapes = [np.broadcast_to(np.empty(()), [sizes[x] for x in labels]) for _, labels in operands]
    found = np.einsum_path(equation, *shapes, optimize="greedy")[0][1:]
    pairs, names = [], list(range(len(operands)))
    for step in found:
        chosen = [names[i] for i in step]
        for other in chosen[1:]:  # more than two at once where nothing is gained by an order
            i, j = names.index(chosen[0]), names.index(other)
            pairs.append((i, j))
            names = [x for x in names if x not in (chosen[0], other)] + [chosen[0]]
    return pairs


def _contract(a, a_labels, b, b_labels, needed) -> tuple:
    """The product of two operands, summed over the labels that nothing else needs."""
    a, a_labels, b, b_labels = _broadcast(a, a_labels, b, b_labels)
    a, a_labels = _without(a, a_labels, [x for x in a_labels if x not in needed and x not in b_labels])
    b, b_labels = _without(b, b_labels, [x for x in b_labels if x not in needed and x not in a_labels])
    shared = [x for x in a_labels if x in b_labels]
    batch, summed = [x for x in shared if x in needed], [x for x in shared if x not in needed]
    free_a, free_b = [x for x in a_labels if x not in shared], [x for x in b_labels if x not in shared]
    out = [*batch, *free_a, *free_b]
    size = {**dict(zip(a_labels, a.shape, strict=True)), **dict(zip(b_labels, b.shape, strict=True))}
    if not summed:
        left = _arranged(a, a_labels, batch + free_a).reshape(
            [size[x] for x in batch + free_a] + [1] * len(free_b)
        )
        right = _arranged(b, b_labels, batch + free_b)
        right = right.reshape([size[x] for x in batch] + [1] * len(free_a) + [size[x] for x in free_b])
        return left * right, out
    n, m, k, p = (math.prod(size[x] for x in labels) for labels in (batch, free_a, summed, free_b))
    left = _arranged(a, a_labels, batch + free_a + summed)
    right = _arranged(b, b_labels, batch + summed + free_b)
    if batch:
        found = left.reshape(n, m, k).bmm(right.reshape(n, k, p))
    else:
        found = left.reshape(m, k).mm(right.reshape(k, p))
    return found.reshape([size[x] for x in out]), out


def _broadcast(a, a_labels, b, b_labels) -> tuple:
    """A shared label of which one side has size 1 is left to the other side alone."""
    for x in [x for x in a_labels if x in b_labels]:
        i, j = a_labels.index(x), b_labels.index(x)
        if a.shape[i] != b.shape[j]:
            if a.shape[i] == 1:
                a, a_labels = a.squeeze(i), [y for y in a_labels if y != x]
            else:
                b, b_labels = b.squeeze(j), [y for y in b_labels if y != x]
    return a, a_labels, b, b_labels


def _arranged(tensor, labels, order):
    return tensor if labels == order else tensor.permute([labels.index(x) for x in order])
