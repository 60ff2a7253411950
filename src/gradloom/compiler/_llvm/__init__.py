"""The llvm backend: loop programs become machine code for this processor.

    kernel = compile(program)      # a LoopProgram; see gradloom.compiler._loops
    kernel([x, y, out], [0.1])     # inputs, outputs, numbers

`plan` lays out the loops, `access`, `emit` and `lower` write LLVM's text, `exponentials` and `trigonometry` are
functions, `host` makes object code, `code`, `image` and `cache` keep it, `kernel` calls it, and `pool` has its threads.
`pooling` writes code that is no loop program, and `tasks` calls it. Nothing here is imported before a program is
compiled.
"""

from .host import available
from .kernel import Kernel, compile, emitted, forget
from .plan import Unsupported

__all__ = ["Kernel", "Unsupported", "available", "compile", "emitted", "forget"]
