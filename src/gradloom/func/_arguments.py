"""Arguments and results of transforms: select what `argnums` names, and check that trees hold tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from ..core.tensor import Tensor
from ..utils._pytree import TreeSpec, tree_flatten

Argnums: TypeAlias = int | tuple[int, ...]


def positions(argnums: Argnums, count: int) -> tuple[int, ...]:
    """Return the positions that `argnums` names, counted from 0; negative ones count from the end.

    Raises:
        RuntimeError: for another type, a position out of range, an empty tuple, or a repeated position.
    """
    if isinstance(argnums, int):
        return (_position(argnums, count),)
    if not isinstance(argnums, tuple):
        raise RuntimeError(f"argnums must be int or Tuple[int, ...], got: {type(argnums)}")
    if not argnums:
        raise RuntimeError("argnums must be non-empty")
    for number in argnums:
        if not isinstance(number, int):
            raise RuntimeError(f"argnum must be int, got: {type(number)}")
    found = tuple([_position(number, count) for number in argnums])
    if len(set(found)) != len(found):
        raise RuntimeError(f"argnums elements must be unique, got {argnums}, which names an argument twice")
    return found


def _position(number: int, count: int) -> int:
    if not -count <= number < count:
        raise RuntimeError(f"Got argnum={number}, but only {count} positional inputs")
    return number % count


def chosen(argnums: Argnums, args: tuple[Any, ...]) -> tuple[list[Any], TreeSpec, Callable[[list[Any]], tuple]]:
    """Return the leaves of the arguments that `argnums` names.

    Returns:
        (leaves, spec, with_leaves): `with_leaves(others)` returns `args` with the leaves replaced. The spec is that of
        the argument for an int, and that of a tuple of arguments for a tuple.
    """
    where = positions(argnums, len(args))
    leaves, spec = tree_flatten(tuple([args[i] for i in where]))

    def with_leaves(others: list[Any]) -> tuple:
        replaced = list(args)
        for i, argument in zip(where, spec.unflatten(others), strict=True):
            replaced[i] = argument
        return tuple(replaced)

    return leaves, spec if isinstance(argnums, tuple) else spec.child(0), with_leaves


def without_aux(result: Any, has_aux: bool, call: str) -> tuple[Any, Any]:
    """Split a function's result into (output, aux); aux is None without `has_aux`.

    Raises:
        RuntimeError: if `has_aux` and the result is not a pair.
    """
    if not has_aux:
        return result, None
    if not isinstance(result, tuple) or len(result) != 2:
        raise RuntimeError(f"{call}: output of function f should be a tuple: (output, aux) if has_aux is True")
    return result


def output_tensors(output: Any, call: str) -> tuple[list[Tensor], TreeSpec]:
    """Return the tensors of a function's output, and its structure.

    Raises:
        RuntimeError: if it has no leaves, or one that is not a Tensor.
    """
    leaves, spec = tree_flatten(output)
    if not leaves or leaves[0] is None and len(leaves) == 1:
        raise RuntimeError(f"{call}: Expected f to be a function that has non-empty output (got output = {leaves})")
    for leaf in leaves:
        if not isinstance(leaf, Tensor):
            raise RuntimeError(
                f"{call}: expected f(*primals) to return only tensors, got unsupported type {type(leaf)}"
            )
    return leaves, spec


def debug_unwrap(tensor: Tensor, *, recurse: bool = True) -> Tensor:
    """Return the tensor below the one that a transformed function sees, for debugging.

    Args:
        tensor: within vmap, a tensor that stands for one batch element. Other transforms do not wrap tensors: theirs
            are returned detached.
        recurse: unwrap all vmaps; False unwraps the innermost.

    Returns:
        A detached Tensor with one leading batch dimension for each vmap that was unwrapped. Derivatives through it
        would be wrong, so it has no history.
    """
    found: Tensor = tensor
    while (physical := getattr(found, "_physical", None)) is not None:
        found = physical
        if not recurse:
            break
    return found.detach()


def refuse_other_than_tensors(aux: Any) -> None:
    """Check that `aux` holds only tensors.

    Raises:
        RuntimeError: with the type of the first other leaf.
    """
    for leaf in tree_flatten(aux)[0]:
        if not isinstance(leaf, Tensor):
            raise RuntimeError(
                f"Expected tensors, got unsupported type {type(leaf)} in the aux that f returned. Aux "
                "may be nested containers of Tensors."
            )
