"""torch.distributed.tensor.parallel: distribute the modules of a model over processes."""

from __future__ import annotations

from ....utils._refused import declare
from ._loss import loss_parallel as loss_parallel
from ._parallelize import parallelize_module as parallelize_module
from ._styles import (
    ColwiseParallel as ColwiseParallel,
    ParallelStyle as ParallelStyle,
    PrepareModuleInput as PrepareModuleInput,
    PrepareModuleInputOutput as PrepareModuleInputOutput,
    PrepareModuleOutput as PrepareModuleOutput,
    RowwiseParallel as RowwiseParallel,
    SequenceParallel as SequenceParallel,
)

__all__ = [
    "ColwiseParallel",
    "ParallelStyle",
    "PrepareModuleInput",
    "PrepareModuleInputOutput",
    "PrepareModuleOutput",
    "RowwiseParallel",
    "SequenceParallel",
    "loss_parallel",
    "parallelize_module",
]

_given = {
    **dict.fromkeys((name for name in __all__ if name not in ("loss_parallel", "parallelize_module")), "._styles"),
    "loss_parallel": "._loss",
    "parallelize_module": "._parallelize",
}
__getattr__ = declare(
    __name__,
    {
        "": "input_reshard",
        "api": "parallelize_module",
        "ddp": "_pre_dp_module_transform",
        "fsdp": "DTensorExtensions",
        "input_reshard": "input_reshard",
        "loss": "loss_parallel",
        "style": " ".join(name for name in _given if name not in ("loss_parallel", "parallelize_module")),
    },
    "gradloom has nothing of this kind yet; docs/distributed.md lists what there is",
    _given,
)
