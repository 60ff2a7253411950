"""All modules, gathered from their families."""

from typing import TYPE_CHECKING

from gradloom.nn.modules.activation import *  # noqa: F403
from gradloom.nn.modules.adaptive import *  # noqa: F403
from gradloom.nn.modules.batchnorm import *  # noqa: F403
from gradloom.nn.modules.container import *  # noqa: F403
from gradloom.nn.modules.conv import *  # noqa: F403
from gradloom.nn.modules.distance import *  # noqa: F403
from gradloom.nn.modules.dropout import *  # noqa: F403
from gradloom.nn.modules.flatten import *  # noqa: F403
from gradloom.nn.modules.lazy import *  # noqa: F403
from gradloom.nn.modules.linear import *  # noqa: F403
from gradloom.nn.modules.linear_cross_entropy_options import *  # noqa: F403
from gradloom.nn.modules.loss import *  # noqa: F403
from gradloom.nn.modules.module import Module as Module
from gradloom.nn.modules.normalization import *  # noqa: F403
from gradloom.nn.modules.padding import *  # noqa: F403
from gradloom.nn.modules.pooling import *  # noqa: F403
from gradloom.nn.modules.resampling import *  # noqa: F403
from gradloom.nn.modules.rnn import *  # noqa: F403
from gradloom.nn.modules.sparse import *  # noqa: F403
from gradloom.nn.modules.transformer import *  # noqa: F403

if not TYPE_CHECKING:  # type checkers read the families' lists of names, but not an expression that joins them
    _FAMILIES = """
    activation adaptive batchnorm container conv distance dropout flatten lazy linear
    linear_cross_entropy_options loss normalization padding pooling resampling rnn sparse transformer
    """.split()
    __all__ = sorted(["Module", *(name for family in _FAMILIES for name in globals()[family].__all__)])  # noqa: PLE0605
