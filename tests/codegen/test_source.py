"""Reading YAML with positions: every character of every value leads back to its place in the file."""

import pytest

from gradloom.codegen.errors import SpecError, SpecErrors, raise_all
from gradloom.codegen.reading import yaml_files as source_module
from gradloom.codegen.reading.yaml_files import Text, TextList, TextMap, load_entries, parse_entries


def value_of(yaml_text, key="k"):
    (entry,) = parse_entries(yaml_text, "f.yaml")
    return entry.fields[key]


STYLES = {
    "plain": "- k: alpha + beta\n",
    "plain on two lines": "- k: alpha +\n    beta\n  l: x\n",
    "plain with a blank line": "- k: alpha\n\n    beta\n",
    "plain below its key": "- k:\n    alpha\n    + beta\n",
    "single quotes": "- k: 'it''s alpha ''+'' beta'\n",
    "single quotes on two lines": "- k: 'alpha\n\n     + beta'\n",
    "double quotes": '- k: "alpha \\"+\\" \\x62eta\\u00e9 \\U0001d6fc"\n',
    "double quotes on two lines": '- k: "alpha \\\n     + beta\\n x"\n',
    "literal": "- k: |\n    alpha\n      + beta\n\n    gamma\n",
    "literal, kept": "- k: |+2\n     alpha\n    beta\n\n",
    "folded": "- k: >-\n    alpha\n    + beta\n\n      gamma\n  l: x\n",
    "after a comment": "# first\n- k: alpha # second\n",
    "in a flow mapping": "- {k: alpha, l: beta}\n",
    "beyond ASCII": "- l: '\N{MATHEMATICAL BOLD SMALL A}é'\n  k: é + alpha\n",
}


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("loader", ["CSafeLoader", "SafeLoader"])
def test_every_character_has_its_place(style, loader, monkeypatch):
    monkeypatch.setattr(source_module, "_Loader", getattr(source_module.yaml, loader))
    text = value_of(STYLES[style])
    lines = STYLES[style].split("\n")
    escaped = {"β": "\\", "é": "\\"} if '"' in style else {}
    for offset, char in enumerate(text.value):
        if char.isspace():
            continue
        line, col = text.position(offset)
        found = lines[line - 1][col - 1]
        assert found == char or found in ("\\", *escaped.values())
    assert text.index(len(text.value)) <= len(STYLES[style])


def test_offset_behind_the_value_is_its_end():
    text = value_of("- k: alpha +\n    beta\n")
    assert text.position(len(text.value)) == (2, 9)


def test_words_keep_their_places():
    words = value_of("- k: function,\n     method ,, x\n").words()
    assert [w.value for w in words] == ["function", "method", "", "x"]
    assert [w.position(0) for w in words] == [(1, 6), (2, 6), (2, 14), (2, 16)]


def test_nodes():
    (entry,) = parse_entries("- k: [a, {b: c}]\n  l: {m: 1}\n  n:\n", "f.yaml")
    assert isinstance(entry, TextMap)
    items = entry.fields["k"]
    assert isinstance(items, TextList)
    assert [type(i) for i in items.items] == [Text, TextMap]
    assert entry.fields["l"].fields["m"].value == "1"
    assert entry.fields["n"].value == ""
    assert list(entry.keys) == ["k", "l", "n"]
    assert entry.keys["l"].position(0) == (2, 3)


def test_line_ends_and_byte_order_mark(tmp_path):
    path = tmp_path / "f.yaml"
    path.write_bytes(b"\xef\xbb\xbf- k: a\r\n  l: b\r- k: c\n")
    first, second = load_entries(path)
    assert first.fields["l"].position(0) == (2, 6)
    assert second.fields["k"].position(0) == (3, 6)


def fails(text):
    with pytest.raises(SpecError) as caught:
        parse_entries(text, "f.yaml")
    return caught.value


@pytest.mark.parametrize("loader", ["CSafeLoader", "SafeLoader"])
@pytest.mark.parametrize(
    ("text", "line", "col"),
    [
        ('- k: "a\n  l: b\n' + "- k: b\n" * 500, 1, 6),
        ('- k: a\n- k: "b\n  l: c\n- k: "d"\n', 2, 6),
        ("- k: a\n  k: b\n", 2, 3),
        ("- k: a\n   l: b\n", 2, 4),
        ("- k: [a,\n  l: b\n- k: c\n", 1, 6),
        ("[" * 100_000, 1, 9),
        ("{a: " * 100_000, 1, 33),
        ("- " * 100_000 + "a", 1, 17),
        ("- k: a\n\t- b\n", 2, 1),
        ("- k: &a b\n- k: *a\n", 1, 6),
        ("- k: a\n---\n- k: b\n", 2, 1),
    ],
    ids=str,
)
def test_errors_are_where_the_user_went_wrong(text, line, col, loader, monkeypatch):
    monkeypatch.setattr(source_module, "_Loader", getattr(source_module.yaml, loader))
    error = fails(text)
    assert (error.line, error.col) == (line, col)


def test_a_quoted_value_may_span_lines():
    assert value_of('- k: "a\n    b: c"\n  l: d\n'.replace("b: c", "b[:, c]")).value == "a b[:, c]"


@pytest.mark.parametrize("make", ["missing", "folder", "huge", "pipe"])
def test_files_that_cannot_be_read(make, tmp_path, monkeypatch):
    path = tmp_path / "f.yaml"
    if make == "folder":
        path.mkdir()
    elif make == "huge":
        monkeypatch.setattr(source_module, "MAX_BYTES", 100)
        path.write_text("- k: a\n" * 100)
    elif make == "pipe":
        path = "/dev/null"
    with pytest.raises(SpecError) as caught:
        load_entries(path, "shown.yaml")
    assert str(caught.value).startswith("shown.yaml:1:1: error: ")
    assert "hint: " in str(caught.value)


def test_the_excerpt_of_a_long_line_is_cut():
    error = SpecError("f.yaml", 1, 1001, "x" * 1000 + "word" + "y" * 1000, "wrong", length=4)
    _, excerpt, carets = str(error).splitlines()
    assert len(excerpt) < 200
    start = carets.index("^")
    assert excerpt[start : len(carets)] == "word"


def test_several_errors_come_in_the_order_of_the_file():
    first, second = (SpecError("f.yaml", line, 1, "x", f"error {line}") for line in (1, 2))
    with pytest.raises(SpecErrors) as caught:
        raise_all([second, first])
    assert str(caught.value).startswith("f.yaml:1:1: error: error 1")
    assert caught.value.errors == (first, second)
    with pytest.raises(SpecError) as one:
        raise_all([second])
    assert one.value is second
    raise_all([])
