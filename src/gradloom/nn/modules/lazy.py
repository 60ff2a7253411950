"""Lazy modules, which take the size of their input from the first input.

Until then their parameters have no shape. Afterwards they are ordinary modules, by class too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import gradloom as gl
from gradloom.nn.modules import batchnorm, conv
from gradloom.nn.modules.linear import Linear
from gradloom.nn.modules.module import Module
from gradloom.nn.parameter import UninitializedBuffer, UninitializedParameter, is_lazy
from gradloom.utils._documentation import spatial

if TYPE_CHECKING:
    from typing import Any

    from gradloom import Tensor
    from gradloom.types import Device, DType, IntList

__all__ = [
    "LazyBatchNorm1d",
    "LazyBatchNorm2d",
    "LazyBatchNorm3d",
    "LazyConv1d",
    "LazyConv2d",
    "LazyConv3d",
    "LazyConvTranspose1d",
    "LazyConvTranspose2d",
    "LazyConvTranspose3d",
    "LazyInstanceNorm1d",
    "LazyInstanceNorm2d",
    "LazyInstanceNorm3d",
    "LazyLinear",
]


class LazyModuleMixin(Module):
    """First base of a lazy module's class; the next is the class of an ordinary module.

    The class creates UninitializedParameters and gives them a shape in `initialize_parameters`, which gets the
    arguments of the first `forward`. The module then becomes one of `cls_to_become`, if that is set.
    """

    cls_to_become: type[Module] | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._load_hook: Any = self._register_load_state_dict_pre_hook(self._take_shapes)
        self._initialize_hook: Any = self.register_forward_pre_hook(_initialize, with_kwargs=True)

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Give the parameters their shapes.

        Args:
            args, kwargs: arguments of `forward`.

        Raises:
            NotImplementedError: unless a subclass overrides it.
        """
        raise NotImplementedError(f"initialize_parameters is not implemented for {type(self).__name__}")

    def has_uninitialized_params(self) -> bool:
        """Return whether a parameter or buffer of the module has no shape yet."""
        return any(is_lazy(tensor) for tensor in (*self._parameters.values(), *self._buffers.values()))

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        for name, tensor in self._own_state():
            destination[prefix + name] = tensor if keep_vars or is_lazy(tensor) else tensor.detach()

    def _take_shapes(self, state_dict, prefix, *_):
        for name, tensor in (*self._parameters.items(), *self._buffers.items()):
            given = state_dict.get(prefix + name)
            if is_lazy(tensor) and given is not None and not is_lazy(given):
                tensor.materialize(given.shape)

    def _replicate_for_data_parallel(self):
        raise RuntimeError(
            "Modules with uninitialized parameters can't be used with `DataParallel`. Run a dummy "
            "forward pass to correctly initialize the modules"
        )


def _initialize(module, args, kwargs):
    """Give parameters their shapes before the first forward, and make the module an ordinary one."""
    module.initialize_parameters(*args, **kwargs)
    if module.has_uninitialized_params():
        raise RuntimeError(f"module {module._get_name()} has not been fully initialized")
    for name in ("_load_hook", "_initialize_hook"):
        getattr(module, name).remove()
        delattr(module, name)
    if module.cls_to_become is not None:
        module.__class__ = module.cls_to_become


def _unshaped(device: Any, dtype: Any) -> Any:
    return UninitializedParameter(device=device, dtype=dtype)


class LazyLinear(LazyModuleMixin, Linear):
    """`Linear` whose `in_features` is taken from the first input.

    Args:
        out_features: size of the last dimension of the output.
        bias: add a learned bias.
        device, dtype: device and dtype of the parameters.

    Shape:
        input: (*, in_features).
        output: (*, out_features).
    """

    cls_to_become: type[Module] | None = Linear
    in_features: int
    weight: Any
    bias: Any

    def __init__(
        self, out_features: int, bias: bool = True, device: Device | None = None, dtype: DType | None = None
    ) -> None:
        super().__init__(0, 0, False)
        self.out_features = out_features
        self.weight = _unshaped(device, dtype)
        if bias:
            self.bias = _unshaped(device, dtype)

    def reset_parameters(self) -> None:
        """Draw the parameters if they have shapes."""
        if not self.has_uninitialized_params() and self.in_features != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor) -> None:  # type: ignore[override]
        """Give the parameters their shapes.

        Args:
            input: first input, (*, in_features).
        """
        if self.has_uninitialized_params():
            with gl.no_grad():
                self.in_features = input.shape[-1]
                self.weight.materialize((self.out_features, self.in_features))  # type: ignore[attr-defined]
                if self.bias is not None:
                    self.bias.materialize((self.out_features,))  # type: ignore[attr-defined]
                self.reset_parameters()
        if self.in_features == 0:
            self.in_features = self.weight.shape[-1]


class _LazyConv(LazyModuleMixin):
    """`{name}` whose `in_channels` is taken from the first input.

    Args:
        out_channels: number of channels of the output, C_out.
        kernel_size: size of the kernels, an int or one per spatial dimension.
        args, kwargs: further arguments of `{name}`.
        bias: add a learned bias.
        device, dtype: device and dtype of the parameters.

    Shape:
        input: (N, C_in, {in}) or (C_in, {in}).
        output: (N, C_out, {out}) or (C_out, {out}), with the sizes of `{name}`.

    Raises:
        RuntimeError: from the first `forward`, for an input with another number of dimensions.
        ValueError: from the first `forward`, if groups does not divide the number of channels.
    """

    in_channels: int
    out_channels: int
    groups: int
    kernel_size: tuple[int, ...]
    transposed: bool
    weight: Any
    bias: Any

    def __init__(
        self,
        out_channels: int,
        kernel_size: int | IntList,
        *args: Any,
        bias: bool = True,
        device: Device | None = None,
        dtype: DType | None = None,
        **kwargs: Any,
    ) -> None:
        before_bias = 5 if issubclass(type(self), conv._ConvTransposeNd) else 4
        if len(args) > before_bias:  # bias was given by position
            args, bias = (*args[:before_bias], False, *args[before_bias + 1 :]), args[before_bias]
        else:
            kwargs["bias"] = False
        super().__init__(0, 0, kernel_size, *args, device=device, dtype=dtype, **kwargs)
        self.out_channels = out_channels
        self.weight = _unshaped(device, dtype)
        if bias:
            self.bias = _unshaped(device, dtype)

    def reset_parameters(self) -> None:
        """Draw the parameters if they have shapes."""
        if not self.has_uninitialized_params() and self.in_channels != 0:
            super().reset_parameters()  # type: ignore[misc]

    def initialize_parameters(self, input: Tensor, *args: Any, **kwargs: Any) -> None:  # type: ignore[override]
        """Give the parameters their shapes.

        Args:
            input: first input.
            args, kwargs: further arguments of `forward`.

        Raises:
            RuntimeError: for an input with another number of dimensions.
            ValueError: if groups does not divide the number of channels.
        """
        if not self.has_uninitialized_params():
            if self.in_channels == 0:
                self.in_channels = self.weight.shape[0] if self.transposed else self.weight.shape[1] * self.groups
            return
        count = len(self.kernel_size)
        if input.dim() not in (count + 1, count + 2):
            raise RuntimeError(
                f"Expected {count + 1}D (unbatched) or {count + 2}D (batched) input to "
                f"{type(self).__name__}, but got input of size: {input.shape}"
            )
        self.in_channels = input.shape[-count - 1]
        if self.in_channels % self.groups:
            raise ValueError("in_channels must be divisible by groups")
        rows, columns = (
            (self.in_channels, self.out_channels) if self.transposed else (self.out_channels, self.in_channels)
        )
        with gl.no_grad():
            self.weight.materialize((rows, columns // self.groups, *self.kernel_size))
            if self.bias is not None:
                self.bias.materialize((self.out_channels,))
            self.reset_parameters()


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
class LazyConv1d(_LazyConv, conv.Conv1d):  # type: ignore[misc]
    cls_to_become: type[Module] | None = conv.Conv1d


@spatial(2)
class LazyConv2d(_LazyConv, conv.Conv2d):  # type: ignore[misc]
    cls_to_become: type[Module] | None = conv.Conv2d


@spatial(3)
class LazyConv3d(_LazyConv, conv.Conv3d):  # type: ignore[misc]
    cls_to_become: type[Module] | None = conv.Conv3d


@spatial(1)
class LazyConvTranspose1d(_LazyConv, conv.ConvTranspose1d):  # type: ignore[misc]
    cls_to_become: type[Module] | None = conv.ConvTranspose1d


@spatial(2)
class LazyConvTranspose2d(_LazyConv, conv.ConvTranspose2d):  # type: ignore[misc]
    cls_to_become: type[Module] | None = conv.ConvTranspose2d


@spatial(3)
class LazyConvTranspose3d(_LazyConv, conv.ConvTranspose3d):  # type: ignore[misc]
    cls_to_become: type[Module] | None = conv.ConvTranspose3d


@spatial(1)
class LazyBatchNorm1d(_LazyNorm, batchnorm.BatchNorm1d):  # type: ignore[misc]
    cls_to_become: type[Module] | None = batchnorm.BatchNorm1d


@spatial(2)
class LazyBatchNorm2d(_LazyNorm, batchnorm.BatchNorm2d):  # type: ignore[misc]
    cls_to_become: type[Module] | None = batchnorm.BatchNorm2d


@spatial(3)
class LazyBatchNorm3d(_LazyNorm, batchnorm.BatchNorm3d):  # type: ignore[misc]
    cls_to_become: type[Module] | None = batchnorm.BatchNorm3d


@spatial(1)
class LazyInstanceNorm1d(_LazyNorm, batchnorm.InstanceNorm1d):  # type: ignore[misc]
    cls_to_become: type[Module] | None = batchnorm.InstanceNorm1d


@spatial(2)
class LazyInstanceNorm2d(_LazyNorm, batchnorm.InstanceNorm2d):  # type: ignore[misc]
    cls_to_become: type[Module] | None = batchnorm.InstanceNorm2d


@spatial(3)
class LazyInstanceNorm3d(_LazyNorm, batchnorm.InstanceNorm3d):  # type: ignore[misc]
    cls_to_become: type[Module] | None = batchnorm.InstanceNorm3d
