"""Nested containers as trees: flattened into a list of leaves and a spec from which the same containers are rebuilt.

Note [Trees] in _tree_spec.py defines containers and leaves.

Not optree: it flattens small trees twice as fast (a dict of four leaves in 1.6 us against 3.4 us; 100 leaves in 20 us
against 17 us), but takes 45 ms to import, is a compiled wheel and sorts the keys of dicts. It would save no line here:
the classes and functions of torch.utils._pytree must stay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

from ..types.public import found_in as _found_in
from ._tree_spec import (
    CONTAINERS,
    GetAttrKey as GetAttrKey,
    LeafSpec as LeafSpec,
    MappingKey as MappingKey,
    PyTreeSpec as PyTreeSpec,
    SequenceKey as SequenceKey,
    TreeSpec as TreeSpec,
    _dict_flatten as _dict_flatten,
    _dict_flatten_with_keys as _dict_flatten_with_keys,
    _dict_unflatten as _dict_unflatten,
    flatten,
    is_namedtuple as is_namedtuple,
    kind_of,
    register_pytree_node as register_pytree_node,
)

PyTree: TypeAlias = Any
SUPPORTED_NODES = CONTAINERS
_get_node_type = kind_of

_IsLeaf: TypeAlias = Callable[[Any], bool] | None

if TYPE_CHECKING:
    from ._pytree_extras import *  # noqa: F403
else:

    def __getattr__(name: str) -> Any:
        """Find the names that few programs use."""
        from . import _pytree_extras

        if name.startswith("__") or not hasattr(_pytree_extras, name):
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = globals()[name] = getattr(_pytree_extras, name)
        return found


def tree_flatten(tree: PyTree, is_leaf: _IsLeaf = None) -> tuple[list[Any], TreeSpec]:
    """Return the leaves of a tree in order, and its structure.

    Args:
        tree: any value; a value that is not a container is a tree of one leaf.
        is_leaf: predicate of a subtree that makes it a leaf.
    """
    leaves: list[Any] = []
    return leaves, flatten(tree, leaves, is_leaf)


def tree_unflatten(leaves: Iterable[Any], treespec: TreeSpec) -> PyTree:
    """Build the tree of a structure from leaves.

    Args:
        leaves: as many as the structure has places.
        treespec: structure, from `tree_flatten` or `tree_structure`.

    Raises:
        TypeError: if it is not a TreeSpec.
        ValueError: for another number of leaves.
    """
    if not isinstance(treespec, TreeSpec):
        raise TypeError(f"Expected `treespec` to be an instance of PyTreeSpec but got item of type {type(treespec)}.")
    return treespec.unflatten(leaves)


def tree_leaves(tree: PyTree, is_leaf: _IsLeaf = None) -> list[Any]:
    """Return the leaves of a tree in order; arguments as for `tree_flatten`."""
    return tree_flatten(tree, is_leaf)[0]


def tree_iter(tree: PyTree, is_leaf: _IsLeaf = None) -> Iterator[Any]:
    """Return an iterator over the leaves of a tree; arguments as for `tree_flatten`."""
    return iter(tree_flatten(tree, is_leaf)[0])


def tree_structure(tree: PyTree, is_leaf: _IsLeaf = None) -> TreeSpec:
    """Return the structure of a tree; arguments as for `tree_flatten`."""
    return tree_flatten(tree, is_leaf)[1]


def tree_is_leaf(tree: PyTree, is_leaf: _IsLeaf = None) -> bool:
    """Return whether a tree is one leaf; arguments as for `tree_flatten`."""
    return is_leaf is not None and is_leaf(tree) or kind_of(tree) is None


def tree_map(func: Callable[..., Any], tree: PyTree, *rests: PyTree, is_leaf: _IsLeaf = None) -> PyTree:
    """Return a tree of the same structure with `func(leaf)` for every leaf.

    Args:
        func: takes a leaf of `tree`, and the corresponding subtree of each of `rests`.
        tree, is_leaf: as for `tree_flatten`.
        rests: trees with the structure of `tree`, down to its leaves.

    Raises:
        ValueError: if one of `rests` has another structure.
    """
    leaves, spec = tree_flatten(tree, is_leaf)
    if rests:
        return spec.unflatten(map(func, leaves, *[spec.flatten_up_to(rest) for rest in rests]))
    return spec.unflatten([func(leaf) for leaf in leaves])


def tree_map_(func: Callable[..., Any], tree: PyTree, *rests: PyTree, is_leaf: _IsLeaf = None) -> PyTree:
    """Call `func` for every leaf, for its effect; arguments as for `tree_map`.

    Returns:
        `tree` itself.
    """
    tree_map(func, tree, *rests, is_leaf=is_leaf)
    return tree


def _chosen(of):
    """Return a predicate for a class, a tuple of classes, or a predicate."""
    return of if callable(of) and not isinstance(of, type) else lambda leaf: isinstance(leaf, of)


def tree_map_only(
    type_or_types_or_pred: Any, func: Callable[[Any], Any], tree: PyTree, is_leaf: _IsLeaf = None
) -> PyTree:
    """Return a tree of the same structure with `func(leaf)` for some leaves and the others unchanged.

    Args:
        type_or_types_or_pred: leaves to map: a class, a tuple of classes, or a predicate.
        func: takes a leaf.
        tree, is_leaf: as for `tree_flatten`.
    """
    chosen = _chosen(type_or_types_or_pred)
    return tree_map(lambda leaf: func(leaf) if chosen(leaf) else leaf, tree, is_leaf=is_leaf)


def tree_map_only_(
    type_or_types_or_pred: Any, func: Callable[[Any], Any], tree: PyTree, is_leaf: _IsLeaf = None
) -> PyTree:
    """Call `func` for some leaves, for its effect; arguments as for `tree_map_only`.

    Returns:
        `tree` itself.
    """
    tree_map_only(type_or_types_or_pred, func, tree, is_leaf)
    return tree


def tree_all(pred: Callable[[Any], bool], tree: PyTree, is_leaf: _IsLeaf = None) -> bool:
    """Return whether `pred` holds for all leaves; tree and is_leaf as for `tree_flatten`."""
    return all(map(pred, tree_leaves(tree, is_leaf)))


def tree_any(pred: Callable[[Any], bool], tree: PyTree, is_leaf: _IsLeaf = None) -> bool:
    """Return whether `pred` holds for any leaf; tree and is_leaf as for `tree_flatten`."""
    return any(map(pred, tree_leaves(tree, is_leaf)))


def tree_all_only(type_or_types: Any, pred: Callable[[Any], bool], tree: PyTree, is_leaf: _IsLeaf = None) -> bool:
    """Return whether `pred` holds for all leaves of some classes; tree and is_leaf as for `tree_flatten`."""
    chosen = _chosen(type_or_types)
    return all(pred(leaf) for leaf in tree_leaves(tree, is_leaf) if chosen(leaf))


def tree_any_only(type_or_types: Any, pred: Callable[[Any], bool], tree: PyTree, is_leaf: _IsLeaf = None) -> bool:
    """Return whether `pred` holds for any leaf of some classes; tree and is_leaf as for `tree_flatten`."""
    chosen = _chosen(type_or_types)
    return any(pred(leaf) for leaf in tree_leaves(tree, is_leaf) if chosen(leaf))


def tree_flatten_with_path(tree: PyTree, is_leaf: _IsLeaf = None) -> tuple[list[tuple[Any, Any]], TreeSpec]:
    """Return pairs (path, leaf), a path being a tuple of keys; and the structure. Arguments as for `tree_flatten`.

    Raises:
        ValueError: if a container was registered without keys for its children.
    """
    spec = tree_flatten(tree, is_leaf)[1]
    return list(_with_paths(tree, (), is_leaf)), spec


def tree_leaves_with_path(tree: PyTree, is_leaf: _IsLeaf = None) -> list[tuple[Any, Any]]:
    """Return the leaves of a tree as pairs (path, leaf); arguments as for `tree_flatten`."""
    return list(_with_paths(tree, (), is_leaf))


def tree_map_with_path(func: Callable[..., Any], tree: PyTree, *rests: PyTree, is_leaf: _IsLeaf = None) -> PyTree:
    """Return a tree of the same structure with `func(path, leaf, ...)`; arguments as for `tree_map`."""
    found, spec = tree_flatten_with_path(tree, is_leaf)
    others = [spec.flatten_up_to(rest) for rest in rests]
    return spec.unflatten([func(*pair, *more) for pair, *more in zip(found, *others, strict=True)])


def _with_paths(tree, path: tuple, is_leaf) -> Iterator[tuple[Any, Any]]:
    kind = kind_of(tree) if is_leaf is None or not is_leaf(tree) else None
    if kind is None:
        yield path, tree
        return
    container = CONTAINERS[kind]
    children, context = container.flatten_fn(tree)
    children = list(children)
    if container.keys is None:
        raise ValueError(
            f"Did not find a flatten_with_keys_fn for type: {kind}. Please pass a flatten_with_keys_fn "
            "argument to register_pytree_node."
        )
    for step, child in zip(container.keys(children, context), children, strict=True):
        yield from _with_paths(child, (*path, step), is_leaf)


def keystr(path: tuple[Any, ...]) -> str:
    """Return a path in Python's notation: `['a'][0].values`."""
    return "".join(map(str, path))


def _broadcast_to_and_flatten(tree: PyTree, treespec: TreeSpec, is_leaf: _IsLeaf = None) -> list[Any] | None:
    """Return one value per leaf of a structure, None if it differs; a leaf of `tree` may stand for a subtree."""
    kind = kind_of(tree) if is_leaf is None or not is_leaf(tree) else None
    if kind is None:
        return [tree] * treespec.num_leaves
    if treespec.type is not kind:
        return None
    children, context = CONTAINERS[kind].flatten_fn(tree)
    children = list(children)
    if len(children) != treespec.num_children or context != treespec.context:
        return None
    found: list[Any] = []
    for child, spec in zip(children, treespec.children(), strict=True):
        part = _broadcast_to_and_flatten(child, spec, is_leaf)
        if part is None:
            return None
        found += part
    return found


_found_in(
    __name__, GetAttrKey, LeafSpec, MappingKey, PyTreeSpec, SequenceKey, TreeSpec, is_namedtuple, register_pytree_node
)
