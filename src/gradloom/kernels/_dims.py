"""What kernels ask about dimensions: wrapping negative ones, and PyTorch's errors about those that are out of range."""

from __future__ import annotations


def dim_error(dim, ndim: int) -> IndexError:
    """PyTorch's error for a dimension that is out of range."""
    low, high = (-ndim, ndim - 1) if ndim else (-1, 0)
    return IndexError(f"Dimension out of range (expected to be in range of [{low}, {high}], but got {dim})")


def wrap_dim(dim: int, ndim: int) -> int:
    """`dim` counted from the front. A 0-dim array has one dimension as far as indices go.

    Raises:
        IndexError: if it is out of range.
    """
    count = ndim or 1
    if 0 <= dim < count:
        return dim
    if -count <= dim < 0:
        return dim + count
    raise dim_error(dim, ndim)


def wrap_dims(dims, ndim: int) -> tuple[int, ...]:
    """Each of `dims` counted from the front.

    Raises:
        IndexError: if one is out of range.
        RuntimeError: if one occurs twice.
    """
    found = tuple([wrap_dim(d, ndim) for d in dims])
    if len(set(found)) != len(found):
        twice = next(d for i, d in enumerate(found) if d in found[:i])
        raise RuntimeError(f"dim {twice} appears multiple times in the list of dims")
    return found


def infer_size(size, numel: int) -> tuple[int, ...]:
    """`size` with its -1, if it has one, replaced by what `numel` elements leave for it.

    Raises:
        RuntimeError: if the elements do not fit, or -1 is ambiguous.
    """
    known, unknown = 1, None
    for i, n in enumerate(size):
        if n == -1:
            if unknown is not None:
                raise RuntimeError("only one dimension can be inferred")
            unknown = i
        elif n < 0:
            raise RuntimeError(f"invalid shape dimension {n} at index {i} of shape {list(size)}")
        else:
            known *= n
    if unknown is None:
        if known == numel:
            return tuple(size)
    elif known and numel % known == 0:
        return (*size[:unknown], numel // known, *size[unknown + 1 :])
    elif not known and not numel:
        raise RuntimeError(
            f"cannot reshape tensor of 0 elements into shape {list(size)} because the unspecified "
            "dimension size -1 can be any value and is ambiguous"
        )
    raise RuntimeError(f"shape '{list(size)}' is invalid for input of size {numel}")
