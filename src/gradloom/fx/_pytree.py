"""Flattening of inputs to the structure that a graph was traced with; generated code calls it."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

from ..utils._pytree import tree_flatten
from ..utils._tree_spec import TreeSpec

__all__ = ["tree_flatten_spec"]


def tree_flatten_spec(pytree: Any, spec: TreeSpec) -> list[Any]:
    """Return the leaves of a tree in the order of `spec`; dictionaries and lists may hold more than it names.

    Raises:
        RuntimeError: if a container of another kind than dict, list and tuple has another structure.
    """
    if spec.type is None:
        return [pytree]
    if spec.type in (list, tuple, namedtuple):
        children: Any = [pytree[index] for index in range(spec.num_children)]
    elif spec.type is dict:
        children = [pytree[key] for key in spec.context]
    else:
        leaves, found = tree_flatten(pytree)
        if found != spec:
            raise RuntimeError(f"Real spec {found} of object {pytree} is different from expected spec {spec}.")
        return leaves
    return [
        leaf for child, inner in zip(children, spec.children(), strict=True) for leaf in tree_flatten_spec(child, inner)
    ]
