"""Draw calls of the array API standard, and run them through one library's namespace.

    python -m tests.conformance.array_api_calls LIBRARY COUNT SEED FILE

LIBRARY is "strict" (array_api_strict, the reference), "PyTorch", or "gradloom", each of the latter two through
array_api_compat.torch. COUNT calls are drawn for every function and operator that array_api_strict has; the same seed
gives the same calls. FILE gets the pickled outcomes: name -> [(call, "value" | "error", outcome)].
"""

from __future__ import annotations

import inspect
import operator
import pickle
import random
import sys
import types
import warnings
from importlib import import_module

import numpy as np

DTYPES = """bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64 complex64 complex128""".split()
FLOATS = DTYPES[-4:]
OFTEN = [
    *DTYPES,
    *[name for name in DTYPES if name not in ("uint16", "uint32", "uint64")] * 4,
]  # PyTorch lacks most of theirs
SHAPES = [(), (1,), (3,), (0,), (2, 3), (3, 1), (2, 1, 3), (0, 2), (4, 3, 2), (3, 3)]
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 1.5, np.inf, -np.inf, np.nan, 1e-30, 1e30, 3.0, np.pi]
OPERATORS = """
    add sub mul truediv floordiv mod pow and_ or_ xor lshift rshift lt le gt ge eq ne matmul iadd isub imul itruediv
    ifloordiv imod ipow iand ior ixor ilshift irshift neg pos invert abs getitem setitem
    """.split()
MEMBERS = ["T", "mT", "size", "ndim", "shape", "dtype", "device", "__bool__", "__int__", "__float__", "__complex__"]
MEMBERS += ["__index__", "__len__", "__dlpack_device__"]
WHOLE_NUMBERS = {"num": (0, 5), "n_rows": (0, 4), "n_cols": (0, 4), "k": (-4, 5), "offset": (-3, 4), "n": (1, 5)}
WORDS = {
    "norm": ["backward", "ortho", "forward"],
    "indexing": ["xy", "ij"],
    "mode": ["reduced", "complete"],
    "side": ["left", "right"],
    "ord": ["fro", "nuc", 1, -1, 2, -2, float("inf"), float("-inf")],
}
KINDS = ["bool", "signed integer", "unsigned integer", "integral", "real floating", "complex floating", "numeric"]


class Dtype(str):
    """The name of a dtype; each library has its own object."""


def functions() -> dict[str, inspect.Signature]:
    """Return the signatures of the standard's functions by dotted name."""
    strict = import_module("array_api_strict")
    found = {}
    for space in ("", "linalg.", "fft."):
        module = getattr(strict, space[:-1]) if space else strict
        for name in module.__all__:
            value = getattr(module, name)
            if isinstance(value, types.FunctionType) and not name.startswith(("__", "get_", "set_", "reset_")):
                found[space + name] = inspect.signature(value)
    return found


class Draw:
    """Arguments for one function, by the names of its parameters."""

    def __init__(self, name: str, seed: str):
        self.name, self.rng = name, random.Random(f"{seed} {name}")
        self.numbers = np.random.default_rng(self.rng.randrange(2**32))
        self.base = name.rpartition(".")[2]
        self.dtype, self.shape, self.given = "float64", (), {}

    def call(self, signature: inspect.Signature) -> tuple[list, dict]:
        self.dtype = self.rng.choice(FLOATS if "." in self.name and self.rng.random() < 0.8 else OFTEN)
        self.shape, self.given = self.rng.choice(SHAPES), {}
        args, kwargs = [], {}
        for name, parameter in signature.parameters.items():
            optional = parameter.default is not parameter.empty
            if name == "device" or (optional and self.rng.random() < 0.4):
                if name != "device" and parameter.kind is parameter.POSITIONAL_ONLY:
                    break
                continue
            value = self.given[name] = self.value(name, parameter)
            if parameter.kind is parameter.VAR_POSITIONAL:
                args.extend(value)
            elif parameter.kind is parameter.POSITIONAL_ONLY:
                args.append(value)
            elif parameter.kind is parameter.POSITIONAL_OR_KEYWORD and len(args) == len(self.given) - 1:
                args.append(value)
            else:
                kwargs[name] = value
        return args, kwargs

    def value(self, name: str, parameter: inspect.Parameter):
        made = getattr(self, f"_{self.base}_{name}", None) or getattr(self, f"_{name}", None)
        if made is not None:
            return made()
        if name in WORDS:
            return self.rng.choice(WORDS[name])
        if name in WHOLE_NUMBERS:
            return self.rng.randrange(*WHOLE_NUMBERS[name])
        if isinstance(parameter.default, bool) or name == "copy":
            return self.rng.random() < 0.5
        raise NotImplementedError(f"{self.name}: no values for {name}: {parameter}")

    def array(self, shape, dtype: str | None = None, plain: bool = False) -> np.ndarray:
        """Return values of a dtype: with infinities, NaN and extreme integers, or `plain`."""
        kind = np.dtype(dtype or self.dtype)
        size = int(np.prod(shape))
        if kind.kind == "b":
            values = self.numbers.integers(0, 2, size)
        elif kind.kind in "iu":
            low = 0 if kind.kind == "u" else -6
            values = self.numbers.integers(low, 7, size)
            if not plain and size and self.rng.random() < 0.2:
                values = values.astype(kind)
                values[self.rng.randrange(size)] = self.rng.choice([np.iinfo(kind).max, np.iinfo(kind).min])
        else:
            values = self.numbers.normal(size=size) * 2
            if kind.kind == "c":
                values = values + 1j * self.numbers.normal(size=size)
            for i in range(0 if plain or self.rng.random() < 0.5 else size):
                if self.rng.random() < 0.4:
                    one, other = self.rng.choice(SPECIAL), self.rng.choice(SPECIAL)
                    values[i] = complex(one, other) if kind.kind == "c" else one
        return values.astype(kind).reshape(shape)

    def another_dtype(self) -> str:
        kind = np.dtype(self.dtype).kind.replace("u", "i")
        alike = [name for name in OFTEN if np.dtype(name).kind.replace("u", "i") == kind]
        return self.rng.choice(alike if self.rng.random() < 0.8 else OFTEN)

    def scalar(self):
        kind = np.dtype(self.dtype).kind
        number = self.rng.randrange(4)
        return {"b": bool(number), "f": number - 1.5, "c": complex(number, -1)}.get(kind, number)

    # Arrays.
    def _x(self):
        if self.name.startswith("linalg."):
            return self.matrix()
        elementwise = len(self.given) == 0 and self.base not in ("mean", "var", "std", "sum", "prod", "cumulative_prod")
        return self.array(self.shape, plain=not elementwise or self.name.startswith("fft."))

    def matrix(self):
        """Return well-conditioned matrices: square, Hermitian and positive definite where the function needs it."""
        batch, rows = self.rng.choice([(), (2,), (2, 1), (0,)]), self.rng.choice([1, 2, 3, 3])
        square = self.base in "cholesky det eig eigvals eigh eigvalsh inv matrix_power slogdet solve".split()
        self.shape = (*batch, rows, rows if square or self.rng.random() < 0.3 else self.rng.choice([1, 2, 4]))
        if self.base in ("vector_norm", "diagonal", "trace"):
            return self.array(self.shape, plain=True)
        x = self.array(self.shape, plain=True)
        if square:
            if self.base in ("cholesky", "eigh", "eigvalsh"):
                x = x @ x.conj().swapaxes(-1, -2)
            x = (x + (np.arange(1, rows + 1) * 3 * np.eye(rows))).astype(x.dtype)
        return x

    def _x1(self):
        shapes = {"cross": [(3,), (2, 3), (1, 3)], "outer": [(3,), (1,), (0,)], "searchsorted": [(4,), (1,), (0,)]}
        if self.base == "solve":
            return self.matrix()
        self.shape = self.rng.choice(shapes.get(self.base, SHAPES))
        if self.base == "searchsorted":
            return np.sort(self.array(self.shape, plain=True))
        if self.base in ("matmul", "tensordot", "vecdot", "cross", "outer"):
            return self.array(self.shape, plain=True)
        plain = self.base == "pow" and self.dtype.startswith("complex")
        return self.scalar() if self.rng.random() < 0.1 else self.array(self.shape, plain=plain)

    def _x2(self):
        dtype, shape = self.another_dtype(), self.shape
        if self.base == "outer":
            return self.array(self.rng.choice([(2,), (3,)]), dtype, plain=True)
        if self.base == "solve":
            tail = self.rng.choice([(), (1,), (3,)])
            return self.array((*(shape[:-1] if tail else shape[-1:]), *tail), dtype, plain=True)
        if self.base == "matmul" and 0 in shape:  # PyTorch takes any other dtype then
            dtype = self.dtype
        if self.base == "matmul" and shape:
            return self.array(self.rng.choice([(shape[-1],), (shape[-1], 2), (2, shape[-1], 1)]), dtype, plain=True)
        if self.base in ("tensordot", "vecdot", "cross"):
            return self.array(shape[::-1] if self.base == "tensordot" else shape, dtype, plain=True)
        if self.rng.random() < 0.25 and isinstance(self.given["x1"], np.ndarray):
            return self.scalar()
        other = self.rng.choice([shape, (), (1,), shape[-1:], (1,) * len(shape)])
        plain = np.dtype(self.dtype).kind == "c" and self.base in ("pow", "ipow")
        shifts = "shift" in self.base and np.dtype(dtype).kind in "iu"
        return abs(self.array(other, dtype, plain=True)) if shifts else self.array(other, dtype, plain)

    def _where_x1(self):
        return self.scalar() if self.rng.random() < 0.2 else self.array(self.shape)

    def _condition(self):
        return self.array(self.rng.choice([self.shape, ()]), "bool")

    def _arrays(self):
        count = self.rng.randrange(1, 4)
        if self.base == "meshgrid":
            return [self.array((size,), plain=True) for size in self.rng.choices([0, 1, 2, 3], k=count)]
        return [self.array(self.shape, plain=True) for _ in range(count)]

    def _shapes(self):
        return [self.shape, self.shape[-1:], ()]

    def _arrays_and_dtypes(self):
        kinds = [self.dtype, self.another_dtype(), self.another_dtype()][: self.rng.randrange(1, 4)]
        return [self.array((2,), kind) if self.rng.random() < 0.5 else Dtype(kind) for kind in kinds]

    def _obj(self):
        return self.rng.choice([self.array(self.shape), self.array(self.shape).tolist(), self.scalar()])

    def _indices(self):
        axis = self.rng.randrange(len(self.shape)) if self.shape else 0
        size = self.shape[axis] if self.shape else 1
        self.given["chosen axis"] = axis
        shape = (2,) if self.base == "take" else (*self.shape[:axis], 2, *self.shape[axis + 1 :])
        return self.numbers.integers(-size, max(size, 1), shape) if size else np.zeros((0,), np.int64)

    def _sorter(self):
        return np.arange(self.given["x1"].shape[0])

    # Dimensions.
    def one_axis(self):
        return self.rng.randrange(-len(self.shape), len(self.shape)) if self.shape else 0

    def some_axes(self):
        axes = self.rng.sample(range(len(self.shape)), self.rng.randrange(len(self.shape) + 1))
        return tuple([a - len(self.shape) if self.rng.random() < 0.3 else a for a in axes])

    def _axis(self):
        if "chosen axis" in self.given:
            return self.given["chosen axis"]
        many = "all any count_nonzero max min mean prod std sum var flip vector_norm".split()
        if self.base == "roll" and isinstance(self.given["shift"], tuple):
            return tuple([self.one_axis() for _ in self.given["shift"]])
        if self.base == "squeeze":
            ones = [i for i, size in enumerate(self.shape) if size == 1]
            return self.rng.choice([*ones, tuple(ones)]) if ones else 0
        if self.base in many:
            return self.rng.choice([None, self.one_axis(), self.some_axes()])
        return None if self.base in ("argmax", "argmin", "repeat") and self.rng.random() < 0.3 else self.one_axis()

    _source = _destination = one_axis

    def _axes(self):
        if self.base == "permute_dims":
            return tuple(self.rng.sample(range(len(self.shape)), len(self.shape)))
        if self.base == "tensordot":
            count = self.rng.randrange(len(self.shape) + 1)
            return count if count < 2 else ([-1], [0])
        return self.some_axes() or None

    def _s(self):
        return tuple([self.rng.randrange(1, 5) for _ in self.shape]) or None

    # Numbers and shapes.
    def _shape(self):
        size = int(np.prod(self.shape))
        if self.base == "reshape":
            return self.rng.choice([(size,), (-1,), (1, size), self.shape[::-1]])
        if self.base == "broadcast_to":
            return (2, *self.shape)
        return self.rng.choice([self.shape, 3])

    def _dtype(self):
        return Dtype(self.another_dtype())

    _from_ = _to = _type = _dtype

    def _kind(self):
        return self.rng.choice([*KINDS, Dtype(self.dtype), (KINDS[0], KINDS[3])])

    def _min(self):
        return self.scalar() if self.rng.random() < 0.6 else self.array(self.shape[-1:], plain=True)

    _max = _prepend = _append = _min

    def _fill_value(self):
        return self.scalar()

    def _repeats(self):
        return self.rng.randrange(4)

    def _repetitions(self):
        return tuple([self.rng.randrange(3) for _ in range(self.rng.randrange(1, 4))])

    def _shift(self):
        return self.rng.choice([2, -1, 0, (1, -1), (1,)])

    def _start(self):
        return self.rng.choice([0, 1, -3, 0.5, 10])

    def _stop(self):
        return self.rng.choice([4, -2, 2.5, 7])

    def _step(self):
        return self.rng.choice([1, 2, -1, 0.5])

    def _d(self):
        return self.rng.choice([1.0, 0.25])

    def _correction(self):
        return self.rng.choice([0, 1, 1.0, 0.0])

    def _rtol(self):
        return 1e-3

    def _vector_norm_ord(self):
        return self.rng.choice([0, 1, 2, 3.5, float("inf"), float("-inf"), -1])


def operator_call(name: str, seed: str, number: int) -> tuple[list, dict]:
    """Draw arguments of a function of the module `operator`."""
    draw = Draw(name, f"{seed} {number}")
    draw.dtype, draw.shape = draw.rng.choice(OFTEN), draw.rng.choice(SHAPES)
    if name in ("getitem", "setitem"):
        x = draw.array(draw.shape)
        parts = [draw.rng.choice([slice(None), slice(None, 1), slice(1, None, 2), 0, -1]) for _ in draw.shape]
        mask = draw.array(draw.shape, "bool")
        index = draw.rng.choice([tuple(parts), (*parts[:1], ...), (None, ...), mask, ...])
        if name == "getitem":
            return [x, index], {}
        return [x, index, draw.scalar()], {}
    if name in ("neg", "pos", "invert", "abs"):
        return [draw.array(draw.shape)], {}
    draw.base = "matmul" if name == "matmul" else "shift" if "shift" in name else name
    # PyTorch's own powers of complex infinities and NaN depend on the position in the array.
    draw.given["x1"] = draw.array(draw.shape, plain=name in ("pow", "ipow") and draw.dtype.startswith("complex"))
    return [draw.given["x1"], draw._x2()], {}


def calls(count: int, seed: str):
    """Yield (name, arguments, keywords), `count` for every function and operator and a few for every member."""
    for name, signature in functions().items():
        if name not in ("empty", "empty_like"):  # they give memory as it is
            draw = Draw(name, seed)
            for _ in range(count):
                yield (name, *draw.call(signature))
    for name in OPERATORS:
        for number in range(count):
            yield (f"operator.{name}", *operator_call(name, seed, number))
    for name in MEMBERS:
        for number in range(count):
            draw = Draw(name, f"{seed} {number}")
            draw.dtype = draw.rng.choice(OFTEN)
            yield f"Array.{name}", [draw.array(draw.rng.choice([(), (1,), (2, 3), (3, 3, 2)]))], {}


class Library:
    """One namespace, which takes drawn arguments and gives plain results."""

    def __init__(self, name: str):
        if name == "gradloom":
            import_module("gradloom.as_torch")
        module = "array_api_strict" if name == "strict" else "array_api_compat.torch"
        self.xp = import_module(module)
        self.torch = None if name == "strict" else import_module("torch")

    def function(self, name: str):
        space, _, base = name.rpartition(".")
        if space == "operator":
            return self._setitem if base == "setitem" else getattr(operator, base)
        if space == "Array":
            return lambda x: getattr(x, base)() if callable(getattr(x, base)) else getattr(x, base)
        return getattr(getattr(self.xp, space) if space else self.xp, base)

    @staticmethod
    def _setitem(x, index, value):
        x[index] = value
        return x

    def array(self, value: np.ndarray):
        if self.torch is None:
            return self.xp.asarray(value.copy())
        return self.torch.from_numpy(value.copy())

    def given(self, value):
        if isinstance(value, np.ndarray):
            return self.array(value)
        if isinstance(value, Dtype):
            return getattr(self.xp, value)
        if isinstance(value, (list, tuple)) and not isinstance(value, str):
            return type(value)([self.given(part) for part in value])
        return value

    def plain(self, value):
        """Return a result as NumPy arrays, numbers and names."""
        if isinstance(value, (list, tuple)):
            return [self.plain(part) for part in value]
        if value is None or isinstance(value, (bool, int, float, complex, str)):
            return value
        name = str(value).rpartition(".")[2]
        if name in DTYPES:
            return Dtype(name)
        if type(value).__name__ in ("Tensor", "Array"):
            if self.torch is None:
                return np.asarray(value._array)
            return value.detach().resolve_conj().resolve_neg().numpy().copy()
        if hasattr(value, "eps") or hasattr(value, "max"):
            return {key: float(getattr(value, key)) for key in ("bits", "max", "min", "eps") if hasattr(value, key)}
        return type(value).__name__

    def outcome(self, name: str, args: list, kwargs: dict):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                function = self.function(name)
                result = function(*map(self.given, args), **{key: self.given(one) for key, one in kwargs.items()})
                return "value", self.plain(result)
            except Exception as error:
                return "error", f"{type(error).__name__}: {error}"

    def signature(self, name: str) -> list[tuple[str, str]] | None:
        """Return (name, kind) of a function's parameters; None if it has no signature, as C functions have none."""
        try:
            return [(p.name, p.kind.name) for p in inspect.signature(self.function(name)).parameters.values()]
        except ValueError:
            return None
        except AttributeError:
            return []


def main(library: str, count: str, seed: str, file: str) -> None:
    runner = Library(library)
    outcomes: dict[str, list] = {}
    for name, args, kwargs in calls(int(count), seed):
        outcomes.setdefault(name, []).append(((args, kwargs), *runner.outcome(name, args, kwargs)))
    signatures = {name: runner.signature(name) for name in functions()}
    with open(file, "wb") as out:
        pickle.dump((outcomes, signatures), out)


if __name__ == "__main__":
    np.seterr(all="ignore")
    # The pickle names the classes of this module, not of __main__.
    import_module("tests.conformance.array_api_calls").main(*sys.argv[1:])
