"""NumPy's floating-point warnings: operators give none under any filter, and leave NumPy to the program.

Note [Floating-point warnings] in src/gradloom/types/silence.py has the mechanism.
"""

from __future__ import annotations

import contextvars
import itertools
import pkgutil
import sys
import threading
import warnings
from importlib import import_module

import numpy as np
import pytest

import gradloom
import gradloom.generated.functions
import gradloom.generated.variable_type
import gradloom.kernels
from gradloom.tools.verify import own_operators
from gradloom.tools.verify.sampling import NoSamples, samples
from gradloom.types.silence import module_name
from tests.waiting import LIMIT

CALLS = """
linspace(0, 3, 4) ; log(tensor(0.)) ; tensor(1.) / 0 ; tensor(1.) < 1e300 ; tensor([inf]) - inf
full((2,), 1e300, dtype=float64).float()
tensor([1e300, 1]) ; tensor(1e300, dtype=float32) ; tensor([1e30]) * 1e30 ; tensor([1e300], dtype=float64).float()
tensor([nan]).int() ; tensor([1e30]).long() ; tensor([inf]).to(uint8) ; tensor([1e6]).half() ; tensor([inf]).prod()
tensor([1e38, 1e38]).sum() ; tensor([nan, 1.]).max() ; tensor([nan, 1.]).aminmax() ; tensor([[inf, 0], [0, 0]]).det()
tensor([inf, nan]).tolist() ; repr(tensor([1e-45, 1e38, inf, nan])) ; tensor(-1.).sqrt() ; tensor(0).reciprocal()
einsum('ij,jk,kl->il', *[full((2, 2), 1e38)] * 3) ; kaiser_window(5, True, 1e4) ; zeros(2).normal_(inf, 1.)
tensor([1., -inf]).softmax(0) ; nn.functional.layer_norm(full((2, 3), inf), (3,)) ; tensor([inf]).to_sparse() * 0
fft.fft(full((4,), 1e308, dtype=float64)) ; tensor([1e308], dtype=float64).conj() * 1e308 ; cumprod(full((9,), 1e38), 0)
as_tensor(1e300).bfloat16() ; tensor(5e-324, dtype=float64).float() / 3 ; tensor(2.).pow(1e10) ; tensor(0.) ** -1
""".replace("\n", ";").split(";")
SPECIAL = np.float32([0.0, -0.0, np.inf, -np.inf, np.nan, 2.0**126, -(2.0**126), 2.0**-140, 6e4, -1.0, 0.5])


def evaluate(call):
    code = compile(call, "call", "eval")
    eval(code, {name: getattr(gradloom, name) for name in code.co_names if hasattr(gradloom, name)})


@pytest.mark.parametrize("call", [call.strip() for call in CALLS if call.strip()])
def test_operators_are_silent_where_warnings_are_errors(call):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        evaluate(call)


def divided():
    """Divide by zero, forward and backward."""
    x = gradloom.zeros(2, requires_grad=True)
    (x.log() / x + x.reciprocal() * 1e38).sum().backward()
    return x.grad


def program(library):
    """Yield from a generator between operators."""
    yield divided()
    yield gradloom.compile(lambda x: (x.log() / x).exp() * 1e38)(gradloom.zeros(3))
    yield library


@pytest.mark.parametrize("action", ["error", "always", "default"])
def test_no_filter_shows_a_warning_in_any_thread_or_context(action):
    failures = []

    def work():
        try:
            list(program(None))
        except Warning as error:
            failures.append(error)

    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter(action)
        work()
        contextvars.Context().run(work)
        threads = [threading.Thread(target=work) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(LIMIT)
    assert not failures and not [w for w in shown if issubclass(w.category, RuntimeWarning)]


def test_arrays_of_the_program_keep_numpys_error_state():
    before = np.geterr()
    divided()
    assert np.geterr() == before
    with pytest.warns(RuntimeWarning, match="divide by zero"):
        np.log(np.zeros(1))
    steps = program(None)
    with np.errstate(divide="raise"):
        for _ in range(2):
            with pytest.raises(FloatingPointError):
                np.log(np.zeros(1))
            with np.errstate(divide="ignore"):
                next(steps)


def test_all_modules_of_kernels_and_of_generated_code_are_silent():
    for package in (gradloom.kernels, gradloom.generated.functions, gradloom.generated.variable_type):
        found = [m for m in pkgutil.walk_packages(package.__path__, f"{package.__name__}.") if not m.ispkg]
        assert len(found) > 15
        for module in found:
            names = vars(import_module(module.name))
            assert names["__name__"] is None and module_name(names) == module.name
            assert sys.modules[module.name].__dict__ is names


def filled(value, numbers):
    """Return an argument of an operator with special numbers in its floating-point tensors."""
    if isinstance(value, gradloom.Tensor) and value.is_floating_point():
        array = np.resize(np.roll(SPECIAL, next(numbers)), value.shape)
        return gradloom.from_numpy(array).requires_grad_()
    if isinstance(value, list):
        return [filled(v, numbers) for v in value]
    return value


def leaves(value):
    if isinstance(value, gradloom.Tensor):
        return [value] if value.requires_grad else []
    return [t for v in value for t in leaves(v)] if isinstance(value, (list, tuple)) else []


def run(operator):
    """Call an operator with special numbers; differentiate it and its derivative."""
    try:
        args, kwargs = operator.completed(
            *next(iter(operator.samples() if operator.samples is not None else samples(operator)))
        )
    except (NoSamples, StopIteration):
        return
    numbers = itertools.count(0, 3)
    args = [filled(a, numbers) for a in args]
    kwargs = {name: filled(a, numbers) for name, a in kwargs.items()}
    results = leaves([operator.call(*args, **kwargs)])
    inputs = leaves([args, list(kwargs.values())])
    if results and inputs:
        cotangents = [gradloom.full_like(r, 1e38) for r in results]
        found = gradloom.autograd.grad(results, inputs, cotangents, create_graph=True, allow_unused=True)
        found = [g for g in found if g is not None and g.requires_grad]
        if found:
            gradloom.autograd.grad(found, inputs, [gradloom.ones_like(g) for g in found], allow_unused=True)


def test_all_operators_are_silent_with_special_numbers():
    found = set()
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        for operator in own_operators():
            with np.errstate(all="warn"):
                try:
                    run(operator)
                except (RuntimeError, ValueError, IndexError, TypeError, NotImplementedError):
                    pass  # refuses such numbers
            found |= {
                f"{operator.name}: {w.message} ({w.filename}:{w.lineno})"
                for w in shown
                if issubclass(w.category, RuntimeWarning)
            }
            shown.clear()
    assert not found
