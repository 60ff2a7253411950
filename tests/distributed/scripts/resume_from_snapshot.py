"""A regression whose trainer keeps a snapshot, and goes on from it when torchrun starts it again."""

import argparse
import os

import torch
import torch.nn.functional as F
from torch.distributed import destroy_process_group, init_process_group
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler


class Points(Dataset):
    def __init__(self, count):
        self.pairs = [(torch.rand(20), torch.rand(1)) for _ in range(count)]

    def __len__(self):
        return len(self.pairs)

    def __getitem__(self, index):
        return self.pairs[index]


class Trainer:
    def __init__(self, model, loader, optimizer, save_every, snapshot_path, device="cpu"):
        self.local_rank = int(os.environ["LOCAL_RANK"])
        self.global_rank = int(os.environ["RANK"])
        self.device = torch.device(device)
        self.model = model.to(self.device)
        self.loader, self.optimizer = loader, optimizer
        self.save_every, self.snapshot_path = save_every, snapshot_path
        self.epochs_run = 0
        if os.path.exists(snapshot_path):
            self._load_snapshot()
        self.model = DDP(self.model, device_ids=None)

    def _load_snapshot(self):
        snapshot = torch.load(self.snapshot_path, map_location=self.device, weights_only=False)
        self.model.load_state_dict(snapshot["MODEL_STATE"])
        self.optimizer.load_state_dict(snapshot["OPTIMIZER_STATE"])
        self.epochs_run = snapshot["EPOCHS_RUN"]
        print(f"rank {self.global_rank} goes on from epoch {self.epochs_run}", flush=True)

    def _save_snapshot(self, epoch):
        snapshot = {
            "MODEL_STATE": self.model.module.state_dict(),
            "OPTIMIZER_STATE": self.optimizer.state_dict(),
            "EPOCHS_RUN": epoch + 1,
        }
        torch.save(snapshot, self.snapshot_path)

    def _run_batch(self, source, targets):
        self.optimizer.zero_grad()
        loss = F.mse_loss(self.model(source), targets)
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def _run_epoch(self, epoch):
        self.loader.sampler.set_epoch(epoch)
        losses = [self._run_batch(x.to(self.device), y.to(self.device)) for x, y in self.loader]
        mean = torch.stack(losses).mean()
        torch.distributed.all_reduce(mean, op=torch.distributed.ReduceOp.SUM)
        if self.global_rank == 0:
            size = torch.distributed.get_world_size()
            print(f"epoch {epoch} | batches {len(self.loader)} | loss {mean.item() / size:.6f}", flush=True)

    def train(self, max_epochs):
        for epoch in range(self.epochs_run, max_epochs):
            self._run_epoch(epoch)
            if self.local_rank == 0 and epoch % self.save_every == 0:
                self._save_snapshot(epoch)


def main(args):
    init_process_group(backend="gloo")
    torch.manual_seed(7)
    dataset, model = Points(256), torch.nn.Linear(20, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.5)
    sampler = DistributedSampler(dataset)
    loader = DataLoader(dataset, batch_size=args.batch_size, pin_memory=False, shuffle=False, sampler=sampler)
    Trainer(model, loader, optimizer, args.save_every, args.snapshot_path).train(args.total_epochs)
    destroy_process_group()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("total_epochs", type=int)
    parser.add_argument("save_every", type=int)
    parser.add_argument("snapshot_path")
    parser.add_argument("--batch_size", default=32, type=int)
    main(parser.parse_args())
