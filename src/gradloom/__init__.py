"""gradloom: PyTorch's autograd, generated from YAML, in pure Python on NumPy.

Use it as PyTorch: `import gradloom as torch`.
"""

from __future__ import annotations

import gc as _gc
import typing as _typing
from math import e as e, inf as inf, nan as nan, pi as pi
from types import ModuleType as _ModuleType

from . import autograd as autograd
from .binding.late import provide_late_functions as _provide_late_functions
from .binding.families import function as _operator, function_names as _operator_names
from .binding.operators import bind as _bind
from .core.anomaly import is_anomaly_check_nan_enabled as is_anomaly_check_nan_enabled
from .core.anomaly import is_anomaly_enabled as is_anomaly_enabled, set_anomaly_enabled as set_anomaly_enabled
from .autograd.grad_mode import enable_grad as enable_grad, inference_mode as inference_mode
from .autograd.grad_mode import is_grad_enabled as is_grad_enabled
from .autograd.grad_mode import is_inference_mode_enabled as is_inference_mode_enabled, no_grad as no_grad
from .autograd.grad_mode import set_grad_enabled as set_grad_enabled

# Imported before `construct`, whose function `tensor` then replaces the name.
from .core.tensor import Tensor as Tensor
from .tensors.construction import as_tensor as as_tensor, from_numpy as from_numpy, tensor as tensor
from .types.device import channels_last as channels_last, channels_last_3d as channels_last_3d
from .types.device import contiguous_format as contiguous_format, device as device, layout as layout
from .types.device import memory_format as memory_format, preserve_format as preserve_format, sparse_coo as sparse_coo
from .types.device import strided as strided
from .types.dtype import bfloat16 as bfloat16, bool as bool, can_cast as can_cast, cdouble as cdouble, cfloat as cfloat
from .types.dtype import complex64 as complex64, complex128 as complex128, double as double, dtype as dtype
from .types.dtype import finfo as finfo, float as float, float16 as float16, float32 as float32, float64 as float64
from .types.dtype import get_default_dtype as get_default_dtype, half as half, iinfo as iinfo, int as int, int8 as int8
from .types.dtype import int16 as int16, int32 as int32, int64 as int64, long as long, promote_types as promote_types
from .types.dtype import set_default_dtype as set_default_dtype, short as short, uint8 as uint8, uint16 as uint16
from .types.dtype import float8_e4m3fn as float8_e4m3fn, float8_e4m3fnuz as float8_e4m3fnuz
from .types.dtype import float8_e5m2 as float8_e5m2, float8_e5m2fnuz as float8_e5m2fnuz
from .types.dtype import float8_e8m0fnu as float8_e8m0fnu
from .types.dtype import uint32 as uint32, uint64 as uint64
from .random import Generator as Generator, default_generator as default_generator, get_rng_state as get_rng_state
from .random import initial_seed as initial_seed, manual_seed as manual_seed, seed as seed
from .random import set_rng_state as set_rng_state
from .tensors.printing import set_printoptions as set_printoptions
from .dispatch.promotion import result_type as result_type
from .types.size import Size as Size

__version__ = "0.1.0"
newaxis: None = None

# An import makes no garbage: the collector would only traverse it again and again.
_broken, _collects = None, _gc.isenabled()
_provide_late_functions()
_gc.disable()
try:
    _bind()
    from .functional import atleast_1d as atleast_1d, atleast_2d as atleast_2d, atleast_3d as atleast_3d
    from .functional import block_diag as block_diag, broadcast_shapes as broadcast_shapes
    from .functional import broadcast_tensors as broadcast_tensors, cartesian_prod as cartesian_prod, cdist as cdist
    from .functional import chain_matmul as chain_matmul, einsum as einsum, is_inference as is_inference
    from .functional import is_storage as is_storage, is_tensor as is_tensor, meshgrid as meshgrid, norm as norm
    from .functional import numel as numel, split as split, tensordot as tensordot, typename as typename
    from .functional import unique as unique
    from .functional import unique_consecutive as unique_consecutive
    from .functional import bind as _bind_functional
    from .tensors.indexing import nonzero as nonzero, unravel_index as unravel_index

    _bind_functional(Tensor)
except Exception as _error:  # generated/ is missing, stale or half-edited: the generator must still start
    _broken = _error
finally:
    if _collects:
        _gc.enable()

# Names that the lines above and below bind dynamically, for type checkers.
if _typing.TYPE_CHECKING:
    from . import (
        __config__,
        accelerator,
        amp,
        backends,
        compiler,
        cpu,
        cuda,
        distributions,
        fft,
        func,
        jit,
        library,
        linalg,
        masked,
        mps,
        mtia,
        futures,
        multiprocessing,
    )
    from . import (
        nn,
        ops,
        optim,
        overrides,
        profiler,
        random,
        serialization,
        return_types,
        signal,
        special,
        testing,
        torch_version,
        types,
    )
    from . import ao, distributed, export, foreach, fx, hub, onnx, package, quasirandom, sparse, utils, version, xpu
    from ._stubs.functions import *
    from .amp.autocast_mode import autocast as autocast
    from .amp.grad_scaler import GradScaler as GradScaler
    from .compat.rare import legacy_contiguous_format as legacy_contiguous_format
    from .compat.refused_names import Event as Event, Stream as Stream
    from .compiler import compile as compile
    from .compiler._eager import get_kernels as get_kernels, set_kernels as set_kernels
    from .amp.per_device import get_autocast_cpu_dtype as get_autocast_cpu_dtype
    from .amp.per_device import get_autocast_gpu_dtype as get_autocast_gpu_dtype
    from .amp.per_device import is_autocast_cpu_enabled as is_autocast_cpu_enabled
    from .amp.per_device import set_autocast_cpu_dtype as set_autocast_cpu_dtype
    from .amp.per_device import set_autocast_cpu_enabled as set_autocast_cpu_enabled
    from .amp.per_device import set_autocast_gpu_dtype as set_autocast_gpu_dtype
    from .amp.settings import autocast_decrement_nesting as autocast_decrement_nesting
    from .amp.settings import autocast_increment_nesting as autocast_increment_nesting
    from .amp.settings import clear_autocast_cache as clear_autocast_cache, get_autocast_dtype as get_autocast_dtype
    from .amp.settings import is_autocast_cache_enabled as is_autocast_cache_enabled
    from .amp.settings import is_autocast_enabled as is_autocast_enabled
    from .amp.settings import set_autocast_cache_enabled as set_autocast_cache_enabled
    from .amp.settings import set_autocast_dtype as set_autocast_dtype, set_autocast_enabled as set_autocast_enabled
    from .compat.legacy_types import BFloat16Tensor as BFloat16Tensor, BoolTensor as BoolTensor
    from .compat.legacy_types import ByteTensor as ByteTensor, CharTensor as CharTensor, DoubleTensor as DoubleTensor
    from .compat.legacy_types import FloatTensor as FloatTensor, HalfTensor as HalfTensor, IntTensor as IntTensor
    from .compat.legacy_types import LongTensor as LongTensor, ShortTensor as ShortTensor
    from .compat.legacy_types import set_default_tensor_type as set_default_tensor_type
    from .types.without_tensors import bits16 as bits16, bits1x8 as bits1x8, bits2x4 as bits2x4
    from .types.without_tensors import bcomplex32 as bcomplex32, bits4x2 as bits4x2, bits8 as bits8, chalf as chalf
    from .types.without_tensors import complex32 as complex32, float4_e2m1fn_x2 as float4_e2m1fn_x2, int1 as int1
    from .types.without_tensors import int2 as int2, int3 as int3, int4 as int4
    from .types.without_tensors import int5 as int5, int6 as int6, int7 as int7
    from .types.without_tensors import qint32 as qint32, qint8 as qint8, quint2x4 as quint2x4
    from .types.without_tensors import quint4x2 as quint4x2, quint8 as quint8, uint1 as uint1
    from .types.without_tensors import uint2 as uint2, uint3 as uint3, uint4 as uint4
    from .types.without_tensors import uint5 as uint5, uint6 as uint6, uint7 as uint7
    from .types.device import sparse_bsc as sparse_bsc, sparse_bsr as sparse_bsr
    from .types.device import sparse_csc as sparse_csc, sparse_csr as sparse_csr
    from .jit import ScriptFunction as ScriptFunction, ScriptModule as ScriptModule
    from .compat.refused_names import PyTorchFileReader as PyTorchFileReader, PyTorchFileWriter as PyTorchFileWriter
    from .tensors.removed import eig as eig, lstsq as lstsq, matrix_rank as matrix_rank, solve as solve
    from .tensors.removed import symeig as symeig
    from .composite.linalg.solve import lu as lu
    from ._higher_order_ops import cond as cond
    from ._higher_order_ops import while_loop as while_loop
    from .compat.rare import batch_norm_backward_elemt as batch_norm_backward_elemt
    from .compat.rare import batch_norm_backward_reduce as batch_norm_backward_reduce
    from .compat.rare import batch_norm_elemt as batch_norm_elemt
    from .compat.rare import batch_norm_gather_stats as batch_norm_gather_stats
    from .compat.rare import batch_norm_gather_stats_with_counts as batch_norm_gather_stats_with_counts
    from .compat.rare import batch_norm_stats as batch_norm_stats, slice_inverse as slice_inverse
    from .compat.rare import batch_norm_update_stats as batch_norm_update_stats
    from .compat.rare import ccol_indices_copy as ccol_indices_copy
    from .compat.rare import classproperty as classproperty
    from .compat.rare import col_indices_copy as col_indices_copy
    from .compat.rare import crow_indices_copy as crow_indices_copy
    from .compat.rare import dequantize as dequantize
    from .compat.rare import get_autocast_ipu_dtype as get_autocast_ipu_dtype
    from .compat.rare import get_autocast_xla_dtype as get_autocast_xla_dtype
    from .compat.rare import get_device as get_device
    from .compat.rare import get_device_module as get_device_module
    from .compat.rare import get_file_path as get_file_path
    from .compat.rare import indices_copy as indices_copy
    from .compat.rare import init_num_threads as init_num_threads
    from .compat.rare import is_autocast_ipu_enabled as is_autocast_ipu_enabled
    from .compat.rare import is_autocast_xla_enabled as is_autocast_xla_enabled
    from .compat.rare import is_distributed as is_distributed
    from .compat.rare import is_vulkan_available as is_vulkan_available
    from .compat.rare import native_norm as native_norm
    from .compat.rare import prepare_multiprocessing_environment as prepare_multiprocessing_environment
    from .compat.rare import (
        profiler_allow_cudagraph_cupti_lazy_reinit_cuda12 as profiler_allow_cudagraph_cupti_lazy_reinit_cuda12,
    )
    from .compat.rare import resize_as_sparse_ as resize_as_sparse_
    from .compat.rare import row_indices_copy as row_indices_copy
    from .compat.rare import set_autocast_ipu_dtype as set_autocast_ipu_dtype
    from .compat.rare import set_autocast_ipu_enabled as set_autocast_ipu_enabled
    from .compat.rare import set_autocast_xla_dtype as set_autocast_xla_dtype
    from .compat.rare import set_autocast_xla_enabled as set_autocast_xla_enabled
    from .compat.rare import thread_safe_generator as thread_safe_generator
    from .compat.rare import values_copy as values_copy
    from .compat.symbolic import SymBool as SymBool
    from .compat.symbolic import SymFloat as SymFloat
    from .compat.symbolic import SymInt as SymInt
    from .compat.symbolic import sym_constrain_range as sym_constrain_range
    from .compat.symbolic import sym_constrain_range_for_size as sym_constrain_range_for_size
    from .compat.symbolic import sym_float as sym_float
    from .compat.symbolic import sym_fresh_size as sym_fresh_size
    from .compat.symbolic import sym_int as sym_int
    from .compat.symbolic import sym_ite as sym_ite
    from .compat.symbolic import sym_max as sym_max
    from .compat.symbolic import sym_min as sym_min
    from .compat.symbolic import sym_not as sym_not
    from .compat.symbolic import sym_sqrt as sym_sqrt
    from .compat.symbolic import sym_sum as sym_sum
    from .sparse.products import dsmm as dsmm
    from .sparse.products import hsmm as hsmm
    from .sparse.products import hspmm as hspmm
    from .sparse.products import saddmm as saddmm
    from .sparse.products import smm as smm
    from .sparse.products import sspaddmm as sspaddmm
    from .composite.linalg.lobpcg import lobpcg as lobpcg
    from .composite.linalg.low_rank import pca_lowrank as pca_lowrank, svd_lowrank as svd_lowrank
    from .tensors.interchange import asarray as asarray, from_dlpack as from_dlpack, from_file as from_file
    from .tensors.interchange import frombuffer as frombuffer, to_dlpack as to_dlpack
    from .ops._schema import AnyType as AnyType, BoolType as BoolType, ComplexType as ComplexType
    from .ops._schema import DeviceObjType as DeviceObjType, FloatType as FloatType, FunctionSchema as FunctionSchema
    from .ops._schema import IntType as IntType, ListType as ListType, NumberType as NumberType
    from .ops._schema import OptionalType as OptionalType, StringType as StringType, Tag as Tag
    from .ops._schema import TensorType as TensorType, parse_schema as parse_schema
    from .serialization import load as load, save as save
    from .backends.settings import OutOfMemoryError as OutOfMemoryError
    from .backends.settings import are_deterministic_algorithms_enabled as are_deterministic_algorithms_enabled
    from .backends.settings import compiled_with_cxx11_abi as compiled_with_cxx11_abi
    from .backends.settings import get_deterministic_debug_mode as get_deterministic_debug_mode
    from .backends.settings import get_float32_matmul_precision as get_float32_matmul_precision
    from .backends.settings import get_num_interop_threads as get_num_interop_threads
    from .backends.settings import get_num_threads as get_num_threads
    from .backends.settings import (
        is_deterministic_algorithms_warn_only_enabled as is_deterministic_algorithms_warn_only_enabled,
    )
    from .backends.settings import is_warn_always_enabled as is_warn_always_enabled
    from .backends.settings import set_deterministic_debug_mode as set_deterministic_debug_mode
    from .backends.settings import set_float32_matmul_precision as set_float32_matmul_precision
    from .backends.settings import set_flush_denormal as set_flush_denormal
    from .backends.settings import set_num_interop_threads as set_num_interop_threads
    from .backends.settings import set_num_threads as set_num_threads, set_warn_always as set_warn_always
    from .backends.settings import use_deterministic_algorithms as use_deterministic_algorithms
    from .futures import Future as Future, fork as fork, wait as wait
    from .sparse import sparse_coo_tensor as sparse_coo_tensor, spmm as spmm
    from .storage import StorageBase as StorageBase, TypedStorage as TypedStorage, UntypedStorage as UntypedStorage
    from .batching.mapping import vmap as vmap
    from .utils._device import get_default_device as get_default_device, set_default_device as set_default_device
    from .tools.explain import explain as explain

_LAZY_MODULES = frozenset(
    """
    fx onnx export hub quasirandom package foreach
    nn optim utils linalg fft masked sparse special random func return_types signal types ops _ops library _C
    serialization amp cpu cuda distributions profiler overrides __config__ accelerator backends compiler jit mps mtia
    testing torch_version __future__ version xpu futures multiprocessing distributed _dynamo _tensor_str
    _utils _tensor _jit_internal _custom_ops ao _subclasses _functorch _guards _VF _vmap_internals
    """.split()
)
# Imported on first use.
_LAZY = {
    name: module
    for module, names in {
        ".tools.explain": "explain",
        ".futures": "Future fork wait",
        ".fx.proxy": "_assert",
        "._higher_order_ops": "cond while_loop",
        ".compat.rare": """
            batch_norm_backward_elemt batch_norm_backward_reduce batch_norm_elemt batch_norm_gather_stats
            batch_norm_gather_stats_with_counts batch_norm_stats batch_norm_update_stats slice_inverse
            ccol_indices_copy classproperty
            col_indices_copy crow_indices_copy dequantize get_autocast_ipu_dtype get_autocast_xla_dtype
            get_device get_device_module get_file_path legacy_contiguous_format indices_copy
            init_num_threads is_autocast_ipu_enabled
            is_autocast_xla_enabled is_distributed is_vulkan_available native_norm
            prepare_multiprocessing_environment profiler_allow_cudagraph_cupti_lazy_reinit_cuda12
            resize_as_sparse_ row_indices_copy set_autocast_ipu_dtype set_autocast_ipu_enabled
            set_autocast_xla_dtype set_autocast_xla_enabled thread_safe_generator torch values_copy
            """,
        ".compat.checks": """
            _assert_async _assert_scalar _check _check_index _check_is_size _check_not_implemented
            _check_tensor_all _check_tensor_all_with _check_type _check_value _check_with _shape_as_tensor
            """,
        ".compat.symbolic": """
            SymBool SymFloat SymInt sym_constrain_range sym_constrain_range_for_size sym_float sym_fresh_size
            sym_int sym_ite sym_max sym_min sym_not sym_sqrt sym_sum
            """,
        ".sparse.products": "dsmm hsmm hspmm saddmm smm sspaddmm",
        ".batching.mapping": "vmap",
        ".utils._device": "get_default_device set_default_device",
        ".serialization": "load save",
        ".compat.legacy_types": "set_default_tensor_type",
        ".tensors.removed": "eig lstsq matrix_rank solve symeig",
        ".composite.linalg.lobpcg": "lobpcg",
        ".composite.linalg.low_rank": "pca_lowrank svd_lowrank",
        ".composite.linalg.solve": "lu",
        ".autograd.zero_tangent": "_efficientzerotensor",
        ".compiler": "compile",
        ".compiler._eager": "get_kernels set_kernels",
        ".jit": "ScriptFunction ScriptModule",
        ".types.device": "sparse_bsc sparse_bsr sparse_csc sparse_csr",
        ".types.without_tensors": """
            bcomplex32 bits16 bits1x8 bits2x4 bits4x2 bits8 chalf complex32 float4_e2m1fn_x2 int1 int2 int3 int4 int5
            int6 int7 qint32 qint8 quint2x4 quint4x2 quint8 uint1 uint2 uint3 uint4 uint5 uint6 uint7
            """,
        ".compat.refused_names": "Event PyTorchFileReader PyTorchFileWriter Stream",
        ".sparse": "sparse_coo_tensor spmm",
        ".storage": "StorageBase TypedStorage UntypedStorage",
        ".tensors.interchange": "asarray from_dlpack from_file frombuffer to_dlpack",
        ".backends.settings": """
            OutOfMemoryError are_deterministic_algorithms_enabled compiled_with_cxx11_abi
            get_deterministic_debug_mode get_float32_matmul_precision get_num_interop_threads get_num_threads
            is_deterministic_algorithms_warn_only_enabled is_warn_always_enabled
            set_deterministic_debug_mode set_float32_matmul_precision set_flush_denormal set_num_interop_threads
            set_num_threads set_warn_always use_deterministic_algorithms
            """,
        ".amp.autocast_mode": "autocast",
        ".amp.grad_scaler": "GradScaler",
        ".amp.settings": """
            autocast_decrement_nesting autocast_increment_nesting clear_autocast_cache get_autocast_dtype
            is_autocast_cache_enabled is_autocast_enabled set_autocast_cache_enabled set_autocast_dtype
            set_autocast_enabled
            """,
        ".amp.per_device": """
            get_autocast_cpu_dtype get_autocast_gpu_dtype is_autocast_cpu_enabled set_autocast_cpu_dtype
            set_autocast_cpu_enabled set_autocast_gpu_dtype
            """,
        # Schemas, and the types of their arguments.
        ".ops._schema": """
            AnyType BoolType ComplexType DeviceObjType FloatType FunctionSchema IntType ListType NumberType
            OptionalType StringType Tag TensorType parse_schema
            """,
    }.items()
    for name in names.split()
}

# Functions on lists of tensors, by the beginning of their names.
_LISTS = ("_foreach_", "_fused_")


def _device_context(given):
    from importlib import import_module

    return import_module(f"{__name__}.utils._device").context(given)


device._context = _device_context

if not _typing.TYPE_CHECKING:

    def __getattr__(name):
        found = _operator(name)
        if found is not None:
            return found
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
        if name.startswith(_LISTS):
            from .ops.lists import function as on_lists

            found = on_lists(name)
            if found is not None:
                globals()[name] = found
                return found
        if name.endswith("Storage"):
            from .storage import storage_type

            found = storage_type(name)
            if found is not None:
                return found
        if name == "__all__":  # for `from gradloom import *`
            modules = {n for n, value in globals().items() if isinstance(value, _ModuleType)}
            return [n for n in __dir__() if not n.startswith("_") and n not in _LAZY_MODULES | modules]
        if _broken is not None:
            raise ImportError("gradloom's generated operators cannot be imported; run `gradloom generate`") from _broken
        from .types.absent import absent

        raise absent(__name__, name)

    def __dir__():
        from .types.dtype import WITH_CLASSES, legacy_type_name

        types = [legacy_type_name(dtype).rpartition(".")[2] for dtype in WITH_CLASSES]
        types += [name.replace("Tensor", "Storage") for name in (*types, "ComplexDoubleTensor", "ComplexFloatTensor")]
        return sorted({*globals(), *_operator_names(), *_LAZY, *_LAZY_MODULES, *types})
