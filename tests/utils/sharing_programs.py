"""Programs of several processes, for test_multiprocessing.py: python sharing_programs.py LIBRARY PROGRAM ARGUMENT...

Each waits for a limited time for whatever it waits for. Those that pass say so by their last line, "done".
"""

from __future__ import annotations

import os
import signal
import sys
import time
from importlib import import_module

LIMIT = 240
torch = import_module(sys.argv[1])
mp = import_module(f"{sys.argv[1]}.multiprocessing")


def worker(index, queue, tensor, sent):
    """Write to a tensor of the parent's, and send a new one and a view of the parent's."""
    tensor[index] = index + 1
    queue.put((index, torch.full((1000,), float(index)), tensor[1:]))
    sent.wait(LIMIT)


def exchange(method, strategy):
    """Tensors go to processes as arguments and come back by a queue, on the same memory."""
    mp.set_sharing_strategy(strategy)
    context = mp.get_context(method)
    queue, sent = context.Queue(), context.Event()
    tensor = torch.zeros(4)
    if method == "fork":
        tensor.share_memory_()
    processes = [context.Process(target=worker, args=(i, queue, tensor, sent)) for i in range(2)]
    for process in processes:
        process.start()
    got = sorted([queue.get(timeout=LIMIT) for _ in processes], key=lambda item: item[0])
    sent.set()
    for index, full, view in got:
        assert full.is_shared() and bool((full == index).all())
        view[1 + index] = 5 + index
    assert tensor.tolist() == [1, 2, 5, 6] and tensor.is_shared()
    for process in processes:
        process.join(LIMIT)
        assert process.exitcode == 0


def descriptors(strategy):
    """Messages leave no descriptor open."""
    mp.set_sharing_strategy(strategy)
    reader, writer = mp.Pipe(duplex=False)

    def send():
        writer.send(torch.ones(3))
        assert reader.recv().sum().item() == 3

    send()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        send()
    end = time.monotonic() + LIMIT  # the thread that hands descriptors out closes them a little later
    while len(os.listdir("/proc/self/fd")) > before + 1:
        assert time.monotonic() < end
        time.sleep(0.05)


def killed():
    """End by SIGKILL with messages that nobody has received."""
    mp.set_sharing_strategy("file_system")
    context = mp.get_context("fork")
    reader, writer = context.Pipe(duplex=False)
    process = context.Process(target=lambda: (writer.send(torch.ones(1000)), time.sleep(LIMIT)), daemon=True)
    process.start()
    assert reader.poll(LIMIT)
    writer.send(torch.ones(1000))
    print("unread", process.pid, flush=True)
    os.kill(process.pid, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


def threads():
    """A process that has started threads forks, and its child computes."""
    torch.set_num_threads(3)
    large = torch.ones(1 << 20)
    expected = (large.tanh().sum().item(), (large.view(1024, 1024) @ large.view(1024, 1024)).sum().item())
    mp.set_sharing_strategy("file_descriptor")
    context = mp.get_context("fork")
    reader, writer = context.Pipe(duplex=False)

    def compute():
        large.requires_grad_()
        total = large.tanh().sum()
        total.backward()
        square = large.detach().view(1024, 1024)
        writer.send((total.item(), (square @ square).sum().item()))

    for _ in range(3):
        process = context.Process(target=compute)
        process.start()
        assert reader.poll(LIMIT), "the child hangs"
        assert reader.recv() == expected
        process.join(LIMIT)


def _fails(index, how):
    if index == 0:
        time.sleep(LIMIT)
    if how == "raise":
        raise ValueError("wrong " * 20000)  # longer than a pipe holds
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    sys.exit(3)


def failures(method):
    """The first process that fails ends the others, and the error says how it failed."""
    for how, kind, text in (
        ("raise", mp.ProcessRaisedException, "\n\n-- Process 1 terminated with the following error:\nTraceback"),
        ("kill", mp.ProcessExitedException, "process 1 terminated with signal SIGKILL"),
        ("exit", mp.ProcessExitedException, "process 1 terminated with exit code 3"),
    ):
        context = mp.start_processes(_fails, (how,), nprocs=2, join=False, start_method=method)
        assert len(context.pids()) == 2
        try:
            assert not context.join(timeout=0.0)  # process 0 waits, or process 1 has failed already
            while not context.join(timeout=LIMIT):
                pass
        except kind as error:
            assert str(error).startswith(text), str(error)[:200]
            assert (error.error_index, error.error_pid) == (1, context.pids()[1])
            assert how != "raise" or str(error).count("wrong") >= 20000
        else:
            raise AssertionError("no error")
        assert not any(process.is_alive() for process in context.processes)


def _adds(index, tensor):
    tensor[index] += 1


def spawns():
    """Run a function in processes on one shared tensor."""
    tensor = torch.zeros(2).share_memory_()
    assert mp.spawn(_adds, (tensor,), nprocs=2) is None
    assert tensor.tolist() == [1, 1]


if __name__ == "__main__":
    globals()[sys.argv[2]](*sys.argv[3:])
    print("done")
