"""Options of launchers whose defaults are environment variables: `PET_NAME` for `--name`."""

from __future__ import annotations

import argparse
import os
from typing import Any

__all__ = ["check_env", "env"]


class _Stored(argparse.Action):
    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        setattr(namespace, self.dest, values if self.const is None else self.const)


class env(_Stored):
    """An action of `add_argument` for an option with a value; one that is required may be in the environment."""

    def __init__(self, dest: str, default: Any = None, required: bool = False, **kwargs: Any) -> None:
        default = os.environ.get(f"PET_{dest.upper()}", default)
        super().__init__(dest=dest, default=default, required=required and not default, **kwargs)


class check_env(_Stored):
    """An action of `add_argument` for a flag, which a variable other than 0 sets, too."""

    def __init__(self, dest: str, default: bool = False, **kwargs: Any) -> None:
        default = bool(int(os.environ.get(f"PET_{dest.upper()}", "1" if default else "0")))
        super().__init__(dest=dest, const=True, default=default, nargs=0, **kwargs)
