"""torch.distributed.launch, the command before torchrun. The workers find their number in LOCAL_RANK."""

from __future__ import annotations

from collections.abc import Sequence

from .run import end_with, get_args_parser, run

__all__ = ["main"]


def main(args: Sequence[str] | None = None) -> None:
    """Run a job.

    Args:
        args: the arguments; those of this process if None. `--use-env` is what happens in any case.
    """
    parser = get_args_parser()
    parser.prog = "torch.distributed.launch"
    parser.add_argument(
        "--use-env", "--use_env", action="store_true", help="accepted; LOCAL_RANK is in the environment"
    )
    end_with(run, parser.parse_args(args))


if __name__ == "__main__":
    main()
