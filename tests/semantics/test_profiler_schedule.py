"""In which steps a profiler records, and when a trace is ready."""

from __future__ import annotations

import warnings

import pytest


def actions(torch, count, **cycle):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        action = torch.profiler.schedule(**cycle)
    return [action(step).name for step in range(count)]


def run(torch, steps, **options):
    """What each handed-over trace held: (number of the step then, names of blocks)."""
    ready = []

    def hand_over(prof):
        ready.append(
            (
                prof.step_num,
                [event.trace_name for event in prof.events() if event.name.startswith(("step", "ProfilerStep"))],
            )
        )

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with torch.profiler.profile(
            activities=[torch.profiler.ProfilerActivity.CPU], on_trace_ready=hand_over, **options
        ) as prof:
            for step in range(steps):
                with torch.profiler.record_function(f"step {step}"):
                    torch.ones(2).exp()
                prof.step()
    return ready, prof


def test_a_cycle_waits_warms_up_and_records(torch):
    assert actions(torch, 9, wait=1, warmup=1, active=2) == ["NONE", "WARMUP", "RECORD", "RECORD_AND_SAVE"] * 2 + [
        "NONE"
    ]


def test_cycles_end_after_their_number(torch):
    assert actions(torch, 8, wait=1, warmup=1, active=1, repeat=2) == ["NONE", "WARMUP", "RECORD_AND_SAVE"] * 2 + [
        "NONE",
        "NONE",
    ]


def test_steps_before_the_first_cycle_are_skipped(torch):
    assert actions(torch, 6, wait=1, warmup=0, active=1, skip_first=2) == [
        "NONE",
        "NONE",
        "NONE",
        "RECORD_AND_SAVE",
        "NONE",
        "RECORD_AND_SAVE",
    ]
    assert actions(torch, 5, wait=1, warmup=1, active=1, skip_first=2, skip_first_wait=1) == [
        "NONE",
        "NONE",
        "WARMUP",
        "RECORD_AND_SAVE",
        "NONE",
    ]


@pytest.mark.parametrize("wrong", [{"wait": -1}, {"warmup": -1}, {"active": 0}, {"repeat": -1}, {"skip_first": -1}])
def test_impossible_cycles_are_refused(torch, wrong):
    with pytest.raises(AssertionError, match="Invalid profiler schedule arguments"):
        torch.profiler.schedule(**{"wait": 1, "warmup": 1, "active": 1, **wrong})


def test_no_warmup_warns(torch):
    with pytest.warns(UserWarning, match="won't be using warmup"):
        torch.profiler.schedule(wait=0, warmup=0, active=1)


def test_each_cycle_hands_over_its_own_steps(torch):
    schedule = torch.profiler.schedule(wait=1, warmup=1, active=2, repeat=2)
    ready, _ = run(torch, 10, schedule=schedule)
    assert ready == [
        (4, ["ProfilerStep#2", "step 2", "ProfilerStep#3", "step 3"]),
        (8, ["ProfilerStep#6", "step 6", "ProfilerStep#7", "step 7"]),
    ]


def test_a_cycle_that_is_cut_short_is_handed_over(torch):
    schedule = torch.profiler.schedule(wait=0, warmup=1, active=5)
    ready, _ = run(torch, 3, schedule=schedule)
    assert ready == [(3, ["ProfilerStep#1", "step 1", "ProfilerStep#2", "step 2", "ProfilerStep#3"])]


def test_steps_contain_what_runs_in_them_and_are_averaged_together(torch):
    _, prof = run(torch, 3, schedule=torch.profiler.schedule(wait=0, warmup=1, active=2, repeat=1))
    step = next(event for event in prof.events() if event.name == "ProfilerStep*")
    assert [child.name for child in step.cpu_children] == ["step 1"]
    (average,) = [event for event in prof.key_averages() if event.key == "ProfilerStep*"]
    assert average.count == 2


def test_without_a_schedule_everything_is_one_trace(torch):
    ready, prof = run(torch, 2)
    assert ready == [(2, ["step 0", "step 1"])]
    assert prof.step_num == 2


def test_events_of_former_cycles_are_kept_on_request(torch):
    schedule = torch.profiler.schedule(wait=0, warmup=1, active=1, repeat=2)
    _, prof = run(torch, 4, schedule=schedule, acc_events=True)
    assert sorted(event.name for event in prof.events() if event.name.startswith("step")) == ["step 1", "step 3"]
    _, prof = run(torch, 4, schedule=schedule)
    assert [event.name for event in prof.events() if event.name.startswith("step")] == ["step 3"]


def test_a_profiler_can_be_started_and_stopped_by_hand(torch):
    prof = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])
    prof.start()
    torch.ones(2).exp()
    prof.stop()
    assert "aten::exp" in [event.name for event in prof.events()]
    prof.start()
    torch.ones(2).cos()
    prof.stop()
    names = [event.name for event in prof.events()]
    assert "aten::cos" in names and "aten::exp" not in names


def test_recording_can_be_paused(torch):
    cpu = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=cpu) as prof:
        torch.ones(2)
        prof.toggle_collection_dynamic(False, cpu)
        torch.zeros(2)
        prof.toggle_collection_dynamic(True, cpu)
        torch.rand(2)
    names = [event.name for event in prof.events() if event.cpu_parent is None]
    assert names == ["aten::ones", "aten::rand"]


@pytest.mark.parametrize("ask", ["events", "key_averages", "stop", "export_chrome_trace", "export_stacks"])
def test_a_profiler_that_was_not_started_says_so(torch, ask, tmp_path):
    prof = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])
    arguments = [str(tmp_path / "file")] if ask.startswith("export") else []
    with pytest.raises(AssertionError, match="Profiler must be initialized before"):
        getattr(prof, ask)(*arguments)


@pytest.mark.since("2.15")
def test_an_activity_of_another_class_is_a_type_error(torch):
    for activities in ("CPU", [1]):
        with pytest.raises(TypeError, match="Expected ProfilerActivity or dict, got <class"):
            torch.profiler.profile(activities=activities)


def test_activities_must_be_named(torch):
    with pytest.raises(AssertionError, match="No valid profiler activities found"):
        torch.profiler.profile(activities=[])
    assert torch.profiler.ProfilerActivity.CPU in torch.profiler.supported_activities()


def test_a_schedule_must_be_callable(torch):
    with pytest.raises(TypeError, match="not callable"):
        torch.profiler.profile(schedule=3)


def test_the_id_of_a_trace_can_be_chosen(torch):
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], custom_trace_id_callback=lambda: "my trace"
    ) as prof:
        torch.ones(2)
    assert prof.get_trace_id() == "my trace"


class TestAutogradProfiler:
    """gradloom.autograd.profiler.profile, which has no schedule."""

    def test_it_records_a_block(self, torch):
        x = torch.ones(3, requires_grad=True)
        with torch.autograd.profiler.profile(record_shapes=True) as prof:
            (x * x).sum().backward()
        names = [event.name for event in prof.function_events]
        assert "aten::mul" in names and "MulBackward0" in names
        assert prof.self_cpu_time_total == pytest.approx(
            sum(event.self_cpu_time_total for event in prof.function_events)
        )
        assert prof.total_average().key == "Total"
        assert prof.total_average().count == len(names)
        assert "aten::mul" in str(prof) and "aten::mul" in prof.table() and "aten::mul" in repr(prof)
        assert {event.key for event in prof.key_averages()} == set(names)

    def test_it_can_be_disabled(self, torch):
        with torch.autograd.profiler.profile(enabled=False) as prof:
            torch.ones(3)
        assert prof is None

    def test_it_is_entered_once(self, torch):
        prof = torch.autograd.profiler.profile()
        with prof:
            torch.ones(3)
        with pytest.raises(RuntimeError, match="not reentrant"), prof:
            pass

    def test_its_record_function_is_the_profilers(self, torch):
        assert torch.autograd.profiler.record_function is torch.profiler.record_function

    @pytest.mark.parametrize("name", ["emit_nvtx", "emit_itt"])
    def test_other_programs_profiles_are_refused(self, gradloom, name):
        other = getattr(gradloom.autograd.profiler, name)
        with other(enabled=False):
            pass
        with pytest.raises(RuntimeError, match="cannot talk to"), other():
            pass


def test_wrong_schedules_are_warned_of(gradloom):
    ready = []
    actions = gradloom.profiler.ProfilerAction
    plan = [actions.RECORD, actions.NONE, actions.RECORD, actions.WARMUP, actions.RECORD_AND_SAVE, actions.RECORD]
    prof = gradloom.profiler.profile(
        schedule=lambda step: plan[step], on_trace_ready=lambda p: ready.append(p.step_num)
    )
    prof.start()
    with pytest.warns(UserWarning, match="RECORD followed by NONE"):
        prof.step()
    prof.step()
    with pytest.warns(UserWarning, match="RECORD followed by WARMUP"):
        prof.step()
    for _ in range(2):
        prof.step()
    prof.stop()
    assert ready == [1, 3, 5, 5]


def test_what_is_not_there_says_what_to_use(gradloom, tmp_path):
    with pytest.raises(NotImplementedError, match="export_chrome_trace"):
        gradloom.profiler.ExecutionTraceObserver()
    with pytest.raises(NotImplementedError, match="profile_memory=True"):
        gradloom.profiler.profile().export_memory_timeline(str(tmp_path / "timeline.html"))
    with pytest.raises(RuntimeError, match="NVIDIA"):
        gradloom.autograd.profiler.load_nvprof("file")


def test_whether_a_profiler_runs_is_told(torch):
    assert not torch.autograd.profiler._is_profiler_enabled
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
        assert torch.autograd.profiler._is_profiler_enabled
    assert not torch.autograd.profiler._is_profiler_enabled


def test_names_that_are_imported_from_the_profilers_modules(torch):
    util = torch.autograd.profiler_util
    assert [util._format_time(t) for t in (3, 4500, 2e6)] == ["3.000us", "4.500ms", "2.000s"]
    assert [util._format_memory(n) for n in (12, -2048, 3 * 1024**2, 1024**3)] == [
        "12 B",
        "-2.00 KB",
        "3.00 MB",
        "1.00 GB",
    ]
    assert util._format_time_share(1, 8) == "12.50%" and util._format_time_share(0, 0) == "NaN"
    assert torch.profiler._ExperimentalConfig is torch._C._profiler._ExperimentalConfig
    assert torch.autograd.profiler.ProfilerActivity is torch.profiler.ProfilerActivity
