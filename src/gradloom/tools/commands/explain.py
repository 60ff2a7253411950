"""`gradloom explain`: where an operator or a node comes from, and what it does."""

from __future__ import annotations

import argparse
import io
import os
import sys
from pathlib import Path

from gradloom.codegen.errors import UsageError
from gradloom.codegen.target import project


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "name",
        help="an operator (mul, mul.Tensor, add_, linalg.inv) or a node (MulBackward0); with --compiled, a function or "
        "nn.Module of a program: module:function, file.py:function, train:model.encoder",
    )
    parser.add_argument(
        "--compiled",
        action="store_true",
        help="compile a function, call it once, and show its graphs, what was fused and why not, the code, and the "
        "bytes that it moves",
    )
    parser.add_argument(
        "--call",
        metavar="ARGUMENTS",
        help="with --compiled: the arguments, as in a call: 'torch.randn(8, 3, requires_grad=True), scale=2'",
    )
    parser.add_argument("--backend", default="inductor", help="with --compiled: the backend; default: inductor")
    parser.add_argument(
        "--machine-code", action="store_true", help="with --compiled: show LLVM's code of the loops, too"
    )
    parser.add_argument(
        "--package",
        metavar="NAME",
        help="know the operators of a package, too: its name, or the "
        "folder of its project; default: that of the current folder",
    )
    parser.add_argument("--html", type=Path, metavar="FILE", help="write a page to FILE instead ('-': to the output)")
    parser.add_argument(
        "--color",
        choices=("auto", "always", "never"),
        default="auto",
        help="highlight the text; auto, the default: on a terminal, unless NO_COLOR is set",
    )
    parser.add_argument("--brief", action="store_true", help="say where things are written, without their source code")


def run(arguments: argparse.Namespace) -> int:
    from ..explain import UnknownName, explain

    if arguments.compiled:
        return _run_compiled(arguments)
    for option in ("call", "machine_code"):
        if getattr(arguments, option):
            raise UsageError(f"--{option.replace('_', '-')} needs --compiled")
    _import_package(arguments.package)
    try:
        explanation = explain(arguments.name)
    except UnknownName as error:
        raise UsageError(str(error)) from None
    if arguments.html is None:
        _write(explanation.text(color=_wants_color(arguments.color), sources=not arguments.brief))
    elif str(arguments.html) == "-":
        _write(explanation.html())
    else:
        arguments.html.write_text(explanation.html(), encoding="utf-8")
        print(f"wrote {arguments.html}")
    return 0


def _run_compiled(arguments: argparse.Namespace) -> int:
    from ..explain import UnknownName
    from ..explain.compiled import explain_compiled

    if arguments.html is not None:
        raise UsageError("--html shows operators and nodes; an account of a compiled function is text")
    try:
        explanation = explain_compiled(arguments.name, arguments.call, arguments.backend)
    except (UnknownName, RuntimeError) as error:
        raise UsageError(str(error)) from None
    _write(explanation.text(sources=not arguments.brief, machine_code=arguments.machine_code) + "\n")
    return 0


def _write(text: str) -> None:
    """Print to an output that may lack mathematical characters."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    sys.stdout.write(text)
    sys.stdout.flush()


def _import_package(given: str | None) -> None:
    """Import the package of the operators that may be meant, so that they are registered."""
    here = Path.cwd()
    folder = next((f for f in (here, *here.parents) if project(f) is not None), None) if given is None else given
    if folder is not None:
        from ..verify.operators import import_package, target_of

        import_package(target_of(folder))


def _wants_color(choice: str) -> bool:
    return choice == "always" or choice == "auto" and sys.stdout.isatty() and not os.environ.get("NO_COLOR")
