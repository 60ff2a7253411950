"""The llvm backend: layouts of memory, long rows, threads, the cache of machine code, and what it refuses."""

import gc
import math
import os
import stat
import subprocess
import sys

import numpy as np
import pytest

import gradloom as torch
from gradloom.compiler import _llvm
from gradloom.compiler._interpreter import run
from gradloom.compiler._llvm import cache, code, host, kernel
from gradloom.compiler._llvm.fits import MISFIT
from gradloom.compiler._loops import LoopProgram
from gradloom.compiler._numpy_rows import compile_loops as numpy_loops
from tests.waiting import LIMIT, forked, in_threads

from .test_loops import CROSS_ENTROPY, SOFTMAX

pytestmark = pytest.mark.skipif(not _llvm.available(), reason="needs llvmlite: pip install 'gradloom[compile]'")

POINTWISE = """loop [{n}] inner 0
input 0: float32 strides [1]
output 0: float32 strides [1]
number 0: float64
pass 0:
  x = load 0: float32
  w = number 0: float64
  c = cast w: float32
  e = exp x: float32
  y = * e c: float32
  store 0 y"""

STATISTICS = """loop [{rows}, {n}] inner 1
input 0: {dtype} strides [{stride}, {step}]
output 0: {dtype} strides [1, 0]
output 1: int64 strides [1, 0]
output 2: {dtype} strides [1, 0]
output 3: {dtype} strides [{stride}, {step}]
pass 0:
  x = load 0: {dtype}
  total = reduce sum x: {dtype}
  where = reduce argmax x: int64
  least = reduce min x: {dtype}
  negative = neg x: {dtype}
  store 3 negative
row:
  store 0 total
  store 1 where
  store 2 least"""


@pytest.fixture
def threads():
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty cache folder, and no code in this process."""
    monkeypatch.setenv("GRADLOOM_CACHE_DIR", str(tmp_path / "cache"))
    kernel.forget()
    cache._checked.cache_clear()
    yield tmp_path / "cache" / "llvm"
    kernel.forget()
    cache._checked.cache_clear()


def files(folder):
    """Return the files with code."""
    return [path for path in folder.iterdir() if path.name != cache.TALLY]


def statistics(rows, n, dtype="float32", columns=False):
    stride, step = (1, rows) if columns else (n, 1)
    return LoopProgram.parse(STATISTICS.format(rows=rows, n=n, dtype=dtype, stride=stride, step=step))


def results(rows, dtype, like):
    return [np.empty(rows, dtype), np.empty(rows, "int64"), np.empty(rows, dtype), np.empty_like(like)]


@pytest.mark.parametrize("text", [SOFTMAX, CROSS_ENTROPY])
def test_programs_with_several_passes(text):
    program = LoopProgram.parse(text)
    x = np.random.default_rng(0).standard_normal(program.shape).astype(program.inputs[0].dtype)
    arrays = [x] if len(program.inputs) == 1 else [x, x, np.array([4, -1, 0])]
    shape = [n for n, stride in zip(program.shape, program.outputs[0].strides, strict=True) if stride]
    expected, found = (np.zeros(shape, x.dtype) for _ in range(2))
    numbers = [2.0] * len(program.numbers)
    run(program, [*arrays, expected], numbers)
    _llvm.compile(program)([*arrays, found], numbers)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize("columns", [False, True], ids=["rows", "columns"])
@pytest.mark.parametrize(("rows", "n"), [(1, 600_000), (3, 300_000), (40, 301), (5000, 70), (70, 5000), (300_000, 3)])
def test_reductions_of_every_shape_on_any_number_of_threads(rows, n, columns, threads):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((n, rows) if columns else (rows, n)).astype("float32")
    x.flat[rng.integers(0, x.size, 3)] = np.nan
    compiled = _llvm.compile(statistics(rows, n, columns=columns))
    by_threads = []
    for count in (1, 2, 3):
        threads(count)
        by_threads.append(results(rows, "float32", x))
        compiled([x, *by_threads[-1]])
    for other in by_threads[1:]:
        assert all(a.tobytes() == b.tobytes() for a, b in zip(by_threads[0], other, strict=True))
    total, where, least, negative = by_threads[0]
    m = x.T if columns else x
    assert np.array_equal(where, m.argmax(1)) and np.array_equal(least, m.min(1), equal_nan=True)
    assert np.array_equal(negative, -x, equal_nan=True)
    bound = 130 * 2.0**-24 * np.abs(m, dtype="float64").sum(1)
    assert np.array_equal(np.isnan(total), np.isnan(m).any(1))
    assert (np.abs(total - m.sum(1, dtype="float64")) <= bound)[~np.isnan(total)].all()


def test_few_and_many_columns_have_code_of_their_own():
    """The number of lanes is fixed in the code, and decides how much memory the parts of a column need."""
    codes = [_llvm.compile(statistics(rows, 300_000, columns=True))._owner for rows in (100, 3)]
    assert codes[0] is not codes[1]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_long_sum_is_as_exact_as_a_short_one(dtype):
    x = np.random.default_rng(1).random(1_000_000).astype(dtype) + 1
    out = results(1, dtype, x)
    _llvm.compile(statistics(1, x.size, dtype))([x, *out])
    exact = math.fsum(x.tolist())
    # The bound of 128 terms in sequence; naive summation is off by a thousand times as much.
    assert abs(float(out[0][0]) - exact) <= 130 * np.finfo(dtype).eps / 2 * exact


def test_infinite_sums_are_infinite():
    x = np.ones((3, 1000), "float32")
    x[0, 5], x[1, 7], x[2, 3], x[2, 900] = np.inf, -np.inf, np.inf, -np.inf
    out = results(3, "float32", x)
    _llvm.compile(statistics(3, 1000))([x, *out])
    assert out[0][0] == np.inf and out[0][1] == -np.inf and np.isnan(out[0][2])


def test_large_pointwise_programs_are_shared_by_threads(threads):
    x = np.random.default_rng(0).standard_normal(1_000_003).astype("float32")
    compiled = _llvm.compile(LoopProgram.parse(POINTWISE.format(n=x.size)))
    found = []
    for count in (1, 2, 3):
        threads(count)
        found.append(np.empty_like(x))
        compiled([x, found[-1]], [0.5])
    assert found[0].tobytes() == found[1].tobytes() == found[2].tobytes()
    np.testing.assert_allclose(found[0], np.exp(x) / 2, rtol=1e-6)


def test_one_kernel_in_several_threads_at_once():
    x = np.random.default_rng(0).standard_normal(300_000).astype("float32")
    compiled = _llvm.compile(LoopProgram.parse(POINTWISE.format(n=x.size)))

    def call(factor):
        out = np.empty_like(x)
        for _ in range(5):
            compiled([x, out], [factor])
        return out

    found = in_threads(*(lambda f=f: call(f) for f in (1.0, 2.0, 4.0)))
    assert np.array_equal(found[0] * 2, found[1]) and np.array_equal(found[0] * 4, found[2])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_kernels_work_in_a_fork(threads):
    threads(2)
    x = np.random.default_rng(0).standard_normal(1_000_000).astype("float32")
    compiled, out = _llvm.compile(LoopProgram.parse(POINTWISE.format(n=x.size))), np.empty_like(x)
    compiled([x, out], [1.0])

    def child():
        again = np.empty_like(x)
        compiled([x, again], [1.0])
        return 0 if again.tobytes() == out.tobytes() else 2

    assert forked(child) == 0


def test_an_output_may_be_its_input():
    text = SOFTMAX.replace("output 0", "output 0").replace("pass 0:", "alias 0 0\npass 0:")
    x = np.random.default_rng(0).standard_normal((4, 10)).astype("float32")
    expected = np.empty_like(x)
    run(LoopProgram.parse(SOFTMAX), [x, expected])
    _llvm.compile(LoopProgram.parse(text))([x, x])
    np.testing.assert_allclose(x, expected, rtol=1e-6)


def test_indices_out_of_range_raise_with_the_index():
    x, out = np.random.default_rng(0).standard_normal((3, 5)), np.empty(3)
    compiled = _llvm.compile(LoopProgram.parse(CROSS_ENTROPY))
    for wrong in (5, -6, 2**62):
        with pytest.raises(IndexError, match=f"index {wrong} is out of bounds for dimension with size 5"):
            compiled([x, x, np.array([0, wrong, 0]), out], [1.0])
    compiled([x, x, np.array([0, -5, 4]), out], [1.0])


TAKE = """loop [70] inner 0
input 0: int64 strides [1]
input 1: float32 sizes [9] strides [2]
output 0: float32 strides [1]
pass 0:
  i = load 0: int64
  x = gather 1 i: float32
  store 0 x"""


def test_gathers_of_single_elements():
    table, index = np.arange(18, dtype="float32"), np.random.default_rng(0).integers(-9, 9, 70)
    out, compiled = np.empty(70, "float32"), _llvm.compile(LoopProgram.parse(TAKE))
    compiled([index, table, out])
    assert np.array_equal(out, table[::2][index])
    index[67] = 11
    with pytest.raises(IndexError, match="index 11 is out of bounds for dimension with size 9"):
        compiled([index, table, out])


def test_only_arrays_are_taken():
    compiled, out = _llvm.compile(LoopProgram.parse(POINTWISE.format(n=3))), np.empty(3, "float32")
    with pytest.raises(TypeError, match="takes NumPy arrays, not list"):
        compiled([[1.0, 2.0, 3.0], out], [1.0])


def test_nothing_to_do():
    out = np.full(3, 7.0, "float32")
    _llvm.compile(LoopProgram.parse(POINTWISE.format(n=0)))([out, out], [1.0])
    text = STATISTICS.format(rows=3, n=0, dtype="float32", stride=0, step=1).replace("[0, 1]", "[1, 1]")
    text = "\n".join(line for line in text.split("\n") if "arg" not in line and "min" not in line)
    text = text.replace("output 1: int64", "output 1: float32").replace("store 1 where", "store 1 total")
    text = text.replace("store 2 least", "store 2 total")
    sums = [np.full(3, 7.0, "float32") for _ in range(3)]
    _llvm.compile(LoopProgram.parse(text))([out, *sums, out])
    assert all((x == 0).all() for x in sums)
    with pytest.raises(_llvm.Unsupported, match="a maximum or minimum of nothing"):
        _llvm.compile(LoopProgram.parse(STATISTICS.format(rows=3, n=0, dtype="float32", stride=1, step=1)))


# -- structures


def test_programs_that_differ_in_sizes_share_code():
    first = _llvm.compile(LoopProgram.parse(POINTWISE.format(n=10)))
    second = _llvm.compile(LoopProgram.parse(POINTWISE.format(n=1000)))
    assert first._owner is second._owner


def test_loops_merge_and_the_contiguous_one_fills_the_lanes():
    text = """loop [4, 5, 6] inner 0
input 0: float32 strides [1, 24, 4]
output 0: float32 strides [1, 24, 4]
pass 0:
  x = load 0: float32
  y = neg x: float32
  store 0 y"""
    from gradloom.compiler._llvm.plan import make_plan

    plan = make_plan(LoopProgram.parse(text))
    assert [x.size for x in plan.loops] == [120]


def test_what_has_no_machine_code_is_refused_by_name():
    for op, dtype in (("lgamma", "float32"), ("digamma", "float64"), ("gcd", "int32")):
        operands = "x x" if op == "gcd" else "x"
        text = f"""loop [3] inner 0
input 0: {dtype} strides [1]
output 0: {dtype} strides [1]
pass 0:
  x = load 0: {dtype}
  y = {op} {operands}: {dtype}
  store 0 y"""
        with pytest.raises(_llvm.Unsupported, match=f"no `{op}` of {dtype}"):
            _llvm.compile(LoopProgram.parse(text))
    with pytest.raises(_llvm.Unsupported, match="no complex numbers"):
        _llvm.compile(LoopProgram.parse(text.replace("int32", "complex64").replace("gcd", "+")))


def test_a_missing_llvmlite_is_named(monkeypatch):
    program = LoopProgram.parse(POINTWISE.format(n=10))
    monkeypatch.setattr(host, "llvmlite_version", lambda: None)
    with pytest.raises(ImportError, match=r"pip install 'gradloom\[compile\]'"):
        _llvm.compile(program)
    assert not host.available()
    monkeypatch.setattr(host, "llvmlite_version", lambda: "0.40.1")
    with pytest.raises(ImportError, match=r"needs llvmlite 0\.45 or newer, not 0\.40\.1"):
        _llvm.compile(program)


def test_the_text_can_be_read():
    text = _llvm.emitted(LoopProgram.parse(SOFTMAX))
    assert "define i32 @kernel(" in text and "@exp.float." in text


# -- the cache

SECOND = f"""
import sys, numpy as np
from gradloom.compiler import _llvm
from gradloom.compiler._loops import LoopProgram
x = np.linspace(-1, 1, 10, dtype="float32")
out = np.empty_like(x)
_llvm.compile(LoopProgram.parse({POINTWISE.format(n=10)!r}))([x, out], [2.0])
assert abs(out - 2 * np.exp(x)).max() < 1e-6
print("llvmlite.binding" in sys.modules)
"""


def second_process(folder):
    environment = {**os.environ, "GRADLOOM_CACHE_DIR": str(folder.parent)}
    found = subprocess.run(
        [sys.executable, "-c", SECOND], env=environment, capture_output=True, text=True, timeout=LIMIT
    )
    assert found.returncode == 0, found.stderr
    return found.stdout.strip() == "True"


@pytest.mark.skipif(
    sys.platform != "linux" or host.host().machine != "x86_64", reason="images are made on Linux, x86-64"
)
def test_a_second_process_needs_no_llvm(folder):
    assert second_process(folder)
    kept = set(files(folder))
    assert kept and not second_process(folder)
    assert set(files(folder)) == kept


@pytest.mark.skipif(
    sys.platform != "linux" or host.host().machine != "x86_64", reason="images are made on Linux, x86-64"
)
def test_what_only_some_functions_need_is_not_imported(folder, tmp_path):
    """The import of `gradloom.nn`, of LLVM or of what writes its text takes longer than compiling from the cache."""
    script = tmp_path / "second.py"
    script.write_text(SECOND_COMPILED)
    environment = {**os.environ, "GRADLOOM_CACHE_DIR": str(folder.parent)}
    outputs = [
        subprocess.run(
            [sys.executable, str(script)], env=environment, capture_output=True, text=True, timeout=LIMIT, check=True
        ).stdout.split()
        for _ in range(2)
    ]
    first, second = outputs
    assert "gradloom.compiler._llvm.emit" in first and "gradloom.nn" not in first
    unneeded = "llvmlite gradloom.nn _llvm.emit _llvm.ir _llvm.lower _numpy_rows records.elementwise kernels.conv"
    assert not [name for name in second if name.endswith(tuple(unneeded.split()))]


SECOND_COMPILED = """
import sys
import gradloom as torch

@torch.compile(fullgraph=True, backend="llvm")
def f(x):
    return torch.sigmoid(x) * torch.tanh(x) + x**2

x = torch.linspace(-1, 1, 5, requires_grad=True)
for _ in range(2):
    f(x).sum().backward()
print(*sys.modules)
"""


def test_a_damaged_file_is_made_anew(folder):
    program, x = LoopProgram.parse(POINTWISE.format(n=10)), np.zeros(10, "float32")
    _llvm.compile(program)
    (path,) = files(folder)
    whole = path.read_bytes()
    for damaged in (whole[:-1], whole[:40], b"", whole[:-9] + b"x" + whole[-8:], b"x" + whole[1:]):
        path.write_bytes(damaged)
        kernel.forget()
        out = np.empty_like(x)
        _llvm.compile(program)([x, out], [3.0])
        assert (out == 3).all() and path.read_bytes() == whole


@pytest.mark.parametrize("make", [os.mkdir, pytest.param(getattr(os, "mkfifo", None), id="mkfifo")])
def test_what_is_no_file_is_not_read(folder, make):
    if make is None:
        pytest.skip("there are no named pipes")
    program, x = LoopProgram.parse(POINTWISE.format(n=10)), np.zeros(10, "float32")
    _llvm.compile(program)
    (path,) = files(folder)
    path.unlink()
    make(path)
    kernel.forget()
    out = np.empty_like(x)
    _llvm.compile(program)([x, out], [3.0])
    assert (out == 3).all()


def test_a_file_under_another_name_is_not_used(folder):
    _llvm.compile(LoopProgram.parse(POINTWISE.format(n=10)))
    (path,) = files(folder)
    other = "0" * 64
    path.rename(path.with_name(other))
    assert cache.read(other) is None


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="no owners of files")
def test_only_what_belongs_to_this_user_is_used(folder, tmp_path, monkeypatch):
    _llvm.compile(LoopProgram.parse(POINTWISE.format(n=10)))
    assert stat.S_IMODE(folder.stat().st_mode) & 0o077 == 0
    (path,) = files(folder)
    assert cache.read(path.name) is not None
    path.chmod(0o666)  # others may write to it
    assert cache.read(path.name) is None
    path.chmod(0o600)
    target = tmp_path / "elsewhere"
    path.rename(target)
    path.symlink_to(target)
    assert cache.read(path.name) is None
    folder.chmod(0o777)
    cache._checked.cache_clear()
    with pytest.warns(UserWarning, match="is not used as the cache"):
        assert cache.folder() is None
    folder.chmod(0o700)
    cache._checked.cache_clear()
    monkeypatch.setattr(os, "geteuid", lambda: folder.stat().st_uid + 1)
    with pytest.warns(UserWarning, match="not this user's own"):
        assert cache.folder() is None


def test_the_cache_can_be_switched_off_and_need_not_be_writable(folder, monkeypatch):
    monkeypatch.setenv("GRADLOOM_CACHE_DIR", "")
    _llvm.compile(LoopProgram.parse(POINTWISE.format(n=10)))
    assert not folder.exists()
    monkeypatch.setenv("GRADLOOM_CACHE_DIR", os.devnull)
    kernel.forget()
    _llvm.compile(LoopProgram.parse(POINTWISE.format(n=10)))


def test_concurrent_writers_leave_whole_files(folder):
    contents = [bytes([i]) * 50_000 for i in range(4)]

    def write(content):
        for _ in range(20):
            cache.write("2" * 64, content)
            found = cache.read("2" * 64)
            assert found in contents

    in_threads(*(lambda c=c: write(c) for c in contents))
    assert [path.name for path in files(folder)] == ["2" * 64]


def test_the_least_recently_used_files_go_first(folder):
    for i in range(4):
        cache.write(f"{i}" * 64, bytes(5000))  # two blocks
        os.utime(folder / (f"{i}" * 64), (i, i))
    assert cache.evict(folder, 8) == 8
    assert len(files(folder)) == 4
    assert cache.evict(folder, 3) == 2
    assert {path.name[0] for path in files(folder)} == {"3"}


def test_the_folder_stays_within_its_limit_and_is_seldom_looked_at(folder, monkeypatch):
    looks, evict = [], cache.evict
    monkeypatch.setattr(cache, "LIMIT", 40)
    monkeypatch.setattr(cache, "KEPT", 30)
    monkeypatch.setattr(cache, "evict", lambda *args: looks.append(args) or evict(*args))
    for i in range(100):
        cache.write(f"{i:064}", bytes(5000))
        assert len(files(folder)) <= 20
    assert (folder / f"{99:064}").exists()
    assert len(looks) == 15  # for the first file, the 21st, and each sixth after that, when 15 were left


def test_files_that_nobody_counted_are_found(folder, monkeypatch):
    monkeypatch.setattr(cache, "KEPT", 3)
    cache.write("0" * 64, b"")
    for i in range(1, 9):
        (folder / f"{i:064}").write_bytes(b"")
        os.truncate(folder / f"{i:064}", 4096)
        os.utime(folder / f"{i:064}", (i, i))
    (folder / cache.TALLY).unlink()  # as in a folder of another version
    cache.write("0" * 64, b"")
    assert len(files(folder)) == 3
    assert (folder / cache.TALLY).stat().st_size == 3


def test_one_write_deletes_few_files_and_the_next_ones_go_on(folder, monkeypatch):
    monkeypatch.setattr(cache, "LIMIT", 6)
    monkeypatch.setattr(cache, "KEPT", 4)
    monkeypatch.setattr(cache, "DELETED", 3)
    cache.write("0" * 64, b"")
    for i in range(1, 12):
        (folder / f"{i:064}").write_bytes(bytes(10))
        os.utime(folder / f"{i:064}", (i, i))
    (folder / cache.TALLY).unlink()
    counts = []
    for i in range(20, 24):
        cache.write(f"{i:064}", b"")
        counts.append(len(files(folder)))
    assert counts == [10, 8, 6, 4]  # of 13, 11, 9 and 7


def test_code_depends_on_the_processor_and_the_versions(folder, monkeypatch):
    program = LoopProgram.parse(POINTWISE.format(n=10))
    monkeypatch.setattr(code, "_sources", lambda: "")
    _llvm.compile(program)
    kernel.forget()
    code._version.cache_clear()
    monkeypatch.setattr(code, "__version__", "0.0.0")
    _llvm.compile(program)
    code._version.cache_clear()
    assert len(files(folder)) == 2


@pytest.fixture
def sources(folder, tmp_path, monkeypatch):
    """A folder of sources that write code, of a process that began later."""
    found = tmp_path / "_llvm"
    found.mkdir()
    (found / "a.py").write_text("x = 1")
    (tmp_path / "_loops.py").write_text("y = 1")
    monkeypatch.setattr(code, "_FOLDER", str(found))
    monkeypatch.setattr(code, "_SETTLED", 0)
    monkeypatch.setattr(cache, "BEGAN", 1 << 62)
    return found


def test_the_digest_of_the_sources_is_kept_until_one_changes(sources, folder, monkeypatch):
    first = code._sources()
    assert len(files(folder)) == 1
    with monkeypatch.context() as m:
        m.setattr(code, "Path", None)  # which reads them
        assert code._sources() == first
    path = sources / "a.py"
    before = path.stat()
    path.write_text("x = 2")  # of the same size, and of the same time
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    second = code._sources()
    assert second != first
    (sources / "b.py").write_text("")
    third = code._sources()
    (sources.parent / "_loops.py").write_text("y = 2")
    assert len({first, second, third, code._sources()}) == 4


def test_the_digest_of_new_sources_is_not_kept(sources, folder, monkeypatch):
    monkeypatch.setattr(code, "_SETTLED", 1 << 62)
    assert code._sources() == code._sources()
    assert not files(folder)


def test_code_of_sources_that_changed_since_the_process_began_is_found_by_nobody(sources, monkeypatch):
    monkeypatch.setattr(cache, "BEGAN", 0)
    assert code._sources() != code._sources()


def test_a_file_that_is_read_is_used_today(folder):
    cache.write("0" * 64, b"content")
    path = folder / ("0" * 64)
    os.utime(path, (1, 1))
    assert cache.read(path.name) == b"content"
    assert path.stat().st_mtime > 1


def test_direct_calls_check_their_arguments():
    """Calls through the entry take arrays and numbers of the right kinds only: see Note [Direct calls]."""
    program = LoopProgram.parse(
        """loop [5] inner 0
input 0: float32 strides [1]
output 0: float32 strides [1]
number 0: float64
number 1: int64
pass 0:
  x = load 0: float32
  a = number 0: float64
  b = number 1: int64
  c = cast a: float32
  d = cast b: float32
  e = * x c: float32
  f = + e d: float32
  store 0 f"""
    )
    kernel = _llvm.compile(program)
    x, out = np.arange(5, dtype=np.float32), np.zeros(5, np.float32)
    assert kernel.call(x, out, 2.5, 3) is None
    np.testing.assert_array_equal(out, x * 2.5 + 3)
    for misfit in [(x, [0.0], 1.0, 2), (None, out, 1.0, 2), (x[:4], out, 1.0, 2), (x, out.astype("f8"), 1.0, 2)]:
        assert kernel.call(*misfit) is MISFIT
    for wrong in [(x, out), (x, out, 1.0, 2, 3), (x, out, "1", 2)]:
        with pytest.raises(TypeError):
            kernel.call(*wrong)
    with pytest.raises(TypeError):
        kernel.call(x, out, 1.0, 2.5)
    with pytest.raises(OverflowError):
        kernel.call(x, out, 1.0, 2**80)
    assert kernel.call(x, out, True, True) is None
    call = kernel.call
    del kernel
    _llvm.forget()
    gc.collect()  # the function keeps its code
    assert call(x, out, 2.0, 1) is None
    np.testing.assert_array_equal(out, x * 2 + 1)


SUMS = """loop [{rows}, {n}] inner 1
input 0: {dtype} strides [{stride}, {step}]
output 0: {dtype} strides [0, 1]
output 1: {dtype} strides [{stride}, {step}]
output 2: {dtype} strides [0, 1]
pass 0:
  x = load 0: {dtype}
  s = reduce sum x: {dtype}
  add 2 x
pass 1:
  y = load 0: {dtype}
  z = - y s: {dtype}
  store 1 z
  add 0 z"""


@pytest.mark.parametrize("shape", [(1, 1), (3, 1), (1, 40), (300, 7), (128, 33), (1000, 64), (129, 5)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("turned", [False, True])
def test_sums_over_rows_are_those_of_the_interpreter(shape, dtype, turned, threads):
    rows, n = shape
    stride, step = (1, rows) if turned else (n, 1)
    program = LoopProgram.parse(SUMS.format(rows=rows, n=n, dtype=dtype, stride=stride, step=step))
    x = np.random.default_rng(0).standard_normal(shape[::-1] if turned else shape).astype(dtype)
    kinds = [np.empty(n, dtype), np.empty_like(x), np.empty(n, dtype)]
    wanted = [np.empty_like(k) for k in kinds]
    run(program, [x, *wanted])
    kernel = _llvm.compile(program)
    found = []
    for count in (1, 3):
        threads(count)
        made = [np.empty_like(k) for k in kinds]
        kernel([x, *made])
        found.append(made)
    eps = np.finfo(dtype).eps
    size = float(np.abs(x).max()) * (n + 1)
    for a, b, c in zip(*found, wanted, strict=True):
        np.testing.assert_array_equal(a, b)
        np.testing.assert_allclose(a, c, rtol=0, atol=eps * size * (130 + n) * 2 + eps * rows * size)
    replaced = [np.empty_like(k) for k in kinds]
    numpy_loops(program)([x, *replaced])
    for a, b in zip(replaced, wanted, strict=True):
        np.testing.assert_array_equal(a, b)
