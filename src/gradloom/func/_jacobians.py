"""Jacobians and Hessians as functions: `jacrev`, `jacfwd`, `hessian`.

Note [Unit vectors]
`jacrev` and `jacfwd` are vmap over unit vectors. Only cotangents and tangents are batched, never values, so the
function runs once, as without vmap, and may branch on values (`if x > 0`). In forward mode, an unbatched tensor then
carries a batched tangent. Other vmaps may batch any value, and there the tensors that are differentiated must be
batched as well (Note [One graph]).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from itertools import accumulate
from typing import Any

import numpy as np

from ..batching.mapping import vmap
from ..core.tensor import Tensor
from ..dispatch import _operators as ops
from ..dispatch.state import state
from ..utils._pytree import tree_flatten
from ._arguments import Argnums, chosen, refuse_other_than_tensors
from ._forward import jvp
from ._level import UNITS
from ._reverse import vjp_of_some

_RANDOMNESS = ("error", "different", "same")


def jacrev(
    func: Callable[..., Any],
    argnums: Argnums = 0,
    *,
    has_aux: bool = False,
    chunk_size: int | None = None,
    _preallocate_and_copy: bool = False,
) -> Callable[..., Any]:
    """Return a function that computes the Jacobian of `func` by reverse mode, one pass per element of the output.

    Args:
        func: takes and returns Tensors of floating dtypes, or nested containers of them; with `has_aux`, returns
            `(output, aux)`.
        argnums: positional arguments to differentiate with respect to: an int, or a tuple of ints.
        has_aux: whether `func` also returns `aux`, Tensors that are not differentiated.
        chunk_size: number of passes at once; None for all, which is fastest and needs the most memory.
        _preallocate_and_copy: has no effect.

    Returns:
        A function of the same positional arguments. It returns a Tensor of shape `output.shape + argument.shape` if
        output and argument are Tensors; for containers, a tree with the structure of the output, in which every leaf
        is a tree with the structure of the argument. With `has_aux`, `(jacobian, aux)`.

    Raises:
        ValueError: if chunk_size is not positive.
        RuntimeError: if arguments or outputs are complex or hold anything but Tensors, or for an invalid `argnums`.
    """
    if chunk_size is not None and not chunk_size > 0:
        raise ValueError("jacrev: `chunk_size` should be greater than 0.")

    @wraps(func)
    def jacobian(*args):
        inputs, input_spec, _ = chosen(argnums, args)
        output, vjp_fn, aux = vjp_of_some(func, args, argnums, has_aux)
        outputs, output_spec = tree_flatten(output)
        _refuse_complex("jacrev", inputs=inputs, outputs=outputs)
        rows = (
            _over_basis(
                lambda units: tree_flatten(vjp_fn(output_spec.unflatten(units)))[0],
                outputs,
                randomness="same",
                chunk_size=chunk_size,
            )
            if inputs
            else []
        )
        parts = [_parts(row, outputs) for row in rows]  # [argument][output]
        found = output_spec.unflatten(
            [
                input_spec.unflatten(
                    [part[i].reshape(out.shape + x.shape) for part, x in zip(parts, inputs, strict=True)]
                )
                for i, out in enumerate(outputs)
            ]
        )
        return (found, aux) if has_aux else found

    return jacobian


def jacfwd(
    func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False, *, randomness: str = "error"
) -> Callable[..., Any]:
    """Return a function that computes the Jacobian of `func` by forward mode, one pass per element of the arguments.

    Args:
        func, argnums, has_aux: see jacrev.
        randomness: for random operators in `func`: "error" raises, "same" draws the same numbers for all passes,
            "different" draws new ones for each.

    Returns:
        See jacrev.

    Raises:
        RuntimeError: see jacrev; also for another `randomness`.
        ValueError: if an argument's dtype cannot be differentiated.
        NotImplementedError: if an operator has no forward formula.
    """

    @wraps(func)
    def jacobian(*args):
        if randomness not in _RANDOMNESS:
            raise RuntimeError(
                f"Only allowed values for randomness are 'error', 'different', or 'same'. Got {randomness}"
            )
        inputs, input_spec, with_leaves = chosen(argnums, args)
        for leaf in inputs:
            if not isinstance(leaf, Tensor):
                raise ValueError(f"Thing passed to transform API must be Tensor, got {type(leaf)}")
        _refuse_complex("jacfwd", inputs=inputs)
        specs: list = []

        def product(units):
            results = jvp(
                lambda *points: func(*with_leaves(list(points))), tuple(inputs), tuple(units), has_aux=has_aux
            )
            refuse_other_than_tensors(results[2:])
            products, output_spec = tree_flatten(results[1])
            _refuse_complex("jacfwd", outputs=products)
            aux, aux_spec = tree_flatten(results[2:])
            specs[:] = output_spec, aux_spec
            return products + aux

        columns = _over_basis(product, inputs, randomness=randomness)
        output_spec, aux_spec = specs
        count = output_spec.num_leaves
        found = output_spec.unflatten(
            [
                input_spec.unflatten(
                    [
                        ops.movedim(part, 0, -1).reshape(column.shape[1:] + x.shape)
                        for part, x in zip(_parts(column, inputs), inputs, strict=True)
                    ]
                )
                for column in columns[:count]
            ]
        )
        return (found, *aux_spec.unflatten([column[0] for column in columns[count:]])) if has_aux else found

    return jacobian


def hessian(func: Callable[..., Any], argnums: Argnums = 0) -> Callable[..., Any]:
    """Return a function that computes the Hessian of `func`, as `jacfwd(jacrev(func))`.

    Args:
        func: takes Tensors or nested containers of Tensors; returns a Tensor, usually 0-dimensional.
        argnums: see jacrev.

    Returns:
        A function of the same positional arguments. For an argument of shape S and a 0-dimensional output it returns a
        Tensor of shape `S + S`; for a tuple `argnums`, a tuple of tuples of such Tensors.

    Raises:
        RuntimeError, ValueError, NotImplementedError: see jacrev and jacfwd. If an operator of the backward pass has no
            forward formula, use `jacrev(jacrev(func))`.
    """
    return jacfwd(jacrev(func, argnums), argnums)


def _over_basis(
    product: Callable[[list[Tensor]], list[Tensor]],
    like: Sequence[Tensor],
    *,
    randomness: str,
    chunk_size: int | None = None,
) -> list[Tensor]:
    """Apply a linear function of several tensors to all unit vectors of the space of their elements.

    Args:
        product: takes tensors with the shapes of `like`; returns tensors.
        like: tensors that give the shapes and dtypes; they have N elements in total.
        randomness: see vmap.
        chunk_size: number of vectors at once; None for all.

    Returns:
        The results of `product` with a new first dimension of size N; of size 1, for a zero vector, if N is 0.
    """
    total = sum([t.numel() for t in like])
    if not total:
        return [ops.stack([p]) for p in product([ops.zeros_like(t).detach() for t in like])]
    step = total if chunk_size is None else min(chunk_size, total)
    chunks = [
        _mapped(product, _units(like, start, min(start + step, total)), randomness) for start in range(0, total, step)
    ]
    return chunks[0] if len(chunks) == 1 else [ops.cat(parts, 0) for parts in zip(*chunks, strict=True)]


def _units(like, start, stop):
    """Return rows `start` to `stop` of the identity matrix over the elements of `like`, split by tensor."""
    found = []
    for tensor, end in zip(like, accumulate(t.numel() for t in like), strict=True):
        size = tensor.numel()
        part = np.zeros((stop - start, size), tensor._array.dtype)
        first = end - size
        for row in range(max(start, first), min(stop, end)):
            part[row - start, row - first] = 1
        found.append(ops.wrap(part.reshape(stop - start, *tensor.shape)))
    return found


def _mapped(product, units, randomness):
    """Map `product` over the rows of `units`."""

    def for_all(*rows):
        number = state.batching[-1].number
        if randomness != "different":  # different numbers for each vector would be batched values
            UNITS.add(number)
        try:
            return tuple(product(list(rows)))
        finally:
            UNITS.discard(number)

    return list(vmap(for_all, randomness=randomness)(*units))


def _parts(stacked, like):
    """Split a tensor along dimension 0 into parts as long as the tensors of `like` have elements."""
    sizes = [t.numel() for t in like]
    return ops.split(stacked[: sum(sizes)], sizes, 0)


def _refuse_complex(name, **kinds):
    for kind, tensors in kinds.items():
        for i, tensor in enumerate(tensors):
            if tensor.is_complex():
                raise RuntimeError(
                    f"{name}: Expected all {kind} to be real but received complex tensor at flattened input idx: {i}"
                )
