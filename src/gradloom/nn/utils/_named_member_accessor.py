"""Read and replace the tensors and submodules of a module by their paths, such as "0.weight"."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ...core.tensor import Tensor
from ..modules.module import Module

_MISSING: Any = object()


def swap_tensor(module: Module, name: str, tensor: Tensor, allow_missing: bool = False) -> Tensor:
    """Replace a module's parameter, buffer or attribute, without registering it, and return the former tensor.

    Args:
        module: the module that has it.
        name: its name, without dots.
        tensor: the new one, of any shape and dtype. The value that a call with `allow_missing` returned for a missing
            name removes the attribute again.
        allow_missing: whether there may be no such attribute yet.

    Raises:
        TypeError: if `module` is no module, or the new or the former value no tensor.
        KeyError: for a name that is empty or has dots.
        AttributeError: if there is no such attribute.
    """
    _check_module(module)
    if tensor is not _MISSING and not isinstance(tensor, Tensor) and tensor is not None:
        raise TypeError(f"{tensor} is not an instance of torch.Tensor")
    _check_name(name, "tensor")
    holder: Any = next((held for held in (module._parameters, module._buffers) if name in held), None)
    former = holder[name] if holder is not None else getattr(module, name, _MISSING)
    if holder is None:
        if former is _MISSING and not allow_missing:
            raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
        if former is not _MISSING and former is not None and not isinstance(former, Tensor):
            raise TypeError(f"attribute `{name}`: {former} is not an instance of torch.Tensor")
        holder = module.__dict__
    if tensor is _MISSING:
        del holder[name]
    else:
        holder[name] = tensor
    return former


def set_tensor(module: Module, name: str, tensor: Tensor) -> None:
    """Replace the tensor `name` of a module as `swap_tensor` does, or add it."""
    if not isinstance(tensor, Tensor) and tensor is not None:
        raise TypeError(f"{tensor} is not an instance of torch.Tensor")
    swap_tensor(module, name, tensor, allow_missing=True)


def swap_submodule(module: Module, name: str, submodule: Module) -> Module:
    """Replace the submodule `name` of a module by `submodule`, and return the former one.

    Raises:
        TypeError: if one of the modules is none.
        KeyError: for a name that is empty, has dots, or is not there.
    """
    _check_module(module)
    _check_module(submodule)
    _check_name(name, "submodule")
    if name not in module._modules:
        raise KeyError(f"submodule {name} does not exist")
    former = module._modules[name]
    if not isinstance(former, Module):
        raise TypeError(f"{name} attribute is not an instance of torch.nn.Module")
    module._modules[name] = submodule
    return former


def _check_module(module: Any) -> None:
    if not isinstance(module, Module):
        raise TypeError(f"{module} is not an instance of torch.nn.Module")


def _check_name(name: str, kind: str) -> None:
    if "." in name:
        raise KeyError(f'{kind} name can\'t contain "."')
    if not name:
        raise KeyError(f'{kind} name can\'t be empty string ""')


class NamedMemberAccessor:
    """The tensors and submodules of a module by their paths.

    Args:
        module: the module. Its tree of submodules should not change meanwhile, but by this object: modules are looked
            up once.
    """

    def __init__(self, module: Module) -> None:
        self.module = module
        self.memo: dict[str, Module] = {}

    def get_submodule(self, name: str) -> Module:
        """Return the submodule `name`; "" is the module itself.

        Raises AttributeError if there is none, TypeError for another attribute.
        """
        if not name:
            return self.module
        if name not in self.memo:
            prefix, _, last = name.rpartition(".")
            owner = self.get_submodule(prefix)
            if not hasattr(owner, last):
                raise AttributeError(f"{owner._get_name()} has no attribute `{last}`")
            found = getattr(owner, last)
            if not isinstance(found, Module):
                raise TypeError(f"submodule `{name}`: {found} is not an instance of torch.nn.Module")
            self.memo[name] = found
        return self.memo[name]

    def swap_submodule(self, path: str, value: Module) -> Module:
        """Replace the submodule at `path` by `value`, and return the former one."""
        prefix, _, name = path.rpartition(".")
        former = swap_submodule(self.get_submodule(prefix), name, value)
        below = f"{path}."
        self.memo = {name: one for name, one in self.memo.items() if name != path and not name.startswith(below)}
        return former

    def _owner(self, name: str) -> tuple[Module, str]:
        prefix, _, last = name.rpartition(".")
        return self.get_submodule(prefix), last

    def get_tensor(self, name: str) -> Tensor:
        """Return the tensor `name`. Raises AttributeError if there is none, TypeError for another attribute."""
        owner, last = self._owner(name)
        if not hasattr(owner, last):
            raise AttributeError(f"{owner._get_name()} has no attribute `{name}`")
        found = getattr(owner, last)
        if not isinstance(found, Tensor) and found is not None:
            raise TypeError(f"{found} is not an instance of torch.Tensor")
        return found  # type: ignore[return-value]

    def set_tensor(self, name: str, value: Tensor) -> None:
        """Replace the tensor `name` by `value`, or add it."""
        set_tensor(*self._owner(name), value)

    def del_tensor(self, name: str) -> None:
        """Delete the tensor `name`. Raises AttributeError if there is none."""
        owner, last = self._owner(name)
        try:
            delattr(owner, last)
        except AttributeError:
            raise AttributeError(f"{owner._get_name()} has no attribute `{name}`") from None

    def swap_tensor(self, name: str, value: Tensor, allow_missing: bool = False) -> Tensor:
        """Replace the tensor `name` by `value`, and return the former one; `allow_missing` as for `swap_tensor`."""
        return swap_tensor(*self._owner(name), value, allow_missing)

    def get_tensors(self, names: Iterable[str]) -> list[Tensor]:
        """Return the tensors of several `names`."""
        return [self.get_tensor(name) for name in names]

    def set_tensors(self, names: Iterable[str], values: Iterable[Tensor]) -> None:
        """Replace the tensors of several `names` by `values`. Raises ValueError for another number of values."""
        for name, value in zip(names, values, strict=True):
            self.set_tensor(name, value)

    def set_tensors_dict(self, named_tensors: dict[str, Tensor]) -> None:
        """Replace tensors by those of `named_tensors`, a dict by names."""
        for name, value in named_tensors.items():
            self.set_tensor(name, value)

    def del_tensors(self, names: Iterable[str]) -> None:
        """Delete the tensors of several `names`."""
        for name in names:
            self.del_tensor(name)

    def swap_tensors(self, names: Iterable[str], values: Iterable[Tensor], allow_missing: bool = False) -> list[Tensor]:
        """Replace the tensors of several `names` by `values`, and return the former ones; see `swap_tensor`.

        Args:
            names, values: paths, and tensors in their order.
            allow_missing: as for `swap_tensor`.

        Raises ValueError for another number of values.
        """
        return [self.swap_tensor(name, value, allow_missing) for name, value in zip(names, values, strict=True)]

    def swap_tensors_dict(
        self, named_tensors: dict[str, Tensor], allow_missing: bool = False
    ) -> tuple[dict[str, Tensor], list[str]]:
        """Replace tensors by those of a dict; if one cannot be, none.

        Args:
            named_tensors: the new tensors by name.
            allow_missing: whether some may not be there yet.

        Returns:
            The former tensors by name, and the names that were missing.

        Raises:
            RuntimeError: naming the first tensor that cannot be replaced.
        """
        former: dict[str, Tensor] = {}
        missing = []
        try:
            for name, value in named_tensors.items():
                former[name] = self.swap_tensor(name, value, allow_missing=True)
                if former[name] is _MISSING:
                    missing.append(name)
        except Exception as error:
            self._put_back(former)
            raise RuntimeError(f"Failed to swap tensors: {error}.") from error
        if missing and not allow_missing:
            self._put_back(former)
            raise RuntimeError(f"Missing key(s): {', '.join(map(repr, missing))}.")
        return former, missing

    def _put_back(self, former: dict[str, Tensor]) -> None:
        for name, value in former.items():
            self.swap_tensor(name, value, allow_missing=True)

    def check_keys(self, keys: Iterable[str]) -> tuple[list[str], list[str]]:
        """Return the module's names of tensors that are not among `keys`, and the keys that are no such names."""
        given = set(keys)
        known = {name for name, _ in self.named_tensors(remove_duplicate=False)}
        return sorted(known - given), sorted(given - known)

    def named_parameters(self, remove_duplicate: bool = True) -> Iterator[tuple[str, Tensor]]:
        """Return an iterator over the module's parameters; `remove_duplicate` leaves out second names."""
        yield from self.module.named_parameters(remove_duplicate=remove_duplicate)

    def named_buffers(self, remove_duplicate: bool = True) -> Iterator[tuple[str, Tensor]]:
        """Return an iterator over the module's buffers; `remove_duplicate` leaves out second names."""
        yield from self.module.named_buffers(remove_duplicate=remove_duplicate)

    def named_tensors(self, remove_duplicate: bool = True) -> Iterator[tuple[str, Tensor]]:
        """Return an iterator over the module's parameters and buffers; `remove_duplicate` leaves out second names."""
        yield from self.named_parameters(remove_duplicate)
        yield from self.named_buffers(remove_duplicate)

    def named_modules(self, remove_duplicate: bool = True) -> Iterator[tuple[str, Module]]:
        """Return an iterator over the module and its submodules; `remove_duplicate` leaves out second names."""
        yield from self.module.named_modules(remove_duplicate=remove_duplicate)
