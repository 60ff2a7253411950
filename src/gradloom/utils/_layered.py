"""Layered drawings of directed acyclic graphs as SVG (Sugiyama, Tagawa and Toda 1981), for `viz` without Graphviz.

    boxes = [Box(("output",), "oval", "#fdf3d0"), Box(("SumBackward0", "dim: 1"), "box", "#ffffff")]
    text = svg(boxes, [Arrow(0, 1, "2x3 float32")], "a small graph")

Four steps: a layer for each box, by the longest path; an order within the layers, by barycenters; places, by least
squares under the distances that boxes need; and text. An arrow over several layers runs through a bend in each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape

FONT, LABEL_FONT = 11, 9
LINE = 14  # distance of two lines of text
PADDING = 9
BETWEEN = 18  # horizontal distance of two boxes
GAP = 46  # vertical distance of two layers, which holds the labels of arrows
BEND = 30  # width that a bend takes in its layer: room for the label beside it
HEAD = 8  # length of the straight end of an arrow
MARGIN = 12
ORDERINGS, PLACINGS = 12, 16  # numbers of sweeps


@dataclass(frozen=True)
class Box:
    """Lines of text in a shape, "box" or "oval", of some color."""

    lines: tuple[str, ...]
    shape: str
    color: str

    @property
    def width(self) -> float:
        text = max((text_width(line, FONT) for line in self.lines), default=0.0) + 2 * PADDING
        return text * 1.25 if self.shape == "oval" else text

    @property
    def height(self) -> float:
        return (LINE * len(self.lines) + PADDING) * (1.35 if self.shape == "oval" else 1)


@dataclass(frozen=True)
class Arrow:
    """An arrow between two boxes, given by their positions in the list."""

    source: int
    target: int
    label: str = ""


@dataclass
class _Spot:
    """A box, or the bend of an arrow (`box` is None), in a layer; `above` and `below` are its neighbors."""

    box: Box | None
    layer: int
    x: float = 0.0
    above: list[_Spot] = field(default_factory=list)
    below: list[_Spot] = field(default_factory=list)

    @property
    def width(self) -> float:
        return self.box.width if self.box is not None else BEND


def text_width(text: str, size: float) -> float:
    """Return about how wide a text is in Helvetica."""
    units = sum(
        0.3 if c in "ijlI.,:;'|!()[] " else 0.87 if c in "mwMW@" else 0.7 if c.isupper() else 0.56 for c in text
    )
    return units * size


def svg(boxes: Sequence[Box], arrows: Sequence[Arrow], title: str) -> str:
    """Return a drawing of an acyclic graph, arrows pointing down.

    Args:
        boxes: what to draw.
        arrows: arrows between them; those between the same two boxes share a line.
        title: text for readers who do not see the picture.
    """
    layers, routes = _layers(boxes, arrows)
    _order(layers)
    _place(layers)
    return _text(layers, routes, arrows, title)


# -- layers ------------------------------------------------------------------------------------------------


def _layers(boxes: Sequence[Box], arrows: Sequence[Arrow]) -> tuple[list[list[_Spot]], list[list[_Spot]]]:
    """Return the spots of each layer, and the spots that each arrow runs through."""
    depth = _depths(len(boxes), arrows)
    spots = [_Spot(box, layer) for box, layer in zip(boxes, depth, strict=True)]
    layers: list[list[_Spot]] = [[] for _ in range(max(depth, default=0) + 1)]
    for spot in spots:
        layers[spot.layer].append(spot)
    shared: dict[tuple[int, int], list[_Spot]] = {}
    for arrow in arrows:
        ends = arrow.source, arrow.target
        if ends in shared:
            continue
        first, last = spots[arrow.source], spots[arrow.target]
        bends = [_Spot(None, layer) for layer in range(first.layer + 1, last.layer)]
        for bend in bends:
            layers[bend.layer].append(bend)
        route = shared[ends] = [first, *bends, last]
        for upper, lower in zip(route[:-1], route[1:], strict=True):
            upper.below.append(lower)
            lower.above.append(upper)
    return layers, [shared[arrow.source, arrow.target] for arrow in arrows]


def _depths(count: int, arrows: Sequence[Arrow]) -> list[int]:
    """Return the layer of each box: below all that lead to it; of one that none leads to, right above its targets."""
    following: list[list[int]] = [[] for _ in range(count)]
    waiting = [0] * count
    for arrow in arrows:
        following[arrow.source].append(arrow.target)
        waiting[arrow.target] += 1
    roots = [i for i in range(count) if not waiting[i]]
    depth, ready = [0] * count, list(roots)
    while ready:
        i = ready.pop()
        for target in following[i]:
            depth[target] = max(depth[target], depth[i] + 1)
            waiting[target] -= 1
            if not waiting[target]:
                ready.append(target)
    for i in roots:
        if following[i]:
            depth[i] = min(depth[target] for target in following[i]) - 1
    return depth


# -- order within the layers -------------------------------------------------------------------------------


def _order(layers: list[list[_Spot]]) -> None:
    """Sort each layer by the mean position of its neighbors, downward and upward in turn; keep the fewest crossings."""
    best, fewest = [list(layer) for layer in layers], _crossings(layers)
    for sweep in range(ORDERINGS):
        downward = sweep % 2 == 0
        for layer, fixed in _pairs(layers, downward):
            position = {id(spot): i for i, spot in enumerate(fixed)}
            old = {id(spot): i for i, spot in enumerate(layer)}

            def mean(spot: _Spot, downward=downward, position=position, old=old) -> float:
                near = spot.above if downward else spot.below
                return sum(position[id(s)] for s in near) / len(near) if near else float(old[id(spot)])

            layer.sort(key=mean)
        count = _crossings(layers)
        if count < fewest:
            best, fewest = [list(layer) for layer in layers], count
    for layer, spots in zip(layers, best, strict=True):
        layer[:] = spots


def _pairs(layers: list[list[_Spot]], downward: bool) -> list[tuple[list[_Spot], list[_Spot]]]:
    """Return each layer with the one that was visited before."""
    ordered = layers if downward else layers[::-1]
    return list(zip(ordered[1:], ordered[:-1], strict=True))


def _crossings(layers: list[list[_Spot]]) -> int:
    """Return how many pairs of lines between neighboring layers cross."""
    total = 0
    for upper, lower in zip(layers[:-1], layers[1:], strict=True):
        position = {id(spot): i for i, spot in enumerate(lower)}
        ends: list[int] = []
        for spot in upper:
            own = sorted(position[id(s)] for s in spot.below)
            total += sum(end > mine for end in ends for mine in own)
            ends += own
    return total


# -- places ------------------------------------------------------------------------------------------------


def _place(layers: list[list[_Spot]]) -> None:
    """Give each spot its x: near the mean of its neighbors, as far from the next one as both need."""
    for layer in layers:
        x = 0.0
        for spot in layer:
            spot.x = x + spot.width / 2
            x += spot.width + BETWEEN
    for sweep in range(PLACINGS):
        last = sweep >= PLACINGS - 2
        for layer in layers if sweep % 2 == 0 else layers[::-1]:
            wanted = []
            for spot in layer:
                near = spot.above + spot.below if last else spot.above if sweep % 2 == 0 else spot.below
                wanted.append(sum(s.x for s in near) / len(near) if near else spot.x)
            _spread(layer, wanted)
    left = min(spot.x - spot.width / 2 for layer in layers for spot in layer)
    for layer in layers:
        for spot in layer:
            spot.x += MARGIN - left


def _spread(layer: list[_Spot], wanted: list[float]) -> None:
    """Set the x of a layer's spots to the nearest values, by least squares, that keep their order and distances.

    Without the distances this is isotonic regression, which pooling adjacent violators solves.
    """
    offsets, x = [], 0.0
    for before, spot in zip([None, *layer], layer, strict=False):
        if before is not None:
            x += (before.width + spot.width) / 2 + BETWEEN
        offsets.append(x)
    blocks: list[tuple[float, float, int]] = []  # sum of weighted values, weight, number of spots
    for spot, want, offset in zip(layer, wanted, offsets, strict=True):
        weight = 1.0 if spot.box is not None else 2.0  # bends rather than boxes stand below each other
        blocks.append(((want - offset) * weight, weight, 1))
        while len(blocks) > 1 and blocks[-2][0] / blocks[-2][1] > blocks[-1][0] / blocks[-1][1]:
            last, other = blocks.pop(), blocks.pop()
            blocks.append((other[0] + last[0], other[1] + last[1], other[2] + last[2]))
    level = [total / weight for total, weight, count in blocks for _ in range(count)]
    for spot, offset, value in zip(layer, offsets, level, strict=True):
        spot.x = value + offset


# -- text --------------------------------------------------------------------------------------------------

_STYLE = f'font-family="Helvetica, Arial, sans-serif" font-size="{FONT}" text-anchor="middle"'
_HEAD = (
    '<defs><marker id="arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    '<path d="M0 1 8 4 0 7z" fill="#666666"/></marker></defs>'
)


def _text(layers: list[list[_Spot]], routes: list[list[_Spot]], arrows: Sequence[Arrow], title: str) -> str:
    bands, y = [], float(MARGIN)  # the top and the bottom of each layer
    for layer in layers:
        height = max((spot.box.height for spot in layer if spot.box is not None), default=0.0)
        bands.append((y, y + height))
        y += height + GAP
    labels = _labels(routes, arrows)
    drawn = [_arrow(route, label, bands) for route, label in labels]
    boxes = [
        _box(spot, spot.box, sum(bands[spot.layer]) / 2) for layer in layers for spot in layer if spot.box is not None
    ]
    right = max(spot.x + spot.width / 2 for layer in layers for spot in layer)
    ends = [x + text_width(word, LABEL_FONT) for _, words in drawn for x, word in words]
    width, height = max([right, *ends]) + MARGIN, y - GAP + MARGIN
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
            f'viewBox="0 0 {width:.0f} {height:.0f}" role="img" {_STYLE}>',
            f"<title>{escape(title)}</title>",
            _HEAD,
            '<rect width="100%" height="100%" fill="#ffffff"/>',
            *[text for text, _ in drawn],
            *boxes,
            "</svg>",
            "",
        ]
    )


def _labels(routes: list[list[_Spot]], arrows: Sequence[Arrow]) -> list[tuple[list[_Spot], list[str]]]:
    """Return each line once, with the labels of its arrows; a label that repeats is counted."""
    found: dict[tuple[int, int], tuple[list[_Spot], dict[str, int]]] = {}
    for route, arrow in zip(routes, arrows, strict=True):
        words = found.setdefault((arrow.source, arrow.target), (route, {}))[1]
        words[arrow.label] = words.get(arrow.label, 0) + 1
    return [
        (route, [f"{n} × {word}" if n > 1 else word for word, n in words.items() if word or n > 1])
        for route, words in found.values()
    ]


def _arrow(
    route: list[_Spot], words: list[str], bands: list[tuple[float, float]]
) -> tuple[str, list[tuple[float, str]]]:
    """Return the SVG of an arrow with its labels, and where the labels begin.

    It is straight within a layer, beside the layer's boxes, and bends between layers.
    """
    first, last = route[0], route[-1]
    assert first.box is not None and last.box is not None
    path = f"M{first.x:.1f} {sum(bands[first.layer]) / 2 + first.box.height / 2:.1f}V{bands[first.layer][1]:.1f}"
    for upper, lower in zip(route[:-1], route[1:], strict=True):
        start, (end, next_start) = bands[upper.layer][1], bands[lower.layer]
        end -= HEAD
        middle = (start + end) / 2
        path += f"C{upper.x:.1f} {middle:.1f} {lower.x:.1f} {middle:.1f} {lower.x:.1f} {end:.1f}"
        path += f"V{next_start:.1f}" if lower is not last else ""
    path += f"V{sum(bands[last.layer]) / 2 - last.box.height / 2:.1f}"
    drawn = [f'<path d="{path}" fill="none" stroke="#666666" marker-end="url(#arrow)"/>']
    # Where several arrows meet, their labels stand at the other ends, where there is room.
    crowded = len(last.above) > 1
    upper, lower = route[:2] if crowded else route[-2:]
    t = 0.3 if crowded and len(first.below) == 1 else 0.5 if crowded else 0.62
    across = 3 * (1 - t) * t * t + t**3  # the share of the way that the curve above has gone
    down = 1.5 * (1 - t) * t + t**3
    x = upper.x + (lower.x - upper.x) * across + 4
    y = bands[upper.layer][1] + (GAP - HEAD) * down + 3
    style = f'font-size="{LABEL_FONT}" fill="#555555" text-anchor="start" stroke="#ffffff" stroke-width="3"'
    for i, word in enumerate(words):
        place = f'x="{x:.1f}" y="{y + i * (LABEL_FONT + 1):.1f}"'
        drawn.append(f'<text {place} {style} paint-order="stroke">{escape(word)}</text>')
    return "\n".join(drawn), [(x, word) for word in words]


def _box(spot: _Spot, box: Box, y: float) -> str:
    x, w, h = spot.x, box.width, box.height
    look = f'fill="{box.color}" stroke="#333333"'
    if box.shape == "oval":
        drawn = [f'<ellipse cx="{x:.1f}" cy="{y:.1f}" rx="{w / 2:.1f}" ry="{h / 2:.1f}" {look}/>']
    else:
        drawn = [f'<rect x="{x - w / 2:.1f}" y="{y - h / 2:.1f}" width="{w:.1f}" height="{h:.1f}" rx="2" {look}/>']
    top = y - (len(box.lines) - 1) * LINE / 2 + FONT * 0.36
    drawn += [f'<text x="{x:.1f}" y="{top + i * LINE:.1f}">{escape(line)}</text>' for i, line in enumerate(box.lines)]
    return "\n".join(drawn)
