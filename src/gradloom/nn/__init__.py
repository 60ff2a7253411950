"""Neural networks: modules, parameters, initialisation, and functions."""

from typing import TYPE_CHECKING

from gradloom.nn import (
    functional as functional,
    init as init,
    modules as modules,
    parallel as parallel,
    parameter as parameter,
    utils as utils,
)
from gradloom.nn.modules.module import Module as Module
from gradloom.nn.parallel import DataParallel as DataParallel
from gradloom.nn.parameter import (
    Buffer as Buffer,
    Parameter as Parameter,
    UninitializedBuffer as UninitializedBuffer,
    UninitializedParameter as UninitializedParameter,
)

if TYPE_CHECKING:  # type checkers read the families' lists of names, but not an expression that joins them
    from gradloom.nn.modules.activation import *
    from gradloom.nn.modules.batchnorm import *
    from gradloom.nn.modules.container import *
    from gradloom.nn.modules.conv import *
    from gradloom.nn.modules.distance import *
    from gradloom.nn.modules.dropout import *
    from gradloom.nn.modules.flatten import *
    from gradloom.nn.modules.lazy import *
    from gradloom.nn.modules.linear import *
    from gradloom.nn.modules.loss import *
    from gradloom.nn.modules.normalization import *
    from gradloom.nn.modules.padding import *
    from gradloom.nn.modules.pooling import *
    from gradloom.nn.modules.resampling import *
    from gradloom.nn.modules.rnn import *
    from gradloom.nn.modules.sparse import *
    from gradloom.nn.modules.transformer import *
else:
    from gradloom.nn.modules import *
    from gradloom.utils._absent import getattr_of as _getattr_of

    __getattr__ = _getattr_of(__name__)
    __all__ = sorted(  # noqa: PLE0605
        [
            *modules.__all__,
            "Buffer",
            "DataParallel",
            "Parameter",
            "UninitializedBuffer",
            "UninitializedParameter",
            "functional",
            "init",
            "modules",
            "parallel",
            "parameter",
            "utils",
        ]
    )
