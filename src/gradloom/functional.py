"""Functions of the main namespace that do more than call one operator.

Some take their arguments in several forms (`meshgrid(x, y)`, `tensordot(a, b, dims=2)`), `unique` returns a variable
number of results, and `norm` takes its order by name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, overload

from .core.tensor import Tensor
from .dispatch import _operators
from .dispatch.overloads import parsed as _parsed
from .types import DType, IntList
from .types.public import found_in as _found_in, found_in_tensors as _found_in_tensors
from .types.size import Size

if TYPE_CHECKING:

    class _AtLeast(Protocol):
        @overload
        def __call__(self, tensor: Tensor, /) -> Tensor: ...
        @overload
        def __call__(self, *tensors: Tensor | Sequence[Tensor]) -> tuple[Tensor, ...]: ...


__all__ = [
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "block_diag",
    "broadcast_shapes",
    "broadcast_tensors",
    "cartesian_prod",
    "cdist",
    "chain_matmul",
    "einsum",
    "is_inference",
    "is_storage",
    "is_tensor",
    "meshgrid",
    "norm",
    "numel",
    "split",
    "tensordot",
    "typename",
    "unique",
    "unique_consecutive",
]


def _listed(tensors):
    """Return arguments that were passed separately or as one list."""
    return tuple(tensors[0]) if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)) else tensors


def is_tensor(obj: object) -> bool:
    """Return whether an object is a Tensor.

    Args:
        obj: anything.
    """
    return isinstance(obj, Tensor)


@_parsed(("self", "Tensor"))
def is_inference(input: Tensor) -> bool:
    """Return whether a tensor was made in inference mode, so that autograd can never record it.

    Args:
        input: a Tensor.

    Raises:
        TypeError: for anything else.
    """
    return input.is_inference()


def is_storage(obj: object) -> bool:
    """Return whether an object is the storage of a tensor.

    Args:
        obj: anything.
    """
    from .storage import TypedStorage, UntypedStorage

    return isinstance(obj, (TypedStorage, UntypedStorage))


def typename(obj: object, /) -> str:
    """Return the qualified name of an object's type; for a tensor, PyTorch's old name, such as torch.FloatTensor.

    Args:
        obj: any object. A class or a function gives its own name.
    """
    if isinstance(obj, Tensor):
        return str(obj.type())
    named: Any = obj if hasattr(obj, "__qualname__") else type(obj)
    module = getattr(named, "__module__", "") or ""
    return named.__qualname__ if module in ("", "builtins") else f"{module}.{named.__qualname__}"


@_parsed(("self", "Tensor"))
def numel(input: Tensor) -> int:
    """Return the number of elements of a tensor.

    Args:
        input: a Tensor.
    """
    return input.numel()


def broadcast_tensors(*tensors: Tensor | Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Return the tensors, each expanded to their common shape.

    Returns:
        A tuple of views.

    Raises:
        RuntimeError: if the shapes do not broadcast.
    """
    return _operators.broadcast_tensors(_listed(tensors))


def broadcast_shapes(*shapes: int | IntList | None) -> Size:
    """Return the broadcast shape of these shapes (tuples or lists of int, or single ints); None is left out.

    Raises:
        RuntimeError: if they do not broadcast.
        ValueError: for a negative size.
    """
    found: list[int] = []
    for position, shape in enumerate(shapes):
        if shape is None:
            continue
        if not isinstance(shape, (int, tuple, list)):
            raise RuntimeError(f"Input shapes should be of type ints, a tuple of ints, or a list of ints, got {shape}")
        shape = (shape,) if isinstance(shape, int) else tuple(shape)
        if min(shape, default=0) < 0:
            raise ValueError(f"Attempting to broadcast a dimension with negative length! {shape} has {min(shape)}")
        found[:0] = [1] * (len(shape) - len(found))
        for i in range(-1, -len(shape) - 1, -1):
            if shape[i] in (1, found[i]):
                continue
            if found[i] != 1:
                raise RuntimeError(
                    f"Attempting to broadcast a dimension of length {shape[i]} at {i}! Mismatching "
                    f"argument at index {position} had {shape}; but expected shape should be "
                    f"broadcastable to {found}"
                )
            found[i] = shape[i]
    return Size(found)


def meshgrid(*tensors: Tensor | Sequence[Tensor], indexing: str | None = None) -> tuple[Tensor, ...]:
    """Return the coordinates of the grid that vectors span.

    Args:
        tensors: 1-dim or 0-dim, of one dtype.
        indexing: "ij" (the default, with a warning), or "xy", which swaps the first two dimensions.

    Returns:
        A tuple with one view per vector, each of the grid's shape.
    """
    tensors = _listed(tensors)
    if indexing is None:
        return _operators.meshgrid(tensors)
    return _operators.meshgrid(tensors, indexing=indexing)


def cartesian_prod(*tensors: Tensor | Sequence[Tensor]) -> Tensor:
    """Return all combinations of one element of each vector, one in each row of a matrix; a single vector unchanged."""
    return _operators.cartesian_prod(_listed(tensors))


def block_diag(*tensors: Tensor | Sequence[Tensor]) -> Tensor:
    """Return the matrix with these matrices on its diagonal and zeros elsewhere; vectors are rows."""
    return _operators.block_diag(_listed(tensors))


def _at_least(name: str) -> _AtLeast:
    def function(*tensors):
        given = _listed(tensors)
        found = getattr(_operators, name)
        return found(given[0]) if len(tensors) == 1 and isinstance(tensors[0], Tensor) else found(given)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""Return a view with at least {name[-2]} dimension(s); a tensor with them is returned itself.

    Args:
        tensors: one Tensor; or several Tensors, or one list of them, for a tuple of results.
    """
    return function


atleast_1d: _AtLeast = _at_least("atleast_1d")
atleast_2d: _AtLeast = _at_least("atleast_2d")
atleast_3d: _AtLeast = _at_least("atleast_3d")


_SUBSCRIPTS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def einsum(*args: Any) -> Tensor:
    """Compute an Einstein summation.

    Args:
        args: an equation and tensors (or one list of them), such as `einsum("ij,jk->ik", a, b)`; or tensors, each
            followed by the list of its subscripts (in range(52), or Ellipsis), and optionally the subscripts of the
            result: `einsum(a, [0, 1], b, [1, 2], [0, 2])`.

    Raises:
        ValueError: if there is no operand, or a subscript is not in range(52).
        RuntimeError: for an equation that is malformed or does not fit the tensors.
    """
    if len(args) < 2:
        raise ValueError(
            "einsum(): must specify the equation string and at least one operand, or at least one operand "
            "and its subscripts list"
        )
    if isinstance(args[0], str):
        equation, operands = args[0], args[1:]
    elif not isinstance(args[0], Tensor) and not hasattr(args[0], "__torch_function__"):
        kind = type(args[0]).__name__
        raise TypeError(f"einsum(): argument 'equation' (position 1) must be str, not {kind}")
    else:
        equation = ",".join(_subscripts(found) for found in args[1::2])
        operands = args[: len(args) // 2 * 2 : 2]
        if len(args) % 2:
            equation += f"->{_subscripts(args[-1])}"
    if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        operands = operands[0]
    return _operators.einsum(equation, list(operands))


def _subscripts(numbers) -> str:
    text = ""
    for n in numbers:
        if n is Ellipsis:
            text += "..."
        elif 0 <= n < 52:
            text += _SUBSCRIPTS[n]
        else:
            raise ValueError("einsum(): subscript in subscript list is not within the valid range [0, 52)")
    return text


def tensordot(
    a: Tensor, b: Tensor, dims: int | Sequence[int] | Sequence[Sequence[int]] | Tensor = 2, out: Tensor | None = None
) -> Tensor:
    """Return the contraction of dimensions of `a` with dimensions of `b`.

    Args:
        dims: the number of a's last and b's first dimensions; or two lists of dimensions; or a tensor with one number,
            or 2 x n dimensions.
        out: Tensor to write the result to.

    Raises:
        RuntimeError: if the dimensions do not fit.
    """
    if isinstance(dims, Tensor):
        dims = dims.tolist()
    if isinstance(dims, (list, tuple)):
        first, second = dims
    elif not isinstance(dims, int):
        raise RuntimeError(
            "tensordot expects dims to be int or tuple[list[int], list[int]] or list[list[int]] containing two lists, "
            f"but got dims={dims}"
        )
    else:
        if dims < 0:
            raise RuntimeError(f"tensordot expects dims >= 0, but got dims={dims}")
        if dims > min(a.dim(), b.dim()):
            raise RuntimeError(f"tensordot expects dims < ndim_a or ndim_b, but got dims={dims}")
        first, second = tuple(range(-dims, 0)), tuple(range(dims))
    first, second = ((d,) if isinstance(d, int) else tuple(d) for d in (first, second))
    if out is None:
        return _operators.tensordot(a, b, first, second)
    return _operators.tensordot(a, b, first, second, out=out)


def chain_matmul(*matrices: Tensor, out: Tensor | None = None) -> Tensor:
    """Return the product of matrices, in the order with the fewest multiplications.

    Args:
        out: Tensor to write the result to.
    """
    return _operators.chain_matmul(matrices) if out is None else _operators.chain_matmul(matrices, out=out)


_MODES = {"use_mm_for_euclid_dist_if_necessary": None, "use_mm_for_euclid_dist": 1, "donot_use_mm_for_euclid_dist": 2}


def _sparse_norm(input, p, dim, keepdim, dtype):
    if dtype is not None:
        return _operators.norm_ScalarOpt_dtype(input, p, dtype)
    return _operators.norm_ScalarOpt_dim(input, p, () if dim is None else dim, keepdim)


def norm(
    input: Tensor,
    p: float | str | None = "fro",
    dim: int | IntList | None = None,
    keepdim: bool = False,
    out: Tensor | None = None,
    dtype: DType | None = None,
) -> Tensor:
    """Return the norm of a tensor: of all elements as one vector, or over dimensions.

    Args:
        input: floating or complex.
        p: the order of a vector norm (a number, or "fro" for 2), or "nuc", the sum of a matrix's singular values.
        dim: int, sequence of ints, or None for all.
        dtype: dtype of the computation.
        keepdim: keep the reduced dimensions with size 1.
        out: Tensor to write the result to.

    Returns:
        Tensor, real.

    Raises:
        RuntimeError: for another name, or integers.
    """
    if isinstance(dim, int):
        dim = (dim,)
    keywords: dict[str, Any] = {} if out is None else {"out": out}
    if p == "nuc":
        dim = tuple(range(input.dim())) if dim is None else dim
        return _operators.linalg_matrix_norm(input, "nuc", dim, keepdim, dtype=dtype, **keywords)
    if isinstance(p, str):
        if p != "fro":
            raise RuntimeError(f"only valid string values are 'fro' and 'nuc', found {p}")
        p = 2
    if getattr(input, "is_sparse", False) and out is None:
        return _sparse_norm(input, p, dim, keepdim, dtype)
    if dtype is not None:
        keywords["dtype"] = dtype
    return _operators.linalg_vector_norm(input, 2 if p is None else p, dim, keepdim, **keywords)


def cdist(x1: Tensor, x2: Tensor, p: float = 2.0, compute_mode: str = "use_mm_for_euclid_dist_if_necessary") -> Tensor:
    """Return the p-norm distance of each row of `x1` to each row of `x2`.

    Args:
        x1, x2: (..., P, M) and (..., R, M), floating; the batches broadcast.
        compute_mode: PyTorch's name for when to compute the distances for p = 2 by a matrix product.

    Returns:
        Tensor (..., P, R)

    Raises:
        ValueError: for an unknown mode.
    """
    if compute_mode not in _MODES:
        raise ValueError(f"{compute_mode} is not a valid value for compute_mode")
    return _operators.cdist(x1, x2, p, _MODES[compute_mode])


def split(tensor: Tensor, split_size_or_sections: int | IntList, dim: int = 0) -> tuple[Tensor, ...]:
    """Return views of consecutive parts of a tensor.

    Args:
        tensor: of any shape but ().
        split_size_or_sections: the size of each part along `dim`, of which the last may be less; or the sizes of all.
        dim: the dimension that is divided.

    Raises:
        RuntimeError: for sizes whose sum is not that of the dimension.
    """
    return _operators.split(tensor, split_size_or_sections, dim)


@overload
def unique(
    input: Tensor,
    sorted: bool = True,
    return_inverse: Literal[False] = False,
    return_counts: Literal[False] = False,
    dim: int | None = None,
) -> Tensor: ...


@overload
def unique(
    input: Tensor,
    sorted: bool = True,
    *,
    return_inverse: Literal[True],
    return_counts: Literal[False] = False,
    dim: int | None = None,
) -> tuple[Tensor, Tensor]: ...


@overload
def unique(
    input: Tensor,
    sorted: bool = True,
    *,
    return_inverse: Literal[False] = False,
    return_counts: Literal[True],
    dim: int | None = None,
) -> tuple[Tensor, Tensor]: ...


@overload
def unique(
    input: Tensor,
    sorted: bool = True,
    *,
    return_inverse: Literal[True],
    return_counts: Literal[True],
    dim: int | None = None,
) -> tuple[Tensor, Tensor, Tensor]: ...


@overload
def unique(
    input: Tensor,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any: ...


def unique(
    input: Tensor,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any:
    """Return the distinct elements of a tensor in order, or its distinct slices along `dim`.

    Args:
        sorted: accepted; the elements are always in order.

    Returns:
        The distinct elements; or a tuple of them, of the index among them of each element
        of `input` if `return_inverse`, and of their counts if `return_counts`.
    """
    if dim is None:
        found = _operators._unique2(input, sorted, return_inverse, return_counts)
    else:
        _require_dim(input, dim)
        found = _operators.unique_dim(input, dim, sorted, return_inverse, return_counts)
    return _asked_for(found, return_inverse, return_counts)


def _require_dim(input, dim):
    if isinstance(input, Tensor) and isinstance(dim, int) and not input.dim():
        raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")


@overload
def unique_consecutive(
    input: Tensor, return_inverse: Literal[False] = False, return_counts: Literal[False] = False, dim: int | None = None
) -> Tensor: ...


@overload
def unique_consecutive(
    input: Tensor, *, return_inverse: Literal[True], return_counts: Literal[False] = False, dim: int | None = None
) -> tuple[Tensor, Tensor]: ...


@overload
def unique_consecutive(
    input: Tensor, *, return_inverse: Literal[False] = False, return_counts: Literal[True], dim: int | None = None
) -> tuple[Tensor, Tensor]: ...


@overload
def unique_consecutive(
    input: Tensor, *, return_inverse: Literal[True], return_counts: Literal[True], dim: int | None = None
) -> tuple[Tensor, Tensor, Tensor]: ...


@overload
def unique_consecutive(
    input: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any: ...


def unique_consecutive(
    input: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """Return the elements of a tensor, or its slices along `dim`, that differ from the one before them.

    Args:
        input: a Tensor.
        return_inverse: also return each element's index in the result.
        return_counts: also return the length of each run.

    Returns:
        As `unique`.
    """
    if dim is not None:
        _require_dim(input, dim)
    found = _operators.unique_consecutive(input, return_inverse, return_counts, dim)
    return _asked_for(found, return_inverse, return_counts)


def _asked_for(found, return_inverse, return_counts):
    values, inverse, counts = found
    if not (return_inverse or return_counts):
        return values
    return (values, *((inverse,) if return_inverse else ()), *((counts,) if return_counts else ()))


def _norm_of(self, p="fro", dim=None, keepdim=False, dtype=None):
    """Return the norm of the tensor; see `norm`."""
    return norm(self, p, dim, keepdim, dtype=dtype)


def bind(tensor_class: Any) -> None:
    """Make these functions methods of Tensor."""
    tensor_class.norm = _found_in_tensors("norm", _norm_of)
    tensor_class.unique = unique
    tensor_class.unique_consecutive = unique_consecutive


_found_in("gradloom", is_inference, is_storage, is_tensor, numel, typename)

if not TYPE_CHECKING:
    # PyTorch has them here, too; they stand in higher layers, so they are found through the main namespace.
    _ELSEWHERE = ("istft", "lu", "pca_lowrank", "stft", "svd_lowrank", "unravel_index")

    def __getattr__(name):
        from importlib import import_module

        if name in _ELSEWHERE:
            return getattr(import_module(__package__), name)
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
