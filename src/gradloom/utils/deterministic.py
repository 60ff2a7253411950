"""A setting for deterministic algorithms.

`fill_uninitialized_memory` is kept, without effect: `empty` returns what the memory has, also while
`use_deterministic_algorithms` is on.
"""

fill_uninitialized_memory: bool = True
