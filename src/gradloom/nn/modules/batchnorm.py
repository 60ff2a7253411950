"""Batch normalisation."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

import gradloom as gl
from gradloom import Tensor
from gradloom.nn import functional as F, init
from gradloom.nn.modules.lazy import LazyModuleMixin, _unshaped
from gradloom.nn.modules.module import Module
from gradloom.nn.parameter import Parameter, UninitializedBuffer, is_lazy
from gradloom.types import Device, DType
from gradloom.utils._documentation import spatial

__all__ = [
    "BatchNorm1d",
    "BatchNorm2d",
    "BatchNorm3d",
    "LazyBatchNorm1d",
    "LazyBatchNorm2d",
    "LazyBatchNorm3d",
    "SyncBatchNorm",
]


class _NormBase(Module):
    """Base of the norms: affine parameters and running statistics, each (C,) or None."""

    # 2: num_batches_tracked is part of the state.
    _version = 2
    __constants__: list[str] = ["track_running_stats", "momentum", "eps", "num_features", "affine"]

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Device | None = None,
        dtype: DType | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        where = {"device": device, "dtype": dtype}
        self.register_parameter("weight", Parameter(gl.empty(num_features, **where)) if affine else None)
        self.register_parameter("bias", Parameter(gl.empty(num_features, **where)) if affine and bias else None)
        tracked = track_running_stats
        self.register_buffer("running_mean", gl.zeros(num_features, **where) if tracked else None)
        self.register_buffer("running_var", gl.ones(num_features, **where) if tracked else None)
        count = gl.tensor(0, dtype=gl.int64, device=device) if tracked else None
        self.register_buffer("num_batches_tracked", count)
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        """Reset the running statistics to mean 0 and variance 1."""
        if self.track_running_stats:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        """Reset the running statistics and make the affine map the identity."""
        self.reset_running_stats()
        if self.affine:
            init.ones_(self.weight)
            if self.bias is not None:
                init.zeros_(self.bias)

    def _check_input_dim(self, input):
        if input.dim() not in self._dims:
            allowed = " or ".join(f"{count}D" for count in self._dims)
            raise ValueError(f"expected {allowed} input (got {input.dim()}D input)")

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}"
        )

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, *problems):
        version = local_metadata.get("version")
        key = prefix + "num_batches_tracked"
        if (version is None or version < 2) and self.track_running_stats and key not in state_dict:
            present = self.num_batches_tracked
            state_dict[key] = gl.tensor(0, dtype=gl.int64) if present is None else present
        super()._load_from_state_dict(state_dict, prefix, local_metadata, strict, *problems)


class _BatchNorm(_NormBase):
    """{n}d batch normalisation (Ioffe and Szegedy 2015).

    output = (input - mean) / sqrt(var + eps) * weight + bias for each channel, with mean and biased variance over N and
    the spatial dimensions in training, and the running statistics in evaluation.

    Args:
        num_features: number of channels, C.
        eps: added to the variance.
        momentum: weight of a batch in the running statistics; None makes them plain averages over all batches.
        affine: learn weight and bias.
        track_running_stats: keep running statistics; without them evaluation uses the batch's, too.
        device, dtype: device and dtype of parameters and buffers.
        bias: learn the bias if `affine`.

    Shape:
        input: (N, C, {in}); in 1d also (N, C).
        output: as the input.
        weight, bias, running_mean, running_var: (C,).

    Raises:
        ValueError: from `forward`, for an input with another number of dimensions, and in training for one value per
            channel.
    """

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        momentum = self._count_batch()
        # Running statistics are used in evaluation, and only updated in training.
        batch_statistics = self.training or (self.running_mean is None and self.running_var is None)
        tracked = not self.training or self.track_running_stats
        mean, var = (self.running_mean, self.running_var) if tracked else (None, None)
        return F.batch_norm(input, mean, var, self.weight, self.bias, batch_statistics, momentum, self.eps)

    def _count_batch(self) -> float:
        """Count a batch of training, and return its weight in the running statistics."""
        momentum = 0.0 if self.momentum is None else self.momentum
        if self.training and self.track_running_stats and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:
                momentum = 1.0 / float(self.num_batches_tracked)
        return momentum


@spatial(1)
class BatchNorm1d(_BatchNorm):
    _dims = (2, 3)


@spatial(2)
class BatchNorm2d(_BatchNorm):
    _dims = (4,)


@spatial(3)
class BatchNorm3d(_BatchNorm):
    _dims = (5,)


class SyncBatchNorm(_BatchNorm):
    """Batch normalisation over the batches of all processes; of one process, plain batch normalisation.

    Args:
        num_features: number of channels, C.
        eps: added to the variance.
        momentum: weight of a batch in the running statistics; None makes them plain averages over all batches.
        affine: learn weight and bias.
        track_running_stats: keep running statistics; without them evaluation uses the batch's, too.
        process_group: whose ranks' batches to normalise together; the default group by default.
        device, dtype: device and dtype of parameters and buffers.
        bias: learn the bias if `affine`.

    Shape:
        input: (N, C, ...).
        output: as the input.

    Raises:
        ValueError: from `forward`, for an input of fewer than two dimensions.
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        process_group: Any = None,
        device: Device | None = None,
        dtype: DType | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)
        self.process_group = process_group

    def _check_input_dim(self, input):
        if input.dim() < 2:
            raise ValueError(f"expected at least 2D input (got {input.dim()}D input)")

    def forward(self, input: Tensor) -> Tensor:
        """Normalise by the statistics of all ranks' batches; in evaluation by the running ones, if there are any."""
        alone = "gradloom.distributed.distributed_c10d" not in sys.modules  # no process group was ever made
        tracks = self.running_mean is not None or self.running_var is not None
        if alone or not self.training and tracks:
            return super().forward(input)
        functions = import_module("gradloom.nn.modules._functions")
        group = functions.group_of(self.process_group)
        if group is None:
            return super().forward(input)
        self._check_input_dim(input)
        momentum = self._count_batch()
        mean, var = (
            (self.running_mean, self.running_var) if self.training and self.track_running_stats else (None, None)
        )
        return functions.SyncBatchNorm.apply(
            input, self.weight, self.bias, mean, var, self.eps, momentum, group, group.size()
        )

    @classmethod
    def convert_sync_batchnorm(cls, module: Module, process_group: Any = None) -> Module:
        """Replace the batch normalisations of a module, or the module itself, by ones with the same parameters.

        Args:
            module: changed in place, unless it is a batch normalisation.
            process_group: of the new modules.
        """
        converted = module
        if isinstance(module, _BatchNorm):
            converted = cls(
                module.num_features,
                module.eps,
                module.momentum,
                module.affine,
                module.track_running_stats,
                process_group,
                bias=module.bias is not None,
            )
            for name in ("weight", "bias", "running_mean", "running_var", "num_batches_tracked"):
                setattr(converted, name, getattr(module, name))
            converted.training = module.training
        for name, child in module.named_children():
            converted.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return converted


class _LazyNorm(LazyModuleMixin):
    """`{name}` whose `num_features` is taken from the first input.

    Args:
        eps, momentum, affine, track_running_stats, bias: as for `{name}`.
        device, dtype: device and dtype of parameters and buffers.

    Shape:
        input: as for `{name}`, with channels in dimension 1.
        output: as the input.
    """

    num_features: int
    affine: bool
    track_running_stats: bool
    weight: Any
    bias: Any
    running_mean: Any
    running_var: Any
    num_batches_tracked: Any

    def __init__(
        self,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Device | None = None,
        dtype: DType | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(0, eps, momentum, False, False, device, dtype)
        self.affine, self.track_running_stats = affine, track_running_stats
        if affine:
            self.weight = _unshaped(device, dtype)
            if bias:
                self.bias = _unshaped(device, dtype)
        if track_running_stats:
            self.running_mean = UninitializedBuffer(device=device, dtype=dtype)
            self.running_var = UninitializedBuffer(device=device, dtype=dtype)
            self.num_batches_tracked = gl.tensor(0, dtype=gl.int64, device=device)

    def reset_parameters(self) -> None:
        """Reset statistics and parameters if they have shapes."""
        if not self.has_uninitialized_params() and self.num_features != 0:
            super().reset_parameters()  # type: ignore[misc]

    def initialize_parameters(self, input: Tensor) -> None:  # type: ignore[override]
        """Give parameters and buffers their shapes.

        Args:
            input: first input, (N, C, *).
        """
        if self.has_uninitialized_params():
            self.num_features = input.shape[1]
            for tensor in (*self._parameters.values(), *self._buffers.values()):
                if is_lazy(tensor):
                    tensor.materialize((self.num_features,))
            self.reset_parameters()
        if self.num_features == 0:
            known = [t for t in (*self._parameters.values(), *self._buffers.values()) if t is not None and t.dim() == 1]
            self.num_features = known[0].shape[0] if known else input.shape[1]


@spatial(1)
class LazyBatchNorm1d(_LazyNorm, BatchNorm1d):  # type: ignore[misc]
    cls_to_become: type[Module] | None = BatchNorm1d


@spatial(2)
class LazyBatchNorm2d(_LazyNorm, BatchNorm2d):  # type: ignore[misc]
    cls_to_become: type[Module] | None = BatchNorm2d


@spatial(3)
class LazyBatchNorm3d(_LazyNorm, BatchNorm3d):  # type: ignore[misc]
    cls_to_become: type[Module] | None = BatchNorm3d
