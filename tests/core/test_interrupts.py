"""Ctrl-C anywhere in a context manager leaves the state as it was before the block.

The exception is raised wherever Python checks for signals (at the start of a function, after a call, at a jump back)
within `__enter__` and `__exit__` and what they call. Only the start of `__exit__` itself is left out, which no code of
its own can handle; `dual_level` has a test of its own for that.
"""

from __future__ import annotations

import dis
import gc
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import gradloom as torch
from gradloom.autograd import forward_ad, grad_mode, graph
from gradloom.batching import levels
from gradloom.core import anomaly
from gradloom.dispatch import state as states
from gradloom.kernels._common import threads
from gradloom.overrides import TorchFunctionMode
from gradloom.python_dispatch.torch_function import checks
from gradloom.serialization import _unpickling
from gradloom.utils import checkpoint
from gradloom.utils._python_dispatch import TorchDispatchMode, _disable_current_modes


class Functions(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


class Dispatch(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


MANAGERS = {
    "no_grad": torch.no_grad,
    "enable_grad": torch.enable_grad,
    "set_grad_enabled": lambda: later(torch.set_grad_enabled, False),
    "inference_mode": torch.inference_mode,
    "inference_mode off": lambda: torch.inference_mode(False),
    "dual_level": forward_ad.dual_level,
    "_set_fwd_grad_enabled": lambda: forward_ad._set_fwd_grad_enabled(False),
    "autocast": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
    "detect_anomaly": lambda: torch.autograd.detect_anomaly(check_nan=False),
    "saved_tensors_hooks": lambda: graph.saved_tensors_hooks(lambda t: t, lambda t: t),
    "disable_saved_tensors_hooks": lambda: graph.disable_saved_tensors_hooks("no"),
    "allow_mutation_on_saved_tensors": graph.allow_mutation_on_saved_tensors,
    "grad_layout": lambda: later(grad_mode.enforce_grad_layout_policy, False),
    "multithreading": lambda: later(torch.autograd.set_multithreading_enabled, False),
    "profile": lambda: torch.profiler.profile(profile_memory=True),
    "autograd profile": lambda: torch.autograd.profiler.profile(),
    "vmap level": lambda: levels.running(levels.Level(3, "error")),
    "function mode": Functions,
    "dispatch mode": Dispatch,
    "no function subclass": lambda: torch._C.DisableTorchFunctionSubclass(),
    "no dispatch": states.DisableTorchDispatch,
    "no dispatch modes": _disable_current_modes,
    "fork_rng": torch.random.fork_rng,
    "deterministic flags": lambda: torch.backends.cudnn.flags(enabled=False),
    "early stop": lambda: checkpoint.set_checkpoint_early_stop(False),
    "safe_globals": lambda: torch.serialization.safe_globals([Functions]),
    "one BLAS thread": threads.single_threaded_blas,
}
LIBRARY = (str(Path(torch.__file__).parent), "contextlib")
CALLS = ("CALL", "PRECALL", "JUMP_BACKWARD")


def later(manager, *args):
    """Return a manager that its constructor entered, with the state from before."""
    before = dict(states.state.__dict__)
    made = manager(*args)
    states.state.__dict__.update(before)
    for name in set(states.state.__dict__) - set(before):
        del states.state.__dict__[name]
    return made


def shared_state():
    """Return what managers change."""
    thread = {n: getattr(states.state, n) for n in vars(states.ThreadState) if not n.startswith("_")}
    casts = thread.pop("autocast")
    thread.pop("unrecorded")
    return {
        **thread,
        "autocast": casts and (dict(casts.dtypes), dict(vars(casts)) if hasattr(casts, "__dict__") else None),
        "cast nesting": casts.nesting if casts else 0,
        "level": forward_ad._level[0],
        "anomaly": (dict(anomaly._mode), anomaly.nodes.write_watcher),
        "new threads": states._new_threads[0],
        "modes": dict(checks.modes_entered),
        "checked": checks._are_checked[0],
        "random": bytes(torch.get_rng_state().tolist()),
        "early stop": checkpoint.Settings.early_stop,
        "allowed": list(_unpickling.allowed),
        "BLAS": len(threads._blas_users),
        "cudnn": torch.backends.cudnn.enabled,
    }


class Interrupting:
    """Traces calls and raises KeyboardInterrupt at the `number`-th place where Python checks for signals."""

    def __init__(self, number):
        self.left, self.last, self.raised = number, {}, False

    def __call__(self, frame, event, arg):
        name = frame.f_code.co_filename
        if self.raised or not (name.startswith(LIBRARY[0]) or LIBRARY[1] in name):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return self.local

    def local(self, frame, event, arg):
        if event != "opcode" or self.raised:
            return self.local
        code, before = frame.f_code, self.last.get(frame)
        self.last[frame] = now = dis.opname[code.co_code[frame.f_lasti]]
        starts = now == "RESUME" or before is None  # not every version of Python traces the first instruction
        if (starts and code.co_name == "__exit__") or now == "CALL" or not (starts or before.startswith(CALLS)):
            return self.local
        self.left -= 1
        if self.left >= 0:
            return self.local
        self.raised = True
        raise KeyboardInterrupt


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", MANAGERS)
def test_an_interrupt_leaves_the_state_as_it_was(name):
    # In a thread of its own: generators that an exception leaves half-way keep their exception's context.
    with ThreadPoolExecutor(1) as pool:
        pool.submit(_interrupt_everywhere, name).result(timeout=600)


def _interrupt_everywhere(name):
    with MANAGERS[name]():  # what is imported and made on first use
        pass
    before, number, former = shared_state(), 0, sys.gettrace()
    while True:
        manager, interrupting = MANAGERS[name](), Interrupting(number)
        try:
            sys.settrace(interrupting)
            try:
                with manager:
                    pass
            finally:
                sys.settrace(former)
        except KeyboardInterrupt as error:
            del error
        assert shared_state() == before, f"after place {number}"
        if not interrupting.raised:
            break
        number += 1 + number // 60
    # Later versions of Python may trace no instruction of a frame whose tracing begins with its call.
    assert number or name == "early stop" or sys.version_info >= (3, 12)


def test_a_dual_level_whose_exit_never_began_ends_with_its_manager():
    def interrupted():
        manager = forward_ad.dual_level()
        manager.__enter__()
        raise KeyboardInterrupt

    before = shared_state()
    with pytest.raises(KeyboardInterrupt):
        interrupted()
    gc.collect()
    assert shared_state() == before
    with forward_ad.dual_level():
        pass
