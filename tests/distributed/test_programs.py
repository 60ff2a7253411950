"""Programs that import torch and train with DistributedDataParallel on CPUs run unchanged."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.waiting import LIMIT

pytestmark = pytest.mark.skipif(os.name != "posix", reason="the ranks share memory")

SPAWNS = """
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


class Trainer:
    def __init__(self, model, data, optimizer, rank, path):
        self.rank, self.data, self.optimizer, self.path = rank, data, optimizer, path
        self.model = DDP(model)

    def run(self, epochs):
        for epoch in range(epochs):
            self.data.sampler.set_epoch(epoch)
            for inputs, targets in self.data:
                self.optimizer.zero_grad()
                loss = nn.functional.mse_loss(self.model(inputs), targets)
                loss.backward()
                self.optimizer.step()
            if self.rank == 0:
                torch.save(self.model.module.state_dict(), self.path)
            dist.barrier()
            self.model.module.load_state_dict(torch.load(self.path, map_location="cpu", weights_only=True))
        return loss


def main(rank, world_size, folder):
    dist.init_process_group(backend="gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=world_size)
    torch.manual_seed(rank)
    x = torch.linspace(-1, 1, 64)[:, None]
    dataset = TensorDataset(x, x**2)
    loader = DataLoader(dataset, batch_size=8, pin_memory=False, shuffle=False, sampler=DistributedSampler(dataset))
    model = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1))
    trainer = Trainer(model, loader, torch.optim.Adam(model.parameters(), lr=0.05), rank, f"{folder}/snapshot.pt")
    loss = trainer.run(60)
    dist.reduce(loss, 0)
    if rank == 0:
        print("small" if loss.item() / world_size < 0.02 else loss.item(), len(loader), dist.get_world_size())
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(main, args=(2, sys.argv[1]), nprocs=2)
"""


def test_a_program_that_spawns_its_ranks(tmp_path):
    script = tmp_path / "program.py"
    script.write_text(SPAWNS)
    command = [sys.executable, "-m", "gradloom", "run", str(script), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)
    assert (done.returncode, done.stdout) == (0, "small 4 2\n"), done.stdout + done.stderr


def test_a_trainer_goes_on_from_its_snapshot(tmp_path):
    script = Path(__file__).parent / "scripts" / "resume_from_snapshot.py"
    texts = []
    for epochs, snapshot in ((2, "parts"), (4, "parts"), (4, "whole")):
        launcher = [sys.executable, "-m", "gradloom", "torchrun", "--standalone", "--nproc-per-node=2"]
        command = [*launcher, str(script), str(epochs), "1", str(tmp_path / snapshot)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)
        assert done.returncode == 0, done.stdout + done.stderr
        texts.append(done.stdout)
    assert "goes on from epoch 2" in texts[1]
    parts, whole = (
        re.findall(r"epoch \d \| batches \d \| loss [\d.]+", text) for text in ("".join(texts[:2]), texts[2])
    )
    assert parts == whole and len(whole) == 4
