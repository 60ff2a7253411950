"""The formulas of an operator as the rule of a jax.custom_jvp function."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping

from gradloom.codegen.derivatives.model import DifferentiabilityInfo, ForwardDerivative

from .operators import Emitted, Operator, several

_NOT_HOLOMORPHIC = frozenset("abs sign conj real imag angle".split())


class JaxOperator(Operator):
    def differentiate(self, found: Emitted, is_numpy: bool) -> None:
        info, use = self.info, self.library.functions.use
        assert info is not None
        self.refuse_conditions(info)
        static = [n for n in self.names if n not in self.tensors]
        found.static = repr(tuple(self.names.index(n) for n in static))
        found.leading = "".join(f"{n}, " for n in static)
        found.tangents = several([f"{t}_t" for t in self.tensors])
        for name in ("_tangent_of",):
            use(name)
        lines = []
        for name in info.unnamed:
            lines += [
                f"if {use('_has_tangent')}({name}_t):",
                f"    raise NotImplementedError({self.undifferentiable(name)!r})",
            ]
        lines += [f"{', '.join(self.results)} = _{self.name}_custom({found.positional})"]
        if self.is_diagonal(info):
            lines += self.jax_elements(info)
        elif info.forward and all(f.not_implemented is None for f in info.forward):
            lines += self.jax_forward(info, is_numpy)
        else:
            lines += self.jax_transposed(info)
        found.forward = lines

    def is_diagonal(self, info: DifferentiabilityInfo) -> bool:
        """Return whether the tangent is the conjugate of the formulas for conjugate tangents, input by input."""
        if not self.pointwise or len(self.results) != 1:
            return False
        kinds = {f.kind for f in info.forward}
        if kinds <= {"auto_element_wise"}:
            return True
        words = (
            set(re.findall(r"\w+", self.function.scalar.source))
            if self.function.scalar is not None
            else _NOT_HOLOMORPHIC
        )
        return kinds == {"explicit"} and not words & _NOT_HOLOMORPHIC

    def jax_elements(self, info: DifferentiabilityInfo) -> list[str]:
        use = self.library.functions.use
        lines = ["tangent = jnp.zeros_like(result)"]
        use("_has_tangent"), use("_cotangent")
        for derivative in info.derivatives:
            for position, of in enumerate(derivative.inputs):
                lines += [f"if _has_tangent({of}_t):", f"    {self.comment(derivative)}"]  # fmt: skip
                if derivative.not_implemented is not None:
                    lines += [f"    raise NotImplementedError({derivative.not_implemented!r})"]
                    continue
                block = [f"grad = _cotangent({of}_t, result)", *self.fields(derivative)]
                if derivative.mask:
                    block += [f"grad_input_mask = {[n == position for n in range(len(derivative.inputs))]!r}"]
                value = ast.unparse(self.translated(self.plain(derivative), derivative.place, derivative.source, False))
                if len(derivative.inputs) > 1:
                    value = f"({value})[{position}]"
                block += [f"tangent = tangent + jnp.conj({value})"]
                lines += [f"    {line}" for line in block]
        return [*lines, "return result, _tangent_of(result, tangent)"]

    def jax_forward(self, info: DifferentiabilityInfo, is_numpy: bool) -> list[str]:
        use, lines, made = self.library.functions.use, [], {}
        lines += [f"{n}_p = {n}" for n in self.tensors if any(n in f.primals for f in info.forward)]
        for forward in info.forward:
            lines += [f"# {', '.join(forward.outputs)}: {' '.join(forward.source.split())}"]
            pairs = [(t.input, t.name) for t in forward.tangents]
            use("_tangents")
            shown = ", ".join(f"({n}, {t})" for n, t in pairs)
            lines += [f"{several([t for _, t in pairs])} = _tangents({shown})"]
            value = ast.unparse(self.translated(forward.formula, forward.place, forward.source, True))
            if is_numpy and forward.kind == "auto_linear" and len(pairs) == 1:
                lines += self.jax_linear(info, forward, value)
                value = f"jax.custom_derivatives.linear_call(tangent_by, gradient_by, (), {pairs[0][1]})"
            made |= {o: f"tangent_of_{o}" for o in forward.outputs}
            lines += [f"{', '.join(made[o] for o in forward.outputs)} = {value}"]
        return [*lines, self.jax_return(made)]

    def jax_linear(self, info: DifferentiabilityInfo, forward: ForwardDerivative, value: str) -> list[str]:
        """Return the two directions of a linear operator that JAX cannot transpose: a callback of NumPy."""
        (derivative,) = info.derivatives
        gradient = ast.unparse(self.translated(self.plain(derivative), derivative.place, derivative.source, False))
        tangent = forward.tangents[0].name
        return [
            *self.fields(derivative),
            "", f"def tangent_by(_, {tangent}):", f"    return {value}",
            "", "def gradient_by(_, grad):", f"    # {derivative.inputs[0]}: {' '.join(derivative.source.split())}",
            f"    return {gradient}", "",
        ]  # fmt: skip

    def jax_transposed(self, info: DifferentiabilityInfo) -> list[str]:
        """Return the tangent by transposing the formulas of the gradient."""
        if len(self.results) != 1:
            text = self.function.text
            raise text.error(
                f"`{self.function.name}` has several results and no forward formula", "add `result:` lines"
            )
        use, lines = self.library.functions.use, ["tangent = jnp.zeros_like(result)"]
        use("_has_tangent"), use("_transposed")
        for derivative in info.derivatives:
            for position, of in enumerate(derivative.inputs):
                lines += [f"if _has_tangent({of}_t):"]
                if derivative.not_implemented is not None:
                    lines += [f"    raise NotImplementedError({derivative.not_implemented!r})"]
                    continue
                block = [*self.fields(derivative)]
                if derivative.mask:
                    block += [f"grad_input_mask = {[n == position for n in range(len(derivative.inputs))]!r}"]
                value = ast.unparse(self.translated(self.plain(derivative), derivative.place, derivative.source, False))
                value = f"({value})[{position}]" if len(derivative.inputs) > 1 else value
                block += ["", "def gradient_by(grad):", f"    {self.comment(derivative)}", f"    return {value}", ""]
                block += [f"tangent = tangent + _transposed(gradient_by, {of}, {of}_t)"]
                lines += [f"    {line}" for line in block]
        return [*lines, "return result, _tangent_of(result, tangent)"]

    def jax_return(self, made: Mapping[str, str]) -> str:
        results = ", ".join(self.results)
        tangents = ", ".join(f"_tangent_of({r}, {made.get(r, f'jnp.zeros_like({r})')})" for r in self.results)
        return f"return {results}, {tangents}" if len(self.results) == 1 else f"return ({results}), ({tangents})"
