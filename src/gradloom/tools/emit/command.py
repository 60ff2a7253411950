"""The command `gradloom emit`: operators of gradloom or a package as one module of PyTorch or JAX."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

from gradloom.codegen.derivatives.specification import Specification
from gradloom.codegen.errors import SpecError, UsageError, did_you_mean
from gradloom.codegen.operators.model import NativeFunction
from gradloom.codegen.outputs.render import fill
from gradloom.codegen.target import find_target, own

from .. import kept
from .library import JAX, TORCH
from .of_jax import JaxOperator
from .of_torch import TorchOperator
from .operators import Emitter

_MARK = "Written by `gradloom emit"
_LICENCE = "of gradloom, copyright (c) 2026, the gradloom authors; BSD 3-Clause License."


def main(arguments: argparse.Namespace) -> int:
    """Write the module to a file or to the output; nothing is written if an operator has no counterpart."""
    target = find_target(arguments.package)
    if arguments.package is not None and target.is_own and not arguments.op:
        raise UsageError(f"--package {arguments.package}: there is no package of operators; `gradloom new` starts one")
    if not arguments.op and target.is_own:
        raise UsageError("name an operator (gradloom emit torch softplus), or a package of operators (--package DIR)")
    specification = kept.load(target)
    base = None if target.is_own else kept.load(own())
    text = module(arguments.kind, specification, base, arguments.op, arguments.namespace)
    if arguments.output is None:
        sys.stdout.write(text)
    else:
        write(arguments.output, text, arguments.force)
        print(f"wrote {arguments.output}")
    return 0


def module(
    kind: str, specification: Specification, base: Specification | None, names: list[str], namespace: str | None = None
) -> str:
    """Return the text of a module.

    Args:
        kind: `torch` or `jax`.
        specification: of the operators' target.
        base: gradloom's own specification, if the target is a package.
        names: the operators; none for all of a package that are not made of others.
        namespace: in torch.ops; default: the package's, or the name of the first operator.
    """
    left_out: list[str] = []
    functions = _chosen(specification, base, names, left_out)
    target = specification.target
    if base is not None and functions and functions[0] not in list(specification.functions):
        specification, base, target = base, None, base.target
    space = namespace or target.namespace or functions[0].schema.name.name
    made = {TORCH: TorchOperator, JAX: JaxOperator}[kind]
    emitter = Emitter(kind, specification, base, space, made)
    operators = list(emitter.emitted(functions))
    carried = list(emitter.carrier.carried.values())
    by_numpy = "_by_numpy" in emitter.library.functions.used
    texts = emitter.library.functions.text
    body = "\n".join([*texts, *carried, *(line for o in operators for line in (*o.kernel, *o.backward, *o.forward))])
    shown = ", ".join(f"`{o.name}`" for o in operators[:3]) + (" ..." if len(operators) > 3 else "")
    notes = [f"Left out, since they are made of other operators: {', '.join(left_out)}."] if left_out else []
    if by_numpy:
        how = "by a callback (jax.pure_callback)" if kind == JAX else "from and to which tensors are copied"
        notes.append(f"Kernels of NumPy run on the CPU, {how}.")
    where = target.package if base is not None else "gradloom"
    text = fill(
        f"emit/{kind}.jinja",
        title=f"The operator {shown}" if len(operators) == 1 else f"The operators {shown}",
        origin=f"{_MARK} {kind}` of gradloom {version('gradloom')} from the entries of {where} that are quoted below.",
        numpy=" and NumPy" if "np." in body else "",
        notes=notes,
        namespace=emitter.namespace,
        licence=_LICENCE if emitter.carrier.carries("gradloom") else "",
        imports=_imports(kind, body, emitter.carrier.imports),
        functions=texts,
        carried=carried,
        operators=operators,
    )
    return "\n\n\n".join(part for part in text.rstrip().replace("\n\n\n\n", "\n\n\n").split("\n\n\n\n")) + "\n"


def _imports(kind: str, body: str, more: set[str]) -> list[str]:
    standard = [
        f"import {name}" for name in ("functools", "math") if f"{name}." in body or name == "functools" and kind == JAX
    ]
    plain = {line for line in more if line.split()[1].split(".")[0] not in ("numpy", "scipy")}
    third = {*(more - plain), *(["import numpy as np"] if "np." in body.replace("jnp.", "") else [])}
    third |= {"import jax", "import jax.numpy as jnp"} if kind == JAX else {"import torch"}
    return [*sorted({*standard, *plain}), "", *sorted(third)]


def _chosen(
    specification: Specification, base: Specification | None, names: list[str], left_out: list[str]
) -> list[NativeFunction]:
    """Return the operators of these names. Raises UsageError."""
    if not names:
        found = [f for f in specification.functions if f.composite is None]
        left_out += [f.name for f in specification.functions if f.composite is not None]
        if not found:
            raise UsageError(f"the package {specification.target.package} has no operators with a kernel or definition")
        return found
    return [_named(name, [s for s in (specification, base) if s is not None]) for name in names]


def _named(name: str, specifications: list[Specification]) -> NativeFunction:
    known: list[str] = []
    for specification in specifications:
        functions = specification.functions
        found = functions.get(name)
        named = [found] if found is not None else [f for f in functions if f.schema.name.name == name]
        if len(named) > 1:
            raise UsageError(f"`{name}` has overloads: {', '.join(f.name for f in named)}")
        if named:
            function = named[0]
            if function.composite is not None:
                has = "; PyTorch has it" if specification.target.is_own else ""
                raise UsageError(f"`{name}` is made of other operators, by {function.composite}{has}")
            return function
        known += functions.names
    raise UsageError(f"there is no operator `{name}`; {did_you_mean(name, known) or 'write its name in the YAML file'}")


def write(path: Path, text: str, force: bool) -> None:
    """Write a file in one step. Raises UsageError for a file that is not one of this command's, unless `force`."""
    if path.exists() and not force and _MARK not in path.read_text("utf-8", errors="replace")[:2000]:
        raise UsageError(f"{path} exists, and `gradloom emit` did not write it; --force replaces it")
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(name, 0o666 & ~umask)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


__all__ = ["SpecError", "main", "module", "write"]
