"""What rewritten functions read, test, iterate over and write: half of the hooks of Note [Rewritten functions].

Each hook does what Python would, and tells the recorder. What they call in turn goes through `call` (_hooks.py).
"""

from __future__ import annotations

import builtins
import itertools
import operator as _operator
import sys
from collections import OrderedDict
from collections.abc import Iterator
from types import FunctionType, GeneratorType, ModuleType
from typing import Any

from ..core.tensor import Tensor
from . import _known as known
from ._attributes import CONTAINERS, of_class, of_module, of_object, of_super, of_tensor, static, stays
from ._effects import Parameters
from ._numbers import FREE, FreeInt, computed, plain
from ._recorder import EACH, MISSING, STAR, VIEWS, active, key_place

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
OBJECT = vars(object)
_EMPTY: dict[Any, Any] = {}
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

    def imported(self, value: Any, module: str, name: str = "") -> None:
        """Note an import of a module, or of a name from one.

        Args:
            value: what Python bound.
        """
        r = active.recorder
        if r is None or r.reason is not None:
            return
        space, importing = vars(builtins), builtins.__import__
        r.guard("import", "{0}.get('__import__') is {1}", space, importing)
        parts = module.split(".")
        for i in range(len(parts)):
            path = ".".join(parts[: i + 1])
            found = sys.modules.get(path)
            r.guard(("module", path), f"{{0}}.get({path!r}) is {{1}}", sys.modules, found)
            if i and found is not None:
                above = sys.modules[".".join(parts[:i])]
                part = getattr(above, parts[i], MISSING)
                r.guard(("part", path), f"getattr({{0}}, {parts[i]!r}, MISSING) is {{1}}", above, part)
        if name:
            found = r.equal(
                ("imported", module, name), f"getattr({{0}}, {name!r}, MISSING)", value, sys.modules[module]
            )
            r.taken(found)  # Python has bound the name to the number itself
        r.read(value)

    def same(self, a: Any, b: Any) -> bool:
        """Return whether two objects are the same one."""
        r = active.recorder
        if r is not None and r.reason is None:
            a, b = r.taken(a), r.taken(b)
            first, second = r.place_of(a), r.place_of(b)
            if a is not b and first is not None and second is not None and not (first[1] and second[1]):
                other = second[0].replace("{0}", f"{{{len(first[1])}}}")  # one of them is an argument
                r.guard(("apart", id(a), id(b)), f"{first[0]} is not {other}", *first[1], *second[1])
        return a is b

    def attr(self, obj: Any, name: str) -> Any:
        r = active.recorder
        if r is None or r.reason is not None:
            return getattr(obj, name)
        cls = type(obj)
        if isinstance(obj, Tensor):
            return of_tensor(r, obj, name)
        if cls in FREE:
            return getattr(r.taken(obj), name)
        if cls in known.NUMBERS or cls in CONTAINERS or cls is slice or known.is_library_value(obj):
            return getattr(obj, name)
        if isinstance(obj, ModuleType):
            return of_module(self, r, obj, name)
        if isinstance(obj, type):
            return of_class(self, r, obj, name)
        return (of_super if cls is super else of_object)(self, r, obj, name)

    def item(self, obj: Any, index: Any) -> Any:
        r = active.recorder
        if r is None or r.reason is not None:
            return obj[index]
        cls = type(obj)
        if isinstance(obj, Tensor):
            _take_index(r, index)
            stays(r, type(obj), "__getitem__")
            return r.step(_operator.getitem, (obj, index), {})
        index = r.taken(index)
        if type(index) not in (*known.NUMBERS, slice, tuple) and not isinstance(index, (Tensor, type)):
            self.used(r, index)
        if isinstance(obj, (str, range)) or known.is_library_value(obj):
            return obj[index]
        if cls is list or isinstance(obj, tuple) and r.classes.find(cls, "__getitem__") is tuple.__getitem__:
            value = obj[index]
            if cls is list and r.is_outer(obj) and id(obj) not in r.whole:
                r.contents(obj, False)
            if index.__class__ is slice:
                r.contents(obj)
                return value
            return r.element(obj, index, value)
        if cls is dict or cls is OrderedDict:
            if type(index) not in known.NUMBERS and not isinstance(index, tuple):
                r.taint(f"it looks up a {type(index).__name__} in a dictionary")
            return value_at(r, obj, index, obj[index])
        if isinstance(obj, type):
            return obj[index]  # type: ignore[index]
        method = r.classes.find(r.class_of(obj), "__getitem__")
        if isinstance(method, FunctionType):
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
        elif cls in CONTAINERS or cls is OrderedDict or is_tuple(r, obj, "__iter__"):
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
            method = r.classes.find(r.class_of(obj), "__iter__")
            if not isinstance(method, FunctionType):
                r.taint(f"it iterates over a {cls.__name__}")
                return obj
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
            elif type(container) in CONTAINERS or type(container) is OrderedDict:
                r.contents(container)
                self.used(r, element)
                element, container = r.taken(element), r.taken(container)
            else:
                method = r.classes.find(r.class_of(container), "__contains__")
                if isinstance(method, FunctionType):
                    return bool(self.call(method, container, element))
                r.taint(f"it asks whether something is in a {type(container).__name__}")
        return element in container

    def tested(self, value: Any) -> Any:
        r = active.recorder
        if r is not None and r.reason is None:
            cls = type(value)
            if isinstance(value, Tensor):
                r.taint("it branches on the value of a tensor")
            elif cls in CONTAINERS or cls is OrderedDict or is_tuple(r, value, "__len__"):
                r.contents(value, False)
            elif cls in known.NUMBERS or known.is_library_value(value) or isinstance(value, (range, *VIEWS)):
                pass
            else:
                method = r.classes.find(r.class_of(value), "__bool__")
                method = r.classes.find(cls, "__len__") if method is MISSING else method
                if isinstance(method, FunctionType):
                    return bool(self.call(method, value))
                if method is not MISSING:
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


def is_tuple(r: Any, value: Any, method: str) -> bool:
    """Return whether an object is a tuple and has the method of tuples."""
    return isinstance(value, tuple) and r.classes.find(type(value), method) is getattr(tuple, method)


def _take_index(r: Any, index: Any) -> None:
    """Note what is read of the index of a tensor."""
    if index.__class__ in (tuple, list):
        r.contents(index, False)
        for each in index:
            _take_index(r, each)
    elif index.__class__ is slice:
        for each in (index.start, index.stop, index.step):
            _take_index(r, each)
    elif type(index) not in known.NUMBERS and not isinstance(index, (Tensor, range)):
        r.taint(f"it takes a part of a tensor by a {type(index).__name__}")


def value_at(r: Any, mapping: Any, key: Any, value: Any) -> Any:
    """Record that `value` was read from a dictionary under a key, and return it, or what stands for its number."""
    if r.is_outer(mapping) and id(mapping) not in r.whole:
        value = r.equal(key_place(mapping, key), "{0}.get({1}, MISSING)", value, mapping, key)
        r.read(value)
    return r.element(mapping, key, value)


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
