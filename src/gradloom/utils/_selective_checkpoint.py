"""Checkpoints that keep some results: a policy says, operator by operator, what is kept and what is computed again.

Note [Selective checkpoints]
The part's first run is seen by a dispatch mode, which asks the policy about each operator's result and keeps those
that it wants, by operator and by how many times that operator ran before. The run in backward is seen by another, which
gives a kept result instead of computing it. Both are below autograd: the operator's history is recorded in either case,
so that the checkpoint saves the same tensors in both runs.
"""

from __future__ import annotations

import enum
from collections import defaultdict
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from ..core.tensor import Tensor
from ._python_dispatch import TorchDispatchMode
from ._pytree import tree_map

__all__ = ["CheckpointPolicy", "SAC_IGNORED_OPS", "SelectiveCheckpointContext", "create_selective_checkpoint_contexts"]


class CheckpointPolicy(enum.Enum):
    """What becomes of an operator's result: kept, or computed again. MUST and PREFER differ for compilers only.

    The results that PyTorch may move to the CPU are computed again, as there without a compiler.
    """

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3
    MUST_CPU_OFFLOAD = 4
    PREFER_CPU_OFFLOAD = 5


class SelectiveCheckpointContext:
    """What a policy is told besides the operator and its arguments.

    Args:
        is_recompute: whether the part runs again, in backward. Policies are asked in the first run only.
        op_output: what the operator returned.
    """

    def __init__(self, *, is_recompute: bool, op_output: Any = None) -> None:
        self.is_recompute = is_recompute
        self.op_output = op_output


_RECOMPUTE, _CONSUMED = object(), object()


def _ignored_operators() -> frozenset[Any]:
    """Operators that compute nothing, which no policy is asked about."""
    aten = import_module("gradloom.ops").aten
    names = ("detach", "is_contiguous", "size", "stride", "storage_offset", "dim", "numel")
    return frozenset(getattr(aten, name).default for name in names if hasattr(aten, name))


SAC_IGNORED_OPS = _ignored_operators()


class _Kept:
    """A tensor, and the version that it was kept in."""

    __slots__ = ("tensor", "version")

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor.detach()
        self.version = self.tensor._version

    def get(self, allow_mutation: bool) -> Tensor:
        """The tensor.

        Raises:
            RuntimeError: if it was written to.
        """
        if self.tensor._version != self.version and not allow_mutation:
            raise RuntimeError(
                "Tensor cached during selective activation checkpoint has been mutated. Let the policy "
                "recompute the operator whose result is written to, or pass "
                "allow_cache_entry_mutation=True if the value after the write is meant."
            )
        return self.tensor


class _CachingTorchDispatchMode(TorchDispatchMode):
    """Keeps what the policy wants in `storage`: operator -> number of the call -> result."""

    def __init__(self, policy_fn: Callable[..., Any], storage: dict[Any, dict[int, Any]]) -> None:
        super().__init__()
        self.policy_fn, self.storage = policy_fn, storage
        self.func_counter: dict[Any, int] = defaultdict(int)

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
        self.storage[func][number] = tree_map(_keep, out) if saves else _RECOMPUTE
        return out


class _CachedTorchDispatchMode(TorchDispatchMode):
    """Gives what `storage` holds instead of computing it again."""

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
                f"{what} encountered during backward but not found in storage: the part ran other "
                "operators than in its first run. It has to be deterministic, and not to depend on what "
                "changes between forward and backward."
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


def _keep(value: Any) -> Any:
    return _Kept(value) if isinstance(value, Tensor) else value


def _policy_from_bool(keep: bool) -> CheckpointPolicy:
    """The policy that a bool stands for."""
    return CheckpointPolicy.MUST_SAVE if keep else CheckpointPolicy.PREFER_RECOMPUTE


def _policy_of(answer: Any, func: Any) -> CheckpointPolicy:
    """A policy's answer, for which a bool may stand.

    Raises:
        TypeError: for anything else.
    """
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
    """The contexts of a checkpoint that keeps the results of some operators.

        context_fn = partial(create_selective_checkpoint_contexts, [torch.ops.aten.mm.default])
        y = checkpoint(part, x, use_reentrant=False, context_fn=context_fn)

    Args:
        policy_fn_or_list: the operators whose results are kept, as OpOverloads; or a function that is called with a
            SelectiveCheckpointContext, the OpOverload and its arguments, and returns a CheckpointPolicy or whether to
            keep the result.
        allow_cache_entry_mutation: give kept tensors also after they were written to, with what they hold then.

    Returns:
        The context of the first run, and that of the run in backward, of which there can be one.

    Raises:
        TypeError: if it is neither a function nor a list.
        ValueError: for what is no OpOverload in the list.
    """
    policy: Callable[..., Any]
    if isinstance(policy_fn_or_list, (list, tuple)):
        kept = frozenset(map(_overload, policy_fn_or_list))
        policy = lambda context, func, *args, **kwargs: func in kept  # noqa: E731
    elif callable(policy_fn_or_list):
        policy = policy_fn_or_list
    else:
        raise TypeError(
            f"policy_fn_or_list must be either a function or a list of ops, not {type(policy_fn_or_list).__name__}."
        )
    storage: dict[Any, dict[int, Any]] = defaultdict(dict)
    return (_CachingTorchDispatchMode(policy, storage), _CachedTorchDispatchMode(storage, allow_cache_entry_mutation))


def _overload(operator: Any) -> Any:
    if not hasattr(operator, "_overloadname"):
        hint = f" Take one of its overloads: {operator}.default" if hasattr(operator, "overloads") else ""
        raise ValueError(
            f"Expected op in `op_list` to be an OpOverload but got: {operator} of type {type(operator)}.{hint}"
        )
    return operator
