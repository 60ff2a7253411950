"""Parametrizations: a parameter or buffer of a module becomes a function of other tensors, which are trained instead.

`register_parametrization(module, "weight", function)` moves the weight to `module.parametrizations.weight.original` and
makes `module.weight` a property, the function's value. For the property, the module gets a class of its own.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import gradloom as gl
from gradloom.nn.modules.container import ModuleDict, ModuleList
from gradloom.nn.modules.module import Module
from gradloom.nn.parameter import Parameter

__all__ = [
    "ParametrizationList",
    "cached",
    "is_parametrized",
    "register_parametrization",
    "remove_parametrizations",
    "transfer_parametrizations_and_params",
    "type_before_parametrizations",
]

_open_caches = 0
_cache: dict[tuple[int, str], gl.Tensor | None] = {}


@contextmanager
def cached() -> Iterator[None]:
    """Within this context, compute each parametrized tensor once, when it is first read."""
    global _open_caches
    _open_caches += 1
    try:
        yield
    finally:
        _open_caches -= 1
        if not _open_caches:
            _cache.clear()


def _register(module: Module, name: str, tensor: gl.Tensor) -> None:
    if isinstance(tensor, Parameter):
        module.register_parameter(name, tensor)
    else:
        module.register_buffer(name, tensor)


def _assign(to: gl.Tensor, value: gl.Tensor) -> None:
    """Give a tensor the memory of another one, which has to have its dtype."""
    if to.dtype != value.dtype:
        raise ValueError(
            f"The dtype of the value, {value.dtype}, is not that of the tensor that it is for, {to.dtype}. Convert it."
        )
    with gl.no_grad():
        to.set_(value)


class ParametrizationList(ModuleList):
    """The parametrizations of one tensor, applied one after the other, and the tensors that they are applied to.

    These are the parameters or buffers `original`, or `original0`, `original1` ... if the first parametrization's
    `right_inverse` returns several.

    Args:
        modules: the parametrizations.
        original: the parameter or buffer to be parametrized.
        unsafe: whether the parametrized tensor may have another shape or dtype.

    Raises:
        ValueError: for no module, and for a value of another shape or dtype unless `unsafe`.
    """

    original: gl.Tensor
    unsafe: bool
    is_tensor: bool
    ntensors: int

    def __init__(self, modules: Sequence[Module], original: gl.Tensor | Parameter, unsafe: bool = False) -> None:
        if not modules:
            raise ValueError("ParametrizationList requires one or more modules.")
        super().__init__(modules)
        self.unsafe = unsafe
        value: Any = original
        with gl.no_grad():
            for module in reversed(self):
                if hasattr(module, "right_inverse"):
                    try:
                        value = module.right_inverse(value)
                    except NotImplementedError:
                        pass  # taken for the identity, as if it had none
        if not isinstance(value, (gl.Tensor, Sequence)):
            raise ValueError(
                "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). "
                f"Got {type(value).__name__}"
            )
        self.is_tensor = isinstance(value, gl.Tensor)
        self.ntensors = 1 if self.is_tensor else len(value)
        if self.is_tensor:
            if original.dtype != value.dtype:
                raise ValueError(
                    "When `right_inverse` outputs one tensor, it may not change the dtype.\n"
                    f"original.dtype: {original.dtype}\nright_inverse(original).dtype: {value.dtype}"
                )
            _assign(original, value)
            _register(self, "original", original)
        else:
            for i, part in enumerate(value):
                if not isinstance(part, gl.Tensor):
                    raise ValueError(
                        "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). "
                        f"Got element {i} of the sequence with type {type(part).__name__}."
                    )
                if isinstance(original, Parameter):
                    part = Parameter(part, requires_grad=original.requires_grad)
                _register(self, f"original{i}", part.requires_grad_(original.requires_grad))
        if not unsafe:
            _check_unchanged(self(), original, "unparametrized", "parametrized")

    def originals(self) -> list[gl.Tensor]:
        """Return the tensors that the parametrizations are applied to."""
        return [self.original] if self.is_tensor else [getattr(self, f"original{i}") for i in range(self.ntensors)]

    def right_inverse(self, value: gl.Tensor) -> None:
        """Set the originals so that the parametrized tensor becomes `value`. This is what assigning to it does.

        Raises:
            RuntimeError: if a parametrization has no `right_inverse`.
            ValueError: if it returns something else than at the registration.
        """
        with gl.no_grad():
            found: Any = value
            for module in reversed(self):
                if not hasattr(module, "right_inverse"):
                    raise RuntimeError(f"parametrization {type(module).__name__} does not implement right_inverse.")
                found = module.right_inverse(found)
            if self.is_tensor:
                if not isinstance(found, gl.Tensor):
                    raise ValueError(f"`right_inverse` should return a tensor. Got {type(found).__name__}")
                found = [found]
            elif not isinstance(found, Sequence):
                raise ValueError(f"'right_inverse' must return a sequence of tensors. Got {type(found)}.")
            elif len(found) != self.ntensors:
                raise ValueError(
                    f"'right_inverse' must return a sequence of tensors of length {self.ntensors}. "
                    f"Got a sequence of length {len(found)}."
                )
            for i, (to, part) in enumerate(zip(self.originals(), found, strict=True)):
                if not isinstance(part, gl.Tensor):
                    raise ValueError(
                        f"`right_inverse` must return a sequence of tensors. Got element {i} of type {type(part)}"
                    )
                _assign(to, part)

    def forward(self) -> gl.Tensor:
        first, *others = self
        value = first(*self.originals())
        for module in others:
            value = module(value)
        return value


def _check_unchanged(value: Any, tensor: gl.Tensor, before: str, after: str) -> None:
    """Raise ValueError unless a parametrization's value is a tensor of the dtype and shape of the tensor before."""
    if not isinstance(value, gl.Tensor):
        raise ValueError(f"A parametrization must return a tensor. Got {type(value)}.")
    for what in ("dtype", "shape"):
        old, new = getattr(tensor, what), getattr(value, what)
        if old != new:
            raise ValueError(
                f"Registering a parametrization may not change the {what} of the tensor, unless `unsafe` flag is "
                f"enabled.\n{before} {what}: {old}\n{after} {what}: {new}"
            )


def register_parametrization(
    module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Module:
    """Make a parameter or buffer of a module the value of a parametrization, which is applied after those it has.

    Args:
        module: is changed in place: its class becomes a subclass with the tensor as a property.
        tensor_name: the parameter or buffer.
        parametrization: a module whose `forward` takes the original tensor, or the tensors that its `right_inverse`
            returns, and returns the parametrized one. `right_inverse(value)`, if there is one, returns what `forward`
            makes the value of: it computes the original at the registration and for assignments.
        unsafe: whether the tensor's shape and dtype may change, and nothing is checked.

    Returns:
        The module.

    Raises:
        ValueError: if the module has no such tensor, or a value has another shape or dtype.
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        found = module.parametrizations[tensor_name]
        if not unsafe:
            old = getattr(module, tensor_name)
            new = parametrization(old)
            _check_unchanged(new, old, f"module.{tensor_name}", f"parametrization(module.{tensor_name})")
            if hasattr(parametrization, "right_inverse"):
                back = parametrization.right_inverse(new)
                if not isinstance(back, gl.Tensor):
                    raise ValueError(f"parametrization.right_inverse must return a tensor. Got: {type(back)}")
                name = f"parametrization.right_inverse(module.{tensor_name})"
                _check_unchanged(back, old, f"module.{tensor_name}", name)
        found.append(parametrization)
        found.unsafe |= unsafe
    elif tensor_name in module._buffers or tensor_name in module._parameters:
        found = ParametrizationList([parametrization], getattr(module, tensor_name), unsafe=unsafe)
        delattr(module, tensor_name)
        if not is_parametrized(module):
            module.__class__ = _class_for_properties(type(module))
            module.parametrizations = ModuleDict()
        setattr(type(module), tensor_name, _property(tensor_name))
        module.parametrizations[tensor_name] = found
    else:
        raise ValueError(
            f"Module '{module}' does not have a parameter, a buffer, or a parametrized element with name "
            f"'{tensor_name}'"
        )
    return module


def _class_for_properties(cls: type) -> type:
    def getstate(self: Any) -> Any:
        raise RuntimeError(
            "Serialization of parametrized modules is only supported through state_dict(). "
            "A parametrized module cannot be pickled: its class exists in this process only."
        )

    def deepcopy(self: Any, memo: dict) -> Any:
        if id(self) in memo:
            return memo[id(self)]
        new = self.__new__(type(self))
        memo[id(self)] = new
        new.__dict__ = copy.deepcopy(self.__dict__, memo)
        return new

    return type(f"Parametrized{cls.__name__}", (cls,), {"__getstate__": getstate, "__deepcopy__": deepcopy})


def _property(name: str) -> property:
    def value(self: Any) -> Any:
        if gl.jit.is_scripting() or not _open_caches:
            return self.parametrizations[name]()
        key = id(self), name
        found = _cache.get(key)
        if found is None:
            found = _cache[key] = self.parametrizations[name]()
        return found

    def assign(self: Any, value: gl.Tensor) -> None:
        self.parametrizations[name].right_inverse(value)

    return property(value, assign)


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Return whether the tensor `tensor_name` of a module is parametrized, or, without a name, whether any is."""
    found = getattr(module, "parametrizations", None)
    if not isinstance(found, ModuleDict):
        return False
    return len(found) > 0 if tensor_name is None else tensor_name in found


def remove_parametrizations(module: Module, tensor_name: str, leave_parametrized: bool = True) -> Module:
    """Make a parametrized tensor an ordinary parameter or buffer again.

    Args:
        module: is changed in place; without a parametrization left, it has its own class again.
        tensor_name: the parametrized tensor.
        leave_parametrized: whether it keeps the parametrized value, not the original one. This is necessary if there
            are several originals.

    Returns:
        The module.

    Raises:
        ValueError: if the tensor is not parametrized, or if it has several originals that would have to remain.
    """
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {module} does not have a parametrization on {tensor_name}")
    found = module.parametrizations[tensor_name]
    if found.is_tensor:
        tensor = found.original
        if leave_parametrized:
            with gl.no_grad():
                _assign(tensor, getattr(module, tensor_name).detach())
    elif leave_parametrized:
        tensor = getattr(module, tensor_name)
        tensor = Parameter(tensor.detach()) if tensor.requires_grad else tensor
    else:
        raise ValueError(
            "Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is parametrized in terms of a "
            "sequence of tensors."
        )
    delattr(type(module), tensor_name)
    del module.parametrizations[tensor_name]
    _register(module, tensor_name, tensor)
    if not is_parametrized(module):
        del module.parametrizations
        module.__class__ = type(module).__bases__[0]
    return module


def type_before_parametrizations(module: Module) -> type:
    """Return the class that a module has without parametrizations."""
    return type(module).__bases__[0] if is_parametrized(module) else type(module)


def transfer_parametrizations_and_params(
    from_module: Module, to_module: Module, tensor_name: str | None = None
) -> Module:
    """Give a module the parametrizations of another one, and the tensors that they are applied to.

    Args:
        from_module: the source. The parametrizations themselves are shared, not copied.
        to_module: is changed in place. A tensor that it does not have is added.
        tensor_name: the tensor; all parametrized ones by default.

    Returns:
        `to_module`.
    """
    if not is_parametrized(from_module):
        return to_module
    for name in list(from_module.parametrizations) if tensor_name is None else [tensor_name]:
        source = from_module.parametrizations[name]
        if not hasattr(to_module, name):
            setattr(to_module, name, Parameter(getattr(from_module, name)))
        for parametrization in source:
            register_parametrization(to_module, name, parametrization, unsafe=True)
        target = to_module.parametrizations[name]
        for own in ["original"] if source.is_tensor else [f"original{i}" for i in range(source.ntensors)]:
            setattr(target, own, getattr(source, own))
    return to_module
