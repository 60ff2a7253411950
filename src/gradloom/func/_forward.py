"""Forward-mode transforms: `jvp` and `linearize`.

Note [Nested jvp]
There is one level of forward mode, as in PyTorch's `autograd.forward_ad`. A `jvp` inside another one is computed by
two reverse passes instead: u -> u^T J is linear in u, and its derivative with respect to u, times v, is J v. Both
passes consist of operators, so the tangents of the open level propagate through them. The two methods differ for a
`no_grad` block in the function: forward mode differentiates through it, reverse mode does not. A nested `jvp` of such
a function raises, because its result would differ from that of the same `jvp` on its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..autograd import forward_ad
from ..autograd.grad_mode import is_grad_enabled
from ..core.tensor import Tensor
from ..dispatch import _operators as ops
from ..dispatch.state import state
from ..utils._pytree import tree_flatten, tree_map_only
from ._arguments import output_tensors, without_aux
from ._level import Level, batched_at_open_levels, filled

_JVP = "jvp(f, primals, tangents)"


def jvp(
    func: Callable[..., Any],
    primals: tuple[Any, ...],
    tangents: tuple[Any, ...],
    *,
    strict: bool = False,
    has_aux: bool = False,
) -> tuple[Any, ...]:
    """Compute a function's value and its Jacobian-vector product `J v` in one pass.

    Args:
        func: takes and returns Tensors or nested containers of Tensors; with `has_aux`, returns `(output, aux)`.
        primals: tuple of arguments, of floating or complex dtypes.
        tangents: the vector v, with the structure and shapes of `primals`. A tangent may have another dtype than its
            primal, as in `forward_ad`.
        strict: raise if the output does not depend on the arguments, instead of returning zeros.
        has_aux: whether `func` also returns `aux`, Tensors that are not differentiated.

    Returns:
        (output, product), or (output, product, aux). The product has the structure, shapes and dtypes of the output,
        and is differentiable like it.

    Raises:
        RuntimeError: if primals and tangents differ in structure, or they or the output hold anything but Tensors.
        ValueError: for a dtype that cannot be differentiated.
        NotImplementedError: if an operator has no forward formula, or a nested jvp meets no_grad.
    """
    points, vectors = _checked(primals, tangents)
    spec = tree_flatten(primals)[1]
    compute = _by_reverse_passes if forward_ad.is_level_open() else _by_dual_numbers
    value, product, aux = compute(func, points, vectors, spec, has_aux, strict)
    return (value, product, aux) if has_aux else (value, product)


def _checked(primals, tangents):
    """Return the tensors of the primals and of the tangents."""
    if not isinstance(primals, tuple):
        raise RuntimeError(f"{_JVP}: Expected primals to be a tuple. E.g. it should be valid to call f(*primals).")
    points, spec = tree_flatten(primals)
    vectors, given = tree_flatten(tangents)
    if spec != given:
        raise RuntimeError(
            f"{_JVP}: Expected primals and tangents to have the same python structure. For example, if "
            "primals is a tuple of 3 tensors, tangents also must be. Got primals with structure "
            f"{spec} and tangents with structure {given}"
        )
    if not points:
        raise RuntimeError(f"{_JVP}: Expected primals to contain at least one Tensor.")
    for name, leaves in (("primals", points), ("tangents", vectors)):
        for leaf in leaves:
            if not isinstance(leaf, Tensor):
                raise RuntimeError(f"{_JVP}: Expected {name} to only contain Tensors, got {type(leaf)}")
    return points, vectors


def _by_dual_numbers(func, points, vectors, spec, has_aux, strict):
    with forward_ad.dual_level():
        duals = [forward_ad.make_dual(batched_at_open_levels(p), v) for p, v in zip(points, vectors, strict=True)]
        output, aux = without_aux(func(*spec.unflatten(duals)), has_aux, _JVP)
        outputs, output_spec = output_tensors(output, _JVP)
        pairs = [forward_ad.unpack_dual(tensor) for tensor in outputs]
        products = _products([pair.tangent for pair in pairs], outputs, strict)
        aux = tree_map_only(Tensor, lambda tensor: forward_ad.unpack_dual(tensor).primal, aux)
    return output_spec.unflatten([pair.primal for pair in pairs]), output_spec.unflatten(products), aux


def _products(products, outputs, strict):
    """Replace None, for outputs that do not depend on the arguments, by zeros; raise if `strict`."""
    if strict and any(product is None for product in products):
        raise RuntimeError(
            "jvp(f, primals, tangents, strict=True): The output of f is independent of the inputs. "
            "This is not allowed with strict=True."
        )
    return filled(products, outputs)


def _by_reverse_passes(func, points, vectors, spec, has_aux, strict):
    for point, vector in zip(points, vectors, strict=True):
        forward_ad.check_dual(point, vector)
    linear = _Transposed(func, points, spec, has_aux, _JVP)
    products = _products(linear.products(vectors, linear.level.records_outside), linear.outputs, strict)
    value, product, aux = linear.level.leave(
        (linear.output_spec.unflatten(linear.outputs), linear.output_spec.unflatten(products), linear.aux)
    )
    return value, product, aux


class _Transposed:
    """A function recorded at a point, and its transposed derivative u -> u^T J recorded as a function of u.

    Attributes:
        outputs, output_spec, aux: the function's result, with its history.
        roots: the products u^T J at u = 0; None for arguments that no output depends on.
    """

    def __init__(self, func, points, spec, has_aux, call):
        before = state.unrecorded
        self.level = Level()
        with self.level as level:
            inputs = [level.enter(point) for point in points]
            output, self.aux = without_aux(func(*spec.unflatten(inputs)), has_aux, call)
            if state.unrecorded != before:
                raise NotImplementedError(
                    f"{call.partition('(')[0]}: the function uses no_grad, through which forward mode differentiates. "
                    "A jvp inside another one, and linearize, use reverse mode, which cannot. Use detach() for "
                    "constants instead of no_grad."
                )
            self.outputs, self.output_spec = output_tensors(output, call)
            self.us = [
                level.owned(ops.zeros_like(t).detach().requires_grad_()) if t.requires_grad else None
                for t in self.outputs
            ]
            roots = [(t, u) for t, u in zip(self.outputs, self.us, strict=True) if u is not None]
            self.roots = level.gradients([t for t, _ in roots], [u for _, u in roots], inputs, True, True)

    def products(self, vectors, records, retain_graph=None):
        """Return J v for every output; None for an output that does not depend on the arguments."""
        found = iter(
            self.level.gradients(
                [root for root in self.roots if root is not None],
                [vector for root, vector in zip(self.roots, vectors, strict=True) if root is not None],
                [u for u in self.us if u is not None],
                records,
                retain_graph,
            )
        )
        return [None if u is None else next(found) for u in self.us]


def linearize(func: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[..., Any]]:
    """Compute a function's value and its derivative there as a linear function, `v -> J v`.

    The function is called once; the linear function can be called for many vectors. For one vector, `jvp` is faster.
    It uses reverse mode; see Note [Nested jvp].

    Args:
        func: takes and returns Tensors or nested containers of Tensors.
        primals: the arguments.

    Returns:
        (output, jvp_fn). `jvp_fn(*tangents)` takes tangents with the structure, shapes and dtypes of the arguments, and
        returns the product, with the structure and shapes of the output.

    Raises:
        RuntimeError: if the output holds anything but Tensors, or tangents do not match the arguments.
        ValueError: if an argument holds anything but Tensors.
        NotImplementedError: if the function uses no_grad.
    """
    points, spec = tree_flatten(primals)
    linear = _Transposed(func, points, spec, False, "linearize(f, *primals)")

    def jvp_fn(*tangents: Any) -> Any:
        vectors, given = tree_flatten(tangents)
        if given != spec:
            raise RuntimeError(f"Expected the tangents {given} to have the same argspec as the primals {spec}")
        for i, (point, vector) in enumerate(zip(points, vectors, strict=True)):
            for what in ("shape", "dtype"):
                if getattr(point, what) != getattr(vector, what):
                    raise RuntimeError(
                        f"tangent:{i} with {what} {getattr(vector, what)} in flattened pytree doesn't "
                        f"match the {what} {getattr(point, what)} of the corresponding primal."
                    )
        records = is_grad_enabled()
        products = filled(linear.products(vectors, records, True), linear.outputs)
        return linear.level.leave(linear.output_spec.unflatten(products), records)

    return linear.level.leave(linear.output_spec.unflatten(linear.outputs)), jvp_fn
