"""The hooks of rewritten functions: each does what Python would and tells the recorder; Note [Rewritten functions]."""

from __future__ import annotations

import builtins
import functools
import operator as _operator
from collections.abc import Iterator
from types import (
    BuiltinFunctionType,
    ClassMethodDescriptorType,
    FunctionType,
    GeneratorType,
    MethodDescriptorType,
    MethodType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import Any

import numpy as np

from ..core.tensor import Tensor
from ..nn.modules import _calling, module as _module
from ..nn.modules._calling import Calling
from . import _known as known
from ._recorder import MISSING, active, cell_value
from ._rewrite import CannotRewriteError, rewritten

_OPERATORS = {
    "+": _operator.add, "-": _operator.sub, "*": _operator.mul, "/": _operator.truediv, "//": _operator.floordiv,
    "%": _operator.mod, "**": _operator.pow, "@": _operator.matmul, "&": _operator.and_, "|": _operator.or_,
    "^": _operator.xor, "<<": _operator.lshift, ">>": _operator.rshift, "==": _operator.eq, "!=": _operator.ne,
    "<": _operator.lt, "<=": _operator.le, ">": _operator.gt, ">=": _operator.ge, "neg": _operator.neg,
    "pos": _operator.pos, "~": _operator.invert, "+=": _operator.iadd, "-=": _operator.isub, "*=": _operator.imul,
    "/=": _operator.itruediv, "//=": _operator.ifloordiv, "%=": _operator.imod, "**=": _operator.ipow,
    "@=": _operator.imatmul, "&=": _operator.iand, "|=": _operator.ior, "^=": _operator.ixor,
    "<<=": _operator.ilshift, ">>=": _operator.irshift,
}  # fmt: skip
_CONTAINERS = (list, dict, set, tuple, frozenset)
# Descriptors whose result follows from the object alone.
_BINDING = (
    FunctionType, staticmethod, classmethod, MethodDescriptorType, WrapperDescriptorType, ClassMethodDescriptorType,
)  # fmt: skip
_OBJECT = vars(object)
# `__getattribute__` of these looks attributes up as that of `object` does.
_USUAL_LOOKUP = frozenset(
    vars(c)["__getattribute__"] for c in (object, *_CONTAINERS, str, int, float) if "__getattribute__" in vars(c)
)
_EMPTY: dict[Any, Any] = {}
_VIEWS: tuple[type, ...] = (type(_EMPTY.keys()), type(_EMPTY.values()), type(_EMPTY.items()))
_LAZY: tuple[type, ...] = (
    zip, enumerate, map, filter, reversed, range, type(iter([])), type(iter(())), type(iter("")), type(iter(set())),
    type(iter(range(0))), type(iter(_EMPTY)), type(iter(_EMPTY.values())), type(iter(_EMPTY.items())),
    type(reversed([])), GeneratorType,
)  # fmt: skip
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
_SAFE = (*known.NUMBERS, Tensor, slice, np.dtype)
_CALLS = (Calling.__dict__["__call__"], Calling._call_impl)
_module_getattr = _module.Module.__getattr__ if hasattr(_module.Module, "__getattr__") else None


class Hooks:
    """The hooks of one function, which know its globals and closure."""

    slice = staticmethod(builtins.slice)

    def __init__(self, function: Any) -> None:
        self.names = function.__globals__
        self.cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))

    # --- reads ----------------------------------------------------------------------------------------------------

    def global_(self, name: str) -> Any:
        names = self.names
        value = names.get(name, MISSING)
        r = active.recorder
        if value is not MISSING:
            if r is not None and r.reason is None:
                r.equal(("global", id(names), name), f"{{0}}.get({name!r}, MISSING)", value, names)
                r.read(value)
            return value
        value = getattr(builtins, name, MISSING)
        if value is MISSING:
            raise NameError(f"name {name!r} is not defined")
        if r is not None and r.reason is None:
            space = vars(builtins)
            r.guard(
                ("builtin", id(names), name),
                f"{name!r} not in {{0}} and {{1}}.get({name!r}) is {{2}}",
                names,
                space,
                value,
            )
        return value

    def free(self, name: str, value: Any) -> Any:
        r = active.recorder
        if r is not None and r.reason is None:
            cell = self.cells[name]
            r.equal(("cell", id(cell)), "cell_value({0})", value, cell)
            r.read(value)
        return value

    def imported(self, value: Any, module: str = "", name: str = "") -> None:
        r = active.recorder
        if r is None or r.reason is not None:
            return
        if module:
            import sys

            r.equal(("imported", module, name), f"getattr({{0}}, {name!r}, MISSING)", value, sys.modules[module])
        r.read(value)

    def attr(self, obj: Any, name: str) -> Any:
        r = active.recorder
        if r is None or r.reason is not None:
            return getattr(obj, name)
        cls = type(obj)
        if isinstance(obj, Tensor):
            return _attr_of_tensor(r, obj, name)
        if cls in known.NUMBERS or cls in _CONTAINERS or cls is slice or known.is_library_value(obj):
            return getattr(obj, name)
        if isinstance(obj, ModuleType):
            return _attr_of_module(r, obj, name)
        if isinstance(obj, type):
            value = getattr(obj, name)
            raw = _static(obj, name)
            r.guard(("class", id(obj), name), f"static({{0}}, {name!r}) is {{1}}", obj, raw)
            return r.read(value) if raw is value else value
        if cls is super:
            value = getattr(obj, name)
            owners = obj.__self_class__.__mro__
            after = owners[owners.index(obj.__thisclass__) + 1 :]
            owner = next((c for c in after if name in c.__dict__), None)
            if owner is not None:
                r.guard(
                    ("super", id(owner), name), f"{{0}}.__dict__.get({name!r}) is {{1}}", owner, owner.__dict__[name]
                )
            return value
        return _attr_of_object(r, obj, cls, name)

    def item(self, obj: Any, index: Any) -> Any:
        r = active.recorder
        if r is None or r.reason is not None:
            return obj[index]
        cls = type(obj)
        if isinstance(obj, Tensor):
            return r.step(_operator.getitem, (obj, index), {})
        if isinstance(obj, (str, range)) or cls.__name__ == "Size":
            return obj[index]
        if cls in (list, tuple) or isinstance(obj, tuple):
            value = obj[index]
            if cls is list and r.is_outer(obj) and id(obj) not in r.whole:
                r.contents(obj)
            return value
        if cls is dict or cls.__name__ == "OrderedDict":
            if type(index) not in known.NUMBERS and not isinstance(index, tuple):
                r.taint(f"it looks up a {type(index).__name__} in a dictionary")
            value = obj[index]
            if r.is_outer(obj) and id(obj) not in r.whole:
                r.equal(("key", id(obj), type(index), index), "{0}.get({1}, MISSING)", value, obj, index)
                r.read(value)
            return value
        if isinstance(obj, type):
            return obj[index]  # type: ignore[index]
        method = _static(cls, "__getitem__")
        if isinstance(method, FunctionType):
            r.guard(("class", id(cls), "__getitem__"), "static({0}, '__getitem__') is {1}", cls, method)
            return self.call(method, obj, index)
        r.taint(f"it takes an item of a {cls.__name__}")
        return obj[index]

    # --- iteration and unpacking ----------------------------------------------------------------------------------

    def iter(self, obj: Any, depth: int = 0) -> Any:
        """Return an iterable of the elements, noting what is read; `depth` further levels are unpacked by Python."""
        r = active.recorder
        if r is None or r.reason is not None:
            return obj
        cls = type(obj)
        if isinstance(obj, Tensor):
            found: Any = r.step(Tensor.unbind, (obj, 0), {}) if obj._array.ndim else iter(obj)
        elif cls in _CONTAINERS or isinstance(obj, tuple) or cls.__name__ == "OrderedDict":
            r.contents(obj)
            found = obj
        elif cls in (str, range, bytes) or cls in _VIEWS or cls in _LAZY:
            if cls in _LAZY and cls is not range and r.is_outer(obj):
                r.taint("it consumes an iterator from outside")
            found = obj
        else:
            method = _static(cls, "__iter__")
            if not isinstance(method, FunctionType):
                r.taint(f"it iterates over a {cls.__name__}")
                return obj
            r.guard(("class", id(cls), "__iter__"), "static({0}, '__iter__') is {1}", cls, method)
            found = self.call(method, obj)
        return self._deep(found, depth) if depth else found

    def _deep(self, found: Any, depth: int) -> Iterator[Any]:
        for element in found:
            yield self.iter(element, depth - 1)

    def mapping(self, obj: Any) -> Any:
        r = active.recorder
        if r is not None and r.reason is None:
            if type(obj) is dict:
                r.contents(obj)
            else:
                r.taint(f"it unpacks a {type(obj).__name__}")
        return obj

    # --- operators and tests --------------------------------------------------------------------------------------

    def operator(self, symbol: str, *operands: Any) -> Any:
        function: Any = _OPERATORS[symbol]
        r = active.recorder
        if r is None or r.reason is not None:
            return function(*operands)
        if any(isinstance(o, Tensor) for o in operands):
            if not all(isinstance(o, (Tensor, *known.NUMBERS)) or o.__class__ in (list, tuple) for o in operands):
                r.taint(f"it computes with a tensor and a {type(operands[-1]).__name__}")
            if symbol in ("==", "!=") and None in [o for o in operands if not isinstance(o, Tensor)]:
                return function(*operands)
            return r.step(function, operands, {})
        for o in operands:
            self._used(r, o)
        if symbol.endswith("=") and symbol not in ("==", "<=", ">=", "!=") and r.is_outer(operands[0]):
            if type(operands[0]) in (list, dict, set):
                r.taint("it changes a container from outside")
        return function(*operands)

    def _used(self, r: Any, value: Any) -> None:
        """Note that Python reads an object as a whole, as in a comparison."""
        cls = type(value)
        if (
            cls in known.NUMBERS
            or cls is slice
            or cls is range
            or known.is_library_value(value)
            or isinstance(value, type)
        ):
            return
        if cls in _CONTAINERS:
            r.contents(value)
            for v in value:
                if isinstance(v, Tensor):
                    r.taint("it compares or joins containers of tensors")
                elif v is not value:
                    self._used(r, v)
        elif isinstance(value, tuple) and hasattr(value, "_fields"):
            return
        else:
            r.taint(f"it computes with a {cls.__name__}")

    def contains(self, element: Any, container: Any) -> bool:
        r = active.recorder
        if r is not None and r.reason is None:
            if isinstance(container, Tensor) or isinstance(element, Tensor):
                r.taint("it asks whether a tensor is in a container, or what is in a tensor")
            elif isinstance(container, str) or type(container) in _VIEWS:
                pass
            elif type(container) in _CONTAINERS or type(container).__name__ == "OrderedDict":
                r.contents(container)
                self._used(r, element)
            elif isinstance(_static(type(container), "__contains__"), FunctionType):
                return bool(self.call(_static(type(container), "__contains__"), container, element))
            else:
                r.taint(f"it asks whether something is in a {type(container).__name__}")
        return element in container

    def tested(self, value: Any) -> Any:
        r = active.recorder
        if r is not None and r.reason is None:
            cls = type(value)
            if isinstance(value, Tensor):
                r.taint("it branches on the value of a tensor")
            elif cls in _CONTAINERS or cls.__name__ == "OrderedDict":
                r.contents(value)
            elif cls in known.NUMBERS or known.is_library_value(value) or isinstance(value, (tuple, range, *_VIEWS)):
                pass
            elif _static(cls, "__bool__") is not MISSING or _static(cls, "__len__") is not MISSING:
                method = _static(cls, "__bool__")
                method = _static(cls, "__len__") if method is MISSING else method
                if isinstance(method, FunctionType):
                    return bool(self.call(method, value))
                r.taint(f"it tests a {cls.__name__}")
        return value

    def plain(self, value: Any) -> Any:
        r = active.recorder
        if r is not None and r.reason is None:
            if isinstance(value, Tensor):
                r.taint("it turns a tensor into text, or compares it in a chain")
            else:
                self._used(r, value)
        return value

    # --- writes ---------------------------------------------------------------------------------------------------

    def store(self, obj: Any, name: str = "") -> Any:
        """Return an object that Python is about to write to."""
        r = active.recorder
        if r is not None and r.reason is None:
            cls = type(obj)
            if isinstance(obj, Tensor):
                r.taint("it sets an attribute or, in an unpacking, an item of a tensor")
            elif r.is_outer(obj) or isinstance(obj, (type, ModuleType)):
                r.taint(f"it changes a {cls.__name__} from outside" + (f" ({name})" if name else ""))
            elif name and (
                _static(cls, "__setattr__") is not _OBJECT["__setattr__"] or hasattr(_static(cls, name), "__set__")
            ):
                r.taint(f"it sets the attribute {name} of a {cls.__name__} by a function")
        return obj

    def set_item(self, obj: Any, index: Any, value: Any) -> None:
        r = active.recorder
        if r is not None and r.reason is None and isinstance(obj, Tensor):
            r.step(_set_item, (obj, index, value), {})
            return
        if type(obj) in (list, dict):
            self.store(obj)
        elif r is not None and r.reason is None:
            r.taint(f"it sets an item of a {type(obj).__name__}")
        obj[index] = value

    def change_attr(self, obj: Any, name: str, symbol: str, value: Any) -> None:
        before = self.attr(obj, name)
        found = self.operator(symbol, before, value)
        if found is before and isinstance(found, Tensor) and isinstance(obj, Calling):
            return  # `self.buffer += 1` wrote to the tensor, which stays where it is
        setattr(self.store(obj, name), name, found)

    def change_item(self, obj: Any, index: Any, symbol: str, value: Any) -> None:
        self.set_item(obj, index, self.operator(symbol, self.item(obj, index), value))

    def taint(self, reason: str) -> None:
        r = active.recorder
        if r is not None:
            r.taint(reason)

    def context(self, value: Any) -> Any:
        r = active.recorder
        if r is not None and r.reason is None and not known.is_context(value):
            r.taint(f"it enters a {type(value).__name__}")
        return value

    def made(self, function: Any) -> Any:
        """Note a function that was defined in a rewritten one, and so calls hooks itself."""
        r = active.recorder
        if r is not None:
            r.kept.append(function)
        return function

    # --- calls ----------------------------------------------------------------------------------------------------

    def call(self, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        r = active.recorder
        if r is None:
            return function(*args, **kwargs)
        if r.reason is not None:
            return r.call(self, function, args, kwargs)
        return _called(self, r, function, args, kwargs)


def _set_item(tensor: Any, index: Any, value: Any) -> Any:
    """Write to a part of a tensor; return the tensor."""
    tensor[index] = value
    return tensor


def _static(cls: type, name: str) -> Any:
    """Return what the classes of an MRO have under a name; MISSING if nothing."""
    for c in cls.__mro__:
        if name in c.__dict__:
            return c.__dict__[name]
    return MISSING


def _attr_of_tensor(r: Any, obj: Any, name: str) -> Any:
    if type(obj) not in known.PLAIN:
        r.taint(f"it uses a {type(obj).__name__}")
    elif name in known.METADATA:
        if id(obj) not in r.tensors:
            r.use(obj)
    elif name in known.COMPUTED:
        return r.step(_operator.attrgetter(name), (obj,), {})
    found = getattr(obj, name)  # the first use of a method binds it to the class
    if r.reason is None and name not in known.METADATA:
        if name in obj.__dict__ or not isinstance(_static(type(obj), name), FunctionType):
            r.taint(f"it reads the attribute {name} of a tensor")
    return found


def _attr_of_module(r: Any, obj: ModuleType, name: str) -> Any:
    value = getattr(obj, name)
    if name in vars(obj):
        r.equal(("global", id(vars(obj)), name), f"{{0}}.get({name!r}, MISSING)", value, vars(obj))
    elif not obj.__name__.startswith("gradloom"):
        r.taint(f"it reads {obj.__name__}.{name}, which the module computes")
    return r.read(value)


def _attr_of_object(r: Any, obj: Any, cls: type, name: str) -> Any:
    raw = _static(cls, name)
    members = getattr(obj, "__dict__", None)
    outer = r.is_outer(obj) and id(obj) not in r.whole
    if _static(cls, "__getattribute__") not in _USUAL_LOOKUP:
        if not isinstance(obj, (FunctionType, MethodType)):
            r.taint(f"it reads an attribute of a {cls.__name__}, which looks attributes up in a way of its own")
        return getattr(obj, name)
    if isinstance(raw, property) and isinstance(raw.fget, FunctionType):
        r.guard(("class", id(cls), name), f"static({{0}}, {name!r}) is {{1}}", cls, raw)
        return Hooks(raw.fget).call(raw.fget, obj)
    if raw is not MISSING and hasattr(type(raw), "__set__"):
        value = getattr(obj, name)
        if outer:
            r.equal(("attr", id(obj), name), f"getattr({{0}}, {name!r}, MISSING)", value, obj)
            r.read(value)
        return value
    if members is not None and name in members:
        value = members[name]
        if outer:
            r.equal(("attr", id(obj), name), f"{{0}}.__dict__.get({name!r}, MISSING)", value, obj)
            r.read(value)
        return value
    if raw is not MISSING:
        value = getattr(obj, name)
        r.guard(("class", id(cls), name), f"static({{0}}, {name!r}) is {{1}}", cls, raw)
        if outer and members is not None:
            r.guard(("absent", id(obj), name), f"{name!r} not in {{0}}.__dict__", obj)
        if value is raw:
            r.read(value)
        elif not isinstance(raw, _BINDING):
            r.taint(f"it reads the attribute {name} of a {cls.__name__} through a descriptor")
        return value
    if _module_getattr is not None and _static(cls, "__getattr__") is _module_getattr and members is not None:
        for table in ("_parameters", "_buffers", "_modules"):
            parts = members.get(table)
            if parts is not None and name in parts:
                value = parts[name]
                if outer:
                    r.guard(("attr", id(obj), table), f"{{0}}.__dict__.get({table!r}) is {{1}}", obj, parts)
                    r.equal(("key", id(parts), str, name), "{0}.get({1}, MISSING)", value, parts, name)
                    r.guard(("absent", id(obj), name), f"{name!r} not in {{0}}.__dict__", obj)
                return r.read(value)
    if _static(cls, "__getattr__") is not MISSING:
        r.taint(f"it reads {name} of a {cls.__name__}, which has a __getattr__")
    return getattr(obj, name)


def _called(hooks: Hooks, r: Any, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    cls = type(function)
    if cls is MethodType:
        if function.__func__ in _CALLS:
            return _module_followed(hooks, r, function.__self__, args, kwargs)
        if known.is_operator(function.__func__):
            return _operated(r, function.__func__, (function.__self__, *args), kwargs)
        return _called(hooks, r, function.__func__, (function.__self__, *args), kwargs)
    if known.is_operator(function):
        return _operated(r, function, args, kwargs)
    if isinstance(function, FunctionType):
        if "_compiled_original" in function.__dict__:
            return _called(hooks, r, r.read(function.__dict__["_compiled_original"]), args, kwargs)
        if "_compile_allowed" in function.__dict__:
            return _operated(r, function, args, kwargs)
        return _followed(r, function, args, kwargs)
    if isinstance(function, type):
        return _constructed(hooks, r, function, args, kwargs)
    if isinstance(function, functools.partial):
        return _called(hooks, r, function.func, (*function.args, *args), {**function.keywords, **kwargs})
    if isinstance(function, BuiltinFunctionType):
        return _builtin(hooks, r, function, args, kwargs)
    if isinstance(function, Calling):
        if "_optimized" in function.__dict__:
            function = r.read(function.__dict__["_modules"]["_orig_mod"])
        return _module_called(hooks, r, function, args, kwargs)
    method = _static(cls, "__call__")
    if isinstance(method, FunctionType):
        r.guard(("class", id(cls), "__call__"), "static({0}, '__call__') is {1}", cls, method)
        return _called(hooks, r, method, (function, *args), kwargs)
    r.taint(f"it calls {getattr(function, '__qualname__', cls.__name__)}, which the compiler does not follow")
    return function(*args, **kwargs)


def _operated(r: Any, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    for value in (*args, *kwargs.values()):
        if value.__class__ in (list, dict):
            r.contents(value)
        elif not isinstance(value, _SAFE) and not isinstance(value, tuple) and not known.is_library_value(value):
            if not isinstance(value, type) and not type(value).__module__.startswith("gradloom"):
                r.taint(f"it passes a {type(value).__name__} to {function.__name__}")
    if kwargs.get("out") is not None:
        r.taint(f"it calls {function.__name__} with out=")
    if function.__name__ in known.GEOMETRY:
        for value in args:
            if isinstance(value, Tensor) and id(value) not in r.tensors:
                r.use(value)
        result = function(*args, **kwargs)
        if not isinstance(result, Tensor):
            return result
        r.taint(f"{function.__name__} returned a tensor")
        return result
    return r.step(function, args, kwargs)


def _followed(r: Any, function: FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a Python function with hooks."""
    if "_gradloom_hooks_" in function.__code__.co_freevars:  # it was defined in a rewritten function
        return function(*args, **kwargs)
    if getattr(function, "_compile_disabled", False):
        r.taint(f"it calls {function.__qualname__}, for which compiling is disabled")
        return function(*args, **kwargs)
    if not known.is_followed(function):
        r.taint(f"it calls {function.__module__}.{function.__qualname__}, which is not followed")
        return function(*args, **kwargs)
    try:
        hooks = Hooks(function)
        made = rewritten(function, hooks)
    except CannotRewriteError as error:
        r.taint(f"it calls {function.__qualname__}, which cannot be followed: {error}")
        return function(*args, **kwargs)
    if r.first is None:
        r.first = hooks
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
    return made(*args, **kwargs)


def _constructed(hooks: Hooks, r: Any, cls: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if known.is_context_class(cls):
        return cls(*args, **kwargs)
    if cls is type and len(args) == 1:
        return type(args[0])
    if known.is_pure_class(cls) or issubclass(cls, tuple) and hasattr(cls, "_fields"):
        if cls in (map, filter):
            args = (functools.partial(hooks.call, args[0]), *args[1:])
        for value in args:
            if isinstance(value, Tensor):
                if cls in (int, float, bool, complex, str, dict, set, frozenset):
                    r.taint(f"{cls.__name__}() reads the value of a tensor")
                elif cls is not tuple and not hasattr(cls, "_fields"):
                    args = tuple([hooks.iter(a) if isinstance(a, Tensor) else a for a in args])
            elif value.__class__ in _CONTAINERS or value.__class__.__name__ == "OrderedDict":
                r.contents(value)
            elif cls in (list, tuple, set, frozenset, dict, zip, enumerate, map, filter, reversed):
                args = tuple([hooks.iter(a) if a is value and not callable(a) else a for a in args])
            elif not isinstance(value, (*known.NUMBERS, range, tuple, *_VIEWS, *_LAZY)) and not known.is_library_value(
                value
            ):
                if cls is not object:
                    r.taint(f"{cls.__name__}() reads a {type(value).__name__}")
        return cls(*args, **kwargs)
    init = _static(cls, "__init__")
    if known.is_plain_dataclass(cls):
        r.guard(("class", id(cls), "__init__"), "static({0}, '__init__') is {1}", cls, init)
        return cls(*args, **kwargs)
    if (
        type(cls) is type
        and _static(cls, "__new__") is _OBJECT["__new__"]
        and isinstance(init, FunctionType)
        and known.is_followed(init)
    ):
        if issubclass(cls, Calling):
            r.taint(f"it makes a {cls.__name__}")
            return cls(*args, **kwargs)
        r.guard(("class", id(cls), "__init__"), "static({0}, '__init__') is {1}", cls, init)
        made = object.__new__(cls)
        _followed(r, init, (made, *args), kwargs)
        return made
    r.taint(f"it makes a {cls.__name__}")
    return cls(*args, **kwargs)


def _builtin(hooks: Any, r: Any, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    name, owner = function.__name__, function.__self__
    if function is getattr or function is hasattr:
        if type(args[1]) is str:
            return _asked(hooks, r, function, args)
    elif function is setattr and type(args[1]) is str:
        setattr(hooks.store(args[0], args[1]), args[1], args[2])
        return None
    elif function is iter and len(args) == 1:
        return iter(hooks.iter(args[0]))
    elif function is next:
        if type(args[0]) in _LAZY and not r.is_outer(args[0]):
            return next(*args)
    elif function is isinstance or function is issubclass or function is callable:
        return function(*args)
    elif function is len:
        return _length(hooks, r, args[0])
    elif function in (min, max, sum, any, all, sorted) or known.is_pure(function):
        if any(isinstance(a, Tensor) for a in (*args, *kwargs.values())):
            return _python_on_tensors(hooks, r, function, args, kwargs)
        if "key" in kwargs:
            kwargs = {**kwargs, "key": functools.partial(hooks.call, kwargs["key"])}
        args = tuple(
            [list(hooks.iter(a)) if type(a) in _LAZY and type(a) is not range or type(a) in _VIEWS else a for a in args]
        )
        if function is sum and any(isinstance(v, Tensor) for v in args[0]):
            return functools.reduce(lambda a, b: hooks.operator("+", a, b), hooks.iter(args[0]), *(args[1:] or (0,)))
        for value in args:
            hooks._used(r, value)
        return function(*args, **kwargs)
    elif type(owner) in (*_CONTAINERS, str, int, float, bytes, bool) or type(owner).__name__ in ("OrderedDict", "Size"):
        if (
            name in _WRITERS
            and type(owner) in (list, dict, set)
            or type(owner).__name__ == "OrderedDict"
            and name in _WRITERS
        ):
            hooks.store(owner)
            return function(*args, **kwargs)
        if name in _READERS:
            if not isinstance(owner, (str, int, float, bytes)):
                r.contents(owner)
            if name == "join":
                args = tuple([list(hooks.iter(a)) for a in args])
            for value in args:
                if name != "get":
                    hooks._used(r, value)
            return function(*args, **kwargs)
    r.taint(f"it calls {getattr(function, '__qualname__', name)}")
    return function(*args, **kwargs)


def _python_on_tensors(hooks: Hooks, r: Any, function: Any, args: Any, kwargs: Any) -> Any:
    """Call one of Python's functions that works on tensors by their operators."""
    if function in (abs, pow) or function is round and len(args) == 1:
        return r.step(function, args, kwargs)
    if known.is_pure(function) and function.__name__ in (
        "add",
        "sub",
        "mul",
        "truediv",
        "neg",
        "matmul",
        "getitem",
        "pow",
    ):
        return r.step(function, args, kwargs)
    if function is sum and len(args) == 1:
        return functools.reduce(lambda a, b: hooks.operator("+", a, b), hooks.iter(args[0]), 0)
    r.taint(f"{function.__name__}() reads the values of tensors")
    return function(*args, **kwargs)


def _asked(hooks: Any, r: Any, function: Any, args: tuple[Any, ...]) -> Any:
    """Call getattr or hasattr."""
    obj, name = args[:2]
    if hasattr(obj, name):
        if isinstance(obj, Tensor) and function is hasattr:
            return True
        value = hooks.attr(obj, name)
        return True if function is hasattr else value
    if r.reason is None:
        members = getattr(obj, "__dict__", None)
        if (
            isinstance(obj, (ModuleType, type))
            or members is None
            and not isinstance(obj, (*known.NUMBERS, *_CONTAINERS))
        ):
            r.taint(f"it asks for the attribute {name}, which is not there")
        elif members is not None and r.is_outer(obj):
            r.guard(("lacks", id(obj), name), f"not hasattr({{0}}, {name!r})", obj)
    return function(*args)


def _length(hooks: Hooks, r: Any, value: Any) -> int:
    cls = type(value)
    if isinstance(value, Tensor):
        if id(value) not in r.tensors:
            r.use(value)
    elif cls in _CONTAINERS or cls.__name__ == "OrderedDict":
        r.contents(value)
    elif not isinstance(value, (str, range, tuple, bytes, *_VIEWS)):
        method = _static(cls, "__len__")
        if isinstance(method, FunctionType):
            r.guard(("class", id(cls), "__len__"), "static({0}, '__len__') is {1}", cls, method)
            return int(hooks.call(method, value))
        r.taint(f"it takes the length of a {cls.__name__}")
    return len(value)


_HAS_NO_HOOKS = (
    "not ({0}['_forward_hooks'] or {0}['_forward_pre_hooks'] or {0}['_backward_hooks'] "
    "or len({0}['_backward_pre_hooks']))"
)


def _module_called(hooks: Hooks, r: Any, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a module by its class's `__call__`."""
    cls = type(module)
    method = _static(cls, "__call__")
    r.guard(("class", id(cls), "__call__"), "static({0}, '__call__') is {1}", cls, method)
    if method is Calling.__dict__["__call__"]:
        return _module_followed(hooks, r, module, args, kwargs)
    if isinstance(method, FunctionType):
        return _called(hooks, r, method, (module, *args), kwargs)
    r.taint(f"it calls a {cls.__name__}, which has a __call__ of its own")
    return module(*args, **kwargs)


def _module_followed(hooks: Hooks, r: Any, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Do what `Calling.__call__` does: follow a module's `forward`, if nothing hooks into it."""
    shared = [
        _calling._global_forward_hooks, _calling._global_forward_pre_hooks, _calling._global_backward_hooks,
        _calling._global_backward_pre_hooks,
    ]  # fmt: skip
    if _calling.has_hooks(module):
        r.taint(f"hooks are registered on a {type(module).__name__}")
    if r.reason is not None:
        return Calling._call_impl(module, *args, **kwargs)
    r.guard("global hooks", "not ({0} or {1} or {2} or {3})", *shared)
    if r.is_outer(module):
        r.guard(("hooks", id(module)), _HAS_NO_HOOKS, module.__dict__)
    return hooks.call(hooks.attr(module, "forward"), *args, **kwargs)


def static(cls: type, name: str) -> Any:
    """Return what the classes of an MRO have under a name; MISSING if nothing. For guards."""
    return _static(cls, name)


__all__ = ["Hooks", "cell_value", "static"]
