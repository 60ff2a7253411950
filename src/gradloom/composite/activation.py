"""Activations made of other operators."""

from __future__ import annotations

from ..dispatch import _operators as ops


def softmax(self, dim, dtype=None):
    """exp(self) / sum(exp(self)) along `dim`, converted to `dtype` first."""
    return ops._softmax(self if dtype is None or dtype is self.dtype else self.to(dtype), dim, False)


def log_softmax(self, dim, dtype=None):
    """Return the logarithm of softmax along `dim`, converted to `dtype` first."""
    return ops._log_softmax(self if dtype is None or dtype is self.dtype else self.to(dtype), dim, False)


def relu6(self):
    """min(max(self, 0), 6)."""
    return ops.hardtanh(self, 0, 6)


def relu6_(self):
    """`relu6` in place."""
    return ops.hardtanh_(self, 0, 6)


# Klambauer et al. 2017: mean 0 and variance 1 are a fixed point of layers of normal inputs with these constants.
_SELU_ALPHA = 1.6732632423543772848170429916717
_SELU_SCALE = 1.0507009873554804934193349852946


def selu(self):
    """Return the self-normalising ELU."""
    return ops.elu(self, _SELU_ALPHA, _SELU_SCALE)


def selu_(self):
    """`selu` in place."""
    return ops.elu_(self, _SELU_ALPHA, _SELU_SCALE)


def prelu(self, weight):
    """`self` where it is positive, weight * self elsewhere. `weight` is a number, or (channels,) for the second
    dimension of `self`. Raises RuntimeError if dtypes differ or the weight has another size."""
    if self.dtype is not weight.dtype:
        from ..types.dtype import scalar_type_name

        raise RuntimeError(
            f"prelu: Type promoting not supported. Got {scalar_type_name(self.dtype)} and "
            f"{scalar_type_name(weight.dtype)}"
        )
    ndim = self._array.ndim
    if weight._array.ndim > 1:
        raise RuntimeError(f"prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = {weight.dim()}")
    if weight.numel() != 1:
        if ndim == 0:
            raise RuntimeError("Not allow zero-dim input tensor.")
        channels = self.shape[1] if ndim > 1 else 1
        if channels != weight.numel():
            raise RuntimeError(
                f"Mismatch of parameter numbers and input channel size. Found parameter numbers = "
                f"{weight.numel()} and channel size = {channels}."
            )
    if weight._array.ndim != ndim:
        shape = [1] * ndim
        if ndim > 1:
            shape[1] = weight.numel()
        weight = weight.reshape(shape)
    return ops._prelu_kernel(self, weight)


def log_sigmoid(self):
    """log(sigmoid(self)), without overflow."""
    return ops.log_sigmoid_forward(self)[0]
