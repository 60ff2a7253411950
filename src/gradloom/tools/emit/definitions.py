"""Kernels: definitions (`scalar:`, and `over:` for rows) as operations on whole arrays of PyTorch or JAX."""

from __future__ import annotations

import ast
from collections.abc import Collection

from gradloom.codegen.language.rows import COMBINE, Rows
from gradloom.codegen.language.scalars import NUMBERS
from gradloom.codegen.operators.model import NativeFunction

from .library import TORCH, _Named
from .translation import UntranslatedError, dotted

_RENAMED = {TORCH: {"rint": "round"}}
_IN_MATH = {
    "arcsin": "asin", "arccos": "acos", "arctan": "atan", "arcsinh": "asinh", "arccosh": "acosh", "arctanh": "atanh",
    "arctan2": "atan2",
}  # fmt: skip
_BUILT_IN = {"abs": "abs", "maximum": "max", "minimum": "min"}
_MATH = frozenset(
    """exp exp2 expm1 log log2 log10 log1p sqrt sin cos tan sinh cosh tanh floor ceil trunc erf erfc lgamma isnan isinf
    isfinite fmod hypot copysign nextafter gcd lcm""".split()
)
_OF_TENSORS = frozenset("arctan2 maximum minimum fmax fmin fmod hypot copysign nextafter logaddexp logaddexp2".split())
_SPECIAL = {"erf": "erf", "erfc": "erfc", "erfinv": "erfinv", "lgamma": "gammaln", "digamma": "digamma"}


class Writer(ast.NodeTransformer):
    """Writes a definition for whole arrays.

    Args:
        tensors: the names that are arrays; others are numbers or words.
        are_unknown: whether any expression may be an array.
    """

    def __init__(self, library: _Named, tensors: Collection[str], are_unknown: bool = False) -> None:
        self.library, self.tensors, self.are_unknown = library, set(tensors), are_unknown

    def is_array(self, node: ast.AST) -> bool:
        return self.are_unknown or any(isinstance(n, ast.Name) and n.id in self.tensors for n in ast.walk(node))

    def function(self, name: str) -> ast.expr:
        """Return the library's function of that name."""
        if self.library.name == TORCH:
            return dotted(TORCH, _RENAMED[TORCH].get(name, name))
        return dotted("jax", "scipy", "special", _SPECIAL[name]) if name in _SPECIAL else dotted("jnp", name)

    def own(self, name: str, *arguments: ast.expr) -> ast.expr:
        """Return a call of a function that the module carries along."""
        return ast.Call(ast.Name(self.library.functions.use(name), ast.Load()), list(arguments), [])

    def number(self, node: ast.expr, beside: ast.expr | None) -> ast.expr:
        """Return a number as PyTorch's functions take it beside a tensor: as a tensor."""
        if self.library.name != TORCH or self.is_array(node):
            return node
        like = next(
            (n for n in ast.walk(beside or ast.Pass()) if isinstance(n, ast.Name) and n.id in self.tensors), None
        )
        return self.own("_number", node, like or ast.Name(min(self.tensors), ast.Load()))

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id not in NUMBERS or node.id in self.tensors:
            return node
        return ast.Constant(0.5772156649015329) if node.id == "euler_gamma" else dotted("math", node.id)

    def visit_Call(self, node: ast.Call) -> ast.expr:
        name = node.func.id  # type: ignore[attr-defined]  # the language has no other
        arguments = [self.visit(a) for a in node.args]
        return self.call(name, node.args, arguments)

    def call(self, name: str, sources: list[ast.expr], arguments: list[ast.expr]) -> ast.expr:
        if name == "where" and not self.is_array(sources[0]):
            return ast.IfExp(*arguments)
        if not any(map(self.is_array, sources)):
            if name in _BUILT_IN:
                return ast.Call(ast.Name(_BUILT_IN[name], ast.Load()), arguments, [])
            if name not in _MATH and name not in _IN_MATH:
                raise UntranslatedError(name, f"`{name}` of numbers alone has no counterpart in Python")
            return ast.Call(dotted("math", _IN_MATH.get(name, name)), arguments, [])
        if name == "where" and not any(map(self.is_array, sources[1:])):
            arguments = [arguments[0], *(self.number(a, sources[0]) for a in arguments[1:])]
        elif name in _OF_TENSORS:
            arguments = [self.number(a, sources[1 - n]) for n, a in enumerate(arguments)]
        return ast.Call(self.function(name), arguments, [])


def of_elements(function: NativeFunction, library: _Named) -> ast.expr:
    """Return the value of a pointwise operator, from its `scalar:`. Raises UntranslatedError."""
    assert function.scalar is not None
    tensors = [a.python_name for a in function.schema.inputs if a.type.is_tensor_like]
    tree = ast.parse(function.scalar.source, mode="eval").body
    writer = Writer(library, tensors)
    if not writer.is_array(tree):
        like = ast.Name(tensors[0], ast.Load())
        return ast.Call(writer.function("full_like"), [like, writer.visit(tree)], [])
    found: ast.expr = writer.visit(tree)
    return _apart(found, library) if library.name == TORCH else found


def in_place(function: NativeFunction, library: _Named) -> ast.expr:
    """Return a definition for arguments that may be arrays or numbers."""
    assert function.scalar is not None
    names = [a.python_name for a in function.schema.inputs]
    writer = Writer(library, names, are_unknown=True)
    return writer.visit(ast.parse(function.scalar.source, mode="eval").body)  # type: ignore[no-any-return]


def _apart(node: ast.expr, library: _Named) -> ast.expr:
    """Return a value that shares no memory with an argument, as PyTorch demands of operators."""
    if isinstance(node, ast.IfExp):
        return ast.IfExp(node.test, _apart(node.body, library), _apart(node.orelse, library))
    views = isinstance(node, ast.Call) and ast.unparse(node.func) in ("torch.real", "torch.imag", "torch.conj")
    return ast.Call(dotted(TORCH, "clone"), [node], []) if views or isinstance(node, ast.Name) else node


class _RowWriter(Writer):
    """Writes definitions of rows: reductions keep their dimensions, so that what they give goes with the elements."""

    def __init__(self, library: _Named, tensors: Collection[str], rows: Rows) -> None:
        super().__init__(library, tensors)
        self.per_row: set[str] = {"count"}
        for name, value in rows.named:
            if self.is_per_row(value.tree):
                self.per_row.add(name)
            self.tensors.add(name)

    def is_per_row(self, node: ast.AST) -> bool:
        """Return whether an expression has one value for each row: elements occur in reductions only."""
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in COMBINE:
            return True
        if isinstance(node, ast.Name):
            return node.id not in self.tensors or node.id in self.per_row
        if isinstance(node, ast.Compare) and any(isinstance(op, ast.Is | ast.IsNot) for op in node.ops):
            return True
        return all(self.is_per_row(child) for child in ast.iter_child_nodes(node))

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id == "index":
            raise UntranslatedError("index", "`index`, the number of an element, has no counterpart")
        return super().visit_Name(node)

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        shown = ast.unparse(node)
        raise UntranslatedError(shown, f"`{shown}`, an element by its number, has no counterpart")

    def call(self, name: str, sources: list[ast.expr], arguments: list[ast.expr]) -> ast.expr:
        if name not in COMBINE:
            return super().call(name, sources, arguments)
        if name in ("argmax", "argmin"):
            raise UntranslatedError(name, f"`{name}`, the number of an element, has no counterpart")
        return self.own(f"_row_{name}", arguments[0], ast.Name("axes", ast.Load()))

    def result(self, node: ast.expr, keepdim: ast.expr) -> ast.expr:
        """Return the definition of a result, without the dimensions of the row if it has one value for each."""
        if isinstance(node, ast.IfExp):
            return ast.IfExp(self.visit(node.test), self.result(node.body, keepdim), self.result(node.orelse, keepdim))
        per_row = self.is_per_row(node)
        if not self.is_array(node):
            raise UntranslatedError(ast.unparse(node), f"`{ast.unparse(node)}` as a result has no counterpart")
        value: ast.expr = self.visit(node)
        return value if not per_row else self.own("_without", value, ast.Name("axes", ast.Load()), keepdim)


def of_rows(function: NativeFunction, library: _Named) -> tuple[list[str], list[ast.expr]]:
    """Return the lines that compute the rows and their named values, and the results. Raises UntranslatedError."""
    rows = function.rows
    assert rows is not None
    arguments = [a.python_name for a in function.schema.inputs]
    tensors = [a.python_name for a in function.schema.inputs if a.type.is_tensor_like]
    over = {*rows.over}
    (word,) = over if len(over) == 1 else ("several kinds of rows",)
    if word.partition("(")[0] not in ("all", "last", *arguments):
        raise UntranslatedError(word, f"rows over `{word}` have no counterpart")
    if rows.written:
        raise UntranslatedError("writes", "an operator that writes to its arguments has no counterpart")
    writer = _RowWriter(library, tensors, rows)
    keepdim = ast.Name("keepdim", ast.Load()) if "keepdim" in arguments else ast.Constant(word.startswith("last"))
    name = word.removeprefix("last(").removesuffix(")")
    chosen: ast.expr = ast.Constant(None) if word == "all" else ast.Name(name, ast.Load())
    if word != name:
        chosen = ast.parse(f"range(-len({name}), 0)", mode="eval").body
    shape = writer.own("_shape", *(ast.Name(t, ast.Load()) for t in tensors))
    library.functions.use("_axes")
    lines = [f"shape = {ast.unparse(shape)}", f"axes = _axes({ast.unparse(chosen)}, len(shape))"]
    used = {
        n.id
        for r in (*rows.results, *(v for _, v in rows.named))
        if r
        for n in ast.walk(r.tree)
        if isinstance(n, ast.Name)
    }
    if "count" in used:
        lines.append("count = math.prod(shape[d] for d in axes)")
    lines += [f"{name} = {ast.unparse(writer.visit(_copy(value.tree)))}" for name, value in rows.named]
    results: list[ast.expr] = []
    for result in rows.results:
        if result is None:
            raise UntranslatedError("None", "a result without elements has no counterpart")
        results.append(writer.result(_copy(result.tree), keepdim))
    return lines, [_apart(r, library) if library.name == TORCH else r for r in results]


def _copy(tree: ast.expr) -> ast.expr:
    return ast.parse(ast.unparse(tree), mode="eval").body
