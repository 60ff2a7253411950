"""The language of kernel expressions: their text, and the parts of `xp`, of arrays and of Python that they may use.

All functions listed here compute arrays from arrays: they use no files, no Python callables per element and no global
state, and write to no argument.

`parse_expression` checks brackets, strings and dangling operators before Python's parser sees them, so that these
messages do not depend on the version of Python. `constant_problem`, which formulas share, refuses constants that would
take too long to compute or to print.
"""

from __future__ import annotations

import ast
import inspect
import keyword
import math
import re
import warnings
from collections.abc import Iterable
from functools import cache
from typing import Any

import numpy

from ..errors import SpecError, shorten
from ..reading.yaml_files import Text

SUBMODULES = frozenset({"linalg", "fft"})

CONSTANTS = frozenset({"pi", "e", "euler_gamma", "inf", "nan", "newaxis"})

# The functions of NumPy that compute arrays from arrays, listed one by one: a new version of NumPy adds nothing to the
# language. Excluded are functions that read or write files, call back into Python, keep a state, return text, write to
# an argument or make arrays of Python objects, and those that NumPy 2.0 lacks. tests/codegen/test_security.py compares
# the lists with the installed NumPy's description of each name.
UFUNCS = frozenset(
    """abs absolute acos acosh add arccos arccosh arcsin arcsinh arctan arctan2 arctanh asin asinh atan atan2 atanh
    bitwise_and bitwise_count bitwise_invert bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift
    bitwise_xor cbrt ceil conj conjugate copysign cos cosh deg2rad degrees divide divmod equal exp exp2 expm1
    fabs float_power floor floor_divide fmax fmin fmod frexp gcd greater greater_equal heaviside hypot invert
    isfinite isinf isnan lcm ldexp left_shift less less_equal log log10 log1p log2 logaddexp logaddexp2
    logical_and logical_not logical_or logical_xor matmul maximum minimum mod modf multiply negative nextafter
    not_equal positive pow power rad2deg radians reciprocal remainder right_shift rint sign signbit sin sinh
    spacing sqrt square subtract tan tanh true_divide trunc vecdot""".split()
)

# Ufuncs that NumPy's code for AVX2 computes wrongly (2.4.6) where the elements of the output do not lie side by side:
# `negative` for an input whose stride is as many elements as an element has bytes, the others for 16 elements or more.
WRONG_WITH_GAPS = frozenset({"negative", "isfinite", "signbit"})

DTYPES = frozenset(
    """bool bool_ byte cdouble clongdouble complex128 complex64 complexfloating csingle double float16 float32
    float64 floating half inexact int16 int32 int64 int8 int_ intc integer intp long longdouble longlong number
    short signedinteger single ubyte uint uint16 uint32 uint64 uint8 uintc uintp ulong ulonglong unsignedinteger
    ushort""".split()
)

FUNCTIONS = frozenset(
    """all allclose amax amin angle any append arange argmax argmin argpartition argsort argwhere around array
    array_equal array_equiv array_split asarray ascontiguousarray astype atleast_1d atleast_2d atleast_3d
    average bincount block broadcast_arrays broadcast_shapes broadcast_to can_cast choose clip column_stack
    compress concat concatenate convolve copy corrcoef correlate count_nonzero cov cross cumprod cumsum delete
    diag diag_indices_from diagflat diagonal diff digitize dot dsplit dstack ediff1d einsum einsum_path empty
    empty_like expand_dims extract eye finfo flatnonzero flip fliplr flipud full full_like geomspace gradient
    histogram histogram2d histogram_bin_edges histogramdd hsplit hstack i0 identity iinfo imag indices inner
    insert interp intersect1d isclose iscomplex iscomplexobj isin isneginf isposinf isreal isrealobj issubdtype
    ix_ kron lexsort linspace logspace matrix_transpose max mean median meshgrid mgrid min moveaxis nan_to_num
    nanargmax nanargmin nancumprod nancumsum nanmax nanmean nanmedian nanmin nanpercentile nanprod nanquantile
    nanstd nansum nanvar ndim nonzero ogrid ones ones_like outer packbits pad partition percentile permute_dims
    poly polyadd polyder polydiv polyfit polyint polymul polysub polyval prod promote_types ptp quantile ravel
    ravel_multi_index real real_if_close repeat reshape resize result_type roll rollaxis roots rot90 round
    searchsorted select setdiff1d setxor1d shape sinc size sort sort_complex split squeeze stack std sum
    swapaxes take take_along_axis tensordot tile trace transpose trapezoid tri tril tril_indices_from trim_zeros
    triu triu_indices_from union1d unique unique_all unique_counts unique_inverse unique_values unpackbits
    unravel_index unwrap vander var vdot vsplit vstack where zeros zeros_like""".split()
)

_LINALG = frozenset(
    """cholesky cond cross det diagonal eig eigh eigvals eigvalsh inv lstsq matmul matrix_norm matrix_power
    matrix_rank matrix_transpose multi_dot norm outer pinv qr slogdet solve svd svdvals tensordot tensorinv
    tensorsolve trace vecdot vector_norm""".split()
)

_FFT = frozenset(
    """fft fft2 fftn fftshift hfft ifft ifft2 ifftn ifftshift ihfft irfft irfft2 irfftn rfft rfft2 rfftn""".split()
)

UFUNC_METHODS = frozenset({"accumulate", "outer", "reduce", "reduceat"})

# Attributes of arrays, of their dtypes (kind, itemsize) and of `xp.finfo` and `xp.iinfo` (eps, tiny, min,
# max).
ATTRIBUTES = frozenset(
    """T mT bits dtype eps imag itemsize kind max min ndim real resolution shape size smallest_normal strides
    tiny""".split()
)

METHODS = frozenset(
    """all any argmax argmin argsort astype clip conj conjugate copy cumprod cumsum diagonal dot flatten item
    max mean min nonzero prod ravel repeat reshape round searchsorted squeeze std sum swapaxes take tolist
    trace transpose var view""".split()
)

BUILTINS = frozenset(
    """abs bool complex enumerate float int isinstance len list max min range reversed round sorted sum tuple
    zip""".split()
)

# The ufunc of each operator, by the name of its ast class.
OPERATORS = {
    "Add": "add", "Sub": "subtract", "Mult": "multiply", "Div": "true_divide", "FloorDiv": "floor_divide",
    "Mod": "remainder", "Pow": "power", "MatMult": "matmul", "LShift": "left_shift", "RShift": "right_shift",
    "BitAnd": "bitwise_and", "BitOr": "bitwise_or", "BitXor": "bitwise_xor", "USub": "negative",
    "UAdd": "positive", "Invert": "invert", "Eq": "equal", "NotEq": "not_equal", "Lt": "less",
    "LtE": "less_equal", "Gt": "greater", "GtE": "greater_equal",
}  # fmt: skip

_IN = {"": UFUNCS | DTYPES | FUNCTIONS | CONSTANTS, "linalg": _LINALG, "fft": _FFT}

# Parameters by which a function would write to an array, given by keyword or by position.
_WRITING = ("out", "overwrite_input")
_NAN_TO_NUM = ("nan_to_num", "copy")

# A dtype of Python objects: operations on its elements call their methods.
OBJECT_DTYPE = re.compile(r"(?:.*,)?\s*\d*[<>=|]?O\d*(?:,.*)?|.*object.*", re.IGNORECASE)


def kind_of(path: tuple[str, ...]) -> str | None:
    """Return the kind of `xp.<path>`: 'ufunc', 'function', 'value' (a constant or dtype), 'module'; None if refused."""
    first = path[0]
    if first in SUBMODULES:
        if len(path) == 1:
            return "module"
        return "function" if len(path) == 2 and path[1] in names_in(first) else None
    if len(path) == 1 and first in names_in(""):
        if first in UFUNCS:
            return "ufunc"
        return "value" if first in DTYPES | CONSTANTS else "function"
    is_ufunc = len(path) == 2 and kind_of(path[:1]) == "ufunc"
    return "function" if is_ufunc and path[1] in UFUNC_METHODS else None


# Functions that return several arrays, whatever their arguments; 0 for a list of them.
_RESULTS = {
    **dict.fromkeys("split array_split hsplit vsplit dsplit broadcast_arrays meshgrid nonzero ix_".split(), 0),
    **dict.fromkeys("linalg.eig linalg.eigh linalg.slogdet unique_counts unique_inverse histogram polydiv".split(), 2),
    **dict.fromkeys(("linalg.lstsq", "unique_all"), 4),
}


def results_of(path: tuple[str, ...]) -> int | None:
    """Return the number of arrays that `xp.<path>(...)` returns, 0 for a list; None if the arguments decide."""
    if kind_of(path) == "ufunc":
        return int(getattr(numpy, path[0]).nout)
    return _RESULTS.get(".".join(path))


@cache  # three keys: the namespace itself and its two submodules
def names_in(submodule: str) -> frozenset[str]:
    """Return the functions, dtypes and constants of `xp` or `xp.<submodule>` that the installed NumPy has."""
    module = getattr(numpy, submodule) if submodule else numpy
    return frozenset(name for name in _IN[submodule] if hasattr(module, name))


def written_parameter(path: tuple[str, ...], positional: int, keywords: Iterable[str]) -> str | None:
    """Return the parameter through which a call of `xp.<path>` would write to an array; None if it writes to none."""
    names = _parameters(path)
    for name in (*_WRITING, *_NAN_TO_NUM[1:] * (path[-1] == _NAN_TO_NUM[0])):
        if name in keywords or (name in names and names.index(name) < positional):
            return name
    return None


def _parameters(path: tuple[str, ...]) -> list[str]:
    """Return the positional parameters of a function, as far as NumPy exposes them."""
    if path[-1] in UFUNC_METHODS and len(path) == 2:
        return {"reduce": ["array", "axis", "dtype", "out"], "accumulate": ["array", "axis", "dtype", "out"],
                "reduceat": ["array", "indices", "axis", "dtype", "out"]}.get(path[1], [])  # fmt: skip
    if len(path) == 1 and path[0] in UFUNCS:
        ufunc = getattr(numpy, path[0])
        return [*(f"x{i}" for i in range(ufunc.nin)), *["out"] * ufunc.nout]
    if path in (("dot",), ("concatenate",), ("concat",)):  # written in C, without a signature
        return ["a", "b", "out"]
    module = getattr(numpy, path[0]) if len(path) == 2 else numpy
    function: Any = getattr(module, path[-1], None)
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    return [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]


# PyTorch's names of functions, and of methods and attributes of arrays, with NumPy's.
NUMPY_NAMES = dict(
    pair.split("=")
    for pair in """sub=subtract mul=multiply div=divide neg=negative eq=equal ne=not_equal lt=less le=less_equal
    gt=greater ge=greater_equal cat=concatenate clamp=clip mm=matmul bmm=matmul mv=matmul permute=transpose
    unsqueeze=expand_dims bitwise_neg=invert norm=linalg.norm inv=linalg.inv det=linalg.det solve=linalg.solve
    svd=linalg.svd qr=linalg.qr cholesky=linalg.cholesky eigh=linalg.eigh rfft=fft.rfft float=float64 int=int64
    double=float64 long=int64 cfloat=complex64 gather=take_along_axis index_select=take expand=broadcast_to
    movedim=moveaxis""".split()
)
NUMPY_FORMS = {
    "rsqrt": "write `1 / xp.sqrt(x)`",
    "sigmoid": "write `1 / (1 + xp.exp(-x))`",
    "expit": "write `1 / (1 + xp.exp(-x))`",
    "relu": "write `xp.maximum(x, 0)`",
    "softplus": "write `xp.logaddexp(x, 0)`",
    "silu": "write `x / (1 + xp.exp(-x))`",
    "frac": "write `x - xp.trunc(x)`",
    "lerp": "write `a + w * (b - a)`",
}
ARRAY_MEMBERS = {
    "numel": "write `.size`",
    "nelement": "write `.size`",
    "dim": "write `.ndim`",
    "ndimension": "write `.ndim`",
    "t": "write `.T`",
    "to": "write `.astype(...)`",
    "type": "write `.astype(...)`",
    "float": "write `.astype(xp.float32)`",
    "double": "write `.astype(xp.float64)`",
    "long": "write `.astype(xp.int64)`",
    "permute": "write `.transpose(...)`",
    "clamp": "write `.clip(...)`",
    "clone": "write `.copy()`",
    "view_as": "write `.reshape(...)`",
    "unsqueeze": "write `x[:, None]`",
    "expand": "write `xp.broadcast_to(...)`",
    "is_complex": "write `x.dtype.kind == 'c'`",
    "is_floating_point": "write `x.dtype.kind == 'f'`",
    "H": "write `.T.conj()`",
    "device": "kernels run where their arrays are",
    "stride": "write `.strides`, which counts bytes",
}

LANGUAGE = "a kernel is `family.function`, or an expression of arguments, `xp.<function>(...)` and operators"

MAX_LENGTH = 4000
MAX_BRACKETS = 50
MAX_DEPTH = 100

_CLOSING = {"(": ")", "[": "]", "{": "}"}
_STRING = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\"""")
_FOREIGN = re.compile(r"[^ -~]")
_WORD = re.compile(r"\w+|\S")
_DANGLING = re.compile(r"(\*\*|//|<<|>>|[-+*/%@&|^~<>=!,.:]|\b(?:and|or|not|in|is|if|else|for)\b)\Z")


def parse_expression(text: Text) -> tuple[ast.expr, int]:
    """Parse a Python expression; return its tree and the offset in the value at which its columns start.

    White space in the value, line ends included, separates words only. Raises SpecError for text that is too long, not
    ASCII, nested too deeply or not a single Python expression.
    """
    lead = len(text.value) - len(text.value.lstrip())
    code = text.value.strip().replace("\n", " ")
    if len(code) > MAX_LENGTH:
        raise text.error(f"an expression of {len(code)} characters", f"the limit is {MAX_LENGTH}", lead, 1)
    _check_characters(text, code, lead)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            tree = ast.parse(code, mode="eval").body
    except SyntaxError as error:
        raise _syntax_error(text, code, lead, error) from None
    except (RecursionError, MemoryError, SystemError, ValueError):  # Python 3.11's parser may raise any of these
        tree = None
    if tree is None or _is_deep(tree):
        raise text.error("the expression is nested too deeply", "move it to a named kernel", lead, 1) from None
    return tree, lead


def _is_deep(tree: ast.expr) -> bool:
    """Return whether nodes are nested more than MAX_DEPTH levels; an accepted tree may be walked by recursion."""
    level: list[ast.AST] = [tree]
    for _ in range(MAX_DEPTH):
        level = [child for node in level for child in ast.iter_child_nodes(node)]
        if not level:
            return False
    return True


def _check_characters(text: Text, code: str, lead: int) -> None:
    """Refuse non-ASCII characters, comments, unterminated strings, and brackets that do not match."""
    foreign = _FOREIGN.search(code)
    if foreign is not None:
        char = foreign.group()
        shown = f"`{char}`" if char.isprintable() else f"U+{ord(char):04X}"
        message = f"unexpected character {shown} in an expression"
        raise text.error(message, "use ASCII characters", lead + foreign.start(), 1)
    opened: list[int] = []
    i = 0
    while i < len(code):
        char = code[i]
        if char == "#":
            hint = "put the comment above the entry, or after the value of a key that is not a block"
            raise text.error("a comment in an expression", hint, lead + i, 1)
        if char == "\\":
            hint = "remove it; a value may go on in the next line"
            raise text.error("a backslash in an expression", hint, lead + i, 1)
        if char in "'\"":
            string = _STRING.match(code, i)
            if string is None:
                raise text.error(f"string that {char} opens is not closed", f"close it with {char}", lead + i)
            i = string.end()
            continue
        if char in _CLOSING:
            opened.append(i)
            if len(opened) > MAX_BRACKETS:
                hint = "move it to a named kernel"
                raise text.error(f"more than {MAX_BRACKETS} brackets are open", hint, lead + i, 1)
        elif char in ")]}":
            if not opened:
                raise text.error(f"`{char}` closes nothing", "remove it, or open it before", lead + i, 1)
            wanted = _CLOSING[code[opened.pop()]]
            if char != wanted:
                raise text.error(f"`{char}` where `{wanted}` is expected", f"write `{wanted}`", lead + i, 1)
        i += 1
    if opened:
        bracket = code[opened[-1]]
        hint = f"write `{_CLOSING[bracket]}` where it ends"
        raise text.error(f"`{bracket}` is not closed", hint, lead + opened[-1], 1)


def _syntax_error(text: Text, code: str, lead: int, error: SyntaxError) -> SpecError:
    dangling = _DANGLING.search(code)
    if dangling is not None and error.msg == "invalid syntax":
        word = dangling.group()
        hint = f"write what follows `{word}`, or remove it"
        return text.error(f"nothing follows `{word}`", hint, lead + dangling.start(), len(word))
    offset = min(max((error.offset or 1) - 1, 0), len(code) - 1)
    match = _WORD.match(code, offset)
    length = max(len(match.group()) if match else 1, (error.end_offset or 0) - (error.offset or 0))
    found = shorten(code[offset : offset + length])
    if keyword.iskeyword(found) and found not in ("if", "else", "for", "in", "is", "and", "or", "not"):
        return text.error(f"`{found}` is outside the kernel language", LANGUAGE, lead + offset, length)
    reason = error.msg.split(". ", 1)[0]
    return text.error(f"not an expression at `{found}`: {reason}", LANGUAGE, lead + offset, length)


MAX_BITS = 64  # bits of an integer, and of the result of a power of constants


def constant_problem(node: ast.AST) -> tuple[ast.expr, str, str] | None:
    """Return the error in the constants of a node, as (the part at fault, message, hint); None if there is none. Python
    computes `9 ** 9 ** 9` for hours, and `'a' * 10 ** 10` until memory is full."""
    if isinstance(node, ast.Constant):
        value = node.value
        if isinstance(value, int) and value.bit_length() > MAX_BITS:
            return node, f"a number of {value.bit_length()} bits", f"the limit is {MAX_BITS}; no dtype holds more"
        if isinstance(value, float | complex) and not math.isfinite(abs(value)):
            return node, "a number too large for a float", "write a smaller one"
    if isinstance(node, ast.Compare) and any(isinstance(operator, ast.Is | ast.IsNot) for operator in node.ops):
        for side in (node.left, *node.comparators):
            if isinstance(side, ast.Constant) and not (side.value is None or isinstance(side.value, bool)):
                return side, "`is` with something that is not None", "compare with `==`"
    if isinstance(node, ast.Subscript):
        has_keys = isinstance(node.slice, ast.Constant) and type(node.slice.value) is not int
        if isinstance(node.value, ast.Constant) or (isinstance(node.value, ast.Tuple | ast.List) and has_keys):
            return node.value, "an element of a constant", "write the element itself"
    if not isinstance(node, ast.BinOp):
        return None
    for side in (node.left, node.right):
        if isinstance(side, ast.Constant) and isinstance(side.value, str | bytes):
            return side, "arithmetic with a string", "strings are arguments of functions only"
    if isinstance(node.op, ast.Pow | ast.LShift) and _bits(node) > MAX_BITS:
        return node, f"a constant of more than {MAX_BITS} bits", "write the number, or a float such as `2.0 ** 100`"
    return None


def _bits(node: ast.expr) -> float:
    """Return an upper bound of the bits of an expression of integers; 0 for any other expression."""
    if isinstance(node, ast.UnaryOp):
        return _bits(node.operand)
    if isinstance(node, ast.Constant):
        return max(node.value.bit_length(), 1) if type(node.value) is int else 0
    if not isinstance(node, ast.BinOp):
        return 0
    left, right = _bits(node.left), _bits(node.right)
    if not left or not right:
        return 0
    if isinstance(node.op, ast.Pow | ast.LShift):
        exponent = 2.0**right if right < 64 else math.inf
        if isinstance(node.right, ast.Constant):
            exponent = float(node.right.value)  # type: ignore[arg-type]
        return left * exponent if isinstance(node.op, ast.Pow) else left + exponent
    return left + right
