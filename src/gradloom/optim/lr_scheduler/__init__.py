"""Learning rate schedulers: set the learning rates of an optimizer's groups once per epoch or step."""

from typing import TYPE_CHECKING

from gradloom.optim.lr_scheduler.base import *  # noqa: F403
from gradloom.optim.lr_scheduler.base import _LRScheduler as _LRScheduler
from gradloom.optim.lr_scheduler.combined import *  # noqa: F403
from gradloom.optim.lr_scheduler.cyclic import *  # noqa: F403
from gradloom.optim.lr_scheduler.factors import *  # noqa: F403
from gradloom.optim.lr_scheduler.plateau import *  # noqa: F403

from ...types.public import found_in as _found_in

if not TYPE_CHECKING:  # type checkers read the families' lists of names, but not an expression that joins them
    from gradloom.types.absent import getattr_of as _getattr_of

    __getattr__ = _getattr_of(__name__)
    _FAMILIES = "base combined cyclic factors plateau".split()
    __all__ = sorted(name for family in _FAMILIES for name in globals()[family].__all__)  # noqa: PLE0605
    _found_in(__name__, *(globals()[name] for name in __all__))
