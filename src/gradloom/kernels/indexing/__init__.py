"""Indexing kernels. Those whose names end in `_` write to their first argument; the others return new memory."""
