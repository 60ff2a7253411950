"""Neural networks: modules, parameters, initialisation, and functions."""

from typing import TYPE_CHECKING

from gradloom.nn import (
    functional as functional,
    init as init,
    modules as modules,
    parameter as parameter,
    utils as utils,
)
from gradloom.nn.modules.module import Module as Module
from gradloom.nn.parameter import (
    Buffer as Buffer,
    Parameter as Parameter,
    UninitializedBuffer as UninitializedBuffer,
    UninitializedParameter as UninitializedParameter,
)

if TYPE_CHECKING:  # type checkers read the lists of names that the families have, but no expression for all of them
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
    from gradloom.nn.modules.sparse import *
else:
    from gradloom.nn.modules import *

    __all__ = sorted(  # noqa: PLE0605
        [
            *modules.__all__,
            "Buffer",
            "Parameter",
            "UninitializedBuffer",
            "UninitializedParameter",
            "functional",
            "init",
            "modules",
            "parameter",
            "utils",
        ]
    )
