"""Optimizers and learning rate schedulers."""

from gradloom.optim import lr_scheduler
from gradloom.optim.adagrad import Adadelta, Adagrad
from gradloom.optim.adam import Adam, AdamW
from gradloom.optim.adam_variants import Adamax, NAdam, RAdam
from gradloom.optim.lbfgs import LBFGS
from gradloom.optim.optimizer import Optimizer
from gradloom.optim.rmsprop import RMSprop
from gradloom.optim.rprop import ASGD, Rprop
from gradloom.optim.sgd import SGD

__all__ = [
    "ASGD",
    "LBFGS",
    "SGD",
    "Adadelta",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "NAdam",
    "Optimizer",
    "RAdam",
    "RMSprop",
    "Rprop",
    "lr_scheduler",
]
