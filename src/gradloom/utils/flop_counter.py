"""Count floating-point operations, of matrix products and convolutions only, which dominate.

with FlopCounterMode() as counter:
    model(x).sum().backward()
counter.get_total_flops()
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from functools import wraps
from importlib import import_module
from math import prod
from typing import Any

from ..core.tensor import Tensor
from ._python_dispatch import TorchDispatchMode
from ._pytree import tree_map
from .module_tracker import ModuleTracker

__all__ = ["FlopCounterMode", "register_flop_formula"]

aten: Any = import_module("gradloom.ops").aten
flop_registry: dict[Any, Callable[..., int]] = {}


def _shapes(formula: Callable[..., int]) -> Callable[..., int]:
    """Convert a formula of shapes to one of tensors."""

    @wraps(formula)
    def of_tensors(*args: Any, out_val: Any = None, **kwargs: Any) -> int:
        args, kwargs, out_shape = tree_map(lambda v: v.shape if isinstance(v, Tensor) else v, (args, kwargs, out_val))
        return formula(*args, out_shape=out_shape, **kwargs)

    return of_tensors


def register_flop_formula(targets: Any, get_raw: bool = False) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Register a formula for an operator's number of floating-point operations.

    Args:
        targets: operator, such as `gradloom.ops.mylib.foo`, or a list of operators.
        get_raw: whether the formula takes tensors, and the result as `out_val`. By default it takes shapes, and the
            result's as `out_shape`.
    """

    def register(formula: Callable[..., int]) -> Callable[..., int]:
        found = formula if get_raw else _shapes(formula)
        for target in targets if isinstance(targets, (list, tuple)) else (targets,):
            if not hasattr(target, "overloads"):
                raise ValueError(
                    f"register_flop_formula(targets): expected each target to be OpOverloadPacket (i.e. "
                    f"torch.ops.mylib.foo), got {target} which is of type {type(target)}"
                )
            if target in flop_registry:
                raise RuntimeError(f"duplicate registrations for {target}")
            flop_registry[target] = found
        return formula

    return register


@register_flop_formula(aten.mm)
def mm_flop(a: Any, b: Any, *args: Any, out_shape: Any = None, **kwargs: Any) -> int:
    """Count a matrix product: a multiplication and an addition for each term."""
    return 2 * a[0] * a[1] * b[1]


@register_flop_formula(aten.addmm)
def addmm_flop(self: Any, a: Any, b: Any, out_shape: Any = None, **kwargs: Any) -> int:
    """Count the product."""
    return mm_flop(a, b)


@register_flop_formula(aten.bmm)
def bmm_flop(a: Any, b: Any, out_shape: Any = None, **kwargs: Any) -> int:
    """Count a batch of products."""
    return a[0] * mm_flop(a[1:], b[1:])


@register_flop_formula(aten.baddbmm)
def baddbmm_flop(self: Any, a: Any, b: Any, out_shape: Any = None, **kwargs: Any) -> int:
    """Count the products."""
    return bmm_flop(a, b)


def conv_flop_count(x: Any, w: Any, out: Any, transposed: bool = False) -> int:
    """Count a convolution.

    Args:
        x, w, out: shapes of input, weight and output.
        transposed: whether the weight is applied to each element of the input instead of the output.
    """
    return 2 * prod(w) * x[0] * prod((x if transposed else out)[2:])


@register_flop_formula(aten.convolution)
def conv_flop(
    x: Any,
    w: Any,
    bias: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    *args: Any,
    out_shape: Any = None,
    **kwargs: Any,
) -> int:
    """Count a convolution of any kind."""
    return conv_flop_count(x, w, out_shape, transposed)


@register_flop_formula(aten.convolution_backward)
def conv_backward_flop(
    grad: Any,
    x: Any,
    w: Any,
    bias: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
    output_mask: Any,
    out_shape: Any = None,
    **kwargs: Any,
) -> int:
    """Count the requested gradients of a convolution, of its input and weight."""
    total = 0
    if output_mask[0]:
        total += conv_flop_count(grad, w, out_shape[0], not transposed)
    if output_mask[1]:
        seen = x if transposed else grad  # each element of it is multiplied by the weight once
        total += 2 * prod(w[2:]) * prod(seen[2:]) * x[0] * x[1] * grad[1]
    return total


class FlopCounterMode(TorchDispatchMode):
    """Count floating-point operations by operator and by module.

    Args:
        mods: no effect: modules are found when they are called.
        depth: levels of modules in the table; None for all.
        display: print the table at the end of the block.
        custom_mapping: operator -> formula, besides those of `register_flop_formula`.
        skip_unsupported: run functions of PyTorch's tracing without a formula; no effect, as there are none.
    """

    depth: int | None
    display: bool
    flop_registry: dict[Any, Callable[..., int]]
    mod_tracker: ModuleTracker

    def __init__(
        self,
        mods: Any = None,
        depth: int | None = 2,
        display: bool = True,
        custom_mapping: dict[Any, Any] | None = None,
        skip_unsupported: bool = False,
    ) -> None:
        super().__init__()
        self.depth, self.display, self.skip_unsupported = depth, display, skip_unsupported
        self.flop_counts: dict[str, dict[Any, int]] = defaultdict(lambda: defaultdict(int))
        own = {op: f if getattr(f, "_get_raw", False) else _shapes(f) for op, f in (custom_mapping or {}).items()}
        self.flop_registry = {**flop_registry, **own}
        self.mod_tracker = ModuleTracker()

    def get_total_flops(self) -> int:
        """Return the total count."""
        return sum(self.flop_counts["Global"].values())

    def get_unsupported_ops(self) -> Counter[str]:
        """Return {name: calls} of what was skipped, which is empty: each call is one of operators."""
        return Counter()

    def get_flop_counts(self) -> dict[str, dict[Any, int]]:
        """Return {module name or "Global": {operator: count}}."""
        return {module: dict(counts) for module, counts in self.flop_counts.items()}

    def get_table(self, depth: int | None = None) -> str:
        """Return a table of the counts by module.

        Args:
            depth: levels of modules, by default the mode's own.
        """
        depth = self.depth if depth is None else depth
        depth = 999999 if depth is None else depth
        total = self.get_total_flops()
        rows: list[tuple[str, str, str]] = []

        def add(module: str, level: int) -> None:
            for op, count in [(None, sum(self.flop_counts[module].values())), *self.flop_counts[module].items()]:
                name = f" - {op}" if op is not None else module
                share = f"{count / total:.2%}" if total else "0%"
                rows.append((" " * level + name, _short(count, total), share))

        for module in sorted(self.flop_counts):
            level = 0 if module == "Global" else module.count(".") + 1
            if level <= depth:
                add(module, level)
        return _table(("Module", "FLOP", "% Total"), rows or [("Global", "0", "0%")])

    def __enter__(self) -> FlopCounterMode:
        self.flop_counts.clear()
        self.mod_tracker.__enter__()
        super().__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        self.mod_tracker.__exit__()
        if self.display:
            print(self.get_table(self.depth))

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        formula = self.flop_registry.get(func._overloadpacket)
        if formula is not None:
            count = formula(*args, **kwargs, out_val=out)
            for parent in self.mod_tracker.parents:
                self.flop_counts[parent][func._overloadpacket] += count
        return out


def _short(count: int, total: int) -> str:
    """Format a count in the unit chosen for the total."""
    units = ("", "K", "M", "B", "T")
    index = max(0, min(len(units) - 1, (len(str(total)) - 2) // 3))
    return f"{count / 1000**index:,.3f}{units[index]}" if index else f"{count:,}"


def _table(titles: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """Format columns; the first is aligned to the left."""
    lines = [titles, *rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(titles))]

    def shown(line: tuple[str, ...]) -> str:
        return "  ".join([line[0].ljust(widths[0]), *(v.rjust(w) for v, w in zip(line[1:], widths[1:], strict=True))])

    return "\n".join([shown(titles), "  ".join("-" * w for w in widths), *map(shown, lines[1:])])
