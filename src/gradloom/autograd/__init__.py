"""gradloom.autograd: backward, grad, grad modes, custom functions and graph tools, as in torch.autograd."""

from __future__ import annotations

from .. import _operators
from ..dispatch import state
from .anomaly_mode import detect_anomaly, set_detect_anomaly
from .edge import gradient_edge
from .engine import execute, queue_callback
from .grad_mode import enable_grad, inference_mode, no_grad, set_grad_enabled
from .node import NO_EDGE, AccumulateGrad, Node, bump_version

__all__ = ["Function", "Node", "Variable", "backward", "detect_anomaly", "enable_grad", "forward_ad", "functional",
           "grad", "grad_mode", "gradcheck", "gradgradcheck", "graph", "increment_version", "inference_mode", "no_grad",
           "set_detect_anomaly", "set_grad_enabled"]

_LAZY = {"Function": "function", "NestedIOFunction": "function", "Variable": "variable"}
_MODULES = {"forward_ad", "functional", "graph", "function", "profiler", "anomaly_mode", "grad_mode"}


def __getattr__(name):
    from importlib import import_module
    if name in _LAZY:
        found = getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)
        globals()[name] = found
        return found
    if name in _MODULES:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module 'gradloom.autograd' has no attribute '{name}'")


def backward(tensors, grad_tensors=None, retain_graph=None, create_graph=False, grad_variables=None, inputs=None):
    """Accumulate into `.grad` of the leaves the derivative of the sum of `tensors`, each times its `grad_tensors`.

    Args:
        tensors: a Tensor, or a sequence of Tensors or GradientEdges.
        grad_tensors: the vectors of the vector-Jacobian product; None for tensors of one element.
        retain_graph: keep what was saved, so that another pass can follow; default: create_graph.
        create_graph: record this pass, for derivatives of higher order.
        inputs: accumulate into these tensors only.

    Raises:
        RuntimeError: if a tensor does not require grad, a gradient is missing or has another shape, or the graph was
            freed by an earlier pass.
    """
    if grad_variables is not None:
        if grad_tensors is not None:
            raise RuntimeError("'grad_tensors' and 'grad_variables' (deprecated) arguments both passed to backward(). "
                               "Please only use 'grad_tensors'.")
        grad_tensors = grad_variables
    roots, grads = _roots(tensors, grad_tensors)
    if retain_graph is None:
        retain_graph = create_graph
    if inputs is None:
        execute(roots, grads, keep_graph=retain_graph, create_graph=create_graph)
        return
    inputs = _sequence(inputs)
    if not inputs:
        raise RuntimeError("'inputs' argument to backward() cannot be empty.")
    edges = [_input_edge(t) for t in inputs]
    if any(node is None for node, _ in edges):
        raise RuntimeError("One of the differentiated Tensors does not require grad")
    leaves = [node for (node, _) in edges if isinstance(node, AccumulateGrad)]
    found = execute(roots, grads, keep_graph=retain_graph, create_graph=create_graph, capture_edges=edges,
                    accumulate_into=leaves)
    for tensor, (node, _), gradient in zip(inputs, edges, found, strict=True):
        if gradient is not None and not isinstance(node, AccumulateGrad):
            held = tensor._grad
            tensor._grad = gradient if held is None else _operators.add(held, gradient)


def grad(outputs, inputs, grad_outputs=None, retain_graph=None, create_graph=False, only_inputs=True,
         allow_unused=None, is_grads_batched=False, materialize_grads=False):
    """The derivative of the sum of `outputs` (each times its `grad_outputs`) with respect to each of `inputs`.

    Args:
        outputs: a Tensor or a sequence of them (or GradientEdges).
        inputs: the Tensors to differentiate with respect to.
        grad_outputs: the vectors of the vector-Jacobian product, one per output; None for outputs of one element.
        retain_graph: keep what was saved; default: create_graph.
        create_graph: record this pass, for derivatives of higher order.
        allow_unused: return None for inputs that the outputs do not depend on, instead of raising.
        is_grads_batched: the first dimension of grad_outputs runs over vectors.
        materialize_grads: zeros instead of None for unused inputs.

    Returns:
        A tuple with one Tensor (or None) per input.

    Raises:
        RuntimeError: as for backward, and for an unused input without allow_unused.
    """
    inputs = _sequence(inputs)
    if not only_inputs:
        import warnings
        warnings.warn("only_inputs argument is deprecated and is ignored now (defaults to True). To accumulate "
                      "gradient for other parts of the graph, please use torch.autograd.backward.", FutureWarning,
                      stacklevel=2)
    if materialize_grads and allow_unused is False:
        raise ValueError("Expected allow_unused to be True or not passed when materialize_grads=True, but got: "
                         "allow_unused=False.")
    if allow_unused is None:
        allow_unused = materialize_grads
    if retain_graph is None:
        retain_graph = create_graph
    if is_grads_batched:
        return _grad_batched(outputs, inputs, grad_outputs, retain_graph, create_graph, allow_unused,
                             materialize_grads)
    roots, grads = _roots(outputs, grad_outputs)
    edges = []
    for tensor in inputs:
        edge = _input_edge(tensor)
        if edge is NO_EDGE or edge[0] is None:
            raise RuntimeError("One of the differentiated Tensors does not require grad")
        edges.append(edge)
    found = execute(roots, grads, keep_graph=retain_graph, create_graph=create_graph, capture_edges=edges)
    return _used(found, inputs, allow_unused, materialize_grads)


def _used(found, inputs, allow_unused, materialize_grads):
    if not allow_unused and any(g is None for g in found):
        raise RuntimeError("One of the differentiated Tensors appears to not have been used in the graph. Set "
                           "allow_unused=True if this is the desired behavior.")
    if materialize_grads:
        if any(g is None and not isinstance(t, _operators.Tensor) for g, t in zip(found, inputs, strict=True)):
            raise RuntimeError("materialize_grads cannot be used when the given input is a GradientEdge")
        found = [_operators.zeros_like(t).requires_grad_(False) if g is None else g
                 for g, t in zip(found, inputs, strict=True)]
    return tuple(found)


def _grad_batched(outputs, inputs, grad_outputs, retain_graph, create_graph, allow_unused, materialize_grads):
    """One pass per vector; results stacked."""
    vectors = _sequence(grad_outputs)
    count = next((v.shape[0] for v in vectors if v is not None), 0)
    rows = []
    for i in range(count):
        row = [None if v is None else v[i] for v in vectors]
        rows.append(grad(outputs, inputs, row, retain_graph or i + 1 < count, create_graph,
                         allow_unused=True if allow_unused else None, materialize_grads=materialize_grads))
    return tuple([None if any(r[k] is None for r in rows) else _operators.stack([r[k] for r in rows], 0)
                  for k in range(len(inputs))])


def _sequence(value) -> tuple:
    return tuple(value) if isinstance(value, (list, tuple)) and not hasattr(value, "node") else (value,)


def _input_edge(value):
    node = getattr(value, "node", None)
    if node is not None and not isinstance(value, _operators.Tensor):
        return (node, value.output_nr)
    return value._edge or gradient_edge(value)


def _roots(tensors, grad_tensors):
    """Edges to start from and a checked gradient for each."""
    tensors = _sequence(tensors)
    if grad_tensors is None:
        grads = (None,) * len(tensors)
    else:
        grads = _sequence(grad_tensors)
    if len(grads) != len(tensors):
        raise RuntimeError(f"got {len(tensors)} tensors and {len(grads)} gradients")
    roots, vectors = [], []
    for i, (tensor, vector) in enumerate(zip(tensors, grads, strict=True)):
        edge = _input_edge(tensor)
        if edge[0] is None:
            raise RuntimeError(f"element {i} of tensors does not require grad and does not have a grad_fn")
        roots.append(edge)
        vectors.append(_root_gradient(tensor, vector, edge))
    return roots, vectors


def _root_gradient(tensor, vector, edge):
    if not isinstance(tensor, _operators.Tensor):
        shape, numpy_type = edge[0].input_metadata[2 * edge[1]:2 * edge[1] + 2]
        if vector is None:
            raise RuntimeError("grad can be implicitly created only for scalar outputs")
        return vector
    array = tensor._array
    if vector is None:
        if array.size != 1:
            raise RuntimeError("grad can be implicitly created only for scalar outputs")
        if array.dtype.kind == "c":
            raise RuntimeError(f"grad can be implicitly created only for real scalar outputs but got {tensor.dtype!r}")
        return _operators.wrap(_ones(array))
    if not isinstance(vector, _operators.Tensor):
        raise TypeError(f"gradients can be either Tensors or None, but got {type(vector).__name__}")
    if vector._array.shape != array.shape:
        raise RuntimeError(f"Mismatch in shape: grad_output[0] has a shape of {vector.shape} and output[0] has a shape "
                           f"of {tensor.shape}.")
    if (vector._array.dtype.kind == "c") != (array.dtype.kind == "c"):
        raise RuntimeError("For complex Tensors, both grad_output and output are required to have the same dtype. "
                           f"Mismatch in dtype: grad_output[0] has a dtype of {vector.dtype} and output[0] has a dtype "
                           f"of {tensor.dtype}.")
    if vector._array.dtype is not array.dtype:
        vector = vector.to(tensor.dtype)
    return vector


def _ones(array):
    import numpy as np
    return np.ones(array.shape, array.dtype)


def increment_version(tensor) -> None:
    """Tell autograd that a tensor's memory was written to from outside.

    Args:
        tensor: a Tensor or an iterable of Tensors.
    """
    for t in (tensor,) if isinstance(tensor, _operators.Tensor) else tensor:
        bump_version(t)


def _is_running() -> bool:
    return state.graph_task is not None


# Last, because it uses `grad`; now, because the function must win over the module of the same name, as in PyTorch.
from .gradcheck import gradcheck, gradgradcheck  # noqa: E402
