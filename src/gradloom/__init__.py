"""gradloom: PyTorch's autograd, generated from YAML, in pure Python on NumPy.

Use it as PyTorch: `import gradloom as torch`.
"""

from __future__ import annotations

import gc as _gc
import warnings as _warnings

# Operators divide by zero and overflow as PyTorch's do: silently. NumPy's warnings about it come from our modules.
_warnings.filterwarnings("ignore", category=RuntimeWarning, module=r"gradloom(\.|$)")

from . import autograd  # noqa: E402
from ._bind import bind as _bind  # noqa: E402
from .autograd.anomaly_mode import (  # noqa: E402
    is_anomaly_check_nan_enabled,
    is_anomaly_enabled,
    set_anomaly_enabled,
)
from .autograd.grad_mode import (  # noqa: E402
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from .construct import as_tensor, asarray, from_numpy, tensor  # noqa: E402
from .device import (  # noqa: E402
    channels_last,
    channels_last_3d,
    contiguous_format,
    device,
    layout,
    memory_format,
    preserve_format,
    sparse_coo,
    strided,
)
from .dtype import (  # noqa: E402
    bfloat16,
    bool,
    can_cast,
    cdouble,
    cfloat,
    complex64,
    complex128,
    double,
    dtype,
    finfo,
    float,
    float16,
    float32,
    float64,
    get_default_dtype,
    half,
    iinfo,
    int,
    int8,
    int16,
    int32,
    int64,
    long,
    promote_types,
    set_default_dtype,
    short,
    uint8,
    uint16,
    uint32,
    uint64,
)
from .generator import Generator, default_generator, get_rng_state, initial_seed, manual_seed, seed, set_rng_state  # noqa: E402
from .printing import set_printoptions  # noqa: E402
from .promotion import result_type  # noqa: E402
from .size import Size  # noqa: E402
from .tensor import Tensor  # noqa: E402

__version__ = "0.1.0"

# Nothing that an import makes is garbage: the collector would only walk through it all again and again.
_broken, _collects = None, _gc.isenabled()
_gc.disable()
try:
    globals().update(_bind())
    from .functional import (
        atleast_1d,
        atleast_2d,
        atleast_3d,
        block_diag,
        broadcast_shapes,
        broadcast_tensors,
        cartesian_prod,
        chain_matmul,
        einsum,
        is_storage,
        is_tensor,
        meshgrid,
        numel,
        tensordot,
    )
    from .indexing import nonzero, unravel_index
    from .reductions import bind as _bind_reductions
    from .reductions import cdist, norm, unique, unique_consecutive
    _bind_reductions(Tensor)
except Exception as error:  # generated/ is missing, stale or half-edited: the generator must still start
    _broken = error
finally:
    if _collects:
        _gc.enable()

_LAZY_MODULES = {"nn", "optim", "utils", "linalg", "fft", "special", "random", "func", "return_types", "signal", "_C"}


def __getattr__(name):
    if name in _LAZY_MODULES:
        from importlib import import_module
        return import_module(f"{__name__}.{name}")
    if name.endswith("Tensor"):
        from .legacy import tensor_type
        found = globals()[name] = tensor_type(name)
        if found is not None:
            return found
    if _broken is not None:
        raise ImportError("gradloom's generated operators cannot be imported; run `gradloom generate`") from _broken
    raise AttributeError(f"module 'gradloom' has no attribute '{name}'")
