"""torchrun: start the processes of a job, on one machine or several, and restart them when they fail.

    python -m gradloom.distributed.run --standalone --nproc-per-node=4 train.py --epochs 3
    gradloom torchrun --standalone --nproc-per-node=4 train.py      # a program that imports torch

The options are torchrun's. What PyTorch has in them for GPUs and for etcd is refused.
"""

from __future__ import annotations

import argparse
import os
import sys
import uuid
from collections.abc import Sequence
from typing import Any

from ._agent import Agent, Settings
from ._workers import Logs
from .elastic.multiprocessing.errors import ChildFailedError
from .errors import DistError

__all__ = ["add_arguments", "get_args_parser", "main", "parse_args", "run"]

_PORT = 29500


class _Option(argparse.Action):
    """An option whose default an environment variable may set, as PET_NNODES does."""

    def __init__(self, option_strings: Any, dest: str, default: Any = None, **kwargs: Any) -> None:
        default = os.environ.get(f"PET_{dest.upper()}", default)
        super().__init__(option_strings, dest, default=default, **kwargs)

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        setattr(namespace, self.dest, values)


class _Flag(_Option):
    """A switch, which PET_STANDALONE=1 sets, for example."""

    def __init__(self, option_strings: Any, dest: str, default: Any = False, **kwargs: Any) -> None:
        super().__init__(option_strings, dest, default=default, nargs=0, **kwargs)
        self.default = self.default in (True, "1")

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        setattr(namespace, self.dest, True)


# name, short form, default, type, help
_OPTIONS: tuple[tuple[str, str | None, Any, type, str], ...] = (
    ("nnodes", None, "1:1", str, "number of nodes, or <minimum>:<maximum>"),
    ("nproc-per-node", None, "1", str, "number of workers on each node: a number, or auto or cpu for one per core"),
    ("rdzv-backend", None, "static", str, "static or c10d"),
    ("rdzv-endpoint", None, "", str, "<host>:<port> of the node that the nodes meet at"),
    ("rdzv-id", None, "none", str, "name of the job"),
    ("rdzv-conf", None, "", str, "<key>=<value>,...: join_timeout, last_call_timeout, timeout, in seconds"),
    ("max-restarts", None, 0, int, "how often the workers are restarted when one fails"),
    ("monitor-interval", None, 0.1, float, "seconds between two looks at the workers"),
    ("start-method", None, "spawn", str, "accepted; workers are new processes"),
    ("event-log-handler", None, "null", str, "accepted; there are no events"),
    ("role", None, "default", str, "name of the workers' role, which begins the lines of --tee"),
    ("log-dir", None, None, str, "base folder of log files; each job has a folder in it"),
    ("redirects", "-r", "0", str, "streams that go into files: 1 stdout, 2 stderr, 3 both; or 0:1,1:3 by local rank"),
    ("tee", "-t", "0", str, "streams that go into files and to the console, likewise"),
    ("local-ranks-filter", None, "", str, "local ranks whose output the console shows, such as 0,1"),
    ("node-rank", None, 0, int, "number of this node; for --rdzv-backend=static"),
    ("master-addr", None, "127.0.0.1", str, "address of node 0; for --rdzv-backend=static"),
    ("master-port", None, _PORT, int, "port of node 0; for --rdzv-backend=static"),
    ("local-addr", None, None, str, "accepted; the address of this node is that by which it reaches node 0"),
    ("signals-to-handle", None, "SIGTERM,SIGINT,SIGHUP,SIGQUIT", str, "signals that end the workers"),
    ("shutdown-timeout", None, os.environ.get("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", 30), int,
     "seconds that workers have to end after SIGTERM"),
)  # fmt: skip
_FLAGS: tuple[tuple[str, str | None, str], ...] = (
    ("standalone", None, "one node, which meets itself at a free port"),
    ("module", "-m", "run a module, as python -m does"),
    ("no-python", None, "run the program itself, without python"),
    ("run-path", None, "accepted; the script runs as usual"),
    ("virtual-local-rank", None, "set LOCAL_RANK to 0 for all workers"),
)
_CONF = {"join_timeout": "join_timeout", "timeout": "join_timeout", "last_call_timeout": "last_call"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add torchrun's options to a parser.

    Args:
        parser: the parser.
    """
    for name, short, default, kind, text in _OPTIONS:
        names = [f"--{name}", *([f"--{name.replace('-', '_')}"] if "-" in name else []), *filter(None, [short])]
        parser.add_argument(*names, action=_Option, default=default, type=kind, help=text, dest=name.replace("-", "_"))
    for name, short, text in _FLAGS:
        names = [f"--{name}", *([f"--{name.replace('-', '_')}"] if "-" in name else []), *filter(None, [short])]
        parser.add_argument(*names, action=_Flag, help=text, dest=name.replace("-", "_"))
    parser.add_argument("training_script", help="the program that each worker runs")
    parser.add_argument("training_script_args", nargs=argparse.REMAINDER, help="its arguments")


def get_args_parser() -> argparse.ArgumentParser:
    """Return a parser of torchrun's options."""
    parser = argparse.ArgumentParser("torchrun", description="Start the processes of a job.")
    add_arguments(parser)
    return parser


def parse_args(args: Sequence[str] | None) -> argparse.Namespace:
    """Return torchrun's options.

    Args:
        args: the arguments; those of this process if None.
    """
    return get_args_parser().parse_args(args)


def _local_size(text: str) -> int:
    if text in ("auto", "cpu"):
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if text.isdigit() and int(text):
        return int(text)
    raise ValueError(f"Unsupported nproc_per_node value: {text}. Use a positive number, auto or cpu: there are no GPUs")


def _nodes(text: str) -> tuple[int, int]:
    least, _, most = text.partition(":")
    try:
        found = int(least), int(most or least)
    except ValueError:
        found = 0, 0
    if not 0 < found[0] <= found[1]:
        raise ValueError(f"nnodes={text} is not in the format: N or MIN_NODES:MAX_NODES")
    return found


def _command(options: argparse.Namespace) -> tuple[str, ...]:
    program = options.training_script
    if options.no_python:
        if options.module:
            raise ValueError("Don't use both the '--no-python' flag and the '--module' flag at the same time.")
        return program, *options.training_script_args
    python = (os.environ.get("PYTHON_EXEC", sys.executable), "-u")
    return *python, *(("-m",) if options.module else ()), program, *options.training_script_args


def _settings(options: argparse.Namespace) -> Settings:
    """Return what options ask for.

    Raises:
        ValueError: if they do not fit together.
    """
    least, most = (1, 1) if options.standalone else _nodes(options.nnodes)
    conf = dict(pair.split("=", 1) for pair in options.rdzv_conf.split(",") if "=" in pair)
    backend, run_id, node = options.rdzv_backend, options.rdzv_id, options.node_rank
    host, port = options.master_addr, options.master_port
    if options.standalone or (backend == "c10d" and most == 1 and not options.rdzv_endpoint):
        host, port, node, run_id = "127.0.0.1", 0, 0, str(uuid.uuid4()) if options.standalone else run_id
    elif backend in ("c10d", "static"):
        if options.rdzv_endpoint:
            host, _, text = (
                options.rdzv_endpoint.rpartition(":")
                if ":" in options.rdzv_endpoint
                else (options.rdzv_endpoint, "", "")
            )
            port = int(text) if text else _PORT if backend == "static" else 29400
        node = None if backend == "c10d" else int(conf.get("rank", node))
    else:
        raise ValueError(f"--rdzv-backend={backend} is not there: use static or c10d, which need no other server")
    if node is not None and node >= most:
        raise ValueError(f"--node-rank={node} must be less than --nnodes={most}")
    return Settings(
        command=_command(options),
        name=options.training_script,
        min_nodes=least,
        max_nodes=most,
        local_size=_local_size(str(options.nproc_per_node)),
        node_rank=node,
        host=host.strip("[]"),
        port=port,
        run_id=run_id,
        role=options.role,
        max_restarts=int(options.max_restarts),
        monitor_interval=float(options.monitor_interval),
        shutdown_timeout=float(options.shutdown_timeout),
        virtual_local_rank=options.virtual_local_rank,
        signals=tuple(options.signals_to_handle.split(",")),
        **{_CONF[name]: float(value) for name, value in conf.items() if name in _CONF},  # type: ignore[arg-type]
    )


def run(args: argparse.Namespace) -> None:
    """Run a job.

    Args:
        args: what `parse_args` returned.

    Raises:
        ChildFailedError: if workers failed.
        ValueError: if the options do not fit together.
        DistError: if the nodes do not meet.
    """
    settings = _settings(args)
    shown = [int(rank) for rank in args.local_ranks_filter.split(",")] if args.local_ranks_filter else None
    logs = Logs(args.log_dir, settings.run_id, args.redirects, args.tee, shown, settings.local_size)
    try:
        Agent(settings, logs).run()
    finally:
        logs.close()


def main(args: Sequence[str] | None = None) -> None:
    """Run a job, as the command torchrun does, and end the process with exit code 1 if it fails.

    Args:
        args: the arguments; those of this process if None.
    """
    end_with(run, parse_args(args))


def end_with(call: Any, options: argparse.Namespace) -> None:
    """Call `run`, and turn its errors into messages and exit codes."""
    try:
        call(options)
    except ChildFailedError as error:
        print(f"\ntorchrun: {error}", file=sys.stderr)
        raise SystemExit(1) from None
    except (ValueError, DistError) as error:
        print(f"torchrun: {error}", file=sys.stderr)
        raise SystemExit(2) from None


if __name__ == "__main__":
    main()
