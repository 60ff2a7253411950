"""Samples of recurrent networks: all modes, both directions, packed sequences, and networks of several layers.

The backward operator takes the layer's results, but differentiates nothing: it has no derivative of its own.
"""

from __future__ import annotations

import gradloom
from gradloom.dispatch import _operators as ops

from . import integers, tensor

_GATES = (1, 1, 4, 3)
_HIDDEN = 2


def values(*shape, seed=0):
    return tensor(*shape, seed=seed, low=-1.0, high=1.0)


def layers():
    for mode, gates in enumerate(_GATES):
        for sizes, reverse, biases in (((), False, True), ((), True, False), ((2, 2, 1), mode % 2 == 0, True)):
            x = values(5, 3) if sizes else values(3, 2, 3)
            shapes = (gates * _HIDDEN, 3), (gates * _HIDDEN, _HIDDEN), (gates * _HIDDEN,), (gates * _HIDDEN,)
            weights = [values(*shape, seed=seed) for seed, shape in enumerate(shapes, 1)]
            states = [values(2, _HIDDEN, seed=seed) for seed in (6, 7)]
            yield (x, *weights, *states, reverse, sizes, mode, _HIDDEN, 1, biases, False, False, True), {}


def layers_backward():
    for args, _ in layers():
        reverse, sizes, mode, hidden, count, biases, both, batch_first, train = args[7:]
        *results, space = ops.mkldnn_rnn_layer(*args)
        grads = [gradloom.ones_like(r) for r in results]
        settings = (reverse, mode, hidden, count, biases, train, both, sizes, batch_first)
        yield (*args[:7], *results, *grads, *settings, space), {}


def networks(gates, cells=False):
    def samples():
        yield (values(2, 2, 3), *_rest(gates, cells, 1, True, True), False), {}
        yield (values(1, 2, 3), *_rest(gates, cells, 2, False, False, batch=1), True), {}

    return samples


def packed(gates, cells=False):
    def samples():
        yield (values(3, 3), integers(2, 1), *_rest(gates, cells, 1, True, True)), {}

    return samples


def _rest(gates, cells, count, both, biases, batch=2):
    directions = 1 + both
    states = [values(count * directions, batch, _HIDDEN, seed=seed) for seed in (6, 7)]
    params = []
    for layer in range(count):
        for d in range(directions):
            inner = directions * _HIDDEN if layer else 3
            shapes = [(gates * _HIDDEN, inner), (gates * _HIDDEN, _HIDDEN)]
            shapes += [(gates * _HIDDEN,)] * 2 if biases else []
            params += [values(*shape, seed=9 * layer + 4 * d + k) for k, shape in enumerate(shapes)]
    return states if cells else states[0], params, biases, count, 0.0, True, both


def cells(gates, two=False):
    def samples():
        states = [values(2, _HIDDEN, seed=seed) for seed in (6, 7)]
        weights = values(gates * _HIDDEN, 3, seed=1), values(gates * _HIDDEN, _HIDDEN, seed=2)
        biases = values(gates * _HIDDEN, seed=3), values(gates * _HIDDEN, seed=4)
        hx = states if two else states[0]
        yield (values(2, 3), hx, *weights, *biases), {}
        yield (values(2, 3), hx, *weights), {}

    return samples


def pack():
    yield (values(3, 3, 2), integers(3, 2, 1), False), {}
    yield (values(2, 3), integers(3, 3), True), {}


def pack_backward():
    yield (values(6, 2), (3, 3, 2), integers(3, 2, 1), False), {}
    yield (values(6), (2, 3), integers(2, 2, 2), True), {}


def pad_packed():
    yield (values(6, 2), integers(3, 2, 1), False, 0.5, 4), {}
    yield (values(6), integers(2, 2, 2), True, 0, 0), {}


def pad():
    sequences = [values(3, 2), values(1, 2), values(2, 2)]
    yield (sequences,), {}
    yield (sequences, True, 0.5, "left"), {}


SAMPLES = {
    "lstm.input": networks(4, True),
    "lstm.data": packed(4, True),
    "gru.input": networks(3),
    "gru.data": packed(3),
    "rnn_tanh.input": networks(1),
    "rnn_tanh.data": packed(1),
    "rnn_relu.input": networks(1),
    "rnn_relu.data": packed(1),
    "lstm_cell": cells(4, True),
    "gru_cell": cells(3),
    "rnn_tanh_cell": cells(1),
    "rnn_relu_cell": cells(1),
    "mkldnn_rnn_layer": layers,
    "mkldnn_rnn_layer_backward": layers_backward,
    "_pack_padded_sequence": pack,
    "_pack_padded_sequence_backward": pack_backward,
    "_pad_packed_sequence": pad_packed,
    "pad_sequence": pad,
}
CONSTANT: dict[str, tuple[str, ...]] = {}

# The numbers of layers, gates and directions belong to the parameters; dropout is random.
_NETWORK = ("has_biases", "num_layers", "dropout", "bidirectional", "batch_first")
_LAYER = ("batch_sizes", "mode", "hidden_size", "num_layers", "bidirectional", "batch_first", "train")
FIXED: dict[str, tuple[str, ...]] = dict.fromkeys(
    (f"{name}.input" for name in ("lstm", "gru", "rnn_tanh", "rnn_relu")), _NETWORK
)
FIXED |= dict.fromkeys((f"{name}.data" for name in ("lstm", "gru", "rnn_tanh", "rnn_relu")), _NETWORK[:-1])
FIXED |= {
    "mkldnn_rnn_layer": _LAYER,
    "mkldnn_rnn_layer_backward": (*_LAYER, "has_biases", "reverse", "output", "hy_", "cy_", "workspace"),
    "_pack_padded_sequence": ("batch_first", "lengths"),
    "_pack_padded_sequence_backward": ("batch_first", "input_size", "batch_sizes"),
    "_pad_packed_sequence": ("batch_sizes", "total_length"),
}
