"""lightning's Fabric: a loop of one's own with bfloat16 autocast, accumulated gradients, clipping and a checkpoint."""

import warnings

import torch
from lightning.fabric import Fabric
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

warnings.filterwarnings("ignore")

for precision in ("32-true", "bf16-mixed", "64-true"):
    fabric = Fabric(accelerator="cpu", devices=1, precision=precision)
    fabric.launch()
    fabric.seed_everything(3, verbose=False)
    with fabric.init_module():
        model = nn.Sequential(
            nn.Conv1d(2, 8, 3, padding=1), nn.BatchNorm1d(8), nn.ReLU(), nn.Flatten(), nn.Linear(80, 4)
        )
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    model, optimizer = fabric.setup(model, optimizer)
    data = TensorDataset(torch.randn(24, 2, 10), torch.arange(24) % 4)
    loader = fabric.setup_dataloaders(DataLoader(data, batch_size=6, shuffle=True))
    for epoch in range(3):
        for index, (x, y) in enumerate(loader):
            with fabric.no_backward_sync(model, enabled=index % 2 == 0):
                loss = nn.functional.cross_entropy(model(x), y)
                fabric.backward(loss)
            if index % 2:
                norm = fabric.clip_gradients(model, optimizer, max_norm=1.0)
                optimizer.step()
                optimizer.zero_grad()
                if precision != "bf16-mixed":
                    print(precision, epoch, index, loss.item(), norm.item())
    print(precision, "last", round(loss.item(), 1), next(model.parameters()).dtype)

fabric.save("state.ckpt", {"model": model, "optimizer": optimizer, "epoch": 3})
state = {"model": model, "optimizer": optimizer, "epoch": 0}
with torch.no_grad():
    next(model.parameters()).zero_()
fabric.load("state.ckpt", state)
print("loaded", state["epoch"], next(model.parameters()).norm().item(), fabric.global_rank, fabric.world_size)
