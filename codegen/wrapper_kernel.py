"""What a wrapper computes: its kernel on arrays of one dtype."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass

from .kernel_expr import outermost_ufunc
from .wrapper_calls import Calls
from .wrapper_parts import Parameter, module_alias, rename

# Arguments that say where a result lives; every result lives on the CPU in a strided layout.
PLACEMENT = ("layout", "device", "pin_memory", "non_blocking")
_KEEPS_INTEGERS = frozenset(
    "add subtract multiply negative positive absolute maximum minimum fmax fmin equal not_equal less less_equal "
    "greater greater_equal logical_and logical_or logical_xor logical_not bitwise_and bitwise_or bitwise_xor invert "
    "left_shift right_shift remainder fmod floor_divide sign square conjugate gcd lcm isnan isinf isfinite "
    "signbit".split()
)


@dataclass(frozen=True, slots=True)
class KernelCalls(Calls):
    """A wrapper with the call of its kernel."""

    @property
    def _kernel_names(self) -> Mapping[str, str]:
        assert self.native.kernel is not None
        names = {
            name: f"{module_alias('kernels', module)}.{name.partition('.')[2]}"
            for name, module in self.native.kernel.modules
        }
        for p in self.parameters:
            name = p.argument.python_name
            if p.kind != "value":
                names[name] = p.array
            elif p.argument.type.base.name == "ScalarType":
                names[name] = f"{name}_numpy"
            elif p.name != name:
                names[name] = p.name
        return names

    @property
    def kernel(self) -> str:
        kernel = self.native.kernel
        assert kernel is not None
        if kernel.kind == "expression":
            return rename(kernel.source, self._kernel_names)
        values = []
        for p in self.parameters:
            if p.argument.python_name in PLACEMENT:
                continue
            if p.kind != "value":
                values.append(p.array)
            elif p.argument.type.base.name == "ScalarType" and not p.argument.type.is_list:
                values.append(f"None if {p.name} is None else {p.name}.numpy")
            elif p.argument.type.base.name == "Generator":
                values.append(f"None if {p.name} is None else {p.name}._stream")
            else:
                values.append(p.name)
        return f"{self._kernel_names[kernel.source]}({', '.join(values)})"

    @property
    def refuses(self) -> bool:
        """Whether NumPy's errors about shapes and dtypes are said in PyTorch's words: those of pointwise operators."""
        return "pointwise" in self.native.tags

    @property
    def refusal(self) -> str:
        arrays = [p.array for p in self.arrays if p.kind in ("tensor", "optional")]
        return f"refusal(error, {', '.join([repr(self.python_name.rstrip('_')), *arrays])})"

    @property
    def ufunc_out(self) -> str | None:
        """The kernel as a ufunc that writes to the first argument's array; None where it is no single ufunc."""
        kernel = self.native.kernel
        if kernel is None or kernel.kind != "expression" or self.native.type_promotion == "always_bool":
            return None
        found = with_out(ast.parse(kernel.source, mode="eval").body, self.first_array, self._kernel_names)
        return found

    @property
    def operand_arrays(self) -> tuple[str, ...]:
        return tuple(p.array for p in self.arrays[1:] if p.kind == "tensor")

    @property
    def scalars(self) -> tuple[str, ...]:
        """Python numbers that take part in type promotion."""
        if self.native.type_promotion != "default_with_numbers":
            return ()
        return tuple(p.name for p in self.parameters if p.kind == "value" and p.argument.type.base.name == "Scalar")

    @property
    def promotes(self) -> tuple[Parameter, ...]:
        """The tensors whose arrays are brought to one dtype before the kernel."""
        rule = self.native.type_promotion or self._default_promotion
        chosen = self.native.promotes
        arrays = tuple(p for p in self.arrays if not chosen or p.argument.name in chosen)
        tensors = tuple(p for p in arrays if p.kind in ("tensor", "optional"))
        if rule == "none" or len(arrays) != len(tensors):
            return ()
        if rule == "int_to_float":
            return tensors
        return tensors if len(tensors) > 1 or self.scalars else ()

    @property
    def _default_promotion(self) -> str:
        kernel = self.native.kernel
        pointwise = "pointwise" in self.native.tags
        return "default" if pointwise or (kernel is not None and kernel.kind == "expression") else "none"

    @property
    def promotion(self) -> str:
        found = {"int_to_float": "promote_to_float", "no_bool": "promote_numbers"}.get(
            self.native.type_promotion or "", "promote"
        )
        return found if self.native.half_numbers is None else f"{found}_exact"

    @property
    def dtypes_differ(self) -> str:
        first, *rest = self.promotes
        tests = [
            f"{first.array}.dtype is not {p.array}.dtype"
            if p.kind == "tensor"
            else f"{p.array} is not None and {first.array}.dtype is not {p.array}.dtype"
            for p in rest
        ]
        if self.native.type_promotion == "int_to_float" or self.scalars:
            tests.append(f"{first.array}.dtype.kind not in 'fcV'")
        tests += [f"{s}.__class__ is complex" for s in self.scalars]
        return " or ".join(tests)

    @property
    def narrows(self) -> tuple[str, ...]:
        """The arrays to look at where NumPy may have made float64 of integers: expressions that say nothing else."""
        kernel = self.native.kernel
        if kernel is None or kernel.kind != "expression" or self.native.type_promotion is not None:
            return ()
        if "pointwise" in self.native.tags and kernel.ufunc in _KEEPS_INTEGERS:
            return ()
        return tuple(f"*{p.array}" if "list" in p.kind else p.array for p in self.arrays)


def with_out(tree: ast.expr, target: str, names: Mapping[str, str]) -> str | None:
    """A kernel expression whose outermost ufunc, on either branch of a condition, writes to `target`."""
    if isinstance(tree, ast.IfExp):
        body, orelse = with_out(tree.body, target, names), with_out(tree.orelse, target, names)
        test = rename(ast.unparse(tree.test), names)
        return f"{body} if {test} else {orelse}" if body and orelse else None
    ufunc, operands = outermost_ufunc(tree)
    if ufunc is None:
        return None
    return f"xp.{ufunc}({', '.join(rename(o, names) for o in operands)}, out={target})"
