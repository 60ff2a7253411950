"""Write the program that shows a finding with the audited library alone, and run it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import gradloom
from gradloom.tools.verify.case import tensors
from gradloom.tools.verify.operators import Operator

from .libraries import Array, ByName, Library
from .problems import Problem

_AROUND = (
    "{}",
    "({0} + {0}.mH) / 2",
    "{0} @ {0}.mH + torch.eye(len({0}), dtype={0}.dtype)",
    "{0}.tril()",
    "{0}.triu()",
)


def program(problem: Problem, mode: str, library: Library, found: list[Array]) -> str | None:
    """Return the shortest program that prints what the library found; None if none does."""
    if len(problem.outputs) != 1:
        return None
    for call in _calls(problem, library):
        text, expression = _written(problem, mode, library, call)
        try:
            names: dict[str, Any] = {}
            exec("\n".join(text), names)
            value = eval(expression, names)
        except Exception:  # the public function takes other arguments
            continue
        values = [library.array(a) for a in (value if isinstance(value, (list, tuple)) else [value])]
        if [a.shape for a in values] == [a.shape for a in found] and all(map(_equal, values, found)):
            return "\n".join([*text, f"print({expression})"])
    return None


def _equal(a: Array, b: Array) -> bool:
    with np.errstate(all="ignore"):
        return bool(np.allclose(a, b, 1e-6, 1e-300, equal_nan=True))


def _variable(name: str, index: int | None = None) -> str:
    found = {"self": "x", "input": "x"}.get(name, name)
    return found if index is None else f"{found}_{index}"


def _calls(problem: Problem, library: Library) -> Iterator[str]:
    """Yield ways to write the call, public functions first."""
    operator, case = problem.case.operator, problem.case
    inputs = {a.python_name: a for a in operator.schema.inputs}
    given = list(case.arguments())
    while given and inputs[given[-1][0]].default is not None and given[-1][1] == inputs[given[-1][0]].default_value:
        given.pop()
    words = []
    for name, value in given:
        if inputs[name].kwarg_only and _is_default(inputs[name], value):
            continue
        text = _spelled(name, value)
        words.append(f"{name}={text}" if inputs[name].kwarg_only else text)
    which = _which(problem)
    for function, is_method in _functions(operator, library):
        if is_method and not (words and words[0].isidentifier()):
            continue
        for around in _AROUND if not isinstance(library, ByName) else _AROUND[:1]:
            first = around.format(words[0]) if words and words[0].isidentifier() else words[0] if words else ""
            if is_method:
                yield f"{first if first == words[0] else f'({first})'}.{function}({', '.join(words[1:])}){which}"
            else:
                yield f"{function}({', '.join([first, *words[1:]])}){which}"


def _is_default(argument: Any, value: Any) -> bool:
    return argument.default is not None and not tensors(value) and value == argument.default_value


def _which(problem: Problem) -> str:
    """Return the index of the output among the results; empty if there is one."""
    with gradloom.no_grad():
        found = problem.case.plain()
    if not isinstance(found, (tuple, list)):
        return ""
    floats = [n for n, t in enumerate(found) if isinstance(t, gradloom.Tensor) and t._array.dtype.kind in "fcV"]
    return f"[{floats[problem.outputs[0]]}]"


def _functions(operator: Operator, library: Library) -> Iterator[tuple[str, bool]]:
    """Yield (function, whether it is a method of the first argument)."""
    name, module = operator.schema.name, operator.joined.function.python_module
    if isinstance(library, ByName):
        yield library.found(operator)[1], False
        return
    short = name.name.partition("_")[2]
    if module in ("linalg", "fft", "special"):
        yield f"torch.{module}.{short}", False
    yield f"torch.{name.name}", False
    yield f"torch.nn.functional.{name.name}", False
    yield name.name, True
    yield f"torch.ops.aten.{name.name}.{name.overload or 'default'}", False


def _spelled(name: str, value: Any) -> str:
    if isinstance(value, gradloom.Tensor):
        return _variable(name)
    if isinstance(value, (list, tuple)):
        parts = [
            _variable(name, i) if isinstance(v, gradloom.Tensor) else _spelled(name, v) for i, v in enumerate(value)
        ]
        return f"[{', '.join(parts)}]"
    if type(value).__module__.partition(".")[0] == "gradloom":
        return f"torch.{str(value).rpartition('.')[2]}"
    if isinstance(value, float) and not np.isfinite(value):
        return f'float("{value}")'
    return repr(value)


def _array(array: Array, name: str, library: Library) -> str:
    values = np.array2string(array, separator=", ", threshold=10**6, max_line_width=10**6, floatmode="unique")
    values = " ".join(values.split()).replace("nan", 'float("nan")').replace("inf", 'float("inf")')
    return f"{name} = {library.array_text.format(values, str(gradloom.from_numpy(array).dtype).rpartition('.')[2])}"


def _written(problem: Problem, mode: str, library: Library, call: str) -> tuple[list[str], str]:
    """Return (lines, the expression to print)."""
    space, ones = library.transforms, library.ones
    lines = library.start.splitlines()
    for name, value in problem.case.arguments():
        found = enumerate(value) if isinstance(value, (list, tuple)) else [(None, value)]
        for index, one in found:
            if isinstance(one, gradloom.Tensor):
                lines.append(_array(np.array(one._array), _variable(name, index), library))
    xs = [_variable(p.name, p.index) for p in problem.places]
    names = ", ".join(xs)
    lines.append(f"f = lambda {names}: {call}")

    def written(name: str, array: Array) -> str:
        if not any(line.startswith(f"{name} = ") for line in lines):
            lines.append(_array(array, name, library))
        return name

    def directions(kind: str, arrays: tuple[Array, ...]) -> list[str]:
        named = [kind if len(xs) == 1 else f"{kind}_{x}" for x in xs]
        return [f"{ones}({x})" if np.all(a == 1) else written(n, a) for x, n, a in zip(xs, named, arrays, strict=True)]

    (u,) = problem.u

    def loss(call: str) -> str:
        return f"({call} * {written('u', u)}).sum()" if np.any(u != 1) else f"{call}.sum()" if u.ndim else call

    def gradient(of: str) -> str:
        call = f"{of}({names})"
        if problem.is_complex:  # `grad` takes real results
            return f"(lambda {names}: {library.pull_text(of, xs, [written('u', u)])}{'[0]' if len(xs) == 1 else ''})"
        numbers = f", {tuple(range(len(xs)))}" if len(xs) > 1 else ""
        return f"{space}grad({of if loss(call) == call else f'lambda {names}: {loss(call)}'}{numbers})"

    if mode == "reverse" and not problem.is_complex:
        given, expression = library.gradients_text(xs, loss(f"f({names})"))
        return lines + given, expression
    if mode == "reverse":
        return lines, f"{gradient('f')}({names})"
    if mode in ("reverse over reverse", "forward over reverse"):
        w = directions("w", problem.w)
        lines.append(f"g = {gradient('f')}")
        return lines, (library.push_text if mode == "forward over reverse" else library.pull_text)("g", xs, w)
    pushed = library.push_text("f", xs, directions("v", problem.v))
    if mode == "forward":
        return lines, pushed
    lines.append(f"t = lambda {names}: {pushed}")
    if mode == "reverse over forward":
        return lines, f"{gradient('t')}({names})"
    return lines, library.push_text("t", xs, directions("w", problem.w))
