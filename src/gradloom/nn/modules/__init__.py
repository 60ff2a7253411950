"""All modules, gathered from their families."""

from typing import TYPE_CHECKING

from gradloom.nn.modules.activation import *  # noqa: F403
from gradloom.nn.modules.adaptive import *  # noqa: F403
from gradloom.nn.modules.batchnorm import *  # noqa: F403
from gradloom.nn.modules.channelshuffle import *  # noqa: F403
from gradloom.nn.modules.container import *  # noqa: F403
from gradloom.nn.modules.conv import *  # noqa: F403
from gradloom.nn.modules.distance import *  # noqa: F403
from gradloom.nn.modules.dropout import *  # noqa: F403
from gradloom.nn.modules.flatten import *  # noqa: F403
from gradloom.nn.modules.fold import *  # noqa: F403
from gradloom.nn.modules.instancenorm import *  # noqa: F403
from gradloom.nn.modules.linear import *  # noqa: F403
from gradloom.nn.modules.linear_cross_entropy_options import *  # noqa: F403
from gradloom.nn.modules.loss import *  # noqa: F403
from gradloom.nn.modules.module import Module as Module
from gradloom.nn.modules.normalization import *  # noqa: F403
from gradloom.nn.modules.padding import *  # noqa: F403
from gradloom.nn.modules.pixelshuffle import *  # noqa: F403
from gradloom.nn.modules.pooling import *  # noqa: F403
from gradloom.nn.modules.rnn import *  # noqa: F403
from gradloom.nn.modules.sparse import *  # noqa: F403
from gradloom.nn.modules.transformer import *  # noqa: F403
from gradloom.nn.modules.upsampling import *  # noqa: F403

if not TYPE_CHECKING:  # type checkers read the families' lists of names, but not an expression that joins them
    _FAMILIES = """
    activation adaptive batchnorm channelshuffle container conv distance dropout flatten fold instancenorm linear
    linear_cross_entropy_options loss normalization padding pixelshuffle pooling rnn sparse transformer upsampling
    """.split()
    __all__ = sorted(["Module", *(name for family in _FAMILIES for name in globals()[family].__all__)])  # noqa: PLE0605
