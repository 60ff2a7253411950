"""The entry of a program for direct calls, as LLVM's text: Note [Direct calls] in direct.py."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .direct import ENTRY, METHOD, WORDS
from .ir import DOUBLE, I32, I64, PTR, Function, Module


def write_entry(module: Module, arrays: int, numbers: Sequence[str], header: int, before: Sequence[str | int]) -> None:
    """Add the entry to a module that has the function `kernel`. It returns None, True if `kernel` returned not 0.

    Args:
        arrays: how many arrays it takes.
        numbers: LLVM's types of the numbers after them, double or i64.
        before: what `kernel` gets before the arrays, followed by a null pointer: words of the frame, by name, and
            integers.
    """
    f = Function(module, ENTRY, PTR, [(PTR, "self"), (PTR, "arguments"), (I64, "count")])
    frame = f.load(f.offset("%self", header), PTR).name

    def word(name: str, elem: str = PTR) -> Any:
        return f.load(f.offset(frame, 8 * (METHOD + WORDS.index(name))), elem)

    refused, read, failed, run = (f.new_label(name) for name in ("refused", "read", "failed", "run"))
    f.branch(f.parameter("count", I64).equals(arrays + len(numbers)), read, refused)
    f.start(read, fall=False)
    given = [f.load(f.offset("%arguments", 8 * i), PTR) for i in range(arrays + len(numbers))]
    expected = word("array_type", I64)
    for x in given[:arrays]:
        known = f.new_label("array")
        f.branch(f.load(f.offset(x.name, header - 8), I64).equals(expected), known, refused)
        f.start(known, fall=False)
    converted = []
    for x, kind in zip(given[arrays:], numbers, strict=True):
        convert = word("as_double" if kind == DOUBLE else "as_integer").name
        converted.append(f.emit(f"call {kind} {convert}(ptr {x.name})", kind))
    if numbers:
        error = f.emit(f"call ptr {word('occurred').name}()", PTR)
        f.branch(f.emit(f"icmp eq ptr {error.name}, null", "i1"), run, failed)
        f.start(run, fall=False)
    first = [f.const(x, I64) if isinstance(x, int) else word(x, I64 if x in _NUMBERS else PTR) for x in before]
    arguments = [*first, f.emit("inttoptr i64 0 to ptr", PTR)] * bool(first)
    arguments += [*given[:arrays], *converted]
    bad = f.emit(f"call i32 @kernel({', '.join(f'{x.elem} {x.name}' for x in arguments)})", I32)
    right, wrong = word("right"), word("wrong")
    result = f.emit(f"select i1 {bad.equals(0).name}, ptr {right.name}, ptr {wrong.name}", PTR)
    f.line(f"call void {word('increase').name}(ptr {result.name})")
    f.line(f"ret ptr {result.name}")
    f.start(refused, fall=False)
    f.line(f"call void {word('set_error').name}(ptr {word('error').name}, ptr {word('message').name})")
    f.start(failed)
    f.line("ret ptr null")
    f.finish()


_NUMBERS = ("rows", "lanes")
LOOPS = ("geometry", "library", 0, "rows", 0, "lanes", 0)  # what the kernel of a loop program gets before the arrays
