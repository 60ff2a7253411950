"""Nested containers as trees: flattened into a list of leaves and a spec from which the same containers are rebuilt.

See Note [Trees] in _tree_spec.py for what is a container and what a leaf.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._tree_spec import (
    CONTAINERS,
    GetAttrKey,
    LeafSpec,
    MappingKey,
    PyTreeSpec,
    SequenceKey,
    TreeSpec,
    flatten,
    kind_of,
    register_pytree_node,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any, TypeAlias

    PyTree: TypeAlias = Any
    _IsLeaf: TypeAlias = Callable[[Any], bool] | None

__all__ = [
    "GetAttrKey",
    "LeafSpec",
    "MappingKey",
    "PyTreeSpec",
    "SequenceKey",
    "TreeSpec",
    "keystr",
    "register_pytree_node",
    "tree_all",
    "tree_all_only",
    "tree_any",
    "tree_any_only",
    "tree_flatten",
    "tree_flatten_with_path",
    "tree_is_leaf",
    "tree_iter",
    "tree_leaves",
    "tree_leaves_with_path",
    "tree_map",
    "tree_map_",
    "tree_map_only",
    "tree_map_only_",
    "tree_map_with_path",
    "tree_structure",
    "tree_unflatten",
]


def tree_flatten(tree: PyTree, is_leaf: _IsLeaf = None) -> tuple[list[Any], TreeSpec]:
    """The leaves of a tree in order, and its structure.

    Args:
        tree: anything; what is no container is a tree of one leaf.
        is_leaf: takes a subtree; True makes it a leaf, whatever it is.
    """
    leaves: list[Any] = []
    return leaves, flatten(tree, leaves, is_leaf)


def tree_unflatten(leaves: Iterable[Any], treespec: TreeSpec) -> PyTree:
    """The tree of a structure with the given leaves.

    Args:
        leaves: as many as the structure has places.
        treespec: what `tree_flatten` or `tree_structure` gave.

    Raises:
        TypeError: if it is no TreeSpec.
        ValueError: for another number of leaves.
    """
    if not isinstance(treespec, TreeSpec):
        raise TypeError(f"Expected `treespec` to be an instance of PyTreeSpec but got item of type {type(treespec)}.")
    return treespec.unflatten(leaves)


def tree_leaves(tree: PyTree, is_leaf: _IsLeaf = None) -> list[Any]:
    """The leaves of a tree, in order.

    Args:
        tree, is_leaf: see tree_flatten.
    """
    return tree_flatten(tree, is_leaf)[0]


def tree_iter(tree: PyTree, is_leaf: _IsLeaf = None) -> Iterator[Any]:
    """An iterator over the leaves of a tree.

    Args:
        tree, is_leaf: see tree_flatten.
    """
    return iter(tree_flatten(tree, is_leaf)[0])


def tree_structure(tree: PyTree, is_leaf: _IsLeaf = None) -> TreeSpec:
    """The structure of a tree.

    Args:
        tree, is_leaf: see tree_flatten.
    """
    return tree_flatten(tree, is_leaf)[1]


def tree_is_leaf(tree: PyTree, is_leaf: _IsLeaf = None) -> bool:
    """Whether a tree is one leaf.

    Args:
        tree, is_leaf: see tree_flatten.
    """
    return is_leaf is not None and is_leaf(tree) or kind_of(tree) is None


def tree_map(func: Callable[..., Any], tree: PyTree, *rests: PyTree, is_leaf: _IsLeaf = None) -> PyTree:
    """A tree of the same structure, with `func(leaf)` for every leaf.

    Args:
        func: takes a leaf of `tree`, and of each of `rests` what stands there.
        tree, is_leaf: see tree_flatten.
        rests: trees that have the structure of `tree`, or go on where it has leaves.

    Raises:
        ValueError: if the structure of one of `rests` is another one.
    """
    leaves, spec = tree_flatten(tree, is_leaf)
    if rests:
        return spec.unflatten(map(func, leaves, *[spec.flatten_up_to(rest) for rest in rests]))
    return spec.unflatten([func(leaf) for leaf in leaves])


def tree_map_(func: Callable[..., Any], tree: PyTree, *rests: PyTree, is_leaf: _IsLeaf = None) -> PyTree:
    """Call `func` for every leaf, for its effect.

    Args:
        func, tree, rests, is_leaf: see tree_map.

    Returns:
        `tree` itself.
    """
    tree_map(func, tree, *rests, is_leaf=is_leaf)
    return tree


def _chosen(of):
    """A predicate from a class, a tuple of classes, or a predicate."""
    return of if callable(of) and not isinstance(of, type) else lambda leaf: isinstance(leaf, of)


def tree_map_only(
    type_or_types_or_pred: Any, func: Callable[[Any], Any], tree: PyTree, is_leaf: _IsLeaf = None
) -> PyTree:
    """A tree of the same structure, with `func(leaf)` for some leaves and the others as they are.

    Args:
        type_or_types_or_pred: the leaves that are meant: a class, a tuple of them, or a predicate.
        func: takes a leaf.
        tree, is_leaf: see tree_flatten.
    """
    chosen = _chosen(type_or_types_or_pred)
    return tree_map(lambda leaf: func(leaf) if chosen(leaf) else leaf, tree, is_leaf=is_leaf)


def tree_map_only_(
    type_or_types_or_pred: Any, func: Callable[[Any], Any], tree: PyTree, is_leaf: _IsLeaf = None
) -> PyTree:
    """Call `func` for some leaves, for its effect.

    Args:
        type_or_types_or_pred, func, tree, is_leaf: see tree_map_only.

    Returns:
        `tree` itself.
    """
    tree_map_only(type_or_types_or_pred, func, tree, is_leaf)
    return tree


def tree_all(pred: Callable[[Any], bool], tree: PyTree, is_leaf: _IsLeaf = None) -> bool:
    """Whether `pred` holds for all leaves.

    Args:
        pred: takes a leaf.
        tree, is_leaf: see tree_flatten.
    """
    return all(map(pred, tree_leaves(tree, is_leaf)))


def tree_any(pred: Callable[[Any], bool], tree: PyTree, is_leaf: _IsLeaf = None) -> bool:
    """Whether `pred` holds for some leaf.

    Args:
        pred: takes a leaf.
        tree, is_leaf: see tree_flatten.
    """
    return any(map(pred, tree_leaves(tree, is_leaf)))


def tree_all_only(type_or_types: Any, pred: Callable[[Any], bool], tree: PyTree, is_leaf: _IsLeaf = None) -> bool:
    """Whether `pred` holds for all leaves of some classes.

    Args:
        type_or_types: the leaves that are asked.
        pred, tree, is_leaf: see tree_all.
    """
    chosen = _chosen(type_or_types)
    return all(pred(leaf) for leaf in tree_leaves(tree, is_leaf) if chosen(leaf))


def tree_any_only(type_or_types: Any, pred: Callable[[Any], bool], tree: PyTree, is_leaf: _IsLeaf = None) -> bool:
    """Whether `pred` holds for some leaf of some classes.

    Args:
        type_or_types: the leaves that are asked.
        pred, tree, is_leaf: see tree_all.
    """
    chosen = _chosen(type_or_types)
    return any(pred(leaf) for leaf in tree_leaves(tree, is_leaf) if chosen(leaf))


def tree_flatten_with_path(tree: PyTree, is_leaf: _IsLeaf = None) -> tuple[list[tuple[Any, Any]], TreeSpec]:
    """The leaves of a tree, each with its path, a tuple of steps; and the structure.

    Args:
        tree, is_leaf: see tree_flatten.

    Raises:
        ValueError: if a container was registered without names for its children.
    """
    spec = tree_flatten(tree, is_leaf)[1]
    return list(_with_paths(tree, (), is_leaf)), spec


def tree_leaves_with_path(tree: PyTree, is_leaf: _IsLeaf = None) -> list[tuple[Any, Any]]:
    """The leaves of a tree as pairs (path, leaf).

    Args:
        tree, is_leaf: see tree_flatten.
    """
    return list(_with_paths(tree, (), is_leaf))


def tree_map_with_path(func: Callable[..., Any], tree: PyTree, *rests: PyTree, is_leaf: _IsLeaf = None) -> PyTree:
    """As tree_map, with the path of the leaf as the first argument of `func`.

    Args:
        func: takes the path, the leaf, and what stands there in `rests`.
        tree, rests, is_leaf: see tree_map.
    """
    found, spec = tree_flatten_with_path(tree, is_leaf)
    others = [spec.flatten_up_to(rest) for rest in rests]
    return spec.unflatten([func(*pair, *more) for pair, *more in zip(found, *others, strict=True)])


def _with_paths(tree, path: tuple, is_leaf) -> Iterator[tuple[Any, Any]]:
    kind = kind_of(tree) if is_leaf is None or not is_leaf(tree) else None
    if kind is None:
        yield path, tree
        return
    container = CONTAINERS[kind]
    children, context = container.flatten(tree)
    children = list(children)
    if container.keys is None:
        raise ValueError(
            f"Did not find a flatten_with_keys_fn for type: {kind}. Please pass a flatten_with_keys_fn "
            "argument to register_pytree_node."
        )
    for step, child in zip(container.keys(children, context), children, strict=True):
        yield from _with_paths(child, (*path, step), is_leaf)


def keystr(path: tuple[Any, ...]) -> str:
    """A path as Python would write it: `['a'][0].values`.

    Args:
        path: a tuple of steps.
    """
    return "".join(map(str, path))


def _broadcast_to_and_flatten(tree: PyTree, treespec: TreeSpec, is_leaf: _IsLeaf = None) -> list[Any] | None:
    """One value for every leaf of a structure, where a leaf of `tree` may stand for a whole subtree.

    Args:
        tree: has the structure, or stops earlier.
        treespec: the structure.
        is_leaf: see tree_flatten.

    Returns:
        The values in the order of the structure's leaves; None if `tree` does not fit it.
    """
    kind = kind_of(tree) if is_leaf is None or not is_leaf(tree) else None
    if kind is None:
        return [tree] * treespec.num_leaves
    if treespec.type is not kind:
        return None
    children, context = CONTAINERS[kind].flatten(tree)
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
