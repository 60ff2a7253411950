"""Traces: JSON that chrome://tracing and Perfetto open, with arrows from forward calls to their nodes."""

from __future__ import annotations

import gzip
import json
import os

import pytest


def trained(torch, path, **options):
    """The trace of a training step."""
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.ReLU(), torch.nn.Linear(5, 2))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    x = torch.randn(3, 4)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], **options) as prof:
        with torch.profiler.record_function("forward"):
            loss = net(x).sum()
        loss.backward()
        optimizer.step()
        prof.add_metadata("experiment", "first")
        prof.add_metadata_json("numbers", "[1, 2]")
    prof.export_chrome_trace(str(path))
    return json.loads(path.read_text())


def of_phase(trace, phase, category=None):
    return [
        event
        for event in trace["traceEvents"]
        if event["ph"] == phase and (category is None or event.get("cat") == category)
    ]


def test_a_trace_names_what_ran(torch, tmp_path):
    trace = trained(torch, tmp_path / "trace.json")
    operators = [event["name"] for event in of_phase(trace, "X", "cpu_op")]
    for name in (
        "aten::linear",
        "aten::addmm",
        "aten::relu",
        "AddmmBackward0",
        "autograd::engine::evaluate_function: AddmmBackward0",
        "torch::autograd::AccumulateGrad",
    ):
        assert name in operators
    assert [event["name"] for event in of_phase(trace, "X", "user_annotation")] == [
        "forward",
        "Optimizer.step#SGD.step",
    ]


def test_events_have_what_viewers_need(torch, tmp_path):
    trace = trained(torch, tmp_path / "trace.json")
    assert trace["schemaVersion"] == 1 and trace["displayTimeUnit"] == "ms"
    for event in trace["traceEvents"]:
        assert isinstance(event["name"], str) and event["ph"] in "XMsfi"
        assert isinstance(event["ts"], (int, float))
        if event["ph"] == "X":
            assert event["dur"] >= 0
        if event.get("cat") == "cpu_op":
            assert event["pid"] == os.getpid() and isinstance(event["tid"], int)
            assert isinstance(event["args"], dict)
    assert {event["name"] for event in of_phase(trace, "M")} >= {"process_name", "thread_name"}


def test_complete_events_of_a_thread_nest(torch, tmp_path):
    trace = trained(torch, tmp_path / "trace.json")
    events = of_phase(trace, "X", "cpu_op") + of_phase(trace, "X", "user_annotation")
    running = []
    for event in sorted(events, key=lambda e: (e["ts"], -e["dur"])):
        while running and running[-1] <= event["ts"]:
            running.pop()
        end = event["ts"] + event["dur"]
        assert not running or end <= running[-1] + 1e-3
        running.append(end)


def test_arrows_lead_from_forward_calls_to_their_nodes(torch, tmp_path):
    trace = trained(torch, tmp_path / "trace.json")
    starts = {event["id"]: event for event in of_phase(trace, "s", "fwdbwd")}
    ends = {event["id"]: event for event in of_phase(trace, "f", "fwdbwd")}
    assert starts.keys() == ends.keys() and all(end["bp"] == "e" for end in ends.values())
    at = {}
    for event in of_phase(trace, "X", "cpu_op"):
        at.setdefault(event["ts"], event)
    arrows = [(at[starts[i]["ts"]], at[ends[i]["ts"]]) for i in starts]
    assert sorted((start["name"], end["name"]) for start, end in arrows) == sorted(
        [
            ("aten::t", "TBackward0"),
            ("aten::addmm", "AddmmBackward0"),
            ("aten::relu", "ReluBackward0"),
            ("aten::t", "TBackward0"),
            ("aten::addmm", "AddmmBackward0"),
            ("aten::sum", "SumBackward0"),
        ]
    )
    for start, end in arrows:
        assert start["args"]["Sequence number"] == end["args"]["Sequence number"]
        assert start["ts"] < end["ts"]


def test_a_trace_has_the_shapes_that_were_kept(torch, tmp_path):
    trace = trained(torch, tmp_path / "trace.json", record_shapes=True)
    addmm = next(event for event in of_phase(trace, "X", "cpu_op") if event["name"] == "aten::addmm")
    args = addmm["args"]
    assert args["Input Dims"] == [[5], [3, 4], [4, 5], [], []]
    assert args["Input type"] == ["float", "float", "float", "Scalar", "Scalar"]
    assert args["Concrete Inputs"] == ["", "", "", "1", "1"]
    assert args["Input Strides"] == [[1], [4, 1], [1, 4], [], []]
    assert trace["record_shapes"] == 1


def test_a_trace_has_the_memory_in_use(torch, tmp_path):
    trace = trained(torch, tmp_path / "trace.json", profile_memory=True)
    changes = of_phase(trace, "i", "cpu_instant_event")
    assert changes and all(event["name"] == "[memory]" for event in changes)
    total = changes[0]["args"]["Total Allocated"] - changes[0]["args"]["Bytes"]
    for event in sorted(changes, key=lambda e: e["ts"]):
        total += event["args"]["Bytes"]
        assert event["args"]["Total Allocated"] == total and event["args"]["Addr"] > 0
    assert {event["args"]["Bytes"] for event in changes} >= {60, -60}


def test_metadata_is_written(torch, tmp_path):
    trace = trained(torch, tmp_path / "trace.json")
    assert trace["experiment"] == "first" and trace["numbers"] == [1, 2]
    assert trace["trace_id"]


def test_names_may_have_any_characters(gradloom, tmp_path):
    path = tmp_path / "trace.json"
    with gradloom.profiler.profile() as prof, gradloom.profiler.record_function("gradient ∂L/∂x, tab"):
        gradloom.ones(2)
    prof.export_chrome_trace(str(path))
    names = [event["name"] for event in json.loads(path.read_text(encoding="utf-8"))["traceEvents"]]
    assert "gradient ∂L/∂x, tab" in names


def test_a_node_that_runs_twice_has_two_arrows(gradloom, tmp_path):
    path = tmp_path / "trace.json"
    x = gradloom.ones(3, requires_grad=True)
    with gradloom.profiler.profile() as prof:
        y = x.exp().sum()
        y.backward(retain_graph=True)
        y.backward()
    prof.export_chrome_trace(path)
    trace = json.loads(path.read_text())
    assert len(of_phase(trace, "s", "fwdbwd")) == len(of_phase(trace, "f", "fwdbwd")) == 4


def test_traces_can_be_compressed(torch, tmp_path):
    path = tmp_path / "trace.json.gz"
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as prof:
        torch.ones(2)
    prof.export_chrome_trace(str(path))
    with gzip.open(path, "rt") as file:
        assert "aten::ones" in [event["name"] for event in json.load(file)["traceEvents"]]


@pytest.mark.parametrize("compressed", [False, True])
def test_each_cycle_can_be_written_for_tensorboard(torch, tmp_path, compressed):
    folder = tmp_path / "logs"
    handler = torch.profiler.tensorboard_trace_handler(str(folder), worker_name="me", use_gzip=compressed)
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU],
        on_trace_ready=handler,
        schedule=torch.profiler.schedule(wait=0, warmup=1, active=1, repeat=2),
    ) as prof:
        for _ in range(4):
            torch.ones(2)
            prof.step()
    names = sorted(os.listdir(folder))
    assert len(names) == 2
    ending = ".pt.trace.json.gz" if compressed else ".pt.trace.json"
    assert all(name.startswith("me.") and name.endswith(ending) for name in names)


def test_lists_of_events_write_traces_themselves(torch, tmp_path):
    path = tmp_path / "trace.json"
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as prof:
        torch.ones(2).exp()
    prof.events().export_chrome_trace(str(path))
    trace = json.loads(path.read_text())
    events = trace["traceEvents"] if isinstance(trace, dict) else trace
    assert "aten::exp" in [event["name"] for event in events]
