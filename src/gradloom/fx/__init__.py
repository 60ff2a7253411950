"""Programs as graphs: PyTorch's torch.fx.

`symbolic_trace` runs a module or function on stand-ins for its inputs and returns a GraphModule: a module whose graph
can be looked at and changed, and whose forward is generated from it. See docs/fx.md.
"""

from __future__ import annotations

from ._symbolic_trace import PH, ProxyableClassMeta, Tracer, symbolic_trace, wrap
from .graph import CodeGen, Graph
from .graph_module import GraphModule
from .interpreter import Interpreter, Transformer
from .node import Node, has_side_effect, map_arg
from .proxy import Proxy
from .subgraph_rewriter import replace_pattern

__all__ = [
    "PH",
    "CodeGen",
    "Graph",
    "GraphModule",
    "Interpreter",
    "Node",
    "Proxy",
    "ProxyableClassMeta",
    "Tracer",
    "Transformer",
    "has_side_effect",
    "map_arg",
    "replace_pattern",
    "symbolic_trace",
    "wrap",
]


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name in ("experimental", "operator_schemas", "passes"):
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
