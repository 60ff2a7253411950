"""What the code and the calls of products of matrices agree on: Note [Generated products] of matrices.py."""

from __future__ import annotations

DEPTH = 512  # the most terms of a block
IN_PLACE, COPIED, TURNED = 0, 1, 2
# The numbers of a product, in the geometry, after which come the offsets of each product of a batch.
NUMBERS = ("scratch", "rows", "depth", "panel_lane", "panel_k", "row", "row_k", "result", "packing", "adds")
PLACES = 3  # offsets of the panel's factor, the rows' factor, and the result, in bytes


class Tile:
    """Sizes that depend on the width of vector registers.

    rows, vectors: of a tile; these, a panel's vectors and a number fit the registers. Rows are a power of two.
    few: the most rows for which a panel that may be read in place is.
    most: the most bytes of a matrix; see Note [Which products are generated].
    """

    __slots__ = ("rows", "vectors", "few", "most")

    def __init__(self, rows: int, vectors: int, few: int, most: int) -> None:
        self.rows, self.vectors, self.few, self.most = rows, vectors, few, most


def tile_of(register: int) -> Tile:
    """Return the sizes for registers of so many bits."""
    return Tile(8, 3, 511, 1 << 22) if register == 512 else Tile(4, 3, 47, 1 << 20)


def scratch_size(register: int) -> int:
    """Return how many bytes a product needs beside its arrays: a panel, a tile, and what aligns them."""
    tile = tile_of(register)
    return (DEPTH + tile.rows) * tile.vectors * register // 8 + 64
