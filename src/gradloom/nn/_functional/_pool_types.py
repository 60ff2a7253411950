"""What type checkers see of max pooling: `return_indices=True` gives a pair."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Protocol, overload

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gradloom import Tensor
    from gradloom.types import IntList


class MaxPool(Protocol):
    """max_pool1d, 2d and 3d."""

    @overload
    def __call__(
        self,
        input: Tensor,
        kernel_size: int | IntList,
        stride: int | IntList | None = None,
        padding: int | IntList = 0,
        dilation: int | IntList = 1,
        ceil_mode: bool = False,
        return_indices: Literal[False] = False,
    ) -> Tensor: ...

    @overload
    def __call__(
        self,
        input: Tensor,
        kernel_size: int | IntList,
        stride: int | IntList | None = None,
        padding: int | IntList = 0,
        dilation: int | IntList = 1,
        ceil_mode: bool = False,
        *,
        return_indices: Literal[True],
    ) -> tuple[Tensor, Tensor]: ...

    @overload
    def __call__(
        self,
        input: Tensor,
        kernel_size: int | IntList,
        stride: int | IntList | None,
        padding: int | IntList,
        dilation: int | IntList,
        ceil_mode: bool,
        return_indices: Literal[True],
    ) -> tuple[Tensor, Tensor]: ...


class AdaptiveMaxPool(Protocol):
    """adaptive_max_pool1d, 2d and 3d."""

    @overload
    def __call__(
        self, input: Tensor, output_size: int | None | Sequence[int | None], return_indices: Literal[False] = False
    ) -> Tensor: ...

    @overload
    def __call__(
        self, input: Tensor, output_size: int | None | Sequence[int | None], return_indices: Literal[True]
    ) -> tuple[Tensor, Tensor]: ...


class FractionalMaxPool(Protocol):
    """fractional_max_pool2d and 3d."""

    @overload
    def __call__(
        self,
        input: Tensor,
        kernel_size: int | IntList,
        output_size: int | IntList | None = None,
        output_ratio: float | Sequence[float] | None = None,
        return_indices: Literal[False] = False,
        _random_samples: Tensor | None = None,
    ) -> Tensor: ...

    @overload
    def __call__(
        self,
        input: Tensor,
        kernel_size: int | IntList,
        output_size: int | IntList | None = None,
        output_ratio: float | Sequence[float] | None = None,
        *,
        return_indices: Literal[True],
        _random_samples: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]: ...


def typed_max_pool(function: Any) -> MaxPool:
    """The function itself."""
    return function  # type: ignore[no-any-return]


def typed_adaptive_max_pool(function: Any) -> AdaptiveMaxPool:
    """The function itself."""
    return function  # type: ignore[no-any-return]


def typed_fractional_max_pool(function: Any) -> FractionalMaxPool:
    """The function itself."""
    return function  # type: ignore[no-any-return]
