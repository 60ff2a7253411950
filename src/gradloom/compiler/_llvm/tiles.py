"""What the code and the calls of products of matrices agree on: Note [Generated products] of matrices.py."""

from __future__ import annotations

DEPTH = 512
VECTORS = 3  # of a panel
IN_PLACE, COPIED, TURNED = 0, 1, 2
# The numbers of a product, in the geometry, after which come the offsets of each product of a batch.
NUMBERS = ("scratch", "rows", "depth", "panel_lane", "panel_k", "row", "row_k", "result", "packing", "adds")
PLACES = 3  # offsets of the panel's factor, the rows' factor, and the result, in bytes


def rows_of(register: int) -> int:
    """Return the number of rows of a tile: a tile, its panel's vectors and a row's number fit the registers."""
    return 8 if register == 512 else 4


def scratch_size(register: int) -> int:
    """Return how many bytes a product needs beside its arrays: a panel, a tile, and what aligns them."""
    return (DEPTH + rows_of(register)) * VECTORS * register // 8 + 64
