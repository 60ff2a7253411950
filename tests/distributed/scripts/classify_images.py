"""Classification of images by a convolutional network with dropout, as the well-known example for digits is written."""

import argparse
import os

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from torch.nn.parallel import DistributedDataParallel
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import DataLoader, TensorDataset, distributed


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 8, 3, 1), nn.Conv2d(8, 16, 3, 1)
        self.bn = nn.BatchNorm2d(16)
        self.dropout1, self.dropout2 = nn.Dropout(0.25), nn.Dropout(0.5)
        self.fc1, self.fc2 = nn.Linear(256, 32), nn.Linear(32, 10)

    def forward(self, x):
        x = F.relu(self.conv1(x))
        x = F.relu(self.bn(self.conv2(x)))
        x = self.dropout1(F.max_pool2d(x, 2))
        x = torch.flatten(x, 1)
        x = self.dropout2(F.relu(self.fc1(x)))
        return F.log_softmax(self.fc2(x), dim=1)


def images(count, seed):
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, 10, (count,), generator=generator)
    shapes = torch.randn(10, 1, 12, 12, generator=torch.Generator().manual_seed(1))
    return TensorDataset(shapes[labels] + 0.7 * torch.randn(count, 1, 12, 12, generator=generator), labels)


def train(args, model, device, loader, optimizer, epoch):
    model.train()
    for number, (data, target) in enumerate(loader):
        data, target = data.to(device), target.to(device)
        optimizer.zero_grad()
        loss = F.nll_loss(model(data), target)
        loss.backward()
        optimizer.step()
        if number % args.log_interval == 0 and dist.get_rank() == 0:
            done = 100.0 * number / len(loader)
            print(f"train epoch {epoch} [{done:.0f}%] loss {loss.item():.6f}", flush=True)
        if args.dry_run:
            break


def test(model, device, loader):
    model.eval()
    sums = torch.zeros(3, dtype=torch.float64, device=device)
    with torch.no_grad():
        for data, target in loader:
            output = model(data.to(device))
            sums[0] += F.nll_loss(output, target.to(device), reduction="sum").item()
            sums[1] += output.argmax(dim=1, keepdim=True).eq(target.to(device)[:, None]).sum().item()
            sums[2] += len(data)
    dist.all_reduce(sums)
    if dist.get_rank() == 0:
        print(
            f"test loss {sums[0].item() / sums[2].item():.6f} accuracy {sums[1].item() / sums[2].item():.4f}",
            flush=True,
        )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--lr", type=float, default=0.5)
    parser.add_argument("--gamma", type=float, default=0.7)
    parser.add_argument("--log-interval", type=int, default=4)
    parser.add_argument("--dry-run", action="store_true")
    parser.add_argument("--save-model", default="")
    args = parser.parse_args()
    use_cuda = torch.cuda.is_available() and os.environ.get("WANT_CUDA")
    dist.init_process_group("nccl" if use_cuda else "gloo")
    device = torch.device("cuda" if use_cuda else "cpu")
    torch.manual_seed(5 + dist.get_rank())
    train_set, test_set = images(512, 2), images(200, 3)
    options = {"batch_size": args.batch_size, "num_workers": 0}
    sampler = distributed.DistributedSampler(train_set, shuffle=True, seed=4)
    loader = DataLoader(train_set, sampler=sampler, drop_last=True, **options)
    held_out = DataLoader(test_set, sampler=distributed.DistributedSampler(test_set, shuffle=False), **options)
    model = DistributedDataParallel(Net().to(device), device_ids=None, output_device=None)
    optimizer = optim.Adadelta(model.parameters(), lr=args.lr)
    scheduler = StepLR(optimizer, step_size=1, gamma=args.gamma)
    for epoch in range(1, args.epochs + 1):
        sampler.set_epoch(epoch)
        train(args, model, device, loader, optimizer, epoch)
        test(model, device, held_out)
        scheduler.step()
    if args.save_model and dist.get_rank() == 0:
        torch.save(model.state_dict(), args.save_model)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
