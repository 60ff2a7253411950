"""The hand-written core: Tensor, Edge, Node, SavedVariable and Engine, and their helpers."""
