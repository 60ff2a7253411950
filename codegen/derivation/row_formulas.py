"""Programs of rows as formulas of derivatives.yaml: `result * (grad - sum(grad * result, dim, True))`."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence

from ..language.rows import dims_of, names_of_elements
from ..language.scalars import names_in
from ..schema import FunctionSchema
from .formulas import Calls
from .row_programs import Program

GRADIENT, TANGENT, RESULT = "grad", "_t", "result"
# Functions of rows, and the helpers that compute them; the first argument is an expression of elements.
_HELPERS = {
    "row_prod": "row_prod", "row_max": "row_max", "row_min": "row_min", "row_any": "row_any", "row_all": "row_all",
    "shares": "row_shares", "others": "row_others",
}  # fmt: skip


def name_of_result(number: int, count: int) -> str:
    """Return the symbol of a result."""
    return RESULT if count == 1 else f"{RESULT}{number}"


class RowFormulas:
    """Writes formulas for one operator.

    Args:
        over: what its rows extend over; tensors: its arguments that are tensors.
        gradients: the symbols of the gradients of results.
    """

    def __init__(self, schema: FunctionSchema, over: str, tensors: Sequence[str], gradients: Mapping[int, str]) -> None:
        self.schema, self.over, self.tensors, self.gradients = schema, over, tensors, gradients
        self.dims = dims_of(over) or ""
        self.count = len(schema.returns)

    @staticmethod
    def condition(test: ast.expr) -> str:
        """Return a condition on arguments that are no tensors."""
        return ast.unparse(Calls(frozenset()).visit(ast.parse(ast.unparse(test), mode="eval").body))

    def key(self, number: int) -> str:
        """Return the name of a result."""
        return self.schema.returns[number].name or name_of_result(number, self.count)

    def of_real(self, text: str, name: str) -> str:
        """Return a formula that refuses complex tensors."""
        return f"of_real_numbers({text}, {name}.dtype)"

    def gradient(self, name: str, program: Program | None, there: Sequence[str], wide: Mapping[int, bool]) -> str:
        """Return the formula of an input's gradient; `there` are the tensors in the definition, and `wide` says for
        each result whether it has a value for each element."""
        if program is None:
            return f"zeros_like({name})"
        writer = _Text(self, there, wide)
        return writer.spread(program.whole())

    def tangent(self, number: int, program: Program | None, there: Sequence[str], wide: Mapping[int, bool]) -> str:
        """Return the formula of a result's tangent."""
        if program is None:
            return f"zeros_like({self.key(number)})"
        text = _Text(self, there, wide).spread(program.whole())
        if wide[number]:
            return text
        if self.over == "all":
            return f"sum({text})"
        has_keepdim = any(a.python_name == "keepdim" for a in self.schema.inputs)
        keep = "keepdim" if has_keepdim else f"{self.key(number)}.dim() == {self.dim(there)}"
        return f"sum({text}, {self.dims}, {keep})"

    def dim(self, there: Sequence[str]) -> str:
        """Return the number of dimensions of the elements."""
        each = [f"{name}.dim()" for name in there]
        return each[0] if len(each) == 1 else f"max({', '.join(each)})"


class _Text(Calls):
    def __init__(self, formulas: RowFormulas, there: Sequence[str], wide: Mapping[int, bool]) -> None:
        super().__init__(
            frozenset((*there, *(t + TANGENT for t in there), GRADIENT, "grads", *map(formulas.key, wide)))
        )
        self.dims, self.there = formulas.dims, there
        results = {name_of_result(n, formulas.count): n for n in wide}
        given = {g: n for n, g in formulas.gradients.items()} | results
        self.wide_names = {name for name, n in given.items() if wide.get(n)}
        shown = {g: g if len(formulas.gradients) == 1 else f"grads[{n}]" for n, g in formulas.gradients.items()}
        shown |= {name: formulas.key(n) for name, n in results.items()}
        if formulas.over != "all":
            narrow = shown.keys() - self.wide_names
            shown |= {n: f"row_values({shown[n]}, {self.dims}, {formulas.dim(there)})" for n in narrow}
        shown["count"] = f"row_count({self.dims}, {', '.join(f'{t}.shape' for t in there)})"
        self.names = {n: ast.parse(text, mode="eval").body for n, text in shown.items()}

    def spread(self, tree: ast.expr) -> str:
        """Return an expression that has the shape of all elements."""
        return ast.unparse(self._spread(ast.parse(ast.unparse(tree), mode="eval").body))  # no node stands in it twice

    def _spread(self, tree: ast.expr) -> ast.expr:
        found = names_of_elements(tree, lambda name: name.startswith("row_"))
        is_wide = bool(found & self.wide_names) or all(t in found or t + TANGENT in found for t in self.there)
        written: ast.expr = self.visit(tree)
        if is_wide:
            return written
        return ast.Call(
            ast.Name("row_broadcast", ast.Load()), [written, *(ast.Name(t, ast.Load()) for t in self.there)], []
        )

    def visit_Call(self, node: ast.Call) -> ast.expr:
        name = node.func.id  # type: ignore[attr-defined]
        dims = ast.parse(self.dims, mode="eval").body
        if name == "row_sum":
            (inner,) = (self._spread(a) for a in node.args)
            arguments = [inner] if self.dims == "None" else [inner, dims, ast.Constant(True)]
        elif name in _HELPERS:
            first, *others = node.args
            arguments = [self._spread(first), *(self.visit(a) for a in others), dims]
        elif name == "where":
            return self._where(*node.args)
        else:
            return super().visit_Call(node)
        return ast.Call(ast.Name(_HELPERS.get(name, "sum"), ast.Load()), arguments, [])

    def _where(self, test: ast.expr, yes: ast.expr, no: ast.expr) -> ast.expr:
        known = self.tensors | (self.names.keys() - {"count"})
        written = [self.visit(x) for x in (test, yes, no)]
        if not names_in(test) & known:
            return ast.IfExp(*written)
        if not (names_in(yes) | names_in(no)) & known:  # of numbers alone, the result would have the default dtype
            written[1] = ast.Call(ast.Name("full_like", ast.Load()), [ast.Name(self.there[0]), written[1]], [])
        return ast.Call(ast.Name("where", ast.Load()), written, [])

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self.names.get(node.id) or super().visit_Name(node)
