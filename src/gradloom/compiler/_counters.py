"""What the compiler did in this process, as counts: PyTorch's `torch._dynamo.utils.counters`."""

from __future__ import annotations

from collections import Counter, defaultdict

# "frames": functions that were recorded ("total"), and those of them that are a graph ("ok"); "stats": graphs that were
# made ("unique_graphs"); "graph_break": for each reason that prevented a graph, how often it did.
counters: defaultdict[str, Counter[str]] = defaultdict(Counter)
