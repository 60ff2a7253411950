"""Recurrent networks: layers against their cells, packed sequences, second derivatives, forward mode and errors."""

import copy
import warnings

import pytest

NETWORKS = {"lstm": ("LSTM", {}), "gru": ("GRU", {}), "tanh": ("RNN", {}), "relu": ("RNN", {"nonlinearity": "relu"})}
PROJECTED = {**NETWORKS, "projected": ("LSTM", {"proj_size": 2})}


def network(torch, kind, *sizes, **options):
    torch.manual_seed(0)
    name, further = PROJECTED[kind]
    return getattr(torch.nn, name)(*sizes, **further, **options)


def tensors(states):
    return states if isinstance(states, tuple) else (states,)


@pytest.mark.parametrize("kind", NETWORKS)
@pytest.mark.parametrize("double", [False, True])
def test_a_layer_computes_what_its_cell_computes_step_by_step(torch, kind, double):
    layer = network(torch, kind, 3, 5)
    dtype = torch.float64 if double else torch.float32
    layer = layer.to(dtype)
    name, further = NETWORKS[kind]
    cell = getattr(torch.nn, name + "Cell")(3, 5, dtype=dtype, **further)
    cell.load_state_dict({key.removesuffix("_l0"): value for key, value in layer.state_dict().items()})
    x = torch.randn(4, 2, 3, dtype=dtype)
    outputs, last = layer(x)
    state, found = None, []
    for step in x:
        state = cell(step, state)
        found.append(tensors(state)[0])
    assert torch.allclose(outputs, torch.stack(found), atol=1e-5)
    for a, b in zip(tensors(last), tensors(state), strict=True):
        assert torch.allclose(a[0], b, atol=1e-5)
    outputs.square().sum().backward()
    sum(f.square().sum() for f in found).backward()
    for a, b in zip(layer.parameters(), cell.parameters(), strict=True):
        assert torch.allclose(a.grad, b.grad, atol=1e-4)


@pytest.mark.parametrize("kind", PROJECTED)
def test_packed_sequences_are_computed_one_by_one(torch, kind):
    layers = network(torch, kind, 3, 4, num_layers=2, bidirectional=True)
    sequences = [torch.randn(n, 3) for n in (2, 4, 1)]
    packed = torch.nn.utils.rnn.pack_sequence(sequences, enforce_sorted=False)
    assert packed.batch_sizes.tolist() == [3, 2, 1, 1] and packed.sorted_indices.tolist() == [1, 0, 2]
    outputs, last = layers(packed)
    for i, (sequence, found) in enumerate(zip(sequences, torch.nn.utils.rnn.unpack_sequence(outputs), strict=True)):
        expected, states = layers(sequence)
        assert torch.allclose(found, expected, atol=1e-5)
        for a, b in zip(tensors(last), tensors(states), strict=True):
            assert torch.allclose(a[:, i], b, atol=1e-5)
    outputs.data.sum().backward()
    grads = [p.grad for p in layers.parameters()]
    layers.zero_grad(set_to_none=True)
    sum(layers(s)[0].sum() for s in sequences).backward()
    assert all(torch.allclose(a, p.grad, atol=1e-4) for a, p in zip(grads, layers.parameters(), strict=True))


def test_padding_and_lengths_are_inverted(torch):
    rnn = torch.nn.utils.rnn
    x = torch.arange(24.0).reshape(4, 3, 2).requires_grad_()
    packed = rnn.pack_padded_sequence(x, [4, 2, 1])
    assert packed.data[:, 0].tolist() == [0.0, 2.0, 4.0, 6.0, 8.0, 12.0, 18.0]
    padded, lengths = rnn.pad_packed_sequence(packed, batch_first=True, padding_value=-1.0, total_length=5)
    assert padded.shape == (3, 5, 2) and lengths.tolist() == [4, 2, 1]
    assert padded[2, 1:].eq(-1).all() and padded[0, 4].eq(-1).all()
    padded.sum().backward()
    assert x.grad[:, :, 0].tolist() == [[1.0, 1.0, 1.0], [1.0, 1.0, 0.0], [1.0, 0.0, 0.0], [1.0, 0.0, 0.0]]
    assert rnn.pad_sequence([torch.ones(2), torch.ones(1)], True, 0.5, "left").tolist() == [[1.0, 1.0], [0.5, 1.0]]
    assert isinstance(packed, tuple) and packed.double().data.dtype is torch.float64 and packed.cpu() is packed
    assert (
        rnn.invert_permutation(torch.tensor([2, 0, 1])).tolist() == [1, 2, 0] and rnn.invert_permutation(None) is None
    )


@pytest.mark.parametrize("kind", NETWORKS)
def test_second_derivatives_and_forward_mode(torch, kind):
    layer = network(torch, kind, 2, 3, bidirectional=True, dtype=torch.float64)
    x = torch.randn(3, 2, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: layer(x)[0], x, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(lambda x: layer(x)[0], x)


def test_a_network_can_be_copied_and_its_parameters_replaced(torch):
    layer = network(torch, "lstm", 3, 4, num_layers=2, dropout=0.5)
    other = copy.deepcopy(layer)
    x = torch.randn(2, 1, 3)
    with torch.no_grad():
        other.weight_ih_l0.zero_()
        other.bias_hh_l1 = torch.nn.Parameter(torch.zeros(16))
    assert other._flat_weights[7] is other.bias_hh_l1 and layer.weight_ih_l0.any()
    assert [len(w) for w in layer.all_weights] == [4, 4]
    layer.eval()
    halved = {name: value / 2 for name, value in layer.state_dict().items()}
    found = torch.func.functional_call(layer, halved, (x,))[0]
    layer.load_state_dict(halved)
    assert torch.allclose(layer(x)[0], found)
    assert layer.train()(x)[0].ne(layer(x)[0]).any()
    assert repr(layer) == "LSTM(3, 4, num_layers=2, dropout=0.5)"
    assert repr(torch.nn.RNNCell(3, 4, False, "relu")) == "RNNCell(3, 4, bias=False, nonlinearity=relu)"


def test_inputs_without_a_batch(torch):
    for kind in PROJECTED:
        layer = network(torch, kind, 3, 4, batch_first=True)
        x = torch.randn(5, 3)
        single, states = layer(x)
        expected, several = layer(x.unsqueeze(0))
        assert torch.equal(single, expected[0])
        assert all(torch.equal(a, b[:, 0]) for a, b in zip(tensors(states), tensors(several), strict=True))
        assert torch.allclose(layer(x, states)[0], layer(x.unsqueeze(0), several)[0][0], atol=1e-6)


def test_errors(torch):
    nn, rnn, x = torch.nn, torch.nn.utils.rnn, torch.randn(5, 2, 3)
    lstm, gru = nn.LSTM(3, 4), nn.GRU(3, 4)
    zeros = torch.zeros
    for error, call, words in (
        (ValueError, lambda: nn.LSTM(3, 0), "hidden_size must be greater than zero"),
        (TypeError, lambda: nn.LSTM(3.0, 3), "input_size should be of type int, got: float"),
        (ValueError, lambda: nn.LSTM(3, 4, proj_size=4), "proj_size has to be smaller than hidden_size"),
        (ValueError, lambda: nn.GRU(3, 4, proj_size=1), "proj_size argument is only supported for LSTM"),
        (ValueError, lambda: nn.RNN(3, 4, nonlinearity="x"), "Select from 'tanh' or 'relu'"),
        (ValueError, lambda: nn.LSTM(3, 4, 2, dropout=2), "dropout should be a number in range"),
        (RuntimeError, lambda: lstm(x[..., :2]), "Expected 3, got 2"),
        (ValueError, lambda: lstm(x[0, 0]), "LSTM: Expected input to be 2D or 3D, got 1D instead"),
        (ValueError, lambda: lstm(x.double()), "does not match weight dtype"),
        (RuntimeError, lambda: lstm(x[:0]), "Expected sequence length to be larger than 0 in RNN"),
        (
            RuntimeError,
            lambda: lstm(x, (zeros(1, 2, 4), zeros(1, 2, 5))),
            r"Expected hidden\[1\] size \(1, 2, 4\), got",
        ),
        (RuntimeError, lambda: gru(x, zeros(2, 4)), "For batched 3-D input, hx should also be 3-D but got 2-D"),
        (RuntimeError, lambda: nn.GRUCell(3, 4)(x[0], zeros(3, 4)), "Input batch size 2 doesn't match hidden0 batch"),
        (RuntimeError, lambda: nn.GRUCell(3, 4)(x[0, :, :2]), "input has inconsistent input_size: got 2 expected 3"),
        (RuntimeError, lambda: torch.lstm_cell(x[0], [x[0]], *[zeros(4, 3)] * 2), "expects two hidden states"),
        (RuntimeError, lambda: rnn.pack_padded_sequence(x, [3, 5]), "array must be sorted in decreasing order when"),
        (RuntimeError, lambda: rnn.pack_padded_sequence(x, [5, 0]), "found an element in 'lengths' that is <= 0"),
        (RuntimeError, lambda: rnn.pack_padded_sequence(x, [5]), "equal to batch_size, but got 1 .batch_size=2."),
        (RuntimeError, lambda: rnn.pack_padded_sequence(x[:0], [1, 1]), "Cannot pack empty tensors"),
        (RuntimeError, lambda: rnn.pad_sequence([]), "received an empty list of sequences"),
        (RuntimeError, lambda: rnn.pad_sequence(3), "Expected iterable for input sequences"),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with pytest.raises(error, match=words):
                call()
    with pytest.warns(UserWarning, match="dropout option adds dropout after all but last recurrent layer"):
        nn.GRU(3, 4, dropout=0.1)
