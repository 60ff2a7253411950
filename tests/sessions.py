"""Sessions: Python prompts and what PyTorch answered, replayed with gradloom in its place.

A file `sessions/<subject>.txt` is a list of sections: a title underlined with dashes, then prompts with their
output as in an interactive session, warnings included. Each section is a test of its own, before which a
first section called "Setup" runs; in its namespace `torch`, `nn`, `F` and `optim` are the library under test.
The files are recorded from PyTorch (tests/conformance/test_examples.py fails when they are not what it says);
write new prompts without output and record with

    python -m tests.sessions tests/nn/sessions/hooks.txt
"""

from __future__ import annotations

import contextlib
import doctest
import importlib
import io
import re
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

_TITLE = re.compile(r"^(?P<title>\S.*)\n(?P<rule>-{3,})\n", re.MULTILINE)
# An operator that gradloom does not have yet is not a wrong answer.
_MISSING = re.compile(r"(\w+Warning\n)*MissingOperator: \w+ has no operator '(?P<operator>\w+)'")


@dataclass(frozen=True)
class Section:
    """One test: its title and its text, prompts and answers."""

    title: str
    text: str
    setup: str = ""


class Difference(NamedTuple):
    """A prompt whose answer is not the recorded one."""

    source: str
    recorded: str
    found: str

    def __str__(self) -> str:
        return f"{self.source.strip()}\n  recorded: {self.recorded.strip()}\n  found:    {self.found.strip()}"


def sections(path: Path) -> list[Section]:
    """The sections of a file, in order."""
    text = path.read_text()
    found = list(_TITLE.finditer(text))
    ends = [match.start() for match in found[1:]] + [len(text)]
    every = [(match["title"], text[match.end() : end]) for match, end in zip(found, ends, strict=True)]
    setup = every.pop(0)[1] if every and every[0][0] == "Setup" else ""
    return [Section(title, body, setup) for title, body in every]


class Replay(NamedTuple):
    """What came of a section: the prompts answered differently, and the operators that there were not."""

    differences: list[Difference]
    missing: set[str]


def replay(section: Section, library: str) -> Replay:
    """Run a section's prompts with the library of that name."""
    found = Replay([], set())
    for example, answer in _answers(section, library):
        if answer == example.want:
            continue
        if missing := _MISSING.match(answer):
            found.missing.add(missing["operator"])
        else:
            found.differences.append(Difference(example.source, example.want, answer))
    return found


def _answers(section: Section, library: str) -> Iterator[tuple[doctest.Example, str]]:
    root = importlib.import_module(library)
    part = {name: importlib.import_module(f"{library}.{name}") for name in ("nn", "optim", "nn.functional")}
    namespace = {"torch": root, "nn": part["nn"], "F": part["nn.functional"], "optim": part["optim"]}
    namespace["__name__"] = "session"
    parse = doctest.DocTestParser().get_examples
    for example in parse(section.setup):
        exec(compile(example.source, "<setup>", "single"), namespace)
    for example in parse(section.text):
        printed = io.StringIO()
        with warnings.catch_warnings(record=True) as warned, contextlib.redirect_stdout(printed):
            warnings.simplefilter("always")
            # As `import gradloom` sets it: arithmetic on NaN and zeros is silent, as in PyTorch.
            warnings.filterwarnings("ignore", category=RuntimeWarning, module=r"gradloom(\.|$)")
            try:
                exec(compile(example.source, "<session>", "single"), namespace)
            except Exception as error:
                print(f"{type(error).__name__}: {error}")
        answer = printed.getvalue().replace(library, "torch")
        # What a warning says is for people; that there is one, and of what kind, is behaviour.
        answer = "".join(f"{one.category.__name__}\n" for one in warned) + answer
        # As doctest reads the recorded ones: without tabs, and with a word for an empty line.
        answer = re.sub(" +$", "", answer.expandtabs(), flags=re.MULTILINE)
        yield example, answer.replace("\n\n", "\n<BLANKLINE>\n")


def record(path: Path, library: str = "torch") -> str:
    """The file's text with every answer replaced by what the library says."""
    every = sections(path)
    text = [f"Setup\n-----\n{every[0].setup}"] if every[0].setup else []
    for section in every:
        text.append(f"{section.title}\n{'-' * len(section.title)}\n")
        for example, answer in _answers(section, library):
            first, *rest = example.source.rstrip("\n").split("\n")
            text.append("\n".join([f">>> {first}", *(f"... {line}" for line in rest)]) + f"\n{answer}")
        text.append("\n")
    return "".join(text).rstrip("\n") + "\n"


if __name__ == "__main__":
    for name in sys.argv[1:]:
        Path(name).write_text(record(Path(name)))
