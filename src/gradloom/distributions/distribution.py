"""The base of all distributions, and of those with parameters that expand and natural parameters."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import gradloom as gl
from gradloom import Size, Tensor

from . import constraints
from .utils import _sum_rightmost, lazy_property

__all__ = ["Distribution", "ExponentialFamily"]

EMPTY = Size()


class Distribution:
    """A batch of independent probability distributions of one family.

    A sample has the shape sample_shape + batch_shape + event_shape: `batch_shape` numbers the distributions of the
    batch, and `event_shape` is the shape of one draw from one of them.

    Args:
        batch_shape: shape of the batch.
        event_shape: shape of one draw.
        validate_args: whether to check parameters here, and values in `log_prob`, `cdf` and `icdf`; by default what
            `set_default_validate_args` says.

    Raises:
        ValueError: if a parameter does not satisfy its constraint.
    """

    has_rsample: Any = False
    has_enumerate_support = False
    _validate_args = __debug__

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Set the default of `validate_args`, which is True except under `python -O`.

        Raises ValueError for anything but a bool.
        """
        if value not in (True, False):
            raise ValueError
        Distribution._validate_args = value

    def __init__(self, batch_shape: Any = EMPTY, event_shape: Any = EMPTY, validate_args: bool | None = None) -> None:
        self._batch_shape = batch_shape
        self._event_shape = event_shape
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            self._check_parameters()
        super().__init__()

    def _check_parameters(self) -> None:
        try:
            checked = self.arg_constraints
        except NotImplementedError:
            warnings.warn(
                f"{type(self)} does not define `arg_constraints`. Please set `arg_constraints = {{}}` or initialize "
                "the distribution with `validate_args=False` to turn off validation.",
                stacklevel=4,
            )
            return
        for name, constraint in checked.items():
            computed_later = name not in self.__dict__ and isinstance(getattr(type(self), name, None), lazy_property)
            if computed_later or constraints.is_dependent(constraint):
                continue
            value = getattr(self, name)
            if not constraint.check(value).all():
                raise ValueError(
                    f"Expected parameter {name} ({type(value).__name__} of shape {tuple(value.shape)}) of distribution "
                    f"{self!r} to satisfy the constraint {constraint!r}, but found invalid values:\n{value}"
                )

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Distribution:
        """Return the distribution with its parameters expanded, without a copy, to a larger batch.

        Args:
            batch_shape: shape that the present one broadcasts to.
            _instance: object to fill, which a subclass passes that extends this method.
        """
        raise NotImplementedError

    @property
    def batch_shape(self) -> Size:
        """Shape of the batch."""
        return self._batch_shape

    @property
    def event_shape(self) -> Size:
        """Shape of one draw of one distribution."""
        return self._event_shape

    @property
    def arg_constraints(self) -> dict[str, constraints.Constraint]:
        """The constraint of every parameter, by name."""
        raise NotImplementedError

    @property
    def support(self) -> constraints.Constraint | None:
        """The set of values that draws are in."""
        raise NotImplementedError

    @property
    def mean(self) -> Tensor:
        """Mean, of shape batch_shape + event_shape."""
        raise NotImplementedError

    @property
    def mode(self) -> Tensor:
        """The most probable value, of shape batch_shape + event_shape."""
        raise NotImplementedError(f"{type(self)} does not implement mode")

    @property
    def variance(self) -> Tensor:
        """Variance, of shape batch_shape + event_shape."""
        raise NotImplementedError

    @property
    def stddev(self) -> Tensor:
        """Standard deviation, of shape batch_shape + event_shape."""
        return self.variance.sqrt()

    def sample(self, sample_shape: Sequence[int] = EMPTY) -> Tensor:
        """Draw values, of shape sample_shape + batch_shape + event_shape, without a gradient."""
        with gl.no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Sequence[int] = EMPTY) -> Tensor:
        """Draw values, of the shape that `sample` gives, as differentiable functions of the parameters.

        Raises NotImplementedError if `has_rsample` is false.
        """
        raise NotImplementedError

    def sample_n(self, n: int) -> Tensor:
        """Draw n values; deprecated, for `sample((n,))`."""
        warnings.warn(
            "`sample_n(n)` will be deprecated. Use `sample((n,))` instead.", category=FutureWarning, stacklevel=2
        )
        return self.sample(Size((n,)))

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the density or probability of `value`.

        Args:
            value: of a shape that broadcasts with batch_shape + event_shape, with the event dimensions as they are.

        Returns:
            The broadcast shape without the event dimensions.

        Raises:
            ValueError: with validation, if `value` is no tensor, does not fit or is outside the support.
        """
        raise NotImplementedError

    def cdf(self, value: Tensor) -> Tensor:
        """Return the probability of a draw of at most `value`; shapes and errors are those of `log_prob`."""
        raise NotImplementedError

    def icdf(self, value: Tensor) -> Tensor:
        """Return the quantile of the probability `value`, which broadcasts with batch_shape."""
        raise NotImplementedError

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """Return all values of a discrete distribution along a new first dimension: (number of values,) + batch_shape +
        event_shape. With `expand=False` the batch dimensions have size 1."""
        raise NotImplementedError

    def entropy(self) -> Tensor:
        """Return the entropy, of shape batch_shape."""
        raise NotImplementedError

    def perplexity(self) -> Tensor:
        """Return exp(entropy), of shape batch_shape."""
        return gl.exp(self.entropy())

    def _extended_shape(self, sample_shape: Sequence[int] = EMPTY) -> Size:
        return Size((*Size(sample_shape), *self._batch_shape, *self._event_shape))

    def _validate_sample(self, value: Any) -> None:
        """Raise ValueError unless `value` has a fitting shape and is in the support."""
        if not isinstance(value, Tensor):
            raise ValueError("The value argument to log_prob must be a Tensor")
        shape, expected = value.size(), Size((*self._batch_shape, *self._event_shape))
        if shape[len(shape) - len(self._event_shape) :] != self._event_shape:
            raise ValueError(f"The right-most size of value must match event_shape: {shape} vs {self._event_shape}.")
        if any(
            1 not in (ours, theirs) and ours != theirs
            for ours, theirs in zip(shape[::-1], expected[::-1], strict=False)
        ):
            raise ValueError(f"Value is not broadcastable with batch_shape+event_shape: {shape} vs {expected}.")
        try:
            support = self.support
        except NotImplementedError:
            warnings.warn(
                f"{type(self)} does not define `support` to enable sample validation. Please initialize the "
                "distribution with `validate_args=False` to turn off validation.",
                stacklevel=3,
            )
            return
        if support is None:
            raise AssertionError("support is unexpectedly None")
        if not support.check(value).all():
            raise ValueError(
                f"Expected value argument ({type(value).__name__} of shape {tuple(value.shape)}) to be within the "
                f"support ({support!r}) of the distribution {self!r}, but found invalid values:\n{value}"
            )

    def _check(self, value: Any) -> None:
        """Validate `value`, unless validation is off."""
        if self._validate_args:
            self._validate_sample(value)

    def _get_checked_instance(self, cls: type, _instance: Any = None) -> Any:
        """Return the object that an expansion fills: `_instance`, or a new one. Raises NotImplementedError for a
        subclass of `cls` with an `__init__` of its own, whose attributes `cls` does not know."""
        if _instance is not None:
            return _instance
        if type(self).__init__ is not cls.__init__:
            raise NotImplementedError(
                f"Subclass {type(self).__name__} of {cls.__name__} that defines a custom __init__ method must also "
                "define a custom .expand() method."
            )
        return type(self).__new__(type(self))

    def __repr__(self) -> str:
        def shown(value):
            return value if value.numel() == 1 else value.size()

        fields = [f"{name}: {shown(self.__dict__[name])}" for name in self.arg_constraints if name in self.__dict__]
        return f"{type(self).__name__}({', '.join(fields)})"


class Parametric(Distribution):
    """A distribution with tensors as parameters: those in `arg_constraints`, as far as the instance has them.

    A subclass sets its parameters with `_set`, and gives the mathematics. Expansion follows from the constraints, whose
    `event_dim` says how many dimensions of a parameter are not the batch's.
    """

    _copied: tuple[str, ...] = ()  # further attributes, which an expansion copies

    def _expanded(self, value: Tensor, batch_shape: Size, event_dim: int) -> Tensor:
        return value.expand(batch_shape + value.shape[value.dim() - event_dim :])

    def _set(self, validate_args: bool | None, **parameters: Tensor) -> None:
        """Store parameters that were broadcast, and check them."""
        self.__dict__.update(parameters)
        Distribution.__init__(self, next(iter(parameters.values())).size(), validate_args=validate_args)

    def _fill(self, new: Any, batch_shape: Size) -> None:
        """Give `new` what an expansion to `batch_shape` has besides its parameters."""

    def expand(self, batch_shape, _instance=None):
        batch_shape = Size(batch_shape)
        new = self._get_checked_instance(library_class(type(self)), _instance)
        for name, constraint in self.arg_constraints.items():
            if name in self.__dict__:
                new.__dict__[name] = self._expanded(self.__dict__[name], batch_shape, constraint.event_dim)
        for name in self._copied:
            new.__dict__[name] = self.__dict__[name]
        self._fill(new, batch_shape)
        initialise(new, batch_shape, self._event_shape, self._validate_args)
        return new


def initialise(new: Distribution, batch_shape: Any, event_shape: Any, validates: bool) -> None:
    """Initialise an expansion, whose parameters need no second check."""
    Distribution.__init__(new, batch_shape, event_shape, validate_args=False)
    new._validate_args = validates


def library_class(cls: type) -> type:
    """Return the first class of this package among the bases of `cls`, itself included."""
    package = Distribution.__module__.rpartition(".")[0]
    return next(base for base in cls.__mro__ if base.__module__.startswith(f"{package}."))


class ExponentialFamily(Distribution):
    """A distribution with the density exp(<t(x), theta> - F(theta) + k(x)): natural parameters theta, log normaliser F,
    sufficient statistics t, carrier measure k.

    Entropies and divergences follow from F and its gradient (Nielsen and Nock 2010).
    """

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        """theta."""
        raise NotImplementedError

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        """F(theta)."""
        raise NotImplementedError

    @property
    def _mean_carrier_measure(self) -> float:
        """The expectation of k(x)."""
        raise NotImplementedError

    def entropy(self):
        # The expectation of t is the gradient of F: H = F - <theta, grad F> - E k.
        theta, normalizer, statistics = self._legendre()
        products = [parameter * statistic for parameter, statistic in zip(theta, statistics, strict=True)]
        inner = sum([_sum_rightmost(product, product.dim() - len(self._batch_shape)) for product in products])
        return normalizer - inner - self._mean_carrier_measure

    def _legendre(self) -> tuple[list[Tensor], Tensor, tuple[Tensor, ...]]:
        """Return theta, F(theta) and the gradient of F, which is differentiable."""
        theta = [parameter.detach().requires_grad_() for parameter in self._natural_params]
        normalizer = self._log_normalizer(*theta)
        return theta, normalizer, gl.autograd.grad(normalizer.sum(), theta, create_graph=True)
