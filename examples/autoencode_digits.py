"""Train a variational autoencoder on handwritten digits, and let it draw digits of its own.

The encoder maps an image to a normal distribution over 16 latent variables; the decoder maps a sample of it back.
The loss is the reconstruction's cross entropy plus the divergence of that distribution from the standard normal one
(Kingma and Welling 2014). It leaves in the folder --out

    autoencoder.png    the loss curve, images with their reconstructions, and digits drawn from the prior
"""

from __future__ import annotations

import sys

import digits_data
import numpy as np
import training
from output import write_png
from pictures import MARGIN, WIDTH, Picture

import gradloom as torch

nn = torch.nn
F = torch.nn.functional

STEPS, QUICK = 3000, 5
BATCH, LATENT, HIDDEN = 64, 16, 256
PIXELS = digits_data.SIDE**2


class Autoencoder(nn.Module):
    """From (N, PIXELS) images to (N, PIXELS) logits of their reconstructions, and the latent distribution."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(PIXELS, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 2 * LATENT))
        self.decoder = nn.Sequential(nn.Linear(LATENT, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, PIXELS))

    def forward(self, x):
        mean, log_scale = self.encoder(x).chunk(2, dim=1)
        latent = torch.distributions.Normal(mean, log_scale.exp())
        return self.decoder(latent.rsample()), latent


def add_arguments(parser):
    parser.add_argument("--data", metavar="DIR", help="folder with MNIST's idx files (default: scikit-learn's digits)")


def train(args, step):
    try:
        data = digits_data.load(args.data)
    except digits_data.DataError as error:
        raise training.Stopped(str(error)) from None
    rng = np.random.default_rng(args.seed)
    torch.manual_seed(args.seed)
    net = Autoencoder()
    prior = torch.distributions.Normal(torch.zeros(LATENT), torch.ones(LATENT))
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    for _ in range(args.steps):
        batch = data.train_images[rng.integers(0, len(data.train_images), BATCH)]
        images = torch.from_numpy(digits_data.jitter(batch, rng)).flatten(1).clamp(0, 1)
        logits, latent = net(images)
        reconstruction = F.binary_cross_entropy_with_logits(logits, images, reduction="sum")
        divergence = torch.distributions.kl_divergence(latent, prior).sum()
        loss = (reconstruction + divergence) / BATCH
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step(loss.item())
    return net, data


def finish(args, losses, result, out):
    net, data = result
    with torch.no_grad():
        images = torch.from_numpy(data.test_images[:10]).flatten(1)
        again = net.decoder(net.encoder(images)[:, :LATENT]).sigmoid()
        drawn = net.decoder(torch.randn(30, LATENT)).sigmoid()
    picture = Picture(940)
    picture.heading(14, "loss per image (logarithmic), each step and its running average")
    picture.losses(MARGIN, 240, losses)
    _rows(picture, 350, "held-out images, and their reconstructions from 16 numbers each", torch.cat([images, again]))
    _rows(picture, 590, "drawn from the prior", drawn)
    return [write_png(out / "autoencoder.png", picture.image)]


def _rows(picture, top: int, heading: str, images) -> None:
    picture.heading(top, heading)
    cell = (WIDTH - 2 * MARGIN) // 10
    for i, pixels in enumerate(images.numpy().reshape(-1, digits_data.SIDE, digits_data.SIDE)):
        picture.grey((MARGIN + i % 10 * cell, top + 36 + i // 10 * (cell + 4)), pixels, (cell - 6, cell - 6))


if __name__ == "__main__":
    sys.exit(training.main(sys.modules[__name__]))
