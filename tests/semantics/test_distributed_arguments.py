"""Arguments of torch.distributed's functions, in a default group of one process."""

from __future__ import annotations

import warnings
from argparse import ArgumentParser
from datetime import timedelta
from importlib import import_module

import pytest

from tests.releases import pytorch_of_gpus


@pytest.fixture
def dist(torch):
    found = torch.distributed
    found.init_process_group("gloo", store=found.HashStore(), rank=0, world_size=1, timeout=timedelta(seconds=60))
    yield found
    if found.is_initialized():
        found.destroy_process_group()


# What is called with (torch, dist), the class of the error, and a part of its text.
WRONG = {
    "no tensor": (
        lambda t, d: d.all_reduce([t.ones(3)]),
        TypeError,
        "Expected parameter `tensor` of type torch.Tensor",
    ),
    "no list": (lambda t, d: d.all_gather(t.ones(3), t.ones(3)), TypeError, "of type List"),
    "no reduction": (lambda t, d: d.all_reduce(t.ones(3), op="sum"), TypeError, ""),
    "bits of floats": (
        lambda t, d: d.all_reduce(t.ones(3), d.ReduceOp.BAND),
        RuntimeError,
        "Cannot use ReduceOp.BAND with non-integral dtype",
    ),
    "maximum of complex": (
        lambda t, d: d.all_reduce(t.ones(3, dtype=t.complex64), d.ReduceOp.MAX),
        ValueError,
        "all_reduce does not support",
    ),
    "root out of range": (lambda t, d: d.broadcast(t.ones(3), 3), RuntimeError, "invalid root rank: 3"),
    "average of integers": (
        lambda t, d: d.all_reduce(t.ones(3, dtype=t.int64), d.ReduceOp.AVG),
        RuntimeError,
        "result type Float can't be cast to the desired output type Long",
    ),
    "no group": (
        lambda t, d: d.all_reduce(t.ones(3), group="x"),
        ValueError,
        "Process group x is not initialized in the world group map",
    ),
    "no root": (lambda t, d: d.broadcast(t.ones(3)), ValueError, "Must specify global_rank or group_rank"),
    "two roots": (
        lambda t, d: d.broadcast(t.ones(3), 0, group_src=0),
        ValueError,
        "Can't specify both group_rank and global_rank",
    ),
    "other dtype": (
        lambda t, d: d.all_gather([t.ones(3).double()], t.ones(3)),
        ValueError,
        "Invalid usage of tensors with different dtypes",
    ),
    "other size": (
        lambda t, d: d.all_gather([t.ones(2)], t.ones(3)),
        RuntimeError,
        r"invalid tensor size at index 0 (expected (3), got (2))",
    ),
    "too many outputs": (
        lambda t, d: d.all_gather([t.ones(3), t.ones(3)], t.ones(3)),
        RuntimeError,
        "(expected length 1, got 2)",
    ),
    "no gather_list": (lambda t, d: d.gather(t.ones(3), None, 0), ValueError, "must be specified on destination rank"),
    "no scatter_list": (lambda t, d: d.scatter(t.ones(3), None, 0), ValueError, "must be specified on source rank"),
    "too many inputs": (
        lambda t, d: d.scatter(t.ones(3), [t.ones(3)] * 2, 0),
        RuntimeError,
        "Incorrect input list size 2",
    ),
    "reduce_scatter list": (
        lambda t, d: d.reduce_scatter(t.ones(3), [t.ones(3)] * 2),
        RuntimeError,
        "invalid input tensor list size, must be world size",
    ),
    "sum of splits": (
        lambda t, d: d.all_to_all_single(t.ones(3), t.ones(3), [4], [3]),
        RuntimeError,
        "Split sizes doesn't match total dim 0 size",
    ),
    "number of splits": (
        lambda t, d: d.all_to_all_single(t.ones(3), t.ones(3), [3, 1], [3]),
        RuntimeError,
        "Number of tensor splits not equal to group size",
    ),
    "send to itself": (lambda t, d: d.send(t.ones(3), 0), ValueError, "should not be the same as the rank"),
    "P2POp": (lambda t, d: d.P2POp(d.send, t.ones(3), 0), ValueError, "Invalid ``op``"),
    "batch": (lambda t, d: d.batch_isend_irecv([1]), ValueError, "Invalid ``p2p_op_list``"),
    "twice": (lambda t, d: d.init_process_group("gloo"), ValueError, "initialize the default process group twice"),
    "timeout": (lambda t, d: d.new_group(timeout=3), TypeError, "Expected timeout argument"),
    "rank out of range": (lambda t, d: d.new_group([1]), ValueError, "Rank 1 is out of range"),
    "rank twice": (lambda t, d: d.new_group([0, 0]), ValueError, "must not contain duplicate entries"),
    "split_group": (lambda t, d: d.split_group(None, []), ValueError, "split_ranks cannot be None or empty"),
    "shrink_group": (lambda t, d: d.shrink_group([0]), ValueError, "Cannot shrink a process group with size 1"),
    "subgroups": (lambda t, d: d.new_subgroups(2), ValueError, "must not exceed the world size"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_arguments_raise(torch, dist, name):
    call, error, text = WRONG[name]
    with pytest.raises(error) as raised:
        call(torch, dist)
    assert text in str(raised.value)


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        (
            {"backend": "nccl", "world_size": 1, "rank": 0},
            RuntimeError,
            "Distributed package doesn't have NCCL built in",
        ),
        ({"init_method": "other://"}, RuntimeError, "No rendezvous handler for other://"),
        ({"init_method": "tcp://localhost"}, ValueError, "tcp:// rendezvous: port number missing"),
        ({"init_method": "file:///tmp/nothing"}, ValueError, "file:// rendezvous: rank parameter missing"),
        ({"timeout": 3}, TypeError, "Expected timeout argument to be of type datetime.timedelta"),
    ],
)
def test_init_process_group_refuses_what_does_not_fit(torch, options, error, text):
    dist = torch.distributed
    if options.get("backend") == "nccl":
        options = {**options, "store": dist.HashStore()}
        if torch.__name__ == "torch" and pytorch_of_gpus():
            text = "requires at least one CUDA device"
    with warnings.catch_warnings(), pytest.raises(error) as raised:
        warnings.simplefilter("ignore")
        dist.init_process_group(**{"backend": "gloo", **options})
    assert text in str(raised.value) and not dist.is_initialized()


def test_without_a_default_group(torch):
    with pytest.raises(ValueError, match="Default process group has not been initialized"):
        torch.distributed.get_rank()


def test_work_of_an_asynchronous_call(torch, dist):
    tensor = torch.ones(3)
    work = dist.all_reduce(tensor, async_op=True)
    assert work.wait() is True and work.is_completed() and work.is_success()
    assert work.result()[0].tolist() == work.get_future().wait()[0].tolist() == [1.0] * 3
    with pytest.raises(RuntimeError, match="sourceRank"):
        work.source_rank()


def test_reductions_are_values(torch):
    op = torch.distributed.ReduceOp
    assert str(op.SUM) == "RedOpType.SUM" and repr(op.SUM) == "<RedOpType.SUM: 0>"
    assert op(op.SUM) == op.SUM and op.SUM == op.RedOpType.SUM and op.SUM != op.MAX
    assert list(op.RedOpType.__members__) == "SUM AVG PRODUCT MIN MAX BAND BOR BXOR PREMUL_SUM".split()


def test_about_the_default_group(torch, dist):
    world = dist.group.WORLD
    assert (dist.get_rank(), dist.get_world_size(), dist.get_backend()) == (0, 1, "gloo")
    assert (world.rank(), world.size(), world.group_desc) == (0, 1, "default_pg") and world.group_name.isdigit()
    assert dist.get_process_group_ranks(world) == [0] and dist.get_global_rank(world, 0) == 0
    assert dist.GroupMember.NON_GROUP_MEMBER == -100 and dist.new_group([0]).size() == 1
    dist.destroy_process_group()
    assert dist.group.WORLD is None


@pytest.mark.since("2.15")
def test_a_group_is_split_into_groups_of_some_of_its_ranks(torch, dist):
    parts = [dist.split_group(None, [[0]]) for _ in range(2)] + [dist.split_group(split_ranks=[[0]], group_desc="mine")]
    assert [dist.get_process_group_ranks(part) for part in parts] == [[0]] * 3
    assert [part.group_desc for part in parts] == ["default_pg:split:0", "default_pg:split:1", "mine"]
    assert len({part.group_name for part in parts}) == 3 and dist.get_backend(parts[0]) == "gloo"
    tensor = torch.ones(2)
    dist.all_reduce(tensor, group=parts[0])
    assert tensor.tolist() == [1, 1]
    with pytest.raises(ValueError, match="cannot be empty"):
        dist.split_group(None, [[]])


@pytest.mark.since("2.15")
def test_a_handler_of_errors_hears_of_every_end(torch):
    errors = import_module(f"{torch.__name__}.distributed.elastic.multiprocessing.errors")

    class Handler(errors.error_handler.ErrorHandler):
        def __init__(self):
            self.heard = []

        def record_success(self):
            self.heard.append(f"{self._fn_name.rpartition('.')[2]} succeeded")

        def record_exception(self, e):
            self.heard.append(f"{self._fn_name.rpartition('.')[2]} raised {e}")

    def divide(a, b):
        return a / b

    handler = Handler()
    divide = errors.record(divide, handler)
    assert divide(1, 2) == 0.5
    with pytest.raises(ZeroDivisionError):
        divide(1, 0)
    assert handler.heard == ["divide succeeded", "divide raised division by zero"]
    assert handler.maybe_enrich_signal_failure_message("Signal 9", "file") == "Signal 9"


def test_options_of_launchers_come_from_the_environment(torch, monkeypatch):
    util = import_module(f"{torch.__name__}.distributed.argparse_util")

    def parsed(*words, **variables):
        with monkeypatch.context() as patched:
            for name, value in variables.items():
                patched.setenv(f"PET_{name}", value)
            parser = ArgumentParser()
            parser.add_argument("-n", "--nodes", action=util.env, type=int, default=1)
            parser.add_argument("--name", action=util.env, required=True)
            parser.add_argument("--verbose", action=util.check_env)
            found = parser.parse_args(words)
        return found.nodes, found.name, found.verbose

    assert parsed("--name", "a") == (1, "a", False)
    assert parsed(NAME="b", NODES="3", VERBOSE="1") == (3, "b", True)
    assert parsed("-n", "2", "--name", "c", "--verbose", NAME="b", NODES="3", VERBOSE="0") == (2, "c", True)
    with pytest.raises(SystemExit):
        parsed()
