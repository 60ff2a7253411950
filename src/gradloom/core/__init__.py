"""The hand-written core: Tensor, Edge, Node, SavedVariable and Engine, and what they need of each other."""
