"""Learning rate schedulers: set the learning rates of an optimizer's groups once per epoch or step."""

from typing import TYPE_CHECKING

from gradloom.optim.lr_scheduler.base import *  # noqa: F403
from gradloom.optim.lr_scheduler.combined import *  # noqa: F403
from gradloom.optim.lr_scheduler.cyclic import *  # noqa: F403
from gradloom.optim.lr_scheduler.factors import *  # noqa: F403
from gradloom.optim.lr_scheduler.plateau import *  # noqa: F403

if not TYPE_CHECKING:  # type checkers read the families' lists, but no expressions
    _FAMILIES = "base combined cyclic factors plateau".split()
    __all__ = sorted(name for family in _FAMILIES for name in globals()[family].__all__)  # noqa: PLE0605
