"""Read the files of cases in errors/: what is wrong in a checkout, and the message that must follow.

A file is a list of sections. A header in square brackets starts each:

    [native_functions.yaml]             before the first case: what every case of this file starts from
    ...
    [case kernel_unknown_name]
    [native_functions.yaml, added]      appended to what the case starts from; without `added`, in its place
    - func: f(Tensor self) -> Tensor
      kernel: slef
    [file src/gradloom/kernels/x.py]    any other file of the checkout
    [expected]
    native_functions.yaml:6:11: error: unknown name `slef`
    ...

What neither the case nor its file gives is taken from errors/base, a small checkout without a fault. Lines that start
with `-- ` are comments, and blank lines at the end of a section do not count. In a section that is `escaped`, `\\x1b`
is a byte, `\\\\` a backslash, `\\{text*300}` three hundred times the text, and a backslash at the end of a line joins
the line with the next.
"""

import re
import shutil
from dataclasses import dataclass, field
from pathlib import Path

ERRORS = Path(__file__).parent / "errors"
BASE = ERRORS / "base"

_HEADER = re.compile(
    r"\[(case (?P<case>.*)|(?P<name>native_functions\.yaml|derivatives\.yaml|expected|file \S+?)(?P<flags>(, ?\w+)*))\]"
)
_ESCAPE = re.compile(rb"\\(?:x(?P<byte>[0-9a-f]{2})|(?P<plain>\\)|\{(?P<text>[^}]+?)\*(?P<count>\d+)\}|(?P<end>\n))|\\")


class CaseError(Exception):
    """A fault of a file of cases: file:line and what is wrong."""


@dataclass
class Section:
    name: str
    flags: frozenset[str]
    first: int  # the line of the header, from 0
    last: int = 0  # the line after the last that counts
    text: bytes = b""


@dataclass
class Case:
    name: str
    path: Path
    line: int  # of its header, from 0
    common: dict[str, Section] = field(default_factory=dict)
    sections: dict[str, Section] = field(default_factory=dict)

    @property
    def expected(self) -> str:
        return self.sections["expected"].text.decode("utf-8")

    def write(self, folder: Path) -> None:
        """Make `folder` the checkout of the case."""
        shutil.copytree(BASE, folder, dirs_exist_ok=True)
        for section in (*self.common.values(), *self.sections.values()):
            if section.name == "expected":
                continue
            path = folder / section.name
            path.parent.mkdir(parents=True, exist_ok=True)
            before = path.read_bytes() if "added" in section.flags else b""
            path.write_bytes(before + section.text)


def load_all() -> list[Case]:
    """Return the cases of all files; a name stands for one case only."""
    cases: dict[str, Case] = {}
    for path in sorted(ERRORS.glob("*.test")):
        for case in load(path):
            if case.name in cases:
                _fail(path, case.line, f"case `{case.name}` is in {cases[case.name].path.name}, too")
            cases[case.name] = case
    return list(cases.values())


def load(path: Path) -> list[Case]:
    """Return the cases of one file, in order."""
    cases: list[Case] = []
    common: dict[str, Section] = {}
    section: Section | None = None
    lines = path.read_text(encoding="utf-8").split("\n")
    for number, line in enumerate([*lines, "[case end]"]):
        header = _HEADER.fullmatch(line) if line.startswith("[") else None
        if header is None:
            if line.startswith("["):
                _fail(path, number, f"`{line}` is no header; as text of a section, write it as `\\x5b` and `escaped`")
            if section is None and line.strip() and not line.startswith("-- "):
                _fail(path, number, "text that belongs to no section")
            continue
        if section is not None:
            _close(path, section, lines, number)
            section = None
        if header["case"] is None:
            section = _open(path, number, header, cases[-1].sections if cases else common)
            continue
        if cases:
            _check_complete(cases[-1])
        if number == len(lines):
            break
        if not re.fullmatch(r"[a-z]\w*", header["case"]) or header["case"] in {case.name for case in cases}:
            _fail(path, number, f"the name of a case must be a new word in lower case, not `{header['case']}`")
        cases.append(Case(header["case"], path, number, common))
    return cases


def _open(path, number, header, sections) -> Section:
    name = header["name"].removeprefix("file ")
    flags = frozenset(re.findall(r"\w+", header["flags"]))
    if unknown := flags - ({"escaped"} if name == "expected" else {"added", "escaped"}):
        _fail(path, number, f"`{name}` cannot be {' or '.join(sorted(unknown))}")
    if name in sections:
        _fail(path, number, f"a second section `{name}`")
    sections[name] = Section(name, flags, number)
    return sections[name]


def _close(path, section, lines, end) -> None:
    kept = [(n, line) for n, line in enumerate(lines[:end]) if n > section.first and not line.startswith("-- ")]
    while kept and not kept[-1][1]:
        kept.pop()
    section.last = kept[-1][0] + 1 if kept else section.first + 1
    section.text = "".join(f"{line}\n" for _, line in kept).encode("utf-8")
    if "escaped" in section.flags:
        section.text = _ESCAPE.sub(lambda m: _unescaped(m, path, section.first), section.text)


def _unescaped(match, path, number) -> bytes:
    if match["byte"]:
        return bytes.fromhex(match["byte"].decode())
    if match["text"]:
        return match["text"] * int(match["count"])
    if match["plain"]:
        return b"\\"
    if match["end"]:
        return b""
    _fail(
        path, number, "a backslash that starts no escape; the escapes are \\x1b, \\\\, \\{text*3} and the end of a line"
    )


def _check_complete(case) -> None:
    if "expected" not in case.sections:
        _fail(case.path, case.line, f"case `{case.name}` has no [expected]")
    if not case.sections.keys() - {"expected"}:
        _fail(case.path, case.line, f"case `{case.name}` changes no file")


def _fail(path, number, message):
    raise CaseError(f"{path.name}:{number + 1}: {message}")


def update(name: str, path: Path, message: str) -> None:
    """Write a message into the file of its case."""
    section = next(case for case in load(path) if case.name == name).sections["expected"]
    lines = path.read_text(encoding="utf-8").split("\n")
    odd = any(
        not line.isprintable() or line != line.rstrip() or line.startswith(("[", "-- ")) for line in message.split("\n")
    )
    if odd:
        message = re.sub(r"(?m)[^ -~\n]|\\| $|^[\[-]", lambda m: _escaped(m[0]), message)
    header = "[expected, escaped]" if odd else "[expected]"
    lines[section.first : section.last] = [header, *message.removesuffix("\n").split("\n")]
    path.write_text("\n".join(lines), encoding="utf-8")


def _escaped(text: str) -> str:
    return "\\\\" if text == "\\" else "".join(f"\\x{byte:02x}" for byte in text.encode("utf-8"))


def check_form(message: str, folder: Path) -> None:
    """Check the form of one error: a place in a file, the line there, and a caret below the word."""
    lines = message.splitlines()
    place = re.fullmatch(r"([\w/]+\.(?:yaml|py)):(\d+):(\d+): error: (.+)", lines[0])
    assert place, lines[0]
    path, line, col = place[1], int(place[2]), int(place[3])
    text = (folder / path).read_bytes().decode("utf-8", "replace")
    data = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    source = data[line - 1]
    assert 1 <= col <= len(source) + 1
    assert lines[-1].startswith("hint: ")
    if not source.strip() or not source.isprintable() or len(source) > 150:
        return
    assert lines[1] == source
    assert re.fullmatch(r" *\^~*", lines[2])
    assert lines[2].index("^") == col - 1
    marked = source[col - 1 : len(lines[2])]
    behind = source[col - 1 :].strip()  # the value ends here, and a comment or nothing follows
    assert marked.strip() or behind == "" or behind.startswith("#"), "the caret is below nothing"
