"""Custom functions in combinations: what forward is given, what it returns, marks and saves, in which mode, and what is
done with the results afterwards. Each shows the same with both libraries: history, views, versions, values, errors."""

from __future__ import annotations

import itertools
import warnings
from importlib import import_module

import pytest

WORDS = 30  # how much of an error's message has to agree


def under_no_grad(torch):
    base = torch.ones(6, requires_grad=True) * 1
    with torch.no_grad():
        return base[1:5]


GIVEN = {
    "leaf": lambda torch: torch.ones(4, requires_grad=True),
    "result": lambda torch: torch.ones(4, requires_grad=True) * 1,
    "constant": lambda torch: torch.ones(4),
    "view": lambda torch: (torch.ones(6, requires_grad=True) * 1)[1:5],
    "view of a view": lambda torch: (torch.ones(2, 4, requires_grad=True) * 1)[0].view(2, 2).view(4),
    "view of a constant": lambda torch: torch.ones(6)[1:5],
    "view of a leaf": lambda torch: torch.ones(6, requires_grad=True)[1:5],
    "one of several views": lambda torch: (torch.ones(8, requires_grad=True) * 1).chunk(2)[0],
    "view under no_grad": under_no_grad,
    "detached": lambda torch: (torch.ones(4, requires_grad=True) * 1).detach(),
}


def with_its_view(y):
    return y, y.view(2, 2)


RETURNED = {
    "a new tensor": lambda x: x * 2,
    "the input": lambda x: x,
    "a view": lambda x: x.view_as(x),
    "the detached input": lambda x: x.detach(),
    "a slice": lambda x: x[:4],
    "the input, written": lambda x: x.mul_(2),
    "the input and a new one": lambda x: (x, x * 2),
    "a new one and the input": lambda x: (x * 2, x),
    "a view and a new one": lambda x: (x.view(-1), x * 3),
    "two views": lambda x: (x[:2], x[2:]),
    "one twice": lambda x: (x * 2,) * 2,
    "the input twice": lambda x: (x, x),
    "a tuple of one": lambda x: (x * 2,),
    "a view of a new one": lambda x: (x * 2).view(2, 2),
    "a new one and its view": lambda x: with_its_view(x * 2),
    "integers": lambda x: (x.long(), x * 2),
    "None": lambda x: (None, x * 2),
}
WRITABLE = {
    "the input, written",
    "the input",
    "the input and a new one",
    "a new one and the input",
    "a new tensor",
    "the input twice",
}


def options(returned):
    """(dirty, number of the result that is not differentiable, what is saved, setup_context, no_grad, zeros made)"""
    for dirty, unmarked, saved, separate, no_grad, zeros in itertools.product(
        (False, True), (None, 0, 1), (None, "input", "output"), (False, True), (False, True), (True, False)
    ):
        if dirty and returned not in WRITABLE or not zeros and (separate or no_grad or saved):
            continue
        if separate and (saved == "input" or unmarked == 1) or no_grad and unmarked == 1:
            continue
        yield dirty, unmarked, saved, separate, no_grad, zeros


def state(torch, value):
    if not isinstance(value, torch.Tensor):
        return value
    node = value.grad_fn
    return (
        value.requires_grad,
        value.is_leaf,
        value._is_view(),
        value._version,
        node and node.name(),
        value.output_nr,
        value.tolist(),
    )


class Run:
    """One combination with one library; `seen` is what it shows."""

    def __init__(self, torch, given, returned, option):
        self.torch, self.x, self.returned = torch, GIVEN[given](torch), RETURNED[returned]
        self.dirty, self.unmarked, self.saved, self.separate, self.no_grad, self.zeros = option
        self.seen = []

    def attempt(self, call):
        try:
            self.seen.append(call())
        except Exception as error:
            self.seen.append((type(error).__name__, str(error)[:WORDS]))

    def state(self, value):
        return state(self.torch, value)

    def mark(self, ctx, x, output):
        outputs = output if isinstance(output, tuple) else (output,)
        tensors = [t for t in outputs if isinstance(t, self.torch.Tensor)]
        if self.dirty:
            ctx.mark_dirty(x)
        if self.unmarked is not None and any(t is outputs[min(self.unmarked, len(outputs) - 1)] for t in tensors):
            ctx.mark_non_differentiable(outputs[min(self.unmarked, len(outputs) - 1)])
        if self.saved:
            ctx.save_for_backward(*([x] if self.saved == "input" else tensors))
        if not self.zeros:
            ctx.set_materialize_grads(False)

    def forward(self, ctx, x):
        output = self.returned(x)
        self.mark(ctx, x, output)
        return output

    def backward(self, ctx, *grads):
        self.seen += [self.state(t) for t in ctx.saved_tensors]
        self.seen.append([None if g is None else g.tolist() for g in grads])
        parts = [g.reshape(-1).repeat(4 // g.numel()) * 3 for g in grads if g is not None and g.is_floating_point()]
        return sum(parts) if parts else None

    def function(self):
        members = {"backward": staticmethod(self.backward), "forward": staticmethod(self.forward)}
        if self.separate:
            members["forward"] = staticmethod(lambda x: self.returned(x))
            members["setup_context"] = staticmethod(lambda ctx, inputs, output: self.mark(ctx, inputs[0], output))
        return type("Made", (self.torch.autograd.Function,), members)

    def show(self):
        torch, x = self.torch, self.x
        found = []
        with torch.set_grad_enabled(not self.no_grad):
            self.attempt(lambda: found.append(self.function().apply(x)))
        self.attempt(lambda: self.state(x))
        if not found:
            return self.seen
        results = found[0] if isinstance(found[0], tuple) else found
        self.seen += [type(found[0]).__name__, [r is x for r in results], *[self.state(r) for r in results]]
        tensors = [r for r in results if isinstance(r, torch.Tensor) and r.is_floating_point()]
        for result in tensors:
            if result.requires_grad:
                of = x if x.requires_grad else result
                self.attempt(
                    lambda r=result, of=of: [
                        self.state(g) for g in torch.autograd.grad(r.sum(), [of], retain_graph=True, allow_unused=True)
                    ]
                )
        for written in (*tensors, x):
            self.attempt(lambda w=written: self.state(w.add_(1)))
            for shown in (x, *tensors):
                self.attempt(lambda s=shown: self.state(s))
        for result in tensors:
            self.attempt(lambda r=result: r.requires_grad and r.sum().backward(retain_graph=True))
        return self.seen


@pytest.mark.parametrize("returned", RETURNED)
@pytest.mark.parametrize("given", GIVEN)
def test_combinations_show_the_same(given, returned):
    libraries = [import_module(name) for name in ("torch", "gradloom")]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for option in options(returned):
            theirs, ours = [Run(library, given, returned, option).show() for library in libraries]
            assert ours == theirs, option


def test_a_difference_would_be_seen():
    torch = import_module("torch")
    shown = [
        Run(torch, "leaf", "a new tensor", (False, None, saved, False, False, True)).show() for saved in (None, "input")
    ]
    assert (
        shown[0] != shown[1]
        and Run(torch, "leaf", "the input", (True, None, None, False, False, True)).show()[0][0] == "RuntimeError"
    )
