"""Compiled graphs and rewritten functions on disk, so that another process need not make them again.

Note [Graphs on disk]
With machine code, a graph is kept in the cache of Note [The cache of machine code], under a key of all that it follows
from: the recorded calls, the geometry of the inputs, the thread's state, and the versions of Python, NumPy, gradloom
and LLVM. Calls are kept if they are the library's own functions with numbers, strings and the like as arguments; other
graphs are compiled in each process. What a file says holds for the sources that the compiling process had loaded: it
names a list of them, with sizes and times, and is not used where one has changed. So an installed gradloom may be
edited. A process that defines operators, which may replace derivatives, keeps nothing and reads nothing.

A file has the code of the programs and the global names that it uses: machine code by the names of its own files,
operators by their places. The guards are written anew by each process, which records the first call as ever; what
Python compiles them to is kept by their text. Numbers that are arguments of the graph (Note [Numbers]) are in the key
without their values; a file has the conditions that its graph puts on them, and another file serves where these do not
hold.

The rewritten code of a function (Note [Rewritten functions]) follows from its bytecode and positions, which the source
was checked against when it was made; so it is kept by these, and a process that finds it does not parse the source.
"""

from __future__ import annotations

import marshal
import math
import os
import pickle
import sys
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from io import BytesIO
from operator import attrgetter
from types import BuiltinFunctionType, CodeType, FunctionType
from typing import Any

import numpy as np

from ..core.tensor import Tensor
from ..dispatch.function_code import own_code
from ..dispatch.state import state
from ..types.dtype import default
from ..types.silence import silence
from ..version import __version__
from ._known import NUMBERS, is_library_value, public_name
from ._llvm import cache as disk
from ._numbers import FREE, hold, math_module, operand
from ._recording import Recording, Slot
from ._run import Compiled, Program, Variant

is_on = True
LARGEST = 1 << 16  # bytes of a constant
FORMS = 16  # graphs of one recording, for different conditions on numbers


class NotKeptError(Exception):
    """A graph depends on something that no key describes, or has something that no file holds."""


# --- keys -------------------------------------------------------------------------------------------------------------


def usable() -> bool:
    """Return whether graphs and functions are read and kept."""
    return is_on and "gradloom.tools.define" not in sys.modules and disk.folder() is not None


@cache
def _root() -> str:
    return os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


@cache
def _rooms() -> tuple[str, ...]:
    """Return the folders of the library's sources."""
    generated = sys.modules["gradloom.generated"].__file__ or ""
    return _root() + os.sep, os.path.dirname(generated) + os.sep


@cache
def _versions() -> str:
    from ._llvm.host import host, llvmlite_version

    h = host()
    parts = (__version__, sys.version, np.__version__, llvmlite_version(), sys.platform, h.machine, h.processor)
    return "\n".join([*map(str, parts), " ".join(sorted(h.features)), _root()])


def _key(recording: Recording, inputs: Sequence[Tensor]) -> str | None:
    """Return all that a graph follows from, as text; None if it cannot be told."""
    try:
        parts = [_versions(), str(default.float), f"{state.flags} {recording.flags}"]
        for slot, tensor in zip(recording.inputs, inputs, strict=True):
            array = tensor._array
            strides = f"{array.strides} {tensor.requires_grad}"
            parts.append(f"{slot.number}: {_dtype_name(array.dtype)}{array.shape} {strides}")
        for step in recording.steps:
            what = (step.args, step.kwargs, step.result)
            parts.append(f"{step.flags} {_described(step.function)} {_described(what)}")
        parts.append(str([slot.number for slot in recording.outputs]))
        parts.append(str([number.__class__.__name__ for number in recording.numbers.values]))
    except NotKeptError:
        return None
    return "\n".join(parts)


@lru_cache(256)
def _dtype_name(dtype: Any) -> str:
    return f"{dtype.name}{dtype.byteorder}"


def _described(value: Any) -> str:
    cls = value.__class__
    if cls in FREE:
        return f"{cls.__name__} {value.source}"
    if cls in NUMBERS:
        return f"{cls.__name__} {value!r}"
    if cls is Slot:
        return f"tensor {value.number} {_dtype_name(value.dtype)}{value.shape}"
    if cls is tuple or cls is list:
        return f"{cls.__name__}({', '.join(map(_described, value))})"
    if cls is dict:
        return f"dict({', '.join([f'{_described(k)}: {_described(v)}' for k, v in value.items()])})"
    if cls is slice:
        return f"slice({_described((value.start, value.stop, value.step))})"
    if cls is FunctionType:
        return _function(value)
    if cls is BuiltinFunctionType and value.__module__ in ("builtins", "_operator", "math"):
        return f"{value.__module__}.{value.__qualname__}"
    if is_library_value(value) or cls is attrgetter:
        return f"{cls.__name__} {value!r}"
    raise NotKeptError(f"a {cls.__name__}")


def _function(function: FunctionType) -> str:
    """Return the name of a function of the library, or where it is defined and what its closure holds."""
    code = own_code(function)
    if not code.co_filename.startswith(_rooms()):
        raise NotKeptError(f"the function {function.__qualname__}")
    found: Any = sys.modules.get(function.__module__)
    for part in function.__qualname__.split("."):
        found = getattr(found, part, None)
    name = f"{function.__module__}.{function.__qualname__}" if found is function else public_name(function)
    if name is not None:
        return name
    held = [cell.cell_contents for cell in function.__closure__ or ()]
    return f"{code.co_filename}:{code.co_firstlineno} {code.co_qualname} {_described(held) if held else ''}"


# --- sources ----------------------------------------------------------------------------------------------------------


def _sources() -> str:
    """Return the sources of the library that are loaded, with sizes and times. Raises NotKeptError if one changed."""
    lines = []
    for name, module in sorted([*sys.modules.items()]):
        if name.startswith("gradloom"):
            path = getattr(module, "__file__", None)
            if path is not None:
                found = os.stat(path)
                if found.st_mtime_ns >= disk.BEGAN:
                    raise NotKeptError(f"{path} changed")
                lines.append(f"{found.st_mtime_ns} {found.st_size} {path}")
    return "\n".join(lines)


@cache
def _unchanged(name: str) -> bool:
    """Return whether sources are as a list of them says."""
    found = disk.read(name)
    if found is None:
        return False
    for line in found.decode().split("\n"):
        modified, size, path = line.split(" ", 2)
        try:
            status = os.stat(path)
        except OSError:
            return False
        if status.st_mtime_ns != int(modified) or status.st_size != int(size):
            return False
    return True


# --- files ------------------------------------------------------------------------------------------------------------


class _Pickler(pickle.Pickler):
    """Writes programs: names of the library and NumPy's by their places, and plain data."""

    def reducer_override(self, value: Any) -> Any:
        cls = value.__class__
        made_by = getattr(value, "made_by", None)
        if made_by is not None and cls is not type:
            return made_by
        if cls is Tensor and value._wrapped_number is not None:
            return operand, (value._wrapped_number, value._array.dtype)
        if value is math:
            return math_module, ()
        if cls is CodeType:
            return marshal.loads, (marshal.dumps(value),)
        if cls is FunctionType or cls is BuiltinFunctionType or isinstance(value, type):
            if (value.__module__ or "").partition(".")[0] in ("gradloom", "numpy", "ml_dtypes", "builtins", "marshal"):
                return NotImplemented
        elif cls is np.ndarray:
            if value.nbytes <= LARGEST and value.dtype.kind in "biufc" and _is_canonical(value):
                return NotImplemented
        elif isinstance(value, np.dtype):
            if value is np.dtype(value.type):  # it must be the same object again: unpickled, it would be a copy
                return np.dtype, (value.type,)
        elif is_library_value(value):
            return NotImplemented
        elif isinstance(value, tuple) and cls.__module__.startswith("gradloom"):
            return NotImplemented
        raise NotKeptError(f"a {cls.__name__}")


def _is_canonical(array: np.ndarray) -> bool:
    """Return whether pickling keeps the strides."""
    return array.strides == np.empty(array.shape, array.dtype).strides


def _write(name: str, value: Any) -> None:
    sources = _sources()
    file = disk.file_name("sources", sources)
    if disk.read(file) is None:
        disk.write(file, sources.encode())
    text = BytesIO()
    _Pickler(text, 5).dump(value)
    disk.write(name, file.encode() + text.getvalue())


def _read(name: str) -> Any:
    """Return what was written; None if it is not there, or holds no longer."""
    data = disk.read(name)
    if data is None or not _unchanged(data[:64].decode()):
        return None
    try:
        return pickle.loads(data[64:])
    except (disk.GoneError, ImportError, AttributeError):
        return None


# --- graphs -----------------------------------------------------------------------------------------------------------


def compiled(
    recording: Recording, inputs: Sequence[Tensor], backend: Any, machine_code: bool, afresh: bool = False
) -> Compiled:
    """Compile a recording for inputs like the given ones, or find its graph on disk.

    Args:
        backend, machine_code: see `_entry.Backend`.
        afresh: make the graph in any case, and keep nothing.

    Raises:
        TraceError: if it cannot be compiled.
    """
    key = _key(recording, inputs) if machine_code and not afresh and usable() else None
    if key is None:
        from ._joint import compiled as compile_graph

        return compile_graph(recording, inputs, backend, machine_code)
    numbers = recording.numbers
    for form in range(FORMS):
        name = disk.file_name("graph", key, str(form))
        found = _read(name)
        if found is None or hold(found[3], numbers.values):
            break
        found = None
    if found is not None:
        facts, forward, variants, conditions, read = found
        made = Compiled(recording, backend, machine_code, facts, _program(*forward), None)
        made.variants = {kinds: _variant(*parts) for kinds, parts in variants.items()}
        numbers.conditions.update(dict.fromkeys(conditions))
        numbers.read.update(read)
    else:
        from ._joint import compiled as compile_graph

        asked, numbers.conditions = numbers.conditions, {}  # those of the program; those of the graph are kept
        known, numbers.read = numbers.read, set()
        made = compile_graph(recording, inputs, backend, machine_code)
        conditions, read = [*numbers.conditions], [*numbers.read]
        numbers.conditions, numbers.read = {**asked, **numbers.conditions}, known | numbers.read
        variants = {kinds: _parts_of(variant) for kinds, variant in made.variants.items()}
        _keep(name, lambda: (made.facts, _parts(made.forward), variants, conditions, read))

    def make(made: Compiled, kinds: tuple[int, ...], inputs: Sequence[Tensor], values: tuple[Any, ...]) -> Variant:
        name = disk.file_name("variant", key, str(form), str(kinds))
        found = _read(name) if usable() else None
        if found is not None:
            variant = _variant(*found)
            if hold(variant.conditions, values):
                return variant
        from ._joint import variant_of

        variant = variant_of(made, kinds, inputs, values)
        _keep(name, lambda: _parts_of(variant))
        return variant

    made.make = make
    return made


def _keep(name: str, value: Callable[[], Any]) -> None:
    """Write a graph, unless it has something that no file holds."""
    if usable():
        try:
            _write(name, value())
        except (NotKeptError, pickle.PicklingError, OSError):
            pass


def _parts(program: Program) -> tuple[Any, ...]:
    """Return what a program is made of again."""
    code, known = program.run.__code__, program.run.__globals__
    return code, {n: known[n] for n in code.co_names if n in known}, program.is_fused


def _program(code: CodeType, names: dict[str, Any], is_fused: bool) -> Program:
    silence(names)
    program = Program(FunctionType(code, names), "", (), (), (), (), {})
    program.is_fused = is_fused
    return program


def _parts_of(variant: Variant) -> tuple[Any, ...]:
    return (
        _parts(variant.program), variant.kept, variant.saved, variant.tangents, variant.gradients, variant.conditions,
    )  # fmt: skip


def _variant(program: tuple[Any, ...], *rest: Any) -> Variant:
    return Variant(_program(*program), *rest)


# --- functions --------------------------------------------------------------------------------------------------------


def rewritten_code(function: FunctionType) -> CodeType:
    """Return the code of a function with hooks. Raises CannotRewriteError."""
    code = function.__code__
    found = _kept_code(code) if usable() else None
    if found is not None:
        return found
    from ._rewrite import rewritten_code

    made = rewritten_code(function)
    name = _name_of_code(code) if usable() else None
    if name is not None:
        disk.write(name, marshal.dumps(made))
    return made


def guards_code(source: str) -> CodeType:
    """Return the code of guards, which takes longer to compile than a small graph to read."""
    name = disk.file_name("guards", sys.version, source) if usable() else None
    data = None if name is None else disk.read(name)
    if data is not None:
        return marshal.loads(data)  # type: ignore[no-any-return]
    code = compile(source, "<guards>", "exec")
    if name is not None:
        disk.write(name, marshal.dumps(code))
    return code


@lru_cache(2048)
def _kept_code(code: CodeType) -> CodeType | None:
    name = _name_of_code(code)
    data = None if name is None else disk.read(name)
    return None if data is None else marshal.loads(data)


def _name_of_code(code: CodeType) -> str | None:
    """Return the name of the file of a function; None if the sources are changing."""
    # Version 2 of marshal's format does not depend on what else refers to the constants.
    version = _rewriter()
    return None if version is None else disk.file_name("function", version, marshal.dumps(code, 2).decode("latin-1"))


@cache
def _rewriter() -> str | None:
    """Return the version of what rewrites functions."""
    found = os.stat(os.path.join(os.path.dirname(__file__), "_rewrite.py"))
    if found.st_mtime_ns >= disk.BEGAN:
        return None
    return f"{__version__} {sys.version} {found.st_mtime_ns} {found.st_size}"
