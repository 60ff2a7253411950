"""Train an LSTM on a chaotic time series, and let it continue the series on its own.

The series is that of Mackey and Glass (1977), the concentration of blood cells whose production follows with a delay:
dx/dt = 0.2 x(t - 17) / (1 + x(t - 17)^10) - 0.1 x(t). The network reads 100 values and predicts each next one; the
forecast feeds its predictions back. It leaves in the folder --out

    forecast.png    the loss curve, and the forecast beside the series that the network has not seen
"""

from __future__ import annotations

import sys

import numpy as np
import training
from output import write_png
from pictures import BLUE, INK, MARGIN, RED, WIDTH, Picture

import gradloom as torch

nn = torch.nn

STEPS, QUICK = 400, 4
WINDOW, BATCH, HIDDEN = 100, 32, 48
KNOWN, AHEAD = 2400, 120  # values to train on, and to forecast after them


def series(length: int) -> np.ndarray:
    """Return `length` values of the Mackey-Glass series, one for each unit of time, as float32 of mean about 0."""
    per_unit, delay, burn_in = 10, 17, 300
    count = (length + burn_in) * per_unit
    x = np.full(count + delay * per_unit, 1.2)
    for i in range(delay * per_unit, len(x) - 1):  # Euler's steps of 0.1
        late = x[i - delay * per_unit]
        x[i + 1] = x[i] + (0.2 * late / (1 + late**10) - 0.1 * x[i]) / per_unit
    return (x[-length * per_unit :: per_unit] - 0.9).astype(np.float32)


class Forecaster(nn.Module):
    """From (N, T, 1) values to the (N, T, 1) values that follow each, and the state of the LSTM."""

    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(1, HIDDEN, batch_first=True)
        self.read = nn.Linear(HIDDEN, 1)

    def forward(self, x, state=None):
        hidden, state = self.lstm(x, state)
        return x + self.read(hidden), state  # the network adds the change


def train(args, step):
    values = series(KNOWN + AHEAD)
    rng = np.random.default_rng(args.seed)
    torch.manual_seed(args.seed)
    net = Forecaster()
    optimizer = torch.optim.Adam(net.parameters(), lr=5e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.steps)
    for _ in range(args.steps):
        starts = rng.integers(0, KNOWN - WINDOW, BATCH)
        windows = torch.from_numpy(values[starts[:, None] + np.arange(WINDOW + 1)]).unsqueeze(2)
        predicted, _ = net(windows[:, :-1])
        loss = nn.functional.mse_loss(predicted, windows[:, 1:])
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        step(loss.item())
    return net, values


def forecast(net, known: np.ndarray, ahead: int) -> np.ndarray:
    """Return the next `ahead` values after `known`, each computed from those before it."""
    found = []
    with torch.no_grad():
        predicted, state = net(torch.from_numpy(known).view(1, -1, 1))
        for _ in range(ahead):
            found.append(predicted[0, -1].item())
            predicted, state = net(predicted[:, -1:], state)
    return np.array(found)


def finish(args, losses, result, out):
    net, values = result
    known, unseen = values[KNOWN - 300 : KNOWN], values[KNOWN:]
    found = forecast(net, known, AHEAD)
    print(f"error of the forecast (RMS): {np.sqrt(np.mean((found - unseen) ** 2)):.3f}, of its mean {unseen.std():.3f}")
    picture = Picture(700)
    picture.heading(14, "squared error (logarithmic), each step and its running average")
    picture.losses(MARGIN, 240, losses)
    picture.heading(360, f"the series, and the forecast (red) from step {KNOWN:,} on")
    box = (MARGIN + 24, 400, WIDTH - MARGIN, 640)
    times, before = np.arange(AHEAD) + 80, 80
    picture.frame(box, {KNOWN - before + t: t / 200 for t in range(0, 201, 40)}, {0.4: 0, 0.9: 0.5, 1.4: 1}, "time")
    both = np.concatenate([known[-before:], unseen])
    picture.curve(box, np.arange(200) / 200, both + 0.5, BLUE, 3)
    picture.curve(box, times / 200, np.clip(found + 0.5, -0.2, 1.2), RED, 2)
    picture.curve(box, np.full(2, before / 200), np.array([0, 1]), INK, 1)
    return [write_png(out / "forecast.png", picture.image)]


if __name__ == "__main__":
    sys.exit(training.main(sys.modules[__name__]))
