"""Notes on exceptions that leave a backward pass: the operator, its YAML entry, the forward line.

The exception keeps its class and its message. Notes (PEP 678), which Python prints under the message, add the rest.
They cost nothing until an exception is raised.
"""

from __future__ import annotations

import linecache
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..core import hooks as hook_calls
from ..core.user_stack import is_generated, level_of_user, operator_called, stack_text, user_line
from ..dispatch.records import record_at
from ..dispatch.state import ANOMALY, state
from ..kernels._common.errors import size_mismatch
from ..types.silence import module_name

_COMMENT = re.compile(r"\s*# (?P<key>[\w, ]+): (?P<formula>.+)")
_ASSIGNMENT = re.compile(r"\s*grad_of_(?P<key>\w+) = (?P<formula>.+?)( if edges\[\d+\] is not NO_EDGE else None)?$")
_HINTED = re.compile("retain_graph=True|set_detect_anomaly")  # messages that already name a remedy
_SHAPE = re.compile(r"\(([\d, ]*)\)")
_CALLERS_OF_HOOKS = [f.__code__ for f in (hook_calls.on_tensors, hook_calls.before, hook_calls.after)]
_HINT = (
    "with gradloom.autograd.set_detect_anomaly(True) before the forward pass, this note also names the line of "
    "your program that called the operator"
)
_MOST_FRAMES = 500
# Frames between the engine's loop and a hook or a node.
_BETWEEN = [f.__code__ for f in (hook_calls.run, hook_calls.run_hooked, hook_calls.apply_node)]


def _is_between(frame) -> bool:
    profiler = state.profiler
    return frame.f_code in _BETWEEN or profiler is not None and frame.f_locals.get("self") is profiler


def explain_backward_error(error: Exception, loop) -> None:
    """Add notes to an exception that leaves a backward pass.

    Args:
        error: the exception; its traceback starts in the pass.
        loop: the code object of the engine's loop, whose local `node` is the running node.

    Raises RuntimeError with PyTorch's message, in place of NumPy's error about a saved tensor whose size has changed.
    """
    frames = list(_frames(error.__traceback__))
    at = next((i for i, (frame, _) in enumerate(frames) if frame.f_code is loop), None)
    if at is None:
        return  # a user's callback at the end of the pass
    node = frames[at][0].f_locals["node"]
    inner = frames[at + 1 :]
    while inner and _is_between(inner[0][0]):
        del inner[0]
    if inner and inner[0][0].f_code in _CALLERS_OF_HOOKS:
        notes = [f"This came from a hook of {described(node)}."]
    else:
        notes = [_formula_note(node, inner)]
        trace = trace_of(node)
        if state.flags & ANOMALY or trace is not None:
            notes += forward_notes(node, trace)
            if state.flags & ANOMALY:
                _warn(node, trace)
        elif not _HINTED.search(str(error)):
            notes[0] += f"\nHint: {_HINT}."
    if type(error) is ValueError and inner and is_generated(inner[-1][0].f_code):
        shapes = [tuple([int(n) for n in found.split(",") if n.strip()]) for found in _SHAPE.findall(str(error))]
        text = size_mismatch(shapes)
        if text:  # no variable holds the exception, which would be a cycle with this frame
            raise _noted(RuntimeError(text), notes).with_traceback(error.__traceback__) from None
    _noted(error, notes)


def _noted(error: Exception, notes: list[str]) -> Exception:
    existing = getattr(error, "__notes__", ())
    for note in notes:
        if note not in existing:
            error.add_note(note)
    return error


def trace_of(node):
    """Return the trace of a node's forward call; None if anomaly mode was off then."""
    if node.hooks is not None and node.hooks.trace is not None:
        return node.hooks.trace
    inner = getattr(node, "fn", None)  # CopySlices: the node of the operator that wrote to a view
    return trace_of(inner) if inner is not None else None


def forward_notes(node, trace) -> list[str]:
    """Describe the forward call that made a node and, for a node of a backward pass, the nodes that led to it."""
    name = node.name()
    if trace is None:
        return [
            f"Error detected in {name}. No forward pass information available. Enable detect anomaly during "
            "forward pass for more information."
        ]
    notes = [
        f"Error detected in {name}, made at {user_line(trace.stack)}\n"
        f"Traceback of forward call that caused the error:\n{stack_text(trace.stack)}"
    ]
    while trace is not None and trace.parent is not None:
        name, trace = trace.parent.name(), trace_of(trace.parent)
        if trace is None:
            notes.append(
                f"Previous calculation was induced by {name}. No forward pass information available. Enable "
                "detect anomaly during forward pass for more information."
            )
        else:
            notes.append(
                f"Previous calculation was induced by {name}, made at {user_line(trace.stack)}\n"
                "Traceback of forward call that induced the previous calculation:\n"
                f"{stack_text(trace.stack)}"
            )
    return notes


def _warn(node, trace) -> None:
    """Warn, as PyTorch does, of the forward call that made a node, and of the nodes that led to it."""
    import warnings

    texts = ["Error detected in {}.", " Traceback of forward call that caused the error:\n{}"]
    while node is not None:
        text = texts[0].format(node.name()) + (
            " No forward pass information available. Enable detect anomaly during forward pass for more information."
            if trace is None
            else texts[1].format(stack_text(trace.stack))
        )
        try:
            warnings.warn(text, stacklevel=level_of_user())
        except Warning:  # warnings are errors; there is one already
            return
        texts = [
            "\n\nPrevious calculation was induced by {}.",
            " Traceback of forward call that induced the previous calculation:\n{}",
        ]
        node = None if trace is None else trace.parent
        trace = None if node is None else trace_of(node)


def describe_writes(node, saved, counter, expected: int) -> str:
    """Describe the node that saved a tensor which was written to since, and the writes that anomaly mode recorded.

    Args:
        node: the node that saved the tensor; None for an argument saved by a checkpoint.
        saved: the tensor or SavedVariable in the node.
        counter: the tensor's version counter, followed by the recorded writes.
        expected: the version that was saved.
    """
    text = (
        "a checkpoint kept it, as an argument to run its function again with"
        if node is None
        else f"{node.name()} saved it as {_saved_name(node, saved)}"
    )
    writes = [(version, stack) for version, stack in counter[1:] if version > expected]
    trace = None if node is None else trace_of(node)
    if state.flags & ANOMALY:
        hint = (
            " Hint: the backtrace further above shows the operation that failed to compute its gradient. The variable "
            "in question was changed in there or anywhere later. Good luck!"
        )
    else:
        hint = (
            " Hint: enable anomaly detection to find the operation that failed to compute its gradient, with "
            "torch.autograd.set_detect_anomaly(True, check_nan=False)."
        )
    if not writes and trace is None:
        return (
            f"{hint}\n{text}. With anomaly detection on in the forward pass, this message says which operator wrote to "
            "it, and where."
        )
    if trace is not None:
        text += f" at {user_line(trace.stack)}"
    if not writes:
        return (
            f"{hint}\n{text}. Nothing is known of the write: anomaly detection was off then, or the memory was written "
            "to from outside."
        )
    told = [
        f"{operator_called(stack)} wrote to it at {user_line(stack)} (version {version})" for version, stack in writes
    ]
    missed = counter[0] - expected - len(writes)
    unknown = f"; {missed} more while anomaly detection was off, or too long ago" if missed > 0 else ""
    return "\n".join([hint, text, *told]) + unknown


def _saved_name(node, saved) -> str:
    for field in node._saved_fields:
        value = getattr(node, f"saved_{field}", None)
        if value is saved:
            return f"`{field}`"
        if isinstance(value, tuple):
            for i, one in enumerate(value):
                if one is saved:
                    return f"`{field}[{i}]`"
    for i, one in enumerate(getattr(node, "_saved", ())):
        if one is saved:
            return f"argument {i} of save_for_backward"
    return "a tensor that it needs"


def described(node) -> str:
    """Return `MulBackward0, the backward of mul.Tensor`, or a custom function's name with its file and line."""
    function = getattr(type(node), "_forward_cls", None)
    if function is not None:
        code = getattr(function.backward, "__code__", None)
        place = f" ({code.co_filename}:{code.co_firstlineno})" if code is not None else ""
        return f"{node.name()}, the backward of the custom function {function.__qualname__}{place}"
    entry = type(node)._entry
    return f"{node.name()}, the backward of {entry}" if entry else node.name()


def explain_forward(error: BaseException) -> None:
    """Add the operator and its YAML entry to an exception raised in a forward-mode formula."""
    for frame, line in _frames(error.__traceback__):
        code = frame.f_code
        record = record_at(module_name(frame.f_globals), code.co_name)
        if record is None:
            continue
        if found := _formula(code, line):
            place = entry_place({"__file__": code.co_filename, **frame.f_globals}, record.name, found[0])
            note = f"This came from {record.name}, in the forward-mode formula of `{found[0]}`: {found[1]}"
            error.add_note(f"{note}\n  {place}" if place else note)


def _formula_note(node, inner) -> str:
    fn, line = _generated_frame(inner)
    text = f"This came from {described(node)}"
    if fn is None:
        fn = getattr(node, "fn", None)  # a CopySlices that refused to run it
    if fn is not None and fn is not node:  # a CopySlices runs another node
        text += f", which runs {described(fn)}"
    source = type(fn if fn is not None else node)
    found = _formula(*line) if line is not None else None
    key = found[0] if found else None
    place = entry_place(source.apply.__globals__, source._entry, key) if source._entry else None
    if found:
        text += f", in the formula of `{found[0]}`: {found[1]}"
    return f"{text}\n  {place}" if place else f"{text}."


def _generated_frame(inner):
    """Return the generated node whose `apply` is in the traceback, with its code and line; (None, None) if none is."""
    for frame, line in inner:
        node = frame.f_locals.get("fn") if frame.f_code.co_name == "apply" else None
        if node is not None and type(node)._entry:
            return node, (frame.f_code, line)
    return None, None


def _formula(code, line: int) -> tuple[str, str] | None:
    """Return the key and the formula of the line of generated code that raised.

    They are in the comment above it, or, where the code is the formula, in the line itself.
    """
    lines = linecache.getlines(code.co_filename)[code.co_firstlineno : line]
    own = _ASSIGNMENT.match(lines[-1]) if lines else None
    comment = next(filter(None, map(_COMMENT.match, reversed(lines))), None)
    found = own if own is not None and (comment is None or comment["key"] != own["key"]) else comment
    return None if found is None else (found["key"], found["formula"])


def entry_place(globals_: Mapping[str, Any], name: str, key: str | None = None) -> str | None:
    """Return the place of an operator's derivative, as `derivatives.yaml:12`.

    Args:
        globals_: those of the generated module. `gradloom.ops.define` stores its YAML texts there, as `__yaml__`;
            otherwise the YAML file is searched for near the module's file.
        name: the operator with its overload, `mul.Tensor`; an in-place variant finds the functional entry.
        key: a key of the entry, whose line is returned instead of the entry's first line.

    Returns:
        The place; None if the file or the entry is not found.
    """
    texts = globals_.get("__yaml__")
    if texts is None:
        file = globals_.get("__file__")
        path = _derivatives_file(file) if file else None
        texts = [(str(path), linecache.getlines(str(path)))] if path is not None else []
    stem, dot, overload = name.partition(".")
    for wanted in (name, stem.removesuffix("_") + dot + overload):
        for shown, lines in texts:
            for start, text in enumerate(lines):
                if text.replace('"', "").replace("'", "").startswith(f"- name: {wanted}("):
                    return f"{shown}:{_line_of_key(lines, start, key) + 1}"
    return None


def _line_of_key(lines: list[str], start: int, key: str | None) -> int:
    for i in range(start + 1, len(lines) if key else 0):
        if lines[i].startswith("- "):
            break
        if lines[i].strip().startswith(f"{key}:"):
            return i
    return start


def _derivatives_file(generated_file: str) -> Path | None:
    for folder in Path(generated_file).resolve().parents[1:4]:
        for path in (folder / "derivatives.yaml", folder / "_spec" / "derivatives.yaml"):
            if path.is_file():
                return path
    return None


def _frames(traceback):
    """Yield the frames of a traceback and their lines, outermost first, up to a limit. It keeps the cost linear when an
    exception passes through many nested passes, each of which adds notes."""
    for _ in range(_MOST_FRAMES):
        if traceback is None:
            return
        yield traceback.tb_frame, traceback.tb_lineno
        traceback = traceback.tb_next
