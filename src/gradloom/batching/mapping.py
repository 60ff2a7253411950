"""`vmap`: turn a function of one batch element into a function of a batch."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, NoReturn

from ..core.tensor import Tensor
from ..dispatch import _operators as ops
from ..dispatch.interception import VMAP, register
from ..types.public import found_in as _found_in
from ..utils._pytree import _broadcast_to_and_flatten, tree_flatten, tree_unflatten
from .handler import handle_call
from .levels import Level, running
from .tensor import BatchedTensor, batched, expanded

if TYPE_CHECKING:
    from ..utils._pytree import TreeSpec

__all__ = ["vmap"]

RANDOMNESS = ("error", "different", "same")


def vmap(
    func: Callable[..., Any],
    in_dims: Any = 0,
    out_dims: Any = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """Return a function that applies `func` to all elements of a batch at once.

    `func` is called once, with tensors that have the shape of one batch element; each operator computes the whole
    batch.

    Args:
        func: takes and returns Tensors of any dtypes, or nested containers of Tensors.
        in_dims: batch dimension of each input: an int (negative counts from the end), or None for an input that all
            elements share. One value for all inputs, or a tuple with the structure of the inputs, in which a value may
            stand for a whole container. Keyword arguments are shared.
        out_dims: position of the batch dimension in each output, likewise; None for an output that does not depend on
            the element.
        randomness: behaviour of random operators: 'error' raises, 'different' draws different numbers for each
            element, 'same' draws the same numbers for all.
        chunk_size: number of elements computed at once, to limit memory; default: all.

    Returns:
        A function with the arguments of `func`, whose outputs have one more dimension.

    Raises:
        RuntimeError: for another `randomness`; when called, for code that depends on the values of one element
            (`item()`, `if x > 0`, boolean masks).
        ValueError: if in_dims or out_dims do not match the inputs or outputs, or if batch sizes differ.

    Example:
        >>> import gradloom as torch
        >>> torch.vmap(torch.dot)(torch.ones(2, 3), torch.ones(2, 3))
        tensor([3., 3.])
    """
    if randomness not in RANDOMNESS:
        raise RuntimeError(f"Only allowed values for randomness are 'error', 'different', or 'same'. Got {randomness}")
    if not (chunk_size is None or chunk_size > 0):
        raise ValueError(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")
    name = getattr(func, "__name__", None) or type(func).__name__

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        inputs = _Inputs(name, in_dims, args, kwargs)
        if chunk_size is None or chunk_size >= inputs.size:
            return _run(func, name, inputs, inputs.leaves, inputs.size, out_dims, randomness)
        return _in_chunks(func, name, inputs, out_dims, randomness, chunk_size)

    return wraps(func)(wrapped) if hasattr(func, "__name__") else wrapped


class _Inputs:
    """The arguments of a call, flattened.

    Attributes:
        leaves, dims: the leaves of the arguments, and the batch dimension of each, or None.
        spec: the structure of (args, kwargs).
        size: size of the batch.
    """

    def __init__(self, name: str, in_dims: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.name, self.in_dims = name, in_dims
        if not isinstance(in_dims, (int, tuple, list)) or isinstance(in_dims, bool):
            self._refuse(
                "expected `in_dims` to be int or a (potentially nested) tuple matching the structure of "
                f"inputs, got: {type(in_dims)}."
            )
        if not args:
            raise ValueError(
                f"vmap({name})(<inputs>): got no inputs. Maybe you forgot to add inputs, or you are "
                "trying to vmap over a function with no inputs. The latter is unsupported."
            )
        positional, spec = tree_flatten(args)
        given = tuple(in_dims) if isinstance(in_dims, list) else in_dims
        dims = _broadcast_to_and_flatten(given, spec)
        if dims is None:
            found = tree_flatten(given)[1]
            self._refuse(
                "in_dims is not compatible with the structure of `inputs`. in_dims has structure "
                f"{found} but inputs has structure {spec}."
            )
        named, _ = tree_flatten(kwargs)
        self.leaves = positional + named
        self.spec: TreeSpec = tree_flatten((args, kwargs))[1]
        self.dims = [self._checked(leaf, dim) for leaf, dim in zip(positional, dims, strict=True)]
        self.dims += [None] * len(named)
        sizes = [leaf._array.shape[dim] for leaf, dim in zip(self.leaves, self.dims, strict=True) if dim is not None]
        if not sizes:
            raise ValueError("vmap: at least one input must be mapped over: every in_dim is None")
        if any(size != sizes[0] for size in sizes):
            raise ValueError(
                "vmap: Expected all tensors to have the same size in the mapped dimension, got sizes "
                f"{sizes} for the mapped dimension"
            )
        self.size: int = sizes[0]

    def _checked(self, leaf: Any, dim: Any) -> int | None:
        if dim is None:
            return None
        if not isinstance(dim, int) or isinstance(dim, bool):
            self._refuse(f"Got in_dim={dim} for an input but in_dim must be either an integer dimension or None.")
        if not isinstance(leaf, Tensor):
            self._refuse(
                f"Got in_dim={dim} for an input but the input is of type {type(leaf)}. We cannot vmap over "
                "non-Tensor arguments, please use None as the respective in_dim"
            )
        rank = leaf._array.ndim
        if not -rank <= dim < rank:
            self._refuse(
                f"Got in_dim={dim} for some input, but that input is a Tensor of dimensionality {rank} so "
                f"expected in_dim to satisfy -{rank} <= in_dim < {rank}."
            )
        return dim % rank

    def _refuse(self, problem: str) -> NoReturn:
        raise ValueError(f"vmap({self.name}, in_dims={self.in_dims}, ...)(<inputs>): {problem}")


def _run(func: Any, name: str, inputs: _Inputs, leaves: list[Any], size: int, out_dims: Any, randomness: str) -> Any:
    """Call the function once, with the whole batch."""
    found, dims, spec = _mapped(func, name, inputs, leaves, size, out_dims, randomness)
    return tree_unflatten([_at(leaf, dim) for leaf, dim in zip(found, dims, strict=True)], spec)


def _mapped(
    func: Any, name: str, inputs: _Inputs, leaves: list[Any], size: int, out_dims: Any, randomness: str
) -> tuple[list[Any], list[int | None], TreeSpec]:
    """Return the outputs with the batch as dimension 0, the dimensions to move it to, and the structure."""
    register(VMAP, handle_call)
    with running(Level(size, randomness)) as level:
        given = [
            leaf if dim is None else batched(ops.movedim(leaf, dim, 0) if dim else leaf, level)
            for leaf, dim in zip(leaves, inputs.dims, strict=True)
        ]
        args, kwargs = tree_unflatten(given, inputs.spec)
        outputs = func(*args, **kwargs)
    found, spec = tree_flatten(outputs)
    dims = _output_dims(name, out_dims, found, spec, outputs)
    return [_unwrapped(name, leaf, dim, level) for leaf, dim in zip(found, dims, strict=True)], dims, spec


def _output_dims(name: str, out_dims: Any, leaves: list[Any], spec: TreeSpec, outputs: Any) -> list[int | None]:
    given = tuple(out_dims) if isinstance(out_dims, list) and isinstance(outputs, tuple) else out_dims
    if isinstance(out_dims, str) or not _is_dims(given):
        raise ValueError(
            f"vmap({name}, ..., out_dims={out_dims}): `out_dims` must be an int, None or a python "
            "collection of ints representing where in the outputs the vmapped dimension should appear."
        )
    if isinstance(outputs, Tensor) and isinstance(given, tuple) and len(given) == 1:
        given = given[0]
    dims = _broadcast_to_and_flatten(given, spec)
    if dims is None:
        raise ValueError(
            f"vmap({name}, ..., out_dims={out_dims})(<inputs>): out_dims is not compatible with the "
            f"structure of `outputs`. out_dims has structure {tree_flatten(given)[1]} but outputs has "
            f"structure {spec}."
        )
    return dims


def _is_dims(value: Any) -> bool:
    return all(leaf is None or isinstance(leaf, int) and not isinstance(leaf, bool) for leaf in tree_flatten(value)[0])


def _unwrapped(name: str, leaf: Any, dim: int | None, level: Level) -> Any:
    """Return an output's physical tensor, with the batch as dimension 0."""
    own = leaf.__class__ is BatchedTensor and leaf._batch is level
    if dim is None:
        if own:
            raise ValueError(f"vmap({name}, ...): `{name}` can not return a BatchedTensor when out_dim is None")
        return leaf
    if not isinstance(leaf, Tensor):
        raise ValueError(
            f"vmap({name}, ...): `{name}` must only return Tensors, got type {type(leaf)}. Did you "
            "mean to set out_dims= to None for output?"
        )
    if isinstance(leaf, BatchedTensor) and own:
        return leaf._physical
    return expanded(leaf, level)


def _at(leaf: Any, dim: int | None) -> Any:
    return ops.movedim(leaf, 0, dim) if dim else leaf


def _in_chunks(func: Any, name: str, inputs: _Inputs, out_dims: Any, randomness: str, chunk_size: int) -> Any:
    """Call the function several times, each time with a part of the batch."""
    parts: list[list[Any]] = []
    generator = None
    if randomness == "same":
        from ..random import get_rng_state, set_rng_state

        generator = get_rng_state()
    for start in range(0, inputs.size, chunk_size):
        size = min(chunk_size, inputs.size - start)
        leaves = [
            leaf if dim is None else ops.narrow(leaf, dim, start, size)
            for leaf, dim in zip(inputs.leaves, inputs.dims, strict=True)
        ]
        if generator is not None:
            set_rng_state(generator)
        found, dims, spec = _mapped(func, name, inputs, leaves, size, out_dims, randomness)
        parts.append(found)
    joined = [
        _at(column[0] if dim is None else ops.cat(column, 0), dim) for dim, *column in zip(dims, *parts, strict=True)
    ]
    return tree_unflatten(joined, spec)


_found_in("gradloom.func", vmap)
