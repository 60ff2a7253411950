"""Python's operators by their special methods (`truediv` of `__truediv__`): what they call, and their signs."""

from __future__ import annotations

BINARY = {
    "add": "add",
    "sub": "sub",
    "mul": "mul",
    "truediv": "div",
    "floordiv": "floor_divide",
    "mod": "remainder",
    "pow": "pow",
    "matmul": "matmul",
    "and": "bitwise_and",
    "or": "bitwise_or",
    "xor": "bitwise_xor",
    "lshift": "bitwise_left_shift",
    "rshift": "bitwise_right_shift",
}
COMPARISONS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
UNARY = {"neg": "neg", "pos": "positive", "abs": "abs"}
SIGNS = dict(zip(BINARY, "+ - * / // % ** @ & | ^ << >>".split(), strict=True)) | COMPARISONS
