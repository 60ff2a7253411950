"""Loop programs: what they mean, how they are written, and which are refused."""

import numpy as np
import pytest

from gradloom.compiler._interpreter import run
from gradloom.compiler._loops import Buffer, Instruction, LoopError, LoopProgram, Pass, const

SOFTMAX = """
loop [4, 10] inner 1
input 0: float32 strides [10, 1]
output 0: float32 strides [10, 1]
pass 0:
  x = load 0: float32
  m = reduce max x: float32
pass 1:
  y = load 0: float32
  shifted = - y m: float32
  e = exp shifted: float32
  s = reduce sum e: float32
pass 2:
  z = load 0: float32
  again = - z m: float32
  e2 = exp again: float32
  r = / e2 s: float32
  store 0 r
""".strip()

CROSS_ENTROPY = """
loop [3, 5] inner 1
input 0: float64 strides [5, 1]
input 1: float64 sizes [3, 5] strides [5, 1]
input 2: int64 strides [1, 0]
output 0: float64 strides [1, 0]
number 0: float64
pass 0:
  x = load 0: float64
  e = exp x: float64
  s = reduce sum e: float64
row:
  t = load 2: int64
  i = index 0: int64
  picked = gather 1 i t: float64
  all = log s: float64
  loss = - all picked: float64
  scale = number 0: float64
  scaled = * loss scale: float64
  store 0 scaled
""".strip()


def test_a_program_with_three_passes_is_softmax():
    x = np.random.default_rng(0).standard_normal((4, 10)).astype("float32")
    out = np.empty_like(x)
    run(LoopProgram.parse(SOFTMAX), [x, out])
    e = np.exp(x - x.max(1, keepdims=True))
    assert np.array_equal(out, e / e.sum(1, keepdims=True))


def test_gather_counts_from_the_end_and_checks_its_indices():
    x = np.random.default_rng(0).standard_normal((3, 5))
    target, out = np.array([4, -1, 0]), np.empty(3)
    program = LoopProgram.parse(CROSS_ENTROPY)
    run(program, [x, x, target, out], [2.0])
    expected = 2 * (np.log(np.exp(x).sum(1)) - x[np.arange(3), target])
    np.testing.assert_allclose(out, expected, rtol=1e-13)
    with pytest.raises(IndexError, match="index 5 is out of bounds for dimension with size 5"):
        run(program, [x, x, np.array([0, 5, 0]), out], [2.0])


def test_strides_broadcast_transpose_and_reverse():
    text = """loop [3, 4] inner 0
input 0: int32 strides [1, 3]
input 1: int32 strides [0, -1]
output 0: int32 strides [4, 1]
pass 0:
  x = load 0: int32
  y = load 1: int32
  z = * x y: int32
  store 0 z"""
    x, y, out = np.arange(12, dtype="int32"), np.arange(4, dtype="int32"), np.empty((3, 4), "int32")
    run(LoopProgram.parse(text), [x, y[3:], out])
    assert np.array_equal(out, x.reshape(4, 3).T * y[::-1])


def test_the_other_forms_of_reduction():
    text = """loop [2, 3, 2] inner 2
input 0: float32 strides [6, 2, 1]
output 0: float32 strides [1, 0, 0]
output 1: int64 strides [1, 0, 0]
output 2: bool strides [1, 0, 0]
output 3: float32 strides [1, 0, 0]
pass 0:
  x = load 0: float32
  low = reduce min x: float32
  where = reduce argmax x: int64
  zero = const 0.0: float32
  positive = > x zero: bool
  every = reduce all positive: bool
  total = reduce prod x: float32
row:
  store 0 low
  store 1 where
  store 2 every
  store 3 total"""
    x = np.array([[1, 2, 3, 4, 4, 1], [1, np.nan, 3, np.nan, -4, 1]], "float32")
    outs = [np.empty(2, "float32"), np.empty(2, "int64"), np.empty(2, "bool"), np.empty(2, "float32")]
    run(LoopProgram.parse(text), [x, *outs])
    assert outs[0][0] == 1 and np.isnan(outs[0][1])
    assert outs[1].tolist() == [3, 1] and outs[2].tolist() == [True, False] and outs[3][0] == 96


def test_half_types_are_computed_in_float32_and_rounded_at_stores():
    text = """loop [3] inner 0
input 0: float16 strides [1]
output 0: float16 strides [1]
output 1: float32 strides [1]
output 2: float32 strides [1]
pass 0:
  x = load 0: float32
  y = * x x: float32
  z = round bfloat16 y: float32
  store 0 y
  store 1 y
  store 2 z"""
    x = np.array([1.001, 3.3, 300], "float16")
    outs = [np.empty(3, "float16"), np.empty(3, "float32"), np.empty(3, "float32")]
    run(LoopProgram.parse(text), [x, *outs])
    wide = x.astype("float32") ** 2
    assert np.array_equal(outs[1], wide) and outs[0][2] == np.inf
    assert np.array_equal(outs[2].view("uint32") & 0xFFFF, [0, 0, 0])


@pytest.mark.parametrize("text", [SOFTMAX, CROSS_ENTROPY])
def test_text_and_program_are_one(text):
    program = LoopProgram.parse(text)
    assert str(program) == text
    assert LoopProgram.parse(text) == program and hash(LoopProgram.parse(text)) == hash(program)


def test_constants_that_compare_equal_are_different_programs():
    def program(value, dtype="float32"):
        body = (const("c", value, dtype), Instruction("", "store", ("c",), "", 0))
        return LoopProgram((2,), 0, (), (Buffer(dtype, (1,)),), (Pass(body),))

    assert program(0.0) != program(-0.0) and program(float("nan")) == program(float("nan"))
    out = np.empty(2, "float32")
    run(program(-0.0), [out])
    assert np.signbit(out).all()
    assert str(program(3, "int8").passes[0].body[0]) == "c = const 3: int8"


WRONG = {
    "y = + x x: float64": "gives float32",
    "y = + x q: float32": "`q` is not defined before it",
    "x = neg x: float32": "'x' is not a new name",
    "y = & x x: float32": "not defined for float32",
    "y = frobnicate x: float32": "there is no operation 'frobnicate'",
    "y = + x: float32": "takes 2 operand",
    "y = load 1: float32": "there is no such buffer",
    "y = index 1: int64": "there is no such loop",
    "y = const 1: float32": "make it by `const`",
    "y = reduce sum x: float32": "only the body of a pass over a row reduces",
    "y = number 0: float64": "there is no such number",
    "add 0 x": "only the body of a pass over a row adds",
    "y = gather 0 x: float32": "only a table is read by `gather`",
    "y = where x x x: float32": "takes a bool",
    "y = isnan x: float32": "gives bool",
    "store 0 x": "stored 2 times",
}


@pytest.mark.parametrize("line", WRONG)
def test_errors_name_the_instruction_and_the_reason(line):
    text = f"""loop [3] inner 0
input 0: float32 strides [1]
output 0: float32 strides [1]
pass 0:
  x = load 0: float32
  {line}
  store 0 x"""
    with pytest.raises(LoopError) as error:
        LoopProgram.parse(text)
    assert WRONG[line] in str(error.value)
    assert "stored" in str(error.value) or line in str(error.value)


def test_values_of_a_body_end_with_it():
    text = SOFTMAX.replace("again = - z m", "again = - shifted m")
    with pytest.raises(LoopError, match="belongs to the body of another pass"):
        LoopProgram.parse(text)
    with pytest.raises(LoopError, match="`m` is not defined before it"):
        LoopProgram.parse(
            SOFTMAX.replace("  y = load 0: float32", "  y = load 0: float32", 1).replace("x: f", "m: f", 1)
        )


SUM_OF_ROWS = """loop [2, 3] inner 1
input 0: float32 strides [3, 1]
output 0: float32 strides [0, 1]
pass 0:
  x = load 0: float32
  add 0 x"""


def test_rows_are_added_up():
    program = LoopProgram.parse(SUM_OF_ROWS)
    assert str(program) == SUM_OF_ROWS
    out = np.empty(3, "float32")
    run(program, [np.arange(6, dtype="float32").reshape(2, 3), out])
    assert out.tolist() == [3, 5, 7]
    for strides in ("[3, 1]", "[0, 0]"):
        with pytest.raises(LoopError, match="has an element for each one of a row"):
            LoopProgram.parse(
                SUM_OF_ROWS.replace("output 0: float32 strides [0, 1]", f"output 0: float32 strides {strides}")
            )
    with pytest.raises(LoopError, match="adds float32 or float64"):
        LoopProgram.parse(SUM_OF_ROWS.replace("float32", "int32"))


def test_an_output_is_written_once():
    with pytest.raises(LoopError, match="writes one element several times"):
        LoopProgram.parse(SOFTMAX.replace("output 0: float32 strides [10, 1]", "output 0: float32 strides [10, 0]"))
    with pytest.raises(LoopError, match="output 0 is stored 0 times"):
        LoopProgram.parse(SOFTMAX.replace("\n  store 0 r", ""))
