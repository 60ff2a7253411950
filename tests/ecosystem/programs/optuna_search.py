"""optuna: a search over a training program, by random and TPE samplers with pruning, and by its Gaussian process."""

import warnings

import optuna
import torch
from torch import nn

optuna.logging.set_verbosity(optuna.logging.ERROR)
warnings.filterwarnings("ignore")
torch.manual_seed(0)
x = torch.randn(48, 2)
y = (x[:, :1] * x[:, 1:]).tanh()


def train(trial):
    torch.manual_seed(trial.number)
    width = trial.suggest_int("width", 2, 12)
    lr = trial.suggest_float("lr", 1e-3, 0.3, log=True)
    kind = trial.suggest_categorical("optimizer", ["SGD", "Adam"])
    net = nn.Sequential(nn.Linear(2, width), nn.Tanh(), nn.Linear(width, 1))
    optimizer = getattr(torch.optim, kind)(net.parameters(), lr=lr)
    for step in range(12):
        loss = nn.functional.mse_loss(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        trial.report(loss.item(), step)
        if trial.should_prune():
            raise optuna.TrialPruned
    return loss.item()


for sampler in (optuna.samplers.RandomSampler(seed=1), optuna.samplers.TPESampler(seed=1, n_startup_trials=4)):
    study = optuna.create_study(sampler=sampler, pruner=optuna.pruners.MedianPruner(n_startup_trials=3))
    study.optimize(train, n_trials=10)
    for trial in study.trials:
        print(type(sampler).__name__, trial.number, trial.state.name, trial.value, trial.params["lr"])

study = optuna.create_study(sampler=optuna.samplers.GPSampler(seed=1, n_startup_trials=4))
study.optimize(lambda trial: (trial.suggest_float("a", -2, 2) - 0.7) ** 2, n_trials=8)
print("best", round(study.best_params["a"], 1), study.best_value < 1e-2)
