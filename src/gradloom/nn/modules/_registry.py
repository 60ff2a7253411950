"""Attributes of a module that are parameters, buffers or child modules.

They are in the dictionaries `_parameters`, `_buffers` and `_modules`; a name is in at most one of them, or is an
ordinary attribute. `Registry.__setattr__` sorts assigned values into them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gradloom.core.tensor import Tensor
from gradloom.functional import typename
from gradloom.nn.modules import _calling
from gradloom.nn.parameter import Buffer, Parameter

if TYPE_CHECKING:
    from gradloom.nn.modules.module import Module


class Registry:
    """Registration, lookup and removal of parameters, buffers and child modules."""

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Register a parameter.

        Args:
            name: attribute name.
            param: Parameter, or None for one that is absent and not in the state_dict.

        Raises:
            TypeError: for another type.
            KeyError: for a name that is taken or malformed.
            ValueError: for a non-leaf tensor.
        """
        _require_dictionary(self, "_parameters", "parameter")
        _check_name(self, name, "parameter", self.__dict__["_parameters"])
        if param is not None:
            if not isinstance(param, Parameter):
                raise TypeError(
                    f"cannot assign '{typename(param)}' object to parameter '{name}' (torch.nn.Parameter or "
                    "None required)"
                )
            if param.grad_fn is not None:
                raise ValueError(
                    f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must be created "
                    f"explicitly. To express '{name}' as a function of another Tensor, compute the value in "
                    "the forward() method."
                )
            param = _calling.registered("parameter", self, name, param)
        self._parameters[name] = param

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Register a tensor that is part of the module's state but is not trained.

        Args:
            name: attribute name.
            tensor: buffer, or None for one that is absent and not in the state_dict.
            persistent: whether the buffer is part of the state_dict.

        Raises:
            TypeError: for another type.
            KeyError: for a name that is taken or malformed.
        """
        _require_dictionary(self, "_buffers", "buffer")
        _check_name(self, name, "buffer", self.__dict__["_buffers"])
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(
                f"cannot assign '{typename(tensor)}' object to buffer '{name}' (torch Tensor or None required)"
            )
        self._buffers[name] = _calling.registered("buffer", self, name, tensor)
        if persistent:
            self._non_persistent_buffers_set.discard(name)
        else:
            self._non_persistent_buffers_set.add(name)

    def add_module(self, name: str, module: Module) -> None:
        """Register a child module, or None, under `name`."""
        if module is not None and not isinstance(module, Registry):
            raise TypeError(f"{typename(module)} is not a Module subclass")
        if isinstance(name, str) and "." in name:
            raise KeyError(f'module name can\'t contain ".", got: {name}')
        _check_name(self, name, "module", self._modules)
        self._modules[name] = _calling.registered("module", self, name, module)

    def register_module(self, name: str, module: Module) -> None:
        """Register a child module: the same as `add_module`.

        Args:
            name: attribute name.
            module: child, or None.
        """
        self.add_module(name, module)

    def get_submodule(self, target: str) -> Module:
        """Return the descendant at the dotted path `target`; the empty path is the module itself.

        Raises:
            AttributeError: if there is none.
        """
        module: Any = self
        for name in target.split(".") if target else ():
            if not hasattr(module, name):
                raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
            module = getattr(module, name)
            if not isinstance(module, Registry):
                raise AttributeError(f"`{name}` is not an nn.Module")
        return module

    def set_submodule(self, target: str, module: Module, strict: bool = False) -> None:
        """Replace the module at a dotted path.

        Args:
            target: dotted path.
            module: replacement.
            strict: require an existing child; otherwise a new name may be added to an existing parent.

        Raises:
            ValueError: for an empty path or another type.
            AttributeError: for a path through something that is not a module.
        """
        if target == "":
            raise ValueError("Cannot set the submodule without a target name!")
        if not isinstance(module, Registry):
            raise ValueError(f"`module` is not an nn.Module, found {type(module)}")
        path, _, name = target.rpartition(".")
        parent = self.get_submodule(path)
        if strict and not hasattr(parent, name):
            raise AttributeError(f"{parent._get_name()} has no attribute `{name}`")
        if hasattr(parent, name) and not isinstance(getattr(parent, name), Registry):
            raise AttributeError(f"`{name}` is not an nn.Module")
        setattr(parent, name, module)

    def get_parameter(self, target: str) -> Parameter:
        """Return the parameter at the dotted path `target`.

        Raises:
            AttributeError: if there is none.
        """
        owner, name, value = self._member_at(target)
        if not isinstance(value, Parameter):
            raise AttributeError(f"`{name}` is not an nn.Parameter")
        return value

    def get_buffer(self, target: str) -> Tensor:
        """Return the buffer at the dotted path `target`.

        Raises:
            AttributeError: if there is none.
        """
        owner, name, value = self._member_at(target)
        if name not in owner._buffers:
            raise AttributeError(f"`{name}` is not a buffer")
        return value

    def _member_at(self, target):
        path, _, name = target.rpartition(".")
        owner = self.get_submodule(path)
        if not hasattr(owner, name):
            raise AttributeError(f"{owner._get_name()} has no attribute `{name}`")
        return owner, name, getattr(owner, name)

    def __getattr__(self, name: str) -> Any:
        # Reached only if the ordinary look-up failed, so only a part of that name is possible.
        members = self.__dict__
        for kind in ("_parameters", "_buffers", "_modules"):
            if kind in members and name in members[kind]:
                return members[kind][name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __setattr__(self, name: str, value: Any) -> None:
        members = self.__dict__
        parameters = members.get("_parameters")
        if isinstance(value, Parameter):
            if parameters is None:
                raise AttributeError("cannot assign parameters before Module.__init__() call")
            self._forget(name, keep="_parameters")
            self.register_parameter(name, value)
        elif parameters is not None and name in parameters:
            if value is not None:
                raise TypeError(
                    f"cannot assign '{typename(value)}' as parameter '{name}' (torch.nn.Parameter or None expected)"
                )
            self.register_parameter(name, None)
        elif isinstance(value, Registry):
            if "_modules" not in members:
                raise AttributeError("cannot assign module before Module.__init__() call")
            self._forget(name, keep="_modules")
            members["_modules"][name] = _calling.registered("module", self, name, value)
        elif "_modules" in members and name in members["_modules"]:
            if value is not None:
                raise TypeError(
                    f"cannot assign '{typename(value)}' as child module '{name}' (torch.nn.Module or None expected)"
                )
            members["_modules"][name] = _calling.registered("module", self, name, None)
        elif isinstance(value, Buffer) or name in members.get("_buffers", ()):
            self._assign_buffer(name, value)
        else:
            object.__setattr__(self, name, value)

    def _assign_buffer(self, name, value):
        if value is not None and not isinstance(value, Tensor):
            raise TypeError(
                f"cannot assign '{typename(value)}' as buffer '{name}' (torch.nn.Buffer, torch.Tensor or None expected)"
            )
        _require_dictionary(self, "_buffers", "buffer")
        if isinstance(value, Buffer):
            self._forget(name, keep="_buffers")
            self.register_buffer(name, value, value.persistent)
        else:
            self._buffers[name] = _calling.registered("buffer", self, name, value)

    def __delattr__(self, name: str) -> None:
        for kind in ("_parameters", "_buffers", "_modules"):
            if name in self.__dict__[kind]:
                del self.__dict__[kind][name]
                self._non_persistent_buffers_set.discard(name)
                return
        object.__delattr__(self, name)

    def _forget(self, name, keep):
        """Remove `name` from everywhere except the dictionary `keep`."""
        members = self.__dict__
        members.pop(name, None)
        for kind in ("_parameters", "_buffers", "_modules"):
            if kind != keep and kind in members:
                members[kind].pop(name, None)
        if keep != "_buffers":
            members["_non_persistent_buffers_set"].discard(name)


def _require_dictionary(module, attribute, what):
    if attribute not in module.__dict__:
        raise AttributeError(f"cannot assign {what} before Module.__init__() call")


def _check_name(module, name, what, present):
    if not isinstance(name, str):
        raise TypeError(f"{what} name should be a string. Got {typename(name)}")
    if "." in name:
        raise KeyError(f'{what} name can\'t contain "."')
    if name == "":
        raise KeyError(f'{what} name can\'t be empty string ""')
    if hasattr(module, name) and name not in present:
        raise KeyError(f"attribute '{name}' already exists")
