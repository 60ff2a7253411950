"""Selective checkpoints: a policy decides for each operator whether its result is kept or recomputed.

Note [Selective checkpoints]
In the part's first run, a dispatch mode calls the policy for each operator and keeps the results it selects, by
operator and number of the call. In the recomputation, another mode returns kept results instead of computing them. Both
modes are below autograd: history is recorded either way, so that the checkpoint saves the same tensors in both runs.
"""

from __future__ import annotations

import enum
from collections import defaultdict
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from ..core.tensor import Tensor
from ..dispatch.state import state
from ..types.public import found_in as _found_in
from ._python_dispatch import TorchDispatchMode
from ._pytree import tree_map

__all__ = ["CheckpointPolicy", "SAC_IGNORED_OPS", "SelectiveCheckpointContext", "create_selective_checkpoint_contexts"]


class CheckpointPolicy(enum.Enum):
    """Decision on an operator's result: keep or recompute it. MUST and PREFER differ for compilers only.

    Results that PyTorch may move to the CPU are recomputed, as they are there without a compiler.
    """

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3
    MUST_CPU_OFFLOAD = 4
    PREFER_CPU_OFFLOAD = 5


class SelectiveCheckpointContext:
    """Context that a policy receives besides the operator and its arguments.

    Args:
        is_recompute: whether the part is being recomputed; policies are asked in the first run only.
        op_output: the operator's result.
    """

    def __init__(self, *, is_recompute: bool, op_output: Any = None) -> None:
        self.is_recompute = is_recompute
        self.op_output = op_output


_RECOMPUTE, _CONSUMED = object(), object()


def _ignored_operators() -> frozenset[Any]:
    """Return the operators that compute nothing; no policy is called for them."""
    aten = import_module("gradloom.ops").aten
    names = ("detach", "is_contiguous", "size", "stride", "storage_offset", "dim", "numel")
    return frozenset(getattr(aten, name).default for name in names if hasattr(aten, name))


SAC_IGNORED_OPS = _ignored_operators()


class _Kept:
    """A tensor and its version when it was kept, or what the pack hook of `saved_tensors_hooks` made of it."""

    __slots__ = ("tensor", "version", "hooks")

    def __init__(self, tensor: Tensor, hooks: tuple[Any, Any] | None) -> None:
        self.tensor, self.hooks = tensor.detach(), hooks
        self.version = self.tensor._version
        if hooks is not None:
            self.tensor = hooks[0](self.tensor)

    def get(self, allow_mutation: bool) -> Tensor:
        """Return the tensor."""
        if self.hooks is not None:
            return self.hooks[1](self.tensor)  # type: ignore[no-any-return]
        if self.tensor._version != self.version and not allow_mutation:
            raise RuntimeError("Tensor cached during selective activation checkpoint has been mutated")
        return self.tensor


class _CachingTorchDispatchMode(TorchDispatchMode):
    """A mode that keeps the results selected by the policy in `storage`: operator -> number of the call -> result."""

    def __init__(self, policy_fn: Callable[..., Any], storage: dict[Any, dict[int, Any]]) -> None:
        super().__init__()
        self.policy_fn, self.storage = policy_fn, storage
        self.func_counter: dict[Any, int] = defaultdict(int)
        self.respect_saved_tensors_hooks: bool | None = None

    def _users_hooks(self) -> tuple[Any, Any] | None:
        """Return the user's innermost `saved_tensors_hooks`, if they are to be used."""
        every: tuple[Any, ...] = state.saved_tensor_hooks
        found = [hooks for hooks in every if not hasattr(hooks[0], "part")]
        if found and self.respect_saved_tensors_hooks is None:
            import warnings

            warnings.warn(
                "A saved_tensors_hooks context (e.g. save_on_cpu) is active around a selective activation checkpoint "
                "region. Tensors that SAC saves currently bypass these hooks, but a future release will route them "
                "through the hooks like any other saved tensor. Silence this warning and choose the behavior "
                "explicitly by passing respect_saved_tensors_hooks=True|False to torch.utils.checkpoint.checkpoint.",
                FutureWarning,
                stacklevel=4,
            )
        return found[-1] if found and self.respect_saved_tensors_hooks else None

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None) -> Any:
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        if func in SAC_IGNORED_OPS:
            return out
        context = SelectiveCheckpointContext(is_recompute=False, op_output=out)
        policy = _policy_of(self.policy_fn(context, func, *args, **kwargs), func)
        number = self.func_counter[func]
        self.func_counter[func] += 1
        saves = policy in (CheckpointPolicy.MUST_SAVE, CheckpointPolicy.PREFER_SAVE)
        hooks = self._users_hooks() if saves else None
        self.storage[func][number] = tree_map(lambda value: _keep(value, hooks), out) if saves else _RECOMPUTE
        return out


class _CachedTorchDispatchMode(TorchDispatchMode):
    """A mode that returns results held in `storage` instead of recomputing them."""

    def __init__(self, storage: dict[Any, dict[int, Any]], allow_cache_entry_mutation: bool = False) -> None:
        super().__init__()
        self.storage, self.allow_cache_entry_mutation = storage, allow_cache_entry_mutation
        self.func_counter: dict[Any, int] = defaultdict(int)

    def __enter__(self) -> Any:
        self.func_counter.clear()
        return super().__enter__()

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None) -> Any:
        kwargs = kwargs or {}
        if func in SAC_IGNORED_OPS:
            return func(*args, **kwargs)
        number = self.func_counter[func]
        self.func_counter[func] += 1
        if func not in self.storage or number not in self.storage[func]:
            what = f"{func} invocation index {number}" if func in self.storage else f"{func}"
            raise RuntimeError(
                f"{what} encountered during backward but not found in storage. This can happen if the operations in "
                "the checkpointed region are nondeterministic or depend on global state that changed between "
                "forward and backward."
            )
        found = self.storage[func][number]
        if found is _RECOMPUTE:
            return func(*args, **kwargs)
        if found is _CONSUMED:
            raise RuntimeError(
                "Trying to backward an extra time. You are only allowed to backward once on any region "
                "computed under selective activation checkpoint."
            )
        self.storage[func][number] = _CONSUMED
        return tree_map(lambda x: x.get(self.allow_cache_entry_mutation) if isinstance(x, _Kept) else x, found)


def _keep(value: Any, hooks: tuple[Any, Any] | None) -> Any:
    return _Kept(value, hooks) if isinstance(value, Tensor) else value


def _policy_from_bool(keep: bool) -> CheckpointPolicy:
    """Return the policy that a bool stands for."""
    return CheckpointPolicy.MUST_SAVE if keep else CheckpointPolicy.PREFER_RECOMPUTE


def _policy_of(answer: Any, func: Any) -> CheckpointPolicy:
    """Return a policy's result as a CheckpointPolicy."""
    if isinstance(answer, bool):
        return _policy_from_bool(answer)
    if not isinstance(answer, CheckpointPolicy):
        raise TypeError(
            "the policy of a selective checkpoint should return a CheckpointPolicy or a bool, and "
            f"returned {type(answer).__name__} for {func}"
        )
    return answer


def create_selective_checkpoint_contexts(
    policy_fn_or_list: Callable[..., Any] | Sequence[Any], allow_cache_entry_mutation: bool = False
) -> tuple[Any, Any]:
    """Return the contexts of a checkpoint that keeps the results of some operators.

        context_fn = partial(create_selective_checkpoint_contexts, [torch.ops.aten.mm.default])
        y = checkpoint(part, x, use_reentrant=False, context_fn=context_fn)

    Args:
        policy_fn_or_list: OpOverloads whose results are kept; or a function of a SelectiveCheckpointContext, the
            OpOverload and its arguments that returns a CheckpointPolicy, or whether to keep the result.
        allow_cache_entry_mutation: return kept tensors even after they were written to.

    Returns:
        The context of the first run and that of the recomputation, which may happen once.

    Raises:
        TypeError: if the policy is neither a function nor a list.
        ValueError: for something in the list that is not an OpOverload.
    """
    policy: Callable[..., Any]
    if isinstance(policy_fn_or_list, (list, tuple)):
        kept = frozenset(map(_overload, policy_fn_or_list))
        policy = lambda context, func, *args, **kwargs: func in kept  # noqa: E731
    elif callable(policy_fn_or_list):
        policy = policy_fn_or_list
    else:
        raise TypeError("policy_fn_or_list must be either a function or a list of ops.")
    storage: dict[Any, dict[int, Any]] = defaultdict(dict)
    return (_CachingTorchDispatchMode(policy, storage), _CachedTorchDispatchMode(storage, allow_cache_entry_mutation))


def _overload(operator: Any) -> Any:
    if not hasattr(operator, "_overloadname"):
        hint = (
            "Please update the OpOverloadPacket to a specific OpOverload.For example, if you have "
            "`gradloom.ops.aten.mm`, change it to `gradloom.ops.aten.mm.default`."
            if hasattr(operator, "overloads")
            else ""
        )
        raise ValueError(
            f"Expected op in `op_list` to be an OpOverload but got: {operator} of type {type(operator)}. {hint}"
        )
    return operator


_found_in(
    "gradloom.utils.checkpoint", CheckpointPolicy, SelectiveCheckpointContext, create_selective_checkpoint_contexts
)
