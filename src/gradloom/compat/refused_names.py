"""Names of the main namespace that programs import though they do not use them; see `utils._refused`."""

from __future__ import annotations

from typing import Any

from ..utils._refused import refused

_FILES = "torch.load and torch.save read and write files of tensors; gradloom has no other reader or writer of them"

_STREAMS = "gradloom computes on the CPU, where operators run in program order: there are no streams and events"

Event: Any = refused("torch.Event", _STREAMS)
PyTorchFileReader: Any = refused("torch.PyTorchFileReader", _FILES)
PyTorchFileWriter: Any = refused("torch.PyTorchFileWriter", _FILES)
Stream: Any = refused("torch.Stream", _STREAMS)
