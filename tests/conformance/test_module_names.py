"""`__module__` and `__qualname__` of public classes and functions: PyTorch's, with gradloom in place of torch."""

from __future__ import annotations

import inspect
import pickle
import types
from importlib import import_module

import pytest
import torch

MODULES = """
    torch torch.accelerator torch.amp torch.autograd torch.autograd.forward_ad torch.autograd.function
    torch.autograd.functional torch.autograd.grad_mode torch.autograd.graph torch.autograd.profiler
    torch.autograd.profiler_util torch.backends torch.cpu torch.cuda torch.distributions torch.distributions.transforms
    torch.fft torch.func torch.jit torch.library torch.linalg torch.masked torch.nn torch.nn.functional torch.nn.init
    torch.nn.modules torch.nn.parallel torch.nn.parameter torch.nn.utils torch.nn.utils.parametrizations
    torch.nn.utils.parametrize torch.nn.utils.prune torch.nn.utils.rnn torch.optim torch.optim.lr_scheduler
    torch.optim.swa_utils torch.overrides torch.profiler torch.random torch.serialization torch.signal.windows
    torch.sparse torch.special torch.storage torch.testing torch.utils torch.utils._pytree torch.utils.checkpoint
    torch.utils.data torch.utils.dlpack torch.utils.hooks
    """.split()
# Answered elsewhere, with the reason.
EXCUSED = {
    # PyTorch's are wrappers or C functions, of a module that only holds these; ours are where programs find them.
    **dict.fromkeys(("has_torch_function", "has_torch_function_unary", "has_torch_function_variadic")),
    **dict.fromkeys(("DeviceType", "ProfilerActivity", "kineto_available")),
    # torch.compiler.compile calls torch.compile; here they are one function.
    "compile": None,
    # Rare names, found where they are defined.
    **dict.fromkeys(
        """cond fork hsmm hspmm parse_schema saddmm smm sspaddmm thread_safe_generator wait while_loop""".split()
    ),
    # torch.futures.Future is also TorchScript's.
    "Future": None,
}


def members(module):
    """Yield (name, PyTorch's, ours) for the public functions and classes that both libraries have."""
    theirs, ours = import_module(module), import_module(module.replace("torch", "gradloom", 1))
    for name in dir(theirs):
        value = getattr(theirs, name, None)
        known = callable(value) and isinstance(getattr(value, "__module__", None), str)
        if name.startswith("_") or not known or not value.__module__.startswith("torch"):
            continue
        found = getattr(ours, name, None)
        if isinstance(found, (type, types.FunctionType)) and (found.__module__ or "").startswith("gradloom"):
            yield name, value, found


def is_private(module):
    return any(part.startswith("_") for part in module.split("."))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("module", MODULES)
def test_modules_are_those_of_pytorch(module):
    wrong = []
    for name, theirs, ours in members(module):
        wanted, answered = theirs.__module__, ours.__module__.replace("gradloom", "torch", 1)
        # A private module's name is found in a public one. torch.functional holds Python's versions of operators.
        public = is_private(wanted) or wanted == "torch.functional" or wanted.startswith(f"{answered}.")
        if wanted != answered and name not in EXCUSED and not (public and not is_private(answered)):
            wrong.append(f"{name}: {wanted}, ours {answered}")
        if inspect.isclass(theirs) and theirs.__qualname__ != ours.__qualname__ and not theirs.__name__.startswith("_"):
            wrong.append(f"{name}: {theirs.__qualname__}, ours {ours.__qualname__}")
    assert not wrong


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("module", MODULES)
def test_pickles_find_them(module):
    wrong = []
    for name, _, ours in members(module):
        if "<locals>" in ours.__qualname__:  # made for devices that are absent
            continue
        try:
            if pickle.loads(pickle.dumps(ours)) is not ours:
                wrong.append(name)
        except Exception as error:
            wrong.append(f"{name}: {error}")
    assert not wrong


def test_values_have_pytorchs_classes():
    gradloom = import_module("gradloom")
    for make in (
        lambda t: t.ones(1),
        lambda t: t.float32,
        lambda t: t.Size([1]),
        lambda t: t.device("cpu"),
        lambda t: t.Generator(),
        lambda t: t.strided,
        lambda t: t.contiguous_format,
        lambda t: t.finfo(t.float32),
        lambda t: t.nn.Linear(1, 1).weight,
        lambda t: t.ones(1).untyped_storage(),
        lambda t: t.max(t.ones(1), 0),
    ):
        assert repr(type(make(gradloom))).replace("gradloom", "torch") == repr(type(make(torch)))
