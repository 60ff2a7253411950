"""Pictures of graphs: the DOT text against the graph that it shows."""

from __future__ import annotations

import builtins
import re
import shutil
import subprocess
import sys
import xml.dom.minidom

import pytest

import gradloom
from gradloom import nn
from gradloom.utils import viz
from tests.waiting import LIMIT

needs_dot = pytest.mark.skipif(shutil.which("dot") is None, reason="Graphviz's program dot is not installed")


def read(dot):
    """(id -> label lines, list of (source, target)) of a DOT text, by a reader of its own."""
    nodes, edges = {}, []
    for line in dot.splitlines():
        if found := re.match(r'  (\w+) \[label="((?:[^"\\]|\\.)*)", ', line):
            text = re.sub(r"\\(.)", lambda m: {"n": "\0"}.get(m[1], m[1]), found[2])
            nodes[found[1]] = text.split("\0")
        elif found := re.match(r"  (\w+) -> (\w+)( \[label=.*\])?;$", line):
            edges.append((found[1], found[2]))
    return nodes, edges


def drawn(dot):
    """The graph as sorted pairs of titles, with how often each occurs; nodes with equal titles are told apart."""
    nodes, edges = read(dot)
    titles = {i: lines[0] for i, lines in nodes.items()}
    return sorted((titles[a], titles[b]) for a, b in edges)


def walked(*tensors):
    """The same of the graph itself, by `next_functions` alone."""
    edges, seen = [], set()
    todo = [t.grad_fn for t in tensors]
    while todo:
        node = todo.pop()
        if node in seen:
            continue
        seen.add(node)
        for following, _ in node.next_functions:
            if following is not None:
                edges.append(tuple(n.name().removeprefix("torch::autograd::") for n in (node, following)))
                todo.append(following)
    return sorted(edges), len(seen)


def without_outputs(pairs):
    return [pair for pair in pairs if not pair[0].startswith("output")]


def leaf(*shape):
    return gradloom.ones(*shape, requires_grad=True)


def chain():
    return leaf(2).sin().exp().sum()


def shared_subgraph():
    x = leaf(2, 2)
    h = x.tanh()
    return ((h * h) @ h + h).sum()


def written_view():
    base = leaf(2, 3) * 1
    base[0].mul_(2)
    view = base.view(6)
    view[1:3].add_(leaf(2))
    return base.sum()


def several_outputs():
    low, high = leaf(3, 3).aminmax(dim=0)
    first, second = leaf(4).split(2)
    return (low * high).sum() + (first * second).sum()


def network():
    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    return nn.functional.cross_entropy(net(gradloom.randn(5, 3)), gradloom.zeros(5, dtype=gradloom.long))


class Twice(gradloom.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(y)
        return x * y, x + y

    @staticmethod
    def backward(ctx, g, h):
        return g, h


def custom_function():
    a, b = Twice.apply(leaf(2), leaf(2))
    return (a - b).sum()


def second_derivatives():
    x = leaf(3)
    (first,) = gradloom.autograd.grad((x**3).sum(), x, create_graph=True)
    return first.sum()


PROGRAMS = [chain, shared_subgraph, written_view, several_outputs, network, custom_function, second_derivatives]


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_picture_has_the_nodes_and_edges_of_the_graph(program):
    loss = program()
    dot = viz.graph(loss).dot
    edges, count = walked(loss)
    assert without_outputs(drawn(dot)) == edges
    nodes, _ = read(dot)
    assert len(nodes) == count + 1  # and the output


def test_a_node_that_two_ways_lead_to_is_drawn_once():
    nodes, edges = read(viz.graph(shared_subgraph()).dot)
    (tanh,) = [i for i, lines in nodes.items() if lines[0] == "TanhBackward0"]
    assert sum(target == tanh for _, target in edges) == 4


def test_the_text_of_a_small_graph():
    w = leaf(2, 3)
    assert (
        viz.graph((w * 2).sum(), params={"w": w}).dot
        == """digraph backward {
  node [shape=box, style="filled", fontname="Helvetica", fontsize=11];
  edge [fontname="Helvetica", fontsize=9, color="#666666"];
  o0 [label="output\\nscalar float32", shape=oval, fillcolor="#fdf3d0"];
  n0 [label="SumBackward0\\nself_sym_sizes: (2, 3)", fillcolor="#ffffff"];
  n1 [label="MulBackward0\\nother: scalar float32", fillcolor="#ffffff"];
  n2 [label="AccumulateGrad\\nw\\n2x3 float32", fillcolor="#d8e8f8"];
  o0 -> n0 [label="scalar float32"];
  n0 -> n1 [label="2x3 float32"];
  n1 -> n2 [label="2x3 float32"];
}
"""
    )


def test_the_same_program_gives_the_same_text():
    assert viz.graph(written_view()).dot == viz.graph(written_view()).dot


def test_a_write_into_a_view_shows_what_it_runs():
    nodes, _ = read(viz.graph(written_view()).dot)
    copies = [lines for lines in nodes.values() if lines[0] == "CopySlices"]
    assert [lines[1] for lines in copies] == ["runs AddBackward0", "runs MulBackward0"]


def test_a_custom_function_shows_what_it_saved():
    nodes, edges = read(viz.graph(custom_function()).dot)
    number, lines = next((i, lines) for i, lines in nodes.items() if lines[0] == "TwiceBackward")
    assert lines == ["TwiceBackward", "tensor 0: 2 float32"]
    assert sum(target == number for _, target in edges) == 2


def test_gradients_of_several_results_are_numbered():
    dot = viz.graph(several_outputs()).dot
    found = re.findall(r'\[label="(\d): (.*?)"\]', dot)
    assert sorted(found) == [("0", "2 float32"), ("0", "3 float32"), ("1", "2 float32"), ("1", "3 float32")]


def test_saved_tensors_are_shown_with_shape_and_dtype_and_can_be_left_out():
    loss = (leaf(2, 3).double() @ gradloom.ones(3, 4, dtype=gradloom.float64)).sum()
    assert "mat2: 3x4 float64" in viz.graph(loss).dot
    assert "mat2" not in viz.graph(loss, saved=False).dot


def test_a_graph_that_was_freed_says_so():
    loss = leaf(2).exp().sum()
    loss.backward()
    assert "result: released by an earlier backward pass" in viz.graph(loss).dot


# --- names -----------------------------------------------------------------------------------------------------------


def labels(picture, title):
    return [lines for lines in read(picture.dot)[0].values() if lines[0] == title]


def test_leaves_have_the_names_of_parameters():
    net = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 1))
    loss = net(gradloom.ones(2, 3)).sum()
    expected = {"0.weight", "0.bias", "1.weight", "1.bias"}
    for params in (net, dict(net.named_parameters()), net.named_parameters(), list(net.named_parameters())):
        assert {lines[1] for lines in labels(viz.graph(loss, params), "AccumulateGrad")} == expected


def test_a_leaf_with_two_names_has_both_and_one_without_has_its_shape():
    w, b = leaf(2), leaf(2)
    leaves = labels(viz.graph((w * b).sum(), {"w": w, "tied": w}), "AccumulateGrad")
    assert sorted(leaves) == [["AccumulateGrad", "2 float32"], ["AccumulateGrad", "w, tied", "2 float32"]]


def test_results_of_operators_can_be_named_too():
    h = leaf(2).exp()
    assert labels(viz.graph(h.sum(), {"hidden": h}), "ExpBackward0")[0][:2] == ["ExpBackward0", "= hidden"]


def test_a_name_that_needs_no_gradient_is_left_out():
    w = leaf(2)
    assert "constant" not in viz.graph(w.sum(), {"constant": gradloom.ones(2), "w": w}).dot


@pytest.mark.parametrize(
    "name",
    [
        'say "w"',
        "back\\slash",
        "two\nlines",
        "\\N",
        "\\",
        '\\"',
        "<b>w</b>",
        "{a|b}",
        "Größe",
        "a -> b; }",
        "%s",
        "\\\\l",
    ],
)
@pytest.mark.parametrize("kind", ["leaf", "output"])
def test_names_may_hold_anything(name, kind):
    w = leaf(2)
    picture = viz.graph({name: w.sum()} if kind == "output" else w.sum(), {name: w})
    lines = name.split("\n")
    assert labels(picture, "AccumulateGrad")[0][1:-1] == lines
    if kind == "output":
        assert read(picture.dot)[0]["o0"][:-1] == lines
    document = xml.dom.minidom.parseString(picture.svg())
    text = "".join(t.firstChild.data for t in document.getElementsByTagName("text"))
    assert "".join(lines).replace(" ", "") in text.replace("\xa0", "").replace(" ", "")


# --- what can be drawn -----------------------------------------------------------------------------------------------


def test_several_outputs_with_and_without_names():
    x = leaf(2)
    a, b = x.sin(), x.cos()
    assert [lines[0] for i, lines in read(viz.graph([a, b]).dot)[0].items() if i[0] == "o"] == ["output 0", "output 1"]
    assert [lines[0] for i, lines in read(viz.graph({"a": a, "b": b}).dot)[0].items() if i[0] == "o"] == ["a", "b"]
    assert len(labels(viz.graph([a, b]), "AccumulateGrad")) == 1


def test_a_node_and_a_leaf_can_be_drawn():
    x = leaf(2)
    assert drawn(viz.graph(x.exp().grad_fn).dot) == [("ExpBackward0", "AccumulateGrad"), ("output", "ExpBackward0")]
    assert drawn(viz.graph(x).dot) == [("output", "AccumulateGrad")]


def test_drawing_changes_nothing():
    x = leaf(2)
    loss = written_view() + x.sum()
    before = x._version
    picture = viz.graph(loss, {"x": x})
    loss.backward()
    assert x.grad.tolist() == [1, 1] and x._version == before
    assert "released" not in picture.dot  # it is as it was


def test_a_picture_holds_no_tensors():
    import gc
    import weakref

    x = leaf(2)
    h = x.exp()
    node = weakref.ref(h.grad_fn)
    picture = viz.graph(h)
    del h
    gc.collect()
    assert node() is None and "ExpBackward0" in picture.dot


@pytest.mark.parametrize(("outputs", "error", "message"), [
    (3, TypeError, "not int"), ("loss", TypeError, "not str"), ([], ValueError, "no outputs"),
    ({}, ValueError, "no outputs"), ([3], TypeError, "output 0 is of type int"),
    (gradloom.ones(2), ValueError, "output does not require a gradient"),
    ({"a": gradloom.ones(2)}, ValueError, "a does not require a gradient"),
])  # fmt: skip
def test_other_outputs_are_refused(outputs, error, message):
    with pytest.raises(error, match=message):
        viz.graph(outputs)


@pytest.mark.parametrize("params", [3, "w", ["w"], [("w", 3)], {"w": None}, gradloom.ones(2)])
def test_other_params_are_refused(params):
    with pytest.raises(TypeError, match="params is a dict of tensors, pairs of a name and a tensor"):
        viz.graph(leaf(2).sum(), params)


def test_a_graph_of_100000_nodes():
    """Without recursion."""
    x = leaf(1)
    for _ in range(100_000):
        x = x + 1
    picture = viz.graph(x)
    dot = picture.dot
    assert dot.count("AddBackward0") == 100_000 and dot.count(" -> ") == 100_001
    assert repr(picture) == "<graph of 100,001 nodes and 100,001 edges>"
    assert picture._repr_svg_() is None
    assert "too large to be drawn here" in picture._repr_mimebundle_()["text/plain"]


# --- pictures --------------------------------------------------------------------------------------------------------


@pytest.fixture
def no_dot(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))


@pytest.fixture
def own_dot(monkeypatch, tmp_path):
    """A program in the place of dot that says how it was called."""
    program = tmp_path / "dot"
    program.write_text(
        f"#!{sys.executable}\nimport sys\ntext = sys.stdin.read()\n"
        "sys.exit('cannot') if sys.argv[1] == '-Tbad' else print('<svg>', sys.argv[1], len(text))\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))


def test_a_picture_is_made_by_dot(own_dot, tmp_path):
    picture = viz.graph(chain())
    expected = f"<svg> -Tsvg {len(picture.dot)}\n"
    assert picture.svg() == picture._repr_svg_() == expected
    assert picture._repr_mimebundle_() == {"image/svg+xml": expected, "text/plain": repr(picture)}
    picture.save(tmp_path / "a.png")
    assert (tmp_path / "a.png").read_text() == expected.replace("svg ", "png ").replace("<png", "<svg")


def test_what_dot_says_is_passed_on(own_dot, tmp_path):
    with pytest.raises(RuntimeError, match="Graphviz's `dot -Tbad` failed: cannot"):
        viz.graph(chain()).save(tmp_path / "a.bad")


def parsed(text):
    """(groups of text lines by y, boxes, paths) of a drawing that was made without dot."""
    document = xml.dom.minidom.parseString(text)
    numbers = {"rect": ("x", "y", "width", "height"), "ellipse": ("cx", "cy", "rx", "ry")}
    boxes = []
    for tag, names in numbers.items():
        for element in document.getElementsByTagName(tag):
            if element.getAttribute("width") != "100%":
                a, b, c, d = (float(element.getAttribute(name)) for name in names)
                boxes.append((a, b, a + c, b + d) if tag == "rect" else (a - c, b - d, a + c, b + d))
    texts = [t.firstChild.data for t in document.getElementsByTagName("text") if t.firstChild is not None]
    return texts, boxes, [p.getAttribute("d") for p in document.getElementsByTagName("path")][1:]


@pytest.mark.parametrize("program", PROGRAMS)
def test_without_dot_every_node_and_edge_is_drawn(program, no_dot):
    picture = viz.graph(program())
    texts, boxes, paths = parsed(picture.svg())
    assert len(boxes) == len(picture.vertices)
    assert len(paths) == len({(e.source, e.target) for e in picture.edges})
    for vertex in picture.vertices:
        assert all(line in texts for line in vertex.lines)
    for i, (left, top, right, bottom) in enumerate(boxes):  # none covers another, none is outside of the picture
        assert left >= 0 and top >= 0
        for a, b, c, d in boxes[:i]:
            assert right <= a or c <= left or bottom <= b or d <= top


def inside(x, y, box):
    return box[0] + 1 < x < box[2] - 1 and box[1] + 1 < y < box[3] - 1


@pytest.mark.parametrize("program", PROGRAMS)
def test_arrows_point_down_from_box_to_box_and_run_through_none(program, no_dot):
    _, boxes, paths = parsed(viz.graph(program()).svg())
    for path in paths:
        x, y, *_ = map(float, re.findall(r"-?[\d.]+", path))
        points = [(x, y)]
        for kind, numbers in re.findall(r"([CV])([^CVM]*)", path):
            values = list(map(float, numbers.split()))
            if kind == "V":
                points.append((points[-1][0], values[0]))
                continue
            (a, b), (_, middle, c, _, _, d) = points[-1], values
            for i in range(1, 11):
                t = i / 10
                across, down = 3 * (1 - t) * t * t + t**3, 3 * (1 - t) * t
                points.append((a + (c - a) * across, (1 - t) ** 3 * b + down * middle + t**3 * d))
        assert [y for _, y in points] == sorted(y for _, y in points)
        assert not [p for p in points for box in boxes if inside(*p, box)]
        for x, y in (points[0], points[-1]):
            assert any(box[0] <= x <= box[2] and min(abs(y - box[1]), abs(y - box[3])) < 0.2 for box in boxes)


def test_without_dot_a_small_graph_is_a_picture_and_the_rest_says_what_is_missing(no_dot, tmp_path):
    picture = viz.graph(chain())
    assert picture._repr_mimebundle_() == {"image/svg+xml": picture.svg(), "text/plain": repr(picture)}
    picture.save(tmp_path / "a.svg")
    assert (tmp_path / "a.svg").read_text() == picture.svg() == viz.graph(chain()).svg()
    picture.save(tmp_path / "a.dot")
    assert (tmp_path / "a.dot").read_text() == picture.dot
    with pytest.raises(RuntimeError, match="another format than SVG, needs the program `dot` of Graphviz"):
        picture.save(tmp_path / "a.png")


def test_without_dot_a_large_graph_says_how_to_draw_it(no_dot):
    x = leaf(1)
    for _ in range(viz.LARGEST_OWN_DRAWING):
        x = x + 1
    picture = viz.graph(x)
    assert picture._repr_svg_() is None
    with pytest.raises(RuntimeError, match="more than 200 nodes, .*`dot` of Graphviz, which is not installed: `apt"):
        picture.svg()
    shown = picture._repr_mimebundle_()
    assert set(shown) == {"text/plain"} and "not installed" in shown["text/plain"] and "`.dot`" in shown["text/plain"]


def test_names_are_escaped_in_a_picture_without_dot(no_dot):
    w = leaf(2)
    texts, boxes, _ = parsed(viz.graph({"a<b&c": w.sum()}, {"two\nlines": w}).svg())
    assert {"a<b&c", "two", "lines"} <= set(texts) and len(boxes) == 3


def test_a_file_without_a_suffix_is_refused(tmp_path):
    with pytest.raises(ValueError, match="has no suffix, which says what to write"):
        viz.graph(chain()).save(tmp_path / "picture")


@needs_dot
@pytest.mark.parametrize("program", PROGRAMS)
def test_graphviz_draws_every_node_and_edge(program):
    picture = viz.graph(program())
    document = xml.dom.minidom.parseString(picture.svg())
    groups = [g.getAttribute("class") for g in document.getElementsByTagName("g")]
    assert groups.count("node") == len(picture.vertices) and groups.count("edge") == len(picture.edges)


@needs_dot
@pytest.mark.parametrize(
    ("suffix", "start"), [("svg", b"<?xml"), ("png", b"\x89PNG"), ("gv", b"digraph"), ("PDF", b"%PDF")]
)
def test_files(suffix, start, tmp_path):
    viz.graph(chain()).save(tmp_path / f"graph.{suffix}")
    assert (tmp_path / f"graph.{suffix}").read_bytes().startswith(start)


def test_it_is_there_without_an_import_of_its_own():
    code = (
        "import sys, gradloom; assert 'gradloom.utils.viz' not in sys.modules; "
        "gradloom.utils.viz.graph(gradloom.ones(2, requires_grad=True)); assert 'viz' in dir(gradloom.utils)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=LIMIT)
    with pytest.raises(AttributeError, match="module 'gradloom.utils' has no attribute 'vis'"):
        _ = gradloom.utils.vis


def test_the_graphviz_package_is_used_only_when_asked_for(monkeypatch):
    code = (
        "import sys, gradloom; from gradloom.utils import viz; "
        "viz.graph(gradloom.ones(2, requires_grad=True).exp()).dot; assert 'graphviz' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=LIMIT)
    graphviz = pytest.importorskip("graphviz")
    picture = viz.graph(chain())
    assert isinstance(picture.source(), graphviz.Source) and picture.source().source == picture.dot
    real = builtins.__import__

    def refuse(name, *rest):
        if name == "graphviz":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(ImportError, match="pip install graphviz"):
        picture.source()
