"""Samples of shape operators whose schema is not specific enough."""

from __future__ import annotations

import gradloom

from . import calls, integers, tensor, transposed

x, y, cube, number = tensor(2, 3), tensor(3, 2, seed=1), tensor(2, 3, 4), tensor()
column, flipped, image = tensor(3, 1), transposed(3, 2), tensor(1, 4, 2, 2)

SAMPLES = {
    "to.device": calls((x, "cpu", gradloom.float64), (x, "cpu", gradloom.float64, False, True)),
    "to.dtype": calls((x, gradloom.float64), (x, gradloom.float64, False, True), (x, gradloom.int64)),
    "view.dtype": calls((x, gradloom.int64), (x, gradloom.float32)),
    "_reshape_alias": calls((x, (3, 2), (2, 1)), (x, (6,), (1,))),
    "unflatten_dense_tensors": calls((tensor(8), [x.detach(), number.detach(), tensor(0).detach()])),
    "unflatten.int": calls((x, 1, (3, 1)), (cube, -1, (2, -1))),
    "view": calls((x, (3, 2)), (x, (6,)), (x, (1, -1, 2)), (cube, (4, 6)), (number, (1,))),
    **{
        name: calls((x, (2, 3, 1)), (x, (2, 1, -1)), (cube, (2, 3, 2, 2)))  # views in every layout
        for name in ("_unsafe_view", "view_copy")
    },
    "expand": calls((x, (2, 3)), (column, (3, 2)), (column, (2, -1, 4)), (number, (2,)), (tensor(1, 3), (2, 3))),
    "permute": calls((x, (1, 0)), (cube, (2, 0, 1)), (cube, (-1, 0, 1)), (number, ())),
    "movedim.intlist": calls((cube, (0, 1), (1, 2)), (x, (0,), (-1,))),
    "moveaxis.intlist": calls((cube, (0, 1), (1, 2))),
    **{
        name: calls((tensor(1, 2, 1), 0), (tensor(1, 2, 1), -1), (tensor(1, 2, 1), 1), (tensor(1, 1), 1), (number, 0))
        for name in ("squeeze.dim", "squeeze_.dim")
    },
    "squeeze.dims": calls((column, (1,)), (column, (0, 1)), (tensor(1, 2, 1), (0, -1)), (number, (0,))),
    "squeeze_.dims": calls((column, (1,))),
    "as_strided": calls(
        (x, (2, 2), (1, 2)),
        (x, (3, 2), (1, 1), 1),
        (x, (2, 3), (0, 1)),
        (flipped, (2, 2), (3, 1)),
        (x.expand(2, 2, 3), (2, 2), (1, 1)),
        (x, (0, 2), (1, 1)),
    ),
    "as_strided_": calls((x, (2, 2), (1, 2))),
    "select_backward": calls((tensor(3), (2, 3), 0, 1), (tensor(2), (2, 3), -1, -1), (number, (3,), 0, 2)),
    "slice_backward": calls(
        (tensor(2, 2), (2, 3), 1, 1, 3, 1), (tensor(2, 2), (2, 4), -1, 0, 4, 2), (tensor(2, 3), (4, 3), 0, 1, 4, 2)
    ),
    "narrow.Tensor": calls((x, 1, gradloom.tensor(1), 2)),
    "fill_diagonal_": calls((x, 0.5), (tensor(7, 3), 2.0, True), (tensor(2, 2, 2), 1.0)),
    "diagonal_backward": calls((tensor(2), (2, 3), 0, 0, 1), (tensor(2, 2), (2, 3, 2), -1, 1, 2)),
    "unfold_backward": calls(
        (tensor(2, 2, 2), (2, 3), 1, 2, 1), (tensor(2, 2), (5,), 0, 2, 3), (tensor(1), (), 0, 1, 1)
    ),
    "unfold": calls((tensor(4, 5), 0, 2, 1), (tensor(4, 5), -1, 3, 2), (number, 0, 1, 1)),
    "split_with_sizes": calls((x, (1, 1)), (x, (1, 0, 2), 1)),
    "unsafe_split_with_sizes": calls((x, (1, 1)), (x, (1, 2), -1)),
    "split.sizes": calls((x, (1, 1)), (x, (1, 2), -1)),
    "tensor_split.indices": calls((x, (1,)), (x, (1, 2), 1)),
    "tensor_split.tensor_indices_or_sections": calls((x, integers(1)), (x, gradloom.tensor(2), 1)),
    "hsplit.array": calls((x, (1,)), (tensor(4), (1, 3))),
    "vsplit.array": calls((x, (1,))),
    "dsplit.int": calls((cube, 2)),
    "dsplit.array": calls((cube, (1, 2))),
    "select_scatter": calls((x, tensor(3, seed=1), 0, 1), (flipped, tensor(2, seed=1), 1, -1)),
    "slice_scatter": calls(
        (tensor(4, 5), tensor(2, 5, seed=1), 0, 1, 3),
        (tensor(4, 5), tensor(4, 2, seed=1), 1, 0, 4, 2),
        (tensor(4, 5), tensor(1, 5, seed=1), -2, -2, None, 2),
        (x, y.t()),
    ),
    "diagonal_scatter": calls(
        (x, tensor(2, seed=1)),
        (cube, tensor(3, 2, seed=1), 0, 0, 2),
        (cube, tensor(2, 3, seed=1), 1, 1, 2),
        (cube, tensor(4, 2, seed=1), 1, 0, 1),
    ),
    "as_strided_scatter": calls((x, tensor(2, 2, seed=1), (2, 2), (1, 2)), (flipped, tensor(3, seed=1), (3,), (1,), 2)),
    "set_.source_Storage": calls((x, y.untyped_storage())),
    "set_.source_Storage_storage_offset": calls(
        (x, y.untyped_storage(), 1, (2,), (2,)), (x, y.untyped_storage(), 0, (3,))
    ),
    "set_.source_Tensor_storage_offset": calls((x, y, 1, (2,), (2,)), (x, y, 0, (3,))),
    "repeat": calls((x, (2, 1)), (x, (2, 1, 3)), (number, (2,)), (x, (0, 1)), (flipped, (1, 2))),
    "tile": calls((x, (2,)), (x, (1, 2, 1))),
    "repeat_interleave.Tensor": calls((integers(1, 0, 2),)),
    "repeat_interleave.self_Tensor": calls((x, integers(2, 1), 0), (x, integers(2), 1), (tensor(3), integers(0, 1, 2))),
    "roll": calls((x, (1,)), (x, (1,), (0,)), (x, (1, -2), (0, 1)), (flipped, (1,), (1,)), (number, (1,))),
    "flip": calls((x, (0,)), (x, (0, 1)), (flipped, (-1,)), (number, ())),
    "meshgrid": calls(([tensor(2), tensor(3, seed=1)],)),
    "meshgrid.indexing": calls(
        ([tensor(2), tensor(3, seed=1)], {"indexing": "ij"}),
        ([tensor(2), tensor(3, seed=1), number], {"indexing": "xy"}),
    ),
    "cartesian_prod": calls(([tensor(2), tensor(3, seed=1)],), ([tensor(2)],)),
    "combinations": calls((tensor(4),), (tensor(3), 2, True), (tensor(4), 3)),
    "constant_pad_nd": calls((x, (1, 1)), (x, (1, -1, 0, 2), 3.0), (flipped, (-1, 0))),
    "pixel_shuffle": calls((image, 2), (tensor(2, 4, 1, 2), 2)),
    "pixel_unshuffle": calls((image, 2), (tensor(1, 2, 2), 2)),
    "channel_shuffle": calls((image, 2), (tensor(1, 6, 2), 3)),
    "native_channel_shuffle": calls((image, 2), (tensor(1, 6, 2), 3)),
}

# The sizes of the input, the gradient and the dimensions belong together; strides must not overlap.
FIXED = {
    "select_backward": ("grad_output", "input_sizes", "dim", "index"),
    "slice_backward": ("grad_output", "input_sizes", "dim", "start", "end", "step"),
    "slice_scatter": ("self", "src", "dim", "start", "end", "step"),
    "diagonal_scatter": ("self", "src", "offset", "dim1", "dim2"),
    "diagonal_backward": ("grad_output", "input_sizes", "offset", "dim1", "dim2"),
    "unfold_backward": ("grad_in", "input_sizes", "dim", "size", "step"),
    "as_strided_scatter": ("self", "src", "size", "stride", "storage_offset"),
}
