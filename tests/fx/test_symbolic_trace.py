"""Traced programs compute what the programs do; their graphs can be changed. tests/semantics compares with PyTorch."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module

import pytest

import gradloom as gl
from gradloom import fx, nn
from gradloom.fx.experimental.proxy_tensor import make_fx
from gradloom.nn import functional as F
from gradloom.utils._pytree import tree_leaves


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.MaxPool2d(2))
        self.scale = nn.Parameter(gl.full((2,), 0.5))
        self.head = nn.Linear(18, 3)

    def forward(self, x):
        features = self.features(x) * self.scale.view(-1, 1, 1)
        first, second = gl.split(features, 1, dim=1)
        return F.log_softmax(self.head(gl.cat([first, second], 1).flatten(1)), dim=1)


def test_a_traced_network_computes_and_trains_as_the_network():
    gl.manual_seed(0)
    network = Network()
    x = gl.randn(2, 1, 8, 8)
    traced = fx.symbolic_trace(network)
    assert gl.equal(traced(x), network(x))
    traced(x).sum().backward()
    assert network.scale.grad is not None and traced.scale is network.scale


def test_nothing_of_the_classes_stays_patched():
    before = dict(vars(nn.Module))
    fx.symbolic_trace(Network())
    with pytest.raises(fx.proxy.TraceError):
        fx.symbolic_trace(lambda x: x if x else 0)
    assert dict(vars(nn.Module)) == before


def test_functions_check_for_proxies_only_while_there_are_some():
    code = """
import gc, gradloom as gl
from gradloom.python_dispatch.torch_function import checks
from gradloom import fx
traced = fx.symbolic_trace(lambda x: gl.relu(x))
gc.collect()
assert not checks.are_checked()
proxy = fx.Proxy(traced.graph.output_node())
assert checks.are_checked()
del proxy
gc.collect()
assert not checks.are_checked()
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)


@fx.wrap
def rounded(x, digits):
    return gl.tensor([round(value, digits) for value in x.tolist()])


fx.wrap("len")


def test_wrapped_functions_are_recorded_as_calls():
    def program(x):
        return rounded(x, 1) + len(x)

    traced = fx.symbolic_trace(program)
    assert "rounded(x, 1)" in traced.code and "len(x)" in traced.code and 'wrap("len")' in traced.code
    assert traced(gl.tensor([0.26, 1.0])).tolist() == pytest.approx([2.3, 3.0])
    assert rounded(gl.tensor([0.26]), 1).tolist() == pytest.approx([0.3])
    assert len(fx.symbolic_trace(traced).graph.nodes) == len(traced.graph.nodes)
    with pytest.raises(NotImplementedError, match="top level of a module"):
        fx.wrap("len")


def test_to_folder_writes_a_package_that_computes_the_same(tmp_path, monkeypatch):
    gl.manual_seed(0)
    traced = fx.symbolic_trace(Network().eval())
    with pytest.warns(UserWarning, match="saved as pickled files"):
        traced.to_folder(tmp_path / "traced_network", "Saved")
    monkeypatch.syspath_prepend(tmp_path)
    saved = import_module("traced_network").Saved().eval()
    x = gl.randn(1, 1, 8, 8)
    assert gl.equal(saved(x), traced(x))


def test_stacks_of_calls_are_recorded_on_request():
    class Tracer(fx.Tracer):
        record_stack_traces = True

    graph = Tracer().trace(Network())
    node = next(node for node in graph.nodes if node.op == "call_module")
    assert "in forward" in node.stack_trace and __file__ in node.stack_trace
    assert "File: " in fx.GraphModule(Network(), graph).print_readable(print_output=False)


def test_an_error_in_generated_code_shows_the_line(capsys):
    traced = fx.symbolic_trace(lambda x: x + gl.relu(x).missing())
    with pytest.raises(AttributeError, match="missing"):
        traced(gl.ones(2))
    assert "relu.missing()" in capsys.readouterr().err


def test_metadata_is_carried_through_a_transformer():
    traced = fx.symbolic_trace(lambda x: gl.relu(x) + 1)
    for node in traced.graph.nodes:
        node.meta["custom"] = {"of": node.name}
    made = fx.Transformer(traced).transform()
    assert next(n for n in made.graph.nodes if n.name == "relu").meta["custom"] == {"of": "relu"}
    with fx.traceback.preserve_node_meta(), fx.traceback.annotate({"part": 1}):
        graph = fx.Tracer().trace(lambda x: x.neg())
    assert [node.meta.get("custom") for node in graph.nodes] == [{"part": 1}] * 3


def test_normalized_arguments_have_names_and_defaults():
    traced = fx.symbolic_trace(nn.Sequential(nn.Linear(2, 2)))
    node = traced.graph.find_nodes(op="call_module")[0]
    args, kwargs = node.normalized_arguments(traced, normalize_to_only_use_kwargs=True)
    assert args == () and list(kwargs) == ["input"]
    graph = fx.Graph()
    call = graph.call_function(F.softplus, (graph.placeholder("x"),))
    found = call.normalized_arguments(None)
    assert len(found.args) == 1 and (found.kwargs["beta"], found.kwargs["threshold"]) == (1.0, 20.0)


def test_print_tabular_prints_or_names_the_package(capsys):
    graph = fx.symbolic_trace(lambda x: gl.relu(x)).graph
    try:
        graph.print_tabular()
    except ImportError:
        assert "pip install tabulate" in capsys.readouterr().out
    else:
        assert "call_function" in capsys.readouterr().out


def test_modules_keep_working_after_pickling_with_plain_pickle():
    import pickle

    module = pickle.loads(pickle.dumps(nn.Sequential(nn.Linear(2, 2))))
    assert module(gl.ones(1, 2)).shape == (1, 2)


def test_make_fx_records_operators_below_autograd():
    gl.manual_seed(0)
    linear = nn.Linear(3, 2)
    x = gl.randn(4, 3)

    def gradients(x, scale):
        loss = (linear(x["x"]).tanh() * scale[0] + gl.tensor(2.0)).sum()
        return gl.autograd.grad(loss, list(linear.parameters()))

    traced = make_fx(gradients)({"x": x}, [gl.tensor(3.0)])
    names = [node.target.name() for node in traced.graph.nodes if node.op == "call_function" and node.name != "getitem"]
    assert names[:3] == ["aten::t", "aten::addmm", "aten::tanh"] and "aten::tanh_backward" in names
    other = gl.randn(4, 3)
    arguments = {"x": other}, [gl.tensor(2.0)]
    gl.testing.assert_close(traced(*arguments), list(gradients(*arguments)))
    assert next(node for node in traced.graph.nodes if node.name == "addmm").meta["val"].shape == (4, 2)


def test_make_fx_decomposes_and_refuses():
    aten = gl.ops.aten
    table = {aten.silu.default: lambda x: x * x.sigmoid()}
    traced = make_fx(lambda x: F.silu(x), table)(gl.ones(2))
    assert [node.name for node in traced.graph.nodes] == ["x_1", "sigmoid", "mul", "output"]
    with pytest.raises(RuntimeError, match="get value out of a tracing tensor"):
        make_fx(lambda x: x * x.sum().item())(gl.ones(2))
    with pytest.raises(NotImplementedError, match="shapes of the arguments"):
        make_fx(lambda x: x, tracing_mode="symbolic")


def test_make_fx_follows_writes_and_several_results():
    def program(x):
        y = x.sin()
        y[0] += 1
        first, second = y.split(1)
        return first.add_(second), y.max(0)

    traced = make_fx(program)(gl.tensor([[1.0], [2.0]]))
    x = gl.tensor([[0.5], [1.5]])
    gl.testing.assert_close(tree_leaves(traced(x)), tree_leaves(program(x)))
