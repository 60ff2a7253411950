"""The keys of PyTorch's dispatcher, for libraries that name them: `DispatchKey`, sets of them, and the guard."""

from __future__ import annotations

from contextlib import ExitStack
from enum import Enum
from typing import Any

from ..amp.autocast_mode import autocast

DispatchKey = Enum(  # type: ignore[misc]
    "DispatchKey",
    """
    Undefined CPU CUDA MPS XPU Meta MTIA HPU XLA IPU PrivateUse1 SparseCPU SparseCUDA SparseCsrCPU QuantizedCPU
    NestedTensorCPU BackendSelect Python PythonDispatcher PythonTLSSnapshot Fake FuncTorchDynamicLayerBackMode
    FuncTorchDynamicLayerFrontMode FuncTorchBatched FuncTorchBatchedDecomposition FuncTorchGradWrapper
    FuncTorchVmapMode Functionalize Named Conjugate Negative ZeroTensor ADInplaceOrView AutogradOther
    AutogradFunctionality AutogradCPU AutogradCUDA AutogradMPS AutogradXPU AutogradMeta AutogradMTIA AutogradHPU
    AutogradXLA AutogradPrivateUse1 AutogradNestedTensor Tracer TESTING_ONLY_GenericMode TESTING_ONLY_GenericWrapper
    Batched VmapMode PreDispatch AutocastCPU AutocastCUDA AutocastMPS AutocastXPU AutocastMTIA AutocastHPU AutocastXLA
    AutocastIPU AutocastPrivateUse1 Autograd CompositeImplicitAutograd CompositeImplicitAutogradNestedTensor
    CompositeExplicitAutograd CompositeExplicitAutogradNonFunctional Dense Quantized Sparse SparseCsr NestedTensor
    """,
    module="gradloom._C",
)


class DispatchKeySet:
    """A set of keys; `|`, `&` and `-` combine sets.

    Args:
        key: the only key.
    """

    def __init__(self, key: Any) -> None:
        self._keys: frozenset[Any] = frozenset((key,))

    @classmethod
    def _of(cls, keys: frozenset[Any]) -> DispatchKeySet:
        made = cls.__new__(cls)
        made._keys = keys
        return made

    def has(self, key: Any) -> bool:
        """Return whether a key is in the set."""
        return key in self._keys

    def add(self, key: Any) -> DispatchKeySet:
        """Return the set with another key."""
        return self._of(self._keys | {key})

    def remove(self, key: Any) -> DispatchKeySet:
        """Return the set without a key."""
        return self._of(self._keys - {key})

    def __or__(self, other: DispatchKeySet) -> DispatchKeySet:
        return self._of(self._keys | other._keys)

    def __and__(self, other: DispatchKeySet) -> DispatchKeySet:
        return self._of(self._keys & other._keys)

    def __sub__(self, other: DispatchKeySet) -> DispatchKeySet:
        return self._of(self._keys - other._keys)

    def __repr__(self) -> str:
        return f"DispatchKeySet({', '.join(sorted(key.name for key in self._keys))})"


class _ExcludeDispatchKeyGuard:
    """A context without what some keys stand for: autocast.

    Raises NotImplementedError for keys of other features, which have contexts of their own, such as `no_grad`.
    """

    def __init__(self, keys: DispatchKeySet) -> None:
        others = sorted(key.name for key in keys._keys if not key.name.startswith("Autocast"))
        if others:
            raise NotImplementedError(
                f"_ExcludeDispatchKeyGuard: gradloom has no dispatch keys, so that {', '.join(others)} cannot be left "
                "out; use torch.no_grad() or torch._C._DisableTorchDispatch()"
            )
        self._on_cpu = keys.has(DispatchKey["AutocastCPU"])
        self._stack = ExitStack()

    def __enter__(self) -> None:
        if self._on_cpu:
            self._stack.enter_context(autocast("cpu", enabled=False))

    def __exit__(self, *error: Any) -> None:
        self._stack.close()
