"""`autograd.grad(..., is_grads_batched=True)`: one pass for all vectors, by vmap."""

from __future__ import annotations

from ..core.roots import UNUSED, check_kind, materialized, output_layout, roots_and_gradients
from ..dispatch import _operators


def grad_batched(
    grad, outputs: tuple, inputs: tuple, vectors: tuple, *, retain_graph, create_graph, allow_unused, materialize_grads
) -> tuple:
    """The gradients of `inputs` for every vector, along a new first dimension.

    Args:
        grad: autograd.grad.
        outputs, inputs: as for it, as tuples.
        vectors: one Tensor per output, whose first dimension runs over the vectors, or None for an output of one
            element.

    Raises:
        RuntimeError: if the shape of a vector does not fit its output.
        ValueError: if the numbers of vectors differ.
        IndexError: if there is none.
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
    from ..batching.mapping import vmap

    reached: list = []

    def noted(*given):
        found = grad(outputs, inputs, given, retain_graph, create_graph, allow_unused=True)
        reached.extend([g is not None for g in found])
        return tuple([g for g in found if g is not None])

    in_dims = tuple([None if v is None else 0 for v in vectors])
    parts = iter(vmap(noted, in_dims, randomness="same")(*vectors))
    found = [next(parts) if there else None for there in reached]
    for k, there in enumerate(reached):
        if not there and not allow_unused:
            raise RuntimeError(UNUSED.format(k))
    return materialized(found, inputs, create_graph) if materialize_grads else tuple(found)
