"""Instance normalisation."""

from __future__ import annotations

import warnings

from gradloom import Tensor
from gradloom.nn import functional as F
from gradloom.nn.modules.batchnorm import _LazyNorm, _NormBase
from gradloom.nn.modules.module import Module
from gradloom.types import Device, DType
from gradloom.utils._documentation import spatial

__all__ = [
    "InstanceNorm1d",
    "InstanceNorm2d",
    "InstanceNorm3d",
    "LazyInstanceNorm1d",
    "LazyInstanceNorm2d",
    "LazyInstanceNorm3d",
]


class _InstanceNorm(_NormBase):
    """{n}d instance normalisation (Ulyanov et al. 2016).

    output = (input - mean) / sqrt(var + eps) * weight + bias for each channel of each batch element, with mean and
    biased variance over the spatial dimensions, or the running statistics in evaluation if they are tracked.

    Args:
        num_features: number of channels, C.
        eps: added to the variance.
        momentum: weight of a batch in the running statistics.
        affine: learn weight and bias.
        track_running_stats: keep running statistics and use them in evaluation.
        device, dtype: device and dtype of parameters and buffers.
        bias: learn the bias if `affine`.

    Shape:
        input: (N, C, {in}) or (C, {in}).
        output: as the input.
        weight, bias, running_mean, running_var: (C,).

    Raises:
        ValueError: from `forward`, for an input with another number of dimensions or, with `affine`, of channels, and
            for one spatial element.
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: Device | None = None,
        dtype: DType | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        unbatched = input.dim() == self._dims[0]
        channel_dim = input.dim() - self._dims[0]
        if input.shape[channel_dim] != self.num_features:
            if self.affine:
                raise ValueError(
                    f"expected input's size at dim={channel_dim} to match num_features "
                    f"({self.num_features}), but got: {input.shape[channel_dim]}."
                )
            warnings.warn(
                f"input's size at dim={channel_dim} does not match num_features. You can silence this "
                "warning by not passing in num_features, which is not used because affine=False",
                stacklevel=2,
            )
        input = input.unsqueeze(0) if unbatched else input
        tensors = self.running_mean, self.running_var, self.weight, self.bias
        momentum = self.momentum if self.momentum is not None else 0.0
        use_input_stats = self.training or not self.track_running_stats
        result = F.instance_norm(input, *tensors, use_input_stats, momentum, self.eps)
        return result.squeeze(0) if unbatched else result


@spatial(1)
class InstanceNorm1d(_InstanceNorm):
    _dims = (2, 3)


@spatial(2)
class InstanceNorm2d(_InstanceNorm):
    _dims = (3, 4)


@spatial(3)
class InstanceNorm3d(_InstanceNorm):
    _dims = (4, 5)


@spatial(1)
class LazyInstanceNorm1d(_LazyNorm, InstanceNorm1d):  # type: ignore[misc]
    cls_to_become: type[Module] | None = InstanceNorm1d


@spatial(2)
class LazyInstanceNorm2d(_LazyNorm, InstanceNorm2d):  # type: ignore[misc]
    cls_to_become: type[Module] | None = InstanceNorm2d


@spatial(3)
class LazyInstanceNorm3d(_LazyNorm, InstanceNorm3d):  # type: ignore[misc]
    cls_to_become: type[Module] | None = InstanceNorm3d
