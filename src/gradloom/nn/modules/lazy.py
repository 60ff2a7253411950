"""Lazy modules, which take the size of their input from the first input.

Until then their parameters have no shape. Afterwards they are ordinary modules, by class too.
"""

from __future__ import annotations

from typing import Any

from gradloom.nn.modules.module import Module
from gradloom.nn.parameter import UninitializedParameter, is_lazy

__all__ = ["LazyModuleMixin"]


class LazyModuleMixin(Module):
    """First base of a lazy module's class; the next is the class of an ordinary module.

    The class creates UninitializedParameters and gives them a shape in `initialize_parameters`, which gets the
    arguments of the first `forward`. The module then becomes one of `cls_to_become`, if that is set.
    """

    cls_to_become: type[Module] | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._load_hook: Any = self._register_load_state_dict_pre_hook(self._take_shapes)
        self._initialize_hook: Any = self.register_forward_pre_hook(_initialize, with_kwargs=True)

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Give the parameters their shapes.

        Args:
            args, kwargs: arguments of `forward`.

        Raises:
            NotImplementedError: unless a subclass overrides it.
        """
        raise NotImplementedError(f"initialize_parameters is not implemented for {type(self).__name__}")

    def has_uninitialized_params(self) -> bool:
        """Return whether a parameter or buffer of the module has no shape yet."""
        return any(is_lazy(tensor) for tensor in (*self._parameters.values(), *self._buffers.values()))

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        for name, tensor in self._own_state():
            destination[prefix + name] = tensor if keep_vars or is_lazy(tensor) else tensor.detach()

    def _take_shapes(self, state_dict, prefix, *_):
        for name, tensor in (*self._parameters.items(), *self._buffers.items()):
            given = state_dict.get(prefix + name)
            if is_lazy(tensor) and given is not None and not is_lazy(given):
                tensor.materialize(given.shape)

    def _replicate_for_data_parallel(self):
        raise RuntimeError(
            "Modules with uninitialized parameters can't be used with `DataParallel`. Run a dummy "
            "forward pass to correctly initialize the modules"
        )


def _initialize(module, args, kwargs):
    """Give parameters their shapes before the first forward, and make the module an ordinary one."""
    module.initialize_parameters(*args, **kwargs)
    if module.has_uninitialized_params():
        raise RuntimeError(f"module {module._get_name()} has not been fully initialized")
    for name in ("_load_hook", "_initialize_hook"):
        getattr(module, name).remove()
        delattr(module, name)
    if module.cls_to_become is not None:
        module.__class__ = module.cls_to_become


def _unshaped(device: Any, dtype: Any) -> Any:
    return UninitializedParameter(device=device, dtype=dtype)
