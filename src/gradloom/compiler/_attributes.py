"""How rewritten functions read attributes: of tensors, modules of Python, classes, and other objects.

Each of them does what `getattr` does, and notes what its result follows from: what the object has itself, what its
classes have (Note [Guards on classes]), and what they lack.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Iterator
from operator import attrgetter
from types import (
    BuiltinFunctionType,
    ClassMethodDescriptorType,
    FunctionType,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodDescriptorType,
    MethodType,
    ModuleType,
    SimpleNamespace,
    UnionType,
    WrapperDescriptorType,
)
from typing import Any

from ..core.attributes import COLD, fields
from ..core.tensor import Tensor
from ..types.silence import module_name
from . import _known as known
from ._classes import is_mutable
from ._recorder import MISSING

CONTAINERS = (list, dict, set, tuple, frozenset)
# Descriptors whose result follows from the object alone.
_BINDING = (
    FunctionType, staticmethod, classmethod, MethodDescriptorType, WrapperDescriptorType, ClassMethodDescriptorType,
    BuiltinFunctionType,
)  # fmt: skip
# Data descriptors that give what the object has.
_MEMBERS = (GetSetDescriptorType, MemberDescriptorType, type(vars(namedtuple("_", "member"))["member"]))
# `__getattribute__` of these looks attributes up as that of `object` does.
_USUAL_LOOKUP = frozenset(
    vars(c)["__getattribute__"]
    for c in (object, SimpleNamespace, *CONTAINERS, str, int, float)
    if "__getattribute__" in vars(c)
)


def of_tensor(r: Any, obj: Any, name: str) -> Any:
    """Return an attribute of a tensor."""
    cls = type(obj)
    found = getattr(obj, name)  # the first use of a method binds it to the class
    if not known.is_plain(obj):
        r.taint(f"it uses a {cls.__name__}")
        return found
    member = static(cls, name)
    own = name in fields(obj) and not hasattr(type(member), "__set__")
    if own and name not in COLD:
        r.classes.find(cls, name)
        return r.read(r.evaluated(("own", name), f"fields({{0}}).get({name!r}, MISSING)", found, obj))
    if name in known.METADATA:
        stays(r, cls, name)
        if id(obj) not in r.tensors:
            r.use(obj)
        if name in known.OF_MEMORY:
            return r.evaluated(("memory", name), f"{{0}}.{name}", found, obj)
    elif name in known.COMPUTED:
        stays(r, cls, name)
        return r.step(attrgetter(name), (obj,), {})
    elif isinstance(member, FunctionType):
        guard_member(r, cls, name)
    elif name in COLD or hasattr(type(member), "__get__"):
        r.taint(f"it reads the attribute {name} of a tensor")
        return found
    else:
        r.classes.find(cls, name)
        r.read(found)
    if r.reason is None and not hasattr(type(member), "__set__"):
        lacks(r, obj, name)
    return found


def lacks(r: Any, obj: Any, name: str) -> None:
    """Require that a program did not give a tensor from outside an attribute of its own."""
    place = r.place_of(obj)
    if place is not None:
        r.guard(("own", name, id(obj)), f"{name!r} not in fields({place[0]})", *place[1])


def guard_member(r: Any, cls: type, name: str) -> Any:
    """Add a guard on a member of a class of tensors, which programs may replace; return it."""
    member = getattr(cls, name, None)
    r.guard(("class", id(cls), name), f"getattr({{0}}, {name!r}, None) is {{1}}", cls, member)
    return member


def stays(r: Any, cls: type, name: str) -> None:
    """Require that a class of tensors has the library's own member under a name, for one that is not called by name."""
    if not known.is_own_member(name, guard_member(r, cls, name)):
        r.taint(f"the program replaced {cls.__name__}.{name}")


def of_module(hooks: Any, r: Any, obj: ModuleType, name: str) -> Any:
    """Return an attribute of a module of Python."""
    cls, is_librarys = type(obj), module_name(vars(obj)).startswith("gradloom")
    if not is_librarys:
        r.guard(("class of", id(obj)), "type({0}) is {1}", obj, cls)
    raw: Any = r.classes.find(cls, name) if cls is not ModuleType else MISSING
    if r.classes.find(cls, "__getattribute__") is not vars(ModuleType)["__getattribute__"]:
        r.taint(f"it reads {name} of a {cls.__name__}, which looks attributes up in a way of its own")
    if _is_property(raw) and not is_librarys:
        return hooks.call(raw.fget, obj)
    value = getattr(obj, name)
    if name in vars(obj) and raw is MISSING:
        return r.read(r.equal(("global", id(vars(obj)), name), f"{{0}}.get({name!r}, MISSING)", value, vars(obj)))
    if not is_librarys and not (name in vars(ModuleType) or raw is not MISSING and not hasattr(type(raw), "__get__")):
        r.taint(f"it reads {obj.__name__}.{name}, which the module computes")
    return r.read(r.equal(("attr", id(obj), name), f"getattr({{0}}, {name!r}, MISSING)", value, obj))


def of_class(hooks: Any, r: Any, obj: Any, name: str) -> Any:
    """Return an attribute of a class: data of its metaclass, else its own, else another of the metaclass."""
    meta = r.class_of(obj)
    if r.classes.find(meta, "__getattribute__") is not vars(type)["__getattribute__"]:
        r.taint(f"it reads {name} of a {meta.__name__}, which looks attributes up in a way of its own")
        return getattr(obj, name)
    above = r.classes.owner(meta, name)
    computed: Any = MISSING if above is None else above.__dict__[name]
    owner = r.classes.owner(obj, name)
    raw: Any = MISSING if owner is None else owner.__dict__[name]
    if owner is None or r.classes.find(type(computed), "__set__") is not MISSING:
        if owner is None and above is not None and not hasattr(type(computed), "__set__"):
            return _of_classes(hooks, r, obj, name, above, computed)
        if _is_property(computed):
            r.classes.require(above, name)
            return hooks.call(computed.fget, obj)
        value = getattr(obj, name)
        if name == "__mro__":
            r.classes.order(obj)
        elif type(value) in known.NUMBERS or computed is MISSING:
            value = r.equal(("attr", id(obj), name), f"getattr({{0}}, {name!r}, MISSING)", value, obj)
        else:
            r.taint(f"it reads {name} of a {meta.__name__}")
        return r.read(value)
    if above is not None:
        r.classes.require(above, name)
    return _of_classes(hooks, r, obj, name, owner, raw)


def _of_classes(hooks: Any, r: Any, obj: Any, name: str, owner: Any, raw: Any) -> Any:
    """Return what a class has under a name, as an attribute of an object or class whose own it is not."""
    if type(raw) in known.NUMBERS:
        if not is_mutable(owner):
            return raw
        return r.equal(("class", id(owner), name), f"{{0}}({name!r}, MISSING)", raw, owner.__dict__.get)
    r.classes.require(owner, name)
    value = getattr(obj, name)
    if value is raw:
        r.read(value)
    if isinstance(raw, (*_BINDING, *_MEMBERS)) or value is raw and isinstance(raw, property):
        return value
    if r.classes.find(type(raw), "__get__") is not MISSING and not isinstance(raw, Tensor):
        r.taint(f"it reads the attribute {name} of a {type(obj).__name__} through a descriptor")
    return value


def of_super(hooks: Any, r: Any, obj: Any, name: str) -> Any:
    """Return an attribute that `super()` gives."""
    owner = r.classes.owner(obj.__self_class__, name, obj.__thisclass__)
    if owner is None:
        return getattr(obj, name)
    raw = owner.__dict__[name]
    if _is_property(raw) and obj.__self__ is not obj.__self_class__:
        r.classes.require(owner, name)
        return hooks.call(raw.fget, obj.__self__)
    return _of_classes(hooks, r, obj, name, owner, raw)


def of_object(hooks: Any, r: Any, obj: Any, name: str) -> Any:
    """Return an attribute of an object that is none of the others."""
    cls = r.class_of(obj)
    if r.classes.find(cls, "__getattribute__") not in _USUAL_LOOKUP:
        if not isinstance(obj, (FunctionType, MethodType)):
            r.taint(f"it reads an attribute of a {cls.__name__}, which looks attributes up in a way of its own")
            return getattr(obj, name)
    owner = r.classes.owner(cls, name)
    raw: Any = MISSING if owner is None else owner.__dict__[name]
    members = getattr(obj, "__dict__", None)
    outer = r.is_outer(obj) and id(obj) not in r.whole
    if _is_property(raw):
        r.classes.require(owner, name)
        return hooks.call(raw.fget, obj)
    if id(obj) in r.free_in and (members is None or name not in members) and not isinstance(raw, _BINDING):
        if isinstance(obj, tuple) and name in getattr(cls, "_fields", ()):
            return r.element(obj, cls._fields.index(name), getattr(obj, name))  # type: ignore[attr-defined]
        r.contents(obj)  # `__dict__` ...
    if raw is not MISSING and r.classes.find(type(raw), "__set__") is not MISSING:
        r.classes.require(owner, name)
        value = getattr(obj, name)
        if name == "__class__":
            return r.read(value)
        if not isinstance(raw, _MEMBERS) and not (outer and type(value) in known.NUMBERS):
            r.taint(f"it reads the attribute {name} of a {cls.__name__} through a descriptor")
        elif outer:
            value = r.equal(("attr", id(obj), name), f"getattr({{0}}, {name!r}, MISSING)", value, obj)
            r.read(value)
        return value
    if members is not None and name in members:
        if owner is not None:
            r.classes.require(owner, name)  # which is no data descriptor
        value = members[name]
        if outer:
            value = r.equal(("attr", id(obj), name), f"{{0}}.__dict__.get({name!r}, MISSING)", value, obj)
            r.read(value)
        return r.element(obj, name, value)
    if owner is not None:
        if outer and members is not None:
            r.guard(("absent", id(obj), name), f"{name!r} not in {{0}}.__dict__", obj)
        return _of_classes(hooks, r, obj, name, owner, raw)
    computes = r.classes.find(cls, "__getattr__")
    if known.is_module(obj) and computes is _getattr_of_modules() and members is not None:
        for table in ("_parameters", "_buffers", "_modules"):
            parts = members.get(table)
            if parts is not None and name in parts:
                value = parts[name]
                if outer:
                    r.guard(("attr", id(obj), table), f"{{0}}.__dict__.get({table!r}) is {{1}}", obj, parts)
                    r.equal(("key", id(parts), str, name), "{0}.get({1}, MISSING)", value, parts, name)
                    r.guard(("absent", id(obj), name), f"{name!r} not in {{0}}.__dict__", obj)
                return r.read(value)
    if computes is not MISSING:
        r.taint(f"it reads {name} of a {cls.__name__}, which has a __getattr__")
    return getattr(obj, name)


def _getattr_of_modules() -> Any:
    from ..nn import Module

    return Module.__getattr__


def _is_property(raw: Any) -> bool:
    return isinstance(raw, property) and raw.fget is not None and type(raw).__get__ is property.__get__


def static(cls: type, name: str) -> Any:
    """Return what the classes of an MRO have under a name; MISSING if nothing."""
    for c in cls.__mro__:
        if name in c.__dict__:
            return c.__dict__[name]
    return MISSING


def asked(hooks: Any, r: Any, function: Any, args: tuple[Any, ...]) -> Any:
    """Call getattr or hasattr."""
    obj, name = args[:2]
    is_there = hasattr(obj, name)
    if not is_there:
        if len(args) < 3 and function is getattr:
            return function(*args)
        _absent(r, obj, name)
        return function(*args)
    if function is getattr or not isinstance(obj, Tensor):
        value = hooks.attr(obj, name)
        return True if function is hasattr else value
    if name in fields(obj):
        r.evaluated(("has", name), f"{name!r} in fields({{0}})", True, obj)
    else:
        guard_member(r, type(obj), name)
    return True


def _absent(r: Any, obj: Any, name: str) -> None:
    """Require that an object has no attribute of a name."""
    place = r.place_of(obj)
    if isinstance(obj, Tensor) and place is not None and static(type(obj), name) is MISSING:
        r.classes.find(type(obj), name)
        r.classes.find(type(obj), "__getattr__")
        lacks(r, obj, name)
    elif place is not None:
        r.guard(("lacks", id(obj), name), f"not hasattr({place[0]}, {name!r})", *place[1])
    elif isinstance(obj, type):
        r.taint(f"it asks for the attribute {name}, which is not there")
    elif any(r.classes.find(type(obj), n) is not MISSING for n in (name, "__getattr__")) or (
        r.classes.find(type(obj), "__getattribute__") not in (*_USUAL_LOOKUP, *_OWN_LOOKUPS)
    ):
        r.taint(f"it asks for the attribute {name}, which a {type(obj).__name__} computes")


def is_a(r: Any, function: Any, value: Any, kinds: Any) -> bool:
    """Call isinstance or issubclass."""
    cls = r.class_of(value) if function is isinstance else value
    r.classes.order(cls)
    if function is isinstance and not isinstance(value, Tensor):
        r.classes.find(cls, "__class__")
    method = "__instancecheck__" if function is isinstance else "__subclasscheck__"
    for kind in _flattened(kinds):
        check = r.classes.find(r.class_of(kind), method)
        if check is vars(type)[method]:
            continue
        if known.is_librarys(kind) and isinstance(value, Tensor):
            asked(None, r, hasattr, (value, "_is_param"))
            continue
        place = r.place_of(value)
        if place is None and type(value) in known.NUMBERS or function is issubclass:
            place = "{0}", (value,)
        if place is None:
            r.taint(f"it asks {kind.__name__} whether an object that it made is of its kind")
            continue
        objects = (*place[1], function, kind)
        expression = f"{{{len(objects) - 2}}}({place[0]}, {{{len(objects) - 1}}})"
        r.guard(("is a", function, id(value), id(kind)), f"{expression} is {function(value, kind)}", *objects)
    return bool(function(value, kinds))


def _flattened(kinds: Any) -> Iterator[Any]:
    for kind in kinds if isinstance(kinds, tuple) else getattr(kinds, "__args__", (kinds,)):
        if isinstance(kind, (tuple, UnionType)):
            yield from _flattened(kind)
        else:
            yield type(None) if kind is None else kind


# Of functions and methods, which look attributes up as usual but for those of the function.
_OWN_LOOKUPS = frozenset(
    vars(c)["__getattribute__"] for c in (FunctionType, MethodType, ModuleType) if "__getattribute__" in vars(c)
)
