"""What is measured: the rows of the table, their units and limits. How, for each library, is in rows_*.py.

A program (a function of rows_torch.py, rows_training.py or rows_autograd.py, or a statement of rows_statements.py)
prepares its inputs and returns a `sample` function; each call of that runs the program once and returns the seconds of
its parts, by name. A `Row` shows one part.
"""

from __future__ import annotations

from typing import NamedTuple

# A library and its threads; "llvm" is gradloom with set_kernels("llvm").
CONTENDERS = ("gradloom-1", "gradloom-2", "llvm-1", "llvm-2", "torch-1", "torch-2", "autograd")
MILLI, MICRO = 1e-3, 1e-6


class Row(NamedTuple):
    """One line of the table.

    `scale` is the unit in seconds. `limit` bounds the better of gradloom's two times over the better of PyTorch's or,
    with `difference`, what importing costs over importing NumPy, in the row's unit.
    """

    program: str
    part: str
    title: str
    unit: str
    scale: float
    limit: float | None = None
    difference: bool = False


TRAINING = (
    ("regression", "linear regression, batch 256"),
    ("classifier", "64-128-128-10 network with dropout, batch 64"),
    ("batch_norm_convnet", "3 convolutions with batch norm, 32x3x32x32"),
    ("character_rnn", "names, RNN cell 64 wide, 32 x 16 letters"),
    ("character_gru", "names, GRU cell 64 wide, 32 x 16 letters"),
    ("character_lstm", "names, LSTM layer 64 wide, 32 x 16 letters"),
    ("character_transformer", "names, transformer, 4 layers 64 wide, 32 x 16"),
    ("gpt", "GPT, 4 layers 128 wide, 8 x 128 characters"),
    ("autoencoder", "variational autoencoder, batch 128"),
    ("gan", "GAN of two small networks, batch 64"),
    ("physics", "Burgers' equation by second derivatives, 256 points"),
    ("graph_network", "graph network, 500 nodes, 2,000 edges"),
)
ROWS = (
    Row("chain", "forward", "1000 x (x = x*b; x = x+a), 4 float64: forward", "us/op", MICRO, 1.1),
    Row("chain", "backward", "1000 x (x = x*b; x = x+a), 4 float64: backward", "us/op", MICRO, 0.8),
    Row("convnet", "step", "convolutional network, batch 64: training step", "ms", MILLI, 1.3),
    Row("imports", "import", "import, over import numpy", "ms", MILLI, 60.0, difference=True),
    Row("generator", "afresh", "generated code from nothing, beside torchgen's: processor", "ms", MILLI),
    Row("generator", "edited", "generated code, one formula edited: processor", "ms", MILLI, 0.15),
    Row("generator", "unchanged", "generated code, nothing edited: processor", "ms", MILLI),
    Row("generator", "explain", "gradloom explain mul: processor", "ms", MILLI),
    Row("generator", "verify", "gradloom verify --op softplus: processor", "ms", MILLI),
    Row("generator", "audit", "gradloom audit torch --op cumprod: a derivative", "ms", MILLI),
    Row("generator", "finding", "gradloom audit torch --op cumprod: to the first finding", "ms", MILLI),
    Row("mlp", "step", "784-500-10 network, batch 64: training step", "ms", MILLI),
    Row("elementwise", "forward", "tanh(x*y + x), 1e6 float32: forward", "ms", MILLI),
    Row("elementwise", "backward", "tanh(x*y + x), 1e6 float32: backward", "ms", MILLI),
    Row("matmul", "forward", "256x256 float32 matmul: forward", "ms", MILLI),
    Row("matmul", "backward", "256x256 float32 matmul: backward", "ms", MILLI),
    Row("upsampling", "forward", "bilinear upsampling, 64x3x32x32 to 64x64: forward", "ms", MILLI, 1.5),
    Row("upsampling", "backward", "bilinear upsampling, 64x3x32x32 to 64x64: backward", "ms", MILLI, 1.5),
    Row("attention_64", "forward", "attention, 16 x 4 heads x 64 x 64: forward", "ms", MILLI, 1.5),
    Row("attention_64", "backward", "attention, 16 x 4 heads x 64 x 64: backward", "ms", MILLI, 1.5),
    Row("attention_512", "forward", "attention, 16 x 4 heads x 512 x 64: forward", "ms", MILLI, 1.5),
    Row("attention_512", "backward", "attention, 16 x 4 heads x 512 x 64: backward", "ms", MILLI, 1.5),
    Row("lstm", "step", "LSTM 128 wide, 50 steps, batch 32: training step", "ms", MILLI, 1.5),
    Row("rfft2", "forward", "rfft2 of 64 x 3 x 64 x 64: forward", "ms", MILLI, 1.5),
    Row("rfft2", "backward", "rfft2 of 64 x 3 x 64 x 64: backward", "ms", MILLI, 1.5),
    Row("solve", "forward", "1000 systems, 8x8: solve, forward", "ms", MILLI, 1.5),
    Row("solve", "backward", "1000 systems, 8x8: solve, backward", "ms", MILLI, 1.5),
    Row("cholesky", "forward", "1000 matrices, 8x8: cholesky, forward", "ms", MILLI, 1.5),
    Row("cholesky", "backward", "1000 matrices, 8x8: cholesky, backward", "ms", MILLI, 1.5),
    Row("svd", "forward", "256x256 singular values by svd: forward", "ms", MILLI, 1.5),
    Row("svd", "backward", "256x256 singular values by svd: backward", "ms", MILLI, 1.5),
    Row("sum", "both", "sum of 1e6 float32: forward and backward", "ms", MILLI),
    Row("indexing", "forward", "200 x x[i], x[i:], x[index]: forward", "us/op", MICRO),
    Row("indexing", "backward", "200 x x[i], x[i:], x[index]: backward", "us/op", MICRO),
    Row("views", "forward", "1000 views (view, transpose, (un)squeeze): forward", "us/op", MICRO),
    Row("views", "backward", "1000 views (view, transpose, (un)squeeze): backward", "us/op", MICRO),
    Row("long_graph", "build", "graph of 100,000 nodes: build", "ms", MILLI),
    Row("long_graph", "backward", "graph of 100,000 nodes: backward", "ms", MILLI),
    Row("long_graph", "free", "graph of 100,000 nodes: free, never run backward", "ms", MILLI),
    *(Row(program, "step", f"{title}: training step", "ms", MILLI) for program, title in TRAINING),
)
