"""Names that PyTorch's modules have only because they import them, and that programs take from there.

`from torch.optim.lr_scheduler import Optimizer` works with PyTorch. gradloom's modules import other things, so that
`gradloom.as_torch` lets its modules answer for these names, too.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

_DISTRIBUTIONS = """
    AbsTransform AffineTransform Beta Binomial Categorical Cauchy Chi2 ComposeTransform Dirichlet Distribution
    ExpTransform Exponential ExponentialFamily Gamma Independent Normal PowerTransform SigmoidTransform
    StickBreakingTransform Transform TransformedDistribution Uniform constraints
    """
# The beginning of modules' names; the module that has the names; the names, as NAME or NAME:NAME_THERE.
_NAMES = (
    ("", "", "torch:"),
    ("distributions.", "", "Size SymInt Tensor"),
    ("distributions.", "distributions", _DISTRIBUTIONS),
    ("distributions.", "distributions.utils", "broadcast_all clamp_probs lazy_property"),
    ("distributions.", "distributions.utils", "logits_to_probs probs_to_logits"),
    ("distributions.", "nn.functional", "F: binary_cross_entropy_with_logits"),
    ("distributions.", "autograd.function", "Function once_differentiable"),
    ("nn.", "", "Size Tensor device dtype"),
    ("nn.functional", "_jit_internal", "BroadcastingList1 BroadcastingList2 BroadcastingList3 boolean_dispatch"),
    ("nn.functional", "nn.grad", "grad:"),
    ("nn.modules.", "nn.functional", "F:"),
    ("nn.modules.", "nn.init", "constant_ xavier_normal_ xavier_uniform_ init:"),
    ("nn.modules.", "nn.modules.module", "Module"),
    ("nn.modules.", "nn.parameter", "Buffer Parameter UninitializedParameter"),
    ("nn.modules.", "utils.hooks", "BackwardHook RemovableHandle hooks:"),
    ("nn.utils.", "nn.modules.module", "Module"),
    ("nn.utils.", "nn.parameter", "Parameter"),
    ("nn.parallel.", "nn.modules.module", "Module"),
    ("nn.parallel.", "nn.parallel.scatter_gather", "gather scatter_kwargs"),
    ("nn.parallel.", "autograd.variable", "Variable"),
    ("optim.", "", "Tensor"),
    ("optim.", "optim.optimizer", "Optimizer"),
    ("optim.adamw", "optim.adam", "adam"),
    ("optim.optimizer", "utils.hooks", "hooks: RemovableHandle"),
    ("utils.data.", "", "Generator Tensor default_generator randperm"),
    ("utils.data.", "utils.data", "Dataset IterableDataset Sampler"),
    ("utils.data.", "distributed", "dist:"),
    ("utils.data.", "_utils", "ExceptionWrapper"),
    ("utils.checkpoint", "utils._pytree", "tree_map"),
    ("utils.flop_counter", "utils._pytree", "tree_flatten tree_unflatten"),
    ("autograd", "overrides", "handle_torch_function has_torch_function is_tensor_like"),
    ("autograd._functions", "autograd.function", "Function"),
    ("functional", "overrides", "handle_torch_function has_torch_function"),
    ("functional", "overrides", "has_torch_function_unary has_torch_function_variadic"),
    ("functional", "nn.functional", "F:"),
    ("fft", "", "Tensor"),
    ("special", "", "Tensor"),
    ("fx.", "_ops", "OpOverload OpOverloadPacket"),
    ("fx.", "fx.graph", "Graph"),
    ("fx.", "fx.graph_module", "GraphModule"),
    ("fx.", "fx.immutable_collections", "immutable_dict immutable_list"),
    ("fx.", "nn", "nn:"),
)


def _homes(module: str) -> dict[str, tuple[str, str]]:
    """Return {name: (module that has it, name there or "" for that module itself)} for a module of torch."""
    found = {}
    for start, home, names in _NAMES:
        if module == start or module.startswith(start) and (start.endswith(".") or not start):
            for word in names.split():
                name, colon, _ = word.partition(":")
                found[name] = (home, "" if colon else name)
    return found


def answering(module: str, own: Callable[[str], Any] | None) -> Callable[[str], Any]:
    """Return the `__getattr__` of a module of torch that finds the names above, too.

    Args:
        module: its name after `torch.`.
        own: its `__getattr__`, if it has one.
    """
    homes: dict[str, tuple[str, str]] | None = None

    def __getattr__(name: str) -> Any:
        nonlocal homes
        if homes is None:
            homes = _homes(module)
        if name in homes:
            home, there = homes[name]
            found = import_module(f"gradloom.{home}" if home else "gradloom")
            return getattr(found, there) if there else found
        if own is not None:
            return own(name)
        raise AttributeError(f"module 'torch.{module}' has no attribute '{name}'")

    return __getattr__
