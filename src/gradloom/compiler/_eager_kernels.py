"""Eager replacements of batch_norm in training, max_pool2d, gather, bce_with_logits and normal numbers.

Each function takes the compiled programs that are kept and what compiles one for a key, and returns what makes the
replacement of a kernel from the kernel. See `_eager`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..kernels._common.layout import suggested_format
from ..kernels.pool import pooling
from ..kernels.random.streams import BLOCK
from ..types.silence import silence
from . import _eager_programs as programs
from ._eager_random import box_muller
from ._eager_rows import derived
from ._llvm import host
from ._llvm.fits import MisfitError

ndarray, empty = np.ndarray, np.empty
Make = Callable[[Any], Any]
_INT64 = np.dtype(np.int64).char
_FLOAT32 = np.dtype(np.float32)
_GATHERED = "fd" + _INT64
_DTYPES = {"f": "float32", "d": "float64"}


def batch_norm(kept: dict[Any, Any], compiled: Callable[..., Any]) -> Make:
    def make(original: Any) -> Any:
        def native_batch_norm(
            input: Any,
            weight: Any,
            bias: Any,
            running_mean: Any,
            running_var: Any,
            training: bool,
            momentum: Any,
            eps: Any,
        ) -> Any:
            given = input, weight, bias, running_mean, running_var, training, momentum, eps
            shape, dtype = input.shape, input.dtype
            vectors = [p for p in (weight, bias, running_mean, running_var) if p is not None]
            if (
                not training or type(input) is not ndarray or dtype.char not in "fd" or input.ndim < 2 or not input.size
                or not input.flags.c_contiguous or (running_mean is None) != (running_var is None)
                or any(type(p) is not ndarray or p.dtype != dtype or p.shape != shape[1:2] or not p.flags.c_contiguous
                       for p in vectors)
            ):  # fmt: skip
                return original(*given)
            parameters = [p for p in (weight, bias) if p is not None]
            key = "native_batch_norm", shape, dtype.char, weight is None, bias is None
            code = kept.get(key)
            if code is None:
                text = programs.batch_norm(shape, _DTYPES[dtype.char], weight is not None, bias is not None)
                code = compiled(key, text)
            out, (mean, rstd, squares) = empty(shape, dtype), empty((3, shape[1]), dtype)
            if code.call(input, *parameters, out, mean, rstd, squares, float(eps)):
                return original(*given)
            if running_mean is not None:
                count = input.size // shape[1]
                running_mean[...] = momentum * mean + (1 - momentum) * running_mean
                running_var[...] = momentum * (squares / max(count - 1, 0)) + (1 - momentum) * running_var
            return out, mean, rstd

        return native_batch_norm

    return make


def batch_norm_backward(kept: dict[Any, Any], compiled: Callable[..., Any]) -> Make:
    def make(original: Any) -> Any:
        def native_batch_norm_backward(
            grad_out: Any,
            input: Any,
            weight: Any,
            running_mean: Any,
            running_var: Any,
            save_mean: Any,
            save_invstd: Any,
            train: bool,
            eps: Any,
            output_mask: Any,
        ) -> Any:
            shape, dtype = input.shape, input.dtype
            vectors = [p for p in (weight, save_mean, save_invstd) if p is not None]
            grad = _contiguous(grad_out)
            if (
                not train or not _is_plain(input) or not _is_plain(grad) or grad.dtype != dtype or grad.shape != shape
                or input.ndim < 2 or len(vectors) < 2 + (weight is not None)
                or any(not _is_plain(p) or p.dtype != dtype or p.shape != shape[1:2] for p in vectors)
            ):  # fmt: skip
                return original(
                    grad_out, input, weight, running_mean, running_var, save_mean, save_invstd, train, eps, output_mask
                )
            key = "native_batch_norm_backward", shape, dtype.char, weight is None
            code = kept.get(key)
            if code is None:
                given = grad, input, weight, None, None, save_mean, save_invstd, True, eps, (True, True, True)
                of_channels = shape[1:2], dtype
                code = derived(compiled, key, key[0], given, (shape, dtype), of_channels, of_channels)
            found = empty(shape, dtype), empty(shape[1], dtype), empty(shape[1], dtype)
            if not code or code.call(grad, input, *vectors, *found):
                return original(
                    grad_out, input, weight, running_mean, running_var, save_mean, save_invstd, train, eps, output_mask
                )
            return tuple([x if wanted else None for x, wanted in zip(found, output_mask, strict=True)])

        return native_batch_norm_backward

    return make


def group_norm(kept: dict[Any, Any], compiled: Callable[..., Any]) -> Make:
    def make(original: Any) -> Any:
        def native_group_norm(
            input: Any, weight: Any, bias: Any, N: int, C: int, HxW: int, group: int, eps: float
        ) -> Any:
            dtype = input.dtype
            parameters = [p for p in (weight, bias) if p is not None]
            if not _is_grouped(input, N, C, HxW, group) or any(
                not _is_plain(p) or p.dtype != dtype or p.shape != (C,) for p in parameters
            ):
                return original(input, weight, bias, N, C, HxW, group, eps)
            key = "native_group_norm", N, C, HxW, group, dtype.char, weight is None, bias is None, eps
            code = kept.get(key)
            if code is None:
                whole, of_group = (N, C, HxW), ((N, group), dtype)
                given = input.reshape(whole), weight, bias, N, C, HxW, group, float(eps)
                code = derived(compiled, key, key[0], given, (whole, dtype), of_group, of_group)
            out, mean, rstd = empty(input.shape, dtype), empty((N, group), dtype), empty((N, group), dtype)
            if not code or code.call(input, *parameters, out, mean, rstd):
                return original(input, weight, bias, N, C, HxW, group, eps)
            return out, mean, rstd

        return native_group_norm

    return make


def group_norm_backward(kept: dict[Any, Any], compiled: Callable[..., Any]) -> Make:
    def make(original: Any) -> Any:
        def native_group_norm_backward(
            grad_out: Any,
            input: Any,
            mean: Any,
            rstd: Any,
            weight: Any,
            N: int,
            C: int,
            HxW: int,
            group: int,
            output_mask: Any,
        ) -> Any:
            dtype = input.dtype
            grad = _contiguous(grad_out)
            others = [p for p in (mean, rstd, weight) if p is not None]
            if (
                not _is_grouped(input, N, C, HxW, group) or not _is_plain(grad) or grad.dtype != dtype
                or grad.size != input.size or any(not _is_plain(p) or p.dtype != dtype for p in others)
                or len(others) < 2 + (weight is not None)
                or mean.size != N * group or rstd.size != N * group or weight is not None and weight.shape != (C,)
            ):  # fmt: skip
                return original(grad_out, input, mean, rstd, weight, N, C, HxW, group, output_mask)
            key = "native_group_norm_backward", N, C, HxW, group, dtype.char, weight is None
            found = kept.get(key)
            if found is None:
                whole, of_groups, of_channels = (N, C, HxW), (N, group), ((C,), dtype)
                arrays = grad.reshape(whole), input.reshape(whole), mean.reshape(of_groups), rstd.reshape(of_groups)
                given = *arrays, weight, N, C, HxW, group, output_mask
                for_input = derived(compiled, (key, 1), key[0], given, (whole, dtype), None, None)
                for_parameters = derived(compiled, (key, 2), key[0], given, None, of_channels, of_channels)
                found = kept[key] = for_input, for_parameters
            grad_input = grad_weight = grad_bias = None
            refused = not all(found)
            if output_mask[0] and not refused:
                grad_input = empty(input.shape, dtype)
                refused = found[0].call(grad, input, *others, grad_input)
            if not refused and (output_mask[1] or output_mask[2]):
                grad_weight, grad_bias = empty(C, dtype), empty(C, dtype)
                refused = found[1].call(grad, input, mean, rstd, grad_weight, grad_bias)
            if refused:
                return original(grad_out, input, mean, rstd, weight, N, C, HxW, group, output_mask)
            return grad_input, grad_weight if output_mask[1] else None, grad_bias if output_mask[2] else None

        return native_group_norm_backward

    return make


def _is_plain(x: Any) -> bool:
    """Return whether `x` is a contiguous float32 or float64 array with elements, which machine code takes."""
    return type(x) is ndarray and x.dtype.char in "fd" and x.flags.c_contiguous and x.size > 0


def _is_grouped(x: Any, batch: int, channels: int, after: int, groups: int) -> bool:
    """Return whether machine code takes `x`, and its channels divide evenly into `groups`."""
    return _is_plain(x) and groups > 0 and not channels % groups and x.size == batch * channels * after and batch > 0


def _contiguous(x: Any) -> Any:
    """Return a contiguous array. The gradient of a sum, for one, is an expanded number. Stand-ins stay as they are."""
    return np.ascontiguousarray(x) if type(x) is ndarray else x


def gather(kept: dict[Any, Any], compiled: Callable[..., Any]) -> Make:
    def make(original: Any) -> Any:
        def kernel(self: Any, dim: Any, index: Any, sparse_grad: bool = False) -> Any:
            if (
                type(self) is ndarray and type(index) is ndarray and index.dtype.char == _INT64
                and self.dtype.char in _GATHERED and dim.__class__ is int and 0 < self.ndim == index.ndim and index.size
                and self.flags.c_contiguous and index.flags.c_contiguous
            ):  # fmt: skip
                key = "gather", self.shape, index.shape, self.dtype.char, dim
                code = kept.get(key)
                if code is None:
                    code = compiled(key, programs.gather(self, dim, index.shape))
                if code:
                    out = empty(index.shape, self.dtype)
                    if not code.call(self, index, out):
                        return out
            return original(self, dim, index, sparse_grad)

        return kernel

    return make


def bce_with_logits(kept: dict[Any, Any], compiled: Callable[..., Any]) -> Make:
    def make(original: Any) -> Any:
        def kernel(self: Any, target: Any, weight: Any = None, pos_weight: Any = None, reduction: int = 1) -> Any:
            if (
                weight is None and pos_weight is None and reduction in (1, 2)
                and type(self) is ndarray and type(target) is ndarray and self.dtype.char in "fd"
                and self.dtype == target.dtype and self.shape == target.shape and self.size
                and self.flags.c_contiguous and target.flags.c_contiguous
            ):  # fmt: skip
                key = "binary_cross_entropy_with_logits", self.size, self.dtype.char, reduction
                code = kept.get(key)
                if code is None:
                    given = self.reshape(-1), target.reshape(-1), None, None, reduction
                    code = derived(compiled, key, key[0], given, ((), self.dtype))
                out = empty((), self.dtype)
                if code and not code.call(self, target, out):
                    return out
            return original(self, target, weight, pos_weight, reduction)

        return kernel

    return make


def log_sigmoid(kept: dict[Any, Any], compiled: Callable[..., Any]) -> Make:
    def make(original: Any) -> Any:
        def log_sigmoid_forward(self: Any) -> Any:
            if not _is_plain(self):
                return original(self)
            key = "log_sigmoid_forward", self.size, self.dtype.char
            code = kept.get(key) or compiled(key, programs.log_sigmoid(self.size, _DTYPES[self.dtype.char]))
            out, decay = empty(self.shape, self.dtype), empty(self.shape, self.dtype)
            return original(self) if code.call(self, out, decay) else (out, decay)

        return log_sigmoid_forward

    return make


_MOST_TAPS = 9  # elements of a pooling kernel


def max_pool(kept: dict[Any, Any], compiled: Callable[..., Any]) -> Make:
    """Largest elements of windows without padding and their places."""

    def find(key: Any, self: Any, settings: tuple[Any, ...]) -> Any:
        windows = pooling.describe("max_pool2d", self, 2, *settings)
        taken = not any(windows.padding) and not settings[-1] and math.prod(windows.kernel) <= _MOST_TAPS
        if not taken or suggested_format(self) is not None:
            kept[key] = False
            return False
        shape = (*self.shape[:-2], *windows.output)
        program = programs.max_pool(math.prod(shape[:-2]), windows, _DTYPES[self.dtype.char])
        steps = [(n - 1) * s for n, s in zip(windows.output, windows.stride, strict=True)]
        length = self.size - math.prod(windows.size) + steps[0] * windows.size[1] + steps[1] + 1  # to the last corner
        found = kept[key] = compiled(key, program), shape, programs.places_in_window(windows), length
        return found

    def make(original: Any) -> Any:
        def kernel(
            self: Any, kernel_size: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False
        ) -> Any:
            settings = kernel_size, stride, padding, dilation, ceil_mode
            if (
                type(self) is ndarray and self.dtype.char in "fd" and self.ndim == 4 and self.size
                and self.flags.c_contiguous and kernel_size.__class__ is stride.__class__ is tuple
            ):  # fmt: skip
                key = "max_pool2d_with_indices", self.shape, self.strides, self.dtype.char, settings
                found = kept.get(key)
                if found is None:
                    found = find(key, self, settings)
                if found:
                    code, shape, places, length = found
                    flat = self.reshape(-1)
                    out, indices = empty(shape, self.dtype), empty(shape, np.int64)
                    if not code.call(*[flat[place : place + length] for place in places], out, indices):
                        return out, indices
            return original(self, *settings)

        return kernel

    return make


def normal_numbers(kept: dict[Any, Any], compiled: Callable[..., Any]) -> Make:
    def make(original: Any) -> Any:
        def kernel(uniforms: Any, mean: float, std: float) -> None:
            size = uniforms.size
            if uniforms.dtype.char != "f" or not size or size % 16 or not host.host().fma or not uniforms.flags.carray:
                original(uniforms, mean, std)
                return
            key = "box_muller", size
            code = kept.get(key) or compiled(key, box_muller(size // 16))
            flat = uniforms.reshape(-1)
            first, second = flat[:-8], flat[8:]
            if code.call(first, second, first, second, float(mean), float(std)):
                original(uniforms, mean, std)

        return kernel

    return make


def normal_groups(kept: dict[Any, Any], compiled: Callable[..., Any]) -> Make:
    """Normal numbers from the generator's words in one loop, for arrays of whole groups of 16."""

    def make(original: Any) -> Any:
        def kernel(stream: Any, flat: Any, mean: float, std: float) -> None:
            size = flat.size
            if flat.dtype != _FLOAT32 or not size or size % 16 or size > BLOCK or not host.host().fma or not (
                flat.flags.carray
            ):  # fmt: skip
                original(stream, flat, mean, std)
                return
            words = stream.words(size)
            key = "_fill_groups", size, words.dtype.char
            code = kept.get(key) or compiled(key, box_muller(size // 16, words.dtype.name))
            if code.call(words[:-8], words[8:], flat[:-8], flat[8:], float(mean), float(std)):
                raise MisfitError("normal numbers are written to a contiguous array")

        return kernel

    return make


silence(globals())
