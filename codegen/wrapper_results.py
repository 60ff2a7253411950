"""What a wrapper returns: tensors, of which some are views and some have gradients."""

from __future__ import annotations

import keyword
from collections.abc import Iterable
from dataclasses import dataclass

from .derivative_model import Output
from .schema import FunctionSchema
from .wrapper_kernel import KernelCalls
from .wrapper_parts import Result, rename


@dataclass(frozen=True, slots=True)
class Results(KernelCalls):
    """A wrapper with what it returns."""

    @property
    def is_view(self) -> bool:
        return self.schema.is_view

    @property
    def source(self) -> str:
        """The tensor that a view shows."""
        letters = {s for r in self.schema.returns if r.annotation for s in r.annotation.sets}
        for p in self.parameters:
            if p.argument.annotation and letters & set(p.argument.annotation.sets):
                return p.name
        return self.first

    @property
    def records_view(self) -> bool:
        """Whether its result is a view to autograd, too, and not only in memory."""
        return self.is_view and self.strategy != "not_differentiable"

    @property
    def changes_view(self) -> bool:
        """Whether it changes what its tensor shows of the memory, and not the memory."""
        return self.kind == "inplace" and "inplace_view" in self.native.tags

    @property
    def writes_itself(self) -> bool:
        """Whether the kernel writes to the first argument's array, as one whose name ends in `_` does."""
        kernel = self.native.kernel
        return (
            self.kind == "inplace"
            and kernel is not None
            and kernel.function is not None
            and kernel.function.endswith("_")
        )

    @property
    def replay(self) -> str:
        """How to make the view again from another tensor, for a view that as_strided cannot make."""
        if "replayed" not in self.native.tags:
            return ""
        rest = "".join(f", {p.name}={p.name}" if p.argument.kwarg_only else f", {p.name}" for p in self.parameters[1:])
        return f"lambda t: {self.operators}.{self.schema.name.unambiguous}(t{rest})"

    @property
    def list_output(self) -> bool:
        return len(self.schema.returns) == 1 and self.schema.returns[0].type.is_list

    @property
    def outputs(self) -> tuple[Result, ...]:
        checks = any(p.argument.type.base.name == "ScalarType" for p in self.parameters)
        masked = any(p.argument.type.is_list and p.argument.type.base.name == "bool" for p in self.parameters)
        known: Iterable[Output | None] = self.info.outputs if self.info else [None] * len(self.schema.returns)
        found = []
        for index, output in enumerate(known):
            name = output.name if output else _output_name(self.schema, index)
            if name in {p.name for p in self.parameters} or keyword.iskeyword(name):
                name += "_out"
            is_list = self.schema.returns[index].type.is_list
            if self.kind == "inplace":
                found.append(
                    Result(name, self.first_array, self.first, False, output.output_nr if output else None, None, False)
                )
                continue
            condition = rename(output.condition, self.names) if output and output.condition else None
            if masked:
                condition = f"{name} is not None"
            elif checks and condition is None:
                condition = f"{name}_.dtype.kind in 'fcV'"
            found.append(
                Result(
                    "results" if is_list else name,
                    f"{name}_",
                    "results" if is_list else name,
                    is_list,
                    output.output_nr if output else None,
                    condition,
                    masked,
                )
            )
        return tuple(found)

    @property
    def differentiable(self) -> tuple[Result, ...]:
        return tuple(o for o in self.outputs if o.output_nr is not None)

    @property
    def result_tuple(self) -> str:
        if self.list_output:
            return "results"
        return f"({', '.join(o.name for o in self.outputs)},)"

    @property
    def result_class(self) -> str | None:
        returns = self.schema.returns
        if len(returns) < 2 or any(r.name is None for r in returns) or self.kind != "functional":
            return None
        return f"{self.schema.name.base}_result"

    @property
    def returns(self) -> str:
        if self.list_output:
            return "tuple(results)"
        names = ", ".join(o.name for o in self.outputs)
        if len(self.outputs) == 1:
            return names
        return f"{self.result_class}(({names}))" if self.result_class else f"({names})"

    @property
    def not_implemented(self) -> bool:
        return self.strategy == "not_implemented" and any(r.type.base.name == "Tensor" for r in self.schema.returns)

    @property
    def tensor_inputs(self) -> str:
        return (
            ", ".join(f"*{p.name}" if "list" in p.kind else p.name for p in self.parameters if p.kind != "value") + ","
        )


def _output_name(schema: FunctionSchema, index: int) -> str:
    returned = schema.returns[index]
    if returned.name:
        return returned.name
    return "result" if len(schema.returns) == 1 else f"result{index}"
