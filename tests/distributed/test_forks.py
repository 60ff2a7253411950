"""Processes that are forked after init_process_group: they take no part in their parents' calls, and harm nothing."""

from __future__ import annotations

import multiprocessing
import os
import time
from datetime import timedelta

import pytest

import gradloom as torch
import gradloom.distributed as dist
from gradloom.nn.parallel import DistributedDataParallel
from gradloom.utils.data import DataLoader, Dataset
from tests.distributed import groups, ranks
from tests.waiting import LIMIT, forked

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs fork")


def lists():
    return [torch.zeros(2), torch.zeros(2)]


CALLS = {
    "all_reduce": lambda: dist.all_reduce(torch.ones(2)),
    "all_reduce, later": lambda: dist.all_reduce(torch.ones(2), async_op=True),
    "all_reduce_coalesced": lambda: dist.all_reduce_coalesced([torch.ones(2)]),
    "reduce": lambda: dist.reduce(torch.ones(2), 0),
    "broadcast": lambda: dist.broadcast(torch.ones(2), 0),
    "all_gather": lambda: dist.all_gather(lists(), torch.ones(2)),
    "all_gather_into_tensor": lambda: dist.all_gather_into_tensor(torch.zeros(4), torch.ones(2)),
    "gather": lambda: dist.gather(torch.ones(2), lists() if not dist.get_rank() else None),
    "scatter": lambda: dist.scatter(torch.ones(2), lists() if not dist.get_rank() else None),
    "reduce_scatter": lambda: dist.reduce_scatter(torch.ones(2), lists()),
    "reduce_scatter_tensor": lambda: dist.reduce_scatter_tensor(torch.ones(1), torch.ones(2)),
    "all_to_all": lambda: dist.all_to_all(lists(), lists()),
    "all_to_all_single": lambda: dist.all_to_all_single(torch.ones(2), torch.ones(2)),
    "send": lambda: dist.send(torch.ones(2), 1 - dist.get_rank()),
    "isend": lambda: dist.isend(torch.ones(2), 1 - dist.get_rank()),
    "recv": lambda: dist.recv(torch.ones(2), 1 - dist.get_rank()),
    "recv from any": lambda: dist.recv(torch.ones(2)),
    "batch": lambda: dist.batch_isend_irecv([dist.P2POp(dist.isend, torch.ones(2), 1 - dist.get_rank())]),
    "barrier": lambda: dist.barrier(),
    "monitored_barrier": lambda: dist.monitored_barrier(),
    "all_gather_object": lambda: dist.all_gather_object([None, None], 1),
    "broadcast_object_list": lambda: dist.broadcast_object_list([1]),
    "new_group": lambda: dist.new_group([0, 1]),
    "DDP": lambda: DistributedDataParallel(torch.nn.Linear(2, 2)),
}


def accepted(calls):
    """Return the names of the calls that do not raise as they should in a forked process."""
    wrong = []
    for name, call in calls.items():
        try:
            call()
        except dist.DistBackendError as error:
            if "forked after init_process_group" not in str(error):
                wrong.append(f"{name}: {error}")
        else:
            wrong.append(name)
    return wrong


def with_children(rank, size, store, folder, backend):
    dist.init_process_group(backend, f"file://{folder}/rendezvous", timedelta(seconds=LIMIT), size, rank)
    group = dist.new_group(timeout=timedelta(seconds=LIMIT))
    if rank == 1:
        store.get("forked")
    waits = dist.all_reduce(torch.ones(3), group=group, async_op=True)  # rank 0's is under way in its fork
    waits.get_future()

    def child(under_way=False):
        wrong = accepted(CALLS)
        if under_way:
            wrong += accepted({"wait": waits.wait, "the future": waits.get_future().wait})
        if (dist.get_rank(), dist.get_world_size()) != (rank, size):
            wrong.append("the numbers of the group")
        dist.destroy_process_group()
        if dist.is_initialized():
            wrong.append("destroy_process_group")
        dist.init_process_group(store=dist.HashStore(), rank=0, world_size=1)
        mine = torch.ones(2)
        dist.all_reduce(mine)
        if mine.tolist() != [1, 1]:
            wrong.append("a group of its own")
        print("\n".join(wrong))
        return bool(wrong)

    codes = [forked(lambda: child(under_way=rank == 0))]
    store.set("forked", b"1")
    waits.wait()
    for step in range(20):
        total = torch.full((7,), float(rank + step))
        dist.all_reduce(total)
        assert total.tolist() == [2 * step + 1.0] * 7
        if step == 10:
            codes += [forked(child), forked(lambda: dist.distributed_c10d._abort_process_group() or 0)]
    dist.barrier()
    dist.destroy_process_group()
    return codes


@pytest.mark.parametrize("backend", ["shm", "sockets"])
def test_calls_in_a_forked_process_raise_and_leave_the_parents_calls_alone(tmp_path, backend):
    assert ranks.run(2, with_children, tmp_path, tmp_path, backend) == [[0, 0, 0]] * 2


def with_multiprocessing(rank, size):
    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    process = context.Process(target=lambda: answers.put(accepted(CALLS)))
    process.start()
    found = answers.get(timeout=LIMIT)
    process.join(LIMIT)
    return found


def test_children_of_multiprocessing_raise(tmp_path):
    assert groups.run(2, with_multiprocessing, tmp_path) == [[], []]


class Items(Dataset):
    """Items whose numbers the ranks would add up, if they asked for it."""

    def __init__(self, call):
        self.call = call

    def __len__(self):
        return 4

    def __getitem__(self, index):
        return self.call(torch.tensor([index + 1.0]))


def with_workers(rank, size):
    numbers = DataLoader(Items(lambda item: item * dist.get_world_size() + dist.get_rank()), num_workers=1)
    assert [batch.item() for batch in numbers] == [2.0 + rank, 4.0 + rank, 6.0 + rank, 8.0 + rank]
    with pytest.raises(RuntimeError, match="forked after init_process_group"):
        list(DataLoader(Items(dist.all_reduce), num_workers=2))
    total = torch.tensor([rank + 1.0])
    dist.all_reduce(total)
    return total.item()


def test_workers_of_a_data_loader_know_their_rank_but_cannot_reduce(tmp_path):
    assert groups.run(2, with_workers, tmp_path) == [3.0, 3.0]


def outlived(rank, size, store, folder):
    """Rank 1 ends while a process that it forked goes on, and rank 0 notices at once."""
    dist.init_process_group("sockets", f"file://{folder}/rendezvous", timedelta(seconds=LIMIT), size, rank)
    dist.barrier()
    if rank == 1:
        if not os.fork():
            store.get("noticed")
            os._exit(0)
        os._exit(0)
    begun = time.monotonic()
    with pytest.raises(dist.DistBackendError, match="rank 1"):
        dist.all_reduce(torch.ones(2))
    store.set("noticed", b"1")
    return time.monotonic() - begun < LIMIT


def test_a_rank_that_ends_is_noticed_though_its_child_goes_on(tmp_path):
    (first, _) = ranks.ended(2, outlived, tmp_path, tmp_path)
    assert first.error is None and first.result


def test_a_forked_process_does_not_keep_the_port_of_a_store():
    store = dist.TCPStore("127.0.0.1", 0, None, True, timedelta(seconds=LIMIT))
    port = store.port

    def child():
        store.set("from", "child")  # over a connection of its own
        while store._server is not None and not store.check(["end"]):
            time.sleep(0.01)
        return 0

    store.set("end", "1")
    assert forked(child) == 0 and store.get("from") == b"child"
    reading, writing = os.pipe()
    pid = os.fork()
    if not pid:
        os.close(writing)
        os.read(reading, 1)  # until the parent closes the pipe
        os._exit(0)
    os.close(reading)
    try:
        store._close()
        with pytest.raises(dist.DistNetworkError, match="timed out.*(?i:refused)"):
            dist.TCPStore("127.0.0.1", port, None, False, timedelta(seconds=0.2))
    finally:
        os.close(writing)
        os.waitpid(pid, 0)
