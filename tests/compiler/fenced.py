"""Arrays whose memory ends, or begins, at a page that nobody may touch, and calls of kernels and optimizers with them.

As a program, it runs cases in a process of its own: a read or write outside of an array ends the process, and the file
of the case's name says which it was.

    python -m tests.compiler.fenced NAMES FAMILY PART PARTS MOST START
"""

from __future__ import annotations

import ctypes
import itertools
import mmap
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

PAGE = mmap.PAGESIZE
_mprotect = ctypes.CDLL(None).mprotect
_mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_CANARY = 0xA5


class Impossible(Exception):
    """A case that the library refuses to make."""


def memory(nbytes: int, at_end: bool, shift: int = 0) -> np.ndarray:
    """Return bytes between two protected pages, that end (or begin) at one, but for `shift` bytes."""
    size = -(-(nbytes + shift) // PAGE) * PAGE or PAGE
    pages = mmap.mmap(-1, size + 2 * PAGE)
    whole = np.frombuffer(pages, np.uint8)
    whole[:] = _CANARY
    for first in (0, size + PAGE):
        if _mprotect(whole.ctypes.data + first, PAGE, 0):
            raise OSError("mprotect")
    start = PAGE + (size - nbytes - shift if at_end else shift)
    return whole[start : start + nbytes]


def fenced(x: np.ndarray, at_end: bool = True, shift: int = 0) -> np.ndarray:
    """Return a copy of an array in its layout, in memory between protected pages."""
    if not x.size:
        return x.copy()
    reach = [(n - 1) * s for n, s in zip(x.shape, x.strides, strict=True)]
    low, high = sum(r for r in reach if r < 0), sum(r for r in reach if r > 0) + x.itemsize
    found = memory(high - low, at_end, shift)
    copy = np.ndarray(x.shape, x.dtype, found, -low, x.strides)
    copy[...] = x
    if not x.flags.writeable:
        copy.flags.writeable = False
    return copy


def new(at_end: bool) -> Callable[..., np.ndarray]:
    """Return what stands for np.empty: it makes fenced arrays."""

    def empty(shape: Any, dtype: Any = np.float64) -> np.ndarray:
        shape, dtype = ((shape,) if isinstance(shape, (int, np.integer)) else tuple(shape)), np.dtype(dtype)
        found = np.empty(shape, dtype)
        return found if not found.size else fenced(np.zeros(shape, dtype), at_end)

    return empty


# -- what is changed in a call


def _of_sizes(x: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    yield "as it is", x
    if x.ndim:
        yield "shorter", x[:-1].copy()
        yield "one", x.reshape(-1)[:1].copy()
        yield "half", x.reshape(-1)[: x.size // 2].copy()
        yield "twice", np.concatenate([x, x])
        yield "last dimension shorter", x[..., :-1].copy()
        yield "last dimension twice", np.concatenate([x, x], -1)
        yield "nothing", x[:0].copy()
        yield "flat", x.reshape(-1).copy()
        yield "number", x.reshape(-1)[0].copy() if x.size else np.zeros((), x.dtype)
    yield "another dimension", x[None].copy()


def _of_layouts(x: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    if x.ndim > 1:
        yield "transposed", x.T.copy().T
        yield "transposed shape", x.T.copy()
        wide = np.zeros((*x.shape[:-1], x.shape[-1] + 3), x.dtype)
        wide[..., :-3] = x
        yield "with gaps", wide[..., :-3]
    if x.ndim and x.size:
        far = np.zeros((*x.shape[:-1], 2 * x.shape[-1]), x.dtype)
        far[..., ::2] = x
        yield "every second", far[..., ::2]
        yield "backwards", x[::-1].copy()[::-1]
        yield "expanded", np.broadcast_to(x.reshape(-1)[:1].reshape((1,) * x.ndim), x.shape)
        yield "expanded rows", np.broadcast_to(x[:1], x.shape)
    only = x.copy()
    only.flags.writeable = False
    yield "read-only", only


def _of_dtypes(x: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    kinds = {"f": "f2 f4 f8 >f4 >f8 c8 i8", "i": "i4 i8 >i8 u1 f4", "u": "u4 i8 >u4", "b": "u1 f4"}
    for kind in kinds.get(x.dtype.kind, "").split():
        if np.dtype(kind) != x.dtype:
            yield f"dtype {kind}", x.astype(kind)


def _of_indices(x: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    if x.dtype == np.int64 and x.size:
        for place, value in itertools.product((0, -1), (-1, 1 << 20, 1 << 62, -(1 << 62), -(1 << 20))):
            changed = x.copy()
            changed.reshape(-1)[place] = value
            yield f"index {value} at {place}", changed


def changed_arrays(x: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """Yield an array and what may stand in its place, each with what was changed."""
    for change in (_of_sizes, _of_layouts, _of_dtypes, _of_indices):
        yield from change(x)


def _changed_numbers(x: Any) -> Iterator[Any]:
    if x.__class__ is int:
        yield from (x + 1, x - 1, 0, 7)
    elif x.__class__ is bool:
        yield not x
    elif x.__class__ is tuple and x and all(n.__class__ is int for n in x):
        yield from ((x[0] + 1, *x[1:]), x[1:], (*x, 1))


class Case:
    """One call with arguments of which some are changed.

    Args:
        name: says all of it.
        args: the arguments; arrays are copied for each run.
    """

    def __init__(self, name: str, args: list[Any], shift: int = 0) -> None:
        self.name, self.args, self.shift = name, args, shift

    def copies(self, place: Callable[[np.ndarray], np.ndarray]) -> list[Any]:
        """Return the arguments, with each array as `place` makes it; equal ones are one."""
        made: dict[int, np.ndarray] = {}

        def one(x: Any) -> Any:
            if type(x) is np.ndarray:
                if id(x) not in made:
                    made[id(x)] = place(x)
                return made[id(x)]
            if type(x) in (list, tuple) and any(type(y) is np.ndarray for y in x):
                return type(x)(map(one, x))
            return deepcopy(x) if hasattr(x, "seed_value") is False else _stream()

        return [one(x) for x in self.args]


def _stream() -> Any:
    from gradloom.kernels.random.streams import Stream

    return Stream(3)


def cases_of(name: str, args: tuple[Any, ...]) -> Iterator[Case]:
    """Yield the cases of one recorded call."""
    arrays = [i for i, x in enumerate(args) if type(x) is np.ndarray]
    for i in arrays:
        for what, x in changed_arrays(args[i]):
            yield Case(f"{name}: argument {i} {what}", [x if j == i else y for j, y in enumerate(args)])
        yield Case(f"{name}: argument {i} not aligned", [*args], 1)
        yield Case(f"{name}: argument {i} missing", [None if j == i else y for j, y in enumerate(args)])
        for k in arrays:
            if k > i:
                swapped = list(args)
                swapped[i], swapped[k] = swapped[k], swapped[i]
                yield Case(f"{name}: arguments {i} and {k} exchanged", swapped)
                same = list(args)
                same[k] = same[i]
                if not name.rpartition(".")[2].startswith("_"):  # kernels of their own get arrays of their own
                    yield Case(f"{name}: argument {i} also as {k}", same)
    alike = [i for i in arrays if args[i].shape == args[arrays[0]].shape]
    if len(alike) > 1:
        together = [dict(changed_arrays(args[i])) for i in alike]
        for what in together[0]:
            if all(what in x for x in together):
                new = {i: x[what] for i, x in zip(alike, together, strict=True)}
                yield Case(f"{name}: arguments {alike} {what}", [new.get(j, y) for j, y in enumerate(args)])
    for i, x in enumerate(args):
        for value in _changed_numbers(x):
            yield Case(f"{name}: argument {i} {value}", [value if j == i else y for j, y in enumerate(args)])


# -- calls of kernels


def recorded_calls(most: int) -> dict[str, list[tuple[Any, ...]]]:
    """Return arguments with which programs call the kernels that machine code replaces, by their places: for each place
    at most so many calls with arguments of different kinds."""
    import gradloom as torch
    from gradloom.compiler import _eager

    from .eager_calls import places, set_large
    from .test_set_kernels import CALLS, LARGE_CALLS, results

    set_large(64, setattr)
    found: dict[str, list[tuple[Any, ...]]] = {place: [] for place in places()}
    kinds: dict[str, set[Any]] = {place: set() for place in places()}

    def recording(place: str, make: Any) -> Any:
        def made(original: Any) -> Any:
            kernel = make(original)

            def replaced(*args: Any, **named: Any) -> Any:
                kind = tuple([(x.shape, x.dtype.char) if type(x) is np.ndarray else type(x) for x in args])
                if not named and len(found[place]) < most and kind not in kinds[place]:
                    kinds[place].add(kind)
                    found[place].append(tuple([x.copy() if type(x) is np.ndarray else x for x in args]))
                return kernel(*args, **named)

            return replaced

        return made

    table = _eager.replaced()
    before = {module: dict(makes) for module, makes in table.items()}
    for module, makes in table.items():
        for name, make in makes.items():
            makes[name] = recording(f"{module}.{name}", make)
    with torch.set_kernels("llvm"):
        for call in (*CALLS.values(), *LARGE_CALLS.values()):
            results(call, torch.float32)
    for module, makes in before.items():
        table[module].update(makes)
    _eager._made.clear()
    return {place: calls for place, calls in found.items() if calls}


# Their arguments are no arrays; programs on fenced arrays call them.
_OF_TENSORS = ("generated.functions", "core.engine", "dispatch.state")


def kernel_cases(most: int) -> Iterator[tuple[str, Callable[[bool], None]]]:
    """Yield the cases of all kernels, with functions that run them at the end, or the beginning, of memory."""
    from gradloom.compiler import _eager

    for place, calls in recorded_calls(most).items():
        if place.startswith(_OF_TENSORS):
            continue
        module, _, name = place.rpartition(".")
        for number, args in enumerate(calls):
            for case in cases_of(f"{place} {number}", args):
                yield case.name, lambda at_end, case=case, of=(module, name): compare(case, *of, at_end)
    del _eager


def compare(case: Case, module: str, name: str, at_end: bool) -> None:
    """Run a case by NumPy's kernel and, on fenced arrays, by machine code, and compare results and arguments.

    NumPy's kernels make their results of zeros: where a case has more rows than are computed, the others are not
    written.
    """
    import gradloom as torch
    from gradloom.compiler import _eager

    place = _eager.place_of(module)
    plain = case.copies(lambda x: fenced(x, True, case.shift))
    with patch.object(np, "empty", np.zeros):
        expected = _outcome(getattr(place, name), plain)
    with torch.set_kernels("llvm"), allocating(new(at_end)), patch.object(np, "empty", np.zeros):
        for _ in range(2):  # a pointwise kernel sees NumPy's result first
            given = case.copies(lambda x: fenced(x, at_end, case.shift))
            found = _outcome(getattr(place, name), given)
    if module.endswith("Stream") and type(found) is type(expected) is np.ndarray:
        found = found.astype(expected.dtype)  # words are of 32 or 64 bits, as is faster
    assert_same(found, expected)
    if not isinstance(expected, Exception):
        assert_same([x for x in given if type(x) is np.ndarray], [x for x in plain if type(x) is np.ndarray])


@contextmanager
def allocating(empty: Callable[..., np.ndarray]) -> Iterator[None]:
    """Let replacements of kernels make their results by `empty`."""
    modules = [m for name, m in sys.modules.items() if name.startswith("gradloom.compiler._eager")]
    modules = [m for m in modules if getattr(m, "empty", None) is np.empty]
    for m in modules:
        m.empty = empty
    try:
        yield
    finally:
        for m in modules:
            m.empty = np.empty


def _outcome(function: Callable[..., Any], args: list[Any]) -> Any:
    with np.errstate(all="ignore"):
        try:
            return function(*args)
        except Exception as error:
            return error


def assert_same(found: Any, expected: Any) -> None:
    """Compare what two calls returned or raised."""
    if isinstance(expected, Exception):
        assert type(found) is type(expected), f"{found!r} instead of {expected!r}"
        return
    assert not isinstance(found, Exception), f"{found!r} instead of a result"
    if type(expected) in (tuple, list):
        assert type(found) in (tuple, list) and len(found) == len(expected)
        for a, b in zip(found, expected, strict=True):
            assert_same(a, b)
    elif isinstance(expected, (np.ndarray, np.generic)):
        assert found.shape == expected.shape and found.dtype == expected.dtype, (found, expected)
        if expected.dtype.kind in "fc":
            epsilon = np.finfo(expected.dtype).eps
            finite = np.abs(expected[np.isfinite(expected)])
            size = max(1.0, float(finite.max())) if finite.size else 1.0
            np.testing.assert_allclose(found, expected, rtol=200 * epsilon, atol=200 * epsilon * size)
        else:
            np.testing.assert_array_equal(found, expected)


# -- programs, and steps of optimizers


def program_cases(most: int) -> Iterator[tuple[str, Callable[[bool], None]]]:
    """Yield calls of operators on fenced tensors, with their gradients."""
    import gradloom as torch

    from .eager_calls import set_large
    from .test_set_kernels import CALLS, LARGE_CALLS

    set_large(64, setattr)

    def run(call: Callable[[Any], Any], place: Callable[[np.ndarray], np.ndarray], dtype: Any) -> list[Any]:
        torch.manual_seed(3)
        x = torch.from_numpy(place(torch.randn(12, 37, dtype=dtype).numpy())).requires_grad_()
        y = call(x)
        gradient = torch.from_numpy(place(torch.randn_like(y).numpy()))
        y.backward(gradient, retain_graph=True)
        first, x.grad = x.grad, None
        y.sum().backward()
        return [y.detach().numpy(), first.numpy(), x.grad.numpy()]

    for (name, call), dtype in itertools.product({**CALLS, **LARGE_CALLS}.items(), (torch.float32, torch.float64)):

        def case(at_end: bool, call: Any = call, dtype: Any = dtype) -> None:
            expected = run(call, np.copy, dtype)
            with torch.set_kernels("llvm"), allocating(new(at_end)):
                for _ in range(2):
                    found = run(call, lambda x: fenced(x, at_end), dtype)
            assert_same(found, expected)

        yield f"program {name} {dtype}", case


def _placed(at_end: bool, x: np.ndarray, shift: int = 0) -> np.ndarray:
    return fenced(x, at_end, shift)


def optimizer_cases(most: int) -> Iterator[tuple[str, Callable[[bool], None]]]:
    """Yield steps of optimizers whose states, gradients or parameters are changed."""
    import gradloom as torch

    from .test_updates import OPTIMIZERS

    def prepared(kind: str, options: dict[str, Any]) -> tuple[Any, list[Any]]:
        torch.manual_seed(1)
        mine = [torch.randn(s).requires_grad_() for s in ((33, 7), (40,))]
        optimizer = getattr(torch.optim, kind)(mine, **{"lr": 0.01, **options})
        for _ in range(2):
            for p in mine:
                p.grad = torch.randn(p.shape)
            optimizer.step()
        for p in mine:
            p.grad = torch.randn(p.shape)
        return optimizer, mine

    def stepped(how: str, kind: str, options: dict[str, Any], key: str, what: str, place: Any, shift: int) -> list[Any]:
        optimizer, mine = prepared(kind, options)
        p, other = mine
        x = {"parameter": p.detach(), "gradient": p.grad}.get(key)
        x = optimizer.state[p][key] if x is None else x
        if what == "shared":
            new = optimizer.state[other].get(key, other.grad).numpy().repeat(9)[: x.numel()].reshape(x.shape)
            for tensor in (p, other):
                t = torch.from_numpy(place(new.reshape(-1)[: tensor.numel()].reshape(tensor.shape)))
                new = t.numpy()
                _put(optimizer, tensor, key, t)
        elif what == "as the gradient":
            _put(optimizer, p, key, p.grad)
        elif what == "as the parameter":
            _put(optimizer, p, key, p.detach())
        else:
            changes = dict(changed_arrays(x.numpy()))
            if what == "backwards":
                raise Impossible
            _put(optimizer, p, key, torch.from_numpy(place(changes[what], shift)))
        steps = {"eager": optimizer.step, "set_kernels": optimizer.step}
        step = steps.get(how) or torch.compile(optimizer.step, backend="llvm")
        outcome: Any = None
        try:
            with torch.set_kernels("llvm" if how == "set_kernels" else "numpy"):
                step()
        except Exception as error:
            outcome = error
        values = [t.detach().numpy() for t in mine]
        values += [v.numpy() for s in optimizer.state.values() for v in s.values() if isinstance(v, torch.Tensor)]
        return [outcome, *values]

    def _put(optimizer: Any, p: Any, key: str, value: Any) -> None:
        try:
            if key == "parameter":
                p.data = value
            elif key == "gradient":
                p.grad.data = value
            else:
                optimizer.state[p][key] = value
        except (RuntimeError, TypeError) as error:
            raise Impossible from error

    for number, (kind, options) in enumerate(OPTIMIZERS):
        optimizer, (p, _) = prepared(kind, options)
        keys = [k for k, v in optimizer.state[p].items() if isinstance(v, torch.Tensor) and v.shape == p.shape]
        for key in (*keys, "gradient", "parameter"):
            names = [name for name, x in changed_arrays(p.detach().numpy()) if x.dtype.str[0] != ">"]
            for what in (*names, "not aligned", "shared", "as the gradient", "as the parameter"):
                if key == "gradient" and "as the" in what or key == "parameter" and "as the" in what:
                    continue
                for how in ("set_kernels", "compile") if number % 4 == 0 or most > 2 else ("set_kernels",):

                    def case(at_end: bool, key: str = key, what: str = what, how: str = how, kind: str = kind,
                             options: Any = options) -> None:  # fmt: skip
                        shift, change = (1, "as it is") if what == "not aligned" else (0, what)

                        place = partial(_placed, at_end)
                        expected = stepped("eager", kind, options, key, change, place, shift)
                        found = stepped(how, kind, options, key, change, place, shift)
                        if isinstance(expected[0], Exception):
                            assert type(found[0]) is type(expected[0]), f"{found[0]!r} instead of {expected[0]!r}"
                        else:
                            assert found[0] is None, f"{found[0]!r} instead of a result"
                        for a, b in zip(found[1:], expected[1:], strict=True):
                            if expected[0] is None or a.ndim:  # after an error, steps may have been counted
                                np.testing.assert_array_equal(a, b)

                    yield f"{kind} {options} {key} {what} {how}", case


FAMILIES = {"kernels": kernel_cases, "programs": program_cases, "optimizers": optimizer_cases}


def main(names: str, family: str, part: str, parts: str, most: str, start: str) -> int:
    """Run the cases of a part of a family; write the name of each to a file before it runs, and failures to stdout."""
    count = failed = 0
    with Path(names).open("w", 1) as file:
        for name, case in FAMILIES[family](int(most)):
            if zlib.crc32(name.encode()) % int(parts) != int(part):
                continue
            for at_end in (True, False):
                count += 1
                if count <= int(start):
                    continue
                file.write(f"{count} {name}, {'end' if at_end else 'beginning'}\n")
                try:
                    case(at_end)
                except Impossible:
                    count -= 1
                except Exception as error:
                    failed += 1
                    print(f"{name}: {type(error).__name__}: {str(error)[:300]}", flush=True)
    print(f"{count} cases, {failed} failed")
    return int(failed > 0)


if __name__ == "__main__":
    import warnings

    warnings.simplefilter("ignore")
    sys.exit(main(*sys.argv[1:]))
