"""The collectives of torch.distributed: several ranks, each of which computes what the result must be."""

from __future__ import annotations

import os
import time
from contextlib import contextmanager
from datetime import timedelta
from pickle import UnpicklingError

import pytest

import gradloom as gl
import gradloom.distributed as dist
from tests.distributed import engine_checks
from tests.distributed.ranks import reserved_port, run
from tests.waiting import LIMIT

pytestmark = pytest.mark.skipif(os.name != "posix", reason="ranks are forks")
BACKENDS = ["shm", "sockets"]


@contextmanager
def default_group(rank, size, folder, backend="gloo", seconds=LIMIT):
    dist.init_process_group(
        backend, f"file://{folder}/rendezvous", timedelta(seconds=seconds), world_size=size, rank=rank
    )
    yield
    dist.destroy_process_group()


@pytest.fixture(params=[(2, "shm"), (3, "shm"), (3, "sockets")], ids=lambda p: f"{p[1]}-{p[0]}")
def ranks(request, tmp_path):
    """Run a function as ranks with a default group; each returns a list of what is wrong."""
    size, backend = request.param

    def call(function):
        def body(rank, size, store):
            with default_group(rank, size, tmp_path, backend):
                return [f"{name} of rank {rank}" for name, right in function(rank, size) if not right]

        assert run(size, body, tmp_path) == [[]] * size

    return call


def full(value, *shape, dtype=gl.float32):
    return gl.full(shape or (3,), value, dtype=dtype)


def refused(function, *args, **kwargs):
    """Return the class of the error that a call raises, or None."""
    try:
        function(*args, **kwargs)
    except Exception as error:
        return type(error)
    return None


def reductions(rank, size):
    values = [r + 1 for r in range(size)]
    product = 1
    for value in values:
        product *= value
    wanted = {"SUM": sum(values), "PRODUCT": product, "MIN": 1, "MAX": size, "AVG": sum(values) / size}
    for name, value in wanted.items():
        for dtype in (gl.float32, gl.float64, gl.bfloat16):
            tensor = full(rank + 1, 3, 2, dtype=dtype)
            dist.all_reduce(tensor, getattr(dist.ReduceOp, name))
            yield f"all_reduce {name} {dtype}", bool((tensor == full(value, 3, 2, dtype=dtype)).all())
    for name, value in (("BAND", 0), ("BOR", (1 << size) - 1), ("BXOR", (1 << size) - 1)):
        tensor = full(1 << rank, dtype=gl.int32)
        dist.all_reduce(tensor, getattr(dist.ReduceOp, name))
        yield f"all_reduce {name}", bool((tensor == value).all())
    tensor = full(1.0)
    dist.all_reduce(tensor, dist._make_nccl_premul_sum(2.0))
    yield "PREMUL_SUM", bool((tensor == 2 * size).all())
    tensor = full(complex(rank, 1), dtype=gl.complex64)
    dist.all_reduce(tensor)
    yield "complex", bool((tensor == complex(size * (size - 1) / 2, size)).all())
    tensor = gl.tensor([rank == 0, False])
    dist.all_reduce(tensor, dist.ReduceOp.MAX)
    yield "bool", tensor.tolist() == [True, False]
    tensor = full(float(rank))
    dist.reduce(tensor, 1)
    yield "reduce", rank != 1 or bool((tensor == size * (size - 1) / 2).all())
    tensors = [full(float(rank), 2), full(1.0, 5)]
    dist.all_reduce_coalesced(tensors)
    yield "coalesced", [t[0].item() for t in tensors] == [size * (size - 1) / 2, size]


def test_reductions(ranks):
    ranks(reductions)


def strided(rank, size):
    base = gl.zeros(4, 6)
    view = base.t()[1::2]
    view.fill_(rank + 1)
    dist.all_reduce(view)
    yield "all_reduce of a view", bool((view == size * (size + 1) / 2).all()) and base.sum() == view.sum()
    conjugate = gl.full((2,), 1 + 2j).conj()
    dist.all_reduce(conjugate)
    yield "conjugate bit", bool((conjugate == size * (1 - 2j)).all())
    outs = list(gl.zeros(size, 3, 2).transpose(1, 2))
    dist.all_gather(outs, full(rank, 2, 3))
    yield "all_gather into views", [out[0, 0].item() for out in outs] == list(range(size))
    image = gl.full((1, 2, 3, 3), float(rank)).to(memory_format=gl.channels_last)
    dist.broadcast(image, 0)
    yield "channels_last", bool((image == 0).all()) and image.is_contiguous(memory_format=gl.channels_last)
    scalar = gl.tensor(float(rank))
    dist.all_reduce(scalar)
    yield "0-d", scalar.item() == size * (size - 1) / 2 and scalar.shape == ()
    empty = gl.zeros(0, 3)
    dist.all_reduce(empty)
    yield "empty", empty.shape == (0, 3)


def test_strided_tensors(ranks):
    ranks(strided)


def moves(rank, size):
    everyone = list(range(size))
    tensor = full(float(rank))
    dist.broadcast(tensor, 1)
    yield "broadcast", bool((tensor == 1).all())
    outs = [full(-1.0) for _ in everyone]
    dist.all_gather(outs, full(float(rank)))
    yield "all_gather", [out[0].item() for out in outs] == everyone
    outs = [full(-1.0) for _ in everyone] if rank == 1 else None
    dist.gather(full(float(rank)), outs, dst=1)
    yield "gather", outs is None or [out[0].item() for out in outs] == everyone
    tensor = full(-1.0)
    dist.scatter(tensor, [full(10.0 * r) for r in everyone] if rank == 1 else None, src=1)
    yield "scatter", bool((tensor == 10 * rank).all())
    out = gl.empty(2 * size)
    dist.all_gather_single(out, full(float(rank), 2))
    yield "all_gather_single", out.view(size, 2)[:, 0].tolist() == everyone
    out = gl.empty(size, 2)
    dist.all_gather_into_tensor(out, full(float(rank), 2))
    yield "all_gather_into_tensor", out[:, 1].tolist() == everyone
    out = gl.empty(size, 3) if rank == 1 else None
    dist.gather_single(full(float(rank)), out, dst=1)
    yield "gather_single", out is None or out[:, 2].tolist() == everyone
    wrong = gl.empty(size * 3 + 1) if rank == 0 else None
    yield "gather_into_tensor", rank != 0 or refused(dist.gather_into_tensor, full(0.0), wrong) is RuntimeError
    out = full(-1.0)
    dist.reduce_scatter(out, [full(float(r)) for r in everyone])
    yield "reduce_scatter", bool((out == rank * size).all())
    out = gl.empty(2)
    dist.reduce_scatter_tensor(out, gl.arange(2.0 * size))
    yield "reduce_scatter_tensor", out.tolist() == [2 * rank * size, (2 * rank + 1) * size]
    out = gl.empty(size)
    dist.all_to_all_single(out, gl.arange(size) + 10.0 * rank)
    yield "all_to_all_single", out.tolist() == [10.0 * r + rank for r in everyone]
    out = gl.empty(sum(r + 1 for r in everyone), 2)
    dist.all_to_all_single(out, full(float(rank), (rank + 1) * size, 2), [r + 1 for r in everyone], [rank + 1] * size)
    yield "uneven all_to_all_single", out[:, 0].tolist() == [float(r) for r in everyone for _ in range(r + 1)]
    outs = [gl.empty(r + 1) for r in everyone]
    dist.all_to_all(outs, [full(float(rank), rank + 1) for _ in everyone])
    yield "all_to_all", [out.tolist() for out in outs] == [[float(r)] * (r + 1) for r in everyone]
    rows = [[full(-1.0, 2), full(-1.0, 1)] for _ in everyone]
    dist.all_gather_coalesced(rows, [full(float(rank), 2), full(rank + 5.0, 1)])
    yield "all_gather_coalesced", [row[1].item() for row in rows] == [r + 5.0 for r in everyone]
    dist.barrier()
    dist.monitored_barrier(timeout=timedelta(seconds=LIMIT))


def test_moves(ranks):
    ranks(moves)


def between_two(rank, size):
    after, before = (rank + 1) % size, (rank - 1) % size
    got = full(-1.0)
    works = [dist.irecv(got, before), dist.isend(full(float(rank)), after)]
    yield "wait", all(work.wait() for work in works)
    yield "isend", bool((got == before).all())
    first, second = full(-1.0), full(-1.0)
    works = [dist.irecv(second, before, tag=2), dist.irecv(first, before, tag=1)]
    works += [dist.isend(full(1.0), after, tag=1), dist.isend(full(2.0), after, tag=2)]
    for work in works:
        work.wait()
    yield "tags", (first[0].item(), second[0].item()) == (1, 2)
    if rank:
        dist.send(full(float(rank)), 0)
    else:
        senders = [dist.recv(got) for _ in range(size - 1)]
        yield "any source", sorted(senders) == list(range(1, size)) and got[0].item() == senders[-1]
    dist.barrier()  # what a rank sends next must not be received as its message of before
    calls = [dist.P2POp(dist.isend, full(float(rank)), after), dist.P2POp(dist.irecv, got, before)]
    for work in dist.batch_isend_irecv(calls):
        work.wait()
    yield "batch_isend_irecv", bool((got == before).all())
    large, got = full(float(rank), 300_000), gl.empty(300_000)
    for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, large, after), dist.P2POp(dist.irecv, got, before)]):
        work.wait()
    yield "large", bool((got == before).all())
    with pytest.raises(ValueError, match="should not be the same as the rank"):
        dist.send(got, rank)


def test_between_two_ranks(ranks):
    ranks(between_two)


def objects(rank, size):
    mine = {"rank": rank, "tensor": full(float(rank)), "text": "x" * (100 * rank)}
    found = [None] * size
    dist.all_gather_object(found, mine)
    yield "all_gather_object", [one["rank"] for one in found] == list(range(size))
    yield "tensors in objects", found[1]["tensor"].tolist() == [1.0] * 3
    dist.all_gather_object(found, {"safe": rank}, weights_only=True)
    yield "weights_only", found == [{"safe": r} for r in range(size)]
    dist.broadcast_object_list(found, weights_only=True)
    dist.scatter_object_list(found, list("abcdefgh"[:size]) if rank == 0 else None, weights_only=True)
    yield "scatter_object_list(weights_only)", found[0] == "abcdefgh"[rank]
    wanted = UnpicklingError if rank else None
    yield "a function", refused(dist.broadcast_object_list, [None if rank else print], weights_only=True) is wanted
    found = [None] * size if rank == 1 else None
    dist.gather_object(mine, found, dst=1)
    yield "gather_object", found is None or [len(one["text"]) for one in found] == [100 * r for r in range(size)]
    found = [rank, str(rank), None]
    dist.broadcast_object_list(found, src=1)
    yield "broadcast_object_list", found == [1, "1", None]
    found = [None]
    dist.scatter_object_list(found, [("to", r) for r in range(size)] if rank == 0 else None)
    yield "scatter_object_list", found == [("to", rank)]
    if rank == 0:
        dist.send_object_list([1, "two", [3]], 1)
    elif rank == 1:
        found = [None] * 3
        yield "sender", dist.recv_object_list(found) == 0
        yield "recv_object_list", found == [1, "two", [3]]


def test_objects(ranks):
    ranks(objects)


def asynchronous(rank, size):
    tensors = [full(float(rank + step), 50) for step in range(20)]
    works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    after = full(1.0)
    dist.all_reduce(after)  # waits for its turn
    yield "order", all(work.is_completed() for work in works)
    total = size * (size - 1) / 2
    yield "values", [t[0].item() for t in tensors] == [total + size * step for step in range(20)]
    work = dist.broadcast(full(float(rank)), 0, async_op=True)
    yield "then", work.get_future().then(lambda done: done.value()[0] + 1).wait().tolist() == [1.0] * 3
    work.wait()
    yield "success", work.is_success() and work.exception() is None and work.result()[0].tolist() == [0.0] * 3
    with dist._coalescing_manager(async_ops=True) as manager:
        pair = [full(1.0), full(2.0)]
        for one in pair:
            dist.all_reduce(one)
    manager.wait()
    yield "coalescing manager", [one[0].item() for one in pair] == [size, 2 * size]


def test_asynchronous_calls(ranks):
    ranks(asynchronous)


def subgroups(rank, size):
    pair = dist.new_group([1, 0])
    if rank < 2:
        tensor = full(rank + 1.0)
        dist.all_reduce(tensor, group=pair)
        yield "new_group", bool((tensor == 3).all()) and dist.get_rank(pair) == rank
        dist.broadcast(tensor.fill_(rank), group=pair, group_src=1)
        yield "group_src", bool((tensor == 1).all())
    else:
        yield "not a member", pair is dist.GroupMember.NON_GROUP_MEMBER and dist.get_rank(pair) == -1
        with pytest.warns(UserWarning, match="does not belong to the given group"):
            dist.all_reduce(full(1.0), group=pair)
    last = dist.new_group([size - 1, 0], sort_ranks=False)
    if last is not dist.GroupMember.NON_GROUP_MEMBER:
        yield "order of ranks", dist.get_process_group_ranks(last) == [size - 1, 0]
        tensor = full(float(rank))
        dist.broadcast(tensor, size - 1, group=last)
        yield "global rank of the root", bool((tensor == size - 1).all())
    mine, made = dist.new_subgroups(1)
    yield "new_subgroups", len(made) == size and dist.get_world_size(mine) == 1
    dist.set_timeout(timedelta(seconds=LIMIT), mine)
    yield "get_backend_impl", dist.get_backend_impl(mine.group_name) is dist.get_backend_impl(mine, "cpu") is mine
    yield "set_timeout", refused(dist.set_timeout, LIMIT) is TypeError
    if rank < 2:
        dist.destroy_process_group(pair)
        with pytest.raises(ValueError, match="Invalid process group specified"):
            dist.destroy_process_group(pair)


def test_groups_of_some_ranks(ranks):
    ranks(subgroups)


def sparse(rank, size):
    tensor = gl.sparse_coo_tensor([[rank, 0]], [1.0, 2.0], (size + 1,))
    dist.all_reduce(tensor)
    wanted = [2.0 * size + 1] + [1.0] * (size - 1) + [0.0]
    yield "sparse", tensor.to_dense().tolist() == wanted


def test_sparse_tensors_are_summed(ranks):
    ranks(sparse)


def titled(rank, size):
    with gl.profiler.profile() as found:
        with dist.record_comm("mine"):
            dist.all_reduce(full(1.0))
        dist.all_reduce(full(1.0))
    counts = {event.key: event.count for event in found.key_averages()}
    yield "profile", counts["mine"] == 1 and counts[f"{dist.get_backend()}:all_reduce"] == 2


def test_profiles_name_calls_as_they_are_told(ranks):
    ranks(titled)


def again(rank, size, store, address):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=address, RANK=str(rank), WORLD_SIZE=str(size))
    found = []
    for number in range(4):
        dist.init_process_group(timeout=timedelta(seconds=LIMIT))
        tensor = full(number + 1.0)
        dist.all_reduce(tensor)
        found.append(tensor[0].item())
        if rank == 0 and number == 1:
            time.sleep(0.3)  # the other rank comes back while this one still serves the old group
        dist.destroy_process_group()
    return found


def test_a_destroyed_default_group_can_be_made_again(tmp_path):
    with reserved_port() as port:
        assert run(2, again, tmp_path, str(port)) == [[2.0, 4.0, 6.0, 8.0]] * 2


def on_several_hosts(rank, size, store, port):
    """Ranks that believe to be on different machines use TCP, and find each other's addresses by the store's."""
    from gradloom.distributed import _backends
    from gradloom.distributed._engines import sockets

    _backends.host_key = sockets.host_key = lambda: f"host {rank}"
    limit = timedelta(seconds=LIMIT)
    dist.init_process_group("gloo", f"tcp://127.0.0.1:{port}", limit, world_size=size, rank=rank)
    total = full(float(rank))
    dist.all_reduce(total)
    dist.barrier()
    kind = type(dist.group.WORLD._engine).__name__
    dist.destroy_process_group()
    return kind, total[0].item()


def test_ranks_on_several_machines_use_tcp(tmp_path):
    with reserved_port() as port:
        assert run(3, on_several_hosts, tmp_path, port) == [("SocketEngine", 3.0)] * 3


def special_reductions(rank, size, store, folder, backend):
    with default_group(rank, size, folder, backend):
        return engine_checks.agreements(dist.group.WORLD._engine)


@pytest.mark.parametrize("size, backend", [(2, "shm"), (3, "shm"), (3, "sockets")])
def test_reductions_of_nan_and_signed_zeros_are_the_same_bits_on_all_ranks(tmp_path, size, backend):
    assert run(size, special_reductions, tmp_path, tmp_path, backend) == [[]] * size
