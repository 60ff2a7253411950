"""Graphs of PyTorch's own samples: the nodes that both libraries record, their edges, and the order in which they were
made, which decides in which order gradients are added up."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="PyTorch, the reference, is not installed: make conformance installs it")

import torch
from torch.testing._internal.common_methods_invocations import op_db

from tests.releases import pytorch_before

from .case import Case
from .library import Absent, Library
from .opinfo_runner import draw_samples, make_case, quiet, spread
from .proxy import callable_for, candidate_library
from .records import Unconvertible
from .results import OpResult

SAMPLES = {"float64": 10, "complex128": 4}
# What differs, and why.
_COMPLEX = "PyTorch makes a convolution of complex numbers of three real ones"
KNOWN = {
    **{f"nn.functional.conv{kind}{n}d": _COMPLEX for kind in ("", "_transpose") for n in (1, 2, 3)},
    "cholesky": "a name for linalg.cholesky, as PyTorch 2.14 has removed the operator",
    **dict.fromkeys(("linalg.norm", "linalg.matrix_norm", "norm.nuc"), "a nuclear norm is an operator"),
    "gradient": "PyTorch adds products with coefficients; ours divides differences, 0 for a constant",
    "nn.functional.poisson_nll_loss": "targets without Stirling's formula are replaced: gradients are not NaN",
    "nn.functional.multi_head_attention_forward": "a query that sees no key is 0, not NaN, by _safe_softmax",
}
if pytorch_before("2.15"):
    _ROWS = "the rows of several products are no view, as in PyTorch 2.15"
    KNOWN |= {
        "combinations": "rows are one index of the input, as in PyTorch 2.15",
        "nn.functional.linear": _ROWS,
        "nn.functional.linear_cross_entropy": _ROWS,
        "nn.functional.linear_cross_entropy.chunked": _ROWS,
        "nn.functional.scaled_dot_product_attention": "3-D inputs are fused, as in PyTorch 2.15",
    }
else:
    _SELECTED = "PyTorch 2.15 selects instead of sorting, and sorts views"
    KNOWN |= dict.fromkeys(("quantile", "nanquantile"), _SELECTED)
TO_COMPARE = [op for op in op_db if op.supports_autograd]


def graph(case: Case, library: Library) -> tuple[list[str], list[int]]:
    """The graph behind the results of a case, depth first.

    Returns:
        A word for each node when it is first met, `MulBackward0:0/2` with the number of the output that is used and
        that of its edges, and `^3:0` from then on; and the place of each node in the order in which they were made.
    """
    leaves: list = []

    def collect(record, tensor):
        if record.requires_grad:
            leaves.append(tensor)
        return tensor

    values = case.values(library, collect)
    case.reseed()
    results = case.tensors(case.call(library, values), library)
    number_of = {id(leaf): f"leaf{i}" for i, leaf in enumerate(leaves)}
    words, numbers, made = [], {}, []
    pending = [(r.grad_fn, r.output_nr) if r.requires_grad else (None, 0) for r in reversed(results)]
    while pending:
        node, output = pending.pop()
        if node is None:
            words.append("-")
        elif node in numbers:
            words.append(f"^{numbers[node]}:{output}")
        elif type(node).__name__ == "AccumulateGrad":
            words.append(number_of.get(id(node.variable), "leaf"))
        else:
            numbers[node] = len(numbers)
            made.append(node._sequence_nr())
            words.append(f"{type(node).__name__}:{output}/{len(node.next_functions)}")
            pending += reversed(node.next_functions)
    order = sorted(made)
    return words, [order.index(n) for n in made]


def differences(op, candidate: Library) -> list[str]:
    """What differs, for some samples of an operator; Absent where the candidate lacks it."""
    function = callable_for(op.op, candidate, op.name)
    found, compared = [], 0
    with quiet():
        for dtype, count in SAMPLES.items():
            if getattr(torch, dtype) not in op.supported_backward_dtypes("cpu"):
                continue
            samples = draw_samples(op, getattr(torch, dtype), True, OpResult(op.full_name))
            for index in spread(len(samples), count):
                name, sample = samples[index]
                try:
                    case = make_case(op, function, candidate, dtype, f"{dtype} sample {name}", sample)
                    expected = graph(case, case.reference)
                except (Unconvertible, RuntimeError):  # samples that PyTorch refuses are for other tests
                    continue
                try:
                    actual = graph(case, candidate)
                except NotImplementedError as error:
                    raise Absent(str(error)) from None
                compared += 1
                if expected != actual:
                    found.append(
                        f"{case.where}:\n  PyTorch:  {' '.join(expected[0])} {expected[1]}\n"
                        f"  gradloom: {' '.join(actual[0])} {actual[1]}"
                    )
    if not compared:
        pytest.skip("no sample can be compared")
    return found


@pytest.mark.slow
@pytest.mark.parametrize("op", TO_COMPARE, ids=lambda op: op.full_name)
def test_the_graph_of_an_operator_is_that_of_pytorch(op):
    import gradloom

    try:
        found = differences(op, candidate_library(gradloom))
    except Absent as absent:
        pytest.skip(str(absent))
    if op.full_name in KNOWN:
        assert found, f"{op.full_name} does not differ any more: remove it from KNOWN"
    else:
        assert not found, "\n".join(found[:3])
