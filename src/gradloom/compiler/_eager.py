"""Machine code for eager mode: `set_kernels("llvm")` puts kernels made from loop programs in the place of NumPy's.

The generated wrappers call kernels as attributes of their modules (`kernels_activation_softmax.softmax(...)`), so a
kernel is replaced by setting that attribute, and nothing on the way of an operator changes. A replacement takes the
common case, contiguous float32 and float64 arrays, and passes everything else, errors included, to the kernel that it
stands for. It asks for `type(x)`: stand-ins for arrays with a conjugate or negative bit have an array's `__class__`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np

from ..dispatch.function_code import set_global
from ..memory.locks import new_lock
from ..types.public import found_in as _found_in
from ._eager_pointwise import LARGE, replacement
from ._eager_programs import pointwise
from ._loops import LoopProgram
from ._scalar import own_records

NAMES = ("numpy", "llvm")
KEPT = 1024  # compiled shapes; more start anew
_DTYPES = {"f": "float32", "d": "float64"}

_current = "numpy"
_switching = new_lock()
_kernels: dict[Any, Any] = {}  # (kernel, shape, ...) -> compiled program; at most KEPT
_originals: dict[tuple[str, str], Any] = {}  # what is replaced now, by module and name
_made: dict[tuple[str, str], tuple[Any, Any]] = {}  # the kernel and its replacement, by module and name
ndarray, empty = np.ndarray, np.empty


class set_kernels:
    """Choose what computes the operators of eager mode; as a context manager, until the block ends.

    Args:
        name: "numpy", the default, or "llvm": machine code for operators that take NumPy several calls. These are
            pointwise operators (sigmoid, gelu, elu, softplus, erf, lerp ...), softmax, log_softmax, layer_norm, group
            norm, batch norm in training, the mean and the sum of nll_loss and binary_cross_entropy_with_logits, gather,
            dropout, convolutions of one group, max_pool2d without padding, products of matrices, the steps of LSTM and
            GRU layers, sums, products, means, extrema and variances of rows, running sums, products and extrema, sort,
            topk, kthvalue, median, scatter_add, index_add, index_select, embedding, random numbers, and steps of
            optimizers, for contiguous float32 and float64 tensors, and where they only move or sort also for others;
            for large tensors also operators of one call of NumPy (+, *, exp, abs ...). Factors of products may be
            transposed. The first call with a shape compiles, or takes code from the cache on disk. Results differ from
            NumPy's by rounding; indices, random numbers and optimizers' steps do not. It holds for all threads.

    Raises:
        ValueError: for another name.
        ImportError: if llvmlite is not installed: pip install 'gradloom[compile]'.
    """

    def __init__(self, name: str) -> None:
        with _switching:  # one thread at a time: another would take replacements for originals
            self.previous = _current
            _switch(name)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        with _switching:
            _switch(self.previous)


def get_kernels() -> str:
    """Return the name that was passed to `set_kernels`: "numpy" or "llvm"."""
    return _current


def _switch(name: str) -> None:
    global _current
    if name not in NAMES:
        raise ValueError(f"set_kernels() takes {' or '.join(map(repr, NAMES))}, not {name!r}")
    if name == _current:
        return
    if name == "llvm":
        from ._llvm import divide_products
        from ._llvm.host import require

        require()
        divide_products()
        for module, replacements in replaced().items():
            place = place_of(module)
            for kernel, make in replacements.items():
                original = _originals[module, kernel] = getattr(place, kernel)
                made = _made.get((module, kernel))
                if made is None or made[0] is not original:
                    made = _made[module, kernel] = original, make(original)
                _set(place, kernel, made[1])
        for module in _OF_NUMPY:
            place = place_of(module)
            _originals[module, "xp"] = place.xp
            _set(place, "xp", _gated_numpy())
    else:
        for (module, kernel), original in _originals.items():
            _set(place_of(module), kernel, original)
        _originals.clear()  # but not _kernels: a program may come back soon
    _current = name


@cache
def _gated_numpy() -> ModuleType:
    from ._eager_large import numpy_gated

    return numpy_gated(_kernels, _compiled)


def _set(place: Any, name: str, value: Any) -> None:
    if isinstance(place, ModuleType):
        set_global(place, name, value)
    else:
        setattr(place, name, value)


def place_of(name: str) -> Any:
    """Return the module of gradloom with this name, or the class in it, such as kernels.random.streams.Stream."""
    module, _, last = name.rpartition(".")
    if last[:1].isupper():
        return getattr(import_module(f"gradloom.{module}"), last)
    return import_module(f"gradloom.{name}")


def _compiled(key: Any, program: str | LoopProgram | None) -> Any:
    """Compile a program and keep it under a key; None: keep False."""
    from ._llvm import compile

    if len(_kernels) >= KEPT:
        _kernels.clear()
    if program is None:
        _kernels[key] = False
        return False
    if isinstance(program, str):
        program = LoopProgram.parse(program)
    kernel = _kernels[key] = compile(program)
    return kernel


def _defined() -> dict[str, dict[str, Callable[[Any], Any]]]:
    """Return what makes the replacements of kernels that definitions describe, by module and name."""
    found: dict[str, dict[str, Callable[[Any], Any]]] = {}
    for record in own_records().all():
        kernel = record.kernel
        if kernel is not None:
            make = replacement(record.name, kernel.arrays, _kernels, _compiled)
            found.setdefault(kernel.module, {})[kernel.name] = _if_large(make) if kernel.is_large else make
    return found


def _if_large(make: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return what makes a replacement that only large arrays reach: Note [Gates]."""

    def gated(original: Any) -> Any:
        from ._llvm.gate import gate

        return gate(original, make(original), LARGE)

    return gated


def _of_kernels(name: str, module: str = "_eager_kernels") -> Callable[[Any], Any]:
    """Return what makes a replacement by a function of a module, which is imported then."""

    def make(original: Any) -> Any:
        found = getattr(import_module(f"gradloom.compiler.{module}"), name)
        return found(_kernels, _compiled)(original)

    return make


def _of_routines(name: str, *kinds: str) -> Callable[[Any], Any]:
    """Return what makes a replacement by a function of `_eager_routines`, which is imported then."""

    def make(original: Any) -> Any:
        from . import _eager_routines

        found = getattr(_eager_routines, name)
        return (found(*kinds) if kinds else found)(original)

    return make


def _of_products(name: str) -> Callable[[Any], Any]:
    """Return what makes a replacement by a function of `_eager_products`, which is imported then."""

    def make(original: Any) -> Any:
        from . import _eager_products

        return getattr(_eager_products, name)(original)

    return make


def _derived(key: Any, operator: str, arguments: tuple[Any, ...], *results: Any) -> Any:
    """Compile the loop of an operator's definition and keep it under a key; see `_eager_rows`."""
    from ._eager_rows import derived

    return derived(_compiled, key, operator, arguments, *results)


def _softmax(operator: str) -> Callable[[Any], Any]:
    def make(original: Any) -> Any:
        def softmax(self: Any, dim: int, half_to_float: bool = False) -> Any:
            if (
                type(self) is ndarray and self.dtype.char in "fd" and not half_to_float
                and self.flags.c_contiguous and self.size and -self.ndim <= dim < self.ndim
            ):  # fmt: skip
                shape, dtype = self.shape, self.dtype
                key = operator, shape, dtype.char, dim
                found = _kernels.get(key)
                if found is None:
                    from ._eager_rows import derived_keeping

                    given = self, dim, half_to_float
                    found = derived_keeping(_compiled, key, operator, given, (shape, dtype))
                    _kernels[key] = found
                kernel, times = found
                out = empty(shape, dtype)
                if kernel and not kernel.call(self, *(out,) * times):
                    return out
            return original(self, dim, half_to_float)

        return softmax

    return make


def _softmax_backward(operator: str) -> Callable[[Any], Any]:
    def make(original: Any) -> Any:
        def softmax_backward(grad_output: Any, output: Any, dim: int, input_dtype: Any) -> Any:
            if (
                type(output) is ndarray and type(grad_output) is ndarray and output.dtype.char in "fd"
                and output.dtype == grad_output.dtype == input_dtype and output.shape == grad_output.shape
                and output.flags.c_contiguous and output.size and -output.ndim <= dim < output.ndim
            ):  # fmt: skip
                if not grad_output.flags.c_contiguous:  # such as the gradient of a sum, one number expanded
                    grad_output = np.ascontiguousarray(grad_output)
                shape, dtype = output.shape, output.dtype
                key = operator, shape, dtype.char, dim
                kernel = _kernels.get(key)
                if kernel is None:
                    kernel = _derived(key, operator, (grad_output, output, dim, input_dtype), (shape, dtype))
                out = empty(shape, dtype)
                if kernel and not kernel.call(grad_output, output, out):
                    return out
            return original(grad_output, output, dim, input_dtype)

        return softmax_backward

    return make


def _layer_norm(original: Any) -> Any:
    def native_layer_norm(input: Any, normalized_shape: Any, weight: Any, bias: Any, eps: float) -> Any:
        shape, dtype = input.shape, input.dtype
        sizes = tuple(normalized_shape)
        outer = input.ndim - len(sizes)
        parameters = [p for p in (weight, bias) if p is not None]
        if (
            type(input) is not ndarray or dtype.char not in "fd" or not input.size or not sizes or outer < 0
            or shape[outer:] != sizes or not input.flags.c_contiguous
            or any(type(p) is not ndarray or p.dtype != dtype or p.shape != sizes or not p.flags.c_contiguous
                   for p in parameters)
        ):  # fmt: skip
            return original(input, normalized_shape, weight, bias, eps)
        key = "native_layer_norm", shape, outer, dtype.char, weight is None, bias is None, eps
        kernel = _kernels.get(key)
        row_shape = (*shape[:outer], *(1,) * len(sizes))
        if kernel is None:
            of_row = row_shape, dtype
            kernel = _derived(key, key[0], (input, sizes, weight, bias, float(eps)), (shape, dtype), of_row, of_row)
        out, mean, rstd = empty(shape, dtype), empty(row_shape, dtype), empty(row_shape, dtype)
        if not kernel or kernel.call(input, *parameters, out, mean, rstd):
            return original(input, normalized_shape, weight, bias, eps)
        return out, mean, rstd

    return native_layer_norm


def _updates(original: Any) -> Any:
    def new_updates() -> Any:
        from ._updates import Updates

        return Updates()

    return new_updates


_LONGEST_ADDED = 2048  # elements of a row, up to which sums over the rows are computed with the rest


def _layer_norm_backward(original: Any) -> Any:
    def native_layer_norm_backward(
        grad_out: Any, input: Any, normalized_shape: Any, mean: Any, rstd: Any, weight: Any, bias: Any, output_mask: Any
    ) -> Any:
        shape, dtype, sizes = input.shape, input.dtype, tuple(normalized_shape)
        outer = input.ndim - len(sizes)
        if type(grad_out) is ndarray and not grad_out.flags.c_contiguous:
            grad_out = np.ascontiguousarray(grad_out)
        arrays = [a for a in (grad_out, input, mean, rstd, weight) if a is not None]
        if (
            any(type(a) is not ndarray or a.dtype != dtype or not a.flags.c_contiguous for a in arrays)
            or len(arrays) < 4 + (weight is not None) or dtype.char not in "fd" or not input.size
            or grad_out.shape != shape or not sizes or outer < 0 or shape[outer:] != sizes
            or not mean.size == rstd.size == math.prod(shape[:outer])
            or weight is not None and weight.shape != sizes
        ):  # fmt: skip
            return original(grad_out, input, normalized_shape, mean, rstd, weight, bias, output_mask)
        of_parameters = output_mask[1] or output_mask[2]
        together = output_mask[0] and of_parameters and input.size > LARGE and math.prod(sizes) <= _LONGEST_ADDED
        key = "native_layer_norm_backward", shape, outer, dtype.char, weight is None, together
        found = _kernels.get(key)
        if found is None:
            name, given = key[0], (grad_out, input, sizes, mean, rstd, weight, bias, output_mask)
            of_input, of_row = (shape, dtype), (sizes, dtype)
            kept = (of_row, of_row) if together else (None, None)
            for_input = _derived((key, 1), name, given, of_input, *kept)
            found = for_input, _derived((key, 2), name, given, None, of_row, of_row)
            _kernels[key] = found
        if not all(found):
            return original(grad_out, input, normalized_shape, mean, rstd, weight, bias, output_mask)
        grad_input = empty(shape, dtype) if output_mask[0] else None
        grad_weight, grad_bias = (empty(sizes, dtype), empty(sizes, dtype)) if of_parameters else (None, None)
        refused = None
        if together:
            refused = found[0].call(*arrays, grad_input, grad_weight, grad_bias)
        else:
            if grad_input is not None:
                refused = found[0].call(*arrays, grad_input)
            if of_parameters:
                refused = refused or found[1].call(*arrays[:4], grad_weight, grad_bias)
        if refused:
            return original(grad_out, input, normalized_shape, mean, rstd, weight, bias, output_mask)
        return grad_input, grad_weight if output_mask[1] else None, grad_bias if output_mask[2] else None

    return native_layer_norm_backward


def _nll_loss(original: Any) -> Any:
    def nll_loss_forward(self: Any, target: Any, weight: Any, reduction: int, ignore_index: int) -> Any:
        if (
            weight is None and reduction in (1, 2) and type(self) is ndarray and type(target) is ndarray
            and self.ndim == 2 and self.dtype.char in "fd" and self.size and self.flags.c_contiguous
            and target.dtype == np.int64 and target.shape == self.shape[:1] and target.flags.c_contiguous
        ):  # fmt: skip
            key = "nll_loss_forward", self.shape, self.dtype.char, reduction, ignore_index
            kernel = _kernels.get(key)
            if kernel is None:
                given = self, target, weight, reduction, int(ignore_index)
                kernel = _derived(key, key[0], given, ((), self.dtype), ((), self.dtype))
            loss, total_weight = empty((), self.dtype), empty((), self.dtype)
            if kernel and not kernel.call(self, target, loss, total_weight):
                return loss, total_weight
        return original(self, target, weight, reduction, ignore_index)

    return nll_loss_forward


def _is_last(x: Any, dim: Any) -> bool:
    """Return whether a reduction is over the last dimension of a contiguous matrix of numbers."""
    if dim.__class__ is not int:
        if dim is None or len(dim) != 1:
            return False
        dim = dim[0]
    return (
        type(x) is ndarray and x.ndim > 1 and dim in (-1, x.ndim - 1) and x.dtype.char in "fd"
        and x.flags.c_contiguous and x.size > 0
    )  # fmt: skip


def _reduced(operator: str, x: Any, shape: tuple[int, ...], *arguments: Any) -> Any:
    """Return the result of a reduction of an array to a shape; None if no loop computes it."""
    key = operator, x.shape, x.dtype.char, *arguments
    kernel = _kernels.get(key)
    if kernel is None:
        kernel = _derived(key, operator, (x, *arguments), (shape, x.dtype))
    out = empty(shape, x.dtype)
    return out if kernel and not kernel.call(x, out) else None


def _sum_dim(operator: str, dim_is_list: bool = True) -> Callable[[Any], Any]:
    last = (-1,) if dim_is_list else -1

    def make(original: Any) -> Any:
        def sum_dim(self: Any, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
            if dtype is None and _is_last(self, dim):
                rows = self.shape[:-1]
                found = _reduced(operator, self, (*rows, 1) if keepdim else rows, last, keepdim, None)
                if found is not None:
                    return found
            return original(self, dim, keepdim, dtype)

        return sum_dim

    return make


def _extreme(operator: str) -> Callable[[Any], Any]:
    def make(original: Any) -> Any:
        def extreme(self: Any, dim: Any = (), keepdim: bool = False) -> Any:
            if _is_last(self, dim):
                rows = self.shape[:-1]
                found = _reduced(operator, self, (*rows, 1) if keepdim else rows, (-1,), keepdim)
                if found is not None:
                    return found
            return original(self, dim, keepdim)

        return extreme

    return make


def _whole(operator: str) -> Callable[[Any], Any]:
    def make(original: Any) -> Any:
        def whole(self: Any, dtype: Any = None) -> Any:
            if (
                dtype is None and type(self) is ndarray and self.dtype.char in "fd"
                and self.size > 0 and self.flags.c_contiguous
            ):  # fmt: skip
                found = _reduced(operator, self.reshape(-1), (), None)
                if found is not None:
                    return found
            return original(self) if dtype is None else original(self, dtype)

        return whole

    return make


def _variance(operator: str) -> Callable[[Any], Any]:
    def make(original: Any) -> Any:
        def variance(self: Any, dim: Any = None, correction: Any = None, keepdim: bool = False) -> Any:
            if _is_last(self, dim) and correction.__class__ in (int, float, type(None)):
                shape = (*self.shape[:-1], 1)[: None if keepdim else -1]
                found = _reduced(operator, self, shape, (-1,), correction, keepdim)
                if found is not None:
                    return found
            return original(self, dim, correction, keepdim)

        return variance

    return make


def _dropout(original: Any) -> Any:
    from ..kernels.random.distributions import fill_bernoulli

    def draw_dropout(stream: Any, array: Any, p: float) -> Any:
        if (
            type(array) is ndarray and array.dtype.char in "fd" and array.dtype.isnative and p < 1 and array.size
            and array.flags.c_contiguous and array.flags.aligned
        ):  # fmt: skip
            mask = fill_bernoulli(stream, empty(array.shape, np.bool_), 1 - p)
            key = "draw_dropout", array.size, array.dtype.char
            kernel = _kernels.get(key)
            if kernel is None:
                dtype = _DTYPES[array.dtype.char]
                arrays = {"x": dtype, "kept": "bool"}
                program = pointwise("x * kept * scale", arrays, array.size, dtype, {}, ("scale",))
                kernel = _compiled(key, program)
            out = empty(array.shape, array.dtype)
            kernel((array, mask, out), (1 / (1 - p),))
            return out, mask
        return original(stream, array, p)

    return draw_dropout


_BY_HAND: dict[str, dict[str, Callable[[Any], Any]]] = {
    "activation.softmax": {
        **{name: _softmax(f"_{name}") for name in ("softmax", "log_softmax")},
        **{f"{name}_backward": _softmax_backward(f"_{name}_backward_data") for name in ("softmax", "log_softmax")},
    },
    "norm": {
        "native_layer_norm": _layer_norm,
        "native_layer_norm_backward": _layer_norm_backward,
        **{
            f"native_{name}": _of_kernels(name)
            for name in ("batch_norm", "batch_norm_backward", "group_norm", "group_norm_backward")
        },
    },
    "indexing.along_dim": {
        "gather": _of_kernels("gather"),
        **{name: _of_routines(name) for name in ("scatter_add", "scatter_add_")},
    },
    "matmul": {"product": _of_products("product")},
    "attention": {"gemm": _of_products("gemm")},
    "indexing.vectors": {name: _of_routines(name) for name in ("index_select", "index_add", "index_add_")},
    "indexing.embedding": {name: _of_routines(name) for name in ("embedding", "embedding_dense_backward")},
    "loss.pointwise": {"binary_cross_entropy_with_logits": _of_kernels("bce_with_logits")},
    "loss.classes": {"nll_loss_forward": _nll_loss},
    "reduction.sums": {
        "sum_dim": _sum_dim("sum.dim_IntList"),
        "mean_dim": _sum_dim("mean.dim"),
        "prod_dim": _sum_dim("prod.dim_int", dim_is_list=False),
        **{name: _whole(name) for name in ("sum", "mean")},
        **{name: _variance(f"{name}.correction") for name in ("var", "std")},
    },
    "reduction.extrema": {
        **{name: _extreme(name) for name in ("amax", "amin")},
        **{name: _of_routines(name) for name in ("kthvalue", "median_dim")},
    },
    "reduction.running": {
        **{name: _of_routines("total", name) for name in ("cumsum", "cumprod")},
        **{name: _of_routines("extremum", name) for name in ("cummax", "cummin")},
    },
    "sorting": {name: _of_routines(name) for name in ("sort", "topk")},
    "activation.smooth": {"log_sigmoid_forward": _of_kernels("log_sigmoid")},
    "conv.convolution": {
        name: _of_kernels(name, "_eager_convolution") for name in ("convolution", "convolution_backward")
    },
    "pool.pooling": {"max_pool2d_with_indices": _of_kernels("max_pool")},
    "random.distributions": {
        "draw_dropout": _dropout,
        "box_muller": _of_kernels("normal_numbers"),
        "_fill_groups": _of_kernels("normal_groups"),
    },
    "recurrent": {
        "gemm": _of_products("gemm"),
        **{
            f"_{name}": _of_kernels(name, "_eager_recurrent")
            for name in ("lstm", "lstm_backward", "gru", "gru_backward")
        },
    },
    "elementwise.dtypes": {"by_code": _of_kernels("by_code", "_eager_large")},
    "random.integers": {"draw_integers": _of_routines("draw_integers")},
    "random.streams.Stream": {
        **{name: _of_routines("words", "words") for name in ("words", "words32")},
        "words64": _of_routines("words", "pairs"),
        **{name: _of_routines("words", name) for name in ("uniform24", "uniform53")},
    },
}


@cache
def replaced() -> dict[str, dict[str, Callable[[Any], Any]]]:
    """Return what makes the replacement of each kernel from the kernel, by module and name."""
    found = _defined()
    for module, kernels in _BY_HAND.items():
        place = f"kernels.{module}"
        found[place] = {**found.get(place, {}), **kernels}
    found["dispatch.state"] = {"new_updates": _updates}
    found["generated.functions.elementwise"] = {"pow_backward": _of_kernels("pow_backward", "_eager_gradients")}
    found["core.engine"] = {
        "add_arrays": _of_kernels("addition", "_eager_large"),
        "apply_adding": _of_kernels("apply_adding", "_eager_gradients"),
    }
    return found


# Modules in which `xp`, NumPy, is exchanged.
_OF_NUMPY = "generated.variable_type.elementwise", "generated.functions.elementwise"


_found_in("gradloom", set_kernels, get_kernels)
