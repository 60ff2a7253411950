"""What PyTorch changed after 2.13.0 (changes.yaml): gradloom follows the new values, and each release gives its own."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.releases import pytorch_before

CHANGES = [
    (release, change)
    for release, changes in yaml.safe_load(Path(__file__).with_name("changes.yaml").read_text()).items()
    for change in changes
]
#: Tangents of the first, second and third input, so that a result's tangent says where it comes from.
TANGENTS = (1.0, 10.0, 100.0)
REFUSED = "refused"


class Calls:
    """The functions that programs of the table call, beside `torch`. Numbers become float64 or complex128 tensors."""

    def __init__(self, torch):
        self.torch = torch

    def tensors(self, inputs, requires_grad=False):
        kinds = self.torch.complex128, self.torch.float64
        return [self.torch.tensor(x, dtype=kinds["j" not in str(x)]).requires_grad_(requires_grad) for x in inputs]

    def value(self, function, *inputs):
        """Return the result, or the results."""
        return _lists(function(*self.tensors(inputs)))

    def gradient(self, function, *inputs):
        """Return the gradients of the sum of all results."""
        leaves = self.tensors(inputs, True)
        return _lists(self.torch.autograd.grad(self.total(function(*leaves)), leaves))

    def second(self, function, *inputs):
        """Return the gradients of a weighted sum of the gradients."""
        leaves = self.tensors(inputs, True)
        first = self.torch.autograd.grad(self.total(function(*leaves)), leaves, create_graph=True)
        return _lists(self.torch.autograd.grad(self.total(first), leaves))

    def tangent(self, function, *inputs, tangents=TANGENTS):
        """Return the tangents of the results."""
        ad = self.torch.autograd.forward_ad
        with ad.dual_level():
            duals = [
                ad.make_dual(x, self.torch.full_like(x, t))
                for x, t in zip(self.tensors(inputs), tangents, strict=False)
            ]
            results = function(*duals)
            results = results if isinstance(results, tuple) else (results,)
            return _lists([ad.unpack_dual(result).tangent for result in results])

    def refusals(self, *calls):
        """Return the classes of the errors that the calls raise."""
        return sorted({self._refusal(call) for call in calls})

    def _refusal(self, call):
        with pytest.raises((RuntimeError, TypeError, ValueError, IndexError)) as error:
            call()
        return error.type.__name__

    def total(self, results):
        """Return a sum in which each element has a weight of its own, of real and imaginary parts."""
        results = results if isinstance(results, tuple) else (results,)
        parts = [self.torch.view_as_real(x.resolve_conj()) if x.is_complex() else x for x in results]
        weights = [self.torch.linspace(1, 2, x.numel(), dtype=x.dtype).reshape(x.shape) for x in parts]
        return sum((w * x).sum() for w, x in zip(weights, parts, strict=True))


def _lists(value):
    """Return tensors as nested lists of numbers, with complex numbers as pairs."""
    if isinstance(value, (tuple, list)):
        return [_lists(v) for v in value]
    if not hasattr(value, "detach"):
        return value
    found = value.detach().resolve_conj().tolist()
    return _pairs(found) if value.is_complex() else found


def _pairs(value):
    return [_pairs(v) for v in value] if isinstance(value, list) else [value.real, value.imag]


def found(torch, program):
    """Run a program; `REFUSED` where the library raises an error."""
    calls = Calls(torch)
    names = {name: getattr(calls, name) for name in ("value", "gradient", "second", "tangent", "refusals")}
    try:
        return eval(
            program, {"torch": torch, "F": torch.nn.functional, "inf": float("inf"), "nan": float("nan"), **names}
        )
    except (RuntimeError, NotImplementedError, AttributeError, ValueError):
        return REFUSED


def equal(one, other):
    """Return whether nested lists of numbers agree; NaN equals NaN."""
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(equal, one, other))
    if one is None or isinstance(one, str):
        return one == other
    return type(one) is type(other) and one == pytest.approx(other, 1e-9, 1e-12, True)


@pytest.mark.parametrize(
    ("release", "change"), CHANGES, ids=lambda part: part if isinstance(part, str) else part["what"]
)
def test_a_change_of_a_release_is_as_it_was_recorded(torch, release, change):
    assert not equal(change["before"], change["since"])
    older = torch.__name__ == "torch" and pytorch_before(release)
    assert equal(found(torch, change["program"]), change["before" if older else "since"])
