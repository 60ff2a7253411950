"""Pictures of backward graphs.

graph = gradloom.utils.viz.graph(loss, params=model)
graph                        # in a notebook: the picture
graph.dot                    # the graph in Graphviz's language
graph.save("loss.svg")       # also .dot, .gv, .png, .pdf
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from ..core.accumulate_grad import AccumulateGrad
from ..core.edge import gradient_edge
from ..core.node import Node, as_pair
from ..core.saved_variable import RELEASED
from ..core.tensor import Tensor
from ..types.dtype import TYPE_OF

__all__ = ["Edge", "Graph", "Vertex", "graph"]

LARGEST_DRAWING = 2_000  # maximum number of nodes; Graphviz takes minutes for more
LARGEST_OWN_DRAWING = 200  # without Graphviz; larger ones cannot be read
_COLORS = {"output": "#fdf3d0", "leaf": "#d8e8f8", "node": "#ffffff"}
_HOW_TO_INSTALL = (
    f"a picture of more than {LARGEST_OWN_DRAWING} nodes, or in another format than SVG, needs the program `dot` of "
    "Graphviz, which is not installed: `apt install graphviz`, `brew install graphviz`, `conda install graphviz`, or "
    "https://graphviz.org/download. Without it there is `.dot`, the graph in Graphviz's language, which other programs "
    "and web pages draw"
)


@dataclass(frozen=True)
class Vertex:
    """A vertex of the picture.

    id      its name in the DOT text: o0, o1 ... for outputs, n0, n1 ... for nodes
    kind    'output', 'leaf' (an AccumulateGrad) or 'node'
    title   name of the node or the output
    name    names that `params` gives to the leaf or to a result of the node
    shapes  shape and dtype of each gradient that it receives
    saved   pairs (field, short description)
    inner   name of the node that this one runs, as CopySlices does
    """

    id: str
    kind: str
    title: str
    name: str = ""
    shapes: tuple[str, ...] = ()
    saved: tuple[tuple[str, str], ...] = ()
    inner: str = ""

    @property
    def lines(self) -> list[str]:
        """Lines of the label."""
        found = [self.title]
        if self.inner:
            found.append(f"runs {self.inner}")
        if self.name:
            found.append(self.name if self.kind == "leaf" else f"= {self.name}")
        found += self.shapes if self.kind != "node" else ()
        return found + [f"{field}: {what}" for field, what in self.saved]


@dataclass(frozen=True)
class Edge:
    """The path of a gradient, from source vertex to target vertex.

    input   index of the gradient among the target's
    shape   its shape and dtype
    """

    source: str
    target: str
    input: int
    shape: str


class Graph:
    """A backward graph, as it was when `graph` was called.

    Attributes:
        vertices: outputs, then nodes in the order in which they are reached.
        edges: in the same order.
    """

    vertices: tuple[Vertex, ...]
    edges: tuple[Edge, ...]

    def __init__(self, vertices: Iterable[Vertex], edges: Iterable[Edge]) -> None:
        self.vertices, self.edges = tuple(vertices), tuple(edges)

    def __repr__(self) -> str:
        nodes = sum(v.kind != "output" for v in self.vertices)
        return f"<graph of {nodes:,} nodes and {len(self.edges):,} edges>"

    @cached_property
    def dot(self) -> str:
        """The graph in Graphviz's language, DOT; the same for the same program."""
        several = self._several
        lines = [
            "digraph backward {",
            '  node [shape=box, style="filled", fontname="Helvetica", fontsize=11];',
            '  edge [fontname="Helvetica", fontsize=9, color="#666666"];',
        ]
        lines += [f"  {v.id} [label={_quoted(v.lines)}, {_dot_style(v.kind)}];" for v in self.vertices]
        for e in self.edges:
            word = _label(e, several)
            lines.append(f"  {e.source} -> {e.target}{f' [label={_quoted([word])}]' if word else ''};")
        return "\n".join([*lines, "}", ""])

    @property
    def _several(self) -> set[str]:
        """Vertices that receive several gradients."""
        return {e.target for e in self.edges if e.input}

    def svg(self) -> str:
        """Return the picture as SVG: Graphviz's where its program `dot` is installed, else a plainer one.

        Raises:
            RuntimeError: if `dot` fails; if it is not installed and the graph has more than 200 nodes.
        """
        if shutil.which("dot") is None and len(self.vertices) <= LARGEST_OWN_DRAWING:
            return self._own_svg()
        return self._drawn("svg").decode("utf-8")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the graph in the format of the file's suffix: .dot, .gv, .svg, .png, .pdf or others that `dot` knows.

        Raises:
            ValueError: for a path without a suffix.
            RuntimeError: if the picture needs `dot` (all but SVG of up to 200 nodes), which is not installed or does
                not know the format.
        """
        kind = Path(path).suffix.removeprefix(".").lower()
        if not kind:
            raise ValueError(f"{os.fspath(path)!r} has no suffix, which says what to write: .dot, .svg, .png or .pdf")
        if kind in ("dot", "gv"):
            data = self.dot.encode()
        else:
            data = self.svg().encode() if kind == "svg" else self._drawn(kind)
        Path(path).write_bytes(data)

    def source(self) -> Any:
        """Return a `graphviz.Source`, for users of that package.

        Raises:
            ImportError: if the package is not installed.
        """
        try:
            import graphviz
        except ImportError:
            raise ImportError(
                "the package graphviz is not installed: `pip install graphviz`. `.dot`, `.svg()` and "
                "`.save()` work without it"
            ) from None
        return graphviz.Source(self.dot)

    def _drawn(self, kind: str) -> bytes:
        program = shutil.which("dot")
        if program is None:
            raise RuntimeError(_HOW_TO_INSTALL)
        done = subprocess.run([program, f"-T{kind}"], input=self.dot.encode(), capture_output=True)
        if done.returncode:
            raise RuntimeError(f"Graphviz's `dot -T{kind}` failed: {done.stderr.decode(errors='replace').strip()}")
        return done.stdout

    def _own_svg(self) -> str:
        """Return a picture that needs no other program."""
        from ._layered import Arrow, Box, svg

        boxes = [
            Box(tuple("\n".join(v.lines).split("\n")), "oval" if v.kind == "output" else "box", _COLORS[v.kind])
            for v in self.vertices
        ]
        place, several = {v.id: i for i, v in enumerate(self.vertices)}, self._several
        arrows = [Arrow(place[e.source], place[e.target], _label(e, several)) for e in self.edges]
        return svg(boxes, arrows, repr(self).strip("<>"))

    def _repr_svg_(self) -> str | None:
        """Return the picture for a notebook; None if the graph is too large for one."""
        largest = LARGEST_OWN_DRAWING if shutil.which("dot") is None else LARGEST_DRAWING
        return self.svg() if len(self.vertices) <= largest else None

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        """Return the picture, or the graph's text and the reason why there is no picture."""
        picture = self._repr_svg_()
        if picture is not None:
            return {"image/svg+xml": picture, "text/plain": repr(self)}
        if len(self.vertices) > LARGEST_DRAWING:
            return {
                "text/plain": f'{self!r}, too large to be drawn here: `.dot` has it, and `.save("graph.svg")` '
                "draws it all the same"
            }
        return {"text/plain": f"{self!r}: {_HOW_TO_INSTALL}."}


def graph(outputs: Any, params: Any = None, *, saved: bool = True) -> Graph:
    """Return the graph that a backward pass from some tensors would run through.

    Args:
        outputs: a tensor, a node, a sequence of them, or a dict with their names.
        params: names of leaves and other tensors: a dict of tensors, pairs (name, tensor) such as
            `model.named_parameters()` gives, or a module.
        saved: show what each node saved.

    Returns:
        A Graph: a notebook shows it, `.dot` is its text, `.save("graph.svg")` writes it. It holds no tensors.

    Raises:
        TypeError: if the outputs or params are not of these kinds.
        ValueError: for no outputs, or an output that does not require grad.
    """
    roots = _roots(outputs)
    names = _names(params)
    vertices: list[Vertex] = []
    edges: list[Edge] = []
    ids: dict[Node, str] = {}
    pending: list[Node] = []

    def reach(source: str, node: Node, number: int) -> None:
        if node not in ids:
            ids[node] = f"n{len(ids)}"
            pending.append(node)
        edges.append(Edge(source, ids[node], number, _shape(node, number)))

    for position, (title, node, number) in enumerate(roots):
        vertices.append(Vertex(f"o{position}", "output", title, shapes=(_shape(node, number),)))
        reach(f"o{position}", node, number)
    while pending:
        node = pending.pop()
        vertices.append(_vertex(ids[node], node, names, saved))
        for following, number in node.next_functions:
            if following is not None:
                reach(ids[node], following, number)
    outputs_first = vertices[: len(roots)]
    return Graph(outputs_first + sorted(vertices[len(roots) :], key=lambda v: int(v.id[1:])), edges)


def _vertex(id_: str, node: Node, names: Mapping[tuple[Node, int], list[str]], saved: bool) -> Vertex:
    count = len(node.input_metadata) // 2
    name = ", ".join([n for number in range(count) for n in names.get((node, number), ())])
    shapes = tuple([_shape(node, number) for number in range(count)])
    inner = getattr(node, "fn", None)
    title = node.name().removeprefix("torch::autograd::")
    if isinstance(node, AccumulateGrad):
        return Vertex(id_, "leaf", title, name, shapes)
    fields = [(f, what) for f, what in saved_values(node) if not what.startswith("None")] if saved else []
    runs = inner.name().removeprefix("torch::autograd::") if isinstance(inner, Node) else ""
    return Vertex(id_, "node", title, name, shapes, tuple(fields), runs)


def _shape(node: Node, number: int) -> str:
    """Return shape and dtype of a gradient that a node receives; empty if they are unknown."""
    metadata = node.input_metadata
    if 2 * number >= len(metadata) or metadata[2 * number] is None:
        return ""
    return described(metadata[2 * number], metadata[2 * number + 1])


def _roots(outputs: Any) -> list[tuple[str, Node, int]]:
    """Return (title, node, index of its gradient) for each output."""
    if isinstance(outputs, (Tensor, Node)):
        pairs = [("output", outputs)]
    elif isinstance(outputs, Mapping):
        pairs = [(str(name), value) for name, value in outputs.items()]
    elif isinstance(outputs, Sequence) and not isinstance(outputs, (str, bytes)):
        pairs = [(f"output {i}", value) for i, value in enumerate(outputs)]
    else:
        raise TypeError(
            f"graph() takes a tensor, a node, or several of them in a list or dict, not {type(outputs).__name__}"
        )
    if not pairs:
        raise ValueError("graph() got no outputs")
    return [_root(title, value) for title, value in pairs]


def _root(title: str, value: Any) -> tuple[str, Node, int]:
    if isinstance(value, Node):
        return title, value, 0
    if not isinstance(value, Tensor):
        raise TypeError(f"graph() takes tensors and nodes, {title} is of type {type(value).__name__}")
    node, number = as_pair(gradient_edge(value))
    if node is None:
        raise ValueError(
            f"{title} does not require a gradient, so there is no graph behind it: nothing that it was "
            "computed from requires one, or it was computed under no_grad()"
        )
    return title, node, number


def _names(params: Any) -> dict[tuple[Node, int], list[str]]:
    """Return the names of tensors by their edges; all names of a tensor with several."""
    if params is None:
        return {}
    if hasattr(params, "named_parameters"):
        params = params.named_parameters()
    pairs = params.items() if isinstance(params, Mapping) else params
    found: dict[tuple[Node, int], list[str]] = {}
    hint = "params is a dict of tensors, pairs of a name and a tensor as named_parameters() gives, or a module"
    if not isinstance(pairs, Iterable) or isinstance(pairs, (str, bytes, Tensor)):
        raise TypeError(f"{hint}, not {type(params).__name__}")
    for named in pairs:
        if not (isinstance(named, tuple) and len(named) == 2 and isinstance(named[1], Tensor)):
            raise TypeError(f"{hint}; {named!r:.60} is not such a pair")
        node, number = as_pair(gradient_edge(named[1]))
        if node is not None:
            found.setdefault((node, number), []).append(str(named[0]))
    return found


def _label(edge: Edge, several: set[str]) -> str:
    """Return the text at an arrow: the shape, and which gradient it is of a target that receives several."""
    return f"{edge.input}: {edge.shape}" if edge.shape and edge.target in several else edge.shape


def _dot_style(kind: str) -> str:
    return f'{"shape=oval, " if kind == "output" else ""}fillcolor="{_COLORS[kind]}"'


def _quoted(lines: Iterable[str]) -> str:
    """Return a label in DOT, with special characters escaped."""
    escaped = [line.replace("\\", "\\\\").replace('"', '\\"').replace("\r", "").replace("\n", "\\n") for line in lines]
    return '"' + "\\n".join(escaped) + '"'


def saved_values(node: Node) -> list[tuple[str, str]]:
    """Return `(field, description)` for each public field of a node. Nothing is unpacked and no hook runs."""
    if isinstance(node, AccumulateGrad):
        return [("variable", describe(node.variable))]
    found = [(name, describe(getattr(node, f"saved_{name}", None))) for name in node._saved_fields]
    if not found and getattr(node, "_released", False):
        return [("saved tensors", "released by an earlier backward pass")]
    saved: Any = getattr(node, "_saved", ())  # a custom Function
    if not found and saved:
        found = [(f"tensor {i}", describe(value)) for i, value in enumerate(saved)]
    return found


def describe(value: Any) -> str:
    """Describe a saved value: `2x3 float32` for a tensor, other values in full."""
    if value is None:
        return "None: no formula will ask for it"
    if value is RELEASED:
        return "released by an earlier backward pass"
    if isinstance(value, (tuple, list)) and value and any(array_of(v) is not None for v in value):
        return f"[{', '.join(map(describe, value))}]"
    array = array_of(value)
    if array is not None:
        return described(array.shape, array.dtype)
    if getattr(value, "unpack_hook", None) is not None:
        return "packed by a saved tensor hook"
    text = repr(tuple(value) if isinstance(value, tuple) else value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def described(shape: tuple[int, ...], dtype: Any) -> str:
    """Return `2x3 float32`; `scalar float32` without dimensions."""
    sizes = "x".join(map(str, shape)) or "scalar"
    return f"{sizes} {str(TYPE_OF[dtype]).removeprefix('torch.')}"


def array_of(value: Any) -> Any:
    """Return the array of a tensor or of a saved variable that was not packed; else None."""
    array = getattr(value, "_array", None)
    if array is None and hasattr(value, "array"):
        tensor = getattr(value, "tensor", None)
        array = tensor._array if tensor is not None else value.array
    return array
