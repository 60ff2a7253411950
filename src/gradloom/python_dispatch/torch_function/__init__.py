"""Public functions that classes and modes answer in their stead: PyTorch's `__torch_function__`.

Note [Torch functions]
A class with a `__torch_function__` (a subclass of Tensor, or any other), and a `TorchFunctionMode` that is entered, see
the calls of public functions before anything is made of their arguments: `gradloom.sum`, `Tensor.sum`, `x + y`,
`x.shape`, `nn.functional.cross_entropy`. A plain subclass of Tensor does so, too, because Tensor's own
`__torch_function__` gives results the class of the argument.

Nothing of that is in the code of the functions. When the first such class is made, or the first mode is entered, each
public function gets another `__code__`, one that asks first, and what it was is kept as a function beside it
(`asking.Asking`). The function objects stay the same, so that who imported one, or keeps one as the key of a dict, has
the one that `__torch_function__` is called with. As soon as the last such class is gone and the last mode is left, the
functions get their code back: a program that uses none of this runs none of it.

Who is asked, in this order (`answers.answer`): the innermost mode, then the arguments' classes, subclasses before the
classes that they derive from, else from left to right. NotImplemented passes on to the next. While a mode answers, the
modes are those around it; while a class answers, nothing changes, and Tensor's own `__torch_function__` calls the
function again with classes disabled.

Only calls by users are asked about. What gradloom's own operators, formulas and composites call, also on tensors that
a node saved, is no call of a public function, just as what happens in PyTorch's C++ is none (`internal.is_internal`).

A class that is no tensor cannot announce itself. It is noticed when an operator first fails to find a tensor in its
place; from then on all functions ask. That first call is answered as the public function that it was (`first_call`).

Layout: `asking` (the code that asks, and when it is there), `public` (which functions are public), `answers` (who
answers), `first_call`, `preserve` (Tensor's own `__torch_function__`), `internal` (whose calls are not asked about).
"""

from .asking import ask_for
from .preserve import preserve_class

__all__ = ["ask_for", "preserve_class"]
