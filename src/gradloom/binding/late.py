"""Loaders of the functions that the core calls and higher layers provide; see Note [Late binding]."""

from __future__ import annotations

import _imp
import os
import time
from collections.abc import Callable
from importlib import _bootstrap, import_module  # type: ignore[attr-defined]
from threading import get_ident
from typing import Any

from .. import types
from ..core import late
from ..dispatch import interception
from ..types import dtype

_Functions = dict[str, Callable[..., Any]]


def provide_late_functions() -> None:
    """Register all loaders."""
    late.provide(_autograd, "backward")
    late.provide(_zero_tangents, "zero_tensor")
    late.provide(_tensors, "legacy_tensor", "new_tensor", "parse_type", "deepcopy_tensor", "reduce_tensor")
    late.provide(_printing, "tensor_text")
    late.provide(_sparse, "sparse_embedding_backward")
    late.provide(_meta_classes, "class_for", "plain_class")
    interception.provide(interception.META, _load_meta)
    late.provide(_error_notes, "explain_backward_error", "describe_writes")
    late.provide(_storage, "untyped_storage", "typed_storage", "storage_type")
    late.provide(_torch_function, "add_function_subclass", "preserve_class")
    late.provide(
        _torch_dispatch, "add_dispatch_subclass", "make_wrapper_subclass", "local_scalar", "lift_fresh", "dispatch_mode"
    )
    late.provide(_vmap, "vmap")
    late.provide(_gradients_in_vmap, "any_batched", "grad_of_batched", "refuse_backward_in_vmap", "batched_tangent")
    late.provide(_functions_in_vmap, "apply_batched")
    late.provide(_array_namespace, "array_namespace")
    vars(types)["__getattr__"] = _type_alias
    vars(dtype)["watch_float8"] = _watch_float8


def _watch_float8() -> None:
    from ..float8 import watch

    watch()


def _type_alias(name: str) -> Any:
    """Return a name of `torch.types` that is no type of gradloom's own."""
    aliases = import_module("gradloom.compat.type_aliases")
    if name.startswith("__") or not hasattr(aliases, name):
        raise AttributeError(f"module 'gradloom.types' has no attribute '{name}'")
    return getattr(aliases, name)


def _autograd() -> _Functions:
    from ..autograd import backward

    return {"backward": backward}


def _zero_tangents() -> _Functions:
    from ..autograd.zero_tangent import zero_tensor

    return {"zero_tensor": zero_tensor}


def _tensors() -> _Functions:
    from ..tensors.construction import deepcopy_tensor, legacy_tensor, new_tensor, parse_type, reduce_tensor

    return {
        "legacy_tensor": legacy_tensor,
        "new_tensor": new_tensor,
        "parse_type": parse_type,
        "deepcopy_tensor": deepcopy_tensor,
        "reduce_tensor": reduce_tensor,
    }


def _printing() -> _Functions:
    from ..tensors.printing import tensor_text

    return {"tensor_text": tensor_text}


def _sparse() -> _Functions:
    from ..sparse.differentiable import embedding_backward

    return {"sparse_embedding_backward": embedding_backward}


def _meta_classes() -> _Functions:
    from ..meta.tensor import class_for, plain_class

    return {"class_for": class_for, "plain_class": plain_class}


def _error_notes() -> _Functions:
    from ..diagnostics.error_notes import describe_writes, explain_backward_error

    return {"explain_backward_error": explain_backward_error, "describe_writes": describe_writes}


def _load_meta() -> None:
    from ..meta import handler  # noqa: F401 (registers itself)


def _storage() -> _Functions:
    from ..storage import TypedStorage, UntypedStorage, storage_type

    return {"untyped_storage": UntypedStorage._of, "typed_storage": TypedStorage._of, "storage_type": storage_type}


def _torch_function() -> _Functions:
    from ..python_dispatch.torch_function import check_for, preserve_class

    return {"add_function_subclass": check_for, "preserve_class": preserve_class}


def _torch_dispatch() -> _Functions:
    from ..python_dispatch.torch_dispatch import (
        add_subclass,
        dispatch_mode,
        lift_fresh,
        local_scalar,
        make_wrapper_subclass,
    )

    return {
        "dispatch_mode": dispatch_mode,
        "add_dispatch_subclass": add_subclass,
        "make_wrapper_subclass": make_wrapper_subclass,
        "local_scalar": local_scalar,
        "lift_fresh": lift_fresh,
    }


def _vmap() -> _Functions:
    from ..batching.mapping import vmap

    return {"vmap": vmap}


def _gradients_in_vmap() -> _Functions:
    from ..batching.gradients import any_batched, batched_tangent, check_backward, grad_of_batched

    return {
        "any_batched": any_batched,
        "grad_of_batched": grad_of_batched,
        "refuse_backward_in_vmap": check_backward,
        "batched_tangent": batched_tangent,
    }


def _functions_in_vmap() -> _Functions:
    from ..batching.functions import apply_batched

    return {"apply_batched": apply_batched}


def _array_namespace() -> _Functions:
    return {"array_namespace": import_module("gradloom.compat.array_api").array_namespace}


# --- forks ------------------------------------------------------------------------------------------------------------

_PATIENCE = 10.0  # seconds; a thread that imports may itself wait for the one that forks


def _hold_imports() -> None:
    """Wait until no other thread imports anything, and let none begin until the fork is done.

    A forked process has no thread that could finish an import, whose lock it would wait for. An import takes the lock
    of its module while it holds Python's import lock, so that none begins while that is held here.
    """
    end = time.monotonic() + _PATIENCE
    while True:
        _imp.acquire_lock()
        if not _other_threads_import() or time.monotonic() > end:
            return
        _imp.release_lock()
        time.sleep(0.001)


def _other_threads_import() -> bool:
    own = get_ident()
    for kept in list(getattr(_bootstrap, "_module_locks", {}).values()):
        lock = kept()
        if lock is not None and getattr(lock, "owner", None) not in (None, own):
            return True
    return False


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_hold_imports, after_in_parent=_imp.release_lock, after_in_child=_imp.release_lock)
