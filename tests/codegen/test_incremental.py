"""Generation from kept results: the same files and errors as from nothing, after any row of edits.

GRADLOOM_EDITS=n makes n edits of gradloom's own files, each compared with a run from nothing (seconds each), and 200 of
a small checkout; by default one and 60 are made, and the last state of gradloom's own is compared.
"""

from __future__ import annotations

import os
import pickle
import random
import re
import shutil
from pathlib import Path

import pytest

from gradloom.codegen.derivatives import incremental as loading
from gradloom.codegen.errors import SpecError
from gradloom.codegen.memo import Memo, pack, unpack
from gradloom.codegen.outputs import incremental, render
from gradloom.codegen.target import FILES, Target, own
from gradloom.codegen.writing.folder import write
from tests.codegen.cases import BASE
from tests.codegen.mutations import KINDS, mutate

ROOT = Path(__file__).parents[2]
GOLDEN = Path(__file__).parent / "golden"
EDITS = int(os.environ.get("GRADLOOM_EDITS", "0"))

MORE = """
# == reduction ==

- func: largest(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor
  variants: function, method
  tags: reduction
  kernel: reduction.amax

- func: addcmul_like.named(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor
  kernel: elementwise.addcmul(self, tensor1, tensor2, value=value)

- func: addcmul_like(Tensor self) -> Tensor
  tags: pointwise
  scalar: exp(self) / (1 + exp(self))
"""
MORE_DERIVATIVES = """
- name: addcmul_like(Tensor self) -> Tensor
  self: grad * result * (1 - result)
  result: auto_element_wise

- name: addcmul_like.named(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor
  self: grad
  tensor1, tensor2: "(grad * tensor2, swish(grad) * tensor1)"
"""


@pytest.fixture
def target(tmp_path):
    """A small checkout with a dozen operators."""
    shutil.copytree(BASE, tmp_path / "checkout")
    folder = tmp_path / "checkout"
    native = (GOLDEN / FILES[0]).read_text("utf-8").replace("complex.conj", "elementwise.square")
    (folder / FILES[0]).write_text(native + MORE, "utf-8")
    (folder / FILES[1]).write_text((GOLDEN / FILES[1]).read_text("utf-8") + MORE_DERIVATIVES, "utf-8")
    return Target("gradloom", folder / "src" / "gradloom", folder, folder / "generated")


@pytest.fixture
def unchanging(monkeypatch, target):
    """Let the environment be read once, and count the runs that were left to a run from nothing."""
    known = loading.environment(own())
    monkeypatch.setattr(incremental, "environment", lambda _: known)
    given_up = []
    from_nothing = render.generated_files
    monkeypatch.setattr(render, "generated_files", lambda *args: given_up.append(args) or from_nothing(*args))
    return given_up


@pytest.fixture(autouse=True)
def loaded_after_every_change(monkeypatch):
    """Let the generator count as loaded, however new its files are."""
    monkeypatch.setattr(loading, "BEGAN", 2**63)


def outcome(generate, *arguments):
    try:
        return generate(*arguments)
    except SpecError as error:
        return str(error)


def entries(text):
    return re.split(r"(?m)^(?=- )", text)


def swap(texts, rng):
    """Exchange two entries of a file."""
    name = rng.choice(FILES)
    head, *parts = entries(texts[name])
    i, j = rng.randrange(len(parts)), rng.randrange(len(parts))
    parts[i], parts[j] = parts[j], parts[i]
    return texts | {name: head + "".join(parts)}


def comment(texts, rng):
    """Move entries to other lines."""
    name = rng.choice(FILES)
    head, *parts = entries(texts[name])
    i = rng.randrange(len(parts))
    parts[i] = rng.choice(["# a note\n", "\n", "# == reduction ==\n", "# == elementwise ==\n\n"]) + parts[i]
    return texts | {name: head + "".join(parts)}


def reformulate(texts, rng):
    """Change a formula or a definition so that it stays valid."""
    name = rng.choice(FILES)
    changes = [
        (r"grad \* (\w+)\b", r"\1 * grad"),
        (r"\bgrad\b(?=$)", "grad * 1"),
        (r"exp\((-?[\w *]+)\)", r"(1 * exp(\1))"),
        (r"scalar: (.*)", r"scalar: \1 + 0"),
        (r"kernel: self", "kernel: 1 * self"),
        (r"auto_element_wise", "auto_linear"),
        (r"autogen: (\w+_)$", r"autogen: \1, \1out"),
        (r"tags: pointwise", "tags: core, pointwise"),
        (r"variants: function$", "variants: function, method"),
    ]
    pattern, new = rng.choice(changes)
    found = [*re.finditer(pattern, texts[name], re.MULTILINE)]
    if not found:
        return texts
    match = rng.choice(found)
    return texts | {name: texts[name][: match.start()] + match.expand(new) + texts[name][match.end() :]}


def damage(texts, rng):
    """Change anything, which mostly makes an error."""
    kind = rng.choice(KINDS), *(rng.randrange(10**6) for _ in range(3))
    return mutate(texts, rng.choice(FILES), kind)


def test_edits_in_a_row_give_what_a_run_from_nothing_gives(target, unchanging):
    rng = random.Random(7)
    first = texts = {name: target.path(name).read_text("utf-8") for name in FILES}
    memo, valid = Memo(), 0
    from_nothing = render.generated_files
    for number in range(200 if EDITS else 60):
        edit = rng.choice([swap, comment, reformulate, reformulate, damage])
        new = edit(texts, rng)
        for name, text in new.items():
            target.path(name).write_bytes(text.encode("utf-8", "surrogateescape"))
        expected = outcome(from_nothing, target)
        unchanging.clear()
        found = outcome(incremental.generated_files, target, memo)
        assert found == expected, f"edit {number}, {edit.__name__}"
        if isinstance(found, dict):
            assert not unchanging or edit is damage, f"edit {number}, {edit.__name__}, needed a run from nothing"
            valid += 1
            texts = new if number % 50 else first
            if number % 3 == 0:
                write(target.output, found)
        if number % 5 == 0:
            memo = Memo(unpack(pack(memo.results())))  # as another process would go on
    assert valid > number // 2


def test_an_edit_renders_one_operator_anew(target, unchanging, monkeypatch):
    memo = Memo()
    write(target.output, incremental.generated_files(target, memo))
    path = target.path(FILES[1])
    path.write_text(path.read_text("utf-8").replace("self: grad * result.conj()", "self: result.conj() * grad"))
    filled = []
    fill = render.fill
    monkeypatch.setattr(render, "fill", lambda *names, **facts: filled.append((*names, facts)) or fill(*names, **facts))
    incremental.generated_files(target, Memo(memo.results()))
    wrappers = [facts["w"].name for _, macro, facts in filled if macro == "wrapper"]
    assert wrappers == ["exp", "exp_"]
    assert [facts["node"].name for _, macro, facts in filled if macro == "node_class"] == ["ExpBackward0"]
    assert unchanging == []


def test_a_file_that_was_changed_by_hand_is_rendered_again(target, unchanging):
    memo = Memo()
    files = incremental.generated_files(target, memo)
    write(target.output, files)
    (target.output / "functions" / "elementwise.py").write_text("changed\n")
    assert incremental.generated_files(target, Memo(memo.results())) == files


def test_assertions_for_debugging_are_kept_apart(target, unchanging):
    memo = Memo()
    plain = incremental.generated_files(target, memo)
    assert incremental.generated_files(target, memo, True) == render.generated_files(target, True)
    assert incremental.generated_files(target, memo) == plain


def test_a_specification_has_the_lines_of_the_current_files(target, unchanging):
    memo = Memo()
    loading.load(target, memo)
    path = target.path(FILES[1])
    path.write_text("# one\n# two\n" + path.read_text("utf-8"))
    found, expected = loading.load(target, memo), render_specification(target)
    places = [[info.place.position(0) for info in s.derivatives.infos] for s in (found, expected)]
    assert places[0] == places[1]
    assert [f.text.position(0) for f in found.functions] == [f.text.position(0) for f in expected.functions]
    assert [str(f.schema) for f in found.derivatives] == [str(f.schema) for f in expected.derivatives]


def render_specification(target):
    return loading.specification.load(target)


def test_a_generator_newer_than_the_process_is_not_kept(target, monkeypatch):
    monkeypatch.setattr(loading, "BEGAN", 0)
    memo = Memo()
    assert incremental.generated_files(target, memo) == render.generated_files(target)
    assert memo.results() == {}


def test_gradlooms_own_files_after_edits_in_a_row(tmp_path, unchanging):
    """Formulas and definitions, edited here and there, then one run from nothing."""
    for name in FILES:
        shutil.copy(ROOT / name, tmp_path / name)
    here = own(ROOT)
    target = Target("gradloom", here.source, tmp_path, here.output)
    rng, memo = random.Random(3), Memo()
    from_nothing = render.generated_files
    outcome(incremental.generated_files, target, memo)
    for number in range(EDITS or 1):
        texts = {name: target.path(name).read_text("utf-8") for name in FILES}
        for name, text in reformulate(texts, rng).items():
            target.path(name).write_text(text, "utf-8")
        found = outcome(incremental.generated_files, target, memo)
        assert found == outcome(from_nothing, target), f"edit {number}"
        if isinstance(found, str):
            for name, text in texts.items():
                target.path(name).write_text(text, "utf-8")


class Call:
    def __reduce__(self):
        return os.getcwd, ()


@pytest.mark.parametrize("value", [Call(), pickle.Unpickler, os.getcwd, random.Random, Path.unlink])
def test_nothing_but_data_is_read(value):
    memo = Memo({b"k" * 20: pickle.dumps(value)})
    assert memo.value(b"k" * 20, lambda: "made anew") == "made anew"
    assert Memo(memo.results()).value(b"k" * 20, lambda: "made again") == "made anew"


def test_results_are_bounded(monkeypatch):
    monkeypatch.setattr("gradloom.codegen.memo.LARGEST", 1000)
    memo = Memo({bytes([n]) * 20: b"x" * 100 for n in range(20)})
    memo.data(bytes([3]) * 20, lambda: b"")
    memo.data(b"n" * 20, lambda: b"new")
    assert memo.results() == {bytes([3]) * 20: b"x" * 100, b"n" * 20: b"new"}


def test_cut_off_results_are_refused():
    data = pack({b"a" * 20: b"one", b"b" * 20: b"two"})
    assert unpack(data) == {b"a" * 20: b"one", b"b" * 20: b"two"}
    with pytest.raises(ValueError, match="cut off"):
        unpack(data[:-1])
