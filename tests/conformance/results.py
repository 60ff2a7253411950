"""What a run found: plain data that travels between processes and into JSON."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from .compare import strides_note

#: The kinds of checks, in the order of the table's columns.
STAGES = ("forward", "backward", "double_backward", "forward_mode", "inplace", "out", "errors", "variants")
MODULE_STAGES = ("init", "forward", "backward", "double_backward", "state", "errors")
OPTIMIZER_STAGES = ("step", "state", "errors")

PRESENT, ABSENT = "present", "absent"
#: More notes than this of one operator say nothing new.
_NOTES = 12


@dataclass
class StageResult:
    checked: int = 0
    misses: list[dict[str, str]] = field(default_factory=list)  # {"where": ..., "reason": ...}
    skipped: dict[str, int] = field(default_factory=dict)  # reason -> number of checks that were not made

    @property
    def passed(self) -> bool:
        return self.checked > 0 and not self.misses


@dataclass
class OpResult:
    """One operator, module or optimizer: what was checked, what missed, and what was only noted."""

    name: str
    family: str = ""
    kind: str = "operators"
    status: str = PRESENT
    absent: str = ""  # the name that the candidate lacks
    stages: dict[str, StageResult] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    strides: dict[str, int] = field(default_factory=lambda: {"same": 0, "different": 0})
    seconds: float = 0.0

    def count(self, stage: str, where: str, reason: str | None, absent: str = "") -> None:
        """One check is done; `reason` says why it missed, `absent` which name the candidate lacks."""
        entry = self.stages.setdefault(stage, StageResult())
        entry.checked += 1
        if reason is not None:
            entry.misses.append(
                {"where": where, "reason": " ".join(reason.split()), **({"absent": absent} if absent else {})}
            )

    def skip(self, stage: str, where: str, reason: str, noted: bool = True) -> None:
        """One check was not made."""
        reason = " ".join(reason.split())
        entry = self.stages.setdefault(stage, StageResult()).skipped
        entry[reason] = entry.get(reason, 0) + 1
        if noted:
            self.note(f"{where}: {stage} not checked: {reason}")

    def settle_absence(self) -> None:
        """What could not run once for want of another name is absent itself."""
        main = self.stages.get("forward") or self.stages.get("step")
        if main and main.checked and len(main.misses) == main.checked and all("absent" in miss for miss in main.misses):
            self.status, self.absent, self.stages = ABSENT, main.misses[0]["absent"], {}

    def note(self, text: str) -> None:
        """Something worth knowing that decides nothing."""
        text = " ".join(text.split())
        if len(self.notes) < _NOTES and text not in self.notes:
            self.notes.append(text)

    def compare_strides(self, case: Any, expected: Any, actual: Any) -> None:
        sides = case.tensors(expected, case.reference), case.tensors(actual, case.candidate)
        for wanted, found in zip(*sides, strict=False):
            remark = strides_note(wanted, found)
            self.strides["different" if remark else "same"] += 1
            if remark:
                self.note(f"{case.where}: {remark}")

    def missed(self) -> list[str]:
        return [stage for stage, entry in self.stages.items() if entry.misses]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> OpResult:
        stages = {name: StageResult(**entry) for name, entry in data["stages"].items()}
        return cls(**{**data, "stages": stages})
