"""Functions rewritten so that everything that they read from outside, and every call, goes through hooks.

Note [Rewritten functions]
`rewritten_code(f)` is the code of `f` with each global, attribute, item, iteration, call, operator and test passed to
an object of hooks (_hooks.py). The code is found as source and checked against the bytecode of `f`; line numbers stay.
Python itself runs the statements, so that their meaning is Python's. Statements that the hooks cannot follow report
themselves (`taint`), and functions with others (`async`, `match`) are not rewritten.
"""

from __future__ import annotations

import ast
import linecache
from collections.abc import Callable, Iterator
from copy import deepcopy
from functools import lru_cache
from types import CodeType, FunctionType
from typing import Any

from ..memory.locks import new_lock
from ._recorder import EACH, HOOKS, STAR, CannotRewriteError

_compiling = new_lock()
_FUTURE_ANNOTATIONS = 0x1000000
_IN_FRAME = frozenset("locals globals vars eval exec dir super".split())
_OWN_VARIABLES = frozenset("locals vars eval exec dir".split())
_SYMBOLS = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**",
    ast.MatMult: "@", ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^", ast.LShift: "<<", ast.RShift: ">>",
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.USub: "neg",
    ast.UAdd: "pos", ast.Invert: "~",
}  # fmt: skip
_Function = ast.FunctionDef | ast.Lambda
_UNSUPPORTED = (
    ast.AsyncFunctionDef, ast.Await, ast.AsyncFor, ast.AsyncWith, ast.Match,
    *[getattr(ast, n) for n in ("TryStar", "TypeAlias", "TemplateStr") if hasattr(ast, n)],
)  # fmt: skip


def rewritten_code(function: FunctionType) -> CodeType:
    """Return the code of a function with hooks; HOOKS is one of its free variables. Raises CannotRewriteError."""
    with _compiling:  # CPython's parser may fail in two threads at once
        return _rewritten_code(function.__code__, _lines_key(function))


def _lines_key(function: FunctionType) -> int:
    linecache.checkcache(function.__code__.co_filename)
    return len(linecache.getlines(function.__code__.co_filename, function.__globals__))


@lru_cache(2048)
def _rewritten_code(code: CodeType, _: int) -> CodeType:
    node = _source_of(code)
    for child in ast.walk(node):
        if isinstance(child, _UNSUPPORTED):
            raise CannotRewriteError(f"`{type(child).__name__}` in {code.co_name}")
        if isinstance(child, ast.Attribute) and child.attr.startswith("__") and not child.attr.endswith("__"):
            raise CannotRewriteError(f"the private name {child.attr} in {code.co_name}")
    new = _Rewriter(code).function(deepcopy(node))
    factory = _factory(new, (*code.co_freevars, HOOKS))
    return _inner(compile(factory, code.co_filename, "exec", _flags(code), True), code.co_name)


def _flags(code: CodeType) -> int:
    return code.co_flags & _FUTURE_ANNOTATIONS


def _factory(node: _Function, names: tuple[str, ...]) -> ast.Module:
    """Return a module with a function that defines `node` where its free variables are known."""
    statement = node if isinstance(node, ast.FunctionDef) else ast.Expr(node)
    arguments = ast.arguments([], [ast.arg(n) for n in names], None, [], [], None, [])
    # Names that are only read by hooks must stay free variables: the closure is rebuilt by name.
    outer = ast.FunctionDef("factory", arguments, [statement], [], None)
    if hasattr(outer, "type_params"):
        outer.type_params = []
    return ast.fix_missing_locations(ast.Module([outer], []))


def _inner(code: CodeType, name: str) -> CodeType:
    factory = next(c for c in code.co_consts if isinstance(c, CodeType))
    return next(c for c in factory.co_consts if isinstance(c, CodeType) and c.co_name == name)


@lru_cache(128)
def _tree(filename: str, source: str) -> tuple[ast.Module, dict[tuple[str, int], list[CodeType]]]:
    """Return the syntax tree of a file, and its code objects by name and first line."""
    tree = ast.parse(source, filename)
    codes: dict[tuple[str, int], list[CodeType]] = {}
    stack = [compile(source, filename, "exec", 0, True)]
    while stack:
        for constant in stack.pop().co_consts:
            if isinstance(constant, CodeType):
                codes.setdefault((constant.co_name, constant.co_firstlineno), []).append(constant)
                stack.append(constant)
    return tree, codes


def _source_of(code: CodeType) -> _Function:
    """Return the syntax tree of a code object. Raises CannotRewriteError if the source has other code there."""
    source = "".join(linecache.getlines(code.co_filename))
    if not source:
        raise CannotRewriteError(f"{code.co_name} has no source")
    try:
        tree, codes = _tree(code.co_filename, source)
    except SyntaxError as error:
        raise CannotRewriteError(f"the source of {code.co_name} is not Python") from error
    if any(_same(code, other) for other in codes.get((code.co_name, code.co_firstlineno), ())):
        found = list(_candidates(tree, code))
        if found:  # of lambdas within lambdas, the innermost that has all of the code
            return _without_decorators(max(found, key=lambda node: (node.lineno, node.col_offset)))
    raise CannotRewriteError(f"the source of {code.co_name} has changed, or is not to be found")


def _candidates(tree: ast.Module, code: CodeType) -> Iterator[_Function]:
    for node in _nodes_at(tree, code.co_firstlineno):
        if isinstance(node, ast.FunctionDef) and node.name == code.co_name:
            if _first_line(node) == code.co_firstlineno:
                yield node
        elif isinstance(node, ast.Lambda) and code.co_name == "<lambda>" and node.lineno == code.co_firstlineno:
            names = [a.arg for a in (*node.args.posonlyargs, *node.args.args)]
            if _encloses(node.body, code) and tuple(names) == code.co_varnames[: code.co_argcount]:
                yield node


def _nodes_at(node: ast.AST, line: int) -> Iterator[ast.AST]:
    """Yield the nodes below one that a line belongs to."""
    for child in ast.iter_child_nodes(node):
        last = getattr(child, "end_lineno", None)
        if last is None or _first_line(child) <= line <= last:  # arguments and the like have no place
            yield child
            yield from _nodes_at(child, line)


def _first_line(node: Any) -> int:
    return min([node.lineno, *[d.lineno for d in getattr(node, "decorator_list", ())]])


def _encloses(body: ast.expr, code: CodeType) -> bool:
    """Return whether the code of a lambda lies within an expression."""
    start, end = (body.lineno, body.col_offset), (body.end_lineno, body.end_col_offset)
    for line, last, column, stop in code.co_positions():
        if line is None or last is None or column is None or not stop:
            continue
        if not (start <= (line, column) and (last, stop) <= end):
            return False
    return True


def _without_decorators(node: _Function) -> _Function:
    if isinstance(node, ast.Lambda):
        return node
    fields = {name: getattr(node, name) for name in node._fields}
    fields.update(decorator_list=[], returns=None, args=_plain_arguments(node.args))
    return ast.copy_location(ast.FunctionDef(**fields), node)


def _plain_arguments(arguments: ast.arguments) -> ast.arguments:
    """Return parameters without annotations; the number of defaults stays."""

    def bare(argument: ast.arg | None) -> Any:
        return None if argument is None else ast.copy_location(ast.arg(argument.arg), argument)

    none = ast.Constant(None)
    return ast.arguments(
        [bare(a) for a in arguments.posonlyargs],
        [bare(a) for a in arguments.args],
        bare(arguments.vararg),
        [bare(a) for a in arguments.kwonlyargs],
        [None if d is None else none for d in arguments.kw_defaults],
        bare(arguments.kwarg),
        [none for _ in arguments.defaults],
    )


def _same(a: CodeType, b: CodeType) -> bool:
    if a.co_code != b.co_code or a.co_names != b.co_names or a.co_varnames != b.co_varnames:
        return False
    if len(a.co_consts) != len(b.co_consts):
        return False
    if list(a.co_positions()) != list(b.co_positions()):
        return False
    for x, y in zip(a.co_consts, b.co_consts, strict=True):
        if isinstance(x, CodeType):
            if not isinstance(y, CodeType) or not _same(x, y):
                return False
        elif repr(x) != repr(y):
            return False
    return True


def _bound_in(node: ast.AST) -> set[str]:
    """Return the names that a function or comprehension binds in its own scope."""
    found: set[str] = set()
    outside: set[str] = set()
    if isinstance(node, _Function):
        arguments = node.args
        every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
        found = {a.arg for a in every if a is not None}

    def visit(child: Any) -> None:
        if isinstance(child, ast.Name) and not isinstance(child.ctx, ast.Load):
            found.add(child.id)
        elif isinstance(child, (ast.Global, ast.Nonlocal)):
            outside.update(child.names)
        elif isinstance(child, (ast.Import, ast.ImportFrom)):
            found.update((a.asname or a.name).partition(".")[0] for a in child.names)
        elif isinstance(child, ast.ExceptHandler) and child.name:
            found.add(child.name)
        if isinstance(child, (ast.FunctionDef, ast.ClassDef)):
            found.add(child.name)
            for each in child.decorator_list:
                visit(each)
            return
        if isinstance(child, ast.Lambda):
            return
        if isinstance(child, _COMPREHENSIONS):
            for part in ast.walk(child):
                if isinstance(part, ast.NamedExpr):
                    visit(part.target)
            return
        for inner in ast.iter_child_nodes(child):
            visit(inner)

    if isinstance(node, ast.Lambda):
        visit(node.body)
    elif isinstance(node, ast.FunctionDef):
        for statement in node.body:
            visit(statement)
    else:
        for generator in node.generators:  # type: ignore[attr-defined]
            visit(generator.target)
    return found - outside


_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


class _Rewriter(ast.NodeTransformer):
    """Rewrites one function, nested ones included."""

    def __init__(self, code: CodeType) -> None:
        self.free = set(code.co_freevars)
        self.scopes: list[set[str]] = []

    def function(self, node: _Function) -> _Function:
        """Return the rewritten function."""
        self.scopes.append(_bound_in(node))
        if isinstance(node, ast.Lambda):
            new: _Function = ast.copy_location(ast.Lambda(node.args, self.visit(node.body)), node)
        else:
            fields = {name: getattr(node, name) for name in node._fields}
            fields["body"] = self._statements(node.body)
            new = ast.copy_location(ast.FunctionDef(**fields), node)
        self.scopes.pop()
        return new

    def _statements(self, body: list[ast.stmt]) -> list[ast.stmt]:
        found: list[ast.stmt] = []
        for statement in body:
            made = self.visit(statement)
            found.extend(made if isinstance(made, list) else [made])
        return found

    # --- calls of hooks -------------------------------------------------------------------------------------------

    def hook(self, name: str, at: ast.AST, *args: ast.expr) -> ast.Call:
        function = ast.Attribute(ast.Name(HOOKS, ast.Load()), name, ast.Load())
        return ast.fix_missing_locations(_at(ast.Call(function, list(args), []), at))

    def taint(self, at: ast.AST, reason: str) -> ast.stmt:
        return _at(ast.Expr(self.hook("taint", at, ast.Constant(reason))), at)

    def _kind(self, name: str) -> str:
        if any(name in scope for scope in self.scopes):
            return "local"
        return "free" if name in self.free else "global"

    # --- expressions ----------------------------------------------------------------------------------------------

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if not isinstance(node.ctx, ast.Load) or node.id in ("__class__",):
            return node
        kind = self._kind(node.id)
        if kind == "local":
            return node
        if kind == "free":
            return self.hook("free", node, ast.Constant(node.id), node)
        return self.hook("global_", node, ast.Constant(node.id))

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        value = self.visit(node.value)
        if isinstance(node.ctx, ast.Load):
            return self.hook("attr", node, value, ast.Constant(node.attr))
        return _at(ast.Attribute(self.hook("store", node, value, ast.Constant(node.attr)), node.attr, node.ctx), node)

    def visit_Slice(self, node: ast.Slice) -> ast.expr:
        parts = [ast.Constant(None) if p is None else self.visit(p) for p in (node.lower, node.upper, node.step)]
        return self.hook("slice", node, *parts)

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        value, index = self.visit(node.value), self.visit(node.slice)
        if isinstance(node.ctx, ast.Load):
            return self.hook("item", node, value, index)
        return _at(ast.Subscript(self.hook("store", node, value), self.hook("taken", node, index), node.ctx), node)

    def visit_Starred(self, node: ast.Starred) -> ast.expr:
        if not isinstance(node.ctx, ast.Load):
            return node
        return _at(ast.Starred(self.hook("iter", node, self.visit(node.value)), node.ctx), node)

    def visit_Call(self, node: ast.Call) -> ast.expr:
        function = node.func
        if isinstance(function, ast.Name) and function.id in _IN_FRAME and self._kind(function.id) == "global":
            if function.id == "super" and not node.args:
                return node
            if function.id in _OWN_VARIABLES:
                raise CannotRewriteError(f"it calls {function.id}(), which would see the hooks")
            if function.id != "super":
                reason = ast.Constant(f"it calls {function.id}()")
                pair = ast.Tuple([self.hook("taint", node, reason), node], ast.Load())
                return _at(ast.Subscript(_at(pair, node), ast.Constant(1), ast.Load()), node)
        args = [self.visit(a) for a in node.args]
        keywords = [
            _at(
                ast.keyword(k.arg, self.visit(k.value) if k.arg else self.hook("mapping", node, self.visit(k.value))),
                node,
            )
            for k in node.keywords
        ]
        call = self.hook("call", node, self.visit(function), *args)
        call.keywords = keywords
        return ast.fix_missing_locations(call)

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        return self._operator(node, _SYMBOLS[type(node.op)], node.left, node.right)

    def _operator(self, node: ast.expr, symbol: str, *operands: ast.expr) -> ast.expr:
        return self.hook("operator", node, ast.Constant(symbol), *map(self.visit, operands))

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        if isinstance(node.op, ast.Not):
            return _at(ast.UnaryOp(node.op, self.tested(node.operand)), node)
        if isinstance(node.operand, ast.Constant):
            return node
        return self._operator(node, _SYMBOLS[type(node.op)], node.operand)

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        operands = [node.left, *node.comparators]
        if all(isinstance(op, (ast.Is, ast.IsNot)) for op in node.ops):
            node.left, *node.comparators = [self.visit(o) for o in operands]
            if len(node.ops) > 1 or any(isinstance(o, ast.Constant) for o in operands):
                return node
            same = self.hook("same", node, node.left, *node.comparators)
            return _at(ast.UnaryOp(ast.Not(), same), node) if isinstance(node.ops[0], ast.IsNot) else same
        if len(node.ops) > 1:
            chain: list[ast.expr] = [self.hook("compared", o, self.visit(o)) for o in operands]
            node.left, *node.comparators = chain
            return node
        if isinstance(node.ops[0], (ast.In, ast.NotIn)):
            found = self.hook("contains", node, *map(self.visit, operands))
            return _at(ast.UnaryOp(ast.Not(), found), node) if isinstance(node.ops[0], ast.NotIn) else found
        return self._operator(node, _SYMBOLS[type(node.ops[0])], *operands)

    def tested(self, node: ast.expr) -> ast.expr:
        return self.hook("tested", node, self.visit(node))

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        values: list[ast.expr] = [self.tested(v) for v in node.values[:-1]]
        node.values = [*values, self.visit(node.values[-1])]
        return node

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        return _at(ast.IfExp(self.tested(node.test), self.visit(node.body), self.visit(node.orelse)), node)

    def visit_FormattedValue(self, node: ast.FormattedValue) -> ast.expr:
        node.value = self.hook("plain", node, self.visit(node.value))
        if node.format_spec is not None:
            node.format_spec = self.visit(node.format_spec)
        return node

    def visit_Dict(self, node: ast.Dict) -> ast.expr:
        values = [
            self.visit(v) if k is not None else self.hook("mapping", node, self.visit(v))
            for k, v in zip(node.keys, node.values, strict=True)
        ]
        return _at(ast.Dict([None if k is None else self.visit(k) for k in node.keys], values), node)

    def visit_Lambda(self, node: ast.Lambda) -> ast.expr:
        self._defaults(node.args)
        new = self.function(node)
        assert isinstance(new, ast.Lambda)
        return self.hook("made", node, new)

    def _defaults(self, arguments: ast.arguments) -> None:
        arguments.defaults = [self.visit(d) for d in arguments.defaults]
        arguments.kw_defaults = [None if d is None else self.visit(d) for d in arguments.kw_defaults]

    def _comprehension(self, node: Any) -> Any:
        node.generators[0].iter = self._iterated(node.generators[0].iter, node.generators[0].target)
        self.scopes.append(_bound_in(node))
        for i, generator in enumerate(node.generators):
            if i:
                generator.iter = self._iterated(generator.iter, generator.target)
            generator.target = self.visit(generator.target)
            generator.ifs = [self.tested(test) for test in generator.ifs]
        for name in ("elt", "key", "value"):
            if hasattr(node, name):
                setattr(node, name, self.visit(getattr(node, name)))
        self.scopes.pop()
        return node

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _comprehension

    def _iterated(self, value: ast.expr, target: ast.expr) -> ast.expr:
        return self.hook("iter", value, self.visit(value), _constant((EACH, _parts(target))))

    # --- statements -----------------------------------------------------------------------------------------------

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        if node.decorator_list:
            return [self.taint(node, f"it decorates the nested function {node.name}"), node]
        self._defaults(node.args)
        new = self.function(node)
        made = self.hook("made", node, ast.Name(node.name, ast.Load()))
        return [_plain(new), _at(ast.Expr(made), node)]

    def visit_ClassDef(self, node: ast.ClassDef) -> Any:
        return [self.taint(node, f"it defines the class {node.name}"), node]

    def visit_Assign(self, node: ast.Assign) -> Any:
        value = self.visit(node.value)
        parts = next(filter(None, map(_parts, node.targets)), None)
        if parts and (not isinstance(node.value, ast.Tuple) or any(parts)):
            value = self.hook("iter", node.value, value, _constant(parts))
            if len(node.targets) > 1:
                return [self.taint(node, "it unpacks into several targets"), node]
        if len(node.targets) == 1 and isinstance(node.targets[0], ast.Subscript):
            target = node.targets[0]
            place_and_index = self.visit(target.value), self.visit(target.slice)
            return _at(ast.Expr(self.hook("set_item", node, *place_and_index, value)), node)
        if len(node.targets) == 1 and isinstance(node.targets[0], ast.Attribute):
            place = node.targets[0]
            return _at(
                ast.Expr(self.hook("set_attr", node, value, self.visit(place.value), ast.Constant(place.attr))), node
            )
        return _at(ast.Assign([self.visit(t) for t in node.targets], value), node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> Any:
        if node.value is None:
            return node
        return self.visit(_at(ast.Assign([node.target], node.value), node))

    def visit_AugAssign(self, node: ast.AugAssign) -> Any:
        symbol, target, value = ast.Constant(_SYMBOLS[type(node.op)] + "="), node.target, self.visit(node.value)
        if isinstance(target, ast.Name):
            before = self.visit(ast.copy_location(ast.Name(target.id, ast.Load()), target))
            return _at(ast.Assign([target], self.hook("operator", node, symbol, before, value)), node)
        if isinstance(target, ast.Attribute):
            name = "change_attr"
            where: ast.expr = ast.Constant(target.attr)
        else:
            name, where = "change_item", self.visit(target.slice)
        return _at(ast.Expr(self.hook(name, node, self.visit(target.value), where, symbol, value)), node)

    def visit_For(self, node: ast.For) -> Any:
        node.iter = self._iterated(node.iter, node.target)
        node.target = self.visit(node.target)
        node.body, node.orelse = self._statements(node.body), self._statements(node.orelse)
        return node

    def _tested_statement(self, node: Any) -> Any:
        node.test = self.tested(node.test)
        node.body, node.orelse = self._statements(node.body), self._statements(node.orelse)
        return node

    visit_If = visit_While = _tested_statement

    def visit_Assert(self, node: ast.Assert) -> Any:
        return _at(ast.Assert(self.tested(node.test), None if node.msg is None else self.visit(node.msg)), node)

    def visit_With(self, node: ast.With) -> Any:
        for item in node.items:
            item.context_expr = self.hook("context", node, self.visit(item.context_expr))
            if item.optional_vars is not None:
                item.optional_vars = self.visit(item.optional_vars)
        node.body = self._statements(node.body)
        return node

    def visit_Try(self, node: ast.Try) -> Any:
        for name in ("body", "orelse", "finalbody"):
            setattr(node, name, self._statements(getattr(node, name)))
        if not node.handlers:
            return node
        for handler in node.handlers:
            handler.body = self._statements(handler.body)
        return [self.taint(node, "it catches exceptions, which may depend on values"), node]

    def visit_Global(self, node: ast.Global) -> Any:
        return [self.taint(node, f"it may assign the global {', '.join(node.names)}"), node]

    def visit_Nonlocal(self, node: ast.Nonlocal) -> Any:
        outer = [n for n in node.names if self._kind(n) == "free"]
        return [self.taint(node, f"it may assign {', '.join(outer)} of an outer function"), node] if outer else node

    def visit_Import(self, node: ast.Import) -> Any:
        names = [((a.asname or a.name).partition(".")[0], a.name) for a in node.names]
        marks = [
            _at(ast.Expr(self.hook("imported", node, ast.Name(name, ast.Load()), ast.Constant(module))), node)
            for name, module in names
        ]
        return [node, *marks]

    def visit_ImportFrom(self, node: ast.ImportFrom) -> Any:
        if node.level or any(a.name == "*" for a in node.names):
            return [self.taint(node, "it imports names from a package around it"), node]
        marks: list[ast.stmt] = []
        for a in node.names:
            parts = ast.Name(a.asname or a.name, ast.Load()), ast.Constant(node.module), ast.Constant(a.name)
            marks.append(_at(ast.Expr(self.hook("imported", node, *parts)), node))
        return [node, *marks]


def _plain(node: _Function) -> Any:
    """Return a nested function without annotations, which run when it is defined."""
    assert isinstance(node, ast.FunctionDef)
    node.returns = None
    for argument in ast.walk(node.args):
        if isinstance(argument, ast.arg):
            argument.annotation = None
    return node


def _parts(target: ast.expr) -> tuple[Any, ...] | None:
    """Return the parts that a target unpacks: those of each element of a tuple, STAR for a starred one; else None."""
    if isinstance(target, (ast.Tuple, ast.List)):
        return tuple([STAR if isinstance(each, ast.Starred) else _parts(each) for each in target.elts])
    return None


def _constant(value: Any) -> ast.Constant:
    return ast.Constant(value)


def _at(node: Any, place: Any) -> Any:
    return ast.fix_missing_locations(ast.copy_location(node, place))


Hook = Callable[..., Any]
