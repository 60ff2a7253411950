"""Recurrent networks and their cells."""

from __future__ import annotations

import math
import numbers
import warnings
import weakref
from typing import Any

import gradloom as gl
from gradloom import Tensor
from gradloom.nn import init
from gradloom.nn._functional import operators as ops
from gradloom.nn.modules.module import Module
from gradloom.nn.parameter import Parameter
from gradloom.nn.utils.rnn import PackedSequence
from gradloom.types import Device, DType

__all__ = ["GRU", "GRUCell", "LSTM", "LSTMCell", "RNN", "RNNBase", "RNNCell", "RNNCellBase"]

_GATES = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}


def _reset(module: Module, hidden_size: int) -> None:
    """Draw all parameters uniformly from +-1 / sqrt(hidden_size)."""
    bound = 1.0 / math.sqrt(hidden_size) if hidden_size > 0 else 0
    for parameter in module.parameters():
        init.uniform_(parameter, -bound, bound)


class RNNBase(Module):
    """Base of RNN, LSTM and GRU: layers in one or two directions.

    Args:
        mode: "RNN_TANH", "RNN_RELU", "LSTM" or "GRU".
        input_size: features of the input.
        hidden_size: features of the state.
        num_layers: number of layers.
        bias: add learned biases.
        batch_first: the first dimension of input and output is the batch.
        dropout: probability of dropout of the results of all layers but the last.
        bidirectional: run each layer in both directions and join the results.
        proj_size: features to which an LSTM projects its state; 0 for no projection.
        device, dtype: device and dtype of the parameters.

    Shape:
        input: (steps, batch, input_size), (batch, steps, input_size) if `batch_first`, (steps, input_size), or packed.
        output: the states of the last layer, as the input, of size directions * hidden_size; and the last states.

    Raises:
        TypeError, ValueError: for arguments of a wrong type or out of range.
    """

    __constants__: list[str] = [
        "mode",
        "input_size",
        "hidden_size",
        "num_layers",
        "bias",
        "batch_first",
        "dropout",
        "bidirectional",
        "proj_size",
    ]
    mode: str
    input_size: int
    hidden_size: int
    num_layers: int
    bias: bool
    batch_first: bool
    dropout: float
    bidirectional: bool
    proj_size: int

    def __init__(
        self,
        mode: str,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Device | None = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        self.mode = mode
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = float(dropout)
        self.bidirectional = bidirectional
        self.proj_size = proj_size
        self._flat_weight_refs: list[Any] = []
        self._check_settings(dropout)
        gates = _GATES[mode] * hidden_size
        directions, state = 2 if bidirectional else 1, proj_size or hidden_size
        self._flat_weights_names: list[str] = []
        self._all_weights: list[list[str]] = []
        for layer in range(num_layers):
            inner = input_size if layer == 0 else state * directions
            shapes = [(gates, inner), (gates, state), (gates,), (gates,), (proj_size, hidden_size)]
            for direction in range(directions):
                names = self._names(layer, direction)
                kept = shapes[:4] if bias else shapes[:2]
                for name, shape in zip(names, kept + shapes[4:] if proj_size else kept, strict=True):
                    setattr(self, name, Parameter(gl.empty(shape, device=device, dtype=dtype)))
                self._flat_weights_names.extend(names)
                self._all_weights.append(names)
        self._init_flat_weights()
        self.reset_parameters()

    def _check_settings(self, dropout: Any) -> None:
        if not isinstance(dropout, numbers.Number) or not 0 <= self.dropout <= 1 or isinstance(dropout, bool):
            raise ValueError(
                "dropout should be a number in range [0, 1] representing the probability of an element being zeroed"
            )
        if self.dropout > 0 and self.num_layers == 1:
            warnings.warn(
                "dropout option adds dropout after all but last recurrent layer, so non-zero dropout expects "
                f"num_layers greater than 1, but got dropout={dropout} and num_layers={self.num_layers}",
                stacklevel=4,
            )
        for name, kind in (("bias", bool), ("batch_first", bool), ("input_size", int), ("hidden_size", int)):
            value = getattr(self, name)
            if not isinstance(value, kind):
                raise TypeError(f"{name} should be of type {kind.__name__}, got: {type(value).__name__}")
            if kind is int and value <= 0:
                raise ValueError(f"{name} must be greater than zero")
        if self.num_layers <= 0:
            raise ValueError("num_layers must be greater than zero")
        if self.proj_size < 0:
            raise ValueError("proj_size should be a positive integer or zero to disable projections")
        if self.proj_size >= self.hidden_size:
            raise ValueError("proj_size has to be smaller than hidden_size")
        if self.mode not in _GATES:
            raise ValueError("Unrecognized RNN mode: " + self.mode)

    def _names(self, layer: int, direction: int) -> list[str]:
        """Return the names of the parameters of one direction of a layer."""
        kinds = ["weight_ih", "weight_hh"] + ["bias_ih", "bias_hh"] * bool(self.bias)
        kinds += ["weight_hr"] * bool(self.proj_size)
        return [f"{kind}_l{layer}{'_reverse' if direction else ''}" for kind in kinds]

    def _init_flat_weights(self) -> None:
        self._flat_weights: list[Any] = [getattr(self, name, None) for name in self._flat_weights_names]
        self._flat_weight_refs = [None if w is None else weakref.ref(w) for w in self._flat_weights]

    def __setattr__(self, attr: str, value: Any) -> None:
        names = self.__dict__.get("_flat_weights_names", ())
        if attr in names and "_flat_weights" in self.__dict__:
            self._flat_weights[names.index(attr)] = value
        super().__setattr__(attr, value)

    def flatten_parameters(self) -> None:
        """Do nothing: the parameters need not lie together in memory."""

    def _apply(self, fn: Any, recurse: bool = True) -> Any:
        self._flat_weight_refs = []
        found = super()._apply(fn, recurse)
        self._init_flat_weights()
        return found

    def reset_parameters(self) -> None:
        """Draw all parameters uniformly from +-1 / sqrt(hidden_size)."""
        _reset(self, self.hidden_size)

    def check_input(self, input: Tensor, batch_sizes: Tensor | None) -> None:
        """Raise ValueError for another dtype than that of the parameters, and RuntimeError for other sizes.

        Args:
            input: the padded or packed input.
            batch_sizes: those of a packed input, else None.
        """
        dtype = self._flat_weights[0].dtype
        if input.dtype != dtype and not (gl.is_autocast_enabled("cpu") or gl.is_autocast_enabled("cuda")):
            raise ValueError(
                f"RNN input dtype ({input.dtype}) does not match weight dtype ({dtype}). "
                f"Convert input: input.to({dtype}), or convert model: model.to({input.dtype})"
            )
        expected = 2 if batch_sizes is not None else 3
        if input.dim() != expected:
            raise RuntimeError(f"input must have {expected} dimensions, got {input.dim()}")
        if self.input_size != input.size(-1):
            raise RuntimeError(
                f"input.size(-1) must be equal to input_size. Expected {self.input_size}, got {input.size(-1)}"
            )

    def _state_size(self, input: Tensor, batch_sizes: Tensor | None, size: int) -> tuple[int, int, int]:
        batch = input.size(0 if self.batch_first else 1) if batch_sizes is None else int(batch_sizes[0])
        return self.num_layers * (2 if self.bidirectional else 1), batch, size

    def get_expected_hidden_size(self, input: Tensor, batch_sizes: Tensor | None) -> tuple[int, int, int]:
        """Return the size of the states h of all layers, for a padded `input`, or a packed one with `batch_sizes`."""
        return self._state_size(input, batch_sizes, self.proj_size or self.hidden_size)

    def check_hidden_size(
        self, hx: Tensor, expected_hidden_size: tuple[int, int, int], msg: str = "Expected hidden size {}, got {}"
    ) -> None:
        """Raise RuntimeError with `msg` if the state `hx` has not `expected_hidden_size`."""
        if hx.size() != expected_hidden_size:
            raise RuntimeError(msg.format(expected_hidden_size, list(hx.size())))

    def check_forward_args(self, input: Tensor, hidden: Any, batch_sizes: Tensor | None) -> None:
        """Check the `input`, packed if `batch_sizes` is given, and the states `hidden`."""
        self.check_input(input, batch_sizes)
        self.check_hidden_size(hidden, self.get_expected_hidden_size(input, batch_sizes))

    def permute_hidden(self, hx: Any, permutation: Tensor | None) -> Any:
        """Reorder the batch of the states `hx` by `permutation`; None leaves it."""
        return hx if permutation is None else hx.index_select(1, permutation)

    def _weights_have_changed(self) -> bool:
        """Return whether a parameter is another object than before, as within `functional_call`."""
        for ref, name in zip(self._flat_weight_refs, self._flat_weights_names, strict=True):
            weight = getattr(self, name, None)
            if weight is not None and ref is not None and ref() is not weight:
                return True
        return False

    def _update_flat_weights(self) -> None:
        if self._weights_have_changed():
            self._init_flat_weights()

    def _run(self, input: Any, hx: Any, name: str, function: Any) -> Any:
        """Call an operator on a tensor or a packed sequence.

        Args:
            input: the argument of `forward`.
            hx: the given states, or None.
            name: the module's name in messages.
            function: the operator, which takes both.

        Returns:
            The result, of the kind of the input, and the last states.
        """
        self._update_flat_weights()
        settings = (self._flat_weights, self.bias, self.num_layers, self.dropout, self.training, self.bidirectional)
        if isinstance(input, PackedSequence):
            data, batch_sizes, order, back = input
            states = self._zeros(data, batch_sizes) if hx is None else self.permute_hidden(hx, order)
            self.check_forward_args(data, states, batch_sizes)
            out, *ends = function(data, batch_sizes, states, *settings)
            last = self.permute_hidden(ends[0] if len(ends) == 1 else tuple(ends), back)
            return PackedSequence(out, batch_sizes, order, back), last
        if input.dim() not in (2, 3):
            tensor = " tensor" if name == "RNN" else ""
            raise ValueError(f"{name}: Expected input to be 2D or 3D, got {input.dim()}D{tensor} instead")
        batched, batch = input.dim() == 3, 0 if self.batch_first else 1
        if hx is not None:
            self._check_rank(hx, batched)
        if not batched:
            input = input.unsqueeze(batch)
            hx = None if hx is None else self._each(hx, lambda h: h.unsqueeze(1))
        states = self._zeros(input, None) if hx is None else hx
        self.check_forward_args(input, states, None)
        out, *ends = function(input, states, *settings, self.batch_first)
        last = ends[0] if len(ends) == 1 else tuple(ends)
        if batched:
            return out, last
        return out.squeeze(batch), self._each(last, lambda h: h.squeeze(1))

    def _zeros(self, input: Tensor, batch_sizes: Tensor | None) -> Any:
        size = self.get_expected_hidden_size(input, batch_sizes)
        return gl.zeros(size, dtype=input.dtype, device=input.device)

    def _each(self, states: Any, function: Any) -> Any:
        return function(states)

    def _check_rank(self, hx: Any, batched: bool) -> None:
        rank = 3 if batched else 2
        if hx.dim() != rank:
            kind = "batched 3-D" if batched else "unbatched 2-D"
            raise RuntimeError(f"For {kind} input, hx should also be {rank}-D but got {hx.dim()}-D tensor")

    def extra_repr(self) -> str:
        shown = f"{self.input_size}, {self.hidden_size}"
        defaults = {"proj_size": 0, "num_layers": 1, "bias": True, "batch_first": False}
        for name, default in {**defaults, "dropout": 0, "bidirectional": False}.items():
            value = getattr(self, name)
            if value != default:
                shown += f", {name}={value}"
        return shown

    def __getstate__(self) -> dict[str, Any]:
        self._update_flat_weights()
        state = super().__getstate__()
        del state["_flat_weight_refs"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if "all_weights" in state:
            self._all_weights = state["all_weights"]
        self.__dict__.setdefault("proj_size", 0)
        if not isinstance(self._all_weights[0][0], str):
            both = range(2 if self.bidirectional else 1)
            self._all_weights = [self._names(layer, d) for layer in range(self.num_layers) for d in both]
            self._flat_weights_names = [name for names in self._all_weights for name in names]
        self._init_flat_weights()

    @property
    def all_weights(self) -> list[list[Parameter]]:
        """The parameters of each direction of each layer."""
        return [[getattr(self, name) for name in names] for names in self._all_weights]


class RNN(RNNBase):
    """Layers h' = tanh(x weight_ih^T + bias_ih + h weight_hh^T + bias_hh), or relu (Elman 1990).

    Args:
        args: input_size, hidden_size, num_layers, nonlinearity ("tanh" or "relu") and the further arguments of
            `RNNBase`.
        kwargs: the same by name.

    Shape:
        input: (steps, batch, input_size), (batch, steps, input_size) if `batch_first`, (steps, input_size), or packed.
        hx: (num_layers * directions, batch, hidden_size), the initial states; None for zeros.
        output: the states of the last layer, as the input, of size directions * hidden_size; and the last states.

    Raises:
        ValueError: for another nonlinearity, or a proj_size.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if "proj_size" in kwargs:
            raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
        if len(args) > 3:
            nonlinearity, args = args[3], args[:3] + args[4:]
        else:
            nonlinearity = kwargs.pop("nonlinearity", "tanh")
        self.nonlinearity: str = nonlinearity
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'.")
        super().__init__("RNN_TANH" if nonlinearity == "tanh" else "RNN_RELU", *args, **kwargs)

    def forward(self, input: Any, hx: Tensor | None = None) -> Any:
        return self._run(input, hx, "RNN", ops.rnn_tanh if self.mode == "RNN_TANH" else ops.rnn_relu)


class GRU(RNNBase):
    """Layers of gated recurrent units (Cho et al. 2014).

        r = sigmoid(x W_ir^T + b_ir + h W_hr^T + b_hr)
        z = sigmoid(x W_iz^T + b_iz + h W_hz^T + b_hz)
        n = tanh(x W_in^T + b_in + r (h W_hn^T + b_hn))
        h' = (1 - z) n + z h

    The parameters hold those of r, z and n, one below the other.

    Args:
        args: input_size, hidden_size and the further arguments of `RNNBase`.
        kwargs: the same by name.

    Shape:
        input: (steps, batch, input_size), (batch, steps, input_size) if `batch_first`, (steps, input_size), or packed.
        hx: (num_layers * directions, batch, hidden_size), the initial states; None for zeros.
        output: the states of the last layer, as the input, of size directions * hidden_size; and the last states.

    Raises:
        ValueError: for a proj_size.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if "proj_size" in kwargs:
            raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
        super().__init__("GRU", *args, **kwargs)

    def forward(self, input: Any, hx: Tensor | None = None) -> Any:
        return self._run(input, hx, "GRU", ops.gru)


class LSTM(RNNBase):
    """Layers of long short-term memory (Hochreiter and Schmidhuber 1997).

        i, f, o = sigmoid(x W_i^T + b_i + h W_h^T + b_h), each with its own parameters
        g = tanh(x W_ig^T + b_ig + h W_hg^T + b_hg)
        c' = f c + i g
        h' = o tanh(c'), projected by weight_hr with a proj_size

    The parameters hold those of i, f, g and o, one below the other.

    Args:
        args: input_size, hidden_size and the further arguments of `RNNBase`.
        kwargs: the same by name.

    Shape:
        input: (steps, batch, input_size), (batch, steps, input_size) if `batch_first`, (steps, input_size), or packed.
        hx: the initial states h and c, (num_layers * directions, batch, hidden_size); None for zeros.
        output: the states h of the last layer, as the input, of size directions * hidden_size; and the last h and c.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("LSTM", *args, **kwargs)

    def get_expected_cell_size(self, input: Tensor, batch_sizes: Tensor | None) -> tuple[int, int, int]:
        """Return the size of the states c of all layers, for a padded `input`, or a packed one with `batch_sizes`."""
        return self._state_size(input, batch_sizes, self.hidden_size)

    def check_forward_args(self, input: Tensor, hidden: Any, batch_sizes: Tensor | None) -> None:
        """Check the `input`, packed if `batch_sizes` is given, and both states `hidden`."""
        self.check_input(input, batch_sizes)
        sizes = self.get_expected_hidden_size(input, batch_sizes), self.get_expected_cell_size(input, batch_sizes)
        for i, size in enumerate(sizes):
            self.check_hidden_size(hidden[i], size, f"Expected hidden[{i}] size {{}}, got {{}}")

    def permute_hidden(self, hx: Any, permutation: Tensor | None) -> Any:
        """Reorder the batch of both states `hx` by `permutation`; None leaves it."""
        return hx if permutation is None else tuple([h.index_select(1, permutation) for h in hx])

    def _zeros(self, input: Tensor, batch_sizes: Tensor | None) -> Any:
        cells = gl.zeros(self.get_expected_cell_size(input, batch_sizes), dtype=input.dtype, device=input.device)
        return super()._zeros(input, batch_sizes), cells

    def _each(self, states: Any, function: Any) -> Any:
        return function(states[0]), function(states[1])

    def _check_rank(self, hx: Any, batched: bool) -> None:
        rank = 3 if batched else 2
        if hx[0].dim() != rank or hx[1].dim() != rank:
            raise RuntimeError(
                f"For {'batched 3-D' if batched else 'unbatched 2-D'} input, hx and cx should also be {rank}-D but got "
                f"({hx[0].dim()}-D, {hx[1].dim()}-D) tensors"
            )

    def forward(self, input: Any, hx: tuple[Tensor, Tensor] | None = None) -> Any:
        return self._run(input, hx, "LSTM", ops.lstm)


class RNNCellBase(Module):
    """Base of the cells: one step of one layer.

    Args:
        input_size, hidden_size: features of the input and of the state.
        bias: add learned biases.
        num_chunks: number of gates.
        device, dtype: device and dtype of the parameters.

    Shape:
        input: (batch, input_size) or (input_size,).
        output: (batch, hidden_size) or (hidden_size,).
    """

    __constants__: list[str] = ["input_size", "hidden_size", "bias"]
    input_size: int
    hidden_size: int
    bias: bool
    weight_ih: Tensor
    weight_hh: Tensor
    bias_ih: Parameter
    bias_hh: Parameter

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool,
        num_chunks: int,
        device: Device | None = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        rows = num_chunks * hidden_size

        def parameter(*shape: int) -> Parameter:
            return Parameter(gl.empty(shape, device=device, dtype=dtype))

        self.weight_ih = parameter(rows, input_size)
        self.weight_hh = parameter(rows, hidden_size)
        for name in ("bias_ih", "bias_hh"):
            self.register_parameter(name, parameter(rows) if bias else None)
        self.reset_parameters()

    def extra_repr(self) -> str:
        shown = f"{self.input_size}, {self.hidden_size}"
        if self.bias is not True:
            shown += f", bias={self.bias}"
        if self.__dict__.get("nonlinearity", "tanh") != "tanh":
            shown += f", nonlinearity={self.__dict__['nonlinearity']}"
        return shown

    def reset_parameters(self) -> None:
        """Draw all parameters uniformly from +-1 / sqrt(hidden_size)."""
        _reset(self, self.hidden_size)

    def _step(self, name: str, input: Tensor, hx: Any, function: Any) -> Any:
        """Call a cell's operator with the state `hx`, zeros for None; add and remove a missing batch dimension."""
        if input.dim() not in (1, 2):
            raise ValueError(f"{name}: Expected input to be 1D or 2D, got {input.dim()}D instead")
        if hx is not None and hx.dim() not in (1, 2):
            raise ValueError(f"{name}: Expected hidden to be 1D or 2D, got {hx.dim()}D instead")
        batched = input.dim() == 2
        if not batched:
            input = input.unsqueeze(0)
            hx = None if hx is None else hx.unsqueeze(0)
        if hx is None:
            hx = gl.zeros(input.size(0), self.hidden_size, dtype=input.dtype, device=input.device)
        found = function(input, hx, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
        return found if batched else found.squeeze(0)


class RNNCell(RNNCellBase):
    """h' = tanh(x weight_ih^T + bias_ih + h weight_hh^T + bias_hh), or relu.

    Args:
        input_size, hidden_size, bias, device, dtype: as of `RNNCellBase`.
        nonlinearity: "tanh" or "relu".

    Shape:
        input: (batch, input_size) or (input_size,).
        hx: (batch, hidden_size) or (hidden_size,); None for zeros.
        output: as `hx`.
    """

    __constants__: list[str] = ["input_size", "hidden_size", "bias", "nonlinearity"]
    nonlinearity: str

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: Device | None = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 1, device=device, dtype=dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        function = {"tanh": ops.rnn_tanh_cell, "relu": ops.rnn_relu_cell}.get(self.nonlinearity)
        if function is None:
            raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")
        return self._step("RNNCell", input, hx, function)


class GRUCell(RNNCellBase):
    """One step of a GRU; see `GRU`.

    Args:
        input_size, hidden_size, bias, device, dtype: as of `RNNCellBase`.

    Shape:
        input: (batch, input_size) or (input_size,).
        hx: (batch, hidden_size) or (hidden_size,); None for zeros.
        output: as `hx`.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: Device | None = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 3, device=device, dtype=dtype)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        return self._step("GRUCell", input, hx, ops.gru_cell)


class LSTMCell(RNNCellBase):
    """One step of an LSTM; see `LSTM`.

    Args:
        input_size, hidden_size, bias, device, dtype: as of `RNNCellBase`.

    Shape:
        input: (batch, input_size) or (input_size,).
        hx: h and c, (batch, hidden_size) or (hidden_size,); None for zeros.
        output: the new h and c.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: Device | None = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 4, device=device, dtype=dtype)

    def forward(self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]:
        if input.dim() not in (1, 2):
            raise ValueError(f"LSTMCell: Expected input to be 1D or 2D, got {input.dim()}D instead")
        for i, value in enumerate(() if hx is None else hx):
            if value.dim() not in (1, 2):
                raise ValueError(f"LSTMCell: Expected hx[{i}] to be 1D or 2D, got {value.dim()}D instead")
        batched = input.dim() == 2
        if not batched:
            input = input.unsqueeze(0)
            hx = None if hx is None else (hx[0].unsqueeze(0), hx[1].unsqueeze(0))
        if hx is None:
            zeros = gl.zeros(input.size(0), self.hidden_size, dtype=input.dtype, device=input.device)
            hx = (zeros, zeros)
        h, c = ops.lstm_cell(input, hx, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
        return (h, c) if batched else (h.squeeze(0), c.squeeze(0))
