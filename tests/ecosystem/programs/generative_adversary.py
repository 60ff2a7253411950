"""A DCGAN on small pictures: two networks that are trained in turn, spectral norm, and samples."""

import torch
from torch import nn

torch.manual_seed(0)
SIZE, NOISE = 8, 6


def pictures(count):
    """Return squares of random places and brightness, (count, 1, SIZE, SIZE) in [-1, 1]."""
    rows, columns = torch.randint(SIZE - 3, (2, count, 1, 1))
    grid = torch.arange(SIZE)
    inside = lambda start, axis: (axis >= start) & (axis < start + 3)  # noqa: E731
    square = inside(rows, grid[:, None]) & inside(columns, grid[None, :])
    return (square * (0.5 + torch.rand(count, 1, 1)) - 1).unsqueeze(1).clamp(-1, 1)


generator = nn.Sequential(
    nn.ConvTranspose2d(NOISE, 16, 2, bias=False),
    nn.BatchNorm2d(16),
    nn.ReLU(True),
    nn.ConvTranspose2d(16, 8, 4, 2, 1, bias=False),
    nn.BatchNorm2d(8),
    nn.ReLU(True),
    nn.ConvTranspose2d(8, 1, 4, 2, 1),
    nn.Tanh(),
)
critic = nn.Sequential(
    nn.utils.parametrizations.spectral_norm(nn.Conv2d(1, 8, 4, 2, 1)),
    nn.LeakyReLU(0.2, inplace=True),
    nn.Conv2d(8, 16, 4, 2, 1),
    nn.BatchNorm2d(16),
    nn.LeakyReLU(0.2, inplace=True),
    nn.Conv2d(16, 1, 2),
    nn.Flatten(0),
)
for module in [*generator.modules(), *critic.modules()]:
    if isinstance(module, nn.BatchNorm2d):
        nn.init.normal_(module.weight, 1.0, 0.02)

criterion = nn.BCEWithLogitsLoss()
of_critic = torch.optim.Adam(critic.parameters(), lr=2e-4, betas=(0.5, 0.999))
of_generator = torch.optim.Adam(generator.parameters(), lr=2e-4, betas=(0.5, 0.999))


def norm(model):
    return nn.utils.get_total_norm([p.grad for p in model.parameters()]).item()


for step in range(12):
    real, fake = pictures(16), generator(torch.randn(16, NOISE, 1, 1))
    of_critic.zero_grad()
    on_real = criterion(critic(real), torch.full((16,), 0.9))
    on_fake = criterion(critic(fake.detach()), torch.zeros(16))
    (on_real + on_fake).backward()
    of_critic.step()
    of_generator.zero_grad()
    fooled = criterion(critic(fake), torch.ones(16))
    fooled.backward()
    of_generator.step()
    print("step", step, on_real.item(), on_fake.item(), fooled.item(), norm(critic), norm(generator))

# The gradient penalty of WGAN-GP differentiates the norm of a gradient.
mix = torch.lerp(pictures(4), generator(torch.randn(4, NOISE, 1, 1)).detach(), torch.rand(4, 1, 1, 1)).requires_grad_()
(slope,) = torch.autograd.grad(critic(mix).sum(), mix, create_graph=True)
penalty = (slope.flatten(1).norm(2, dim=1) - 1).square().mean()
of_critic.zero_grad()
penalty.backward()
print(
    "penalty",
    penalty.item(),
    nn.utils.get_total_norm([p.grad for p in critic.parameters() if p.grad is not None]).item(),
)
generator.eval()
with torch.no_grad():
    print("sample", generator(torch.zeros(1, NOISE, 1, 1))[0, 0, 3].tolist())
