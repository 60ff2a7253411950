"""Train a graph network on Zachary's karate club: told the side of two members, it finds that of the other 32.

Each layer mixes the features of neighbors, by a product with the normalized adjacency, a sparse COO matrix (Kipf and
Welling 2017). A member's only input is its index. The file karate_club.txt says where the data come from. It leaves in
the folder --out

    members.png    the loss curve, and the club with the side that the network gives each member
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import training
from output import write_png
from pictures import BLUE, FAINT, INK, MARGIN, PAPER, RED, WIDTH, Picture

import gradloom as torch

nn = torch.nn
F = torch.nn.functional

STEPS, QUICK = 300, 10
HIDDEN = 8
TOLD = (0, 33)  # the instructor and the president


def club():
    """Return the side of each member, int64 (34,), and the pairs of friends, int64 (2, 78)."""
    lines = Path(__file__).with_name("karate_club.txt").read_text().splitlines()
    sides, *pairs = [list(map(int, line.split())) for line in lines if not line.startswith("#")]
    return np.array(sides), np.array(pairs).T


def adjacency(pairs: np.ndarray, members: int):
    """Return D^(-1/2) (A + I) D^(-1/2) as a sparse (members, members) matrix; D has the row sums of A + I."""
    own = np.arange(members)
    rows, columns = np.concatenate([pairs, pairs[::-1], np.stack([own, own])], axis=1)
    degrees = np.bincount(rows)
    values = (degrees[rows] * degrees[columns]) ** -0.5
    indices = torch.from_numpy(np.stack([rows, columns]))
    return torch.sparse_coo_tensor(indices, torch.from_numpy(values), (members, members)).coalesce()


class GraphNet(nn.Module):
    """Three layers of aggregation, from (members, features) to (members, 2) scores of the sides."""

    def __init__(self, members: int):
        super().__init__()
        sizes = (members, HIDDEN, HIDDEN, 2)
        self.layers = nn.ModuleList(nn.Linear(a, b, bias=False) for a, b in zip(sizes[:-1], sizes[1:], strict=True))

    def forward(self, neighbors, x):
        for layer in self.layers:
            x = torch.sparse.mm(neighbors, layer(torch.tanh(x)))
        return x


def train(args, step):
    sides, pairs = club()
    torch.manual_seed(args.seed)
    net = GraphNet(len(sides)).to(torch.float64)
    neighbors, members = adjacency(pairs, len(sides)), torch.eye(len(sides), dtype=torch.float64)
    told = torch.tensor(TOLD)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01, weight_decay=5e-4)
    for _ in range(args.steps):
        scores = net(neighbors, members)
        loss = F.cross_entropy(scores[told], torch.from_numpy(sides)[told])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step(loss.item())
    with torch.no_grad():
        return net(neighbors, members).argmax(1).numpy()


def layout(pairs: np.ndarray, members: int) -> np.ndarray:
    """Return places (members, 2) in 0..1 that are about as far apart as the paths between members are long."""
    near = np.eye(members, dtype=bool)
    near[pairs[0], pairs[1]] = near[pairs[1], pairs[0]] = True
    reached, lengths = near, np.full((members, members), 1.0)
    while not reached.all():
        lengths[~reached] += 1
        reached = reached @ near
    upper = torch.triu_indices(members, members, 1)
    wanted = torch.from_numpy(lengths)[upper[0], upper[1]]
    places = torch.from_numpy(np.random.default_rng(1).normal(size=(members, 2))).requires_grad_()
    optimizer = torch.optim.Adam([places], lr=0.05)
    for _ in range(300):
        found = (places[upper[0]] - places[upper[1]]).norm(dim=1)
        optimizer.zero_grad()
        ((found / wanted - 1) ** 2).mean().backward()
        optimizer.step()
    found = places.detach().numpy()
    return (found - found.min(0)) / np.ptp(found, axis=0)


def finish(args, losses, found, out):
    sides, pairs = club()
    others = np.setdiff1d(np.arange(len(sides)), TOLD)
    print(f"{(found == sides)[others].sum()} of the {len(others)} other members are on the side that they joined")
    picture = Picture(860)
    picture.heading(14, "cross entropy of the two members (logarithmic), each step and its running average")
    picture.losses(MARGIN, 200, losses)
    picture.heading(316, "what the network says of each member; the ring shows the side that the member joined")
    points = (layout(pairs, len(sides)) * (WIDTH - 4 * MARGIN, 420) + (2 * MARGIN, 385)).tolist()
    for a, b in pairs.T:
        picture.draw.line([*points[a], *points[b]], FAINT, 2)
    for member, (x, y) in enumerate(points):
        inner, ring = ((BLUE, RED)[group[member]] for group in (found, sides))
        picture.draw.ellipse([x - 15, y - 15, x + 15, y + 15], inner, ring, 4)
        picture.draw.text((x, y), str(member), PAPER, picture.small, anchor="mm")
    picture.draw.text(
        (MARGIN, 838), "blue: around the instructor, 0; red: around the president, 33", INK, picture.small
    )
    return [write_png(out / "members.png", picture.image)]


if __name__ == "__main__":
    sys.exit(training.main(sys.modules[__name__]))
