"""A deprecated step that decodes files by their extension."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from .._decorator import functional_datapipe
from ..datapipe import IterDataPipe
from ..utils.common import _deprecation_warning
from ..utils.decoder import Decoder, basichandlers, extension_extract_fn, imagehandler
from .utils import length

__all__ = ["RoutedDecoderIterDataPipe"]


@functional_datapipe("routed_decode")
class RoutedDecoderIterDataPipe(IterDataPipe[tuple[str, Any]]):
    """Yield (path, decoded content) of (path, binary stream) (functional name: routed_decode). Deprecated.

    Args:
        datapipe: the source.
        handlers: functions(key, bytes) that return the content or None; the first that knows the key decodes. By
            default `basichandlers` and images as tensors.
        key_fn: function from a path to the key, by default its extension.
    """

    def __init__(
        self,
        datapipe: Iterable[tuple[str, Any]],
        *handlers: Callable[..., Any],
        key_fn: Callable[[str], str] = extension_extract_fn,
    ) -> None:
        super().__init__()
        self.datapipe = datapipe
        self.decoder = Decoder(*(handlers or (basichandlers, imagehandler("torch"))), key_fn=key_fn)
        _deprecation_warning(
            type(self).__name__, deprecation_version="1.12", removal_version="1.13", old_functional_name="routed_decode"
        )

    def add_handler(self, *handler: Callable[..., Any]) -> None:
        """Add handlers before the others."""
        self.decoder.add_handler(*handler)

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        for data in self.datapipe:
            yield data[0], self.decoder(data)[data[0]]

    def __len__(self) -> int:
        return length(self.datapipe, self)
