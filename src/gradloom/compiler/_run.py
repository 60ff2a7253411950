"""Running compiled programs: arrays in and out, and the node that stands for them in the graph of autograd."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..core.edge import gradient_edge
from ..core.engine import execute
from ..core.node import Node, bump_version, next_sequence_nr
from ..core.saved_variable import RELEASED, modified_message, save, unpack
from ..core.tensor import Tensor, wrap
from ..dispatch import _operators
from ..dispatch.state import GRAD_OFF, state
from ..types.silence import silence
from ._memory import laid
from ._numbers import evaluated, hold
from ._recording import STANDS_FOR, Recording, filled, learn

new = object.__new__
UNDEFINED, DEFINED, REPEATED = 0, 1, 2  # gradients that arrive: none, an array, or one element for all of its array
LARGE = 1 << 22  # bytes of a gradient of equal elements, as that of a sum, that the backward pass reads as one


class Program:
    """A compiled list of steps, as `_program.compile_program` makes it.

    Attributes:
        run: takes a list of the arrays of `given`, which it empties, so that it can free those that it needs no more,
            and the numbers of the call; returns the list of arrays of `results`.
        source: its Python source.
        kernels: the loop programs that it calls.
        products: the products of matrices.
        tasks: the nodes that machine code of their own computes.
        calls: the operators that it calls.
        reasons: node -> why it is called and not fused; of products, why BLAS computes them.
        is_fused: whether a loop computes several operators.
    """

    def __init__(
        self, run: Callable[..., list[Any]], source: str, kernels: Any, products: Any, tasks: Any, calls: Any,
        reasons: Any,
    ) -> None:  # fmt: skip
        self.run, self.source, self.kernels = run, source, kernels
        self.products, self.tasks, self.calls, self.reasons = products, tasks, calls, reasons
        self.is_fused = any(len(kernel.nodes) > 1 for kernel in kernels)


class Compiled:
    """A compiled recording.

    Attributes:
        facts: what is kept of it on disk beside the programs; its entries are attributes.
        outputs: for each output: ("result", number of the array) or ("input", position).
        results: how many arrays are results of the forward program.
        leaves: positions of the inputs that get a gradient.
        differentiable: numbers of the results that have a history.
        mutated: positions of the inputs that are written to.
        silent: those of them whose version stays, as that of the running statistics of batch norm.
        random: whether it draws random numbers.
        saved: the contents that the forward program returns after the results, for the backward program.
        forward, variants: the programs; `backward` is the one for gradients of all results.
        shared: for each of `saved`, the inputs and the results whose memory it shares; None before the first call.
        shared_results: numbers of the results that one of them shares memory with.
        make: makes a variant: `make(compiled, kinds, inputs, numbers)`.
        account: what `explain` says of it.
    """

    def __init__(
        self, recording: Recording, backend: Any, machine_code: bool, facts: dict[str, Any], forward: Program, make: Any
    ) -> None:
        self.recording, self.backend, self.machine_code = recording, backend, machine_code
        self.facts, self.forward, self.make = facts, forward, make
        self.outputs: list[tuple[str, int]] = facts["outputs"]
        self.results: int = facts["results"]
        self.leaves: list[int] = facts["leaves"]
        self.differentiable: list[int] = facts["differentiable"]
        self.mutated: list[int] = facts["mutated"]
        self.silent: frozenset[int] = frozenset()
        self.random: bool = facts["random"]
        self.saved: list[int | str] = facts["saved"]
        self.shared: list[tuple[list[int], list[int]]] | None = None
        self.shared_results: list[int] = []
        self.variants: dict[tuple[int, ...], Variant] = {}
        self.account: Any = None

    @property
    def backward(self) -> Program | None:
        found = self.variants.get((DEFINED,) * len(self.differentiable))
        return None if found is None else found.program

    @property
    def is_fused(self) -> bool:
        """Whether a loop computes several operators."""
        return any(p is not None and p.is_fused for p in (self.forward, self.backward))

    def variant(self, kinds: tuple[int, ...], inputs: Sequence[Tensor], numbers: tuple[Any, ...]) -> Variant:
        """Return the backward program for gradients of these kinds: UNDEFINED, DEFINED or REPEATED."""
        found = self.variants.get(kinds)
        if found is None or not hold(found.conditions, numbers):
            found = self.variants[kinds] = self.make(self, kinds, inputs, numbers)
        return found


class Variant:
    """A backward program.

    Attributes:
        kept: positions of the inputs that it reads.
        saved: numbers of the saved arrays that it reads.
        checked: positions of the inputs, and numbers of the results, whose memory it reads; None before the first call.
        tangents: which gradients it takes, with sizes and strides.
        gradients: for each gradient that it returns, whether it is defined.
        conditions: what must hold of the numbers of a call, beyond what the forward pass requires.
    """

    def __init__(
        self, program: Program, kept: list[int], saved: list[int], tangents: list[Any], gradients: list[bool],
        conditions: tuple[str, ...] = (),
    ) -> None:  # fmt: skip
        self.conditions = conditions
        self.checked: tuple[list[int], list[int]] | None = None
        self.program, self.kept, self.saved, self.tangents, self.gradients = program, kept, saved, tangents, gradients


class CompiledFunctionBackward(Node):
    """The backward pass of a compiled function: one node for all of its operators.

    Attributes:
        saved_inputs: slots for all inputs, as in Note [Saved variables].
        saved_arrays: what the forward program saved, which may be memory of inputs and results.
        versions: result -> its version counter and version, for the results whose memory was saved.
    """

    __slots__ = ("compiled", "saved_inputs", "saved_arrays", "versions", "numbers")
    compiled: Any
    saved_inputs: tuple[Any, ...]
    saved_arrays: Any
    versions: dict[int, tuple[list[int], int, Any]]
    numbers: tuple[Any, ...]
    _saved_fields = ()

    def apply(fn, grads: list[Any], edges: Any) -> tuple[Any, ...]:
        if fn.saved_arrays is RELEASED:
            RELEASED.unpack(fn)
        compiled: Compiled = fn.compiled
        if state.flags != GRAD_OFF or any(g is not None and g.__class__ is not Tensor for g in grads):
            return fn.eagerly([unpack(t, fn) for t in fn.saved_inputs], grads)
        kinds = tuple([kind_of_tangent(g) for g in grads])
        if not any(kinds):
            return (None,) * len(compiled.leaves)
        inputs = [t if isinstance(t, Tensor) else t.tensor for t in fn.saved_inputs]
        variant = compiled.variants.get(kinds)
        if variant is None or variant.conditions:
            variant = compiled.variant(kinds, inputs, fn.numbers)
        saved = fn.saved_arrays
        fn.check(compiled, variant)
        arrays = [inputs[i]._array for i in variant.kept] + [saved[i] for i in variant.saved]
        for i, shape, strides in variant.tangents:
            tangent = grads[i]._array
            if shape != tangent.shape:  # one element that is repeated
                tangent = tangent[(0,) * tangent.ndim + (...,)]
            arrays.append(laid(tangent, shape, strides))
        task = state.graph_task
        if task is not None and not task.keep_graph:
            # Before it runs: the program frees what it needs no more.
            inputs.clear()
            saved = fn.saved_arrays = RELEASED
            fn.saved_inputs, fn.versions = (), {}
        found = iter(variant.program.run(arrays, fn.numbers))
        return tuple([wrap(next(found)) if has else None for has in variant.gradients])

    def check(fn, compiled: Compiled, variant: Variant) -> None:
        """Refuse to read memory that was written to since the forward pass."""
        if variant.checked is None:
            shared = [compiled.shared[i] for i in variant.saved] if compiled.shared is not None else []
            variant.checked = (
                sorted({*variant.kept, *[i for positions, _ in shared for i in positions]}),
                sorted({n for _, numbers in shared for n in numbers}),
            )
        positions, numbers = variant.checked
        for i in positions:
            unpack(fn.saved_inputs[i], fn)
        for n in numbers:
            counter, version, array = fn.versions[n]
            if counter[0] != version:
                raise RuntimeError(modified_message(array, None, n, fn, counter, version, None))

    def eagerly(fn, inputs: list[Any], grads: list[Any]) -> tuple[Any, ...]:
        """Compute the gradients by operators: those that can be differentiated again, or of some outputs only."""
        compiled: Compiled = fn.compiled
        defined = [i for i, g in enumerate(grads) if g is not None]
        if not defined:
            return (None,) * len(compiled.leaves)
        if compiled.random or compiled.mutated:
            what = "draws random numbers" if compiled.random else "writes to its inputs"
            raise RuntimeError(
                f"the backward pass of a compiled function that {what} cannot be recorded (create_graph=True), nor run "
                "in a mode: the forward pass would have to run again. Call the function without compile for that."
            )
        recording = compiled.recording
        flags = state.flags
        state.flags = flags & ~GRAD_OFF
        try:
            leaves = [_history_of(t) for t in inputs]
            known = {t.number: leaf for t, leaf in zip(recording.inputs, leaves, strict=True)}
            replay(recording, known, fn.numbers)
            outputs = [known[t.number] for t in recording.outputs]
            results = [o for o, (kind, *_) in zip(outputs, compiled.outputs, strict=True) if kind == "result"]
            roots = [results[n] for n in compiled.differentiable]
            edges = [gradient_edge(leaves[i]) for i in compiled.leaves]
            found = execute(
                [gradient_edge(roots[i]) for i in defined],
                [grads[i] for i in defined],
                keep_graph=True,
                create_graph=not flags & GRAD_OFF,
                capture_edges=edges,
            )
        finally:
            state.flags = flags
        return tuple(found)

    def release_variables(fn) -> None:  # type: ignore[override]
        fn.saved_inputs, fn.versions = (), {}
        fn.saved_arrays = RELEASED


def kind_of_tangent(grad: Any) -> int:
    """Return UNDEFINED, DEFINED, or REPEATED for one element that is repeated so often that a copy would take long."""
    if grad is None:
        return UNDEFINED
    array = grad._array
    return REPEATED if array.nbytes >= LARGE and not any(array.strides) else DEFINED


def _history_of(tensor: Any) -> Any:
    """Return a tensor of the same memory whose gradient can be captured, and flows on to the original."""
    if tensor.requires_grad:
        return _operators.view_as(tensor, tensor)
    return tensor


def replay(recording: Recording, known: dict[int, Any], numbers: tuple[Any, ...]) -> None:
    """Run a recording on other inputs; `known` maps the numbers of its slots to tensors, results are added to it."""
    outside = state.flags
    known[STANDS_FOR] = lambda number: evaluated(number.source, numbers)
    for step in recording.steps:
        state.flags = outside & ~GRAD_OFF | step.flags
        found = step.function(*filled(step.args, known), **filled(step.kwargs, known))
        learn(step.result, found, known)
    state.flags = outside


def run(compiled: Compiled, inputs: Sequence[Any], numbers: tuple[Any, ...] = ()) -> list[Any]:
    """Run a compiled recording on its inputs and the numbers of a call: return its outputs, in order."""
    flags = state.flags
    arrays = [t._array for t in inputs]
    state.flags = flags | GRAD_OFF
    try:
        found = compiled.forward.run(list(arrays), numbers)
    except BaseException as error:
        state.flags = flags
        for position in compiled.mutated:  # some of their elements may have been written
            if position not in compiled.silent:
                bump_version(inputs[position])
        if isinstance(error, IndexError):  # of a loop that reads a table
            _refused(compiled, inputs, numbers)
        raise
    finally:
        state.flags = flags
    results = [wrap(a) for a in found[: compiled.results]]
    for i, position in enumerate(compiled.mutated):
        target, value = arrays[position], found[len(found) - len(compiled.mutated) + i]
        if value is not target:
            np.copyto(target, value)
        if position not in compiled.silent:
            bump_version(inputs[position])
    if compiled.differentiable:
        _record(compiled, inputs, results, found, numbers)
    return [results[at] if kind == "result" else inputs[at] for kind, at in compiled.outputs]


def _refused(compiled: Compiled, inputs: Sequence[Any], numbers: tuple[Any, ...]) -> None:
    """Run the operators of a program that a loop refused, for their error; on copies of what it writes to."""
    flags = state.flags
    try:
        known = {
            slot.number: t.clone() if i in compiled.mutated else t
            for i, (slot, t) in enumerate(zip(compiled.recording.inputs, inputs, strict=True))
        }
        replay(compiled.recording, known, numbers)
    finally:
        state.flags = flags


def _record(compiled: Compiled, inputs: Any, results: list[Any], found: list[Any], numbers: tuple[Any, ...]) -> None:
    fn: Any = new(CompiledFunctionBackward)
    fn.next_edges = tuple([gradient_edge(inputs[i]) for i in compiled.leaves])
    fn.sequence_nr = next_sequence_nr()
    fn.hooks = None
    fn.compiled, fn.numbers = compiled, numbers
    fn.saved_inputs = tuple([save(t) for t in inputs])
    count = compiled.results
    saved = fn.saved_arrays = tuple(found[count : count + len(compiled.saved)])
    if compiled.shared is None:
        shared = [(_sharing(array, [t._array for t in inputs]), _sharing(array, found[:count])) for array in saved]
        compiled.shared_results = sorted({n for _, numbers in shared for n in numbers})
        compiled.shared = shared  # last: another thread's call reads both
    fn.versions = {n: _version_of(results[n]) for n in compiled.shared_results}
    metadata: list[Any] = []
    for position, number in enumerate(compiled.differentiable):
        result = results[number]
        metadata += [result._array.shape, result._array.dtype]
        result._edge = (fn, position)
    fn.input_metadata = tuple(metadata)


def _sharing(array: np.ndarray, others: Sequence[np.ndarray]) -> list[int]:
    """Return the positions of the arrays whose memory an array shares, which are the same in each call."""
    return [i for i, other in enumerate(others) if np.may_share_memory(array, other)]


def _version_of(result: Any) -> tuple[list[int], int, np.ndarray]:
    """Return a result's version counter, its version, and its array."""
    if result._vc is None:
        result._vc = [0]
    return result._vc, result._vc[0], result._array


silence(globals())
