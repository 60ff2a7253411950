"""Programs that read tensors, and the state of the thread and the process, with changes; see reads.py."""

from __future__ import annotations

import types
from importlib.util import find_spec

import gradloom as torch
from gradloom import nn
from gradloom.nn import functional as F
from gradloom.overrides import TorchFunctionMode
from gradloom.utils._python_dispatch import TorchDispatchMode
from tests.compiler.reads import changed, program, python

# --- tensors as arguments ---------------------------------------------------------------------------------------------

# For each: an expression of x (and of y), and arguments of calls in turn.
BASE = torch.arange(24.0)


def with_gradient(t):
    t.grad = torch.ones(3)
    return t


ARGUMENTS = {
    "shape": (lambda x: x * x.shape[0] + x.size(-1) + x.numel(), lambda: [BASE[:3], BASE[:4], BASE[:3]]),
    "dtype": (
        lambda x: x * 2 if x.dtype is torch.float32 else x * 3,
        lambda: [BASE[:3], BASE[:3].double(), BASE[:3].int(), BASE[:3].half()],
    ),
    "strides": (
        lambda x: x * x.stride(0) + x.is_contiguous(), lambda: [BASE[:3], BASE[:6:2], BASE[:1].expand(3), BASE[:3]],
    ),
    "layout": (
        lambda x: x * 2 if x.layout is torch.strided else x.detach().to_dense(),
        lambda: [BASE[:3], BASE[:3].to_sparse(), BASE[:3]],
    ),
    "offset": (lambda x: x * x.storage_offset(), lambda: [BASE[:3], BASE[5:8], BASE[7:10]]),
    "output number": (
        lambda x: x * (x.output_nr + 2), lambda: [*(BASE.clone().requires_grad_() * 1).split(8), BASE[:8]],
    ),
    "requires_grad": (
        lambda x: x * 2 if x.requires_grad else x * 3, lambda: [torch.ones(3), torch.ones(3).requires_grad_(),
        torch.ones(3)],
    ),
    "leaf": (
        lambda x: x * 2 if x.is_leaf else x * 3, lambda: [torch.ones(3).requires_grad_(),
        torch.ones(3).requires_grad_() * 1],
    ),
    "version": (lambda x: x * (x._version + 2), lambda: [torch.ones(3), torch.ones(3).add_(1), torch.ones(3)]),
    "view": (lambda x: x * (2 if x._base is None else 3), lambda: [torch.ones(3), BASE[:3], torch.ones(3)]),
    "view by a method": (lambda x: x * (2 if x._is_view() else 3), lambda: [torch.ones(3), BASE[:3], torch.ones(3)]),
    "gradient": (
        lambda x: x * (2 if x.grad is None else 3), lambda: [torch.ones(3), with_gradient(torch.ones(3))],
    ),
    "grad_fn": (
        lambda x: x * (2 if x.grad_fn is None else 3), lambda: [torch.ones(3), torch.ones(3).requires_grad_() * 1,
        torch.ones(3)],
    ),
    "retained gradient": (
        lambda x: x * (2 if x.retains_grad else 3), lambda: [torch.ones(3),
        (lambda t: (t.retain_grad(), t)[1])(torch.ones(3).requires_grad_() * 1)],
    ),
    "shared memory": (
        lambda x: x * (2 if x.is_shared() else 3), lambda: [torch.ones(3), torch.ones(3).share_memory_(),
        torch.ones(3)],
    ),
    "address": (lambda x: x * (x.data_ptr() * 0 + 1), lambda: [torch.ones(3), torch.ones(3)]),
    "value": (lambda x: x * 2 if x.sum() > 2 else x * 3, lambda: [torch.ones(3), torch.zeros(3), torch.ones(3)]),
    "item": (lambda x: x * x[0].item(), lambda: [torch.ones(3), torch.full((3,), 2.0)]),
    "number by float": (lambda x: x * float(x[0].detach()), lambda: [torch.ones(3), torch.full((3,), 2.0)]),
    "text": (lambda x: x * len(str(x)), lambda: [torch.ones(3), torch.full((3,), 2.5)]),
    "list": (lambda x: x * x.tolist()[0], lambda: [torch.ones(3), torch.full((3,), 2.0)]),
    "array": (lambda x: x * float(x.detach().numpy()[0]), lambda: [torch.ones(3), torch.full((3,), 2.0)]),
    "conjugate": (
        lambda x: x * 2 + x.is_conj(),
        lambda: [torch.full((3,), 1j), torch.full((3,), 1j).conj()],
    ),
    "parameter": (
        lambda x: x * (2 if isinstance(x, nn.Parameter) else 3),
        lambda: [torch.ones(3), nn.Parameter(torch.ones(3)), torch.ones(3)],
    ),
    "marked as a parameter": (
        lambda x: x * (2 if isinstance(x, nn.Parameter) else 3), lambda: [torch.ones(3), (lambda t: (setattr(t,
        "_is_param", True), t)[1])(torch.ones(3))],
    ),
    "device": (
        lambda x: x * 2 if x.device.type == "cpu" else x, lambda: [torch.ones(3), torch.ones(3, device="meta"),
        torch.ones(3)],
    ),
    "subclass": (
        lambda x: x * 2 + 1, lambda: [torch.ones(3), torch.ones(3).as_subclass(type("Own", (torch.Tensor,), {})),
        torch.ones(3)],
    ),
    "hook": (
        lambda x: x * 2, lambda: [torch.ones(3).requires_grad_(),
        (lambda t: (t.register_hook(lambda g: g * 5), t)[1])(torch.ones(3).requires_grad_())],
    ),
    "memory format": (
        lambda x: x * (2 if x.is_contiguous(memory_format=torch.channels_last) else 3),
        lambda: [torch.ones(2, 3, 4, 4), torch.ones(2, 3, 4, 4).to(memory_format=torch.channels_last),
        torch.ones(2, 3, 4, 4)],
    ),
    "zero dimensions": (
        lambda x: x * 2 + x.dim(), lambda: [torch.ones(()), torch.ones(1), torch.ones(0), torch.ones(())],
    ),
    "user attribute": (
        lambda x: x * x.scale, lambda: [(lambda t, s: (setattr(t,
        "scale", s), t)[1])(torch.ones(3), s) for s in (2.0, 3.0, 4.0, 2)],
    ),
}  # fmt: skip


def _arguments(name):
    def reads():
        apply, make = ARGUMENTS[name]
        values = make()

        def f(x):
            return apply(x)

        for x in (*values, values[0]):
            yield f, x

    reads.__name__ = f"argument_{name.replace(' ', '_')}"
    python(reads)


for _name in ARGUMENTS:
    _arguments(_name)

GLOBAL = torch.full((3,), 2.0)


@program
def argument_that_is_a_global():
    def f(x):
        return x * GLOBAL

    x = torch.full((3,), 5.0)
    yield f, GLOBAL
    yield f, x
    yield f, GLOBAL
    GLOBAL.requires_grad_(False)


@program
def argument_that_is_in_a_container():
    c = [torch.full((3,), 2.0)]

    def f(x):
        return x * c[0] + len(c)

    x = torch.full((3,), 5.0)
    yield f, c[0]
    yield f, x
    c[0] = x
    yield f, x


@program
def containers_that_are_arguments_and_variables():
    c = [torch.full((3,), 2.0)]

    def f(xs):
        return xs[0] * c[0] + len(c)

    yield f, c
    other = [torch.full((3,), 5.0)]
    yield f, other
    c[0] = torch.full((3,), 7.0)
    yield f, other
    c.append(1)
    yield f, other
    yield f, c


@program
def identity_of_tensors():
    def f(x, y, z):
        return x * (2 if x is y else 3) + (4 if y is not z else 5) + (6 if z is GLOBAL else 7)

    a, b, c = torch.ones(3), torch.ones(3), torch.ones(3)
    for args in ((a, b, c), (a, a, c), (a, a, a), (a, b, b), (a, b, GLOBAL), (GLOBAL, GLOBAL, a), (a, b, c)):
        yield f, *args
    GLOBAL.requires_grad_(False)


@program
def identity_of_containers():
    kept = [1.0]

    def f(x, a, b):
        return x * (2 if a is b else 3) + (4 if a is kept else 5)

    x, one, two = torch.ones(3), [1.0], [1.0]
    for args in ((one, two), (one, one), (two, kept), (kept, kept), (kept, one), (one, two)):
        yield f, x, *args


@program
def overlapping_arguments():
    def f(x, y):
        z = x * 1
        z.add_(y)
        return z * y

    whole = torch.arange(4.0)
    yield f, whole[:3].clone(), whole[1:].clone()
    yield f, whole[:3], whole[1:]
    yield f, whole[:3], whole[:3]


@program
def tensor_replaced_in_a_module():
    net = nn.Linear(3, 3)

    def f(x):
        return net(x)

    x = torch.ones(2, 3)
    yield f, x
    net.weight.data = torch.ones(3, 3)
    yield f, x
    with torch.no_grad():
        net.weight.fill_(2.0)
    yield f, x
    net.weight.requires_grad_(False)
    yield f, x
    net.weight.data = torch.ones(3, 3).t()
    yield f, x
    net.double()
    yield f, x.double()


# --- modules' states --------------------------------------------------------------------------------------------------


@program
def training():
    net = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5), nn.BatchNorm1d(3, track_running_stats=False))

    def f(x):
        return net(x) * (2 if net.training else 3)

    x = torch.arange(12.0).view(4, 3).sin()
    yield f, x
    net.eval()
    yield f, x
    net.train()
    yield f, x
    net[1].eval()
    yield f, x
    net[1].train()
    net[1].p = 0.25
    yield f, x


HOOKS = {
    "forward hook": lambda net: net.register_forward_hook(lambda m, i, o: o * 2),
    "forward pre-hook": lambda net: net.register_forward_pre_hook(lambda m, i: (i[0] * 2,)),
    "backward hook": lambda net: net.register_full_backward_hook(lambda m, i, o: (None if i[0] is None else i[0] * 2,)),
    "backward pre-hook": lambda net: net.register_full_backward_pre_hook(lambda m, o: (o[0] * 2,)),
    "global forward hook": lambda net: nn.modules.module.register_module_forward_hook(lambda m, i, o: o * 2),
    "global forward pre-hook": lambda net: nn.modules.module.register_module_forward_pre_hook(lambda m, i: (i[0] * 2,)),
    "global backward hook": lambda net: nn.modules.module.register_module_full_backward_hook(
        lambda m, i, o: (i[0] * 2 if i[0] is not None else None,)
    ),
    "hook of a parameter": lambda net: net.weight.register_hook(lambda g: g * 3),
}  # fmt: skip


def _hooked(name):
    def reads():
        net = nn.Linear(3, 3)

        def f(x, weight):
            return net(x) * 2 + weight.sum() * 0

        x = torch.ones(2, 3)
        yield f, x, net.weight
        handle = HOOKS[name](net)
        try:
            yield f, x, net.weight
        finally:
            handle.remove()
        yield f, x, net.weight

    reads.__name__ = name.replace(" ", "_").replace("-", "_")
    python(reads)


for _name in HOOKS:
    _hooked(_name)


# --- the state of the thread and the process --------------------------------------------------------------------------

SETTINGS = {
    "default dtype": (
        lambda x: x * torch.zeros(1).dtype.itemsize + torch.ones(3) * torch.tensor(2.0), torch.get_default_dtype,
        torch.set_default_dtype, torch.float64,
    ),
    "default dtype by its name": (
        lambda x: x * (2 if torch.get_default_dtype() is torch.float32 else 3), torch.get_default_dtype,
        torch.set_default_dtype, torch.float64,
    ),
    "default device": (lambda x: torch.zeros(3), torch.get_default_device, torch.set_default_device, "meta"),
    "number of threads": (lambda x: x * torch.get_num_threads(), torch.get_num_threads, torch.set_num_threads, 3),
    "grad mode": (
        lambda x: x * (2 if torch.is_grad_enabled() else 3), torch.is_grad_enabled, torch.set_grad_enabled, False,
    ),
    "grad mode that operators see": (lambda x: (x * 2).sin(), torch.is_grad_enabled, torch.set_grad_enabled, False),
    "deterministic algorithms": (
        lambda x: x * (2 if torch.are_deterministic_algorithms_enabled() else 3),
        torch.are_deterministic_algorithms_enabled, torch.use_deterministic_algorithms, True,
    ),
    "empty memory of deterministic algorithms": (
        lambda x: torch.empty(3).isnan() * torch.ones(3) * (2 if torch.are_deterministic_algorithms_enabled() else 0),
        torch.are_deterministic_algorithms_enabled, torch.use_deterministic_algorithms, True,
    ),
    "deterministic debug mode": (
        lambda x: x * (2 + torch.get_deterministic_debug_mode()), torch.get_deterministic_debug_mode,
        torch.set_deterministic_debug_mode, 1,
    ),
    "precision of products": (
        lambda x: x * len(torch.get_float32_matmul_precision()), torch.get_float32_matmul_precision,
        torch.set_float32_matmul_precision, "high",
    ),
    "warnings always": (
        lambda x: x * (2 if torch.is_warn_always_enabled() else 3), torch.is_warn_always_enabled,
        torch.set_warn_always, True,
    ),
    "anomaly mode": (
        lambda x: x * (2 if torch.is_anomaly_enabled() else 3), torch.is_anomaly_enabled,
        torch.autograd.set_detect_anomaly, True,
    ),
    "cudnn flags": (
        lambda x: x * (2 if torch.backends.cudnn.enabled else 3) + torch.backends.cudnn.benchmark,
        lambda: torch.backends.cudnn.benchmark, lambda v: setattr(torch.backends.cudnn, "benchmark", v), True,
    ),
    "tf32 flag": (
        lambda x: x * (2 if torch.backends.cuda.matmul.allow_tf32 else 3),
        lambda: torch.backends.cuda.matmul.allow_tf32, lambda v: setattr(torch.backends.cuda.matmul,
        "allow_tf32", v), True,
    ),
    "fast path of attention": (
        lambda x: x * (2 if torch.backends.mha.get_fastpath_enabled() else 3),
        torch.backends.mha.get_fastpath_enabled, torch.backends.mha.set_fastpath_enabled, False,
    ),
    "flash attention": (
        lambda x: x * (2 if torch.backends.cuda.flash_sdp_enabled() else 3),
        torch.backends.cuda.flash_sdp_enabled, torch.backends.cuda.enable_flash_sdp, False,
    ),
    "subnormal numbers": (
        lambda x: x * 1e-40 + torch.full((3,), 1e-40), lambda: False, torch.set_flush_denormal, True,
    ),
    "print options": (
        lambda x: x * len(repr(torch.ones(3))), lambda: 4, lambda v: torch.set_printoptions(precision=v), 7,
    ),
    "autocast dtype": (
        lambda x: x * (2 if torch.get_autocast_dtype("cpu") is torch.bfloat16 else 3),
        lambda: torch.get_autocast_dtype("cpu"), lambda v: torch.set_autocast_dtype("cpu", v), torch.float16,
    ),
    "kernels": (
        lambda x: x.softmax(0) * 2, lambda: "numpy", torch.set_kernels, "llvm" if find_spec("llvmlite") else "numpy",
    ),
    "seed": (lambda x: x * (torch.initial_seed() + 1), torch.initial_seed, torch.manual_seed, 7),
}  # fmt: skip


def _setting(name):
    def reads():
        apply, get, put, value = SETTINGS[name]

        def f(x):
            return apply(x)

        x, before = torch.ones(3), get()
        yield f, x
        try:
            put(value)
            yield f, x
        finally:
            put(before)
        yield f, x

    reads.__name__ = f"setting_{name.replace(' ', '_')}"
    python(reads)


for _name in SETTINGS:
    _setting(_name)


class Doubled(TorchFunctionMode):
    def __torch_function__(self, function, classes, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        return result * 2 if function is torch.sin else result


class Tripled(TorchDispatchMode):
    def __torch_dispatch__(self, function, classes, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        return result * 3 if "sin" in str(function) else result


def packed():
    return torch.autograd.graph.saved_tensors_hooks(lambda t: t * 2, lambda t: t)


CONTEXTS = {
    "no_grad": torch.no_grad,
    "enable_grad": torch.enable_grad,
    "inference_mode": torch.inference_mode,
    "autocast": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
    "disabled autocast": lambda: torch.autocast("cpu", enabled=False),
    "function mode": Doubled,
    "dispatch mode": Tripled,
    "saved tensors hooks": packed,
    "device": lambda: torch.device("meta"),
    "anomaly": lambda: torch.autograd.set_detect_anomaly(True),
}


def _context(name):
    def reads():
        def f(x):
            mode = (
                torch.is_grad_enabled() + 2 * torch.is_inference_mode_enabled() + 4 * torch.is_autocast_enabled("cpu")
            ) * 1.0
            return torch.sin(x @ x.T) + mode * torch.ones(2, 2, device=x.device)

        x = torch.ones(2, 3)
        yield f, x
        with CONTEXTS[name]():
            yield f, x
        yield f, x

    reads.__name__ = f"context_{name.replace(' ', '_')}"
    python(reads)


for _name in CONTEXTS:
    _context(_name)


@program
def random_numbers():
    def f(x):
        return x * torch.rand(3) + F.dropout(x, 0.5)

    x = torch.ones(3)
    yield f, x
    yield f, x


@program
def generator_argument():
    def f(x, generator):
        return x * torch.rand(3, generator=generator)

    x, generators = torch.ones(3), (torch.Generator(), torch.Generator())
    for generator in (*generators, generators[0]):
        yield f, x, generator


@python
def flags_of_a_module_of_settings():
    settings = types.SimpleNamespace(flags={"fast": True})

    def f(x):
        with torch.no_grad() if settings.flags["fast"] else torch.enable_grad():
            y = x * 2
        return y + x

    x = torch.ones(3)
    yield f, x
    settings.flags["fast"] = False
    yield f, x
    settings.flags["fast"] = True
    yield f, x


@program
def member_of_the_library_replaced():
    def f(x):
        return F.gelu(x) + torch.sigmoid(x) + torch.special.erf(x)

    x = torch.ones(3)
    yield f, x
    with changed(F, gelu=lambda x: x * 3):
        yield f, x
    with changed(torch, sigmoid=torch.tanh):
        yield f, x
    with changed(torch.special, erf=lambda x: x * 5):
        yield f, x
    yield f, x
