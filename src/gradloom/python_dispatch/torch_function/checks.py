"""The check of public functions for overrides: when it is on, and what a checked call does; see Note [Torch
functions]."""

from __future__ import annotations

import sys
import weakref
from threading import get_ident
from types import FunctionType
from typing import Any

from ...dispatch import _operators
from ...dispatch.function_code import CheckedFunction, lock
from ...dispatch.overloads import register_types
from ...dispatch.overloads.registry import types
from ...dispatch.state import ALL_DISABLED, ENABLED, state
from ...types.silence import module_name
from .handlers import call_handlers, overloaded_arguments, plain, reset_plain
from .public import OTHERS, Public, forget_names, public_functions

modes_entered: dict[int, int] = {}  # identity of a thread -> number of modes that it has entered
checked: dict[FunctionType, tuple[CheckedFunction, Public]] = {}  # of all public functions; made when first needed
_classes: dict[int, weakref.ref[Any]] = {}  # those that override functions and still exist, by identity
_are_checked = [False]
_of_unknown_class: list = []  # handler of the first call with an unknown class, while functions do not check


def are_checked() -> bool:
    """Return whether public functions check for overrides now."""
    return _are_checked[0]


def _handle(found: CheckedFunction, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call the handlers of a mode and of overloaded arguments; if there are none, call the function itself."""
    level = state.function_overrides
    if level == ALL_DISABLED:
        return found.unchecked(*args, **kwargs)
    _, reported, _, dispatches_on, operator, spread = checked[found.function][1]
    overloaded = overloaded_arguments(args, kwargs) if level == ENABLED and dispatches_on else []
    if overloaded and dispatches_on == OTHERS:
        overloaded = [value for value in overloaded if not isinstance(value, _operators.Tensor)]
    if not (overloaded or state.function_modes) or is_internal(sys._getframe(2)):
        return found.unchecked(*args, **kwargs)
    if reported is None:
        reported, args = args[0], args[1:]
    if spread and len(args) == 2 and isinstance(args[1], (list, tuple)):
        args = (args[0], *args[1])
    if not operator:
        return call_handlers(reported, overloaded, args, kwargs)
    try:
        return call_handlers(reported, overloaded, args, kwargs)
    except TypeError:
        return NotImplemented


def check_for(cls: object) -> None:
    """Let public functions check while a class with a `__torch_function__`, or what owns its instances, exists."""
    with lock:
        key = id(cls)
        if key not in _classes:
            _classes[key] = weakref.ref(cls, lambda _: _forget(key))
        _start()


def _forget(key: int) -> None:
    with lock:
        _classes.pop(key, None)
        if not _classes:
            _stop()


def entered() -> int:
    """Return the number of modes that this thread has entered."""
    return modes_entered.get(get_ident(), 0)


def set_entered(count: int) -> None:
    """Set the number of modes that this thread has entered. Public functions check while a thread is in a mode."""
    with lock:
        if count:
            modes_entered[get_ident()] = count
            _start()
        else:
            modes_entered.pop(get_ident(), None)
            if not modes_entered:
                _stop()


def _start() -> None:
    if _are_checked[0]:
        return
    if not checked:
        reset_plain()
        _describe_device()
        _add_functions()
    for found, _ in checked.values():
        found.set_checks(True)
    if not _of_unknown_class:
        _of_unknown_class.append(types.handle_torch_function)
    register_types(handle_torch_function=None)
    _are_checked[0] = True


def _stop() -> None:
    """Restore the functions' own code if nothing can override them any more."""
    with lock:
        if modes_entered or _classes:
            return
        for found, _ in checked.values():
            found.set_checks(False)
        if _of_unknown_class:
            register_types(handle_torch_function=_of_unknown_class[0])
            _of_unknown_class.clear()
        _are_checked[0] = False


def _add_functions() -> None:
    for public in public_functions():
        if public.function not in checked:
            checked[public.function] = CheckedFunction(public.function, modes_entered, plain, _handle), public


def refresh() -> None:
    """Update the table of public functions after operators were defined or removed."""
    with lock:
        forget_names()
        _internal_modules.clear()
        if not checked:
            return
        _add_functions()
        current = {public.function for public in public_functions()}
        for function in [f for f in checked if f not in current]:
            checked.pop(function)[0].set_checks(False)
        for found, _ in checked.values():
            found.set_checks(_are_checked[0])


# Attributes that are the same for all tensors, so that they are constants of Tensor.
_CONSTANTS = (
    "device",
    "layout",
    "is_sparse",
    "is_cuda",
    "is_mps",
    "is_meta",
    "is_quantized",
    "is_mkldnn",
    "is_nested",
    "is_xpu",
    "is_vulkan",
    "is_cpu",
)


def _describe_device() -> None:
    """Make constant attributes properties, whose functions can check. They stay so; their values are the same."""
    tensor = _operators.Tensor
    for name in _CONSTANTS:
        value = vars(tensor)[name]
        if not isinstance(value, property):
            setattr(tensor, name, property(_constant(name, value)))


def _constant(name, value):
    return lambda self: self.__dict__.get(name, value)  # wrapper subclasses on the meta device have their own


# Modules of gradloom in which calls of public functions can be overridden, like a user's: in PyTorch they are Python,
# too.
_OVERRIDABLE = (
    "nn",
    "optim",
    "utils",
    "func",
    "signal",
    "overrides",
    "python_dispatch.torch_function",
    "library",
    "_library.custom_ops",
    "ops",
    "autograd.functional",
    "autograd.gradcheck",
    # What calls the functions of programs in their place.
    "compiler._api",
    "compiler._effects",
    "compiler._hooks",
    "compiler._modules",
    "compiler._pieces",
    "compiler._reads",
    "compiler._recorder",
)
# Functions elsewhere that only compose public functions: PyTorch reports the calls that they make.
_COMPOSED = frozenset(("__iter__",))
_internal_modules: dict[str, bool] = {}  # name of a module -> whether it is internal; emptied when it reaches 1,000


def is_internal(frame) -> bool:
    """Return whether a call from this frame is internal to gradloom, so that nothing overrides it.

    Args:
        frame: of the caller of a public function; None at the bottom of a stack.
    """
    if frame is None:
        return False
    name = module_name(frame.f_globals)
    found = _internal_modules.get(name)
    if found is None:
        if len(_internal_modules) >= 1000:
            _internal_modules.clear()
        found = _internal_modules[name] = is_internal_module(name)
    return found and frame.f_code.co_name not in _COMPOSED


def is_internal_module(name: str) -> bool:
    """Return whether a module is gradloom's or an operator package's, and not in _OVERRIDABLE."""
    own = __name__.partition(".")[0]
    root, _, inside = name.partition(".")
    if root != own:
        registry = sys.modules.get(f"{own}.ops._registry")
        packages = registry.registered() if registry is not None else ()
        return any(name == package or name.startswith(f"{package}.") for package in packages)
    return not any(inside == module or inside.startswith(f"{module}.") for module in _OVERRIDABLE)
