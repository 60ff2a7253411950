"""The tracer: runs a recorded program once more, on tensors whose values cannot be read, and makes its graph.

Note [Tracing]
Inside a Tracer, tensors have a `TracedArray` in place of their array: shape, dtype and strides for the program, and the
real array for kernels. The handler of the dispatch key TRACE sees every operator below the composites, in forward and
backward; autograd records the history as ever (`interception.record`), and the graph gets a node. Shapes, layouts and
aliases come from the rules of the meta device (Note [Tracing without values]); where these know too little, from the
kernel, which then computes real results. Code of the library that reads values instead
of calling operators raises `TraceError`: such programs are not compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..core.tensor import Tensor, wrap
from ..core.views import replay_by_operator
from ..dispatch.interception import TRACE, Call, attend, call_wrapper, record, register
from ..dispatch.records import Record, name_of, record_of
from ..dispatch.state import AUTOCAST, FORWARD_AD, GIVEN_RESULT, GRAD_OFF, INTERCEPT, REDISPATCH, state
from ..kernels._common.layout import is_dense
from ..kernels.random.streams import default_stream
from ..memory.metadata import Metadata
from ..memory.ownership import owner
from ..meta.handler import depends_on_values
from ._geometry import Geometry, NeedsValues, is_view
from ._graph import CONSTANT, INPUT, RESULT, Content, Graph, Node, Value
from ._numbers import TRACED, NumberIsKeyError, fixed, number_of, operand, replaced
from ._recording import TraceError
from ._scalar import own_records

# Operators whose results have a size that depends on values, without the tag that says so.
_UNTAGGED = frozenset(("_unique",))
# Operators for which a number that is no int decides on the size of the result.
_SHAPED_BY_NUMBERS = ("arange", "range", "upsample", "_upsample")
_SCALARS = frozenset(("Scalar", "Scalar?", "Scalar[]", "float", "float?"))
_GAPS = "it writes to an input whose elements are not dense in memory"


class NeedsCopy(Exception):
    """The program writes to an input that the tracer did not copy: `position`."""

    def __init__(self, position: int) -> None:
        super().__init__(position)
        self.position = position


class Block:
    """Memory of the traced program.

    Attributes:
        base: the array that owns it.
        content: what it contains now.
        is_private: whether a kernel may write to it.
    """

    __slots__ = ("base", "content", "start", "is_private")

    def __init__(self, base: np.ndarray, content: Content, is_private: bool) -> None:
        self.base, self.content, self.is_private = base, content, is_private
        self.start = base.__array_interface__["data"][0]


class TracedArray(Metadata):
    """The array of a traced tensor: its geometry, and the real array, which only kernels see."""

    __slots__ = ("block", "real")
    message = (
        "the program reads the values of a tensor while it is compiled. A compiled graph computes with whatever values "
        "it is called with, so nothing may depend on those of one call"
    )
    error = TraceError

    def __init__(self, real: np.ndarray, block: Block) -> None:
        super().__init__(real.shape, real.dtype, real.strides)
        self.real, self.block = real, block

    @property
    def value(self) -> Value:
        """The tensor in the graph, as it is now."""
        offset = self.real.__array_interface__["data"][0] - self.block.start if self.real.size else 0
        return Value(self.block.content, self.real.shape, self.real.strides, self.real.dtype, offset)


class _Elements:
    """Exposes the memory of an array as if nothing else shared it."""

    def __init__(self, array: np.ndarray) -> None:
        self.kept = array
        code = np.dtype(f"u{array.itemsize}") if array.dtype.isbuiltin == 2 else array.dtype
        self.__array_interface__ = {
            "data": (array.__array_interface__["data"][0], True),
            "shape": array.shape,
            "strides": array.strides,
            "typestr": code.str,
            "version": 3,
        }


def _alone(array: np.ndarray) -> np.ndarray:
    """Return the same elements as an array that owns its memory, as far as `owner` can tell; read-only."""
    return np.asarray(_Elements(array)).view(array.dtype)


def _copied(array: np.ndarray) -> np.ndarray:
    """Return a copy of an array with the same strides, as far as they are dense."""
    order = sorted(range(array.ndim), key=lambda d: -abs(array.strides[d]))
    packed = array.transpose(order).copy(order="C")
    back = [0] * array.ndim
    for i, d in enumerate(order):
        back[d] = i
    return packed.transpose(back)


def _record(call: Call) -> Record:
    """Return the record of a call's operator. Raises TraceError if it has none."""
    found = record_of(call.wrapper)
    if found is None:
        raise TraceError(f"it calls {call.wrapper.__name__}, which has no record")
    return found


def _has_definition(record: Record) -> bool:
    """Return whether native_functions.yaml defines what an operator of gradloom computes, so that it may be a loop."""
    own = own_records()
    if own.get(record.name) is not record:
        return False
    functional = own.get(record.functional)
    return record.rows is not None or functional is not None and functional.scalar is not None


def _plainly(call: Call) -> Call:
    """Return a call with the values of numbers of the graph."""

    def each(value: Any) -> Any:
        number = number_of(value)
        if number is not None:
            return number.value if number is value else operand(number.value, value._array.dtype)
        if value.__class__ in (tuple, list):
            return value.__class__([each(v) for v in value])
        return value

    return call.with_args(tuple(map(each, call.args)), call.out)


class Tracer:
    """Records the graph of what runs inside `with tracer.running():`.

    Args:
        copied: positions of the inputs that the program writes to; used with values.
        values: whether kernels compute.
    """

    def __init__(self, copied: frozenset[int] = frozenset(), values: bool = True) -> None:
        self.graph = Graph()
        self.copied, self.values, self.geometry = copied, values, Geometry()
        self.blocks: dict[int, Block] = {}  # identity of the owning array -> its block
        self.contents = 0
        self.kept: list[Any] = []  # arrays whose identities are known
        self.where: Callable[[], str] = str
        self.drawn = default_stream.position

    # --- contents -------------------------------------------------------------------------------------------------

    def _content(self, kind: str, base: np.ndarray, **facts: Any) -> Content:
        """Return a content with the geometry of an array that covers its memory."""
        self.contents += 1
        return Content(self.contents - 1, kind, base.shape, base.strides, base.dtype, **facts)

    def _block(self, base: np.ndarray, content: Content, is_private: bool = True) -> Block:
        block = Block(base, content, is_private)
        self.blocks[id(base)] = block
        self.kept.append(base)
        return block

    def input(self, array: np.ndarray, requires_grad: bool) -> Tensor:
        """Return a leaf that stands for an input of the program."""
        position = len(self.graph.inputs)
        base = _copied(array) if self.values and position in self.copied else _alone(array)
        if base.dtype != array.dtype or base.strides != array.strides and position in self.copied and array.size:
            raise TraceError(_GAPS)
        content = self._content(INPUT, base, position=position)
        self.graph.inputs.append(content)
        own = base if base.base is None else owner(base)
        block = Block(base, content, position in self.copied)
        self.blocks[id(own)] = block
        self.kept += [own, base]
        return self.tensor(base, block, requires_grad)

    def tensor(self, real: np.ndarray, block: Block, requires_grad: bool = False) -> Tensor:
        """Return a traced leaf on a real array."""
        out = wrap(_NOTHING)
        out._array = TracedArray(real, block)  # type: ignore[assignment]
        if requires_grad:
            out.requires_grad = True
        return out

    def value(self, tensor: Tensor) -> Value:
        """Return the Value that a tensor is now; a tensor with values of its own is a constant of the graph."""
        array: Any = tensor._array
        if array.__class__ is TracedArray:
            return array.value
        if type(array) is not np.ndarray:
            raise TraceError("it uses a tensor with a conjugate or negative bit, or without values of its own")
        own = owner(array)
        block = self.blocks.get(id(own))
        if block is None:
            content = self._content(CONSTANT, own, array=own)
            block = self._block(own, content, False)
        return TracedArray(array, block).value

    # --- operators ------------------------------------------------------------------------------------------------

    def call(self, call: Call) -> Any:
        """Handle a call of an operator."""
        if call.out is not None:
            raise TraceError("it calls an operator with out=")
        if hasattr(call.wrapper, "record"):
            raise TraceError(f"it calls {call.wrapper.__name__}, which a library defines or which reads values")
        if call.composite is not None:
            return NotImplemented
        name = name_of(call.wrapper)
        if name in _UNTAGGED or depends_on_values(call.wrapper) or _selects_by_values(name, call.args):
            raise TraceError(f"the size of the result of {name} depends on values")
        if "inplace_view" in _record(call).tags:
            raise TraceError(f"it calls {name}, which changes the sizes or strides of a tensor")
        found = record(call.wrapper, lambda: self._run(call), call.args)
        if getattr(found, "_view", None) is not None and found._array.__class__ is TracedArray:
            replay_by_operator(found, call)
        return found

    def _run(self, call: Call) -> Any:
        """Compute a call by its kernel, and add its node."""
        facts = _record(call)
        name, written, is_random = facts.name, facts.written, facts.is_random
        if any(type(a) in TRACED or a.__class__ in (tuple, list) for a in call.args):
            call = self._with_numbers(call, name)
        self._probe(call, name, written)
        values = tuple([self._argument(a) for a in call.args])
        if name == "as_strided" and any(v.content.memory.kind != RESULT for v in [values[0]]):
            raise TraceError("it calls as_strided on an input")
        found, written = self._found(call, name, written)
        node = Node(name, call.wrapper, values, is_random=is_random, where=self.where(), number=len(self.graph.nodes))
        made: list[Content] = []
        for position in written:
            argument = call.args[position]
            if argument is not None:
                made.append(self._written(argument, node))
        result = self._result(found, call, node, made)
        node.made = tuple(made)
        node.result = _shape_of(result)
        if made or is_random:
            self.graph.nodes.append(node)
        return result

    def _with_numbers(self, call: Call, name: str) -> Call:
        """Return a call in which numbers of the graph that shape the result have their values."""
        shapes = name.startswith(_SHAPED_BY_NUMBERS)
        args = [
            a if argument.type in _SCALARS and not shapes else replaced(a, fixed)
            for a, argument in zip(call.args, _record(call).arguments, strict=False)
        ]
        return call.with_args((*args, *[replaced(a, fixed) for a in call.args[len(args) :]]), call.out)

    def _probe(self, call: Call, name: str, written: tuple[int, ...]) -> None:
        """Note as conditions what the kernel of an operator that may become a loop asks of its numbers.

        The kernel runs on small arrays of ones, for numbers that raise an error, or have a formula of their own.
        """
        number = next((n for a in call.args if (n := number_of(a)) is not None), None)
        if number is None or not _has_definition(_record(call)):
            return
        number.numbers.is_probing = True
        try:
            Geometry().results_of(call, name, written, self._hidden)
        except (NeedsValues, NumberIsKeyError):
            pass  # it asks for the value otherwise
        finally:
            number.numbers.is_probing = False

    def _argument(self, value: Any) -> Any:
        if isinstance(value, Tensor):
            if value._wrapped_number is not None:
                return value
            return self.value(value)
        if value.__class__ in (tuple, list):
            return value.__class__([self._argument(v) for v in value])
        return value

    def _found(self, call: Call, name: str, written: tuple[int, ...]) -> tuple[Any, tuple[int, ...]]:
        """Return the result of a call, and the positions of the arguments that it writes to."""
        if not self.values and not is_view(call.wrapper):
            found, written = self.geometry.results_of(_plainly(call), name, written, self._hidden)
            for i in written:
                if isinstance(call.args[i], Tensor):
                    self._own(call.args[i])
            return found, written
        try:
            return self._kernel(call, written), written
        except ValueError as error:
            if "read-only" not in str(error):
                raise
            written = self._unannounced(call, written)
            return self._kernel(call, written), written

    def _hidden(self, tensor: Any) -> np.ndarray | None:
        array = tensor._array
        return array.real if array.__class__ is TracedArray else None

    def _kernel(self, call: Call, written: tuple[int, ...]) -> Any:
        args = [self._real(a, i in written) for i, a in enumerate(call.args)]
        flags = state.flags
        state.flags = (flags | GRAD_OFF) & ~(INTERCEPT | AUTOCAST | FORWARD_AD | REDISPATCH | GIVEN_RESULT)
        is_random = _record(call).is_random
        if is_random:
            self.check_draws()
        try:
            return call_wrapper(call.wrapper, tuple(args))
        finally:
            state.flags = flags
            if is_random:
                self.drawn = default_stream.position

    def check_draws(self) -> None:
        """Refuse a program that drew random numbers otherwise than by an operator."""
        if self.drawn != default_stream.position:
            raise TraceError("it draws random numbers otherwise than by an operator")

    def _unannounced(self, call: Call, written: tuple[int, ...]) -> tuple[int, ...]:
        """Return the arguments that a kernel writes to though its schema does not say so; it runs on copies."""
        copies = [_copied(a._array.real) if _is_traced(a) else None for a in call.args]
        args = [a if c is None else wrap(c) for a, c in zip(call.args, copies, strict=True)]
        flags = state.flags
        state.flags = (flags | GRAD_OFF) & ~(INTERCEPT | AUTOCAST | FORWARD_AD | REDISPATCH | GIVEN_RESULT)
        try:
            call_wrapper(call.wrapper, tuple(args))
        finally:
            state.flags = flags
        changed = [
            i
            for i, (a, c) in enumerate(zip(call.args, copies, strict=True))
            if c is not None and c.tobytes() != a._array.real.tobytes()
        ]
        return tuple(sorted({*written, *changed}))

    def _real(self, value: Any, is_written: bool) -> Any:
        if type(value) in TRACED:
            return value.value
        if isinstance(value, Tensor):
            array: Any = value._array
            if array.__class__ is not TracedArray:
                if is_written and value._wrapped_number is None:
                    self._own(value)
                number = number_of(value)
                return value if number is None else operand(number.value, array.dtype)
            if is_written:
                self._own(value)
            seen = array.real.view()
            seen.flags.writeable = is_written
            out = wrap(_NOTHING)
            out._array = seen
            return out
        if value.__class__ in (tuple, list):
            return value.__class__([self._real(v, is_written) for v in value])
        return value

    def _own(self, tensor: Tensor) -> None:
        """Refuse a write to memory of the caller; the program is traced again with a copy of that input."""
        content = self.value(tensor).content
        block = self._block_of(tensor)
        if content.memory.kind == INPUT and not block.is_private:
            if self.values:
                raise NeedsCopy(content.memory.position)
            if not is_dense(block.base):
                raise TraceError(_GAPS)
            block.is_private = True
        if content.memory.kind == CONSTANT:
            raise TraceError("it writes to a tensor that is neither an input nor made by an operator")

    def _block_of(self, tensor: Tensor) -> Block:
        array: Any = tensor._array
        if array.__class__ is TracedArray:
            return array.block
        return self.blocks[id(owner(array))]

    def _written(self, tensor: Tensor, node: Node) -> Content:
        block = self._block_of(tensor)
        old = block.content
        self.contents += 1
        block.content = Content(self.contents - 1, RESULT, old.shape, old.strides, old.dtype, before=old, node=node)
        return block.content

    def _result(self, found: Any, call: Call, node: Node, made: list[Content]) -> Any:
        if isinstance(found, Tensor):
            array = found._array
            if type(array) is not np.ndarray:
                raise TraceError(f"{node.name} returns a tensor with a conjugate or negative bit")
            own = owner(array)
            block = self.blocks.get(id(own))
            if block is None:
                covers = array.nbytes == own.nbytes and is_dense(array) and _address(array) == _address(own)
                content = self._content(RESULT, array if covers else own, node=node)
                made.append(content)
                block = self._block(own, content)
            out = wrap(_NOTHING)
            out._array = TracedArray(array, block)  # type: ignore[assignment]
            self.kept.append(out._array)  # the engine adds in place to what nothing else refers to
            return out
        if isinstance(found, (tuple, list)):
            parts = [self._result(f, call, node, made) for f in found]
            return parts if found.__class__ is list else tuple(parts)
        return found

    @contextmanager
    def running(self) -> Iterator[None]:
        """Record what runs in this thread within the block; random numbers drawn there are given back."""
        register(TRACE, _handle)
        before, mark = state.tracer, (default_stream.mark(), default_stream.cached_normal)
        state.tracer = self
        attend()
        try:
            yield
            self.check_draws()
        finally:
            state.tracer = before
            attend()
            default_stream.rewind(mark[0])
            default_stream.cached_normal = mark[1]


def _address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]  # type: ignore[no-any-return]


def _is_traced(value: Any) -> bool:
    return isinstance(value, Tensor) and getattr(value, "_array", None).__class__ is TracedArray


def _selects_by_values(name: str, args: tuple[Any, ...]) -> bool:
    """Return whether an operator takes the elements where a tensor of bools is true."""
    lists = [a for a in args if a.__class__ in (tuple, list)]
    masks = any(isinstance(t, Tensor) and t._array.dtype.kind == "b" for values in lists for t in values)
    return masks and name.startswith(("index", "_unsafe_index", "_index"))


def _handle(call: Call) -> Any:
    tracer = state.tracer
    return NotImplemented if tracer is None else tracer.call(call)


def _shape_of(result: Any) -> Any:
    """Return a result with Values in place of tensors."""
    if isinstance(result, Tensor):
        traced: Any = result._array
        return traced.value
    if result.__class__ in (tuple, list):
        return result.__class__([_shape_of(r) for r in result])
    return result


_NOTHING = np.zeros(())
