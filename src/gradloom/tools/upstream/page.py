"""The page of the changes from each known release to the next, with what running showed, and of what gradloom lacks."""

from __future__ import annotations

from collections.abc import Iterator

from .comparing import (
    CHANGED,
    DERIVATIVE,
    DOMAIN,
    ENTRY,
    EQUAL,
    GONE,
    LOST,
    NEW,
    SCHEMA,
    UNMEASURED,
    VALUE,
    Change,
    compare,
)
from .facts import Facts
from .moving import Move
from .ours import FORMULAS, Gap, gaps
from .releases import kept, order, versions

_SHOWN = {
    VALUE: "Other values",
    DOMAIN: "Other domains",
    DERIVATIVE: "New derivatives",
    LOST: "Derivatives that are gone",
    UNMEASURED: "Other formulas, which were not run",
    EQUAL: "Only written differently",
}


def page(move: Move) -> str:
    """Return the page; the two releases of `move` are those that were run."""
    releases = [facts for version in versions() if (facts := kept(version)) is not None]
    pairs = list(zip(releases, releases[1:], strict=False))
    changes = {new.version: compare(old, new) for old, new in pairs}
    measured = _measured(move, changes)
    lines = [_INTRODUCTION.format(old=move.old.version, new=move.new.version, first=releases[0].version), ""]
    lines += [*_table(releases, changes), ""]
    for _, new in reversed(pairs):
        lines += _release(new, changes[new.version], measured)
    same = [c for c in move.changes if c.kind == ENTRY and c.words]
    if same:
        lines += [f"## {move.old.version} to {move.new.version}, with the same formulas", ""]
        lines += ["What these call changed, or the rounding of their values.", ""]
        lines += [*(f"- {_code(c.shown)}" for c in same), ""]
    lines += _absent([gap for gap in gaps(move.new.facts) if gap.what == FORMULAS and not gap.ours], move)
    return "\n".join(lines).rstrip() + "\n"


def _measured(move: Move, changes: dict[str, list[Change]]) -> dict[tuple[str, str], Change]:
    """Return what running showed, by (release, entry), of each release that changed the entry's formulas."""
    low, high = order(move.old.version), order(move.new.version)
    seen = {c.name: c for c in move.changes if c.kind == ENTRY and c.change == CHANGED and c.shown and not c.words}
    found = {}
    for name, change in seen.items():
        for version in changes:
            if low < order(version) <= high and any(_is(c, name) for c in changes[version]):
                found[version, name] = change
    return found


def _is(change: Change, name: str) -> bool:
    return change.kind == ENTRY and change.change == CHANGED and change.name == name


def _table(releases: list[Facts], changes: dict[str, list[Change]]) -> Iterator[str]:
    yield "| release | entries | new | gone | changed | schemas | new | gone | changed |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for facts in releases:
        cells = [facts.version]
        for kind, section in ((ENTRY, facts.derivatives), (SCHEMA, facts.schemas)):
            found = [c.change for c in changes.get(facts.version, ()) if c.kind == kind]
            is_known = bool(section) and facts.version in changes and (kind == SCHEMA or _has_former(facts, releases))
            cells.append(f"{len(section):,}" if section else "")
            cells += [str(found.count(change)) if is_known else "" for change in (NEW, GONE, CHANGED)]
        yield f"| {' | '.join(cells)} |"


def _has_former(facts: Facts, releases: list[Facts]) -> bool:
    place = releases.index(facts)
    return place > 0 and bool(releases[place - 1].derivatives)


def _release(new: Facts, changes: list[Change], measured: dict[tuple[str, str], Change]) -> Iterator[str]:
    entries = [c for c in changes if c.kind == ENTRY]
    if not entries:
        return
    yield from (f"## {new.version}", "")
    for change, word in ((NEW, "New"), (GONE, "Gone")):
        names = [f"`{c.name}`" for c in entries if c.change == change]
        if names:
            yield from (f"{word}: {', '.join(names)}.", "")
    groups: dict[str, list[tuple[Change, Change | None]]] = {meaning: [] for meaning in _SHOWN}
    for c in entries:
        if c.change == CHANGED:
            seen = measured.get((new.version, c.name))
            groups[seen.meaning if seen is not None else c.meaning].append((c, seen))
    for meaning, group in groups.items():
        if not group:
            continue
        yield from (f"### {_SHOWN[meaning]} in {new.version}", "")
        for c, seen in group:
            keys = "" if meaning == EQUAL else f" ({', '.join(dict.fromkeys((*c.old, *c.new)))})"
            yield f"- `{c.name}`{keys}" + (f". {_code(seen.shown)}" if seen is not None and seen.shown else "")
        yield ""


def _code(shown: str) -> str:
    """Return what running showed, with the call as code."""
    call, colon, rest = shown.partition("): ")
    return f"`{call})`: {rest}" if colon else f"It is {shown}" if shown.startswith("equal") else f"Not run: {shown}"


def _absent(absent: list[Gap], move: Move) -> Iterator[str]:
    yield from ("## Entries that gradloom does not have", "")
    yield (
        f"Of the {len(move.new.facts.derivatives)} entries of {move.new.version}, {len(absent)} are not in gradloom's "
        "derivatives.yaml. The\nreasons follow from rules: what gradloom's native_functions.yaml says of the name, "
        "which kernels PyTorch has for it,\nand its name."
    )
    yield ""
    yield from ("| why | entries |", "|---|---|")
    for reason in dict.fromkeys(sorted((gap.reason for gap in absent), key=lambda r: (r == "", r))):
        names = " ".join(f"`{gap.name}`" for gap in absent if gap.reason == reason)
        yield f"| {reason or 'not there yet'} | {names} |"


_INTRODUCTION = """\
# How PyTorch's derivatives changed

`gradloom upstream OLD NEW --all --page docs/upstream.md` wrote this page, with environments that have {old} and
{new}: the entries of PyTorch's derivatives.yaml that each release added, removed or changed, and how many schemas of
native_functions.yaml. People who compare training curves, checkpoints or tests across versions find here which
gradients are others.

Some changes were measured: the operator was run with {old} and with {new} on the same inputs, those at boundaries
(zeros, ties, ends of a domain, singular matrices) first. Values, gradients and tangents are compared, and second
derivatives in reverse over reverse and forward over forward mode. A pointwise operator is shown at one element, with a
cotangent or tangent of 1. Of the other releases, the page names the inputs and results whose formulas changed; the
command shows the formulas of both releases beside each other. Wheels before 2.1 have no derivatives.yaml, on any
platform: of {first} and 2.0.0 only schemas are known.

## The command

| command | what it does |
|---|---|
| `gradloom upstream 2.13 2.15` | compares known releases, by the facts in the package, in two seconds |
| `gradloom upstream 2.15 2.16` | downloads a wheel of a release that is not known, with pip, to a temporary folder |
| `gradloom upstream old-env/ new-env/` | runs two environments' releases where a formula changed; `--all` everywhere |
| `gradloom upstream 2.13 installed --against gradloom` | lists what gradloom lacks of the second, with reasons |

A release is a wheel, an environment (or its interpreter, or its folder of packages), `installed`, or a version. `--op`
limits all of it to some operators or names, and `--json` writes it for other programs. The exit status is 0 without
differences, 1 with some, and 2 for a release that cannot be found or read. With `--against gradloom` it is 1 if
gradloom lacks something or has it otherwise, without a reason."""
