"""The random operators. They receive a generator as its `Stream`, or None for the default generator's."""

from __future__ import annotations

import numpy as np

from ...types.dtype import default
from .._common.errors import negative_size, type_name
from .._common.layout import new_like, row_major
from ..activation.piecewise import leaky_relu, leaky_relu_backward
from ..indexing.places import writable
from . import distributions, gamma, integers, sampling
from .streams import default_stream

_INT64 = np.dtype(np.int64)


def _size(size):
    for n in size:
        if n < 0:
            raise negative_size(size)
    return size


def rand(size, dtype=None, generator=None):
    """Draw numbers uniform in [0, 1), by default of the default floating dtype."""
    return distributions.draw_uniform(
        generator or default_stream, _size(size), default.numpy_float if dtype is None else dtype
    )


def rand_generator(size, generator, dtype=None):
    """`rand` from a generator."""
    return rand(size, dtype, generator)


def randn(size, dtype=None, generator=None):
    """Draw standard normal numbers, by default of the default floating dtype."""
    return distributions.draw_normal(
        generator or default_stream, _size(size), default.numpy_float if dtype is None else dtype
    )


def randn_generator(size, generator, dtype=None):
    """`randn` from a generator."""
    return randn(size, dtype, generator)


def randint(high, size, dtype=None):
    """Draw integers in [0, high)."""
    return randint_low_generator(0, high, size, None, dtype)


def randint_generator(high, size, generator, dtype=None):
    """Draw integers in [0, high) from a generator."""
    return randint_low_generator(0, high, size, generator, dtype)


def randint_low(low, high, size, dtype=None):
    """Draw integers in [low, high)."""
    return randint_low_generator(low, high, size, None, dtype)


def randint_low_generator(low, high, size, generator, dtype=None):
    """Draw integers in [low, high) from a generator."""
    dtype = _INT64 if dtype is None else dtype
    return integers.draw_integers(generator or default_stream, low, high, _size(size), dtype)


def randperm(n, dtype=None, generator=None):
    """Draw a permutation of 0, 1, ..., n - 1."""
    return integers.draw_permutation(generator or default_stream, n, np.dtype(np.int64) if dtype is None else dtype)


def randperm_generator(n, generator, dtype=None):
    """`randperm` from a generator."""
    return randperm(n, dtype, generator)


def normal_float_float(mean, std, size, generator=None, dtype=None):
    """Draw normal numbers of one mean and standard deviation."""
    dtype = default.numpy_float if dtype is None else dtype
    return distributions.draw_normal(generator or default_stream, _size(size), dtype, mean, std)


def rand_like(self, dtype=None, memory_format=None, generator=None):
    """Draw numbers uniform in [0, 1), in the shape of `self`."""
    return distributions.fill_uniform(generator or default_stream, new_like(self, dtype, memory_format))


def rand_like_generator(self, generator, dtype=None, memory_format=None):
    """`rand_like` from a generator."""
    return rand_like(self, dtype, memory_format, generator)


def randn_like(self, dtype=None, memory_format=None, generator=None):
    """Draw standard normal numbers, in the shape of `self`."""
    return distributions.fill_normal(generator or default_stream, new_like(self, dtype, memory_format))


def randn_like_generator(self, generator, dtype=None, memory_format=None):
    """`randn_like` from a generator."""
    return randn_like(self, dtype, memory_format, generator)


def randint_like(self, high, dtype=None, memory_format=None):
    """Draw integers in [0, high), in the shape and, by default, the dtype of `self`. `high` may be a 0-dim array."""
    return randint_like_low_generator(self, 0, high, None, dtype, memory_format)


def randint_like_generator(self, high, generator, dtype=None, memory_format=None):
    """`randint_like` from a generator."""
    return randint_like_low_generator(self, 0, high, generator, dtype, memory_format)


def randint_like_low(self, low, high, dtype=None, memory_format=None):
    """Draw integers in [low, high), in the shape and, by default, the dtype of `self`."""
    return randint_like_low_generator(self, low, high, None, dtype, memory_format)


def randint_like_low_generator(self, low, high, generator, dtype=None, memory_format=None):
    """`randint_like_low` from a generator."""
    if isinstance(high, np.ndarray):
        if high.size != 1:
            raise RuntimeError("high must be a scalar tensor and on CPU")
        high = int(high.item())
    return integers.fill_integers(generator or default_stream, new_like(self, dtype, memory_format), low, high)


def bernoulli(self, generator=None):
    """Draw 1 with the probability that each element gives, else 0."""
    return distributions.draw_bernoulli(generator or default_stream, self)


def bernoulli_p(self, p, generator=None):
    """Draw 1 with probability `p`, else 0, in the shape and dtype of `self`."""
    return distributions.fill_bernoulli(generator or default_stream, new_like(self), p)


def normal(mean, std, generator=None):
    """Draw normal numbers with a mean or a standard deviation, or both, for every element."""
    return distributions.draw_normal_each(generator or default_stream, mean, std)


def poisson(self, generator=None):
    """Draw Poisson numbers of the rates in `self`."""
    return sampling.draw_poisson(generator or default_stream, self)


def binomial(count, prob, generator=None):
    """Draw binomial numbers of `count` trials with probability `prob`, which broadcast."""
    return sampling.draw_binomial(generator or default_stream, count, prob)


def standard_gamma(self, generator=None):
    """Draw gamma numbers of rate 1 with the concentrations in `self`."""
    return gamma.draw_gamma(generator or default_stream, self)


def standard_gamma_grad(self, output):
    """Return the derivative of the draws `output` with respect to their concentrations `self`."""
    return gamma.gamma_gradient(self, output)


def sample_dirichlet(self, generator=None):
    """Draw points of the simplex with the concentrations in the last dimension of `self`."""
    return gamma.draw_dirichlet(generator or default_stream, self)


def dirichlet_grad(x, alpha, total):
    """Return the derivative of x with respect to alpha, over 1 - x; see `gamma.beta_gradient`."""
    return gamma.beta_gradient(x, alpha, total)


def multinomial(self, num_samples, replacement=False, generator=None):
    """Draw indices with the weights in the rows of `self`."""
    return sampling.draw_multinomial(generator or default_stream, self, num_samples, replacement)


def _in_place(fill):
    """Return the in-place operator of `fill`; it takes all of PyTorch's arguments, the generator last."""

    def kernel(self, *arguments):
        *parameters, generator = arguments
        return fill(generator or default_stream, writable(self), *parameters)

    return kernel


normal_ = _in_place(distributions.fill_normal)
uniform_ = _in_place(distributions.fill_uniform)
bernoulli_ = _in_place(distributions.fill_bernoulli)
exponential_ = _in_place(distributions.fill_exponential)
geometric_ = _in_place(distributions.fill_geometric)
cauchy_ = _in_place(distributions.fill_cauchy)
log_normal_ = _in_place(distributions.fill_log_normal)
random_ = random_from_ = _in_place(integers.fill_integers)


def random_to_(self, high, generator=None):
    """Fill with integers in [0, high)."""
    return integers.fill_integers(generator or default_stream, writable(self), 0, high)


def native_dropout(input, p, train):
    """Return (input * mask / (1 - p), mask) if `train` is true or None, else (input, all True)."""
    if not input.size:
        return input.copy(order="K"), np.empty_like(input)
    if train is False:
        return input.copy(order="K"), np.ones_like(input, np.bool_)
    if input.dtype.kind in "iub":
        raise RuntimeError(f"result type Float can't be cast to the desired output type {type_name(input.dtype)}")
    return distributions.draw_dropout(default_stream, input, p)


def native_dropout_backward(grad_output, mask, scale):
    """grad_output * mask * scale."""
    result = grad_output * mask
    if result.dtype.kind in "iub":
        result = result.astype(default.numpy_float)
    result *= result.dtype.type(scale)
    return result


def rrelu_with_noise(self, noise, lower, upper, training, generator=None):
    """Return self * slope. The slope is 1 where self > 0; elsewhere it is drawn in training and the mean of the bounds
    otherwise. In training the slopes are written to `noise`."""
    if not training:
        return row_major(leaky_relu(self, (float(lower) + float(upper)) / 2))
    noise[...] = distributions.rrelu_noise(generator or default_stream, self, lower, upper)
    return row_major(self * noise)


def rrelu_with_noise_backward(grad_output, self, noise, lower, upper, training, self_is_result):
    """Return the vjp: with the noise in training, else with the mean slope where `self` (or the result) is <= 0."""
    if training and upper - lower > 1e-6:
        return grad_output * noise
    return leaky_relu_backward(grad_output, self, (float(lower) + float(upper)) / 2, self_is_result)
