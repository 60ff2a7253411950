"""Module, the base class of neural network modules.

Its behaviour is in four base classes: `_registry` (attributes that are parts), `_traversal` (iterating over and
converting the tree), `_state_dict` (saving and loading) and `_calling` (forward and hooks).
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, Self

from gradloom.nn.modules._calling import (
    Calling,
    _global_buffer_registration_hooks as _global_buffer_registration_hooks,
    _global_module_registration_hooks as _global_module_registration_hooks,
    _global_parameter_registration_hooks as _global_parameter_registration_hooks,
    register_module_backward_hook,
    register_module_buffer_registration_hook,
    register_module_forward_hook,
    register_module_forward_pre_hook,
    register_module_full_backward_hook,
    register_module_full_backward_pre_hook,
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
)
from gradloom.nn.modules._registry import Registry
from gradloom.nn.modules._state_dict import (
    _EXTRA_STATE_KEY_SUFFIX as _EXTRA_STATE_KEY_SUFFIX,
    StateDict,
    _IncompatibleKeys as _IncompatibleKeys,
)
from gradloom.nn.modules._traversal import Traversal

__all__ = [
    "Module",
    "register_module_backward_hook",
    "register_module_buffer_registration_hook",
    "register_module_forward_hook",
    "register_module_forward_pre_hook",
    "register_module_full_backward_hook",
    "register_module_full_backward_pre_hook",
    "register_module_module_registration_hook",
    "register_module_parameter_registration_hook",
]

# The dictionaries of hooks that every module has.
_HOOK_TABLES = """
_backward_pre_hooks _backward_hooks _forward_hooks _forward_hooks_with_kwargs _forward_hooks_always_called
_forward_pre_hooks _forward_pre_hooks_with_kwargs _state_dict_hooks _state_dict_pre_hooks _load_state_dict_pre_hooks
_load_state_dict_post_hooks
""".split()


class Module(Calling, Registry, Traversal, StateDict):
    """Base class of neural network modules.

    A subclass calls `super().__init__()`, assigns parameters, buffers and child modules as attributes, and defines
    `forward`.

    Attributes:
        training: training mode (True, the default) or evaluation mode.
        call_super_init: class attribute: pass the constructor's arguments on to the next class of the MRO.
    """

    training: bool
    call_super_init: bool = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if not self.call_super_init and (args or kwargs):
            if kwargs:
                unexpected = next(iter(kwargs))
                raise TypeError(f"{type(self).__name__}.__init__() got an unexpected keyword argument '{unexpected}'")
            raise TypeError(
                f"{type(self).__name__}.__init__() takes 1 positional argument but {len(args) + 1} were given"
            )
        # Directly into __dict__: none of these is a part, for which __setattr__ would look.
        members = self.__dict__
        members["training"] = True
        members["_parameters"] = {}
        members["_buffers"] = {}
        members["_non_persistent_buffers_set"] = set()
        members["_is_full_backward_hook"] = None
        for table in _HOOK_TABLES:
            members[table] = OrderedDict()
        members["_modules"] = {}
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        # Modules pickled before a kind of hook existed lack its table.
        for table in _HOOK_TABLES:
            self.__dict__.setdefault(table, OrderedDict())
        self.__dict__.setdefault("_non_persistent_buffers_set", set())
        self.__dict__.setdefault("_is_full_backward_hook", None)

    def _get_name(self):
        return type(self).__name__

    def _replicate_for_data_parallel(self) -> Self:
        """Return a module with the same attributes, containers of its own and no parameters."""
        replica = type(self).__new__(type(self))
        replica.__dict__ = self.__dict__.copy()
        replica._parameters = {}
        replica._buffers, replica._modules = self._buffers.copy(), self._modules.copy()
        replica.__dict__["_is_replica"] = True
        return replica

    def extra_repr(self) -> str:
        """Return the module's own part of its repr, between the parentheses."""
        return ""

    def __repr__(self) -> str:
        extra = self.extra_repr()
        own = extra.split("\n") if extra else []
        children = [f"({name}): {_indent(repr(module))}" for name, module in self._modules.items()]
        if not children and len(own) <= 1:
            return f"{self._get_name()}({extra})"
        body = "\n  ".join(own + children)
        return f"{self._get_name()}(\n  {body}\n)"

    def __dir__(self) -> list[str]:
        names = {*dir(type(self)), *self.__dict__, *self._parameters, *self._modules, *self._buffers}
        # Children of a Sequential are named "0", "1", ..., which are no attribute names.
        return sorted(name for name in names if not name[0].isdigit())


def _indent(text):
    """Indent all lines but the first by two columns."""
    return text.replace("\n", "\n  ")
