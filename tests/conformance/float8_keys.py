"""PyTorch's operators and float8 tensors: `python -m tests.conformance.float8_keys` lists where `float8:` differs.

The samples of the operator database are converted to two of the dtypes, and each operator of ATen that a call reaches
is noted with what becomes of it. The outcome is compared with the key `float8:` of the operators' entries.
"""

from __future__ import annotations

import contextlib
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.nn.functional import ScalingType, scaled_mm
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

from gradloom.dispatch.records import Float8, record_of
from gradloom.generated.records import RECORDS

from .opinfo_runner import draw, quiet

DTYPES = (torch.float8_e4m3fn, torch.float8_e5m2)
POWERS_OF_TWO = torch.float8_e8m0fnu  # computes less than the others
SAMPLES = 12
_aten, _one = torch.ops.aten, torch.ones(())
# Operators of kernels that the database's calls do not reach; x has 2 rows of 4, i integers.
FURTHER: dict[str, Callable[[Any, Any], Any]] = {
    "_scaled_mm": lambda x, i: _aten._scaled_mm(
        x.repeat(8, 4), x.repeat(8, 4).t(), _one, _one, out_dtype=torch.float32
    ),
    "_scaled_mm_v2": lambda x, i: scaled_mm(
        x.repeat(8, 4), x.repeat(8, 4).t(), _one, ScalingType.TensorWise, _one, ScalingType.TensorWise
    ),
    "isclose": lambda x, i: _aten.isclose(x, x),
    "isfinite": lambda x, i: _aten.isfinite(x),
    "isreal": lambda x, i: _aten.isreal(x),
    "alias": lambda x, i: _aten.alias(x),
    "_reshape_alias": lambda x, i: _aten._reshape_alias(x, [8], [1]),
    "detach_copy": lambda x, i: _aten.detach_copy(x),
    "select_copy": lambda x, i: _aten.select_copy(x, 0, 0),
    "slice_copy": lambda x, i: _aten.slice_copy(x, 0, 0, 1),
    "split_copy": lambda x, i: _aten.split_copy(x, 1),
    "select_backward": lambda x, i: _aten.select_backward(x, [2, 2, 4], 0, 0),
    "slice_backward": lambda x, i: _aten.slice_backward(x, [3, 4], 0, 0, 2, 1),
    "diagonal_backward": lambda x, i: _aten.diagonal_backward(x, [2, 4, 4], 0, 1, 2),
    "unsafe_split_with_sizes": lambda x, i: _aten.unsafe_split_with_sizes(x, [1, 1]),
    "_unsafe_index": lambda x, i: _aten._unsafe_index(x, [i]),
    "_unsafe_index_put": lambda x, i: _aten._unsafe_index_put(x, [i], x),
    "_index_put_impl": lambda x, i: _aten._index_put_impl_(x, [i], x),
    "repeat_interleave": lambda x, i: _aten.repeat_interleave(x, 2, 0),
    "masked_scatter_backward": lambda x, i: _aten.masked_scatter_backward(x, x.view(torch.bool), [2, 4]),
    "view_as_real": lambda x, i: _aten.view_as_real(x),
    "_neg_view": lambda x, i: _aten._neg_view(x),
    "_conj": lambda x, i: _aten._conj(x),
    "bitwise_not": lambda x, i: _aten.bitwise_not(x),
    "bitwise_and": lambda x, i: _aten.bitwise_and(x, x),
    "bitwise_or": lambda x, i: _aten.bitwise_or(x, x),
    "bitwise_xor": lambda x, i: _aten.bitwise_xor(x, x),
    "searchsorted": lambda x, i: _aten.searchsorted(x, x),
    "gcd": lambda x, i: _aten.gcd(x, x),
    "lcm": lambda x, i: _aten.lcm(x, x),
    "native_dropout": lambda x, i: _aten.native_dropout(x, 0.5, True),
    "poisson": lambda x, i: _aten.poisson(x),
    "random": lambda x, i: _aten.random_(x),
    "rand_like": lambda x, i: _aten.rand_like(x),
    "bincount": lambda x, i: _aten.bincount(x.view(8)),
    "unique_dim": lambda x, i: _aten.unique_dim(x, 0),
    "tanh_backward": lambda x, i: _aten.tanh_backward(x, x),
    "sigmoid_backward": lambda x, i: _aten.sigmoid_backward(x, x),
    "threshold_backward": lambda x, i: _aten.threshold_backward(x, x, 0),
    "gelu_backward": lambda x, i: _aten.gelu_backward(x, x),
    "unfold_backward": lambda x, i: _aten.unfold_backward(x.view(2, 2, 2), [2, 3], 1, 2, 1),
    "embedding_dense_backward": lambda x, i: _aten.embedding_dense_backward(x, i, 3, -1, False),
}


class Outcomes(TorchDispatchMode):
    """Notes what operators of ATen do with float8 tensors.

    Attributes:
        computed: operator -> how many elements its tensors have (0, 1 or 2 for more) -> calls that succeed.
        refused: operator -> the same -> calls that fail for the dtype.
        words: operator -> what PyTorch says, with {} for the dtype -> calls.
    """

    def __init__(self) -> None:
        super().__init__()
        self.computed: dict[str, Counter[int]] = defaultdict(Counter)
        self.refused: dict[str, Counter[int]] = defaultdict(Counter)
        self.words: dict[str, Counter[str]] = defaultdict(Counter)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        flat, _ = tree_flatten((args, kwargs or {}))
        sizes = [
            v.numel() for v in flat if isinstance(v, torch.Tensor) and v.dtype.itemsize == 1 and v.is_floating_point()
        ]
        name = full_name(func._schema)
        try:
            found = func(*args, **(kwargs or {}))
        except Exception as error:
            words, changed = re.subn(r"(CPU)?Float8_\w+?(Type)?(?=\W|$)", "{}", str(error).partition("\n")[0])
            by_dtype = changed and "Promotion" not in words and "same dtype" not in words and "overflow" not in words
            if sizes and by_dtype and not hasattr(error, "noted"):
                error.noted = True
                self.refused[name][min(max(sizes), 2)] += 1
                if not isinstance(error, NotImplementedError):
                    words = re.sub(r"\{\}\{.*?\}", "{}", words)  # sizes
                elif "not implemented for" in words:
                    words = words.split('"')[1]
                self.words[name][words] += 1
            raise
        if sizes and not (isinstance(found, torch.Tensor) and not found.numel() and max(sizes)):
            self.computed[name][min(max(sizes), 2)] += 1
        return found


def full_name(schema: Any) -> str:
    """The name of an overload, in-place variants under that of the operator that they write."""
    name = schema.name[6:]
    return ".".join(filter(None, (name[:-1] if name.endswith("_") else name, schema.overload_name)))


def _calls(op: Any, dtypes: tuple[torch.dtype, ...]) -> Iterator[Callable[[], Any]]:
    samples = list(draw(op, SAMPLES, op.sample_inputs_func, op, "cpu", torch.float32, False))
    for dtype in dtypes:

        def convert(value: Any, dtype: torch.dtype = dtype) -> Any:
            if isinstance(value, torch.Tensor) and value.dtype == torch.float32:
                return value.detach().to(dtype)
            return dtype if value in (torch.float32, torch.float64) and isinstance(value, torch.dtype) else value

        for sample in samples:
            for function in filter(None, (op.op, op.inplace_variant)):

                def call(function: Any = function, sample: Any = sample, convert: Any = convert) -> Any:
                    first, args, keywords = tree_map(convert, (sample.input, sample.args, sample.kwargs))
                    return lambda: function(first, *args, **keywords)

                yield call


def measure(dtypes: tuple[torch.dtype, ...] = DTYPES) -> Outcomes:
    """Run the database and the further calls with tensors of these dtypes; return what became of them."""
    outcomes = Outcomes()
    makers: list[Callable[[], Any]] = []
    with quiet():
        for op in op_db:
            if torch.float32 in op.supported_dtypes("cpu") and "jiterator" not in op.name:
                makers.extend(_calls(op, dtypes))
        x = torch.tensor([[1.0, 2.0, 1.0, 2.0]] * 2).to(dtypes[0])
        index = torch.tensor([1, 0])
        for make in makers:
            with contextlib.suppress(Exception):
                call = make()
                with outcomes:
                    call()
        for name, further in FURTHER.items():
            with contextlib.suppress(Exception), outcomes:
                further(x.clone(), index)
                outcomes.computed[name][2] += 1  # also if it consists of others
    return outcomes


def keys(outcomes: Outcomes) -> dict[str, Float8]:
    """Overload -> what it does, in the words of the key `float8:`; the same for all overloads under the operator."""
    found: dict[str, dict[str, Float8]] = defaultdict(dict)
    for name in sorted({*outcomes.computed, *outcomes.refused}):
        computed, refused, words = outcomes.computed[name], outcomes.refused[name], outcomes.words[name]
        of_numbers = next((w for w in words if w.endswith("_reduced_float")), "")
        general = [(n, w) for w, n in words.items() if w != of_numbers]
        error = max(general)[1] if general else of_numbers
        if computed[2] and computed[2] >= sum(n for n, _ in general):
            key = Float8("all", "", of_numbers)
        else:
            few = [word for n, word in enumerate(("empty", "one")) if computed[n] and not refused[n]]
            key = Float8("_or_".join(few), error, of_numbers if error != of_numbers else "")
        if computed[2] or words:
            found[name.partition(".")[0]][name] = key
    return {
        name: key
        for base, own in found.items()
        for name, key in (own if len({*own.values()}) > 1 else {base: next(iter(own.values()))}).items()
    }


def differences() -> Iterator[str]:
    """Yield a line for each operator with an entry whose key is not what is measured."""
    measured, less = keys(measure()), keys(measure((POWERS_OF_TWO,)))
    for record in RECORDS.all():
        if record.is_out or record_of(RECORDS.wrapper_of(record)) is not record:
            continue
        operator = record.operator[:-1] if record.is_inplace else record.operator
        expected = measured.get(f"{operator}.{record.overload}") or measured.get(operator)
        if expected is None or not any(a.tensors for a in record.arguments):
            continue
        of_e8m0 = less.get(operator) if expected.computes == "all" else None
        if of_e8m0 is not None and of_e8m0.computes == "all":
            of_e8m0 = None  # as the others
        own = record.float8 or (None if record.is_composite else Float8("", f"{operator}_cpu"))
        if own is not None and own.computes == "in_float32":
            own = own._replace(computes="all")
        if (own, record.float8_e8m0) != (expected, of_e8m0):
            yield f"{record.name}: {own}, {record.float8_e8m0}; measured {expected}, {of_e8m0}"


if __name__ == "__main__":
    print(*differences(), sep="\n")
