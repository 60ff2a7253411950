"""Constraints: sets of values, which parameters and samples of distributions belong to.

A constraint checks values in batches: `check(value)` reduces the last `event_dim` dimensions, which form one element of
the set, and returns bools of the remaining shape.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import gradloom as gl
from gradloom import Tensor

__all__ = [
    "Constraint",
    "MixtureSameFamilyConstraint",
    "boolean",
    "cat",
    "corr_cholesky",
    "dependent",
    "dependent_property",
    "greater_than",
    "greater_than_eq",
    "half_open_interval",
    "independent",
    "integer_interval",
    "interval",
    "is_dependent",
    "less_than",
    "lower_cholesky",
    "lower_triangular",
    "multinomial",
    "nonnegative",
    "nonnegative_integer",
    "one_hot",
    "positive",
    "positive_definite",
    "positive_integer",
    "positive_semidefinite",
    "real",
    "real_vector",
    "simplex",
    "square",
    "stack",
    "symmetric",
    "unit_interval",
]


class Constraint:
    """A set of values.

    Attributes:
        is_discrete: whether the set is countable.
        event_dim: number of last dimensions of a value that form one element of the set.
    """

    is_discrete: Any = False
    event_dim: Any = 0
    _shown: tuple[str, ...] = ()  # attributes in the representation

    def check(self, value: Tensor) -> Tensor:
        """Return which elements of `value` are in the set: bool, the shape of `value` without event dimensions."""
        raise NotImplementedError

    def __repr__(self) -> str:
        name = type(self).__name__.removeprefix("_")
        return f"{name}({', '.join(f'{field}={getattr(self, field)}' for field in self._shown)})"


class _Lower(Constraint):
    """Numbers above a bound."""

    _shown = ("lower_bound",)

    def __init__(self, lower_bound: Any) -> None:
        self.lower_bound = lower_bound
        super().__init__()


class _Upper(Constraint):
    """Numbers below a bound."""

    _shown = ("upper_bound",)

    def __init__(self, upper_bound: Any) -> None:
        self.upper_bound = upper_bound
        super().__init__()


class _Between(Constraint):
    """Numbers between two bounds."""

    _shown = ("lower_bound", "upper_bound")

    def __init__(self, lower_bound: Any, upper_bound: Any) -> None:
        self.lower_bound = lower_bound
        self.upper_bound = upper_bound
        super().__init__()


def _whole(value: Tensor) -> Tensor:
    return value % 1 == 0


class _Boolean(Constraint):
    is_discrete = True

    def check(self, value):
        return (value == 0) | (value == 1)


class _OneHot(Constraint):
    is_discrete = True
    event_dim = 1

    def check(self, value):
        return boolean.check(value).all(-1) & value.sum(-1).eq(1)


class _IntegerInterval(_Between):
    is_discrete = True

    def check(self, value):
        return _whole(value) & (self.lower_bound <= value) & (value <= self.upper_bound)


class _IntegerLessThan(_Upper):
    is_discrete = True

    def check(self, value):
        return _whole(value) & (value <= self.upper_bound)


class _IntegerGreaterThan(_Lower):
    is_discrete = True

    def check(self, value):
        return _whole(value) & (value >= self.lower_bound)


class _Real(Constraint):
    def check(self, value):
        return value == value  # not NaN


class _GreaterThan(_Lower):
    def check(self, value):
        return self.lower_bound < value


class _GreaterThanEq(_Lower):
    def check(self, value):
        return self.lower_bound <= value


class _LessThan(_Upper):
    def check(self, value):
        return value < self.upper_bound


class _Interval(_Between):
    def check(self, value):
        return (self.lower_bound <= value) & (value <= self.upper_bound)


class _HalfOpenInterval(_Between):
    def check(self, value):
        return (self.lower_bound <= value) & (value < self.upper_bound)


class _Simplex(Constraint):
    event_dim = 1

    def check(self, value):
        return (value >= 0).all(-1) & ((value.sum(-1) - 1).abs() < 1e-6)


class _Multinomial(_Upper):
    _shown = ()
    is_discrete = True
    event_dim = 1

    def check(self, x):
        return (x >= 0).all(-1) & (x.sum(-1) <= self.upper_bound)


class _LowerTriangular(Constraint):
    event_dim = 2

    def check(self, value):
        return (value == value.tril()).flatten(-2).all(-1)


class _LowerCholesky(_LowerTriangular):
    def check(self, value):
        return super().check(value) & (value.diagonal(dim1=-2, dim2=-1) > 0).all(-1)


class _CorrCholesky(_LowerCholesky):
    def check(self, value):
        # Rows have norm 1, to within the rounding of a sum of as many squares as there are columns.
        tolerance = gl.finfo(value.dtype).eps * value.size(-1) * 10
        unit = (gl.linalg.norm(value.detach(), dim=-1) - 1).abs() < tolerance
        return unit.all(-1) & super().check(value)


class _Square(Constraint):
    event_dim = 2

    def check(self, value):
        same = value.shape[-2] == value.shape[-1]
        return gl.full(value.shape[:-2], same, dtype=gl.bool, device=value.device)


class _Symmetric(_Square):
    def check(self, value):
        square = super().check(value)
        if not square.all():
            return square
        return gl.isclose(value, value.mT, atol=1e-6).all(-2).all(-1)


class _PositiveSemidefinite(_Symmetric):
    def check(self, value):
        symmetric = super().check(value)
        if not symmetric.all():
            return symmetric
        return gl.linalg.eigvalsh(value).ge(0).all(-1)


class _PositiveDefinite(_Symmetric):
    def check(self, value):
        symmetric = super().check(value)
        if not symmetric.all():
            return symmetric
        return gl.linalg.cholesky_ex(value).info.eq(0)


class _Dependent(Constraint):
    """A set that depends on other values, and so cannot check any by itself."""

    def __init__(self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented) -> None:
        self._is_discrete = is_discrete
        self._event_dim = event_dim
        super().__init__()

    def _known(self, name: str) -> Any:
        value = getattr(self, f"_{name}")
        if value is NotImplemented:
            raise NotImplementedError(f".{name} cannot be determined statically")
        return value

    @property
    def is_discrete(self):
        return self._known("is_discrete")

    @property
    def event_dim(self):
        return self._known("event_dim")

    def __call__(self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented) -> _Dependent:
        """Return a copy with known attributes."""
        return _Dependent(
            is_discrete=self._is_discrete if is_discrete is NotImplemented else is_discrete,
            event_dim=self._event_dim if event_dim is NotImplemented else event_dim,
        )

    def check(self, x):
        raise ValueError("Cannot determine validity of dependent constraint")


class _DependentProperty(property, _Dependent):
    """A property that returns a constraint. The class's attribute is a dependent constraint, which may state
    `is_discrete` and `event_dim`: `@constraints.dependent_property(is_discrete=False, event_dim=0)`."""

    def __init__(
        self,
        fn: Callable[..., Any] | None = None,
        *,
        is_discrete: Any = NotImplemented,
        event_dim: Any = NotImplemented,
    ) -> None:
        property.__init__(self, fn)
        self._is_discrete = is_discrete
        self._event_dim = event_dim

    def __call__(self, fn: Callable[..., Any]) -> _DependentProperty:
        return _DependentProperty(fn, is_discrete=self._is_discrete, event_dim=self._event_dim)


def _require_constraint(base: Any) -> None:
    if not isinstance(base, Constraint):
        raise AssertionError(f"base_constraint must be a Constraint, got {type(base).__name__}")


class _IndependentConstraint(Constraint):
    """A constraint whose last batch dimensions form one element."""

    def __init__(self, base_constraint: Constraint, reinterpreted_batch_ndims: int) -> None:
        _require_constraint(base_constraint)
        if not isinstance(reinterpreted_batch_ndims, int):
            raise AssertionError(
                f"reinterpreted_batch_ndims must be an int, got {type(reinterpreted_batch_ndims).__name__}"
            )
        if reinterpreted_batch_ndims < 0:
            raise AssertionError(f"reinterpreted_batch_ndims must be >= 0, got {reinterpreted_batch_ndims}")
        self.base_constraint = base_constraint
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims
        super().__init__()

    @property
    def is_discrete(self):
        return self.base_constraint.is_discrete

    @property
    def event_dim(self):
        return self.base_constraint.event_dim + self.reinterpreted_batch_ndims

    def check(self, value):
        result = self.base_constraint.check(value)
        count = self.reinterpreted_batch_ndims
        if result.dim() < count:
            raise ValueError(f"Expected value.dim() >= {self.event_dim} but got {value.dim()}")
        return result.reshape(result.shape[: result.dim() - count] + (-1,)).all(-1)

    def __repr__(self):
        return f"{type(self).__name__[1:]}({self.base_constraint!r}, {self.reinterpreted_batch_ndims})"


class MixtureSameFamilyConstraint(Constraint):
    """Values in the support of every component: `base_constraint` is that of a batch of components, whose last batch
    dimension is the mixture's."""

    def __init__(self, base_constraint: Constraint) -> None:
        _require_constraint(base_constraint)
        self.base_constraint = base_constraint
        super().__init__()

    @property
    def is_discrete(self):
        return self.base_constraint.is_discrete

    @property
    def event_dim(self):
        return self.base_constraint.event_dim

    def check(self, value):
        event_dim = self.event_dim
        if value.dim() < event_dim:
            raise ValueError(f"Expected value.dim() >= {event_dim} but got {value.dim()}")
        each = self.base_constraint.check(value.unsqueeze(-1 - event_dim))
        return each.reshape(value.shape[: value.dim() - event_dim] + (-1,)).all(-1)

    def __repr__(self):
        return f"{type(self).__name__}({self.base_constraint!r})"


class _Joined(Constraint):
    """Several constraints for the parts of a value along `dim`."""

    def __init__(self, cseq: Sequence[Constraint], dim: int = 0) -> None:
        self.cseq = list(cseq)
        for constraint in self.cseq:
            if not isinstance(constraint, Constraint):
                raise AssertionError("All elements of cseq must be Constraint instances")
        self.dim = dim
        super().__init__()

    @property
    def is_discrete(self):
        return any(constraint.is_discrete for constraint in self.cseq)

    def _require_dim(self, value: Tensor) -> None:
        if not -value.dim() <= self.dim < value.dim():
            raise AssertionError(f"dim {self.dim} out of range for value with {value.dim()} dimensions")


class _Cat(_Joined):
    def __init__(self, cseq: Sequence[Constraint], dim: int = 0, lengths: Sequence[int] | None = None) -> None:
        super().__init__(cseq, dim)
        self.lengths = [1] * len(self.cseq) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.cseq):
            raise AssertionError(f"lengths ({len(self.lengths)}) must match cseq ({len(self.cseq)})")

    @property
    def event_dim(self):
        return max(constraint.event_dim for constraint in self.cseq)

    def check(self, value):
        self._require_dim(value)
        parts = value.split(self.lengths, self.dim)
        return gl.cat([constraint.check(part) for constraint, part in zip(self.cseq, parts, strict=True)], self.dim)


class _Stack(_Joined):
    @property
    def event_dim(self):
        inner = max(constraint.event_dim for constraint in self.cseq)
        return inner + (self.dim + inner < 0)

    def check(self, value):
        self._require_dim(value)
        parts = value.unbind(self.dim)
        return gl.stack([constraint.check(part) for constraint, part in zip(self.cseq, parts, strict=False)], self.dim)


def is_dependent(constraint: Constraint) -> bool:
    """Return whether a constraint is itself a dependent one. False for one made of dependent constraints."""
    return isinstance(constraint, _Dependent)


dependent = _Dependent()
dependent_property = _DependentProperty
independent = _IndependentConstraint
boolean = _Boolean()
one_hot = _OneHot()
nonnegative_integer = _IntegerGreaterThan(0)
positive_integer = _IntegerGreaterThan(1)
integer_interval = _IntegerInterval
real = _Real()
real_vector = independent(real, 1)
positive = _GreaterThan(0.0)
nonnegative = _GreaterThanEq(0.0)
greater_than = _GreaterThan
greater_than_eq = _GreaterThanEq
less_than = _LessThan
multinomial = _Multinomial
unit_interval = _Interval(0.0, 1.0)
interval = _Interval
half_open_interval = _HalfOpenInterval
simplex = _Simplex()
lower_triangular = _LowerTriangular()
lower_cholesky = _LowerCholesky()
corr_cholesky = _CorrCholesky()
square = _Square()
symmetric = _Symmetric()
positive_semidefinite = _PositiveSemidefinite()
positive_definite = _PositiveDefinite()
cat = _Cat
stack = _Stack
