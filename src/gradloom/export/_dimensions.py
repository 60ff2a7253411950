"""Dynamic dimensions of exported programs: their names, ranges, and where in the arguments they are."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from ..core.tensor import Tensor
from ..types.public import found_in
from ..utils import _pytree as pytree

__all__ = ["Axis", "Dim", "UserError", "ValueRange", "axes_of", "dims"]

UNBOUNDED = sys.maxsize - 1  # the largest maximum; it means that there is none


class UserError(RuntimeError):
    """An exported program does not hold for the dynamic dimensions that were asked for."""


class _DimHint:
    """A dimension without a name: AUTO is dynamic if the program allows, DYNAMIC must be, STATIC is not."""

    def __init__(self, kind: str) -> None:
        self.type = kind

    def __repr__(self) -> str:
        return f"DimHint({self.type})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _DimHint) and self.type == other.type

    def __hash__(self) -> int:
        return hash(self.type)


class Dim:
    """A dynamic dimension. The same one in two places, there and in `gradloom.onnx.export`, means equal sizes.

    `2 * batch + 1` is a dimension that follows from it. `Dim.AUTO` is a dimension that is dynamic if the program
    allows, `Dim.DYNAMIC` one that must be, and `Dim.STATIC` one that is not.

    Args:
        name: the name, an identifier.
        min, max: bounds of the size, inclusive.

    Raises:
        AssertionError: for another name, or a minimum above the maximum.
    """

    AUTO: ClassVar[_DimHint] = _DimHint("AUTO")
    DYNAMIC: ClassVar[_DimHint] = _DimHint("DYNAMIC")
    STATIC: ClassVar[_DimHint] = _DimHint("STATIC")

    def __init__(self, name: str, *, min: int | None = None, max: int | None = None) -> None:
        low, high = 0 if min is None else min, UNBOUNDED if max is None else max
        if high < low:
            raise AssertionError(f"Cannot create Dim with inconsistent min={low}, max={high}")
        if not name.isidentifier():
            raise AssertionError(f"Dim name must be a valid identifier, got {name}")
        self.__name__, self.min, self.max = name, low, high

    def __add__(self, other: int) -> _DerivedDim:
        return _DerivedDim(self, 1, other)

    def __radd__(self, other: int) -> _DerivedDim:
        return self + other

    def __sub__(self, other: int) -> _DerivedDim:
        return self + -other

    def __rsub__(self, other: int) -> Any:
        raise NotImplementedError(
            f"Attempted to negate {self.__name__}. Please use increasing operations, such as + or *"
        )

    def __mul__(self, other: int) -> _DerivedDim:
        if not isinstance(other, int) or other <= 0:
            raise NotImplementedError(f"Attempted to multiply {self.__name__} by {other}: only by positive integers")
        return _DerivedDim(self, other, 0)

    def __rmul__(self, other: int) -> _DerivedDim:
        return self * other

    def __repr__(self) -> str:
        bounds = [f"min={self.min}"] if self.max == UNBOUNDED or self.min else []
        bounds += [f"max={self.max}"] if self.max != UNBOUNDED else []
        return f"Dim({', '.join([repr(self.__name__), *bounds])})"


class _DerivedDim:
    """`scale * root + offset`, for a Dim `root`."""

    def __init__(self, root: Dim, scale: int, offset: int) -> None:
        if type(offset) is not int:
            raise NotImplementedError(f"Attempted to add {offset} to {root.__name__}: only integers")
        self.root, self._scale, self._offset = root, scale, offset

    @property
    def __name__(self) -> str:  # type: ignore[override]
        product = self.root.__name__ if self._scale == 1 else f"{self._scale}*{self.root.__name__}"
        sign = "-" if self._offset < 0 else "+"
        return f"{product} {sign} {abs(self._offset)}" if self._offset else product

    def __add__(self, other: int) -> _DerivedDim:
        return _DerivedDim(self.root, self._scale, self._offset + other)

    __radd__ = __add__

    def __sub__(self, other: int) -> _DerivedDim:
        return self + -other

    def __mul__(self, other: int) -> _DerivedDim:
        return _DerivedDim(self.root, self._scale * other, self._offset * other)

    __rmul__ = __mul__

    def __repr__(self) -> str:
        return self.__name__


def dims(*names: str, min: int | None = None, max: int | None = None) -> tuple[Dim, ...]:
    """Return a Dim for each name, with the same bounds.

    Args:
        names: the names.
        min, max: bounds of the sizes, inclusive.
    """
    return tuple(Dim(name, min=min, max=max) for name in names)


@dataclass(frozen=True)
class ValueRange:
    """The sizes for which a program holds, inclusive."""

    lower: int
    upper: int

    def __repr__(self) -> str:
        return f"VR[{self.lower}, {'int_oo' if self.upper == UNBOUNDED else self.upper}]"


@dataclass(frozen=True)
class Axis:
    """A dynamic dimension of an argument; its size is `scale * size of the root + offset`.

    Attributes:
        leaf: number of the tensor among the leaves of the arguments.
        dim: the dimension.
        root: name of the Dim, or of the place for one without a name.
        scale, offset: of the size.
        automatic: whether the program decides if it is dynamic.
        bounds: of the root's size.
    """

    leaf: int
    dim: int
    root: str
    scale: int
    offset: int
    automatic: bool
    bounds: ValueRange

    def size(self, root: int) -> int:
        """Return the size for a size of the root."""
        return self.scale * root + self.offset

    def root_of(self, size: int, place: str) -> int:
        """Return the root's size for a size. Raises UserError, which names the place, if there is none."""
        found, rest = divmod(size - self.offset, self.scale)
        if rest:
            raise UserError(f"Constraints violated ({self.root})! {place} is {size}, which is not {self}")
        return found

    def __str__(self) -> str:
        product = self.root if self.scale == 1 else f"{self.scale}*{self.root}"
        return f"{product} {'-' if self.offset < 0 else '+'} {abs(self.offset)}" if self.offset else product


def axes_of(names: Sequence[str], values: Sequence[Any], dynamic_shapes: Any) -> list[Axis]:
    """Return the dynamic dimensions of arguments.

    Args:
        names: the arguments' names.
        values: the arguments, nested containers of tensors and constants.
        dynamic_shapes: {name: specification}, or a list or tuple of specifications: None, for a tensor {dim: Dim} or a
            list with a Dim or None for each dimension, for a container the same container of specifications.

    Raises:
        UserError: if it does not fit the arguments.
    """
    if dynamic_shapes is None:
        return []
    if isinstance(dynamic_shapes, Mapping):
        if set(dynamic_shapes) != set(names):
            raise UserError(
                f"When `dynamic_shapes` is specified as a dict, its top-level keys must be the arg names {list(names)} "
                f"of `inputs`, but here they are {list(dynamic_shapes)}. Alternatively, you could also ignore arg "
                "names entirely and specify `dynamic_shapes` as a list/tuple matching `inputs`."
            )
        given = [dynamic_shapes[name] for name in names]
    elif isinstance(dynamic_shapes, (list, tuple)) and len(dynamic_shapes) == len(values):
        given = list(dynamic_shapes)
    else:
        raise UserError(
            f"Expected dynamic_shapes to be a dict, or a list/tuple of {len(values)}, got {dynamic_shapes!r}"
        )
    found: list[Axis] = []
    first = 0
    for name, value, specification in zip(names, values, given, strict=True):
        for leaf, path, dimensions in _leaves(value, specification, f"L['{name}']"):
            found += _axes(first + leaf, path, dimensions)
        first += len(pytree.tree_leaves(value))
    return found


def _leaves(value: Any, specification: Any, path: str) -> list[tuple[int, str, dict[int, Any]]]:
    """Return (number of the leaf, its path, {dim: Dim}) for each leaf of an argument with a specification."""
    if specification is None:
        return []
    if isinstance(value, Tensor):
        return [(0, path, _by_dim(value, specification, path))]
    items: Any = value.items() if isinstance(value, Mapping) else enumerate(value) if _is_list(value) else None
    if items is None or type(specification) is not type(value) or len(specification) != len(value):
        raise UserError(
            f"Detected mismatch between the structure of `inputs` and `dynamic_shapes`: {path} is {value!r}"
        )
    found, first = [], 0
    for key, inner in items:
        inside = _leaves(inner, specification[key], f"{path}[{key!r}]")
        found += [(first + leaf, place, dimensions) for leaf, place, dimensions in inside]
        first += len(pytree.tree_leaves(inner))
    return found


def _is_list(value: Any) -> bool:
    return isinstance(value, (list, tuple))


def _by_dim(tensor: Tensor, specification: Any, path: str) -> dict[int, Any]:
    if isinstance(specification, Mapping):
        if not all(isinstance(dim, int) and -tensor.ndim <= dim < tensor.ndim for dim in specification):
            raise UserError(
                f"Expected dimensions of `{path}` to be in range of its {tensor.ndim}, got {specification!r}"
            )
        return {dim % tensor.ndim: each for dim, each in specification.items()}
    if _is_list(specification) and len(specification) == tensor.ndim:
        return dict(enumerate(specification))
    raise UserError(f"Expected dynamic shape spec of `{path}` to have length {tensor.ndim}, got {specification!r}")


def _axes(leaf: int, path: str, dimensions: Mapping[int, Any]) -> list[Axis]:
    found = []
    for dim, each in dimensions.items():
        if each is None or isinstance(each, int) or each == Dim.STATIC:
            continue
        if isinstance(each, _DimHint):
            place = f"{path}.size()[{dim}]"
            found.append(Axis(leaf, dim, place, 1, 0, each == Dim.AUTO, ValueRange(2, UNBOUNDED)))
            continue
        derived = each if isinstance(each, _DerivedDim) else None
        root = each if derived is None else derived.root
        if not isinstance(root, Dim):
            raise UserError(f"Unexpected dimension {each!r} of `{path}`: give a Dim, Dim.AUTO, DYNAMIC, STATIC or None")
        scale, offset = (1, 0) if derived is None else (derived._scale, derived._offset)
        found.append(Axis(leaf, dim, root.__name__, scale, offset, False, ValueRange(root.min, root.max)))
    return found


found_in(__name__.rpartition(".")[0], Dim, dims)
