"""Loop programs of eager mode's kernels on rows, from the definitions in native_functions.yaml (`over:`).

A program is made as for compiled functions: the call of an operator becomes its stages (Note [Stages]), and these one
loop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..types.silence import silence
from ._build import Kernel, Kernels
from ._fuse import Group, refusal
from ._graph import INPUT, RESULT, Content, Graph, Node, Value, contiguous_strides
from ._loops import Instruction, LoopProgram, Pass
from ._rows import decomposed
from ._scalar import COSTLY, CannotFuseError, Stage, own_records

Shape = tuple[int, ...]


def loop_of(
    operator: str, arguments: Sequence[Any], results: Sequence[tuple[Shape, np.dtype[Any]] | None]
) -> LoopProgram:
    """Return the program that computes a call of an operator on rows.

    Its inputs are the contiguous arrays among the arguments that it reads, and its outputs the results, in their order.

    Args:
        operator: its full name.
        arguments: those of the schema. Numbers become constants of the program.
        results: shapes and dtypes of the results; None for one that is left out.

    Raises CannotFuseError if one loop cannot compute it.
    """
    contents: list[Content] = []

    def value(kind: str, shape: Shape, dtype: np.dtype[Any]) -> Value:
        strides = contiguous_strides(shape, dtype.itemsize)
        contents.append(Content(len(contents), kind, shape, strides, dtype))
        return Value(contents[-1], shape, strides, dtype)

    given = [value(INPUT, a.shape, a.dtype) if isinstance(a, np.ndarray) else a for a in arguments]
    made = [None if r is None else value(RESULT, *r) for r in results]
    inputs = [v.content for v in given if v.__class__ is Value]
    outputs = [v.content for v in made if v is not None]
    wrapper = own_records().wrapper_of(own_records()[operator])
    node = Node(operator, wrapper, tuple(given), made[0] if len(made) == 1 else tuple(made), tuple(outputs))
    for content in outputs:
        content.node = node
    kernel = Kernels().of(_one_loop(decomposed(Graph(inputs, [node], 1)).nodes), outputs)
    return _in_order(kernel, inputs, outputs)


def _one_loop(nodes: list[Node]) -> Group:
    """Return the group of all stages of an operator. Raises CannotFuseError if they do not walk over one space."""
    if nodes[0].wrapper.__class__ is not Stage:
        raise CannotFuseError("it has no stages")
    group = Group(nodes[0].wrapper.space, adds=True)
    for node in nodes:
        reason = refusal(node)
        axes = group.takes(node) if reason is None else None
        if axes is None:
            raise CannotFuseError(reason or "several loops")
        for value in node.values():
            made = group.made.get(value.content)
            if value.content in group.sums or made is not None and made != group.access(node, value, axes):
                raise CannotFuseError("several loops")
        group.add(node)
    return group


def _in_order(kernel: Kernel, inputs: list[Content], outputs: list[Content]) -> LoopProgram:
    """Return a kernel's program with its buffers in the order of the call's tensors."""
    read, written = [v.content for v in kernel.inputs], [v.content for v in kernel.outputs]
    if len(set(read)) < len(read) or len(set(written)) < len(outputs) or kernel.numbers:
        raise CannotFuseError("an array that is read in several ways, or a result that is left out")
    of_input = {c: i for i, c in enumerate([c for c in inputs if c in read])}
    of_output = {c: i for i, c in enumerate(outputs)}
    places = {
        **dict.fromkeys(("load", "gather"), [of_input[c] for c in read]),
        **dict.fromkeys(("store", "add"), [of_output[c] for c in written]),
    }

    def placed(body: Sequence[Instruction]) -> tuple[Instruction, ...]:
        return tuple([i._replace(attribute=places[i.op][int(i.attribute or 0)]) if i.op in places else i for i in body])

    program = kernel.program
    order = [read.index(c) for c in of_input], [written.index(c) for c in outputs]
    return replace(
        program,
        inputs=tuple([program.inputs[i] for i in order[0]]),
        outputs=tuple([program.outputs[i] for i in order[1]]),
        passes=tuple([Pass(placed(p.body), placed(p.row)) for p in program.passes]),
    )


def keeping(program: LoopProgram) -> LoopProgram:
    """Return the same program but for an expensive value that two passes compute for each element: the first keeps it
    where the result will be.

    The array of the result is then also its last input and its last output. A program without such a value, or with
    several results, stays as it is.
    """
    *before, last = program.passes
    made = {_meaning(i, p.body): (n, i) for n, p in enumerate(before) for i in p.body if i.op in COSTLY}
    again = next((i for i in last.body if i.op in COSTLY and _meaning(i, last.body) in made), None)
    if again is None or len(program.outputs) != 1 or again.dtype != program.outputs[0].dtype:
        return program
    number, first = made[_meaning(again, last.body)]
    body = [i._replace(op="load", args=(), attribute=len(program.inputs)) if i is again else i for i in last.body]
    used = {"", *(a for i in body for a in i.args)}
    while len(needed := [i for i in body if i.name in used]) < len(body):
        body, used = needed, {"", *(a for i in needed for a in i.args)}
    at = before[number].body.index(first) + 1
    store = Instruction("", "store", (first.name,), "", 1)
    before[number] = before[number]._replace(body=(*before[number].body[:at], store, *before[number].body[at:]))
    result = program.outputs[0]
    return replace(
        program,
        inputs=(*program.inputs, result),
        outputs=(result, result),
        passes=(*before, last._replace(body=tuple(body))),
        aliases=((0, len(program.inputs)), (1, len(program.inputs))),
    )


def _meaning(instruction: Instruction, body: Sequence[Instruction]) -> Any:
    """Return what an instruction computes: the same for equal ones in other passes. Values of rows have one name."""
    by_name = {i.name: i for i in body}
    args = tuple([_meaning(by_name[a], body) if a in by_name else a for a in instruction.args])
    return instruction.op, args, instruction.dtype, instruction.attribute


def derived(
    compiled: Callable[..., Any], key: Any, operator: str, arguments: Sequence[Any], *results: tuple[Shape, Any] | None
) -> Any:
    """Compile the loop of a call and keep it under a key; return False, and keep that, if there is none."""
    try:
        program = loop_of(operator, arguments, results)
    except CannotFuseError:
        program = None
    return compiled(key, program)


def derived_keeping(
    compiled: Callable[..., Any], key: Any, operator: str, arguments: Sequence[Any], result: tuple[Shape, Any]
) -> tuple[Any, int]:
    """Compile the loop of a call, `keeping` what it can; return it or False, and how often it takes the result."""
    try:
        program = loop_of(operator, arguments, [result])
    except CannotFuseError:
        return compiled(key, None), 0
    kept = keeping(program)
    return compiled(key, kept), 1 if kept is program else 3


silence(globals())
