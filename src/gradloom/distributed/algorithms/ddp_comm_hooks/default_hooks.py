"""Hooks that average gradients, as they are or in 16 bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gradloom as gl

from ... import distributed_c10d as dist

__all__ = [
    "allreduce_hook",
    "bf16_compress_hook",
    "bf16_compress_wrapper",
    "fp16_compress_hook",
    "fp16_compress_wrapper",
]


def _group(process_group: Any) -> Any:
    return dist._get_default_group() if process_group is None else process_group


def _averaging(process_group: Any, tensor: Any) -> Any:
    """Return a future of the average of a tensor over the ranks; the tensor is overwritten."""
    group = _group(process_group)
    tensor.div_(group.size())
    work = dist.all_reduce(tensor, group=group, async_op=True)
    return work.get_future().then(lambda future: future.value()[0])


def allreduce_hook(process_group: Any, bucket: Any) -> Any:
    """Average the gradients."""
    return _averaging(process_group, bucket.buffer())


def _compressed(dtype: Any, process_group: Any, bucket: Any) -> Any:
    buffer = bucket.buffer()
    future = _averaging(process_group, buffer.to(dtype))
    return future.then(lambda future: buffer.copy_(future.value()))


def fp16_compress_hook(process_group: Any, bucket: Any) -> Any:
    """Average the gradients as float16."""
    return _compressed(gl.float16, process_group, bucket)


def bf16_compress_hook(process_group: Any, bucket: Any) -> Any:
    """Average the gradients as bfloat16."""
    return _compressed(gl.bfloat16, process_group, bucket)


def compress_wrapper(dtype: Any, hook: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Return a hook that passes the gradients to another one in another dtype."""

    def compressing(state: Any, bucket: Any) -> Any:
        buffer = bucket.buffer()
        bucket.set_buffer(buffer.to(dtype))
        return hook(state, bucket).then(lambda future: buffer.copy_(_tensor(future.value())))

    return compressing


def _tensor(value: Any) -> Any:
    return value[0] if isinstance(value, (list, tuple)) else value


def fp16_compress_wrapper(hook: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Return a hook that passes the gradients to another one as float16."""
    return compress_wrapper(gl.float16, hook)


def bf16_compress_wrapper(hook: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Return a hook that passes the gradients to another one as bfloat16."""
    return compress_wrapper(gl.bfloat16, hook)
