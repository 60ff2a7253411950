"""Flags of the libraries that PyTorch computes with. gradloom computes with NumPy: flags keep their values and have no
effect; `is_available()` is True only for a library that is present."""

from __future__ import annotations

import typing as _typing

from ..dispatch.state import whole_context as _whole_context

_MODULES = ("cpu", "cuda", "cudnn", "mha", "mkl", "mkldnn", "mps", "openmp", "opt_einsum")

if _typing.TYPE_CHECKING:
    from . import (
        cpu as cpu,
        cuda as cuda,
        cudnn as cudnn,
        mha as mha,
        mkl as mkl,
        mkldnn as mkldnn,
        mps as mps,
        openmp as openmp,
        opt_einsum as opt_einsum,
    )
else:

    def __getattr__(name):
        if name in _MODULES:
            from importlib import import_module

            return import_module(f"{__name__}.{name}")
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


@_whole_context
def __allow_nonbracketed_mutation() -> _typing.Iterator[None]:
    """Do nothing: flags may be set at any time. PyTorch allows it within this block after `disable_global_flags()`."""
    yield


def __dir__() -> list[str]:
    return sorted((*globals(), *_MODULES))
