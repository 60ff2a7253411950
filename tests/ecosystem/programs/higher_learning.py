"""higher: differentiable optimizers in meta-learning, and the learning of a step size."""

import higher
import torch
from torch import nn

torch.manual_seed(0)
# A step of RMSprop magnifies rounding: in float32, norms differ by 7e-5 between processors.
torch.set_default_dtype(torch.float64)


def sine():
    amplitude, phase = torch.rand(1) * 4 + 0.1, torch.rand(1) * 3
    x = torch.rand(10, 1) * 10 - 5
    return x, amplitude * torch.sin(x + phase)


model = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1))
meta = torch.optim.Adam(model.parameters(), lr=1e-2)
for name, inner in (
    ("sgd", torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)),
    ("adam", torch.optim.Adam(model.parameters(), lr=0.01)),
    ("rmsprop", torch.optim.RMSprop(model.parameters(), lr=0.01, centered=True)),
    ("adagrad", torch.optim.Adagrad(model.parameters(), lr=0.05)),
):
    for step in range(3):
        meta.zero_grad()
        for _ in range(2):
            (x, y), (held_x, held_y) = sine(), sine()
            with higher.innerloop_ctx(model, inner, copy_initial_weights=False) as (fast, steps):
                for _ in range(3):
                    steps.step(nn.functional.mse_loss(fast(x), y))
                loss = nn.functional.mse_loss(fast(held_x), held_y)
                loss.backward()
        meta.step()
        print(name, step, loss.item(), nn.utils.get_total_norm([p.grad for p in model.parameters()]).item())

rate = torch.tensor(0.1, requires_grad=True)
x, y = sine()
inner = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    with higher.innerloop_ctx(model, inner, override={"lr": [rate]}) as (fast, steps):
        for _ in range(4):
            steps.step(nn.functional.mse_loss(fast(x), y))
        loss = nn.functional.mse_loss(fast(x), y)
    (slope,) = torch.autograd.grad(loss, rate)
    with torch.no_grad():
        rate -= 1e-3 * slope.clamp(-1, 1)
    print("rate", step, loss.item(), slope.item(), rate.item())
