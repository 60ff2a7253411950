"""Control flow as operators. Without a compiler they call the functions themselves, so that derivatives, vmap and
tensors that the functions close over need nothing of their own."""

from .associative_scan import associative_scan
from .cond import cond
from .map import map
from .scan import scan
from .while_loop import while_loop

__all__ = ["associative_scan", "cond", "map", "scan", "while_loop"]
