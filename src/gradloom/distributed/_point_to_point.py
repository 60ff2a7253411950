"""Tensors and objects from one rank to another, and objects to all of them.

Objects are pickled. They are unpickled only from ranks of the group, which have proved that they know the job's key
(Note [The job's key]) or were started by the same MPI.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable, Sequence
from typing import Any

import gradloom as gl

from ._arguments import _check_single_tensor, _root, _validate_output_list_for_rank, overridable
from ._collectives import _coalescing_manager, all_gather, broadcast, gather, scatter
from ._process_group import ProcessGroup
from ._work import Work
from ._world import (
    _canonicalize_group_rank,
    _check_not_self_rank,
    _group_or_default_group,
    _rank_not_in_group,
    _warn_not_in_group,
    get_global_rank,
    get_rank,
)

__all__ = [
    "P2POp",
    "all_gather_object",
    "batch_isend_irecv",
    "broadcast_object_list",
    "gather_object",
    "irecv",
    "isend",
    "recv",
    "recv_object_list",
    "scatter_object_list",
    "send",
    "send_object_list",
]


# -- tensors


def _send(tensor: Any, dst: int | None, group: Any, tag: int, group_dst: int | None, wait: bool) -> Work | None:
    group = _group_or_default_group(group)
    if _rank_not_in_group(group):
        _warn_not_in_group("send" if wait else "isend")
        return None
    peer = _canonicalize_group_rank(group, dst, group_dst)
    _check_single_tensor(tensor, "tensor")
    if not wait:
        return group.send([tensor], peer, tag)
    _check_not_self_rank(group, peer, "destination")
    return _waited(group.send, group, [tensor], peer, tag)


def _waited(method: Callable[..., Any], group: Any, *args: Any) -> Any:
    """Call a method of a group and wait; a group of this module's class needs no other thread for it."""
    if type(group) is ProcessGroup:
        return method(*args, _wait=True)
    work = method(*args)
    if work is not None:
        work.wait()
    return work


def _receive(tensor: Any, src: int | None, group: Any, tag: int, group_src: int | None, wait: bool) -> Work | None:
    _check_single_tensor(tensor, "tensor")
    if _rank_not_in_group(group):
        _warn_not_in_group("recv" if wait else "irecv")
        return None
    group = _group_or_default_group(group)
    args: tuple[Any, ...] = ([tensor], tag)
    method = group.recv_anysource
    if src is not None or group_src is not None:
        method, args = group.recv, ([tensor], _canonicalize_group_rank(group, src, group_src), tag)
    work: Work | None = _waited(method, group, *args) if wait else method(*args)
    return work


@overridable(0)
def isend(
    tensor: Any, dst: int | None = None, group: Any = None, tag: int = 0, group_dst: int | None = None
) -> Work | None:
    """Start to send a tensor to a rank; it must not be changed until the work that is returned is done.

    Args:
        tensor: the values.
        dst: rank that receives them.
        group: group; the default one if None.
        tag: number that the receiver asks for.
        group_dst: instead of `dst`, a rank of the group.
    """
    return _send(tensor, dst, group, tag, group_dst, False)


@overridable(0)
def irecv(
    tensor: Any, src: int | None = None, group: Any = None, tag: int = 0, group_src: int | None = None
) -> Work | None:
    """Start to receive a tensor; it has the values when the work that is returned is done.

    Args:
        tensor: gets the values; of the same shape and dtype as the sender's.
        src: rank that sends; any if None.
        group: group; the default one if None.
        tag: number that the sender gave.
        group_src: instead of `src`, a rank of the group.
    """
    return _receive(tensor, src, group, tag, group_src, False)


@overridable(0)
def send(tensor: Any, dst: int | None = None, group: Any = None, tag: int = 0, group_dst: int | None = None) -> None:
    """Send a tensor to a rank.

    Args:
        tensor: the values.
        dst: rank that receives them.
        group: group; the default one if None.
        tag: number that the receiver asks for.
        group_dst: instead of `dst`, a rank of the group.

    Raises:
        ValueError: if `dst` is this rank.
    """
    _send(tensor, dst, group, tag, group_dst, True)


@overridable(0)
def recv(tensor: Any, src: int | None = None, group: Any = None, tag: int = 0, group_src: int | None = None) -> int:
    """Receive a tensor.

    Args:
        tensor: gets the values; of the same shape and dtype as the sender's.
        src: rank that sends; any if None.
        group: group; the default one if None.
        tag: number that the sender gave.
        group_src: instead of `src`, a rank of the group.

    Returns:
        the sender's rank; -1 for a rank that is not in the group.

    Raises:
        ValueError: if `src` is this rank, which cannot send meanwhile.
    """
    if (src is not None or group_src is not None) and not _rank_not_in_group(group):
        member = _group_or_default_group(group)
        _check_not_self_rank(member, _canonicalize_group_rank(member, src, group_src), "source")
    work = _receive(tensor, src, group, tag, group_src, True)
    if work is None:
        return -1
    if src is not None:
        return src
    group = _group_or_default_group(group)
    peer = work._source_rank() if group_src is None else group_src
    _check_not_self_rank(group, peer, "source")
    return get_global_rank(group, peer)


class P2POp:
    """A call of `isend` or `irecv` for `batch_isend_irecv`.

    Args:
        op: `isend` or `irecv`.
        tensor: what is sent, or gets what is received.
        peer: the other rank.
        group: group; the default one if None.
        tag: number by which sends and receives are matched.
        group_peer: instead of `peer`, a rank of the group.

    Raises:
        ValueError: if `op` is neither.
    """

    def __init__(
        self,
        op: Any,
        tensor: Any,
        peer: int | None = None,
        group: Any = None,
        tag: int = 0,
        group_peer: int | None = None,
    ) -> None:
        if op not in (isend, irecv):
            raise ValueError(
                "Invalid ``op``. Expected ``op`` to be of type ``torch.distributed.isend`` or "
                "``torch.distributed.irecv``."
            )
        _check_single_tensor(tensor, "tensor")
        self.op, self.tensor, self.tag = op, tensor, tag
        self.group = _group_or_default_group(group)
        self.peer = _canonicalize_group_rank(self.group, peer, group_peer, return_global=True)
        self.group_peer = _canonicalize_group_rank(self.group, peer, group_peer)

    def __repr__(self) -> str:
        ends = get_rank(self.group), self.group_peer
        src, dst = ends if self.op is isend else ends[::-1]
        return (
            f"P2POp({self.op.__name__} pg={self.group.group_name}, group_src={src}, group_dst={dst},  "
            f"{self.tensor.shape}, {self.tensor.dtype})"
        )


def batch_isend_irecv(p2p_op_list: list[P2POp]) -> list[Work]:
    """Start several sends and receives, in any order.

    Args:
        p2p_op_list: the calls, all in one group.

    Returns:
        the work of each.
    """
    if not isinstance(p2p_op_list, list) or not all(isinstance(call, P2POp) for call in p2p_op_list):
        raise ValueError("Invalid ``p2p_op_list``. Each op is expected to to be of type ``torch.distributed.P2POp``.")
    if any(call.group != p2p_op_list[0].group for call in p2p_op_list):
        raise ValueError("All ops need to use the same group.")
    group, found = p2p_op_list[0].group, []
    if not isinstance(group, ProcessGroup) or group.supports_coalescing:
        with _coalescing_manager(group, async_ops=True) as manager:
            found = [_started(call) for call in p2p_op_list]
        return manager.works or [work for work in found if work is not None]
    return [work for work in map(_started, p2p_op_list) if work is not None]


def _started(call: P2POp) -> Work | None:
    peer = {"group_dst" if call.op is isend else "group_src": call.group_peer}
    work: Work | None = call.op(call.tensor, group=call.group, tag=call.tag, **peer)
    return work


# -- objects


def _pickled(value: Any, weights_only: bool) -> Any:
    """Return the bytes of a pickle, or of a file of `gl.save`, as a tensor."""
    if not weights_only:
        return gl.frombuffer(bytearray(pickle.dumps(value, pickle.HIGHEST_PROTOCOL)), dtype=gl.uint8)
    file = io.BytesIO()
    gl.save(value, file)
    return gl.frombuffer(bytearray(file.getbuffer()), dtype=gl.uint8)


def _unpickled(tensor: Any, size: int, weights_only: bool) -> Any:
    data = memoryview(tensor.numpy())[:size]
    return gl.load(io.BytesIO(data), weights_only=True) if weights_only else pickle.loads(data)


def _padded(tensor: Any, size: int) -> Any:
    found = gl.zeros(size, dtype=gl.uint8)
    found[: tensor.numel()] = tensor
    return found


def _size_of(tensor: Any) -> Any:
    return gl.tensor([tensor.numel()], dtype=gl.int64)


def _gathered_sizes(data: Any, group: Any) -> list[int]:
    sizes = [gl.zeros(1, dtype=gl.int64) for _ in range(group.size())]
    all_gather(sizes, _size_of(data), group)
    return [int(size) for size in sizes]


def all_gather_object(object_list: list[Any], obj: Any, group: Any = None, weights_only: bool = False) -> None:
    """Copy the object of rank i into `object_list[i]` on every rank.

    Args:
        object_list: a list with as many elements as ranks, which are replaced.
        obj: this rank's object; must be picklable.
        group: group; the default one if None.
        weights_only: send the objects as `gl.save` writes them, and read them by `gl.load(weights_only=True)`; all
            ranks must agree.
    """
    if _rank_not_in_group(group):
        _warn_not_in_group("all_gather_object")
        return
    group = _group_or_default_group(group)
    data = _pickled(obj, weights_only)
    sizes = _gathered_sizes(data, group)
    parts = [gl.empty(max(sizes), dtype=gl.uint8) for _ in sizes]
    all_gather(parts, _padded(data, max(sizes)), group)
    for index, (part, size) in enumerate(zip(parts, sizes, strict=True)):
        object_list[index] = _unpickled(part, size, weights_only)


def gather_object(
    obj: Any,
    object_gather_list: list[Any] | None = None,
    dst: int | None = None,
    group: Any = None,
    group_dst: int | None = None,
    weights_only: bool = False,
) -> None:
    """Copy the object of rank i into `object_gather_list[i]` of one rank.

    Args:
        obj: this rank's object; must be picklable.
        object_gather_list: on `dst`, a list with as many elements as ranks, which are replaced.
        dst: rank that gets them; 0 if None.
        group: group; the default one if None.
        group_dst: instead of `dst`, a rank of the group.
        weights_only: as for `all_gather_object`.
    """
    group = _group_or_default_group(group)
    if _rank_not_in_group(group):
        _warn_not_in_group("gather_object")
        return
    root = _root(group, dst, group_dst)
    _validate_output_list_for_rank(group.rank(), root, object_gather_list)
    data = _pickled(obj, weights_only)
    sizes = _gathered_sizes(data, group)
    is_root = group.rank() == root
    parts = [gl.empty(max(sizes), dtype=gl.uint8) for _ in sizes] if is_root else None
    gather(_padded(data, max(sizes)), parts, group=group, group_dst=root)
    if parts is not None and object_gather_list is not None:
        for index, (part, size) in enumerate(zip(parts, sizes, strict=True)):
            object_gather_list[index] = _unpickled(part, size, weights_only)


def _joined(objects: Sequence[Any], weights_only: bool) -> tuple[Any, Any]:
    """Return the sizes of pickles, and the pickles one after the other."""
    parts = [_pickled(value, weights_only) for value in objects]
    sizes = gl.tensor([part.numel() for part in parts], dtype=gl.int64)
    return sizes, gl.cat(parts) if parts else gl.empty(0, dtype=gl.uint8)


def _split(objects: list[Any], sizes: Any, data: Any, weights_only: bool) -> None:
    at = 0
    for index, size in enumerate(sizes.tolist()):
        objects[index] = _unpickled(data[at : at + size], size, weights_only)
        at += size


def send_object_list(
    object_list: list[Any],
    dst: int | None = None,
    group: Any = None,
    device: Any = None,
    group_dst: int | None = None,
    use_batch: bool = False,
    weights_only: bool = False,
) -> None:
    """Send objects to a rank.

    Args:
        object_list: the objects; must be picklable.
        dst: rank that receives them.
        group: group; the default one if None.
        device: accepted.
        group_dst: instead of `dst`, a rank of the group.
        use_batch: send by `batch_isend_irecv`.
        weights_only: as for `all_gather_object`.

    Raises:
        ValueError: if `dst` is this rank.
    """
    group = _group_or_default_group(group)
    if _rank_not_in_group(group):
        _warn_not_in_group("send_object_list")
        return
    peer = _canonicalize_group_rank(group, dst, group_dst)
    _check_not_self_rank(group, peer, "destination")
    for tensor in _joined(object_list, weights_only):
        if use_batch:
            batch_isend_irecv([P2POp(isend, tensor, group_peer=peer, group=group)]).pop().wait()
        else:
            send(tensor, group=group, group_dst=peer)


def recv_object_list(
    object_list: list[Any],
    src: int | None = None,
    group: Any = None,
    device: Any = None,
    group_src: int | None = None,
    use_batch: bool = False,
    weights_only: bool = False,
) -> int:
    """Receive objects that a rank sends by `send_object_list`.

    Args:
        object_list: a list of as many elements, which are replaced.
        src: rank that sends; any if None.
        group: group; the default one if None.
        device: accepted.
        group_src: instead of `src`, a rank of the group.
        use_batch: receive by `batch_isend_irecv`.
        weights_only: as for `all_gather_object`.

    Returns:
        the sender's rank; -1 for a rank that is not in the group.
    """
    group = _group_or_default_group(group)
    if _rank_not_in_group(group):
        _warn_not_in_group("recv_object_list")
        return -1
    peer = None
    if src is not None or group_src is not None:
        peer = _canonicalize_group_rank(group, src, group_src)
        _check_not_self_rank(group, peer, "source")

    def receive(tensor: Any, peer: int | None) -> int:
        if not use_batch:
            return recv(tensor, group=group, group_src=peer)
        batch_isend_irecv([P2POp(irecv, tensor, group_peer=peer, group=group)]).pop().wait()
        return get_global_rank(group, peer)  # type: ignore[arg-type]

    sizes = gl.empty(len(object_list), dtype=gl.int64)
    sender = receive(sizes, peer)
    data = gl.empty(int(sizes.sum()), dtype=gl.uint8)
    receive(data, _canonicalize_group_rank(group, sender))
    _split(object_list, sizes, data, weights_only)
    return sender


def broadcast_object_list(
    object_list: list[Any],
    src: int | None = None,
    group: Any = None,
    device: Any = None,
    group_src: int | None = None,
    weights_only: bool = False,
) -> None:
    """Copy the objects of one rank to the others.

    Args:
        object_list: the objects on `src`; elsewhere a list of as many elements, which are replaced.
        src: rank that has them; 0 if None.
        group: group; the default one if None.
        device: accepted.
        group_src: instead of `src`, a rank of the group.
        weights_only: as for `all_gather_object`.
    """
    group = _group_or_default_group(group)
    if _rank_not_in_group(group):
        _warn_not_in_group("broadcast_object_list")
        return
    root = _root(group, src, group_src)
    is_root = group.rank() == root
    sizes, data = _joined(object_list, weights_only) if is_root else (gl.empty(len(object_list), dtype=gl.int64), None)
    broadcast(sizes, group=group, group_src=root)
    data = gl.empty(int(sizes.sum()), dtype=gl.uint8) if data is None else data
    broadcast(data, group=group, group_src=root)
    if not is_root:
        _split(object_list, sizes, data, weights_only)


def scatter_object_list(
    scatter_object_output_list: list[Any],
    scatter_object_input_list: list[Any] | None = None,
    src: int | None = None,
    group: Any = None,
    group_src: int | None = None,
    weights_only: bool = False,
) -> None:
    """Copy the object i of one rank's list to rank i.

    Args:
        scatter_object_output_list: a list, whose first element is replaced.
        scatter_object_input_list: on `src`, as many objects as ranks.
        src: rank that has them; 0 if None.
        group: group; the default one if None.
        group_src: instead of `src`, a rank of the group.
        weights_only: as for `all_gather_object`.

    Raises:
        ValueError: if a list is missing.
    """
    group = _group_or_default_group(group)
    if _rank_not_in_group(group):
        _warn_not_in_group("scatter_object_list")
        return
    if not isinstance(scatter_object_output_list, list) or not scatter_object_output_list:
        raise ValueError("Expected argument scatter_object_output_list to be a list of size at least 1.")
    root = _root(group, src, group_src)
    parts = sizes = None
    longest = gl.zeros(1, dtype=gl.int64)
    if group.rank() == root:
        if scatter_object_input_list is None:
            raise ValueError("source rank must provide non-None scatter_object_input_list")
        pickles = [_pickled(value, weights_only) for value in scatter_object_input_list]
        sizes = [_size_of(part) for part in pickles]
        longest = gl.stack(sizes).max().reshape(1)
        parts = [_padded(part, int(longest)) for part in pickles]
    broadcast(longest, group=group, group_src=root)
    data, size = gl.empty(int(longest), dtype=gl.uint8), gl.zeros(1, dtype=gl.int64)
    scatter(data, parts, group=group, group_src=root)
    scatter(size, sizes, group=group, group_src=root)
    scatter_object_output_list[0] = _unpickled(data, int(size), weights_only)
