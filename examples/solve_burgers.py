"""Solve Burgers' equation by training a network that obeys it: a physics-informed network (Raissi et al. 2019).

The network is the function u(t, x). Its loss is the residual of u_t + u u_x = nu u_xx at points of the domain, plus
its distance from u(0, x) = -sin(pi x) and u(t, -1) = u(t, 1) = 0. The derivatives of u come from autograd, the second
one by differentiating the first, and training differentiates all of them once more. It leaves in the folder --out

    burgers.png    the loss curve, and the solution at several times beside the exact one
"""

from __future__ import annotations

import math
import sys

import numpy as np
import training
from output import write_png
from pictures import BLUE, INK, MARGIN, RED, WIDTH, Picture

import gradloom as torch

nn = torch.nn

STEPS, QUICK = 3000, 5
VISCOSITY = 0.03
INSIDE, EDGES = 800, 100  # points at which the equation and the conditions hold


class Solution(nn.Module):
    """u(t, x): from (N, 1) times and places to (N, 1) values."""

    def __init__(self, width: int = 24):
        super().__init__()
        hidden = [layer for _ in range(3) for layer in (nn.Linear(width, width), nn.Tanh())]
        self.net = nn.Sequential(nn.Linear(2, width), nn.Tanh(), *hidden, nn.Linear(width, 1))

    def forward(self, t, x):
        return self.net(torch.cat([t, x], dim=1))


def derivative(of, by):
    """Return d of / d by, element by element, as a tensor that can be differentiated again."""
    return torch.autograd.grad(of.sum(), by, create_graph=True)[0]


def residual(net, t, x):
    """Return u_t + u u_x - nu u_xx at (N, 1) points, which is zero for a solution."""
    t, x = t.requires_grad_(), x.requires_grad_()
    u = net(t, x)
    u_x = derivative(u, x)
    return derivative(u, t) + u * u_x - VISCOSITY * derivative(u_x, x)


def points(count: int):
    """Return (N, 1) times in 0..1 and places in -1..1."""
    t, x = torch.rand(2, count, 1, dtype=torch.float64)
    return t, 2 * x - 1


def train(args, step):
    torch.manual_seed(args.seed)
    net = Solution().to(torch.float64)
    optimizer = torch.optim.Adam(net.parameters(), lr=5e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.steps)
    for _ in range(args.steps):
        t, x = points(EDGES)
        at_start = net(torch.zeros_like(t), x) + torch.sin(math.pi * x)
        at_walls = net(t, torch.sign(x))
        loss = residual(net, *points(INSIDE)).square().mean() + at_start.square().mean() + at_walls.square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        step(loss.item())
    return net


def exact(t: float, x: np.ndarray) -> np.ndarray:
    """Return the solution at one time after 0, by the formula of Cole and Hopf and Gauss-Hermite quadrature."""
    nodes, weights = np.polynomial.hermite.hermgauss(100)
    y = x[:, None] - np.sqrt(4 * VISCOSITY * t) * nodes
    density = weights * np.exp(-np.cos(np.pi * y) / (2 * np.pi * VISCOSITY))
    return -(np.sin(np.pi * y) * density).sum(1) / density.sum(1)


def finish(args, losses, net, out):
    x = np.linspace(-1, 1, 201)
    times = (0.25, 0.5, 0.75, 1.0)
    with torch.no_grad():
        found = [
            net(torch.full((201, 1), t, dtype=torch.float64), torch.from_numpy(x).unsqueeze(1)).numpy()[:, 0]
            for t in times
        ]
    known = [exact(t, x) for t in times]
    error = np.linalg.norm(np.subtract(found, known)) / np.linalg.norm(known)
    print(f"relative error of the solution: {error:.2%}")
    picture = Picture(720)
    picture.heading(14, "loss (logarithmic), each step and its running average")
    picture.losses(MARGIN, 240, losses)
    picture.heading(360, "u(t, x): the network (red) over the exact solution (blue)")
    across = (WIDTH - MARGIN) / len(times)
    for i, t in enumerate(times):
        box = (MARGIN + 24 + i * across, 410, MARGIN + i * across + across - 30, 650)
        picture.frame(box, {-1: 0, 0: 0.5, 1: 1}, {-1: 0, 0: 0.5, 1: 1})
        picture.draw.text((box[0] + 10, 388), f"t = {t:g}", INK, picture.small)
        picture.curve(box, (x + 1) / 2, (known[i] + 1) / 2, BLUE, 6)
        picture.curve(box, (x + 1) / 2, (found[i] + 1) / 2, RED, 2)
    return [write_png(out / "burgers.png", picture.image)]


if __name__ == "__main__":
    sys.exit(training.main(sys.modules[__name__]))
