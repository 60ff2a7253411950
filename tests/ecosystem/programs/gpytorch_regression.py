"""gpytorch: exact regression with several kernels, and a sparse variational one and a classifier in mini-batches."""

import gpytorch
import torch
from gpytorch import kernels, likelihoods, means, mlls, variational

torch.manual_seed(0)
x = torch.linspace(0, 1, 30, dtype=torch.float64)
y = torch.sin(6.28 * x) + 0.1 * torch.randn(30, dtype=torch.float64)
test = torch.linspace(0, 1.2, 9, dtype=torch.float64)


class Exact(gpytorch.models.ExactGP):
    def __init__(self, likelihood, kernel, data=(x, y)):
        super().__init__(*data, likelihood)
        self.mean = means.ConstantMean()
        self.kernel = kernel

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean(x), self.kernel(x))


def train(name, model, objective, batches, lr=0.1):
    parameters = list(dict.fromkeys([*model.parameters(), *objective.likelihood.parameters()]))
    optimizer = torch.optim.Adam(parameters, lr=lr)
    model.train()
    objective.likelihood.train()
    for step, (inputs, targets) in enumerate(batches):
        optimizer.zero_grad()
        loss = -objective(model(inputs), targets)
        loss.backward()
        optimizer.step()
        norm = torch.nn.utils.get_total_norm([p.grad for p in parameters if p.grad is not None])
        print(name, step, loss.item(), norm.item())
    model.eval()
    objective.likelihood.eval()


KERNELS = {
    "rbf": lambda: kernels.ScaleKernel(kernels.RBFKernel(lengthscale_prior=gpytorch.priors.GammaPrior(3.0, 6.0))),
    "matern": lambda: kernels.ScaleKernel(kernels.MaternKernel(nu=2.5)) + kernels.LinearKernel(),
    "periodic": lambda: kernels.PeriodicKernel() * kernels.RQKernel(),
    "spectral": lambda: kernels.SpectralMixtureKernel(num_mixtures=2),
}
for name, kernel in KERNELS.items():
    torch.manual_seed(1)
    likelihood = likelihoods.GaussianLikelihood()
    model = Exact(likelihood, kernel()).double()
    train(name, model, mlls.ExactMarginalLogLikelihood(likelihood, model), [(x, y)] * 6)
    with torch.no_grad(), gpytorch.settings.fast_pred_var():
        found = likelihood(model(test))
        lower, upper = found.confidence_region()
    print(name, found.mean.tolist(), found.variance.sum().item(), (upper - lower).mean().item())
    with torch.no_grad():
        print(name, model(test).rsample(torch.Size([2])).shape, model(test).log_prob(torch.zeros_like(test)).item())


class Sparse(gpytorch.models.ApproximateGP):
    def __init__(self, inducing, distribution=variational.CholeskyVariationalDistribution):
        strategy = variational.VariationalStrategy(self, inducing, distribution(inducing.shape[0]))
        super().__init__(strategy)
        self.mean = means.LinearMean(1)
        self.kernel = kernels.ScaleKernel(kernels.RBFKernel())

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean(x), self.kernel(x))


batches = [(x[k::3, None], y[k::3]) for k in range(3)] * 2
for distribution in (variational.CholeskyVariationalDistribution, variational.MeanFieldVariationalDistribution):
    torch.manual_seed(2)
    model, likelihood = Sparse(x[::4, None].clone(), distribution).double(), likelihoods.GaussianLikelihood().double()
    name = distribution.__name__
    train(name, model, mlls.VariationalELBO(likelihood, model, num_data=30), batches)
    with torch.no_grad():
        print(name, likelihood(model(test[:, None])).mean.tolist())

model, likelihood = Sparse(x[::4, None].clone()).double(), likelihoods.BernoulliLikelihood()
objective = mlls.PredictiveLogLikelihood(likelihood, model, num_data=30)
train("classifier", model, objective, [(inputs, (targets > 0).double()) for inputs, targets in batches])
with torch.no_grad():
    print("classifier", likelihood(model(test[:, None])).mean.tolist())
