"""Bayesian optimization: a Gaussian process, acquisition functions and their optimization."""

import warnings

import torch
from botorch.acquisition import (
    LogExpectedImprovement,
    UpperConfidenceBound,
    qExpectedImprovement,
    qLogNoisyExpectedImprovement,
)
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.models.transforms import Normalize, Standardize
from botorch.optim import optimize_acqf
from botorch.sampling import SobolQMCNormalSampler
from botorch.utils.sampling import draw_sobol_samples
from gpytorch.mlls import ExactMarginalLogLikelihood

warnings.simplefilter("ignore")
torch.manual_seed(0)
torch.set_default_dtype(torch.float64)


def f(x):
    return -((x - 0.4) ** 2).sum(-1, keepdim=True) + 0.1 * torch.sin(12 * x).sum(-1, keepdim=True)


bounds = torch.tensor([[0.0, 0.0], [1.0, 1.0]])
X = draw_sobol_samples(bounds, n=8, q=1, seed=3).squeeze(1)
Y = f(X)
print(f"{X.sum().item():.6f} {Y.sum().item():.6f}")
model = SingleTaskGP(X, Y, input_transform=Normalize(2), outcome_transform=Standardize(1))
mll = ExactMarginalLogLikelihood(model.likelihood, model)
fit_gpytorch_mll(mll, optimizer_kwargs={"options": {"maxiter": 5}})
print("hyper", [f"{p.detach().sum().item():.5f}" for p in model.parameters()])
post = model.posterior(torch.tensor([[0.3, 0.7], [0.9, 0.1]]))
print("posterior", post.mean.flatten().tolist(), post.variance.flatten().tolist())
print("samples", post.rsample(torch.Size([2])).flatten().tolist())
sampler = SobolQMCNormalSampler(torch.Size([32]), seed=1)
x = torch.tensor([[[0.2, 0.3]], [[0.6, 0.6]]], requires_grad=True)
for acq in (
    LogExpectedImprovement(model, Y.max()),
    UpperConfidenceBound(model, 0.2),
    qExpectedImprovement(model, Y.max(), sampler),
    qLogNoisyExpectedImprovement(model, X, sampler),
):
    value = acq(x)
    (g,) = torch.autograd.grad(value.sum(), x)
    print(type(acq).__name__, value.tolist(), g.flatten().tolist())
cand, val = optimize_acqf(
    UpperConfidenceBound(model, 0.2), bounds, q=1, num_restarts=3, raw_samples=16, options={"maxiter": 20, "seed": 0}
)
print("candidate", [f"{v:.4f}" for v in cand.flatten().tolist()], f"{val.item():.5f}")
