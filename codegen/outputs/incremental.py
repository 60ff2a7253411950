"""Generate again, from the results of an earlier run: only what a changed entry can change is rendered anew.

    memo = Memo(results of the last run)
    files = generated_files(target, memo)       # what render.generated_files gives
    memo.results()                              # for the next run

Note [Kept steps] in gradloom.codegen.derivatives.incremental says what each part follows from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ..derivatives.incremental import Steps, environment, texts
from ..derivatives.model import DifferentiabilityInfo, DifferentiableFunction
from ..memo import Memo, digest
from ..target import Target
from ..wrappers.wrappers import NodeClass, Wrapper
from . import render


def generated_files(target: Target, memo: Memo, debug: bool = False) -> dict[str, str]:
    """Return what `render.generated_files` returns for gradloom, and render only what the memo lacks."""
    try:
        found, read = environment(target), texts(target, lambda name: render.shown(target, name))

        def rendered() -> dict[str, str]:
            steps = Steps(target, memo, found, read)
            with render.bytecode_kept(memo, found):
                return render.render_package(steps.specification, debug, _Kept(steps))

        key = digest("everything", found, str(debug), *(part for text in read for part in text))
        return _files(memo, target, key, rendered)
    except Exception:
        return render.generated_files(target, debug)


def _files(memo: Memo, target: Target, key: bytes, make: Callable[[], dict[str, str]]) -> dict[str, str]:
    """Return the files that a step gives: as they are in the generated package, if they are those of the last time."""
    kept = memo.find(key)
    found = None if kept is None else _as_on_disk(target, kept)
    if found is None:
        found = make()
        lines = (f"{digest(text).hex()} {name}" for name, text in found.items())
        memo.set(key, "\n".join(lines).encode())
    return found


def _as_on_disk(target: Target, kept: bytes) -> dict[str, str] | None:
    """Return the files of a list of them with digests; None if one of them has another text by now."""
    assert target.output is not None
    found = {}
    for line in kept.decode().split("\n"):
        known, _, name = line.partition(" ")
        try:
            data = (target.output / name).read_bytes()
        except OSError:
            return None
        if digest(data).hex() != known:
            return None
        found[name] = data.decode()
    return found


class _Kept(render.Parts):
    """Renders what no earlier run has rendered."""

    def __init__(self, steps: Steps) -> None:
        self._steps, self._memo = steps, steps.memo

    def wrapper(self, function: DifferentiableFunction, w: Wrapper, make: Callable[[], str]) -> str:
        return self._memo.text(self._key(w), make)

    def node(self, node: NodeClass, debug: bool, make: Callable[[], str]) -> str:
        return self._memo.text(digest("node", str(debug), *self._info(node.info)), make)

    def family(
        self, name: str, wrappers: Sequence[Wrapper], nodes: Sequence[NodeClass], make: Callable[[], str]
    ) -> str:
        return self._file(name, digest(name, *map(self._key, wrappers), *self._nodes(nodes)), make)

    def records(
        self, name: str, wrappers: Sequence[Wrapper], nodes: Sequence[NodeClass], make: Callable[[], str]
    ) -> str:
        keys = (*map(self._key, wrappers), *self._nodes(nodes))
        return self._file(name, digest(name, self._steps.definitions, *keys), make)

    def declared(self, make: Callable[[], dict[str, str]]) -> dict[str, str]:
        return _files(self._memo, self._steps.target, digest("declared", self._steps.declarations), make)

    def _file(self, name: str, key: bytes, make: Callable[[], str]) -> str:
        return _files(self._memo, self._steps.target, key, lambda: {name: make()})[name]

    def _nodes(self, nodes: Iterable[NodeClass]) -> list[str | bytes]:
        return [part for node in nodes for part in self._info(node.info)]

    def _info(self, info: DifferentiabilityInfo) -> tuple[str | bytes, ...]:
        steps = self._steps
        return steps.derivatives[id(info.place)], info.node or "", str(info.schema.name), steps.declarations

    def _key(self, w: Wrapper) -> bytes:
        """Return the digest of what the text of a wrapper follows from."""
        steps = self._steps
        key = steps.keys.get((w.name, w.debug))
        if key is None:
            infos = steps.specification.derivatives[w.name].infos.values()
            parts = (part for info in infos for part in self._info(info))
            facts = (w.name, w.function, w.guard or "", w.strategy, str(w.debug))
            key = digest("wrapper", steps.operators[id(w.native)], steps.declarations, *facts, *parts)
            steps.keys[w.name, w.debug] = key
        return key
