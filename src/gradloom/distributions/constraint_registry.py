"""Transforms from unconstrained numbers to the set that a constraint describes.

`biject_to(constraint)` returns a bijection, for changes of variables; `transform_to(constraint)` may return a simpler,
redundant map, for optimisation.
"""

from __future__ import annotations

from collections.abc import Callable
from numbers import Number
from typing import Any

from . import constraints, transforms

__all__ = ["ConstraintRegistry", "biject_to", "transform_to"]


class ConstraintRegistry:
    """A table from classes of constraints to functions that make a transform for one."""

    def __init__(self) -> None:
        self._registry: dict[type, Callable[[Any], transforms.Transform]] = {}
        super().__init__()

    def register(self, constraint: Any, factory: Callable[[Any], transforms.Transform] | None = None) -> Any:
        """Register a function for a class of constraints; also a decorator.

        Args:
            constraint: the class, or an instance of it.
            factory: makes a transform for a constraint of that class.

        Raises:
            TypeError: if `constraint` is no constraint.
        """
        if factory is None:
            return lambda made: self.register(constraint, made)
        owner = type(constraint) if isinstance(constraint, constraints.Constraint) else constraint
        if not (isinstance(owner, type) and issubclass(owner, constraints.Constraint)):
            raise TypeError(f"Expected constraint to be either a Constraint subclass or instance, but got {constraint}")
        self._registry[owner] = factory
        return factory

    def __call__(self, constraint: Any) -> transforms.Transform:
        """Return the transform for a constraint. Raises NotImplementedError if none is registered for its class."""
        factory = self._registry.get(type(constraint))
        if factory is None:
            raise NotImplementedError(f"Cannot transform {type(constraint).__name__} constraints")
        return factory(constraint)

    def __reduce__(self) -> Any:
        """Pickle the two registries of the library by their names, and others with what is registered."""
        for name in ("biject_to", "transform_to"):
            if globals().get(name) is self:
                return name
        return object.__reduce__(self)


biject_to = ConstraintRegistry()
transform_to = ConstraintRegistry()


def _above(constraint):
    return transforms.ComposeTransform(
        [transforms.ExpTransform(), transforms.AffineTransform(constraint.lower_bound, 1)]
    )


def _below(constraint):
    return transforms.ComposeTransform(
        [transforms.ExpTransform(), transforms.AffineTransform(constraint.upper_bound, -1)]
    )


def _between(constraint):
    low, high = constraint.lower_bound, constraint.upper_bound
    if isinstance(low, Number) and isinstance(high, Number) and (low, high) == (0, 1):
        return transforms.SigmoidTransform()
    return transforms.ComposeTransform([transforms.SigmoidTransform(), transforms.AffineTransform(low, high - low)])


def _register_both() -> None:
    for registry in (biject_to, transform_to):
        registry.register(constraints.real, lambda constraint: transforms.identity_transform)
        for above in (constraints.greater_than, constraints.greater_than_eq):
            registry.register(above, _above)
        registry.register(constraints.less_than, _below)
        for between in (constraints.interval, constraints.half_open_interval):
            registry.register(between, _between)
        registry.register(constraints.corr_cholesky, lambda constraint: transforms.CorrCholeskyTransform())
        registry.register(
            constraints.independent,
            lambda constraint, of=registry: transforms.IndependentTransform(
                of(constraint.base_constraint), constraint.reinterpreted_batch_ndims
            ),
        )
        registry.register(
            constraints.cat,
            lambda constraint, of=registry: transforms.CatTransform(
                [of(one) for one in constraint.cseq], constraint.dim, constraint.lengths
            ),
        )
        registry.register(
            constraints.stack,
            lambda constraint, of=registry: transforms.StackTransform(
                [of(one) for one in constraint.cseq], constraint.dim
            ),
        )


_register_both()
biject_to.register(constraints.simplex, lambda constraint: transforms.StickBreakingTransform())
transform_to.register(constraints.simplex, lambda constraint: transforms.SoftmaxTransform())
transform_to.register(constraints.lower_cholesky, lambda constraint: transforms.LowerCholeskyTransform())
for _matrices in (constraints.positive_definite, constraints.positive_semidefinite):
    transform_to.register(_matrices, lambda constraint: transforms.PositiveDefiniteTransform())
