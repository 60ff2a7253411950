"""Composable function transforms (derivatives, vmap); the API of torch.func."""

from __future__ import annotations

import typing as _typing

from ..batching.mapping import vmap
from ..types.public import found_in as _found_in
from ._arguments import debug_unwrap
from ._forward import jvp, linearize
from ._functionalize import functionalize
from ._jacobians import hessian, jacfwd, jacrev
from ._modules import functional_call, replace_all_batch_norm_modules_, stack_module_state
from ._rearrange import rearrange
from ._reverse import grad, grad_and_value, vjp

__all__ = [
    "debug_unwrap",
    "functional_call",
    "functionalize",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "linearize",
    "rearrange",
    "replace_all_batch_norm_modules_",
    "stack_module_state",
    "vjp",
    "vmap",
]

if not _typing.TYPE_CHECKING:
    from gradloom.types.absent import getattr_of as _getattr_of

    __getattr__ = _getattr_of(__name__)

_found_in(__name__, *(globals()[name] for name in __all__))
