"""Whatever becomes of the YAML files, `gradloom generate` writes sound code or says at which place they are wrong.

Every case is a small checkout with a few mutations. It must end within a time limit, without a traceback; either all
generated files are there, compile and name nothing that does not exist, or nothing was written and every message has
a place and a hint. 25 cases here; `make fuzz` runs 10,000, GRADLOOM_FUZZ=n as many as you like. Besides, every key
gets values of a list of junk, each of which goes to one key in three, and to all with GRADLOOM_FUZZ.
"""

import os
import shutil
import signal
import threading
from contextlib import contextmanager

import pytest
from hypothesis import HealthCheck, Phase, example, given, settings, strategies as st

from gradloom.codegen.operators.keys import KEYS
from gradloom.tools import cli
from tests.codegen.cases import BASE, check_form
from tests.codegen.fuzz_checkout import FILES, Checkout
from tests.codegen.generated_code import problems
from tests.codegen.mutations import KINDS, mutate

CASES = int(os.environ.get("GRADLOOM_FUZZ", "25"))
SECONDS = 20  # of the processor for one case, which takes a tenth of one

NUMBERS = st.integers(0, 9999)
MUTATIONS = st.lists(st.tuples(st.sampled_from(KINDS), NUMBERS, NUMBERS, NUMBERS), min_size=1, max_size=4)


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    return Checkout(tmp_path_factory.mktemp("fuzz"))


def test_the_checkout_is_sound_and_has_most_of_the_operators(checkout, capsys):
    assert len(checkout.names) > 50
    assert len([name for name in checkout.names if checkout.derivatives[name]]) > 40
    write(checkout, checkout.texts(checkout.names))
    assert checkout.run("generate") == 0, capsys.readouterr().err
    assert problems(generated(checkout.folder)) == []


@settings(
    max_examples=CASES, deadline=None, database=None, derandomize="GRADLOOM_FUZZ" not in os.environ,
    suppress_health_check=list(HealthCheck), phases=(Phase.explicit, Phase.generate, Phase.shrink),
)  # fmt: skip
@given(st.lists(NUMBERS, max_size=5), st.sampled_from(FILES), MUTATIONS)
@example([], FILES[0], [])
def test_damaged_yaml(checkout, capsys, chosen, which, mutations):
    names = dict.fromkeys(checkout.sometimes[number % len(checkout.sometimes)] for number in chosen)
    texts = checkout.texts([*checkout.always, *names])
    for mutation in mutations:
        texts = mutate(texts, which, mutation)
    write(checkout, texts)
    before = checkout.contents()
    capsys.readouterr()

    with time_limit():
        code = checkout.run("generate")

    out, message = capsys.readouterr()
    if code == 1:
        assert out == ""
        assert checkout.contents() == before
        check_messages(message, checkout.folder)
    else:
        assert code == 0, message
        assert problems(generated(checkout.folder)) == []
        after = checkout.contents()
        assert {p for p in after if "generated" not in p.parts} == {p for p in before if "generated" not in p.parts}
        if chosen and chosen[0] % 8 == 0:
            assert checkout.run("check") == 0
        shutil.rmtree(checkout.folder / "generated")


KEYS_OF_DERIVATIVES = [*"name self result output_differentiability node override dispatch".split(), "self, other"]
JUNK = r"""x ¦ 0 ¦ -1 ¦ 1e999 ¦ true ¦ ~ ¦ [] ¦ {} ¦ {a: b} ¦ {self: [1]} ¦ [null] ¦ [[a]] ¦ - ¦ , ¦ a, ¦ (a ¦ a) ¦ a(b
 ¦ .a ¦ a. ¦ a.b.c ¦ a,b ¦ '' ¦ class ¦ __init__ ¦ _ ¦ None ¦ xp ¦ xp. ¦ xp.linalg ¦ mul.Tensor ¦ mul( ¦ nn::x ¦ ::
 ¦ ** ¦ = ¦ 0x10 ¦ "'" ¦ '"' ¦ "\\" ¦ "\0" ¦ "\x1b" ¦ "\ud800" ¦ "a\nb" ¦ '{{ 1 }}' ¦ '{% x' ¦ '#' ¦ ' ' ¦ a b c
 ¦ n_scalar x ¦ self, self ¦ [self, other] ¦ mul(Tensor self) -> Tensor""".replace("\n", "").split(" ¦ ")
JUNK += [
    "'\u0660'",
    "'\uff11'",
    "'\U0001f600'",
    "'\u017felf'",
    "",
    "|\n    a\n    b",
    ">\n    a",
    "9" * 5000,
    "[" * 9 + "]" * 9,
]
JUNK += [f"'{part}self'" for part in ("y " * 5000, "(" * 300, "-" * 3000)]


KINDS_OF_KEYS = [*KEYS, *KEYS_OF_DERIVATIVES, "dispatch: Default", "junk"]


@pytest.mark.parametrize("key", KINDS_OF_KEYS)
def test_whatever_a_key_holds(key, tmp_path, capsys):
    folder = tmp_path / "checkout"
    shutil.copytree(BASE, folder)
    for junk in JUNK if "GRADLOOM_FUZZ" in os.environ else JUNK[KINDS_OF_KEYS.index(key) % 3 :: 3]:
        native = {"func": "mul.Tensor(Tensor self, Tensor other) -> Tensor", "accepts_number": "other"}
        native |= {} if key == "composite" else {"kernel": "self * other", "autogen": "mul_.Tensor, mul.out"}
        derivative = {"name": native["func"], "self, other": "(grad, grad)"}
        if key in KEYS:
            native[key] = junk
        elif key == "dispatch: Default":
            derivative = {"name": native["func"], "dispatch": f"\n    Default: {junk}"}
        elif key == "junk":
            native[junk or "?"] = derivative[junk or "?"] = "x"
        else:
            derivative = {k: v for k, v in derivative.items() if key in ("name", k)} | {key: junk}
        for name, fields in zip(FILES, (native, derivative), strict=True):
            text = "\n  ".join(f"{k}: {v}" for k, v in fields.items())
            (folder / name).write_text(f"- {text}\n", encoding="utf-8")
        code = cli.main(["generate", "--root", str(folder)])  # an exception would come through
        message = capsys.readouterr().err
        if code:
            check_messages(message, folder)
        else:
            assert problems(generated(folder)) == []
            shutil.rmtree(folder / "generated")


def check_messages(message, folder):
    parts = message.rstrip("\n").removesuffix("\n\nthere may be more errors").split("\n\n")
    for part in parts:
        check_form(part, folder)


def write(checkout, texts):
    for name, text in texts.items():
        (checkout.folder / name).write_bytes(text.encode("utf-8", "surrogateescape"))
    shutil.rmtree(checkout.folder / "generated", ignore_errors=True)


def generated(folder):
    folder = folder / "generated"
    return {str(p.relative_to(folder)): p.read_text(encoding="utf-8") for p in folder.rglob("*.py")}


@contextmanager
def time_limit():
    """Fails a case that goes on for ever; without Unix signals it would hang."""
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number, frame):
        raise TimeoutError(f"a case took more than {SECONDS} seconds of the processor")

    previous = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, previous)
