"""Opacus: DP-SGD with hooks, by functorch and with fast gradient clipping; layers, validation, privacy budgets."""

import warnings

import torch
from opacus import GradSampleModule, PrivacyEngine
from opacus.accountants import GaussianAccountant, RDPAccountant
from opacus.accountants.utils import get_noise_multiplier
from opacus.grad_sample import wrap_model
from opacus.layers import DPGRU, DPLSTM, DPMultiheadAttention
from opacus.validators import ModuleValidator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

warnings.simplefilter("ignore")


def show(name, *values):
    print(name, *(f"{float(value):.7e}" for value in values))


def images():
    torch.manual_seed(0)
    x = torch.randn(24, 1, 8, 8)
    return x, (x.mean((1, 2, 3)) > 0).long()


def small():
    torch.manual_seed(1)
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, stride=2),
        nn.GroupNorm(2, 4),
        nn.Tanh(),
        nn.Flatten(),
        nn.Linear(36, 8),
        nn.ReLU(),
        nn.Linear(8, 2),
    )


def gradients_of_examples():
    x, y = images()
    for mode in ("hooks", "functorch", "ew"):
        for reduction in ("sum", "mean"):
            model = wrap_model(small(), grad_sample_mode=mode, batch_first=True, loss_reduction=reduction)
            nn.CrossEntropyLoss(reduction=reduction)(model(x), y).backward()
            show(f"{mode} {reduction}", *(p.grad_sample.norm() for p in model.parameters()))


def training(mode):
    x, y = images()
    model = small()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.5)
    loader = DataLoader(TensorDataset(x, y), batch_size=8)
    criterion = nn.CrossEntropyLoss()
    engine = PrivacyEngine(accountant="rdp")
    made = engine.make_private(
        module=model, optimizer=optimizer, data_loader=loader, noise_multiplier=0.7, max_grad_norm=1.0,
        poisson_sampling=False, grad_sample_mode=mode, criterion=criterion,
        noise_generator=torch.Generator().manual_seed(5),
    )  # fmt: skip
    (model, optimizer, criterion, loader) = made if mode == "ghost" else (*made[:2], criterion, made[2])
    for epoch in range(3):
        total = 0.0
        for images_, labels in loader:
            optimizer.zero_grad()
            loss = criterion(model(images_), labels)
            loss.backward()
            optimizer.step()
            total += loss.item()
        show(f"{mode} epoch {epoch}", total, sum(p.norm() for p in model.parameters()), engine.get_epsilon(1e-3))


def layers():
    torch.manual_seed(2)
    x = torch.randn(5, 4, 6)
    for layer in (DPLSTM(6, 3, batch_first=True), DPGRU(6, 3, batch_first=True, num_layers=2)):
        model = GradSampleModule(layer)
        model(x)[0].square().sum().backward()
        show(type(layer).__name__, *(p.grad_sample.norm() for p in model.parameters()))
    model = GradSampleModule(DPMultiheadAttention(6, 2))
    x = x.transpose(0, 1)
    model(x, x, x)[0].square().mean().backward()
    show("attention", *(p.grad_sample.norm() for p in model.parameters()))
    model = GradSampleModule(nn.Sequential(nn.Embedding(7, 4), nn.LayerNorm(4)))
    found = model(torch.arange(12).view(3, 4) % 7)
    (found.square() * torch.arange(4.0)).sum().backward()
    show("embedding", *(p.grad_sample.norm() for p in model.parameters()))


def validation():
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.LSTM(4, 4))
    print("errors", [type(error).__name__ for error in ModuleValidator.validate(model)])
    fixed = ModuleValidator.fix(model)
    print("fixed", [type(module).__name__ for module in fixed], ModuleValidator.is_valid(fixed))


def budgets():
    for accountant in (RDPAccountant(), GaussianAccountant()):
        for _ in range(20):
            accountant.step(noise_multiplier=1.1, sample_rate=0.05)
        show(type(accountant).__name__, accountant.get_epsilon(delta=1e-5))
    show("multiplier", get_noise_multiplier(target_epsilon=2.0, target_delta=1e-5, sample_rate=0.01, steps=100))


gradients_of_examples()
for mode in ("hooks", "functorch", "ghost"):
    training(mode)
layers()
validation()
budgets()
