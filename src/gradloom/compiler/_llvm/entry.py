"""The entry of a program for direct calls, as LLVM's text: Note [Direct calls] in direct.py."""

from __future__ import annotations

from typing import Any

from .access import NUMBERS
from .direct import ENTRY, METHOD, WORDS
from .ir import DOUBLE, I32, I64, PTR, Function, Module
from .plan import Plan


def write_entry(module: Module, plan: Plan, header: int) -> None:
    """Add the entry to a module that has the function `kernel`. It returns None, True if an index was out of range."""
    program = plan.program
    arrays, numbers = len(program.inputs) + len(program.outputs), len(program.numbers)
    f = Function(module, ENTRY, PTR, [(PTR, "self"), (PTR, "arguments"), (I64, "count")])
    frame = f.load(f.offset("%self", header), PTR).name

    def word(name: str, elem: str = PTR) -> Any:
        return f.load(f.offset(frame, 8 * (METHOD + WORDS.index(name))), elem)

    refused, read, failed, run = (f.new_label(name) for name in ("refused", "read", "failed", "run"))
    f.branch(f.parameter("count", I64).equals(arrays + numbers), read, refused)
    f.start(read, fall=False)
    given = [f.load(f.offset("%arguments", 8 * i), PTR) for i in range(arrays + numbers)]
    expected = word("array_type", I64)
    for x in given[:arrays]:
        known = f.new_label("array")
        f.branch(f.load(f.offset(x.name, header - 8), I64).equals(expected), known, refused)
        f.start(known, fall=False)
    converted = []
    for x, dtype in zip(given[arrays:], program.numbers, strict=True):
        kind = NUMBERS[dtype]
        convert = word("as_double" if kind == DOUBLE else "as_integer").name
        converted.append(f.emit(f"call {kind} {convert}(ptr {x.name})", kind))
    if numbers:
        error = f.emit(f"call ptr {word('occurred').name}()", PTR)
        f.branch(f.emit(f"icmp eq ptr {error.name}, null", "i1"), run, failed)
        f.start(run, fall=False)
    zero = f.const(0, I64)
    arguments = [word("geometry"), word("library"), zero, word("rows", I64), zero, word("lanes", I64), zero]
    arguments += [f.emit("inttoptr i64 0 to ptr", PTR), *given[:arrays], *converted]
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
