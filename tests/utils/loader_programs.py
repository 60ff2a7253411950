"""Programs with worker processes, for test_data_workers.py: python loader_programs.py LIBRARY PROGRAM."""

from __future__ import annotations

import os
import sys
import time
from importlib import import_module

torch = import_module(sys.argv[1])
data = import_module(f"{sys.argv[1]}.utils.data")
LIMIT = 240


class Rows(data.Dataset):
    """Rows of a number; `waits` makes the later ones take for ever."""

    def __init__(self, waits=False):
        self.waits = waits

    def __len__(self):
        return 64

    def __getitem__(self, index):
        if self.waits and index >= 8:
            time.sleep(LIMIT)
        return torch.full((1000,), float(index)), os.getpid()


def spawn():
    """Workers that are spawned give the batches of the calling process."""
    torch.manual_seed(3)
    for batch, pids in data.DataLoader(Rows(), batch_size=32, num_workers=2, multiprocessing_context="spawn"):
        print(batch[:, 0].tolist(), batch.is_shared(), os.getpid() in pids.tolist())


def abandoned():
    """A loader is left in the middle, and the program ends."""
    for _, pids in data.DataLoader(Rows(), batch_size=4, num_workers=2, prefetch_factor=4):
        print(pids[0].item())
        break
    kept = iter(data.DataLoader(Rows(), batch_size=4, num_workers=2, persistent_workers=True))
    print(next(kept)[1][0].item())
    globals()["kept"] = kept


def waits():
    """Print the workers' processes, and wait for a batch that never comes."""
    loader = iter(data.DataLoader(Rows(waits=True), batch_size=4, num_workers=2))
    pids = {next(loader)[1][0].item() for _ in range(2)}
    print("waiting", *sorted(pids), "end", flush=True)
    next(loader)


def descriptors():
    """Iterations leave no descriptor open."""
    loader = data.DataLoader(Rows(), batch_size=4, num_workers=1)
    kept = list(loader)
    del kept
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(2):
        for _batch in loader:
            pass
    del _batch
    assert len(os.listdir("/proc/self/fd")) == before


def limited():
    """Keep more batches than the process may have descriptors."""
    import resource

    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    try:
        kept = [row for _ in range(8) for row in data.DataLoader(Rows(), num_workers=1)]
        raise AssertionError(f"{len(kept)} batches")
    except RuntimeError as error:
        assert str(error).startswith("Too many open files"), error
        del error
    kept = None
    assert len([None for _ in data.DataLoader(Rows(), num_workers=1)]) == 64


if __name__ == "__main__":
    globals()[sys.argv[2]]()
    print("done")
