"""One direction of a recurrent layer over all steps, and packed sequences.

Note [Recurrent layers]
A layer reads x[t] and its state h, and for an LSTM the cell c. With a = x[t] Wi^T + bi and b = h Wh^T + bh:

    RNN    h' = tanh(a + b) or relu(a + b)
    LSTM   i, f, g, o = a + b:  c' = sigmoid(f) c + sigmoid(i) tanh(g),  h' = sigmoid(o) tanh(c')
    GRU    r, z, n of a and b:  n = tanh(a_n + sigmoid(r) b_n),  h' = n + sigmoid(z) (h - n)

The products with Wi are one product for all steps, and so are, in the backward pass, the gradients of x, Wi and Wh;
only h Wh^T remains within the loop. Sequences of different lengths are packed: step t has the rows of the first
batch_sizes[t] sequences, sorted by decreasing length. The state is one buffer, of which a step updates the first rows.
So a sequence that has ended keeps its last state, and in reverse one that has not begun its first.

A sigmoid is computed as (1 + tanh(x / 2)) / 2, so that one call of tanh serves all gates.

Sequences do not depend on each other: threads run through the steps side by side, each with a part of the batch.
"""

from __future__ import annotations

import numpy as np

from ._common import threads
from ._common.blas import gemm
from ._common.errors import not_implemented, type_name
from ._common.numbers import is_half
from .reduction.sums import along

RELU, TANH, LSTM, GRU = range(4)  # PyTorch's numbers of modes


def _steps(input, batch_sizes, reverse):
    """Return the slices of rows of the steps, in the order of computation."""
    if batch_sizes:
        edges = np.concatenate(([0], np.cumsum(batch_sizes))).tolist()
    else:
        edges = range(0, (input.shape[0] + 1) * input.shape[1], max(input.shape[1], 1))
        edges = list(edges)[: input.shape[0] + 1] if input.shape[1] else [0] * (input.shape[0] + 1)
    steps = [slice(a, b) for a, b in zip(edges, edges[1:], strict=False)]
    return steps[::-1] if reverse else steps


_TOGETHER = 1 << 14  # states worked on at a time, which a core's cache holds with their gates
_SHARED = 1 << 21  # multiplications of one step's product, from which on threads share the batch


def _share_batch(run, steps, batch, size, gates):
    """Call run(part of the steps) for parts of the batch, in threads; a part of a step is (its rows, the rows of the
    state). Threads that take turns in short operators lose more by it than they save."""
    longest = max([rows.stop - rows.start for rows in steps], default=0)
    if longest > batch:
        raise RuntimeError(f"a step has {longest} sequences, but the initial state {batch}")
    parts = threads.chunks(batch) if batch * gates * size**2 >= _SHARED else [slice(0, batch)]

    def run_part(part):
        low, high = part.start, part.stop
        run(
            [
                (slice(rows.start + low, end), slice(low, end - rows.start))
                for rows in steps
                if (end := min(rows.start + high, rows.stop)) > rows.start + low
            ]
        )

    threads.share(run_part, parts)


def _rows(array):
    """Reshape (steps, batch, size) to rows; packed rows stay."""
    return np.ascontiguousarray(array).reshape(-1, array.shape[-1])


def _gate_tables(hidden_size, gates, sigmoids, dtype):
    """Return rows (scale, shift) that make sigmoids of `gates` gates from tanh(scale x)."""
    scale, shift = np.ones(gates * hidden_size, dtype), np.zeros(gates * hidden_size, dtype)
    for gate in sigmoids:
        part = slice(gate * hidden_size, (gate + 1) * hidden_size)
        scale[part] = shift[part] = 0.5
    return scale, shift


def rnn_layer(
    input,
    weight0,
    weight1,
    weight2,
    weight3,
    hx_,
    cx_,
    reverse,
    batch_sizes,
    mode,
    hidden_size,
    num_layers,
    has_biases,
    bidirectional,
    batch_first,
    train,
):
    """Compute one direction of a layer; see Note [Recurrent layers].

    Args:
        input: (steps, batch, features), or (rows, features) with `batch_sizes`; floating. Halves are computed in
            float32, and the results rounded.
        weight0, weight1: Wi, (gates * hidden, features), and Wh, (gates * hidden, hidden).
        weight2, weight3: bi and bh, used if `has_biases`.
        hx_, cx_: (batch, hidden), the initial states; the latter of an LSTM only.
        reverse: go through the steps backwards.
        mode: 0 to 3 for relu, tanh, LSTM and GRU.
        num_layers, bidirectional, batch_first: not used; the layer is one, and the steps come first.
        train: keep what the backward pass needs.

    Returns:
        The states of all steps, as the input; the last state, (batch, hidden); the last cell, empty except for an LSTM;
        the activated gates and cells of all steps, (rows, *).
    """
    if is_half(input.dtype):
        wide = [a.astype(np.float32) for a in (input, weight0, weight1, weight2, weight3, hx_, cx_)]
        settings = (mode, hidden_size, num_layers, has_biases, bidirectional, batch_first, train)
        *found, space = rnn_layer(*wide, reverse, batch_sizes, *settings)
        return (*[a.astype(input.dtype) for a in found], space)
    if input.dtype.char not in "fd":
        raise not_implemented("mkldnn_rnn_layer", input)
    x, steps = _rows(input), _steps(input, batch_sizes, reverse)
    bias = (weight2 + weight3 if mode != GRU else weight2) if has_biases else None
    out = np.empty((len(x), hidden_size), x.dtype)
    h = np.array(hx_, order="C").reshape(-1, hidden_size)
    if mode == GRU:
        space = _gru(x, weight0, weight1, bias, weight3 if has_biases else None, h, steps, out)
    elif mode == LSTM:
        c = np.array(cx_, order="C").reshape(-1, hidden_size)
        space = _lstm(x, weight0, weight1, bias, h, c, steps, out)
        return out.reshape(*input.shape[:-1], hidden_size), h.reshape(hx_.shape), c.reshape(cx_.shape), space
    else:
        space = _plain(x, weight0, weight1, bias, h, steps, out, mode)
    return out.reshape(*input.shape[:-1], hidden_size), h.reshape(hx_.shape), np.empty(0, x.dtype), space


def _projected(x, weight, bias):
    found = gemm(x, weight.T)
    if bias is not None:
        found += bias
    return found


def _plain(x, w_in, w_state, bias, h, steps, out, mode):
    gates, transposed = _projected(x, w_in, bias), w_state.T
    for rows in steps:
        found, state = gates[rows], h[: rows.stop - rows.start]
        found += gemm(state, transposed)
        if mode == TANH:
            np.tanh(found, out=out[rows])
        else:
            np.maximum(found, 0, out=out[rows])
        state[...] = out[rows]
    return np.empty(0, x.dtype)


def _lstm(x, w_in, w_state, bias, h, c, steps, out):
    size = h.shape[1]
    scale, shift = _gate_tables(size, 4, (0, 1, 3), x.dtype)
    space = np.empty((len(x), 5 * size), x.dtype)
    gates, cells = _projected(x, w_in * scale[:, None], None if bias is None else bias * scale), space[:, 4 * size :]
    transposed = np.ascontiguousarray((w_state * scale[:, None]).T)

    def run(steps):
        for rows, sequences in steps:
            a, state, cell = gates[rows], h[sequences], c[sequences]
            a += state @ transposed
            np.tanh(a, out=a)
            a *= scale
            a += shift
            cell *= a[:, size : 2 * size]
            cell += a[:, :size] * a[:, 2 * size : 3 * size]
            cells[rows] = cell
            y = np.tanh(cell, out=out[rows])
            y *= a[:, 3 * size :]
            state[...] = y
            space[rows, : 4 * size] = a

    _share_batch(run, steps, len(h), size, 4)
    return space


def _gru(x, w_in, w_state, bias, bias_state, h, steps, out):
    size = h.shape[1]
    scale = np.ones(3 * size, x.dtype)
    scale[: 2 * size] = 0.5
    space = np.empty((len(x), 4 * size), x.dtype)
    gates = _projected(x, w_in * scale[:, None], None if bias is None else bias * scale)
    transposed = np.ascontiguousarray((w_state * scale[:, None]).T)
    offset = None if bias_state is None else bias_state * scale

    def run(steps):
        for rows, sequences in steps:
            a, state = gates[rows], h[sequences]
            b = state @ transposed
            if offset is not None:
                b += offset
            both, new, inner = a[:, : 2 * size], a[:, 2 * size :], b[:, 2 * size :]
            both += b[:, : 2 * size]
            np.tanh(both, out=both)
            both *= 0.5
            both += 0.5
            new += both[:, :size] * inner
            np.tanh(new, out=new)
            y = np.subtract(state, new, out=out[rows])
            y *= both[:, size:]
            y += new
            state[...] = y
            space[rows, : 3 * size] = a
            space[rows, 3 * size :] = inner

    _share_batch(run, steps, len(h), size, 3)
    return space


def _previous(out, hx, steps):
    """Return the state before each row's step."""
    found, first = np.empty_like(out), hx.reshape(-1, out.shape[1])
    count = len(first)
    if len(steps) * count == len(out):  # each step has all sequences
        if steps and steps[0].start:  # from the last step to the first
            found[:-count], found[-count:] = out[count:], first
        elif steps:
            found[count:], found[:count] = out[:-count], first
        return found
    state = np.array(first, order="C")
    for rows in steps:
        n = rows.stop - rows.start
        found[rows] = state[:n]
        state[:n] = out[rows]
    return found


def rnn_layer_backward(
    input,
    weight1,
    weight2,
    weight3,
    weight4,
    hx_,
    cx_tmp,
    output,
    hy_,
    cy_,
    grad_output,
    grad_hy,
    grad_cy,
    reverse,
    mode,
    hidden_size,
    num_layers,
    has_biases,
    train,
    bidirectional,
    batch_sizes,
    batch_first,
    workspace,
):
    """Return the gradients of `rnn_layer` for its first seven arguments, here input to cx_tmp; of biases that are not
    used, and of the cell of other layers than an LSTM, zeros. The gradients of the results may be None."""
    if is_half(input.dtype):
        given = (input, weight1, weight2, weight3, weight4, hx_, cx_tmp, output, hy_, cy_)
        wide = [None if a is None else a.astype(np.float32) for a in (*given, grad_output, grad_hy, grad_cy)]
        settings = (mode, hidden_size, num_layers, has_biases, train, bidirectional, batch_sizes, batch_first)
        found = rnn_layer_backward(*wide, reverse, *settings, workspace)
        return tuple(a.astype(input.dtype) for a in found)
    x, out, steps = _rows(input), _rows(output), _steps(input, batch_sizes, reverse)
    dtype, size = x.dtype, hidden_size
    before = _previous(out, hx_, steps)
    grad = None if grad_output is None else _rows(grad_output)
    shape = (hx_.size // max(size, 1), size)
    d_h = np.zeros(shape, dtype) if grad_hy is None else np.array(grad_hy, order="C").reshape(shape)
    d_c = None
    if mode == LSTM:
        d_c = np.zeros(shape, dtype) if grad_cy is None else np.array(grad_cy, order="C").reshape(shape)
        d_a = d_b = _lstm_backward(weight2, cx_tmp, workspace, grad, d_h, d_c, steps)
    elif mode == GRU:
        d_a, d_b = _gru_backward(weight2, before, workspace, grad, d_h, steps)
    else:
        d_a = d_b = _plain_backward(weight2, out, grad, d_h, steps, mode)
    of_bias = along(d_a, 0, False) if has_biases else np.zeros_like(weight3)
    other = along(d_b, 0, False) if d_b is not d_a and has_biases else of_bias.copy()
    of_cell = np.zeros_like(cx_tmp) if d_c is None else d_c.reshape(cx_tmp.shape)
    return (
        gemm(d_a, weight1).reshape(input.shape),
        gemm(d_a.T, x),
        gemm(d_b.T, before),
        of_bias,
        other,
        d_h.reshape(hx_.shape),
        of_cell,
    )


def _plain_backward(w_state, out, grad, d_h, steps, mode):
    factor = 1 - out * out if mode == TANH else (out > 0).astype(out.dtype)
    for rows in reversed(steps):
        state = d_h[: rows.stop - rows.start]
        if grad is not None:
            state += grad[rows]
        factor[rows] *= state
        gemm(factor[rows], w_state, state)
    return factor


def _lstm_backward(w_state, cx, space, grad, d_h, d_c, steps):
    size = d_h.shape[1]
    gates, cells = space[:, : 4 * size], space[:, 4 * size :]
    f = gates[:, size : 2 * size]
    # Factors of the gradients of c (for i, f and g) and of h (for o), and that of h in the gradient of c.
    factors, top = np.empty((len(space), 4 * size), space.dtype), np.empty((len(space), size), space.dtype)
    before = _previous(cells, cx, steps)

    def prepare(rows):
        i, f, g, o = (gates[rows, k * size : (k + 1) * size] for k in range(4))
        of_i, of_f, of_g, of_o = (factors[rows, k * size : (k + 1) * size] for k in range(4))
        for gate, other, part in ((i, g, of_i), (f, before[rows], of_f)):
            np.subtract(1, gate, out=part)
            part *= gate
            part *= other
        np.multiply(g, g, out=of_g)
        np.subtract(1, of_g, out=of_g)
        of_g *= i
        state = np.tanh(cells[rows], out=top[rows])
        np.subtract(1, o, out=of_o)
        of_o *= o
        of_o *= state
        state *= state
        np.subtract(1, state, out=state)
        state *= o

    threads.share(prepare, threads.chunks(len(space), max(1, _TOGETHER // max(size, 1))))

    def run(steps):
        for rows, sequences in reversed(steps):
            state, cell, found = d_h[sequences], d_c[sequences], factors[rows]
            if grad is not None:
                state += grad[rows]
            cell += state * top[rows]
            by_gate = found.reshape(len(found), 4, size)
            by_gate[:, :3] *= cell[:, None]
            by_gate[:, 3] *= state
            cell *= f[rows]
            np.matmul(found, w_state, out=state)

    _share_batch(run, steps, len(d_h), size, 4)
    return factors


def _gru_backward(w_state, before, space, grad, d_h, steps):
    size = d_h.shape[1]
    r, z, n, inner = (space[:, k * size : (k + 1) * size] for k in range(4))
    of_input = np.empty((len(space), 3 * size), space.dtype)
    of_state = np.empty_like(of_input)
    # Factors of the gradient of h' for n, z and, by way of n, r.
    by_new = (1 - z) * (1 - n * n)
    by_update = (before - n) * z * (1 - z)
    by_reset = inner * r * (1 - r)

    def run(steps):
        for rows, sequences in reversed(steps):
            state = d_h[sequences]
            if grad is not None:
                state += grad[rows]
            a, b = of_input[rows], of_state[rows]
            new = np.multiply(by_new[rows], state, out=a[:, 2 * size :])
            np.multiply(by_reset[rows], new, out=a[:, :size])
            np.multiply(by_update[rows], state, out=a[:, size : 2 * size])
            b[:, : 2 * size] = a[:, : 2 * size]
            np.multiply(new, r[rows], out=b[:, 2 * size :])
            state *= z[rows]
            state += b @ w_state

    _share_batch(run, steps, len(d_h), size, 3)
    return of_input, of_state


def pack_padded_sequence(input, lengths, batch_first):
    """Return the rows of padded sequences that are within their lengths, step after step, and the number of sequences
    of each step.

    Args:
        input: (steps, batch, *), or (batch, steps, *) if `batch_first`.
        lengths: (batch,) of int64, decreasing.

    Raises:
        RuntimeError: for lengths that are not positive, not sorted, or not one for each sequence.
    """
    if lengths.ndim != 1 or lengths.dtype.char not in "lq":
        found = f"{lengths.ndim}D cpu {type_name(lengths.dtype)} tensor"
        raise RuntimeError(f"'lengths' argument should be a 1D CPU int64 tensor, but got {found}")
    if batch_first:
        input = input.swapaxes(0, 1)
    if not input.size:
        raise RuntimeError("Cannot pack empty tensors.")
    if lengths.shape != (input.shape[1],):
        raise RuntimeError(
            f"Expected `len(lengths)` to be equal to batch_size, but got {lengths.size} (batch_size={input.shape[1]})"
        )
    if lengths[-1] <= 0:
        raise RuntimeError(
            "Length of all samples has to be greater than 0, but found an element in 'lengths' that is <= 0"
        )
    if (np.diff(lengths) > 0).any():
        raise RuntimeError(
            "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. You can pass "
            "`enforce_sorted=False` to pack_padded_sequence and/or pack_sequence to sidestep this requirement if you "
            "do not need ONNX exportability."
        )
    if lengths[0] > input.shape[0]:
        raise RuntimeError(
            f"Expected `lengths` to be at most the number of steps, {input.shape[0]}, but got {int(lengths[0])}"
        )
    within = np.arange(lengths[0])[:, None] < lengths
    return input[: lengths[0]][within], within.sum(1)
