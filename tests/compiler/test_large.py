"""What large arrays take: stores past the caches, and gates, which tell large arrays from small ones."""

import numpy as np
import pytest

import gradloom as torch
from gradloom.compiler import _llvm
from gradloom.compiler._eager_rows import keeping, loop_of
from gradloom.compiler._interpreter import run
from gradloom.compiler._llvm import gate as gates, plan
from gradloom.compiler._llvm.schedule import emitted
from gradloom.compiler._loops import LoopProgram
from gradloom.compiler._scalar import CannotFuseError

pytestmark = pytest.mark.skipif(not _llvm.available(), reason="needs llvmlite: pip install 'gradloom[compile]'")

TWO_RESULTS = """loop [{n}] inner 0
input 0: float32 strides [1]
output 0: float32 strides [1]
output 1: float32 strides [1]
pass 0:
  x = load 0: float32
  y = * x x: float32
  z = + y x: float32
  store 0 y
  store 1 z"""


def placed(shape, dtype, offset):
    """Return an array whose first element lies some elements after an aligned address, and its surroundings."""
    item = np.dtype(dtype).itemsize
    memory = np.full(np.prod(shape) * item + 512, 0xA5, np.uint8)
    start = -memory.ctypes.data % 64 + offset * item
    return memory[start : start + np.prod(shape) * item].view(dtype).reshape(shape), memory


def streams(text):
    """Return whether a program's code stores past the caches, if this processor can."""
    return "!nontemporal" in emitted(LoopProgram.parse(text))


@pytest.fixture
def nothing_is_cached(monkeypatch):
    monkeypatch.setattr(plan, "CACHED", 0)
    monkeypatch.setattr(plan, "_LONG_ROW", 0)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("n", [1, 31, 64, 65, 1000])
def test_results_stored_past_the_caches_are_whole(n, dtype, nothing_is_cached):
    text = TWO_RESULTS.format(n=n)
    head, body = text.split("pass 0:")
    values = "float32" if dtype == "float16" else dtype
    program = LoopProgram.parse(head.replace("float32", dtype) + "pass 0:" + body.replace("float32", values))
    try:
        kernel = _llvm.compile(program)
    except _llvm.Unsupported:
        pytest.skip("no float16 on this processor")
    x = np.random.default_rng(n).standard_normal(n).astype(dtype)
    expected = [np.empty(n, dtype), np.empty(n, dtype)]
    run(program, [x, *expected])
    for first, second in [(0, 0), (1, 1), (0, 3), (5, 16), (15, 31)]:
        outputs = [placed((n,), dtype, first), placed((n,), dtype, second)]
        kernel([x, outputs[0][0], outputs[1][0]])
        for (found, memory), right in zip(outputs, expected, strict=True):
            np.testing.assert_array_equal(found, right)
            assert (memory == 0xA5).sum() >= 512  # nothing beside it is written


@pytest.mark.parametrize("shape", [(3, 70, 1), (2, 5, 33), (1, 7, 1)])
@pytest.mark.parametrize("name", ["_softmax", "_log_softmax", "_softmax_backward_data", "_log_softmax_backward_data"])
def test_rows_stored_past_the_caches_are_whole(name, shape, nothing_is_cached):
    count = 2 if "backward" in name else 1
    arrays = [np.random.default_rng(k).standard_normal(shape).astype(np.float32) for k in range(count)]
    program = loop_of(name, [*arrays, 1, None], [(shape, np.dtype(np.float32))])
    expected = np.empty(shape, np.float32)
    run(program, [*arrays, expected])
    for offset in (0, 1, 9):
        found, memory = placed(shape, np.float32, offset)
        _llvm.compile(program)([*arrays, found])
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
        assert (memory == 0xA5).sum() >= 512


def test_only_large_programs_store_past_the_caches():
    if plan.host().register < 256 or plan.host().machine not in ("x86_64", "amd64"):
        pytest.skip("this processor has no such stores of whole registers")
    assert streams(TWO_RESULTS.format(n=1 << 22))
    assert not streams(TWO_RESULTS.format(n=1 << 20))
    in_place = TWO_RESULTS.format(n=1 << 22).replace("pass 0", "alias 0 0\nalias 1 0\npass 0")
    assert not streams(in_place)


@pytest.mark.parametrize("python", [False, True])
def test_gates_choose_by_the_number_of_elements(python, monkeypatch):
    if python:
        monkeypatch.setattr(gates, "_address", lambda: None)
    calls = []

    def noted(kind):
        return lambda *arguments, **named: calls.append((kind, len(arguments), named))

    gate = gates.gate(noted("small"), noted("large"), 12)
    few, many = np.zeros((3, 3)), np.zeros((2, 2, 3))
    for arguments in [(), (few,), (many,), (few, many), (many, few), (few, few, many), (2, many), (None, "x"),
                      (np.zeros((0, 9)),), (np.float32(3),), (np.ma.masked_array(many),)]:  # fmt: skip
        gate(*arguments)
    assert [kind for kind, *_ in calls] == [
        "small", "small", "large", "large", "large", "small", "large", "small", "small", "small", "small",
    ]  # fmt: skip
    gate(many, out=few)
    assert calls[-1][:2] == ("large", 1) and calls[-1][2]["out"] is few

    def fail(x):
        raise KeyError(x.size)

    with pytest.raises(KeyError, match="9"):
        gates.gate(fail, len, 12)(few)


def test_infix_operators_of_large_tensors_run_machine_code(monkeypatch):
    from gradloom.compiler import _eager

    x = torch.ones(1 << 17, requires_grad=True)
    with torch.set_kernels("llvm"):
        _eager._kernels.clear()
        (x * x - x / 2 + x).sum().backward()
        names = {key[0] for key in _eager._kernels}
    assert {"add", "subtract", "multiply"} <= names
    assert x.grad.eq(2.5).all()
    _eager._kernels.clear()
    (x * x + x).sum().backward()
    assert not _eager._kernels


def test_an_expensive_value_is_kept_in_the_result():
    shape, dtype = (3, 7), np.dtype(np.float64)
    x = np.random.default_rng(0).standard_normal(shape)
    program = loop_of("_softmax", [x, -1, False], [(shape, dtype)])
    kept = keeping(program)
    assert str(program).count("exp") == 2 and str(kept).count("exp") == 1
    expected, found = np.empty(shape), np.empty(shape)
    run(program, [x, expected])
    run(kept, [x, found, found, found])
    np.testing.assert_array_equal(found, expected)
    unchanged = loop_of("_log_softmax", [x, -1, False], [(shape, dtype)])
    assert keeping(unchanged) is unchanged


def test_a_call_that_is_not_one_loop_is_refused():
    x, shape = np.ones((3, 7)), (3, 7)
    with pytest.raises(CannotFuseError):
        loop_of("sort", [x, -1, False], [(shape, x.dtype), (shape, np.dtype(np.int64))])
    rows, of_parameters = np.ones((3, 1)), ((7,), x.dtype)
    with pytest.raises(CannotFuseError, match="several loops"):  # sums over rows join the loop of large arrays only
        arguments = [x, x, (7,), rows, rows, None, None, (True, True, True)]
        loop_of("native_layer_norm_backward", arguments, [(shape, x.dtype), of_parameters, of_parameters])
