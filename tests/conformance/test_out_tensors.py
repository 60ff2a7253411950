"""Every out= overload against PyTorch: shape, dtype and values of outputs of the right and of wrong sizes.

The calls are those of tests/ops/test_out_tensors.py. Outputs in other layouts are compared there with the result of the
call without out=: some of PyTorch's kernels write to them as if they were contiguous.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradloom
from gradloom.generated.records import RECORDS
from tests.ops.test_out_tensors import OPERATORS, outputs, samples

torch = pytest.importorskip("torch")

LAYOUTS = ("same", "empty", "one element", "larger", "as many")
# Operators -> why PyTorch's out= overload cannot be the reference.
NO_REFERENCE = {
    "binary_cross_entropy": "it does not resize a wrong size, and gives a sum of rows for a mean",
    "_linalg_det _linalg_slogdet": "the layout of LU decides which of two decompositions it holds",
    "linalg_svd svd _linalg_svd linalg_eigh _linalg_eigh linalg_eig": "signs of vectors are free",
    "empty empty_strided empty_permuted new_empty empty_like": "memory is not initialized",
    "linalg_lstsq linear isin": "it resizes other outputs than those of the result",
    "_fft_r2c _fft_c2c _fft_c2r": "their out= overloads want another shape",
    "_int_mm": "it does not resize",
    "_native_batch_norm_legit _batch_norm_with_update": "it resizes no output that it leaves empty",
    "normal": "it adds the mean before it resizes",
    "narrow_copy": "it writes to a resized part as if that were contiguous",
    "special_polygamma": "its values have an error of 1e-9",
    "fft_fftfreq": "it keeps a column, but gives it other frequencies",
    "range": "a step that an integer dtype cannot hold divides by zero",
}
_SKIPPED = {name for names in NO_REFERENCE for name in names.split()}


def overloads_of(operator: Any) -> tuple[Any, Any] | None:
    """Return gradloom's out= overload and PyTorch's with the same inputs; None if it has none."""
    record = RECORDS.out_of(RECORDS[operator.name])
    packet = getattr(torch.ops.aten, record.operator, None) if record is not None else None
    if record is None or packet is None:
        return None
    mine = getattr(getattr(gradloom.ops.aten, record.operator), record.overload)
    wanted = [(a.name, str(a.type)) for a in mine._schema.arguments if not a.is_out]
    for other in packet.overloads():
        found = getattr(packet, other)
        arguments = found._schema.arguments
        if any(a.is_out for a in arguments) and [(a.name, str(a.type)) for a in arguments if not a.is_out] == wanted:
            return mine, found
    return None


def converted(value: Any) -> Any:
    """Return a value of gradloom as PyTorch's."""
    if isinstance(value, gradloom.Tensor):
        dense = value.resolve_conj().resolve_neg()
        dtype = converted(value.dtype)
        return torch.tensor(dense.tolist(), dtype=dtype).reshape(tuple(value.shape))
    if isinstance(value, (list, tuple)):
        return [converted(v) for v in value]
    if isinstance(value, (gradloom.dtype, gradloom.memory_format)):
        return getattr(torch, str(value).rpartition(".")[2])
    return value


def differing(both: tuple[Any, Any], case: Any, results: list[Any], layout: str) -> str | None:
    """Return what differs after a call with outputs of a layout."""
    names = [[a.name for a in found._schema.arguments if a.is_out] for found in both]
    given = {a.name for a in both[1]._schema.arguments}
    kinds = [(tuple(r.shape), r.dtype) for r in results]
    _, mine = outputs(gradloom, kinds, layout)
    _, expected = outputs(torch, [(shape, converted(dtype)) for shape, dtype in kinds], layout)
    args, kwargs = case.detached()
    torch.manual_seed(0)
    gradloom.manual_seed(0)
    kwargs = {k: v for k, v in kwargs.items() if k in given}
    others = {k: converted(v) for k, v in kwargs.items()}
    both[1](*map(converted, args), **others, **dict(zip(names[1], expected, strict=True)))
    both[0](*args, **kwargs, **dict(zip(names[0], mine, strict=True)))
    for number, (a, b) in enumerate(zip(mine, expected, strict=True)):
        if tuple(a.shape) != tuple(b.shape) or converted(a.dtype) is not b.dtype:
            return f"output {number}: {a.dtype}{list(a.shape)}, in PyTorch {b.dtype}{list(b.shape)}"
        x, y = (np.array(t.to(lib.complex128).tolist()) for t, lib in ((a, gradloom), (b, torch)))
        eps = torch.finfo(b.dtype).eps if b.dtype.is_floating_point or b.dtype.is_complex else 0
        scale = np.abs(y[np.isfinite(y)]).max(initial=1)
        if not np.allclose(x, y, rtol=256 * eps, atol=256 * eps * scale, equal_nan=True):
            return f"output {number}: {a.tolist()}, in PyTorch {b.tolist()}"
    return None


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("family", sorted({operator.family for operator in OPERATORS}))
def test_outputs_are_those_of_pytorch(family, capfd):
    wrong, calls = [], 0
    for operator in (o for o in OPERATORS if o.family == family):
        both = None if operator.name.partition(".")[0] in _SKIPPED else overloads_of(operator)
        for case, results in samples(operator)[:1] if both is not None else ():
            for layout in LAYOUTS:
                try:
                    found = differing(both, case, results, layout)
                except Exception as error:
                    found = f"{type(error).__name__}: {error}".splitlines()[0]
                calls += 1
                if found:
                    wrong.append(f"{case}, {layout}: {found}")
    capfd.readouterr()  # PyTorch's warnings of resized outputs
    assert not wrong, "\n".join(wrong)
    if not calls:
        pytest.skip("no overload of this family has the same arguments in both libraries")
