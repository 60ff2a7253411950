"""Words that people bring along from PyTorch, NumPy, C++ or a paper, and what they are called here.

The closest name by its letters is a bad guess for these: `input` is not a misspelt `put`. Each table belongs to one
place in the files; what it suggests is only said where it makes sense there, which the caller knows.
"""

from __future__ import annotations

from collections.abc import Container

# Names in a formula -> the name that is meant, if the formula has it.
_FORMULA_NAMES = {
    "input": "self",
    "x": "self",
    "inp": "self",
    "tensor": "self",
    "a": "self",
    "output": "result",
    "out": "result",
    "y": "result",
    "z": "result",
    "ret": "result",
    "outputs": "result",
    "grad_output": "grad",
    "grad_out": "grad",
    "grad_outputs": "grads",
    "dout": "grad",
    "dy": "grad",
    "dz": "grad",
    "g": "grad",
    "gy": "grad",
    "grad_y": "grad",
    "cotangent": "grad",
    "upstream": "grad",
    "gradient": "grad",
    "mask": "grad_input_mask",
    "output_mask": "grad_input_mask",
    "needs_input_grad": "grad_input_mask",
    "tangent": "self_t",
    "dx": "self_t",
    "x_t": "self_t",
    "input_t": "self_t",
    "x_p": "self_p",
    "primal": "self_p",
    "keep_graph": "retain_variables",
    "retain_graph": "retain_variables",
}
_BY_NAME = "operators are called by their names, without a module: `exp(...)`, or `linalg.inv(...)`"
_FORMULA_HINTS = {
    **dict.fromkeys(("torch", "np", "numpy", "xp", "ops", "at", "aten", "F", "nn", "gradloom", "jnp"), _BY_NAME),
    "ctx": "what a formula names is saved by itself: name arguments and results directly",
    "pi": "write `math.pi`",
    "inf": "write `math.inf`",
    "nan": "write `math.nan`",
}
FORMULA_METHODS = {
    "defined": "write `x is not None`",
    "requires_grad": "`grad_input_mask[i]` says whether an input needs a gradient",
    "data": "formulas are differentiated, too: use the tensor itself",
    "options": "unpack it: `zeros(size, **self.options())`",
    "length": "write `len(...)`",
    "rank": "write `.dim()`",
}

# Keys of native_functions.yaml and of derivatives.yaml.
NATIVE_KEYS = {
    "name": "in this file the schema is `func:`",
    "schema": "the schema is `func:`",
    "op": "the schema is `func:`",
    "module": "write `python_module:`",
    "namespace": "write `python_module:`",
    "method": "write `variants: method`",
    "promotion": "write `type_promotion:`",
    "dtype": "write `type_promotion:`",
    "amp": "write `autocast:`",
    **dict.fromkeys(
        ("impl", "implementation", "compute", "expression", "expr", "forward", "cpu", "CPU"),
        "`kernel:` says what computes the operator",
    ),
    **dict.fromkeys(
        (
            "self",
            "result",
            "grad",
            "backward",
            "derivative",
            "formula",
            "jvp",
            "vjp",
            "gradient",
            "output_differentiability",
        ),
        "how it differentiates is an entry of derivatives.yaml",
    ),
    **dict.fromkeys(
        ("doc", "docs", "description", "help", "comment"),
        "the docstring is made of the schema and the derivative; a comment starts with `#`",
    ),
    **dict.fromkeys(("out", "inplace", "inplace_variant", "out_variant"), "write `autogen: name_, name.out`"),
}
_DERIVATIVE_KEYS = {
    "input": "self",
    "x": "self",
    "output": "result",
    "out": "result",
    "outputs": "result",
    "jvp": "result",
    "forward": "result",
    "tangent": "result",
    "y": "result",
}
_DERIVATIVE_HINTS = {
    **dict.fromkeys(
        ("backward", "vjp", "grad", "gradient", "formula", "derivative"),
        "write a key for each input, such as `self:`, with the formula of its gradient",
    ),
    **dict.fromkeys(("func", "schema"), "in this file the schema is `name:`"),
    **dict.fromkeys(
        (
            "kernel",
            "variants",
            "autogen",
            "tags",
            "python_module",
            "composite",
            "family",
            "type_promotion",
            "domain",
            "autocast",
        ),
        "it belongs to the entry in native_functions.yaml",
    ),
}

# Types of schemas.
TYPES = {
    "list": "write `Tensor[]`, `int[]` ...",
    "List": "write `Tensor[]`, `int[]` ...",
    "tuple": "write `int[]`",
    "TensorList": "write `Tensor[]`",
    "Tensors": "write `Tensor[]`",
    "IntArrayRef": "write `int[]`",
    "ArrayRef": "write `int[]`",
    "ints": "write `int[]`",
    "shape": "write `int[]`",
    "Size": "write `int[]`",
    "dtype": "write `ScalarType`",
    "number": "write `Scalar`",
    "Number": "write `Scalar`",
    "complex": "write `Scalar`",
    "double": "write `float`",
    "float64": "write `float`",
    "float32": "write `float`",
    "string": "write `str`",
    "string_view": "write `str`",
    "Optional": "write `Tensor?`, `int?` ...",
    "optional": "write `Tensor?`, `int?` ...",
    "device": "write `Device`",
    "layout": "write `Layout`",
    "memory_format": "write `MemoryFormat`",
    "int64_t": "write `int`",
    "boolean": "write `bool`",
    "Any": "name the type: `Tensor`, `Scalar`, `int` ...",
    "void": "nothing is returned by `-> ()`",
    "self": "the type goes first: `Tensor self`",
    "ndarray": "write `Tensor`",
    "array": "write `Tensor`",
}

# PyTorch's names for what NumPy calls otherwise: functions, and methods or attributes of arrays.
NUMPY_NAMES = {
    "sub": "subtract",
    "mul": "multiply",
    "div": "divide",
    "neg": "negative",
    "eq": "equal",
    "ne": "not_equal",
    "lt": "less",
    "le": "less_equal",
    "gt": "greater",
    "ge": "greater_equal",
    "cat": "concatenate",
    "clamp": "clip",
    "mm": "matmul",
    "bmm": "matmul",
    "mv": "matmul",
    "permute": "transpose",
    "unsqueeze": "expand_dims",
    "bitwise_neg": "invert",
    "norm": "linalg.norm",
    "inv": "linalg.inv",
    "det": "linalg.det",
    "solve": "linalg.solve",
    "svd": "linalg.svd",
    "qr": "linalg.qr",
    "cholesky": "linalg.cholesky",
    "eigh": "linalg.eigh",
    "rfft": "fft.rfft",
    "float": "float64",
    "int": "int64",
    "double": "float64",
    "long": "int64",
    "cfloat": "complex64",
    "gather": "take_along_axis",
    "index_select": "take",
    "expand": "broadcast_to",
    "movedim": "moveaxis",
}
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


def formula_name(word: str, known: Container[str]) -> str:
    """A hint about an unknown name in a formula that has the names `known`; '' where there is none."""
    meant = _FORMULA_NAMES.get(word)
    if meant is not None and meant in known:
        return f"did you mean `{meant}`?"
    return _FORMULA_HINTS.get(word, "")


def derivative_key(word: str, known: Container[str]) -> str:
    """A hint about an unknown key of an entry in derivatives.yaml, which may have the keys `known`; '' for none."""
    meant = _DERIVATIVE_KEYS.get(word)
    if meant is not None and meant in known:
        return f"did you mean `{meant}`?"
    return _DERIVATIVE_HINTS.get(word, "")
