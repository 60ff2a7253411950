"""Results of compiled functions have the strides of eager mode, also where elements of an input share memory."""

from __future__ import annotations

import pytest

import gradloom as torch

pytestmark = pytest.mark.usefixtures("each_backend")

BASE = torch.arange(60.0)
OVERLAPPING = {
    "rows": BASE[:4].expand(3, 4),
    "columns": BASE[:3].view(3, 1).expand(3, 4),
    "columns, transposed": BASE[:3].view(3, 1).expand(3, 4).t(),
    "one element": BASE[:1].expand(3, 4),
    "between": BASE[:8].view(2, 1, 4).expand(2, 3, 4),
    "a new dimension": BASE[:12].view(3, 4).t().expand(2, 4, 3),
    "windows": BASE[:8].unfold(0, 4, 1),
    "windows of rows": BASE[:24].view(4, 6).unfold(1, 3, 1),
    "equal strides": BASE.as_strided((3, 4), (1, 1)),
    "strides that cross": BASE.as_strided((3, 4), (1, 2)),
    "gaps": BASE.as_strided((3, 4), (5, 0)),
    "first": BASE.as_strided((2, 3, 4), (0, 4, 1)),
    "last": BASE.as_strided((2, 3, 4), (1, 2, 0)),
    "two of three": BASE.as_strided((2, 3, 4), (0, 0, 1)),
    "permuted": BASE[:24].view(2, 3, 4).permute(2, 0, 1),
}
FUNCTIONS = {
    "pointwise": lambda x: x.sin() * 2,
    "two operands": lambda x: x * (x + 1),
    "an operand of another layout": lambda x: x * torch.ones(x.shape),
    "comparison": lambda x: (x > 3) & (x < 9),
    "another dtype": lambda x: (x * 2).double() + 1,
    "of the same layout": lambda x: torch.zeros_like(x) + torch.ones_like(x) * 2,
    "softmax": lambda x: (x * 2).softmax(-1) * 3,
    "sum": lambda x: (x * 2).sum(0, keepdim=True) * x,
    "copy": lambda x: x.clone() * 1,
    "choice": lambda x: torch.where(x > 2, x, x * 2) * 2,
    "view": lambda x: (x * 2).transpose(0, -1) + 1,
    "several results": lambda x: (x * 2, (x * 2) + x, x.exp()),
    "contiguous": lambda x: (x * 2).contiguous() + 1,
    "layer norm": lambda x: torch.nn.functional.layer_norm(x * 2, x.shape[-1:]) * 2,
    "cat": lambda x: torch.cat([x * 2, x * 3]),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_of_overlapping_inputs(name):
    for x in OVERLAPPING.values():

        def function(x):
            return FUNCTIONS[name](x)

        compiled = torch.compile(function)
        compiled(x)
        found, expected = compiled(x), function(x)
        torch.testing.assert_close(found, expected)
        pairs = zip(found, expected, strict=True) if name == "several results" else [(found, expected)]
        assert all(a.stride() == b.stride() for a, b in pairs)
