"""What is said when ranks fail or disagree, and the checks of TORCH_DISTRIBUTED_DEBUG=DETAIL.

Note [Comparing calls]

In debug mode DETAIL each rank describes a collective in the group's store before it makes it: name, shapes and dtypes,
root, reduction, and the line of the program. It then reads what the others wrote under the same number. So all ranks
raise, with the lines of all, if they differ, and a rank that waits in vain names the ranks that are missing and the
last call that these made. The cost is some requests to the store for each collective.

Ranks may give each other parts of different sizes in an all_to_all: each rank lists what it gives and takes, and all
compare these lists. A rank that sends a tensor describes it likewise before; the rank that receives it reads that
afterwards, since only then it knows which message it got.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import timedelta
from math import prod
from typing import Any

from ..types.silence import module_name
from ._engines import Aborted, CallTimeout, Mismatch, PeerLost
from .errors import DistBackendError, DistError, DistStoreError, deadline_after, seconds_until

__all__ = ["Watch", "call_site", "failure", "monitored_barrier"]

_OURS = ("gradloom", "torch")
_HEARING = 1.0  # seconds that a rank waits for the others' reports after a timeout
_NO_DEADLINE = timedelta(days=365)


def call_site() -> str:
    """Return "file:line" of the innermost frame outside gradloom."""
    frame = sys._getframe(1)
    while frame is not None:
        if module_name(frame.f_globals).partition(".")[0] not in _OURS:
            return f"{frame.f_code.co_filename}:{frame.f_lineno}"
        frame = frame.f_back  # type: ignore[assignment]
    return "?"


def _named(ranks: Sequence[int]) -> str:
    return f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {', '.join(map(str, ranks))}"


def failure(group: Any, name: str, number: int, error: Exception) -> Exception:
    """Return the error of a collective to raise for an engine's, in global ranks, with what other ranks report.

    Args:
        group: the process group.
        name: name of the collective.
        number: how many collectives the group had started with it.
        error: what the engine raised; returned as it is if it is about the arguments.
    """
    if not isinstance(error, (CallTimeout, PeerLost, Mismatch, Aborted)):
        return error
    reason, missing = str(error), []
    if isinstance(error, CallTimeout):
        missing = [group._ranks[rank] for rank in error.missing]
        reason = (
            f"Timed out waiting: {_named(missing)} did not arrive"
            if missing
            else f"Timed out waiting, though all ranks arrived ({error})"
        )
    elif isinstance(error, PeerLost):
        lost = group._ranks[error.rank]
        reason = f"rank {lost} was lost: its process ended or closed the group"
    elif isinstance(error, Mismatch):
        reason = f"the ranks do not agree ({error}); TORCH_DISTRIBUTED_DEBUG=DETAIL shows what each of them called"
    mine = f"{name} (call {number} of group {group.group_name!r}) {reason}"
    text = f"[Rank {group._ranks[group.rank()]}] {mine}"
    reports = [] if group._watch is None else list(group._watch.last_calls(missing))
    reports += _exchange_reports(group, mine, wait=isinstance(error, CallTimeout), missing=missing)
    return DistBackendError("\n  ".join([text, *reports]))


def _exchange_reports(group: Any, mine: str, wait: bool, missing: Sequence[int]) -> list[str]:
    """Leave this rank's report in the group's store, and return those of the others."""
    found: list[str] = []
    if group._store is None:
        return found
    with suppress(Exception):  # the store's server may be the process that is lost
        store = group._store
        store.set(f"failed/{group.rank()}", mine)
        others = [rank for rank in range(group.size()) if rank != group.rank()]
        end = time.monotonic() + _HEARING if wait else 0.0
        while not all(store.check([f"failed/{r}"]) for r in others if group._ranks[r] not in missing):
            if time.monotonic() >= end:
                break
            time.sleep(0.05)
        for rank in others:
            if store.check([f"failed/{rank}"]):
                found.append(f"Rank {group._ranks[rank]} reports: {store.get(f'failed/{rank}').decode()}")
    return found


def _described(call: dict[str, Any]) -> str:
    shapes = ", ".join(f"{dtype}{shape}" for dtype, shape in call["tensors"])
    if "peer" in call:
        return f"{call['name']}({shapes}) {call['peer']}, at {call['site']}"
    more = f" with {', '.join(call['more'])}" if call["more"] else ""
    return f"{call['name']}({shapes}){more}, call {call['number']}, at {call['site']}"


class Watch:
    """Compare what the ranks of a group call. Note [Comparing calls]

    Args:
        group: the process group.
    """

    def __init__(self, group: Any) -> None:
        self._group = group
        self._messages: Counter[tuple[int, int, int]] = Counter()  # by sender, receiver and tag
        self._lock = threading.Lock()

    def note(
        self, name: str, number: int, tensors: Sequence[Any] = (), *more: Any, parts: tuple[Any, Any] | None = None
    ) -> dict[str, Any]:
        """Return the description of a call.

        Args:
            name: name of the collective.
            number: how many collectives the group has started with it.
            tensors: those whose shapes and dtypes must be the same on all ranks.
            more: root, reduction, and whatever else must be the same.
            parts: the arrays that the ranks give this one, and those that it gives to them, by rank.
        """
        texts = [f"root {m}" if isinstance(m, int) else str(m[0] if isinstance(m, tuple) else m) for m in more]
        found = {"name": name, "number": number, "tensors": _shapes(tensors), "more": texts, "site": call_site()}
        if parts is not None:
            found["takes"], found["gives"] = ([f"{a.dtype}[{a.size}]" for a in arrays] for arrays in parts)
        return found

    def compare(self, note: dict[str, Any], deadline: float | None) -> None:
        """Compare a call with those of the other ranks.

        Raises:
            DistBackendError: if they differ, or some do not come before the deadline.
        """
        group, store, number = self._group, self._group._store, note["number"]
        mine = json.dumps(note)
        store.set(f"call/{number}/{group.rank()}", mine)
        store.set(f"last/{group.rank()}", mine)
        keys = [f"call/{number}/{rank}" for rank in range(group.size())]
        left = seconds_until(deadline)
        try:
            store.wait(keys, _NO_DEADLINE if left is None else timedelta(seconds=left))
        except DistStoreError:
            raise DistBackendError("\n  ".join(self._missing(note, keys))) from None
        calls = [json.loads(store.get(key)) for key in keys]
        if number > 2:  # all ranks have read these: they are at this call's predecessor at least
            store.delete_key(f"call/{number - 2}/{group.rank()}")
        unequal = list(_unequal_parts(calls, group._ranks))
        if unequal or any(_compared(call) != _compared(calls[0]) for call in calls):
            lines = unequal + [
                f"Rank {group._ranks[rank]} is running {_described(call)}" for rank, call in enumerate(calls)
            ]
            raise DistBackendError(
                "\n  ".join([f"Detected mismatch between collectives on ranks of group {group.group_name!r}.", *lines])
            )

    def _missing(self, note: dict[str, Any], keys: Sequence[str]) -> Iterator[str]:
        group, store = self._group, self._group._store
        missing = [group._ranks[rank] for rank, key in enumerate(keys) if not store.check([key])]
        yield (
            f"[Rank {group._ranks[group.rank()]}] {_described(note)}, Timed out waiting: {_named(missing)} did not "
            "arrive"
        )
        yield from self.last_calls(missing)

    def last_calls(self, ranks: Sequence[int]) -> Iterator[str]:
        """Yield what ranks, by their numbers in the default group, called last."""
        store = self._group._store
        for rank in ranks:
            last = f"last/{list(self._group._ranks).index(rank)}"
            there = json.loads(store.get(last)) if store.check([last]) else None
            where = "has made no call yet" if there is None else f"came last to {_described(there)}"
            yield f"Rank {rank} {where}"

    # -- messages

    def message(self, name: str, peer: int | None, tag: int, tensor: Any) -> dict[str, Any]:
        """Return the description of a send or receive.

        Args:
            name: "send" or "recv".
            peer: the other rank of the group; None for any.
            tag: of the message.
            tensor: what is sent or gets what is received.
        """
        who = "any rank" if peer is None else f"rank {self._group._ranks[peer]}"
        text = f"{'to' if name == 'send' else 'from'} {who}" + (f" with tag {tag}" if tag else "")
        return {"name": name, "tensors": _shapes([tensor]), "peer": text, "site": call_site()}

    def _next(self, source: int, destination: int, tag: int) -> str:
        """Return the key of the next message between two ranks."""
        with self._lock:
            self._messages[source, destination, tag] += 1
            return f"message/{source}/{destination}/{tag}/{self._messages[source, destination, tag]}"

    def sending(self, call: Callable[..., None], note: dict[str, Any], peer: int, tag: int) -> Callable[..., None]:
        """Return `call`, which sends a message, with its description before it."""

        def watched(engine: Any, deadline: float | None) -> None:
            rank, store, text = self._group.rank(), self._group._store, json.dumps(note)
            store.set(self._next(rank, peer, tag), text)
            store.set(f"last/{rank}", text)
            call(engine, deadline)

        return watched

    def receiving(
        self, call: Callable[..., None], note: dict[str, Any], sender: Callable[[], int], tag: int
    ) -> Callable[..., None]:
        """Return `call`, which receives a message, with a comparison to what the sender described after it.

        Args:
            call: receives.
            note: as `message` returns it.
            sender: returns the sender's rank afterwards.
            tag: of the message.
        """

        def watched(engine: Any, deadline: float | None) -> None:
            self._group._store.set(f"last/{self._group.rank()}", json.dumps(note))
            try:
                call(engine, deadline)
            except Mismatch as error:
                if error.sender is None:
                    raise
                self._check_message(note, error.sender, tag)
                raise
            self._check_message(note, sender(), tag)

        return watched

    def _check_message(self, note: dict[str, Any], sender: int, tag: int) -> None:
        """Raise DistBackendError if a message that a rank sent has not the size and dtype that were expected."""
        group = self._group
        key = self._next(sender, group.rank(), tag)
        if not group._store.check([key]):  # the sender has no debug mode
            return
        sent = json.loads(group._store.get(key))
        group._store.delete_key(key)
        (ours,), (theirs,) = note["tensors"], sent["tensors"]
        if (ours[0], prod(ours[1])) != (theirs[0], prod(theirs[1])):
            lines = (
                f"Rank {group._ranks[rank]} is running {_described(call)}"
                for rank, call in ((sender, sent), (group.rank(), note))
            )
            raise DistBackendError(
                "\n  ".join([f"Detected mismatch between send and recv of group {group.group_name!r}.", *lines])
            )


def _shapes(tensors: Sequence[Any]) -> list[tuple[str, list[int]]]:
    return [(str(tensor.dtype).removeprefix("torch."), list(tensor.shape)) for tensor in tensors]


def _unequal_parts(calls: Sequence[dict[str, Any]], ranks: Sequence[int]) -> Iterator[str]:
    """Yield where a rank gives another one a part of another size or dtype than that takes."""
    if all("gives" in call for call in calls):
        for source, giving in enumerate(calls):
            for target, taking in enumerate(calls):
                given, taken = giving["gives"][target], taking["takes"][source]
                if given != taken:
                    yield f"Rank {ranks[source]} gives {given} to rank {ranks[target]}, which takes {taken}"


def _compared(call: dict[str, Any]) -> tuple[Any, ...]:
    return call["name"], call["tensors"], call["more"]


def monitored_barrier(group: Any, number: int, timeout: timedelta, wait_all_ranks: bool) -> None:
    """Wait until all ranks have called it. Rank 0 says which have not, and the others that it found some missing.

    Args:
        group: the process group.
        number: how many collectives the group had started with it.
        timeout: longest time to wait.
        wait_all_ranks: name all ranks that are missing, not only the first.

    Raises:
        RuntimeError: if ranks are missing.
    """
    store, key = group._store, f"monitored/{number}"
    milliseconds = round(timeout / timedelta(milliseconds=1))
    if group.rank():
        store.set(f"{key}/{group.rank()}", b"1")
        try:
            store.wait([f"{key}/done"], timeout)
            error = store.get(f"{key}/done").decode()
        except DistError:
            error = "timeout"
        if error:
            mine, root = group._ranks[group.rank()], group._ranks[0]
            raise DistBackendError(
                f"[Rank {mine}]: Rank {mine} successfully reached monitoredBarrier, but received errors while waiting "
                f"for send/recv from rank {root}. Please check rank {root} logs for faulty rank.\n"
                f" Original exception: \n{error}"
            )
        return
    if timeout <= timedelta(0):
        raise DistBackendError(f"[Rank 0]: Rank 0 timed out in monitoredBarrier after {milliseconds} ms.")
    end, missing = deadline_after(timeout), []
    for rank in range(1, group.size()):
        try:
            store.wait([f"{key}/{rank}"], timedelta(seconds=max(0.001, seconds_until(end) or 0.0)))
        except DistStoreError:
            missing.append(group._ranks[rank])
            if not wait_all_ranks:
                break
    error = ""
    if missing:
        names = (
            f"Rank {missing[0]}"
            if len(missing) == 1 and not wait_all_ranks
            else f"Ranks {', '.join(map(str, missing))}"
        )
        error = f"[Rank {group._ranks[0]}]: {names} failed to pass monitoredBarrier in {milliseconds} ms"
    store.set(f"{key}/done", error)
    if error:
        raise DistBackendError(error)
