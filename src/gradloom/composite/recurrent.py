"""Recurrent networks: cells, layers of both directions, and padding of packed sequences."""

from __future__ import annotations

from ..dispatch import _operators as ops
from ..dispatch.state import AUTOCAST, state as _state
from ..types.dtype import bfloat16, float16, float32, float64, int64

_RELU, _TANH, _LSTM, _GRU = range(4)  # PyTorch's numbers of modes
_GATES = {_RELU: 1, _TANH: 1, _LSTM: 4, _GRU: 3}


def lstm_cell(input, hx, w_ih, w_hh, b_ih, b_hh):
    """One step of an LSTM: from input (batch, features) and states h and c to new ones."""
    if len(hx) != 2:
        raise RuntimeError("lstm_cell expects two hidden states")
    _check_cell(input, w_ih, w_hh, hx[0], "0")
    _check_cell(input, w_ih, w_hh, hx[1], "1")
    return _lstm_step(ops.linear(input, w_ih, b_ih), ops.linear(hx[0], w_hh, b_hh), hx[1])


def gru_cell(input, hx, w_ih, w_hh, b_ih, b_hh):
    """One step of a GRU: from input (batch, features) and state (batch, hidden) to a new state."""
    _check_cell(input, w_ih, w_hh, hx, "0")
    return _gru_step(ops.linear(input, w_ih, b_ih), ops.linear(hx, w_hh, b_hh), hx)


def rnn_tanh_cell(input, hx, w_ih, w_hh, b_ih, b_hh):
    """tanh(input w_ih^T + b_ih + hx w_hh^T + b_hh)."""
    _check_cell(input, w_ih, w_hh, hx, "0")
    return ops.tanh(ops.linear(hx, w_hh, b_hh) + ops.linear(input, w_ih, b_ih))


def rnn_relu_cell(input, hx, w_ih, w_hh, b_ih, b_hh):
    """relu(input w_ih^T + b_ih + hx w_hh^T + b_hh)."""
    _check_cell(input, w_ih, w_hh, hx, "0")
    return ops.relu(ops.linear(hx, w_hh, b_hh) + ops.linear(input, w_ih, b_ih))


def _check_cell(input, w_ih, w_hh, hx, label):
    if input.size(1) != w_ih.size(1):
        raise RuntimeError(f"input has inconsistent input_size: got {input.size(1)} expected {w_ih.size(1)}")
    if input.size(0) != hx.size(0):
        raise RuntimeError(f"Input batch size {input.size(0)} doesn't match hidden{label} batch size {hx.size(0)}")
    if hx.size(1) != w_hh.size(1):
        raise RuntimeError(f"hidden{label} has inconsistent hidden_size: got {hx.size(1)}, expected {w_hh.size(1)}")


def _lstm_step(a, b, cell):
    i, f, g, o = ops.unsafe_chunk(b + a, 4, 1)
    new = ops.sigmoid(f) * cell + ops.sigmoid(i) * ops.tanh(g)
    return ops.sigmoid(o) * ops.tanh(new), new


def _gru_step(a, b, hx):
    (r, z, n), (r2, z2, inner) = ops.unsafe_chunk(a, 3, 1), ops.unsafe_chunk(b, 3, 1)
    r, z = ops.sigmoid(r2 + r), ops.sigmoid(z2 + z)
    n = ops.tanh(n + inner * r)
    return (hx - n) * z + n


def lstm(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first):
    """All layers of an LSTM over (steps, batch, features); return the results, and the last states h and c."""
    return _network(_LSTM, input, None, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first)


def lstm_data(data, batch_sizes, hx, params, has_biases, num_layers, dropout, train, bidirectional):
    """`lstm` over packed sequences."""
    return _network(_LSTM, data, batch_sizes, hx, params, has_biases, num_layers, dropout, train, bidirectional, False)


def gru(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first):
    """All layers of a GRU over (steps, batch, features); return the results and the last state."""
    return _network(
        _GRU, input, None, (hx,), params, has_biases, num_layers, dropout, train, bidirectional, batch_first
    )


def gru_data(data, batch_sizes, hx, params, has_biases, num_layers, dropout, train, bidirectional):
    """`gru` over packed sequences."""
    return _network(
        _GRU, data, batch_sizes, (hx,), params, has_biases, num_layers, dropout, train, bidirectional, False
    )


def rnn_tanh(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first):
    """All layers of a plain network with tanh over (steps, batch, features); return the results and the last state."""
    return _network(
        _TANH, input, None, (hx,), params, has_biases, num_layers, dropout, train, bidirectional, batch_first
    )


def rnn_tanh_data(data, batch_sizes, hx, params, has_biases, num_layers, dropout, train, bidirectional):
    """`rnn_tanh` over packed sequences."""
    return _network(
        _TANH, data, batch_sizes, (hx,), params, has_biases, num_layers, dropout, train, bidirectional, False
    )


def rnn_relu(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first):
    """All layers of a plain network with relu over (steps, batch, features); return the results and the last state."""
    return _network(
        _RELU, input, None, (hx,), params, has_biases, num_layers, dropout, train, bidirectional, batch_first
    )


def rnn_relu_data(data, batch_sizes, hx, params, has_biases, num_layers, dropout, train, bidirectional):
    """`rnn_relu` over packed sequences."""
    return _network(
        _RELU, data, batch_sizes, (hx,), params, has_biases, num_layers, dropout, train, bidirectional, False
    )


def _network(
    mode, input, batch_sizes, states, params, has_biases, num_layers, dropout, train, bidirectional, batch_first
):
    """Compute the layers in turn, each in one or two directions, with dropout between them."""
    if mode == _LSTM and len(states) != 2:
        raise RuntimeError("lstm expects two hidden states")
    directions = 2 if bidirectional else 1
    projected = mode == _LSTM and states[0].size(2) != states[1].size(2)
    each = 2 + 2 * bool(has_biases) + projected
    if len(params) != each * directions * num_layers:
        raise RuntimeError("got an incorrect number of RNN parameters")
    rank = 2 if batch_sizes is not None else 3
    if input.dim() != rank:
        raise RuntimeError(f"input must have {rank} dimensions, got {input.dim()}")
    sizes = () if batch_sizes is None else tuple(batch_sizes.tolist())
    x = ops.transpose(input, 0, 1) if batch_first else input
    if not x.size(0):
        raise RuntimeError("Expected sequence length to be larger than 0 in RNN")
    last = []
    for layer in range(num_layers):
        found = []
        for d in range(directions):
            k = layer * directions + d
            weights = params[k * each : (k + 1) * each]
            out, *ends = _layer(mode, x, [s[k] for s in states], weights, has_biases, projected, sizes, d == 1, train)
            found.append(out)
            last.append(ends)
        x = found[0] if directions == 1 else ops.cat(found, -1)
        if dropout and train and layer < num_layers - 1:
            x = ops.dropout(x, dropout, True)
    ends = [ops.stack([one[i] for one in last], 0) for i in range(len(states))]
    return (ops.transpose(x, 0, 1) if batch_first else x, *ends)


def _layer(mode, x, states, weights, has_biases, projected, sizes, reverse, train):
    """Compute one direction of a layer, by the kernel for all steps where it applies, else step by step."""
    w_ih, w_hh = weights[:2]
    b_ih, b_hh = weights[2:4] if has_biases else (None, None)
    tensors = (x, *states, *weights)
    if _state.flags & AUTOCAST:  # which casts the arguments of the kernel, that of an LSTM only
        fused = mode == _LSTM and not projected and not sizes and x.dtype in (float32, bfloat16, float16)
    else:
        fused = not projected and x.dtype in (float32, float64) and all(t.dtype is x.dtype for t in tensors)
    if fused:
        _check_layer(x, states, w_ih, w_hh)
        empty = ops.zeros(w_ih.shape[:1], dtype=x.dtype, device=x.device) if b_ih is None else None
        biases = (b_ih, b_hh) if empty is None else (empty, empty)
        cell = states[1] if mode == _LSTM else ops.zeros_like(states[0])
        settings = (reverse, sizes, mode, w_hh.size(1), 1, bool(has_biases), False, False, train)
        out, h, c, _ = ops.mkldnn_rnn_layer(x, w_ih, w_hh, *biases, states[0], cell, *settings)
        return (out, h, c) if mode == _LSTM else (out, h)
    return _by_steps(mode, x, states, (w_ih, w_hh, b_ih, b_hh), weights[-1] if projected else None, sizes, reverse)


def _check_layer(x, states, w_ih, w_hh):
    if x.size(-1) != w_ih.size(1):
        raise RuntimeError(f"input has inconsistent input_size: got {x.size(-1)} expected {w_ih.size(1)}")
    for h in states:
        if h.size(-1) != w_hh.size(1):
            raise RuntimeError(f"hidden0 has inconsistent hidden_size: got {h.size(-1)}, expected {w_hh.size(1)}")


def _by_steps(mode, x, states, weights, projection, sizes, reverse):
    w_ih, w_hh, b_ih, b_hh = weights
    gates = ops.linear(x, w_ih, b_ih)
    steps = ops.split_with_sizes(gates, list(sizes), 0) if sizes else ops.unbind(gates, 0)
    h, c = (*states, None)[:2]
    found = {}
    order = range(len(steps))
    for t in reversed(order) if reverse else order:
        a, n = steps[t], steps[t].size(0)
        part = h if n == h.size(0) else ops.narrow(h, 0, 0, n)
        b = ops.linear(part, w_hh, b_hh)
        if mode == _LSTM:
            cell = c if n == c.size(0) else ops.narrow(c, 0, 0, n)
            new, cell = _lstm_step(a, b, cell)
            if projection is not None:
                new = ops.linear(new, projection)
            c = _first_replaced(c, cell)
        elif mode == _GRU:
            new = _gru_step(a, b, part)
        else:
            new = (ops.tanh if mode == _TANH else ops.relu)(b + a)
        found[t] = new
        h = _first_replaced(h, new)
    results = [found[t] for t in order]
    out = ops.cat(results, 0) if sizes else ops.stack(results, 0)
    return (out, h, c) if mode == _LSTM else (out, h)


def _first_replaced(state, rows):
    n, count = rows.size(0), state.size(0)
    return rows if n == count else ops.cat([rows, ops.narrow(state, 0, n, count - n)], 0)


def _places(batch_sizes, steps, device):
    """Return the rows of a padded (steps, batch) that packed rows come from, and the batch."""
    batch = int(batch_sizes[0])
    within = ops.unsqueeze(ops.arange(batch, device=batch_sizes.device), 0) < ops.unsqueeze(batch_sizes, 1)
    return ops.reshape(ops.nonzero(ops.reshape(within, (-1,))), (-1,)).to(device), batch


def pack_padded_sequence_backward(grad, input_size, batch_sizes, batch_first):
    """Put packed rows back to their places in zeros of `input_size`."""
    size = list(input_size)
    if batch_first:
        size[0], size[1] = size[1], size[0]
    places, _ = _places(batch_sizes, size[0], grad.device)
    zeros = ops.zeros((size[0] * size[1], *size[2:]), dtype=grad.dtype, device=grad.device)
    found = ops.reshape(ops.index_copy(zeros, 0, places, grad), size)
    return ops.transpose(found, 0, 1) if batch_first else found


def pad_packed_sequence(data, batch_sizes, batch_first, padding_value, total_length):
    """Return the sequences, padded to `total_length` or, if it is not positive, the longest, and their lengths."""
    if batch_sizes.dim() != 1 or batch_sizes.dtype is not int64:
        raise RuntimeError("Expected batch_sizes to be a 1D tensor of int64")
    steps = batch_sizes.size(0)
    if total_length > 0:
        if total_length < steps:
            raise RuntimeError(
                "Expected total_length to be at least the length of the longest sequence in input, but got "
                f"total_length={total_length} and max sequence length being {steps}"
            )
        steps = total_length
    places, batch = _places(batch_sizes, steps, data.device)
    full = ops.full((steps * batch, *data.shape[1:]), padding_value, dtype=data.dtype, device=data.device)
    found = ops.reshape(ops.index_copy(full, 0, places, data), (steps, batch, *data.shape[1:]))
    lengths = ops.sum(
        ops.unsqueeze(ops.arange(batch, device=batch_sizes.device), 0) < ops.unsqueeze(batch_sizes, 1), [0]
    )
    return (ops.transpose(found, 0, 1) if batch_first else found), lengths


def pad_sequence(sequences, batch_first, padding_value, padding_side):
    """Join sequences (length, *) of different lengths to (longest, count, *), padded at the right or left."""
    if not sequences:
        raise RuntimeError("received an empty list of sequences")
    if padding_side not in ("left", "right"):
        raise RuntimeError(f"Expected padding_side to be one of left or right, but got {padding_side}.")
    longest = max(s.size(0) for s in sequences)
    padded = []
    for s in sequences:
        missing = longest - s.size(0)
        sides = [0, 0] * (s.dim() - 1) + ([missing, 0] if padding_side == "left" else [0, missing])
        padded.append(ops.constant_pad_nd(s, sides, padding_value) if missing else s)
    return ops.stack(padded, 0 if batch_first else 1)
