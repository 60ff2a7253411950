"""`load_url`, the old name of `hub.load_state_dict_from_url`."""

from __future__ import annotations

from typing import Any

from .. import hub
from ..hub import load_state_dict_from_url as load_url
from ..types.absent import absent

__all__ = ["load_url"]


def __getattr__(name: str) -> Any:
    if name in ("tqdm", "_download_url_to_file"):
        return getattr(hub, name.lstrip("_"))
    raise absent(__name__, name)
