"""Words of MT19937 (Matsumoto and Nishimura 1998), and uniform numbers and integers from them.

The state is the memory of NumPy's generator: 624 words, and the number of those that are used up. So a call of NumPy
can follow a call of a routine, and the other way round. The caller holds the lock of the stream.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from .ir import DOUBLE, FLOAT, I32, I64, Function, V, loop, when
from .routines import Held, Routine, Writer

WORDS, _FAR = 624, 397
DTYPES = {"words": "uint32", "pairs": "uint64", "uniform24": "float32", "uniform53": "float64", "integers": "int64"}
_LANES = 16
_UPPER, _LOWER, _MATRIX = -0x80000000, 0x7FFFFFFF, 0x9908B0DF - (1 << 32)
_TEMPER = 0x9D2C5680 - (1 << 32), 0xEFC60000 - (1 << 32)


@cache
def words(kind: str) -> Routine:
    """Return the routine of (out), which fills it from the next words.

    A piece is an element; they are not divided, since words follow from those before. The integers are: the address of
    the state, and for `integers` the lowest and how many there are, below 2**31.

    kind: `words` are as they are (uint32); a number of `pairs` has the first of two words in its high half (uint64);
    `uniform24` are the low 24 bits of a word, times 2**-24 (float32), `uniform53` the low 53 of a pair, times 2**-53
    (float64); `integers` are the rests of words (int64).
    """
    out = Held(DTYPES[kind], lambda first, last, *_: last, True)
    return Routine(f"words {kind}", lambda: _words(Writer({"out": out}, ("state", "low", "span")), kind), [out], 3)


def _words(w: Writer, kind: str) -> str:
    f, count = w.f, w.last
    state, low, span = w.size.values()
    out, zero = w.address["out"], f.const(0, I64)
    address = f.emit(f"inttoptr i64 {state.name} to ptr", "ptr").name
    words, target = (count + count if kind in ("pairs", "uniform53") else count), out
    if kind == "integers":  # in the second half, from where they are widened one after the other
        target = f.offset(out, count * 4)
    _draw(f, address, words, target)
    if kind == "words":
        return w.text()

    def each(convert: Callable[[V, int], None], lanes: int) -> None:
        whole = count & -lanes
        loop(f, zero, whole, lanes, lambda i: convert(i, lanes))
        loop(f, whole, count, 1, lambda i: convert(i, 0))

    def uniform24(i: V, width: int) -> None:
        at = f.offset(out, i * 4)
        f.store((f.load(at, I32, width) & 0xFFFFFF).convert("sitofp", FLOAT) * 2.0**-24, at)

    def pairs(i: V, width: int) -> None:
        at = f.offset(out, i * 8)
        x = f.load(at, I64, width)
        x = (x << 32) | x.shift_right(32)
        f.store((x & (1 << 53) - 1).convert("sitofp", DOUBLE) * 2.0**-53 if kind == "uniform53" else x, at)

    def rests(i: V, width: int) -> None:
        word = f.load(f.offset(target, i * 4), I32, width).convert("zext", I64)
        whole = (word.convert("sitofp", DOUBLE) / span.convert("sitofp", DOUBLE)).convert("fptosi", I64)
        f.store(word - whole * span + low, f.offset(out, i * 8))

    each({"uniform24": uniform24, "integers": rests}.get(kind, pairs), _LANES if kind == "uniform24" else _LANES // 2)
    return w.text()


def _draw(f: Function, state: str, count: V, target: str) -> None:
    """Write the next `count` words to memory."""
    position, done = f.offset(state, 4 * WORDS), f.alloca(I64)
    f.store(f.const(0, I64), done)
    head, inside, after = (f.new_label(name) for name in ("more", "some", "enough"))
    f.start(head)
    at = f.load(done, I64)
    f.branch(at < count, inside, after)
    f.start(inside, fall=False)

    def refill() -> None:
        _refill(f, state)
        f.store(f.const(0, I32), position)

    when(f, f.load(position, I32) >= WORDS, refill)
    used = f.load(position, I32).convert("zext", I64)
    some = f.intrinsic("smin", WORDS - used, count - at)
    source, to = f.offset(state, used * 4), f.offset(target, at * 4)

    def move(i: V, width: int) -> None:
        f.store(_tempered(f.load(f.offset(source, i * 4), I32, width)), f.offset(to, i * 4))

    whole = some & -_LANES
    loop(f, f.const(0, I64), whole, _LANES, lambda i: move(i, _LANES))
    loop(f, whole, some, 1, lambda i: move(i, 0))
    f.store((used + some).convert("trunc", I32), position)
    f.store(at + some, done)
    f.line(f"br label %{head}")
    f.start(after, fall=False)


def _tempered(y: V) -> V:
    y = y ^ y.shift_right(11)
    y = y ^ ((y << 7) & _TEMPER[0])
    y = y ^ ((y << 15) & _TEMPER[1])
    return y ^ y.shift_right(18)


def _refill(f: Function, state: str) -> None:
    """Replace the words of the state by the next 624, in place."""

    def word(i: V, width: int) -> V:
        return f.load(f.offset(state, i * 4), I32, width)

    def step(i: V, width: int, following: V, far: int) -> None:
        mixed = ((word(i, width) & _UPPER) | (following & _LOWER)).shift_right(1)
        mixed = mixed ^ (following & 1).differs(0).where(f.const(_MATRIX, I32, width), 0)
        f.store(word(i + far, width) ^ mixed, f.offset(state, i * 4))

    for start, stop, far in ((0, WORDS - _FAR, _FAR), (WORDS - _FAR, WORDS - 1, _FAR - WORDS)):
        whole = start + ((stop - start) & -_LANES)
        for begin, end, width in ((start, whole, _LANES), (whole, stop, 0)):

            def one(i: V, width: int = width, far: int = far) -> None:
                step(i, width, word(i + 1, width), far)

            loop(f, f.const(begin, I64), f.const(end, I64), max(1, width), one)
    step(f.const(WORDS - 1, I64), 0, word(f.const(0, I64), 0), _FAR - WORDS)
