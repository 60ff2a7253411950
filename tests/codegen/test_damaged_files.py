"""However native_functions.yaml is damaged, the answer is a SpecError at a place in the file, never a
traceback.
"""

import random
from pathlib import Path

import pytest

from gradloom.codegen.errors import SpecError
from gradloom.codegen.operators import native_functions

PACKAGE = Path(__file__).parent / "errors" / "base" / "src" / "gradloom"
CHARACTERS = " \n\t\"'[](){}:,-#&*!|>%@`?\\=.\x00é\N{MATHEMATICAL BOLD SMALL A}a1~"
SOUND = r"""
- func: addcmul(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor
  variants: function, method
  autogen: addcmul_, addcmul.out
  tags: [core, pointwise]
  kernel: elementwise.addcmul
- func: "leaky(Tensor self, Scalar s=0.01, str m=\"a b\") -> (Tensor a, Tensor b)"
  kernel: >
    xp.where(self > 0, self, s * self),
    [xp.sum(x, axis=-1) for x in self if x.ndim]
- func: split(Tensor(a -> *) self, int[2] size=[1,2]) -> Tensor(a)[]   # a view
  kernel: 'xp.split(self, size[0] if size else len(self[..., 1:2]))'
  domain: {self: [0.2, 3]}
"""


def damaged(text, rng):
    chars = list(text)
    for _ in range(rng.choice([1, 1, 1, 2, 5])):
        i = rng.randrange(len(chars))
        what = rng.randrange(4)
        if what == 0:
            del chars[i]
        elif what == 1:
            chars.insert(i, rng.choice(CHARACTERS))
        elif what == 2:
            chars[i] = rng.choice(CHARACTERS)
        else:
            chars[i : i + 20] = chars[i : i + 20] * rng.choice([0, 2, 3])
    return "".join(chars)


def test_it_loads_undamaged(tmp_path):
    path = tmp_path / "f.yaml"
    path.write_text(SOUND, encoding="utf-8")
    assert len(native_functions.load(path, package=PACKAGE)) == 3


@pytest.mark.parametrize("seed", range(8))
def test_damaged_files(seed, tmp_path):
    rng = random.Random(seed)
    path = tmp_path / "f.yaml"
    refused = 0
    for _ in range(60):
        text = damaged(SOUND, rng)
        path.write_text(text, encoding="utf-8")
        try:
            native_functions.load(path, package=PACKAGE)
        except SpecError as error:
            refused += 1
            lines = text.split("\n")
            for one in error.errors:
                assert 1 <= one.line <= len(lines), str(one)
                assert 1 <= one.col <= len(lines[one.line - 1]) + 1, str(one)
                assert one.message, str(one)
                assert one.hint, str(one)
    assert refused > 40
