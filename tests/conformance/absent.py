"""Public names of PyTorch that gradloom does not have: `python -m tests.conformance.absent` writes the lists anew, with
the release that gradloom follows.

There are three: `gradloom.types.absent_names`, by which a missing name has an error of its own; docs/absent.md; and
the figures in README.md, between two comments. A name is public if its module's `__all__` has it or, where there is
none, if it is a function, class or submodule that its module defines; submodules count whether or not a program has
imported them. What PyTorch's C++ extension exports for its own use (classes of `torch._C`), names that a module only
imports, and constants are left out.
"""

from __future__ import annotations

import inspect
import pkgutil
import re
import textwrap
import types
import warnings
from importlib import import_module
from pathlib import Path
from typing import Any

from tests.releases import pytorch_before

ROOT = Path(__file__).parents[2]
REFERENCE = "2.15"  # the release whose names the lists compare with
MODULES = """
    torch torch.nn torch.nn.functional torch.nn.init torch.nn.utils torch.linalg torch.fft torch.special torch.optim
    torch.optim.lr_scheduler torch.func torch.distributions torch.utils torch.utils.data torch.distributed
    torch.distributed.nn.functional torch.distributed.device_mesh torch.Tensor
    """.split()
# Names that are out for good, by full name, and why. Others are not there yet.
REASONS = {
    "quantized tensors, their storages and modules: there are none": r"quant|qparams|_q_|\.q_|qscheme|int_repr|QU?Int|"
    r"fbgemm|\.nn\.qat$|\.ao$|nn\.intrinsic$",
    "kernels of cuDNN, MIOpen and MKL-DNN, and their layouts": r"cudnn|miopen|mkldnn|nn\.backends$",
    "TorchScript and its C++ interface: programs run as they are": r"import_ir|type_comment|"
    r"parse_ir|unify_type_list|torch\.classes$|nn\.cpp$|cpp_backtrace|cpp_extension|hipify|utils\.jit$|mobile|model_dump|"
    r"bundled_inputs|nativert",
    "compressed sparse and nested tensors: the layouts are strided and sparse_coo": r"sparse_(bs|cs|comp)|jagged|"
    r"\.nested$|to_padded_tensor",
    "other devices: gradloom computes on the CPU": r"privateuse|backend_registration|record_stream|numa$|NCCL",
    "first-class dimensions: vmap maps functions over dimensions": r"Tensor\.index$",
    "tensors of bits and of halves of a complex number": r"\.bit$|chalf",
}
BEGIN, END = "<!-- absent names: begin -->", "<!-- absent names: end -->"


def public_names(module: str) -> list[str]:
    """The public names of a module of PyTorch, or of torch.Tensor, sorted."""
    owner = _owner(module)
    listed = getattr(owner, "__all__", None)
    if listed and module != "torch":
        names = {name for name in listed if _is_public(module, owner, name)}
    else:
        names = {name for name in dir(owner) if _is_public(module, owner, name)}
        names |= {found.name for found in pkgutil.iter_modules(getattr(owner, "__path__", ()))}
    return sorted([name for name in names if not name.startswith("_")])


def _owner(module: str) -> Any:
    if module.endswith(".Tensor"):
        return import_module(module.removesuffix(".Tensor")).Tensor
    return import_module(module)


def _is_public(module: str, owner: Any, name: str) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        value = getattr(owner, name, None)
    if inspect.isclass(owner):
        return True
    if isinstance(value, types.ModuleType):
        return value.__name__ == f"{module}.{name}"
    torch = import_module("torch")
    if not callable(value):
        return isinstance(value, (torch.dtype, torch.layout))
    home = getattr(value, "__module__", None) or "torch._C"
    if inspect.isclass(value) and (hasattr(torch._C, name) or not home.startswith(module)):
        return False
    return home.startswith(("torch._C", module, "builtins"))


def absent_names() -> dict[str, tuple[int, list[str]]]:
    """Module -> the number of its public names, and those that gradloom does not have."""
    found = {}
    for module in MODULES:
        names = public_names(module)
        ours = _owner(module.replace("torch", "gradloom", 1))
        found[module] = len(names), [name for name in names if not _has(ours, name)]
    return found


def _has(owner: Any, name: str) -> bool:
    if hasattr(owner, name):
        return True
    try:
        return not inspect.isclass(owner) and import_module(f"{owner.__name__}.{name}") is not None
    except ImportError:
        return False


def as_module(found: dict[str, tuple[int, list[str]]]) -> str:
    """The text of gradloom/types/absent_names.py."""
    lines = [
        '"""Public names that only PyTorch has, written by `python -m tests.conformance.absent`."""',
        "",
        "NAMES = {",
    ]
    for module, (_, names) in found.items():
        if names:
            body = textwrap.fill(" ".join(names), 110, initial_indent=" " * 8, subsequent_indent=" " * 8)
            lines += [f'    "{module}": """', body, '    """,']
    return "\n".join([*lines, "}", ""])


def as_page(found: dict[str, tuple[int, list[str]]]) -> str:
    """The text of docs/absent.md."""
    lines = [
        "# What is missing",
        "",
        f"Public names of PyTorch {REFERENCE} that gradloom does not have. The lists are made by comparing the two "
        "libraries:",
        "`python -m tests.conformance.absent`. A name that is here behaves as PyTorch's, except for what",
        "[Differences](differences.md) lists. A program that asks for one of these names gets an",
        "AttributeError that says that gradloom does not have it yet.",
        "",
        *as_table(found),
        "",
        "Many names are missing for good, because they concern something that gradloom does not have:",
        "",
        *as_reasons(found),
    ]
    for module, (_, names) in found.items():
        if names:
            lines += ["", f"## {module}", ""]
            lines += textwrap.wrap(" ".join([f"`{name}`" for name in names]), 120, break_on_hyphens=False)
    return "\n".join([*lines, ""])


def as_reasons(found: dict[str, tuple[int, list[str]]]) -> list[str]:
    """The lines of the table of reasons: how many names each concerns, and what is left."""
    reasons = [reason_of(f"{module}.{name}") for module, (_, names) in found.items() for name in names]
    rows = [f"| {reason} | {reasons.count(reason)} |" for reason in REASONS]
    total = sum([count for count, _ in found.values()])
    left, sensible = reasons.count(None), total - len(reasons) + reasons.count(None)
    rows.append(
        f"| not there yet: {100 * (sensible - left) / sensible:.1f} % of the remaining names are there | {left} |"
    )
    return ["| why | names |", "| --- | --- |", *rows]


def reason_of(name: str) -> str | None:
    """Return why a full name is missing for good, if it is."""
    return next((reason for reason, pattern in REASONS.items() if re.search(pattern, name)), None)


def as_table(found: dict[str, tuple[int, list[str]]]) -> list[str]:
    """The lines of the table: how many names of each module exist."""
    rows = [f"| `{module}` | {total} | {total - len(names)} |" for module, (total, names) in found.items()]
    total = sum([count for count, _ in found.values()])
    here = total - sum([len(names) for _, names in found.values()])
    rows.append(f"| all | {total} | {here} ({100 * here / total:.0f} %) |")
    return [f"| module | public names in PyTorch {REFERENCE} | in gradloom |", "| --- | --- | --- |", *rows]


def with_figures(readme: str, found: dict[str, tuple[int, list[str]]]) -> str:
    """The text of README.md with the present figures between the two comments."""
    block = "\n".join([BEGIN, *as_table(found), END])
    changed, count = re.subn(f"{re.escape(BEGIN)}.*?{re.escape(END)}", lambda _: block, readme, flags=re.DOTALL)
    assert count == 1, f"README.md has no place for the figures: {BEGIN} ... {END}"
    return changed


def files() -> dict[Path, str]:
    """Path -> what the comparison gives for it."""
    found = absent_names()
    readme = ROOT / "README.md"
    return {
        ROOT / "src/gradloom/types/absent_names.py": as_module(found),
        ROOT / "docs/absent.md": as_page(found),
        readme: with_figures(readme.read_text(encoding="utf-8"), found),
    }


if __name__ == "__main__":
    assert not pytorch_before(REFERENCE), f"the lists are those of PyTorch {REFERENCE}; this one is older"
    for path, text in files().items():
        path.write_text(text, encoding="utf-8")
        print(path.relative_to(ROOT))
