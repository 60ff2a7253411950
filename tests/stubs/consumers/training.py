"""A network of one's own, trained: modules, losses, optimizers, schedulers, saving and loading."""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_type

import gradloom as torch
import gradloom.nn.functional as F
from gradloom import Tensor, nn
from gradloom.optim.lr_scheduler import CosineAnnealingLR, LRScheduler, ReduceLROnPlateau, StepLR


class Block(nn.Module):
    scale: Tensor

    def __init__(self, channels: int, *, kernel: int | tuple[int, int] = 3) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, kernel, padding="same")
        self.norm = nn.BatchNorm2d(channels)
        self.gain = nn.Parameter(torch.ones(channels, 1, 1))
        self.register_buffer("scale", torch.tensor(0.5))

    def forward(self, x: Tensor, *, residual: bool = True) -> Tensor:
        y = F.relu(self.norm(self.conv(x))) * self.gain * self.scale
        return x + y if residual else y


class Net(nn.Module):
    def __init__(self, classes: int = 10) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([Block(4), Block(4, kernel=(3, 3))])
        self.head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.1), nn.Linear(4, classes))

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        assert_type(self.head(x), Tensor)
        return self.head(x)


def batches(count: int, generator: torch.Generator) -> Iterator[tuple[Tensor, Tensor]]:
    for _ in range(count):
        yield torch.randn(8, 4, 6, 6, generator=generator), torch.randint(0, 10, (8,), generator=generator)


def train(net: Net, epochs: int) -> list[float]:
    optimizer: torch.optim.Optimizer = torch.optim.SGD(
        [{"params": list(net.head.parameters()), "lr": 0.1}, {"params": net.blocks.parameters()}],
        lr=0.05,
        momentum=0.9,
        nesterov=True,
    )
    schedulers: list[LRScheduler] = [StepLR(optimizer, step_size=2, gamma=0.5), CosineAnnealingLR(optimizer, T_max=10)]
    loss_function = nn.CrossEntropyLoss(label_smoothing=0.1)
    losses: list[float] = []
    generator = torch.Generator().manual_seed(0)
    net.train()
    for _ in range(epochs):
        for x, y in batches(2, generator):
            optimizer.zero_grad()
            logits = net(x)
            assert_type(logits, Tensor)
            loss = loss_function(logits, y) + 1e-4 * sum((p**2).sum() for p in net.parameters())
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), max_norm=1.0)
            optimizer.step()
            losses.append(float(loss))
        for scheduler in schedulers:
            scheduler.step()
    return losses


@torch.no_grad()
def accuracy(net: nn.Module, x: Tensor, y: Tensor) -> float:
    net.eval()
    predicted: Tensor = net(x).argmax(dim=1)
    return (predicted == y).float().mean().item()  # type: ignore[no-any-return]


def fit_with_closure(net: Net, x: Tensor, y: Tensor) -> None:
    optimizer = torch.optim.LBFGS(net.parameters(), lr=1, max_iter=2, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        return loss

    optimizer.step(closure)


def main() -> None:
    torch.manual_seed(0)
    net = Net().to(torch.float32)
    assert_type(net, Net)
    train(net, 1)
    adam = torch.optim.AdamW(net.named_parameters(), lr=1e-3, betas=(0.9, 0.99), weight_decay=1e-2)
    plateau = ReduceLROnPlateau(adam, patience=3)
    plateau.step(0.5)
    state = net.state_dict()
    assert_type(net.load_state_dict(state).missing_keys, list[str])
    for name, parameter in net.named_parameters():
        assert_type(name, str)
        assert_type(parameter, nn.Parameter)
        if parameter.grad is not None:
            assert_type(parameter.grad, Tensor)
    with torch.inference_mode():
        print(accuracy(net, torch.randn(4, 4, 6, 6), torch.zeros(4, dtype=torch.int64)))
    fit_with_closure(net, torch.randn(4, 4, 6, 6), torch.zeros(4, dtype=torch.long))
    net.apply(lambda module: module.requires_grad_(False))


if __name__ == "__main__":
    main()
