"""Training programs that run alone and on several ranks, on the same global batches."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

import gradloom as torch

nn, F = torch.nn, torch.nn.functional
STEPS, BATCH = 20, 8


class Mlp:
    """Regression with momentum."""

    parts = 1  # micro-batches of a step
    kind: Any = torch.optim.SGD
    options: dict[str, Any] = {"lr": 0.05, "momentum": 0.9}

    def model(self) -> Any:
        return nn.Sequential(nn.Linear(12, 40), nn.Tanh(), nn.Linear(40, 40), nn.ReLU(), nn.Linear(40, 3))

    def batch(self, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        x = rng.standard_normal((BATCH, 12))
        return x, np.tanh(x[:, :3] * x[:, 3:6])

    def loss(self, model: Any, x: Any, y: Any) -> Any:
        return F.mse_loss(model(x), y)


class DigitNet(nn.Module):
    """The network of the demo, with batch normalisation behind its convolutions."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(1, 6, 5), nn.BatchNorm2d(6)
        self.conv2, self.norm2 = nn.Conv2d(6, 8, 5), nn.BatchNorm2d(8)
        self.fc1, self.fc2 = nn.Linear(128, 32), nn.Linear(32, 10)

    def forward(self, x: Any) -> Any:
        x = F.max_pool2d(F.relu(self.norm1(self.conv1(x))), 2)
        x = F.max_pool2d(F.relu(self.norm2(self.conv2(x))), 2)
        return F.log_softmax(self.fc2(F.relu(self.fc1(x.flatten(1)))), dim=1)


class ConvNet(Mlp):
    """Classification of images, with statistics over the batches of all ranks."""

    def model(self) -> Any:
        return nn.SyncBatchNorm.convert_sync_batchnorm(DigitNet())

    def batch(self, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        y = rng.integers(0, 10, BATCH)
        return rng.standard_normal((BATCH, 1, 28, 28)) + y[:, None, None, None] / 5, y

    def loss(self, model: Any, x: Any, y: Any) -> Any:
        return F.nll_loss(model(x), y)


class Block(nn.Module):
    """Attention and a perceptron, each behind a layer normalisation."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attend, self.project = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.heads = heads

    def forward(self, x: Any) -> Any:
        n, length, width = x.shape
        q, k, v = self.attend(self.norm1(x)).view(n, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.project(y.transpose(1, 2).reshape(n, length, width))
        return x + self.mlp(self.norm2(x))


class Gpt(nn.Module):
    """A transformer on characters whose last layer has the weights of the first."""

    def __init__(self, vocabulary: int = 20, width: int = 16, length: int = 12) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList([Block(width, 2) for _ in range(2)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, ids: Any) -> Any:
        x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


class CharGpt(Mlp):
    """Prediction of the next character, with tied weights, AdamW and gradients of two micro-batches."""

    parts = 2
    kind = torch.optim.AdamW
    options = {"lr": 3e-3, "eps": 1e-4}

    def model(self) -> Any:
        return Gpt()

    def batch(self, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        text = (rng.integers(0, 20, (BATCH, 1)) + np.arange(13) * rng.integers(1, 3, (BATCH, 1))) % 20
        return text[:, :-1], text[:, 1:]

    def loss(self, model: Any, x: Any, y: Any) -> Any:
        return F.cross_entropy(model(x).flatten(0, 1), y.flatten())


PROGRAMS = {"mlp": Mlp, "convnet": ConvNet, "gpt": CharGpt}


def train(
    program: Mlp,
    dtype: Any = None,
    rank: int = 0,
    size: int = 1,
    wrap: Callable[[Any], Any] | None = None,
    optimizer: Callable[[Any, Mlp], Any] | None = None,
    full: Callable[[Any], dict[str, Any]] | None = None,
    steps: int = STEPS,
    turn: int = 0,
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Train on this rank's part of each batch.

    Args:
        program: what to train.
        dtype: of parameters and inputs; float32 by default.
        rank, size: this process's number and the number of processes.
        wrap: makes the module parallel.
        optimizer: makes the optimizer from parameters and program.
        full: returns the state_dict of the whole module.
        steps: to train for.
        turn: by how many places the samples of a batch are turned, which changes how sums are rounded, and no more.

    Returns:
        this rank's loss of each step, and all parameters and buffers.
    """
    dtype = dtype or torch.float32
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    module = program.model().to(dtype)
    model = module if wrap is None else wrap(module)
    made = (optimizer or _alone)(model.parameters(), program)
    losses = []
    for _ in range(steps):
        made.zero_grad()
        losses.append(0.0)
        for part in range(program.parts):
            x, y = (_mine(np.roll(one, turn, axis=0), rank, size, dtype) for one in program.batch(rng))
            with _syncing(model, part == program.parts - 1):
                loss = program.loss(model, x, y) / program.parts
                loss.backward()
            losses[-1] += loss.item()
        made.step()
    state = full(model) if full is not None else module.state_dict()
    return np.array(losses), {name: tensor.detach().numpy().copy() for name, tensor in state.items()}


@cache  # of three programs: several tests compare with each
def _trained_alone(
    program: type[Mlp],
) -> tuple[tuple[np.ndarray, dict[str, np.ndarray]], list[tuple[np.ndarray, dict[str, np.ndarray]]]]:
    """Return what training gives in float64, and in float32 with the samples of each batch in several orders."""
    return train(program(), torch.float64), [train(program(), torch.float32, turn=turn) for turn in (0, 1, 3)]


def _alone(parameters: Any, program: Mlp) -> Any:
    return program.kind(parameters, **program.options)


def _mine(array: np.ndarray, rank: int, size: int, dtype: Any) -> Any:
    part = torch.from_numpy(np.ascontiguousarray(array[rank::size]))
    return part.to(dtype) if part.is_floating_point() else part


def _syncing(model: Any, last: bool) -> Any:
    if hasattr(model, "set_requires_gradient_sync"):
        model.set_requires_gradient_sync(last)
        return contextlib.nullcontext()
    return contextlib.nullcontext() if last or not hasattr(model, "no_sync") else model.no_sync()


def assert_equal_up_to_rounding(program: Mlp, found: list[tuple[np.ndarray, dict[str, np.ndarray]]]) -> None:
    """Compare ranks with a process that trains alone.

    Rounding may differ. How far rounding leads away is known from the process that trains alone: it is the distance
    from the same training in float64, the largest for several orders of the samples, as one may come near by chance.
    The ranks may be eight times as far from that.
    """
    (exact_losses, exact), alone = _trained_alone(type(program))
    for _, state in found[1:]:
        assert state.keys() == found[0][1].keys()
        assert all(np.array_equal(state[name], found[0][1][name]) for name in state), "ranks have different parameters"
    losses = np.mean([losses for losses, _ in found], axis=0)
    _assert_as_near("losses", losses, [losses for losses, _ in alone], exact_losses)
    assert found[0][1].keys() == exact.keys()
    for name, value in found[0][1].items():
        _assert_as_near(name, value, [state[name] for _, state in alone], exact[name])


def _assert_as_near(name: str, found: np.ndarray, alone: list[np.ndarray], exact: np.ndarray) -> None:
    rounding = np.finfo(np.float32).eps * np.abs(exact).max()
    far, allowed = np.abs(found - exact).max(), 8 * max(rounding, *[np.abs(one - exact).max() for one in alone])
    assert far <= allowed, f"{name}: {far:.3g} from the result in float64, {allowed:.3g} allowed"
