"""The user's place in the program: stacks as pairs (code, line), their text in messages, and `warn_once`."""

from __future__ import annotations

import os
import re
import sys

from ..dispatch.records import record_at
from ..types.public import found_in as _found_in
from ..types.silence import warn_user

_FOLDER = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "")
_NN = os.path.join(_FOLDER, "nn", "")
# Files with generated code: gradloom's, operator packages', and that of operators defined in memory.
_GENERATED = re.compile(r"<define |.*[/\\]generated[/\\](?:debug[/\\])?(functions|variable_type)[/\\]")


def current_stack(skip: int) -> list:
    """Return the (code, line) pairs of the calls in progress, innermost first, without the innermost `skip`."""
    frame = sys._getframe(skip)
    found = []
    while frame is not None:
        found.append((frame.f_code, frame.f_lineno))
        frame = frame.f_back
    return found


def stack_text(stack) -> str:
    """Format a stack as Python does, outermost first, down to the call that entered the library (or its `nn`)."""
    return "".join(stack_lines(stack))


def stack_lines(stack) -> list[str]:
    """Format a stack as `stack_text` does, as a list with one entry for each call."""
    import traceback

    start = next((i for i, (code, _) in enumerate(stack) if not _is_plumbing(code)), 0)
    return traceback.format_list(
        [traceback.FrameSummary(code.co_filename, line, code.co_name) for code, line in reversed(stack[start:])]
    )


def user_line(stack) -> str:
    """Return the innermost line of the stack outside the library: `train.py:12, in step: y = x.exp()`."""
    import linecache

    for code, line in stack:
        if not is_ours(code):
            text = linecache.getline(code.co_filename, line).strip()
            return f"{code.co_filename}:{line}, in {code.co_name}{': ' + text if text else ''}"
    return "a place without Python code"


def level_of_user() -> int:
    """Return the `stacklevel` with which the caller's warning points at the line that called the library."""
    frame, level = sys._getframe(1), 1
    while frame is not None and is_ours(frame.f_code):
        frame, level = frame.f_back, level + 1
    return level


_warned: set[str] = set()  # keys of warnings given so far; bounded by the calls of warn_once in this library
_warn_always = False


def warn_once(key: str, message: str) -> None:
    """Warn at the user's line, on the first call with `key`, or on every call after set_warn_always(True).

    Args:
        key: identifies the warning.
        message: the text.
    """
    if key not in _warned or _warn_always:
        _warned.add(key)
        warn_user(message)


def warn_deprecated(name: str, replacement: str, reason: str | None = None) -> None:
    """Warn that an operator is deprecated: at every call if there is a reason, else once.

    Args:
        name: of the operator, without `torch.`.
        replacement: the call to write instead.
        reason: why it is deprecated.
    """
    if reason is not None:
        import warnings

        message = f"torch.{name} is deprecated and will be removed in a future release because {reason}."
        warnings.warn(f"{message} Instead, use {replacement}.", UserWarning, stacklevel=level_of_user())
        return
    key = f"deprecated {name}"
    if key not in _warned or _warn_always:
        better = replacement.partition("(")[0]
        message = f"torch.{name} is deprecated in favor of {better} and will be removed in a future PyTorch release.\n"
        warn_once(key, f"{message}Write {replacement}.")


def set_warn_always(b: bool) -> None:
    """Set whether warnings that are given only once are given each time.

    Args:
        b: True or False; False at first.
    """
    global _warn_always
    if not isinstance(b, bool):
        raise RuntimeError(f"set_warn_always expects a bool, but got {type(b).__name__}")
    _warn_always = b


def is_warn_always_enabled() -> bool:
    """Return what set_warn_always was last given."""
    return _warn_always


def operator_called(stack) -> str:
    """Return the operator whose wrapper is on the stack, as `mul_.Tensor`; else the library function called."""
    name = ""
    for code, _ in stack:
        if not is_ours(code):
            break
        name = code.co_name
        if is_generated(code):
            modules = [n for n, m in list(sys.modules.items()) if getattr(m, "__file__", None) == code.co_filename]
            record = next((r for r in [record_at(module, name) for module in modules] if r is not None), None)
            return name if record is None else record.name
    return name or "something"


def is_ours(code) -> bool:
    """Return whether a code object belongs to the library or is generated."""
    return code.co_filename.startswith(_FOLDER) or is_generated(code)


def is_generated(code) -> bool:
    """Return whether a code object is a node's or a wrapper's."""
    return _GENERATED.match(code.co_filename) is not None


def _is_plumbing(code) -> bool:
    return is_ours(code) and not code.co_filename.startswith(_NN)


_found_in("gradloom", is_warn_always_enabled, set_warn_always)
