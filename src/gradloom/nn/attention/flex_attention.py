"""The names of torch.nn.attention.flex_attention, attention whose scores a function changes; there is none here."""

from __future__ import annotations

from gradloom.utils._refused import declare

_DEFAULT_SPARSE_BLOCK_SIZE = 128

__getattr__ = declare(
    __name__,
    {"": "AuxOutput AuxRequest BlockMask and_masks create_block_mask create_mask flex_attention noop_mask or_masks"},
    "gradloom has no flex_attention; use torch.nn.functional.scaled_dot_product_attention with a mask",
)
