"""The committed list of known misses, and the verdict on a run's results against it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from tests.releases import pytorch_before

from .results import ABSENT, OpResult

DEFAULT_PATH = Path(__file__).with_name("known_misses.yaml")
KINDS = ("operators", "modules", "optimizers")
WHOLE = "with --whole"

#: kind -> name -> stage -> reason
Known = dict[str, dict[str, dict[str, str]]]


@dataclass
class Verdict:
    """Why a run fails: misses that nobody listed, and listed misses that are none any more."""

    new: list[tuple[str, str, str]] = field(default_factory=list)  # (name, stage, reason)
    gone: list[str] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        return not self.new and not self.gone


def load_known(path: Path | None = DEFAULT_PATH, every_sample: bool = False) -> Known:
    """The list in a YAML file, or an empty one. ValueError for all but kind -> name -> stage -> reason.

    With `every_sample`, what is listed below `with --whole` counts too: misses that all samples of all dtypes have.
    What is listed below `before 2.15` or `since 2.15` counts for such releases of PyTorch.
    """
    data = {} if path is None else yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    if not isinstance(data, dict):
        raise ValueError(f"{path}: the top level must be {', '.join((*KINDS, WHOLE))}")
    found: Known = {kind: {} for kind in KINDS}
    sections = {"": {kind: data.pop(kind) for kind in KINDS if kind in data}, **data}
    for title, part in sections.items():
        counts = _counts(path, str(title), every_sample)
        for kind, names in (part or {}).items():
            for name, stages in (names or {}).items():
                if not isinstance(stages, dict) or not all(isinstance(r, str) and r.strip() for r in stages.values()):
                    raise ValueError(f"{path}: {kind}: {name}: write `stage: reason` for each stage that misses")
                if counts:
                    found[kind].setdefault(name, {}).update(stages)
    return found


def _counts(path: Path | None, title: str, every_sample: bool) -> bool:
    """Return whether a section of the list counts: of all samples, or of some releases of PyTorch."""
    if release := re.fullmatch(r"(before|since) (\d+\.\d+)", title):
        return pytorch_before(release[2]) is (release[1] == "before")
    if title not in ("", WHOLE):
        raise ValueError(f"{path}: the top level must be {', '.join((*KINDS, WHOLE))} or a release as in `before 2.15`")
    return not title or every_sample


def judge(results: Iterable[OpResult], known: Known, stages: Iterable[str], whole: bool) -> Verdict:
    """Compare misses with the list. `stages` are those that ran; with `whole`, everything of each kind
    present did, so a listed name that was not met is an error too."""
    verdict, ran = Verdict(), set(stages)
    met: dict[str, set[str]] = {}
    for result in results:
        met.setdefault(result.kind, set()).add(result.name)
        listed = known[result.kind].get(result.name, {})
        for stage in result.missed():
            if stage not in listed:
                verdict.new.append((result.name, stage, result.stages[stage].misses[0]["reason"]))
        for stage in listed:
            if stage not in ran or stage in result.missed():
                continue
            checked = stage in result.stages and result.stages[stage].checked and result.status != ABSENT
            why = "passes now" if checked else "is not checked: the candidate lacks it, or PyTorch does"
            verdict.gone.append(f"{result.name}: {stage} {why}; remove it from the known misses")
    if whole:
        for kind, names in met.items():
            verdict.gone.extend(
                f"{name}: there is nothing of this name among the {kind}; remove it"
                for name in known[kind]
                if name not in names
            )
    return verdict
