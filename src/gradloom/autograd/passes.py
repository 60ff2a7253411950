"""backward and grad: start backward passes; gradloom.autograd exports them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, overload

from ..core import late
from ..core.engine import execute
from ..core.node import as_pair, bump_version
from ..core.roots import (
    UNUSED,
    as_tuple,
    check_flags,
    check_kind,
    edges_of_constants,
    input_edges,
    input_gradients,
    materialized,
    output_layout,
    roots_and_gradients,
)
from ..core.tensor import Tensor
from ..dispatch import _operators
from ..dispatch.state import state

if TYPE_CHECKING:
    from .graph import GradientEdge

_Roots: TypeAlias = "Tensor | GradientEdge | Sequence[Tensor] | Sequence[GradientEdge]"


def backward(
    tensors: _Roots,
    grad_tensors: Tensor | Sequence[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    grad_variables: Tensor | Sequence[Tensor | None] | None = None,
    inputs: _Roots | dict[str, Tensor] | None = None,
) -> None:
    """Accumulate into `.grad` of the leaves the gradient of the sum of all elements of `tensors`, weighted by
    `grad_tensors`.

    Args:
        tensors: a Tensor, or a sequence of Tensors or GradientEdges.
        grad_tensors: the vectors of the vector-Jacobian product; None for tensors of one element.
        retain_graph: keep saved tensors for another pass; default: create_graph.
        create_graph: record this pass, for derivatives of higher order.
        inputs: accumulate into these tensors only.
        grad_variables: the deprecated name of `grad_tensors`; warns.

    Raises:
        RuntimeError: if a tensor does not require grad, a gradient is missing or has another shape, or the graph was
            freed by an earlier pass.
    """
    if state.batching:
        late.refuse_backward_in_vmap()
    if grad_variables is not None:
        _warn("`grad_variables` is deprecated. Use `grad_tensors` instead.", FutureWarning)
        if grad_tensors is not None:
            raise RuntimeError(
                "`grad_tensors` and `grad_variables` (deprecated) arguments both passed to "
                "`backward()`. Please only use `grad_tensors`."
            )
        grad_tensors = grad_variables
    roots, grads = roots_and_gradients(as_tuple(tensors), grad_tensors)
    if create_graph:
        _warn_of_cycle()
    if retain_graph is None:
        retain_graph = create_graph
    check_flags(retain_graph, create_graph)
    if inputs is None:
        execute(roots, grads, keep_graph=retain_graph, create_graph=create_graph)
        return
    inputs = tuple(inputs.values()) if isinstance(inputs, dict) else as_tuple(inputs)
    if not inputs:
        raise RuntimeError("`inputs` argument to `backward()` cannot be empty.")
    edges = input_edges(inputs)
    for tensor in inputs:
        if isinstance(tensor, _operators.Tensor):
            tensor.retain_grad()  # does nothing for leaves
    execute(roots, grads, keep_graph=retain_graph, create_graph=create_graph, run_only=edges)


@overload
def grad(
    outputs: _Roots,
    inputs: _Roots,
    grad_outputs: Tensor | Sequence[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: Literal[False] | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Tensor, ...]: ...


@overload
def grad(
    outputs: _Roots,
    inputs: _Roots,
    grad_outputs: Tensor | Sequence[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    *,
    allow_unused: bool,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Tensor | None, ...]: ...


@overload
def grad(
    outputs: _Roots,
    inputs: dict[str, Tensor],
    grad_outputs: Tensor | Sequence[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> dict[str, Tensor]: ...


def grad(
    outputs: _Roots,
    inputs: _Roots | dict[str, Tensor],
    grad_outputs: Tensor | Sequence[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> Any:
    """Return the derivative of the sum of `outputs` (each times its `grad_outputs`) with respect to each of `inputs`.

    Args:
        outputs: a Tensor or a sequence of them (or GradientEdges).
        inputs: the Tensors to differentiate with respect to.
        grad_outputs: the vectors of the vector-Jacobian product, one per output; None for outputs of one element.
        retain_graph: keep saved tensors; default: create_graph.
        create_graph: record this pass, for derivatives of higher order.
        allow_unused: return None for inputs that the outputs do not depend on, instead of raising.
        is_grads_batched: the first dimension of grad_outputs is a batch of vectors.
        materialize_grads: return zeros instead of None for unused inputs.
        only_inputs: has no effect: only the gradients of `inputs` are computed. False warns.

    Returns:
        A tuple with one Tensor (or None) per input.

    Raises:
        RuntimeError: as for backward, and for an unused input without allow_unused.
    """
    inputs, names = _inputs_of_grad(inputs)
    if not only_inputs:
        _warn(
            "only_inputs argument is deprecated and is ignored now (defaults to True). To accumulate gradient for "
            "other parts of the graph, please use torch.autograd.backward.",
            FutureWarning,
        )
    if materialize_grads and allow_unused is False:
        raise ValueError(
            "Expected allow_unused to be True or not passed when materialize_grads=True, but got: allow_unused=False."
        )
    if allow_unused is None:
        allow_unused = materialize_grads
    if retain_graph is None:
        retain_graph = create_graph
    check_flags(retain_graph, create_graph, allow_unused)
    outputs = as_tuple(outputs)
    if is_grads_batched:
        found = _grad_batched(
            outputs,
            inputs,
            (None,) * len(outputs) if grad_outputs is None else as_tuple(grad_outputs),
            retain_graph=retain_graph,
            create_graph=create_graph,
            allow_unused=allow_unused,
            materialize_grads=materialize_grads,
        )
    elif (
        state.batching
        and (
            found := _grad_within_vmap(
                outputs, inputs, grad_outputs, retain_graph, create_graph, allow_unused, materialize_grads
            )
        )
        is not None
    ):
        pass
    else:
        roots, grads = roots_and_gradients(outputs, grad_outputs)
        edges = input_edges(inputs)
        if any(as_pair(edge)[0] is None for edge in edges):
            edges = edges_of_constants(inputs, edges)
        found = execute(roots, grads, keep_graph=retain_graph, create_graph=create_graph, capture_edges=edges)
        found = input_gradients(found, inputs, allow_unused, materialize_grads, create_graph)
    return found if names is None else dict(zip(names, found, strict=True))


def _grad_within_vmap(outputs, inputs, vectors, retain_graph, create_graph, allow_unused, materialize_grads):
    """Return the gradients if outputs or inputs are batched, else None."""
    if not late.any_batched(outputs, inputs):
        return None
    vectors = None if vectors is None else as_tuple(vectors)
    return late.grad_of_batched(
        grad,
        outputs,
        inputs,
        vectors,
        retain_graph=retain_graph,
        create_graph=create_graph,
        allow_unused=allow_unused,
        materialize_grads=materialize_grads,
    )


def _inputs_of_grad(inputs):
    """Return the inputs of `grad` as a tuple, and their keys if they came in a dict."""
    names = None
    if isinstance(inputs, dict):
        names, inputs = tuple(inputs), tuple(inputs.values())
    else:
        inputs = as_tuple(inputs)
    if not inputs:
        raise RuntimeError("`inputs` argument to `grad()` cannot be empty.")
    return inputs, names


def _grad_batched(
    outputs: tuple, inputs: tuple, vectors: tuple, *, retain_graph, create_graph, allow_unused, materialize_grads
) -> tuple:
    """Return the gradients of `inputs` for every vector, along a new first dimension.

    Args:
        outputs, inputs: as for `grad`, as tuples.
        vectors: one Tensor per output, whose first dimension is the batch of vectors, or None for an output of one
            element.

    Raises:
        RuntimeError: if the shape of a vector does not fit its output.
        ValueError: if the numbers of vectors differ.
        IndexError: if there are no vectors.
    """
    for i, (output, vector) in enumerate(zip(outputs, vectors, strict=False)):
        shape, numpy_type = output_layout(i, output)
        if vector is None:
            continue
        if not isinstance(vector, _operators.Tensor):
            raise TypeError(f"gradients can be either Tensors or None, but got {type(vector).__name__}")
        if not vector.ndim:
            raise IndexError(
                f"grad_outputs[{i}] is a tensor without dimensions: with is_grads_batched=True the first "
                "dimension runs over the vectors"
            )
        if vector.shape[1:] != shape:
            raise RuntimeError(
                "If `is_grads_batched=True`, we interpret the first dimension of each grad_output as the batch "
                "dimension. The sizes of the remaining dimensions are expected to match the shape of corresponding "
                f"output, but a mismatch was detected: grad_output[{i}] has a shape of {vector.shape[1:]} and "
                f"output[{i}] has a shape of {type(vector.shape)(shape)}."
            )
        check_kind(i, vector, numpy_type)
    sizes = [v.shape[0] for v in vectors if v is not None]
    if not sizes:
        roots_and_gradients(outputs, None)  # refuses outputs of several elements
        raise ValueError("is_grads_batched=True needs grad_outputs whose first dimension runs over the vectors")
    if len(set(sizes)) > 1:
        raise ValueError(
            "vmap: Expected all tensors to have the same size in the mapped dimension, got sizes "
            f"{sizes} for the mapped dimension"
        )
    if not sizes[0]:
        raise IndexError("index 0 is out of bounds for dimension 0 with size 0: grad_outputs hold no vector")
    reached: list = []

    def noted(*given):
        found = grad(outputs, inputs, given, retain_graph, create_graph, allow_unused=True)
        reached.extend([g is not None for g in found])
        return tuple([g for g in found if g is not None])

    in_dims = tuple([None if v is None else 0 for v in vectors])
    parts = iter(late.vmap(noted, in_dims, randomness="same")(*vectors))
    found = [next(parts) if there else None for there in reached]
    for k, there in enumerate(reached):
        if not there and not allow_unused:
            raise RuntimeError(UNUSED.format(k))
    return materialized(found, inputs, create_graph) if materialize_grads else tuple(found)


def _warn(message, category) -> None:
    import warnings

    warnings.warn(message, category, stacklevel=3)


_warned_of_cycle = False


def _warn_of_cycle() -> None:
    """Warn once that backward(create_graph=True) creates reference cycles."""
    global _warned_of_cycle
    if not _warned_of_cycle:
        _warned_of_cycle = True
        import warnings

        warnings.warn(
            "Using backward() with create_graph=True will create a reference cycle between the parameter and "
            "its gradient which can cause a memory leak: .grad holds the graph, which holds the parameter. "
            "Use autograd.grad when creating the graph, or set .grad of the parameters to None afterwards.",
            stacklevel=4,
        )


def increment_version(tensor: Tensor | Iterable[Tensor]) -> None:
    """Increment a tensor's version after a write to its memory that autograd did not see.

    Args:
        tensor: a Tensor or an iterable of Tensors. Inference tensors, which have no version, are skipped.

    Raises:
        RuntimeError: for anything else.
    """
    if isinstance(tensor, _operators.Tensor):
        tensor = (tensor,)
    try:
        tensors = list(tensor)
    except TypeError:
        raise RuntimeError(
            "increment_version expect a Iterable[Tensor] as input: a Tensor or an iterable of Tensors, "
            f"but got {type(tensor).__name__}"
        ) from None
    for t in tensors:
        if not isinstance(t, _operators.Tensor):
            raise RuntimeError(
                f"increment_version expects each element of the iterable to be a tensor, but got {type(t).__name__}"
            )
        if not t._inference:
            bump_version(t)
