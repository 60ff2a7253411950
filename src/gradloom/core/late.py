"""Late-bound functions: the core calls them, higher layers provide them.

Note [Late binding]
Imports go down, and the core stands below tensor construction, printing, storages, `autograd.backward`, vmap and
`__torch_dispatch__`. Where it must call one of those, it calls a function of this module: `late.backward(...)`.
`gradloom.binding` registers loaders for them when gradloom is imported, and the module that has a function is imported
when the core first asks for it. Operators are bound in the same way, into `gradloom.dispatch._operators`.

Features that are switched on (a profiler, vmap, autocast, a dispatch mode) need no name here: they set an attribute of
the thread's state, which the core calls, or they intercept calls; see Note [Interception].
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

_Function = Callable[..., Any]

# gradloom.autograd and its zero tangents
backward: _Function
zero_tensor: _Function  # zero_tensor(shape, numpy_type)

# gradloom.tensors: constructors, Python's protocols, printing
legacy_tensor: _Function
new_tensor: _Function
parse_type: _Function
deepcopy_tensor: _Function
reduce_tensor: _Function
tensor_text: _Function

# gradloom.sparse
sparse_embedding_backward: _Function

# gradloom.meta
class_for: _Function  # class_for(cls, data): the class, or its twin, for a tensor with the data of another
plain_class: _Function  # plain_class(cls): the class that a class of the meta device stands for

# gradloom.diagnostics
explain_backward_error: _Function  # explain_backward_error(error, loop)
describe_writes: _Function  # describe_writes(node, saved, counter, expected)

# gradloom.storage
untyped_storage: _Function  # untyped_storage(array)
typed_storage: _Function  # typed_storage(array, dtype)
storage_type: _Function

# gradloom.python_dispatch: subclasses of Tensor
add_function_subclass: _Function  # a subclass may override public functions
add_dispatch_subclass: _Function  # a subclass may override operators
preserve_class: _Function
dispatch_mode: _Function  # a context within which a dispatch mode is entered
make_wrapper_subclass: _Function
local_scalar: _Function
lift_fresh: _Function

# gradloom.compat
array_namespace: _Function  # array_namespace(api_version)

# gradloom.batching
vmap: _Function
any_batched: _Function
grad_of_batched: _Function
refuse_backward_in_vmap: _Function
apply_batched: _Function  # for a custom Function
batched_tangent: _Function


_loaders: dict[str, Callable[[], Mapping[str, _Function]]] = {}


def provide(loader: Callable[[], Mapping[str, _Function]], *names: str) -> None:
    """Register the loader of functions listed above.

    Args:
        loader: imports the functions and returns them by name.
        names: the functions that it returns.

    Raises TypeError for a name that is not listed.
    """
    unknown = set(names).difference(__annotations__)
    if unknown:
        raise TypeError(f"the core calls no function named {', '.join(sorted(unknown))}")
    _loaders.update(dict.fromkeys(names, loader))


def __getattr__(name: str) -> _Function:
    if name not in _loaders:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    for own, function in _loaders[name]().items():
        globals().setdefault(own, function)  # what a feature has set stays
    found: _Function = globals()[name]
    return found
