"""How a program is called, as LLVM's text: directly (Note [Direct calls] in direct.py), and by threads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .direct import ENTRY, METHOD, WORDS
from .ir import DOUBLE, I1, I32, I64, PTR, Function, Module, V


def write_entry(
    module: Module,
    arrays: int,
    numbers: Sequence[str],
    header: int,
    before: Sequence[str | int | None],
    counts: Sequence[Callable[[Sequence[V]], V]] | None = None,
    name: str = ENTRY,
) -> None:
    """Add the entry to a module that has the function `kernel`. It returns None, True if `kernel` returned not 0, and
    MISFIT if the arrays do not fit: Note [Arrays that fit].

    Args:
        arrays: how many arrays it takes.
        numbers: LLVM's types of the numbers after them, double or i64.
        before: what `kernel` gets before the arrays: words of the frame, by name; integers; None, for a null pointer.
        counts: how many elements the last arrays have, as functions of the numbers; None if `layouts` is a table.
        name: `ENTRY`, or that of a function that only tells whether the arrays fit.
    """
    f = Function(module, name, PTR, [(PTR, "self"), (PTR, "arguments"), (I64, "count")])
    frame = f.load(f.offset("%self", header), PTR).name

    def word(name: str, elem: str = PTR) -> Any:
        return f.load(f.offset(frame, 8 * (METHOD + WORDS.index(name))), elem)

    refused, read, failed, run, fit, misfit = (
        f.new_label(name) for name in ("refused", "read", "failed", "run", "fit", "misfit")
    )
    f.branch(f.parameter("count", I64).equals(arrays + len(numbers)), read, refused)
    f.start(read, fall=False)
    given = [f.load(f.offset("%arguments", 8 * i), PTR) for i in range(arrays + len(numbers))]
    converted = []
    for x, kind in zip(given[arrays:], numbers, strict=True):
        convert = word("as_double" if kind == DOUBLE else "as_integer").name
        converted.append(f.emit(f"call {kind} {convert}(ptr {x.name})", kind))
    if numbers:
        error = f.emit(f"call ptr {word('occurred').name}()", PTR)
        f.branch(f.emit(f"icmp eq ptr {error.name}, null", "i1"), run, failed)
        f.start(run, fall=False)
    layouts = word("layouts").name
    if counts is None:
        wrong = f.emit(f"call i32 {word('fits').name}(ptr {layouts}, ptr %arguments)", I32)
        f.branch(wrong.equals(0), fit, misfit)
    else:
        holds, type = word("holds").name, word("array_type", I64).name
        for i, count in enumerate(counts):
            x, entry = given[arrays - len(counts) + i], f.offset(layouts, 16 * i)
            passed = f"ptr {x.name}, i64 {type}, ptr {entry}, i64 {count(converted).name}"
            held = f.new_label("held")
            f.branch(f.emit(f"call i1 {holds}({passed})", I1), held, misfit)
            f.start(held, fall=False)
        f.line(f"br label %{fit}")
    f.start(fit, fall=False)
    first: list[V] = []
    for what in before:
        if isinstance(what, str):
            first.append(word(what, I64 if what in _NUMBERS else PTR))
        else:
            first.append(V(f, "null", PTR) if what is None else f.const(what, I64))
    arguments = [*first, *given[:arrays], *converted]
    bad = f.const(0, I32)
    if name == ENTRY:
        bad = f.emit(f"call i32 @kernel({', '.join(f'{x.elem} {x.name}' for x in arguments)})", I32)
    result = f.emit(f"select i1 {bad.equals(0).name}, ptr {word('right').name}, ptr {word('wrong').name}", PTR)
    f.line(f"call void {word('increase').name}(ptr {result.name})")
    f.line(f"ret ptr {result.name}")
    f.start(misfit, fall=False)
    result = word("misfit")
    f.line(f"call void {word('increase').name}(ptr {result.name})")
    f.line(f"ret ptr {result.name}")
    f.start(refused, fall=False)
    f.line(f"call void {word('set_error').name}(ptr {word('error').name}, ptr {word('message').name})")
    f.start(failed)
    f.line("ret ptr null")
    f.finish()


def write_parallel(
    module: Module, parameters: list[tuple[str, str]], call: Callable[[Function, dict[str, V], V], V]
) -> None:
    """Add `shared`, which has the pool make one call for each item, and the work that it gives the pool."""
    kept = [(PTR, "items"), *parameters]
    f = Function(module, "work", I32, [(I64, "part"), (PTR, "context")], "internal ", _GLUE)
    found = {name: f.load(f.offset("%context", 8 * k), type) for k, (type, name) in enumerate(kept)}
    result = call(f, found, f.parameter("part", I64))
    f.line(f"ret i32 {result.name}")
    f.finish()
    pool = [(PTR, "pool"), (PTR, "run"), (PTR, "items"), (I64, "items.count"), (I64, "helpers")]
    f = Function(module, "shared", I32, [*pool, *parameters], attributes=_GLUE)
    context = f.alloca(f"[{len(kept)} x i64]", 8)
    for k, (type, name) in enumerate(kept):
        f.store(f.parameter(name, type), f.offset(context, 8 * k), 8)
    job = f"ptr %pool, ptr @work, ptr {context}, i64 %items.count, i64 %helpers"
    f.line(f"ret i32 {f.emit(f'call i32 %run({job})', I32).name}")
    f.finish()


_NUMBERS = ("rows", "lanes")
_GLUE = "noinline optnone"  # runs once for the elements of a part: LLVM takes a third as long for it
# What the kernel of a loop program gets before the arrays.
LOOPS = ("geometry", "library", 0, "rows", 0, "lanes", 0, None)
