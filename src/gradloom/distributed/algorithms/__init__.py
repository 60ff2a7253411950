"""Algorithms that stand on collectives: joining uneven inputs, hooks of DistributedDataParallel."""
