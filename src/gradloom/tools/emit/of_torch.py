"""The formulas of an operator as an autograd.Function of PyTorch."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping

from gradloom.codegen.derivatives.model import Derivative, DifferentiabilityInfo, Output

from .operators import Emitted, Operator, several


class TorchOperator(Operator):
    def differentiate(self, found: Emitted, is_numpy: bool) -> None:
        info, use = self.info, self.library.functions.use
        assert info is not None and info.node is not None
        self.refuse_conditions(info)
        found.node = _class_name(info.node)
        use("_vmap_elements" if self.pointwise else "_vmap_loop")
        formulas = [f.formula for f in (*info.derivatives, *info.forward)]
        words = set(re.findall(r"\w+", " ".join([*formulas, *(s.read for s in info.saved)])))
        backward = [n for n in (*self.tensors, *self.results) if any(n in d.saved for d in info.derivatives)]
        read = " ".join(s.read for s in info.saved if s.name not in (*self.names, *self.results))
        backward += [n for n in (*self.tensors, *self.results) if n not in backward and re.search(rf"\b{n}\b", read)]
        uses = {
            n
            for f in info.forward
            for n in (*f.primals, *f.results, *(t.input for t in f.tangents if len(f.tangents) > 1))
        }
        forward = [
            n for n in self.tensors if n in uses or any(n in re.findall(r"\w+", f.formula) for f in info.forward)
        ]
        forward += self.results
        values = [n for n in self.names if n not in self.tensors and n in words]
        found.undifferentiable = ", ".join(o.name for o in info.outputs if not o.is_differentiable)
        found.values = ", ".join(values)
        unpacked = [f"{several(values)} = ctx.values"] if values else []
        outputs = [o for o in info.outputs if o.is_differentiable]
        grads = {o.index: "grad" if len(outputs) == 1 else f"grad_{o.name}" for o in info.outputs}
        found.gradients = ", ".join(grads[o.index] if o.is_differentiable else f"_{o.name}" for o in info.outputs)
        found.backward = self.torch_backward(info, backward, unpacked, outputs, grads)
        found.saved = ", ".join(backward)
        if all(f.not_implemented is None for f in info.forward) and info.forward:
            found.tangents = ", ".join(f"{n}_t" if n in self.tensors else f"_{n}" for n in self.names)
            found.forward = self.torch_forward(info, forward, unpacked)
            found.saved_forward = ", ".join(forward)
        used = {*backward, *(forward if found.forward else ())}
        if used & {*self.results} or found.undifferentiable:
            found.outputs = ", ".join(self.results)
        found.unpacked = several(self.names)
        found.refused = list(info.unnamed)

    def torch_backward(
        self, info: DifferentiabilityInfo, tensors: list[str], unpacked: list[str], outputs: list[Output],
        grads: Mapping[int, str],
    ) -> list[str]:  # fmt: skip
        lines, none = [], ", ".join(["None"] * len(self.inputs))
        if len(outputs) == 1:
            lines += [f"if {grads[outputs[0].index]} is None:", f"    return {none}"]
        at, made = len(lines), dict[str, str]()
        for derivative in info.derivatives:
            of = ", ".join(derivative.inputs)
            first = len(lines)
            positions = [self.names.index(i) for i in derivative.inputs]
            lines += [f"# {of}: {' '.join(derivative.source.split())}"]
            needed = " or ".join(f"ctx.needs_input_grad[{p}]" for p in positions)
            defined = self.gradients_defined(derivative, outputs, grads)
            lines += [f"if {' and '.join([f'({needed})' if defined and ' or ' in needed else needed, *defined])}:"]
            made |= {i: f"grad_of_{i}" for i in derivative.inputs}
            block = []
            if derivative.not_implemented is not None:
                block += [f"raise NotImplementedError({derivative.not_implemented!r})"]
            else:
                block += self.fields(derivative)
                if derivative.mask:
                    block += [f"grad_input_mask = [ctx.needs_input_grad[p] for p in {positions!r}]"]
                block += self.gradients_made(derivative, outputs, grads, tensors)
                value = self.translated(self.plain(derivative), derivative.place, derivative.source, False)
                targets = ", ".join(made[i] for i in derivative.inputs)
                block += [f"{targets} = {ast.unparse(value)}"]
            lines += [f"    {line}" for line in block]
            lines[first:first] = [f"{' = '.join(made[i] for i in derivative.inputs)} = None"]
        saved = [f"{several(tensors)} = ctx.saved_tensors"] if tensors else []
        lines[at:at] = [*saved, *unpacked]
        gradients = [made.get(n, "None") for n in self.names]
        return [*lines, f"return {', '.join(gradients)}"]

    def gradients_defined(self, derivative: Derivative, outputs: list[Output], grads: Mapping[int, str]) -> list[str]:
        """Return the condition that one of the gradients that a formula uses is defined."""
        if len(outputs) == 1:
            return []
        used = [g.index for g in derivative.gradients] or [o.index for o in outputs]
        names = [grads[o.index] for o in outputs if o.output_nr in used or o.index in used]
        return [f"any(g is not None for g in ({', '.join(names)},))"]

    def gradients_made(
        self, derivative: Derivative, outputs: list[Output], grads: Mapping[int, str], tensors: list[str]
    ) -> list[str]:
        """Return assignments of the gradients by the names that a formula has for them."""
        lines = []
        by_number = {o.output_nr: o for o in outputs}
        for g in derivative.gradients:
            output = by_number[g.index]
            name = grads[output.index]
            if g.index in derivative.materialize and len(outputs) > 1:
                lines.append(f"{name} = torch.zeros_like({output.name}) if {name} is None else {name}")
                tensors += [output.name] if output.name not in tensors else []
            if g.name != name and g.name.isidentifier():
                lines.append(f"{g.name} = {name}")
        if derivative.uses_all_gradients or not all(g.name.isidentifier() for g in derivative.gradients):
            lines.append(f"grads = [{', '.join(grads[o.index] for o in outputs)}]")
        return lines

    def torch_forward(self, info: DifferentiabilityInfo, tensors: list[str], unpacked: list[str]) -> list[str]:
        use = self.library.functions.use
        use("_tangent_of")
        lines = [f"{several(tensors)} = {use('_primals')}(ctx)"]
        lines += unpacked
        lines += [f"{n}_p = {n}" for n in self.tensors if any(n in f.primals for f in info.forward)]
        made: dict[str, str] = {}
        for forward in info.forward:
            lines += [f"# {', '.join(forward.outputs)}: {' '.join(forward.source.split())}"]
            pairs = [(t.input, t.name) for t in forward.tangents]
            targets = [t for _, t in pairs]
            if len(pairs) > 1:
                use("_tangents")
                shown = ", ".join(f"({n}, {t})" for n, t in pairs)
                lines += [f"{', '.join(targets)} = _tangents({shown})"]
            value = self.translated(forward.formula, forward.place, forward.source, True)
            made |= {o: f"tangent_of_{o}" for o in forward.outputs}
            names = [made[o] for o in forward.outputs]
            if len(pairs) == 1 and len(self.tensors) > 1:
                zeros = [f"torch.zeros_like({o})" for o in forward.outputs]
                lines += [f"{', '.join(names)} = {', '.join(zeros)}", f"if {targets[0]} is not None:"]
                lines += [f"    {', '.join(names)} = {ast.unparse(value)}"]
            else:
                lines += [f"{', '.join(names)} = {ast.unparse(value)}"]
        results = [f"_tangent_of({r}, {made[r]})" if r in made else f"torch.zeros_like({r})" for r in self.results]
        return [*lines, f"return {', '.join(results)}"]


def _class_name(node: str) -> str:
    """Return the name of the autograd.Function: PyTorch appends `Backward` to it for the node."""
    head, _, number = node.rpartition("Backward")
    return f"_{head}{number.replace('0', '', 1) if number == '0' else number}"
