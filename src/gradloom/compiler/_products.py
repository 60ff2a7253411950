"""Products of matrices in graphs: written to the memory where they are needed, and read where their factors are.

Note [Products]
`mm`, `bmm` and `addmm` of floats become nodes with the wrapper PRODUCT, which multiply into a buffer of the program;
the bias of `addmm` becomes an addition, which joins the loop after it. Programs copy before and after batched products,
because these take matrices one after another: the heads of an attention, and its results side by side. BLAS reads and
writes matrices with any distance between their rows, so a product reads what was copied, and writes where the copy of
its result would be: `clone` and `cat` go. Its batch may then have several dimensions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from ..dispatch import _operators
from ._graph import CONSTANT, RESULT, Content, Graph, Node, Value, contiguous_strides, dtype_name

PRODUCT = "product"  # the wrapper of nodes that multiply two Values
_FLOATS = ("float32", "float64")
# A copy is not kept for the backward pass if the original, which is kept then, has at most this many times its size.
_LARGER = 4

Dims = list[tuple[int, int]]  # sizes and strides


def with_products(graph: Graph) -> Graph:
    """Return the graph with products as nodes of their own, without copies around them."""
    nodes: list[Node] = []
    forward = 0
    seen: dict[Content, set[Value]] = {}
    for value in [*(v for n in graph.nodes for v in n.values()), *graph.outputs, *graph.gradients]:
        if value is not None:
            seen.setdefault(value.content, set()).add(value)
    for i, node in enumerate(graph.nodes):
        nodes += _split(node, seen)
        if i < graph.forward:
            forward = len(nodes)
    graph = replace(graph, nodes=nodes, forward=forward)
    if any(n.wrapper is PRODUCT for n in nodes):
        _Copies(graph).remove()
    for number, node in enumerate(graph.nodes):
        node.number = number
    return graph


def _split(node: Node, seen: dict[Content, set[Value]]) -> list[Node]:
    """Return a product, and the addition of its bias; or the node as it is.

    Args:
        seen: the values that the graph reads of each content.
    """
    name, result = node.name, node.result
    if name not in ("mm", "bmm", "addmm") or result.__class__ is not Value or not result.is_whole:
        return [node]
    factors = node.args[-4:-2] if name == "addmm" else node.args
    operands = [*factors, result, *(node.args[:1] if name == "addmm" else ())]
    if any(v.__class__ is not Value or dtype_name(v.dtype) not in _FLOATS or not v.size for v in operands):
        return [node]
    if len({v.dtype for v in operands}) > 1 or node.made != (result.content,) or node.writes:
        return [node]
    if name != "addmm":
        _read_as(result.content, seen)
        return [replace(node, wrapper=PRODUCT)]
    if any(n.__class__ not in (int, float) or n != 1 for n in node.args[-2:]):
        return [node]
    content = result.content
    strides = contiguous_strides(result.shape, result.dtype.itemsize)
    inner = Content(f"{content.number}.product", RESULT, result.shape, strides, result.dtype)
    value = Value(inner, result.shape, strides, result.dtype)
    product = replace(node, name="mm", wrapper=PRODUCT, args=tuple(factors), result=value, made=(inner,))
    inner.node = product
    total = result
    shapes = {v.shape for v in seen.get(content, ())}
    if len(shapes) == 1:
        # The loop after it goes over the same elements in this shape.
        (shape,) = shapes
        strides = contiguous_strides(shape, result.dtype.itemsize)
        bias = node.args[0]
        whole = Value(content, shape, strides, result.dtype)
        if shape[-1:] == result.shape[-1:] and len(bias.shape) == 1 and seen[content] == {whole}:
            content.shape, content.strides = shape, strides
            total = whole
    value = Value(inner, total.shape, total.strides, result.dtype)
    added = replace(node, name="add.Tensor", wrapper=_operators.add, args=(value, node.args[0], 1), result=total)
    content.node = added
    return [product, added]


def _read_as(content: Content, seen: dict[Content, set[Value]]) -> None:
    """Give a product the shape in which loops read it, which may then write over it."""
    found = seen.get(content, set())
    if len(found) == 1:
        (value,) = found
        strides = contiguous_strides(value.shape, value.dtype.itemsize)
        if value.covers and value.strides == strides:
            content.shape, content.strides = value.shape, strides


class _Copies:
    """Takes copies before and after products out of a graph."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.maker: dict[Content, Node] = {c: n for n in graph.nodes for c in n.made}
        self.readers: dict[Content, list[Node]] = {}
        for node in graph.nodes:
            for value in node.values():
                self.readers.setdefault(value.content, []).append(node)
        self.overwritten = {c.before for n in graph.nodes for c in n.writes}
        self.kept = {v.content for v in (*graph.outputs, *graph.gradients) if v is not None} | {*graph.final.values()}
        self.is_forward = {n: i < graph.forward for i, n in enumerate(graph.nodes)}

    def remove(self) -> None:
        gone: set[Node] = set()
        for node in self.graph.nodes:
            if node.wrapper is PRODUCT and len(node.args[0].shape) == 3:
                self._read_originals(node)
            elif node.name == "clone" and self._write_copy(node) or node.name == "cat" and self._write_parts(node):
                gone.add(node)
        nodes = self.graph.nodes
        self.graph.forward = sum(n not in gone for n in nodes[: self.graph.forward])
        self.graph.nodes = [n for n in nodes if n not in gone]

    def _read_originals(self, node: Node) -> None:
        """Let a batched product read what its factors are copies of."""
        factors: list[tuple[Content, int, Dims, Dims]] = []  # content, offset, dimensions of the batch and the matrices
        for value in node.args:
            found = self._original(node, value)
            if found is None:
                dims = list(zip(value.shape, value.strides, strict=True))
                found = value.content, value.offset, dims[:1], dims[1:]
            factors.append(found)
        result = node.result
        batches = [batch for _, _, batch, _ in factors]
        sizes = _common_sizes([[n for n, _ in batch] for batch in batches])
        if sizes is None:
            return
        args = []
        for value, (content, offset, batch, matrix) in zip(node.args, factors, strict=True):
            dims = [*_split_by(batch, sizes), *matrix]
            args.append(_value(content, dims, value, offset))
            self.readers.setdefault(content, []).append(node)
        dims = list(zip(result.shape, result.strides, strict=True))
        node.args = tuple(args)
        node.result = _value(result.content, [*_split_by(dims[:1], sizes), *dims[1:]], result, result.offset)

    def _original(self, node: Node, value: Value) -> tuple[Content, int, Dims, Dims] | None:
        """Return where the elements of a factor, a copy, come from."""
        content = value.content
        copy = self.maker.get(content)
        if copy is None or copy.name != "clone" or content in self.overwritten or content in self.kept:
            return None
        source: Value = copy.args[0]
        if (
            value.offset
            or source.dtype != value.dtype
            or source.content in self.overwritten
            or source.content.kind == CONSTANT
        ):
            return None
        if self.is_forward[copy] != self.is_forward[node] and source.content.nbytes > _LARGER * content.nbytes:
            return None
        found = _carried(value, copy.result, source)
        if found is None:
            return None
        batch, *matrix = found
        if any(len(dims) != 1 for dims in matrix):
            return None
        matrices = [dims[0] for dims in matrix]
        if not _suits_blas(matrices, value.dtype.itemsize):
            return None
        return source.content, source.offset, batch, matrices

    def _write_copy(self, node: Node) -> bool:
        """Let a product write the copy that a `clone` makes of it; return whether it does."""
        source, copy = node.args[0], node.result
        if source.__class__ is not Value or not copy.is_whole or node.writes or node.made != (copy.content,):
            return False
        return self._moves(node, source, copy)

    def _write_parts(self, node: Node) -> bool:
        """Let products write the parts that a `cat` puts together; return whether they do."""
        parts, dim = node.args[0], node.args[1]
        whole = node.result
        if whole.__class__ is not Value or not whole.is_whole or node.made != (whole.content,) or node.writes:
            return False
        if len({p.content for p in parts}) < len(parts) or any(p.shape == (0,) for p in parts):
            return False
        targets, at = [], 0
        for part in parts:
            targets.append(Value(whole.content, part.shape, whole.strides, whole.dtype, at * whole.strides[dim]))
            at += part.shape[dim]
        pairs = list(zip(parts, targets, strict=True))
        if not all(self._moves(node, part, target, tries=True) for part, target in pairs):
            return False
        order = {n: i for i, n in enumerate(self.graph.nodes)}
        pairs.sort(key=lambda pair: order[self.maker[pair[0].content]])
        whole_content, before = whole.content, None
        for i, (part, target) in enumerate(pairs):
            content = whole_content
            if i < len(pairs) - 1:
                content = replace(whole_content, number=f"{whole_content.number}.{i}", node=None)
            content.before, before = before, content
            self._moves(node, part, target.of(content))
        return True

    def _moves(self, node: Node, source: Value, target: Value, tries: bool = False) -> bool:
        """Let the product that makes `source` write to `target` instead, if nothing but `node` reads it.

        tries: only return whether it could.
        """
        content = source.content
        product = self.maker.get(content)
        if product is None or product.wrapper is not PRODUCT or self.is_forward[product] != self.is_forward[node]:
            return False
        if content in self.kept or content in self.overwritten or self.readers.get(content) != [node]:
            return False
        made: Value = product.result
        if source.dtype != target.dtype or source.size != made.size or source.offset or product.made != (content,):
            return False
        found = _carried(made, source, target)
        if found is None:
            return False
        *batch, rows, columns = found
        if len(rows) != 1 or len(columns) != 1 or not _suits_blas([rows[0], columns[0]], made.dtype.itemsize):
            return False
        flat = [dim for dims in batch for dim in dims]
        sizes = _common_sizes([[n for n, _ in flat], *(list(v.shape[:-2]) for v in product.args)])
        if sizes is None or tries:
            return sizes is not None
        result = _value(target.content, [*_split_by(flat, sizes), rows[0], columns[0]], made, target.offset)
        args = []
        for value in product.args:
            dims = list(zip(value.shape, value.strides, strict=True))
            args.append(_value(value.content, [*_split_by(dims[:-2], sizes), *dims[-2:]], value, value.offset))
        product.args, product.result, product.made = tuple(args), result, (target.content,)
        target.content.node = product
        self.maker[target.content] = product
        return True


def _value(content: Content, dims: Dims, like: Value, offset: int) -> Value:
    return Value(content, tuple([n for n, _ in dims]), tuple([s for _, s in dims]), like.dtype, offset)


def _carried(value: Value, base: Value, target: Value) -> list[Dims] | None:
    """Return for each dimension of a value the dimensions that it has in another layout, neighbours merged.

    Args:
        base: a dense tensor in the same memory.
        target: a tensor of the same shape as `base`, whose elements correspond to it.
    """
    found: list[Dims] = []
    for size, stride in zip(value.shape, value.strides, strict=True):
        pieces: Dims = []  # the innermost first
        while size > 1:
            dims = zip(base.shape, base.strides, target.strides, strict=True)
            fitting = [(n, s, t) for n, s, t in dims if n > 1 and s <= stride < s * n and stride % s == 0]
            if len(fitting) != 1:
                return None
            ((n, s, t),) = fitting
            inner = stride // s
            room = n // inner
            if n % inner or size % room and room % size:
                return None
            taken = min(size, room)
            if pieces and t * inner == pieces[-1][0] * pieces[-1][1]:
                pieces[-1] = taken * pieces[-1][0], pieces[-1][1]
            else:
                pieces.append((taken, t * inner))
            size, stride = size // taken, stride * taken
        found.append(pieces[::-1] or [(1, value.dtype.itemsize)])
    return found


def _common_sizes(shapes: Iterable[Sequence[int]]) -> list[int] | None:
    """Return sizes into which the dimensions of all of these shapes, of the same number of elements, can be split."""
    edges: set[int] = set()
    for shape in shapes:
        step = 1
        for n in reversed(shape):
            step *= n
            edges.add(step)
    sizes, last = [], 1
    for edge in sorted(edges - {1}):
        if edge % last:
            return None
        sizes.append(edge // last)
        last = edge
    return sizes[::-1]


def _split_by(dims: Dims, sizes: Sequence[int]) -> Dims:
    """Return dimensions split into parts of these sizes."""
    found: Dims = []
    left = [d for d in dims if d[0] != 1]
    for size in reversed(sizes):
        n, stride = left.pop()
        found.append((size, stride))
        if n != size:
            left.append((n // size, stride * size))
    return found[::-1]


def _suits_blas(matrix: Dims, itemsize: int) -> bool:
    """Return whether BLAS takes a matrix as it is: Note [Products] of kernels/matmul.py."""
    (_, rows), (_, columns) = matrix
    return any(a == itemsize and b >= itemsize and b % itemsize == 0 for a, b in ((rows, columns), (columns, rows)))
