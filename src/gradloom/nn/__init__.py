"""Neural networks: modules, their parameters, initialisation, and the functions they are made of."""

from gradloom.nn import functional, init, modules, parameter, utils
from gradloom.nn.modules import *  # noqa: F403
from gradloom.nn.parameter import Buffer, Parameter

__all__ = sorted(  # noqa: PLE0605
    [*modules.__all__, "Buffer", "Parameter", "functional", "init", "modules", "parameter", "utils"]
)
