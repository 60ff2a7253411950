"""The first call with a class that is not a tensor: find the public function called, and its arguments.

Until then public functions do not check for overrides, so the class is noticed inside one, where an operator fails to
find a tensor. The function to override is the outermost that returns the operator's result unchanged.
"""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterator
from inspect import Parameter, signature
from itertools import islice
from typing import Any

from ...dispatch import _operators
from ...types.silence import module_name
from .checks import are_checked, check_for, checked
from .handlers import call_handlers, overloaded_arguments

_ROOT = __name__.partition(".")[0]
# Modules that pass calls on and return the results; users do not call their functions.
_BETWEEN = tuple(f"{_ROOT}.{name}" for name in ("dispatch", "generated", "binding", "python_dispatch"))


def first_call(frame: Any, overloads: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call the handlers of a call in which the argument parser has found an unknown class with `__torch_function__`.

    Args:
        frame: the parser's frame.
        overloads: the parser of the function that was called.
        args, kwargs: its arguments; a wrapper passes all of its own.
    """
    for value in overloaded_arguments(args, kwargs):
        if not isinstance(value, _operators.Tensor):
            check_for(value.__class__)
    overloads.plans.clear()
    function = overloads.public
    args = _without_defaults(args, function.__defaults__ or ())
    kwargs = {
        name: value
        for name, value in kwargs.items()
        if name not in (function.__kwdefaults__ or {}) or value is not function.__kwdefaults__[name]
    }
    outermost = _outermost(frame)
    if outermost is not None:
        function, args, kwargs = outermost
    if function in checked:
        return function(*args, **kwargs)
    return call_handlers(function, overloaded_arguments(args, kwargs), args, kwargs)


def first_operand(method: str, tensor: Any, other: Any) -> Any:
    """Call an operator's method again if the class of its operand has an unknown `__torch_function__`.

    Returns:
        Its result; NotImplemented if functions check already, so that the class's handler was called.
    """
    if are_checked():
        return NotImplemented
    check_for(other.__class__)
    return getattr(tensor, method)(other)


def _outermost(frame) -> tuple | None:
    """Return the outermost public function on the stack that returns the parser's result, and its arguments."""
    by_code = {found.unchecked.__code__: found for found, _ in checked.values()}
    outermost = None
    while frame is not None:
        module = module_name(frame.f_globals)
        if module != _ROOT and not module.startswith(f"{_ROOT}."):
            break
        if not module.startswith(_BETWEEN):
            if not _is_returned(frame):
                break
            if frame.f_code in by_code:
                found = by_code[frame.f_code]
                outermost = (found.function, *_arguments(frame, found.unchecked))
        frame = frame.f_back
    return outermost


def _is_returned(frame) -> bool:
    """Return whether a frame's current call is the value of a return statement."""
    code = frame.f_code
    position = next(islice(code.co_positions(), frame.f_lasti // 2, None))
    tree = ast.parse("".join(linecache.getlines(code.co_filename, frame.f_globals)))
    return any(
        position == (value.lineno, value.end_lineno, value.col_offset, value.end_col_offset)
        for node in ast.walk(tree)
        if isinstance(node, ast.Return) and node.value is not None
        for value in _alternatives(node.value)
    )


def _alternatives(value: ast.expr) -> Iterator[ast.expr]:
    """Yield the possible values of a conditional expression, or any other expression itself."""
    if isinstance(value, ast.IfExp):
        yield from _alternatives(value.body)
        yield from _alternatives(value.orelse)
    else:
        yield value


def _arguments(frame, function) -> tuple[tuple, dict]:
    """Return the arguments of a call as far as its frame still holds them, without values that are defaults."""
    args: list[Any] = []
    kwargs = {}
    defaults = function.__defaults__ or ()
    for parameter in signature(function).parameters.values():
        value = frame.f_locals[parameter.name]
        if parameter.kind is Parameter.KEYWORD_ONLY:
            if value is not parameter.default:
                kwargs[parameter.name] = value
        elif parameter.kind is Parameter.VAR_KEYWORD:
            kwargs.update(value)
        elif parameter.kind is Parameter.VAR_POSITIONAL:
            args.extend(value)
            defaults = ()
        else:
            args.append(value)
    return _without_defaults(tuple(args), defaults), kwargs


def _without_defaults(args, defaults):
    """Return arguments without trailing ones that equal their defaults, which most likely were not passed."""
    count = len(args)
    for value in reversed(defaults):
        if not count or args[count - 1] is not value:
            break
        count -= 1
    return args[:count]
