"""Copies and exchanges the code of functions; no other file does.

Note [Function code]
Ordinary Python could do each of these jobs, but would slow down every call. The figures are for 4x4 tensors and CPython
3.11, the minimum of many runs:

    `copy_of`       Python's operators. A binary operator returns NotImplemented where the function of the same name
                    raises TypeError. `x * y` takes 642 ns; with a `__mul__` that calls `mul` and catches TypeError it
                    takes 685 ns (7 % more). So `__mul__` has the code of `mul` with another guard.
                    Attributes. `x.real` and `real(x)` must be different functions, since `__torch_function__` tells
                    them apart; a function that calls the other takes 126 ns in place of 112.
    `CheckedFunction`
                    `__torch_function__`. A call of `has_torch_function_unary` takes 40 ns, one of
                    `has_torch_function_variadic` with three arguments 113 ns, a decorator 119 ns: 17 % of `torch.add`,
                    3 % of `relu` and `linear` in nn.functional. So public functions check for overrides only while
                    overrides can exist; see Note [Torch functions].
    `lend_code`     Replaced derivatives. A wrapper is held in many places: on Tensor, in modules, in plans of the
                    argument parser, in the variables of programs that imported it. A level of indirection would cost as
                    much as the decorator above, so the wrapper object stays and its code is exchanged; see Note
                    [Overrides].
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Collection, Mapping
from functools import partial
from types import CodeType, FunctionType, ModuleType
from typing import Any

from ..memory.locks import new_lock
from ..types.silence import MODULE_NAME, module_name

lock = new_lock()  # held while code is exchanged
_copies: dict[FunctionType, list[FunctionType]] = {}  # for Python's operators and attributes: about thirty
own_codes: dict[FunctionType, CodeType] = {}  # of functions that run lent code


def copy_of(function: FunctionType, name: str, replaced: Mapping[int, Any] = {}) -> FunctionType:
    """Return a function that runs the code of another, including code lent to it later.

    Args:
        function: a generated wrapper, without closure.
        name: the name of the copy.
        replaced: replacements for some globals, by `id` of the original.
    """
    names = function.__globals__
    code = own_code(function)
    used = {*code.co_names, *own_codes.get(function, code).co_names}
    own = {n: replaced.get(id(names[n]), names[n]) for n in used if n in names}
    own |= {"__builtins__": builtins, "__name__": names["__name__"], MODULE_NAME: module_name(names)}
    found = FunctionType(code, own, name, function.__defaults__)
    found.__module__ = module_name(names)
    found.__kwdefaults__, found.__doc__ = function.__kwdefaults__, function.__doc__
    found.__wrapped__ = function  # type: ignore[attr-defined]  # for inspect.signature
    _copies.setdefault(function, []).append(found)
    return found


def lend_code(function: FunctionType, lender: FunctionType | None) -> None:
    """Let a function and its copies run the code of `lender`; with None, their own again."""
    with lock:
        own = own_codes.setdefault(function, own_code(function))
        code = own
        if lender is None:
            del own_codes[function]
        else:  # named after the function, for errors and profiles
            code = lender.__code__.replace(co_name=own.co_name, co_qualname=own.co_qualname)
        for copy in _copies.get(function, ()):
            names = function.__globals__
            copy.__globals__.update({n: names[n] for n in code.co_names if n in names and n not in own.co_names})
            _set_code(copy, code)
        _set_code(function, code)


def set_global(module: ModuleType, name: str, value: Any) -> None:
    """Set a global of a module, also for copies of its functions, which have globals of their own."""
    with lock:
        setattr(module, name, value)
        for function, copies in _copies.items():
            if function.__globals__ is module.__dict__:
                for copy in copies:
                    if name in copy.__globals__:
                        copy.__globals__[name] = value


def own_code(function: FunctionType) -> CodeType:
    """Return the code of a function without the check for overrides that it may run now."""
    return function.__dict__.get("_unchecked", function).__code__


def _set_code(function: FunctionType, code: CodeType) -> None:
    unchecked = function.__dict__.get("_unchecked", function)
    checks = function.__code__ is not unchecked.__code__
    unchecked.__code__ = code
    if not checks:
        function.__code__ = code


# If no mode is entered anywhere and all arguments are of plain classes, a checked function runs its own code, else
# HANDLE. The words in capitals become constants of the code, since the function has its own globals. `freevars` are the
# function's cells; a replaced code must have the same ones.
_SOURCE = """
def _({freevars}):
    def checked(*_args, **_kwargs):
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
        _handle = "HANDLE"
        return _handle(_args, _kwargs)
        {used}
"""
_templates: dict[tuple[str, ...], CodeType] = {}  # by the names of the cells: a few


class CheckedFunction:
    """A function with two codes: its own, and one that checks for overrides first.

    The function object stays the same, because `__torch_function__` receives it, and programs use it as a key.

    Args:
        function: a public function.
        modes: empty unless a mode is entered in some thread.
        plain: the classes that override nothing.
        handle: `handle(checked_function, args, kwargs)` carries out a call that may be overridden.

    Attributes:
        unchecked: a function that always runs the first code.
    """

    __slots__ = ("function", "unchecked", "_code")

    def __init__(
        self, function: FunctionType, modes: Collection[Any], plain: Collection[type], handle: Callable[..., Any]
    ) -> None:
        self.function = function
        self.unchecked = unchecked = FunctionType(
            function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
        )
        unchecked.__kwdefaults__, unchecked.__annotations__ = function.__kwdefaults__, function.__annotations__
        unchecked.__qualname__, unchecked.__doc__ = function.__qualname__, function.__doc__
        objects = {"MODES": modes, "PLAIN": plain, "OWN": unchecked, "HANDLE": partial(handle, self)}
        self._code = _checking_code(function.__code__, objects)
        function.__dict__["_unchecked"] = unchecked
        function.__dict__.setdefault("__wrapped__", unchecked)  # for inspect.signature

    @property
    def checks(self) -> bool:
        """Return whether the function checks for overrides now."""
        return self.function.__code__ is self._code

    def set_checks(self, on: bool) -> None:
        """Switch the function's check for overrides on or off."""
        self.function.__code__ = self._code if on else self.unchecked.__code__


def _checking_code(own: CodeType, objects: dict[str, Any]) -> CodeType:
    """Return the checking code for a function, with the name, place and cells of its own code."""
    template = _template(own.co_freevars)
    return template.replace(
        co_consts=tuple([objects.get(c, c) if isinstance(c, str) else c for c in template.co_consts]),
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
            if isinstance(node, (ast.stmt, ast.expr)):  # all nodes get the line where the function begins
                node.lineno = node.end_lineno = 1
        outer = next(c for c in compile(tree, __file__, "exec").co_consts if isinstance(c, CodeType))
        found = next(c for c in outer.co_consts if isinstance(c, CodeType))
        _templates[freevars] = found
    return found
