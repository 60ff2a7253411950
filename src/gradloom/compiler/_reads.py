"""What rewritten functions read, test, iterate over and write: half of the hooks of Note [Rewritten functions].

Each hook does what Python would, and tells the recorder. What they call in turn goes through `call` (_hooks.py).
"""

from __future__ import annotations

import builtins
import itertools
import operator as _operator
from collections.abc import Iterator
from types import (
    ClassMethodDescriptorType,
    FunctionType,
    GeneratorType,
    MethodDescriptorType,
    MethodType,
    ModuleType,
    SimpleNamespace,
    WrapperDescriptorType,
)
from typing import Any

from ..core.tensor import Tensor
from . import _known as known
from ._effects import Parameters
from ._numbers import FREE, FreeInt, computed, plain
from ._recorder import EACH, MISSING, STAR, active, key_place

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
SYMBOLS = {function: symbol for symbol, function in _OPERATORS.items()}
_REFLECTED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq", "ne": "ne"}
CONTAINERS = (list, dict, set, tuple, frozenset)
# Descriptors whose result follows from the object alone.
_BINDING = (
    FunctionType, staticmethod, classmethod, MethodDescriptorType, WrapperDescriptorType, ClassMethodDescriptorType,
)  # fmt: skip
OBJECT = vars(object)
# `__getattribute__` of these looks attributes up as that of `object` does.
_USUAL_LOOKUP = frozenset(
    vars(c)["__getattribute__"]
    for c in (object, SimpleNamespace, *CONTAINERS, str, int, float)
    if "__getattribute__" in vars(c)
)
_EMPTY: dict[Any, Any] = {}
VIEWS: tuple[type, ...] = (type(_EMPTY.keys()), type(_EMPTY.values()), type(_EMPTY.items()))
LAZY: tuple[type, ...] = (
    zip, enumerate, map, filter, reversed, range, type(iter([])), type(iter(())), type(iter("")), type(iter(set())),
    type(iter(range(0))), type(iter(_EMPTY)), type(iter(_EMPTY.values())), type(iter(_EMPTY.items())),
    type(reversed([])), GeneratorType,
)  # fmt: skip


class Reads:
    """The hooks of one function but those of calls; they know its globals and closure."""

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
                value = r.equal(("global", id(names), name), f"{{0}}.get({name!r}, MISSING)", value, names)
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
            value = r.equal(("cell", id(cell)), "cell_value({0})", value, cell)
            r.read(value)
        return value

    def imported(self, value: Any, module: str = "", name: str = "") -> None:
        r = active.recorder
        if r is None or r.reason is not None:
            return
        if module:
            import sys

            found = r.equal(
                ("imported", module, name), f"getattr({{0}}, {name!r}, MISSING)", value, sys.modules[module]
            )
            r.taken(found)  # Python has bound the name to the number itself
        r.read(value)

    def attr(self, obj: Any, name: str) -> Any:
        r = active.recorder
        if r is None or r.reason is not None:
            return getattr(obj, name)
        cls = type(obj)
        if isinstance(obj, Tensor):
            return _attr_of_tensor(r, obj, name)
        if cls in FREE:
            return getattr(r.taken(obj), name)
        if cls in known.NUMBERS or cls in CONTAINERS or cls is slice or known.is_library_value(obj):
            return getattr(obj, name)
        if isinstance(obj, ModuleType):
            return _attr_of_module(r, obj, name)
        if isinstance(obj, type):
            value = getattr(obj, name)
            raw = static(obj, name)
            if raw is value and value.__class__ in (int, float):
                return r.equal(("class", id(obj), name), f"static({{0}}, {name!r})", value, obj)
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
        return _attr_of_object(self, r, obj, cls, name)

    def item(self, obj: Any, index: Any) -> Any:
        r = active.recorder
        if r is None or r.reason is not None:
            return obj[index]
        cls = type(obj)
        if isinstance(obj, Tensor):
            stays(r, type(obj), "__getitem__")
            return r.step(_operator.getitem, (obj, index), {})
        index = r.taken(index)
        if isinstance(obj, (str, range)) or cls.__name__ == "Size":
            return obj[index]
        if cls in (list, tuple) or isinstance(obj, tuple):
            value = obj[index]
            if cls is list and r.is_outer(obj) and id(obj) not in r.whole:
                r.contents(obj, False)
            if index.__class__ is slice:
                r.contents(obj)
                return value
            return r.element(obj, index, value)
        if cls is dict or cls.__name__ == "OrderedDict":
            if type(index) not in known.NUMBERS and not isinstance(index, tuple):
                r.taint(f"it looks up a {type(index).__name__} in a dictionary")
            return value_at(r, obj, index, obj[index])
        if isinstance(obj, type):
            return obj[index]  # type: ignore[index]
        method = static(cls, "__getitem__")
        if isinstance(method, FunctionType):
            r.guard(("class", id(cls), "__getitem__"), "static({0}, '__getitem__') is {1}", cls, method)
            return self.call(method, obj, index)
        r.taint(f"it takes an item of a {cls.__name__}")
        return obj[index]

    # --- iteration and unpacking ----------------------------------------------------------------------------------

    def iter(self, obj: Any, parts: Any = None) -> Any:
        """Return an iterable of the elements, noting what is read.

        Args:
            parts: for each element, the parts that Python unpacks it into, or None if it does not; STAR stands for any
                number of elements. (EACH, parts) gives the parts of every element.
        """
        r = active.recorder
        if r is None or r.reason is not None:
            return obj
        cls = type(obj)
        if isinstance(obj, Tensor):
            stays(r, cls, "__iter__")
            if r.reason is not None:
                return obj
            found: Any = r.step(Tensor.unbind, (obj, 0), {}) if obj._array.ndim else iter(obj)
        elif cls in CONTAINERS or isinstance(obj, tuple) or cls.__name__ == "OrderedDict":
            r.contents(obj, False)
            found = r.walked(obj) if isinstance(obj, (list, tuple)) else obj
        elif cls in (str, range, bytes) or cls in VIEWS or cls in LAZY:
            if cls in LAZY and cls is not range and r.is_outer(obj):
                r.taint("it consumes an iterator from outside")
            found = r.walked(obj)
        elif cls is Parameters:
            r.taint(f"it reads the parameters of a module after {r.sealed}")
            return obj
        else:
            method = static(cls, "__iter__")
            if not isinstance(method, FunctionType):
                r.taint(f"it iterates over a {cls.__name__}")
                return obj
            r.guard(("class", id(cls), "__iter__"), "static({0}, '__iter__') is {1}", cls, method)
            found = self.call(method, obj)
        if not parts or not any(part for part in parts if part not in (EACH, STAR)):
            return found
        return self._unpacked(found, parts)

    def _unpacked(self, found: Any, parts: Any) -> Iterator[Any]:
        of_each: Iterator[Any]
        if parts[0] == EACH:
            of_each = itertools.repeat(parts[1])
        elif STAR in parts:
            found, star = list(found), parts.index(STAR)
            more = len(found) - len(parts)
            of_each = itertools.chain(parts[:star], itertools.repeat(None, more + 1), parts[star + 1 :])
        else:
            of_each = itertools.chain(parts, itertools.repeat(None))
        for element, part in zip(found, of_each, strict=False):
            yield element if part is None else self.iter(element, part)

    def mapping(self, obj: Any) -> Any:
        r = active.recorder
        if r is not None and r.reason is None:
            if type(obj) is dict:
                r.contents(obj, False)
                return r.elements(obj)
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
            _operator_stays(r, function, operands)
            if symbol in ("==", "!=") and None in [o for o in operands if not isinstance(o, Tensor)]:
                return function(*operands)
            return r.step(function, operands, {})
        for o in operands:
            self.used(r, o)
        if r.free and any(type(o) in FREE for o in operands):
            if all(type(o) in known.NUMBERS for o in operands):
                return _on_numbers(r, symbol, operands)
            operands = tuple(map(r.taken, operands))
        if symbol.endswith("=") and symbol not in ("==", "<=", ">=", "!=") and r.is_outer(operands[0]):
            if type(operands[0]) in (list, dict, set):
                r.taint("it changes a container from outside")
        return function(*operands)

    def used(self, r: Any, value: Any) -> None:
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
        if cls in CONTAINERS:
            r.contents(value)
            for v in value:
                if isinstance(v, Tensor):
                    r.taint("it compares or joins containers of tensors")
                elif v is not value:
                    self.used(r, v)
        elif isinstance(value, tuple) and hasattr(value, "_fields"):
            r.contents(value)
        else:
            r.taint(f"it computes with a {cls.__name__}")

    def contains(self, element: Any, container: Any) -> bool:
        r = active.recorder
        if r is not None and r.reason is None:
            if isinstance(container, Tensor) or isinstance(element, Tensor):
                r.taint("it asks whether a tensor is in a container, or what is in a tensor")
            elif isinstance(container, str) or type(container) in VIEWS:
                if id(container) in r.views:
                    r.contents(r.views[id(container)][1])
                element, container = r.taken(element), r.taken(container)
            elif type(container) in CONTAINERS or type(container).__name__ == "OrderedDict":
                r.contents(container)
                self.used(r, element)
                element, container = r.taken(element), r.taken(container)
            elif isinstance(static(type(container), "__contains__"), FunctionType):
                return bool(self.call(static(type(container), "__contains__"), container, element))
            else:
                r.taint(f"it asks whether something is in a {type(container).__name__}")
        return element in container

    def tested(self, value: Any) -> Any:
        r = active.recorder
        if r is not None and r.reason is None:
            cls = type(value)
            if isinstance(value, Tensor):
                r.taint("it branches on the value of a tensor")
            elif cls in CONTAINERS or cls.__name__ == "OrderedDict":
                r.contents(value, False)
            elif cls in known.NUMBERS or known.is_library_value(value) or isinstance(value, (tuple, range, *VIEWS)):
                pass
            elif static(cls, "__bool__") is not MISSING or static(cls, "__len__") is not MISSING:
                method = static(cls, "__bool__")
                method = static(cls, "__len__") if method is MISSING else method
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
                self.used(r, value)
                value = r.taken(value)
        return value

    def compared(self, value: Any) -> Any:
        """Note an operand of a chain of comparisons."""
        # Floats compare by methods of their own with FreeFloats, but not with FreeInts.
        return value if type(value) in FREE and type(value) is not FreeInt else self.plain(value)

    def taken(self, value: Any) -> Any:
        r = active.recorder
        return value if r is None else r.taken(value)

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
                static(cls, "__setattr__") is not OBJECT["__setattr__"] or hasattr(static(cls, name), "__set__")
            ):
                r.taint(f"it sets the attribute {name} of a {cls.__name__} by a function")
        return obj

    def set_item(self, obj: Any, index: Any, value: Any) -> None:
        r = active.recorder
        if r is not None and r.reason is None and isinstance(obj, Tensor):
            stays(r, type(obj), "__setitem__")
            r.step(_set_item, (obj, index, value), {})
            return
        index = self.taken(index)
        if type(obj) in (list, dict):
            self.store(obj)
        elif r is not None and r.reason is None:
            r.taint(f"it sets an item of a {type(obj).__name__}")
        obj[index] = value if r is None or r.reason is None else plain(value)

    def set_attr(self, value: Any, obj: Any, name: str) -> None:
        target, r = self.store(obj, name), active.recorder
        setattr(target, name, value if r is None or r.reason is None else plain(value))

    def change_attr(self, obj: Any, name: str, symbol: str, value: Any) -> None:
        before = self.attr(obj, name)
        found = self.operator(symbol, before, value)
        if found is before and isinstance(found, Tensor) and known.is_module(obj):
            return  # `self.buffer += 1` wrote to the tensor, which stays where it is
        self.set_attr(found, obj, name)

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

    def call(self, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Call a function, and note what follows from that."""
        raise NotImplementedError


def _on_numbers(r: Any, symbol: str, operands: tuple[Any, ...]) -> Any:
    """Compute with numbers, some of which are arguments of the graph."""
    plainly = symbol[:-1] if symbol.endswith("=") and symbol not in ("==", "!=", "<=", ">=") else symbol
    if plainly in ("+", "-", "*", "/", "//", "%", "**", "==", "!=", "<", "<=", ">", ">=", "neg", "pos"):
        if all(o.__class__ not in (str, bytes) for o in operands):
            return computed(plainly, *operands)
    function: Any = _OPERATORS[symbol]
    return function(*map(r.taken, operands))


def _set_item(tensor: Any, index: Any, value: Any) -> Any:
    """Write to a part of a tensor; return the tensor."""
    tensor[index] = value
    return tensor


def static(cls: type, name: str) -> Any:
    """Return what the classes of an MRO have under a name; MISSING if nothing."""
    for c in cls.__mro__:
        if name in c.__dict__:
            return c.__dict__[name]
    return MISSING


def value_at(r: Any, mapping: Any, key: Any, value: Any) -> Any:
    """Record that `value` was read from a dictionary under a key, and return it, or what stands for its number."""
    if r.is_outer(mapping) and id(mapping) not in r.whole:
        value = r.equal(key_place(mapping, key), "{0}.get({1}, MISSING)", value, mapping, key)
        r.read(value)
    return r.element(mapping, key, value)


def _getattr_of_modules() -> Any:
    from ..nn import Module

    return Module.__getattr__


def _attr_of_tensor(r: Any, obj: Any, name: str) -> Any:
    if not known.is_plain(obj):
        r.taint(f"it uses a {type(obj).__name__}")
    elif name in known.METADATA:
        stays(r, type(obj), name)
        if id(obj) not in r.tensors:
            r.use(obj)
    elif name in known.COMPUTED:
        stays(r, type(obj), name)
        return r.step(_operator.attrgetter(name), (obj,), {})
    found = getattr(obj, name)  # the first use of a method binds it to the class
    if r.reason is None and name not in known.METADATA:
        if name in obj.__dict__ or not isinstance(static(type(obj), name), FunctionType):
            r.taint(f"it reads the attribute {name} of a tensor")
        else:
            _guard_member(r, type(obj), name)
    return found


def _guard_member(r: Any, cls: type, name: str) -> Any:
    """Add a guard on a member of a class of tensors, which programs may replace; return it."""
    member = getattr(cls, name, None)
    r.guard(("class", id(cls), name), f"getattr({{0}}, {name!r}, None) is {{1}}", cls, member)
    return member


def stays(r: Any, cls: type, name: str) -> None:
    """Require that a class of tensors has the library's own member under a name, for one that is not called by name."""
    if not known.is_own_member(name, _guard_member(r, cls, name)):
        r.taint(f"the program replaced {cls.__name__}.{name}")


def _operator_stays(r: Any, function: Any, operands: tuple[Any, ...]) -> None:
    """Require the library's own methods of tensors that Python calls for an operator."""
    first, second, name = operands[0], operands[-1], function.__name__.strip("_")
    plainly = name[1:] if SYMBOLS[function][-1] == "=" and name not in _REFLECTED else name
    if isinstance(first, Tensor):
        stays(r, type(first), f"__{name}__")
        if plainly != name and not hasattr(type(first), f"__{name}__"):
            stays(r, type(first), f"__{plainly}__")
    if isinstance(second, Tensor) and type(second) is not type(first):
        stays(r, type(second), f"__{_REFLECTED.get(name, 'r' + plainly)}__")


def _attr_of_module(r: Any, obj: ModuleType, name: str) -> Any:
    value = getattr(obj, name)
    if name in vars(obj):
        value = r.equal(("global", id(vars(obj)), name), f"{{0}}.get({name!r}, MISSING)", value, vars(obj))
    elif not obj.__name__.startswith("gradloom"):
        r.taint(f"it reads {obj.__name__}.{name}, which the module computes")
    return r.read(value)


def _attr_of_object(hooks: Reads, r: Any, obj: Any, cls: type, name: str) -> Any:
    raw = static(cls, name)
    members = getattr(obj, "__dict__", None)
    outer = r.is_outer(obj) and id(obj) not in r.whole
    if static(cls, "__getattribute__") not in _USUAL_LOOKUP:
        if not isinstance(obj, (FunctionType, MethodType)):
            r.taint(f"it reads an attribute of a {cls.__name__}, which looks attributes up in a way of its own")
        return getattr(obj, name)
    if isinstance(raw, property) and isinstance(raw.fget, FunctionType):
        r.guard(("class", id(cls), name), f"static({{0}}, {name!r}) is {{1}}", cls, raw)
        return hooks.call(raw.fget, obj)
    if id(obj) in r.free_in and (members is None or name not in members) and not isinstance(raw, _BINDING):
        if isinstance(obj, tuple) and name in getattr(cls, "_fields", ()):
            return r.element(obj, cls._fields.index(name), getattr(obj, name))  # type: ignore[attr-defined]
        r.contents(obj)  # `__dict__` ...
    if raw is not MISSING and hasattr(type(raw), "__set__"):
        value = getattr(obj, name)
        if outer:
            value = r.equal(("attr", id(obj), name), f"getattr({{0}}, {name!r}, MISSING)", value, obj)
            r.read(value)
        return value
    if members is not None and name in members:
        value = members[name]
        if outer:
            value = r.equal(("attr", id(obj), name), f"{{0}}.__dict__.get({name!r}, MISSING)", value, obj)
            r.read(value)
        return r.element(obj, name, value)
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
    if known.is_module(obj) and static(cls, "__getattr__") is _getattr_of_modules() and members is not None:
        for table in ("_parameters", "_buffers", "_modules"):
            parts = members.get(table)
            if parts is not None and name in parts:
                value = parts[name]
                if outer:
                    r.guard(("attr", id(obj), table), f"{{0}}.__dict__.get({table!r}) is {{1}}", obj, parts)
                    r.equal(("key", id(parts), str, name), "{0}.get({1}, MISSING)", value, parts, name)
                    r.guard(("absent", id(obj), name), f"{name!r} not in {{0}}.__dict__", obj)
                return r.read(value)
    if static(cls, "__getattr__") is not MISSING:
        r.taint(f"it reads {name} of a {cls.__name__}, which has a __getattr__")
    return getattr(obj, name)
