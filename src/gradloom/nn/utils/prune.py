"""Pruning: masks that set elements or channels of a parameter to zero.

A method moves the parameter `name` to `name_orig`, keeps the mask in the buffer `name_mask`, and makes `name` their
product, which a forward pre-hook computes anew before each call. Pruning again narrows the mask.
"""

from __future__ import annotations

import numbers
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

import gradloom as gl
from gradloom.nn.modules.module import Module


class BasePruningMethod(ABC):
    """What all methods share. A method defines `compute_mask` and PRUNING_TYPE.

    PRUNING_TYPE says what a method looks at when elements are pruned already: "unstructured" at the elements that are
    left, "structured" at the channels that are left, "global" at all.
    """

    PRUNING_TYPE: str
    _tensor_name: str

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self._tensor_name, self.apply_mask(module))

    @abstractmethod
    def compute_mask(self, t: gl.Tensor, default_mask: gl.Tensor) -> gl.Tensor:
        """Return the mask of `t`: zeros for what is pruned, and where `default_mask` has zeros."""

    def apply_mask(self, module: Module) -> gl.Tensor:
        """Return the product of the mask and the original parameter of `module`."""
        assert self._tensor_name is not None, f"Module {module} has to be pruned"
        mask = getattr(module, f"{self._tensor_name}_mask")
        original = getattr(module, f"{self._tensor_name}_orig")
        return mask.to(dtype=original.dtype) * original

    @classmethod
    def apply(cls, module: Module, name: str, *args: Any, importance_scores: Any = None, **kwargs: Any) -> Any:
        """Prune a parameter of a module, and compute it before each call from here on.

        Args:
            module: is changed in place.
            name: the parameter.
            args, kwargs: of the method's constructor.
            importance_scores: a tensor of the parameter's shape, by which the method ranks elements or channels in
                place of the parameter.

        Returns:
            The method's object; a `PruningContainer` if the parameter was pruned before.
        """
        previous = [
            (key, hook)
            for key, hook in module._forward_pre_hooks.items()
            if isinstance(hook, BasePruningMethod) and hook._tensor_name == name
        ]
        assert len(previous) <= 1, (
            f"Avoid adding multiple pruning hooks to the same tensor {name} of module {module}. Use a PruningContainer."
        )
        method: BasePruningMethod = cls(*args, **kwargs)
        method._tensor_name = name
        original = getattr(module, name)
        if importance_scores is None:
            importance_scores = original
        else:
            assert importance_scores.shape == original.shape, (
                f"importance_scores should have the same shape as parameter {name} of {module}"
            )
        if previous:
            key, old = previous[0]
            del module._forward_pre_hooks[key]
            container = PruningContainer()
            container._tensor_name = name
            for part in old if isinstance(old, PruningContainer) else (old,):
                container.add_pruning_method(part)
            container.add_pruning_method(method)
            method = container
            default_mask = getattr(module, f"{name}_mask").detach().clone()
        else:
            default_mask = gl.ones_like(original)
        mask = method.compute_mask(importance_scores, default_mask=default_mask)
        if not previous:
            module.register_parameter(f"{name}_orig", original)
            del module._parameters[name]
        module.register_buffer(f"{name}_mask", mask)
        setattr(module, name, method.apply_mask(module))
        module.register_forward_pre_hook(method)
        return method

    def prune(self, t: gl.Tensor, default_mask: Any = None, importance_scores: Any = None) -> gl.Tensor:
        """Return a pruned copy of `t`, by this method's rule.

        Args:
            t: any tensor.
            default_mask: has zeros for what is pruned already; by default nothing is.
            importance_scores: of the shape of `t`, to rank elements or channels by.
        """
        if importance_scores is None:
            importance_scores = t
        else:
            assert importance_scores.shape == t.shape, "importance_scores should have the same shape as tensor t"
        default_mask = gl.ones_like(t) if default_mask is None else default_mask
        return t * self.compute_mask(importance_scores, default_mask=default_mask)

    def remove(self, module: Module) -> None:
        """Make the pruned value the parameter of `module`, and drop the mask."""
        name = self._tensor_name
        assert name is not None, f"Module {module} has to be pruned before pruning can be removed"
        weight = self.apply_mask(module)
        if hasattr(module, name):
            delattr(module, name)
        original = module._parameters[f"{name}_orig"]
        assert original is not None
        original.data = weight.data
        del module._parameters[f"{name}_orig"]
        del module._buffers[f"{name}_mask"]
        setattr(module, name, original)


class PruningContainer(BasePruningMethod):
    """Several methods for one parameter, in the order in which they were applied. The last one makes the next mask."""

    def __init__(self, *args: Any) -> None:
        self._pruning_methods: tuple[BasePruningMethod, ...] = ()
        if args and not isinstance(args[0], Iterable) and len(args) == 1:
            self._tensor_name = args[0]._tensor_name
        for method in args[0] if len(args) == 1 and isinstance(args[0], Iterable) else args:
            self.add_pruning_method(method)

    def add_pruning_method(self, method: BasePruningMethod | None) -> None:
        """Add a method for the same parameter. Raises TypeError for other objects, ValueError for other parameters."""
        if not isinstance(method, BasePruningMethod) and method is not None:
            raise TypeError(f"{type(method)} is not a BasePruningMethod subclass")
        if method is not None and getattr(self, "_tensor_name", method._tensor_name) != method._tensor_name:
            raise ValueError(
                "Can only add pruning methods acting on the parameter named "
                f"'{self._tensor_name}' to PruningContainer {self}. Found '{method._tensor_name}'"
            )
        self._pruning_methods += (method,)  # type: ignore[operator]

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self) -> Any:
        return iter(self._pruning_methods)

    def __getitem__(self, idx: Any) -> Any:
        return self._pruning_methods[idx]

    def compute_mask(self, t: gl.Tensor, default_mask: gl.Tensor) -> gl.Tensor:
        """Return `default_mask` with zeros added where the last method prunes what is left of `t`."""
        method, mask = self._pruning_methods[-1], default_mask.to(dtype=t.dtype)
        if method.PRUNING_TYPE == "unstructured":
            chosen: Any = mask == 1
        elif method.PRUNING_TYPE == "structured":
            if not hasattr(method, "dim"):
                raise AttributeError(
                    "Pruning methods of PRUNING_TYPE 'structured' need to have the attribute `dim` defined."
                )
            others = [d for d in range(t.dim()) if d != method.dim % t.dim()]
            chosen = [slice(None)] * t.dim()
            chosen[method.dim] = mask.sum(others) != 0
            chosen = tuple(chosen)
        elif method.PRUNING_TYPE == "global":
            chosen = (slice(None),) * t.dim()
        else:
            raise ValueError(f"Unrecognized PRUNING_TYPE {method.PRUNING_TYPE}")
        new = mask.clone()
        new[chosen] = method.compute_mask(t[chosen], default_mask=mask[chosen]).to(new.dtype)
        return new


class Identity(BasePruningMethod):
    """Prunes nothing, but moves the parameter and adds a mask of ones."""

    PRUNING_TYPE: str = "unstructured"

    def compute_mask(self, t: gl.Tensor, default_mask: gl.Tensor) -> gl.Tensor:
        """Return `default_mask`, whatever `t` is."""
        return default_mask


class _Unstructured(BasePruningMethod):
    """Prunes single elements. `amount` is their number, or their share as a float between 0 and 1."""

    PRUNING_TYPE: str = "unstructured"

    def __init__(self, amount: float) -> None:
        _check_amount(amount)
        self.amount = amount

    def compute_mask(self, t: gl.Tensor, default_mask: gl.Tensor) -> gl.Tensor:
        count = _number_of(self.amount, t.nelement())
        mask = default_mask.clone()
        if count:
            mask.view(-1)[gl.topk(self._ranks(t).reshape(-1), count).indices] = 0
        return mask

    def _ranks(self, t: gl.Tensor) -> gl.Tensor:
        """Return numbers, of which the greatest are those of elements to prune."""
        raise NotImplementedError


class RandomUnstructured(_Unstructured):
    """Prunes random elements.

    Args:
        amount: their number, or their share as a float between 0 and 1.
    """

    def _ranks(self, t: gl.Tensor) -> gl.Tensor:
        return gl.rand_like(t)


class L1Unstructured(_Unstructured):
    """Prunes the elements with the least absolute values.

    Args:
        amount: their number, or their share as a float between 0 and 1.
    """

    def _ranks(self, t: gl.Tensor) -> gl.Tensor:
        return -gl.abs(t)


class _Structured(BasePruningMethod):
    """Prunes whole channels along a dimension."""

    PRUNING_TYPE: str = "structured"

    def __init__(self, amount: float, dim: int = -1) -> None:
        _check_amount(amount)
        self.amount, self.dim = amount, dim

    def compute_mask(self, t: gl.Tensor, default_mask: gl.Tensor) -> gl.Tensor:
        if t.dim() <= 1:
            raise ValueError(
                "Structured pruning can only be applied to multidimensional tensors. "
                f"Found tensor of shape {t.shape} with {t.dim()} dims"
            )
        if self.dim >= t.dim():
            raise IndexError(f"Invalid index {self.dim} for tensor of size {t.shape}")
        channels = t.shape[self.dim]
        count = _number_of(self.amount, channels)
        if not count:
            return default_mask
        kept = gl.topk(self._ranks(t), channels - count, largest=True).indices
        mask = gl.zeros_like(t)
        mask[tuple([kept if d == self.dim % t.dim() else slice(None) for d in range(t.dim())])] = 1
        return mask * default_mask.to(dtype=mask.dtype)

    def _ranks(self, t: gl.Tensor) -> gl.Tensor:
        """Return a number for each channel, of which the least are those of channels to prune."""
        raise NotImplementedError


class RandomStructured(_Structured):
    """Prunes random channels.

    Args:
        amount: their number, or their share as a float between 0 and 1.
        dim: the dimension of channels.
    """

    def _ranks(self, t: gl.Tensor) -> gl.Tensor:
        return gl.rand(t.shape[self.dim])


class LnStructured(_Structured):
    """Prunes the channels with the least norms.

    Args:
        amount: their number, or their share as a float between 0 and 1.
        n: the kind of norm, as `p` of `gradloom.norm`.
        dim: the dimension of channels.
    """

    def __init__(self, amount: float, n: Any, dim: int = -1) -> None:
        super().__init__(amount, dim)
        self.n = n

    def _ranks(self, t: gl.Tensor) -> gl.Tensor:
        return gl.norm(t, p=self.n, dim=[d for d in range(t.dim()) if d != self.dim % t.dim()])


class CustomFromMask(BasePruningMethod):
    """Prunes what a given mask has zeros for.

    Args:
        mask: of the parameter's shape.
    """

    PRUNING_TYPE: str = "global"

    def __init__(self, mask: gl.Tensor) -> None:
        self.mask = mask

    def compute_mask(self, t: gl.Tensor, default_mask: gl.Tensor) -> gl.Tensor:
        """Return the product of `default_mask` and the given mask, whatever `t` is."""
        assert default_mask.shape == self.mask.shape, "the mask needs the parameter's shape"
        return default_mask * self.mask.to(dtype=default_mask.dtype)


def identity(module: Module, name: str) -> Module:
    """Give the parameter `name` a mask of ones. Returns the module, which is changed in place."""
    Identity.apply(module, name)
    return module


def random_unstructured(module: Module, name: str, amount: float) -> Module:
    """Prune random elements of a parameter. Returns the module, which is changed in place.

    Args:
        module: has the parameter.
        name: its name.
        amount: the number of elements, or their share as a float between 0 and 1.
    """
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(module: Module, name: str, amount: float, importance_scores: Any = None) -> Module:
    """Prune the elements of a parameter with the least absolute values. Returns the module, which is changed in place.

    Args:
        module: has the parameter.
        name: its name.
        amount: the number of elements, or their share as a float between 0 and 1.
        importance_scores: a tensor of the parameter's shape to rank elements by.
    """
    L1Unstructured.apply(module, name, amount=amount, importance_scores=importance_scores)
    return module


def random_structured(module: Module, name: str, amount: float, dim: int) -> Module:
    """Prune random channels of a parameter along `dim`. Returns the module, which is changed in place.

    Args:
        module: has the parameter.
        name: its name.
        amount: the number of channels, or their share as a float between 0 and 1.
        dim: the dimension of channels.
    """
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(module: Module, name: str, amount: float, n: Any, dim: int, importance_scores: Any = None) -> Module:
    """Prune the channels of a parameter with the least norms. Returns the module, which is changed in place.

    Args:
        module: has the parameter.
        name: its name.
        amount: the number of channels, or their share as a float between 0 and 1.
        n: the kind of norm, as `p` of `gradloom.norm`.
        dim: the dimension of channels.
        importance_scores: a tensor of the parameter's shape to take the norms of.
    """
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def global_unstructured(
    parameters: Iterable[tuple[Module, str]],
    pruning_method: type[BasePruningMethod],
    importance_scores: Any = None,
    **kwargs: Any,
) -> None:
    """Prune elements of several parameters, ranked together.

    Args:
        parameters: pairs of a module and the name of its parameter.
        pruning_method: a class with PRUNING_TYPE "unstructured".
        importance_scores: {(module, name): a tensor of the parameter's shape to rank elements by}.
        kwargs: of the method's constructor, such as `amount`.

    Raises:
        TypeError: unless the parameters are in an iterable and the method is unstructured.
    """
    if not isinstance(parameters, Iterable):
        raise TypeError("global_unstructured(): parameters is not an Iterable")
    parameters = list(parameters)
    scores = {} if importance_scores is None else importance_scores
    if not isinstance(scores, dict):
        raise TypeError("global_unstructured(): importance_scores must be of type dict")
    flat = [scores.get((module, name), getattr(module, name)).reshape(-1) for module, name in parameters]
    masks = [getattr(module, f"{name}_mask", gl.ones_like(getattr(module, name))) for module, name in parameters]
    container = PruningContainer()
    container._tensor_name = "temp"
    method = pruning_method(**kwargs)
    method._tensor_name = "temp"
    container.add_pruning_method(method)
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError(
            f'Only "unstructured" PRUNING_TYPE supported for the `pruning_method`. Found method {pruning_method} of '
            f"type {method.PRUNING_TYPE}"
        )
    joined = container.compute_mask(gl.cat(flat), gl.cat([mask.reshape(-1) for mask in masks]))
    for (module, name), mask in zip(parameters, joined.split([mask.numel() for mask in masks]), strict=True):
        custom_from_mask(module, name, mask=mask.view_as(getattr(module, name)))


def custom_from_mask(module: Module, name: str, mask: gl.Tensor) -> Module:
    """Prune what a given mask has zeros for. Returns the module, which is changed in place.

    Args:
        module: has the parameter.
        name: its name.
        mask: of the parameter's shape.
    """
    CustomFromMask.apply(module, name, mask)
    return module


def remove(module: Module, name: str) -> Module:
    """Make the pruned value of the parameter `name` permanent. Returns the module, which is changed in place.

    Raises ValueError if the parameter is not pruned.
    """
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, BasePruningMethod) and hook._tensor_name == name:
            hook.remove(module)
            del module._forward_pre_hooks[key]
            return module
    raise ValueError(f"Parameter '{name}' of module {module} has to be pruned before pruning can be removed")


def is_pruned(module: Module) -> bool:
    """Return whether a parameter of a module, or of one inside of it, is pruned."""
    return any(
        isinstance(hook, BasePruningMethod) for part in module.modules() for hook in part._forward_pre_hooks.values()
    )


def _check_amount(amount: Any) -> None:
    if not isinstance(amount, numbers.Real):
        raise TypeError(f"Invalid type for amount: {amount}. Must be int or float.")
    integral = isinstance(amount, numbers.Integral)
    if (integral and amount < 0) or (not integral and not 0.0 <= float(amount) <= 1.0):
        raise ValueError(f"amount={amount} should either be a float in the range [0, 1] or a non-negative integer")


def _number_of(amount: float, size: int) -> int:
    """Return how many of `size` elements to prune. Raises ValueError if the amount is a greater number."""
    if isinstance(amount, numbers.Integral):
        if amount > size:
            raise ValueError(f"amount={amount} should be smaller than the number of parameters to prune={size}")
        return int(amount)
    return round(amount * size)
