"""Programs: the Python function that runs a list of steps, kernels and calls of operators, on arrays.

Its source is straight-line code and can be printed. Buffers that a later step no longer needs are used again where
sizes, strides and dtype agree, or given back; a kernel writes over an operand that ends with it. A call that writes in
place writes to the memory itself: steps are ordered so that no later one reads the former content.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np

from ..core.tensor import wrap
from ..kernels.matmul import multiply
from ..types.silence import silence
from ._build import Kernel, Kernels
from ._chains import DROP, SETUP, Call, Memory, chained
from ._fuse import Fuser, Group
from ._graph import CONSTANT, Content, Node, Value, contiguous_strides
from ._loops import LoopProgram
from ._memory import laid, new, placed, strided
from ._numbers import NAMES, TRACED, number_of, operand
from ._products import PRODUCT
from ._run import Program
from ._windows import Task

_FOREVER = 1 << 60


class _Writer:
    """Writes the source of a program."""

    def __init__(
        self, steps: Sequence[Any], given: Sequence[Content], results: Sequence[Value],
        backend: Callable[[LoopProgram], Callable[..., None]] | None, machine_code: bool,
    ) -> None:  # fmt: skip
        self.lines: list[str] = []
        self.calls: dict[int, Call] = {}  # of machine code, by their lines
        self.kinds: dict[int, str] = {}  # of lines that only make or drop variables
        self.backend = backend
        self.loops: dict[LoopProgram, Callable[..., None]] = {}
        self.names: dict[str, Any] = {
            "strided": strided, "new": new, "laid": laid, "W": wrap, "placed": placed, "multiply": multiply,
            "empty": np.empty, "copyto": np.copyto, "ndarray": np.ndarray, "operand": operand, **NAMES,
        }  # fmt: skip
        self.variables: dict[Content, str] = {}
        self.views: dict[Value, str] = {}
        self.shared: dict[str, int] = {}  # variable -> how many contents it holds
        self.kernels: list[Kernel] = []
        self.machine_code = machine_code
        self.llvm: Any = import_module("gradloom.compiler._llvm") if machine_code else None
        self.generated: dict[Any, tuple[str, int]] = {}  # geometry -> function of a product, and its first factor
        self.reasons: dict[Node, str] = {}  # why BLAS computes products
        self.built = Kernels()
        self.steps, self.given, self.results = steps, given, results
        self.last: dict[Content, int] = {}
        self.fixed: set[Content] = set()  # contents in memory that the program does not own
        for i, step in enumerate(steps):
            for content in _read(step):
                self.last[content] = i
        for value in results:
            self.last[value.content] = _FOREVER
        self.spare: dict[Any, list[str]] = {}
        self.wanted: dict[Any, int] = {}  # geometry -> last step that makes a content of it
        for i, step in enumerate(steps):
            if step.__class__ is Group or step.wrapper is PRODUCT or step.wrapper.__class__ is Task:
                self.wanted.update(dict.fromkeys(map(_geometry, step.made), i))
        self.count = 0
        for i, content in enumerate(given):
            self.variables[content] = f"a{i}"
            self.fixed.add(content)

    def name(self, value: Any, start: str) -> str:
        """Return a global name for an object."""
        name = f"{start}{len(self.names)}"
        self.names[name] = value
        return name

    def line(self, text: str, kind: str) -> None:
        """Add a line that only makes or drops variables."""
        self.kinds[len(self.lines)] = kind
        self.lines.append(text)

    def content(self, content: Content) -> str:
        found = self.variables.get(content)
        if found is None:
            assert content.kind == CONSTANT, f"{content!r} is used before it is made"
            found = self.variables[content] = self.name(content.array, "constant")
            self.fixed.add(content)
        return found

    def value(self, value: Value) -> str:
        """Return the variable of an array on a value, after writing what makes it."""
        base = self.content(value.content)
        if value.is_whole:
            return base
        found = self.views.get(value)
        if found is None:
            self.count += 1
            found = self.views[value] = f"v{self.count}"
            self.line(f"{found} = {self._view(value, base)}", SETUP)
        return found

    def _view(self, value: Value, base: str) -> str:
        """Return the expression of a view; `strided` does the same for all layouts and dtypes, and takes longer."""
        content, dtype = value.content, self._dtype(value.dtype)
        if content.shape == value.shape[::-1] and content.strides == value.strides[::-1] and len(value.shape) == 2:
            if not value.offset and content.dtype == value.dtype:
                return f"{base}.T"
        if content.strides == contiguous_strides(content.shape, content.dtype.itemsize) and _has_buffer(content.dtype):
            return f"ndarray({value.shape}, {dtype}, {base}, {value.offset}, {value.strides})"
        return f"strided({base}, {value.shape}, {value.strides}, {value.offset}, {dtype})"

    def _dtype(self, dtype: Any) -> str:
        name = f"{dtype}"
        self.names[name] = dtype
        return name

    def buffer(self, content: Content) -> str:
        """Return a variable with memory for a content."""
        key = _geometry(content)
        free = self.spare.get(key)
        if free:
            name = free.pop()
        else:
            self.count += 1
            name = f"b{self.count}"
            dtype = self._dtype(content.dtype)
            if content.strides == contiguous_strides(content.shape, content.dtype.itemsize):
                self.line(f"{name} = empty({content.shape}, {dtype})", SETUP)
            else:
                self.line(f"{name} = new({content.shape}, {content.strides}, {dtype})", SETUP)
        self.variables[content] = name
        return name

    def release(self, step: int) -> None:
        """Give back the memory of contents that are not needed after a step."""
        dropped: list[str] = []
        for content in [c for c in self.variables if self.last.get(c, -1) <= step and c.kind != CONSTANT]:
            name = self.variables.pop(content)
            if name in self.variables.values():
                continue
            if name.startswith("b") and self.wanted.get(_geometry(content), -1) > step:
                self.spare.setdefault(_geometry(content), []).append(name)
                self.forget_views(content)
            else:
                dropped += [name, *self.forget_views(content)]
        if dropped:
            self.line(f"{' = '.join(dropped)} = None", DROP)

    def forget_views(self, content: Content) -> list[str]:
        """Return the variables of views of a content that ends."""
        return [self.views.pop(v) for v in [v for v in self.views if v.content is content]]

    def write(self) -> str:
        for i, step in enumerate(self.steps):
            if step.__class__ is Group:
                self.kernel(step, i)
            elif step.wrapper is PRODUCT:
                self.product(step)
            elif step.wrapper.__class__ is Task:
                self.task(step)
            else:
                self.call(step, i)
            self.release(i)
        outputs = ", ".join([self.value(v) for v in self.results])
        arguments = "".join(f"a{i}, " for i in range(len(self.given)))
        unpacked = [f"{arguments}= given", "given.clear()"] if arguments else []
        lines = chained(self.lines, self.calls, self.kinds, self.names) if self.machine_code else self.lines
        body = "\n    ".join([*unpacked, *lines, f"return [{outputs}]"])
        return f"def run(given, n):\n    {body}\n"

    def kernel(self, group: Group, step: int) -> None:
        needed = [c for c in group.made if self.last.get(c, -1) > step]
        if not needed:
            return
        kernel = self.built.of(group, needed)
        accesses: dict[Content, set[Any]] = {}
        for value, walked in zip(kernel.inputs, kernel.accesses, strict=False):
            accesses.setdefault(value.content, set()).add((value.offset, walked, value.dtype))
        inputs = [self.value(v) for v in kernel.inputs]
        outputs, aliases = [], []
        taken: set[Content] = set()
        late = _stored_last(kernel.program)
        for number, value in enumerate(kernel.outputs):
            over = self._overwritten(value, kernel, accesses, step, taken) if number in late else None
            if over is not None:
                taken.add(over)
                aliases += [(number, i) for i, v in enumerate(kernel.inputs) if v.content is over]
                name = self.variables[value.content] = self.variables[over]
                if over in self.fixed:
                    self.fixed.add(value.content)
            else:
                name = self.buffer(value.content)
            outputs.append(name)
        if aliases:
            kernel = kernel._replace(program=_in_place(kernel.program, tuple(aliases)))
        name = f"kernel{len(self.kernels)}"
        self.kernels.append(kernel)
        function = self.names[name] = self.loop(kernel.program)
        numbers = f", ({', '.join(kernel.numbers)},)" if kernel.numbers else ""
        arguments = [*inputs, *outputs]
        if self.machine_code:
            values = [*kernel.inputs, *kernel.outputs]
            cut = partial(self.llvm.cut_kernel, function, kernel.program, [v.offset for v in values])
            memory = self.memory(values, len(inputs))
            self.calls[len(self.lines)] = Call(name, function, arguments, memory, cut)
        self.lines.append(f"# {group.name}\n    {name}(({', '.join(arguments)},){numbers})")

    def loop(self, program: LoopProgram) -> Callable[..., None]:
        """Return the function that the backend makes of a loop program."""
        found = self.loops.get(program)
        if found is None:
            assert self.backend is not None
            found = self.loops[program] = self.backend(program)
        return found

    def memory(self, values: Sequence[Value], inputs: int) -> list[Memory]:
        """Return the memory of a call's arguments, of which the first ones are inputs."""
        return [Memory(self.variables[v.content], v.content.nbytes, i >= inputs) for i, v in enumerate(values)]

    def _overwritten(
        self, value: Value, kernel: Kernel, accesses: dict[Content, set[Any]], step: int, taken: set[Content]
    ) -> Content | None:
        """Return a content that ends with this step and whose memory an output can take."""
        space_access = value.strides, value.dtype
        before = value.content.before
        candidates = [before] if before is not None else []
        candidates += [v.content for v in kernel.inputs if v.content not in self.fixed]
        for content in candidates:
            if content in taken or self.last.get(content, -1) > step or content not in self.variables:
                continue
            if content in self.fixed and (content is not before or content.kind == CONSTANT):
                continue
            if (content.strides, content.dtype) != space_access or content.shape != value.shape:
                continue
            if list(self.variables.values()).count(self.variables[content]) > 1:
                continue
            seen = accesses.get(content, set())
            if len(seen) > 1:
                continue
            own = 0, kernel.accesses[len(kernel.inputs) + kernel.outputs.index(value)], value.dtype
            if seen and next(iter(seen)) != own:
                continue
            return content
        return None

    def product(self, node: Node) -> None:
        """Write a product of matrices into its buffer, or into a part of a buffer that other products share."""
        a, b = node.args
        (content,) = node.made
        generated = self._generated(a, b, node.result)
        if generated is None:
            self.reasons[node] = self.llvm.reason_for_blas(a, b, node.result)
            factors = [self.value(v) for v in node.args]
        else:
            function, first = generated
            factors = [self.content(v.content) for v in ((a, b), (b, a))[first]]
        if content.before is not None:
            self.variables[content] = self.variables[content.before]
        else:
            self.buffer(content)
        if generated is None:
            self.lines.append(f"multiply({', '.join(factors)}, {self.value(node.result)})")
            return
        arguments = [*factors, self.content(content)]
        matrices = [*((a, b), (b, a))[first], node.result]
        product = self.names[function]
        cut = partial(self.llvm.cut_product, product, matrices)
        memory = self.memory(matrices, 2)
        self.calls[len(self.lines)] = Call(function, product, arguments, memory, cut, product.batch)
        self.lines.append(f"{function}({', '.join(arguments)})")

    def _generated(self, *matrices: Value) -> tuple[str, int] | None:
        """Return the function for a product, and which factor it takes first; None if BLAS computes it."""
        if self.llvm.reason_for_blas(*matrices) is not None:
            return None
        key = tuple([(v.shape, v.strides, v.offset, v.dtype) for v in matrices])
        found = self.generated.get(key)
        if found is None:
            product = self.llvm.Product(*matrices)
            found = self.generated[key] = self.name(product, "product"), product.layout.panel
        return found

    def task(self, node: Node) -> None:
        """Write the call of a node's machine code, with buffers for its results."""
        arrays = [self.value(v) for v in node.args]
        arrays += [self.buffer(content) for content in node.made]
        self.lines.append(f"# {node.name}")
        self.lines.append(f"{self.name(node.wrapper.make(), 'task')}({', '.join(arrays)})")

    def call(self, node: Node, step: int) -> None:
        args = [self.argument(a) for a in node.args]
        keywords = getattr(node.wrapper, "keyword_only", ())
        count = len(args) - len(keywords)
        words = args[:count] + [f"{k}={a}" for k, a in zip(keywords, args[count:], strict=True)]
        function = self.name(node.wrapper, f"{node.wrapper.__name__}_")
        target = "r" if node.made else "_"
        self.lines.append(f"{target} = {function}({', '.join(words)})")
        for after in node.writes:
            before = after.before
            # The fuser puts a write after all readers of what it overwrites.
            assert before is not None and self.last.get(before, -1) <= step, f"{before!r} is read after {node.name}"
            self.variables[after] = self.variables[before]
            if before in self.fixed:
                self.fixed.add(after)
        self._made(node)

    def argument(self, value: Any) -> str:
        if value.__class__ is Value:
            return f"W({self.value(value)})"
        if type(value) in TRACED:
            return str(value.source)
        number = number_of(value)
        if number is not None:
            return f"operand({number.source}, {self._dtype(value._array.dtype)})"
        if value.__class__ in (tuple, list) and any(
            True for v in value if v.__class__ is Value or v.__class__ in (tuple, list) or number_of(v) is not None
        ):
            inner = ", ".join(self.argument(v) for v in value)
            return f"({inner},)" if value.__class__ is tuple else f"[{inner}]"
        if value.__class__ in (int, bool, str, type(None)) or value.__class__ is float and abs(value) < 1e308:
            return repr(value)
        return self.name(value, "c")

    def _made(self, node: Node) -> None:
        fresh = [c for c in node.made if c.before is None]
        if fresh:
            self._unpack("r", node.result, set(fresh))
            self.lines.append("r = None")

    def _unpack(self, path: str, result: Any, fresh: set[Content]) -> None:
        if result.__class__ is Value:
            content = result.content
            if content in fresh and content not in self.variables:
                self.count += 1
                name = self.variables[content] = f"r{self.count}"
                geometry = f"{content.shape}, {content.strides}"
                if result.is_whole:
                    self.lines.append(f"{name} = laid({path}._array, {geometry})")
                else:
                    view = f"{result.shape}, {result.strides}, {result.offset}"
                    dtype = self._dtype(content.dtype)
                    self.lines.append(f"{name} = placed({path}._array, {geometry}, {dtype}, {view})")
            elif content in fresh:  # another part of the same memory
                self.lines.append(f"copyto({self.value(result)}, {path}._array)")
        elif result.__class__ in (tuple, list):
            for i, part in enumerate(result):
                self._unpack(f"{path}[{i}]", part, fresh)


def _has_buffer(dtype: np.dtype[Any]) -> bool:
    return dtype.isbuiltin != 2  # not one of ml_dtypes


def _geometry(content: Content) -> Any:
    return content.shape, content.strides, content.dtype


def _stored_last(program: LoopProgram) -> set[int]:
    """Return the outputs that may overwrite an input: those of elements that the last pass stores.

    None if it copies an input to an output, which must be read before anything is overwritten.
    """
    body = program.passes[-1].body
    loads = {i.name for i in body if i.op == "load"}
    if any(i.op == "store" and i.args[0] in loads for i in body):
        return set()
    return {int(i.attribute or 0) for i in body if i.op == "store"}


def _in_place(program: LoopProgram, aliases: tuple[tuple[int, int], ...]) -> LoopProgram:
    """Return a program some outputs of which overwrite inputs: these are stored when all is computed."""
    late = {output for output, _ in aliases}
    *before, part = program.passes
    last = [i for i in part.body if i.op == "store" and i.attribute in late]
    body = (*[i for i in part.body if i not in last], *last)
    return replace(program, aliases=aliases, passes=(*before, part._replace(body=body)))


def _read(step: Any) -> set[Content]:
    nodes = step.nodes if step.__class__ is Group else [step]
    found = {v.content for n in nodes for v in n.values()}
    if step.__class__ is Node:
        found |= {c.before for c in step.writes if c.before is not None}
    return found


def compile_program(
    nodes: Sequence[Node],
    given: Sequence[Content],
    results: Sequence[Value],
    backend: Callable[[LoopProgram], Callable[..., None]] | None,
    machine_code: bool,
) -> Program:
    """Return the program that computes `results` from the arrays of `given`.

    Args:
        nodes: in order; all that they read is given, constant or made by them.
        backend: compiles a loop program to a function of a tuple of arrays and a tuple of numbers; None: no fusion.
        machine_code: whether these are machine code; see `Fuser`.
    """
    fuser = Fuser(nodes, backend is not None, machine_code)
    writer = _Writer(fuser.steps, given, results, backend, machine_code)
    source = writer.write()
    names = writer.names
    silence(names)
    exec(compile(source, "<compiled graph>", "exec"), names)
    nodes = [s for s in fuser.steps if s.__class__ is Node]
    products = [n for n in nodes if n.wrapper is PRODUCT]
    tasks = [n for n in nodes if n.wrapper.__class__ is Task]
    calls = [n for n in nodes if n.wrapper is not PRODUCT and n.wrapper.__class__ is not Task]
    reasons = {n: fuser.reasons[n] for n in calls if n in fuser.reasons} | writer.reasons
    return Program(names["run"], source, writer.kernels, products, tasks, calls, reasons)
