"""Every code block of README.md and docs/ is run, or says why not. pages.py has the rules."""

from __future__ import annotations

import pytest

from tests.docs.pages import PAGES, README, ROOT, Block, blocks
from tests.docs.worked import checkout, matches, run

RUN = ("python", "console", "sh")
IDS = [str(page.relative_to(ROOT)) for page in PAGES]
WITH_BLOCKS = [page for page in PAGES if any(b.language in RUN or b.note for b in blocks(page))]


@pytest.mark.slow
@pytest.mark.parametrize("page", WITH_BLOCKS, ids=lambda page: page.stem)
def test_the_blocks_of_a_page_do_what_it_says(page, tmp_path):
    problems = run(page, checkout(tmp_path))
    assert not problems, "\n\n".join(problems)


def is_accounted_for(block: Block) -> bool:
    if block.note == "checked by":
        return (ROOT / block.told).is_file()
    if block.note:
        return bool(block.told) or block.note == "raises"
    return block.language in (*RUN, "text", "yaml")


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_every_block_is_run_or_says_why_not(page):
    for block in blocks(page):
        assert is_accounted_for(block), f"{block.place}: a ```{block.language} block that nothing runs; see pages.py"


def test_the_readme_has_examples():
    assert sum(b.language == "python" and b.shown is not None for b in blocks(README)) >= 3


# --- the tester is tested ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "page, problem",
    [
        ("```python\nprint(1)\n```\n\n```text\n2\n```\n", "it prints\n1\n"),
        ("```python\nprint(1)\n```\n", "it prints\n1\n"),
        ("```python\nx = 1\n```\n\n```python\ny = x / 0\n```\n", "ZeroDivisionError"),
        ("<!-- docs: raises -->\n```python\nx = 1\n```\n", "should raise"),
        ("<!-- docs: raises -->\n```python\n1 / 0\n```\n\n```text\nValueError: no\n```\n", "division by zero"),
        ("```console\n$ echo one\ntwo\n```\n", "prints\none\n"),
        ("```sh\nfalse\n```\n", "exit status 1"),
        ("```python\nimport sys; sys.stdout.flush(); import os; os._exit(3)\n```\n", "the interpreter ended"),
    ],
)
def test_a_page_that_is_wrong_is_found_out(tmp_path, monkeypatch, page, problem):
    monkeypatch.setattr("tests.docs.pages.ROOT", tmp_path)
    path = tmp_path / "page.md"
    path.write_text(page)
    problems = run(path, tmp_path)
    assert len(problems) == 1 and problem in problems[0]


RIGHT = """
```python
x = 1
```

<!-- docs: file a/b.txt -->
```text
hello
```

<!-- docs: append to a/b.txt -->
```text
you
```

```console
$ cat a/b.txt
hello

you
$ echo 1.25 s
... s
```

<!-- docs: raises -->
```python
raise ValueError("no")
```

```text
ValueError: no
```

```python
from pathlib import Path
print(Path("a/b.txt").read_text()[:5])
```

```text
hello
```
"""


def test_a_page_that_is_right_passes(tmp_path, monkeypatch):
    monkeypatch.setattr("tests.docs.pages.ROOT", tmp_path)
    path = tmp_path / "page.md"
    path.write_text(RIGHT)
    assert run(path, tmp_path) == []


def test_an_ellipsis_stands_for_anything():
    assert matches("took 1.2 s\n", "took ... s\n") and not matches("took 1.2 s\nmore\n", "took ... s\n")
