"""Indexing kernels. Those whose names end in `_` write to their first argument; others return new memory."""
