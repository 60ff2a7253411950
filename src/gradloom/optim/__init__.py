"""Optimizers and learning rate schedulers."""

import typing as _typing

from gradloom.optim import lr_scheduler
from gradloom.optim.adadelta import Adadelta
from gradloom.optim.adagrad import Adagrad
from gradloom.optim.adam import Adam
from gradloom.optim.adamax import Adamax
from gradloom.optim.adamw import AdamW
from gradloom.optim.asgd import ASGD
from gradloom.optim.lbfgs import LBFGS
from gradloom.optim.matrices import Adafactor, Muon
from gradloom.optim.nadam import NAdam
from gradloom.optim.optimizer import Optimizer
from gradloom.optim.radam import RAdam
from gradloom.optim.rmsprop import RMSprop
from gradloom.optim.rprop import Rprop
from gradloom.optim.sgd import SGD
from gradloom.optim.sparse_adam import SparseAdam
from gradloom.optim.swapping import swap_in_optimizer_params_and_state

from ..types.public import found_in as _found_in

__all__ = [
    "ASGD",
    "LBFGS",
    "SGD",
    "Adafactor",
    "Adadelta",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "Muon",
    "NAdam",
    "Optimizer",
    "RAdam",
    "RMSprop",
    "Rprop",
    "SparseAdam",
    "functional",
    "lr_scheduler",
    "swa_utils",
    "swap_in_optimizer_params_and_state",
]

if _typing.TYPE_CHECKING:
    from gradloom.optim import functional as functional, swa_utils as swa_utils
else:
    from gradloom.types.absent import absent as _absent

    def __getattr__(name):
        if name in ("functional", "swa_utils"):  # of which the second imports modules
            from importlib import import_module

            return import_module(f"gradloom.optim.{name}")
        raise _absent(__name__, name)


_found_in(__name__, Adafactor, Muon)
