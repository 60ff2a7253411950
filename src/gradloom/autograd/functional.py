"""Derivatives of Python functions: Jacobians, Hessians, and their products with vectors.

Every function here calls `func` once on new tensors, so that the caller's tensors keep their graph and their `.grad`.
With create_graph the new tensors are connected to the caller's, and the results can be differentiated further.

Note [Forward products by two reverse passes]
The map u -> u^T J is linear in u, so a reverse pass through it, with v as the cotangent, gives J v. `jvp` and `hvp`
compute it so. This needs no forward formulas, only differentiable reverse formulas.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core import late
from ..core.tensor import Tensor
from ..dispatch import _operators as ops
from ..types import TensorOrTensors
from ._function_arguments import (
    _as_tuple,
    _grad_postprocess as _grad_postprocess,
    _tuple_postprocess as _tuple_postprocess,
)
from .grad_mode import enable_grad, is_grad_enabled, set_grad_enabled
from .passes import grad as _grad

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]

_STRATEGIES = ("forward-mode", "reverse-mode")


def vjp(
    func: Callable[..., Any],
    inputs: TensorOrTensors,
    v: TensorOrTensors | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """Return the product of a vector with the Jacobian of a function, `v^T J`.

    Args:
        func: takes Tensors, returns a Tensor or a tuple of Tensors.
        inputs: a Tensor or a tuple of Tensors: the point.
        v: shaped like the output(s); may be left out if that is one Tensor of one element.
        create_graph: make the results differentiable.
        strict: raise where an output does not depend on an input, instead of giving zeros.

    Returns:
        (outputs, product): the product is shaped like `inputs`.

    Raises:
        TypeError: if inputs or outputs are anything else than Tensors.
        RuntimeError: if `v` does not fit the outputs, or in strict mode.
    """
    call = _Call("vjp", func, inputs, create_graph, strict)
    outputs = call.evaluate()
    call.require_grad(outputs, "outputs")
    v = _vector(
        v,
        outputs,
        call.single_output,
        "The vector v can only be None if the user-provided function returns a single Tensor with a single element.",
        call.name,
    )
    with set_grad_enabled(create_graph or is_grad_enabled()):
        found = call.filled(call.grad(outputs, call.inputs, v, create_graph), call.inputs, "back")
    return call.returned(outputs, call.single_output), call.returned(found, call.single_input)


def jvp(
    func: Callable[..., Any],
    inputs: TensorOrTensors,
    v: TensorOrTensors | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """Return the product of the Jacobian of a function with a vector, `J v`.

    See Note [Forward products by two reverse passes].

    Args:
        func, create_graph, strict: see vjp.
        inputs: a Tensor or a tuple of Tensors: the point.
        v: shaped like the input(s); may be left out if that is one Tensor of one element.

    Returns:
        (outputs, product): both shaped like the output(s).

    Raises:
        TypeError, RuntimeError: see vjp.
    """
    call = _Call("jvp", func, inputs, create_graph, strict)
    v = _vector(
        v,
        call.inputs,
        call.single_input,
        "The vector v can only be None if the input to the user-provided function is a single Tensor with a "
        "single element.",
        call.name,
    )
    outputs = call.evaluate()
    call.require_grad(outputs, "outputs")
    u = _zeros_with_grad(outputs)
    products = call.grad(outputs, call.inputs, u, True)
    call.require_grad(products, "grad_inputs")
    with set_grad_enabled(create_graph or is_grad_enabled()):
        found = call.filled(call.grad(products, u, v, create_graph), outputs, "back_trick")
    return call.returned(outputs, call.single_output), call.returned(found, call.single_output)


def vhp(
    func: Callable[..., Any],
    inputs: TensorOrTensors,
    v: TensorOrTensors | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """Return the product of a vector with the Hessian of a function of one value, `v^T H`.

    Args:
        func: returns a Tensor of one element.
        inputs, create_graph, strict: see vjp.
        v: shaped like the input(s); may be left out if that is one Tensor of one element.

    Returns:
        (output, product): the product is shaped like `inputs`.

    Raises:
        TypeError, RuntimeError: see vjp; also if func returns more than one value.
    """
    call, v, outputs, first = _first_derivative("vhp", func, inputs, v, create_graph, strict)
    with set_grad_enabled(create_graph or is_grad_enabled()):
        found = call.filled(call.grad(first, call.inputs, v, create_graph), call.inputs, "double_back")
    return call.returned(outputs, True), call.returned(found, call.single_input)


def hvp(
    func: Callable[..., Any],
    inputs: TensorOrTensors,
    v: TensorOrTensors | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """Return the product of the Hessian of a function of one value with a vector, `H v`.

    It equals `vhp` where the second derivatives are continuous and takes one more pass.

    Args:
        func, inputs, v, create_graph, strict: see vhp, which also gives the results and errors.
    """
    call, v, outputs, first = _first_derivative("hvp", func, inputs, v, create_graph, strict)
    u = _zeros_with_grad(call.inputs)
    second = call.grad(first, call.inputs, u, True)
    call.require_grad(second, "hessian")
    with set_grad_enabled(create_graph or is_grad_enabled()):
        found = call.filled(call.grad(second, u, v, create_graph), call.inputs, "double_back_trick")
    return call.returned(outputs, True), call.returned(found, call.single_input)


def jacobian(
    func: Callable[..., Any],
    inputs: TensorOrTensors,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """Return the Jacobian of a function.

    Args:
        func: takes Tensors, returns a Tensor or a tuple of Tensors.
        inputs: a Tensor or a tuple of Tensors: the point.
        create_graph: make the result differentiable.
        strict: raise where an output does not depend on an input, instead of giving zeros.
        vectorize: make one pass for all elements, by vmap, instead of one after the other; takes more memory.
        strategy: "reverse-mode" (a pass per output element) or "forward-mode" (a pass per input element).

    Returns:
        A Tensor of shape `output.shape + input.shape`; a tuple over the inputs if those are a tuple, and a tuple of
        such over the outputs if those are one.

    Raises:
        ValueError: for another strategy.
        NotImplementedError: for forward mode with create_graph, or without vectorize.
        TypeError, RuntimeError: see vjp.
    """
    _check_strategy(
        strategy,
        ' Hint: If your function has more outputs than inputs, "forward-mode" tends to be more performant. Otherwise, '
        'prefer to use "reverse-mode".',
    )
    if strategy == "forward-mode":
        if create_graph:
            raise NotImplementedError(
                "torch.autograd.functional.jacobian: `create_graph=True` and "
                '`strategy="forward-mode"` are not supported together (yet). Please either set '
                '`create_graph=False` or `strategy="reverse-mode"`.'
            )
        return _by_columns(func, inputs, strict, vectorize)
    call = _Call("jacobian", func, inputs, create_graph, strict)
    outputs = call.evaluate()
    call.require_grad(outputs, "outputs")
    if strict and vectorize:
        raise RuntimeError(
            "torch.autograd.functional.jacobian: `strict=True` and `vectorized=True` are not supported "
            "together. Please either set `strict=False` or `vectorize=False`."
        )
    with enable_grad() if create_graph else set_grad_enabled(is_grad_enabled()):
        if vectorize:
            found = call.rows_at_once(outputs)
        else:
            found = tuple([call.rows(i, out) for i, out in enumerate(outputs)])
    return _arranged(found, call.single_output, call.single_input)


def hessian(
    func: Callable[..., Any],
    inputs: TensorOrTensors,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """Return the Hessian of a function of one value: the Jacobian of its gradient.

    Args:
        func: returns a Tensor of one element.
        inputs, create_graph, strict, vectorize: see jacobian.
        outer_jacobian_strategy: how the gradient is differentiated: "reverse-mode", or "forward-mode".

    Returns:
        A Tensor of shape `input.shape + input.shape`; for a tuple of inputs a tuple of tuples, `[i][j]` of shape
        `inputs[i].shape + inputs[j].shape`.

    Raises:
        TypeError, RuntimeError, NotImplementedError: see jacobian; also if func returns more than one value.
    """
    _check_strategy(outer_jacobian_strategy)
    single = _Call("hessian", func, inputs, create_graph, strict).single_input

    def value(*point):
        out = func(*point)
        inner = _Call("hessian", func, point, True, strict)
        found, one = inner.tensors(out, "outputs of the user-provided function")
        inner.require_grad(found, "outputs")
        _check_one_value("hessian", found, one)
        return found[0].squeeze()

    def gradient(*point):
        if outer_jacobian_strategy == "forward-mode":
            point = tuple([t.requires_grad_(True) for t in point])
        first = jacobian(value, point, create_graph=True)
        _Call("hessian", func, point, True, strict).require_grad(first, "jacobian")
        return first

    found = jacobian(
        gradient,
        inputs,
        create_graph=create_graph,
        strict=strict,
        vectorize=vectorize,
        strategy=outer_jacobian_strategy,
    )
    return found[0][0] if single and isinstance(found[0], tuple) else found[0] if single else found


class _Call:
    """One evaluation of a function at a point.

    Attributes:
        inputs: the point, as tensors made for this call.
        single_input, single_output: whether a Tensor was given or returned, rather than a tuple.
    """

    def __init__(self, name, func, inputs, create_graph, strict) -> None:
        self.name, self.func = name, func
        self.create_graph, self.strict = create_graph, strict
        given, self.single_input = self.tensors(inputs, "inputs")
        with enable_grad():
            self.inputs = tuple(
                [t.view_as(t) if create_graph and t.requires_grad else t.detach().requires_grad_() for t in given]
            )
        self.single_output = True

    def tensors(self, value, what):
        """Return a Tensor or tuple of Tensors as a tuple, and whether it was one Tensor."""
        several, tensors = _as_tuple(value, what, self.name)
        return tensors, not several

    def evaluate(self):
        with enable_grad():
            outputs, self.single_output = self.tensors(self.func(*self.inputs), "outputs of the user-provided function")
        return outputs

    def grad(self, outputs, inputs, vectors, create_graph):
        """Return the gradients of those outputs that require grad; None for inputs that they do not depend on."""
        pairs = [(o, v) for o, v in zip(outputs, vectors, strict=True) if o is not None and o.requires_grad]
        if not pairs:
            return (None,) * len(inputs)
        return _grad(
            [o for o, _ in pairs],
            inputs,
            [v for _, v in pairs],
            create_graph=create_graph,
            retain_graph=True,
            allow_unused=True,
        )

    def require_grad(self, tensors, what) -> None:
        """Raise in strict mode if one of the tensors does not depend on the inputs."""
        if not self.strict:
            return
        for i, tensor in enumerate(tensors):
            if tensor is None:
                raise RuntimeError(
                    f"The output of the user-provided function is independent of input {i}. This is not "
                    "allowed in strict mode."
                )
            if not tensor.requires_grad:
                raise RuntimeError(_STRICT[what].format(i=i))

    def filled(self, found, like, stage):
        """Replace None, for a derivative that does not depend on the inputs, by zeros; raise in strict mode."""
        out = []
        for i, (tensor, shape_of) in enumerate(zip(found, like, strict=True)):
            if tensor is None:
                if self.strict:
                    raise RuntimeError(_INDEPENDENT[stage].format(i=i) + " This is not allowed in strict mode.")
                tensor = ops.zeros_like(shape_of)
            elif self.strict and self.create_graph and not tensor.requires_grad:
                what = "hessian" if "double" in stage else "jacobian"
                raise RuntimeError(
                    f"The {what} of the user-provided function is independent of input {i}. This is not "
                    "allowed in strict mode when create_graph=True."
                )
            out.append(tensor)
        return tuple(out)

    def rows(self, number, output):
        """Return the Jacobian of one output with respect to every input."""
        rows: list[list] = [[] for _ in self.inputs]
        for j in range(output.numel()):
            unit = ops.zeros_like(output).detach()
            unit.view(-1)[j] = 1
            found = self.grad((output,), self.inputs, (unit,), self.create_graph)
            for k, (gradient, tensor) in enumerate(zip(found, self.inputs, strict=True)):
                rows[k].append(self._row(gradient, tensor, number, k))
        return tuple(
            [
                ops.stack(part, 0).view(output.shape + tensor.shape)
                for part, tensor in zip(rows, self.inputs, strict=True)
            ]
        )

    def rows_at_once(self, outputs):
        """Return the Jacobian of every output with respect to every input, in one pass for all unit vectors."""
        counts = tuple([out.numel() for out in outputs])
        units = [
            unit.view((sum(counts), *out.shape))
            for unit, out in zip(_construct_standard_basis_for(outputs, counts), outputs, strict=True)
        ]
        pairs = [(out, unit) for out, unit in zip(outputs, units, strict=True) if out.requires_grad]
        found = (None,) * len(self.inputs)
        if pairs:
            found = _grad(
                [out for out, _ in pairs],
                self.inputs,
                [unit for _, unit in pairs],
                create_graph=self.create_graph,
                retain_graph=True,
                allow_unused=True,
                is_grads_batched=True,
            )
        columns = []
        for part, tensor in zip(found, self.inputs, strict=True):
            if part is None:
                part = ops.zeros_like(tensor).expand((sum(counts), *tensor.shape))
            columns.append((part if self.create_graph else part.detach()).split(counts))
        return tuple(
            [
                tuple(
                    [
                        column[i].reshape(out.shape + tensor.shape)
                        for column, tensor in zip(columns, self.inputs, strict=True)
                    ]
                )
                for i, out in enumerate(outputs)
            ]
        )

    def _row(self, gradient, tensor, number, k):
        if gradient is None:
            if self.strict:
                raise RuntimeError(
                    f"Output {number} of the user-provided function is independent of input {k}. This "
                    "is not allowed in strict mode."
                )
            return ops.zeros_like(tensor).detach()
        if self.strict and self.create_graph and not gradient.requires_grad:
            raise RuntimeError(
                f"The jacobian of the user-provided function is independent of input {k}. This is not "
                "allowed in strict mode when create_graph=True."
            )
        return gradient if self.create_graph else gradient.detach()

    def returned(self, tensors, single):
        """Convert a result for the caller: without its graph unless create_graph, and as a Tensor if it is single."""
        found = tensors if self.create_graph else tuple([t.detach() for t in tensors])
        return found[0] if single else found


_STRICT = {
    "outputs": "Output {i} of the user-provided function does not require gradients. The outputs must be computed in a "
    "differentiable manner from the input when running in strict mode.",
    "grad_inputs": "The gradient with respect to input {i} is independent of the inputs of the user-provided function. "
    "This is not allowed in strict mode.",
    "jacobian": "While computing the hessian, found that the jacobian of the user-provided function with respect to "
    "input {i} is independent of the input. This is not allowed in strict mode. You should ensure that "
    "your function is twice differentiable and that the jacobian depends on the inputs (this would be "
    "violated by a linear function for example).",
    "hessian": "The hessian of the user-provided function with respect to input {i} is independent of the input. This "
    "is not allowed in strict mode. You should ensure that your function is thrice differentiable and that "
    "the hessian depends on the inputs.",
}
_INDEPENDENT = {
    "back": "The output of the user-provided function is independent of input {i}.",
    "back_trick": "The gradient with respect to the input is independent of entry {i} in the grad_outputs when using "
    "the double backward trick to compute forward mode gradients.",
    "double_back": "The jacobian of the user-provided function is independent of input {i}.",
    "double_back_trick": "The hessian of the user-provided function is independent of entry {i} in the grad_jacobian.",
}


def _first_derivative(name, func, inputs, v, create_graph, strict):
    """Return the first steps of vhp and hvp: the call, the vector, the value and its differentiable gradient."""
    call = _Call(name, func, inputs, create_graph, strict)
    v = _vector(
        v,
        call.inputs,
        call.single_input,
        "The vector v can only be None if the input to the user-provided function is a single Tensor with a "
        "single element.",
        call.name,
    )
    outputs = call.evaluate()
    call.require_grad(outputs, "outputs")
    _check_one_value(name, outputs, call.single_output)
    first = call.grad(outputs, call.inputs, (None,), True)
    call.require_grad(first, "jacobian")
    return call, v, outputs, first


def _check_one_value(name, outputs, single):
    if not single:
        raise RuntimeError(f"The function given to {name} should return a single Tensor")
    if outputs[0].numel() != 1:
        raise RuntimeError(f"The Tensor returned by the function given to {name} should contain a single element")


def _check_strategy(strategy, hint=""):
    if strategy not in _STRATEGIES:
        raise AssertionError(f'Expected strategy to be either "forward-mode" or "reverse-mode".{hint}')


def _construct_standard_basis_for(tensors: tuple[Tensor, ...], tensor_numels: tuple[int, ...]) -> tuple[Tensor, ...]:
    """Return the unit vectors of the joint space of several tensors, split by tensor.

    Args:
        tensors: tensors with the dtypes of the parts.
        tensor_numels: the number of elements of each.

    Returns:
        A matrix for each tensor, with a row per element of all tensors and a column per element of this one.

    Raises AssertionError if there are no tensors.
    """
    if not tensors or len(tensors) != len(tensor_numels):
        raise AssertionError("Expected at least one tensor, and a number of elements for each")
    total = sum(tensor_numels)
    parts, first = [], 0
    for tensor, count in zip(tensors, tensor_numels, strict=True):
        whole = ops.eye(total, dtype=tensor.dtype)
        parts.append(whole[:, first : first + count].contiguous())
        first += count
    return tuple(parts)


def _zeros_with_grad(tensors):
    return tuple([ops.zeros_like(t).detach().requires_grad_() for t in tensors])


def _vector(v, like, single, message, name):
    """Return the vector of a product as a tuple, checked against the tensors that it multiplies."""
    if v is None:
        if len(like) != 1 or like[0].numel() != 1:
            raise RuntimeError(message)
        return (None,)
    given = v if isinstance(v, tuple) else (v,)
    for i, one in enumerate(given):
        if not isinstance(one, ops.Tensor):
            what = f"value at index {i}" if isinstance(v, tuple) else "given v"
            raise TypeError(
                f"The v given to {name} must be either a Tensor or a tuple of Tensors but the {what} has "
                f"type {type(one)}."
            )
    if len(given) != len(like):
        if not single:
            raise RuntimeError(f"v is a tuple of invalid length: should be {len(like)} but got {len(given)}.")
        raise RuntimeError("The given v should contain a single Tensor.")
    for i, (one, other) in enumerate(zip(given, like, strict=True)):
        if one.shape != other.shape:
            where = "" if single else f"Entry {i} in "
            raise RuntimeError(f"{where}v has invalid size: should be {other.size()} but got {one.size()}.")
    return given


def _units(like):
    """Return the unit vectors of the space of a tensor's elements, stacked along a new first dimension."""
    count = like.numel()
    return ops.eye(count, dtype=like.dtype).view((count, *like.shape))


def _by_columns(func, inputs, strict, vectorize):
    """Return the Jacobian by forward mode, with one pass per input for all of its elements."""
    from .forward_ad import dual_level, make_dual, unpack_dual

    if strict:
        raise RuntimeError(
            'torch.autograd.functional.jacobian: `strict=True` and `strategy="forward-mode"` are not '
            'supported together (yet). Please either set `strict=False` or `strategy="reverse-mode"`.'
        )
    if not vectorize:
        raise NotImplementedError(
            "Computing Jacobian using forward-AD or forward-over-reverse Hessian is only "
            "implemented for `vectorize=True`."
        )
    call = _Call("jacobian", func, inputs, False, False)
    points = [t.detach() for t in call.inputs]
    columns: list[tuple] = []
    outputs: tuple = ()
    for k, point in enumerate(points):

        def pushed(unit, k=k):
            nonlocal outputs
            with dual_level():
                given = [make_dual(p, unit if i == k else ops.zeros_like(p)) for i, p in enumerate(points)]
                outputs, call.single_output = call.tensors(func(*given), "outputs of the user-provided function")
                duals = [unpack_dual(o) for o in outputs]
                return tuple(
                    [ops.zeros_like(d.primal).detach() if d.tangent is None else d.tangent.detach() for d in duals]
                )

        if point.numel():
            columns.append(late.vmap(pushed, out_dims=-1)(_units(point)))
        else:
            pushed(ops.zeros_like(point))
            columns.append(())
    found = tuple(
        [
            tuple(
                [
                    columns[k][i].reshape(out.shape + point.shape)
                    if columns[k]
                    else ops.zeros(out.shape + point.shape, dtype=out.dtype)
                    for k, point in enumerate(points)
                ]
            )
            for i, out in enumerate(outputs)
        ]
    )
    return _arranged(found, call.single_output, call.single_input)


def _arranged(found, single_output, single_input):
    """Return `found[output][input]`, without a tuple where a single Tensor was given."""
    rows = tuple([row[0] if single_input else row for row in found])
    return rows[0] if single_output else rows
