"""The package functorch, which PyTorch still installs beside torch. `gradloom.as_torch` gives it that name.

Each function warns, as PyTorch's does, and names its successor.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import wraps
from typing import Any

import gradloom as torch

from .. import func as _func
from ..fx.experimental.proxy_tensor import make_fx as make_fx
from . import make_functional as _functional
from .make_functional import (
    FunctionalModule as FunctionalModule,
    FunctionalModuleWithBuffers as FunctionalModuleWithBuffers,
)

__version__ = "2.15.0+gradloom"


def _deprecated(function: Callable[..., Any], successor: str) -> Callable[..., Any]:
    name = function.__name__

    @wraps(function)
    def warning(*args: Any, **kwargs: Any) -> Any:
        warnings.warn(
            "We've integrated functorch into PyTorch. As the final step of the integration, "
            f"`functorch.{name}` is deprecated as of PyTorch 2.0 and will be deleted in a future version of PyTorch "
            f">= 2.3. Please use `{successor}` instead; see the PyTorch 2.0 release notes and/or the `torch.func` "
            "migration guide for more details https://pytorch.org/docs/main/func.migrating.html",
            FutureWarning,
            stacklevel=2,
        )
        return function(*args, **kwargs)

    warning.__module__ = __name__
    return warning


vmap = _deprecated(torch.vmap, "torch.vmap")
functionalize = _deprecated(_func.functionalize, "torch.func.functionalize")
grad = _deprecated(_func.grad, "torch.func.grad")
grad_and_value = _deprecated(_func.grad_and_value, "torch.func.grad_and_value")
hessian = _deprecated(_func.hessian, "torch.func.hessian")
jacfwd = _deprecated(_func.jacfwd, "torch.func.jacfwd")
jacrev = _deprecated(_func.jacrev, "torch.func.jacrev")
jvp = _deprecated(_func.jvp, "torch.func.jvp")
vjp = _deprecated(_func.vjp, "torch.func.vjp")
make_functional = _deprecated(_functional.make_functional, "torch.func.functional_call")
make_functional_with_buffers = _deprecated(_functional.make_functional_with_buffers, "torch.func.functional_call")
combine_state_for_ensemble = _deprecated(_functional.combine_state_for_ensemble, "torch.func.stack_module_state")
