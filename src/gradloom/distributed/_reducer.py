"""Reducer: reduces a module's gradients over ranks while the backward pass goes on.

Note [Reduction of gradients]
Each parameter's AccumulateGrad has a hook. It copies the gradient, divided by the number of ranks, into a bucket. When
the bucket is full, its all-reduce starts in the group's thread; buckets start in the order of their numbers, which is
the same on all ranks, so a full one may wait for those before it. The last bucket is reduced in the thread of the
backward pass, which has nothing else to do: a module below the size of the first bucket pays for one call, without a
change of threads. When the pass ends, a callback of the engine waits for all buckets and copies the results into
`.grad`.

The first buckets assume that gradients come in the reverse order of the parameters. After the first pass, buckets are
made anew in the order in which gradients came on rank 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

import gradloom as gl

from ..autograd.graph import get_gradient_edge
from ..core.engine import queue_callback
from ..core.node import bump_version
from ..core.tensor import wrap
from ..dispatch.state import state
from ..utils._pytree import tree_leaves
from . import distributed_c10d as dist
from ._buckets import Bucket, GradBucket, assigned
from ._reduction_log import PassTimes, ReductionLog

__all__ = ["FIRST_BUCKET", "Reducer"]

FIRST_BUCKET = 1 << 20  # bytes of the bucket that is reduced first


class Reducer:
    """Reduces gradients. See Note [Reduction of gradients].

    Args:
        named: names and parameters, those that require a gradient.
        sparse: for each, whether its gradient is sparse.
        group: the process group.
        limits: bytes of the buckets; see `assigned`.
        find_unused: look for parameters that a forward pass did not use.
        static: the same parameters are used in every pass.
        as_view: let `.grad` be the bucket's memory.
        skip_unused: with `find_unused`, do not ask which parameters other ranks used.
    """

    def __init__(
        self,
        named: Sequence[tuple[str, Any]],
        sparse: Sequence[bool],
        group: Any,
        limits: Sequence[int],
        *,
        find_unused: bool,
        static: bool,
        as_view: bool,
        skip_unused: bool = False,
    ) -> None:
        self.names, self.parameters = [name for name, _ in named], [parameter for _, parameter in named]
        self._sparse, self.group, self._limits = list(sparse), group, list(limits)
        self.find_unused, self.static, self.as_view, self._skip_unused = find_unused, static, as_view, skip_unused
        self.divisor = group.size()
        self.hook: tuple[Any, Callable[[Any, GradBucket], Any]] | None = None
        self.after_reduction: Callable[[], Any] | None = None  # called when `.grad` has the results
        self.manual = False  # whether the program ends each backward pass, by `finalize`
        self._expecting = False  # between `prepare` and the end of the backward pass
        self._order: list[int] = []
        self.rebuilt = False
        self.log = ReductionLog()
        self.times: PassTimes | None = None  # of the pass that goes on, if it is measured
        self.unused: list[int] = []  # parameters that the last pass did not use
        self._used = np.zeros(len(named), np.int32)
        self._uses: list[int] = []  # of a static graph: how often each parameter gets a gradient in a pass
        self._first_pass, self.is_ending = True, False
        self._make_buckets(range(len(named) - 1, -1, -1))
        self.first_sizes = ", ".join(str(bucket.array.nbytes) for bucket in self.buckets)
        self._nodes = [get_gradient_edge(parameter).node for parameter in self.parameters]
        self._handles = [node.register_hook(partial(self._arrived, n)) for n, node in enumerate(self._nodes)]

    def remove_hooks(self) -> None:
        """Stop reducing gradients."""
        for handle in self._handles:
            handle.remove()

    # --- buckets --------------------------------------------------------------------------------------------------

    def _make_buckets(self, order: Sequence[int] | range) -> None:
        """Distribute the parameters to buckets, in an order of their numbers."""
        order = list(order)
        sizes = [self.parameters[n].numel() * self.parameters[n]._array.itemsize for n in order]
        kinds = [("sparse", n) if self._sparse[n] else self.parameters[n].dtype for n in order]
        parts = assigned(sizes, kinds, self._limits)
        numbers = [[order[place] for place in part] for part in parts]
        self.buckets = [Bucket(index, part, self.parameters) for index, part in enumerate(numbers)]
        self._place = {n: (bucket, i) for bucket in self.buckets for i, n in enumerate(bucket.numbers)}

    def rebuild(self) -> None:
        """Make the buckets anew in the order in which rank 0 got its gradients. All ranks call this together."""
        count = len(self.parameters)
        complete = sorted(self._order) == list(range(count))
        order = np.array(self._order if complete else [n for b in self.buckets for n in b.numbers], np.int64)
        dist.broadcast(wrap(order), group=self.group, group_src=0)
        self.rebuilt = True
        if not self.as_view:
            self._make_buckets(order.tolist())
            return
        kept = {n: p._grad for n, p in enumerate(self.parameters) if p._grad is not None}
        self._make_buckets(order.tolist())
        for n, grad in kept.items():
            self._put_view(n, grad._array)

    # --- a pass ---------------------------------------------------------------------------------------------------

    def prepare(self, outputs: Any) -> None:
        """Expect the gradients of a backward pass from `outputs`, of whatever structure."""
        self.check_finished()
        if self.times is not None:
            self.times.starts_backward()
        for bucket in self.buckets:
            bucket.pending, bucket.work = len(bucket.numbers), None
        self._next, self._expecting, self._order = 0, True, []
        self._left = list(self._uses)
        self._arrivals = [False] * len(self.parameters)
        if self.static:
            self.unused = [number for number, uses in enumerate(self._uses) if not uses]
        elif self.find_unused:
            self.unused = self._not_reached(outputs)
        for number in self.unused:
            self._mark(number)

    def _not_reached(self, outputs: Any) -> list[int]:
        """Return the numbers of the parameters on which no output depends."""
        stack: list[Any] = [
            leaf.grad_fn for leaf in tree_leaves(outputs) if isinstance(leaf, gl.Tensor) and leaf.requires_grad
        ]
        seen = set(stack)
        while stack:
            for node, _ in stack.pop().next_functions:
                if node is not None and node not in seen:
                    seen.add(node)
                    stack.append(node)
        return [number for number, node in enumerate(self._nodes) if node not in seen]

    def _arrived(self, number: int, grad_inputs: Any, grad_outputs: Any) -> None:
        """Take the gradient of a parameter: the hook of its AccumulateGrad."""
        self._used[number] = 1  # also in `no_sync`: what came there is part of the next reduction
        if not self._expecting:
            return
        self._order.append(number)
        if self.static and self._first_pass:
            return
        if self.static:
            self._left[number] -= 1
            if self._left[number]:
                return
        self._mark(number)

    @property
    def counts_uses(self) -> bool:
        """Whether the next pass is the first of a static graph: `finish_first_static` must be called at its end."""
        return self.static and self._first_pass

    def finish_first_static(self) -> None:
        """Reduce what the first pass of a static graph brought: a parameter may have come several times."""
        self._uses = [self._order.count(number) for number in range(len(self.parameters))]
        self._order = list(dict.fromkeys(self._order))
        for number in range(len(self.parameters)):
            self._mark(number)

    def _mark(self, number: int) -> None:
        """Put a gradient into its bucket, and start the buckets that are full."""
        if self._arrivals[number]:
            raise self.log.failed(RuntimeError(self._twice(number)))
        self._arrivals[number] = True
        bucket, place = self._place[number]
        view, grad = bucket.views[place], self.parameters[number]._grad
        if self._sparse[number]:
            pass
        elif grad is None:
            view[...] = 0
        elif self.hook is None:
            np.multiply(grad._array, np.asarray(1 / self.divisor, view.dtype), out=view)
        elif grad._array is not view:
            view[...] = grad._array
        bucket.pending -= 1
        while self._next < len(self.buckets) and not self.buckets[self._next].pending:
            bucket = self.buckets[self._next]
            self._next += 1
            if self._next == len(self.buckets):
                self._finish_later()
            else:
                bucket.work = self._start(bucket, True)

    def finalize(self) -> None:
        """End a backward pass whose buckets are full. Raises RuntimeError if they are not, or were not to wait."""
        if not self.manual:
            raise RuntimeError("finalize_backward: require_manual_backward_finalization is False")
        if not self.is_full:
            raise RuntimeError(
                "finalize_backward: there is no backward pass whose gradients are all there; call it once for each "
                "pass outside of no_sync()"
            )
        self._finish()

    @property
    def is_full(self) -> bool:
        """Whether all gradients of a backward pass are there, and it has not ended."""
        return self._expecting and self._next == len(self.buckets)

    def _finish_later(self) -> None:
        if self.manual:
            return
        if state.graph_task is None:  # no gradient is expected at all
            self._finish()
        elif self.counts_uses:  # at the end of a pass
            self._finish()
        else:
            queue_callback(self._finish)

    def _twice(self, number: int) -> str:
        return (
            "Expected to mark a variable ready only once. A parameter got a second gradient in one backward pass: it "
            "was used outside of `forward`, or in several passes at once, such as of checkpointed parts that share it. "
            "If the graph is the same in every iteration, say static_graph=True.\n"
            f"Parameter at index {number} with name {self.names[number]} has been marked as ready twice."
        )

    def _start(self, bucket: Bucket, in_background: bool) -> Any:
        """Start reducing a bucket; return what to wait for, or None if it is done."""
        if self.times is not None:
            self.times.starts_reducing()
        if self._sparse[bucket.numbers[0]]:
            self._reduce_sparse(bucket)
            return None
        if self.hook is None:
            return dist.all_reduce(bucket.tensor, group=self.group, async_op=in_background)
        given, call = self.hook
        return call(given, GradBucket(bucket, len(self.buckets)))

    def _reduce_sparse(self, bucket: Bucket) -> None:
        """Sum the sparse gradients of all ranks."""
        parameter = bucket.parameters[0]
        grad = None if parameter._grad is None else parameter._grad.coalesce()
        part = None if grad is None else (grad.indices().numpy(), grad.values().numpy())
        parts: list[Any] = [None] * self.group.size()
        dist.all_gather_object(parts, part, group=self.group)
        found = [one for one in parts if one is not None]
        if not found:
            return
        indices, values = (np.concatenate([one[i] for one in found], axis=1 - i) for i in (0, 1))
        total = gl.sparse_coo_tensor(wrap(indices), wrap(values) / self.divisor, parameter.shape)
        parameter._grad = total.coalesce()

    def _finish(self) -> None:
        """Wait for the buckets, and give the parameters their gradients: the end of a backward pass."""
        if self.times is not None:
            self.times.has_gradients()
        last = self.buckets[-1]
        last.work = self._start(last, False)
        self._expecting, self._first_pass = False, False
        for bucket in self.buckets:
            if bucket.work is not None:
                self._take(bucket, bucket.work.wait())
                bucket.work = None
        if self.times is not None:
            self.log.end(self.times, self._order)
            self.times = None
        used: np.ndarray | None = None
        if self.find_unused and not self.static and not self._skip_unused:
            used = self._used.copy()
            dist.all_reduce(wrap(used), group=self.group)
        elif self.find_unused or self.static:
            used = self._used
        for bucket in self.buckets:
            for place, number in enumerate(bucket.numbers):
                if not self._sparse[number] and (used is None or used[number]):
                    self._give(number, bucket.views[place])
        self._used[:] = 0
        if not self.rebuilt and (self.static or not self.find_unused):
            self.rebuild()
        if self.after_reduction is not None:
            self.after_reduction()

    def _take(self, bucket: Bucket, result: Any) -> None:
        """Put what a communication hook returned into a bucket."""
        if self.hook is None:
            return
        while isinstance(result, (list, tuple)) and len(result) == 1:
            result = result[0]
        if not isinstance(result, gl.Tensor) or result.numel() != bucket.array.size:
            raise RuntimeError("expected the future of a communication hook to have a tensor of the bucket's size")
        found = result.detach()._array
        if found is not bucket.array:
            bucket.array[...] = found.reshape(-1)

    def _give(self, number: int, view: np.ndarray) -> None:
        """Set a parameter's gradient to the reduced one."""
        grad = self.parameters[number]._grad
        if self.as_view:
            self._put_view(number)
        elif grad is None:
            self.parameters[number].grad = wrap(view.copy())
        elif grad._array.shape == view.shape:
            grad._array[...] = view
            bump_version(grad)
        else:
            grad.copy_(wrap(view))

    def _put_view(self, number: int, values: np.ndarray | None = None) -> None:
        """Let a parameter's gradient be the bucket's memory, with given values or those that it has."""
        bucket, place = self._place[number]
        view, parameter = bucket.views[place], self.parameters[number]
        if values is not None:
            view[...] = values
        grad = parameter._grad
        if grad is None:
            parameter.grad = wrap(view)
        elif grad._array is not view:
            grad.data = wrap(view)

    def check_finished(self) -> None:
        """Raise RuntimeError if a backward pass did not bring all gradients."""
        if not self._expecting or not self._order:
            return
        missing = [number for number, arrived in enumerate(self._arrivals) if not arrived]
        rank = dist.get_rank(self.group)
        named = ""
        if dist.get_debug_level() is not dist.DebugLevel.OFF:
            named = f"\nParameters which did not receive grad for rank {rank}: {', '.join(map(self._name, missing))}"
        self._expecting = False
        text = (
            "Expected to have finished reduction in the prior iteration before starting a new one. Some parameters got "
            "no gradient: the loss does not depend on them. Pass `find_unused_parameters=True` to "
            "`torch.nn.parallel.DistributedDataParallel`, and let all outputs of `forward` be found in what it returns "
            "(tensors, lists, tuples, dictionaries, dataclasses) and take part in the loss.\n"
            f"Parameter indices which did not receive grad for rank {rank}: {' '.join(map(str, missing))}{named}\n"
            "The environment variable TORCH_DISTRIBUTED_DEBUG, set to INFO or DETAIL, adds the names of the parameters."
        )
        raise self.log.failed(RuntimeError(text))

    def _name(self, number: int) -> str:
        return self.names[number]

    # --- ranks without inputs -------------------------------------------------------------------------------------

    def match(self) -> None:
        """Take part in a backward pass of the others without gradients of one's own."""
        for bucket in self.buckets:
            bucket.array[...] = 0
            work = self._start(bucket, False)
            if work is not None:
                work.wait()
        if self.find_unused and not self.static and not self._skip_unused:
            self._used[:] = 0
            dist.all_reduce(wrap(self._used), group=self.group)
        if not self.rebuilt and (self.static or not self.find_unused):
            self._order = []
            self.rebuild()

    def views(self) -> Iterator[tuple[int, np.ndarray]]:
        """Yield the number of each parameter and its part of a bucket."""
        for bucket in self.buckets:
            yield from zip(bucket.numbers, bucket.views, strict=True)
