"""What the transforms ask of arguments and results: which arguments are meant, and that there are tensors in them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..core.tensor import Tensor
from ..utils._pytree import tree_flatten

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeAlias

    from ..utils._pytree import TreeSpec

    Argnums: TypeAlias = int | tuple[int, ...]


def positions(argnums: Argnums, count: int) -> tuple[int, ...]:
    """The arguments that `argnums` means, counted from 0.

    Args:
        argnums: an int or a tuple of them; negative ones count from the end.
        count: how many positional arguments there are.

    Raises:
        RuntimeError: for another type, a number without an argument, none at all, or one that stands there twice.
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
    """The leaves of the arguments that are differentiated with respect to.

    Returns:
        (leaves, their structure, a function that takes as many others and returns `args` with those instead). The
        structure is that of one argument for an int, and of a tuple of arguments for a tuple.
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
    """What a function returned as (output, aux); aux is None where there is none.

    Raises:
        RuntimeError: if there should be and is not.
    """
    if not has_aux:
        return result, None
    if not isinstance(result, tuple) or len(result) != 2:
        raise RuntimeError(f"{call}: output of function f should be a tuple: (output, aux) if has_aux is True")
    return result


def output_tensors(output: Any, call: str) -> tuple[list[Tensor], TreeSpec]:
    """The tensors of a function's output, and its structure.

    Raises:
        RuntimeError: if there is none, or anything else.
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
    """What is below the tensor that a transformed function sees, to look at while debugging.

    Args:
        tensor: within vmap, a tensor that stands for one example. Other transforms wrap nothing: their tensors are
            returned without history, as the values that they are.
        recurse: go down through all vmaps; False takes off the innermost.

    Returns:
        A Tensor with the examples of each vmap that was taken off as first dimensions. It has no history, so that
        nothing can be differentiated wrongly with it.
    """
    found: Tensor = tensor
    while (physical := getattr(found, "_physical", None)) is not None:
        found = physical
        if not recurse:
            break
    return found.detach()


def refuse_other_than_tensors(aux: Any) -> None:
    """Raise about an `aux` that holds anything else than tensors.

    Raises:
        RuntimeError: with its type.
    """
    for leaf in tree_flatten(aux)[0]:
        if not isinstance(leaf, Tensor):
            raise RuntimeError(
                f"Expected tensors, got unsupported type {type(leaf)} in what f returned as aux. Aux "
                "may be nested containers of Tensors."
            )
