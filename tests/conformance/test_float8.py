"""Operators with float8 tensors: what PyTorch refuses is refused, and what it computes has its values.

GRADLOOM_FLOAT8_SAMPLES=12 takes that many samples of each operator, and all five dtypes (a minute).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db

import gradloom

from .library import PYTORCH, Absent, Library
from .opinfo_runner import draw, make_case, quiet
from .proxy import callable_for, candidate_library
from .records import Unconvertible

COUNT = int(os.environ.get("GRADLOOM_FLOAT8_SAMPLES", "0"))
DTYPES = (
    ["float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu"]
    if COUNT
    else ["float8_e4m3fn"]
)
CANDIDATE = candidate_library(gradloom)
# Operators that compute here and not in PyTorch. They move elements, count them, or have another algorithm.
COMPUTE = {
    "flip": "PyTorch refuses the last dimension only",
    "rot90": "as flip",
    "fliplr": "as flip",
    "count_nonzero": "PyTorch refuses the count of all elements, not that along a dimension",
    "to_sparse": "as count_nonzero",
    "histogramdd": "composite: no operator in it refuses",
    "isinf": "PyTorch's own composite refuses by the dtype's infinity",
}
# Operators that PyTorch computes, by chance of their arguments: one element, no result.
REFUSE = frozenset(
    """linalg.vector_norm masked.norm linspace.tensor_overload lu_solve nn.functional.pdist nonzero_static inner
    isfinite count_nonzero isinf""".split()
)
# Uninitialized memory; float32 results that test_databases.py compares; rounding after each step of a sum.
NOT_COMPARED = ("empty", "new_empty", "linspace", "logspace", "addbmm", "softmax.with_dtype", "log_softmax.with_dtype")


def _cases(op: Any) -> Iterator[Any]:
    function = callable_for(op.op, CANDIDATE, op.name)
    count = COUNT or 2
    for number, sample in enumerate(draw(op, count, op.sample_inputs_func, op, "cpu", torch.float32, False)):
        if number >= count:
            return
        yield make_case(op, function, CANDIDATE, "float32", f"sample {number}", sample)


def _outcome(case: Any, library: Library, dtype: str) -> tuple[str, Any]:
    kind = getattr(library.module, dtype)
    values = case.values(library, lambda record, t: t.detach().to(kind) if record.dtype == "float32" else t)
    case.reseed()
    try:
        return "computed", _plain(case.call(library, values), library)
    except Absent:
        raise
    except Exception as error:
        return type(error).__name__, str(error).partition("\n")[0]


def _plain(value: Any, library: Library) -> Any:
    if isinstance(value, library.module.Tensor):
        name = str(value.dtype).partition(".")[2]
        return name, tuple(value.shape), repr((value.float() if "float8" in name else value.detach()).tolist())
    return [_plain(v, library) for v in value] if isinstance(value, (tuple, list)) else value


def _is_empty(plain: Any) -> bool:
    """Whether one of the results has no elements: some operators of PyTorch then never look at the dtype."""
    if isinstance(plain, tuple):
        return 0 in plain[1]
    return isinstance(plain, list) and any(map(_is_empty, plain))


@pytest.mark.parametrize("dtype", DTYPES)
def test_operators_refuse_what_pytorch_refuses(dtype):
    wrong, refused, computed = [], 0, 0
    with quiet():
        for op in op_db:
            if torch.float32 not in op.supported_dtypes("cpu"):
                continue
            try:
                cases = list(_cases(op))
            except (Absent, Unconvertible):
                continue
            for case in cases:
                try:
                    expected, found = _outcome(case, PYTORCH, dtype), _outcome(case, CANDIDATE, dtype)
                except (Absent, Unconvertible):
                    continue
                except Exception:  # a sample that cannot be converted
                    continue
                where = f"{op.full_name}: {expected} | {found}"
                if expected[0] == "computed":
                    computed += 1
                    if found[0] != "computed":
                        if op.full_name not in REFUSE and not _is_empty(expected[1]):
                            wrong.append(where)
                    elif expected != found and not op.full_name.startswith(NOT_COMPARED):
                        wrong.append(where)
                else:
                    refused += 1
                    if found[0] == "computed" and op.full_name not in COMPUTE:
                        wrong.append(where)
    assert not wrong, "\n".join(w[:300] for w in wrong)
    assert refused > 500 and computed > 200, (refused, computed)
