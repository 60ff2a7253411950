"""What rewritten functions call: the other half of the hooks of Note [Rewritten functions].

Operators are recorded, functions of programs are rewritten and followed, modules by their `forward`; of Python's own
functions and methods those that only compute. Everything else taints the recording.
"""

from __future__ import annotations

import functools
import operator
import os
import sys
import warnings
from collections import OrderedDict
from contextlib import suppress
from types import BuiltinFunctionType, CellType, FrameType, FunctionType, MethodType
from typing import Any
from weakref import ReferenceType

import numpy as np

from ..core.tensor import Tensor
from ..dispatch import _operators
from ..tensors import construction
from ..types.dtype import float64, int64
from . import _known as known
from ._attributes import CONTAINERS, asked, is_a, stays
from ._effects import called as effect, is_effect, is_limit, parameters_after
from ._numbers import FREE, called as called_on_numbers, plain, replaced
from ._reads import LAZY, OBJECT, SYMBOLS, Reads, is_tuple, value_at
from ._recorder import HOOKS, MISSING, VIEWS, CannotRewriteError, active
from ._store import rewritten_code

_READERS = frozenset(
    """get items keys values copy index count join split strip lower upper startswith endswith format replace lstrip
    rstrip rsplit partition rpartition title isdigit zfill find rfind encode decode bit_length conjugate is_integer
    union intersection difference issubset issuperset isdisjoint __len__ __getitem__ __contains__ hex as_integer_ratio
    splitlines isalpha isupper islower capitalize _asdict _replace numel""".split()
)
_WRITERS = frozenset(
    """append extend insert remove pop clear sort reverse add discard update setdefault popitem move_to_end
    difference_update intersection_update __setitem__ __delitem__""".split()
)
_WALKS = (list, tuple, zip, enumerate, reversed, map, filter)  # they do not look at elements
MOST_NUMBERS = 16  # elements of a tensor that operators make from number arguments of the graph
_MAKERS = (construction.tensor, construction.as_tensor, Tensor.new_tensor)
_FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "")
_SAFE = (*known.NUMBERS, Tensor, slice, np.dtype)


class Hooks(Reads):
    """The hooks of one function."""

    def call(self, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        r = active.recorder
        if function is warnings.warn:
            if r is not None:
                r.taint("it calls warn")
            return warned(*args, **kwargs)
        if r is None:
            return function(*args, **kwargs)
        if r.reason is not None:
            if r.free:
                args, kwargs = replaced(args, plain), replaced(kwargs, plain)
            return r.call(self, function, args, kwargs)
        return _called(self, r, function, args, kwargs)


def untracked(r: Any, function: Any, args: Any, kwargs: Any) -> Any:
    """Call a function that taints the recording, with plain numbers."""
    if r.free:
        args, kwargs = replaced(args, plain), replaced(kwargs, plain)
    return function(*args, **kwargs)


def warned(message: Any, category: Any = None, stacklevel: int = 1, source: Any = None, **options: Any) -> None:
    """Warn as a program does that calls `warnings.warn`: of a line of its own, not of the hooks."""
    frame: FrameType | None = sys._getframe(0)
    level = 0
    while frame is not None and stacklevel > 0:
        level += 1
        if not frame.f_code.co_filename.startswith(_FOLDER):
            stacklevel -= 1
        frame = frame.f_back
    warnings.warn(message, category, level + max(stacklevel, 0), source, **options)


def _called(hooks: Hooks, r: Any, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    cls = type(function)
    if cls is MethodType:
        if is_effect(function):
            return effect(r, function, args, kwargs)
        after = parameters_after(r, function, args, kwargs)
        if after is not None:
            return after
        if known.is_module(function.__self__) and _calls_module(function.__func__):
            return _module_followed(hooks, r, function.__self__, args, kwargs)
        if known.is_operator(function.__func__):
            return _operated(r, function.__func__, (function.__self__, *args), kwargs)
        return _called(hooks, r, function.__func__, (function.__self__, *args), kwargs)
    if function in _MAKERS:
        with suppress(_NoNumbersError):
            return _tensor_of_numbers(r, function, args, kwargs)
    if known.is_operator(function):
        return _operated(r, function, args, kwargs)
    if isinstance(function, FunctionType):
        if is_limit(function):
            return effect(r, function, args, kwargs)
        if "_compiled_original" in function.__dict__:
            return _called(hooks, r, r.read(function.__dict__["_compiled_original"]), args, kwargs)
        if "_compile_allowed" in function.__dict__:
            return _operated(r, function, args, kwargs)
        return _followed(r, function, args, kwargs)
    if isinstance(function, type):
        return _constructed(hooks, r, function, args, kwargs)
    if isinstance(function, functools.partial) and r.classes.find(cls, "__call__") is _CALL_PARTIAL:
        if r.is_outer(function):
            r.class_of(function)
            for name in ("func", "args", "keywords"):
                r.guard(("partial", id(function), name), f"{{0}}.{name} is {{1}}", function, getattr(function, name))
            r.contents(function.keywords, False)
            kwargs = {**r.elements(function.keywords), **kwargs}
        return _called(hooks, r, function.func, (*function.args, *args), {**function.keywords, **kwargs})
    if isinstance(function, BuiltinFunctionType):
        return _builtin(hooks, r, function, args, kwargs)
    if cls is ReferenceType and not args and not kwargs:
        found = function()
        r.guard(("referent", id(function)), "{0}() is {1}", function, found)
        return r.read(found)
    if known.is_module(function):
        if "_optimized" in function.__dict__:
            original = _original_of(r, function)
            if r.reason is not None:
                return untracked(r, function, args, kwargs)
            function = original
        return _module_called(hooks, r, function, args, kwargs)
    if cls in (operator.attrgetter, operator.itemgetter) and len(args) == 1:
        return _got(hooks, function, args[0])
    method = r.classes.find(r.class_of(function), "__call__")
    if isinstance(method, FunctionType):
        return _called(hooks, r, method, (function, *args), kwargs)
    r.taint(f"it calls {getattr(function, '__qualname__', cls.__name__)}, which the compiler does not follow")
    return untracked(r, function, args, kwargs)


_CALL_PARTIAL = functools.partial.__dict__["__call__"]


def _got(hooks: Hooks, getter: Any, obj: Any) -> Any:
    """Call an `attrgetter` or `itemgetter`."""
    if type(getter) is operator.itemgetter:
        found = [hooks.item(obj, key) for key in getter.__reduce__()[1]]
    else:
        found = [functools.reduce(hooks.attr, path.split("."), obj) for path in getter.__reduce__()[1]]
    return found[0] if len(found) == 1 else tuple(found)


def _operated(r: Any, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    for value in (*args, *kwargs.values()):
        if value.__class__ in (list, dict):
            r.contents(value)
        elif not isinstance(value, _SAFE) and not isinstance(value, tuple) and not known.is_library_value(value):
            if not isinstance(value, type) and not known.is_librarys(type(value)):
                r.taint(f"it passes a {type(value).__name__} to {function.__name__}")
    if function.__name__ in known.SETTINGS and not args and not kwargs:
        return r.equal(("setting", function.__name__), "{0}()", function(), function)
    if kwargs.get("out") is not None:
        r.taint(f"it calls {function.__name__} with out=")
    if function.__name__ in known.GEOMETRY:
        for value in args:
            if isinstance(value, Tensor) and id(value) not in r.tensors:
                r.use(value)
        result = function(*r.taken(args), **r.taken(kwargs))
        if not isinstance(result, Tensor):
            if function.__name__ in known.OF_MEMORY and isinstance(args[0], Tensor) and len(args) == 1:
                r.evaluated(("memory", function.__name__), f"{{0}}.{function.__name__}()", result, args[0])
            return result
        r.taint(f"{function.__name__} returned a tensor")
        return result
    return r.step(function, args, kwargs)


class _NoNumbersError(Exception):
    """The data given for a tensor are not Python numbers."""


def _tensor_of_numbers(r: Any, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call `tensor`, `as_tensor` or `new_tensor` on numbers; those that are arguments of the graph stay arguments.

    Raises _NoNumbersError if the data are not numbers, or other options need a call in Python.
    """
    options = dict(kwargs)
    if function is Tensor.new_tensor and args:
        options["dtype"] = options.get("dtype") or args[0].dtype
        args = args[1:]
    options |= zip(("dtype", "device"), args[1:], strict=False)
    if not args or options.get("requires_grad") or options.get("device") is not None:
        raise _NoNumbersError
    leaves: list[Any] = []
    data = _numbers_in(r, args[0], leaves)
    made = construction.tensor(replaced(data, plain), **options)
    wide: Any = float64 if made.dtype.is_floating_point else int64
    refuses = wide is int64 and (made.dtype != int64 or any(plain(v).__class__ is float for v in leaves))
    if refuses or len(leaves) > MOST_NUMBERS or not any(type(v) in FREE for v in leaves):
        return r.step(construction.tensor, (r.taken(data),), options)

    def built(value: Any) -> Any:
        if value.__class__ is list:
            return r.step(_operators.stack, ([built(v) for v in value], 0), {})
        return r.step(_operators.full, ((), value), {"dtype": wide})

    found = built(data)
    return found if made.dtype == wide else r.step(Tensor.to, (found, made.dtype), {})


def _numbers_in(r: Any, value: Any, leaves: list[Any]) -> Any:
    """Return `value` as nested lists of numbers, and append these numbers to `leaves`."""
    if value.__class__ is list or value.__class__ is tuple:
        r.contents(value, False)
        return [_numbers_in(r, v, leaves) for v in r.elements(value)]
    if plain(value).__class__ not in (float, int, bool):
        raise _NoNumbersError
    leaves.append(value)
    return value


def _followed(r: Any, function: FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a Python function with hooks."""
    if HOOKS in function.__code__.co_freevars:  # it was defined in a rewritten function
        return function(*args, **kwargs)
    if getattr(function, "_compile_disabled", False):
        r.taint(f"it calls {function.__qualname__}, for which compiling is disabled")
        return untracked(r, function, args, kwargs)
    if not known.is_followed(function):
        r.taint(f"it calls {function.__module__}.{function.__qualname__}, which is not followed")
        return untracked(r, function, args, kwargs)
    try:
        hooks = Hooks(function)
        made = rewritten(function, hooks)
    except CannotRewriteError as error:
        r.taint(f"it calls {function.__qualname__}, which cannot be followed: {error}")
        return untracked(r, function, args, kwargs)
    if r.first is None:
        r.first = hooks
    _stays_as_defined(r, function)
    return made(*args, **kwargs)


def _stays_as_defined(r: Any, function: FunctionType) -> None:
    """Require that a function has the same code and defaults."""
    r.guard(("code", id(function)), "{0}.__code__ is {1}", function, function.__code__)
    for value in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()):
        r.read(value)
    if function.__defaults__:
        r.guard(("defaults", id(function)), "{0}.__defaults__ is {1}", function, function.__defaults__)
    if function.__kwdefaults__:
        r.guard(
            ("kwdefaults", id(function)),
            "same_dict({0}.__kwdefaults__, {1})",
            function,
            tuple(function.__kwdefaults__.items()),
        )


def rewritten(function: FunctionType, hooks: Any) -> FunctionType:
    """Return a function with the same meaning whose reads and calls go through `hooks`. Raises CannotRewriteError."""
    code = rewritten_code(function)
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    cells[HOOKS] = CellType(hooks)
    closure = tuple([cells[name] for name in code.co_freevars])
    made = FunctionType(code, function.__globals__, function.__name__, function.__defaults__, closure)
    made.__kwdefaults__ = function.__kwdefaults__
    return made


def _constructed(hooks: Hooks, r: Any, cls: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if known.is_context_class(cls):
        return cls(*r.taken(args), **r.taken(kwargs))
    if cls is type and len(args) == 1:
        return r.class_of(plain(args[0]))
    if cls is reversed and len(args) == 1 and isinstance(args[0], Tensor):
        return hooks.call(type(args[0]).__reversed__, args[0])
    if cls in (float, int) and len(args) == 1 and type(args[0]) in FREE:
        found = called_on_numbers(cls, *args)
        if found is not NotImplemented:
            return found
    if known.is_pure_class(cls) or issubclass(cls, tuple) and hasattr(cls, "_fields"):
        if cls in (map, filter):
            args = (functools.partial(hooks.call, args[0]), *args[1:])
        for value in args:
            if isinstance(value, Tensor):
                if cls in (int, float, bool, complex, str, dict, set, frozenset):
                    r.taint(f"{cls.__name__}() reads the value of a tensor")
                elif cls is not tuple and not hasattr(cls, "_fields"):
                    args = tuple([hooks.iter(a) if isinstance(a, Tensor) else a for a in args])
            elif value.__class__ in CONTAINERS or value.__class__ is OrderedDict:
                walks = cls in (*_WALKS, dict) and value.__class__ in (list, tuple, dict)
                r.contents(value, not walks)
                args = tuple([r.elements(a) if a is value and walks else a for a in args])
            elif cls in (list, tuple, set, frozenset, dict, zip, enumerate, map, filter, reversed):
                args = tuple([hooks.iter(a) if a is value and not callable(a) else a for a in args])
            elif not isinstance(value, (*known.NUMBERS, range, tuple, *VIEWS, *LAZY)) and not known.is_library_value(
                value
            ):
                if cls is not object:
                    r.taint(f"{cls.__name__}() reads a {type(value).__name__}")
        if cls not in (*_WALKS, dict, slice, bool):
            args, kwargs = r.taken(args), r.taken(kwargs)
        return cls(*args, **kwargs)
    new, init = r.classes.find(cls, "__new__"), r.classes.find(cls, "__init__")
    if known.is_plain_dataclass(cls):
        for name in ("__post_init__", "__setattr__", "__getattribute__", "__getattr__", "__slots__"):
            r.classes.find(cls, name)
        _stays_as_defined(r, init)
        return cls(*args, **kwargs)
    if type(cls) is type and new is OBJECT["__new__"] and isinstance(init, FunctionType) and known.is_followed(init):
        if known.is_module_class(cls):
            r.taint(f"it makes a {cls.__name__}")
            return untracked(r, cls, args, kwargs)
        made: Any = object.__new__(cls)
        _followed(r, init, (made, *args), kwargs)
        return made
    r.taint(f"it makes a {cls.__name__}")
    return untracked(r, cls, args, kwargs)


def _builtin(hooks: Any, r: Any, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    name, owner = function.__name__, function.__self__
    if function is getattr or function is hasattr:
        if type(args[1]) is str:
            return asked(hooks, r, function, args)
    elif function is setattr and type(args[1]) is str:
        setattr(hooks.store(args[0], args[1]), args[1], args[2])
        return None
    elif function is iter and len(args) == 1:
        return iter(hooks.iter(args[0]))
    elif function is next:
        if type(args[0]) in LAZY and not r.is_outer(args[0]):
            return next(*args)
    elif function is isinstance or function is issubclass:
        return is_a(r, function, plain(args[0]), args[1])
    elif function is callable:
        r.classes.find(r.class_of(plain(args[0])), "__call__")
        return callable(plain(args[0]))
    elif function is len:
        return _length(hooks, r, args[0])
    elif function in (min, max, sum, any, all, sorted) or known.is_pure(function):
        if any(isinstance(a, Tensor) for a in (*args, *kwargs.values())):
            return _python_on_tensors(hooks, r, function, args, kwargs)
        if "key" in kwargs:
            kwargs = {**kwargs, "key": functools.partial(hooks.call, kwargs["key"])}
        args = tuple(
            [list(hooks.iter(a)) if type(a) in LAZY and type(a) is not range or type(a) in VIEWS else a for a in args]
        )
        if function is sum and any(isinstance(v, Tensor) for v in args[0]):
            return _sum(hooks, *args, **kwargs)
        args = tuple([_elements(r, a) for a in args])
        for value in args:
            hooks.used(r, value)
        found = called_on_numbers(function, *args) if r.free and not kwargs else NotImplemented
        if found is not NotImplemented:
            return found
        return function(*r.taken(args), **r.taken(kwargs))
    elif type(owner) in (*CONTAINERS, OrderedDict, str, int, float, bytes, bool) or known.is_library_value(owner):
        if name in _WRITERS and type(owner) in (list, dict, set) or type(owner) is OrderedDict and name in _WRITERS:
            hooks.store(owner)
            if name not in ("append", "extend"):
                args = r.taken(args)
            return function(*args, **kwargs)
        if name in ("get", "items", "values", "copy") and type(owner) in (dict, OrderedDict) and not kwargs:
            if name == "get" and isinstance(args[0], known.NUMBERS):
                key = r.taken(args[0])
                found = value_at(r, owner, key, owner.get(key, MISSING))
                return function(*args) if found is MISSING else found
            if name != "get":
                r.contents(owner, False)
                return r.elements(owner).copy() if name == "copy" else r.view(owner, name)
        if name in _READERS:
            if not isinstance(owner, (str, int, float, bytes)):
                r.contents(owner)
            if name == "join":
                args = tuple([list(hooks.iter(a)) for a in args])
            for value in args:
                if name != "get":
                    hooks.used(r, value)
            return function(*r.taken(args), **r.taken(kwargs))
    r.taint(f"it calls {getattr(function, '__qualname__', name)}")
    return untracked(r, function, args, kwargs)


def _elements(r: Any, value: Any) -> Any:
    """Return an argument of a function that reads a sequence, with what stands for numbers in it."""
    if value.__class__ is not list and not isinstance(value, tuple):
        return value
    r.contents(value, False)
    return r.elements(value)


def _python_on_tensors(hooks: Hooks, r: Any, function: Any, args: Any, kwargs: Any) -> Any:
    """Call one of Python's functions that works on tensors by their operators."""
    if function is abs or function is operator.abs:
        stays(r, type(args[0]), "__abs__")
        return r.step(abs, args, kwargs)
    if function is pow and len(args) == 2:
        return hooks.operator("**", *args)
    if function is operator.getitem:
        return hooks.item(*args)
    if function in SYMBOLS:
        return hooks.operator(SYMBOLS[function], *args)
    if function is sum:
        return _sum(hooks, *args, **kwargs)
    r.taint(f"{function.__name__}() reads the values of tensors")
    return untracked(r, function, args, kwargs)


def _sum(hooks: Any, iterable: Any, /, start: Any = 0) -> Any:
    return functools.reduce(lambda a, b: hooks.operator("+", a, b), hooks.iter(iterable), start)


def _length(hooks: Hooks, r: Any, value: Any) -> int:
    cls = type(value)
    if isinstance(value, Tensor):
        stays(r, cls, "__len__")
        if id(value) not in r.tensors:
            r.use(value)
    elif cls in CONTAINERS or cls is OrderedDict:
        r.contents(value, False)
    elif not isinstance(value, (str, range, bytes, *VIEWS)) and not is_tuple(r, value, "__len__"):
        method = r.classes.find(r.class_of(value), "__len__")
        if isinstance(method, FunctionType):
            return int(hooks.call(method, value))
        r.taint(f"it takes the length of a {cls.__name__}")
    return len(value)


_HAS_NO_HOOKS = (
    "not ({0}['_forward_hooks'] or {0}['_forward_pre_hooks'] or {0}['_backward_hooks'] "
    "or len({0}['_backward_pre_hooks']))"
)


def _module_called(hooks: Hooks, r: Any, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a module by its class's `__call__`."""
    cls = r.class_of(module)
    method = r.classes.find(cls, "__call__")
    if _calls_module(method):
        return _module_followed(hooks, r, module, args, kwargs)
    if isinstance(method, FunctionType):
        return _called(hooks, r, method, (module, *args), kwargs)
    r.taint(f"it calls a {cls.__name__}, which has a __call__ of its own")
    return untracked(r, module, args, kwargs)


def _original_of(r: Any, module: Any) -> Any:
    """Return the original of a compiled module. Hooks on the compiled one end the graph."""
    members = module.__dict__
    if any(members[f"_{kind}_hooks"] for kind in ("forward", "forward_pre", "backward", "backward_pre")):
        r.taint("hooks are registered on a compiled module")
    r.guard(("hooks", id(module)), _HAS_NO_HOOKS, members)
    original = members["_modules"]["_orig_mod"]
    r.guard(("original", id(module)), "{0}['_orig_mod'] is {1}", members["_modules"], original)
    return r.read(original)


def _calls_module(function: Any) -> bool:
    """Return whether a function is what calls Modules."""
    from ..nn.modules._calling import Calling

    return function is Calling.__dict__["__call__"] or function is Calling._call_impl


def _module_followed(hooks: Hooks, r: Any, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Do what `Calling.__call__` does: follow a module's `forward`, if nothing hooks into it."""
    from ..nn.modules import _calling

    shared = [
        _calling._global_forward_hooks, _calling._global_forward_pre_hooks, _calling._global_backward_hooks,
        _calling._global_backward_pre_hooks,
    ]  # fmt: skip
    if _calling.has_hooks(module):
        r.taint(f"hooks are registered on a {type(module).__name__}")
    if r.reason is not None:
        return _calling.Calling._call_impl(module, *args, **kwargs)
    r.guard("global hooks", "not ({0} or {1} or {2} or {3})", *shared)
    if r.is_outer(module):
        r.guard(("hooks", id(module)), _HAS_NO_HOOKS, module.__dict__)
    return hooks.call(hooks.attr(module, "forward"), *args, **kwargs)
