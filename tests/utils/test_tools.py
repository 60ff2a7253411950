"""Tools for programs: benchmarks, weak dictionaries, locks, logs. The tests run with PyTorch, too."""

import gc
import logging
import re
import threading
from importlib import import_module
from importlib.util import find_spec

import pytest


@pytest.fixture(params=[name for name in ("gradloom", "torch") if find_spec(name)])
def torch(request):
    return import_module(request.param)


def tool(torch, name):
    return import_module(f"{torch.__name__}.utils.{name}")


def measured(torch, times, number=1, **options):
    benchmark = tool(torch, "benchmark")
    return benchmark.Measurement(number, times, benchmark.TaskSpec("x + 1", "pass", **options))


def samples(torch):
    small = measured(torch, [1e-5, 1.1e-5, 1.2e-5, 1.05e-5, 1.3e-5], label="add", sub_label="small", description="A")
    large = measured(torch, [2e-4, 2.1e-4, 2.2e-4, 2.0e-4, 9e-4], label="add", sub_label="large", description="A")
    other = {"label": "add", "sub_label": "large", "description": "longer name", "num_threads": 2}
    return [small, large, measured(torch, [3e-5, 3.1e-5, 3.2e-5, 3.0e-5], 2, **other)]


def test_a_measurement_knows_how_certain_it_is(torch):
    small, large, threaded = samples(torch)
    assert small.median == 1.1e-5 and small.mean == pytest.approx(1.13e-5) and small.iqr == pytest.approx(1.5e-6)
    assert threaded.times[0] == 1.5e-5 and threaded.number_per_run == 2 and threaded.num_threads == 2
    assert (small.significant_figures, large.significant_figures) == (1, 1)
    assert small.has_warnings and not threaded.has_warnings and threaded.meets_confidence()
    assert (small.title, small.as_row_name, small.label) == ("add: small", "small", "add")
    merged = tool(torch, "benchmark").Measurement.merge([small, large, small])
    assert [len(one.times) for one in merged] == [10, 5]
    text = repr(small).splitlines()
    assert text[1:5] == [
        "add: small", "A", "  Median: 11.00 us", "  IQR:    1.50 us (10.50 to 12.00)"
    ]  # fmt: skip
    assert text[5] == "  5 measurements, 1 runs per measurement, 1 thread" and "13.6% of the median" in text[6]


def test_a_table_compares_measurements(torch):
    table = tool(torch, "benchmark").Compare(samples(torch))
    assert str(table).splitlines() == [
        "[--------------- add ---------------]",
        "             |    A    |  longer name",
        "1 threads: --------------------------",
        "      small  |   11.0  |             ",
        "      large  |  210.0  |             ",
        "2 threads: --------------------------",
        "      large  |         |      15.3   ",
        "",
        "Times are in microseconds (us).",
    ]
    table.trim_significant_figures()
    table.highlight_warnings()
    assert "      small  |   10 (! 14%)  |" in str(table) and "(! XX%) Measurement has high variance" in str(table)
    table.colorize()
    assert "\033[92m\033[1m" in str(table) and "\033[31m\033[1m" in str(table)
    with pytest.raises(ValueError, match="Expected an instance of `Measurement`"):
        table.extend_results([3])


def test_units_and_figures(torch):
    benchmark = tool(torch, "benchmark")
    assert benchmark.select_unit(1e-5) == ("us", 1e-6) and benchmark.select_unit(3.0) == ("s", 1)
    assert benchmark.trim_sigfig(123456.0, 3) == 123000 and benchmark.unit_to_english("ns") == "nanosecond"
    assert benchmark.ordered_unique([2, 1, 2]) == [2, 1]


def test_a_timer_calls_a_statement(torch):
    benchmark, calls = tool(torch, "benchmark"), []
    timer = benchmark.Timer("f(torch.ones(2))", globals={"f": calls.append}, label="append")
    found = timer.timeit(10)
    assert len(calls) == 12 and found.number_per_run == 10 and len(found.raw_times) == 1 and found.label == "append"
    found = timer.blocked_autorange(min_run_time=0.01)
    assert sum(found.raw_times) >= 0.01 and len(str(found.number_per_run).strip("0")) == 1
    assert len(timer.adaptive_autorange(max_run_time=0.2).raw_times) > 3
    for arguments, message in (({"stmt": 3}, "only a `str`"), ({"language": "x"}, "Invalid language"),
                               ({"global_setup": "x"}, "global_setup is C")):  # fmt: skip
        with pytest.raises(ValueError, match=message):
            benchmark.Timer(**arguments)


def test_a_weak_dictionary_tells_tensors_by_identity(torch):
    weak = tool(torch, "weak")
    x, y = torch.ones(2), torch.ones(2)
    found = weak.WeakTensorKeyDictionary({x: 1})
    found[y] = 2
    assert found[x] == 1 and found[y] == 2 and len(found) == 2 and torch.ones(2) not in found
    assert [key is x for key in found] == [True, False] and weak.WeakIdKeyDictionary is weak.WeakTensorKeyDictionary
    assert found.copy() == found and (found | {x: 3})[x] == 3 and found.setdefault(y, 5) == 2 and found.pop(x) == 1
    reference = weak.TensorWeakRef(y)
    assert reference() is y and weak.WeakIdRef(y) == weak.WeakIdRef(y) and not (weak.WeakIdRef(x) == weak.WeakIdRef(y))
    del y
    gc.collect()
    assert reference() is None and len(found) == 0


def test_throughput_is_measured_in_threads(torch):
    module, seen = tool(torch, "throughput_benchmark"), set()

    class Module(torch.nn.Module):
        def forward(self, x, y):
            seen.add(threading.get_ident())
            return x * y

    found = module.ThroughputBenchmark(Module())
    found.add_input(torch.ones(2), y=torch.ones(2))
    assert found.run_once(torch.ones(2), torch.ones(2)).tolist() == [1, 1]
    stats = found.benchmark(num_calling_threads=2, num_warmup_iters=2, num_iters=20)
    assert stats.num_iters == 20 and stats.latency_avg_ms > 0 and stats.iters_per_second > 0
    assert str(stats).startswith("Average latency per example: ") and len(seen) >= 2
    assert module.format_time(time_us=1500.0) == "1.500ms" and module.format_time(time_s=2.0) == "2.000s"


def test_one_process_holds_a_baton(torch, tmp_path):
    baton, other = (tool(torch, "file_baton").FileBaton(str(tmp_path / "lock"), 0.01) for _ in range(2))
    assert baton.try_acquire() and not other.try_acquire()
    threading.Timer(0.05, baton.release).start()
    other.wait()
    assert other.try_acquire()
    other.release()


def test_small_tools(torch):
    function = lambda: None  # noqa: E731
    torch.utils.set_module(function, "mine")
    assert function.__module__ == "mine"
    with pytest.raises(TypeError, match="The mod argument should be a string"):
        torch.utils.set_module(function, 2)
    backcompat = tool(torch, "backcompat")
    assert not backcompat.broadcast_warning.enabled and tool(torch, "deterministic").fill_uninitialized_memory is True
    text = tool(torch, "collect_env").get_pretty_env_info() if torch.__name__ == "gradloom" else "numpy=="
    assert re.search("numpy==", text)


def test_norms_of_gradients_are_logged(caplog):
    import gradloom as torch

    x, y = torch.ones(4, requires_grad=True), torch.ones(4, requires_grad=True)
    with caplog.at_level(logging.INFO):
        tool(torch, "debug_log").debug_grad_log(x, y, torch.ones(1))
        (x * 2 + y * 3).sum().backward()
    assert caplog.messages == ["[rank 0][bwd] t0_grad_norm=4.0000 t1_grad_norm=6.0000"]
