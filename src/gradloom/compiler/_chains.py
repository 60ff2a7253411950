"""Chains in the source of a program: Note [Chains] of _llvm/chain.py.

A chain begins with the product of a batch. Calls after it join while they can be cut into as many items, and if memory
that the chain writes is read in the same items in which it is written. Lines between them go before the chain, if they
do not depend on it, or after it, if they give memory back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, NamedTuple

LEAST = 1 << 19  # bytes that a chain passes on: less stays in the cache anyway
MOST = 1 << 18  # bytes of them in an item

SETUP, DROP = "setup", "drop"  # lines that make views and buffers, and that give memory back


class Memory(NamedTuple):
    """What a call reads or writes: a variable of the program, and its size in bytes."""

    variable: str
    nbytes: int
    written: bool


class Call(NamedTuple):
    """A call of machine code.

    Attributes:
        name, function: of what it calls.
        arguments: the variables that it passes; memory: where their elements are.
        cut: returns the `Cut` into a number of items, or None.
        batch: how many items it suggests.
    """

    name: str
    function: Any
    arguments: list[str]
    memory: list[Memory]
    cut: Callable[[int], Any]
    batch: int = 1


class _Chain:
    """A chain that grows."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.members: list[tuple[int, Call, Any]] = []  # the number of the line, the call, and how it is cut
        self.before: list[int] = []
        self.after: list[int] = []

    def takes(self, line: int, call: Call) -> bool:
        """Add a call, if it can be cut as the others are; return whether it was added."""
        cut = call.cut(self.count)
        if cut is None or any(m.written and not m.variable.startswith("b") for m in call.memory):
            return False
        members = [*self.members, (line, call, cut)]
        if not all(_is_local(spans, self.count) for spans in _shared(members).values()):
            return False
        self.members = members
        return True

    def touches(self, call: Call) -> bool:
        """Return whether a call reads or writes what the chain reads or writes."""
        return not {m.variable for m in call.memory}.isdisjoint(
            m.variable for _, c, _ in self.members for m in c.memory
        )

    def is_free_of(self, call: Call) -> bool:
        """Return whether a call may be made before the chain."""
        for m in call.memory:
            for _, member, _ in self.members:
                if any(m.variable == own.variable and (m.written or own.written) for own in member.memory):
                    return False
        return True

    def end(self) -> None:
        """Drop the calls at the end that read nothing that the chain writes."""
        while self.members:
            last = self.members[-1]
            others = {m.variable for _, call, _ in self.members[:-1] for m in call.memory if m.written}
            if any(m.variable in others and not m.written for m in last[1].memory):
                break
            self.members.pop()
        stop = self.members[-1][0] if self.members else 0
        self.before, self.after = ([i for i in lines if i < stop] for lines in (self.before, self.after))

    @property
    def nbytes(self) -> int:
        """How much memory it passes on from one call to another."""
        return sum(spans[0][0].nbytes for spans in _shared(self.members).values())


def _shared(members: Sequence[tuple[int, Call, Any]]) -> dict[str, list[tuple[Memory, Any]]]:
    """Return the places of the memory that one of these calls writes and one reads, by variable."""
    found: dict[str, list[tuple[Memory, Any]]] = {}
    for _, call, cut in members:
        for memory, span in zip(call.memory, cut.spans, strict=True):
            found.setdefault(memory.variable, []).append((memory, span))
    return {v: spans for v, spans in found.items() if len({m.written for m, _ in spans}) > 1}


def _is_local(spans: list[tuple[Memory, Any]], count: int) -> bool:
    return all(m.nbytes % count == 0 and span.is_within(m.nbytes // count) for m, span in spans)


def chained(lines: list[str], calls: dict[int, Call], kinds: dict[int, str], names: dict[str, Any]) -> list[str]:
    """Return the lines of a program with chains in the place of calls; `names` gets the chains.

    Args:
        calls: by the numbers of their lines.
        kinds: SETUP or DROP, of lines that are one of these.
    """
    found: list[str] = []
    at = 0
    while at < len(lines):
        call = calls.get(at)
        chain = None if call is None or call.batch == 1 else _chain_from(at, lines, calls, kinds)
        if chain is None:
            found.append(lines[at])
            at += 1
        else:
            name = f"chain{len(names)}"
            found += [*[lines[i] for i in chain.before], *_written(chain, name, names)]
            found += [lines[i] for i in chain.after]
            at = chain.members[-1][0] + 1
    return found


def _chain_from(start: int, lines: list[str], calls: dict[int, Call], kinds: dict[int, str]) -> _Chain | None:
    chain = _Chain(calls[start].batch)
    if not chain.takes(start, calls[start]):
        return None
    for i in range(start + 1, len(lines)):
        call = calls.get(i)
        if call is None:
            kind = kinds.get(i)
            if kind is None:
                break
            (chain.before if kind == SETUP else chain.after).append(i)
        elif not (chain.touches(call) and chain.takes(i, call)):
            if not chain.is_free_of(call):
                break
            chain.before.append(i)
    chain.end()
    if not chain.members or chain.nbytes < LEAST or chain.nbytes // chain.count > MOST:
        return None
    return chain


def _written(chain: _Chain, name: str, names: dict[str, Any]) -> list[str]:
    """Return the lines of a chain's call, and add it to the names."""
    llvm = import_module("gradloom.compiler._llvm")
    calls = [call for _, call, _ in chain.members]
    variables = list(dict.fromkeys(v for call in calls for v in call.arguments))
    place = {v: i for i, v in enumerate(variables)}
    steps = [
        llvm.Step(call.function, tuple([place[v] for v in call.arguments]), cut.ranges)
        for _, call, cut in chain.members
    ]
    names[name] = llvm.Chain(chain.count, chain.nbytes // chain.count, len(variables), steps)
    what = ", ".join(call.name for call in calls)
    return [f"# {what}, for some of {chain.count} items at a time", f"{name}({', '.join(variables)})"]
