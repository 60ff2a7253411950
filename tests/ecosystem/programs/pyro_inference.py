"""pyro: variational inference with guides written and made, enumeration, and the No-U-Turn sampler."""

import pyro
import pyro.distributions as dist
import torch
from pyro.infer import (
    HMC,
    MCMC,
    NUTS,
    SVI,
    Predictive,
    Trace_ELBO,
    TraceEnum_ELBO,
    TraceMeanField_ELBO,
    config_enumerate,
)
from pyro.infer.autoguide import AutoDelta, AutoDiagonalNormal, AutoLowRankMultivariateNormal, AutoNormal
from pyro.nn import PyroModule, PyroSample
from pyro.optim import Adam, ClippedAdam
from torch import nn
from torch.distributions import constraints

pyro.set_rng_seed(0)
tosses = torch.tensor([1.0] * 7 + [0.0] * 3)


def coin(tosses):
    fairness = pyro.sample("fairness", dist.Beta(10.0, 10.0))
    with pyro.plate("tosses", len(tosses)):
        pyro.sample("obs", dist.Bernoulli(fairness), obs=tosses)


def guide(tosses):
    a = pyro.param("a", torch.tensor(15.0), constraint=constraints.positive)
    b = pyro.param("b", torch.tensor(15.0), constraint=constraints.positive)
    pyro.sample("fairness", dist.Beta(a, b))


def fit(name, model, guide, elbo, steps, *data, optimizer=None):
    pyro.clear_param_store()
    pyro.set_rng_seed(1)
    svi = SVI(model, guide, optimizer or Adam({"lr": 0.02}), loss=elbo)
    for step in range(steps):
        print(name, step, svi.step(*data))


fit("coin", coin, guide, Trace_ELBO(), 10, tosses)
print("coin", pyro.param("a").item(), pyro.param("b").item())
fit("particles", coin, guide, Trace_ELBO(num_particles=4, vectorize_particles=True), 5, tosses)


class Regression(PyroModule):
    def __init__(self):
        super().__init__()
        self.linear = PyroModule[nn.Linear](3, 1)
        self.linear.weight = PyroSample(dist.Normal(0.0, 1.0).expand([1, 3]).to_event(2))
        self.linear.bias = PyroSample(dist.Normal(0.0, 10.0).expand([1]).to_event(1))

    def forward(self, x, y=None):
        scale = pyro.sample("scale", dist.LogNormal(-1.0, 0.3))
        mean = self.linear(x).squeeze(-1)
        with pyro.plate("data", x.shape[0]):
            pyro.sample("obs", dist.Normal(mean, scale), obs=y)
        return mean


x = torch.randn(40, 3)
y = x @ torch.tensor([1.0, -2.0, 0.5]) + 0.3 + 0.2 * torch.randn(40)
for make in (AutoNormal, AutoDiagonalNormal, AutoDelta, AutoLowRankMultivariateNormal):
    model = Regression()
    made = make(model)
    elbo = TraceMeanField_ELBO() if make is AutoNormal else Trace_ELBO()
    fit(make.__name__, model, made, elbo, 6, x, y, optimizer=ClippedAdam({"lr": 0.05, "clip_norm": 5.0}))
    median = made.median(x, y)
    print(make.__name__, {name: value.sum().item() for name, value in sorted(median.items())})
pyro.set_rng_seed(2)
drawn = Predictive(model, guide=made, num_samples=5)(x[:4])
print("predictive", tuple(drawn["obs"].shape), drawn["obs"].mean().item())


@config_enumerate
def mixture(data):
    weights = pyro.sample("weights", dist.Dirichlet(0.5 * torch.ones(2)))
    with pyro.plate("components", 2):
        locations = pyro.sample("locations", dist.Normal(0.0, 10.0))
    with pyro.plate("data", len(data)):
        assignment = pyro.sample("assignment", dist.Categorical(weights))
        pyro.sample("obs", dist.Normal(locations[assignment], 1.0), obs=data)


data = torch.tensor([0.0, 1.0, 10.0, 11.0, 12.0])
mixed = AutoDelta(pyro.poutine.block(mixture, expose=["weights", "locations"]))
fit("mixture", mixture, mixed, TraceEnum_ELBO(max_plate_nesting=1), 8, data)


def small(y):
    z = pyro.sample("z", dist.Normal(torch.zeros(2), torch.ones(2)).to_event(1))
    s = pyro.sample("s", dist.Gamma(2.0, 2.0))
    with pyro.plate("n", len(y)):
        pyro.sample("y", dist.Normal(z.sum(), s), obs=y)


for kernel, count in ((NUTS(small, max_tree_depth=4), 8), (HMC(small, step_size=0.05, num_steps=3), 8)):
    pyro.clear_param_store()
    pyro.set_rng_seed(3)
    sampler = MCMC(kernel, num_samples=count, warmup_steps=5, disable_progbar=True)
    sampler.run(y[:6].double())
    samples = sampler.get_samples()
    print(type(kernel).__name__, samples["z"].tolist(), samples["s"].tolist())
