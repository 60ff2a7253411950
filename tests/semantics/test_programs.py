"""Small programs as users of PyTorch's autograd write them: each prints the same with both libraries.

The programs are in `programs/*.test`, grouped by subject. A file consists of sections:

    [common]             before the first program: what all programs of the file use
    [program name]       the body of a function of `torch` and `say`
    [prints]             what it prints

`say(*values)` prints a line; `say.fails(f, *args)` calls `f(*args)` and prints its exception (or result) and warnings.
Tensors are printed as dtype and values of four digits, and a library's name as `torch`. What the program itself raises
or warns of is printed last. Lines that start with `-- ` before the first section are comments.

    GRADLOOM_UPDATE_EXPECTED=1 make conformance      # writes what PyTorch prints; read the difference
"""

from __future__ import annotations

import os
import re
import textwrap
import warnings
from functools import cache
from pathlib import Path

import pytest

FILES = Path(__file__).parent / "programs"
_HEADER = re.compile(r"\[(common|program (?P<name>\w+)|prints)\]")


def sections(path: Path) -> list[tuple[str, str | None, int, int]]:
    """Return (kind, name, first line, last line) of each section of a file."""
    lines = path.read_text(encoding="utf-8").split("\n")
    heads = [(number, found) for number, line in enumerate(lines) if (found := _HEADER.fullmatch(line))]
    ends = [number for number, _ in heads[1:]] + [len(lines)]
    return [
        (found[1].split()[0], found["name"], number + 1, end) for (number, found), end in zip(heads, ends, strict=True)
    ]


@cache
def programs(path: Path) -> dict[str, tuple[str, str]]:
    """Return the source of each program of a file, and what it prints."""
    lines = path.read_text(encoding="utf-8").split("\n")
    common, found = "", {}
    source = name_before = ""
    for kind, name, first, end in sections(path):
        text = "\n".join(lines[first:end]).rstrip("\n")
        if kind == "common":
            common = text
        elif kind == "program":
            assert name not in found, f"{path.name}:{first}: a second program {name}"
            source = f"{common}\ndef {name}(torch, say):\n{textwrap.indent(text, '    ')}\n"
        else:
            found[name_before] = (source, text)
        name_before = name
    return found


CASES = [(path, name) for path in sorted(FILES.glob("*.test")) for name in programs(path)]


@pytest.mark.parametrize(("path", "name"), CASES, ids=[f"{path.stem}-{name}" for path, name in CASES])
def test_a_program_prints_what_pytorch_prints(torch, path, name):
    source, expected = programs(path)[name]
    if os.environ.get("GRADLOOM_UPDATE_EXPECTED") and torch.__name__ == "torch":
        update(path, name, printed(torch, path, name, source))
        return
    assert printed(torch, path, name, source) == expected


def printed(torch, path, name, source) -> str:
    """Run a program; return what it prints."""
    space: dict = {"__name__": "program"}
    exec(compile(source, str(path), "exec"), space)
    say = Say(torch)
    torch.manual_seed(0)
    say.attempt(space[name], torch, say)
    return "\n".join(say.lines)


class Say:
    """Collects what a program prints."""

    def __init__(self, torch):
        self.torch, self.lines = torch, []

    def __call__(self, *values):
        text = " ".join(self._text(value) for value in values)
        text = re.sub(r"0x[0-9a-f]+", "0x", text).replace("gradloom", "torch")
        text = text.replace("contextin", "context in").replace("isonly", "is only")  # typing errors of PyTorch
        self.lines += [line.rstrip() for line in text.split("\n")]

    def fails(self, call, *args, **keywords):
        """Call a function; print its exception or result, and its warnings."""
        self.attempt(call, *args, told="no error: ", **keywords)

    def attempt(self, call, *args, told=None, **keywords):
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            try:
                found = call(*args, **keywords)
            except Exception as error:
                self(f"{type(error).__name__}: {error}")
            else:
                if told is not None:
                    self(f"{told}{self._text(found)}")
        for warning in warned:
            if warning.category is not RuntimeWarning and "jit.script" not in str(warning.message):
                self(f"[{warning.category.__name__}] {warning.message}")

    def _text(self, value) -> str:
        if isinstance(value, self.torch.Tensor):
            kind = "" if type(value) is self.torch.Tensor else type(value).__name__
            return f"{kind}{str(value.dtype).split('.')[1]}{_rounded(value.tolist())}"
        if isinstance(value, (list, tuple)):
            return f"{type(value).__name__}({', '.join(map(self._text, value))})"
        if isinstance(value, dict):
            return "{" + ", ".join(f"{key}: {self._text(v)}" for key, v in value.items()) + "}"
        return f"{value:.4g}" if isinstance(value, float) else str(value)


def _rounded(value) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(map(_rounded, value)) + "]"
    return f"{value:.4g}" if isinstance(value, (float, complex)) else str(value)


def update(path: Path, name: str, text: str) -> None:
    """Write what a program prints into its file."""
    lines = path.read_text(encoding="utf-8").split("\n")
    places = sections(path)
    at = next(i for i, (_, found, *_) in enumerate(places) if found == name)
    _, _, first, end = places[at + 1]
    last = end == len(lines)
    path.write_text(
        "\n".join([*lines[:first], *text.split("\n"), "", *([] if last else lines[end:])]), encoding="utf-8"
    )
