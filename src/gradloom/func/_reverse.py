"""Reverse-mode transforms: `grad`, `grad_and_value`, `vjp`. See Note [One graph] in _level.py."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from ..autograd.grad_mode import is_grad_enabled
from ..core.tensor import Tensor
from ..utils._pytree import tree_flatten, tree_map_only
from ._arguments import Argnums, chosen, output_tensors, refuse_other_than_tensors, without_aux
from ._level import Level, filled

_GRAD = "grad_and_value(f)(*args)"
_VJP = "vjp(f, *primals)"


def grad(func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False) -> Callable[..., Any]:
    """Return a function that computes the gradient of a scalar function.

    Args:
        func: returns a 0-dimensional real Tensor; with `has_aux`, `(value, aux)`. The arguments that `argnums` names
            are Tensors of floating or complex dtypes, or nested containers of them; others are arbitrary.
        argnums: positional arguments to differentiate with respect to: an int, or a tuple of ints.
        has_aux: whether `func` also returns `aux`, Tensors that are not differentiated.

    Returns:
        A function of the same arguments. It returns the gradient, with the structure, shapes and dtypes of the argument
        (for a tuple `argnums`, a tuple of gradients); with `has_aux`, `(gradient, aux)`. The gradient is zero for
        arguments that the value does not depend on. It is differentiable by an outer transform, or by `backward` with
        respect to any tensor that requires grad.

    Raises:
        RuntimeError: if the value is not a 0-dimensional real Tensor, for an invalid `argnums`, or if an argument's
            dtype cannot be differentiated.
        ValueError: if an argument to differentiate with respect to is not a Tensor.
    """

    @wraps(func)
    def gradient(*args, **kwargs):
        found, _, aux = _gradient_and_value(func, argnums, has_aux, args, kwargs)
        return (found, aux) if has_aux else found

    return gradient


def grad_and_value(func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False) -> Callable[..., Any]:
    """Return a function that computes the gradient and the value of a scalar function.

    Args:
        func, argnums, has_aux: see grad.

    Returns:
        A function of the same arguments that returns `(gradient, value)`, or `(gradient, (value, aux))`.

    Raises:
        RuntimeError, ValueError: see grad.
    """

    @wraps(func)
    def gradient_and_value(*args, **kwargs):
        found, value, aux = _gradient_and_value(func, argnums, has_aux, args, kwargs)
        return (found, (value, aux)) if has_aux else (found, value)

    return gradient_and_value


def _gradient_and_value(func, argnums, has_aux, args, kwargs):
    with Level() as level:
        leaves, spec, with_leaves = chosen(argnums, args)
        inputs = [level.enter(leaf) for leaf in leaves]
        value, aux = without_aux(func(*with_leaves(inputs), **kwargs), has_aux, _GRAD)
        if not isinstance(value, Tensor):
            raise RuntimeError(f"{_GRAD}: Expected f(*args) to return a Tensor, got {type(value)}")
        if value.ndim:
            raise RuntimeError(
                f"{_GRAD}: Expected f(*args) to return a scalar Tensor, got tensor with {value.ndim} "
                "dims. Maybe you wanted to use the vjp or jacrev APIs instead?"
            )
        refuse_other_than_tensors(aux if has_aux else ())
        found = level.gradients([value], [None], inputs, level.records_outside) if inputs else []
        return level.leave((spec.unflatten(filled(found, inputs)), value, aux))


def vjp(func: Callable[..., Any], *primals: Any, has_aux: bool = False) -> tuple[Any, ...]:
    """Compute a function's value and return the function that computes vector-Jacobian products `v^T J` there.

    Args:
        func: takes and returns Tensors of floating or complex dtypes, or nested containers of them; with `has_aux`,
            returns `(output, aux)`.
        primals: the arguments.
        has_aux: see grad.

    Returns:
        (output, vjp_fn), or (output, vjp_fn, aux). `vjp_fn(cotangents)` takes Tensors with the structure and shapes of
        the output, and returns a tuple of products with the structure and shapes of the arguments. It can be called
        repeatedly, unless with `retain_graph=False`. `create_graph` makes the products differentiable (default: if
        grad mode is enabled during the call).

    Raises:
        RuntimeError: if the output holds anything but such Tensors, or an argument's dtype cannot be differentiated.
        ValueError: if an argument holds anything but Tensors.
    """
    output, vjp_fn, aux = vjp_of_some(func, primals, tuple(range(len(primals))), has_aux)
    return (output, vjp_fn, aux) if has_aux else (output, vjp_fn)


def vjp_of_some(
    func: Callable[..., Any], primals: tuple[Any, ...], argnums: Argnums, has_aux: bool
) -> tuple[Any, Callable[..., Any], Any]:
    """Compute `vjp` with respect to the arguments that `argnums` names.

    Returns:
        (output, vjp_fn, aux). `vjp_fn` returns one product for an int, and a tuple for a tuple.
    """
    level = Level()
    with level:
        leaves, input_spec, with_leaves = chosen(argnums, primals) if primals else ([], tree_flatten(())[1], tuple)
        inputs = [level.enter(leaf) for leaf in leaves]
        output, aux = without_aux(func(*with_leaves(inputs)), has_aux, _VJP)
        refuse_other_than_tensors(aux if has_aux else ())
        outputs, spec = output_tensors(output, _VJP)
        for tensor in outputs:
            if not (tensor.is_floating_point() or tensor.is_complex()):
                raise RuntimeError(
                    "vjp(f, ...): All outputs of f must be floating-point or complex Tensors, got "
                    f"Tensor with dtype {tensor.dtype}"
                )
        seen, seen_aux = level.leave((output, aux))

    def vjp_fn(cotangents: Any, retain_graph: bool = True, create_graph: bool | None = None) -> Any:
        vectors, given = tree_flatten(cotangents)
        if given != spec:
            raise RuntimeError(
                "Expected pytree structure of cotangents to be the same as pytree structure of outputs "
                f"to the function. cotangents: {_structure(given)}, primal output: {_structure(spec)}"
            )
        records = is_grad_enabled() if create_graph is None else create_graph
        found = level.gradients(outputs, vectors, inputs, records, retain_graph)
        return level.leave(input_spec.unflatten(filled(found, inputs)), records)

    return seen, vjp_fn, seen_aux


def _structure(spec) -> str:
    """Return a structure as Python prints it, with a star for each leaf."""

    class Star:
        def __repr__(self) -> str:
            return "*"

    return repr(tree_map_only(int, lambda _: Star(), spec.unflatten([0] * spec.num_leaves)))
