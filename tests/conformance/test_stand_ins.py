"""Names that exist so that packages can be imported: of PyTorch's kind, and a use works or raises a clear error."""

from __future__ import annotations

import inspect
import warnings
from importlib import import_module

import pytest

from gradloom.utils._refused import is_refused

pytest.importorskip("torch")

MODULES = """
    _C _C._functorch _custom_ops _dynamo _guards _library _ops _subclasses accelerator ao backends.cuda backends.cudnn
    backends.mps compiler cuda cuda.memory cuda.nvtx distributed distributed.checkpoint distributed.fsdp
    distributed.optim distributed.rpc distributed.tensor distributed.tensor.parallel jit mps mtia
    nn.parallel nn.parallel.comm onnx utils.data xpu
    """.split()
# Queries with an answer, which is PyTorch's on a machine without accelerators; the arguments are none.
ANSWERED = {
    "cuda": """device_count get_arch_list get_rng_state_all is_available is_bf16_supported is_initialized
        max_memory_allocated max_memory_reserved memory_allocated memory_reserved empty_cache""",
    "mps": "device_count is_available",
    "xpu": "device_count is_available is_initialized empty_cache",
    "mtia": "device_count is_available",
    "accelerator": "device_count is_available current_accelerator",
    "jit": "is_tracing is_scripting",
    "backends.cuda": "is_built flash_sdp_enabled math_sdp_enabled mem_efficient_sdp_enabled",
    "compiler": "is_compiling is_dynamo_compiling is_exporting",
    "distributed": "is_available is_initialized is_nccl_available is_torchelastic_launched",
}
OF_THE_BUILD = ("get_arch_list", "current_accelerator", "is_built", "is_nccl_available")
NO_ACCELERATOR = """
    Event Stream current_device current_stream default_stream get_device_capability get_device_name
    get_device_properties get_rng_state init mem_get_info set_device synchronize
    """.split()


def both(module):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return import_module(f"torch.{module}"), import_module(f"gradloom.{module}")


def kind(value):
    """Return what programs do with a thing: derive from a class, call a function, look into a module."""
    if isinstance(value, type):
        return "class"
    return "module" if inspect.ismodule(value) else "function" if callable(value) else "value"


@pytest.mark.parametrize("module", MODULES)
def test_kinds_are_those_of_pytorch(module):
    try:
        theirs, ours = both(module)
    except ImportError as error:
        pytest.skip(str(error))
    wrong = []
    for name in dir(theirs):
        if name.startswith("__"):
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                wanted, found = getattr(theirs, name), getattr(ours, name)
            except (AttributeError, ImportError, RuntimeError, AssertionError):
                continue  # docs/absent.md has what is missing
        if is_refused(found) and kind(found) != kind(wanted):
            wrong.append(f"{name}: a {kind(wanted)} in PyTorch, a {kind(found)} here")
        if is_refused(found):
            try:
                found()
            except (RuntimeError, AssertionError) as error:
                if not str(error).startswith("torch.") or len(str(error)) < 30:
                    wrong.append(f"{name}: the error does not say what was used: {error}")
            else:
                wrong.append(f"{name}: can be used")
    assert not wrong


def _answered():
    for module, names in ANSWERED.items():
        for name in names.split():
            yield pytest.param(module, name, marks=[pytest.mark.build_of_cpus] if name in OF_THE_BUILD else [])


@pytest.mark.parametrize(("module", "name"), _answered())
def test_queries_are_answered_as_without_accelerators(module, name):
    theirs, ours = both(module)
    assert getattr(ours, name)() == getattr(theirs, name)()


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.build_of_cpus] if n == "Event" else []) for n in NO_ACCELERATOR]
)
def test_uses_of_a_gpu_are_refused(name):
    theirs, ours = both("cuda")
    for cuda in (theirs, ours):
        arguments = [0] if name == "set_device" else []
        with pytest.raises((RuntimeError, AssertionError, AttributeError)):  # PyTorch lacks _C._cuda_setDevice
            getattr(cuda, name)(*arguments)
