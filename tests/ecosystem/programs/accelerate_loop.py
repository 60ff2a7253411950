"""accelerate: a loop with accumulated gradients, clipping, metrics, a saved state that is resumed, and bfloat16."""

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

set_seed(5)
data = TensorDataset(torch.randn(40, 6), torch.arange(40) % 3)
accelerator = Accelerator(gradient_accumulation_steps=2, cpu=True)
model = nn.Sequential(nn.Linear(6, 24), nn.GELU(), nn.Dropout(0.2), nn.Linear(24, 3))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=2e-2, total_steps=40)
loader = DataLoader(data, batch_size=8, shuffle=True)
model, optimizer, loader, schedule = accelerator.prepare(model, optimizer, loader, schedule)
print("device", accelerator.device, accelerator.num_processes, accelerator.is_main_process)


def epoch(number):
    model.train()
    for x, y in loader:
        with accelerator.accumulate(model):
            loss = nn.functional.cross_entropy(model(x), y)
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                norm = accelerator.clip_grad_norm_(model.parameters(), 1.0)
                print("epoch", number, loss.item(), norm.item())
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()


epoch(0)
accelerator.save_state("state")
epoch(1)
accelerator.load_state("state")
epoch(1)
model.eval()
with torch.no_grad():
    seen = [accelerator.gather_for_metrics((model(x).argmax(1), y)) for x, y in loader]
print("right", sum((found == y).sum().item() for found, y in seen), sum(len(y) for _, y in seen))
accelerator.save_model(accelerator.unwrap_model(model), "model")
