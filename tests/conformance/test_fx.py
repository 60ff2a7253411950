"""Symbolic traces of the modules of PyTorch's database, and of functions of proxies: the same graphs and code."""

from __future__ import annotations

import warnings
from importlib import import_module

import pytest
import torch
from torch.testing._internal.common_modules import module_db

import gradloom
from tests.releases import pytorch_before

# Modules that are not traced alike, and why.
DIFFERENT = {
    # Neither can be traced: the condition that fails first is another one.
    "ConvTranspose1d",
    "ConvTranspose2d",
    "ConvTranspose3d",
    "LazyConvTranspose1d",
    "LazyConvTranspose2d",
    "LazyConvTranspose3d",
    "TransformerEncoderLayer",
    "CTCLoss",  # the annotations of two parameters
    "Threshold",  # torch.nn.functional._threshold, a second name
}
CALLS = """
torch.cat([x, x], 1) | F.linear(x, t) | F.gelu(x) | F.dropout(x, 0.5) | F.softmax(x, 1) | F.max_pool2d(x, 2)
F.max_pool2d(x, 2, return_indices=True) | F.avg_pool2d(x, 2) | F.adaptive_avg_pool2d(x, 1) | F.conv2d(x, t)
F.layer_norm(x, (2,)) | F.batch_norm(x, t, t) | F.cross_entropy(x, x) | F.interpolate(x, scale_factor=2)
F.pad(x, (1, 1)) | F.embedding(x, t) | F.scaled_dot_product_attention(x, x, x) | F.one_hot(x) | F.normalize(x)
torch.einsum("ij->ji", x) | torch.sum(x, dim=1) | torch.where(x, x, x) | torch.split(x, 2)
torch.split(x, [1], dim=1) | torch.chunk(x, 2) | torch.norm(x) | torch.linalg.norm(x) | torch.fft.fft(x)
torch.special.erf(x) | torch.meshgrid(x, x) | torch.tensordot(x, x) | F.silu(x) | F.tanh(x) | F.sigmoid(x)
torch._assert(x, "m") | torch.ops.aten.add(x, 1) | torch.ops.aten.relu.default(x) | torch.unique(x)
F.upsample(x, 2) | F.upsample_bilinear(x, 2) | F.l1_loss(x, x) | torch.unravel_index(x, (2, 2))
torch.chain_matmul(x, x) | F.logsigmoid(x) | F.cosine_similarity(x, x) | t + x | t - x | t @ x | t[x] | t.add(x)
torch.mul(t, x) | t == x | t < x | t**x | 1 - x | t.copy_(x) | torch.Tensor.add(t, x) | x.foo.bar(1)
x[0:2, None, ...] | x.shape | x.to("cpu", dtype=torch.int64) | x.device | torch.clamp(x, min=0)
torch.max(x, dim=1)[0] | torch.topk(x, k=2) | torch.var(x) | torch.linalg.multi_dot([x, x])
torch.nn.utils.rnn.pad_sequence([x, x]) | torch.triu(x) | torch.addmm(x, x, x) | torch.std_mean(x) | torch.sort(x)
"""


def traced(library, name: str, args, kwargs) -> str:
    fx = import_module(f"{library.__name__}.fx")
    module = getattr(library.nn, name)(*args, **kwargs)
    try:
        made = fx.symbolic_trace(module)
        return f"{made.code}\n{made.graph}"
    except Exception as error:
        return f"{type(error).__name__}: {str(error).replace('gradloom', 'torch')}"


def inputs(info):
    """The constructor's arguments in the samples of a module, without those that belong to one library."""
    made = info.module_inputs_func(info, device="cpu", dtype=torch.float32, requires_grad=False, training=True)
    for sample in made:
        args, kwargs = sample.constructor_input.args, sample.constructor_input.kwargs
        theirs = (torch.Tensor, torch.nn.Module, torch.dtype)
        if not any(isinstance(value, theirs) for value in (*args, *kwargs.values())) and "device" not in kwargs:
            yield args, kwargs


if pytorch_before("2.15"):  # whose code has `X | Y` where newer releases have Union
    DIFFERENT |= {"GaussianNLLLoss", "TransformerDecoderLayer"}


@pytest.mark.parametrize("name", sorted({info.module_cls.__name__ for info in module_db} - DIFFERENT))
def test_modules_are_traced_alike(name):
    infos = [info for info in module_db if info.module_cls.__name__ == name]
    if not hasattr(gradloom.nn, name):
        pytest.skip(f"gradloom has no nn.{name}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for info in infos:
            for args, kwargs in inputs(info):
                assert traced(gradloom, name, args, kwargs) == traced(torch, name, args, kwargs), (args, kwargs)


def recorded(library, call: str) -> str:
    fx = import_module(f"{library.__name__}.fx")
    graph = fx.Graph()
    names = {
        "torch": library,
        "F": library.nn.functional,
        "t": library.ones(2, 2),
        "x": fx.Proxy(graph.placeholder("x")),
    }
    eval(call, names)
    return "\n".join(f"{node.name} {node.format_node()}" for node in graph.nodes)


@pytest.mark.parametrize("call", [part.strip() for line in CALLS.strip().split("\n") for part in line.split(" | ")])
@pytest.mark.filterwarnings("ignore:`nn.functional.upsample")
def test_calls_are_recorded_alike(call):
    assert recorded(gradloom, call) == recorded(torch, call)
