"""torchdiffeq: solvers, the adjoint method, an event, and a neural ODE that is trained."""

import math

import torch
from torch import nn
from torchdiffeq import odeint, odeint_adjoint, odeint_event

torch.manual_seed(0)
times = torch.linspace(0, 1.5, 7, dtype=torch.float64)
matrix = torch.tensor([[-0.1, 2.0], [-2.0, -0.1]], dtype=torch.float64)
start = torch.tensor([[2.0, 0.0]], dtype=torch.float64)
for method in ("dopri5", "dopri8", "bosh3", "adaptive_heun", "fehlberg2", "rk4", "midpoint", "euler", "heun3",
               "explicit_adams", "implicit_adams"):  # fmt: skip
    options = {"step_size": 0.05} if method in ("rk4", "midpoint", "euler", "heun3") else None
    states = odeint(lambda t, y: y**3 @ matrix, start, times, method=method, options=options)
    print(method, states[-1].tolist(), states.sum().item())


class Field(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 2))

    def forward(self, t, y):
        return self.net(y**3) * torch.cos(t)


with torch.no_grad():
    truth = odeint(lambda t, y: y**3 @ matrix.float(), start.float(), times.float())
for name, solve in (("plain", odeint), ("adjoint", odeint_adjoint)):
    torch.manual_seed(1)
    field = Field()
    optimizer = torch.optim.RMSprop(field.parameters(), lr=1e-3)
    for step in range(6):
        loss = (solve(field, start.float(), times.float(), method="rk4") - truth).abs().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(name, step, loss.item(), nn.utils.get_total_norm([p.grad for p in field.parameters()]).item())

torch.manual_seed(1)
field = Field().double()
y0 = start.clone().requires_grad_()
odeint_adjoint(field, y0, times, rtol=1e-6, atol=1e-7).square().sum().backward()
print("adaptive adjoint", y0.grad.tolist(), nn.utils.get_total_norm([p.grad for p in field.parameters()]).item())

height = torch.tensor([10.0], dtype=torch.float64, requires_grad=True)
fall = lambda t, state: (state[1], torch.full_like(state[1], -9.81))  # noqa: E731
when, states = odeint_event(
    fall, (height, torch.zeros_like(height)), torch.tensor(0.0, dtype=torch.float64),
    event_fn=lambda t, state: state[0][0], atol=1e-10, rtol=1e-10,
)  # fmt: skip
when.backward()
print("event", when.item(), math.sqrt(2 * 10 / 9.81), height.grad.item(), states[1][-1].item())
