"""Overrides of public functions by classes and modes: PyTorch's `__torch_function__`.

Note [Torch functions]
A class with a `__torch_function__` (a subclass of Tensor, or any other), and a `TorchFunctionMode` that is entered,
handle the calls of public functions before the arguments are parsed: `gradloom.sum`, `Tensor.sum`, `x + y`, `x.shape`,
`nn.functional.cross_entropy`. A plain subclass of Tensor does so, too, because Tensor's own `__torch_function__` gives
results the class of the argument.

Functions check for overrides only while there are any. When the first such class is made, or the first mode is entered,
each public function gets another `__code__`, which checks first; its own code moves to a second function
(`function_code.CheckedFunction`; Note [Function code] gives the reasons). The function objects stay the same, so that a
program which imported one, or uses it as a key, has the one that `__torch_function__` receives. When the last such
class is gone and the last mode is left, the functions get their code back.

Handlers are called in this order (`handlers.call_handlers`): that of the innermost mode, then those of the arguments'
classes, subclasses before their bases, otherwise from left to right. NotImplemented passes the call on to the next. In
a mode's handler only the outer modes are active. A class's handler runs in the caller's state; Tensor's own
`__torch_function__` calls the function again with classes disabled.

Only calls by users can be overridden. Calls that gradloom's own operators, formulas and composites make are internal,
like calls within PyTorch's C++ (`checks.is_internal`).

A class that is not a Tensor does not register itself. It is noticed when an operator first finds an instance in place
of a tensor; from then on all functions check. That first call is handled as a call of the public function
(`unknown_classes`).

Layout: `checks` (when functions check, and what a checked call does), `public` (which functions are public), `handlers`
(overloaded arguments and their handlers; Tensor's own), `unknown_classes`.
"""

from .checks import check_for
from .handlers import preserve_class

__all__ = ["check_for", "preserve_class"]
