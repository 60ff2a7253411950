"""tensorboardX: scalars, histograms and embeddings of a training run are written and their events counted."""

import glob

import torch
from tensorboardX import SummaryWriter
from tensorboardX.proto.event_pb2 import Event
from tensorboardX.record_writer import RecordWriter
from tensorboardX.summary import histogram, scalar
from torch import nn

torch.manual_seed(0)
model = nn.Linear(3, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, y = torch.randn(16, 3), torch.randn(16, 2)
with SummaryWriter("runs", flush_secs=1) as writer:
    for step in range(5):
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        writer.add_scalar("loss", loss, step)
        writer.add_histogram("weight", model.weight, step)
        print("step", step, scalar("loss", loss).value[0].simple_value, model.weight.grad.norm().item())
    writer.add_embedding(torch.randn(4, 3), metadata=list("abcd"))
    writer.add_hparams({"lr": 0.1}, {"loss": loss})
summary = histogram("weight", model.weight.detach().numpy(), "auto").value[0].histo
print("histogram", summary.num, summary.sum, summary.min, summary.max)
print("files", len(glob.glob("runs/events*")), Event.__name__, RecordWriter.__name__)
