"""Which constants an expression of either language may hold: none that would take for ever to compute or to print."""

from __future__ import annotations

import ast
import math

MAX_BITS = 64  # of a whole number, and of the result of a power of constants


def constant_problem(node: ast.AST) -> tuple[ast.expr, str, str] | None:
    """What is wrong with the constants of a node, as (the part at fault, message, hint); None if nothing is.

    Python computes `9 ** 9 ** 9` for hours, and `'a' * 10 ** 10` until memory is full.
    """
    if isinstance(node, ast.Constant):
        value = node.value
        if isinstance(value, int) and value.bit_length() > MAX_BITS:
            return node, f"a number of {value.bit_length()} bits", f"the limit is {MAX_BITS}; no dtype holds more"
        if isinstance(value, float | complex) and not math.isfinite(abs(value)):
            return node, "a number too large for a float", "write a smaller one"
    if isinstance(node, ast.Compare) and any(isinstance(operator, ast.Is | ast.IsNot) for operator in node.ops):
        for side in (node.left, *node.comparators):
            if isinstance(side, ast.Constant) and not (side.value is None or isinstance(side.value, bool)):
                return side, "`is` with something that is not None", "compare with `==`"
    if isinstance(node, ast.Subscript):
        has_keys = isinstance(node.slice, ast.Constant) and type(node.slice.value) is not int
        if isinstance(node.value, ast.Constant) or (isinstance(node.value, ast.Tuple | ast.List) and has_keys):
            return node.value, "an element of a constant", "write the element itself"
    if not isinstance(node, ast.BinOp):
        return None
    for side in (node.left, node.right):
        if isinstance(side, ast.Constant) and isinstance(side.value, str | bytes):
            return side, "arithmetic with a string", "strings are arguments of functions only"
    if isinstance(node.op, ast.Pow | ast.LShift) and _bits(node) > MAX_BITS:
        return node, f"a constant of more than {MAX_BITS} bits", "write the number, or a float such as `2.0 ** 100`"
    return None


def _bits(node: ast.expr) -> float:
    """An upper bound of the bits of an expression of whole numbers; 0 if it is none."""
    if isinstance(node, ast.UnaryOp):
        return _bits(node.operand)
    if isinstance(node, ast.Constant):
        return max(node.value.bit_length(), 1) if type(node.value) is int else 0
    if not isinstance(node, ast.BinOp):
        return 0
    left, right = _bits(node.left), _bits(node.right)
    if not left or not right:
        return 0
    if isinstance(node.op, ast.Pow | ast.LShift):
        exponent = 2.0**right if right < 64 else math.inf
        if isinstance(node.right, ast.Constant):
            exponent = float(node.right.value)  # type: ignore[arg-type]
        return left * exponent if isinstance(node.op, ast.Pow) else left + exponent
    return left + right
