"""torch.func: an ensemble by vmap, gradients of each sample, MAML, Hessians, and a neural tangent kernel."""

import torch
from torch import nn
from torch.func import (
    functional_call,
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    stack_module_state,
    vjp,
    vmap,
)

torch.manual_seed(0)


def make():
    return nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2))


x, y = torch.randn(10, 3), torch.randint(2, (10,))
models = [make() for _ in range(4)]
parameters, buffers = stack_module_state(models)
base = make().to("meta")


def loss_of(parameters, x, y):
    return nn.functional.cross_entropy(functional_call(base, parameters, (x,)), y)


for step in range(4):
    gradients, losses = vmap(grad_and_value(loss_of), (0, None, None))(parameters, x, y)
    parameters = {name: (p - 0.5 * gradients[name]).detach() for name, p in parameters.items()}
    print("ensemble", step, losses.tolist(), sum(g.square().sum() for g in gradients.values()).sqrt().item())

single = {name: p.detach().clone() for name, p in models[0].named_parameters()}
one = lambda p, x, y: loss_of(p, x[None], y[None])  # noqa: E731
each = vmap(grad(one), (None, 0, 0))(single, x, y)
norms = torch.stack([g.flatten(1).square().sum(1) for g in each.values()]).sum(0).sqrt()
print("samples", norms.tolist())
clipped = {name: (g / norms.view(-1, *[1] * (g.dim() - 1)).clamp(min=0.5)).mean(0) for name, g in each.items()}
print("private", sum(g.square().sum() for g in clipped.values()).item())


def adapted(parameters, task):
    (x1, y1), (x2, y2) = task
    gradients = grad(loss_of)(parameters, x1, y1)
    return loss_of({name: p - 0.1 * gradients[name] for name, p in parameters.items()}, x2, y2)


tasks = (torch.randn(5, 6, 3), torch.randint(2, (5, 6))), (torch.randn(5, 6, 3), torch.randint(2, (5, 6)))
meta = {name: p.clone() for name, p in single.items()}
for step in range(4):
    outer = lambda p: vmap(adapted, (None, 0))(p, tasks).mean()  # noqa: E731
    gradients, loss = grad_and_value(outer)(meta)
    meta = {name: p - 0.3 * gradients[name] for name, p in meta.items()}
    print("maml", step, loss.item(), sum(g.square().sum() for g in gradients.values()).sqrt().item())

rosenbrock = lambda v: ((1 - v[:-1]) ** 2 + 100 * (v[1:] - v[:-1] ** 2) ** 2).sum()  # noqa: E731
place = torch.tensor([-1.0, 1.2, 0.5], dtype=torch.float64)
for step in range(5):
    slope, curve = grad(rosenbrock)(place), hessian(rosenbrock)(place)
    place = place - torch.linalg.solve(curve + 10 * torch.eye(3), slope)
    print("newton", step, rosenbrock(place).item(), place.tolist())
output = lambda p, x: functional_call(base, p, (x,))  # noqa: E731
reverse, forward = jacrev(output)(single, x[0]), jacfwd(output)(single, x[0])
print("jacobians", [torch.allclose(reverse[name], forward[name], atol=1e-6) for name in single])
rows = vmap(jacrev(output), (None, 0))(single, x[:3])
kernel = sum(torch.einsum("naf,mbf->nmab", j.flatten(2), j.flatten(2)) for j in rows.values())
print("kernel", kernel.diagonal(dim1=2, dim2=3).sum(-1).tolist())
value, tangent = jvp(lambda x: output(single, x), (x[0],), (torch.ones(3),))
_, pull = vjp(lambda x: output(single, x), x[0])
print("jvp", tangent.tolist(), pull(torch.ones(2))[0].sum().item(), tangent.sum().item())
noisy = vmap(lambda x: x + torch.randn_like(x).mean() * 0 + torch.rand(()), randomness="different")(torch.zeros(4))
print("random", noisy.tolist())
