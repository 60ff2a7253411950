"""The first call with a class that is no tensor: which public function it was, and with what arguments.

Until then public functions do not ask, so that the class is noticed inside of one: where an operator fails to find a
tensor. The call that is to be answered is the outermost that returns what the operator returns.
"""

from __future__ import annotations

from typing import Any

from ...dispatch import _operators
from .answers import answer, overriding_arguments
from .asking import _are_asking, _askings, ask_for

_ROOT = __name__.partition(".")[0]
# What hands a call on and returns its result: no user's function, and no composition.
_BETWEEN = tuple(f"{_ROOT}.{name}" for name in ("dispatch", "generated", "tensors.binding", "python_dispatch"))


def first_meeting(frame: Any, overloads: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Answer a call in which the argument parser has met a class, no tensor, with a `__torch_function__`.

    Args:
        frame: of the parser.
        overloads: the parser of the function that was called.
        args, kwargs: what it was called with; a wrapper passes all of its arguments.
    """
    for value in overriding_arguments(args, kwargs):
        if not isinstance(value, _operators.Tensor):
            ask_for(value.__class__)
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
    if function in _askings:
        return function(*args, **kwargs)
    return answer(function, overriding_arguments(args, kwargs), args, kwargs)


def first_operand(method: str, tensor: Any, other: Any) -> Any:
    """Call an operator's method again, if its operand's class has a `__torch_function__` that was not known yet.

    Returns:
        What it returns; NotImplemented if functions ask already, so that the class was asked.
    """
    if _are_asking[0]:
        return NotImplemented
    ask_for(other.__class__)
    return getattr(tensor, method)(other)


def _outermost(frame) -> tuple | None:
    """The outermost public function on the stack whose result is what the parser returns, and its arguments."""
    public = {asking.original.__code__: asking for asking in _askings.values()}
    found = None
    while frame is not None:
        module = frame.f_globals.get("__name__") or ""
        if module != _ROOT and not module.startswith(f"{_ROOT}."):
            break
        if not module.startswith(_BETWEEN) and not _returns_what_it_called(frame):
            break
        asking = public.get(frame.f_code)
        if asking is not None and not module.startswith(_BETWEEN):
            found = (asking.public.function, *_arguments(frame, asking.original))
        frame = frame.f_back
    return found


def _returns_what_it_called(frame) -> bool:
    """Whether the call that a frame is in is the last thing it does: `return f(...)`."""
    from dis import get_instructions

    for instruction in get_instructions(frame.f_code):
        if instruction.offset > frame.f_lasti:
            return instruction.opname == "RETURN_VALUE"
    return False


def _arguments(frame, function) -> tuple[tuple, dict]:
    """What a function was called with, as far as its frame still says so, without what is as by default."""
    code, values = frame.f_code, frame.f_locals
    names = code.co_varnames
    count = code.co_argcount
    args = tuple([values[name] for name in names[:count]])
    only_named = names[count : count + code.co_kwonlyargcount]
    defaults = function.__kwdefaults__ or {}
    kwargs = {name: values[name] for name in only_named if values[name] is not defaults.get(name)}
    rest = count + code.co_kwonlyargcount
    if code.co_flags & 4:
        return (*args, *values[names[rest]]), kwargs
    return _without_defaults(args, function.__defaults__ or ()), kwargs


def _without_defaults(args, defaults):
    """Arguments without those at the end that are as by default, which were most likely not passed."""
    count = len(args)
    for value in reversed(defaults):
        if not count or args[count - 1] is not value:
            break
        count -= 1
    return args[:count]
