"""The processor that code is made for, and LLVM, imported when it is first needed.

Note [Cached code without LLVM]
Importing llvmlite takes longer than loading code from the cache. So the key of the cache names LLVM by the version of
llvmlite, and the processor by what the operating system says about it; neither imports llvmlite.
"""

from __future__ import annotations

import platform
import re
import sys
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

MISSING = (
    "the llvm backend needs llvmlite, which is not installed: pip install 'gradloom[compile]', "
    'or choose the backend "numpy"'
)
OLDEST = (0, 45)
FLOP = {"float32": 0.02, "float64": 0.04}  # nanoseconds for a product and its addition, about


class Unsupported(NotImplementedError):
    """The llvm backend has no code for this program; the message says for which part. Use another backend."""


class Host(NamedTuple):
    """What code depends on. `register` is the width of a vector register in bits."""

    machine: str
    processor: str
    features: frozenset[str]
    register: int
    fma: bool
    half: bool  # whether float16 is converted by instructions


@cache
def llvmlite_version() -> str | None:
    """Return the version of the installed llvmlite, without importing it; None if there is none."""
    from importlib.util import find_spec

    found = find_spec("llvmlite")
    if found is None or found.origin is None:
        return None
    try:
        text = Path(found.origin).with_name("_version.py").read_text()
    except OSError:
        text = ""
    match = re.search(r"version_version = '([^']+)'", text)
    if match is None:
        from importlib.metadata import version

        return version("llvmlite")
    return match[1]


def available() -> bool:
    """Return whether the llvm backend can be used here: llvmlite is installed, and the machine has 64 bits."""
    found = llvmlite_version()
    return found is not None and _numbers(found) >= OLDEST and sys.maxsize > 2**32


def require() -> None:
    """Raise ImportError with what to install unless the llvm backend can be used."""
    if not available():
        found = llvmlite_version()
        if found is not None and _numbers(found) < OLDEST:
            raise ImportError(
                f"the llvm backend needs llvmlite 0.45 or newer, not {found}: pip install 'gradloom[compile]'"
            )
        raise ImportError(MISSING)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2] if part.isdigit())


@cache
def host() -> Host:
    """Return the processor: from Linux' /proc/cpuinfo, from LLVM elsewhere."""
    machine = platform.machine().lower()
    found = _from_linux() if machine in ("x86_64", "amd64") and sys.platform == "linux" else None
    if found is None:
        offered = {name for name, on in dict(binding().get_host_cpu_features()).items() if on}
        found = (binding().get_host_cpu_name(), frozenset(offered))
    processor, features = found
    wide = {"avx512f", "avx512vl", "avx512bw", "avx512dq"} <= features
    register = 512 if wide else 256 if "avx2" in features else 128
    arm = machine in ("arm64", "aarch64")
    fma, half = arm or "fma" in features, arm or "f16c" in features
    return Host(machine, processor, features, register, fma, half)


def registers() -> int:
    """Return how many vector registers the processor has."""
    return 32 if host().register == 512 or host().machine in ("arm64", "aarch64") else 16


def _from_linux() -> tuple[str, frozenset[str]] | None:
    try:
        with open("/proc/cpuinfo") as file:
            text = file.read(8192)  # the first processor
    except OSError:
        return None
    fields: dict[str, str] = {}
    for line in text.split("\n\n")[0].split("\n"):
        name, _, value = line.partition(":")
        fields[name.strip()] = value.strip()
    if "flags" not in fields:
        return None
    names = ("vendor_id", "cpu family", "model", "stepping")
    return "-".join(fields.get(name, "") for name in names), frozenset(fields["flags"].split())


@cache
def binding() -> Any:
    """Import llvmlite and prepare LLVM for this machine. Raises ImportError with what to install."""
    require()
    import llvmlite.binding as llvm  # type: ignore[import-untyped]

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm


@cache
def target_machine() -> Any:
    """Return the description of this machine that object code is made with."""
    return new_target_machine()


def new_target_machine() -> Any:
    """Return LLVM's description of this machine; code is optimised at level 2 and does not depend on its address."""
    llvm = binding()
    features = dict(llvm.get_host_cpu_features())
    if host().register == 256:  # what /proc/cpuinfo does not offer must not be used
        features = {name: on and not name.startswith("avx512") for name, on in features.items()}
    text = ",".join(f"{'+' if on else '-'}{name}" for name, on in sorted(features.items()))
    target = llvm.Target.from_default_triple()
    return target.create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=text, opt=2, reloc="pic", codemodel="small"
    )


def object_code(text: str) -> bytes:
    """Return the object file that LLVM makes of a module's text.

    The text has loops and vectors already, so three passes do what the usual pipeline needs ten times as long for.
    """
    llvm, machine = binding(), target_machine()
    module = llvm.parse_assembly(text)
    module.triple = machine.triple
    module.data_layout = str(machine.target_data)
    module.verify()
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=2))
    inline = llvm.create_new_module_pass_manager()
    inline.add_always_inliner_pass()
    inline.add_global_dead_code_eliminate_pass()
    inline.run(module, builder)
    passes = llvm.create_new_function_pass_manager()
    passes.add_sroa_pass()
    passes.add_instruction_combine_pass()
    passes.add_simplify_cfg_pass()
    for function in module.functions:
        if not function.is_declaration:
            passes.run(function, builder)
    return machine.emit_object(module)  # type: ignore[no-any-return]
