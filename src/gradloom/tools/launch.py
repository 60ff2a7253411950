"""`gradloom run` and `gradloom torchrun`: a program that was written for PyTorch, run on gradloom."""

from __future__ import annotations

import argparse
import os
import runpy
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType

_STAND_IN = Path(__file__).with_name("as_torch_path")


def launch(program: str, arguments: list[str], is_module: bool = False) -> int:
    """Run a script, or a module, as `python` would, with gradloom as torch; return the exit code.

    Python processes that the program starts import gradloom, too: they find a stand-in for torch on PYTHONPATH.
    """
    if not is_module and not Path(program).exists():
        print(f"gradloom run: there is no file {program} (-m runs a module)", file=sys.stderr)
        return 2
    if not is_module and Path(program).is_dir() and not Path(program, "__main__.py").is_file():
        print(f"gradloom run: {program} is a folder without __main__.py: name one of its files", file=sys.stderr)
        return 2
    _let_processes_find_the_stand_in()
    import_module("gradloom.as_torch")
    sys.argv = [program, *arguments]
    # Processes that multiprocessing spawns take sys.path from this one.
    sys.path[:1] = [os.getcwd() if is_module else str(Path(program).resolve().parent), str(_STAND_IN)]
    try:
        if is_module:
            if not _is_found(program):
                print(f"gradloom run: there is no module {program}", file=sys.stderr)
                return 2
            runpy.run_module(program, run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(program, run_name="__main__")
    except Exception as error:
        error.__traceback__ = _from_the_program(error.__traceback__)
        sys.excepthook(type(error), error, error.__traceback__)
        return 1
    return 0


def _let_processes_find_the_stand_in() -> None:
    paths = [str(_STAND_IN), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(paths))


def add_torchrun_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `torchrun` to a parser."""
    from ..distributed.run import add_arguments

    add_arguments(parser)


def torchrun(options: argparse.Namespace) -> int:
    """Run a program written for PyTorch in several processes; return the exit code."""
    from ..distributed.run import end_with, run

    _let_processes_find_the_stand_in()
    end_with(run, options)
    return 0


def _is_found(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError as error:
        if error.name is not None and module.startswith(f"{error.name}."):
            return False
        raise


def _from_the_program(traceback: TracebackType | None) -> TracebackType | None:
    """Return a traceback without the frames of this launcher, as `python program` shows it."""
    own = (__file__, runpy.__file__, "<frozen runpy>")
    while traceback is not None and traceback.tb_next and traceback.tb_frame.f_code.co_filename in own:
        traceback = traceback.tb_next
    return traceback
