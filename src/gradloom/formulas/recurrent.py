"""Derivatives of recurrent layers and packed sequences; the formulas are those of Note [Recurrent layers]."""

from __future__ import annotations

from ..core.tangents import is_differentiated
from ..dispatch import _operators as ops

_RELU, _TANH, _LSTM, _GRU = range(4)


def rnn_layer_backward(
    input,
    weights,
    hx,
    cx,
    outputs,
    grad_output,
    grad_hy,
    grad_cy,
    reverse,
    mode,
    hidden_size,
    settings,
    batch_sizes,
    workspace,
):
    """Return the gradients of input, four weights, hx and cx.

    With a gradient that is itself differentiated, the layer is computed again and gone through backwards, step by step,
    by differentiable operators. Otherwise the kernel goes through it as a whole.
    """
    num_layers, has_biases, train, bidirectional, batch_first = settings
    grads = (grad_output, grad_hy, grad_cy if mode == _LSTM else None)
    if all(g is None for g in grads):
        return (None,) * 7
    known = [g for g in grads if g is not None]
    if not is_differentiated(input, *weights, hx, cx, *known):
        return ops.mkldnn_rnn_layer_backward(
            input,
            *weights,
            hx,
            cx,
            *outputs,
            *grads,
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
        )
    return _step_by_step(input, weights, hx, cx, grads, reverse, mode, has_biases, batch_sizes)


def _step_by_step(input, weights, hx, cx, grads, reverse, mode, has_biases, batch_sizes):
    w_in, w_state, b_in, b_state = weights
    if batch_sizes:
        rows, sizes = input, list(batch_sizes)
    else:
        rows, sizes = ops.flatten(input, 0, 1), [input.size(1)] * input.size(0)
    starts = [sum(sizes[:t]) for t in range(len(sizes))]
    order = list(range(len(sizes)))[:: -1 if reverse else 1]
    first = ops.linear(rows, w_in, b_in if has_biases else None)
    h, c, kept = hx, cx, {}
    for t in order:
        n = sizes[t]
        a, state = ops.narrow(first, 0, starts[t], n), ops.narrow(h, 0, 0, n)
        b = ops.linear(state, w_state, b_state if has_biases else None)
        cell = ops.narrow(c, 0, 0, n) if mode == _LSTM else None
        new, new_cell, values = _forward(mode, a, b, state, cell)
        kept[t] = (state, cell, new, new_cell, values)
        h = _replace(h, new, n)
        c = c if new_cell is None else _replace(c, new_cell, n)
    grad, d_h, d_c = grads
    grad = grad if grad is None or batch_sizes else ops.flatten(grad, 0, 1)
    d_h = ops.zeros_like(h) if d_h is None else d_h
    d_c = ops.zeros_like(c) if d_c is None else d_c
    of_input, of_state = {}, {}
    for t in reversed(order):
        n = sizes[t]
        g, g_c = ops.narrow(d_h, 0, 0, n), ops.narrow(d_c, 0, 0, n) if mode == _LSTM else None
        if grad is not None:
            g = g + ops.narrow(grad, 0, starts[t], n)
        d_a, d_b, direct, cell = _backward(mode, g, g_c, *kept[t])
        of_input[t], of_state[t] = d_a, d_b
        back = ops.matmul(d_b, w_state)
        d_h = _replace(d_h, back if direct is None else back + direct, n)
        d_c = d_c if cell is None else _replace(d_c, cell, n)
    steps = range(len(sizes))
    d_a, d_b = (ops.cat([found[t] for t in steps], 0) for found in (of_input, of_state))
    before = ops.cat([kept[t][0] for t in steps], 0)
    of_rows = ops.matmul(d_a, w_in)
    return (
        of_rows if batch_sizes else ops.reshape(of_rows, input.shape),
        ops.matmul(d_a.t(), rows),
        ops.matmul(d_b.t(), before),
        ops.sum(d_a, [0]) if has_biases else None,
        ops.sum(d_b, [0]) if has_biases else None,
        d_h,
        d_c if mode == _LSTM else None,
    )


def _replace(state, rows, n):
    """Return `state` with its first n rows replaced."""
    return rows if n == state.size(0) else ops.cat([rows, ops.narrow(state, 0, n, state.size(0) - n)], 0)


def _forward(mode, a, b, state, cell):
    """Return (h', c', the activated gates) of one step."""
    if mode == _LSTM:
        i, f, g, o = ops.chunk(a + b, 4, 1)
        i, f, g, o = ops.sigmoid(i), ops.sigmoid(f), ops.tanh(g), ops.sigmoid(o)
        new = f * cell + i * g
        top = ops.tanh(new)
        return o * top, new, (i, f, g, o, top)
    if mode == _GRU:
        (r, z, n), (r2, z2, inner) = ops.chunk(a, 3, 1), ops.chunk(b, 3, 1)
        r, z = ops.sigmoid(r + r2), ops.sigmoid(z + z2)
        n = ops.tanh(n + r * inner)
        return n + z * (state - n), None, (r, z, n, inner)
    new = (ops.tanh if mode == _TANH else ops.relu)(a + b)
    return new, None, ()


def _backward(mode, g, g_c, state, cell, new, new_cell, values):
    """Return the gradients of a and b, the part of h's that does not pass through b, and that of c."""
    if mode == _LSTM:
        i, f, n, o, top = values
        g_c = g_c + g * o * (1 - top * top)
        d = ops.cat([g_c * n * i * (1 - i), g_c * cell * f * (1 - f), g_c * i * (1 - n * n), g * top * o * (1 - o)], 1)
        return d, d, None, g_c * f
    if mode == _GRU:
        r, z, n, inner = values
        d_n = g * (1 - z) * (1 - n * n)
        d_z = g * (state - n) * z * (1 - z)
        d_r = d_n * inner * r * (1 - r)
        return ops.cat([d_r, d_z, d_n], 1), ops.cat([d_r, d_z, d_n * r], 1), g * z, None
    d = g * (1 - new * new) if mode == _TANH else g * (new > 0)
    return d, d, None, None


def rnn_layer_jvp(
    input_p, input_t, weights_p, weights_t, hx_p, hx_t, cx_p, cx_t, reverse, mode, has_biases, batch_sizes
):
    """Return the tangents of the states of all steps, the last state and the last cell: the product rule, applied to
    the steps in turn."""
    w_in, w_state, b_in, b_state = weights_p
    if batch_sizes:
        rows, rows_t, sizes = input_p, input_t, list(batch_sizes)
    else:
        rows, rows_t = ops.flatten(input_p, 0, 1), ops.flatten(input_t, 0, 1)
        sizes = [input_p.size(1)] * input_p.size(0)
    starts = [sum(sizes[:t]) for t in range(len(sizes))]
    order = list(range(len(sizes)))[:: -1 if reverse else 1]
    first = ops.linear(rows, w_in, b_in if has_biases else None)
    first_t = ops.linear(rows_t, w_in) + ops.linear(rows, weights_t[0], weights_t[2] if has_biases else None)
    h, dh, c, dc, found = hx_p, hx_t, cx_p, cx_t, {}
    for t in order:
        n = sizes[t]
        a, da = ops.narrow(first, 0, starts[t], n), ops.narrow(first_t, 0, starts[t], n)
        state, d_state = ops.narrow(h, 0, 0, n), ops.narrow(dh, 0, 0, n)
        b = ops.linear(state, w_state, b_state if has_biases else None)
        db = ops.linear(d_state, w_state) + ops.linear(state, weights_t[1], weights_t[3] if has_biases else None)
        cell, d_cell = [ops.narrow(x, 0, 0, n) if mode == _LSTM else None for x in (c, dc)]
        new, new_cell, values = _forward(mode, a, b, state, cell)
        d_new, d_new_cell = _tangents(mode, da, db, state, d_state, cell, d_cell, new, values)
        h, dh, found[t] = _replace(h, new, n), _replace(dh, d_new, n), d_new
        if mode == _LSTM:
            c, dc = _replace(c, new_cell, n), _replace(dc, d_new_cell, n)
    out = ops.cat([found[t] for t in range(len(sizes))], 0)
    if not batch_sizes:
        out = ops.unflatten(out, 0, (input_p.size(0), input_p.size(1)))
    return out, dh, dc if mode == _LSTM else ops.zeros(0, dtype=h.dtype, device=h.device)


def _tangents(mode, da, db, state, d_state, cell, d_cell, new, values):
    """Return the tangents of h' and c' of one step."""
    if mode == _LSTM:
        i, f, g, o, top = values
        di, df, dg, do = ops.chunk(da + db, 4, 1)
        di, df, do = di * i * (1 - i), df * f * (1 - f), do * o * (1 - o)
        found = df * cell + f * d_cell + di * g + i * dg * (1 - g * g)
        return do * top + o * (1 - top * top) * found, found
    if mode == _GRU:
        r, z, n, inner = values
        (dr, dz, dn), (dr2, dz2, d_inner) = ops.chunk(da, 3, 1), ops.chunk(db, 3, 1)
        dr, dz = (dr + dr2) * r * (1 - r), (dz + dz2) * z * (1 - z)
        dn = (dn + dr * inner + r * d_inner) * (1 - n * n)
        return dn + dz * (state - n) + z * (d_state - dn), None
    return (da + db) * (1 - new * new if mode == _TANH else new > 0), None
