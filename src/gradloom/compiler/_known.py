"""What the compiler knows of functions: which are operators, which only look at metadata, which it follows as Python.

An operator here is any public function or method of the library that computes tensors from tensors and numbers, also
one that is written in Python. It is recorded as a whole, and called again when the program is traced, where values
cannot be read. Denied are functions that have another effect, or that tell a program more than a graph can hold.
"""

from __future__ import annotations

import builtins
import math
import operator
import sys
from functools import lru_cache
from types import BuiltinFunctionType, FunctionType
from typing import Any
from weakref import ref

from ..core.tensor import Tensor
from ..dispatch.function_code import own_code
from ..types.silence import module_name
from ._numbers import FREE

# Attributes of a tensor that depend on its metadata only.
METADATA = frozenset(
    """shape dtype device ndim layout requires_grad is_leaf is_cuda is_cpu is_meta is_sparse is_quantized is_mkldnn
    is_nested is_mps is_xpu is_complex itemsize nbytes is_vulkan is_sparse_csr names output_nr""".split()
)
# Attributes that are tensors made by operators.
COMPUTED = frozenset("T mT H mH real imag".split())
# Functions and methods whose results say nothing of values.
GEOMETRY = frozenset(
    """size dim ndimension numel nelement stride is_contiguous is_floating_point is_complex is_signed element_size
    get_device storage_offset broadcast_shapes result_type promote_types can_cast is_tensor is_same_size is_conj is_neg
    is_grad_enabled get_default_dtype is_inference is_inference_mode_enabled finfo iinfo is_storage
    type_as is_autocast_enabled is_pinned is_shared calculate_gain""".split()
)
# Queries with one answer in compiled functions, which run as Python where a program is exported.
_MODES = frozenset("is_tracing is_scripting is_compiling is_dynamo_compiling is_exporting".split())
GEOMETRY |= _MODES
# Those among both that depend on the memory of a tensor, or on where it came from.
OF_MEMORY = frozenset("storage_offset is_shared is_pinned output_nr".split())
# Functions that return settings of the process.
SETTINGS = frozenset(
    """get_num_threads get_num_interop_threads are_deterministic_algorithms_enabled get_float32_matmul_precision
    is_deterministic_algorithms_warn_only_enabled get_deterministic_debug_mode is_warn_always_enabled
    is_anomaly_enabled is_anomaly_check_nan_enabled""".split()
)
_DENIED = frozenset(
    """backward register_hook register_post_accumulate_grad_hook retain_grad requires_grad_ detach_ set_ resize_
    resize_as_ share_memory_ apply_ map_ map2_ data_ptr item tolist numpy untyped_storage storage typed_storage
    manual_seed seed initial_seed get_rng_state set_rng_state save load compile from_numpy frombuffer from_file asarray
    as_tensor from_dlpack to_dlpack vmap cond while_loop set_default_dtype set_default_device set_default_tensor_type
    set_printoptions set_num_threads set_num_interop_threads set_grad_enabled set_flush_denormal typename
    use_deterministic_algorithms set_deterministic_debug_mode set_float32_matmul_precision set_warn_always
    set_autocast_enabled set_autocast_dtype set_autocast_cache_enabled autocast_increment_nesting
    autocast_decrement_nesting clear_autocast_cache set_anomaly_enabled register_module get_file_path fork wait
    is_nonzero equal allclose new_tensor hash get_default_device init_num_threads
    __array__ __reduce_ex__ __deepcopy__ __setstate__ __dlpack__ __bool__ __float__ __int__ __index__ __complex__
    __repr__ __format__ __iter__ __len__ __contains__ __init__ __new__ __setattr__ __delattr__ __getattribute__
    __init_subclass__ __torch_function__ __dir__ __hash__ __array_wrap__ as_subclass align_to refine_names rename
    rename_ unflatten_names type module_load""".split()
)

PURE_BUILTINS = frozenset(
    getattr(builtins, name)
    for name in """len abs min max sum round divmod pow all any sorted isinstance issubclass callable repr ascii chr
    ord bin hex oct id format""".split()
) - {id, repr, format, ascii}
_PURE_CLASSES = frozenset(
    (int, float, bool, complex, str, bytes, list, tuple, dict, set, frozenset, range, slice, zip, enumerate, map,
     filter, reversed, object, Exception, ValueError, TypeError, RuntimeError, AssertionError, NotImplementedError,
     KeyError, IndexError)
)  # fmt: skip
NUMBERS = (bool, int, float, complex, str, bytes, type(None), type(...), type(NotImplemented), *FREE)


def is_a(value: Any, module: str, name: str) -> bool:
    """Return whether an object is of a class of a module, which need not be loaded."""
    cls = getattr(sys.modules.get(module), name, None)
    return cls is not None and isinstance(value, cls)


def is_module(value: Any) -> bool:
    """Return whether an object is a Module; asking does not import `gradloom.nn`, which takes longer than compiling."""
    return is_a(value, "gradloom.nn.modules._calling", "Calling")


def is_module_class(cls: type) -> bool:
    """Return whether a class is a class of Modules."""
    base = getattr(sys.modules.get("gradloom.nn.modules._calling"), "Calling", None)
    return base is not None and issubclass(cls, base)


def home(function: FunctionType) -> str:
    """Return the name of the module that defines a function; with `gradloom.as_torch`, `__module__` names torch's."""
    names = function.__globals__
    return "gradloom" if names is vars(sys.modules["gradloom"]) else module_name(names)


def is_librarys(cls: type) -> bool:
    """Return whether a class is the library's, also under torch's name."""
    return cls.__module__.partition(".")[0] in ("gradloom", "torch")


def is_plain(value: Any) -> bool:
    """Return whether an object is of the class Tensor or Parameter, and of no subclass."""
    cls = type(value)
    return cls is Tensor or cls is getattr(sys.modules.get("gradloom.nn.parameter"), "Parameter", None)


def _spaces() -> dict[str, Any]:
    """Return the namespaces of public operators that are loaded; a name may be bound when it is first used."""
    found: dict[str, Any] = {cls.__qualname__: vars(cls) for cls in Tensor.__mro__[:-1]}
    names = """gradloom gradloom.nn.functional gradloom.linalg gradloom.fft gradloom.special gradloom.functional
    gradloom._C._nn gradloom.signal.windows""".split()
    return found | {name: vars(sys.modules[name]) for name in names if name in sys.modules}


def public_name(function: FunctionType) -> str | None:
    """Return a name that a public operator has in every process."""
    spaces, name = _spaces(), function.__name__
    for place, space in spaces.items():
        if space.get(name) is function:
            return f"{place}.{name}"
    for place, space in spaces.items():
        for name, value in list(space.items()):
            if value is function:
                return f"{place}.{name}"
    return None


_answers: dict[int, tuple[Any, bool]] = {}  # for each function that lives: a weak reference, whether it is an operator


def _computes(name: str, value: Any) -> bool:
    if name in _DENIED or not isinstance(value, FunctionType):
        return False
    if name.startswith("_") and not name.startswith("__"):
        return name.startswith("_foreach_")
    return not name.startswith("is_") or name in GEOMETRY


def is_operator(function: Any) -> bool:
    """Return whether a function, or the function of a bound method, is an operator."""
    if not isinstance(function, FunctionType):
        return False
    answer = _answers.get(id(function))
    if answer is None:
        key = id(function)
        reference = ref(function, lambda _: _answers.pop(key, None))  # a closure may hold a model
        answer = _answers[key] = reference, _is_operator(function)
    return answer[1]


def is_own_member(name: str, member: Any) -> bool:
    """Return whether what a class of tensors has under a name is the library's, and not a program's in its place."""
    from ..binding import families, operators

    getter = getattr(member, "fget", None)
    if isinstance(getter, FunctionType) and home(getter).startswith("gradloom"):
        # COMPUTED are bound on first use, and constants such as `device` become properties when there are subclasses.
        return families.PROPERTIES.get(name) in (None, getter.__name__)
    return member is operators.members.get(name)


def _is_operator(function: FunctionType) -> bool:
    name = function.__name__
    if name in _DENIED or function in _denied():
        return False
    if not home(function).startswith("gradloom"):
        return False  # a program's function, which may replace one of the library's under the same name
    if name in _MODES:
        return home(function) in ("gradloom.compiler", "gradloom.jit", "gradloom._utils")
    place = own_code(function).co_filename.replace("\\", "/")
    if any(room in place for room in _ROOMS):
        return True
    spaces = [*_spaces().values()]
    if _computes(name, function) and any(space.get(name) is function for space in spaces):
        return True
    names = [key for space in spaces for key, value in list(space.items()) if value is function]
    return any(_computes(key, function) for key in names)


@lru_cache(1)
def _denied() -> frozenset[Any]:
    """Return the methods of _DENIED, which may have other names of their own."""
    spaces = [vars(cls) for cls in Tensor.__mro__[:-1]]
    return frozenset(space[name] for name in _DENIED for space in spaces if name in space)


# Where operators are, also those that are public under names that are not listed in `_operators`.
_ROOMS = ("/generated/variable_type/", "/gradloom/composite/", "/gradloom/masked/")


@lru_cache(1)
def _pure() -> frozenset[Any]:
    found = set(PURE_BUILTINS)
    found.update(f for f in vars(math).values() if isinstance(f, BuiltinFunctionType))
    found.update(
        f for n, f in vars(operator).items()
        if isinstance(f, BuiltinFunctionType) and n not in ("setitem", "delitem")
    )  # fmt: skip
    return frozenset(found)


def is_pure(function: Any) -> bool:
    """Return whether a function of Python's depends on its arguments only, and changes nothing."""
    try:
        return function in _pure()
    except TypeError:
        return False


def is_pure_class(cls: type) -> bool:
    """Return whether making an instance of a class has no effect and reads only the arguments."""
    if cls in _PURE_CLASSES or issubclass(cls, BaseException) and cls.__init__ is BaseException.__init__:
        return True
    return is_librarys(cls) and cls.__name__ in ("Size", "device", "finfo", "iinfo")


def is_library_value(value: Any) -> bool:
    """Return whether an object is one of the library's immutable values: a dtype, its limits, a device, a size."""
    cls = type(value)
    return cls.__name__ in ("dtype", "device", "layout", "memory_format", "Size", "finfo", "iinfo") and is_librarys(cls)


def is_plain_dataclass(cls: Any) -> bool:
    """Return whether instances of a class are its fields, as arguments of the `__init__` that `dataclass` wrote."""
    if "__dataclass_fields__" not in vars(cls) or cls.__new__ is not object.__new__:
        return False
    from dataclasses import MISSING  # which are imported, if there are any

    written = isinstance(cls.__init__, FunctionType) and cls.__init__.__code__.co_filename == "<string>"
    factories = [field.default_factory for field in cls.__dataclass_fields__.values()]
    lookup: Any = cls.__getattribute__
    is_usual = cls.__class__ is type and lookup is object.__getattribute__
    others = ("__getattr__", "__post_init__", "__slots__")
    setter = cls.__setattr__
    is_usual = is_usual and (setter is object.__setattr__ or setter.__code__.co_filename == "<string>")
    return (
        written
        and is_usual
        and all(factory in (MISSING, list, dict, set) for factory in factories)
        and not any(hasattr(cls, name) for name in others)
    )


_FOLLOWED = ("nn.modules.", "nn._functional.")


def is_followed(function: FunctionType) -> bool:
    """Return whether a function is followed as Python: those of programs, and those of the library's modules."""
    name = home(function)
    if not name.startswith("gradloom"):
        return True
    return any(name.startswith(f"gradloom.{room}") for room in _FOLLOWED)


def is_context(value: Any) -> bool:
    """Return whether a context manager only sets whether operators are recorded."""
    return is_context_class(type(value))


def is_context_class(cls: type) -> bool:
    """Return whether a class makes such context managers."""
    return (
        is_librarys(cls)
        and cls.__name__ in ("no_grad", "enable_grad")
        or (cls.__name__ == "nullcontext" and cls.__module__ == "contextlib")
    )
