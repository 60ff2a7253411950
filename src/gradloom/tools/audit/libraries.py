"""The audited libraries: an operator's function, tensors, and products with Jacobians of any function.

`pull` and `push` take a function of tensors, which returns a tuple of them, and compose: the second derivatives are
those of a pull or push.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import gradloom
from gradloom.tools.verify.case import Case, is_float, tensors
from gradloom.tools.verify.operators import Operator, family_calls

Array = np.ndarray
Function = Callable[..., tuple[Any, ...]]
NAMES = ("torch", "gradloom", "jax", "autograd")


class Absent(Exception):
    """The library has no function for an operator, or for one of its arguments."""


class Library:
    """An audited library with PyTorch's API: PyTorch, or gradloom itself.

    Attributes:
        name: the module's name.
        version: the module's version, without the build.
        transforms, array_text, ones: how programs spell transforms, new tensors, and tensors of ones.
    """

    takes_complex = True
    transforms, array_text, ones = "torch.func.", "torch.tensor({}, dtype=torch.{})", "torch.ones_like"

    def __init__(self, name: str) -> None:
        self.name = name
        self.module = importlib.import_module(name)
        self.is_ours = getattr(self.module, "Tensor", None) is gradloom.Tensor
        self.version = str(getattr(self.module, "__version__", "")).partition("+")[0]

    def function(self, operator: Operator) -> Callable[..., Any]:
        """Return the library's function, which takes the arguments of the operator's schema. Raises Absent."""
        if self.is_ours:
            return operator.call
        name = operator.schema.name
        try:
            found = getattr(getattr(self.module.ops.aten, name.name), name.overload or "default")
        except AttributeError as error:
            raise Absent(operator.name) from error
        if [a.name for a in found._schema.arguments] != [a.name for a in operator.schema.inputs]:
            raise Absent(operator.name)
        around = family_calls(operator.family).get(operator.name)
        return around(found) if around is not None else found

    @property
    def start(self) -> str:
        """The first lines of programs."""
        return f"import {self.name}" + ("" if self.name == "torch" else " as torch")

    def tensor(self, array: Array) -> Any:
        return gradloom.from_numpy(array) if self.is_ours else self.module.from_numpy(array)

    def array(self, tensor: Any) -> Array:
        return np.array(tensor._array) if self.is_ours else tensor.numpy(force=True)

    def is_float(self, value: Any) -> bool:
        return isinstance(value, self.module.Tensor) and (value.is_floating_point() or value.is_complex())

    def argument(self, value: Any) -> Any:
        """Return an argument of gradloom's as the library takes it. Raises Absent."""
        if self.is_ours:
            return value.detach().clone() if isinstance(value, gradloom.Tensor) else value
        if isinstance(value, gradloom.Tensor):
            if value.layout is not gradloom.strided or value._array.dtype.kind == "V":
                raise Absent("a tensor of this layout or dtype")
            return self.tensor(value._array.copy())
        if isinstance(value, (list, tuple)):
            return type(value)(map(self.argument, value))
        if type(value).__module__.partition(".")[0] == "gradloom":  # dtypes, layouts, devices
            found = getattr(self.module, str(value).rpartition(".")[2], None)
            if found is None:
                raise Absent(str(value))
            return found
        return value

    def floats(self, value: Any) -> list[Any]:
        """Return the floating-point tensors of a result."""
        if isinstance(value, (list, tuple)):
            return [t for v in value for t in self.floats(v)]
        return [value] if self.is_float(value) else []

    def of_inputs(self, case: Case, places: Sequence[Any], outputs: Sequence[int]) -> Function:
        """Return a call as a function of the tensors at some places, with some of its floating-point outputs."""
        function = self.function(case.operator)
        args, kwargs = [self.argument(a) for a in case.args], {k: self.argument(v) for k, v in case.kwargs.items()}

        def call(*inputs: Any) -> tuple[Any, ...]:
            given, named = list(args), dict(kwargs)
            for place, tensor in zip(places, inputs, strict=True):
                holder, key = (named, place.name) if place.name in named else (given, case.names.index(place.name))
                if place.index is None:
                    holder[key] = tensor
                else:
                    holder[key] = [tensor if n == place.index else t for n, t in enumerate(holder[key])]
            found = self.floats(function(*given, **named))
            return tuple(found[k] for k in outputs)

        return call

    def pull(self, function: Function, inputs: Sequence[Any], cotangents: Sequence[Any]) -> tuple[Any, ...]:
        """Return the gradients of the inputs."""
        found, pulled = self.module.func.vjp(function, *inputs)
        return tuple(pulled(tuple(u.expand_as(f) for u, f in zip(cotangents, found, strict=True))))

    def gradients(self, function: Function, inputs: Sequence[Any], cotangents: Sequence[Any]) -> tuple[Any, ...]:
        """Return the gradients of the inputs as backward computes them, which records nothing."""
        leaves = [x.requires_grad_() for x in inputs]
        pairs = [(o, u) for o, u in zip(function(*leaves), cotangents, strict=True) if o.requires_grad]
        outputs, given = [o for o, _ in pairs], [u.expand_as(o) for o, u in pairs]
        found = self.module.autograd.grad(outputs, leaves, given, allow_unused=True)
        return tuple(self.module.zeros_like(x) if g is None else g for x, g in zip(leaves, found, strict=True))

    def push(self, function: Function, inputs: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, ...]:
        """Return the tangents of the outputs."""
        return tuple(self.module.func.jvp(function, tuple(inputs), tuple(tangents))[1])

    def pull_text(self, function: str, inputs: list[str], cotangents: list[str]) -> str:
        """Return how a program spells a pull; several cotangents are those of a gradient by several inputs."""
        given = cotangents[0] if len(cotangents) == 1 else f"({', '.join(cotangents)})"
        return f"{self.transforms}vjp({function}, {', '.join(inputs)})[1]({given})"

    def gradients_text(self, inputs: list[str], loss: str) -> tuple[list[str], str]:
        """Return (lines, expression): how a program spells the gradients of a number, `loss`."""
        names = ", ".join(inputs)
        last = (
            f"torch.autograd.grad({loss}, ({names},))"
            if len(inputs) > 1
            else f"torch.autograd.grad({loss}, {names})[0]"
        )
        return [f"{x}.requires_grad_()" for x in inputs], last

    def push_text(self, function: str, inputs: list[str], tangents: list[str]) -> str:
        """Return how a program spells a push."""
        return f"{self.transforms}jvp({function}, ({', '.join(inputs)},), ({', '.join(tangents)},))[1]"


class ByName(Library):
    """A library that has functions of the same names and of tensors alone."""

    takes_complex = False
    homes: tuple[str, ...] = ()
    alias = "", ""

    def found(self, operator: Operator) -> tuple[Callable[..., Any], str]:
        """Return a function and its name in programs. Raises Absent."""
        name, module = operator.schema.name.name, operator.joined.function.python_module
        short = name.partition("_")[2] if module in ("linalg", "special") else name
        for home in self.homes:
            try:
                function = getattr(importlib.import_module(home), short, None)
            except ImportError:
                continue
            if callable(function) and home.endswith("linalg") == (module == "linalg"):
                return function, f"{home}.{short}".replace(*self.alias)
        raise Absent(operator.name)

    def function(self, operator: Operator) -> Callable[..., Any]:
        return self.found(operator)[0]

    def of_inputs(self, case: Case, places: Sequence[Any], outputs: Sequence[int]) -> Function:
        function = self.function(case.operator)
        given = [(a, value) for a, (_, value) in zip(case.operator.schema.inputs, case.arguments(), strict=False)]
        if [p.name for p in places] != [a.python_name for a, v in given if tensors(v)] or any(p.index for p in places):
            raise Absent("tensors that are not differentiated")
        for argument, value in given:
            if not tensors(value) and (argument.default is None or value != argument.default_value):
                raise Absent(f"the argument {argument.python_name}")
        return lambda *inputs: (function(*inputs),)

    def argument(self, value: Any) -> Any:
        return self.tensor(value._array) if is_float(value) else value

    def gradients(self, function: Function, inputs: Sequence[Any], cotangents: Sequence[Any]) -> tuple[Any, ...]:
        return self.pull(function, inputs, cotangents)

    def gradients_text(self, inputs: list[str], loss: str) -> tuple[list[str], str]:
        names = ", ".join(inputs)
        numbers = f", {tuple(range(len(inputs)))}" if len(inputs) > 1 else ""
        return [], f"{self.transforms}grad(lambda {names}: {loss}{numbers})({names})"


class Jax(ByName):
    homes = "jax.numpy", "jax.numpy.linalg", "jax.nn", "jax.scipy.special"
    start = 'import jax, jax.scipy.special, jax.numpy as jnp\njax.config.update("jax_enable_x64", True)'
    alias = "jax.numpy", "jnp"
    transforms, array_text, ones = "jax.", "jnp.array({})", "jnp.ones_like"

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.module.config.update("jax_enable_x64", True)

    def tensor(self, array: Array) -> Any:
        return self.module.numpy.asarray(array)

    def array(self, tensor: Any) -> Array:
        return np.array(tensor)

    def is_float(self, value: Any) -> bool:
        return getattr(value, "dtype", np.dtype(int)).kind == "f"

    def pull(self, function: Function, inputs: Sequence[Any], cotangents: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(self.module.vjp(function, *inputs)[1](tuple(cotangents)))

    def push(self, function: Function, inputs: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(self.module.jvp(function, tuple(inputs), tuple(tangents))[1])


class Autograd(ByName):
    homes = "autograd.numpy", "autograd.numpy.linalg", "autograd.scipy.special"
    start = "import autograd, autograd.scipy.special, autograd.numpy as np"
    alias = "autograd.numpy", "np"
    transforms, array_text, ones = "autograd.", "np.array({})", "np.ones_like"

    def __init__(self, name: str) -> None:
        from importlib.metadata import version

        super().__init__(name)
        self.version = version(name)

    def tensor(self, array: Array) -> Any:
        return array

    def array(self, tensor: Any) -> Array:
        return np.array(tensor)

    def is_float(self, value: Any) -> bool:
        return getattr(value, "dtype", np.dtype(int)).kind == "f"

    def pull(self, function: Function, inputs: Sequence[Any], cotangents: Sequence[Any]) -> tuple[Any, ...]:
        found = []
        for i in range(len(inputs)):
            parts = [
                self.module.make_vjp(lambda *xs, k=k: function(*xs)[k], i)(*inputs)[0](u)
                for k, u in enumerate(cotangents)
            ]
            found.append(sum(parts[1:], parts[0]))
        return tuple(found)

    def push(self, function: Function, inputs: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, ...]:
        found = []
        for k in range(len(function(*inputs))):
            parts = [
                self.module.make_jvp(lambda *xs, k=k: function(*xs)[k], i)(*inputs)(v)[1]
                for i, v in enumerate(tangents)
            ]
            found.append(sum(parts[1:], parts[0]))
        return tuple(found)

    def pull_text(self, function: str, inputs: list[str], cotangents: list[str]) -> str:
        return f"autograd.make_vjp({function})({', '.join(inputs)})[0]({', '.join(cotangents)})"

    def push_text(self, function: str, inputs: list[str], tangents: list[str]) -> str:
        return f"autograd.make_jvp({function})({', '.join(inputs)})({', '.join(tangents)})[1]"


def load(name: str) -> Library:
    """Return an installed library. Raises ImportError if it is not, ValueError for another name."""
    if name not in NAMES:
        raise ValueError(f"there is no way to audit `{name}`; the libraries are {', '.join(NAMES)}")
    return {"jax": Jax, "autograd": Autograd}.get(name, Library)(name)
