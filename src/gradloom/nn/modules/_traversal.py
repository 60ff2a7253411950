"""Iteration over a module's tree, and methods for all of it: conversion, modes, gradients."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Self

import gradloom as gl
from gradloom import Tensor
from gradloom.nn.modules._conversion import (
    exchange,
    get_overwrite_module_params_on_conversion,
    get_swap_module_params_on_conversion,
)
from gradloom.types import Device, DType

if TYPE_CHECKING:
    from gradloom.nn.modules.module import Module
    from gradloom.nn.parameter import Parameter


class Traversal:
    """Iteration over parameters, buffers and modules; apply, to, train, zero_grad."""

    def _named_members(self, get_members_fn, prefix="", recurse=True, remove_duplicate=True):
        seen = set()
        modules = self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate) if recurse else [(prefix, self)]
        for module_prefix, module in modules:
            for name, member in get_members_fn(module):
                if member is None or member in seen:
                    continue
                if remove_duplicate:
                    seen.add(member)
                yield f"{module_prefix}.{name}" if module_prefix else name, member

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """Iterate over the parameters of this module and, with `recurse`, of its descendants, each once."""
        for _, parameter in self.named_parameters(recurse=recurse):
            yield parameter

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """Iterate over (dotted name, parameter).

        Args:
            prefix: prefix of the names.
            recurse: include those of descendants.
            remove_duplicate: yield a shared one once, under its first name.
        """
        yield from self._named_members(lambda module: module._parameters.items(), prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """Iterate over the buffers of this module and, with `recurse`, of its descendants, each once."""
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """Iterate over (dotted name, buffer).

        Args:
            prefix, recurse, remove_duplicate: as for `named_parameters`.
        """
        yield from self._named_members(lambda module: module._buffers.items(), prefix, recurse, remove_duplicate)

    def children(self) -> Iterator[Module]:
        """Iterate over the immediate child modules, each once."""
        for _, module in self.named_children():
            yield module

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """Iterate over (name, module) of the immediate children; a shared one has its first name."""
        seen = set()
        for name, module in self._modules.items():
            if module is not None and module not in seen:
                seen.add(module)
                yield name, module

    def modules(self, remove_duplicate: bool = True) -> Iterator[Module]:
        """Iterate over this module and all of its descendants, parents first.

        Args:
            remove_duplicate: yield a shared one once.
        """
        for _, module in self.named_modules(remove_duplicate=remove_duplicate):
            yield module

    def named_modules(
        self, memo: set[Any] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """Iterate over (dotted name, module), parents first, beginning with this module as `prefix`.

        Args:
            memo: modules to leave out.
            prefix: prefix of the names.
            remove_duplicate: yield a shared one once, under its first name.
        """
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                inner = f"{prefix}.{name}" if prefix else name
                yield from module.named_modules(memo, inner, remove_duplicate)

    def apply(self, fn: Callable[[Module], object]) -> Self:
        """Call `fn` on every descendant, children before parents, and on this module last; return the module."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    def _apply(self, fn, recurse=True):
        """Replace the values of every parameter, gradient and buffer by `fn` of them, in place."""
        if recurse:
            for module in self.children():
                module._apply(fn)
        for name, parameter in self._parameters.items():
            if parameter is None:
                continue
            gradient = parameter.grad
            with gl.no_grad():
                converted = fn(parameter)
                converted_gradient = None if gradient is None else fn(gradient)
            # A wrapper such as DTensor consists of tensors that `data` does not replace.
            if get_swap_module_params_on_conversion() or hasattr(converted, "__tensor_flatten__"):
                if converted is parameter:
                    continue
                parameter.grad = None
                exchange(parameter, converted)
                parameter.grad = converted_gradient
                continue
            # On another device the object cannot stay.
            if converted.is_meta != parameter.is_meta or get_overwrite_module_params_on_conversion():
                self._parameters[name] = gl.nn.Parameter(converted, parameter.requires_grad)
                self._parameters[name].grad = converted_gradient
                continue
            # The Parameter object stays: optimizers and other modules may hold it.
            parameter.data = converted
            if gradient is not None:
                gradient.data = converted_gradient
                parameter.grad = gradient
        for name, buffer in self._buffers.items():
            if buffer is not None:
                self._buffers[name] = fn(buffer)
        return self

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Convert parameters and buffers: to(dtype), to(device[, dtype]), to(tensor) or to(memory_format=...).

        A dtype applies to floating point and complex ones, a memory format to those of four or five dimensions.

        Returns:
            The module.

        Raises:
            TypeError: for a dtype that is neither floating point nor complex.
        """
        device, dtype, non_blocking = _parse_to(args, kwargs)
        memory_format = kwargs.get("memory_format")
        if dtype is not None:
            if not (dtype.is_floating_point or dtype.is_complex):
                raise TypeError(
                    f"nn.Module.to only accepts floating point or complex dtypes, but got desired dtype={dtype}"
                )
            if dtype.is_complex:
                warnings.warn(
                    "Complex modules are a new feature under active development whose design may change, "
                    "and some modules might not work as expected when using complex tensors as parameters "
                    "or buffers.",
                    stacklevel=2,
                )

        def convert(tensor):
            wanted = dtype if tensor.is_floating_point() or tensor.is_complex() else None
            if memory_format is not None and tensor.dim() in (4, 5):
                return tensor.to(device=device, dtype=wanted, non_blocking=non_blocking, memory_format=memory_format)
            if device is None:
                return tensor if wanted is None else tensor.to(wanted, non_blocking)
            if tensor.is_meta and device.type != "meta":
                raise NotImplementedError(
                    "Cannot copy out of meta tensor; no data! Please use torch.nn.Module.to_empty() instead of "
                    "torch.nn.Module.to() when moving module from meta to a different device."
                )
            return tensor.to(device, wanted if wanted is not None else tensor.dtype, non_blocking)

        return self._apply(convert)

    def _cast(self, dtype):
        return self._apply(lambda tensor: tensor.to(dtype) if tensor.is_floating_point() else tensor)

    def float(self) -> Self:
        """Cast the floating point parameters and buffers to float32."""
        return self._cast(gl.float32)

    def double(self) -> Self:
        """Cast the floating point parameters and buffers to float64."""
        return self._cast(gl.float64)

    def half(self) -> Self:
        """Cast the floating point parameters and buffers to float16."""
        return self._cast(gl.float16)

    def bfloat16(self) -> Self:
        """Cast the floating point parameters and buffers to bfloat16."""
        return self._cast(gl.bfloat16)

    def type(self, dst_type: DType | str) -> Self:
        """Cast all parameters and buffers to `dst_type`, a dtype or the name of a tensor type."""
        return self._apply(lambda tensor: tensor.type(dst_type))

    def cpu(self) -> Self:
        """Move all parameters and buffers to the CPU."""
        return self._apply(lambda tensor: tensor.cpu())

    def cuda(self, device: Device | None = None) -> Self:
        """Move all parameters and buffers to a CUDA device; raise where there is none."""
        return self.to("cuda" if device is None else gl.device("cuda", device) if isinstance(device, int) else device)

    def to_empty(self, *, device: Device, recurse: bool = True) -> Self:
        """Replace all parameters and buffers by uninitialised ones on `device`.

        Args:
            device: target device.
            recurse: include those of descendants.
        """
        return self._apply(lambda tensor: gl.empty_like(tensor, device=device), recurse)

    def share_memory(self) -> Self:
        """Move the storages of all parameters, their gradients and buffers to shared memory; return the module.

        Processes that are forked, or that get the module as an argument, then use the same parameters.
        """
        from ...tensors.sharing import share

        parameters = list(self.parameters())
        share([*parameters, *[p.grad for p in parameters if p.grad is not None], *self.buffers()])
        return self

    def train(self, mode: bool = True) -> Self:
        """Set training mode, or evaluation mode with False, on this module and all descendants; return the module."""
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self) -> Self:
        """Set evaluation mode, as `train(False)` does."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Set whether gradients are recorded for all parameters."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Set the gradients of all parameters to None or, without `set_to_none`, to zeros in place."""
        if self.__dict__.get("_is_replica"):
            import warnings

            warnings.warn(
                "Calling .zero_grad() from a module created with nn.DataParallel() has no effect: a replica has no "
                "parameters of its own. For gradients within forward() use autograd.grad",
                stacklevel=2,
            )
        for parameter in self.parameters():
            if parameter.grad is None:
                continue
            if set_to_none:
                parameter.grad = None
                continue
            if parameter.grad.grad_fn is not None:
                parameter.grad.detach_()
            else:
                parameter.grad.requires_grad_(False)
            parameter.grad.zero_()


def _parse_to(args, kwargs):
    """Return (device, dtype, non_blocking) for the forms of arguments that `Tensor.to` takes."""
    unknown = set(kwargs) - {"device", "dtype", "non_blocking", "tensor", "memory_format"}
    if unknown:
        raise TypeError(f"to() received an invalid keyword argument {sorted(unknown)[0]!r}")
    device, dtype = kwargs.get("device"), kwargs.get("dtype")
    non_blocking = kwargs.get("non_blocking", False)
    args = list(args)
    if "tensor" in kwargs:
        args.insert(0, kwargs["tensor"])
    if args and isinstance(args[0], gl.Tensor):
        device, dtype = args[0].device, args[0].dtype
    elif args and isinstance(args[0], gl.dtype):
        dtype = args[0]
    elif args and (args[0] is None or isinstance(args[0], (str, int, gl.device))):
        device = args[0]
        if len(args) > 1 and (args[1] is None or isinstance(args[1], gl.dtype)):
            dtype = args.pop(1)
    elif args:
        raise TypeError(f"to() takes a device, a dtype or a tensor first, got {type(args[0]).__name__}")
    if len(args) > 1:
        non_blocking = args[1]
    # Made here, so that a bad device is reported even for a module without parameters.
    return (gl.device(device) if isinstance(device, (str, int)) else device), dtype, non_blocking
