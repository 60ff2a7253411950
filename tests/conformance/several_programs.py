"""Run several programs, one after the other, as a rank of torchrun: `several_programs.py FOLDER PORT:NAME...`.

Starting processes that import a library takes longer than the programs. Each of these is a fork of a process that has
imported torch, finds its own arguments, and prints into `<FOLDER>/<number>.<rank>`. A program of several words,
separated by blanks, is its path and arguments; its ranks meet at the port.
"""

import contextlib
import os
import runpy
import sys
import traceback

import torch
import torch.nn.parallel
import torch.utils.data.distributed  # noqa: F401


def main(folder: str, programs: list[str]) -> int:
    for number, program in enumerate(programs):
        child = os.fork()
        if not child:
            code = 1
            try:
                port, _, name = program.partition(":")
                os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "TORCHELASTIC_USE_AGENT_STORE": "False"}
                sys.argv = name.split(" ")
                with open(f"{folder}/{number}.{os.environ['RANK']}", "w") as file, contextlib.redirect_stdout(file):
                    runpy.run_path(sys.argv[0], run_name="__main__")
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code)
        if code := os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
            return code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
