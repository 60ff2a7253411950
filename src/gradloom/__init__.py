"""gradloom: PyTorch's autograd, generated from YAML, in pure Python on NumPy.

Use it as PyTorch: `import gradloom as torch`.
"""

from __future__ import annotations

import gc as _gc
import typing as _typing
import warnings as _warnings
from math import e as e, inf as inf, nan as nan, pi as pi

# Operators divide by zero and overflow silently, as PyTorch's do. NumPy warns in the calling module, which is one of
# ours. docs/core.md (The process) says what doing without the filter would cost.
_warnings.filterwarnings("ignore", category=RuntimeWarning, module=r"gradloom(\.|$)")

from . import autograd as autograd  # noqa: E402
from .binding.late import provide_late_functions as _provide_late_functions  # noqa: E402
from .binding.operators import bind as _bind  # noqa: E402
from .core.anomaly import (  # noqa: E402
    is_anomaly_check_nan_enabled as is_anomaly_check_nan_enabled,
    is_anomaly_enabled as is_anomaly_enabled,
    set_anomaly_enabled as set_anomaly_enabled,
)
from .autograd.grad_mode import (  # noqa: E402
    enable_grad as enable_grad,
    inference_mode as inference_mode,
    is_grad_enabled as is_grad_enabled,
    is_inference_mode_enabled as is_inference_mode_enabled,
    no_grad as no_grad,
    set_grad_enabled as set_grad_enabled,
)

# Before construct, whose function `tensor` is what the name means from then on.
from .core.tensor import Tensor as Tensor  # noqa: E402
from .tensors.construction import (  # noqa: E402
    as_tensor as as_tensor,
    from_numpy as from_numpy,
    tensor as tensor,
)
from .types.device import (  # noqa: E402
    channels_last as channels_last,
    channels_last_3d as channels_last_3d,
    contiguous_format as contiguous_format,
    device as device,
    layout as layout,
    memory_format as memory_format,
    preserve_format as preserve_format,
    sparse_coo as sparse_coo,
    strided as strided,
)
from .types.dtype import (  # noqa: E402
    bfloat16 as bfloat16,
    bool as bool,
    can_cast as can_cast,
    cdouble as cdouble,
    cfloat as cfloat,
    complex64 as complex64,
    complex128 as complex128,
    double as double,
    dtype as dtype,
    finfo as finfo,
    float as float,
    float16 as float16,
    float32 as float32,
    float64 as float64,
    get_default_dtype as get_default_dtype,
    half as half,
    iinfo as iinfo,
    int as int,
    int8 as int8,
    int16 as int16,
    int32 as int32,
    int64 as int64,
    long as long,
    promote_types as promote_types,
    set_default_dtype as set_default_dtype,
    short as short,
    uint8 as uint8,
    uint16 as uint16,
    uint32 as uint32,
    uint64 as uint64,
)
from .random import (  # noqa: E402
    Generator as Generator,
    default_generator as default_generator,
    get_rng_state as get_rng_state,
    initial_seed as initial_seed,
    manual_seed as manual_seed,
    seed as seed,
    set_rng_state as set_rng_state,
)
from .tensors.printing import set_printoptions as set_printoptions  # noqa: E402
from .dispatch.promotion import result_type as result_type  # noqa: E402
from .types.size import Size as Size  # noqa: E402

__version__ = "0.1.0"
newaxis: None = None

# Nothing that an import makes is garbage: the collector would only walk through it all again and again.
_broken, _collects = None, _gc.isenabled()
_provide_late_functions()
_gc.disable()
try:
    globals().update(_bind())
    from .functional import (
        atleast_1d as atleast_1d,
        atleast_2d as atleast_2d,
        atleast_3d as atleast_3d,
        block_diag as block_diag,
        broadcast_shapes as broadcast_shapes,
        bind as _bind_functional,
        broadcast_tensors as broadcast_tensors,
        cartesian_prod as cartesian_prod,
        cdist as cdist,
        chain_matmul as chain_matmul,
        einsum as einsum,
        is_inference as is_inference,
        is_storage as is_storage,
        is_tensor as is_tensor,
        meshgrid as meshgrid,
        norm as norm,
        numel as numel,
        tensordot as tensordot,
        typename as typename,
        unique as unique,
        unique_consecutive as unique_consecutive,
    )
    from .tensors.indexing import nonzero as nonzero, unravel_index as unravel_index

    _bind_functional(Tensor)
except Exception as _error:  # generated/ is missing, stale or half-edited: the generator must still start
    _broken = _error
finally:
    if _collects:
        _gc.enable()

# What the lines above and below bind dynamically, for type checkers.
if _typing.TYPE_CHECKING:
    from . import (
        __config__ as __config__,
        accelerator as accelerator,
        amp as amp,
        backends as backends,
        compiler as compiler,
        cpu as cpu,
        cuda as cuda,
        func as func,
        jit as jit,
        library as library,
        linalg as linalg,
        mps as mps,
        mtia as mtia,
        nn as nn,
        ops as ops,
        optim as optim,
        overrides as overrides,
        profiler as profiler,
        random as random,
        serialization as serialization,
        return_types as return_types,
        signal as signal,
        special as special,
        testing as testing,
        types as types,
        utils as utils,
        version as version,
        xpu as xpu,
    )
    from ._stubs.functions import *
    from .amp.autocast_mode import autocast as autocast
    from .amp.grad_scaler import GradScaler as GradScaler
    from .compiler import compile as compile
    from .amp.per_device import (
        get_autocast_cpu_dtype as get_autocast_cpu_dtype,
        get_autocast_gpu_dtype as get_autocast_gpu_dtype,
        is_autocast_cpu_enabled as is_autocast_cpu_enabled,
        set_autocast_cpu_dtype as set_autocast_cpu_dtype,
        set_autocast_cpu_enabled as set_autocast_cpu_enabled,
        set_autocast_gpu_dtype as set_autocast_gpu_dtype,
    )
    from .amp.settings import (
        autocast_decrement_nesting as autocast_decrement_nesting,
        autocast_increment_nesting as autocast_increment_nesting,
        clear_autocast_cache as clear_autocast_cache,
        get_autocast_dtype as get_autocast_dtype,
        is_autocast_cache_enabled as is_autocast_cache_enabled,
        is_autocast_enabled as is_autocast_enabled,
        set_autocast_cache_enabled as set_autocast_cache_enabled,
        set_autocast_dtype as set_autocast_dtype,
        set_autocast_enabled as set_autocast_enabled,
    )
    from .compat.legacy_types import (
        BFloat16Tensor as BFloat16Tensor,
        BoolTensor as BoolTensor,
        ByteTensor as ByteTensor,
        CharTensor as CharTensor,
        DoubleTensor as DoubleTensor,
        FloatTensor as FloatTensor,
        HalfTensor as HalfTensor,
        IntTensor as IntTensor,
        LongTensor as LongTensor,
        ShortTensor as ShortTensor,
        set_default_tensor_type as set_default_tensor_type,
    )
    from .tensors.interchange import (
        asarray as asarray,
        from_dlpack as from_dlpack,
        from_file as from_file,
        frombuffer as frombuffer,
        to_dlpack as to_dlpack,
    )
    from .ops._schema import (
        AnyType as AnyType,
        BoolType as BoolType,
        ComplexType as ComplexType,
        DeviceObjType as DeviceObjType,
        FloatType as FloatType,
        FunctionSchema as FunctionSchema,
        IntType as IntType,
        ListType as ListType,
        NumberType as NumberType,
        OptionalType as OptionalType,
        StringType as StringType,
        Tag as Tag,
        TensorType as TensorType,
    )
    from .serialization import load as load, save as save
    from .backends.settings import (
        OutOfMemoryError as OutOfMemoryError,
        are_deterministic_algorithms_enabled as are_deterministic_algorithms_enabled,
        compiled_with_cxx11_abi as compiled_with_cxx11_abi,
        get_default_device as get_default_device,
        get_deterministic_debug_mode as get_deterministic_debug_mode,
        get_float32_matmul_precision as get_float32_matmul_precision,
        get_num_interop_threads as get_num_interop_threads,
        get_num_threads as get_num_threads,
        is_deterministic_algorithms_warn_only_enabled as is_deterministic_algorithms_warn_only_enabled,
        is_warn_always_enabled as is_warn_always_enabled,
        set_default_device as set_default_device,
        set_deterministic_debug_mode as set_deterministic_debug_mode,
        set_float32_matmul_precision as set_float32_matmul_precision,
        set_flush_denormal as set_flush_denormal,
        set_num_interop_threads as set_num_interop_threads,
        set_num_threads as set_num_threads,
        set_warn_always as set_warn_always,
        use_deterministic_algorithms as use_deterministic_algorithms,
    )
    from .storage import TypedStorage as TypedStorage, UntypedStorage as UntypedStorage
    from .batching.mapping import vmap as vmap
    from .tools.explain import explain as explain

_LAZY_MODULES = {
    "nn",
    "optim",
    "utils",
    "linalg",
    "special",
    "random",
    "func",
    "return_types",
    "signal",
    "types",
    "ops",
    "_ops",
    "library",
    "_C",
    "serialization",
    "amp",
    "cpu",
    "cuda",
    "profiler",
    "overrides",
    "__config__",
    "accelerator",
    "backends",
    "compiler",
    "jit",
    "mps",
    "mtia",
    "testing",
    "version",
    "xpu",
}
# What is imported when it is asked for.
_LAZY = {
    "explain": ".tools.explain",
    "vmap": ".batching.mapping",
    "load": ".serialization",
    "save": ".serialization",
    "set_default_tensor_type": ".compat.legacy_types",
    "autocast": ".amp.autocast_mode",
    "_efficientzerotensor": ".autograd.zero_tangent",
    "compile": ".compiler",
    "GradScaler": ".amp.grad_scaler",
    "OutOfMemoryError": ".backends.settings",
    "TypedStorage": ".storage",
    "UntypedStorage": ".storage",
    **dict.fromkeys(
        (
            "are_deterministic_algorithms_enabled",
            "compiled_with_cxx11_abi",
            "get_default_device",
            "get_deterministic_debug_mode",
            "get_float32_matmul_precision",
            "get_num_interop_threads",
            "get_num_threads",
            "is_deterministic_algorithms_warn_only_enabled",
            "is_warn_always_enabled",
            "set_default_device",
            "set_deterministic_debug_mode",
            "set_float32_matmul_precision",
            "set_flush_denormal",
            "set_num_interop_threads",
            "set_num_threads",
            "set_warn_always",
            "use_deterministic_algorithms",
        ),
        ".backends.settings",
    ),
    **dict.fromkeys(("asarray", "from_dlpack", "from_file", "frombuffer", "to_dlpack"), ".tensors.interchange"),
    **dict.fromkeys(
        (
            "autocast_decrement_nesting",
            "autocast_increment_nesting",
            "clear_autocast_cache",
            "get_autocast_dtype",
            "is_autocast_cache_enabled",
            "is_autocast_enabled",
            "set_autocast_cache_enabled",
            "set_autocast_dtype",
            "set_autocast_enabled",
        ),
        ".amp.settings",
    ),
    **dict.fromkeys(
        (
            f"{old}_autocast_{device}_{what}"
            for device in ("cpu", "gpu")
            for old, what in (("get", "dtype"), ("set", "dtype"), ("is", "enabled"), ("set", "enabled"))
            if (device, what) != ("gpu", "enabled")
        ),
        ".amp.per_device",
    ),
}
# Schemas, and the types of their arguments.
_LAZY |= dict.fromkeys(
    (
        "AnyType",
        "BoolType",
        "ComplexType",
        "DeviceObjType",
        "FloatType",
        "FunctionSchema",
        "IntType",
        "ListType",
        "NumberType",
        "OptionalType",
        "StringType",
        "Tag",
        "TensorType",
    ),
    ".ops._schema",
)


if not _typing.TYPE_CHECKING:

    def __getattr__(name):
        if name in _LAZY:
            from importlib import import_module

            found = globals()[name] = getattr(import_module(_LAZY[name], __name__), name)
            return found
        if name in _LAZY_MODULES:
            from importlib import import_module

            try:
                return import_module(f"{__name__}.{name}")
            except ModuleNotFoundError as error:
                if error.name != f"{__name__}.{name}":
                    raise
        if name.endswith("Tensor"):
            from .compat.legacy_types import tensor_type

            found = tensor_type(name)
            if found is not None:
                globals()[name] = found
                return found
        if name.endswith("Storage"):
            from .storage import storage_type

            found = storage_type(name)
            if found is not None:
                return found
        if _broken is not None:
            raise ImportError("gradloom's generated operators cannot be imported; run `gradloom generate`") from _broken
        raise AttributeError(f"module 'gradloom' has no attribute '{name}'")
