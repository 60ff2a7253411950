"""The kernel that a definition of rows makes: an array expression with `rowwise.row_sum` and its kind for the values
of rows, which have size 1 along the row until the result is there.

    over: dim                        rowwise.row_result(rowwise.row_sum(self, dim, (self,))
    scalar: sum(self) / count          / rowwise.row_count(dim, (self,)), dim, keepdim)
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from ..schema import FunctionSchema
from .rows import COMBINE, Rows, dims_of, names_of_elements
from .scalars import ToArrays, filled

_WITHOUT = ("argmax", "argmin")


def row_expression(rows: Rows, schema: FunctionSchema) -> str | None:
    """Return the kernel expression that computes a definition of rows; None if it needs a kernel by hand: for its
    words in `over:`, for numbers of elements, or because it writes to arguments."""
    dims = dims_of(rows.over[0], "rowwise.last_dims")
    trees = [rows.inlined(r.tree) for r in rows.results if r is not None]
    parts = [node for tree in trees for node in ast.walk(tree)]
    by_place = any(
        isinstance(n, ast.Subscript) or (isinstance(n, ast.Name) and n.id in ("index", *_WITHOUT)) for n in parts
    )
    if dims is None or by_place or rows.written or len({*rows.over}) > 1 or None in rows.results:
        return None
    tensors = [a.python_name for a in schema.inputs if a.type.is_tensor_like]
    keepdim = "keepdim" if any(a.python_name == "keepdim" for a in schema.inputs) else "False"
    writer = _ToRows(dims, tensors)
    return ", ".join(ast.unparse(writer.result(tree, keepdim)) for tree in trees)


class _ToRows(ToArrays):
    def __init__(self, dims: str, tensors: Sequence[str]) -> None:
        self.dims, self.tensors = dims, tensors
        self.like = f"({', '.join(tensors)},)"

    def result(self, tree: ast.expr, keepdim: str) -> ast.expr:
        """Return a result; `a if condition else b` may have a value for each element, or one for each row."""
        if isinstance(tree, ast.IfExp):
            yes, no = self.result(tree.body, keepdim), self.result(tree.orelse, keepdim)
            return ast.IfExp(self.visit(self._parsed(ast.unparse(tree.test))), yes, no)
        written = self.visit(self._parsed(ast.unparse(tree)))
        found = names_of_elements(tree, COMBINE.__contains__) & {*self.tensors}
        if found and len(found) < len(self.tensors):  # those that are not there may be larger
            return filled(self._parsed(f"rowwise.row_elements(x, {self.like})"), {"x": written})
        if found:
            return written  # type: ignore[no-any-return]
        return filled(self._parsed(f"rowwise.row_result(x, {self.dims}, {keepdim})"), {"x": written})

    def visit_Call(self, node: ast.Call) -> ast.expr:
        name = node.func.id  # type: ignore[attr-defined]  # checked by RowChecker
        if name not in COMBINE:
            return super().visit_Call(node)
        inner = self.visit(node.args[0])
        return filled(self._parsed(f"rowwise.row_{name}(x, {self.dims}, {self.like})"), {"x": inner})

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id == "count":
            return self._parsed(f"rowwise.row_count({self.dims}, {self.like})")
        return super().visit_Name(node)

    @staticmethod
    def _parsed(text: str) -> ast.expr:
        return ast.parse(text, mode="eval").body
