"""The base of transforms, and transforms made of others: inverses, chains, and of the parts of a tensor."""

from __future__ import annotations

import functools
import operator
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import gradloom as gl
from gradloom import Tensor

from . import constraints
from .utils import _sum_rightmost, lazy_property

TOO_FEW = "Too few dimensions on input"


def require(condition: Any, message: str, error: type[Exception] = ValueError) -> None:
    if not condition:
        raise error(message)


class Transform:
    """A map y = f(x) with an inverse, or a pseudo-inverse for which f(inv(f(x))) = f(x).

    A subclass defines `_call`, `_inverse` and, if it is bijective, `log_abs_det_jacobian`.

    Args:
        cache_size: 1 keeps the last pair (x, y), so that inverting a result returns the very x; 0 keeps nothing.

    Attributes:
        domain, codomain: constraints on x and y. Their `event_dim` is the number of dimensions that f maps at once.
        bijective: whether the inverse is one.
        sign: +1 or -1 for a monotone map of numbers, a tensor if it differs in the batch.

    Raises:
        ValueError: for another cache size.
    """

    bijective: Any = False
    domain: Any
    codomain: Any

    def __init__(self, cache_size: int = 0) -> None:
        require(cache_size in (0, 1), "cache_size must be 0 or 1")
        self._cache_size = cache_size
        self._cached_x_y: tuple[Any, Any] = (None, None)
        self._inv: Any = None
        super().__init__()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_inv": None}

    @property
    def event_dim(self) -> int:
        """Number of dimensions that are mapped at once. Raises ValueError if those of x and y differ."""
        dim = self.domain.event_dim
        require(dim == self.codomain.event_dim, "Please use either .domain.event_dim or .codomain.event_dim")
        return dim

    @property
    def inv(self) -> Transform:
        """The inverse transform, whose own inverse is this one."""
        inverse = None if self._inv is None else self._inv()
        if inverse is None:
            inverse = _InverseTransform(self)
            self._inv = weakref.ref(inverse)
        return inverse

    @property
    def sign(self) -> Any:
        """The sign of the derivative, if the transform is monotone."""
        raise NotImplementedError

    def _options(self) -> tuple[Any, ...] | None:
        """Return the arguments that make an equal transform, but for the cache; None if it is not known."""
        return () if type(self).__init__ is Transform.__init__ else None

    def with_cache(self, cache_size: int = 1) -> Transform:
        """Return the transform with that cache size."""
        if self._cache_size == cache_size:
            return self
        options = self._options()
        if options is None:
            raise NotImplementedError(f"{type(self)}.with_cache is not implemented")
        return type(self)(*options, cache_size=cache_size)

    def __eq__(self, other: Any) -> bool:
        return self is other

    __hash__ = None

    def __ne__(self, other: Any) -> bool:
        return not self.__eq__(other)

    def __call__(self, x: Any) -> Any:
        """Return f(x)."""
        return self._cached(0, x, self._call)

    def _inv_call(self, y: Any) -> Any:
        return self._cached(1, y, self._inverse)

    def _cached(self, side: int, value: Any, compute: Callable[[Any], Any]) -> Any:
        """Return `compute(value)`, or its counterpart if `value` is the last x (`side` 0) or y (1)."""
        if not self._cache_size:
            return compute(value)
        if self._cached_x_y[side] is value:
            return self._cached_x_y[1 - side]
        result = compute(value)
        self._cached_x_y = (result, value) if side else (value, result)
        return result

    def _call(self, x: Any) -> Any:
        raise NotImplementedError

    def _inverse(self, y: Any) -> Any:
        raise NotImplementedError

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return log |dy/dx|, without the event dimensions, where y = f(x)."""
        raise NotImplementedError

    def forward_shape(self, shape: Any) -> Any:
        """Return the shape of f(x) for the shape of x."""
        return shape

    def inverse_shape(self, shape: Any) -> Any:
        """Return the shape of x for the shape of f(x)."""
        return shape

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class _InverseTransform(Transform):
    """The inverse of a transform."""

    def __init__(self, transform: Transform) -> None:
        super().__init__(cache_size=transform._cache_size)
        self._inv: Transform = transform

    def __getstate__(self):
        return self.__dict__

    @constraints.dependent_property(is_discrete=False)
    def domain(self):
        return self._inv.codomain

    @constraints.dependent_property(is_discrete=False)
    def codomain(self):
        return self._inv.domain

    @property
    def bijective(self):
        return self._inv.bijective

    @property
    def sign(self):
        return self._inv.sign

    @property
    def inv(self):
        return self._inv

    def with_cache(self, cache_size=1):
        return self.inv.with_cache(cache_size).inv

    def __eq__(self, other):
        return isinstance(other, _InverseTransform) and self._inv == other._inv

    def __call__(self, x):
        return self._inv._inv_call(x)

    def log_abs_det_jacobian(self, x, y):
        return -self._inv.log_abs_det_jacobian(y, x)

    def forward_shape(self, shape):
        return self._inv.inverse_shape(shape)

    def inverse_shape(self, shape):
        return self._inv.forward_shape(shape)

    def __repr__(self):
        return f"{type(self).__name__}({self._inv!r})"


class Plain(Transform):
    """A transform without parameters: all of a class are equal."""

    def __eq__(self, other):
        return isinstance(other, type(self))


def _joint_dims(dims: Iterator[tuple[int, int]], start: int) -> int:
    """Return how many dimensions of its first input a chain of transforms maps at once, walking from its last one.

    Args:
        dims: the event dimensions of input and output of each transform, the last transform first.
        start: the event dimensions of the chain's last output.
    """
    total = start
    for into, out_of in dims:
        total = max(total + into - out_of, into)
    return total


def widened(constraint: Any, event_dim: int) -> Any:
    """Return the constraint with so many event dimensions; it has at most as many."""
    more = event_dim - constraint.event_dim
    return constraints.independent(constraint, more) if more > 0 else constraint


class ComposeTransform(Transform):
    """Several transforms one after the other.

    Args:
        parts: the transforms, the first to be applied first.
        cache_size: cache size of the parts, if not 0.
    """

    def __init__(self, parts: list[Transform], cache_size: int = 0) -> None:
        if cache_size:
            parts = [part.with_cache(cache_size) for part in parts]
        super().__init__(cache_size=cache_size)
        self.parts = parts

    def __eq__(self, other):
        return isinstance(other, ComposeTransform) and self.parts == other.parts

    @constraints.dependent_property(is_discrete=False)
    def domain(self):
        if not self.parts:
            return constraints.real
        dims = ((part.domain.event_dim, part.codomain.event_dim) for part in reversed(self.parts))
        return widened(self.parts[0].domain, _joint_dims(dims, self.parts[-1].codomain.event_dim))

    @constraints.dependent_property(is_discrete=False)
    def codomain(self):
        if not self.parts:
            return constraints.real
        dims = ((part.codomain.event_dim, part.domain.event_dim) for part in self.parts)
        return widened(self.parts[-1].codomain, _joint_dims(dims, self.parts[0].domain.event_dim))

    @lazy_property
    def bijective(self):
        return all(part.bijective for part in self.parts)

    @lazy_property
    def sign(self):
        return functools.reduce(operator.mul, [part.sign for part in self.parts], 1)

    @property
    def inv(self):
        inverse = None if self._inv is None else self._inv()
        if inverse is None:
            inverse = ComposeTransform([part.inv for part in reversed(self.parts)])
            self._inv = weakref.ref(inverse)
            inverse._inv = weakref.ref(self)
        return inverse

    def with_cache(self, cache_size=1):
        return self if self._cache_size == cache_size else ComposeTransform(self.parts, cache_size=cache_size)

    def __call__(self, x):
        for part in self.parts:
            x = part(x)
        return x

    def log_abs_det_jacobian(self, x, y):
        if not self.parts:
            return gl.zeros_like(x)
        total, event_dim = 0, self.domain.event_dim
        for part in self.parts:
            result = y if part is self.parts[-1] else part(x)
            total = total + _sum_rightmost(part.log_abs_det_jacobian(x, result), event_dim - part.domain.event_dim)
            event_dim += part.codomain.event_dim - part.domain.event_dim
            x = result
        return total

    def forward_shape(self, shape):
        for part in self.parts:
            shape = part.forward_shape(shape)
        return shape

    def inverse_shape(self, shape):
        for part in reversed(self.parts):
            shape = part.inverse_shape(shape)
        return shape

    def __repr__(self):
        parts = ",\n    ".join([repr(part) for part in self.parts])
        return f"{type(self).__name__}(\n    {parts}\n)"


identity_transform = ComposeTransform([])


class IndependentTransform(Transform):
    """A transform whose last batch dimensions count as event dimensions.

    Args:
        base_transform: a transform.
        reinterpreted_batch_ndims: number of such dimensions.
        cache_size: cache size, also of the base transform.
    """

    def __init__(self, base_transform: Transform, reinterpreted_batch_ndims: int, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.base_transform = base_transform.with_cache(cache_size)
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    def _options(self):
        return self.base_transform, self.reinterpreted_batch_ndims

    @constraints.dependent_property(is_discrete=False)
    def domain(self):
        return constraints.independent(self.base_transform.domain, self.reinterpreted_batch_ndims)

    @constraints.dependent_property(is_discrete=False)
    def codomain(self):
        return constraints.independent(self.base_transform.codomain, self.reinterpreted_batch_ndims)

    @property
    def bijective(self):
        return self.base_transform.bijective

    @property
    def sign(self):
        return self.base_transform.sign

    def _call(self, x):
        require(x.dim() >= self.domain.event_dim, TOO_FEW)
        return self.base_transform(x)

    def _inverse(self, y):
        require(y.dim() >= self.codomain.event_dim, TOO_FEW)
        return self.base_transform.inv(y)

    def log_abs_det_jacobian(self, x, y):
        return _sum_rightmost(self.base_transform.log_abs_det_jacobian(x, y), self.reinterpreted_batch_ndims)

    def forward_shape(self, shape):
        return self.base_transform.forward_shape(shape)

    def inverse_shape(self, shape):
        return self.base_transform.inverse_shape(shape)

    def __repr__(self):
        return f"{type(self).__name__}({self.base_transform!r}, {self.reinterpreted_batch_ndims})"


class _Parts(Transform):
    """Transforms of the parts of a tensor along `dim`."""

    dim: int

    def __init__(self, tseq: Sequence[Transform], dim: int, cache_size: int) -> None:
        require(
            all(isinstance(one, Transform) for one in tseq),
            "All elements of tseq must be Transform instances",
            AssertionError,
        )
        if cache_size:
            tseq = [one.with_cache(cache_size) for one in tseq]
        super().__init__(cache_size=cache_size)
        self.transforms = list(tseq)
        self.dim = dim

    @property
    def bijective(self):
        return all(one.bijective for one in self.transforms)

    def _require_dim(self, value: Tensor) -> None:
        count = value.dim()
        message = f"dim {self.dim} out of range for tensor with {count} dimensions"
        require(-count <= self.dim < count, message, AssertionError)

    def _split(self, value: Tensor) -> Sequence[Tensor]:
        raise NotImplementedError

    def _join(self, parts: list[Tensor]) -> Tensor:
        raise NotImplementedError

    def _call(self, x):
        return self._join([one(part) for one, part in zip(self.transforms, self._split(x), strict=True)])

    def _inverse(self, y):
        return self._join([one.inv(part) for one, part in zip(self.transforms, self._split(y), strict=True)])


class CatTransform(_Parts):
    """Transforms of consecutive pieces along a dimension.

    Args:
        tseq: the transforms.
        dim: the dimension.
        lengths: the length of each piece, by default 1.
        cache_size: cache size of the transforms, if not 0.
    """

    def __init__(
        self, tseq: Sequence[Transform], dim: int = 0, lengths: Sequence[int] | None = None, cache_size: int = 0
    ) -> None:
        super().__init__(tseq, dim, cache_size)
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)
        require(
            len(self.lengths) == len(self.transforms),
            f"lengths ({len(self.lengths)}) must match transforms ({len(self.transforms)})",
            AssertionError,
        )

    def _options(self):
        return self.transforms, self.dim, self.lengths

    @lazy_property
    def event_dim(self):
        return max(one.event_dim for one in self.transforms)

    @lazy_property
    def length(self):
        return sum(self.lengths)

    @constraints.dependent_property
    def domain(self):
        return constraints.cat([one.domain for one in self.transforms], self.dim, self.lengths)

    @constraints.dependent_property
    def codomain(self):
        return constraints.cat([one.codomain for one in self.transforms], self.dim, self.lengths)

    def _split(self, value):
        self._require_dim(value)
        size = value.size(self.dim)
        require(size == self.length, f"x.size({self.dim}) = {size} must equal length {self.length}", AssertionError)
        return value.split(self.lengths, self.dim)

    def _join(self, parts):
        return gl.cat(parts, self.dim)

    def log_abs_det_jacobian(self, x, y):
        terms = []
        for one, left, right in zip(self.transforms, self._split(x), self._split(y), strict=True):
            term = one.log_abs_det_jacobian(left, right)
            terms.append(_sum_rightmost(term, self.event_dim - one.event_dim))
        # The pieces' dimension counted from the end of what is left; the events may have included it.
        dim = (self.dim - x.dim() if self.dim >= 0 else self.dim) + self.event_dim
        return gl.cat(terms, dim) if dim < 0 else functools.reduce(operator.add, terms)


class StackTransform(_Parts):
    """A transform for each index of a dimension.

    Args:
        tseq: the transforms, as many as the dimension's size.
        dim: the dimension.
        cache_size: cache size of the transforms, if not 0.
    """

    def __init__(self, tseq: Sequence[Transform], dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(tseq, dim, cache_size)

    def _options(self):
        return self.transforms, self.dim

    @constraints.dependent_property
    def domain(self):
        return constraints.stack([one.domain for one in self.transforms], self.dim)

    @constraints.dependent_property
    def codomain(self):
        return constraints.stack([one.codomain for one in self.transforms], self.dim)

    def _split(self, value):
        self._require_dim(value)
        size, count = value.size(self.dim), len(self.transforms)
        require(size == count, f"x.size({self.dim}) = {size} must equal len(transforms) {count}", AssertionError)
        return value.unbind(self.dim)

    def _join(self, parts):
        return gl.stack(parts, self.dim)

    def log_abs_det_jacobian(self, x, y):
        pairs = zip(self.transforms, self._split(x), self._split(y), strict=True)
        return gl.stack([one.log_abs_det_jacobian(left, right) for one, left, right in pairs], self.dim)
