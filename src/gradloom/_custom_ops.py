"""PyTorch's first interface of custom operators, of which `gradloom.library` has the present one."""

from __future__ import annotations

from .utils._refused import declare

__getattr__ = declare(
    __name__,
    {"": "custom_op impl impl_abstract impl_backward impl_save_for_backward get_ctx"},
    "use torch.library: custom_op, register_kernel, register_fake and register_autograd",
)
