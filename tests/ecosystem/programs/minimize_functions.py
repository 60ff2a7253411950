"""pytorch-minimize: Rosenbrock's function by every method, bounds, constraints, least squares, and its optimizers."""

import warnings

import torch
from torchmin import Minimizer, ScipyMinimizer, least_squares, minimize, minimize_constr
from torchmin.benchmarks import rosen

warnings.simplefilter("ignore")
METHODS = "bfgs l-bfgs cg newton-cg newton-exact trust-ncg trust-krylov trust-exact dogleg".split()
START = torch.tensor([1.3, 0.7, 0.8, 1.9, 1.2], dtype=torch.float64)


def close(value, digits=7):
    return [round(float(n), digits) + 0.0 for n in torch.as_tensor(value).detach().reshape(-1)]


def bowl(x):
    return (x.pow(4) + torch.arange(1.0, 6.0) * (x - 0.5).square()).sum() + x.sum().exp()


def unconstrained():
    for method in METHODS:
        function = bowl if method == "dogleg" else rosen  # dogleg needs a Hessian that is positive definite
        try:
            found = minimize(function, START, method=method, max_iter=200)
        except RuntimeError as error:  # trust-krylov, with the release of SciPy that is pinned
            print(method, error)
            continue
        print(method, bool(found.success), close(found.x), close(found.fun))


def line_searches():
    for search in ("strong-wolfe", "none"):
        found = minimize(rosen, START, method="bfgs", max_iter=8, options={"line_search": search, "lr": 0.001})
        print(search, close(found.fun), found.nit, found.nfev)


def bounded():
    lowest, highest = torch.full_like(START, -2.0), torch.full_like(START, 0.9)
    constraint = {"fun": lambda x: x.square().sum(), "ub": 2.0}
    found = minimize_constr(rosen, START / 2, constr=constraint, max_iter=200, tol=1e-8)
    print("constrained", close(found.x), close(found.x.square().sum()))
    found = minimize_constr(rosen, START / 2, bounds=(lowest, highest), max_iter=200, tol=1e-8)
    print("bounded", close(found.x))


def curve():
    t = torch.linspace(0, 3, 30, dtype=torch.float64)
    data = 2.5 * torch.exp(-1.3 * t) + 0.5 + 0.01 * torch.cos(7 * t)
    for solver in ("exact", "lsmr"):
        found = least_squares(
            lambda p: p[0] * torch.exp(-p[1] * t) + p[2] - data, torch.ones(3, dtype=torch.float64), tr_solver=solver
        )
        print("least squares", solver, close(found.x), close(found.cost))


def optimizers():
    for make in (
        lambda p: Minimizer(p, method="bfgs", max_iter=50),
        lambda p: Minimizer(p, method="newton-cg", max_iter=50),
        lambda p: ScipyMinimizer(p, method="L-BFGS-B", tol=1e-10),
        lambda p: ScipyMinimizer(p, method="SLSQP", tol=1e-10, bounds=[(None, 0.5), (0.0, None)]),
    ):
        torch.manual_seed(0)
        layer = torch.nn.Linear(3, 1, dtype=torch.float64)
        x = torch.randn(20, 3, dtype=torch.float64)
        y = x @ torch.tensor([1.0, -2.0, 0.25], dtype=torch.float64)[:, None] + 0.5
        optimizer = make(layer.parameters())

        def closure(layer=layer, optimizer=optimizer, x=x, y=y):
            optimizer.zero_grad()
            loss = (layer(x) - y).square().mean()
            if isinstance(optimizer, ScipyMinimizer):
                loss.backward()
            return loss

        optimizer.step(closure)
        print(type(optimizer).__name__, close(layer.weight), close(layer.bias))


unconstrained()
line_searches()
bounded()
curve()
optimizers()
