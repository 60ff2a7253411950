"""gradloom.export, and gradloom.onnx without the package onnx; tests/conformance/test_onnx.py tests the models."""

from __future__ import annotations

import io
import sys

import pytest

import gradloom as gl
from gradloom import nn
from gradloom.export import InputKind, export, load, save


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2)
        self.register_buffer("shift", gl.tensor(0.5), persistent=False)

    def forward(self, images, scale, *, flip=False):
        x = self.norm(self.conv(images["left"])) * scale + self.shift + gl.tensor(1.0)
        return {"out": x.flip(-1) if flip else x, "sum": [x.sum()]}


def example():
    return ({"left": gl.randn(2, 1, 5, 5)}, gl.tensor(2.0)), {"flip": True}


def test_a_program_computes_and_trains_as_the_module():
    gl.manual_seed(0)
    network = Network()
    args, kwargs = example()
    program = export(network, args, kwargs)
    assert network.norm.num_batches_tracked == 0
    module = program.module()
    eager = network(*args, **kwargs)
    network.norm.reset_running_stats()
    found = module(*args, **kwargs)
    gl.testing.assert_close(found, eager)
    found["sum"][0].backward()
    assert network.conv.weight.grad is not None and module.conv.weight is network.conv.weight
    assert network.norm.num_batches_tracked == 1


def test_the_signature_names_parameters_buffers_and_arguments():
    args, kwargs = example()
    program = export(Network().eval(), args, kwargs)
    signature = program.graph_signature
    assert signature.inputs_to_parameters["p_conv_weight"] == "conv.weight"
    assert set(signature.buffers) == {f"norm.{n}" for n in ("running_mean", "running_var", "num_batches_tracked")} | {
        "shift"
    }
    assert signature.user_inputs == ("images_0", "scale", "flip")
    assert [spec.persistent for spec in signature.input_specs if spec.target == "shift"] == [False]
    assert "shift" not in program.state_dict and len(list(program.parameters())) == 4
    assert signature.input_specs[0].kind is InputKind.PARAMETER
    assert "p_conv_weight" in str(program) and "convolution" in str(program)
    with pytest.raises(RuntimeError, match="Unable to call ExportedProgram directly"):
        program(*args)


def test_a_program_is_saved_and_loaded(tmp_path):
    args, kwargs = example()
    network = Network().eval()
    expected = network(*args, **kwargs)
    for place in (tmp_path / "program.pt2", io.BytesIO()):
        save(export(network, args, kwargs), place)
        if isinstance(place, io.BytesIO):
            place.seek(0)
        gl.testing.assert_close(load(place).module()(*args, **kwargs), expected)


def test_decompositions_replace_operators():
    program = export(nn.SiLU(), (gl.ones(2),))
    found = program.run_decompositions({gl.ops.aten.silu.default: lambda x: x * x.sigmoid()})
    assert [node.name for node in found.graph.nodes] == ["input_1", "sigmoid", "mul", "output"]
    assert gl.equal(found.module()(gl.ones(2)), program.module()(gl.ones(2)))


def test_what_a_graph_does_not_hold_for_is_refused():
    linear = nn.Linear(3, 2)
    module = export(linear, (gl.ones(1, 3),)).module()
    with pytest.raises(AssertionError, match=r"Guard failed: input_1.size\(\)\[0\] == 1"):
        module(gl.ones(4, 3))
    with pytest.raises(RuntimeError, match="input 0 of the program was exported as"):
        module(gl.ones(1, 3, dtype=gl.float64))
    with pytest.raises(ValueError, match="Trying to flatten user inputs with exported input tree spec"):
        module(gl.ones(1, 3), gl.ones(1))
    with pytest.raises(TypeError, match="instance of `torch.nn.Module`"):
        export(lambda x: x, (gl.ones(1),))


def test_onnx_names_the_extra_that_it_needs(monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ImportError, match=r"pip install 'gradloom\[onnx\]'"):
        gl.onnx.export(nn.Linear(2, 1), gl.ones(1, 2))
