"""How modules replace their parameters: the settings of `torch.__future__`."""

from __future__ import annotations

import gradloom as gl
from gradloom.nn.parameter import Parameter
from gradloom.utils._swap import swap_tensors

_settings = {"overwrite": False, "swap": False}


def set_overwrite_module_params_on_conversion(value: bool) -> None:
    """Set whether `Module.to` and other conversions assign new parameters instead of changing the data of the old.

    Args:
        value: whether they do.
    """
    _settings["overwrite"] = value


def get_overwrite_module_params_on_conversion() -> bool:
    """Return whether conversions assign new parameters; see the setter."""
    return _settings["overwrite"]


def set_swap_module_params_on_conversion(value: bool) -> None:
    """Set whether conversions and `load_state_dict` exchange parameters with the new ones by `swap_tensors`.

    Args:
        value: whether they do; `load_state_dict` then asks `Tensor.module_load` of each parameter for the new one.
    """
    _settings["swap"] = value


def get_swap_module_params_on_conversion() -> bool:
    """Return whether parameters are exchanged; see the setter."""
    return _settings["swap"]


def exchange(parameter: gl.Tensor, new: gl.Tensor) -> None:
    """Make a parameter or buffer the new tensor; every reference to it shows that then."""
    if isinstance(parameter, Parameter):
        if isinstance(new, Parameter):
            new.requires_grad_(parameter.requires_grad)
        else:
            new = Parameter(new, requires_grad=parameter.requires_grad)
    swap_tensors(parameter, new)
