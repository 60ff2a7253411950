"""ProcessGroup: ranks that communicate, and the collectives as its methods, on lists of tensors.

The functions of torch.distributed (`_collectives.py`) stand on these methods. A method checks its tensors, makes arrays
of them, and lets the group's engine move these: in the caller's thread if the caller waits and nothing is before it,
else in the group's own (`_work.Lane`). A class derived from ProcessGroup that overrides them is a backend, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from typing import Any

import numpy as np

import gradloom as gl

from . import _debug
from ._arrays import Targets, flat_parts, source
from ._group_calls import GroupCalls
from ._kinds import (
    UNSET,
    AllgatherOptions,
    AllreduceCoalescedOptions,
    AllreduceOptions,
    AllToAllOptions,
    BarrierOptions,
    BroadcastOptions,
    GatherOptions,
    ReduceOptions,
    ReduceScatterOptions,
    ScatterOptions,
    engine_op,
)
from ._work import Work

__all__ = ["ProcessGroup"]


def _options(kind: type, given: Any, field: str | None, values: dict[str, Any]) -> Any:
    """Return the options of a call: those given, or new ones with a value that was given in their place."""
    if isinstance(given, kind):
        return given
    options = kind()
    if given is not None and field is not None:
        setattr(options, field, given)
    for name, value in values.items():
        setattr(options, {"op": "reduceOp", "root": "rootRank"}.get(name, name), value)
    return options


def _as_list(tensors: Any) -> list[Any]:
    return [tensors] if isinstance(tensors, gl.Tensor) else list(tensors)


def _one(tensors: Any, method: str) -> Any:
    found = _as_list(tensors)
    if len(found) != 1:
        raise RuntimeError(
            f"ProcessGroupGloo::{method}: requires a single-element tensor list, got {len(found)} tensors"
        )
    return found[0]


def _check_size(method: str, index: int, expected: Any, got: Any) -> None:
    if got.dtype != expected.dtype:
        raise RuntimeError(
            f"ProcessGroupGloo::{method}: invalid tensor type at index {index} (expected {expected.dtype}, "
            f"got {got.dtype})"
        )
    if got.shape != expected.shape:
        sizes = ", ".join(map(str, expected.shape)), ", ".join(map(str, got.shape))
        raise RuntimeError(
            f"ProcessGroupGloo::{method}: invalid tensor size at index {index} (expected ({sizes[0]}), "
            f"got ({sizes[1]}))"
        )


def _name_of(dtype: Any) -> str:
    """Return PyTorch's other name of a dtype of integers, such as Long."""
    names = {gl.uint8: "Byte", gl.int8: "Char", gl.int16: "Short", gl.int32: "Int", gl.int64: "Long", gl.bool: "Bool"}
    return names.get(dtype) or str(dtype).rpartition(".")[2].replace("ui", "UI")


def _reduction(op: Any, tensor: Any) -> Any:
    """Return the engine's name of a reduction of tensors of a dtype.

    Raises:
        RuntimeError: if these cannot be reduced so.
    """
    found = engine_op(op)
    if found == "avg" and not (tensor.is_floating_point() or tensor.is_complex()):
        raise RuntimeError(f"result type Float can't be cast to the desired output type {_name_of(tensor.dtype)}")
    if isinstance(found, str) and found.startswith("b") and (tensor.is_floating_point() or tensor.is_complex()):
        raise RuntimeError(f"Cannot use ReduceOp.{found.upper()} with non-integral dtype")
    return found


class ProcessGroup(GroupCalls):
    """Ranks that communicate: this process's end.

    Args:
        store: where the ranks find each other.
        rank: number of this process in the group.
        size: number of ranks.
    """

    # -- collectives

    def broadcast(self, tensors: Any, opts: Any = None, **values: Any) -> Work:
        """Copy the root's tensor to the others."""
        options, tensor = _options(BroadcastOptions, opts, "rootRank", values), _one(tensors, "broadcast")
        self._check_root("broadcast", options.rootRank)
        targets = Targets()
        array, root = targets.array(tensor), options.rootRank

        def call(engine: Any, deadline: float | None) -> None:
            engine.broadcast(array, root, deadline)
            targets.store()

        return self._start("broadcast", [tensor], options, call, [tensor], root)

    def allreduce(self, tensors: Any, opts: Any = None, **values: Any) -> Work:
        """Reduce the tensors of all ranks, in place."""
        options, tensor = _options(AllreduceOptions, opts, "reduceOp", values), _one(tensors, "allreduce")
        op = _reduction(options.reduceOp, tensor)
        if tensor.is_sparse:
            return self._start("all_reduce", [tensor], options, partial(self._allreduce_sparse, tensor, op), [], op)
        targets = Targets()
        array = targets.array(tensor)

        def call(engine: Any, deadline: float | None) -> None:
            engine.allreduce(array, op, deadline)
            targets.store()

        return self._start("all_reduce", [tensor], options, call, [tensor], op)

    def _allreduce_sparse(self, tensor: Any, op: Any, engine: Any, deadline: float | None) -> None:
        if op != "sum":
            raise RuntimeError("Can only sum sparse tensors: unsupported reduction operation for allreduce")
        mine = tensor.coalesce()
        indices, values = source(mine.indices()), source(mine.values())
        counts = [np.empty(1, np.int64) for _ in range(self._size)]
        engine.allgather(counts, np.array([indices.shape[1]], np.int64), deadline)
        sizes = [int(count[0]) for count in counts]
        longest = max(sizes)
        parts = []
        for array, dim in ((indices, 1), (values, 0)):
            padding = [(0, 0)] * array.ndim
            padding[dim] = (0, longest - array.shape[dim])
            padded = np.pad(array, padding)
            found = [np.empty_like(padded) for _ in sizes]
            engine.allgather(found, padded, deadline)
            cut = [part.take(range(size), axis=dim) for part, size in zip(found, sizes, strict=True)]
            parts.append(gl.from_numpy(np.concatenate(cut, axis=dim)))
        with gl.no_grad():
            tensor.copy_(gl.sparse_coo_tensor(parts[0], parts[1], tensor.shape).coalesce())

    def allreduce_coalesced(self, tensors: Any, opts: Any = None, **values: Any) -> Work:
        """Reduce several tensors of one dtype, in place, by one call."""
        options, given = _options(AllreduceCoalescedOptions, opts, "reduceOp", values), _as_list(tensors)
        if not given:
            raise RuntimeError("ProcessGroupGloo::allreduce_coalesced: requires non-empty tensor list")
        op = _reduction(options.reduceOp, given[0])
        targets = Targets()
        # Complex numbers are reduced as pairs of real ones, beside real tensors.
        arrays = [array.view(array.real.dtype) if array.dtype.kind == "c" else array for array in targets.arrays(given)]
        if any(array.dtype != arrays[0].dtype for array in arrays):
            raise RuntimeError("tensors must all have the same type")

        def call(engine: Any, deadline: float | None) -> None:
            flat = np.concatenate([array.reshape(-1) for array in arrays])
            engine.allreduce(flat, op, deadline)
            at = 0
            for array in arrays:
                array[...] = flat[at : at + array.size].reshape(array.shape)
                at += array.size
            targets.store()

        return self._start("all_reduce", given, options, call, given, op)

    def reduce(self, tensors: Any, opts: Any = None, **values: Any) -> Work:
        """Reduce the tensors of all ranks into the root's."""
        options, tensor = _options(ReduceOptions, opts, "rootRank", values), _one(tensors, "reduce")
        op, root = _reduction(options.reduceOp, tensor), options.rootRank
        self._check_root("reduce", root)
        targets = Targets()
        array = targets.array(tensor)

        def call(engine: Any, deadline: float | None) -> None:
            engine.reduce(array, root, op, deadline)
            targets.store()

        return self._start("reduce", [tensor], options, call, [tensor], root, op)

    def allgather(self, output_tensors: Any, input_tensors: Any, opts: Any = None, **values: Any) -> Work:
        """Copy each rank's tensor into a list of tensors, on every rank."""
        options, tensor = _options(AllgatherOptions, opts, None, values), _one(input_tensors, "allgather")
        outputs = _as_list(output_tensors[0] if isinstance(output_tensors[0], (list, tuple)) else output_tensors)
        if len(outputs) != self._size:
            raise RuntimeError(
                "ProcessGroupGloo::allgather: invalid output tensor list at index 0 "
                f"(expected length {self._size}, got {len(outputs)})"
            )
        for index, output in enumerate(outputs):
            _check_size("allgather", index, tensor, output)
        targets = Targets()
        outs, array = targets.arrays(outputs), source(tensor)

        def call(engine: Any, deadline: float | None) -> None:
            engine.allgather(outs, array, deadline)
            targets.store()

        return self._start("all_gather", outputs, options, call, [tensor])

    def allgather_coalesced(self, output_lists: Any, input_list: Any, opts: Any = None, **values: Any) -> Work:
        """Gather several tensors on every rank: `output_lists[i][j]` becomes rank i's `input_list[j]`."""
        options, inputs = _options(AllgatherOptions, opts, None, values), _as_list(input_list)
        if not inputs:
            raise RuntimeError("ProcessGroupGloo::allgather_coalesced: requires non-empty input tensor list")
        if len(output_lists) != self._size:
            raise RuntimeError(
                "ProcessGroupGloo::allgather_coalesced: output lists should be equal to world size "
                f"(expected {self._size}, got {len(output_lists)})"
            )
        for row in output_lists:
            if len(row) != len(inputs):
                raise RuntimeError(
                    "ProcessGroupGloo::allgather_coalesced: invalid output size: (expected "
                    f"length {len(inputs)}, got {len(row)})"
                )
            for index, (output, tensor) in enumerate(zip(row, inputs, strict=True)):
                _check_size("allgather_coalesced", index, tensor, output)
        targets = Targets()
        rows = [targets.arrays(row) for row in output_lists]
        arrays = [source(tensor) for tensor in inputs]

        def call(engine: Any, deadline: float | None) -> None:
            for index, array in enumerate(arrays):
                engine.allgather([row[index] for row in rows], array, deadline)
            targets.store()

        return self._start("all_gather", [output for row in output_lists for output in row], options, call, inputs)

    def all_gather_single(self, output: Any, tensor: Any, opts: Any = None, **values: Any) -> Work:
        """Copy each rank's tensor into equal parts of one tensor, one after the other."""
        return self.all_gather_single_coalesced([output], [tensor], _options(AllgatherOptions, opts, None, values))

    _allgather_base = all_gather_single

    def all_gather_single_coalesced(self, outputs: Any, inputs: Any, opts: Any = None, **values: Any) -> Work:
        """Do `all_gather_single` for several pairs of tensors."""
        options, targets = _options(AllgatherOptions, opts, None, values), Targets()
        for output, tensor in zip(outputs, inputs, strict=True):
            if output.dtype != tensor.dtype:
                raise RuntimeError(
                    f"ProcessGroupGloo::allgather: invalid tensor type at index 0 (expected {tensor.dtype}, "
                    f"got {output.dtype})"
                )
            if output.numel() != tensor.numel() * self._size:
                raise RuntimeError(
                    "output tensor size must be equal to world_size times input tensor size: got "
                    f"{output.numel()} and {tensor.numel()} elements with {self._size} ranks"
                )
        pairs = [(flat_parts(targets.array(o), self._size), source(i)) for o, i in zip(outputs, inputs, strict=True)]

        def call(engine: Any, deadline: float | None) -> None:
            for parts, array in pairs:
                engine.allgather(parts, array.reshape(-1), deadline)
            targets.store()

        return self._start("_all_gather_base", list(outputs), options, call, list(inputs))

    allgather_into_tensor_coalesced = all_gather_single_coalesced

    def gather(self, output_tensors: Any, input_tensors: Any, opts: Any = None, **values: Any) -> Work:
        """Copy each rank's tensor into a list of tensors of the root."""
        options, tensor = _options(GatherOptions, opts, "rootRank", values), _one(input_tensors, "gather")
        root, targets, outs = options.rootRank, Targets(), None
        self._check_root("gather", root)
        outputs = _as_list(
            output_tensors[0] if output_tensors and isinstance(output_tensors[0], (list, tuple)) else output_tensors
        )
        if root == self._rank:
            if len(outputs) != self._size:
                raise RuntimeError(
                    f"ProcessGroupGloo::gather: Incorrect output list size {len(outputs)}. Output list size should be "
                    f"{self._size}, same as size of the process group."
                )
            for index, output in enumerate(outputs):
                _check_size("gather", index, tensor, output)
            outs = targets.arrays(outputs)
        array = source(tensor)

        def call(engine: Any, deadline: float | None) -> None:
            engine.gather(outs, array, root, deadline)
            targets.store()

        return self._start("gather", outputs, options, call, [tensor], root)

    def gather_single(self, output: Any, tensor: Any, opts: Any = None, **values: Any) -> Work:
        """Copy each rank's tensor into a part of one tensor of the root."""
        parts = []
        if _options(GatherOptions, opts, "rootRank", values).rootRank == self._rank:
            if not output.is_contiguous() or output.numel() != self._size * tensor.numel():
                raise RuntimeError(
                    f"gather_single: the output must be a contiguous tensor of {self._size * tensor.numel()} elements, "
                    f"not one of shape {tuple(output.shape)} and strides {output.stride()}"
                )
            parts = list(output.view(self._size, *tensor.shape).unbind(0))
        return self.gather([parts] if parts else [], [tensor], opts, **values)

    def scatter(self, output_tensors: Any, input_tensors: Any, opts: Any = None, **values: Any) -> Work:
        """Copy the root's list of tensors to the ranks, one to each."""
        options, tensor = _options(ScatterOptions, opts, "rootRank", values), _one(output_tensors, "scatter")
        root, ins = options.rootRank, None
        self._check_root("scatter", root)
        inputs = _as_list(
            input_tensors[0] if input_tensors and isinstance(input_tensors[0], (list, tuple)) else input_tensors
        )
        if root == self._rank:
            if len(inputs) != self._size:
                raise RuntimeError(
                    f"ProcessGroupGloo::scatter: Incorrect input list size {len(inputs)}. Input list size should be "
                    f"{self._size}, same as size of the process group."
                )
            for index, given in enumerate(inputs):
                _check_size("scatter", index, tensor, given)
            ins = [source(given) for given in inputs]
        targets = Targets()
        array = targets.array(tensor)

        def call(engine: Any, deadline: float | None) -> None:
            engine.scatter(array, ins, root, deadline)
            targets.store()

        return self._start("scatter", [tensor], options, call, [tensor], root)

    def reduce_scatter(self, output_tensors: Any, input_tensors: Any, opts: Any = None, **values: Any) -> Work:
        """Reduce each of a list of tensors over all ranks, and copy the results to the ranks, one to each."""
        options, output = (
            _options(ReduceScatterOptions, opts, "reduceOp", values),
            _one(output_tensors, "reduce_scatter"),
        )
        inputs = _as_list(input_tensors[0] if isinstance(input_tensors[0], (list, tuple)) else input_tensors)
        if len(inputs) != self._size:
            raise RuntimeError("invalid input tensor list size, must be world size")
        _check_size("reduce_scatter", self._rank, inputs[self._rank], output)
        op, targets = _reduction(options.reduceOp, output), Targets()
        out, ins = targets.array(output), [source(tensor) for tensor in inputs]

        def call(engine: Any, deadline: float | None) -> None:
            engine.reduce_scatter(out, ins, op, deadline)
            targets.store()

        return self._start("reduce_scatter", [output], options, call, inputs, op)

    def reduce_scatter_single(self, output: Any, tensor: Any, opts: Any = None, **values: Any) -> Work:
        """Reduce a tensor over all ranks, and copy equal parts of the result to the ranks, one to each."""
        options = _options(ReduceScatterOptions, opts, "reduceOp", values)
        return self.reduce_scatter_single_coalesced([output], [tensor], options)

    _reduce_scatter_base = reduce_scatter_single

    def reduce_scatter_single_coalesced(self, outputs: Any, inputs: Any, opts: Any = None, **values: Any) -> Work:
        """Do `reduce_scatter_single` for several pairs of tensors."""
        options, targets = _options(ReduceScatterOptions, opts, "reduceOp", values), Targets()
        for output, tensor in zip(outputs, inputs, strict=True):
            if output.dtype != tensor.dtype:
                raise RuntimeError(
                    f"input tensor must be the same type as the output tensor: {tensor.dtype}, {output.dtype}"
                )
            if output.numel() * self._size != tensor.numel():
                raise RuntimeError(
                    "input tensor must be the same size as output size times world size: got "
                    f"{tensor.numel()} and {output.numel()} elements with {self._size} ranks"
                )
        op = _reduction(options.reduceOp, inputs[0])
        pairs = [
            (targets.array(o).reshape(-1), flat_parts(source(i), self._size))
            for o, i in zip(outputs, inputs, strict=True)
        ]

        def call(engine: Any, deadline: float | None) -> None:
            for out, parts in pairs:
                engine.reduce_scatter(out, parts, op, deadline)
            targets.store()

        return self._start("_reduce_scatter_base", list(outputs), options, call, list(inputs), op)

    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced

    def alltoall(self, output_tensors: Any, input_tensors: Any, opts: Any = None, **values: Any) -> Work:
        """Copy `input_tensors[j]` of rank i into `output_tensors[i]` of rank j."""
        options = _options(AllToAllOptions, opts, None, values)
        for kind, given in (("output", output_tensors), ("input", input_tensors)):
            if len(given) != self._size:
                raise RuntimeError(
                    f"ProcessGroupGloo::alltoall: {kind} tensor list size {len(given)} does not match world size "
                    f"{self._size}"
                )
        mine = output_tensors[self._rank], input_tensors[self._rank]
        if mine[0].numel() != mine[1].numel():
            raise RuntimeError("ProcessGroupGloo::alltoall: input and output tensors must have the same size")
        targets = Targets()
        outs = [array.reshape(-1) for array in targets.arrays(output_tensors)]
        ins = [source(tensor).reshape(-1) for tensor in input_tensors]

        def call(engine: Any, deadline: float | None) -> None:
            engine.alltoall(outs, ins, deadline)
            targets.store()

        return self._start(
            "all_to_all", list(output_tensors), options, call, [], profiled=input_tensors, parts=(outs, ins)
        )

    def all_to_all_single(
        self, output: Any, tensor: Any, output_split_sizes: Any, input_split_sizes: Any, opts: Any = None, **values: Any
    ) -> Work:
        """Copy parts of one tensor along dim 0 to the ranks, and parts from the ranks into another."""
        options, targets = _options(AllToAllOptions, opts, None, values), Targets()
        ends = [
            _split_ends(sizes, given, self._size)
            for sizes, given in ((output_split_sizes, output), (input_split_sizes, tensor))
        ]
        if output.dtype != tensor.dtype:
            raise RuntimeError("Tensors are not equal in data type")
        if not output_split_sizes and not input_split_sizes and output.numel() != tensor.numel():
            raise RuntimeError(
                f"Tensors are not equal in size: output has {output.numel()} elements, input has {tensor.numel()}"
            )
        arrays = targets.array(output), source(tensor)
        outs, ins = (
            [np.atleast_1d(array)[start:end].reshape(-1) for start, end in zip([0, *of[:-1]], of, strict=True)]
            for array, of in zip(arrays, ends, strict=True)
        )

        def call(engine: Any, deadline: float | None) -> None:
            engine.alltoall(outs, ins, deadline)
            targets.store()

        return self._start("all_to_all", [output], options, call, [], profiled=[tensor], parts=(outs, ins))

    alltoall_base = all_to_all_single

    def barrier(self, opts: Any = None, **values: Any) -> Work:
        """Wait until all ranks have called it."""
        return self._start("barrier", [], _options(BarrierOptions, opts, None, values), _barrier, [])

    def monitored_barrier(self, timeout: timedelta | None = None, wait_all_ranks: bool = False) -> None:
        """Wait until all ranks have called it; rank 0 says which have not within `timeout`."""
        self._check_usable("monitored_barrier")
        self._sequence += 1
        limit = self._timeout if timeout is None or timeout == UNSET else timeout
        _debug.monitored_barrier(self, self._sequence, limit, wait_all_ranks)

    # -- point to point

    def send(self, tensors: Any, dstRank: int, tag: int = 0, *, _wait: bool = False) -> Work:
        """Send a tensor to a rank."""
        tensor = _one(tensors, "send")
        self._check_peer("send", dstRank)
        array = source(tensor)

        def call(engine: Any, deadline: float | None) -> None:
            engine.send(array, dstRank, tag, deadline)

        if self._watch is not None:
            call = self._watch.sending(call, self._watch.message("send", dstRank, tag, tensor), dstRank, tag)
        return self._pass("send", ("send", dstRank), tensor, _wait, call)

    def recv(self, tensors: Any, srcRank: int, tag: int = 0, *, _wait: bool = False) -> Work:
        """Receive what a rank sends with this tag into a tensor."""
        self._check_peer("recv", srcRank)
        return self._receive(_one(tensors, "recv"), srcRank, tag, _wait)

    def recv_anysource(self, tensors: Any, tag: int = 0, *, _wait: bool = False) -> Work:
        """Receive what any rank sends with this tag into a tensor."""
        return self._receive(_one(tensors, "recv_anysource"), None, tag, _wait)

    def _receive(self, tensor: Any, src: int | None, tag: int, wait: bool) -> Work:
        targets, sender = Targets(), [-1 if src is None else src]
        array = targets.array(tensor)

        def call(engine: Any, deadline: float | None) -> None:
            sender[0] = engine.recv(array, src, tag, deadline)
            targets.store()

        if self._watch is not None:
            call = self._watch.receiving(call, self._watch.message("recv", src, tag, tensor), lambda: sender[0], tag)
        return self._pass("recv", ("recv", src, tag), tensor, wait, call, lambda: sender[0])

    def _check_root(self, method: str, root: int) -> None:
        if not 0 <= root < self._size:
            raise RuntimeError(f"ProcessGroupGloo::{method}: invalid root rank: {root}")

    def _check_peer(self, method: str, peer: int) -> None:
        if not 0 <= peer < self._size:
            raise RuntimeError(f"ProcessGroupGloo::{method}: invalid rank: {peer}; the group has {self._size} ranks")


def _barrier(engine: Any, deadline: float | None) -> None:
    engine.barrier(deadline)


def _split_ends(sizes: Sequence[int] | None, tensor: Any, count: int) -> list[int]:
    """Return where the parts of a tensor along dim 0 end, equal ones if no sizes are given."""
    length = tensor.shape[0] if tensor.dim() else 1
    if not sizes:
        if length % count:
            raise RuntimeError("Tensor's dim 0 does not divide equally across group size")
        sizes = [length // count] * count
    if len(sizes) != count:
        raise RuntimeError("Number of tensor splits not equal to group size")
    if sum(sizes) != length:
        raise RuntimeError("Split sizes doesn't match total dim 0 size")
    return [sum(sizes[: index + 1]) for index in range(count)]
