"""TorchOpt: functional and differentiable optimizers, MAML, implicit gradients, zero-order gradients, schedules."""

import torch
import torch.nn.functional as F
import torchopt
from torch import nn
from torchopt.diff.implicit import ImplicitMetaGradientModule, custom_root
from torchopt.diff.zero_order import zero_order

torch.set_default_dtype(torch.float64)  # rounding in float32 is magnified by RMSprop


def show(name, *values):
    print(name, *(f"{float(value):.7e}" for value in values))


def data(seed=0):
    torch.manual_seed(seed)
    x = torch.randn(16, 3)
    return x, (x[:, :1] - 2 * x[:, 1:2]).tanh()


def network():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, 1))


def functional():
    x, y = data()
    for make in (
        lambda: torchopt.sgd(lr=0.1, momentum=0.9, nesterov=True), lambda: torchopt.adam(lr=0.05),
        lambda: torchopt.adamw(lr=0.05, weight_decay=0.1), lambda: torchopt.rmsprop(lr=0.02),
        lambda: torchopt.adagrad(lr=0.1), lambda: torchopt.adadelta(lr=1.0), lambda: torchopt.radam(lr=0.05),
        lambda: torchopt.adamax(lr=0.05),
        lambda: torchopt.chain(torchopt.clip.clip_grad_norm(max_norm=0.1), torchopt.sgd(lr=0.5)),
        lambda: torchopt.adam(lr=torchopt.schedule.linear_schedule(0.1, 0.01, 5, 0)),
    ):  # fmt: skip
        model = network()
        params = dict(model.named_parameters())
        optimizer = make()
        state = optimizer.init(params)
        for _ in range(6):
            loss = F.mse_loss(torch.func.functional_call(model, params, (x,)), y)
            names = list(params)
            gradients = dict(zip(names, torch.autograd.grad(loss, list(params.values())), strict=True))
            updates, state = optimizer.update(gradients, state, params=params, inplace=False)
            params = torchopt.apply_updates(params, updates, inplace=False)
        show("functional", loss, sum(p.norm() for p in params.values()))


def wrapped():
    x, y = data()
    for make in (torchopt.Adam, torchopt.SGD, torchopt.RMSProp, torchopt.AdamW, torchopt.AdaMax):
        model = network()
        optimizer = make(model.parameters(), lr=0.05)
        for _ in range(5):
            loss = F.mse_loss(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        show(make.__name__, loss, sum(p.norm() for p in model.parameters()))


def meta(make):
    model, scale = network(), nn.Parameter(torch.tensor(0.5))
    outer = torch.optim.SGD([*model.parameters(), scale], lr=0.1)
    for step in range(2):
        inner = make(model)
        start = torchopt.extract_state_dict(model, by="reference", detach_buffers=True)
        optimizer_start = torchopt.extract_state_dict(inner, by="reference")
        total = 0.0
        for task in range(2):
            x, y = data(task)
            for _ in range(3):
                inner.step(scale * F.mse_loss(model(x[:8]), y[:8]))
            total = total + F.mse_loss(model(x[8:]), y[8:])
            torchopt.recover_state_dict(model, start)
            torchopt.recover_state_dict(inner, optimizer_start)
        outer.zero_grad()
        total.backward()
        show(f"meta {step}", total, scale.grad, sum(p.grad.norm() for p in model.parameters()))
        outer.step()


class Ridge(ImplicitMetaGradientModule, linear_solve=torchopt.linear_solve.solve_normal_cg(maxiter=20, atol=0)):
    def __init__(self, base):
        super().__init__()
        self.base = base
        self.weights = nn.Parameter(base.detach().clone())

    def objective(self, x, y):
        return F.mse_loss(x @ self.weights, y) + 0.5 * (self.weights - self.base).square().sum()

    def solve(self, x, y):
        optimizer = torchopt.SGD([self.weights], lr=0.2)
        with torch.enable_grad():
            for _ in range(200):
                loss = self.objective(x, y)
                optimizer.zero_grad()
                loss.backward(inputs=[self.weights])
                optimizer.step()
        return self


def implicit():
    x, y = data()
    base = nn.Parameter(torch.tensor([[0.5], [0.1], [-0.3]]))
    solved = Ridge(base).solve(x, y)
    (gradient,) = torch.autograd.grad(solved.weights.square().sum(), base)
    show("module", *solved.weights.detach().reshape(-1), *gradient.reshape(-1))

    def optimality(params, strength, x, y):
        return torch.func.grad(lambda p: F.mse_loss(x @ p, y) + strength * p.square().sum())(params)

    for solver in (torchopt.linear_solve.solve_cg(maxiter=30, atol=0), torchopt.linear_solve.solve_inv(ns=False)):

        @custom_root(optimality, argnums=1, solve=solver)
        def ridge(params, strength, x, y):
            system = x.T @ x / len(x) + strength * torch.eye(3)
            return torch.linalg.solve(system, x.T @ y / len(x)).detach()

        strength = torch.tensor(0.3, requires_grad=True)
        (gradient,) = torch.autograd.grad(ridge(torch.zeros(3, 1), strength, x, y).sum(), strength)
        show("root", gradient)


def without_gradients():
    for method in ("naive", "forward", "antithetic"):
        distribution = torch.distributions.Normal(loc=0, scale=1)

        @zero_order(distribution, method=method, num_samples=50, sigma=0.01)
        def loss(params, x):
            return (x * params).square().mean()

        params = torch.tensor([1.0, -2.0, 0.5], requires_grad=True)
        torch.manual_seed(3)
        (gradient,) = torch.autograd.grad(loss(params, torch.arange(3.0)), params)
        show(method, *gradient)


functional()
wrapped()
meta(lambda model: torchopt.MetaAdam(model, lr=0.05, use_accelerated_op=False))
meta(lambda model: torchopt.MetaSGD(model, lr=0.1, momentum=0.9))
meta(lambda model: torchopt.MetaRMSProp(model, lr=0.01))
implicit()
without_gradients()
