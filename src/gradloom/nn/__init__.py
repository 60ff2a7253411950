"""Neural networks: modules, parameters, initialisation, and functions."""

from typing import TYPE_CHECKING, Any

from gradloom.nn import (
    attention as attention,
    common_types as common_types,
    functional as functional,
    grad as grad,
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


def factory_kwargs(kwargs: dict[str, Any] | None) -> dict[str, Any]:
    """Return the keyword arguments of a function that makes tensors: device, dtype and memory_format.

    Args:
        kwargs: these arguments, or a dictionary of them under "factory_kwargs", or both; None for none.

    Raises:
        TypeError: for another argument, or one that is given twice.
    """
    if kwargs is None:
        return {}
    simple = {"device", "dtype", "memory_format"}
    if unexpected := kwargs.keys() - simple - {"factory_kwargs"}:
        raise TypeError(f"unexpected kwargs {unexpected}")
    found = dict(kwargs.get("factory_kwargs", {}))
    if unexpected := found.keys() - simple:
        raise TypeError(f"unexpected kwargs {unexpected}")
    for name in kwargs.keys() - {"factory_kwargs"}:
        if name in found:
            raise TypeError(f"{name} specified twice, in **kwargs and in factory_kwargs")
        found[name] = kwargs[name]
    return found


if TYPE_CHECKING:  # type checkers read the families' lists of names, but not an expression that joins them
    from gradloom.nn.modules.activation import *
    from gradloom.nn.modules.adaptive import *
    from gradloom.nn.modules.batchnorm import *
    from gradloom.nn.modules.channelshuffle import *
    from gradloom.nn.modules.container import *
    from gradloom.nn.modules.conv import *
    from gradloom.nn.modules.distance import *
    from gradloom.nn.modules.dropout import *
    from gradloom.nn.modules.flatten import *
    from gradloom.nn.modules.fold import *
    from gradloom.nn.modules.instancenorm import *
    from gradloom.nn.modules.linear import *
    from gradloom.nn.modules.linear_cross_entropy_options import *
    from gradloom.nn.modules.loss import *
    from gradloom.nn.modules.normalization import *
    from gradloom.nn.modules.padding import *
    from gradloom.nn.modules.pixelshuffle import *
    from gradloom.nn.modules.pooling import *
    from gradloom.nn.modules.rnn import *
    from gradloom.nn.modules.sparse import *
    from gradloom.nn.modules.transformer import *
    from gradloom.nn.modules.upsampling import *
else:
    from gradloom.nn.modules import *
    from gradloom.types.absent import getattr_of as _getattr_of

    __getattr__ = _getattr_of(__name__)
    __all__ = sorted(  # noqa: PLE0605
        [
            *modules.__all__,
            "Buffer",
            "DataParallel",
            "Parameter",
            "UninitializedBuffer",
            "UninitializedParameter",
            "attention",
            "common_types",
            "factory_kwargs",
            "functional",
            "grad",
            "init",
            "modules",
            "parallel",
            "parameter",
            "utils",
        ]
    )
