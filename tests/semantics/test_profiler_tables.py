"""Averages and tables of events, of a profile and of events made by hand."""

from __future__ import annotations

import re

import pytest


def by_hand(torch, **options):
    """A list of events with a tree: two blocks, one of which has two children, of which one has a child."""
    util = torch.autograd.profiler_util
    rows = [
        ("outer", 0, 1000, 1, [], 96, ["a.py(3): f", "a.py(9): main"]),
        ("aten::add", 10, 310, 0, [[2, 3], [2, 3]], 48, ["a.py(4): f", "a.py(9): main"]),
        ("aten::copy_", 20, 60, 0, [[2, 3]], 0, []),
        ("aten::add", 400, 700, 0, [[4], [4]], 48, ["b.py(1): g"]),
        ("aten::a_name_that_is_rather_long_for_a_column_of_names", 1200, 2_501_200, 0, [], -3_000_000, []),
    ]
    events = util.EventList(
        [
            util.FunctionEvent(
                id=number,
                name=name,
                thread=1,
                start_us=start,
                end_us=end,
                scope=scope,
                input_shapes=shapes,
                cpu_memory_usage=memory,
                stack=stack,
                overload_name="",
                flops=2000 * number,
                trace_name=name,
                fwd_thread=0,
            )
            for number, (name, start, end, scope, shapes, memory, stack) in enumerate(rows)
        ],
        **options,
    )
    for event in events:
        event.scope = 0
    events._build_tree()
    return events


def test_events_lie_in_the_shortest_event_around_them(torch):
    outer, first, copied, second, last = by_hand(torch)
    assert outer.cpu_children == [first, second] and first.cpu_children == [copied]
    assert copied.cpu_parent is first and last.cpu_parent is None
    assert outer.self_cpu_time_total == 400 and first.self_cpu_time_total == 260
    assert first.self_cpu_memory_usage == 48 and outer.self_cpu_memory_usage == 0


def test_overlapping_events_and_other_threads_are_no_children(torch):
    util = torch.autograd.profiler_util

    def event(number, start, end, thread=1):
        return util.FunctionEvent(number, f"event {number}", thread, start, end, fwd_thread=0)

    events = util.EventList([event(0, 0, 10), event(1, 5, 15), event(2, 2, 4, thread=2)])
    events._build_tree()
    assert [found.cpu_parent for found in events] == [None] * 3


def test_a_call_that_only_passes_on_under_its_own_name_is_merged(torch):
    util = torch.autograd.profiler_util
    events = util.EventList(
        [util.FunctionEvent(n, "same", 1, n, 20 - n, fwd_thread=0) for n in range(3)]
        + [util.FunctionEvent(3, "other", 1, 5, 6, fwd_thread=0)]
    )
    events._build_tree()
    assert [event.name for event in events] == ["same", "other"]
    assert events[1].cpu_parent is events[0] and events[0].cpu_children == [events[1]]


def test_averages_add_up_the_events_of_a_name(torch):
    averages = {average.key: average for average in by_hand(torch).key_averages()}
    add = averages["aten::add"]
    assert (add.count, add.cpu_time_total, add.self_cpu_time_total, add.cpu_time) == (2, 600, 560, 300)
    assert (add.cpu_memory_usage, add.self_cpu_memory_usage, add.flops) == (96, 96, 8000)
    assert add.cpu_time_str == "300.000us" and add.input_shapes == "" and add.stack == []
    assert averages["outer"].cpu_time_total_str == "1.000ms"


def test_averages_by_shape_and_by_stack(torch):
    events = by_hand(torch)
    shapes = [
        average.input_shapes
        for average in events.key_averages(group_by_input_shapes=True)
        if average.key == "aten::add"
    ]
    assert shapes == [[[2, 3], [2, 3]], [[4], [4]]]
    stacks = [average.stack for average in events.key_averages(group_by_stack_n=1) if average.key == "aten::add"]
    assert stacks == [["a.py(4): f"], ["b.py(1): g"]]


@pytest.mark.since("2.15")
def test_averages_leave_out_python_functions(torch):
    util = torch.autograd.profiler_util
    made = [
        util.FunctionEvent(n, f"f{n}", 1, n, n + 1, stack=[], is_python_function=n == 1, typed_metadata={"n": n})
        for n in (0, 1)
    ]
    events = util.EventList(made)
    events._build_tree()
    assert [average.key for average in events.key_averages()] == ["f0"]
    assert [average.key for average in events.key_averages(include_python_functions=True)] == ["f0", "f1"]
    assert [event.metadata for event in made] == [{"n": 0}, {"n": 1}]
    config = torch.profiler.ProfilerActivityConfig(activity_types=["cpu_op"])
    assert torch.profiler.profile(activities=[{torch.profiler.ProfilerActivity.CPU: config}]).activities
    assert config == torch.profiler.ProfilerActivityConfig(["cpu_op"], [])


def test_averages_need_a_tree(torch):
    with pytest.raises(AssertionError, match="Expected tree to be built"):
        torch.autograd.profiler_util.EventList([]).key_averages()


def test_the_total_is_an_average_of_all(torch):
    total = by_hand(torch).total_average()
    assert (total.key, total.count) == ("Total", 5)
    assert total.self_cpu_time_total == 2_501_000


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"sort_by": "self_cpu_time_total"},
        {"sort_by": "count", "row_limit": 2},
        {"row_limit": -1},
        {"max_name_column_width": 20},
        {"max_name_column_width": None},
        {"max_shapes_column_width": 10},
        {"header": "A header"},
        {"top_level_events_only": True},
        {"time_unit": "s"},
        {"time_unit": "ms"},
        {"sort_by": "cpu_memory_usage", "time_unit": "us"},
        {"sort_by": "cuda_time_total"},
    ],
    ids=str,
)
@pytest.mark.parametrize("of", ["events", "averages", "by shape"])
@pytest.mark.parametrize("memory", [False, True], ids=["times", "memory"])
def test_tables_are_pytorchs(gradloom, options, of, memory):
    torch = pytest.importorskip("torch")

    def table(library):
        events = by_hand(library, profile_memory=memory)
        for event in events:
            event.stack = []
        if of != "events":
            events = events.key_averages(group_by_input_shapes=of == "by shape")
        return events.table(**options)

    assert table(gradloom) == table(torch)


def test_tables_of_operations_are_pytorchs(gradloom):
    torch = pytest.importorskip("torch")

    def table(library):
        events = by_hand(library, with_flops=True)
        for event in events:
            event.stack = []
        return events.key_averages().table()

    assert table(gradloom) == table(torch)
    assert "Total KFLOPs" in table(gradloom)


def test_tables_of_stacks_are_pytorchs(gradloom):
    torch = pytest.importorskip("torch")

    def table(library, **options):
        return by_hand(library).key_averages(group_by_stack_n=2).table(**options)

    assert table(gradloom) == table(torch)
    assert table(gradloom, max_src_column_width=9) == table(torch, max_src_column_width=9)


def test_a_table_of_nothing_is_empty(torch):
    assert torch.autograd.profiler_util.EventList([]).table() == ""


def test_an_attribute_that_events_lack_cannot_sort_them(torch):
    with pytest.raises(AttributeError, match="nonsense"):
        by_hand(torch).table(sort_by="nonsense")


def test_a_profile_has_rows_for_its_names(torch):
    x = torch.ones(4, 4)
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True, profile_memory=True
    ) as prof:
        for _ in range(3):
            x.exp()
        x[0].exp()
    rows = {average.key: average for average in prof.key_averages()}
    assert rows["aten::exp"].count == 4
    assert rows["aten::exp"].self_cpu_memory_usage == 3 * 64 + 16
    by_shape = {
        str(average.input_shapes): average.count
        for average in prof.key_averages(group_by_input_shape=True)
        if average.key == "aten::exp"
    }
    assert by_shape == {"[[4, 4]]": 3, "[[4]]": 1}
    text = prof.key_averages(group_by_input_shape=True).table(sort_by="count", row_limit=2)
    assert re.search(r"aten::exp +\S+% .* 192 B +192 B +3 +\[\[4, 4\]\]", text)


def test_stacks_are_written_for_flame_graphs(torch, tmp_path):
    path = tmp_path / "stacks.txt"
    by_hand(torch).export_stacks(str(path), "self_cpu_time_total")
    assert path.read_text().splitlines() == [
        "a.py(9):_main;a.py(3):_f 400",
        "a.py(9):_main;a.py(4):_f 260",
        "b.py(1):_g 300",
    ]
    with pytest.raises(ValueError, match="metric should be one of"):
        by_hand(torch).export_stacks(str(path), "nonsense")


def test_stacks_are_only_written_where_they_were_kept(torch, tmp_path):
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as prof:
        torch.ones(2)
    with pytest.raises(AssertionError, match="requires with_stack=True"):
        prof.export_stacks(str(tmp_path / "stacks.txt"))


def test_units_are_checked(gradloom):
    with pytest.raises(ValueError, match="time_unit must be 's', 'ms' or 'us', but got 'h'"):
        by_hand(gradloom).table(time_unit="h")


def test_averages_take_in_their_own_name_only(torch):
    events = by_hand(torch)
    average = torch.autograd.profiler_util.FunctionEventAvg()
    average += events[0]
    with pytest.raises(AssertionError):
        average += events[1]
