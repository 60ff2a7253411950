"""Exported ONNX models compute what their modules do, as onnxruntime runs them.

Run by `make conformance`, whose environment has onnx and onnxruntime (the extra `conformance`).
"""

from __future__ import annotations

import numpy as np
import pytest

import gradloom as gl
from gradloom import nn
from gradloom.nn import functional as F
from gradloom.utils._pytree import tree_leaves

pytest.importorskip("onnx", reason="make conformance installs onnx and onnxruntime")
onnxruntime = pytest.importorskip("onnxruntime", reason="make conformance installs onnx and onnxruntime")
onnx = gl.onnx
TOKENS, IMAGE, INDEX = (2, 5, 8), (2, 3, 8, 8), gl.tensor([[0, 1]])


class Residual(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.first, self.norm = nn.Conv2d(channels, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels)
        self.second = nn.Conv2d(channels, channels, 1)

    def forward(self, x):
        return F.relu(self.second(F.relu(self.norm(self.first(x)), inplace=True)) + x)


def resnet():
    stem = [nn.Conv2d(3, 4, 3, stride=2, padding=1), nn.MaxPool2d(3, 2, 1)]
    return nn.Sequential(*stem, Residual(4), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3))


def encoder():
    return nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, activation="gelu"), 2)


MODULES = {
    "mlp": (lambda: nn.Sequential(nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 2)), TOKENS),
    "resnet": (resnet, IMAGE),
    "encoder": (encoder, TOKENS),
    "lstm": (lambda: nn.LSTM(8, 4, 2, bidirectional=True), TOKENS),
    "gru": (lambda: nn.GRU(8, 4, 2, batch_first=True), TOKENS),
    "rnn": (lambda: nn.RNN(8, 4, nonlinearity="relu"), TOKENS),
    "cell": (lambda: nn.LSTMCell(8, 4), (5, 8)),
    **{
        repr(module): (lambda module=module: module, IMAGE)
        for module in (
            nn.Conv2d(3, 6, 3, padding=1, stride=2, groups=3, dilation=2),
            nn.ConvTranspose2d(3, 4, 3, stride=2, output_padding=1),
            nn.BatchNorm2d(3, affine=False),
            nn.MaxPool2d(3, 2, 1, ceil_mode=True),
            nn.AvgPool2d(3, 2, 1, count_include_pad=False),
            nn.AdaptiveAvgPool2d(4),
            nn.AdaptiveMaxPool2d(2),
            nn.InstanceNorm2d(3, affine=True),
            nn.GroupNorm(3, 3),
            nn.LayerNorm(8, elementwise_affine=False),
            nn.RMSNorm(8),
            nn.LocalResponseNorm(2),
            nn.Upsample(scale_factor=2, mode="bilinear"),
            nn.Upsample(size=5, mode="bilinear", align_corners=True),
            nn.Upsample(size=13, mode="bicubic"),
            nn.Upsample(size=13),
            nn.PReLU(3),
            *(nn.ReflectionPad2d(1), nn.ReplicationPad2d(1), nn.ZeroPad2d(1), nn.GLU(2), nn.Hardswish(), nn.SELU()),
            *(nn.Softplus(), nn.Mish(), nn.GELU("tanh"), nn.LogSigmoid(), nn.Softshrink(), nn.LogSoftmax(1)),
        )
    },
}
CALLS = """
x.mean(1, keepdim=True) | x.sum((0, 1)) | x.max(1) | x.argmax() | x.var(1) | x.std() | x.norm(dim=1) | x.prod(1)
torch.logsumexp(x, 1) | x.cumsum(1) | (x > 0).all(1) | x.any() | x.topk(2) | x.sort(1) | x.amin((0, 2))
x[:, 1:3] | x[..., ::2] | x[:, index] | x[x > 0] | x[index[0], index[0]] | x.flip(1) | x.roll(1, 1) | x.triu()
x[:, -1] | x.gather(1, index[:, :, None]) | x.index_select(1, index[0]) | x.scatter(1, index[:, :, None], x)
x.repeat(2, 1, 1)
torch.where(x > 0, x, -x) | torch.cat([x, x], 1) | torch.stack([x, x]) | x.chunk(2, 2) | x.split(2, 1) | x.unbind(1)
x.permute(2, 0, 1) | x.reshape(2, -1) | x.squeeze() | x.expand(3, 2, 5, 8) | x.repeat_interleave(2, 1)
x.masked_fill(x > 0, 1.0) | x.clamp(0, 1) | x**0.5 | 2**x | x % 2 | x // 2 | x.long() // 2 | x.long() % 3 | 1 - x
x.to(torch.float64) | torch.bmm(x, x.mT) | torch.einsum("bij,bkj->bik", x, x) | torch.lerp(x, x, 0.5) | x.rsqrt()
x.trunc() | x.round() | x.log1p() | x.exp2() | x.frac() | x.nan_to_num() | x.isnan() | torch.hypot(x, x) | x.add_(1)
torch.zeros_like(x) + torch.arange(8) | F.one_hot(index, 3) | F.normalize(x) | x.eq(x) & x.ne(0) | torch.full((2,), 1.0)
F.scaled_dot_product_attention(x, x, x, is_causal=True) | F.embedding(index, x[0])
F.pixel_shuffle(x.view(1, 4, 2, 10), 2) | F.pixel_unshuffle(x.view(1, 1, 8, 10), 2)
torch.fmod(x, 2) | ~index | ~(x > 0) | (x > 0).logical_xor(x < 1) | x.clamp_max(1) | F.hardtanh(x)
F.hardtanh(x, -2, 0) | torch.addcmul(x, x, x, value=2) | torch.addcdiv(x, x, x.exp()) | x.abs().log2()
x.abs().log10() | x.expm1() | x.square() | F.silu(x) | F.celu(x, 0.5) | F.leaky_relu(x, 0.1) | F.hardsigmoid(x)
F.threshold(x, 0.5, 2.0) | F.hardshrink(x) | torch.baddbmm(x, x, torch.ones(2, 8, 8), beta=0.5, alpha=2)
x.scatter_add(1, index[:, :, None], x) | x.new_zeros(2) + x[0, 0, 0] | x.new_full((2,), 3.0) * x[0, 0, 0]
torch.scalar_tensor(2.0) * x | x.clone().fill_(2.0) | x.clone().copy_(x[0])
"""


def same_results(model, example, others=(), **options):
    program = onnx.export(model, example, **options)
    session = onnxruntime.InferenceSession(program.model_proto.SerializeToString())
    names = [value.name for value in session.get_inputs()]
    for args in (example, *others):
        found = session.run(None, {name: x.numpy() for name, x in zip(names, args, strict=False)})
        with gl.no_grad():
            expected = [value.numpy() for value in tree_leaves(model(*[x.clone() for x in args]))]
        for ours, theirs in zip(expected, found, strict=True):
            assert ours.dtype == theirs.dtype
            np.testing.assert_allclose(theirs, ours, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", MODULES)
def test_modules(name):
    gl.manual_seed(0)
    make, shape = MODULES[name]
    same_results(make().eval(), (gl.randn(shape),))


@pytest.mark.parametrize("call", [part.strip() for line in CALLS.strip().split("\n") for part in line.split(" | ")])
def test_functions(call):
    gl.manual_seed(0)
    names = {"torch": gl, "F": F, "index": INDEX}
    same_results(lambda x: eval(call, {**names, "x": x}), (gl.randn(TOKENS),))


@pytest.mark.parametrize(
    ("make", "shape", "other", "dynamic"),
    [
        (lambda: nn.Sequential(nn.Linear(8, 4), nn.ReLU()), TOKENS, (4, 7, 8), {0: "batch", 1: "time"}),
        (encoder, TOKENS, (4, 7, 8), {0: "batch", 1: "time"}),
        (lambda: nn.LSTM(8, 4, 2, batch_first=True, bidirectional=True), TOKENS, (4, 7, 8), {0: "batch", 1: "time"}),
        (resnet, IMAGE, (5, 3, 10, 12), {0: "batch", 2: "height", 3: "width"}),
        (lambda: nn.GroupNorm(3, 3), IMAGE, (5, 3, 8, 8), {0: "batch"}),
    ],
    ids=["mlp", "encoder", "lstm", "resnet", "group_norm"],
)
def test_dynamic_sizes(make, shape, other, dynamic):
    gl.manual_seed(0)
    same_results(make().eval(), (gl.randn(shape),), [(gl.randn(other),)], dynamic_shapes=(dynamic,))


def test_names_and_state(tmp_path):
    model = nn.Sequential(nn.Linear(3, 2), nn.Dropout())
    path = tmp_path / "model.onnx"
    program = onnx.export(
        model,
        gl.ones(1, 3),
        path,
        input_names=["x"],
        output_names=["y"],
        dynamic_axes={"x": {0: "batch"}},
        opset_version=20,
    )
    graph = program.model_proto.graph
    assert [value.name for value in (*graph.input, *graph.output)] == ["x", "y"]
    assert {"0.weight", "0.bias"} <= {value.name for value in graph.initializer}
    sizes = [[d.dim_param or d.dim_value for d in v.type.tensor_type.shape.dim] for v in (*graph.input, *graph.output)]
    assert sizes == [["batch", 3], ["batch", 2]]
    assert model.training and path.read_bytes() == program.model_proto.SerializeToString()
    assert onnxruntime.InferenceSession(path).run(None, {"x": np.ones((4, 3), np.float32)})[0].shape == (4, 2)


def test_errors_name_all_operators_and_what_is_not_supported():
    with pytest.raises(onnx.UnsupportedOperatorError, match="aten::atan2, aten::median"):
        onnx.export(lambda x: gl.atan2(x, x).median(), gl.ones(2, 2))
    with pytest.raises(onnx.OnnxExporterError, match="write to a view"):
        onnx.export(lambda x: x.sin()[0].add_(1), gl.ones(2, 2))
    with pytest.raises(onnx.OnnxExporterError, match="dynamic"):
        onnx.export(lambda x: x.roll(1), gl.ones(2, 2), dynamic_axes={"x": [0]})
    with pytest.raises(onnx.OnnxExporterError, match="other operators for other sizes"):
        onnx.export(lambda x: x.sin() if x.shape[0] == 2 else x.cos(), gl.ones(2, 2), dynamic_axes={"x": [0]})
    with pytest.raises(ValueError, match="opset_version must be between 18"):
        onnx.export(nn.Linear(1, 1), gl.ones(1), opset_version=9)
