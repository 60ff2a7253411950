"""DataPipes: data sets that are built by chaining small steps, `IterableWrapper(files).map(read).shuffle().batch(8)`.

An IterDataPipe yields its examples in order; a MapDataPipe has them by index. Each step is a class, and a method of all
pipes under its functional name. DataLoader seeds the shuffling steps and shards the `sharding_filter` steps of a pipe.
"""

from __future__ import annotations

from . import iter as iter, map as map
