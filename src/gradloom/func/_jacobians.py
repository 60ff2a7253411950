"""Jacobians and Hessians as functions: `jacrev`, `jacfwd`, `hessian`."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING

from ..core.tensor import Tensor
from ..dispatch import _operators as ops
from ..utils._pytree import tree_flatten
from ._arguments import chosen, refuse_other_than_tensors
from ._forward import jvp
from ._reverse import vjp_of_some
from ._rows import over_basis

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ._arguments import Argnums

_RANDOMNESS = ("error", "different", "same")


def jacrev(
    func: Callable[..., Any],
    argnums: Argnums = 0,
    *,
    has_aux: bool = False,
    chunk_size: int | None = None,
    _preallocate_and_copy: bool = False,
) -> Callable[..., Any]:
    """The function that computes the Jacobian of a function by reverse mode: a pass for each element of the output.

    Args:
        func: takes Tensors, or nested containers of them; returns such, too, of floating dtypes. With `has_aux`, a
            tuple of that and `aux`.
        argnums: which positional arguments to differentiate with respect to: an int, or a tuple of them.
        has_aux: `func` returns `(output, aux)`, where `aux` holds other Tensors that are wanted.
        chunk_size: how many passes are made at once; None for all, which is fastest and takes the most memory.
        _preallocate_and_copy: accepted, and not used.

    Returns:
        A function of the same positional arguments. It returns the Jacobian: for an output and an argument that are
        Tensors, a Tensor of shape `output.shape + argument.shape`; for containers of them, a container of the structure
        of the output, with one of the structure of the argument for every Tensor in it. With `has_aux`, a tuple of that
        and `aux`.

    Raises:
        ValueError: if chunk_size is not positive.
        RuntimeError: if arguments or outputs are complex, hold anything but Tensors, or do not fit `argnums`.
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
            over_basis(
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
    """The function that computes the Jacobian of a function by forward mode: a pass for each element of the arguments.

    Args:
        func, argnums, has_aux: see jacrev.
        randomness: what a random operator in `func` does, which is called for all passes: "error" refuses it, "same"
            draws the same numbers for all, "different" others for each.

    Returns:
        As jacrev.

    Raises:
        RuntimeError: as jacrev, and for another `randomness`.
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

        columns = over_basis(product, inputs, randomness=randomness)
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
    """The function that computes the Hessian of a function: the Jacobian, by forward mode, of the one by reverse mode.

    Args:
        func: takes Tensors, or nested containers of them; returns a Tensor, mostly of one element.
        argnums: see jacrev.

    Returns:
        A function of the same positional arguments. For an argument of shape S and an output of one element without
        dimensions it returns a Tensor of shape `S + S`; for a tuple `argnums` a tuple of tuples of such.

    Raises:
        RuntimeError, ValueError, NotImplementedError: see jacrev and jacfwd. Where an operator of the backward pass has
            no forward formula, `jacrev(jacrev(func))` does without.
    """
    return jacfwd(jacrev(func, argnums), argnums)


def _parts(stacked, like):
    """A tensor cut along its first dimension into one part for each of some tensors, as long as it has elements."""
    sizes = [t.numel() for t in like]
    return ops.split(stacked[: sum(sizes)], sizes, 0)


def _refuse_complex(name, **kinds):
    for kind, tensors in kinds.items():
        for i, tensor in enumerate(tensors):
            if tensor.is_complex():
                raise RuntimeError(
                    f"{name}: Expected all {kind} to be real but received complex tensor at flattened input idx: {i}"
                )
