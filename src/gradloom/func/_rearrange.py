"""`rearrange`: split, join and permute named dimensions by a pattern, in the notation of einops."""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import prod

from ..core.tensor import Tensor
from ..dispatch import _operators as ops

_TOKEN = re.compile(r"\s*(\.\.\.|[()]|\w+|\S)")
_ELLIPSIS = "..."


def rearrange(tensor: Tensor | Sequence[Tensor], pattern: str, **axes_lengths: int) -> Tensor:
    """Rearrange the dimensions of a tensor by a pattern.

    A pattern has the tensor's dimensions to the left of `->` and the result's to the right. A name is one dimension,
    names in parentheses are one dimension composed of several, `1` or `()` is a dimension of size 1, and `...` is any
    number of dimensions: `"b (h w) c -> b c h w"`.

    Args:
        tensor: a Tensor of any dtype, or a sequence of Tensors, which are stacked along a new first dimension.
        pattern: the dimensions before and after. Each name occurs once on each side.
        axes_lengths: sizes of named dimensions. Within parentheses all but one must be given.

    Returns:
        A view of the tensor if possible, otherwise a copy.

    Raises:
        ValueError: if the pattern is malformed or does not match the tensor's dimensions, or if sizes are missing or
            do not match.
    """
    whole = tensor if isinstance(tensor, Tensor) else ops.stack(tuple(tensor), 0)
    before, after = _parsed(pattern, axes_lengths)
    shape = tuple(whole.shape)
    before = _spelled_out(before, len(shape))
    hidden = [group[0] for group in before if group and isinstance(group[0], int)]
    after = [
        [name for part in group for name in (hidden if part == _ELLIPSIS else [part])]
        for given in after
        for group in ([[name] for name in hidden] if given == _ELLIPSIS else [given])
    ]
    sizes: dict = {}
    for group, size in zip(before, shape, strict=True):
        _bind(group, size, axes_lengths, sizes)
    names = [name for group in before for name in group]
    split = ops.reshape(whole, [sizes[name] for name in names])
    moved = ops.permute(split, [names.index(name) for group in after for name in group])
    return ops.reshape(moved, [prod(sizes[name] for name in group) for group in after])


def _parsed(pattern, lengths):
    """Parse both sides into lists of groups, each a list of names; a dimension of size 1 is an empty group. An ellipsis
    outside parentheses is an element of its own."""
    sides = pattern.split("->")
    if len(sides) != 2:
        raise ValueError("Pattern must contain a single '->' separator")
    left, right = (_groups(side, pattern) for side in sides)
    for side in (left, right):
        flat = _names(side)
        for name in flat:
            if flat.count(name) > 1:
                raise ValueError(
                    f"Indexing expression contains duplicate dimension '{name}'"
                    if name != _ELLIPSIS
                    else "Expression may contain dots only inside ellipsis (...); only one ellipsis for tensor"
                )
    if _ELLIPSIS not in left and any(_ELLIPSIS in group for group in left):
        raise ValueError(f"Ellipsis inside parenthesis in the left side is not allowed: {pattern}")
    names, others = set(_names(left)), set(_names(right))
    if _ELLIPSIS in others and _ELLIPSIS not in names:
        raise ValueError(f"Ellipsis found in right side, but not left side of a pattern {pattern}")
    if names ^ others:
        raise ValueError(f"Identifiers only on one side of rearrange expression (should be on both): {names ^ others}")
    if unknown := set(lengths) - names:
        raise ValueError(f"Identifiers not found in rearrange expression: {unknown}")
    return left, right


def _names(side):
    return [name for group in side for name in ([group] if group == _ELLIPSIS else group)]


def _groups(side, pattern):
    found: list = []
    inside = False
    for token in _TOKEN.findall(side):
        if token in "()":
            if inside == (token == "("):
                raise ValueError(
                    "Axis composition is one-level (brackets inside brackets not allowed)"
                    if inside
                    else f"Imbalanced parentheses in expression: '{side}'"
                )
            inside = token == "("
            if inside:
                found.append([])
            continue
        named = _checked(token, pattern)
        if inside:
            found[-1] += named
        else:
            found.append(token if token == _ELLIPSIS else named)
    if inside:
        raise ValueError(f"Imbalanced parentheses in expression: '{side}'")
    return found


def _checked(token, pattern):
    """Return the names of a token: [token], or [] for 1."""
    if token == _ELLIPSIS:
        return [token]
    if token.isdecimal():
        if token != "1":
            raise ValueError("rearrange only supports unnamed axes of size 1")
        return []
    if "." in token:
        raise ValueError("Expression may contain dots only inside ellipsis (...)")
    if not token.isidentifier():
        raise ValueError(f"Invalid axis identifier: {token} in '{pattern}': it is not a name")
    if token[0] == "_" or token[-1] == "_":
        raise ValueError(f"Invalid axis identifier: {token}\naxis name should should not start or end with underscore")
    return [token]


def _spelled_out(groups, rank):
    """Return one group per dimension of the left side; the dimensions of the ellipsis are numbers."""
    if _ELLIPSIS not in groups:
        if len(groups) != rank:
            raise ValueError(
                f"Number of dimensions in pattern ({len(groups)}) must be equal to the number of "
                f"dimensions in the tensor ({rank})"
            )
        return groups
    if len(groups) - 1 > rank:
        raise ValueError(
            f"Number of dimensions in pattern ({len(groups) - 1}) must be less than or equal to the "
            f"number of dimensions in the tensor ({rank})"
        )
    at = groups.index(_ELLIPSIS)
    return [*groups[:at], *([i] for i in range(rank - len(groups) + 1)), *groups[at + 1 :]]


def _bind(group, size, lengths, sizes):
    """Add the sizes of the names that compose one dimension to `sizes`."""
    open_names = [name for name in group if name not in lengths]
    known = prod(lengths[name] for name in group if name in lengths)
    if len(open_names) > 1:
        raise ValueError(
            f"cannot infer the sizes of {' and '.join(map(repr, open_names))} at once: give all but one "
            "of them as keyword arguments"
        )
    if open_names and known and size % known:
        raise ValueError(
            f"the size of {open_names[0]!r} cannot be inferred: a dimension of {size} elements does not "
            f"divide evenly into {known}"
        )
    if not open_names and known != size:
        raise ValueError(f"Dimension sizes do not match: the pattern has {known} for a dimension of {size} elements")
    sizes.update({name: lengths[name] for name in group if name in lengths})
    sizes.update(dict.fromkeys(open_names, size // known if known else 0))
