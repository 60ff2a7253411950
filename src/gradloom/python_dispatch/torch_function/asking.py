"""The code that public functions run while somebody may answer them, and when they have it."""

from __future__ import annotations

import ast
import sys
import weakref
from threading import RLock
from types import CodeType, FunctionType
from typing import Any

from ...dispatch import _operators
from ...dispatch.overloads import register_types
from ...dispatch.state import ALL_ANSWER, NOBODY_ANSWERS, state
from .answers import answer, overriding_arguments, plain, reset_plain
from .internal import forget_modules, is_internal
from .public import OTHERS, Public, forget_names, public_functions

# What a public function runs: if no mode is entered anywhere and all arguments are of classes that never answer, its
# own code; else it asks. The words in capitals stand for objects: they become constants of the code, since the function
# has its own globals. `freevars` are the cells that the function has, which its code must have, too.
_SOURCE = """
def _({freevars}):
    def asking(*_args, **_kwargs):
        _modes = "MODES"
        if not _modes:
            _own = "OWN"
            for _value in _args:
                if _value.__class__ not in "PLAIN":
                    break
            else:
                if not _kwargs:
                    return _own(*_args)
                for _value in _kwargs.values():
                    if _value.__class__ not in "PLAIN":
                        break
                else:
                    return _own(*_args, **_kwargs)
        _ask = "ASK"
        return _ask(_args, _kwargs)
        {used}
"""

modes_entered: list = []  # one element for each mode that some thread has entered
_askings: dict[FunctionType, Asking] = {}  # of all public functions, made when first needed
_classes: dict[int, weakref.ref[type]] = {}  # those that answer and still exist, by identity
_templates: dict[tuple[str, ...], CodeType] = {}
_lock = RLock()
_are_asking = [False]


class Asking:
    """A public function that asks, and what it was.

    Attributes:
        original: a function with the code that the public function had.
    """

    __slots__ = ("public", "original", "code")

    def __init__(self, public: Public) -> None:
        function = public.function
        self.public = public
        self.original = FunctionType(
            function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
        )
        self.original.__kwdefaults__, self.original.__annotations__ = function.__kwdefaults__, function.__annotations__
        self.original.__qualname__, self.original.__doc__ = function.__qualname__, function.__doc__
        self.code = _code(function, self)
        function._own = self.original  # for who makes another function of its code
        if "__wrapped__" not in function.__dict__:
            function.__wrapped__ = self.original  # for inspect.signature

    def ask(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The answer of a mode or a class, if there is one to be asked; else the function's own."""
        level = state.function_overrides
        if level == NOBODY_ANSWERS:
            return self.original(*args, **kwargs)
        _, reported, _, asked, operator = self.public
        overriding = overriding_arguments(args, kwargs) if level == ALL_ANSWER and asked else []
        if overriding and asked == OTHERS:
            overriding = [value for value in overriding if not isinstance(value, _operators.Tensor)]
        if not (overriding or state.function_modes) or is_internal(sys._getframe(2)):
            return self.original(*args, **kwargs)
        if reported is None:
            reported, args = args[0], args[1:]
        if not operator:
            return answer(reported, overriding, args, kwargs)
        try:
            return answer(reported, overriding, args, kwargs)
        except TypeError:
            return NotImplemented


def _code(function: FunctionType, asking: Asking) -> CodeType:
    """The asking code for one function: with its name and place, and as many cells as its own has."""
    own = function.__code__
    constants = {"MODES": modes_entered, "PLAIN": plain, "OWN": asking.original, "ASK": asking.ask}
    template = _template(own.co_freevars)
    return template.replace(
        co_consts=tuple([constants.get(c, c) if isinstance(c, str) else c for c in template.co_consts]),
        co_name=own.co_name,
        co_qualname=own.co_qualname,
        co_filename=own.co_filename,
        co_firstlineno=own.co_firstlineno,
    )


def _template(freevars: tuple[str, ...]) -> CodeType:
    found = _templates.get(freevars)
    if found is None:
        names = ", ".join(freevars)
        tree = ast.parse(_SOURCE.format(freevars=names, used=names))
        for node in ast.walk(tree):
            if isinstance(node, (ast.stmt, ast.expr)):  # all on the line where the function begins
                node.lineno = node.end_lineno = 1
        outer = next(c for c in compile(tree, __file__, "exec").co_consts if isinstance(c, CodeType))
        found = next(c for c in outer.co_consts if isinstance(c, CodeType))
        _templates[freevars] = found
    return found


def own_code(function: FunctionType) -> CodeType:
    """A public function's own code, also while it asks."""
    original: FunctionType = function.__dict__.get("_own", function)
    return original.__code__


def set_own_code(function: FunctionType, code: CodeType) -> None:
    """Exchange a public function's own code."""
    with _lock:
        found = _askings.get(function)
        if found is not None:
            found.original.__code__ = code
        if found is None or not _are_asking[0]:
            function.__code__ = code


def ask_for(cls: type) -> None:
    """Let the public functions ask as long as this class exists, which has a `__torch_function__`."""
    with _lock:
        key = id(cls)
        if key not in _classes:
            _classes[key] = weakref.ref(cls, lambda _: _forget(key))
        _install()


def _forget(key: int) -> None:
    with _lock:
        _classes.pop(key, None)
        if not _classes:
            _settle()


def mode_entered() -> None:
    """A thread has entered a mode."""
    with _lock:
        modes_entered.append(True)
        _install()


def mode_left() -> None:
    """A thread has left a mode."""
    with _lock:
        modes_entered.pop()
        if not modes_entered:
            _settle()


def _install() -> None:
    if _are_asking[0]:
        return
    if not _askings:
        reset_plain()
        _describe_device()
        _make_askings()
    for function, asking in _askings.items():
        function.__code__ = asking.code
    _are_asking[0] = True
    register_types(handle_torch_function=None)


def _make_askings() -> None:
    for public in public_functions():
        if public.function not in _askings:
            _askings[public.function] = Asking(public)


def _settle() -> None:
    """Give the functions their code back if nobody can answer any more."""
    with _lock:
        if modes_entered or _classes or not _are_asking[0]:
            return
        for function, asking in _askings.items():
            function.__code__ = asking.original.__code__
        _are_asking[0] = False
        register_types(handle_torch_function=_meet)


def _meet(overloads, args, kwargs):
    from .first_call import first_meeting

    return first_meeting(sys._getframe(1), overloads, args, kwargs)


def renew() -> None:
    """Let public functions that were added since ask, too, and forget those that are gone; to be called when operators
    were defined or taken away."""
    with _lock:
        forget_names()
        forget_modules()
        if not _askings:
            return
        _make_askings()
        current = {public.function for public in public_functions()}
        for function in [f for f in _askings if f not in current]:
            function.__code__ = _askings.pop(function).original.__code__
        if _are_asking[0]:
            for function, asking in _askings.items():
                function.__code__ = asking.code


_DESCRIBED = (
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
    """Make properties, which can ask, of what is the same for all tensors; they stay, as they answer the same."""
    tensor = _operators.Tensor
    for name in _DESCRIBED:
        value = vars(tensor)[name]
        if not isinstance(value, property):
            setattr(tensor, name, property(_constant(value)))


def _constant(value):
    return lambda self: value
