"""Eager replacements of the steps of LSTM and GRU layers: all that follows the product of a step is one loop.

The formulas are those of Note [Recurrent layers] in kernels/recurrent.py, which keeps all else: products for all steps
at once, packed sequences, gradients of the weights. Products of single steps are divided among threads, not the batch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..kernels import recurrent
from ..types.silence import silence
from ._eager_products import gemm_or_blas
from ._loops import Buffer, Instruction, LoopProgram, Pass
from ._scalar import Exprs, expression, ordered

ndarray, empty = np.ndarray, np.empty
Make = Callable[[Any], Any]

# Gates of the input (a), whose sigmoids have half their argument, and of the state (b).
_LSTM = {
    "i": "0.5 * tanh(ai + bi) + 0.5",
    "f": "0.5 * tanh(af + bf) + 0.5",
    "g": "tanh(ag + bg)",
    "o": "0.5 * tanh(ao + bo) + 0.5",
    "cell": "f * c + i * g",
    "y": "o * tanh(cell)",
}
_LSTM_BACKWARD = {
    "t": "tanh(cell)",
    "d_c": "c + h * o * (1 - t * t)",
    "d_i": "d_c * g * i * (1 - i)",
    "d_f": "d_c * before * f * (1 - f)",
    "d_g": "d_c * i * (1 - g * g)",
    "d_o": "h * t * o * (1 - o)",
    "d_before": "d_c * f",
}
_GRU = {
    "r": "0.5 * tanh(ar + br) + 0.5",
    "z": "0.5 * tanh(az + bz) + 0.5",
    "n": "tanh(an + r * bn)",
    "y": "(h - n) * z + n",
}
_GRU_BACKWARD = {
    "d_n": "h * (1 - z) * (1 - n * n)",
    "d_r": "d_n * inner * r * (1 - r)",
    "d_z": "h * (before - n) * z * (1 - z)",
    "d_inner": "d_n * r",
    "rest": "h * z",
}


class _Step:
    """The loop of a step: `inputs` and `outputs` are names with the distance of rows; `same` shares memory."""

    def __init__(
        self,
        kept: dict[Any, Any],
        compiled: Callable[..., Any],
        formulas: dict[str, str],
        inputs: dict[str, int],
        outputs: dict[str, int],
        same: tuple[tuple[str, str], ...],
        size: int,
        dtype: Any,
    ) -> None:
        self.kept, self.compiled = kept, compiled
        self.formulas, self.inputs, self.outputs, self.same = formulas, inputs, outputs, same
        self.size, self.dtype = size, dtype
        self.calls: dict[int, Any] = {}  # for each number of rows

    def __call__(self, rows: int) -> Any:
        """Return the code for so many rows: it takes a tuple of the inputs and the outputs."""
        found = self.calls.get(rows)
        if found is None:
            key = "recurrent", *self.inputs.items(), *self.outputs.items(), rows, self.size, self.dtype.char
            code = self.kept.get(key)
            found = self.calls[rows] = self.compiled(key, self._program(rows)) if code is None else code
        return found

    def _program(self, rows: int) -> LoopProgram:
        exprs, dtype = Exprs(), self.dtype.name
        env: dict[str, Any] = {x: exprs.make("load", (), dtype, i) for i, x in enumerate(self.inputs)}
        for name, formula in self.formulas.items():
            env[name] = expression(formula, env, exprs, dtype)
        results = [env[name] for name in self.outputs]
        order = ordered(results)
        names = {id(e): f"v{i}" for i, e in enumerate(order)}
        body = [
            Instruction(names[id(e)], e.op, tuple(names[id(a)] for a in e.args), e.dtype, e.attribute) for e in order
        ]
        body += [Instruction("", "store", (names[id(e)],), "", i) for i, e in enumerate(results)]
        inputs, outputs = (
            tuple(Buffer(dtype, (row, 1)) for row in buffers.values()) for buffers in (self.inputs, self.outputs)
        )
        aliases = tuple((list(self.outputs).index(y), list(self.inputs).index(x)) for y, x in self.same)
        return LoopProgram((rows, self.size), 0, inputs, outputs, (Pass(tuple(body)),), (), aliases)


def _parts(array: Any, count: int, size: int) -> list[Any]:
    return [array[:, k * size : (k + 1) * size] for k in range(count)]


def _taken(arrays: tuple[Any, ...], rows: tuple[Any, ...], states: tuple[Any, ...], gates: int, steps: Any) -> bool:
    """Return whether machine code computes the steps of a layer.

    Args:
        arrays: of any layout.
        rows: arrays with a row for each element of a sequence.
        states: those with a row for each sequence.
        gates: vectors of the first state's size in a row of the first of `arrays`, the weight of the state.
        steps: the rows of each step.
    """
    if any(type(x) is not ndarray for x in (*arrays, *rows, *states)):
        return False
    size = states[0].shape[-1]
    dtype = arrays[0].dtype
    return (
        dtype in (np.float32, np.float64)
        and all(x.dtype is dtype and x.size for x in (*arrays, *rows, *states))
        and all(x.flags.carray and x.ndim == 2 for x in (*rows, *states))
        and len({len(x) for x in rows}) == 1 and len({x.shape for x in states}) == 1
        and arrays[0].shape == (gates * size, size)
        and all(part.stop - part.start <= len(states[0]) and part.stop <= len(rows[0]) for part in steps)
    )  # fmt: skip


def _widths(state: Any, space: Any, parts: int, *others: Any) -> bool:
    """Return whether rows of `space` have so many vectors of a state's size, and those of others one."""
    size = state.shape[1]
    return space.shape[1] == parts * size and all(x is None or x.shape[1] == size for x in others)


def lstm(kept: dict[Any, Any], compiled: Callable[..., Any]) -> Make:
    def make(original: Any) -> Any:
        def kernel(x: Any, w_in: Any, w_state: Any, bias: Any, h: Any, c: Any, steps: Any, out: Any) -> Any:
            if not _taken((w_state, x, w_in), (out,), (h, c), 4, steps) or out.shape != (len(x), h.shape[1]):
                return original(x, w_in, w_state, bias, h, c, steps, out)
            size, dtype = h.shape[1], x.dtype
            scale, _ = recurrent._gate_tables(size, 4, (0, 1, 3), dtype)
            space = empty((len(x), 5 * size), dtype)
            bias = None if bias is None else bias * scale
            gates = recurrent._projected(x, w_in * scale[:, None], bias)
            transposed = np.ascontiguousarray((w_state * scale[:, None]).T)
            products = empty((len(h), 4 * size), dtype)
            inputs = {**dict.fromkeys(("ai", "af", "ag", "ao", "bi", "bf", "bg", "bo"), 4 * size), "c": size}
            outputs = {**dict.fromkeys(("i", "f", "g", "o", "cell"), 5 * size), "c_": size, "y": size, "h": size}
            formulas = {**_LSTM, "c_": "cell", "h": "y"}
            step = _Step(kept, compiled, formulas, inputs, outputs, (("c_", "c"),), size, dtype)
            for rows in steps:
                n = rows.stop - rows.start
                state, cell = h[:n], c[:n]
                product = gemm_or_blas(state, transposed, products[:n])
                read = *_parts(gates[rows], 4, size), *_parts(product, 4, size), cell
                step(n)((*read, *_parts(space[rows], 5, size), cell, out[rows], state))
            return space

        return kernel

    return make


def lstm_backward(kept: dict[Any, Any], compiled: Callable[..., Any]) -> Make:
    def make(original: Any) -> Any:
        def kernel(w_state: Any, cx: Any, space: Any, grad: Any, d_h: Any, d_c: Any, steps: Any) -> Any:
            grads = () if grad is None else (grad,)
            if not _taken((w_state, cx), (space, *grads), (d_h, d_c), 4, steps) or not _widths(d_h, space, 5, grad):
                return original(w_state, cx, space, grad, d_h, d_c, steps)
            size, dtype = d_h.shape[1], space.dtype
            before = recurrent._previous(space[:, 4 * size :], cx, steps)
            found = empty((len(space), 4 * size), dtype)
            inputs = {**dict.fromkeys(("i", "f", "g", "o", "cell"), 5 * size), "before": size, "h": size, "c": size}
            outputs = {**dict.fromkeys(("d_i", "d_f", "d_g", "d_o"), 4 * size), "d_before": size}
            formulas, read = _LSTM_BACKWARD, inputs
            if grad is not None:
                formulas, read = _with_gradient(_LSTM_BACKWARD, inputs, size)
            step = _Step(kept, compiled, formulas, read, outputs, (("d_before", "c"),), size, dtype)
            for rows in reversed(steps):
                n = rows.stop - rows.start
                state, cell, gates = d_h[:n], d_c[:n], found[rows]
                given = () if grad is None else (grad[rows],)
                known = *_parts(space[rows], 5, size), before[rows], state, cell, *given
                step(n)((*known, *_parts(gates, 4, size), cell))
                gemm_or_blas(gates, w_state, state)
            return found

        return kernel

    return make


def _with_gradient(
    formulas: dict[str, str], inputs: dict[str, int], size: int
) -> tuple[dict[str, str], dict[str, int]]:
    """Add the gradient of the step's result to that of the state."""
    return {"h": "h + grad", **formulas}, {**inputs, "grad": size}


def gru(kept: dict[Any, Any], compiled: Callable[..., Any]) -> Make:
    def make(original: Any) -> Any:
        def kernel(x: Any, w_in: Any, w_state: Any, bias: Any, bias_state: Any, h: Any, steps: Any, out: Any) -> Any:
            if not _taken((w_state, x, w_in), (out,), (h,), 3, steps) or out.shape != (len(x), h.shape[1]):
                return original(x, w_in, w_state, bias, bias_state, h, steps, out)
            size, dtype = h.shape[1], x.dtype
            scale = np.ones(3 * size, dtype)
            scale[: 2 * size] = 0.5
            space = empty((len(x), 4 * size), dtype)
            bias = None if bias is None else bias * scale
            gates = recurrent._projected(x, w_in * scale[:, None], bias)
            transposed = np.ascontiguousarray((w_state * scale[:, None]).T)
            products = empty((len(h), 3 * size), dtype)
            inputs = {**dict.fromkeys(("ar", "az", "an", "br", "bz", "bn"), 3 * size), "h": size}
            formulas, offsets = _GRU, []
            if bias_state is not None:
                added = {f"b{gate}": f"b{gate} + of_{gate}" for gate in "rzn"}
                formulas, inputs = {**added, **_GRU}, {**inputs, **dict.fromkeys(("of_r", "of_z", "of_n"), 0)}
                offsets = np.split(bias_state * scale, 3)
            outputs = {**dict.fromkeys("rzn", 4 * size), "inner": 4 * size, "y": size, "h_": size}
            formulas = {**formulas, "inner": "bn", "h_": "y"}
            step = _Step(kept, compiled, formulas, inputs, outputs, (("h_", "h"),), size, dtype)
            for rows in steps:
                n = rows.stop - rows.start
                state = h[:n]
                product = gemm_or_blas(state, transposed, products[:n])
                read = *_parts(gates[rows], 3, size), *_parts(product, 3, size), state, *offsets
                step(n)((*read, *_parts(space[rows], 4, size), out[rows], state))
            return space

        return kernel

    return make


def gru_backward(kept: dict[Any, Any], compiled: Callable[..., Any]) -> Make:
    def make(original: Any) -> Any:
        def kernel(w_state: Any, before: Any, space: Any, grad: Any, d_h: Any, steps: Any) -> Any:
            grads = () if grad is None else (grad,)
            if not _taken((w_state,), (space, before, *grads), (d_h,), 3, steps) or not _widths(
                d_h, space, 4, grad, before
            ):
                return original(w_state, before, space, grad, d_h, steps)
            size, dtype = d_h.shape[1], space.dtype
            of_input, of_state = (empty((len(space), 3 * size), dtype) for _ in range(2))
            inputs = {**dict.fromkeys(("r", "z", "n", "inner"), 4 * size), "before": size, "h": size}
            names = "d_r", "d_z", "d_n", "of_r", "of_z", "d_inner"
            outputs = {**dict.fromkeys(names, 3 * size), "rest": size}
            formulas, read = {**_GRU_BACKWARD, "of_r": "d_r", "of_z": "d_z"}, inputs
            if grad is not None:
                formulas, read = _with_gradient(formulas, inputs, size)
            step = _Step(kept, compiled, formulas, read, outputs, (("rest", "h"),), size, dtype)
            for rows in reversed(steps):
                n = rows.stop - rows.start
                state, inner = d_h[:n], of_state[rows]
                given = () if grad is None else (grad[rows],)
                written = *_parts(of_input[rows], 3, size), *_parts(inner, 3, size)
                step(n)((*_parts(space[rows], 4, size), before[rows], state, *given, *written, state))
                state += gemm_or_blas(inner, w_state)
            return of_input, of_state

        return kernel

    return make


silence(globals())
